"""Units along curves: an activation of a low-degree polynomial, with an amplitude that varies.

    psi_jrk(x) = P_k(x) f^(r)(p_j(x)),    p_j(x) = sum_l w_jl P_l(x)

P are products of Legendre polynomials of a total degree. With f = tanh and w large psi is a front
along the curve p_j = 0, straight for p_j of degree 1; P_k lets its height vary along the curve, and
the derivatives f^(r) correct its place and its profile to the r-th order in its width.
"""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from pann.network.activations import Activation
from pann.network.embeddings import PolynomialEmbedding, embed
from pann.network.jets import (
    Derivatives,
    Jet,
    compose,
    degree,
    linear,
    multiply,
    propagated,
    value_of,
)


class LevelSets(eqx.Module):
    """x -> psi(x), one unit for each row of `weights`; `kept` are the psi that are left, if any.

    `degree` is that of p_j, `amplitude_degree` that of P_k, and r goes up to `num_derivatives`.
    """

    weights: Float[Array, "units terms"]
    kept: Int[Array, " kept"] | None
    activation: Activation = eqx.field(static=True)
    num_inputs: int = eqx.field(static=True)
    degree: int = eqx.field(static=True)
    amplitude_degree: int = eqx.field(static=True)
    num_derivatives: int = eqx.field(static=True)
    dropout = 0.0  # a unit has no others that could stand in for it
    embedding = None  # the units see the coordinates

    @property
    def polynomials(self) -> PolynomialEmbedding:
        """What P_l and P_k are the first terms of."""
        return PolynomialEmbedding(self.num_inputs, max(self.degree, self.amplitude_degree))

    @property
    def num_amplitudes(self) -> int:
        return PolynomialEmbedding(self.num_inputs, self.amplitude_degree).num_outputs

    @property
    def num_features(self) -> int:
        """Of all psi, kept or not."""
        return self.weights.shape[0] * (self.num_derivatives + 1) * self.num_amplitudes

    @property
    def width(self) -> int:
        return self.num_features if self.kept is None else self.kept.shape[0]

    def features(
        self, x: Float[Array, " inputs"], key: PRNGKeyArray | None = None
    ) -> Float[Array, " width"]:
        """psi(x) at one point; the key is not used, for there is no dropout."""
        value = (0,) * x.shape[0]
        return self.derivatives(x[None], (value,))[value][0]

    def derivatives(self, x: Float[Array, "points inputs"], orders: Derivatives) -> Jet:
        """These derivatives of psi at the points; every r from the same derivatives of f."""
        needed = propagated(orders)
        terms = embed(self.polynomials, x, needed)
        size = self.weights.shape[1]
        p = linear(self.weights, 0.0, {order: each[:, :size] for order, each in terms.items()})
        highest = max(map(degree, orders))
        profile = self.activation.derivatives(value_of(p), highest + self.num_derivatives)
        profiles = [compose(profile[r:], p, needed) for r in range(self.num_derivatives + 1)]
        # A column for each unit, derivative and amplitude.
        repeats, tiles = self.num_amplitudes, self.weights.shape[0] * len(profiles)
        front, amplitude = {}, {}
        for order, each in terms.items():
            rows = jnp.stack([jet[order] for jet in profiles], axis=2).reshape(len(x), -1)
            front[order] = jnp.repeat(rows, repeats, axis=1)
            amplitude[order] = jnp.tile(each[:, :repeats], (1, tiles))
        jet = multiply(front, amplitude, orders)
        return jet if self.kept is None else {o: each[:, self.kept] for o, each in jet.items()}

    def select(self, kept: Int[np.ndarray, " kept"]) -> "LevelSets":
        """The same units with only these psi."""
        before = np.arange(self.num_features) if self.kept is None else np.asarray(self.kept)
        return eqx.tree_at(
            lambda network: network.kept,
            self,
            jnp.asarray(before[kept]),
            is_leaf=lambda node: node is None,
        )
