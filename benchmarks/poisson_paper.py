"""Poisson's equation with recipe `paper`: PINN and PANN, three layers of 50, one trial, float32.

Beside our cells stand the published means over five trials (paper, table of Poisson's equation,
Poisson-disk points). 100,000 Adam steps: minutes on a GPU, hours on a CPU.
"""

from collections.abc import Callable, Iterator

from benchmarks.harness import Row
from pann import baselines, solve
from pann.problems import poisson
from pann.solution import Solution

C = 0.003
PUBLISHED = {
    ("PINN", 1024): 2.640,
    ("PINN", 4096): 5.20e-1,
    ("PANN", 1024): 4.214,
    ("PANN", 4096): 5.10e-6,
}


def rows(chosen: tuple[tuple[str, int], ...] = tuple(PUBLISHED)) -> Iterator[Row]:
    for method, num_points in chosen:
        solution = _solvers()[method](num_points)
        yield {
            "method": method,
            "points": num_points,
            "degree": solution.report.degree,
            "error": solution.rel_l2,
            "published": PUBLISHED[method, num_points],
            "residual": solution.residual,
            "terms left": solution.model.num_terms,
            "units left": solution.model.num_units,
            "seconds": solution.report.seconds,
        }


def _solvers() -> dict[str, Callable[[int], Solution]]:
    options = {"sampling": "poisson_disk", "width": 50, "depth": 3, "precision": "float32"}
    return {
        "PINN": lambda count: baselines.pinn(poisson(), points=count, **options),
        "PANN": lambda count: solve(poisson(), recipe="paper", c=C, points=count, **options),
    }
