"""A problem whose solution is known, and what such problems are made of."""

import dataclasses
import inspect
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from benchmarks.random_problems.equations import Operator
from benchmarks.random_problems.solutions import Function, Shape
from pann import Box, Problem
from pann.pde import Condition
from pann.pde.fields import in_parts, known_fields

AXES = ("x", "y", "z")


@dataclasses.dataclass(frozen=True, eq=False)
class Case:
    """A problem, what is known of it, and words for a table.

    `expected` is "solvable", "undetermined" (then `other` solves it as well as `exact`),
    "inconsistent" (`exact` meets all conditions but one, which no solution meets with the others)
    or "unstable" (unique, but no solver can find it from rounded data). `width` is the length
    relative to the box over which the solution changes.
    """

    seed: int
    problem: Problem
    exact: Function
    equation: str
    solution: str
    conditions: str
    expected: str = "solvable"
    width: float = 1.0
    tolerance: float = 1e-6
    other: Function | None = None


def random_box(
    rng: np.random.Generator, count: int, in_time: bool, may_repeat: float = 0.25
) -> Box:
    """A box with axes x, y, z, each periodic with some probability, and t if it is in time."""
    axes: dict[str, Any] = {}
    for axis in AXES[:count]:
        low = round(float(rng.uniform(-2, 1)), 2)
        axes[axis] = (low, low + round(float(rng.uniform(0.8, 3)), 2))
    if in_time:
        axes["t"] = (0.0, round(float(rng.uniform(0.2, 1)), 2))
    periodic = [axis for axis in AXES[:count] if rng.uniform() < may_repeat]
    return Box(periodic=periodic, time="t" if in_time else None, **axes)


def manufactured(
    domain: Box,
    operator: Operator,
    exact: Function,
    conditions: Sequence[Condition],
    fields: tuple[str, ...] = ("u",),
) -> Problem:
    """operator(u) = operator(exact) with these conditions, without the solution in it."""

    def named(*unknowns: Any, **coordinates: Any) -> Any:
        return operator(unknowns, coordinates)

    named.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD)
            for name in (*fields, *domain.names)
        ]
    )
    problem = Problem.manufactured(domain, named, exact, fields=fields)
    return dataclasses.replace(problem, conditions=tuple(conditions), exact=None)


def together(shapes: Sequence[Shape]) -> Function:
    """One function of several, which returns a tuple unless there is only one."""
    if len(shapes) == 1:
        return shapes[0].function
    return lambda **at: tuple(shape.function(**at) for shape in shapes)


def derivative(
    domain: Box,
    exact: Function,
    axis: str,
    order: int = 1,
    fields: tuple[str, ...] = ("u",),
    field: str = "u",
) -> Function:
    """A derivative of one field of a solution as a function of the coordinates."""
    number = fields.index(field)
    return lambda **at: known_fields(domain, exact, fields, at)[number].d(**{axis: order})


def value_of(exact: Function, number: int) -> Function:
    """One field of a solution as a function of the coordinates."""
    return lambda **at: in_parts(exact(**at))[number]


def outward_slope(
    domain: Box,
    exact: Function,
    side: tuple[str, str],
    fields: tuple[str, ...] = ("u",),
    field: str = "u",
) -> Function:
    """The normal derivative on a face."""
    axis, end = side
    sign = 1.0 if end == "upper" else -1.0
    along = derivative(domain, exact, axis, 1, fields, field)
    return lambda **at: sign * along(**at)


def words_of(problem: Problem) -> str:
    """The kinds of conditions, for a table."""
    words = {
        type(condition).__name__ + (" hard" if getattr(condition, "hard", False) else "")
        for condition in problem.conditions
    }
    words |= {"periodic axis"} if problem.domain.periodic else set()
    return ", ".join(sorted(words)) or "none"


def values(function: Function, points: np.ndarray, names: Sequence[str]) -> np.ndarray:
    """A solution at points in double precision, a column for each field."""
    at: Mapping[str, Any] = {name: points[:, i] for i, name in enumerate(names)}
    with jax.enable_x64(True):
        parts = in_parts(function(**at))
        return np.stack([np.broadcast_to(part, len(points)) for part in parts], axis=1)
