"""Every problem of `pann.problems` without options; Poisson at the paper's size; the weights.

The last two rows are Allen-Cahn at the paper's degree, where the polynomial does not resolve the
solution, with the conditions as heavy as `solve` makes them and as heavy as the equation.
"""

import dataclasses
from collections.abc import Iterator

from benchmarks.harness import Row
from pann import Problem, problems, solve
from pann.solving.setup import CONDITION_WEIGHT


def rows() -> Iterator[Row]:
    for name, make in problems.PROBLEMS.items():
        yield _row(name, "none", make())
    yield _row("poisson", "degree 21, N=4096", problems.poisson(), degree=21, points=4096)
    coarse = {"degree": 21, "points": 4096, "sampling": "poisson_disk", "width": 0}
    problem = problems.allen_cahn()
    yield _row("allen_cahn", "degree 21, N=4096, no network", problem, **coarse)
    equal = [dataclasses.replace(c, weight=1 / CONDITION_WEIGHT) for c in problem.conditions]
    light = dataclasses.replace(problem, conditions=equal)
    yield _row("allen_cahn", "the same, conditions as heavy as the equation", light, **coarse)


def _row(name: str, options: str, problem: Problem, **settings: object) -> Row:
    solution = solve(problem, **settings)
    return {
        "problem": name,
        "options": options,
        "error": solution.rel_l2,
        "residual": solution.residual,
        "degree": solution.report.degree,
        "units": solution.model.num_units,
        "seconds": solution.report.seconds,
    }
