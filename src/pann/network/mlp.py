"""The neural half: a multilayer perceptron seen as the basis of its last hidden layer."""

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from pann.network.activations import Activation
from pann.network.embeddings import Embedding
from pann.network.initialization import Glorot, Initialization


class MLP(eqx.Module):
    """x -> psi(x): every layer, the last one too, ends with the activation (paper, eq. 2.3).

    The output coefficients a are not here: they belong to the model, beside the polynomial's b.
    """

    embedding: Embedding | None
    weights: list[Float[Array, "outputs inputs"]]
    biases: list[Float[Array, " outputs"]]
    activation: Activation = eqx.field(static=True)
    dropout: float = eqx.field(static=True)

    def __init__(
        self,
        num_inputs: int,
        widths: Sequence[int],
        activation: Activation,
        *,
        key: PRNGKeyArray,
        initialization: Initialization | None = None,
        embedding: Embedding | None = None,
        dropout: float = 0.0,
        dtype: str = "float64",
    ):
        if embedding is not None:
            num_inputs = embedding.num_outputs
        layers = (initialization or Glorot()).layers([num_inputs, *widths], key=key, dtype=dtype)
        self.embedding = embedding
        self.weights = [weight for weight, _ in layers]
        self.biases = [bias for _, bias in layers]
        self.activation = activation
        self.dropout = dropout

    @property
    def width(self) -> int:
        return self.biases[-1].shape[0]

    def features(
        self, x: Float[Array, " inputs"], key: PRNGKeyArray | None = None
    ) -> Float[Array, " width"]:
        """psi(x) at one point; with a key, hidden units are dropped at the rate `dropout`."""
        hidden = x if self.embedding is None else self.embedding(x)
        for layer, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            hidden = self.activation(weight @ hidden + bias)
            if key is not None and self.dropout > 0:
                kept = jax.random.bernoulli(
                    jax.random.fold_in(key, layer), 1 - self.dropout, hidden.shape
                )
                hidden = jnp.where(kept, hidden / (1 - self.dropout), 0)
        return hidden

    def select(self, kept: Int[np.ndarray, " kept"]) -> "MLP":
        """The same network with only these units of its last hidden layer."""
        # NumPy picks them: JAX would compile a program for every number of units.
        with jax.enable_x64(True):
            last = (self.weights[-1], self.biases[-1])
            return eqx.tree_at(
                lambda net: (net.weights[-1], net.biases[-1]),
                self,
                tuple(jax.device_put(np.asarray(array)[kept]) for array in last),
            )
