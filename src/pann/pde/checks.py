"""What stands in the way of solving a problem: each mistake is one sentence with its cure."""

import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from pann.arguments import check_arguments
from pann.domain import Box, Faces
from pann.pde.conditions import (
    FEWEST_POINTS,
    SAME_PLANE,
    Break,
    Condition,
    Data,
    Initial,
    Integral,
    Interface,
    OnBoundary,
    Periodic,
    check_values,
    is_same_plane,
    values_at,
)
from pann.pde.fields import NeedsNumber, NoDerivative, Numbers
from pann.pde.hard_on_shapes import hard_parts
from pann.pde.interfaces import moved_off
from pann.pde.problem import Problem
from pann.pde.trace import NUM_POINTS
from pann.points import check_inside
from pann.shapes import Boundary


def checked(problem: Problem) -> Problem:
    """The problem with its trace; mistakes are found before anything is compiled."""
    if not isinstance(problem, Problem):
        raise TypeError(
            f"an equation is given as a pann.Problem, got {_short(problem)}; write "
            "pann.Problem(domain, residual, conditions)"
        )
    _check_names(problem)
    try:
        problem = problem.traced(again=True)
    except Exception as error:
        raise _explained(problem, error) from error
    _check(problem)
    return problem


# What is found of a problem and its trace does not change.
@functools.lru_cache(maxsize=32)
def _check(problem: Problem) -> None:
    conditions = problem.conditions
    for position, condition in enumerate(conditions):
        _check_condition(problem, condition)
        if isinstance(condition, Interface):
            _check_interface(problem, condition, conditions[:position])
        _check_functions(problem, condition)
    for field in problem.fields:
        _check_hard(problem, field)
    # On a ring the equation may determine its solution by itself.
    if not conditions and len(problem.domain.periodic) < problem.domain.dimension:
        raise ValueError(
            f"{problem.name} has no conditions: infinitely many solutions; add for instance "
            "conditions=[pann.Dirichlet(domain.boundary, 0.0)]"
        )
    _check_residual(problem)
    for number in range(len(problem.fields)):
        _check_states(problem, number)


def _check_names(problem: Problem) -> None:
    if not isinstance(problem.conditions, Sequence):
        raise TypeError(
            f"conditions must be a list of conditions, got {type(problem.conditions).__name__}; "
            "write conditions=[...]"
        )
    if not callable(problem.residual):
        raise TypeError(
            f"the residual must be a function, got {_short(problem.residual)}; write for instance "
            f"lambda {problem.fields[0]}: {problem.fields[0]}.{problem.domain.names[0] * 2}"
        )
    if isinstance(problem.fields, str):
        raise TypeError(f"fields are a tuple of names, got {problem.fields!r}; write fields=('u',)")
    clash = set(problem.fields) & set(problem.domain.names)
    if clash:
        raise ValueError(f"'{clash.pop()}' is both a field and an axis; rename one of them")
    known = dict.fromkeys([*problem.fields, *problem.domain.names, *problem.parameters])
    check_arguments(problem.residual, known, "the residual")


# ---- Conditions ----


def _check_condition(problem: Problem, condition: Condition) -> None:
    domain = problem.domain
    if not isinstance(condition, Condition):
        raise TypeError(
            f"conditions are Dirichlet, Neumann, Initial, pann.pde.Periodic, ..., got "
            f"{type(condition).__module__.split('.')[0]}.{type(condition).__name__}; write "
            "conditions=[pann.Dirichlet(domain.boundary, 0.0)]"
        )
    if isinstance(condition, Break):
        _check_plane(domain, condition)
        return
    what = type(condition).__name__
    field = condition.field
    if field is None and len(problem.fields) > 1:
        raise ValueError(f"{what} needs field=..., one of {', '.join(problem.fields)}")
    if field is not None and field not in problem.fields:
        raise ValueError(f"{what} names field '{field}'; there are {', '.join(problem.fields)}")
    if isinstance(condition, OnBoundary):
        if isinstance(condition.faces, Boundary):
            _check_boundary(domain, condition.faces, what)
        elif not isinstance(condition.faces, Faces):
            wanted, whole = "faces", "domain"
            one = f"domain.face('{domain.names[0]}', 'lower') for one"
            if domain.shape is not None:
                wanted, whole = "parts of the boundary", "shape"
                one = f"shape.boundary['{domain.boundary.names[0]}'] for a part"
            raise TypeError(
                f"{what} needs {wanted} of the domain, got {_short(condition.faces)}; write "
                f"{whole}.boundary for all of them, or {one}"
            )
        elif condition.faces.domain != domain:
            raise ValueError(f"{what} is on faces of another box, {condition.faces.domain}")
        if not len(condition.faces):
            raise ValueError(f"{what} is on no face: all axes are periodic or time")
    if isinstance(condition, Initial):
        if domain.time is None:
            raise ValueError("Initial needs a time axis: Box(x=..., t=..., time='t')")
        if not isinstance(condition.order, int) or condition.order < 0:
            raise ValueError(
                f"the order of Initial is that of a derivative by time, 0, 1, ..., got "
                f"{condition.order!r}"
            )
    if domain.shape is not None and isinstance(condition, Periodic | Interface | Integral):
        raise ValueError(
            f"{what} goes with boxes, and the domain is {domain.shape}; give conditions on "
            "parts of its boundary, or pann.Data"
        )
    if isinstance(condition, Periodic) and condition.axis not in domain.names:
        raise ValueError(f"Periodic names axis '{condition.axis}', which is not in the domain")
    if isinstance(condition, Integral):
        unknown = set(condition.over(domain)) - set(domain.names)
        if unknown:
            raise ValueError(
                f"Integral is over '{unknown.pop()}', which is no axis; there are "
                f"{', '.join(domain.names)}"
            )
    if isinstance(condition, Data):
        _check_data(problem, condition)


