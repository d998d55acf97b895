"""The shape of a model before it has parameters: layers, activation, embedding, precision."""

import dataclasses

import equinox as eqx
import jax
import numpy as np
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
KINDS = ("mlp", "modified")


@dataclasses.dataclass(frozen=True)
class Architecture:
    """How the parameters of a trial are drawn from a key; without widths there is no network.

    `kind` is "mlp" for a plain network, or "modified" for a `ModifiedMLP`.
    """

    widths: tuple[int, ...]
    activation: Activation
    embedding: EmbeddingOptions | None
    dropout: float
    initialization: Initialization | None
    bias: bool
    precision: str
    kind: str = "mlp"

    def __post_init__(self) -> None:
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout is a rate in [0, 1), got {self.dropout}")
        if self.precision not in PRECISIONS:
            raise ValueError(
                f"precision must be one of {', '.join(PRECISIONS)}, got '{self.precision}'"
            )
        if self.kind not in KINDS:
            raise ValueError(f"a network is one of {', '.join(KINDS)}, got '{self.kind}'")
        if self.kind == "modified":
            if self.dropout:
                raise ValueError(
                    f"a modified network has no dropout, got {self.dropout}; use 0, or kind='mlp'"
                )
            if self.widths:
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
            gated=self.kind == "modified",
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


def check_widths(width: int | tuple[int, ...], depth: int) -> tuple[int, ...]:
    """The width of each hidden layer; none where there is no network."""
    if isinstance(width, int | np.integer):
        if width < 0:
            raise ValueError(f"width must be at least 0, got {width}; 0 leaves the network out")
        if not isinstance(depth, int | np.integer) or depth < 1:
            raise ValueError(f"depth must be an integer of at least 1, got {depth!r}")
        return (int(width),) * depth if width else ()
    widths = tuple(width)
    if not widths or any(not isinstance(w, int | np.integer) or w < 1 for w in widths):
        raise ValueError(f"width must be a number, or one of at least 1 per layer, got {width!r}")
    return widths
