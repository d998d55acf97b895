"""Blocks of rows linearized at some b and parameters, with NumPy's arrays.

Only what the operators do at their points is compiled, for no basis in particular: a larger basis
on the same points compiles nothing.
"""

import dataclasses
import functools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from pann.compiling import for_few_runs
from pann.pde.blocks import Block
from pann.pde.newton import Unknowns

# Slopes that agree to this, relatively, are the same: the rows are linear in b.
SAME = 1e-12

Vector = Float[np.ndarray, " _"]
Matrix = Float[np.ndarray, "_ _"]


@dataclasses.dataclass(frozen=True, eq=False)
class RowsAt:
    """The residual at some b and parameters, its slopes by channel, its Jacobian in theta."""

    residual: Vector
    slopes: tuple[np.ndarray, ...]
    by_parameter: Matrix

    @property
    def square(self) -> float:
        """The sum of squares, infinite where it is not a number."""
        total = float(self.residual @ self.residual)
        return total if np.isfinite(total) else np.inf

    def is_same_operator(self, other: "RowsAt") -> bool:
        """Whether a step between the two changed nothing but the residual."""
        return all(
            np.max(np.abs(a - b), initial=0.0) <= SAME * np.max(np.abs(a), initial=0.0)
            for a, b in zip(self.slopes, other.slopes, strict=True)
        )


@dataclasses.dataclass(frozen=True, eq=False)
class Rows:
    """Blocks as functions of b (flat, field by field) and the parameters in the order of names."""

    blocks: tuple[Block, ...]
    names: tuple[str, ...]

    @functools.cached_property
    def tables(self) -> tuple[tuple[np.ndarray, ...], ...]:
        return tuple(tuple(map(np.asarray, block.tables)) for block in self.blocks)

    @functools.cached_property
    def pointwise(self) -> tuple[Block, ...]:
        """The blocks without tables: what is compiled does not know the basis."""
        return tuple(dataclasses.replace(block, tables=()) for block in self.blocks)

    def linearize(self, b: Vector, theta: Vector) -> RowsAt:
        residuals, slopes, by_parameter = [], [], []
        for block, tables in zip(self.pointwise, self.tables, strict=True):
            fields = b.reshape(block.num_fields, -1).T
            channels = np.stack([table @ fields for table in tables])
            found = _linearize(block, channels, theta, names=self.names)
            residual, own, moved = (np.asarray(each) for each in found)
            residuals.append(residual.ravel())
            slopes.append(own)
            by_parameter.append(moved.reshape(-1, len(self.names)))
        return RowsAt(np.concatenate(residuals), tuple(slopes), np.concatenate(by_parameter))

    def jacobian(self, slopes: Sequence[np.ndarray]) -> Matrix:
        """d residual / d b; columns are terms of the first field, of the second, ..."""
        each = []
        for tables, own in zip(self.tables, slopes, strict=True):
            _, num_fields, num_points, num_residuals = own.shape
            rows = np.zeros((num_points, num_residuals, num_fields, tables[0].shape[1]))
            for table, of_fields in zip(tables, own, strict=True):
                for field, slope in enumerate(of_fields):
                    rows[:, :, field] += slope[:, :, None] * table[:, None, :]
            each.append(rows.reshape(num_points * num_residuals, -1))
        return np.concatenate(each)


def rows_at(blocks: tuple[Block, ...], unknowns: Unknowns) -> tuple[Vector, Matrix]:
    """The residual, and its Jacobian with columns for b and for the parameters in their order."""
    rows = Rows(blocks, tuple(unknowns.parameters))
    here = rows.linearize(flat(unknowns), theta_of(unknowns))
    return here.residual, np.column_stack([rows.jacobian(here.slopes), here.by_parameter])


def residual_at(blocks: tuple[Block, ...], unknowns: Unknowns) -> Vector:
    rows = Rows(blocks, tuple(unknowns.parameters))
    return rows.linearize(flat(unknowns), theta_of(unknowns)).residual


def flat(unknowns: Unknowns) -> Vector:
    """The coefficients of the first field, of the second, ..."""
    return np.asarray(unknowns.b).T.ravel()


def theta_of(unknowns: Unknowns) -> Vector:
    return np.array([float(value) for value in unknowns.parameters.values()])


def unknowns_of(b: Vector, theta: Vector, like: Unknowns) -> Unknowns:
    """The other way around."""
    num_terms, num_fields = like.b.shape
    parameters = dict(zip(like.parameters, jax.device_put(list(theta)), strict=True))
    return Unknowns(jax.device_put(b.reshape(num_fields, num_terms).T), parameters)


def _linearize_block(
    block: Block,
    channels: Float[Array | np.ndarray, "orders points fields"],
    theta: Float[Array | np.ndarray, " parameters"],
    names: tuple[str, ...],
) -> tuple[Array, Array, Array]:
    channels = jnp.asarray(channels)
    # A vector, since JAX sorts the names of a dictionary.
    by_name = lambda theta: dict(zip(names, theta, strict=True))
    residual, slopes = block.linearize(channels, by_name(theta))
    moved = jax.jacfwd(lambda theta: block.residual(channels, by_name(theta)))(theta)
    return residual, slopes, moved


_linearize = for_few_runs(_linearize_block, static_argnames="names")
