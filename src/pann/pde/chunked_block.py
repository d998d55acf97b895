"""A block of rows in chunks, for Jacobians and tables that do not fit in memory."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from pann import chunks
from pann.basis import Basis
from pann.chunks import Chunking
from pann.pde.blocks import Block, Columns, Placed, make_block, tabulated
from pann.pde.problem import Problem


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
