"""Partial derivatives of a network's features, all of them in one forward pass.

Taylor mode in several variables: every layer maps the derivatives of its inputs, one array for
each multi-index, to those of its outputs. A linear map acts on each of them alone, an activation f
by Faa di Bruno's formula, as in

    (f o z)_xx = f'(z) z_xx + f''(z) z_x^2,    (f o z)_xy = f'(z) z_xy + f''(z) z_x z_y,

and the product of a gate by Leibniz' rule,

    (z w)_xy = z w_xy + z_x w_y + z_y w_x + z_xy w,

so a derivative needs those below it and no others: u_t and u_xxx take five arrays with u itself.
The Laplacian is propagated as one array, and needs the gradient.
Mixed derivatives are propagated as themselves: by polarization from directional ones, u_xxyy would
take 17 arrays instead of 9, and lose digits.
"""

import functools
import math
from collections.abc import Callable, Iterator
from typing import Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from pann.network.activations import Activation, ReLU, Sin, directional
from pann.network.embeddings import (
    AxisEmbedding,
    CircleEmbedding,
    Embedding,
    PeriodicEmbedding,
    PolynomialEmbedding,
    RandomFourierFeatures,
)
from pann.network.jets import (
    Derivative,
    Jet,
    Order,
    activate,
    compose,
    degree,
    gathered,
    in_terms,
    linear,
    multiply,
    propagated,
    value_of,
)
from pann.network.level_sets import LevelSets
from pann.network.mlp import MLP, ModifiedMLP, Network
from pann.runtime.platform import on_cpu

PointFunction = Callable[[Float[Array, " d"]], Float[Array, " width"]]


@runtime_checkable
class HasFeatures(Protocol):
    """A user's network: psi at one point. Its derivatives are nested ones, and slower."""

    def features(self, x: Float[Array, " inputs"]) -> Float[Array, " width"]: ...


def feature_derivatives(
    network: Network | HasFeatures, x: Float[Array, "points d"], orders: tuple[Derivative, ...]
) -> dict[Derivative, Float[Array, "points width"]]:
    """D^order psi(x_i) for each order, a multi-index over the inputs: (0, 2) is d^2/dy^2."""
    check_orders(network, x.shape[1], orders)
    if isinstance(network, LevelSets):
        return _level_sets(network, x, orders)
    if not isinstance(network, Network):
        return gathered(_nested(network.features, x, in_terms(orders)), orders)
    if not orders:
        return {}
    needed = propagated(orders)
    inputs = gathered(_embed(network.embedding, x, in_terms(needed)), needed)
    if isinstance(network, ModifiedMLP):
        return _gated_layers(network, inputs, needed, orders)
    return _layers(network, inputs, needed, orders)


def _layers(
    network: MLP, jet: Jet, needed: tuple[Derivative, ...], orders: tuple[Derivative, ...]
) -> Jet:
    last = len(network.weights) - 1
    for layer, (weight, bias) in enumerate(zip(network.weights, network.biases, strict=True)):
        wanted = needed if layer < last else orders
        units: Callable[[Jet], Jet] = functools.partial(activate, network.activation, wanted=wanted)
        if on_cpu():
            # Only the inputs of a layer are kept for the gradient: on a CPU it takes less time to
            # compute the rest again, unit by unit, than to store and to read it.
            units = jax.checkpoint(units)
        jet = units(linear(weight, bias, jet))
    return jet


def _gated_layers(
    network: ModifiedMLP,
    inputs: Jet,
    needed: tuple[Derivative, ...],
    orders: tuple[Derivative, ...],
) -> Jet:
    def units(
        weight: Float[Array, "outputs inputs"], bias: Float[Array, " outputs"], z: Jet
    ) -> Jet:
        return activate(network.activation, linear(weight, bias, z), needed)

    encoders = zip(network.encoder_weights, network.encoder_biases, strict=True)
    u, v = (units(weight, bias, inputs) for weight, bias in encoders)
    step = {order: v[order] - u[order] for order in needed}
    hidden = units(network.weights[0], network.biases[0], inputs)
    for weight, bias in zip(network.weights[1:-1], network.biases[1:-1], strict=True):
        product = multiply(units(weight, bias, hidden), step, needed)
        hidden = {order: u[order] + product[order] for order in needed}
    if network.kept is not None:
        u, step = ({order: z[:, network.kept] for order, z in jet.items()} for jet in (u, step))
    gate = units(network.weights[-1], network.biases[-1], hidden)
    product = multiply(gate, step, orders)
    return {order: u[order] + product[order] for order in orders}


