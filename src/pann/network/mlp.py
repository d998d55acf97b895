"""Multilayer perceptrons, seen as the basis psi of their last hidden layer: plain and gated.

A network is built from its arrays; `draw_network` draws them. The output coefficients a are not
here: they belong to the model, next to the polynomial's b.
"""

import functools
from collections.abc import Callable, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from pann.network.activations import Activation
from pann.network.embeddings import Embedding, embed
from pann.network.initialization import Glorot, Initialization
from pann.network.jets import Derivatives, Jet, activate, linear, multiply, propagated
from pann.runtime.platform import on_cpu


class MLP(eqx.Module):
    """x -> psi(x): every layer, the last one too, ends with the activation (paper, eq. 2.3)."""

    embedding: Embedding | None
    weights: list[Float[Array, "_outputs _inputs"]]
    biases: list[Float[Array, " _outputs"]]
    activation: Activation = eqx.field(static=True)
    dropout: float = eqx.field(static=True, default=0.0)

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

    def derivatives(self, x: Float[Array, "points inputs"], orders: Derivatives) -> Jet:
        """These derivatives of psi at the points."""
        needed = propagated(orders)
        jet = embed(self.embedding, x, needed)
        last = len(self.weights) - 1
        for layer, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            wanted = needed if layer < last else orders
            units: Callable[[Jet], Jet] = functools.partial(
                activate, self.activation, wanted=wanted
            )
            if on_cpu():
                # Only the inputs of a layer are kept for the gradient: on a CPU it takes less time
                # to compute the rest again, unit by unit, than to store and to read it.
                units = jax.checkpoint(units)
            jet = units(linear(weight, bias, jet))
        return jet

    def select(self, kept: Int[np.ndarray, " kept"]) -> "MLP":
        """The same network with only these units of its last hidden layer."""
        last = _taken(kept, self.weights[-1], self.biases[-1])
        return eqx.tree_at(lambda net: (net.weights[-1], net.biases[-1]), self, last)


class ModifiedMLP(eqx.Module):
    """x -> psi(x) with H_1 = s(W_0 x + b_0), Z_k = s(W_k H_k + b_k), H_{k+1} = U + Z_k (V - U).

    The hidden layers are gates Z between two encodings of the input, U and V, each s(W x + b) with
    its own weights and biases; psi is the last H (Wang, Teng and Perdikaris 2021, "Understanding
    and mitigating gradient flow pathologies in physics-informed neural networks"). `kept` has the
    units of U and V that are left in the last H; None stands for all.
    """

    embedding: Embedding | None
    weights: list[Float[Array, "_outputs _inputs"]]
    biases: list[Float[Array, " _outputs"]]
    encoder_weights: list[Float[Array, "width inputs"]]
    encoder_biases: list[Float[Array, " width"]]
    kept: Int[Array, " kept"] | None
    activation: Activation = eqx.field(static=True)
    dropout = 0.0  # a gate is not a unit that can be left out

    @property
    def width(self) -> int:
        return self.biases[-1].shape[0]

    def features(
        self, x: Float[Array, " inputs"], key: PRNGKeyArray | None = None
    ) -> Float[Array, " width"]:
        """psi(x) at one point; the key is not used, for there is no dropout."""
        value = (0,) * x.shape[0]
        return self.derivatives(x[None], (value,))[value][0]

    def derivatives(self, x: Float[Array, "points inputs"], orders: Derivatives) -> Jet:
        """These derivatives of psi at the points."""
        needed = propagated(orders)
        inputs = embed(self.embedding, x, needed)

        def units(layer: tuple[Array, Array], z: Jet) -> Jet:
            return activate(self.activation, linear(*layer, z), needed)

        layers = list(zip(self.weights, self.biases, strict=True))
        u, v = (
            units(layer, inputs)
            for layer in zip(self.encoder_weights, self.encoder_biases, strict=True)
        )
        step = {order: v[order] - u[order] for order in needed}
        hidden = units(layers[0], inputs)
        for layer in layers[1:-1]:
            gated = multiply(units(layer, hidden), step, needed)
            hidden = {order: u[order] + gated[order] for order in needed}
        if self.kept is not None:
            u, step = ({order: z[:, self.kept] for order, z in jet.items()} for jet in (u, step))
        gated = multiply(units(layers[-1], hidden), step, orders)
        return {order: u[order] + gated[order] for order in orders}

    def select(self, kept: Int[np.ndarray, " kept"]) -> "ModifiedMLP":
        """The same network with only these units of its last hidden layer."""
        # The gates before the last need all units of the encoders, which therefore stay whole.
        units = np.arange(self.width) if self.kept is None else self.kept
        return eqx.tree_at(
            lambda net: (net.weights[-1], net.biases[-1], net.kept),
            self,
            _taken(kept, self.weights[-1], self.biases[-1], units),
            is_leaf=lambda node: node is None,
        )


Network = MLP | ModifiedMLP


def draw_network(
    num_inputs: int,
    widths: Sequence[int],
    activation: Activation,
    *,
    key: PRNGKeyArray,
    gated: bool = False,
    initialization: Initialization | None = None,
    embedding: Embedding | None = None,
    dropout: float = 0.0,
    dtype: str = "float64",
) -> Network:
    """A network with random layers of these widths: an `MLP`, or, if `gated`, a `ModifiedMLP`."""
    if embedding is not None:
        num_inputs = embedding.num_outputs
    initialization = initialization or Glorot()
    sizes = [num_inputs, *widths]
    if not gated:
        weights, biases = _transposed(initialization.layers(sizes, key=key, dtype=dtype))
        return MLP(embedding, weights, biases, activation, dropout)
    check_gated_widths(widths)
    key, *encoder_keys = jax.random.split(key, 3)
    weights, biases = _transposed(initialization.layers(sizes, key=key, dtype=dtype))
    encoders = [
        initialization.layers(sizes[:2], key=encoder_key, dtype=dtype)[0]
        for encoder_key in encoder_keys
    ]
    return ModifiedMLP(
        embedding, weights, biases, *_transposed(encoders), kept=None, activation=activation
    )


def check_gated_widths(widths: Sequence[int]) -> None:
    """Gates mix units one by one, so all layers are equally wide; the first has no gate."""
    if len(widths) < 2 or len(set(widths)) > 1:
        raise ValueError(
            "a modified network needs two or more hidden layers of equal width, got "
            f"{tuple(widths)}; give one width and a depth, such as width=64, depth=3"
        )


def _transposed(layers: Sequence[tuple[Array, Array]]) -> tuple[list[Array], list[Array]]:
    return [weight for weight, _ in layers], [bias for _, bias in layers]


def _taken(kept: Int[np.ndarray, " kept"], *arrays: Array | np.ndarray) -> tuple[Array, ...]:
    # NumPy selects the rows: JAX would compile a program for every number of them.
    with jax.enable_x64(True):
        return tuple(jax.device_put(np.asarray(array)[kept]) for array in arrays)
