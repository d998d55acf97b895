"""Training by gradients: Adam and L-BFGS, learning rates, and balanced terms of a loss.

The steps between two records are one compiled program for all trials. A stage says by which
optimizer it steps; `descend` is the loop around it.
"""

import abc
import dataclasses
import functools
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Bool, Float, Int, Key, PRNGKeyArray, PyTree

from pann.io.checkpoint import Saved, packed, unpacked
from pann.model.pann import Parameters, trainable
from pann.numerics import lbfgs
from pann.numerics.lbfgs import Evaluate, Evaluated
from pann.numerics.least_squares import QR
from pann.runtime.compile import compiled
from pann.training.linear import TrialFactors, factorize_trials, solve_polynomial, solve_trials
from pann.training.loss import Loss, Rows, Terms, TrainingRows, weighted_sum
from pann.training.task import (
    CONVERGED,
    HELD_OUT,
    NOT_FINITE,
    RUNNING,
    STALLED,
    Outcome,
    Recorder,
    Stage,
    Task,
    check_counts,
    choose,
    map_trials,
    saved_history,
)

# ---- Learning rates, as a function of the step ----


class Rate(abc.ABC):
    """A schedule over a given number of steps."""

    @abc.abstractmethod
    def schedule(self, num_steps: int) -> optax.Schedule: ...


@dataclasses.dataclass(frozen=True)
class Constant(Rate):
    value: float = 1e-3

    def schedule(self, num_steps: int) -> optax.Schedule:
        return optax.constant_schedule(self.value)


@dataclasses.dataclass(frozen=True)
class Cosine(Rate):
    """From `value` to zero along half a cosine (the paper's regression experiments)."""

    value: float = 1e-3

    def schedule(self, num_steps: int) -> optax.Schedule:
        return optax.cosine_decay_schedule(self.value, num_steps)


@dataclasses.dataclass(frozen=True)
class Stepwise(Rate):
    """`value` times `factor` after every `every` steps (the paper's PDE experiments)."""

    value: float = 1e-3
    factor: float = 0.9
    every: int = 2_000

    def schedule(self, num_steps: int) -> optax.Schedule:
        return optax.exponential_decay(self.value, self.every, self.factor, staircase=True)


# ---- Balanced terms ----

# Of the mean length: gradients count as at least that long.
SMALLEST_LENGTH = 1e-3


@dataclasses.dataclass(frozen=True)
class GradNorm:
    """Weights that make the gradients of all terms of a loss equally long.

    They are updated after every `every` steps, as a moving average with this `memory`."""

    every: int = 1_000
    memory: float = 0.9

    def __post_init__(self) -> None:
        if self.every < 1:
            raise ValueError(f"every must be at least 1, got {self.every} in {self}")
        if not 0 <= self.memory < 1:
            raise ValueError(f"memory is a fraction in [0, 1), got {self.memory} in {self}")

    def update(self, weights: Terms, terms: Callable[[PyTree], Terms], moving: PyTree) -> Terms:
        """The weights after one look at the gradients of the terms by what moves."""
        norms = {
            name: _length(jax.grad(lambda tree, name=name: terms(tree)[name])(moving))
            for name in weights
        }
        mean = jnp.mean(jnp.stack(list(norms.values())))
        # A term that happens to be satisfied, as zero satisfies many equations, has no gradient.
        floor = jnp.maximum(SMALLEST_LENGTH * mean, jnp.finfo(mean.dtype).tiny)
        return {
            name: self.memory * weight + (1 - self.memory) * mean / jnp.maximum(norms[name], floor)
            for name, weight in weights.items()
        }


def _length(tree: PyTree) -> Float[Array, ""]:
    return jnp.sqrt(jnp.sum(jnp.stack([jnp.sum(leaf**2) for leaf in jax.tree.leaves(tree)])))


# ---- Stages ----


class GradientStage(Stage):
    """A stage that follows gradients; subclasses say by which optimizer.

    The loop reads these attributes, which are options of some stages and constants of others.
    """

    record_every: int
    batch_size: int | None
    patience: int | None
    tolerance: float
    balance: GradNorm | None

    @property
    @abc.abstractmethod
    def num_steps(self) -> int: ...

    @abc.abstractmethod
    def memory_of(self, vector: Float[Array, " size"]) -> PyTree:
        """What is remembered from step to step, before the first one."""

    @abc.abstractmethod
    def begin(self, evaluate: Evaluate, vector: Float[Array, " size"]) -> Evaluated:
        """Where the steps after a record begin."""

    @abc.abstractmethod
    def step(
        self, evaluate: Evaluate, point: Evaluated, memory: PyTree
    ) -> tuple[Evaluated, PyTree, Bool[Array, ""]]:
        """The next point, and whether it is stuck; figures may be those before the step."""

    def run(self, task: Task, trials: Parameters) -> tuple[Parameters, Outcome]:
        return descend(self, task, trials)


