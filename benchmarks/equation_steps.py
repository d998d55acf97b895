"""One Adam step on an equation: the PANN (constraint E, K) against the PINN, three layers of 100.

The two are timed in turns, several rounds of steps inside one compiled loop; the least time of
each counts.
"""

import dataclasses
from collections.abc import Iterator

from benchmarks.harness import Row
from benchmarks.steps import Step, seconds_a_step
from pann.basis import make_basis
from pann.domain import Box
from pann.pde import Dirichlet, Problem
from pann.problems import poisson

STEPS, ROUNDS = 20, 3


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    problem: Problem
    num_points: int
    degree: int


def _cases() -> list[Case]:
    square = Box(x=(-1, 1), t=(0, 1))
    edge = [Dirichlet(square.boundary, 0.0)]
    third = Problem(square, lambda u, x, t: u.t + u * u.x + u.xxx - 1, edge)
    fourth = Problem(square, lambda u, x, t: u.t + u * u.x + u.xx + u.xxxx - 1, edge)
    return [
        Case("u_xx + u_yy", poisson(), 4096, 21),
        Case("u_t + u u_x + u_xxx", third, 16_384, 12),
        Case("u_t + u u_x + u_xx + u_xxxx", fourth, 16_384, 12),
    ]


def rows() -> Iterator[Row]:
    for precision in ("float32", "float64"):
        for case in _cases():
            pann = Step(case.problem, case.num_points, case.degree, precision=precision)
            cases = {"PINN": dataclasses.replace(pann, degree=0), "PANN": pann}
            seconds = seconds_a_step(cases, STEPS, ROUNDS)
            yield {
                "equation": case.name,
                "points": case.num_points,
                "terms": make_basis(case.problem.domain, case.degree).num_terms,
                "precision": precision,
                "PINN ms": 1e3 * seconds["PINN"],
                "PANN ms": 1e3 * seconds["PANN"],
                "ratio": seconds["PANN"] / seconds["PINN"],
            }
