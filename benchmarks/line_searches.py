"""How often an iteration of L-BFGS evaluates the loss: PINN, PANN and polynomial alone on Poisson.

As the paper's recipe does in float32, after 5,000 steps of Adam: 256 points, degree 9, 3x20. Where
trials are mapped, all wait for the slowest search: the most of the trials. First of 400 iterations,
then of all 8,000, or until all trials are stuck.
"""

import dataclasses
from collections.abc import Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Int

from benchmarks.harness import Row
from benchmarks.steps import Step
from pann.model.pann import Parameters, trainable
from pann.numerics.lbfgs import Evaluated, Memory, empty_memory, iterate
from pann.problems import poisson
from pann.training import LBFGS, Adam, Prune, Stepwise, Task
from pann.training.loss import Loss

NUM_POINTS, DEGREE, WIDTHS, TRIALS = 256, 9, (20, 20, 20), 5
ADAM = Adam(5_000, Stepwise(1e-3, 0.9, 100), record_every=500)
LONG = LBFGS(8_000, memory=100)
SHORT = 400
MODELS = {
    "PINN": Step(poisson(), NUM_POINTS, 0, WIDTHS, trials=TRIALS),
    "PANN": Step(poisson(), NUM_POINTS, DEGREE, WIDTHS, trials=TRIALS),
    "PL": Step(poisson(), NUM_POINTS, DEGREE, (), trials=1),
}


def rows() -> Iterator[Row]:
    for model, step in MODELS.items():
        with jax.enable_x64(True), jax.default_matmul_precision("highest"):
            task, trials = step.task()
            if not step.widths:
                task = dataclasses.replace(task, loss=Loss("none"))
            for stage in (ADAM, Prune(1e-4)):
                trials, _ = stage.run(task, trials)
            searched = np.asarray(evaluations_of_searches(task, trials))
        for iterations in (SHORT, LONG.iterations):
            of_trials = searched[:, :iterations]
            running = of_trials[:, of_trials.max(axis=0) > 0]
            yield {
                "model": model,
                "trials": len(of_trials),
                "iterations": iterations,
                "until all are stuck": running.shape[1],
                "evaluations an iteration, alone": float(of_trials[of_trials > 0].mean()),
                "mapped": float(running.max(axis=0).mean()),
            }


def evaluations_of_searches(task: Task, trials: Parameters) -> Int[Array, "trials iterations"]:
    """How often every iteration evaluates, of one trial after the other; 0 once it is stuck."""

    def one(trial: tuple[Parameters, Float[Array, " points"]]) -> Int[Array, " iterations"]:
        parameters, weights = trial
        weighted = eqx.tree_at(lambda rows: rows.weights, task.rows, weights)
        moving, fixed = eqx.partition(parameters, trainable(parameters))
        vector, tree_of = ravel_pytree(moving)

        def evaluate(vector: Float[Array, " size"]) -> Evaluated:
            total = lambda vector: task.loss.total(eqx.combine(tree_of(vector), fixed), weighted)
            return Evaluated(vector, *jax.value_and_grad(total)(vector), ())

        def step(carry: tuple[Evaluated, Memory, Array], _: None) -> tuple[Any, Int[Array, ""]]:
            place, memory, was_stuck = carry
            flat = jnp.where(was_stuck, 0.0, place.gradient)
            start = eqx.tree_at(lambda place: place.gradient, place, flat)
            after, longer, is_stuck, count = iterate(evaluate, start, memory)
            return (after, longer, was_stuck | is_stuck), count

        start = (evaluate(vector), empty_memory(LONG.memory, vector), jnp.array(False))
        return jax.lax.scan(step, start, length=LONG.iterations)[1]

    return jax.jit(lambda both: jax.lax.map(one, both))((trials, task.weights(trials)))
