"""Keep what some stages did only where it helped."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from pann.model import Parameters
from pann.training.linear import at_round_off
from pann.training.stage import CONVERGED, ROUND_OFF, Outcome, Recorder, Stage, Task, figures


@dataclasses.dataclass(frozen=True)
class KeepIfBetter(Stage):
    """Run stages, and take a trial back to where it was if its held-out error did not fall.

    Without held-out rows the data term of the loss decides. Where the residual is at round-off
    already, the stages are not run at all.
    """

    stages: tuple[Stage, ...]

    def run(self, task: Task, trials: Parameters) -> tuple[Parameters, Outcome]:
        recorder = Recorder(self, task, len(self.stages))
        weights = task.weights(trials)
        before = figures(task.loss, trials, task.rows, task.held_out, weights)
        recorder.record(0, before)
        if np.all(np.asarray(at_round_off(task, trials, weights))):
            return trials, recorder.outcome(np.full(len(weights), ROUND_OFF))
        trained, inner = run_recipe(self.stages, task, trials)
        after = figures(task.loss, trained, task.rows, task.held_out, task.weights(trained))
        judge = "data" if task.held_out is None else "held_out"
        better = after[judge] < before[judge]

        def choose(new: jax.Array, old: jax.Array) -> jax.Array:
            return jnp.where(better.reshape(-1, *[1] * (new.ndim - 1)), new, old)

        recorder.record(len(self.stages), after)
        outcome = recorder.outcome(
            np.full(len(np.asarray(better)), CONVERGED),
            (f"kept in {int(np.sum(np.asarray(better)))} of {len(np.asarray(better))} trials",),
        )
        return jax.tree.map(choose, trained, trials), dataclasses.replace(outcome, inner=inner)


def run_recipe(
    recipe: tuple[Stage, ...], task: Task, trials: Parameters
) -> tuple[Parameters, tuple[Outcome, ...]]:
    """Run the stages one after another, each with a key of its own."""
    outcomes = []
    for index, stage in enumerate(recipe):
        own = dataclasses.replace(task, key=jax.random.fold_in(task.key, index))
        trials, outcome = stage.run(own, trials)
        outcomes.append(outcome)
    return trials, tuple(outcomes)
