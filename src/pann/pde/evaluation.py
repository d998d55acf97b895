"""A solution and its derivatives, from those of a model's halves, in the domain's coordinates."""

from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from pann.domain import Box
from pann.model.pann import PANN, Parameters, Parts
from pann.network.jets import Derivative, Laplacian, lower_set
from pann.network.taylor import feature_derivatives
from pann.pde.collocation import Block
from pann.pde.fields import Order
from pann.pde.hard_conditions import Ansatz
from pann.runtime.compile import compiled
from pann.runtime.matmul import combine


def network_channels(
    parameters: Parameters, x: Float[Array, "points d"], orders: tuple[Derivative, ...], domain: Box
) -> Float[Array, "orders points fields"]:
    """D^order of the network's half, at reference points x, by the domain's coordinates."""
    if parameters.network is None:
        return jnp.zeros((len(orders), x.shape[0], parameters.a.shape[1]), x.dtype)
    features = feature_derivatives(parameters.network, x, on_reference(orders, domain))
    return combine_features(features, parameters, x, orders, domain)


def on_reference(orders: tuple[Derivative, ...], domain: Box) -> tuple[Derivative, ...]:
    """The derivatives by reference coordinates that those by the domain's are multiples of."""
    slopes = 2.0 / domain.widths
    return tuple(
        Laplacian(tuple((np.asarray(order.weights) * slopes**2).tolist()))
        if isinstance(order, Laplacian)
        else order
        for order in orders
    )


def combine_features(
    features: Mapping[Derivative, Float[Array, "points width"]],
    parameters: Parameters,
    x: Float[Array, "points d"],
    orders: tuple[Derivative, ...],
    domain: Box,
) -> Float[Array, "orders points fields"]:
    """The network's channels from the derivatives of its features at reference points x."""
    slopes, kept_a = 2.0 / domain.widths, parameters.kept_a

    def channel(order: Derivative, on_reference: Derivative) -> Float[Array, "points fields"]:
        if on_reference not in features:
            return jnp.zeros((x.shape[0], kept_a.shape[1]), x.dtype)
        scale = 1.0 if isinstance(order, Laplacian) else float(np.prod(slopes ** np.asarray(order)))
        psi = jnp.broadcast_to(features[on_reference], (x.shape[0], kept_a.shape[0]))
        return scale * combine(psi, kept_a)

    return jnp.stack(list(map(channel, orders, on_reference(orders, domain))))


def evaluate_parts(
    model: PANN, ansatz: Ansatz | None, points: Float[np.ndarray, "points d"]
) -> Parts:
    """The network's and the polynomial's part of u, a column for each field.

    Under an ansatz u = lift + bump * v the lift is the polynomial's.
    """
    network, polynomial = (half.reshape(len(points), -1) for half in model.parts(points))
    if ansatz is None:
        return Parts(network, polynomial)
    zero = (0,) * model.domain.dimension
    return Parts(
        ansatz.bump(points, zero) * network, ansatz.combine(points, zero, {zero: polynomial})
    )


def evaluate_solution(
    model: PANN, ansatz: Ansatz | None, points: Float[np.ndarray, "points d"]
) -> Float[np.ndarray, "points fields"]:
    """u at points of the domain."""
    network, polynomial = evaluate_parts(model, ansatz, points)
    return network + polynomial


def evaluate_derivatives(
    model: PANN,
    ansatz: Ansatz | None,
    points: Float[np.ndarray, "points d"],
    orders: tuple[Order, ...],
) -> Float[np.ndarray, "orders points fields"]:
    """Several derivatives of u at points of the domain."""
    parameters = model.parameters
    own = orders if ansatz is None else lower_set(orders)
    # By NumPy: JAX would compile a program for each number of terms.
    kept_b = np.asarray(parameters.b) * np.asarray(parameters.keep_b)[:, None]
    values = model.basis.evaluate_each(points, kept_b, own)
    if parameters.network is not None:
        with jax.enable_x64(True), jax.default_matmul_precision("highest"):
            x = jnp.asarray(model.domain.to_reference(points), model.precision)
            values = values + np.asarray(_channels(parameters, x, own, model.domain))
    if ansatz is None:
        return values
    v = dict(zip(own, values, strict=True))
    return np.stack([ansatz.combine(points, order, v) for order in orders])


_channels = compiled(network_channels)


def block_channels(
    block: Block, parameters: Parameters, domain: Box
) -> Float[Array, "orders points fields"]:
    """The network's channels at the points of one block."""
    return block.differences(lambda x: network_channels(parameters, x, block.orders, domain))
