"""Learning rates as a function of the step."""

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
from pann.runtime.compile import compiled
from pann.training.linear import Factors, factorize_trials, finish_exact, solve_polynomial
from pann.training.loss import Loss, Rows, TrainingRows, weighted_sum
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
    map_trials,
    saved_history,
)


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


# ---- GradNorm: weights that make the gradients of all terms of a loss equally long ----


Terms = dict[str, Float[Array, ""]]
# Of the mean length: gradients count as at least that long.
SMALLEST_SHARE = 1e-3


@dataclasses.dataclass(frozen=True)
class GradNorm:
    """New weights every so many steps, as a moving average with this `memory`."""

    every: int = 1_000
    memory: float = 0.9

    def __post_init__(self) -> None:
        if self.every < 1:
            raise ValueError(f"every must be at least 1, got {self.every} in {self}")
        if not 0 <= self.memory < 1:
            raise ValueError(f"memory is a share in [0, 1), got {self.memory} in {self}")

    def update(self, weights: Terms, terms: Callable[[PyTree], Terms], moving: PyTree) -> Terms:
        """The weights after one look at the gradients of the terms by what moves."""
        norms = {
            name: _length(jax.grad(lambda tree, name=name: terms(tree)[name])(moving))
            for name in weights
        }
        mean = jnp.mean(jnp.stack(list(norms.values())))
        # A term that happens to be satisfied, as zero satisfies many equations, has no gradient.
        floor = jnp.maximum(SMALLEST_SHARE * mean, jnp.finfo(mean.dtype).tiny)
        return {
            name: self.memory * weight + (1 - self.memory) * mean / jnp.maximum(norms[name], floor)
            for name, weight in weights.items()
        }


def _length(tree: PyTree) -> Float[Array, ""]:
    return jnp.sqrt(jnp.sum(jnp.stack([jnp.sum(leaf**2) for leaf in jax.tree.leaves(tree)])))


# ---- Loops of gradient training inside the compiled program, for all optimizers ----


class GradientStage(Stage):
    """A stage that follows gradients; subclasses say by which optimizer."""

    @property
    @abc.abstractmethod
    def num_steps(self) -> int: ...

    @property
    @abc.abstractmethod
    def record_every(self) -> int: ...

    @abc.abstractmethod
    def memory_of(self, vector: Float[Array, " size"]) -> PyTree:
        """What is remembered from step to step, before the first one."""

    @abc.abstractmethod
    def begin(self, evaluate: Evaluate, vector: Float[Array, " size"]) -> Evaluated:
        """Where a chunk of steps begins."""

    @abc.abstractmethod
    def step(
        self, evaluate: Evaluate, place: Evaluated, memory: PyTree
    ) -> tuple[Evaluated, PyTree, Bool[Array, ""]]:
        """The next place, and whether there is no way on; figures may be those before the step."""

    @property
    @abc.abstractmethod
    def minibatch(self) -> int | None: ...

    @property
    @abc.abstractmethod
    def patience_steps(self) -> int | None: ...

    @property
    @abc.abstractmethod
    def gradient_tolerance(self) -> float: ...

    @property
    @abc.abstractmethod
    def balancing(self) -> GradNorm | None: ...


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
    factors, axis = None, None
    exact = task.loss.constraint == "exact"
    # A projector needs all rows: with minibatches b moves freely, and is solved for at the end.
    if exact and stage.minibatch is None:
        factors, axis = factorize_trials(task, trials)
    num_trials = trials.keep_b.shape[0]
    weights = task.weights(trials)
    state = _start(stage, trials, task.trial_keys(num_trials))
    recorder = Recorder(stage, task, stage.num_steps)
    step, saved = 0, task.checkpoint.under_way()
    if saved is not None:
        state, step = unpacked("state", saved.arrays, state), saved.notes["step"]
        recorder.restore(saved)
    is_running = lambda: np.any(np.asarray(state.code) == RUNNING) and not recorder.stopped
    while step < stage.num_steps and is_running():
        count = min(stage.record_every, stage.num_steps - step)
        state, values = _advance(
            stage,
            task.loss,
            state,
            jnp.asarray(count),
            task.rows,
            task.held_out,
            weights,
            factors,
            axis,
            task.cases,
        )
        step += count
        recorder.record(step, values | task.watch(state.parameters))
        task.checkpoint.keep(functools.partial(_under_way, state, step, recorder.history))
    trained = state.best if stage.patience_steps is not None else state.parameters
    if exact and stage.minibatch is not None:
        trained = finish_exact(task, trained)
    return trained, recorder.outcome(np.asarray(state.code))


def _under_way(state: _State, step: int, history: dict[str, np.ndarray]) -> Saved:
    arrays, notes = saved_history(history)
    return Saved(arrays | packed("state", state), notes | {"step": step})


