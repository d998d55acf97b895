"""The linear half is solved, not crawled to: orthonormal factors, elimination of b, LeastSquares.

With W = diag(weights) and W Phi = Q R, the best b for a given network is
b = R^-1 Q^T W (y - Psi a), and what no polynomial can fit is (I - Q Q^T) W (Psi a - y).
"""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from pann.model.pann import Parameters
from pann.training.loss import Rows, project
from pann.training.task import CONVERGED, ROUND_OFF, Outcome, Recorder, Stage, Task

PARTS = ("both", "polynomial", "network")


class Factors(eqx.Module):
    """W Phi = Q R over the kept terms, which stand first in `order`; Q is zero in the others.

    Where few terms are kept the columns of most others are left out: `rank` may be below `terms`.
    """

    q: Float[Array, "points rank"]
    r: Float[Array, "rank rank"]
    order: Int[Array, " terms"]

    def solve(self, right: Float[Array, "points outputs"]) -> Float[Array, "terms outputs"]:
        """The least-squares coefficients for weighted right-hand sides."""
        solved = jax.scipy.linalg.solve_triangular(self.r, (right.T @ self.q).T)
        coefficients = jnp.zeros((self.order.shape[0], right.shape[1]), right.dtype)
        return coefficients.at[self.order[: self.q.shape[1]]].set(solved)


def factorize(
    table: Float[Array, "points terms"],
    weights: Float[Array, " points"],
    kept: Bool[Array, " terms"],
    size: int | None = None,
) -> Factors:
    """Factors of the kept terms, but for those that depend on earlier ones at these points.

    On an axis with two values P2 repeats 1: the coefficient of such a term is zero, not a
    quotient of roundings. `size` is the number of columns, if not that of all terms.
    """
    factors = _factorize_kept(table, weights, kept, size)
    rounding = 10 * jnp.sqrt(1.0 * table.shape[0]) * jnp.finfo(table.dtype).eps
    lengths = jnp.linalg.norm(factors.r, axis=0)
    depends = jnp.abs(jnp.diagonal(factors.r)) <= rounding.astype(table.dtype) * lengths
    columns = factors.order[: factors.q.shape[1]]
    independent = kept & ~jnp.zeros_like(kept).at[columns].set(depends)
    return jax.lax.cond(
        jnp.any(depends),
        lambda: _factorize_kept(table, weights, independent, size),
        lambda: factors,
    )


def _factorize_kept(
    table: Float[Array, "points terms"],
    weights: Float[Array, " points"],
    kept: Bool[Array, " terms"],
    size: int | None,
) -> Factors:
    order = jnp.argsort(~kept, stable=True)
    first = order[:size]
    active = kept[first]
    q, r = jnp.linalg.qr(weights[:, None] * table[:, first] * active)
    # Columns of pruned terms are zero and stand last: what QR invents for them is dropped.
    both = active[:, None] & active[None, :]
    return Factors(q * active, jnp.where(both, r, jnp.eye(r.shape[0], dtype=r.dtype)), order)


def is_same_for_all_trials(trials: Parameters) -> bool:
    """Whether no trial has pruned terms that another one kept, so that one factor serves all."""
    kept = np.asarray(trials.keep_b)
    return bool(np.all(kept == kept[:1]))


def factorize_trials(task: Task, trials: Parameters) -> tuple[Factors, int | None]:
    """Factors, shared (axis None) while the trials have the same terms, else stacked (axis 0)."""
    weights = task.weights(trials)
    size = _num_columns(trials)
    if is_same_for_all_trials(trials):
        return _factorize(size, task.data.table, weights[0], trials.keep_b[0]), None
    return _factorize_each(size, task.data.table, weights, trials.keep_b), 0


@eqx.filter_jit
def _factorize(size: int, table: Array, weights: Array, kept: Array) -> Factors:
    """Factors of one trial, with the columns of the first `size` terms of their order."""
    return factorize(table, weights, kept, size)


