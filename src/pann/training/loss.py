"""What training makes small: weighted residuals, and the terms of the paper's loss (eq. 3.7).

    mean_i |K_i (u(x_i) - y_i)|^2 + lambda_r (|a|_1 + |b|_1) + lambda_c |C|

Under the exact constraint the residual is projected onto the complement of the polynomials,
(I - Q Q^T) K (Psi a - y) with Q an orthonormal basis of the columns of K Phi: b is eliminated, the
polynomial half is that of plain least squares, and the network fits what that leaves.
"""

import abc
import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from pann.model.pann import Parameters
from pann.training.constraints import (
    CONSTRAINTS,
    Half,
    constraint_norm,
    root,
    squared_norm,
    weighed_squares,
)

CONSTRAINT_NAMES = ("none", *CONSTRAINTS, "l1", "exact")
NORMS = ("frobenius", "spectral")
REDUCTIONS = ("mean", "sum")
CONSTRAINT = "constraint"
# What the two halves at some points add to the constraint.
Measure = Callable[[Half, Half], Float[Array, ""]]
Terms = dict[str, Float[Array, ""]]


class SumOptions(NamedTuple):
    """How squares are summed: of projected residuals, with dropout by a key, next to a measure."""

    reduction: str = "sum"
    projector: Float[Array, "points rank"] | None = None
    key: PRNGKeyArray | None = None
    measure: Measure | None = None


class TrainingRows(eqx.Module):
    """What a loss sums squares over: rows of data, or an equation with its conditions."""

    weights: eqx.AbstractVar[Float[Array, " points"]]

    @property
    @abc.abstractmethod
    def names(self) -> tuple[str, ...]:
        """The names of the sums of squares."""

    @property
    @abc.abstractmethod
    def num_points(self) -> int:
        """The points that minibatches are drawn from, and that the constraints see."""

    @abc.abstractmethod
    def squares(self, parameters: Parameters, options: SumOptions) -> Terms:
        """Each sum of squares by name, and what the points measure as `CONSTRAINT`."""

    @abc.abstractmethod
    def density(self, squares: Float[Array, " terms"]) -> Float[Array, " points"]:
        """sum_k squares_k phi_k(x)^2 at all points that `weights` weighs; K is made from it."""

    @abc.abstractmethod
    def error(self, parameters: Parameters) -> Float[Array, ""]:
        """How far the parameters are from fitting these rows, as one number."""

    @abc.abstractmethod
    def take(self, chosen: Int[Array, " chosen"] | slice) -> "TrainingRows":
        """Some of the points."""


def halves(
    parameters: Parameters,
    features: Float[Array, "points width"],
    table: Float[Array, "points terms"],
) -> tuple[Half, Half]:
    """The network's and the polynomial's half at some points."""
    return (
        Half(features, parameters.kept_a, parameters.keep_a),
        Half(table, parameters.kept_b, parameters.keep_b),
    )


class Rows(TrainingRows):
    """Training or held-out rows: reference points, basis table, targets, weights K."""

    x: Float[Array, "points d"]
    table: Float[Array, "points terms"]
    target: Float[Array, "points outputs"]
    weights: Float[Array, " points"]
    names = ("data",)

    @property
    def num_points(self) -> int:
        return self.x.shape[0]

    def squares(self, parameters: Parameters, options: SumOptions) -> Terms:
        features = parameters.features(self.x, options.key)
        residual = parameters.network_output(features) - self.target
        if options.projector is None:
            residual = residual + parameters.polynomial_output(self.table)
        residual = project(self.weights[:, None] * residual, options.projector)
        data = jnp.sum(residual**2)
        terms = {"data": data / self.num_points if options.reduction == "mean" else data}
        if options.measure is not None:
            terms[CONSTRAINT] = options.measure(*halves(parameters, features, self.table))
        return terms

    def density(self, squares: Float[Array, " terms"]) -> Float[Array, " points"]:
        return self.table**2 @ squares

    def error(self, parameters: Parameters) -> Float[Array, ""]:
        """|W (u - y)| / |W y|, W the sample weights; |W (u - y)| where y is zero."""
        weights = self.weights[:, None]
        difference = parameters.output(self.x, self.table) - self.target
        size = jnp.linalg.norm(weights * self.target)
        return jnp.linalg.norm(weights * difference) / jnp.where(size > 0, size, 1.0)

    def take(self, chosen: Int[Array, " chosen"] | slice) -> "Rows":
        return jax.tree.map(lambda array: array[chosen], self)


