"""Levenberg-Marquardt on the network with the polynomial half eliminated.

b is not damped at all: the residual and its Jacobian are projected onto the complement of the
polynomials, (I - Q Q^T) W J, which is what zero damping on b amounts to and does not square the
condition of the basis. The network's parameters (and a) are damped by lambda after scaling the
normal matrix to unit diagonal; columns shorter than a tenth of the root mean square count as that
long. A rejected step multiplies lambda by 4, an accepted one divides it by 3. With more parameters
than residuals the same step is solved in the space of residuals.
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
from pann.training.constraints import CONSTRAINTS
from pann.training.linear import Factors, factorize_trials, round_off, solve_polynomial
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
)

MAX_TRIES = 10
LENGTH_FLOOR = 0.1


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
        for name in ("iterations", "patience", "record_every"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.damping <= 0:
            raise ValueError(f"damping must be positive, got {self.damping}")

    def run(self, task: Task, trials: Parameters) -> tuple[Parameters, Outcome]:
        # On a CPU the factorizations of each iteration go to OpenBLAS, whose threads spin while
        # XLA's want the cores: beside another busy process that is tens of times slower.
        with threadpool_limits(1):
            return self._run(task, trials)

    def _run(self, task: Task, trials: Parameters) -> tuple[Parameters, Outcome]:
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
        weights = task.weights(trials)
        factors, axis = factorize_trials(task, trials)
        # One program serves stages that differ only in how long they run.
        program = dataclasses.replace(self, iterations=1, record_every=1)
        state = _start(program, task.loss, trials, task.data, task.held_out, weights, factors, axis)
        step = 0
        is_running = lambda: np.any(np.asarray(state.code) == RUNNING) and not recorder.stopped
        while step < self.iterations and is_running():
            count = min(self.record_every, self.iterations - step)
            state, values = _advance(
                program,
                task.loss,
                state,
                jnp.asarray(count),
                task.data,
                task.held_out,
                weights,
                factors,
                axis,
            )
            step += count
            recorder.record(step, values)
        return state.best, recorder.outcome(np.asarray(state.code), tuple(notes))


class _State(eqx.Module):
    parameters: Parameters
    damping: Float[Array, "*trials"]
    sum_of_squares: Float[Array, "*trials"]
    code: Int[Array, "*trials"]
    slow: Int[Array, "*trials"]
    best: Parameters
    best_error: Float[Array, "*trials"]


class _Problem(eqx.Module):
    """One trial's least-squares problem in the flat vector of its network parameters."""

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


def _step(
    problem: _Problem, state: _State, jacobian: Float[Array, "rows parameters"]
) -> tuple[Parameters, Float[Array, ""], Float[Array, ""], Array]:
    """One damped step, tried with more and more damping until the sum of squares falls."""
    residual = problem.residual(state.parameters)
    gradient = jacobian.T @ residual.ravel()
    num_rows, count = jacobian.shape
    lengths = jnp.linalg.norm(jacobian, axis=0)
    # Full unit scaling throws parameters that hardly matter too far; the floor holds them.
    lengths = jnp.maximum(lengths, LENGTH_FLOOR * jnp.sqrt(jnp.mean(lengths**2)))
    lengths = jnp.where(lengths > 0, lengths, 1.0)
    in_residual_space = count > num_rows
    scaled = jacobian / lengths
    normal = scaled @ scaled.T if in_residual_space else scaled.T @ scaled
    floor = 10 * jnp.finfo(normal.dtype).eps
    moving, fixed = eqx.partition(state.parameters, trainable(state.parameters))
    flat, unravel = ravel_pytree(network_only(moving))

    def attempt(carry: tuple) -> tuple:
        _, damping, _, _, tries = carry
        damped = normal + (damping + floor) * jnp.eye(normal.shape[0], dtype=normal.dtype)
        factor = jax.scipy.linalg.cho_factor(damped)
        if in_residual_space:
            step = scaled.T @ jax.scipy.linalg.cho_solve(factor, residual.ravel())
        else:
            step = jax.scipy.linalg.cho_solve(factor, gradient / lengths)
        moved = eqx.tree_at(lambda p: p.b, unravel(flat - step / lengths), moving.b)
        proposal = eqx.combine(moved, fixed)
        value = jnp.sum(problem.residual(proposal) ** 2)
        accepted = value < state.sum_of_squares
        return proposal, jnp.where(accepted, damping / 3, damping * 4), value, accepted, tries + 1

    start = (state.parameters, state.damping, state.sum_of_squares, jnp.array(False), 0)
    proposal, damping, value, accepted, _ = jax.lax.while_loop(
        lambda carry: ~carry[3] & (carry[4] < MAX_TRIES), attempt, start
    )
    return proposal, damping, value, accepted


