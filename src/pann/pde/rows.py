"""An equation and its conditions as what gradient training makes small.

One sum of squares for the equation and one for each condition, the mean over its points (or the
sum), each point times the preconditioner K there. The constraints between the halves see the
points of the equation. These points are taken at once or, as the memory or the cache asks for, in
chunks; the conditions have few points, and are always whole.
"""

import dataclasses
import functools
from collections.abc import Sequence
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from pann.basis import WholeBasis
from pann.domain import Box
from pann.model.pann import Parameters
from pann.network.taylor import feature_derivatives
from pann.pde.collocation import (
    Block,
    ChunkedBlock,
    Placed,
    make_block,
    make_chunked_block,
)
from pann.pde.evaluation import block_channels, combine_features, on_reference
from pann.pde.operators import with_laplacian
from pann.pde.problem import Problem
from pann.runtime import chunks
from pann.runtime.chunks import Chunking, InChunks
from pann.runtime.platform import on_cpu
from pann.training.chunked_rows import only
from pann.training.loss import CONSTRAINT, Measure, SumOptions, Terms, TrainingRows, halves

# The number of points in each interval of time, among the sums.
COUNTS = "counts"
Sums = dict[str, Float[Array, "*intervals"]]


@dataclasses.dataclass(frozen=True)
class Causal:
    """Times count once the times before them are resolved (Wang, Sankaran, Perdikaris 2022).

    Time is cut into intervals (`num_chunks`); one counts exp(-tolerance * sum of the mean squares
    of all before it).
    """

    num_chunks: int = 32
    tolerance: float = 1.0

    def __post_init__(self) -> None:
        if self.num_chunks < 1 or self.tolerance < 0:
            raise ValueError(f"num_chunks is at least 1 and tolerance at least 0, got {self}")

    def chunks(self, reference_time: Float[np.ndarray, " points"]) -> Int[np.ndarray, " points"]:
        """The interval of each point, by its time in [-1, 1]."""
        numbers = (np.asarray(reference_time) + 1) / 2 * self.num_chunks
        return np.clip(numbers.astype(int), 0, self.num_chunks - 1)

    def sums(
        self, values: Float[Array, " points"], intervals: Int[Array, " points"]
    ) -> Float[Array, " intervals"]:
        return jax.ops.segment_sum(values, intervals, self.num_chunks)

    def mean(
        self, sums: Float[Array, " intervals"], counts: Float[Array, " intervals"]
    ) -> Float[Array, ""]:
        """The mean over the intervals of their mean squares, each times its weight.

        From the sums of squares and the numbers of points.
        """
        means = sums / jnp.maximum(counts, 1.0)
        before = jnp.cumsum(means) - means
        weights = jax.lax.stop_gradient(jnp.exp(-self.tolerance * before))
        return jnp.sum(weights * means) / self.num_chunks


class Piece(NamedTuple):
    """Some of the equation's points: rows, K, intervals of time, and which are not repetitions."""

    block: Block
    weights: Float[Array, " _"]
    intervals: Int[Array, " points"] | None = None
    is_new: Bool[Array, " points"] | None = None


