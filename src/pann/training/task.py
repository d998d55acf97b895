"""What a training stage is given, and what it returns.

A recipe is a tuple of stages. Each takes the task and the trials (parameters with a leading axis,
one entry per seed) and returns the trained trials with an `Outcome`: why each trial stopped, and a
history of every loss term, the held-out error and the seconds.
"""

import abc
import dataclasses
import time
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from pann.io.checkpoint import NOWHERE, Checkpoint, Saved
from pann.model.pann import Parameters
from pann.runtime.compile import compiled
from pann.runtime.limits import Progress, Report, Stopped
from pann.runtime.platform import on_cpu
from pann.training.loss import Loss, Rows, TrainingRows

RUNNING, CONVERGED, NOT_FINITE, STALLED, HELD_OUT, ROUND_OFF = range(6)
REASONS = {
    RUNNING: "all steps done",
    CONVERGED: "converged",
    NOT_FINITE: "the loss was no longer finite; the last finite state is kept",
    STALLED: "no step lowers the loss any more",
    HELD_OUT: "the held-out error stopped falling",
    ROUND_OFF: "the residual is at round-off",
}

FIGURE_ROWS = 131_072

Watch = Callable[[Parameters], dict[str, Float[Array, " trials"]]]


@dataclasses.dataclass(frozen=True)
class Task:
    """Training rows, held-out rows, loss, PRNG key, progress callback, checkpoint.

    `watch` gives further figures of the trials, such as the error where the solution is known.
    `term_scales` are the factors that make the basis orthonormal, for the preconditioner
    K(x) = sqrt(m / sum_k phi_k(x)^2); None turns it off.

    With `cases` several fits of equal shapes are one (see `pann.training.batch`): rows, held-out
    rows and key have a leading axis of that length, or of one where all cases have the same rows,
    and the trials of the first case come first, then those of the second.
    """

    rows: TrainingRows
    loss: Loss
    key: Key[Array, "*cases"]
    held_out: TrainingRows | None = None
    term_scales: Float[Array, " terms"] | None = None
    report: Report = lambda progress: None
    watch: Watch = lambda trials: {}
    checkpoint: Checkpoint = NOWHERE
    cases: int | None = None

    @property
    def data(self) -> Rows:
        """The rows of a stage that fits data, and not an equation."""
        if not isinstance(self.rows, Rows):
            raise ValueError(
                "an equation is trained by Adam, LBFGS and Prune; the other stages fit data"
            )
        return self.rows

    def weights(self, trials: Parameters) -> Float[Array, "trials points"]:
        """Row weights of each trial: the preconditioner depends on the terms not yet pruned."""
        return _weights(self.rows, self.term_scales, trials.keep_b, self.cases)

    def figures(self, trials: Parameters) -> dict[str, Float[Array, " trials"]]:
        """Every term of the loss and the held-out relative error, for each trial."""
        weights = self.weights(trials)
        return _figures(self.loss, trials, self.rows, self.held_out, weights, self.cases)

    def trial_keys(self, num_trials: int) -> Key[Array, " trials"]:
        """A key for each trial, the same whether a case is trained alone or with others."""
        if self.cases is None:
            return jax.random.split(self.key, num_trials)
        each = num_trials // self.cases
        return jax.vmap(lambda key: jax.random.split(key, each))(self.key).reshape(-1)

    def folded_key(self, number: int) -> Key[Array, "*cases"]:
        """The key of the part of the work that has this number."""
        fold = lambda key: jax.random.fold_in(key, number)
        return fold(self.key) if self.cases is None else jax.vmap(fold)(self.key)

    def by_case(self, trials: Parameters) -> list[Parameters]:
        """The trials of each case; all of them where there is only one."""
        if self.cases is None:
            return [trials]
        return unstack(_split(trials, self.cases), self.cases)