@dataclasses.dataclass(frozen=True)
class Adam(GradientStage):
    """Adam (Kingma and Ba 2015), full batch or minibatch; with `weight_decay`, AdamW.

    With `patience`, training stops when the held-out error has not improved for that many steps,
    and the best state is restored. `balance` keeps the terms of an equation's loss in balance.
    """

    steps: int = 20_000
    rate: Rate = dataclasses.field(default_factory=Cosine)
    batch_size: int | None = None
    weight_decay: float = 0.0
    patience: int | None = None
    record_every: int = 100
    balance: GradNorm | None = None
    tolerance = 0.0

    def __post_init__(self) -> None:
        check_counts(self, "steps", "batch_size", "patience", "record_every")
        if self.balance is not None and self.balance.every % self.record_every:
            raise ValueError(
                f"the weights are balanced every {self.balance.every} steps, but only between "
                f"records: use a record_every that divides it, got {self.record_every}"
            )

    @property
    def num_steps(self) -> int:
        return self.steps

    def memory_of(self, vector: Float[Array, " size"]) -> PyTree:
        return self._optimizer().init(vector)

    def begin(self, evaluate: Evaluate, vector: Float[Array, " size"]) -> Evaluated:
        shapes = jax.eval_shape(evaluate, vector)
        nothing = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
        return eqx.tree_at(lambda point: point.vector, nothing, vector)

    def step(
        self, evaluate: Evaluate, point: Evaluated, memory: PyTree
    ) -> tuple[Evaluated, PyTree, Bool[Array, ""]]:
        before = evaluate(point.vector)
        updates, memory = self._optimizer().update(before.gradient, memory, before.vector)
        after = eqx.tree_at(lambda point: point.vector, before, before.vector + updates)
        return after, memory, jnp.array(False)

    def _optimizer(self) -> optax.GradientTransformation:
        rate = self.rate.schedule(self.steps)
        if self.weight_decay:
            return optax.adamw(rate, weight_decay=self.weight_decay)
        return optax.adam(rate)


@dataclasses.dataclass(frozen=True)
class LBFGS(GradientStage):
    """L-BFGS (Liu and Nocedal 1989) with a line search for the strong Wolfe conditions.

    `tolerance` stops a trial once the largest entry of the gradient is below it.
    """

    iterations: int = 400
    memory: int = 50
    tolerance: float = 0.0
    record_every: int = 20
    batch_size = patience = balance = None

    def __post_init__(self) -> None:
        check_counts(self, "iterations", "memory", "record_every")

    @property
    def num_steps(self) -> int:
        return self.iterations

    def memory_of(self, vector: Float[Array, " size"]) -> PyTree:
        return lbfgs.empty_memory(self.memory, vector)

    def begin(self, evaluate: Evaluate, vector: Float[Array, " size"]) -> Evaluated:
        return evaluate(vector)

    def step(
        self, evaluate: Evaluate, point: Evaluated, memory: PyTree
    ) -> tuple[Evaluated, PyTree, Bool[Array, ""]]:
        after, memory, is_stuck, _ = lbfgs.iterate(evaluate, point, memory)
        return after, memory, is_stuck


# ---- The loop ----


class _State(eqx.Module):
    """One trial under way; all arrays."""

    parameters: Parameters
    memory: PyTree
    key: PRNGKeyArray
    step: Int[Array, "*trials"]
    code: Int[Array, "*trials"]
    best: Parameters
    best_error: Float[Array, "*trials"]
    best_step: Int[Array, "*trials"]


