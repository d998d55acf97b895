"""The rows of a collocation system: the equation inside, the conditions where they hold.

A block has points, tables of the derivatives that its operator asks for, and weights. At each of
its points the operator is a function of the channels D^order u_field alone, so that its
linearization is one number for each channel, and the Jacobian in b is a sum of tables times these.
Of a block in chunks the tables are made for one chunk at a time (`pann.runtime.chunks`).
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from pann.basis import Basis, WholeBasis
from pann.basis.basis import tabulate
from pann.domain import Box
from pann.network.jets import Derivative, Laplacian, Order
from pann.pde.problem import Problem
from pann.runtime import chunks
from pann.runtime.cache import BoundedCache
from pann.runtime.chunks import Chunking, InChunks
from pann.runtime.matmul import combine

Get = Callable[[int, Derivative], Array]
# Residuals of shape (points,) each, from channels, coordinates and parameters. An operator is a
# tree: its leaves, if any, are numbers at the points. Equal trees share a compiled program.
Operator = Callable[[Get, Array, Mapping[str, Array]], tuple[Array, ...]]

# Groups of columns of a least-squares problem, which have their rows in common.
Columns = tuple[Float[Array, "rows _"], ...]


class Block(eqx.Module):
    """Residuals operator(channels) - target at some points, times weights.

    With `x_minus` the channels are differences between two points each, the derivatives at either
    point times its column of `factors`. `values` is the table of the basis itself, where training
    asks for it. Rows of data are those of measured values, which may be noisy.
    """

    x: Float[Array, "points d"]
    x_minus: Float[Array, "points d"] | None
    factors: Float[Array, "points 2"] | None
    coordinates: Float[Array, "points d"]
    tables: tuple[Float[Array, "points terms"], ...]
    target: Float[Array, "points residuals"]
    weights: Float[Array, " points"]
    operator: Operator
    name: str = eqx.field(static=True)
    is_data: bool = eqx.field(static=True)
    orders: tuple[Derivative, ...] = eqx.field(static=True)
    num_fields: int = eqx.field(static=True)
    values: Float[Array, "points terms"] | None = None

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
        parts = self.operator(get, self.coordinates, parameters)
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
        channels: Float[Array, "*any points columns"],
        minus: Float[Array, "*any points columns"],
    ) -> Float[Array, "*any points columns"]:
        """The differences between the points and those of `x_minus`, times their factors."""
        assert self.factors is not None
        return self.factors[:, :1] * channels - self.factors[:, 1:] * minus

    def differences(self, of: Callable[[Array], Array]) -> Float[Array, "*any points columns"]:
        """of(x), less of(x_minus) where there is that, both times their factors."""
        return of(self.x) if self.x_minus is None else self.between(of(self.x), of(self.x_minus))

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


@jax.jit
def linearized(
    block: Block,
    channels: Float[Array, "orders points fields"],
    parameters: Mapping[str, Float[Array, ""]],
) -> tuple[
    Float[Array, "points residuals"],
    Float[Array, "orders fields points residuals"],
    Float[Array, "rows parameters"],
]:
    """The residual of a block without tables, and its derivatives by channels and parameters."""
    residual, by_channel = block.linearize(channels, parameters)
    found = jax.jacfwd(block.residual, 1)(channels, parameters) if parameters else {}
    columns = [found[name].reshape(-1, 1) for name in parameters]
    nothing = jnp.zeros((residual.size, 0), residual.dtype)
    return residual, by_channel, jnp.concatenate([nothing, *columns], axis=1)


# In chunks, `points` are the arrays of a block without tables, and `complete` adds these.
ChunkedBlock = InChunks


@dataclasses.dataclass(frozen=True)
class Placed:
    """Where a block holds, before its tables are made."""

    name: str
    points: np.ndarray
    target: np.ndarray
    weight: float
    orders: tuple[Derivative, ...]
    operator: Operator
    is_data: bool = False  # measured values, which may be noisy
    minus: np.ndarray | None = None
    factors: np.ndarray | None = None  # with `minus`, a row for each pair

    def differences(self, of: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """of(points), less of(minus) where there is that, both times their factors."""
        if self.minus is None or self.factors is None:
            return of(self.points)
        return self.factors[:, :1] * of(self.points) - self.factors[:, 1:] * of(self.minus)


# What points, derivatives and basis determine is kept for the next problem that has the same.
_MADE: BoundedCache[dict[str, Any]] = BoundedCache(64 * 2**20)


def make_block(placed: Placed, problem: Problem, basis: WholeBasis | None, precision: str) -> Block:
    """Tables and arrays for one set of rows; every point counts 1 / sqrt(points).

    Without a basis there are no tables: `WithTables` makes them where they are needed.
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
    own = placed.target.reshape(len(placed.points), -1), placed.operator
    target, operator = jax.device_put(jax.tree.map(lambda array: np.asarray(array, dtype), own))
    return Block(
        **made,
        target=target,
        operator=operator,
        name=placed.name,
        is_data=placed.is_data,
        orders=placed.orders,
        num_fields=len(problem.fields),
    )


def _made(placed: Placed, domain: Box, basis: WholeBasis | None, dtype: np.dtype) -> dict[str, Any]:
    """The arrays of a block that have nothing to do with the equation."""
    cast = lambda array: np.asarray(array, dtype)
    count, minus, factors = len(placed.points), placed.minus, placed.factors

    def table(basis: WholeBasis, derivative: Derivative) -> np.ndarray:
        at = lambda points: table_at(lambda order: basis.table(points, order), derivative)
        return cast(placed.differences(at))

    return {
        "x": cast(domain.to_reference(placed.points)),
        "x_minus": None if minus is None else cast(domain.to_reference(minus)),
        "factors": None if factors is None else cast(factors),
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


@dataclasses.dataclass(frozen=True)
class WithTables:
    """Adds the tables of a basis to a block without any; traceable."""

    basis: Basis

    def __call__(self, block: Block) -> Block:
        def table(derivative: Derivative) -> Array:
            at = lambda x: table_at(lambda order: tabulate(self.basis, x, order), derivative)
            return block.differences(at)

        tables = tuple(table(order) for order in block.orders)
        return dataclasses.replace(block, tables=tables, values=tabulate(self.basis, block.x))


def make_chunked_block(
    placed: Placed, problem: Problem, basis: WholeBasis, precision: str, chunking: Chunking
) -> ChunkedBlock:
    """What `make_block` makes, in chunks; the points that fill up the last one have weight zero."""
    assert isinstance(basis, Basis), "bases of shapes have no tables inside of programs"
    whole = make_block(placed, problem, None, precision)
    split = jax.tree.map(lambda array: chunking.split(np.asarray(array)), whole)
    weights = chunking.split(chunking.pad(np.asarray(whole.weights)))
    points = eqx.tree_at(lambda block: block.weights, split, weights)
    return InChunks(points, chunking, WithTables(basis))
