"""What windows make of a problem's conditions: rows at the ends of axes, and the initial state.

`reason_against` says which problems can be solved in windows, and why others cannot.
"""

from collections.abc import Sequence

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float

from pann.pde.conditions import Initial, OnBoundary, Periodic, Values, values_at
from pann.pde.interfaces import rough_along
from pann.pde.problem import Problem
from pann.solvers.windows.axes import Axes, SpaceAxis

MAX_TIME_ORDER = 2


class RowValues(eqx.Module):
    """What the conditions of a window say: weights of the two linear forms, and their sum."""

    weights: Float[Array, "rows 2 ..."]
    values: Float[Array, "rows ..."]


def end_conditions(problem: Problem, axis: str, field: int) -> list[tuple[str, OnBoundary]]:
    """Sides of an axis, and what holds for a field there; Periodic ones are not among them."""
    return [
        (side, condition)
        for condition in problem.of_field(field)
        if isinstance(condition, OnBoundary)
        for name, side in condition.faces.sides
        if name == axis
    ]


def is_joined(problem: Problem, axis: str, field: int) -> bool:
    """Whether the ends of an axis are one point: by the domain, or by a condition."""
    return axis in problem.domain.periodic or any(
        isinstance(each, Periodic) and each.axis == axis for each in problem.of_field(field)
    )


def condition_rows(
    problem: Problem, axis: SpaceAxis, field: int
) -> Float[np.ndarray, "rows 2 functions"]:
    """Two linear forms per row: jumps (and zero), then value and outward derivative at ends."""
    if axis.is_fourier:
        return np.zeros((0, 2, axis.num_functions))
    order = problem.highest_order(field, axis.name)
    jumps = axis.continuity_rows(order, at_seam=is_joined(problem, axis.name, field))
    continuity = np.stack([jumps, np.zeros_like(jumps)], axis=1)
    ends = [axis.end_rows(side) for side, _ in end_conditions(problem, axis.name, field)]
    return np.concatenate([continuity, np.stack(ends)]) if ends else continuity


def row_values(
    problem: Problem,
    axes: Axes,
    number: int,
    field: int,
    times: Float[np.ndarray, " nodes"],
    count: int,
) -> RowValues:
    """Weights and values of the rows of a field along an axis, on the grid of the others."""
    axis = axes[number]
    others = [other for other in axes if other is not axis]
    mesh = np.meshgrid(*(other.points for other in others), times, indexing="ij")
    shape = mesh[0].shape
    given = [] if axis.is_fourier else end_conditions(problem, axis.name, field)
    weights, values = np.zeros((count, 2, *shape)), np.zeros((count, *shape))
    weights[: count - len(given), 0] = 1.0
    for row, (side, condition) in enumerate(given, start=count - len(given)):
        end = np.full(shape, axis.lower if side == "lower" else axis.upper)
        along = [*mesh[:number], end, *mesh[number:]]
        weights[row, 0] = _values_on(problem, axes, along, condition.alpha)
        weights[row, 1] = _values_on(problem, axes, along, condition.beta)
        values[row] = _values_on(problem, axes, along, condition.value)
    return RowValues(*jax.device_put((weights, values)))


def initial_values(problem: Problem, axes: Axes) -> Float[np.ndarray, "order fields ..."]:
    """Coefficients in space of the initial state and its time derivatives."""
    along = [axis.points for axis in axes]
    mesh = np.meshgrid(*along, np.array(problem.domain.times[:1]), indexing="ij")
    states = [condition for condition in problem.conditions if isinstance(condition, Initial)]
    order = 1 + max(condition.order for condition in states)
    found = np.zeros((order, len(problem.fields), *mesh[0].shape[:-1]))
    for condition in states:
        values = _values_on(problem, axes, mesh, condition.value)
        found[condition.order, problem.field_number(condition)] = values[..., 0]
    for axis in axes:
        found = np.tensordot(found, axis.projection, axes=(2, 1))
    return found


