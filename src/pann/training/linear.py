"""The linear half is solved for: elimination of b, and the stages LeastSquares and Ridge.

With W = diag(weights) and W Phi = Q R, the best b for a given network is
b = R^-1 Q^T W (y - Psi a), and what no polynomial can fit is (I - Q Q^T) W (Psi a - y).
"""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from pann.model.pann import Parameters
from pann.numerics.least_squares import QR, factorize, ridge
from pann.points import subsample
from pann.training.loss import Rows, project
from pann.training.task import CONVERGED, ROUND_OFF, Outcome, Recorder, Stage, Task

PARTS = ("both", "polynomial", "network")
RIDGE_ROWS = 50_000
Weights = Float[Array, " points"]


class TrialFactors(eqx.Module):
    """W Phi = Q R of every trial, stacked in `own`, or one in `common` for all trials."""

    own: QR | None
    common: QR | None

    def of(self, own: QR | None) -> QR:
        """The factors of a trial whose entry of `own` is given."""
        factors = self.common if own is None else own
        assert factors is not None
        return factors


def factorize_trials(task: Task, trials: Parameters) -> TrialFactors:
    """One factorization while all trials have the same terms, else one for each.

    On an axis with two values P2 repeats 1: the coefficient of such a term is zero.
    """
    weights, kept = task.weights(trials), np.asarray(trials.keep_b)
    # Columns that hold the kept terms of every trial: few sizes, so that few are compiled.
    size, most = 1, int(np.max(np.sum(kept, axis=1)))
    while size < most:
        size *= 8
    size = min(size, kept.shape[1])
    table = task.data.table
    if np.all(kept == kept[:1]):
        return TrialFactors(None, _factorize(table, weights[0], trials.keep_b[0], size))
    return TrialFactors(_factorize_each(table, weights, trials.keep_b, size), None)


_factorize = eqx.filter_jit(factorize)


@eqx.filter_jit
def _factorize_each(table: Array, weights: Array, kept: Array, size: int) -> QR:
    return jax.lax.map(lambda row: factorize(table, row[0], row[1], size), (weights, kept))


# ---- One trial ----


def round_off(rows: Rows, weights: Weights) -> Float[Array, ""]:
    """A residual norm below this is rounding: nothing is left to fit."""
    target = weights[:, None] * rows.target
    return 200 * jnp.finfo(target.dtype).eps * jnp.linalg.norm(target)


def _is_at_round_off(parameters: Parameters, rows: Rows, weights: Weights) -> Bool[Array, ""]:
    residual = weights[:, None] * (parameters.output(rows.x, rows.table) - rows.target)
    return jnp.linalg.norm(residual) <= round_off(rows, weights)


@eqx.filter_jit
def _are_at_round_off(
    trials: Parameters, rows: Rows, weights: Float[Array, "trials points"]
) -> Bool[Array, " trials"]:
    return jax.vmap(lambda p, w: _is_at_round_off(p, rows, w))(trials, weights)


def all_at_round_off(task: Task, trials: Parameters) -> bool:
    """Whether every trial fits the training rows to rounding already."""
    return bool(np.all(_are_at_round_off(trials, task.data, task.weights(trials))))


def solve_polynomial(
    parameters: Parameters, rows: Rows, weights: Weights, factors: QR, *, exact: bool
) -> Parameters:
    """The best b for the network as it is; under the exact constraint, the overlap as well."""
    network = parameters.network_output(parameters.features(rows.x))
    overlap = factors.solve(weights[:, None] * network)
    b = factors.solve(weights[:, None] * rows.target) - overlap
    return eqx.tree_at(
        lambda p: (p.b, p.overlap),
        parameters,
        (b, overlap if exact else jnp.zeros_like(overlap)),
    )


def solve_network(
    parameters: Parameters,
    rows: Rows,
    weights: Weights,
    projector: Float[Array, "points rank"] | None,
) -> Parameters:
    """The best a (and bias) for what the projector leaves, by a truncated SVD.

    Features that lie in the span of the polynomials carry only rounding after the projection:
    directions below 1e-9 of a feature's own length are left out, not amplified. Where nothing but
    rounding is left to fit, a is zero.
    """
    features = parameters.features(rows.x)
    if parameters.bias is not None:
        features = jnp.concatenate([features, jnp.ones_like(features[:, :1])], axis=1)
    features = weights[:, None] * features
    lengths = jnp.linalg.norm(features, axis=0)
    lengths = jnp.where(lengths > 0, lengths, 1.0)
    target = weights[:, None] * rows.target
    if projector is None:
        target = target - weights[:, None] * parameters.polynomial_output(rows.table)
    else:
        # Twice, so that the rest is orthogonal to round-off although most of it was removed.
        target = project(project(target, projector), projector)
        features = project(project(features, projector), projector)
    left, values, right = jnp.linalg.svd(features / lengths, full_matrices=False)
    cut = 1e-9 if features.dtype == jnp.float64 else 1e-4
    inverse = jnp.where(values > cut, 1 / jnp.where(values > cut, values, 1.0), 0.0)
    a = right.T @ (inverse[:, None] * (left.T @ target)) / lengths[:, None]
    a = jnp.where(jnp.linalg.norm(target) > round_off(rows, weights), a, 0.0)
    if parameters.bias is not None:
        parameters = eqx.tree_at(lambda p: p.bias, parameters, a[-1])
        a = a[:-1]
    return eqx.tree_at(lambda p: p.a, parameters, a)


