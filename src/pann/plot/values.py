"""What pictures of a solution show: its fields, their halves and errors on a grid.

All points go to the model in one call, also those of many times: frames compile nothing.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float

from pann.domain import Box
from pann.model.pann import PANN
from pann.pde.evaluation import evaluate_parts
from pann.pde.hard_conditions import Ansatz
from pann.pde.problem import Problem
from pann.points import tensor_grid

SOLUTION, POLYNOMIAL, NETWORK = "solution", "polynomial half", "network half"
EXACT, ERROR = "exact", "|error|"

# Arrays on a grid by the names above.
Values = dict[str, np.ndarray]


@runtime_checkable
class Quality(Protocol):
    """What a picture needs of a solution's report."""

    @property
    def degree(self) -> int: ...
    @property
    def residual(self) -> float: ...
    @property
    def rel_l2(self) -> float | None: ...
    @property
    def history(self) -> Mapping[str, Sequence[float]]: ...


@runtime_checkable
class Drawable(Protocol):
    """What a picture needs of a solution."""

    @property
    def model(self) -> PANN: ...
    @property
    def ansatz(self) -> Ansatz | None: ...
    @property
    def fields(self) -> tuple[str, ...]: ...
    @property
    def report(self) -> Quality: ...
    @property
    def problem(self) -> Problem | None: ...


def space_axes(domain: Box) -> tuple[str, ...]:
    """The axes that are not time."""
    return tuple(name for name in domain.names if name != domain.time)


def ticks_along(domain: Box, axis: str, count: int) -> Float[np.ndarray, " count"]:
    """Equispaced coordinates from one end of an axis to the other."""
    index = domain.names.index(axis)
    return np.linspace(domain.lower[index], domain.upper[index], count)


def name_of(solution: Drawable) -> str:
    return "solution" if solution.problem is None else solution.problem.name


def middle_of(domain: Box, axis: str) -> float:
    index = domain.names.index(axis)
    return (domain.lower[index] + domain.upper[index]) / 2


def values_on_grid(
    solution: Drawable, ticks: Mapping[str, Float[np.ndarray, " _"]]
) -> dict[str, Values]:
    """For every field its values by name, in the shape of the ticks, which come in any order.

    Axes without ticks are cut in the middle. The halves are there if there are two of them, the
    exact solution and the error where the problem knows it.
    """
    domain = solution.model.domain
    axes = {axis: ticks.get(axis, np.array([middle_of(domain, axis)])) for axis in domain.names}
    # In the order of the ticks, which need not be that of the domain.
    order = (*ticks, *(axis for axis in domain.names if axis not in ticks))
    grid = tensor_grid(*(axes[axis] for axis in order))
    points = grid[:, [order.index(axis) for axis in domain.names]]
    shape = tuple(len(along) for along in ticks.values())
    network, polynomial = evaluate_parts(solution.model, solution.ansatz, points)
    exact = None
    if solution.problem is not None and solution.problem.exact is not None:
        exact = list(solution.problem.exact_at(points))
    fields = {}
    for number, field in enumerate(solution.fields):
        value = network[:, number] + polynomial[:, number]
        values = {SOLUTION: value}
        if _has_two_halves(solution):
            values[POLYNOMIAL] = polynomial[:, number]
            values[NETWORK] = network[:, number]
        if exact is not None:
            values[EXACT] = exact[number]
            values[ERROR] = np.abs(value - exact[number])
        fields[field] = {name: array.reshape(shape) for name, array in values.items()}
    return fields


def _has_two_halves(solution: Drawable) -> bool:
    # The lift of an ansatz counts as the polynomial's, also where all terms are pruned.
    polynomial = solution.model.num_terms > 0 or solution.ansatz is not None
    return polynomial and solution.model.num_units > 0
