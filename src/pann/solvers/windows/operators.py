"""From coefficients along an axis to values at points, and back.

On several pieces both are block diagonal but for level 0, whose functions are steps: with these
exchanged for a constant on each piece (a small matrix), one table of Legendre polynomials serves
all pieces, times (2/h)^k for the k-th derivative on a piece of width h.
"""

import abc
from typing import final

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Complex, Float, Int

from pann.basis import Legendre, PiecewiseLegendre
from pann.solvers.windows.axes import SpaceAxis

# Coefficients or values along the axis first, then along whatever else there is.
Tensor = Float[Array, "..."] | Complex[Array, "..."]


class AxisOperator(eqx.Module):
    """The functions of an axis at some points of it."""

    @property
    @abc.abstractmethod
    def num_functions(self) -> int:
        """Along the axis."""

    @abc.abstractmethod
    def values(self, coefficients: Tensor, derivative: int) -> Tensor:
        """A derivative at the points; the first axis becomes the last."""

    @abc.abstractmethod
    def projected(self, values: Tensor) -> Tensor:
        """Coefficients from values at the points; the first axis becomes the last."""


@final
class DenseOperator(AxisOperator):
    """Tables of all points and all functions; points that are not projected have no `projection`.

    `tables` have the derivatives 0, 1, ...
    """

    tables: tuple[Float[Array | np.ndarray, "points functions"], ...]
    projection: Float[Array | np.ndarray, "functions points"] | None

    @property
    def num_functions(self) -> int:
        return self.tables[0].shape[1]

    def values(self, coefficients: Tensor, derivative: int) -> Tensor:
        return jnp.tensordot(coefficients, self.tables[derivative], axes=(0, 1))

    def projected(self, values: Tensor) -> Tensor:
        assert self.projection is not None
        return jnp.tensordot(values, self.projection, axes=(0, 1))


@final
class PiecewiseOperator(AxisOperator):
    """Tables of one piece, for equally many points at the same places on each.

    `steps` are the functions of level 0 on each piece, and `stretch` is 2/h.
    """

    tables: tuple[Float[Array | np.ndarray, "points levels"], ...]
    projection: Float[Array | np.ndarray, "levels points"]
    steps: Float[Array | np.ndarray, "pieces pieces"]
    from_constants: Float[Array | np.ndarray, "pieces pieces"]
    stretch: Float[Array | np.ndarray, " pieces"]

    @property
    def num_levels(self) -> int:
        return self.tables[0].shape[1]

    @property
    def num_pieces(self) -> int:
        return self.steps.shape[0]

    @property
    def num_functions(self) -> int:
        return self.num_levels * self.num_pieces

    def values(self, coefficients: Tensor, derivative: int) -> Tensor:
        local = self.to_pieces(coefficients)
        found = jnp.tensordot(local, self.tables[derivative], axes=(0, 1))
        scale = self.stretch**derivative
        found = jnp.moveaxis(found * scale.reshape(-1, *[1] * (found.ndim - 1)), 0, -2)
        return found.reshape(*found.shape[:-2], -1)

    def projected(self, values: Tensor) -> Tensor:
        by_piece = values.reshape(self.num_pieces, -1, *values.shape[1:])
        found = self.from_pieces(jnp.tensordot(self.projection, by_piece, axes=(1, 1)))
        return jnp.moveaxis(found, 0, -1)

    def to_pieces(self, coefficients: Tensor) -> Tensor:
        """Coefficients of Legendre polynomials on each piece: levels, pieces, and the rest."""
        levels = coefficients.reshape(self.num_levels, self.num_pieces, *coefficients.shape[1:])
        constants = jnp.tensordot(self.steps, levels[0], axes=(1, 0))
        return jnp.concatenate([constants[None], levels[1:]])

    def from_pieces(self, local: Tensor) -> Tensor:
        """The inverse of `to_pieces`."""
        steps = jnp.tensordot(self.from_constants, local[0], axes=(1, 0))
        levels = jnp.concatenate([steps[None], local[1:]])
        return levels.reshape(self.num_functions, *local.shape[2:])


@final
class ScatteredOperator(AxisOperator):
    """Points anywhere on several pieces, which are not projected: each has the table of its own.

    `pieces` are the numbers of the points' pieces, and `stretch` is 2/h there.
    """

    tables: tuple[Float[Array | np.ndarray, "points levels"], ...]
    steps: Float[Array | np.ndarray, "pieces pieces"]
    pieces: Int[Array | np.ndarray, " points"]
    stretch: Float[Array | np.ndarray, " points"]

    @property
    def num_functions(self) -> int:
        return self.tables[0].shape[1] * self.steps.shape[0]

    def values(self, coefficients: Tensor, derivative: int) -> Tensor:
        count = self.steps.shape[0]
        levels = coefficients.reshape(-1, count, *coefficients.shape[1:])
        constants = jnp.tensordot(self.steps, levels[0], axes=(1, 0))
        local = jnp.concatenate([constants[None], levels[1:]])[:, self.pieces]
        table = self.tables[derivative] * self.stretch[:, None] ** derivative
        return jnp.einsum("xl,lx...->...x", table, local)

    def projected(self, values: Tensor) -> Tensor:
        raise NotImplementedError("points at random are not projected")


# Arrays of NumPy are only moved: JAX would compile a program to make one of each size.


def on_grid(axis: SpaceAxis, highest: int) -> tuple[Float[np.ndarray, " points"], AxisOperator]:
    """The grid's points on [-1, 1] and derivatives up to the highest there."""
    points, weights = axis.grid
    if axis.num_pieces == 1:
        tables = tuple(axis.table(points, k) for k in range(highest + 1))
        return points, DenseOperator(tables, axis.projection)
    assert isinstance(axis.family, PiecewiseLegendre)
    local, weights = Legendre().quadrature(len(points) // axis.num_pieces)
    tables = tuple(Legendre().table(local, axis.level + 1, k) for k in range(highest + 1))
    projection = (tables[0] * weights[:, None]).T / Legendre().norms(axis.level + 1)[:, None] ** 2
    steps, stretch = axis.family.steps, 4.0 / (np.diff(axis.edges) * axis.width)
    return points, PiecewiseOperator(tables, projection, steps, np.linalg.inv(steps), stretch)


def at_random(
    axis: SpaceAxis, highest: int, random: np.random.Generator
) -> tuple[Float[np.ndarray, " points"], AxisOperator]:
    """As many random points as the grid has."""
    points = random.uniform(-1.0, 1.0, len(axis.grid[0]))
    if not isinstance(axis.family, PiecewiseLegendre) or axis.num_pieces == 1:
        tables = tuple(axis.table(points, k) for k in range(highest + 1))
        return points, DenseOperator(tables, None)
    pieces, local, stretch = axis.family.local(points)
    tables = tuple(Legendre().table(local, axis.level + 1, k) for k in range(highest + 1))
    return points, ScatteredOperator(
        tables, axis.family.steps, pieces, stretch * (2.0 / axis.width)
    )
