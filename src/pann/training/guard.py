"""Recipes run stage by stage, and stages of stages: kept only where they help, or raced."""

import dataclasses
import functools

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from pann.io.checkpoint import Saved, packed, unpacked
from pann.model.pann import Parameters
from pann.training.linear import all_at_round_off
from pann.training.task import (
    CONVERGED,
    REASONS,
    ROUND_OFF,
    RUNNING,
    Outcome,
    Recorder,
    Stage,
    Task,
    choose,
    restored_outcome,
    saved_outcome,
)


@dataclasses.dataclass(frozen=True)
class KeepIfBetter(Stage):
    """Run stages, and take a trial back to where it was if its held-out error did not fall.

    Without held-out rows the data term of the loss decides. Where the residual is at round-off
    already, the stages are not run at all.
    """

    stages: tuple[Stage, ...]

    def run(self, task: Task, trials: Parameters) -> tuple[Parameters, Outcome]:
        recorder = Recorder(self, task, len(self.stages))
        num_trials = len(trials.keep_b)
        recorder.record(0, task.figures(trials))
        if all_at_round_off(task, trials):
            return trials, recorder.outcome(np.full(num_trials, ROUND_OFF))
        if recorder.stopped:
            outcome = recorder.outcome(np.full(num_trials, RUNNING))
            return trials, dataclasses.replace(outcome, pending=names_of(self.stages))
        trained, inner = run_recipe(self.stages, task, trials)
        better = _score(task, trained) < _score(task, trials)
        kept = choose(better, trained, trials)
        recorder.record(len(self.stages), task.figures(kept))
        note = f"kept in {int(jnp.sum(better))} of {len(better)} trials"
        outcome = recorder.outcome(np.full(len(better), CONVERGED), (note,))
        return kept, dataclasses.replace(outcome, inner=inner)


@dataclasses.dataclass(frozen=True)
class Race(Stage):
    """Run several branches from the same start, and keep the best of them for each trial.

    Judged like `KeepIfBetter`. Short branches that differ in where the network starts cost
    little, and no one start is good for smooth and for rough functions.
    """

    branches: tuple[tuple[Stage, ...], ...]

    def __post_init__(self) -> None:
        if not self.branches:
            raise ValueError("a race needs at least one branch: Race(((Place(), GaussNewton()),))")

    def run(self, task: Task, trials: Parameters) -> tuple[Parameters, Outcome]:
        recorder = Recorder(self, task, len(self.branches))
        winner = trials
        inner: list[Outcome] = []
        best = jnp.full(len(trials.keep_b), jnp.inf)
        wins = np.zeros(len(trials.keep_b), int)
        for index, branch in enumerate(self.branches):
            own = dataclasses.replace(task, checkpoint=task.checkpoint.within(f"branch {index}"))
            trained, outcomes = run_recipe(branch, own, trials)
            score = _score(task, trained)
            better = score < best
            winner, best = choose(better, trained, winner), jnp.minimum(score, best)
            wins = np.where(np.asarray(better), index + 1, wins)
            inner.extend(outcomes)
            recorder.record(index + 1, {"best": best})
            if recorder.stopped:
                break
        note = "won by branch " + ", ".join(str(win) for win in wins)
        outcome = recorder.outcome(np.full(len(wins), CONVERGED), (note,))
        pending = tuple(
            f"branch {number} of the Race" for number in range(index + 2, len(self.branches) + 1)
        )
        return winner, dataclasses.replace(outcome, inner=tuple(inner), pending=pending)


def _score(task: Task, trials: Parameters) -> Float[Array, " trials"]:
    """Held-out error, or the data term where no rows are held out; NaN counts as infinite."""
    score = task.figures(trials)["data" if task.held_out is None else "held_out"]
    return jnp.where(jnp.isnan(score), jnp.inf, score)


def run_recipe(
    recipe: tuple[Stage, ...], task: Task, trials: Parameters
) -> tuple[Parameters, tuple[Outcome, ...]]:
    """Run the stages one after another, each with a key of its own; not those done before.

    The keys are counted from the end: stages put in front do not change the draws of the others.
    A stage that was stopped is the last one; its outcome names those that were not run.
    """
    outcomes = []
    for index, stage in enumerate(recipe):
        checkpoint = task.checkpoint.within(f"stage {index}")
        done = checkpoint.done()
        if done is not None:
            trials = unpacked("trials", done.arrays, trials)
            outcomes.append(restored_outcome(stage, done))
            continue
        key = task.folded_key(len(recipe) - index)
        trials, outcome = stage.run(
            dataclasses.replace(task, key=key, checkpoint=checkpoint), trials
        )
        if outcome.stopped:
            rest = names_of(recipe[index + 1 :])
            outcomes.append(dataclasses.replace(outcome, pending=(*outcome.pending, *rest)))
            break
        outcomes.append(outcome)
        checkpoint.finish(functools.partial(_result, trials, outcome))
    return trials, tuple(outcomes)


def names_of(stages: tuple[Stage, ...]) -> tuple[str, ...]:
    return tuple(type(stage).__name__ for stage in stages)


def stop_reason(outcomes: tuple[Outcome, ...]) -> str:
    """What ended the training of a recipe early and what would have come next; empty if nothing."""
    if not outcomes or not outcomes[-1].stopped:
        return ""
    path = [outcomes[-1]]
    while path[-1].inner and path[-1].inner[-1].stopped:
        path.append(path[-1].inner[-1])
    deepest = path[-1]
    pending = [name for outcome in reversed(path) for name in outcome.pending]
    if not pending and all(reason in REASONS.values() for reason in deepest.reasons):
        return ""
    where = f"{deepest.stopped} during {type(deepest.stage).__name__}"
    steps = deepest.history["step"]
    where += f", step {steps[-1]}" if len(steps) else ""
    return where + (f"; next would have come {', '.join(pending)}" if pending else "")


def _result(trials: Parameters, outcome: Outcome) -> Saved:
    arrays, notes = saved_outcome(outcome)
    return Saved(arrays | packed("trials", trials), notes)
