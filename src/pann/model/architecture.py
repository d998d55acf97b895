"""The shape of a model before it has parameters: layers, activation, embedding, precision."""

import dataclasses

import equinox as eqx
import jax
from jaxtyping import PRNGKeyArray

from pann.model.pann import Parameters, initial_parameters, trainable
from pann.network import (
    Activation,
    EmbeddingOptions,
    Initialization,
    Network,
    check_gated_widths,
    draw_network,
)

PRECISIONS = ("float64", "float32")


@dataclasses.dataclass(frozen=True)
class Architecture:
    """How the parameters of a trial are drawn from a key; without widths there is no network.

    If `gated`, it is a `ModifiedMLP`.
    """

    widths: tuple[int, ...]
    activation: Activation
    embedding: EmbeddingOptions | None
    dropout: float
    initialization: Initialization | None
    bias: bool
    precision: str
    gated: bool = False

    def __post_init__(self) -> None:
        if self.gated and self.dropout:
            raise ValueError(
                f"gated layers have no dropout, got {self.dropout}; use 0, or gated=False"
            )
        if self.gated and self.widths:
            check_gated_widths(self.widths)

    def start(
        self, dimension: int, num_terms: int, num_outputs: int, *, key: PRNGKeyArray
    ) -> Parameters:
        """The parameters before training."""
        network_key, embedding_key, a_key = jax.random.split(key, 3)
        network = self._network(dimension, network_key, embedding_key) if self.widths else None
        return initial_parameters(
            network, num_terms, num_outputs, bias=self.bias, key=a_key, dtype=self.precision
        )

    def _network(
        self, dimension: int, network_key: PRNGKeyArray, embedding_key: PRNGKeyArray
    ) -> Network:
        embedding = None
        if self.embedding is not None:
            embedding = self.embedding.build(
                dimension, self.activation, key=embedding_key, dtype=self.precision
            )
        return draw_network(
            dimension,
            self.widths,
            self.activation,
            key=network_key,
            gated=self.gated,
            initialization=self.initialization,
            embedding=embedding,
            dropout=self.dropout,
            dtype=self.precision,
        )

    def num_network_parameters(self, dimension: int, num_outputs: int) -> int:
        """The number of trained numbers other than b, from shapes alone: nothing is compiled."""

        def count(seed: int) -> int:
            parameters = self.start(dimension, 0, num_outputs, key=jax.random.key(seed))
            sizes = jax.tree.map(
                lambda leaf, moves: leaf.size if moves else 0, parameters, trainable(parameters)
            )
            return int(sum(jax.tree.leaves(sizes)))

        return eqx.filter_eval_shape(count, 0) if self.widths else 0


def layer_widths(width: int | tuple[int, ...], depth: int) -> tuple[int, ...]:
    """The width of each hidden layer; none where there is no network."""
    if isinstance(width, tuple):
        return width
    return (width,) * depth if width else ()
