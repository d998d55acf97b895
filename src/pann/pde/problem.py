"""A problem: a domain, a residual that reads like the equation, and conditions."""

import dataclasses
import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from pann.arguments import call_by_name
from pann.basis import PiecewiseLegendre
from pann.domain import Box, Faces
from pann.pde.conditions import (
    Break,
    Condition,
    Dirichlet,
    Initial,
    Values,
    piecewise_axes,
    values_at,
)
from pann.pde.fields import (
    Field,
    Order,
    in_parts,
    known_fields,
    known_values,
    laplacian_in_space,
    plain_array,
)
from pann.pde.trace import Channel, Trace, Wrapped, trace_residual
from pann.shapes import Boundary, Shape


class HardTrace(NamedTuple):
    """What a hard condition fixes on a face: the derivative of this order by its axis."""

    axis: str
    side: str
    order: int

    def face(self, domain: Box) -> Faces:
        return Faces(domain, ((self.axis, self.side),))


@dataclasses.dataclass(frozen=True, eq=False, init=False)
class Problem:
    """residual(u, x, y) = 0 in the domain, a box or a shape, with conditions.

    Arguments of the residual are matched by name: unknowns (`fields`), axes, and unknown
    `parameters` with their first guesses, which need data to be found; others need a default value.
    `exact` gives the solution where it is known, a function of the coordinates (for several fields
    a tuple of values). For several unknowns or equations the residual returns a tuple. `trace` is
    what the residual computes, found when the problem is solved.
    """

    domain: Box
    residual: Callable[..., Any]
    conditions: Sequence[Condition] = ()
    exact: Callable[..., Any] | None = None
    fields: tuple[str, ...] = ("u",)
    parameters: Mapping[str, float] = dataclasses.field(default_factory=dict)
    name: str = "problem"
    trace: Trace | None = dataclasses.field(default=None, repr=False)

    def __init__(
        self,
        domain: Box | Shape,
        residual: Callable[..., Any],
        conditions: Sequence[Condition] = (),
        exact: Callable[..., Any] | None = None,
        fields: tuple[str, ...] = ("u",),
        parameters: Mapping[str, float] = MappingProxyType({}),
        name: str = "problem",
        trace: Trace | None = None,
    ):
        object.__setattr__(self, "domain", domain.box if isinstance(domain, Shape) else domain)
        for key, value in {
            "residual": residual,
            "conditions": conditions,
            "exact": exact,
            "fields": fields,
            "parameters": dict(parameters),
            "name": name,
            "trace": trace,
        }.items():
            object.__setattr__(self, key, value)

    @staticmethod
    def manufactured(
        domain: Box | Shape,
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

        domain = domain.box if isinstance(domain, Shape) else domain

        def residual(**given: Any) -> tuple[Any, ...]:
            coordinates = {axis: given[axis] for axis in domain.names}
            named = list(inspect.signature(operator).parameters)[len(fields) :]
            wanted = {key: coordinates[key] for key in named if key in coordinates}
            found = operator(*(given[field] for field in fields), **wanted)
            true = operator(*known_fields(domain, exact, fields, coordinates), **wanted)
            both = zip(in_parts(found), in_parts(true), strict=True)
            return tuple(plain_array(left) - plain_array(right) for left, right in both)

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
        wrapped: Wrapped | None = None,
    ) -> tuple[Any, ...]:
        """The residuals, one array each, from derivatives get(field, order) at the points.

        Laplacians are laplacian(field), or sums of derivatives; `wrapped` is that of the trace.
        """
        if wrapped is None:
            wrapped = Wrapped() if self.trace is None else self.trace.wrapped
        channel = lambda number, order: wrapped.channel(get(number, order))
        whole = None if laplacian is None else lambda number: wrapped.channel(laplacian(number))
        given: dict[str, Any] = {
            name: Field(
                name,
                self.domain,
                functools.partial(channel, number),
                None if whole is None else functools.partial(whole, number),
            )
            for number, name in enumerate(self.fields)
        }
        given |= {
            axis: wrapped.coordinate(coordinates[:, i]) for i, axis in enumerate(self.domain.names)
        }
        given |= dict(parameters)
        result = call_by_name(self.residual, given)
        if result is None or isinstance(result, Mapping | str):
            raise ValueError(
                f"the residual returns a {type(result).__name__}; return the left-hand side of "
                "the equation less its right-hand side, or a tuple of several"
            )
        return tuple(map(plain_array, in_parts(result)))

    def evaluate_at(self, points: Any, channels: Mapping[Channel, Any]) -> tuple[Any, ...]:
        """The residuals at points, from a number or an array for each derivative asked for."""
        get = lambda field, order: jnp.broadcast_to(channels[field, order], len(points))
        return self.evaluate(get, points, self.parameters)

    def traced(self, *, again: bool = False) -> "Problem":
        """The problem with the trace of its residual; made `again` where it may have changed."""
        if self.trace is not None and not again:
            return self
        trace = self._traced()
        return self if trace == self.trace else _with_trace(self, trace)

    @property
    def asked(self) -> Trace:
        """What the residual asks for."""
        return self._traced() if self.trace is None else self.trace

    def _traced(self) -> Trace:
        laplacian = laplacian_in_space(self.domain)
        return trace_residual(self.evaluate, self.domain.dimension, self.parameters, laplacian)

    def exact_at(self, points: np.ndarray) -> np.ndarray:
        """The known solution at points, a row for each field."""
        if self.exact is None:
            raise ValueError(f"no solution of {self.name} is known; give exact=...")
        coordinates = dict(zip(self.domain.names, points.T, strict=True))
        # One call gives all fields: a reference solution takes its time.
        try:
            with jax.enable_x64(True):
                parts = in_parts(call_by_name(self.exact, coordinates))
        except Exception as error:
            raise ValueError(
                f"exact could not be computed at {len(points)} points: {type(error).__name__}: "
                f"{error}; it takes arrays of coordinates"
            ) from error
        if len(parts) != len(self.fields):
            raise ValueError(
                f"exact gives {len(parts)} fields, and there are {len(self.fields)}, "
                f"{', '.join(self.fields)}; return a tuple with one for each"
            )
        return np.stack([values_at(part, self.domain, points, "exact") for part in parts])

    def hard_traces(self, field: str) -> dict[HardTrace, Values]:
        """What holds exactly for a field, from its hard conditions."""
        traces: dict[HardTrace, Values] = {}
        for condition in self.conditions:
            if not isinstance(condition, Dirichlet | Initial) or not condition.hard:
                continue
            if (condition.field or self.fields[0]) != field:
                continue
            if isinstance(condition, Dirichlet):
                if isinstance(condition.faces, Boundary):
                    continue  # pann.pde.hard_on_shapes
                new = [HardTrace(axis, side, 0) for axis, side in condition.faces.sides]
            else:
                new = [HardTrace(str(self.domain.time), "lower", condition.order)]
            for trace in new:
                if trace in traces:
                    raise ValueError(
                        f"'{field}' has two hard conditions on {trace.face(self.domain)}; keep one "
                        "of them"
                    )
                traces[trace] = condition.value
        return traces

    @property
    def pieces(self) -> dict[str, PiecewiseLegendre]:
        """The families along the axes that interfaces and breaks cut into elements."""
        return piecewise_axes(self.domain, self.conditions)

    def highest_order(self, field: int, axis: str) -> int:
        """How often the residual differentiates a field along an axis."""
        return self.asked.highest(self.domain.names.index(axis), field)

    def of_field(self, number: int) -> list[Condition]:
        """The conditions about a field."""
        return [each for each in self.conditions if self.field_number(each) == number]

    def field_number(self, condition: Condition) -> int:
        """The field that a condition is about, the first if it names none."""
        name = None if isinstance(condition, Break) else condition.field
        return 0 if name is None else self.fields.index(name)


# One problem for each that was given and each trace of its residual: programs belong to it.
@functools.lru_cache(maxsize=32)
def _with_trace(problem: Problem, trace: Trace) -> Problem:
    return dataclasses.replace(problem, trace=trace)