def map_trials(
    one: Callable[[Any, Any], Any], cases: int | None, trials: PyTree, shared: PyTree
) -> PyTree:
    """one(trial, shared) for each trial; with cases, what is shared is so within a case only.

    What all cases share has a leading axis of length one.
    """
    num_trials = jax.tree.leaves(trials)[0].shape[0]
    if num_trials == 1 and cases is None:
        # On a CPU matrix products with a batch axis of one are slower than without it.
        only = one(jax.tree.map(lambda leaf: leaf[0], trials), shared)
        return jax.tree.map(lambda leaf: leaf[None], only)
    if cases is None:
        return jax.vmap(one, in_axes=(0, None))(trials, shared)
    own, common = eqx.partition(shared, lambda leaf: leaf.shape[0] == cases)
    common = jax.tree.map(lambda leaf: leaf[0], common)
    of_case = lambda both: map_trials(one, None, both[0], eqx.combine(both[1], common))
    split = _split(trials, cases)
    # One more batch axis of matrix products takes a CPU up to twice as long, and in a line search
    # all cases would wait for the slowest.
    several = jax.lax.map if on_cpu() else lambda function, both: jax.vmap(function)(both)
    mapped = several(of_case, (split, own))
    return jax.tree.map(lambda leaf: leaf.reshape(num_trials, *leaf.shape[2:]), mapped)


