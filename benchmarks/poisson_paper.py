"""Poisson's equation with recipe `paper`: PINN and PANN, three layers of 50, one trial, float32.

Beside our cells stand the published means over five trials (paper, table of Poisson's equation,
Poisson-disk points). The number of L-BFGS iterations is missing in the paper: 400, and 8,000, for
a step of the library it used makes up to 20. 100,000 Adam steps: minutes on a GPU, hours on a CPU.
"""

import dataclasses
from collections.abc import Callable, Iterator

from benchmarks.harness import Row
from pann import MLP, Collocation, Training, baselines, solve
from pann.problems import poisson
from pann.solvers.solution import Solution
from pann.training import LBFGS, PAPER_EQUATIONS

C = 0.003
PUBLISHED = {
    ("PINN", 1024): 2.640,
    ("PINN", 4096): 5.20e-1,
    ("PANN", 1024): 4.214,
    ("PANN", 4096): 5.10e-6,
}


LBFGS_ITERATIONS = (400, 8_000)
Cell = tuple[str, int, int]
CELLS: tuple[Cell, ...] = tuple(
    (method, num_points, iterations)
    for iterations in LBFGS_ITERATIONS
    for method, num_points in PUBLISHED
)


def rows(chosen: tuple[Cell, ...] = CELLS) -> Iterator[Row]:
    for method, num_points, iterations in chosen:
        solution = SOLVERS[method](num_points, iterations)
        yield {
            "method": method,
            "points": num_points,
            "L-BFGS": iterations,
            "degree": solution.report.degree,
            "error": solution.rel_l2,
            "published": PUBLISHED[method, num_points],
            "residual": solution.residual,
            "terms left": solution.model.num_terms,
            "units left": solution.model.num_units,
            "seconds": solution.report.seconds,
        }


def _method(num_points: int, iterations: int) -> Training:
    """The paper's stages with so many iterations of L-BFGS."""
    stages = tuple(
        dataclasses.replace(
            stage, iterations=iterations, memory=LBFGS.memory, record_every=iterations // 20
        )
        if isinstance(stage, LBFGS)
        else stage
        for stage in PAPER_EQUATIONS
    )
    return Training.paper(
        stages=stages,
        c=C,
        network=MLP(width=50, depth=3),
        collocation=Collocation(points=num_points, sampling="poisson_disk"),
    )


def _pinn(num_points: int, iterations: int) -> Solution:
    return baselines.pinn(poisson(), _method(num_points, iterations), precision="float32")


def _pann(num_points: int, iterations: int) -> Solution:
    return solve(poisson(), _method(num_points, iterations), precision="float32")


SOLVERS: dict[str, Callable[[int, int], Solution]] = {"PINN": _pinn, "PANN": _pann}
