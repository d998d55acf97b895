"""solve_together(problem, cases): several sets of points or seeds, trained as one program."""

import dataclasses
import functools
import os
import time
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from pann.methods import RunOptions, SolveMethod, Training
from pann.pde.problem import Problem
from pann.runtime.limits import Report
from pann.runtime.memory import device_memory
from pann.solvers.folder import Folder, configuration, in_folder, prepared_folder
from pann.solvers.gradient import Case, best_solution, make_case, prepare
from pann.solvers.plan import make_plan
from pann.solvers.setup import NUM_FRESH, Run, layer_numbers
from pann.solvers.solution import Solution
from pann.training import run_recipe
from pann.training.batch import by_case, check_shapes, check_shared, one_task, side_by_side


def case_bytes(case: Case) -> float:
    """Tables, and for every trial the derivatives of its layers, at all points."""
    item = np.dtype(case.architecture.precision).itemsize
    setup, given = case.setup, case.setup.points
    inside = given if isinstance(given, int) else len(setup.placed(case.basis)[0].points)
    points = inside + (setup.condition_points or 0)
    tables = (points + NUM_FRESH) * case.basis.num_terms * (len(setup.orders) + 1)
    layers = points * layer_numbers(setup.orders, case.architecture, case.trials)
    return float(item * (tables + layers))


SHARED = ("basis", "architecture", "recipe", "loss", "preconditioner", "causal", "trials")


def solve_group(cases: Sequence[Case], run: Run) -> list[Solution]:
    """Train the trials of all cases in one program; a solution each, with its share of the time."""
    setups = [dataclasses.replace(case.setup, run=run) for case in cases]
    prepared = [
        prepare(dataclasses.replace(case, setup=setup))
        for case, setup in zip(cases, setups, strict=True)
    ]
    check_shapes([each.task.rows for each in prepared], _counts)
    task = one_task([each.task for each in prepared])
    starts = side_by_side([each.starts for each in prepared])
    # The rows of each case are in the task now; a second copy would be half of the memory.
    prepared = [dataclasses.replace(each, task=task) for each in prepared]
    trained, outcomes = run_recipe(cases[0].recipe, task, starts)
    found = by_case(task, trained, outcomes, np.asarray(task.figures(trained)["held_out"]))
    seconds = run.seconds / len(cases)
    return [best_solution(case, *own, seconds) for case, own in zip(prepared, found, strict=True)]


def _counts(rows: Any) -> str:
    return ", ".join(f"{block.x.shape[0]} in {block.name}" for block in rows.blocks)


def solve_together(
    problem: Problem,
    cases: Sequence[Mapping[str, Any]],
    *,
    out: str | os.PathLike[str] | Folder | None = None,
    resume: bool = False,
    progress: Report = lambda progress: None,
    **shared: Any,
) -> list[Solution]:
    """The solutions that `solve(problem, **shared, **case)` gives for each case, to rounding.

    It is gradient training, `Training.paper()` if no other method is named, of all cases in one
    compiled program. A case has `method`, `seed` and `start_from`. Methods may differ in whatever
    leaves shapes and stages alone: sampling, points of equal number, condition_weight. The folder
    `out` gets `solution-1.pann`, ..., and the checkpoints of all together.
    """
    run = Run(progress, begin=time.perf_counter())
    if not cases:
        raise ValueError("there are no cases to solve; give options for each, [{'seed': 0}, ...]")
    if out is None and resume:
        raise ValueError("resume=True goes on with the work in a folder; name it by out")
    made = [one_case(problem, **{**shared, **case}) for case in cases]
    if any(case.setup.problem is not made[0].setup.problem for case in made):
        raise ValueError("cases are solved together where they are of one and the same Problem")
    check_shared([{name: getattr(case, name) for name in SHARED} for case in made], "solve")
    folder = None if out is None else prepared_folder(out)
    with jax.enable_x64(True), jax.default_matmul_precision("highest"):
        if folder is None:
            return solve_group(made, run)
        return in_folder(
            folder,
            _description(made),
            problem,
            run,
            functools.partial(solve_group, made),
            [f"solution-{number}.pann" for number in range(1, len(made) + 1)],
            resume=resume,
        )


def one_case(
    problem: Problem,
    method: SolveMethod | None = None,
    *,
    start_from: Solution | None = None,
    **run: Any,
) -> Case:
    """A case from parameters of `solve`."""
    method = Training.paper() if method is None else method
    if not isinstance(method, Training):
        raise ValueError(
            f"cases are trained together by gradients; give pann.Training(...), not {method!r}"
        )
    options = RunOptions(**run)
    return make_case(make_plan(problem, method, options), method, options, start_from)


def num_cases_that_fit(problem: Problem, method: Training | None = None, **run: Any) -> int:
    """For how many cases of this method the device has room, at least one."""
    return max(1, int(device_memory() // case_bytes(one_case(problem, method, **run))))


def _description(cases: Sequence[Case]) -> dict[str, str]:
    """What determines the solutions, in words; where the cases differ, one after another."""
    each = [
        configuration(
            case.setup,
            [case.basis],
            [case.architecture],
            case.start_from,
            {
                name: str(getattr(case, name))
                for name in ("recipe", "loss", "preconditioner", "causal", "trials")
            },
        )
        for case in cases
    ]
    values = {name: [description[name] for description in each] for name in each[0]}
    return {
        name: of_all[0] if len(set(of_all)) == 1 else " | ".join(of_all)
        for name, of_all in values.items()
    } | {"cases": str(len(cases))}