# ---- Stages ----


@dataclasses.dataclass(frozen=True)
class LeastSquares(Stage):
    """Solve for the coefficients by QR: a and b together, b alone, or a alone.

    `alone` switches the network off (a = 0) before b is solved for: the plain polynomial fit. The
    weak constraints are not sums of squares and are left out. Under the exact constraint b goes
    with a, and `network` is the same as `both`.
    """

    part: str = "both"
    alone: bool = False

    def __post_init__(self) -> None:
        if self.part not in PARTS:
            raise ValueError(f"there is no part '{self.part}'; choose one of {', '.join(PARTS)}")
        if self.alone and self.part != "polynomial":
            raise ValueError(f"alone=True goes with part='polynomial', got part='{self.part}'")

    def run(self, task: Task, trials: Parameters) -> tuple[Parameters, Outcome]:
        recorder = Recorder(self, task, 1)
        if self.alone:
            trials = eqx.tree_at(lambda p: p.a, trials, jnp.zeros_like(trials.a))
        trials, at_round_off = solve_trials(task, trials, self.part)
        recorder.record(1, task.figures(trials))
        codes = np.where(np.asarray(at_round_off), ROUND_OFF, CONVERGED)
        return trials, recorder.outcome(codes)


def solve_trials(
    task: Task, trials: Parameters, part: str
) -> tuple[Parameters, Bool[Array, " trials"]]:
    """The coefficients of a part of each trial, and which trials are at round-off then."""
    exact = task.loss.constraint == "exact"
    factors = TrialFactors(None, None)
    if part != "network" or exact:
        factors = factorize_trials(task, trials)
    return _solve(part, exact, trials, task.data, task.weights(trials), factors)


@eqx.filter_jit
def _solve(
    part: str,
    exact: bool,
    trials: Parameters,
    rows: Rows,
    weights: Float[Array, "trials points"],
    factors: TrialFactors,
) -> tuple[Parameters, Bool[Array, " trials"]]:
    def one(row: tuple[Parameters, Array, QR | None]) -> tuple[Parameters, Array]:
        parameters, weight, own = row
        own = factors.common if own is None else own
        if part != "polynomial" and len(parameters.a):  # units, or products without a network
            projector = None if own is None else own.q
            parameters = solve_network(parameters, rows, weight, projector)
        if own is not None:
            parameters = solve_polynomial(parameters, rows, weight, own, exact=exact)
        return parameters, _is_at_round_off(parameters, rows, weight)

    return jax.lax.map(one, (trials, weights, factors.own))


@dataclasses.dataclass(frozen=True)
class Ridge(Stage):
    """Solve for b alone, the network off, with the penalty that predicts left-out rows best.

    For rows with noise. At most 50,000 rows, drawn at random, are used.
    """

    def run(self, task: Task, trials: Parameters) -> tuple[Parameters, Outcome]:
        recorder = Recorder(self, task, 1)
        some = task.rows.take(jnp.asarray(subsample(task.rows.num_points, RIDGE_ROWS)))
        assert isinstance(some, Rows)
        table, target, weights = (
            np.asarray(array, float) for array in (some.table, some.target, some.weights)
        )
        solved = ridge(table, target, weights**2)
        b = jnp.asarray(solved.coefficients, trials.b.dtype) * trials.keep_b[..., None]
        trials = eqx.tree_at(
            lambda p: (p.a, p.b, p.overlap),
            trials,
            (jnp.zeros_like(trials.a), b, jnp.zeros_like(trials.overlap)),
        )
        recorder.record(1, task.figures(trials))
        note = f"penalty {solved.penalty:.1e}, left-out error {solved.error:.3g}"
        return trials, recorder.outcome(np.full(len(trials.keep_b), CONVERGED), (note,))
