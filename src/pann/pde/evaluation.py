"""A solution and its derivatives, from those of a model's halves, in the domain's coordinates."""

from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from pann.compiling import compiled
from pann.domain import Box
from pann.model import PANN, Parameters, Parts
from pann.network.jets import lower_set
from pann.network.taylor import feature_derivatives
from pann.pde.ansatz import Ansatz
from pann.pde.fields import Order


def network_channels(
    parameters: Parameters, x: Float[Array, "points d"], orders: tuple[Order, ...], domain: Box
) -> Float[Array, "orders points fields"]:
    """D^order of the network's half, at reference points x, by the domain's coordinates."""
    if parameters.network is None:
        return jnp.zeros((len(orders), x.shape[0], parameters.a.shape[1]), x.dtype)
    return combine_features(
        feature_derivatives(parameters.network, x, orders), parameters, x, orders, domain
    )


def combine_features(
    features: Mapping[Order, Float[Array, "points width"]],
    parameters: Parameters,
    x: Float[Array, "points d"],
    orders: tuple[Order, ...],
    domain: Box,
) -> Float[Array, "orders points fields"]:
    """The network's channels from the derivatives of its features at reference points x."""
    scales = [float(np.prod((2.0 / domain.widths) ** np.asarray(order))) for order in orders]
    kept_a = parameters.kept_a
    return jnp.stack(
        [
            scale * jnp.broadcast_to(features[order], (x.shape[0], kept_a.shape[0])) @ kept_a
            if order in features
            else jnp.zeros((x.shape[0], kept_a.shape[1]), x.dtype)
            for scale, order in zip(scales, orders, strict=True)
        ]
    )


def evaluate_parts(
    model: PANN, ansatz: Ansatz | None, points: Float[np.ndarray, "points d"]
) -> Parts:
    """The network's and the polynomial's share of u, a column for each field.

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


def evaluate_derivative(
    model: PANN, ansatz: Ansatz | None, points: Float[np.ndarray, "points d"], order: Order
) -> Float[np.ndarray, "points fields"]:
    """D^order u at points of the domain."""
    parameters = model.parameters
    orders = (order,) if ansatz is None else lower_set([order])
    with jax.enable_x64(True), jax.default_matmul_precision("highest"):
        x = jnp.asarray(model.domain.to_reference(points), model.precision)
        network = np.asarray(_channels(parameters, x, orders, model.domain))
        kept_b = np.asarray(parameters.kept_b)
    v = {
        each: model.basis.evaluate(points, kept_b, each) + of_network
        for each, of_network in zip(orders, network, strict=True)
    }
    return v[order] if ansatz is None else ansatz.combine(points, order, v)


@compiled
def _channels(
    parameters: Parameters, x: Array, orders: tuple[Order, ...], domain: Box
) -> Float[Array, "orders points fields"]:
    return network_channels(parameters, x, orders, domain)