def descend(stage: GradientStage, task: Task, trials: Parameters) -> tuple[Parameters, Outcome]:
    """All steps of a stage from where the trials are, or from where they were interrupted."""
    exact = task.loss.constraint == "exact"
    factors = TrialFactors(None, None)
    # A projector needs all rows: with minibatches b moves freely, and is solved for at the end.
    if exact and stage.batch_size is None:
        factors = factorize_trials(task, trials)
    weights = task.weights(trials)
    state = _start(stage, trials, task.trial_keys(trials.keep_b.shape[0]))
    recorder = Recorder(stage, task, stage.num_steps)
    step, saved = 0, task.checkpoint.under_way()
    if saved is not None:
        state, step = unpacked("state", saved.arrays, state), saved.notes["step"]
        recorder.restore(saved)
    is_running = lambda: np.any(np.asarray(state.code) == RUNNING) and not recorder.stopped
    while step < stage.num_steps and is_running():
        count = min(stage.record_every, stage.num_steps - step)
        shared = (task.rows, task.held_out)
        state, values = _advance(
            stage, task.loss, task.cases, state, weights, factors, shared, jnp.asarray(count)
        )
        step += count
        recorder.record(step, values | task.watch(state.parameters))
        task.checkpoint.keep(functools.partial(_under_way, state, step, recorder.history))
    trained = state.best if stage.patience is not None else state.parameters
    if exact and stage.batch_size is not None:
        trained, _ = solve_trials(task, trained, "polynomial")
    return trained, recorder.outcome(np.asarray(state.code))


def _under_way(state: _State, step: int, history: dict[str, np.ndarray]) -> Saved:
    arrays, notes = saved_history(history)
    return Saved(arrays | packed("state", state), notes | {"step": step})


@compiled
def _start(stage: GradientStage, trials: Parameters, keys: Key[Array, " trials"]) -> _State:
    def one(parameters: Parameters, key: PRNGKeyArray) -> _State:
        moving, _ = eqx.partition(parameters, trainable(parameters))
        return _State(
            parameters=parameters,
            memory=stage.memory_of(ravel_pytree(moving)[0]),
            key=key,
            step=jnp.array(0),
            code=jnp.array(RUNNING),
            best=parameters,
            best_error=jnp.array(jnp.inf, parameters.b.dtype),
            best_step=jnp.array(0),
        )

    return jax.tree.map(_with_own_type, eqx.filter_vmap(one)(trials, keys))


def _with_own_type(leaf: Array) -> Array:
    """Not weakly typed, as what comes out of a step is: another type would compile again."""
    is_key = jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
    return leaf if is_key else jax.lax.convert_element_type(leaf, leaf.dtype)


@compiled
def _advance(
    stage: GradientStage,
    loss: Loss,
    cases: int | None,
    states: _State,
    weights: Float[Array, "trials points"],
    factors: TrialFactors,
    shared: tuple[TrainingRows, TrainingRows | None],
    count: Int[Array, ""],
) -> tuple[_State, dict[str, Float[Array, " trials"]]]:
    """`count` steps of every trial, and the figures after them."""

    def one(
        trial: tuple[_State, Float[Array, " points"], QR | None],
        shared: tuple[tuple[TrainingRows, TrainingRows | None], QR | None],
    ) -> tuple[_State, Terms]:
        (state, weight, own), ((rows, held_out), common) = trial, shared
        weighted = eqx.tree_at(lambda r: r.weights, rows, weight)
        descent = _Descent(stage, loss, weighted, common if own is None else own, state)
        return descent.advance(state, count, held_out)

    return map_trials(one, cases, (states, weights, factors.own), (shared, factors.common))


