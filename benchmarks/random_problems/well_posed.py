"""Random problems with exactly one solution."""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from benchmarks.random_problems.case import (
    Case,
    derivative,
    manufactured,
    random_box,
    together,
    words_of,
)
from benchmarks.random_problems.conditions import random_conditions
from benchmarks.random_problems.equations import Equation, Maker
from benchmarks.random_problems.solutions import random_shape, with_background
from pann import Box, Dirichlet, Interface
from pann.pde import Break

TOLERANCES = (1e-3, 1e-4, 1e-6, 1e-8)
HARD_SHARE = 0.3


def well_posed(
    seed: int, rng: np.random.Generator, maker: Maker, dimensions: Sequence[int], in_time: bool
) -> Case:
    domain, equation = _random_equation(rng, maker, dimensions, in_time)
    order = max(equation.order, equation.time_order)
    shape = random_shape(rng, domain, order)
    shapes = [shape, *(random_shape(rng, domain, order, shape.name) for _ in equation.fields[1:])]
    if rng.uniform() < 0.5:
        shapes = [with_background(rng, domain, each) for each in shapes]
    exact = together(shapes)
    hard_share = HARD_SHARE if shape.name in ("smooth", "exponential") else 0.0
    box, conditions = random_conditions(rng, domain, equation, exact, hard_share)
    problem = manufactured(box, equation.operator, exact, conditions, equation.fields)
    return Case(
        seed,
        problem,
        exact,
        equation.name,
        shape.name,
        words_of(problem),
        width=min(each.width for each in shapes),
        tolerance=float(rng.choice(TOLERANCES)),
    )


def _random_equation(
    rng: np.random.Generator, maker: Maker, dimensions: Sequence[int], in_time: bool
) -> tuple[Box, Equation]:
    """A box, some of its axes periodic, and an equation that may have such axes."""
    likely = np.array([4.0, 4.0, 2.0, 0.5])[list(dimensions)]
    count = int(rng.choice(dimensions, p=likely / likely.sum()))
    while True:
        domain = random_box(rng, count, in_time)
        equation = maker(rng, domain)
        is_closed = len(domain.periodic) == count > 0
        if is_closed and not in_time and equation.ends != "coercive":
            continue
        if equation.ends != "periodic" or is_closed:
            return domain, equation


def source_jump(seed: int, rng: np.random.Generator) -> Case:
    """A source that jumps on a plane, where the basis is told to break, or is not."""
    domain = random_box(rng, int(rng.integers(1, 3)), in_time=False, may_repeat=0.0)
    plane, bend, c = _inner_plane(rng, domain), rng.uniform(1, 5), rng.uniform(0, 3)
    smooth = random_shape(rng, domain, 2, "smooth")

    def exact(**at: Any) -> Any:
        beyond = at["x"] - plane
        return smooth.function(**at) + bend * jnp.where(beyond > 0, beyond, 0.0) ** 2

    operator = lambda unknowns, at: -unknowns[0].laplacian + c * unknowns[0]
    said = (Break("x", plane),) if rng.uniform() < 0.5 else ()
    conditions = (Dirichlet(domain.boundary, exact), *said)
    problem = manufactured(domain, operator, exact, conditions)
    return Case(seed, problem, exact, "jump of the source", "smooth", words_of(problem), width=0.1)


def interface(seed: int, rng: np.random.Generator) -> Case:
    """A coefficient that jumps on a plane, with jumps of the solution and its flux."""
    domain = random_box(rng, int(rng.integers(1, 3)), in_time=False, may_repeat=0.0)
    plane, c = _inner_plane(rng, domain), rng.uniform(0, 3)
    below, above = (random_shape(rng, domain, 2, "smooth") for _ in range(2))
    lower, upper = 1.0, float(np.exp(rng.uniform(-3, 3)))
    coefficient = lambda **at: jnp.where(at["x"] < plane, lower, upper)
    exact = lambda **at: jnp.where(at["x"] < plane, below.function(**at), above.function(**at))
    operator = lambda unknowns, at: -coefficient(**at) * unknowns[0].laplacian + c * unknowns[0]
    jump = lambda **at: above.function(**at) - below.function(**at)
    flux_jump = lambda **at: (
        upper * derivative(domain, above.function, "x")(**at)
        - lower * derivative(domain, below.function, "x")(**at)
    )
    tie = Interface("x", plane, coefficient, jump, flux_jump)
    conditions = (Dirichlet(domain.boundary, exact), tie)
    problem = manufactured(domain, operator, exact, conditions)
    return Case(seed, problem, exact, "interface", "smooth", words_of(problem), width=0.1)


def _inner_plane(rng: np.random.Generator, domain: Box) -> float:
    return round(domain.lower[0] + float(rng.uniform(0.2, 0.8) * domain.widths[0]), 2)
