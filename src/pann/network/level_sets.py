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
from pann.network.embeddings import PolynomialEmbedding


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

    @property
    def dropout(self) -> float:
        """Zero: a unit has no others that could stand in for it."""
        return 0.0

    @property
    def embedding(self) -> None:
        """None: the units see the coordinates."""
        return None

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
        terms = self.polynomials(x)
        p = self.weights @ terms[: self.weights.shape[1]]
        profiles = jnp.stack(self.activation.derivatives(p, self.num_derivatives), axis=-1)
        psi = (profiles[..., None] * terms[: self.num_amplitudes]).ravel()
        return psi if self.kept is None else psi[self.kept]

    def select(self, kept: Int[np.ndarray, " kept"]) -> "LevelSets":
        """The same units with only these psi."""
        before = np.arange(self.num_features) if self.kept is None else np.asarray(self.kept)
        return eqx.tree_at(
            lambda network: network.kept,
            self,
            jnp.asarray(before[kept]),
            is_leaf=lambda node: node is None,
        )
