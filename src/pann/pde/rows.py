"""An equation and its conditions as what gradient training makes small.

One sum of squares for the equation and one for each condition, the mean over its points (or the
sum), each point times the preconditioner K there. The constraints between the halves see the
points of the equation.
"""

import dataclasses
import functools
from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from pann.basis import Basis
from pann.basis.in_program import tabulate
from pann.domain import Box
from pann.model.pann import Parameters
from pann.network.taylor import feature_derivatives
from pann.pde.collocation import (
    Block,
    ChunkedBlock,
    Placed,
    make_block,
    make_chunked_block,
    tabulated,
)
from pann.pde.evaluation import block_channels, combine_features, on_reference
from pann.pde.operators import with_laplacian
from pann.pde.problem import Problem
from pann.runtime import chunks
from pann.runtime.chunks import Chunking
from pann.training.chunked_rows import only
from pann.training.loss import CONSTRAINT, Measure, TrainingRows, halves


@dataclasses.dataclass(frozen=True)
class Causal:
    """Moments count once the moments before them are resolved (Wang, Sankaran, Perdikaris 2022).

    Time is cut into chunks; one counts exp(-tolerance * sum of the mean squares of all before it).
    """

    num_chunks: int = 32
    tolerance: float = 1.0

    def __post_init__(self) -> None:
        if self.num_chunks < 1 or self.tolerance < 0:
            raise ValueError(f"num_chunks is at least 1 and tolerance at least 0, got {self}")

    def chunks(self, reference_time: Float[np.ndarray, " points"]) -> Int[np.ndarray, " points"]:
        """The chunk of each point, by its time in [-1, 1]."""
        shares = (np.asarray(reference_time) + 1) / 2 * self.num_chunks
        return np.clip(shares.astype(int), 0, self.num_chunks - 1)

    def mean(
        self, squares: Float[Array, " points"], chunks: Int[Array, " points"]
    ) -> Float[Array, ""]:
        """The mean over the chunks of their mean squares, each times its weight."""
        return self.mean_of_sums(
            self.sums(squares, chunks), self.sums(jnp.ones_like(squares), chunks)
        )

    def sums(
        self, values: Float[Array, " points"], chunks: Int[Array, " points"]
    ) -> Float[Array, " chunks"]:
        return jax.ops.segment_sum(values, chunks, self.num_chunks)

    def mean_of_sums(
        self, sums: Float[Array, " chunks"], counts: Float[Array, " chunks"]
    ) -> Float[Array, ""]:
        """The mean from the sums of squares and the numbers of points in all chunks."""
        means = sums / jnp.maximum(counts, 1.0)
        before = jnp.cumsum(means) - means
        weights = jax.lax.stop_gradient(jnp.exp(-self.tolerance * before))
        return jnp.sum(weights * means) / self.num_chunks


