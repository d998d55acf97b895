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

import math
from collections.abc import Iterator
from typing import Protocol, runtime_checkable

from jaxtyping import Array, Float

from pann.network.activations import Activation, ReLU
from pann.network.embeddings import AxisEmbedding, PeriodicEmbedding
from pann.network.jets import Derivatives, Jet, degree, gathered, in_terms, nested
from pann.network.level_sets import LevelSets
from pann.network.mlp import Network


@runtime_checkable
class HasFeatures(Protocol):
    """A user's network: psi at one point. Its derivatives are nested ones, and slower."""

    def features(self, x: Float[Array, " inputs"]) -> Float[Array, " width"]: ...


def feature_derivatives(
    network: Network | HasFeatures, x: Float[Array, "points d"], orders: Derivatives
) -> Jet:
    """D^order psi(x_i) for each order, a multi-index over the inputs: (0, 2) is d^2/dy^2."""
    check_orders(network, x.shape[1], orders)
    if not orders:
        return {}
    if isinstance(network, Network | LevelSets):
        return network.derivatives(x, orders)
    return gathered(nested(network.features, x, in_terms(orders)), orders)


def smoothness(activation: Activation) -> int | None:
    """How many derivatives the activation has: ReLU 1, RePU(p) p; None for infinitely many."""
    return None if math.isinf(activation.smoothness) else int(activation.smoothness)


def check_orders(network: Network | HasFeatures, num_inputs: int, orders: Derivatives) -> None:
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
