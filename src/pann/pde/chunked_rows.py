"""An equation at points in chunks, for tables and derivatives that do not fit in memory."""

import functools
from collections.abc import Sequence

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from pann import chunks
from pann.basis import Basis
from pann.basis.in_program import tabulate
from pann.chunked_data import only
from pann.chunks import Chunking
from pann.domain import Box
from pann.loss import Measure, TrainingRows
from pann.model import Parameters
from pann.pde.blocks import Block, Placed, tabulated
from pann.pde.chunked_block import ChunkedBlock, make_chunked_block
from pann.pde.laplacian import with_laplacian
from pann.pde.problem import Problem
from pann.pde.rows import Causal, EquationRows, equation_rows, moments

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