def _check_boundary(domain: Box, boundary: Boundary, what: str) -> None:
    if domain.shape is None:
        raise ValueError(
            f"{what} is on the boundary of {boundary.shape}, but the domain is a box; make the "
            "shape the domain: pann.Problem(shape, ...)"
        )
    if boundary.shape != domain.shape:
        raise ValueError(
            f"{what} is on the boundary of {boundary.shape}, but the domain is {domain.shape}; "
            "take the parts of that one's boundary"
        )


def _check_data(problem: Problem, condition: Data) -> None:
    domain, points = problem.domain, np.asarray(condition.points)
    if points.ndim != 2 or points.shape[1] != domain.dimension or not len(points):
        raise ValueError(f"Data needs points of shape (N, {domain.dimension}), got {points.shape}")
    if not callable(condition.values):
        values = np.asarray(condition.values)
        if values.shape != points.shape[:1] or not np.all(np.isfinite(values)):
            raise ValueError(f"Data needs {len(points)} finite values, got shape {values.shape}")
    if not np.all(np.isfinite(points)):
        raise ValueError("some points of Data are NaN or infinite; remove them")
    check_inside(domain, points.astype(float), points.dtype, "points of Data")


def _check_functions(problem: Problem, condition: Condition) -> None:
    """Functions of a condition name axes, and go point by point."""
    domain = problem.domain
    names = ("value", "coefficient", "alpha", "beta", "jump", "flux_jump")
    given = {name: value for name, value in vars(condition).items() if name in names}
    if isinstance(condition, Break | Data | Periodic) or not given:
        return
    rng = np.random.default_rng(0)
    points = domain.filled(lambda count: rng.random((count, domain.dimension)), FEWEST_POINTS)
    if isinstance(condition, OnBoundary) and isinstance(condition.faces, Boundary):
        on_parts = condition.faces.points(FEWEST_POINTS)[0]
        points[:, domain.space] = np.resize(on_parts, (FEWEST_POINTS, len(domain.space)))
    elif isinstance(condition, OnBoundary | Initial):
        faces = domain.initial if isinstance(condition, Initial) else condition.faces
        assert isinstance(faces, Faces)
        axis, side = faces.sides[0]
        points[:, domain.names.index(axis)] = faces.end(axis, side)
    if isinstance(condition, Interface):
        points[:, domain.names.index(condition.axis)] = condition.at
    for name, value in given.items():
        check_values(value, domain, points, f"{name} of {type(condition).__name__}")


