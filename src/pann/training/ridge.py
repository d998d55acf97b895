"""The polynomial half by ridge regression, for rows with noise."""

import dataclasses

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from pann.basis import ridge
from pann.model.pann import Parameters
from pann.points import subsample
from pann.training.loss import Rows
from pann.training.task import CONVERGED, Outcome, Recorder, Stage, Task

MAX_ROWS = 50_000


@dataclasses.dataclass(frozen=True)
class Ridge(Stage):
    """Solve for b alone, the network off, with the penalty that predicts left-out rows best.

    At most 50,000 rows, drawn at random, are used.
    """

    def run(self, task: Task, trials: Parameters) -> tuple[Parameters, Outcome]:
        recorder = Recorder(self, task, 1)
        some = task.rows.take(jnp.asarray(subsample(task.rows.num_points, MAX_ROWS)))
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
