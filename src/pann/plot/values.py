"""What pictures of a solution show: its fields, their halves and errors on a grid.

All points go to the model in one call, also those of many times: frames compile nothing.
"""

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from pann.domain import Box
from pann.pde.evaluation import evaluate_parts
from pann.points import tensor_grid, where_inside

if TYPE_CHECKING:
    from pann.solvers.solution import Solution

SOLUTION, POLYNOMIAL, NETWORK = "solution", "polynomial half", "network half"
EXACT, ERROR = "exact", "|error|"

# Arrays on a grid by the names above.
Values = dict[str, np.ndarray]


def space_axes(domain: Box) -> tuple[str, ...]:
    """The axes that are not time."""
    return tuple(name for name in domain.names if name != domain.time)


def ticks_along(domain: Box, axis: str, count: int) -> Float[np.ndarray, " count"]:
    """Equispaced coordinates from one end of an axis to the other."""
    index = domain.names.index(axis)
    return np.linspace(domain.lower[index], domain.upper[index], count)


def shown_ticks(
    domain: Box, line: int, plane: int, space_time: int, times: int, snapshot: int
) -> dict[str, Float[np.ndarray, " _"]]:
    """Ticks, so many, of the axes that are drawn, the horizontal one first.

    One axis is a `line`, two of space a `plane`, time and one of space `space_time`; of more there
    are `times`, each a `snapshot`.
    """
    space, time = space_axes(domain), domain.time
    if domain.dimension == 1:
        counts = {domain.names[0]: line}
    elif time is None:
        counts = dict.fromkeys(space[:2], plane)
    elif len(space) == 1:
        counts = dict.fromkeys((time, *space), space_time)
    else:
        counts = {time: times} | dict.fromkeys(space[:2], snapshot)
    return {axis: ticks_along(domain, axis, count) for axis, count in counts.items()}


def cuts(domain: Box, ticks: Collection[str]) -> str:
    """Where the axes without ticks are cut, in the middle: y = 0.5, z = 0."""
    cut = (axis for axis in domain.names if axis not in ticks)
    return ", ".join(f"{axis} = {middle_of(domain, axis):g}" for axis in cut)


def grid_points(
    domain: Box, ticks: Mapping[str, Float[np.ndarray, " _"]]
) -> Float[np.ndarray, "points d"]:
    """The points of the ticks, in their order, which need not be that of the domain."""
    order = (*ticks, *(axis for axis in domain.names if axis not in ticks))
    grid = tensor_grid(*(ticks.get(axis, np.array([middle_of(domain, axis)])) for axis in order))
    return grid[:, [order.index(axis) for axis in domain.names]]


def name_of(solution: "Solution") -> str:
    return "solution" if solution.problem is None else solution.problem.name


def middle_of(domain: Box, axis: str) -> float:
    index = domain.names.index(axis)
    return (domain.lower[index] + domain.upper[index]) / 2


def values_on_grid(
    solution: "Solution", ticks: Mapping[str, Float[np.ndarray, " _"]]
) -> dict[str, Values]:
    """For every field its values by name, in the shape of the ticks, which come in any order.

    Axes without ticks are cut in the middle. The halves are there if there are two of them, the
    exact solution and the error where the problem knows it.
    """
    points = grid_points(solution.model.domain, ticks)
    shape = tuple(len(along) for along in ticks.values())
    network, polynomial = evaluate_parts(solution.model, solution.ansatz, points)
    values = {SOLUTION: network + polynomial}
    # The lift of an ansatz counts as the polynomial's, also where all terms are pruned.
    if solution.model.num_units and (solution.model.num_terms or solution.ansatz is not None):
        values |= {POLYNOMIAL: polynomial, NETWORK: network}
    if solution.problem is not None and solution.problem.exact is not None:
        exact, count = solution.problem.exact_at, len(solution.fields)
        at = lambda inside: exact(inside).T[None]
        (values[EXACT],) = where_inside(solution.model.domain, points, at, (1, count))
        values[ERROR] = np.abs(values[SOLUTION] - values[EXACT])
    return {
        field: {name: array[:, number].reshape(shape) for name, array in values.items()}
        for number, field in enumerate(solution.fields)
    }