@eqx.filter_jit
def _start(
    stage: GaussNewton,
    loss: Loss,
    trials: Parameters,
    rows: Rows,
    held_out: TrainingRows | None,
    weights: Float[Array, "trials points"],
    factors: Factors,
    axis: int | None,
) -> _State:
    def one(parameters: Parameters, weight: Array, own: Factors) -> _State:
        value = jnp.sum(_Problem(rows, weight, own.q).residual(parameters) ** 2)
        done = jnp.sqrt(value) <= round_off(rows, weight)
        # Whatever b came along: a trial that is at round-off already is not touched any more.
        parameters = solve_polynomial(
            parameters, rows, weight, own, exact=loss.constraint == "exact"
        )
        error = jnp.array(jnp.inf, value.dtype)
        if held_out is not None:
            error = held_out.error(parameters)
        return _State(
            parameters,
            jnp.array(stage.damping, value.dtype),
            value,
            jnp.where(done, ROUND_OFF, RUNNING),
            jnp.array(0),
            parameters,
            error,
        )

    return eqx.filter_vmap(one, in_axes=(0, 0, axis))(trials, weights, factors)


@eqx.filter_jit
def _advance(
    stage: GaussNewton,
    loss: Loss,
    states: _State,
    count: Int[Array, ""],
    rows: Rows,
    held_out: TrainingRows | None,
    weights: Float[Array, "trials points"],
    factors: Factors,
    axis: int | None,
) -> tuple[_State, dict[str, Float[Array, " trials"]]]:
    exact = loss.constraint == "exact"

    def iteration(problem: _Problem, own: Factors, state: _State) -> _State:
        jacobian = problem.jacobian(state.parameters)
        proposal, damping, value, accepted = _step(problem, state, jacobian)
        choose = lambda new, old: jax.tree.map(lambda n, o: jnp.where(accepted, n, o), new, old)
        parameters = choose(proposal, state.parameters)
        decrease = 1 - jnp.sqrt(value / state.sum_of_squares)
        value = jnp.where(accepted, value, state.sum_of_squares)
        if held_out is None:
            best, best_error = parameters, state.best_error
            slow = jnp.where(decrease > stage.tolerance, 0, state.slow + 1)
            code = jnp.where(slow >= stage.patience, CONVERGED, RUNNING)
        else:
            solved = solve_polynomial(parameters, problem.rows, problem.weights, own, exact=exact)
            error = held_out.error(solved)
            better = error < state.best_error
            best = jax.tree.map(lambda n, o: jnp.where(better, n, o), parameters, state.best)
            best_error = jnp.minimum(error, state.best_error)
            slow = jnp.where(error < (1 - stage.tolerance) * state.best_error, 0, state.slow + 1)
            code = jnp.where(slow >= stage.patience, HELD_OUT, RUNNING)
        code = jnp.where(accepted, code, STALLED)
        small = jnp.sqrt(value) <= round_off(problem.rows, problem.weights)
        code = jnp.where(small, ROUND_OFF, code)
        code = jnp.where(jnp.isfinite(value), code, NOT_FINITE)
        return _State(parameters, damping, value, code, slow, best, best_error)

    def one(row: tuple) -> tuple:
        state = eqx.combine(row[0], static)
        own = factors if axis is None else row[2]
        problem = _Problem(rows, row[1], own.q)

        def body(carry: tuple) -> tuple:
            done, current = carry
            new = iteration(problem, own, eqx.combine(current, static))
            return done + 1, eqx.filter(new, eqx.is_array)

        _, state_arrays = jax.lax.while_loop(
            lambda carry: (carry[0] < count) & (carry[1].code == RUNNING),
            body,
            (0, eqx.filter(state, eqx.is_array)),
        )
        state = eqx.combine(state_arrays, static)
        # Every state that leaves here has the b that belongs to its network.
        finish = lambda p: solve_polynomial(p, rows, row[1], own, exact=exact)
        state = eqx.tree_at(
            lambda s: (s.parameters, s.best), state, (finish(state.parameters), finish(state.best))
        )
        weighted = eqx.tree_at(lambda r: r.weights, rows, row[1])
        values = dict(loss.terms(state.parameters, weighted))
        if held_out is not None:
            values["held_out"] = held_out.error(state.parameters)
        return eqx.filter(state, eqx.is_array), values

    dynamic, static = eqx.partition(states, eqx.is_array)
    parts = (dynamic, weights) if axis is None else (dynamic, weights, factors)
    # One trial after another inside the program: their Jacobians together would not fit.
    advanced, values = jax.lax.map(one, parts)
    return eqx.combine(advanced, static), values
