"""From a problem and axes to the equations of a window: tables, and values of the conditions."""

import dataclasses
from collections.abc import Iterable

import jax
import numpy as np
from jaxtyping import Float

from pann.domain import Box
from pann.pde.conditions import (
    Break,
    Condition,
    Data,
    Dirichlet,
    Initial,
    Integral,
    Interface,
    Neumann,
    Periodic,
    Robin,
    Values,
    values_at,
)
from pann.pde.problem import Problem
from pann.solvers.windows.axes import SpaceAxis, decouple, node_tables, radau_nodes, time_table
from pann.solvers.windows.system import Grid, Rows, RowValues, System, Window

# Only moves an array of NumPy: jnp.asarray would compile a program for each shape.
on_device = jax.device_put


@dataclasses.dataclass(frozen=True)
class Spec:
    """One condition on one face: alpha u + beta du/dn = value."""

    side: str
    alpha: Values = 1.0
    beta: Values = 0.0
    value: Values = 0.0


def specs(problem: Problem, axis: str, field: str) -> list[Spec]:
    """The conditions of a field at the ends of an axis; Periodic ones are not among them."""
    found = []
    for condition in problem.conditions:
        if problem.fields[problem.field_number(condition)] != field:
            continue
        if not isinstance(condition, Dirichlet | Neumann | Robin):
            continue
        for name, side in condition.faces.sides:
            if name != axis:
                continue
            if isinstance(condition, Dirichlet):
                found.append(Spec(side, value=condition.value))
            elif isinstance(condition, Neumann):
                found.append(Spec(side, 0.0, condition.coefficient, condition.value))
            else:
                found.append(Spec(side, condition.alpha, condition.beta, condition.value))
    return found


def is_joined(problem: Problem, axis: str, field: str) -> bool:
    """Whether the ends of an axis are one place: by the domain, or by a condition."""
    joined = any(
        isinstance(condition, Periodic)
        and condition.axis == axis
        and problem.fields[problem.field_number(condition)] == field
        for condition in problem.conditions
    )
    return joined or axis in problem.domain.periodic


def highest_order(problem: Problem, axis: str, field: str | None = None) -> int:
    """How often the residual differentiates a field, or any of them, along an axis."""
    number = None if field is None else problem.fields.index(field)
    return problem.asked.highest(problem.domain.names.index(axis), number)


def make_system(
    problem: Problem, axes: tuple[SpaceAxis, ...], time_order: int, count: int, seed: int
) -> System:
    """Tables for windows with `count` nodes in time."""
    channels = problem.asked.channels
    highest = [highest_order(problem, axis.name) for axis in axes]
    rng = np.random.default_rng(seed + 7)

    def grid(
        reference: list[np.ndarray], times: np.ndarray, time_tables: Iterable[np.ndarray]
    ) -> Grid:
        return Grid(
            points=tuple(
                on_device(axis.coordinates(at)) for axis, at in zip(axes, reference, strict=True)
            ),
            tables=tuple(
                tuple(on_device(axis.table(at, k)) for k in range(most + 1))
                for axis, at, most in zip(axes, reference, highest, strict=True)
            ),
            times=on_device(times),
            time_tables=tuple(map(on_device, time_tables)),
        )

    nodes = [axis.grid[0] for axis in axes]
    anywhere = [rng.uniform(-1.0, 1.0, len(at)) for at in nodes]
    at_any_time = np.sort(rng.uniform(0, 1, count))
    decoupled = decouple(time_order, count)
    rows = tuple(
        tuple(Rows(on_device(forms(problem, axis, field))) for field in problem.fields)
        for axis in axes
    )
    return System(
        grid=grid(nodes, radau_nodes(count), node_tables(time_order, count)),
        fresh=grid(
            anywhere,
            at_any_time,
            (time_table(at_any_time, time_order, count, k) for k in range(time_order + 1)),
        ),
        projections=tuple(on_device(axis.projection) for axis in axes),
        rows=rows,
        numbers=on_device(decoupled.numbers),
        into=on_device(decoupled.into),
        back=on_device(decoupled.back),
        waves=tuple(on_device(_waves(axis)) for axis in axes),
        problem=problem,
        channels=channels,
        time_order=time_order,
    )


def _waves(axis: SpaceAxis) -> Float[np.ndarray, " functions"]:
    """0, 1, ..., K, -1, ..., -K in units of the axis; none where it has no waves."""
    if not axis.is_fourier:
        return np.zeros(0)
    numbers = np.arange(1.0, axis.level + 1)
    return 2.0 * np.pi / axis.width * np.concatenate([[0.0], numbers, -numbers])


def forms(problem: Problem, axis: SpaceAxis, field: str) -> Float[np.ndarray, "rows 2 functions"]:
    if axis.is_fourier:
        return np.zeros((0, 2, axis.num_functions))
    order = highest_order(problem, axis.name, field)
    jumps = axis.continuity_rows(order, at_seam=is_joined(problem, axis.name, field))
    continuity = np.stack([jumps, np.zeros_like(jumps)], axis=1)
    ends = [axis.end_rows(spec.side) for spec in specs(problem, axis.name, field)]
    return np.concatenate([continuity, np.stack(ends)]) if ends else continuity


def make_window(
    system: System,
    axes: tuple[SpaceAxis, ...],
    begin: float,
    length: float,
    start: Float[np.ndarray, "order fields ..."],
) -> Window:
    """A window with the values that its conditions have there."""
    problem = system.problem
    times = begin + length * radau_nodes(system.into.shape[1])
    values = tuple(
        tuple(
            row_values(problem, axes, number, field, times, len(system.rows[number][place].forms))
            for place, field in enumerate(problem.fields)
        )
        for number in range(len(axes))
    )
    return Window(
        on_device(np.asarray(begin)), on_device(np.asarray(length)), on_device(start), values
    )


