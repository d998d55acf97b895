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


# ---- A perceptron whose hidden layers are gates between two encodings of the input ----


class ModifiedMLP(eqx.Module):
    """x -> psi(x) with H_1 = s(W_0 x + b_0), Z_k = s(W_k H_k + b_k), H_{k+1} = U + Z_k (V - U).

    The encoders U and V are s(W x + b) with weights and biases of their own; psi is the last H
    (Wang, Teng and Perdikaris 2021, "Understanding and mitigating gradient flow pathologies in
    physics-informed neural networks"). `kept` has the units of U and V that are left in the last
    H; None stands for all.
    """

    embedding: Embedding | None
    weights: list[Float[Array, "outputs inputs"]]
    biases: list[Float[Array, " outputs"]]
    encoder_weights: list[Float[Array, "width inputs"]]
    encoder_biases: list[Float[Array, " width"]]
    kept: Int[Array, " kept"] | None
    activation: Activation = eqx.field(static=True)

    def __init__(
        self,
        num_inputs: int,
        widths: Sequence[int],
        activation: Activation,
        *,
        key: PRNGKeyArray,
        initialization: Initialization | None = None,
        embedding: Embedding | None = None,
        dtype: str = "float64",
    ):
        check_gated_widths(widths)
        if embedding is not None:
            num_inputs = embedding.num_outputs
        initialization = initialization or Glorot()
        key, *encoder_keys = jax.random.split(key, 3)
        layers = initialization.layers([num_inputs, *widths], key=key, dtype=dtype)
        encoders = [
            initialization.layers([num_inputs, widths[0]], key=encoder_key, dtype=dtype)[0]
            for encoder_key in encoder_keys
        ]
        self.embedding = embedding
        self.weights = [weight for weight, _ in layers]
        self.biases = [bias for _, bias in layers]
        self.encoder_weights = [weight for weight, _ in encoders]
        self.encoder_biases = [bias for _, bias in encoders]
        self.activation = activation
        self.kept = None

    @property
    def dropout(self) -> float:
        """None: a gate is not a unit that can be left out."""
        return 0.0

    @property
    def width(self) -> int:
        return self.biases[-1].shape[0]

    def features(
        self, x: Float[Array, " inputs"], key: PRNGKeyArray | None = None
    ) -> Float[Array, " width"]:
        """psi(x) at one point; the key is not used, for there is no dropout."""
        inputs = x if self.embedding is None else self.embedding(x)
        u, v = (
            self.activation(weight @ inputs + bias)
            for weight, bias in zip(self.encoder_weights, self.encoder_biases, strict=True)
        )
        hidden = self.activation(self.weights[0] @ inputs + self.biases[0])
        for weight, bias in zip(self.weights[1:-1], self.biases[1:-1], strict=True):
            hidden = u + self.activation(weight @ hidden + bias) * (v - u)
        if self.kept is not None:
            u, v = u[self.kept], v[self.kept]
        return u + self.activation(self.weights[-1] @ hidden + self.biases[-1]) * (v - u)

    def select(self, kept: Int[np.ndarray, " kept"]) -> "ModifiedMLP":
        """The same network with only these units of its last hidden layer."""
        # The gates before the last need all units of the encoders, which therefore stay whole.
        units = np.arange(self.width) if self.kept is None else np.asarray(self.kept)
        with jax.enable_x64(True):
            last = (self.weights[-1], self.biases[-1], units)
            return eqx.tree_at(
                lambda net: (net.weights[-1], net.biases[-1], net.kept),
                self,
                tuple(jax.device_put(np.asarray(array)[kept]) for array in last),
                is_leaf=lambda node: node is None,
            )


Network = MLP | ModifiedMLP


def check_gated_widths(widths: Sequence[int]) -> None:
    """Gates mix units one by one, so every layer has as many of them; the first has no gate."""
    if len(widths) < 2 or len(set(widths)) > 1:
        raise ValueError(
            "a modified network needs two or more hidden layers of equal width, got "
            f"{tuple(widths)}; give one width and a depth, such as width=64, depth=3"
        )
