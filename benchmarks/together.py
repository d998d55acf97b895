"""Cases of equal shapes as one program against one after another: time of an Adam step a case.

Poisson and KdV as in the paper's tables, PINN and PANN (constraint E, K); the cases differ in their
points. Regressions as in its sections 4.1 and 4.2, where they differ in their constraint, or in the
values. Each with some trials. Both ways are timed in turns, and the least time of several rounds
counts.
"""

import dataclasses
import itertools
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

from benchmarks.harness import Row
from pann.model.pann import Parameters
from pann.regression.batch import prepared_case, together
from pann.solvers.batch import one_case
from pann.solvers.gradient import prepare
from pann.training import Adam, Constant, Task
from pann.training.batch import one_task, side_by_side
from reproduction import equations, methods, regressions

STEPS, ROUNDS = 10, 3
# By problem: points, width, depth and c of the cell.
CELLS = {"poisson": (1024, 50, 3, 0.003), "kdv": (1024, 100, 3, 0.0002)}
NUM_CASES, TRIALS = (2, 4), (1, 5)
# By experiment: numbers of points, and of cases.
REGRESSIONS = {"constraints": ((1024, 4096), (3, 10)), "alpha": ((1024, 16_384), (3,))}
Work = tuple[Task, Parameters]


def rows() -> Iterator[Row]:
    for (name, cell), model, trials in itertools.product(CELLS.items(), ("PINN", "PANN"), TRIALS):
        num_points, width, depth, c = cell
        yield from _equations(
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
    for (name, (sizes, counts)), trials in itertools.product(REGRESSIONS.items(), TRIALS):
        for num_points in sizes:
            yield from _regressions(name, num_points, counts, trials)


def _equations(cell: dict[str, Any]) -> Iterator[Row]:
    problem = equations.problem_of(cell)
    with jax.enable_x64(True), jax.default_matmul_precision("highest"):
        prepared = [
            prepare(one_case(problem, **methods.equation_options(cell | {"seed": seed})))
            for seed in range(max(NUM_CASES))
        ]
        works = [(prepared[0].task, prepared[0].starts)] + [
            (
                one_task([each.task for each in prepared[:count]]),
                side_by_side([each.starts for each in prepared[:count]]),
            )
            for count in NUM_CASES
        ]
        about = {name: cell[name] for name in ("problem", "model", "num_points", "trials")}
        yield from _measured(about, works, NUM_CASES)


def _regressions(name: str, num_points: int, counts: tuple[int, ...], trials: int) -> Iterator[Row]:
    own = {"num_points": num_points, "trials": trials}
    alike = [
        {**row.configuration, **own}
        for row in regressions.rows(name, "full", "faithful")
        if row.configuration["method"] == "PANN"
        and row.configuration["activation"] == "tanh"
        and not row.configuration.get("signed")
        and row.configuration.get("c") in (None, 0.001)
    ]
    with jax.enable_x64(True), jax.default_matmul_precision("highest"):
        prepared = [prepared_case(**regressions.options_of(each)) for each in alike[: max(counts)]]
        works = [together(prepared[:count]) for count in (1, *counts)]
        about = {"problem": name, "model": "PANN", **own}
        yield from _measured(about, works, counts)


def _measured(about: Row, works: list[Work], counts: tuple[int, ...]) -> Iterator[Row]:
    """The first work is that of one case, the others those of so many."""
    seconds = _step_seconds(works)
    for count, several in zip(counts, seconds[1:], strict=True):
        yield {
            **about,
            "cases": count,
            "alone ms": 1e3 * seconds[0],
            "together ms a case": 1e3 * several / count,
            "ratio": several / count / seconds[0],
        }


def _step_seconds(works: list[Work]) -> list[float]:
    seconds = [np.inf] * len(works)
    for _ in range(ROUNDS):
        for number, (task, trials) in enumerate(works):
            # The first of the records has the compilation in it.
            stage = Adam(3 * STEPS, Constant(1e-4), record_every=STEPS)
            _, outcome = stage.run(dataclasses.replace(task, watch=lambda trials: {}), trials)
            least = float(np.min(np.diff(outcome.history["seconds"])))
            seconds[number] = min(seconds[number], least / STEPS)
    return seconds
