"""Rows of data in chunks, for tables that are not kept."""

import dataclasses
import functools

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from pann.basis import Basis
from pann.basis.basis import tabulate
from pann.model.pann import Parameters
from pann.runtime import chunks
from pann.runtime.chunks import Chunking, InChunks
from pann.training.constraints import Half
from pann.training.loss import Measure, Rows, SumOptions, Terms, TrainingRows

Chunk = tuple[Float[Array, "size d"], Float[Array, "size outputs"], Float[Array, " size"]]


@dataclasses.dataclass(frozen=True)
class _WithTable:
    """Makes rows of points, targets and weights."""

    basis: Basis

    def __call__(self, chunk: Chunk) -> Rows:
        x, target, weights = chunk
        return Rows(x, tabulate(self.basis, x), target, weights)


class ChunkedData(TrainingRows):
    """Rows whose table is made for a chunk, or a minibatch, when its turn comes."""

    x: Float[Array, "chunks size d"]
    target: Float[Array, "chunks size outputs"]
    weights: Float[Array, " points"]
    basis: Basis = eqx.field(static=True)
    chunking: Chunking = eqx.field(static=True)
    names = ("data",)

    @property
    def num_points(self) -> int:
        return self.chunking.count

    @property
    def _rows(self) -> InChunks:
        arrays = self.x, self.target, self.weights.reshape(self.x.shape[:2])
        return InChunks(arrays, self.chunking, _WithTable(self.basis))

    def squares(self, parameters: Parameters, options: SumOptions) -> Terms:
        assert options.projector is None, "a projector is as large as the table"
        of_chunk = functools.partial(_sums, measure=options.measure)
        given = self._rows, options.key
        sums = chunks.sum_over(of_chunk, self.chunking.num_chunks, parameters, given)
        factor = 1 / self.num_points if options.reduction == "mean" else 1.0
        return sums | {"data": factor * sums["data"]}

    def density(self, squares: Float[Array, " terms"]) -> Float[Array, " points"]:
        return self._rows.each(lambda rows: rows.density(squares))

    def error(self, parameters: Parameters) -> Float[Array, ""]:
        """|W (u - y)| / |W y|, as for rows with a table."""

        def one(rows: Rows) -> tuple[Array, Array]:
            size = jnp.sum((rows.weights[:, None] * rows.target) ** 2)
            return rows.squares(parameters, SumOptions())["data"], size

        difference, size = self._rows.total(one)
        return jnp.sqrt(difference / jnp.where(size > 0, size, 1.0))

    def take(self, chosen: Int[Array, " chosen"] | slice) -> Rows:
        if isinstance(chosen, slice):
            chosen = jnp.arange(*chosen.indices(self.num_points))
        return self._rows.take(chosen)


def _sums(
    parameters: Parameters,
    given: tuple[InChunks, PRNGKeyArray | None],
    number: Int[Array, ""],
    *,
    measure: Measure | None,
) -> Terms:
    rows, key = given
    own = None if key is None else jax.random.fold_in(key, number)
    measured = None if measure is None else only(rows.chunking.is_point(number), measure)
    return rows.chunk(number).squares(parameters, SumOptions(key=own, measure=measured))


def only(real: Array, measure: Measure) -> Measure:
    """The measure without the repetitions that fill up a chunk."""
    kept = lambda half: Half(real[:, None] * half.functions, half.coefficients, half.kept)
    return lambda network, polynomial: measure(kept(network), kept(polynomial))