def row_values(
    problem: Problem,
    axes: tuple[SpaceAxis, ...],
    number: int,
    field: str,
    times: Float[np.ndarray, " nodes"],
    count: int,
) -> RowValues:
    axis, domain = axes[number], problem.domain
    others = [other for other in axes if other is not axis]
    along = [other.coordinates(other.grid[0]) for other in others]
    mesh = np.meshgrid(*along, times, indexing="ij")
    shape = mesh[0].shape
    given = [] if axis.is_fourier else specs(problem, axis.name, field)
    weights, values = np.zeros((count, 2, *shape)), np.zeros((count, *shape))
    weights[: count - len(given), 0] = 1.0
    columns = {other.name: part.ravel() for other, part in zip(others, mesh[:-1], strict=True)}
    columns[str(domain.time)] = mesh[-1].ravel()
    for row, spec in enumerate(given, start=count - len(given)):
        end = axis.lower if spec.side == "lower" else axis.upper
        at_end = columns | {axis.name: np.full(mesh[0].size, end)}
        points = np.stack([at_end[name] for name in domain.names], axis=1)
        for place, value in ((weights[row, 0], spec.alpha), (weights[row, 1], spec.beta)):
            place[...] = values_at(value, domain, points).reshape(shape)
        values[row] = values_at(spec.value, domain, points).reshape(shape)
    return RowValues(on_device(weights), on_device(values))


def initial_values(
    problem: Problem, axes: tuple[SpaceAxis, ...]
) -> Float[np.ndarray, "order fields ..."]:
    """Coefficients in space of the given first state and its time derivatives."""
    domain = problem.domain
    mesh = np.meshgrid(*(axis.coordinates(axis.grid[0]) for axis in axes), indexing="ij")
    shape = mesh[0].shape if mesh else ()
    size = int(np.prod(shape))
    columns = {axis.name: part.ravel() for axis, part in zip(axes, mesh, strict=True)}
    columns[str(domain.time)] = np.full(size, first_moment(domain))
    points = np.stack([columns[name] for name in domain.names], axis=1)
    states = [condition for condition in problem.conditions if isinstance(condition, Initial)]
    order = 1 + max(condition.order for condition in states)
    found = np.zeros((order, len(problem.fields), *shape))
    for condition in states:
        values = values_at(condition.value, domain, points)
        found[condition.order, problem.field_number(condition)] = values.reshape(shape)
    for axis in axes:
        found = np.tensordot(found, axis.projection, axes=(2, 1))
    return found


def first_moment(domain: Box) -> float:
    return domain.lower[domain.names.index(str(domain.time))]


# ---- Which problems can be solved window by window, and why others cannot ----


MAX_TIME_ORDER = 2


def reason_against(problem: Problem) -> str | None:
    """A sentence that says what stands in the way of windows, or None."""
    domain = problem.domain
    if domain.time is None:
        return "windows need a time axis: Box(x=..., t=..., time='t')"
    if domain.time in domain.periodic:
        return f"windows go forward in time, but '{domain.time}' is periodic"
    if problem.parameters:
        return f"windows solve for the fields alone, not for {', '.join(problem.parameters)}"
    if problem.asked.has_integrals:
        return "windows solve equations without integrals"
    for condition in problem.conditions:
        if sentence := _against(problem, condition):
            return sentence
    orders = {field: highest_order(problem, domain.time, field) for field in problem.fields}
    if len(set(orders.values())) > 1 or not 1 <= next(iter(orders.values())) <= MAX_TIME_ORDER:
        found = ", ".join(f"{order} for {field}" for field, order in orders.items())
        return f"windows need the same order in time for all fields, 1 or 2; here it is {found}"
    return _against_counts(problem, next(iter(orders.values())))


def _against(problem: Problem, condition: Condition) -> str | None:
    if isinstance(condition, Break | Data | Integral | Interface):
        return f"windows do not take the condition {type(condition).__name__}"
    if isinstance(condition, Dirichlet | Neumann | Robin):
        if any(axis == problem.domain.time for axis, _ in condition.faces.sides):
            return (
                f"{type(condition).__name__} is on a face of the time axis; windows start from "
                "the condition Initial"
            )
        if any(axis in problem.domain.periodic for axis, _ in condition.faces.sides):
            return f"{type(condition).__name__} is on a face of a periodic axis"
    return None


def _against_counts(problem: Problem, order: int) -> str | None:
    """Initial states and conditions at the ends must be as many as the orders ask for."""
    for number, field in enumerate(problem.fields):
        given = sorted(
            condition.order
            for condition in problem.conditions
            if isinstance(condition, Initial) and problem.field_number(condition) == number
        )
        if given != list(range(order)):
            return (
                f"windows need Initial for '{field}' of the orders {list(range(order))}, one each; "
                f"given are {given}"
            )
        for axis in problem.domain.names:
            if axis == problem.domain.time or axis in problem.domain.periodic:
                continue
            wanted = highest_order(problem, axis, field)
            found = len(specs(problem, axis, field))
            if is_joined(problem, axis, field):
                if found:
                    return f"'{field}' is Periodic along '{axis}' and has conditions at its ends"
            elif found != wanted:
                return (
                    f"the equation is of order {wanted} for '{field}' along '{axis}' and needs as "
                    f"many conditions at its ends; given are {found}"
                )
    return None