def _level_sets(
    network: LevelSets, x: Float[Array, "points d"], orders: tuple[Derivative, ...]
) -> Jet:
    """P_k times f^(r)(p_j), every r from the same derivatives of f."""
    needed = propagated(orders)
    terms = gathered(_embed(network.polynomials, x, in_terms(needed)), needed)
    size = network.weights.shape[1]
    p = linear(network.weights, 0.0, {order: each[:, :size] for order, each in terms.items()})
    highest = max(map(degree, orders), default=0)
    profile = network.activation.derivatives(value_of(p), highest + network.num_derivatives)
    profiles = [compose(profile[r:], p, needed) for r in range(network.num_derivatives + 1)]
    # A column for each unit, derivative and amplitude.
    repeats, tiles = network.num_amplitudes, network.weights.shape[0] * len(profiles)
    front = {
        order: jnp.repeat(
            jnp.stack([each[order] for each in profiles], axis=2).reshape(len(x), -1),
            repeats,
            axis=1,
        )
        for order in needed
    }
    amplitude = {order: jnp.tile(each[:, :repeats], (1, tiles)) for order, each in terms.items()}
    jet = multiply(front, amplitude, orders)
    return jet if network.kept is None else {o: each[:, network.kept] for o, each in jet.items()}


def smoothness(activation: Activation) -> int | None:
    """How many derivatives the activation has: ReLU 1, RePU(p) p; None for infinitely many."""
    return None if math.isinf(activation.smoothness) else int(activation.smoothness)


def check_orders(
    network: Network | HasFeatures, num_inputs: int, orders: tuple[Derivative, ...]
) -> None:
    """Refuse a tuple that is no derivative, or a higher order than the activation has."""
    for order in in_terms(orders):
        if len(order) != num_inputs or min(order) < 0:
            raise ValueError(
                f"{order} is no derivative of a function of {num_inputs} inputs; "
                f"give {num_inputs} numbers from 0, such as {(2,) + (0,) * (num_inputs - 1)}"
            )
    if not isinstance(network, Network | LevelSets) or not orders:
        return
    highest = max(orders, key=degree)
    for name, limit, cure in _limits(network):
        if limit is not None and degree(highest) > limit:
            raise ValueError(
                f"the derivative {highest} is of order {degree(highest)}, and {name} has "
                f"derivatives up to order {limit}; use {cure}"
            )


def _limits(network: Network | LevelSets) -> Iterator[tuple[str, int | None, str]]:
    """Bounds on the order of a derivative: what has it, the bound, and what to use instead."""
    cure = "the activation tanh or sin, or RePU of a higher power"
    if isinstance(network, LevelSets):
        limit = smoothness(network.activation)
        own = None if limit is None else limit - network.num_derivatives
        yield f"the activation {network.activation}", own, cure
        return
    yield f"the activation {network.activation}", smoothness(network.activation), cure
    embedding = network.embedding
    if isinstance(embedding, AxisEmbedding):
        yield f"the embedding's {embedding.activation}", smoothness(embedding.activation), cure
    if isinstance(embedding, PeriodicEmbedding) and embedding.rectified:
        yield "the rectified embedding", smoothness(ReLU()), "PeriodicFeatures(rectified=False)"


def _unit(axis: int, num_inputs: int) -> Order:
    return tuple(int(k == axis) for k in range(num_inputs))


def _identity(x: Float[Array, "points d"], needed: tuple[Order, ...]) -> Jet:
    num_inputs = x.shape[1]
    rows = jnp.eye(num_inputs, dtype=x.dtype)
    jet: Jet = {(0,) * num_inputs: x}
    for axis in range(num_inputs):
        if _unit(axis, num_inputs) in needed:
            jet[_unit(axis, num_inputs)] = rows[axis : axis + 1]
    return jet


# ---- Embeddings ----