@eqx.filter_jit
def _factorize_each(size: int, table: Array, weights: Array, kept: Array) -> Factors:
    return jax.lax.map(lambda row: _factorize(size, table, *row), (weights, kept))


def _num_columns(trials: Parameters) -> int:
    """Columns that hold the kept terms of every trial: few sizes, so that few are compiled."""
    kept, num_terms = int(np.max(np.sum(trials.keep_b, axis=1))), trials.keep_b.shape[1]
    size = 1
    while size < kept:
        size *= 8
    return min(size, num_terms)


def round_off(rows: Rows, weights: Float[Array, " points"]) -> Float[Array, ""]:
    """A residual norm below this is rounding: nothing is left to fit."""
    target = weights[:, None] * rows.target
    return 200 * jnp.finfo(target.dtype).eps * jnp.linalg.norm(target)


def _is_at_round_off(
    parameters: Parameters, rows: Rows, weights: Float[Array, " points"]
) -> Bool[Array, ""]:
    residual = weights[:, None] * (parameters.output(rows.x, rows.table) - rows.target)
    return jnp.linalg.norm(residual) <= round_off(rows, weights)


@eqx.filter_jit
def _are_at_round_off(
    trials: Parameters, rows: Rows, weights: Float[Array, "trials points"]
) -> Bool[Array, " trials"]:
    return jax.vmap(lambda p, w: _is_at_round_off(p, rows, w))(trials, weights)


def at_round_off(
    task: Task, trials: Parameters, weights: Float[Array, "trials points"]
) -> Bool[Array, " trials"]:
    """Which trials fit the training rows to rounding already."""
    return _are_at_round_off(trials, task.data, weights)


def solve_polynomial(
    parameters: Parameters,
    rows: Rows,
    weights: Float[Array, " points"],
    factors: Factors,
    *,
    exact: bool,
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
    weights: Float[Array, " points"],
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
        weights = task.weights(trials)
        factors, axis = (None, None)
        exact = task.loss.constraint == "exact"
        if self.part != "network" or exact:
            factors, axis = factorize_trials(task, trials)
        trials, at_round_off = _solve(self.part, exact, trials, task.data, weights, factors, axis)
        recorder.record(1, task.figures(trials))
        codes = np.where(np.asarray(at_round_off), ROUND_OFF, CONVERGED)
        return trials, recorder.outcome(codes)


@eqx.filter_jit
def _solve(
    part: str,
    exact: bool,
    trials: Parameters,
    rows: Rows,
    weights: Float[Array, "trials points"],
    factors: Factors | None,
    axis: int | None,
) -> tuple[Parameters, Bool[Array, " trials"]]:
    dynamic, static = eqx.partition(trials, eqx.is_array)
    parts = (dynamic, weights) if axis is None else (dynamic, weights, factors)

    def one(row: tuple) -> tuple[Parameters, Array]:
        parameters, weight = eqx.combine(row[0], static), row[1]
        own = factors if axis is None else row[2]
        if part != "polynomial" and parameters.network is not None:
            projector = None if own is None else own.q
            parameters = solve_network(parameters, rows, weight, projector)
        if own is not None:
            parameters = solve_polynomial(parameters, rows, weight, own, exact=exact)
        return eqx.filter(parameters, eqx.is_array), _is_at_round_off(parameters, rows, weight)

    solved, small = jax.lax.map(one, parts)
    return eqx.combine(solved, static), small


def finish_exact(task: Task, trials: Parameters) -> Parameters:
    """Give trials trained with b eliminated their b and overlap."""
    factors, axis = factorize_trials(task, trials)
    weights = task.weights(trials)
    return _finish(trials, task.data, weights, factors, axis, task.loss.constraint == "exact")


@eqx.filter_jit
def _finish(
    trials: Parameters,
    rows: Rows,
    weights: Float[Array, "trials points"],
    factors: Factors,
    axis: int | None,
    exact: bool,
) -> Parameters:
    solve = lambda p, w, f: solve_polynomial(p, rows, w, f, exact=exact)
    return eqx.filter_vmap(solve, in_axes=(0, 0, axis))(trials, weights, factors)
