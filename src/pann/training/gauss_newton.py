"""Levenberg-Marquardt on the network, with the polynomial half eliminated.

Residual and Jacobian are projected onto the complement of the polynomials, (I - Q Q^T) W J: b is
not damped at all (`pann.numerics.levenberg_marquardt`). A rejected step multiplies the damping of
the network's parameters by 4, an accepted one divides it by 3.
"""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Int
from threadpoolctl import threadpool_limits

from pann.model.pann import Parameters, trainable
from pann.numerics.least_squares import QR
from pann.numerics.levenberg_marquardt import (
    Damping,
    damped_problem,
    first_damping,
    try_steps,
)
from pann.training.constraints import CONSTRAINTS
from pann.training.linear import TrialFactors, factorize_trials, round_off, solve_polynomial
from pann.training.loss import Loss, Rows, TrainingRows, project
from pann.training.task import (
    CONVERGED,
    HELD_OUT,
    NOT_FINITE,
    ROUND_OFF,
    RUNNING,
    STALLED,
    Outcome,
    Recorder,
    Stage,
    Task,
    check_counts,
    choose,
)


@dataclasses.dataclass(frozen=True)
class GaussNewton(Stage):
    """Levenberg-Marquardt steps on all of the model, b eliminated.

    A trial stops when `patience` iterations in a row lower the loss by less than `tolerance`
    (relative) each, or, with rows held out, when the held-out error has not fallen for `patience`
    iterations; then the state with the lowest held-out error is restored.
    """

    iterations: int = 200
    damping: float = 1e-2
    tolerance: float = 1e-4
    patience: int = 40
    record_every: int = 5

    def __post_init__(self) -> None:
        check_counts(self, "iterations", "patience", "record_every")
        if self.damping <= 0:
            raise ValueError(f"damping must be positive, got {self.damping}")

    # On a CPU the factorizations of each iteration go to OpenBLAS, whose threads spin while XLA's
    # want the cores: next to another busy process that is tens of times slower.
    @threadpool_limits.wrap(limits=1)
    def run(self, task: Task, trials: Parameters) -> tuple[Parameters, Outcome]:
        recorder = Recorder(self, task, self.iterations)
        notes = []
        if task.loss.constraint in CONSTRAINTS or task.loss.constraint == "l1":
            notes.append(
                f"the constraint {task.loss.constraint} is not a sum of squares and was left out"
            )
        num_trials = trials.keep_b.shape[0]
        if trials.network is None:
            notes.append("there is no network to train; use LeastSquares for the polynomial")
            return trials, recorder.outcome(np.full(num_trials, CONVERGED), tuple(notes))
        weights, factors = task.weights(trials), factorize_trials(task, trials)
        # One program serves stages that differ only in how long they run.
        stage = dataclasses.replace(self, iterations=1, record_every=1)
        program = _Training(stage, task.loss, task.data, task.held_out, weights, factors)
        state, step = program.start_all(trials), 0
        is_running = lambda: np.any(np.asarray(state.code) == RUNNING) and not recorder.stopped
        while step < self.iterations and is_running():
            count = min(self.record_every, self.iterations - step)
            state, values = program.advance_all(state, jnp.asarray(count))
            step += count
            recorder.record(step, values)
        return state.best, recorder.outcome(np.asarray(state.code), tuple(notes))


class ProjectedResidual(eqx.Module):
    """W (Psi a - y) of one trial and its Jacobian, without what polynomials can fit."""

    rows: Rows
    weights: Float[Array, " points"]
    projector: Float[Array, "points rank"]

    def residual(self, parameters: Parameters) -> Float[Array, "points outputs"]:
        output = parameters.network_output(parameters.features(self.rows.x))
        return project(self.weights[:, None] * (output - self.rows.target), self.projector)

    def jacobian(self, parameters: Parameters) -> Float[Array, "rows parameters"]:
        """W du/dtheta at every point, projected; rows are points times outputs."""
        moving, fixed = eqx.partition(network_only(parameters), trainable(parameters))

        def output(moving: Parameters, x: Float[Array, " d"]) -> Float[Array, " outputs"]:
            whole = eqx.combine(moving, fixed)
            return whole.network_output(whole.features(x[None]))[0]

        def row(x: Float[Array, " d"]) -> Float[Array, "outputs parameters"]:
            jacobian = jax.jacrev(output)(moving, x)
            return jax.vmap(lambda tree: ravel_pytree(tree)[0])(jacobian)

        jacobian = jax.vmap(row)(self.rows.x) * self.weights[:, None, None]
        points, outputs, count = jacobian.shape
        jacobian = project(jacobian.reshape(points, outputs * count), self.projector)
        return jacobian.reshape(points * outputs, count)


def network_only(parameters: Parameters) -> Parameters:
    """The parameters with no polynomial terms: what the damped step moves."""
    return eqx.tree_at(lambda p: p.b, parameters, replace_fn=lambda b: b[:0])


def moved_network(parameters: Parameters, step: Float[Array, " parameters"]) -> Parameters:
    """The parameters less a step of all that trains in the network's half."""
    moving, fixed = eqx.partition(parameters, trainable(parameters))
    flat, unravel = ravel_pytree(network_only(moving))
    return eqx.combine(eqx.tree_at(lambda p: p.b, unravel(flat - step), moving.b), fixed)


