"""One Adam step on an equation: the PANN (constraint E, K) against the PINN, three layers of 100.

The two are timed in turns, several rounds of steps inside one compiled loop; the least time of
each counts.
"""

import dataclasses
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.harness import Row
from pann.architecture import Architecture
from pann.basis import make_basis, orthonormal_scales
from pann.domain import Box
from pann.loss import Loss
from pann.model import Parameters
from pann.network import activation_named
from pann.pde import Dirichlet, Problem
from pann.pde.rows import equation_rows
from pann.problems import poisson
from pann.solving.setup import Setup
from pann.training import Adam, Constant, Task

WIDTHS = (100, 100, 100)
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
            with jax.enable_x64(True), jax.default_matmul_precision("highest"):
                seconds = _measure(case, precision)
            yield {
                "equation": case.name,
                "points": case.num_points,
                "terms": make_basis(case.problem.domain, case.degree).num_terms,
                "precision": precision,
                "PINN ms": 1e3 * seconds["PINN"],
                "PANN ms": 1e3 * seconds["PANN"],
                "ratio": seconds["PANN"] / seconds["PINN"],
            }


def _measure(case: Case, precision: str) -> dict[str, float]:
    made = {
        "PINN": _task(case, precision, degree=0),
        "PANN": _task(case, precision, degree=case.degree),
    }
    seconds = dict.fromkeys(made, np.inf)
    # The first of the records has the compilation in it.
    stage = Adam(2 * STEPS, Constant(1e-4), record_every=STEPS)
    for _ in range(ROUNDS):
        for name, (task, trials) in made.items():
            _, outcome = stage.run(task, trials)
            first, second = outcome.history["seconds"]
            seconds[name] = min(seconds[name], (second - first) / STEPS)
    return seconds


def _task(case: Case, precision: str, *, degree: int) -> tuple[Task, Parameters]:
    problem, basis = case.problem, make_basis(case.problem.domain, degree)
    setup = Setup(
        problem, problem.check(), case.num_points, "sobol", 0, lambda progress: None, 400, 1.0
    )
    architecture = Architecture(WIDTHS, activation_named("tanh"), None, 0.0, None, False, precision)
    key = jax.random.key(0)
    parameters = architecture.start(problem.domain.dimension, basis.num_terms, 1, key=key)
    task = Task(
        rows=equation_rows(setup.placed(basis), problem, basis, precision),
        loss=Loss(constraint="E" if degree else "none"),
        key=key,
        term_scales=jnp.asarray(orthonormal_scales(basis), precision) if degree else None,
    )
    return task, jax.tree.map(lambda leaf: leaf[None], parameters)