@compiled
def _start(stage: GradientStage, trials: Parameters, keys: Key[Array, " trials"]) -> _State:
    def one(parameters: Parameters, key: PRNGKeyArray) -> _State:
        moving, _ = eqx.partition(parameters, trainable(parameters))
        dtype = parameters.b.dtype
        return _State(
            parameters,
            stage.memory_of(ravel_pytree(moving)[0]),
            key,
            jnp.array(0),
            jnp.array(RUNNING),
            parameters,
            jnp.array(jnp.inf, dtype),
            jnp.array(0),
        )

    return jax.tree.map(_with_own_type, eqx.filter_vmap(one)(trials, keys))


def _with_own_type(leaf: Array) -> Array:
    """What comes out of a step has a type of its own, and going in with another compiles again."""
    is_key = jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
    return leaf if is_key else jax.lax.convert_element_type(leaf, leaf.dtype)


@compiled
def _advance(
    stage: GradientStage,
    loss: Loss,
    states: _State,
    count: Int[Array, ""],
    rows: TrainingRows,
    held_out: TrainingRows | None,
    weights: Float[Array, "trials points"],
    factors: Factors | None,
    axis: int | None,
    cases: int | None,
) -> tuple[_State, dict[str, Float[Array, " trials"]]]:
    def one(
        trial: tuple[_State, Float[Array, " points"], Factors | None],
        shared: tuple[TrainingRows, TrainingRows | None, Factors | None],
    ) -> tuple[_State, dict[str, Array]]:
        (state, weight, own), (rows, held_out, common) = trial, shared
        own = common if own is None else own
        num_rows = rows.num_points
        weighted = eqx.tree_at(lambda r: r.weights, rows, weight)
        projector = None if own is None else own.q
        spec = trainable(state.parameters)
        moving, fixed = eqx.partition(state.parameters, spec)
        balancing = stage.balancing
        if balancing is not None and state.parameters.balance:
            terms_of = lambda moving: loss.terms(eqx.combine(moving, fixed), weighted, projector)
            weights_now = state.parameters.balance
            balance = jax.lax.cond(
                state.step % balancing.every == 0,
                lambda: balancing.update(weights_now, terms_of, moving),
                lambda: weights_now,
            )
            fixed = eqx.tree_at(lambda p: p.balance, fixed, balance)
        chunk_key = jax.random.fold_in(state.key, state.step)
        batch_size = min(stage.minibatch or num_rows, num_rows)
        order = None
        if stage.minibatch is not None:
            order = jax.random.permutation(chunk_key, num_rows)

        # One vector: an optimizer that goes leaf by leaf spends its time on calls.
        vector, tree_of = ravel_pytree(moving)

        def evaluation(index: Array) -> Evaluate:
            batch, dropout_key = weighted, None
            if order is not None:
                chosen = order[(index * batch_size + jnp.arange(batch_size)) % num_rows]
                batch = weighted.take(chosen)
            if state.parameters.network is not None and state.parameters.network.dropout > 0:
                dropout_key = jax.random.fold_in(chunk_key, index + 1)

            def terms(vector: Array) -> tuple[Float[Array, ""], dict[str, Float[Array, ""]]]:
                whole = eqx.combine(tree_of(vector), fixed)
                each = loss.terms(whole, batch, projector, dropout_key)
                return weighted_sum(each, whole), each

            def evaluate(vector: Float[Array, " size"]) -> Evaluated:
                (value, each), gradient = jax.value_and_grad(terms, has_aux=True)(vector)
                return Evaluated(vector, value, gradient, each)

            return evaluate

        def step(index: Array, carry: tuple[Evaluated, PyTree, Array, PyTree]) -> tuple:
            place, memory, code, sums = carry
            # Without a gradient a trial that has stopped does not search while the others do.
            slope = jnp.where(code == RUNNING, place.gradient, 0.0)
            start = eqx.tree_at(lambda place: place.gradient, place, slope)
            after, new_memory, is_stuck = stage.step(evaluation(index), start, memory)
            is_flat = _largest(after.gradient) <= stage.gradient_tolerance
            new_code = jnp.where(is_stuck, STALLED, code)
            new_code = jnp.where(is_flat, CONVERGED, new_code)
            new_code = jnp.where(jnp.isfinite(after.value), new_code, NOT_FINITE)
            # A trial that has stopped keeps its state while the others go on.
            go_on = (code == RUNNING) & jnp.isfinite(after.value)
            keep = lambda new, old: jnp.where(go_on, new, old)
            return (
                jax.tree.map(keep, after, place),
                jax.tree.map(keep, new_memory, memory),
                jnp.where(code == RUNNING, new_code, code),
                jax.tree.map(jnp.add, sums, after.details),
            )

        nothing = {name: jnp.zeros((), weight.dtype) for name in loss.names(rows)}
        first = stage.begin(evaluation(jnp.array(0)), vector)
        place, memory, code, sums = jax.lax.fori_loop(
            0, count, step, (first, state.memory, state.code, nothing)
        )
        vector = place.vector
        parameters = eqx.combine(tree_of(vector), fixed)
        if own is not None:
            assert isinstance(rows, Rows)
            parameters = solve_polynomial(parameters, rows, weight, own, exact=True)
        if stage.minibatch is None:
            values = dict(loss.terms(parameters, weighted, projector))
        else:
            # A pass over all rows at each record would cost more than the steps between them.
            values = {name: value / count for name, value in sums.items()}
        # The update before a loss that is not finite may itself be the culprit: go back to the
        # state of the last record.
        finite = jnp.all(jnp.stack([jnp.isfinite(value) for value in values.values()]))
        finite &= jnp.isfinite(_largest(vector))
        parameters = jax.tree.map(
            lambda new, old: jnp.where(finite, new, old), parameters, state.parameters
        )
        code = jnp.where(finite, code, NOT_FINITE)
        best, best_error, best_step = state.best, state.best_error, state.best_step
        now = state.step + count
        if held_out is not None:
            error = held_out.error(parameters)
            values["held_out"] = error
            better = error < best_error
            best = jax.tree.map(lambda new, old: jnp.where(better, new, old), parameters, best)
            best_error = jnp.where(better, error, best_error)
            best_step = jnp.where(better, now, best_step)
            if stage.patience_steps is not None:
                tired = (now - best_step >= stage.patience_steps) & (code == RUNNING)
                code = jnp.where(tired, HELD_OUT, code)
        else:
            best = parameters
        new = _State(parameters, memory, state.key, now, code, best, best_error, best_step)
        return new, values

    own, common = (None, factors) if axis is None else (factors, None)
    return map_trials(one, cases, (states, weights, own), (rows, held_out, common))


