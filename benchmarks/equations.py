"""The elliptic problems of `pann.problems` without options, and their halves; sizes; weights.

Allen-Cahn at the paper's degree, where the polynomial does not resolve the solution, with a network
and without; there also with conditions as heavy as the equation, not as heavy as `solve` makes
them. The network alone is trained as it is beside a polynomial.
"""

import dataclasses
from collections.abc import Collection, Iterator

from benchmarks.harness import Row
from pann import Problem, problems, solve
from pann.solvers.setup import CONDITION_WEIGHT

KEYS = ("problem", "options")


def rows(only: Collection[str] = ()) -> Iterator[Row]:
    """All rows, or those whose problem or options are named."""
    for name, options, problem, settings in _cases():
        if not only or name in only or options in only:
            yield _row(name, options, problem, **settings)


def _cases() -> Iterator[tuple[str, str, Problem, dict[str, object]]]:
    elliptic = {
        name: make for name, make in problems.PROBLEMS.items() if make().domain.time is None
    }
    for name, make in elliptic.items():
        yield name, "none", make(), {}
    yield "poisson", "degree 21, N=4096", problems.poisson(), {"degree": 21, "points": 4096}
    problem, size = problems.allen_cahn(), {"points": 4096, "sampling": "poisson_disk"}
    yield "allen_cahn", "degree 21, N=4096", problem, {"degree": 21, "width": 24, **size}
    coarse = {"degree": 21, "width": 0, **size}
    yield "allen_cahn", "degree 21, N=4096, no network", problem, coarse
    alone = {"degree": 0, "width": 24}
    yield "allen_cahn", "N=4096, network alone", problem, {**alone, **size}
    equal = [dataclasses.replace(c, weight=1 / CONDITION_WEIGHT) for c in problem.conditions]
    light = dataclasses.replace(problem, conditions=equal)
    told = "degree 21, N=4096, no network, conditions as heavy as the equation"
    yield "allen_cahn", told, light, coarse
    for name, make in elliptic.items():
        yield name, "network alone", make(), alone


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
