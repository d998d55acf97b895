"""solve_together(problem, cases): several sets of points or seeds, trained as one program."""

import os
import pathlib
import time
from collections.abc import Mapping, Sequence
from typing import Any

import jax

from pann.checkpoints import Checkpoint
from pann.pde.problem import Problem
from pann.runtime_limits import Report
from pann.solution import Solution
from pann.solving.configuration import configuration
from pann.solving.folder import all_in_folder, prepared_folder
from pann.solving.gradient import Case, training_options
from pann.solving.group import check_shared, solve_group
from pann.solving.memory import case_bytes
from pann.solving.plan import make_plan
from pann.system_memory import device_memory

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