def _largest(vector: Float[Array, " parameters"]) -> Float[Array, ""]:
    return jnp.max(jnp.abs(vector), initial=0.0)


# ---- Gradient training: Adam and L-BFGS ----


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

    def __post_init__(self) -> None:
        _check_counts(self, "steps", "batch_size", "patience", "record_every")
        if self.balance is not None and self.balance.every % self.record_every:
            raise ValueError(
                f"the weights are balanced every {self.balance.every} steps, but only between "
                f"records: use a record_every that divides it, got {self.record_every}"
            )

    @property
    def num_steps(self) -> int:
        return self.steps

    @property
    def minibatch(self) -> int | None:
        return self.batch_size

    @property
    def patience_steps(self) -> int | None:
        return self.patience

    @property
    def gradient_tolerance(self) -> float:
        return 0.0

    @property
    def balancing(self) -> GradNorm | None:
        return self.balance

    def memory_of(self, vector: Float[Array, " size"]) -> PyTree:
        return self._optimizer().init(vector)

    def begin(self, evaluate: Evaluate, vector: Float[Array, " size"]) -> Evaluated:
        shapes = jax.eval_shape(evaluate, vector)
        nothing = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
        return eqx.tree_at(lambda place: place.vector, nothing, vector)

    def step(
        self, evaluate: Evaluate, place: Evaluated, memory: PyTree
    ) -> tuple[Evaluated, PyTree, Bool[Array, ""]]:
        before = evaluate(place.vector)
        updates, memory = self._optimizer().update(before.gradient, memory, before.vector)
        after = eqx.tree_at(lambda place: place.vector, before, before.vector + updates)
        return after, memory, jnp.array(False)

    def _optimizer(self) -> optax.GradientTransformation:
        rate = self.rate.schedule(self.steps)
        if self.weight_decay:
            return optax.adamw(rate, weight_decay=self.weight_decay)
        return optax.adam(rate)

    def run(self, task: Task, trials: Parameters) -> tuple[Parameters, Outcome]:
        return descend(self, task, trials)


@dataclasses.dataclass(frozen=True)
class LBFGS(GradientStage):
    """L-BFGS (Liu and Nocedal 1989) with a line search for the strong Wolfe conditions.

    `tolerance` stops a trial once the largest entry of the gradient is below it.
    """

    iterations: int = 400
    memory: int = 50
    tolerance: float = 0.0
    record_every: int = 20

    def __post_init__(self) -> None:
        _check_counts(self, "iterations", "memory", "record_every")

    @property
    def num_steps(self) -> int:
        return self.iterations

    @property
    def minibatch(self) -> int | None:
        return None

    @property
    def patience_steps(self) -> int | None:
        return None

    @property
    def gradient_tolerance(self) -> float:
        return self.tolerance

    @property
    def balancing(self) -> GradNorm | None:
        return None

    def memory_of(self, vector: Float[Array, " size"]) -> PyTree:
        return lbfgs.empty_memory(self.memory, vector)

    def begin(self, evaluate: Evaluate, vector: Float[Array, " size"]) -> Evaluated:
        return evaluate(vector)

    def step(
        self, evaluate: Evaluate, place: Evaluated, memory: PyTree
    ) -> tuple[Evaluated, PyTree, Bool[Array, ""]]:
        after, memory, is_stuck, _ = lbfgs.iterate(evaluate, place, memory)
        return after, memory, is_stuck

    def run(self, task: Task, trials: Parameters) -> tuple[Parameters, Outcome]:
        return descend(self, task, trials)


def _check_counts(stage: Stage, *names: str) -> None:
    for name in names:
        value = getattr(stage, name)
        if value is not None and value < 1:
            raise ValueError(f"{name} must be at least 1, got {value} in {stage}")
