"""What training makes small: weighted residuals, and the terms of the paper's loss (eq. 3.7).

    mean_i |K_i (u(x_i) - y_i)|^2 + lambda_r (|a|_1 + |b|_1) + lambda_c |C|

Under the exact constraint the residual is projected onto the complement of the polynomials,
(I - Q Q^T) K (Psi a - y) with Q an orthonormal basis of the columns of K Phi: b is eliminated, the
polynomial half is that of plain least squares, and the network fits what that leaves.
"""

import dataclasses

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from pann.model import Parameters
from pann.orthogonality import CONSTRAINTS, Half, constraint_norm

CONSTRAINT_NAMES = ("none", *CONSTRAINTS, "l1", "exact")
NORMS = ("frobenius", "spectral")
REDUCTIONS = ("mean", "sum")


class Rows(eqx.Module):
    """Training or held-out rows: reference points, basis table, targets, weights K."""

    x: Float[Array, "points d"]
    table: Float[Array, "points terms"]
    target: Float[Array, "points outputs"]
    weights: Float[Array, " points"]


@dataclasses.dataclass(frozen=True)
class Loss:
    """Options of the loss, as in the paper by default."""

    constraint: str = "E"
    constraint_weight: float = 1e-3
    norm: str = "frobenius"
    reduction: str = "mean"

    def __post_init__(self) -> None:
        for option, value, choices in (
            ("constraint", self.constraint, CONSTRAINT_NAMES),
            ("norm", self.norm, NORMS),
            ("reduction", self.reduction, REDUCTIONS),
        ):
            if value not in choices:
                raise ValueError(
                    f"there is no {option} '{value}'; choose one of {', '.join(choices)}"
                )
        if self.constraint_weight < 0:
            raise ValueError(
                f"constraint_weight must not be negative, got {self.constraint_weight}"
            )

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the terms."""
        if self.constraint == "l1":
            return ("data", "l1")
        return ("data", "constraint") if self.constraint in CONSTRAINTS else ("data",)

    def terms(
        self,
        parameters: Parameters,
        rows: Rows,
        projector: Float[Array, "points rank"] | None = None,
        key: PRNGKeyArray | None = None,
    ) -> dict[str, Float[Array, ""]]:
        """Each term of the loss by name; their sum is what gradient training minimizes."""
        features = parameters.features(rows.x, key)
        residual = parameters.network_output(features) - rows.target
        if projector is None:
            residual = residual + parameters.polynomial_output(rows.table)
        residual = project(rows.weights[:, None] * residual, projector)
        data = jnp.sum(residual**2)
        if self.reduction == "mean":
            data = data / rows.x.shape[0]
        terms = {"data": data}
        if self.constraint == "l1":
            terms["l1"] = self.constraint_weight * (
                jnp.sum(jnp.abs(parameters.kept_a)) + jnp.sum(jnp.abs(parameters.kept_b))
            )
        elif self.constraint in CONSTRAINTS:
            terms["constraint"] = self.constraint_weight * constraint_norm(
                self.constraint,
                Half(features, parameters.kept_a, parameters.keep_a),
                Half(rows.table, parameters.kept_b, parameters.keep_b),
                norm=self.norm,
            )
        return terms

    def total(
        self,
        parameters: Parameters,
        rows: Rows,
        projector: Float[Array, "points rank"] | None = None,
        key: PRNGKeyArray | None = None,
    ) -> Float[Array, ""]:
        return sum(self.terms(parameters, rows, projector, key).values(), jnp.zeros(()))


def project(
    residual: Float[Array, "points columns"], projector: Float[Array, "points rank"] | None
) -> Float[Array, "points columns"]:
    """Remove from each column what lies in the span of the projector's orthonormal columns."""
    if projector is None:
        return residual
    return residual - projector @ (projector.T @ residual)


def relative_error(parameters: Parameters, rows: Rows) -> Float[Array, ""]:
    """|W (u - y)| / |W y| over the rows, W their sample weights; |W (u - y)| where y is zero."""
    weights = rows.weights[:, None]
    difference = parameters.output(rows.x, rows.table) - rows.target
    size = jnp.linalg.norm(weights * rows.target)
    return jnp.linalg.norm(weights * difference) / jnp.where(size > 0, size, 1.0)
