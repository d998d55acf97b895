"""How much memory gradient training takes, and how much there is."""

import dataclasses
import os
import pathlib
import time
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from pann.io.checkpoint import Checkpoint
from pann.network.jets import lower_set
from pann.pde.problem import Problem
from pann.runtime.limits import Report
from pann.runtime.memory import COPIES, device_memory
from pann.solvers.folder import all_in_folder, configuration, prepared_folder
from pann.solvers.gradient import Case, best_solution, prepare, training_options
from pann.solvers.plan import make_plan
from pann.solvers.setup import NUM_FRESH
from pann.solvers.solution import Solution
from pann.training import run_recipe
from pann.training.batch import check_shapes, of_case, one_task, side_by_side


def case_bytes(case: Case) -> float:
    """Tables, and for every trial the derivatives of its layers, at all points."""
    item = 8 if case.architecture.precision == "float64" else 4
    setup, given = case.setup, case.setup.points
    inside = given if isinstance(given, int) else len(setup.placed(case.basis)[0].points)
    points = inside + (setup.condition_points or 0)
    tables = (points + NUM_FRESH) * case.basis.num_terms * (len(setup.orders) + 1)
    units = sum(case.architecture.widths) * case.trials
    layers = points * units * len(lower_set(setup.orders)) * COPIES
    return float(item * (tables + layers))


# ---- Several cases of one problem as one compiled program ----


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


# ---- solve_together(problem, cases): several sets of points or seeds, trained as one program ----


TRAINING = (
    "recipe",
    "constraint",
    "constraint_weight",
    "reduction",
    "preconditioner",
    "weighting",
    "trials",
)


def solve_together(
    problem: Problem,
    cases: Sequence[Mapping[str, Any]],
    *,
    out: str | os.PathLike[str] | None = None,
    resume: bool = False,
    checkpoint_every: float | int = 30.0,
    report: Report = lambda progress: None,
    **shared: Any,
) -> list[Solution]:
    """The solutions that `solve(problem, **shared, **case)` gives for each case, to rounding.

    It is gradient training, recipe="paper" if no other is named, of all cases in one compiled
    program. They may differ in whatever leaves shapes and stages alone: sampling, points of equal
    number, seed, condition_weight, start_from. The folder `out` gets `solution-1.pann`, ..., and
    the checkpoints of all together.
    """
    begin = time.perf_counter()
    if not cases:
        raise ValueError("there are no cases to solve; give options for each, [{'seed': 0}, ...]")
    if out is None and resume:
        raise ValueError("resume=True goes on with the work in a folder; name it by out")
    made = [make_case(problem, **{**shared, **case}) for case in cases]
    check_shared(made)
    folder = None if out is None else prepared_folder(pathlib.Path(out))
    with jax.enable_x64(True), jax.default_matmul_precision("highest"):
        if folder is None:
            return solve_group(made, Checkpoint(), report, begin)
        return all_in_folder(
            folder,
            _told(made),
            problem,
            report,
            lambda checkpoint, tell, since: solve_group(made, checkpoint, tell, since),
            [f"solution-{number}.pann" for number in range(1, len(made) + 1)],
            begin=begin,
            resume=resume,
            interval=checkpoint_every,
        )


def make_case(problem: Problem, **options: Any) -> Case:
    """A case from options of `solve`."""
    if options.get("recipe") == "default":
        raise ValueError("cases are trained together by gradients; give recipe='paper', or stages")
    sizes = {name: value for name, value in options.items() if name not in TRAINING}
    start_from = sizes.pop("start_from", None)
    plan = make_plan(problem, by_gradient=True, **sizes)
    training = training_options(**{name: options[name] for name in TRAINING if name in options})
    architecture = plan.architectures[0]
    return Case(plan.setup, plan.ladder[0], architecture, start_from=start_from, **training)


def num_cases_that_fit(problem: Problem, **options: Any) -> int:
    """For how many cases with these options the device has room, at least one."""
    return max(1, int(device_memory() // case_bytes(make_case(problem, **options))))


def _told(cases: Sequence[Case]) -> dict[str, str]:
    """What determines the solutions, in words; where the cases differ, one after another."""
    each = [
        configuration(
            case.setup,
            [case.basis],
            [case.architecture],
            case.start_from,
            recipe=case.recipe,
            loss=case.loss,
            preconditioner=case.preconditioner,
            causal=case.causal,
            trials=case.trials,
        )
        for case in cases
    ]
    values = {name: [told[name] for told in each] for name in each[0]}
    return {
        name: of_all[0] if len(set(of_all)) == 1 else " | ".join(of_all)
        for name, of_all in values.items()
    } | {"cases": str(len(cases))}
