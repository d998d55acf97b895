"""Random conditions that make the solution of an equation unique."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.random_problems.case import derivative, outward_slope, value_of
from benchmarks.random_problems.equations import Equation, in_space
from benchmarks.random_problems.solutions import Function
from pann import Box, Data, Dirichlet, Initial, Neumann, Robin
from pann.pde import Condition, Periodic


def random_conditions(
    rng: np.random.Generator,
    domain: Box,
    equation: Equation,
    exact: Function,
    hard_share: float,
) -> tuple[Box, list[Condition]]:
    """What the equation asks for, and the box: a periodic axis may become a condition.

    `hard_share` is that of conditions that hold exactly, by polynomials: only smooth ones can.
    """
    joined = [axis for axis in domain.periodic if rng.uniform() < 0.25]
    box = _with_ends(domain, joined)
    conditions: list[Condition] = []
    for number, field in enumerate(equation.fields):
        value = value_of(exact, number)
        conditions += [Periodic(axis, equation.order - 1, field) for axis in joined]
        if equation.time_order:
            is_hard = bool(rng.uniform() < hard_share)
            conditions.append(Initial(value, field=field, hard=is_hard))
        if equation.time_order == 2:
            slope = derivative(box, exact, "t", 1, equation.fields, field)
            conditions.append(Initial(slope, order=1, field=field))
        sides = [
            (axis, side)
            for axis in in_space(domain)
            if axis not in domain.periodic
            for side in ("lower", "upper")
        ]
        if sides and (equation.ends != "first" or number == 0):
            conditions += _at_the_ends(rng, box, equation, exact, field, sides, hard_share)
    if not equation.time_order and rng.uniform() < 0.1:
        points = box.from_reference(rng.uniform(-1, 1, (20, box.dimension)))
        conditions.append(Data(points, value_of(exact, 0), field=equation.fields[0]))
    return box, conditions


def _with_ends(domain: Box, axes: Sequence[str]) -> Box:
    """The box with these axes no longer periodic."""
    ends = zip(domain.lower, domain.upper, strict=True)
    bounds: dict[str, Any] = dict(zip(domain.names, ends, strict=True))
    periodic = [axis for axis in domain.periodic if axis not in axes]
    return Box(periodic=periodic, time=domain.time, **bounds)


def _at_the_ends(
    rng: np.random.Generator,
    domain: Box,
    equation: Equation,
    exact: Function,
    field: str,
    sides: list[tuple[str, str]],
    hard_share: float,
) -> list[Condition]:
    """Conditions of one field at the ends of the axes that are not periodic."""
    value = value_of(exact, equation.fields.index(field))
    if equation.ends == "one value" and rng.uniform() < 0.5:
        points = domain.from_reference(rng.uniform(-0.8, 0.8, (1, domain.dimension)))
        return [Data(points, value, field=field)]
    if equation.ends in ("inflow", "one value"):
        sides = [each for each in sides if each[1] == "lower"]
    kinds = ["Dirichlet"] * len(sides)
    if equation.ends in ("any", "coercive") and rng.uniform() < 0.6:
        kinds = rng.choice(["Dirichlet", "Neumann", "Robin"], len(sides)).tolist()
        if equation.ends == "any" and not equation.time_order:
            kinds[rng.integers(len(sides))] = "Dirichlet"
    conditions: list[Condition] = []
    fixed = [side for side, kind in zip(sides, kinds, strict=True) if kind == "Dirichlet"]
    if fixed:
        faces = sum((domain.face(*side) for side in fixed[1:]), domain.face(*fixed[0]))
        conditions.append(Dirichlet(faces, value, field, hard=bool(rng.uniform() < hard_share)))
    for side, kind in zip(sides, kinds, strict=True):
        slope = outward_slope(domain, exact, side, equation.fields, field)
        face = domain.face(*side)
        if kind == "Neumann" and equation.flux is not None:
            conditions.append(
                Neumann(face, _product(equation.flux, slope), equation.flux, field=field)
            )
        elif kind == "Neumann" or equation.ends == "clamped":
            conditions.append(Neumann(face, slope, field=field))
        elif kind == "Robin":
            alpha, beta = rng.uniform(0.5, 2, 2).tolist()
            both = lambda value=value, slope=slope, alpha=alpha, beta=beta, **at: (
                alpha * value(**at) + beta * slope(**at)
            )
            conditions.append(Robin(face, alpha, beta, both, field))
    return conditions


def _product(first: Function, second: Function) -> Function:
    return lambda **at: first(**at) * second(**at)