@dataclasses.dataclass(frozen=True)
class Loss:
    """Options of the loss, as in the paper by default.

    Where trials have constraints of their own, `mixed` are all of them, in place of `constraint`;
    `Parameters.penalties` has the weights, zero for the constraints of others.
    """

    constraint: str = "E"
    constraint_weight: float = 1e-3
    norm: str = "frobenius"
    reduction: str = "mean"
    # Not in the repr: users do not give it, and checkpoints identify a loss by its repr.
    mixed: tuple[str, ...] = dataclasses.field(default=(), repr=False)

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
        if self.mixed and self.norm != "frobenius":
            raise ValueError("several constraints have Frobenius norms only; give norm='frobenius'")

    @property
    def constraints(self) -> tuple[str, ...]:
        """The constraint, or those of all trials."""
        return self.mixed or (self.constraint,)

    def names(self, rows: TrainingRows) -> tuple[str, ...]:
        """The names of the terms."""
        weak = (CONSTRAINT,) if any(name in CONSTRAINTS for name in self.constraints) else ()
        return (*rows.names, *weak, *(("l1",) if "l1" in self.constraints else ()))

    def terms(
        self,
        parameters: Parameters,
        rows: TrainingRows,
        projector: Float[Array, "points rank"] | None = None,
        key: PRNGKeyArray | None = None,
    ) -> Terms:
        """Each term of the loss by name; their sum is what gradient training minimizes."""
        measure = self._measure(parameters)
        terms = rows.squares(parameters, SumOptions(self.reduction, projector, key, measure))
        if measure is not None:
            norm = terms[CONSTRAINT] if self.norm == "spectral" else root(terms[CONSTRAINT])
            terms[CONSTRAINT] = norm if self.mixed else self.constraint_weight * norm
        if "l1" in self.constraints:
            weight = parameters.penalties["l1"] if self.mixed else self.constraint_weight
            terms["l1"] = weight * (
                jnp.sum(jnp.abs(parameters.kept_a)) + jnp.sum(jnp.abs(parameters.kept_b))
            )
        return terms

    def _measure(self, parameters: Parameters) -> Measure | None:
        """The square of the Frobenius norm, which adds up over points, or the spectral norm."""
        weak = [name for name in self.constraints if name in CONSTRAINTS]
        if not weak:
            return None
        if self.mixed:
            # The root of the sum is the one norm that has a weight, times that.
            squares = {name: parameters.penalties[name] ** 2 for name in weak}
            return functools.partial(weighed_squares, squares)
        if self.norm == "spectral":
            return functools.partial(constraint_norm, weak[0], norm="spectral")
        return functools.partial(squared_norm, weak[0])

    def total(self, parameters: Parameters, rows: TrainingRows) -> Float[Array, ""]:
        return weighted_sum(self.terms(parameters, rows), parameters)


def weighted_sum(terms: Mapping[str, Float[Array, ""]], parameters: Parameters) -> Float[Array, ""]:
    """What gradients follow: the terms times their weights, where those are not fixed."""
    weighted = [parameters.balance.get(name, 1.0) * value for name, value in terms.items()]
    return sum(weighted, jnp.zeros(()))


def project(
    residual: Float[Array, "points columns"], projector: Float[Array, "points rank"] | None
) -> Float[Array, "points columns"]:
    """Remove from each column what lies in the span of the projector's orthonormal columns."""
    if projector is None:
        return residual
    # Not projector.T @ residual: XLA takes a CPU ten times as long for that with few columns.
    return residual - projector @ (residual.T @ projector).T
