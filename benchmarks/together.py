"""Cases of one problem as one program against one after another: time of an Adam step a case.

Poisson and KdV as in the paper's tables, PINN and PANN (constraint E, K), each with some trials;
the cases differ in their points. Both ways are timed in turns, and the least time of several rounds
counts.
"""

import dataclasses
import itertools
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

from benchmarks.harness import Row
from pann.paper import equations
from pann.solving.gradient import Case, prepare
from pann.together import make_case
from pann.training import Adam, Constant
from pann.training.cases import one_task, side_by_side

STEPS, ROUNDS = 10, 3
# By problem: points, width, depth and c of the cell.
CELLS = {"poisson": (1024, 50, 3, 0.003), "kdv": (1024, 100, 3, 0.0002)}
NUM_CASES, TRIALS = (2, 4), (1, 5)


def rows() -> Iterator[Row]:
    for (name, cell), model, trials in itertools.product(CELLS.items(), ("PINN", "PANN"), TRIALS):
        num_points, width, depth, c = cell
        yield from _measured(
            {
                "mode": "faithful",
                "problem": name,
                "model": model,
                "num_points": num_points,
                "width": width,
                "depth": depth,
                "c": c,
                "trials": trials,
                "sampling": "uniform",
                "precision": "float32",
                "adam_steps": 1,
                "lbfgs_iterations": 0,
                "seed": 0,
            }
        )


def _measured(cell: dict[str, Any]) -> Iterator[Row]:
    problem = equations.problem_of(cell)
    cases = [
        make_case(problem, **equations.faithful_options(cell | {"seed": seed}))
        for seed in range(max(NUM_CASES))
    ]
    with jax.enable_x64(True), jax.default_matmul_precision("highest"):
        seconds = _step_seconds([cases[:1], *(cases[:count] for count in NUM_CASES)])
    for count, together in zip(NUM_CASES, seconds[1:], strict=True):
        yield {
            **{name: cell[name] for name in ("problem", "model", "num_points", "trials")},
            "cases": count,
            "alone ms": 1e3 * seconds[0],
            "together ms a case": 1e3 * together / count,
            "ratio": together / count / seconds[0],
        }


def _step_seconds(groups: list[list[Case]]) -> list[float]:
    prepared = [[prepare(case) for case in group] for group in groups]
    made = [
        (each[0].task, each[0].starts)
        if len(each) == 1
        else (one_task([one.task for one in each]), side_by_side([one.starts for one in each]))
        for each in prepared
    ]
    seconds = [np.inf] * len(groups)
    for _ in range(ROUNDS):
        for number, (task, trials) in enumerate(made):
            # The first of the records has the compilation in it.
            stage = Adam(3 * STEPS, Constant(1e-4), record_every=STEPS)
            _, outcome = stage.run(dataclasses.replace(task, watch=lambda trials: {}), trials)
            least = float(np.min(np.diff(outcome.history["seconds"])))
            seconds[number] = min(seconds[number], least / STEPS)
    return seconds
