"""The rows of a collocation system: the equation inside, the conditions where they hold.

A block has points, tables of the derivatives that its operator asks for, and weights. At each of
its points the operator is a function of the channels D^order u_field alone, so that its
linearization is one number for each channel, and the Jacobian in b is a sum of tables times these.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from pann.basis import Basis
from pann.basis.in_program import tabulate
from pann.domain import Box
from pann.network.jets import Derivative, Laplacian, Order
from pann.pde.problem import Problem
from pann.runtime import chunks
from pann.runtime.cache import BoundedCache
from pann.runtime.chunks import Chunking
from pann.runtime.matmul import combine

Get = Callable[[int, Derivative], Array]
# Residuals of shape (points,) each, from channels, coordinates, fixed numbers a point, parameters.
Operator = Callable[[Get, Array, Mapping[str, Array], Mapping[str, Array]], tuple[Array, ...]]


# Groups of columns of a least-squares problem, which have their rows in common.
Columns = tuple[Float[Array, "rows _"], ...]


class Block(eqx.Module):
    """Residuals operator(channels) - target at some points, times weights.

    With `x_minus` the channels are differences between two points each, the derivatives at either
    point times its column of `factors`.
    """

    x: Float[Array, "points d"]
    x_minus: Float[Array, "points d"] | None
    factors: Float[Array, "points 2"] | None
    coordinates: Float[Array, "points d"]
    tables: tuple[Float[Array, "points terms"], ...]
    target: Float[Array, "points residuals"]
    weights: Float[Array, " points"]
    extra: dict[str, Float[Array, " points"]]
    name: str = eqx.field(static=True)
    orders: tuple[Derivative, ...] = eqx.field(static=True)
    operator: Operator = eqx.field(static=True)
    num_fields: int = eqx.field(static=True)

    @property
    def num_points(self) -> int:
        return self.x.shape[0]

    def total(self, function: Callable[["Block"], Float[Array, "*any"]]) -> Float[Array, "*any"]:
        """function(block): a block in chunks sums it over them."""
        return function(self)

    def at_points(
        self, function: Callable[["Block"], Float[Array, " points"]]
    ) -> Float[Array, " points"]:
        """function(block): a block in chunks goes from one to the next."""
        return function(self)

    def columns(self, function: Callable[["Block", PyTree], Columns], same: PyTree) -> Columns:
        """function(block, same): a block in chunks compresses the rows."""
        return function(self, same)

    def residual(
        self, channels: Float[Array, "orders points fields"], parameters: Mapping[str, Array]
    ) -> Float[Array, "points residuals"]:
        get = lambda field, order: channels[self.orders.index(order), :, field]
        parts = self.operator(get, self.coordinates, self.extra, parameters)
        columns = [jnp.broadcast_to(part, self.weights.shape) for part in parts]
        # Coefficients of the user's may be double where the rest is single.
        values = jnp.stack(columns, axis=1).astype(self.target.dtype)
        return self.weights[:, None] * (values - self.target)

    def linearize(
        self, channels: Float[Array, "orders points fields"], parameters: Mapping[str, Array]
    ) -> tuple[Float[Array, "points residuals"], Float[Array, "orders fields points residuals"]]:
        """The residual, and its derivative by each channel."""
        function = lambda channels: self.residual(channels, parameters)
        residual = function(channels)

        def along(order: int, field: int) -> Array:
            tangent = jnp.zeros_like(channels).at[order, :, field].set(1.0)
            return jax.jvp(function, (channels,), (tangent,))[1]

        each = [
            [along(order, field) for field in range(self.num_fields)]
            for order in range(len(self.orders))
        ]
        return residual, jnp.stack([jnp.stack(row) for row in each])

    def between(
        self,
        channels: Float[Array, "orders points fields"],
        minus: Float[Array, "orders points fields"],
    ) -> Float[Array, "orders points fields"]:
        """The differences between the points and those of `x_minus`, times their factors."""
        assert self.factors is not None
        return self.factors[:, :1] * channels - self.factors[:, 1:] * minus

    def polynomial_channels(
        self, b: Float[Array, "terms fields"]
    ) -> Float[Array, "orders points fields"]:
        return jnp.stack([combine(table, b) for table in self.tables])

    def polynomial_jacobian(
        self, slopes: Float[Array, "orders fields points residuals"]
    ) -> Float[Array, "rows columns"]:
        """d residual / d b; columns are terms of the first field, of the second, ..."""
        blocks = [
            sum(
                slopes[order, field][:, :, None] * table[:, None, :]
                for order, table in enumerate(self.tables)
            )
            for field in range(self.num_fields)
        ]
        stacked = jnp.concatenate(blocks, axis=2)
        return stacked.reshape(-1, stacked.shape[2])


@dataclasses.dataclass(frozen=True)
class Placed:
    """Where a block holds, before its tables are made."""

    name: str
    points: np.ndarray
    target: np.ndarray
    weight: float
    orders: tuple[Derivative, ...]
    operator: Operator
    extra: dict[str, np.ndarray] = dataclasses.field(default_factory=dict)
    minus: np.ndarray | None = None
    factors: np.ndarray | None = None  # with `minus`: a row for each pair, 1 and 1 if left out

    @property
    def pair_factors(self) -> tuple[np.ndarray, np.ndarray]:
        """The factors of the points and of those of `minus`, as columns."""
        both = np.ones((len(self.points), 2)) if self.factors is None else self.factors
        return both[:, :1], both[:, 1:]


# What points, derivatives and basis determine is kept for the next problem that has the same.
_MADE: BoundedCache[dict[str, Any]] = BoundedCache(64 * 2**20)


def make_block(placed: Placed, problem: Problem, basis: Basis | None, precision: str) -> Block:
    """Tables and arrays for one set of rows; every point counts 1 / sqrt(points).

    Without a basis there are no tables: `tabulated` makes them where they are needed.
    """
    # In single precision where JAX has no other.
    dtype, domain = jax.dtypes.canonicalize_dtype(precision), problem.domain
    where = (placed.points, placed.minus, placed.factors)
    key = lambda: (
        *(None if array is None else (array.shape, array.tobytes()) for array in where),
        (placed.orders, placed.weight, domain, basis, dtype, chunks.chosen()),
    )
    columns = 2 * domain.dimension + len(placed.orders) * (0 if basis is None else len(basis))
    num_bytes = dtype.itemsize * len(placed.points) * (columns + 1)
    # Moved all at once: jnp.asarray would compile a program for each shape, too.
    made = _MADE.get(key, num_bytes, lambda: jax.device_put(_made(placed, domain, basis, dtype)))
    own = {
        "target": np.asarray(placed.target.reshape(len(placed.points), -1), dtype),
        "extra": {name: np.asarray(values, dtype) for name, values in placed.extra.items()},
    }
    return Block(
        **made,
        **jax.device_put(own),
        name=placed.name,
        orders=placed.orders,
        operator=placed.operator,
        num_fields=len(problem.fields),
    )


def _made(placed: Placed, domain: Box, basis: Basis | None, dtype: np.dtype) -> dict[str, Any]:
    """The arrays of a block that have nothing to do with the equation."""
    cast = lambda array: np.asarray(array, dtype)
    count, minus = len(placed.points), placed.minus
    of_upper, of_lower = placed.pair_factors

    def table(basis: Basis, derivative: Derivative) -> np.ndarray:
        values = table_at(lambda order: basis.table(placed.points, order), derivative)
        if minus is not None:
            lower = table_at(lambda order: basis.table(minus, order), derivative)
            values = of_upper * values - of_lower * lower
        return cast(values)

    return {
        "x": cast(domain.to_reference(placed.points)),
        "x_minus": None if minus is None else cast(domain.to_reference(minus)),
        "factors": None if minus is None else cast(np.concatenate([of_upper, of_lower], axis=1)),
        # A copy, which nobody else can write to: JAX may go on with the memory that it is given.
        "coordinates": np.array(placed.points, dtype),
        "tables": () if basis is None else tuple(table(basis, order) for order in placed.orders),
        "weights": cast(np.full(count, placed.weight / np.sqrt(count))),
    }


def table_at(of_order: Callable[[Order], Any], derivative: Derivative) -> Any:
    """The table of a derivative from those of multi-indices."""
    if isinstance(derivative, Laplacian):
        return derivative.total(of_order)
    return of_order(derivative)


def tabulated(block: Block, basis: Basis) -> Block:
    """A block without tables, with those of its points; traceable."""

    def table(derivative: Derivative) -> Array:
        values = table_at(lambda order: tabulate(basis, block.x, order), derivative)
        x_minus = block.x_minus
        if x_minus is None or block.factors is None:
            return values
        minus = table_at(lambda order: tabulate(basis, x_minus, order), derivative)
        return block.factors[:, :1] * values - block.factors[:, 1:] * minus

    return dataclasses.replace(block, tables=tuple(table(order) for order in block.orders))


# ---- A block of rows in chunks, for Jacobians and tables that do not fit in memory ----


class ChunkedBlock(eqx.Module):
    """A block whose tables are made for one chunk at a time.

    The arrays of `points` have an axis more than those of a block, and it has no tables; the
    points that fill up the last chunk have weight zero.
    """

    points: Block
    basis: Basis = eqx.field(static=True)
    chunking: Chunking = eqx.field(static=True)

    @property
    def name(self) -> str:
        return self.points.name

    @property
    def num_points(self) -> int:
        return self.chunking.count

    @property
    def x(self) -> Float[Array, "points d"]:
        return self.points.x.reshape(-1, self.points.x.shape[2])[: self.num_points]

    def total(self, function: Callable[[Block], Float[Array, "*any"]]) -> Float[Array, "*any"]:
        """The sum of function(chunk) over all chunks."""
        return chunks.total(lambda chunk, _: function(tabulated(chunk, self.basis)), self.points)

    def at_points(
        self, function: Callable[[Block], Float[Array, " points"]]
    ) -> Float[Array, " points"]:
        """function(chunk) for all chunks, one after another."""
        found = chunks.each(lambda chunk: function(tabulated(chunk, self.basis)), self.points)
        return found[: self.num_points]

    def columns(self, function: Callable[[Block, PyTree], Columns], same: PyTree) -> Columns:
        """Few rows with the inner products of the columns of function(chunk, same)."""
        widths: list[int] = []

        def joined(chunk: Block, same: PyTree) -> Float[Array, "rows columns"]:
            groups = function(tabulated(chunk, self.basis), same)
            widths[:] = [group.shape[1] for group in groups]
            return jnp.concatenate(groups, axis=1)

        few = chunks.compressed(joined, self.points, same)
        return tuple(jnp.split(few, np.cumsum(widths)[:-1].tolist(), axis=1))

    def take(self, chosen: Int[Array, " chosen"]) -> Block:
        """Some of the points, with their tables."""
        return tabulated(chunks.take(self.points, chosen), self.basis)


def make_chunked_block(
    placed: Placed, problem: Problem, basis: Basis, precision: str, chunking: Chunking
) -> ChunkedBlock:
    """What `make_block` makes, in chunks."""
    whole = make_block(placed, problem, None, precision)
    split = jax.tree.map(lambda array: chunking.split(np.asarray(array)), whole)
    weights = chunking.split(chunking.pad(np.asarray(whole.weights)))
    points = eqx.tree_at(lambda block: block.weights, split, weights)
    return ChunkedBlock(points, basis, chunking)
