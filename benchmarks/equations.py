"""The elliptic problems of `pann.problems` without options, and their halves; sizes; weights.

Allen-Cahn at the paper's degree, where the polynomial does not resolve the solution, with a network
and without; there also with conditions as heavy as the equation, not as heavy as `solve` makes
them. The network alone is trained as it is beside a polynomial.
"""

import dataclasses
from collections.abc import Collection, Iterator

from benchmarks.harness import Row
from pann import MLP, Collocation, Hybrid, Polynomial, Problem, problems, solve
from pann.methods import SolveMethod
from pann.solvers.setup import CONDITION_WEIGHT

KEYS = ("problem", "options")


def rows(only: Collection[str] = ()) -> Iterator[Row]:
    """All rows, or those whose problem or options are named."""
    for name, options, problem, settings in _cases():
        if not only or name in only or options in only:
            yield _row(name, options, problem, settings)


def _cases() -> Iterator[tuple[str, str, Problem, SolveMethod | None]]:
    elliptic = {
        name: make for name, make in problems.PROBLEMS.items() if make().domain.time is None
    }
    for name, make in elliptic.items():
        yield name, "none", make(), None
    gauss = Hybrid(degree=21, collocation=Collocation(points=4096))
    yield "poisson", "degree 21, N=4096", problems.poisson(), gauss
    problem, size = problems.allen_cahn(), Collocation(points=4096, sampling="poisson_disk")
    both = Hybrid(degree=21, network=MLP(width=24), collocation=size)
    yield "allen_cahn", "degree 21, N=4096", problem, both
    coarse = Polynomial(degree=21, collocation=size)
    yield "allen_cahn", "degree 21, N=4096, no network", problem, coarse
    alone = Hybrid(degree=0, network=MLP(width=24))
    at_points = dataclasses.replace(alone, collocation=size)
    yield "allen_cahn", "N=4096, network alone", problem, at_points
    equal = [dataclasses.replace(c, weight=1 / CONDITION_WEIGHT) for c in problem.conditions]
    light = dataclasses.replace(problem, conditions=equal)
    label = "degree 21, N=4096, no network, conditions as heavy as the equation"
    yield "allen_cahn", label, light, coarse
    for name, make in elliptic.items():
        yield name, "network alone", make(), alone


def _row(name: str, options: str, problem: Problem, method: SolveMethod | None) -> Row:
    solution = solve(problem, method)
    return {
        "problem": name,
        "options": options,
        "error": solution.rel_l2,
        "residual": solution.residual,
        "degree": solution.report.degree,
        "units": solution.model.num_units,
        "seconds": solution.report.seconds,
    }