def _check_hard(problem: Problem, field: str) -> None:
    traces, time = problem.hard_traces(field), problem.domain.time
    for axis, _, order in traces:
        if axis in problem.domain.periodic:
            raise ValueError(
                f"'{field}' has a hard condition on a face of '{axis}', but that axis is "
                f"periodic and has no faces; leave '{axis}' out of periodic=..., or the "
                "condition out"
            )
        if order not in (0, 1):
            raise ValueError(
                f"Initial of order {order} cannot be hard, only 0 and 1 can; use hard=False"
            )
        if order == 1 and (axis, "lower", 0) not in traces:
            raise ValueError(
                f"'{field}' has a hard Initial of order 1 without one of order 0; add "
                "Initial(value, hard=True), or use hard=False"
            )
        if order == 1 and (axis, "upper", 0) in traces:
            raise ValueError(
                f"'{field}' has hard conditions on value and derivative at the initial time "
                f"and on the value at the final time, along '{time}'; use hard=False for one"
            )
    if (traces or hard_parts(problem, field)) and has_integrals(problem):
        raise ValueError(
            f"'{field}' has a hard condition, with which integrals are not computed; use hard=False"
        )
    for condition in problem.of_field(problem.fields.index(field)):
        if isinstance(condition, Periodic) and any(axis == condition.axis for axis, *_ in traces):
            raise ValueError(
                f"'{field}' is Periodic along '{condition.axis}' and has a hard condition on "
                "a face of that axis; use hard=False there"
            )


def has_integrals(problem: Problem) -> bool:
    """Whether the equation or a condition asks for an integral."""
    given = any(isinstance(condition, Integral) for condition in problem.conditions)
    return given or problem.asked.has_integrals


def _check_states(problem: Problem, field: int) -> None:
    """As many states at the ends of time as the order in time, unless data stand in for some."""
    time, name = problem.domain.time, problem.fields[field]
    if time is None or time in problem.domain.periodic:
        return
    given = {each.order for each in problem.of_field(field) if isinstance(each, Initial)}
    order = problem.highest_order(field, time)

    def stands_in(condition: Condition) -> bool:
        if isinstance(condition, OnBoundary):
            faces = condition.faces
            return isinstance(faces, Faces) and any(axis == time for axis, _ in faces.sides)
        is_around = isinstance(condition, Periodic) and condition.axis == time
        return is_around or isinstance(condition, Data | Integral)

    if len(given) >= order or any(map(stands_in, problem.conditions)):
        return
    missing = [k for k in range(order) if k not in given]
    cures = ", ".join("pann.Initial(...)" if k == 0 else f"pann.Initial(..., {k})" for k in missing)
    raise ValueError(
        f"the conditions do not determine {name}: the equation is of order {order} in {time}, and "
        f"of its states at the start {len(given)} are given; add {cures}"
    )


def _short(value: Any) -> str:
    """What was given, on one line."""
    if np.ndim(value):
        return f"an array of shape {np.shape(value)}"
    shown = repr(value)
    is_short = len(shown) < 60 and " at 0x" not in shown and "\n" not in shown
    return shown if is_short else f"a {type(value).__name__}"


def _check_plane(domain: Box, condition: Interface | Break) -> None:
    """Refuse a plane that is not inside, or across an axis that cannot be cut."""
    what, axis, at = type(condition).__name__, condition.axis, condition.at
    if axis not in domain.names:
        raise ValueError(
            f"{what} names axis '{axis}', which is not in the domain; its axes are "
            f"{', '.join(domain.names)}"
        )
    if axis in domain.periodic:
        raise ValueError(
            f"{what} is across axis '{axis}', which is periodic; make the box without "
            "periodic=... and use the condition pann.pde.Periodic"
        )
    if axis == domain.time:
        raise ValueError(
            f"{what} is across axis '{axis}', which is time; solve one interval after the other"
        )
    index = domain.names.index(axis)
    low, high = domain.lower[index], domain.upper[index]
    room = SAME_PLANE * (high - low)
    if not low + room < at < high - room:
        raise ValueError(f"{what} is at {axis} = {at}, which must lie inside ({low:g}, {high:g})")


def _check_interface(problem: Problem, condition: Interface, before: Sequence[Condition]) -> None:
    """Refuse a plane that is there twice, or has a coefficient that is not finite."""
    domain, axis, at = problem.domain, condition.axis, condition.at
    _check_plane(domain, condition)
    field = problem.field_number(condition)
    same_field = [other for other in before if problem.field_number(other) == field]
    for other in same_field:
        if isinstance(other, Interface) and is_same_plane(domain, other, axis, at):
            raise ValueError(
                f"there are two conditions Interface at {axis} = {at} for the same field; "
                "put jump and flux_jump into one"
            )
    rng = np.random.default_rng(0)
    points = domain.from_reference(rng.uniform(-0.9, 0.9, (NUM_POINTS, domain.dimension)))
    points[:, domain.names.index(axis)] = at
    for side in (-1.0, 1.0):
        try:
            values_at(condition.coefficient, domain, moved_off(domain, points, axis, at, side))
        except ValueError as error:
            raise ValueError(f"Interface at {axis} = {at}, coefficient: {error}") from None
    order = problem.highest_order(field, axis)
    if order > 2:
        raise ValueError(
            f"Interface ties value and flux, enough for equations of second order; this one is of "
            f"order {order} along '{axis}'; write it as a system of second order"
        )


