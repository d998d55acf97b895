"""How often an iteration of L-BFGS evaluates the loss: PINN, PANN and polynomial alone on Poisson.

As the paper's recipe does in float32, after 5,000 steps of Adam: 256 points, degree 9, 3x20. An
iteration evaluates once, and once for each step of its line search, which optax counts. Where
trials are mapped, all wait for the slowest, and a step evaluates both branches of the search, the
one that looks for an interval and the one that narrows it: twice the most steps of the trials, and
one. First of 400 iterations, then of all 8,000. A search that finds nothing better ends after 25
steps; a polynomial as small as this one is at the floor of float32 soon, and most of its are such.
"""

import dataclasses
from collections.abc import Iterator
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Int

from benchmarks.harness import Row
from benchmarks.steps import Step
from pann.loss import Loss
from pann.model import Parameters, trainable
from pann.problems import poisson
from pann.training import LBFGS, Adam, Prune, Stepwise, Task

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
            searched = np.asarray(steps_of_searches(task, trials))
        for iterations in (SHORT, LONG.iterations):
            steps = searched[:, :iterations]
            yield {
                "model": model,
                "trials": len(steps),
                "iterations": iterations,
                "evaluations an iteration, alone": 1 + float(steps.mean()),
                "mapped": 1 + 2 * float(steps.max(axis=0).mean()),
                "searches of 25 steps": float((steps >= 25).mean()),
            }


def steps_of_searches(task: Task, trials: Parameters) -> Int[Array, "trials iterations"]:
    """How many steps every line search takes, of one trial after the other."""
    optimizer = LONG.optimizer()

    def one(trial: tuple[Parameters, Float[Array, " points"]]) -> Int[Array, " iterations"]:
        parameters, weights = trial
        weighted = eqx.tree_at(lambda rows: rows.weights, task.rows, weights)
        moving, fixed = eqx.partition(parameters, trainable(parameters))
        vector, tree_of = ravel_pytree(moving)
        total = lambda vector: task.loss.total(eqx.combine(tree_of(vector), fixed), weighted)

        def step(carry: tuple[Array, Any], _: None) -> tuple[tuple[Array, Any], Int[Array, ""]]:
            vector, state = carry
            value, gradient = jax.value_and_grad(total)(vector)
            updates, state = optimizer.update(
                gradient, state, vector, value=value, grad=gradient, value_fn=total
            )
            return (vector + updates, state), state[-1].info.num_linesearch_steps

        start = (vector, optimizer.init(vector))
        return jax.lax.scan(step, start, length=LONG.iterations)[1]

    return jax.jit(lambda both: jax.lax.map(one, both))((trials, task.weights(trials)))
