"""A problem: a domain, a residual that reads like the equation, and conditions."""

import dataclasses
import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from pann.basis import PiecewiseLegendre
from pann.domain import Box, Faces
from pann.pde.conditions import (
    Break,
    Condition,
    Data,
    Dirichlet,
    Initial,
    Interface,
    Neumann,
    Periodic,
    Robin,
    Values,
)
from pann.pde.fields import Field, Order
from pann.pde.known import in_parts, known_fields, known_values
from pann.pde.planes import check_interface, check_plane, piecewise_axes

CHECK_POINTS = 16
# Axis, side and order of a derivative by that axis: what a hard condition fixes.
Trace = tuple[str, str, int]


@dataclasses.dataclass(frozen=True, eq=False)
class Problem:
    """residual(u, x, y) = 0 in the domain, with conditions.

    Arguments of the residual are matched by name: unknowns (`fields`), axes, and unknown
    `parameters` with their first guesses, which need data to be found. `exact` gives the solution
    where it is known, a function of the coordinates (for several fields a tuple of values). For
    several unknowns or equations the residual returns a tuple.
    """

    domain: Box
    residual: Callable[..., Any]
    conditions: Sequence[Condition] = ()
    exact: Callable[..., Any] | None = None
    fields: tuple[str, ...] = ("u",)
    parameters: Mapping[str, float] = dataclasses.field(default_factory=dict)
    name: str = "problem"

    @staticmethod
    def manufactured(
        domain: Box,
        operator: Callable[..., Any],
        exact: Callable[..., Any],
        *,
        fields: tuple[str, ...] = ("u",),
        name: str = "manufactured",
    ) -> "Problem":
        """operator(u, ...) = operator(exact, ...) with exact boundary and initial data.

        The right-hand side comes from `exact`, a function of the coordinates in jnp, by automatic
        differentiation; for several fields `exact` and `operator` return tuples. Initial data are
        as many as the order in time.
        """

        def residual(**given: Any) -> tuple[Any, ...]:
            coordinates = {axis: given[axis] for axis in domain.names}
            wanted = {key: coordinates[key] for key in _arguments(operator)[len(fields) :]}
            found = operator(*(given[field] for field in fields), **wanted)
            true = operator(*known_fields(domain, exact, fields, coordinates), **wanted)
            both = zip(in_parts(found), in_parts(true), strict=True)
            return tuple(left - right for left, right in both)

        residual.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [
                inspect.Parameter(key, inspect.Parameter.POSITIONAL_OR_KEYWORD)
                for key in (*fields, *domain.names)
            ]
        )
        free = Problem(domain, residual, (), exact, fields, name=name)
        conditions: list[Condition] = []
        for number, field in enumerate(fields):
            if len(domain.boundary):
                value = known_values(domain, exact, fields, field)
                conditions.append(Dirichlet(domain.boundary, value, field))
            if domain.time is not None:
                for order in range(free.highest_order(number, domain.time)):
                    value = known_values(domain, exact, fields, field, order)
                    conditions.append(Initial(value, order, field))
        return dataclasses.replace(free, conditions=conditions)

    def evaluate(
        self,
        get: Callable[[int, Order], Any],
        coordinates: Any,
        parameters: Mapping[str, Any],
        laplacian: Callable[[int], Any] | None = None,
    ) -> tuple[Any, ...]:
        """The residuals, one array each, from derivatives get(field, order) at the points.

        Laplacians are laplacian(field), or sums of derivatives.
        """
        given: dict[str, Any] = {
            name: Field(
                name,
                self.domain,
                functools.partial(get, number),
                None if laplacian is None else functools.partial(laplacian, number),
            )
            for number, name in enumerate(self.fields)
        }
        given |= {axis: coordinates[:, i] for i, axis in enumerate(self.domain.names)}
        given |= dict(parameters)
        result = self.residual(**{name: given[name] for name in _arguments(self.residual)})
        return tuple(part.value if isinstance(part, Field) else part for part in in_parts(result))

    def hard_traces(self, field: str) -> dict[Trace, Values]:
        """What holds exactly for a field, from its hard conditions."""
        traces: dict[Trace, Values] = {}
        for condition in self.conditions:
            if not isinstance(condition, Dirichlet | Initial) or not condition.hard:
                continue
            if (condition.field or self.fields[0]) != field:
                continue
            if isinstance(condition, Dirichlet):
                new = [(axis, side, 0) for axis, side in condition.faces.sides]
            else:
                new = [(str(self.domain.time), "lower", condition.order)]
            for axis, side, order in new:
                if (axis, side, order) in traces:
                    face = Faces(self.domain, ((axis, side),))
                    raise ValueError(
                        f"'{field}' has two hard conditions on {face}; keep one of them"
                    )
                traces[axis, side, order] = condition.value
        return traces

    def check(self) -> tuple[Order, ...]:
        """Find the user's mistakes before anything is compiled; the derivatives asked for."""
        self._check_names()
        for number, condition in enumerate(self.conditions):
            self._check_condition(condition)
            if isinstance(condition, Interface):
                which, before = self.field_number(condition), self.conditions[:number]
                same = [other for other in before if self.field_number(other) == which]
                check_interface(self.domain, condition, same)
        for field in self.fields:
            self._check_hard(field)
        if not self.conditions:
            raise ValueError(
                f"{self.name} has no conditions: infinitely many solutions; add for instance "
                "conditions=[pann.Dirichlet(domain.boundary, 0.0)]"
            )
        orders = _orders_asked_for(self)
        self._check_order_at_interfaces()
        return orders

    @property
    def pieces(self) -> dict[str, PiecewiseLegendre]:
        """The families along the axes that interfaces and breaks cut into pieces."""
        return piecewise_axes(self.domain, self.conditions)

    def highest_order(self, field: int, axis: str) -> int:
        """How often the residual differentiates a field along an axis."""
        asked = [0]

        def get(number: int, order: Order) -> jax.Array:
            if number == field:
                asked.append(order[self.domain.names.index(axis)])
            return jnp.ones(1)

        inside = self.domain.from_reference(np.full((1, self.domain.dimension), 0.123))
        self.evaluate(get, inside, self.parameters)
        return max(asked)

    def field_number(self, condition: Condition) -> int:
        """The field that a condition is about, the first if it names none."""
        name = None if isinstance(condition, Break) else condition.field
        return 0 if name is None else self.fields.index(name)

    def _check_names(self) -> None:
        clash = set(self.fields) & set(self.domain.names)
        if clash:
            raise ValueError(f"'{clash.pop()}' is both a field and an axis; rename one of them")
        known = {*self.fields, *self.domain.names, *self.parameters}
        for name in _arguments(self.residual):
            if name not in known:
                raise ValueError(
                    f"the residual asks for '{name}', which is no field, axis or parameter; there "
                    f"are {', '.join(sorted(known))}"
                )

    def _check_condition(self, condition: Condition) -> None:
        if isinstance(condition, Break):
            check_plane(self.domain, condition)
            return
        what = type(condition).__name__
        field = condition.field
        if field is None and len(self.fields) > 1:
            raise ValueError(f"{what} needs field=..., one of {', '.join(self.fields)}")
        if field is not None and field not in self.fields:
            raise ValueError(f"{what} names field '{field}'; there are {', '.join(self.fields)}")
        if isinstance(condition, Dirichlet | Neumann | Robin):
            if condition.faces.domain != self.domain:
                raise ValueError(f"{what} is on faces of another box, {condition.faces.domain}")
            if not len(condition.faces):
                raise ValueError(f"{what} is on no face: all axes are periodic or time")
        if isinstance(condition, Initial) and self.domain.time is None:
            raise ValueError("Initial needs a time axis: Box(x=..., t=..., time='t')")
        if isinstance(condition, Periodic) and condition.axis not in self.domain.names:
            raise ValueError(f"Periodic names axis '{condition.axis}', which is not in the domain")
        if isinstance(condition, Data):
            points = np.asarray(condition.points)
            if points.ndim != 2 or points.shape[1] != self.domain.dimension:
                raise ValueError(
                    f"Data needs points of shape (N, {self.domain.dimension}), got {points.shape}"
                )
            if not callable(condition.values):
                values = np.asarray(condition.values)
                if values.shape != points.shape[:1] or not np.all(np.isfinite(values)):
                    raise ValueError(
                        f"Data needs {len(points)} finite values, got shape {values.shape}"
                    )
            if not self.domain.contains(points):
                raise ValueError("some points of Data lie outside the domain")

    def _check_hard(self, field: str) -> None:
        traces, time = self.hard_traces(field), self.domain.time
        for axis, _, order in traces:
            if axis in self.domain.periodic:
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
                    f"'{field}' has hard conditions on value and derivative at the first moment "
                    f"and on the value at the last one, along '{time}'; use hard=False for one"
                )
        for condition in self.conditions:
            if not isinstance(condition, Periodic) or (condition.field or field) != field:
                continue
            if any(axis == condition.axis for axis, _, _ in traces):
                raise ValueError(
                    f"'{field}' is Periodic along '{condition.axis}' and has a hard condition on "
                    "a face of that axis; use hard=False there"
                )

    def _check_order_at_interfaces(self) -> None:
        for condition in self.conditions:
            if isinstance(condition, Interface):
                order = self.highest_order(self.field_number(condition), condition.axis)
                if order > 2:
                    raise ValueError(
                        f"Interface ties value and flux, enough for equations of second order; "
                        f"this one is of order {order} along '{condition.axis}'; write it as a "
                        "system of second order"
                    )

    def _check_residual(self) -> tuple[Order, ...]:
        asked: dict[Order, None] = {}
        rng = np.random.default_rng(0)
        inside = self.domain.from_reference(
            rng.uniform(-0.9, 0.9, (CHECK_POINTS, self.domain.dimension))
        )
        channels = rng.uniform(0.5, 1.5, (len(self.fields), CHECK_POINTS))

        def get(field: int, order: Order) -> jax.Array:
            asked[order] = None
            return jnp.asarray(channels[field])

        with jax.enable_x64(True):
            try:
                evaluate = jax.jit(lambda x: self.evaluate(get, x, self.parameters))
                parts = evaluate(jnp.asarray(inside))
            except TypeError as error:
                if "Field" in str(error):
                    raise ValueError(
                        "a function of jnp was given a field; give it the value, for instance "
                        f"jnp.sin({self.fields[0]}.value) ({error})"
                    ) from None
                raise
            except AttributeError as error:
                if "object has no attribute" in str(error) or "Tracer has no" in str(error):
                    raise ValueError(
                        "an expression was differentiated, but only fields have derivatives; write "
                        f"it out, (k * u.x).x as k_x * u.x + k * u.xx ({error})"
                    ) from None
                raise ValueError(str(error)) from None
            for number, part in enumerate(parts):
                array = np.asarray(part)
                if array.shape != (CHECK_POINTS,):
                    raise ValueError(
                        f"residual {number + 1} has shape {array.shape} at {CHECK_POINTS} points; "
                        "it needs one number a point"
                    )
                if not np.all(np.isfinite(array)):
                    where = inside[np.argmin(np.isfinite(array))]
                    raise ValueError(
                        f"residual {number + 1} is not finite at {where}; "
                        "look for a division by zero or a root of a negative number in it"
                    )
        if not any(sum(order) for order in asked):
            raise ValueError("the residual asks for no derivative: is it a differential equation?")
        return tuple(asked)


# A problem is solved many times: what its residual asks for does not change.
@functools.lru_cache(maxsize=16)
def _orders_asked_for(problem: Problem) -> tuple[Order, ...]:
    return problem._check_residual()


def _arguments(function: Callable[..., Any]) -> list[str]:
    return list(inspect.signature(function).parameters)