# ---- The residual ----


def _explained(problem: Problem, error: Exception) -> Exception:
    """A sentence with a cure for what went wrong while a residual ran on symbols."""
    field, text = problem.fields[0], str(error).split("\n")[0]
    if isinstance(error, NeedsNumber | NoDerivative | ValueError):
        return ValueError(text)
    if isinstance(error, jax.errors.TracerArrayConversionError):
        return ValueError(
            "the residual gives the same numbers to functions of NumPy and to functions of JAX; "
            "use those of jax.numpy alone, jnp.sin for np.sin"
        )
    if isinstance(error, AttributeError) and isinstance(error.obj, jax.Array | Numbers):
        return ValueError(
            "an expression was differentiated, but only fields have derivatives; write it out, "
            f"(k * {field}.x).x as k_x * {field}.x + k * {field}.xx ({text})"
        )
    # JAX asks a field for `__jax_array__` in sums and products, too: only its error tells.
    if isinstance(error, TypeError) and "Field" in text:
        return ValueError(
            "a function of jnp was given a field; give it the value, for instance "
            f"jnp.sin({field}.value) ({text})"
        )
    return ValueError(f"the residual failed with {type(error).__name__}: {text}; look there first")


def _check_residual(problem: Problem) -> None:
    """The residuals at a few points: as many as fields, one finite number per point by itself."""
    asked = problem.asked
    _check_number(problem, asked.num_residuals)
    if not any(any(order) for order in asked.orders):
        raise ValueError("the residual asks for no derivative: is it a differential equation?")
    rng, domain = np.random.default_rng(0), problem.domain
    inside = domain.filled(lambda count: rng.random((count, domain.dimension)), NUM_POINTS)
    values = {channel: rng.uniform(0.5, 1.5, NUM_POINTS) for channel in asked.channels}
    # Half of the points, in another order: each must have what it had among all of them.
    some = rng.permutation(NUM_POINTS)[: NUM_POINTS // 2]

    def at(rows: np.ndarray | slice) -> tuple[jax.Array, ...]:
        channels = {channel: array[rows] for channel, array in values.items()}
        return problem.evaluate_at(jnp.asarray(inside[rows]), channels)

    with jax.enable_x64(True):
        whole, part = jax.jit(lambda: (at(slice(None)), at(some)))()
    for number, (here, there) in enumerate(zip(whole, part, strict=True)):
        array = np.asarray(here)
        if array.dtype.kind != "f":
            raise ValueError(
                f"residual {number + 1} is of type {array.dtype}, and must be real; write real and "
                "imaginary part as two fields, and a difference instead of a comparison"
            )
        if array.shape != (NUM_POINTS,):
            raise ValueError(
                f"residual {number + 1} has shape {array.shape} at {NUM_POINTS} points; "
                "it needs one number per point"
            )
        if not np.all(np.isfinite(array)):
            where = inside[np.argmin(np.isfinite(array))]
            raise ValueError(
                f"residual {number + 1} is not finite at {where}; "
                "look for a division by zero or a root of a negative number in it"
            )
        if not np.allclose(array[some], np.asarray(there), rtol=1e-9, atol=1e-12):
            raise ValueError(
                f"residual {number + 1} at a point depends on the other points (a mean, a sum or a "
                f"maximum over them?), so that it would change with their number; for an integral "
                f"write {problem.fields[0]}.integral('{problem.domain.names[0]}'), or "
                f"{problem.fields[0]}.integral() over the whole domain"
            )


def _check_number(problem: Problem, num_residuals: int) -> None:
    """As many equations as fields, unless data stand in for one."""
    num_fields = len(problem.fields)
    used = {field for field, _ in problem.asked.channels}
    absent = [name for number, name in enumerate(problem.fields) if number not in used]
    if absent:
        raise ValueError(
            f"the residual does not depend on {', '.join(absent)}; add an equation for it, or take "
            "it out of fields"
        )
    has_data = any(isinstance(condition, Data) for condition in problem.conditions)
    if num_residuals < num_fields and not has_data:
        raise ValueError(
            f"there are {num_fields} fields, {', '.join(problem.fields)}, but the residual has "
            f"{num_residuals} equation{'s' if num_residuals > 1 else ''}; return a tuple with an "
            "equation for each field"
        )