def order_along(problem: Problem, field: int, axis: int) -> int:
    """The order of the derivative along an axis of the domain that is kept: the highest even one.

    0 if the field's equation has none by that axis alone.
    """
    own = [
        order[axis]
        for number, order in problem.asked.channels
        if number == field and order[axis] and sum(order) == order[axis]
    ]
    return max((each for each in own if each % 2 == 0), default=0)


def stays_rough(problem: Problem) -> dict[str, list[float]]:
    """Axes along which the initial state has jumps or kinks that no equation smooths, and where."""
    domain = problem.domain
    begin = {domain.time_number: domain.times[0]}
    found: dict[str, list[float]] = {}
    for condition in problem.conditions:
        if not isinstance(condition, Initial):
            continue
        field = problem.field_number(condition)
        for index, axis in enumerate(domain.names):
            is_smoothed = (
                problem.highest_order(field, str(domain.time)) == 1
                and order_along(problem, field, index) > 0
            )
            if axis == domain.time or is_smoothed:
                continue
            if places := rough_along(domain, condition.value, index, begin):
                found[axis] = [*found.get(axis, []), *places]
    return found


def _values_on(
    problem: Problem, axes: Axes, mesh: Sequence[np.ndarray], value: Values
) -> np.ndarray:
    """A given number or function on a mesh of the axes of space and time."""
    names = [*(axis.name for axis in axes), str(problem.domain.time)]
    columns = dict(zip(names, mesh, strict=True))
    points = np.stack([columns[name].ravel() for name in problem.domain.names], axis=1)
    return values_at(value, problem.domain, points).reshape(mesh[0].shape)


def reason_against(problem: Problem) -> str | None:
    """A sentence that says why a problem cannot be solved in windows, or None."""
    domain = problem.domain
    if domain.time is None:
        return "windows need a time axis: Box(x=..., t=..., time='t')"
    if domain.shape is not None:
        return "windows are for boxes; use pann.Polynomial() or pann.Hybrid() on a shape"
    if domain.time in domain.periodic:
        return f"windows go forward in time, but '{domain.time}' is periodic"
    if problem.parameters:
        return f"windows solve for the fields alone, not for {', '.join(problem.parameters)}"
    if problem.asked.has_integrals:
        return "windows solve equations without integrals"
    for condition in problem.conditions:
        name = type(condition).__name__
        if isinstance(condition, OnBoundary):
            axes = [axis for axis, _ in condition.faces.sides]
            if domain.time in axes:
                return f"{name} is on a face of the time axis; windows start from Initial"
            if any(axis in domain.periodic for axis in axes):
                return f"{name} is on a face of a periodic axis"
        elif not isinstance(condition, Initial | Periodic):
            return f"windows do not take the condition {name}"
    orders = [problem.highest_order(k, domain.time) for k in range(len(problem.fields))]
    if len(set(orders)) > 1 or not 1 <= orders[0] <= MAX_TIME_ORDER:
        named = zip(orders, problem.fields, strict=True)
        found = ", ".join(f"{order} for {field}" for order, field in named)
        return f"windows need the same order in time for all fields, 1 or 2; here it is {found}"
    return _against_counts(problem, orders[0])


def _against_counts(problem: Problem, order: int) -> str | None:
    """Initial states and conditions at the ends must be as many as the equation's orders."""
    for number, field in enumerate(problem.fields):
        given = sorted(c.order for c in problem.of_field(number) if isinstance(c, Initial))
        if given != list(range(order)):
            return (
                f"windows need Initial for '{field}' of the orders {list(range(order))}, one each; "
                f"given are {given}"
            )
        for axis in problem.domain.names:
            if axis == problem.domain.time or axis in problem.domain.periodic:
                continue
            wanted = problem.highest_order(number, axis)
            found = len(end_conditions(problem, axis, number))
            if is_joined(problem, axis, number):
                if found:
                    return f"'{field}' is Periodic along '{axis}' and has conditions at its ends"
            elif found != wanted:
                return (
                    f"the equation is of order {wanted} for '{field}' along '{axis}' and needs as "
                    f"many conditions at its ends; given are {found}"
                )
    return None
