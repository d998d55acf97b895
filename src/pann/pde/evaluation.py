"""Derivatives of a model's halves in the domain's own coordinates."""

from collections.abc import Mapping

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from pann.domain import Box
from pann.model import PANN, Parameters
from pann.network.taylor import feature_derivatives
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


def evaluate_derivative(
    model: PANN, points: Float[np.ndarray, "points d"], order: Order
) -> Float[np.ndarray, "points fields"]:
    """D^order u at points of the domain."""
    parameters = model.parameters
    with jax.enable_x64(True), jax.default_matmul_precision("highest"):
        x = jnp.asarray(model.domain.to_reference(points), model.precision)
        network = np.asarray(_channels(parameters, x, (order,), model.domain))[0]
        kept_b = np.asarray(parameters.kept_b)
    return model.basis.table(points, order) @ kept_b + network


@eqx.filter_jit
def _channels(
    parameters: Parameters, x: Array, orders: tuple[Order, ...], domain: Box
) -> Float[Array, "orders points fields"]:
    return network_channels(parameters, x, orders, domain)