def _split(trials: PyTree, cases: int) -> PyTree:
    """An axis of cases before that of trials; a half may have no functions at all."""
    return jax.tree.map(
        lambda leaf: leaf.reshape(cases, leaf.shape[0] // cases, *leaf.shape[1:]), trials
    )


@compiled
def _weights(
    rows: TrainingRows, scales: Float[Array, " terms"] | None, keep_b: Array, cases: int | None
) -> Float[Array, "trials points"]:
    def one(kept: Array, rows: TrainingRows) -> Float[Array, " points"]:
        if scales is None:
            return rows.weights
        density = rows.density(scales**2 * kept)
        return rows.weights * jnp.where(
            jnp.any(kept), jnp.sqrt(jnp.sum(kept) / jnp.where(density > 0, density, 1.0)), 1.0
        )

    return map_trials(one, cases, keep_b, rows)


class Stage(abc.ABC):
    """One step of a recipe. Final subclasses are frozen dataclasses that compare equal."""

    @abc.abstractmethod
    def run(self, task: Task, trials: Parameters) -> tuple[Parameters, "Outcome"]: ...


def check_counts(stage: Stage, *names: str) -> None:
    for name in names:
        value = getattr(stage, name)
        if value is not None and value < 1:
            raise ValueError(f"{name} must be at least 1, got {value} in {stage}")


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What a stage did: why each trial stopped, its history, and notes for the user.

    `history` maps "step" and "seconds" to one entry per record, and every other name ("data",
    "constraint", "held_out", ...) to an array of shape (trials, records). `stopped` says what
    ended the stage early, the time limit or Ctrl-C, and `pending` what would have come next.
    """

    stage: Stage
    reasons: tuple[str, ...]
    history: dict[str, np.ndarray]
    seconds: float
    notes: tuple[str, ...] = ()
    inner: tuple["Outcome", ...] = ()
    stopped: str = ""
    pending: tuple[str, ...] = ()


@compiled
def _figures(
    loss: Loss,
    trials: Parameters,
    rows: TrainingRows,
    held_out: TrainingRows | None,
    weights: Float[Array, "trials points"],
    cases: int | None,
) -> dict[str, Float[Array, " trials"]]:
    """The terms are those of `FIGURE_ROWS` rows drawn at random where there are more."""

    def one(trial: tuple[Parameters, Array], shared: Any) -> dict[str, Array]:
        (parameters, weight), (rows, held_out) = trial, shared
        weighted = eqx.tree_at(lambda r: r.weights, rows, weight)
        values = dict(loss.terms(parameters, weighted.take(_judged(rows.num_points))))
        if held_out is not None:
            values["held_out"] = held_out.error(parameters)
        return values

    return map_trials(one, cases, (trials, weights), (rows, held_out))


def _judged(num_points: int) -> Int[Array, " chosen"] | slice:
    """The rows that trials are judged by, always the same ones."""
    if num_points <= FIGURE_ROWS:
        return slice(None)
    # The first ones would misjudge sorted rows. With replacement: a permutation sorts all rows.
    return jax.random.randint(jax.random.key(0), (FIGURE_ROWS,), 0, num_points)


def choose(is_new: Bool[Array, "*trials"], new: PyTree, old: PyTree) -> PyTree:
    """The new state where it is to be taken, for one trial or each of several; else the old one."""
    pick = lambda n, o: jnp.where(
        is_new.reshape(is_new.shape + (1,) * (n.ndim - is_new.ndim)), n, o
    )
    return jax.tree.map(pick, new, old)


def unstack(trials: Parameters, count: int) -> list[Parameters]:
    """The parameters of each trial."""
    leaves, structure = jax.tree.flatten(trials)
    return [jax.tree.unflatten(structure, [leaf[i] for leaf in leaves]) for i in range(count)]


class Recorder:
    """Collects the history of one stage and reports progress.

    A stage reads `stopped` after each record: unless it is empty, the stage ends.
    """

    def __init__(self, stage: Stage, task: Task, num_steps: int):
        self.stage, self.task, self.num_steps = stage, task, num_steps
        self.start = time.perf_counter()
        self.steps: list[int] = []
        self.seconds: list[float] = []
        self.values: dict[str, list[np.ndarray]] = {}
        self.stopped = ""

    def record(self, step: int, values: dict[str, Float[Array, " trials"]]) -> None:
        host = {name: np.asarray(value) for name, value in values.items()}
        self.steps.append(step)
        self.seconds.append(time.perf_counter() - self.start)
        for name, value in host.items():
            self.values.setdefault(name, []).append(value)
        means = {name: float(np.mean(value)) for name, value in host.items()}
        try:
            self.task.report(Progress(type(self.stage).__name__, step, self.num_steps, means))
        except Stopped as stopped:
            self.stopped = f"{stopped} ended it"

    def outcome(self, codes: np.ndarray, notes: tuple[str, ...] = ()) -> Outcome:
        reasons = REASONS
        if self.stopped and self.steps[-1] < self.num_steps:
            after = f"{self.steps[-1]:,} of {self.num_steps:,} steps"
            reasons = REASONS | {RUNNING: f"{self.stopped} after {after}"}
        seconds = time.perf_counter() - self.start
        return Outcome(
            self.stage,
            tuple(reasons[int(code)] for code in np.atleast_1d(codes)),
            self.history,
            seconds,
            notes,
            stopped=self.stopped,
        )

    @property
    def history(self) -> dict[str, np.ndarray]:
        history = {"step": np.asarray(self.steps), "seconds": np.asarray(self.seconds)}
        return history | {name: np.stack(values, axis=1) for name, values in self.values.items()}

    def restore(self, saved: Saved) -> None:
        """Continue from a recorder with this history."""
        history = _history(saved)
        self.steps = history.pop("step").tolist()
        self.seconds = history.pop("seconds").tolist()
        self.values = {name: list(values.T) for name, values in history.items()}
        self.start = time.perf_counter() - (self.seconds[-1] if self.seconds else 0.0)


def saved_history(history: dict[str, np.ndarray]) -> Saved:
    """A history for a checkpoint: its names may be any text, so the arrays are numbered."""
    arrays = {f"history.{number}": array for number, array in enumerate(history.values())}
    return Saved(arrays, {"history": list(history)})


def _history(saved: Saved) -> dict[str, np.ndarray]:
    return {
        name: saved.arrays[f"history.{number}"]
        for number, name in enumerate(saved.notes["history"])
    }


def saved_outcome(outcome: Outcome) -> Saved:
    arrays, notes = saved_history(outcome.history)
    of_outcome = {"reasons": list(outcome.reasons), "notes": list(outcome.notes)}
    return Saved(arrays, notes | of_outcome | {"seconds": outcome.seconds})


def restored_outcome(stage: Stage, saved: Saved) -> Outcome:
    notes = saved.notes
    return Outcome(
        stage, tuple(notes["reasons"]), _history(saved), notes["seconds"], tuple(notes["notes"])
    )
