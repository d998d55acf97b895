"""Several cases of one problem as one compiled program: their rows and trials side by side.

The cases must agree in all but the values of their arrays: points of equal number, one basis, one
network's shape, the same stages.
"""

import dataclasses
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from pann.checkpoints import Checkpoint
from pann.runtime_limits import Report
from pann.solution import Solution
from pann.solving.gradient import Case, best_solution, prepare
from pann.training import run_recipe
from pann.training.cases import check_shapes, of_case, one_task, side_by_side

SHARED = ("basis", "architecture", "recipe", "loss", "preconditioner", "causal", "trials")


def check_shared(cases: Sequence[Case]) -> None:
    """Refuse cases that cannot be one program, before anything is made of them."""
    first = cases[0]
    for number, case in enumerate(cases[1:], 2):
        if case.setup.problem is not first.setup.problem:
            raise ValueError("cases are solved together where they are of one and the same Problem")
        for name in SHARED:
            here, there = getattr(case, name), getattr(first, name)
            if here != there:
                raise ValueError(
                    f"case {number} has another {name} than the first, {here} and {there}; solve "
                    "those together that share it"
                )


def solve_group(
    cases: Sequence[Case], checkpoint: Checkpoint, report: Report, begin: float
) -> list[Solution]:
    """Train the trials of all cases in one program; a solution each, with its share of the time."""
    own = [
        dataclasses.replace(
            case, setup=dataclasses.replace(case.setup, checkpoint=checkpoint, report=report)
        )
        for case in cases
    ]
    prepared = [prepare(case) for case in own]
    check_shapes([each.task.rows for each in prepared], _counts)
    task = one_task([each.task for each in prepared])
    starts = side_by_side([each.starts for each in prepared])
    # The rows of each case are in the task now; a second copy would be half of the memory.
    prepared = [dataclasses.replace(each, task=task) for each in prepared]
    trained, outcomes = run_recipe(cases[0].recipe, task, starts)
    errors = np.asarray(task.figures(trained)["held_out"]).reshape(len(cases), -1)
    seconds = (time.perf_counter() - begin) / len(cases)
    return [
        best_solution(case, trials, of_case(outcomes, number, len(cases)), own_errors, seconds)
        for number, (case, trials, own_errors) in enumerate(
            zip(prepared, task.by_case(trained), errors, strict=True)
        )
    ]


def _counts(rows: Any) -> str:
    return ", ".join(f"{block.x.shape[0]} in {block.name}" for block in rows.blocks)