def _embed(
    embedding: Embedding | PointFunction | None,
    x: Float[Array, "points d"],
    needed: tuple[Order, ...],
) -> Jet:
    jet = _identity(x, needed)
    # Units of a single input each have no mixed derivatives.
    pure = tuple(order for order in needed if np.count_nonzero(order) <= 1)
    match embedding:
        case None:
            return jet
        case RandomFourierFeatures():
            return _random(embedding, jet, needed)
        case AxisEmbedding():
            units = {
                order: embedding.slopes
                * (array[:, embedding.axes] - (0 if degree(order) else embedding.centers))
                for order, array in jet.items()
            }
            return activate(embedding.activation, units, pure)
        case PeriodicEmbedding():
            return _periodic(embedding, x, jet, pure)
        case PolynomialEmbedding():
            return {order: embedding.derivative(x, order) for order in needed}
        case CircleEmbedding():
            circles = _circles(embedding, jet, pure)
            return circles if embedding.waves is None else _random(embedding.waves, circles, needed)
    return _nested(embedding, x, needed)


def _random(embedding: RandomFourierFeatures, jet: Jet, wanted: tuple[Order, ...]) -> Jet:
    return _waves(linear(jax.lax.stop_gradient(embedding.frequencies), 0.0, jet), wanted)


def _waves(phase: Jet, wanted: tuple[Order, ...]) -> Jet:
    """cos and sin of the phase, side by side."""
    sine = Sin().derivatives(value_of(phase), max(map(sum, wanted)) + 1)
    pair = (compose(sine[1:], phase, wanted), compose(sine[:-1], phase, wanted))
    return {order: jnp.concatenate([wave[order] for wave in pair], axis=1) for order in wanted}


def _periodic(
    embedding: PeriodicEmbedding, x: Float[Array, "points d"], jet: Jet, pure: tuple[Order, ...]
) -> Jet:
    num_inputs, num_frequencies = embedding.frequencies.shape
    phase = {
        order: (2 * jnp.pi * embedding.frequencies * array[:, :, None]).reshape(len(array), -1)
        for order, array in jet.items()
    }
    embedded: Jet = {}
    for order, waves in _waves(phase, pure).items():
        split = waves.reshape(-1, 2, num_inputs, num_frequencies)
        split = jnp.moveaxis(split, 1, 2).reshape(-1, num_inputs, 2 * num_frequencies)
        units = jnp.einsum("isw,niw->nis", embedding.weights, split)
        units = units if degree(order) else units + embedding.biases
        embedded[order] = units.reshape(len(x), -1)
    if embedding.rectified:
        embedded = activate(ReLU(), embedded, pure)
    inputs = {order: jnp.broadcast_to(array, x.shape) for order, array in jet.items()}
    return {
        order: jnp.concatenate([inputs.get(order, jnp.zeros_like(x)), array], axis=1)
        for order, array in embedded.items()
    }


def _circles(embedding: CircleEmbedding, jet: Jet, pure: tuple[Order, ...]) -> Jet:
    axes, others = np.asarray(embedding.axes), np.asarray(embedding.others, int)
    waves = _waves({order: jnp.pi * array[:, axes] for order, array in jet.items()}, pure)
    rows = len(value_of(waves))
    embedded: Jet = {}
    for order, wave in waves.items():
        kept = jet[order][:, others] if order in jet else jnp.zeros((1, len(others)), wave.dtype)
        kept = jnp.broadcast_to(kept, (rows, len(others)))
        embedded[order] = jnp.concatenate([kept, jnp.broadcast_to(wave, (rows, wave.shape[1]))], 1)
    return embedded


# ---- Nested differentiation ----


def _nested(function: PointFunction, x: Float[Array, "points d"], orders: tuple[Order, ...]) -> Jet:
    """The same derivatives of any function of a point, by forward mode within forward mode."""
    jet: Jet = {}
    for order in orders:
        derivative: Callable[[Array], Array] = jax.vmap(function)
        for axis, count in enumerate(order):
            along = jnp.zeros_like(x).at[:, axis].set(1)
            for _ in range(count):
                derivative = directional(derivative, along)
        jet[order] = derivative(x)
    return jet
