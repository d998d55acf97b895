"""Rows of data in chunks, for tables that are not kept."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from pann.basis import Basis
from pann.basis.in_program import tabulate
from pann.model.pann import Parameters
from pann.runtime import chunks
from pann.runtime.chunks import Chunking
from pann.training.constraints import Half
from pann.training.loss import Measure, Rows, TrainingRows

Chunk = tuple[Float[Array, "size d"], Float[Array, "size outputs"], Float[Array, " size"]]


class ChunkedData(TrainingRows):
    """Rows whose table is made for a chunk, or a minibatch, when its turn comes."""

    x: Float[Array, "chunks size d"]
    target: Float[Array, "chunks size outputs"]
    weights: Float[Array, " points"]
    basis: Basis = eqx.field(static=True)
    chunking: Chunking = eqx.field(static=True)

    @property
    def names(self) -> tuple[str, ...]:
        return ("data",)

    @property
    def num_points(self) -> int:
        return self.chunking.count

    def squares(
        self,
        parameters: Parameters,
        projector: Float[Array, "points rank"] | None,
        key: PRNGKeyArray | None,
        reduction: str,
        measure: Measure | None = None,
    ) -> dict[str, Float[Array, ""]]:
        assert projector is None, "a projector is as large as the table"

        def one(chunk: Chunk, number: Int[Array, ""]) -> dict[str, Float[Array, ""]]:
            own = None if key is None else jax.random.fold_in(key, number)
            real = self.chunking.is_point(number)
            rows = self._tabulated(chunk)
            return rows.squares(parameters, None, own, "sum", measure and only(real, measure))

        sums = chunks.total(one, self._chunks())
        factor = 1 / self.num_points if reduction == "mean" else 1.0
        return sums | {"data": factor * sums["data"]}

    def density(self, squares: Float[Array, " terms"]) -> Float[Array, " points"]:
        return chunks.each(lambda x: tabulate(self.basis, x) ** 2 @ squares, self.x)

    def error(self, parameters: Parameters) -> Float[Array, ""]:
        """|W (u - y)| / |W y|, as for rows with a table."""

        def one(chunk: Chunk, _: Int[Array, ""]) -> tuple[Array, Array]:
            rows = self._tabulated(chunk)
            size = jnp.sum((rows.weights[:, None] * rows.target) ** 2)
            return rows.squares(parameters, None, None, "sum")["data"], size

        difference, size = chunks.total(one, self._chunks())
        return jnp.sqrt(difference / jnp.where(size > 0, size, 1.0))

    def take(self, chosen: Int[Array, " chosen"] | slice) -> Rows:
        if isinstance(chosen, slice):
            chosen = jnp.arange(*chosen.indices(self.num_points))
        x, target = chunks.take((self.x, self.target), chosen)
        return Rows(x, tabulate(self.basis, x), target, self.weights[chosen])

    def _chunks(self) -> tuple[Array, Array, Array]:
        return self.x, self.target, self.weights.reshape(self.x.shape[:2])

    def _tabulated(self, chunk: Chunk) -> Rows:
        x, target, weights = chunk
        return Rows(x, tabulate(self.basis, x), target, weights)


def only(real: Array, measure: Measure) -> Measure:
    """The measure without the repetitions that fill up a chunk."""
    kept = lambda half: Half(real[:, None] * half.functions, half.coefficients, half.kept)
    return lambda network, polynomial: measure(kept(network), kept(polynomial))