class EquationRows(TrainingRows):
    """Blocks of rows, the equation's first; table and weights at their points one after another.

    With `causal` the equation's points are in chunks of time. Without it, and without a constraint,
    whose gradient would be a second way back, `part_size` is how many of them are taken at once.
    """

    blocks: tuple[Block, ...]
    table: Float[Array, "points terms"]
    weights: Float[Array, " points"]
    domain: Box = eqx.field(static=True)
    chunks: Int[Array, " inside"] | None = None
    causal: Causal | None = eqx.field(static=True, default=None)
    part_size: int | None = eqx.field(static=True, default=None)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(block.name for block in self.blocks)

    @property
    def num_points(self) -> int:
        return self.blocks[0].x.shape[0]

    def squares(
        self,
        parameters: Parameters,
        projector: Float[Array, "points rank"] | None,
        key: PRNGKeyArray | None,
        reduction: str,
        measure: Measure | None = None,
    ) -> dict[str, Float[Array, ""]]:
        if self._num_parts > 1 and measure is None:
            return self._squares_by_parts(parameters, reduction)
        each, squares = self.squares_at_points(parameters, measure)
        for block, of_points in zip(self.blocks, each, strict=True):
            count = block.x.shape[0]
            # A block's own weights make its sum of squares a mean over its points.
            factor = count if reduction == "sum" else 1
            if block is self.blocks[0] and self.causal is not None and self.chunks is not None:
                squares[block.name] = factor * self.causal.mean(count * of_points, self.chunks)
            else:
                squares[block.name] = factor * jnp.sum(of_points)
        return squares

    @property
    def _num_parts(self) -> int:
        if self.part_size is None or self.causal is not None:
            return 1
        return -(-self.num_points // self.part_size)

    def _squares_by_parts(
        self, parameters: Parameters, reduction: str
    ) -> dict[str, Float[Array, ""]]:
        """The same, the equation's points part by part and then those of the conditions."""
        of_equation = chunks.total_parts(parameters, self, _square_of_part, self._num_parts)
        factor = self.num_points if reduction == "sum" else 1
        squares = {self.blocks[0].name: factor * of_equation}
        if len(self.blocks) == 1:
            return squares
        conditions = dataclasses.replace(
            self,
            blocks=self.blocks[1:],
            table=self.table[self.num_points :],
            weights=self.weights[self.num_points :],
            part_size=None,
        )
        return squares | conditions.squares(parameters, None, None, reduction)

    def part(self, number: Int[Array, ""]) -> tuple["EquationRows", Bool[Array, " size"]]:
        """A part of the equation's points, and which of them are in no part before.

        All are equally large: the last overlaps with the one before it.
        """
        size = -(-self.num_points // self._num_parts)
        first = number * size
        start = jnp.minimum(first, self.num_points - size)
        cut = lambda array: jax.lax.dynamic_slice_in_dim(array, start, size)
        rows = dataclasses.replace(
            self,
            blocks=(jax.tree.map(cut, self.blocks[0]),),
            table=cut(self.table),
            weights=cut(self.weights),
            part_size=None,
        )
        return rows, start + jnp.arange(size) >= first

    def squares_at_points(
        self, parameters: Parameters, measure: Measure | None
    ) -> tuple[list[Float[Array, " _"]], dict[str, Float[Array, ""]]]:
        """The square at each point of each block, and what the equation's points measure."""
        features, own = _features_and_channels(self.blocks, parameters, self.domain)
        each, start = [], 0
        for block, of_network in zip(self.blocks, own, strict=True):
            count = block.x.shape[0]
            total = block.polynomial_channels(parameters.kept_b) + of_network
            residual = block.residual(total, parameters.equation)
            weighted = self.weights[start : start + count, None] * residual
            each.append(jnp.sum(weighted**2, axis=1))
            start += count
        if measure is None:
            return each, {}
        both = halves(parameters, features, self.table[: self.num_points])
        return each, {CONSTRAINT: measure(*both)}

    def density(self, squares: Float[Array, " terms"]) -> Float[Array, " points"]:
        return self.table**2 @ squares

    def error(self, parameters: Parameters) -> Float[Array, ""]:
        """The root of all sums of squares, each a mean."""
        squares = self.squares(parameters, None, None, "mean")
        return jnp.sqrt(functools.reduce(jnp.add, squares.values()))

    def take(self, chosen: Int[Array, " chosen"] | slice) -> "EquationRows":
        """Some points of the equation; the conditions stay whole."""
        inside, count = self.blocks[0], self.num_points
        some = jax.tree.map(lambda array: array[chosen], inside)
        # The mean over fewer points.
        size = some.x.shape[0]
        some = eqx.tree_at(lambda b: b.weights, some, some.weights * (count / size) ** 0.5)
        join = lambda array: jnp.concatenate([array[:count][chosen], array[count:]])
        return dataclasses.replace(
            self,
            blocks=(some, *self.blocks[1:]),
            table=join(self.table),
            weights=join(self.weights),
            chunks=None if self.chunks is None else self.chunks[chosen],
        )


def equation_rows(
    placed: Sequence[Placed],
    problem: Problem,
    basis: Basis,
    precision: str,
    causal: Causal | None = None,
    part_size: int | None = None,
) -> EquationRows:
    """Rows where the equation and the conditions are placed, with weights of one."""
    points = np.concatenate([each.points for each in placed])
    chunks = None if causal is None else jnp.asarray(moments(causal, placed[0], problem))
    return EquationRows(
        blocks=tuple(
            make_block(with_laplacian(each), problem, basis, precision) for each in placed
        ),
        table=jnp.asarray(basis.table(points), precision),
        weights=jnp.ones(len(points), precision),
        domain=problem.domain,
        chunks=chunks,
        causal=causal,
        part_size=part_size,
    )


def moments(causal: Causal, inside: Placed, problem: Problem) -> Int[np.ndarray, " points"]:
    """The chunk of time of each point."""
    if problem.domain.time is None:
        raise ValueError(
            "causal weighting needs a time axis: make the box with time='t', or leave it out"
        )
    axis = problem.domain.names.index(problem.domain.time)
    return causal.chunks(problem.domain.to_reference(inside.points)[:, axis])


def _square_of_part(
    parameters: Parameters, rows: EquationRows, number: Int[Array, ""]
) -> Float[Array, ""]:
    part, is_new = rows.part(number)
    (each,), _ = part.squares_at_points(parameters, None)
    return jnp.sum(is_new * each)


def _features_and_channels(
    blocks: tuple[Block, ...], parameters: Parameters, domain: Box
) -> tuple[Float[Array, "points width"], list[Float[Array, "orders _ fields"]]]:
    """Features at the equation's points, and the network's channels of every block."""
    inside = blocks[0].x
    if parameters.network is None:
        nothing = jnp.zeros((inside.shape[0], 0), inside.dtype)
        return nothing, [block_channels(block, parameters, domain) for block in blocks]
    value = (0,) * inside.shape[1]
    # A CPU takes as long as there are derivatives, and conditions ask for few. For a GPU it is one
    # propagation at the points of all blocks: every call there is longer than what it saves.
    together = blocks if jax.default_backend() != "cpu" else blocks[:1]
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


# ---- An equation at points in chunks, for tables and derivatives that do not fit in memory ----


# What a part of the equation gives, to be added up: its squares, the numbers of its points in each
# chunk of time, and what it measures for the constraint.
Sums = dict[str, Float[Array, "*moments"]]


class ChunkedEquation(TrainingRows):
    """The equation at points in chunks, its tables made when their turn comes; conditions whole.

    Weights are those of the points inside, with what fills up the last chunk, and then those of
    the conditions. With `causal`, `moments` are the chunks of time of the points inside.
    """

    inside: ChunkedBlock
    conditions: EquationRows | None
    weights: Float[Array, " points"]
    domain: Box = eqx.field(static=True)
    moments: Int[Array, "chunks size"] | None = None
    causal: Causal | None = eqx.field(static=True, default=None)

    @property
    def names(self) -> tuple[str, ...]:
        return (self.inside.name, *(self.conditions.names if self.conditions else ()))

    @property
    def num_points(self) -> int:
        return self.inside.num_points

    @property
    def basis(self) -> Basis:
        return self.inside.basis

    @property
    def chunking(self) -> Chunking:
        return self.inside.chunking

    def squares(
        self,
        parameters: Parameters,
        projector: Float[Array, "points rank"] | None,
        key: PRNGKeyArray | None,
        reduction: str,
        measure: Measure | None = None,
    ) -> dict[str, Float[Array, ""]]:
        def one(chunk: tuple[Block, Array, Array | None], number: Int[Array, ""]) -> Sums:
            real = self.chunking.is_point(number)
            return self._sums(*chunk, real, parameters, measure and only(real, measure))

        points = self.inside.points
        weights = self.weights[: self.chunking.padded].reshape(points.weights.shape)
        found = chunks.total(one, (points, weights, self.moments))
        name, count = self.inside.name, self.num_points
        if self.causal is not None:
            found[name] = self.causal.mean_of_sums(count * found[name], found.pop("counts"))
        if reduction == "sum":
            found[name] = count * found[name]
        if self.conditions is not None:
            own = eqx.tree_at(
                lambda rows: rows.weights, self.conditions, self.weights[self.chunking.padded :]
            )
            found = found | own.squares(parameters, None, key, reduction)
        return found

    def _sums(
        self,
        inside: Block,
        weights: Float[Array, " size"],
        moments: Int[Array, " size"] | None,
        real: Array,
        parameters: Parameters,
        measure: Measure | None,
    ) -> Sums:
        table = tabulate(self.basis, inside.x)
        part = EquationRows(
            blocks=(tabulated(inside, self.basis),),
            table=table,
            weights=weights,
            domain=self.domain,
        )
        (each,), sums = part.squares_at_points(parameters, measure)
        if self.causal is None or moments is None:
            return sums | {inside.name: jnp.sum(each)}
        counts = self.causal.sums(real.astype(each.dtype), moments)
        return sums | {inside.name: self.causal.sums(each, moments), "counts": counts}

    def density(self, squares: Float[Array, " terms"]) -> Float[Array, " points"]:
        inside = chunks.each(lambda x: tabulate(self.basis, x) ** 2 @ squares, self.inside.points.x)
        if self.conditions is None:
            return inside
        return jnp.concatenate([inside, self.conditions.density(squares)])

    def error(self, parameters: Parameters) -> Float[Array, ""]:
        squares = self.squares(parameters, None, None, "mean")
        return jnp.sqrt(functools.reduce(jnp.add, squares.values()))

    def take(self, chosen: Int[Array, " chosen"] | slice) -> EquationRows:
        """Some points of the equation; the conditions stay whole."""
        if isinstance(chosen, slice):
            chosen = jnp.arange(*chosen.indices(self.num_points))
        inside, padded, rest = self.inside.take(chosen), self.chunking.padded, self.conditions
        # The mean over fewer points.
        share = (self.num_points / inside.num_points) ** 0.5
        inside = eqx.tree_at(lambda block: block.weights, inside, share * inside.weights)
        table = tabulate(self.basis, inside.x)
        return EquationRows(
            blocks=(inside, *(rest.blocks if rest else ())),
            table=jnp.concatenate([table, rest.table]) if rest else table,
            weights=jnp.concatenate([self.weights[:padded][chosen], self.weights[padded:]]),
            domain=self.domain,
            chunks=None if self.moments is None else chunks.take(self.moments, chosen),
            causal=self.causal,
        )


def chunked_equation(
    placed: Sequence[Placed],
    problem: Problem,
    basis: Basis,
    precision: str,
    chunking: Chunking,
    causal: Causal | None = None,
) -> ChunkedEquation:
    """What `equation_rows` makes, with the equation's points in chunks."""
    inside, *conditions = placed
    times = None if causal is None else chunking.split(moments(causal, inside, problem))
    rest = equation_rows(conditions, problem, basis, precision) if conditions else None
    num_weights = chunking.padded + (len(rest.weights) if rest else 0)
    return ChunkedEquation(
        inside=make_chunked_block(with_laplacian(inside), problem, basis, precision, chunking),
        conditions=rest,
        weights=jnp.ones(num_weights, precision),
        domain=problem.domain,
        moments=times,
        causal=causal,
    )