class _State(eqx.Module):
    parameters: Parameters
    damping: Damping
    sum_of_squares: Float[Array, "*trials"]
    code: Int[Array, "*trials"]
    slow: Int[Array, "*trials"]
    best: Parameters
    best_error: Float[Array, "*trials"]


class _Training(eqx.Module):
    """What a trial is trained with, or all of them."""

    stage: GaussNewton = eqx.field(static=True)
    loss: Loss = eqx.field(static=True)
    rows: Rows
    held_out: TrainingRows | None
    weights: Float[Array, "*trials points"]
    factors: TrialFactors

    @property
    def qr(self) -> QR:
        return self.factors.of(self.factors.own)

    @property
    def problem(self) -> ProjectedResidual:
        return ProjectedResidual(self.rows, self.weights, self.qr.q)

    def solved(self, parameters: Parameters) -> Parameters:
        """With the b that belongs to the network."""
        exact = self.loss.constraint == "exact"
        return solve_polynomial(parameters, self.rows, self.weights, self.qr, exact=exact)

    def start(self, parameters: Parameters) -> _State:
        value = jnp.sum(self.problem.residual(parameters) ** 2)
        # Whatever b came along: a trial that is at round-off already is not touched any more.
        is_done = jnp.sqrt(value) <= round_off(self.rows, self.weights)
        parameters = self.solved(parameters)
        error = jnp.array(jnp.inf, value.dtype)
        if self.held_out is not None:
            error = self.held_out.error(parameters)
        return _State(
            parameters,
            first_damping(self.stage.damping, value.dtype),
            value,
            jnp.where(is_done, ROUND_OFF, RUNNING),
            jnp.array(0),
            parameters,
            error,
        )

    def iterate(self, state: _State) -> _State:
        """One accepted step, or the code that says why there is none."""
        stage, before = self.stage, state.parameters
        problem = damped_problem(
            self.problem.jacobian(before), self.problem.residual(before).ravel()
        )

        def propose(damping: Array, length: Array) -> tuple[Parameters, Array, Array]:
            step, _, predicted = problem.step(damping)
            proposal = moved_network(before, step)
            return proposal, jnp.sum(self.problem.residual(proposal) ** 2), predicted

        tried = try_steps(propose, before, state.sum_of_squares, state.damping)
        parameters = choose(tried.accepted, tried.point, before)
        decrease = 1 - jnp.sqrt(tried.value / state.sum_of_squares)
        value = jnp.where(tried.accepted, tried.value, state.sum_of_squares)
        if self.held_out is None:
            best, best_error, reason = parameters, state.best_error, CONVERGED
            is_faster = decrease > stage.tolerance
        else:
            error, reason = self.held_out.error(self.solved(parameters)), HELD_OUT
            best = choose(error < state.best_error, parameters, state.best)
            best_error = jnp.minimum(error, state.best_error)
            is_faster = error < (1 - stage.tolerance) * state.best_error
        slow = jnp.where(is_faster, 0, state.slow + 1)
        code = jnp.where(slow >= stage.patience, reason, RUNNING)
        code = jnp.where(tried.accepted, code, STALLED)
        code = jnp.where(jnp.sqrt(value) <= round_off(self.rows, self.weights), ROUND_OFF, code)
        code = jnp.where(jnp.isfinite(value), code, NOT_FINITE)
        return _State(parameters, tried.damping, value, code, slow, best, best_error)

    def advance(
        self, state: _State, count: Int[Array, ""]
    ) -> tuple[_State, dict[str, Float[Array, ""]]]:
        """Up to `count` iterations, and the figures after them."""
        _, state = jax.lax.while_loop(
            lambda carry: (carry[0] < count) & (carry[1].code == RUNNING),
            lambda carry: (carry[0] + 1, self.iterate(carry[1])),
            (0, state),
        )
        parameters = self.solved(state.parameters)
        state = eqx.tree_at(
            lambda s: (s.parameters, s.best), state, (parameters, self.solved(state.best))
        )
        weighted = eqx.tree_at(lambda r: r.weights, self.rows, self.weights)
        values = dict(self.loss.terms(parameters, weighted))
        if self.held_out is not None:
            values["held_out"] = self.held_out.error(parameters)
        return state, values

    # ---- All trials, as compiled programs ----

    def _of_trial(self, weights: Float[Array, " points"], own: QR | None) -> "_Training":
        factors = TrialFactors(own, self.factors.common)
        return dataclasses.replace(self, weights=weights, factors=factors)

    @eqx.filter_jit
    def start_all(self, trials: Parameters) -> _State:
        one = lambda parameters, *own: self._of_trial(*own).start(parameters)
        return eqx.filter_vmap(one)(trials, self.weights, self.factors.own)

    @eqx.filter_jit
    def advance_all(
        self, states: _State, count: Int[Array, ""]
    ) -> tuple[_State, dict[str, Float[Array, " trials"]]]:
        # One trial after another inside the program: their Jacobians together would not fit.
        one = lambda row: self._of_trial(*row[1:]).advance(row[0], count)
        return jax.lax.map(one, (states, self.weights, self.factors.own))