class EquationRows(TrainingRows):
    """The equation's rows, whole or in chunks, those of the conditions, and K at all their points.

    `intervals` are those of the equation's points for `causal`. Without it, and without a
    constraint, whose gradient would be a second backward pass, `part_size` is how many of the
    equation's points, where they are not in chunks, are taken at once.
    """

    inside: Block | ChunkedBlock
    conditions: tuple[Block, ...]
    weights: Float[Array, " points"]
    domain: Box = eqx.field(static=True)
    intervals: Int[Array, "*chunks inside"] | None = None
    causal: Causal | None = eqx.field(static=True, default=None)
    part_size: int | None = eqx.field(static=True, default=None)

    @property
    def blocks(self) -> tuple[Block | ChunkedBlock, ...]:
        return self.inside, *self.conditions

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(block.name for block in self.blocks)

    @property
    def num_points(self) -> int:
        return self.inside.num_points

    def squares(self, parameters: Parameters, options: SumOptions) -> Terms:
        measure = options.measure
        is_one_number = measure is None and self.causal is None
        if isinstance(self.inside, Block) and (self._num_pieces == 1 or not is_one_number):
            whole = Piece(self.inside, self.weights, self.intervals)
            found = self.sums(whole, parameters, measure, self.conditions)
        else:
            of_piece = lambda parameters, rows, number: rows.sums(
                rows.piece(number), parameters, measure
            )
            found = chunks.sum_over(of_piece, self._num_pieces, parameters, self)
            if self.conditions:
                rest = self.weights[self._num_inside :]
                _, each = self._squares_at_points(self.conditions, rest, parameters)
                found |= {name: jnp.sum(squares) for name, squares in each.items()}
        if self.causal is not None:
            # A block's own weights make its sum of squares a mean over its points.
            sums = self.num_points * found[self.inside.name]
            found[self.inside.name] = self.causal.mean(sums, found.pop(COUNTS))
        if options.reduction == "sum":
            found |= {block.name: block.num_points * found[block.name] for block in self.blocks}
        return found

    def sums(
        self,
        piece: Piece,
        parameters: Parameters,
        measure: Measure | None,
        conditions: tuple[Block, ...] = (),
    ) -> Sums:
        """Sums of squares, the equation's by interval for `causal`, and what its points measure."""
        block, is_new = piece.block, piece.is_new
        features, each = self._squares_at_points((block, *conditions), piece.weights, parameters)
        if is_new is not None:
            each[block.name] = is_new * each[block.name]
        sums = {name: jnp.sum(squares) for name, squares in each.items()}
        if self.causal is not None and piece.intervals is not None:
            squares = each[block.name]
            counts = jnp.ones_like(squares) if is_new is None else is_new.astype(squares.dtype)
            sums[block.name] = self.causal.sums(squares, piece.intervals)
            sums[COUNTS] = self.causal.sums(counts, piece.intervals)
        if measure is not None:
            assert block.values is not None
            measured = measure if is_new is None else only(is_new, measure)
            sums[CONSTRAINT] = measured(*halves(parameters, features, block.values))
        return sums

    def _squares_at_points(
        self, blocks: Sequence[Block], weights: Float[Array, " all_points"], parameters: Parameters
    ) -> tuple[Float[Array, "points width"], dict[str, Float[Array, " _"]]]:
        """The network's features at the first block's points, the squares at those of each."""
        features, own = _features_and_channels(blocks, parameters, self.domain)
        each, start = {}, 0
        for block, of_network in zip(blocks, own, strict=True):
            total = block.polynomial_channels(parameters.kept_b) + of_network
            residual = block.residual(total, parameters.equation)
            weighted = weights[start : start + block.num_points, None] * residual
            each[block.name] = jnp.sum(weighted**2, axis=1)
            start += block.num_points
        return features, each

    @property
    def _num_inside(self) -> int:
        """How many of the weights belong to the equation."""
        inside = self.inside
        return inside.num_points if isinstance(inside, Block) else inside.chunking.padded

    @property
    def _num_pieces(self) -> int:
        if isinstance(self.inside, InChunks):
            return self.inside.chunking.num_chunks
        return 1 if self.part_size is None else -(-self.num_points // self.part_size)

    def piece(self, number: Int[Array, ""]) -> Piece:
        """A chunk of the equation's points, or a part of them.

        All parts are equally large: the last overlaps with the one before it.
        """
        inside, weights = self.inside, self.weights[: self._num_inside]
        if isinstance(inside, InChunks):
            weights = weights.reshape(inside.chunking.num_chunks, -1)[number]
            intervals = None if self.intervals is None else self.intervals[number]
            is_new = inside.chunking.is_point(number)
            return Piece(inside.chunk(number), weights, intervals, is_new)
        size = -(-self.num_points // self._num_pieces)
        first = number * size
        start = jnp.minimum(first, self.num_points - size)
        cut = lambda array: jax.lax.dynamic_slice_in_dim(array, start, size)
        block, weights = jax.tree.map(cut, (inside, weights))
        return Piece(block, weights, is_new=start + jnp.arange(size) >= first)

    def density(self, squares: Float[Array, " terms"]) -> Float[Array, " points"]:
        of_block = lambda block: block.values**2 @ squares
        inside = self.inside
        first = of_block(inside) if isinstance(inside, Block) else inside.each(of_block)
        return jnp.concatenate([first, *map(of_block, self.conditions)])

    def error(self, parameters: Parameters) -> Float[Array, ""]:
        """The root of all sums of squares, each a mean."""
        squares = self.squares(parameters, SumOptions("mean"))
        return jnp.sqrt(functools.reduce(jnp.add, squares.values()))

    def take(self, chosen: Int[Array, " chosen"] | slice) -> "EquationRows":
        """Some points of the equation; the conditions stay whole."""
        inside, intervals, count = self.inside, self.intervals, self._num_inside
        if isinstance(inside, Block):
            some, intervals = jax.tree.map(lambda array: array[chosen], (inside, intervals))
        else:
            if isinstance(chosen, slice):
                chosen = jnp.arange(*chosen.indices(self.num_points))
            some = inside.take(chosen)
            intervals = None if intervals is None else chunks.take(intervals, chosen)
        # The mean over fewer points.
        fraction = (self.num_points / some.num_points) ** 0.5
        return dataclasses.replace(
            self,
            inside=dataclasses.replace(some, weights=some.weights * fraction),
            weights=jnp.concatenate([self.weights[:count][chosen], self.weights[count:]]),
            intervals=intervals,
        )


def equation_rows(
    placed: Sequence[Placed],
    problem: Problem,
    basis: WholeBasis,
    precision: str,
    causal: Causal | None = None,
    part_size: int | None = None,
    chunking: Chunking | None = None,
) -> EquationRows:
    """Rows where the equation and the conditions are placed, with weights of one.

    With `chunking` the equation's points are in chunks.
    """

    def whole(placed: Placed) -> Block:
        block = make_block(with_laplacian(placed), problem, basis, precision)
        values = jnp.asarray(basis.table(placed.points), precision)
        return dataclasses.replace(block, values=values)

    inside, *conditions = placed
    intervals, domain = None, problem.domain
    if causal is not None and domain.time is None:
        raise ValueError(
            "causal weighting needs a time axis: make the box with time='t', or leave it out"
        )
    if causal is not None:
        intervals = causal.chunks(domain.to_reference(inside.points)[:, domain.time_number])
    count = len(inside.points) if chunking is None else chunking.padded
    split = jnp.asarray if chunking is None else chunking.split
    return EquationRows(
        inside=whole(inside)
        if chunking is None
        else make_chunked_block(with_laplacian(inside), problem, basis, precision, chunking),
        conditions=tuple(map(whole, conditions)),
        weights=jnp.ones(count + sum(len(each.points) for each in conditions), precision),
        domain=domain,
        intervals=None if intervals is None else split(intervals),
        causal=causal,
        part_size=part_size,
    )


def _features_and_channels(
    blocks: Sequence[Block], parameters: Parameters, domain: Box
) -> tuple[Float[Array, "points width"], list[Float[Array, "orders _ fields"]]]:
    """Features at the equation's points, and the network's channels of every block."""
    inside = blocks[0].x
    if parameters.network is None:
        nothing = jnp.zeros((inside.shape[0], 0), inside.dtype)
        return nothing, [block_channels(block, parameters, domain) for block in blocks]
    value = (0,) * inside.shape[1]
    # A CPU takes as long as there are derivatives, and conditions ask for few. For a GPU it is one
    # propagation at the points of all blocks: every call there is longer than what it saves.
    together = blocks[:1] if on_cpu() else blocks
    wanted = tuple(dict.fromkeys((value, *(order for each in together for order in each.orders))))
    points = [x for each in together for x in (each.x, each.x_minus) if x is not None]
    x = jnp.concatenate(points) if len(points) > 1 else inside
    derivatives = feature_derivatives(parameters.network, x, on_reference(wanted, domain))
    channels = combine_features(derivatives, parameters, x, wanted, domain)
    own, start = [], 0
    for block in together:
        rows = jnp.asarray([wanted.index(order) for order in block.orders])
        count = block.x.shape[0]
        of_block = channels[rows, start : start + count]
        start += count
        if block.x_minus is not None:
            minus = channels[rows, start : start + count]
            of_block, start = block.between(of_block, minus), start + count
        own.append(of_block)
    own += [block_channels(block, parameters, domain) for block in blocks[len(together) :]]
    return derivatives[value][: inside.shape[0]] * parameters.keep_a, own