class _Descent:
    """The loss of one trial as a function of one vector, for the steps between two records.

    An optimizer that goes leaf by leaf would spend its time on calls.
    """

    def __init__(
        self,
        stage: GradientStage,
        loss: Loss,
        rows: TrainingRows,
        factors: QR | None,
        state: _State,
    ):
        self.stage, self.loss, self.rows, self.factors = stage, loss, rows, factors
        self.projector = None if factors is None else factors.q
        moving, fixed = eqx.partition(state.parameters, trainable(state.parameters))
        balance, weights = stage.balance, state.parameters.balance
        if balance is not None and weights:
            terms_of = lambda moving: loss.terms(eqx.combine(moving, fixed), rows, self.projector)
            balanced = jax.lax.cond(
                state.step % balance.every == 0,
                lambda: balance.update(weights, terms_of, moving),
                lambda: weights,
            )
            fixed = eqx.tree_at(lambda p: p.balance, fixed, balanced)
        self.fixed = fixed
        self.vector, self.tree_of = ravel_pytree(moving)
        self.key = jax.random.fold_in(state.key, state.step)
        self.order = None
        if stage.batch_size is not None:
            self.order = jax.random.permutation(self.key, rows.num_points)

    def parameters(self, vector: Float[Array, " size"]) -> Parameters:
        return eqx.combine(self.tree_of(vector), self.fixed)

    def evaluation(self, index: Int[Array, ""]) -> Evaluate:
        """Value and gradient at the step with this index: each has its own batch and dropout."""
        batch, dropout_key = self.rows, None
        if self.order is not None:
            num_rows = self.rows.num_points
            size = min(self.stage.batch_size or num_rows, num_rows)
            batch = self.rows.take(self.order[(index * size + jnp.arange(size)) % num_rows])
        if self.fixed.network is not None and self.fixed.network.dropout > 0:
            dropout_key = jax.random.fold_in(self.key, index + 1)

        def terms(vector: Float[Array, " size"]) -> tuple[Float[Array, ""], Terms]:
            whole = self.parameters(vector)
            each = self.loss.terms(whole, batch, self.projector, dropout_key)
            return weighted_sum(each, whole), each

        def evaluate(vector: Float[Array, " size"]) -> Evaluated:
            (value, each), gradient = jax.value_and_grad(terms, has_aux=True)(vector)
            return Evaluated(vector, value, gradient, each)

        return evaluate

    def step(self, index: Int[Array, ""], carry: tuple) -> tuple:
        """One step of a trial that runs; one that has stopped keeps its state."""
        point, memory, code, sums = carry
        # Without a gradient a trial that has stopped does not search while the others do.
        slope = jnp.where(code == RUNNING, point.gradient, 0.0)
        start = eqx.tree_at(lambda point: point.gradient, point, slope)
        after, new_memory, is_stuck = self.stage.step(self.evaluation(index), start, memory)
        is_finite = jnp.isfinite(after.value)
        new_code = jnp.where(is_stuck, STALLED, code)
        is_flat = _largest(after.gradient) <= self.stage.tolerance
        new_code = jnp.where(is_flat, CONVERGED, new_code)
        new_code = jnp.where(is_finite, new_code, NOT_FINITE)
        go_on = (code == RUNNING) & is_finite
        return (
            choose(go_on, after, point),
            choose(go_on, new_memory, memory),
            jnp.where(code == RUNNING, new_code, code),
            jax.tree.map(jnp.add, sums, after.details),
        )

    def advance(
        self, state: _State, count: Int[Array, ""], held_out: TrainingRows | None
    ) -> tuple[_State, Terms]:
        """The state after so many steps, with the best so far, and its figures."""
        first = self.stage.begin(self.evaluation(jnp.array(0)), self.vector)
        dtype = self.rows.weights.dtype
        nothing = {name: jnp.zeros((), dtype) for name in self.loss.names(self.rows)}
        point, memory, code, sums = jax.lax.fori_loop(
            0, count, self.step, (first, state.memory, state.code, nothing)
        )
        parameters, values = self.record(point.vector, sums, count)
        # The update before a loss that is not finite may itself be the culprit: go back to the
        # state of the last record.
        figures = jnp.stack([*values.values(), _largest(point.vector)])
        is_finite = jnp.all(jnp.isfinite(figures))
        parameters = choose(is_finite, parameters, state.parameters)
        code = jnp.where(is_finite, code, NOT_FINITE)
        best, best_error, best_step = parameters, state.best_error, state.best_step
        now, patience = state.step + count, self.stage.patience
        if held_out is not None:
            error = values["held_out"] = held_out.error(parameters)
            is_better = error < best_error
            best = choose(is_better, parameters, state.best)
            best_error = jnp.where(is_better, error, best_error)
            best_step = jnp.where(is_better, now, best_step)
            if patience is not None:
                is_over = (now - best_step >= patience) & (code == RUNNING)
                code = jnp.where(is_over, HELD_OUT, code)
        new = _State(parameters, memory, state.key, now, code, best, best_error, best_step)
        return new, values

    def record(
        self, vector: Float[Array, " size"], sums: Terms, count: Int[Array, ""]
    ) -> tuple[Parameters, Terms]:
        """The parameters with their b, and the terms of the loss there."""
        parameters = self.parameters(vector)
        if self.factors is not None:
            rows = self.rows
            assert isinstance(rows, Rows)
            parameters = solve_polynomial(parameters, rows, rows.weights, self.factors, exact=True)
        if self.stage.batch_size is None:
            return parameters, dict(self.loss.terms(parameters, self.rows, self.projector))
        # A pass over all rows at each record would cost more than the steps between them.
        return parameters, {name: value / count for name, value in sums.items()}


def _largest(vector: Float[Array, " parameters"]) -> Float[Array, ""]:
    return jnp.max(jnp.abs(vector), initial=0.0)
