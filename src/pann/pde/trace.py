"""What a residual computes, found by running it once on symbols.

The trace says which derivatives of which fields a residual asks for and how many equations it has,
and has a fingerprint of the computation itself, numbers included. Residuals read global variables,
closures and attributes, which may change from one solve to the next: compiled programs are shared
by equations of equal fingerprints, and by no others.
"""

import dataclasses
import hashlib
import itertools
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core as jax_core

from pann.basis.basis import INTEGRAL
from pann.pde.fields import NeedsNumber, Numbers, Order

NUM_POINTS = 16
MAX_CHANNELS = 256

Channel = tuple[int, Order]
Get = Callable[[int, Order], Any]
# Of the residuals: derivatives, coordinates, parameters, Laplacians; and what is wrapped for NumPy.
Evaluate = Callable[[Get, Any, Mapping[str, Any], Callable[[int], Any], "Wrapped"], tuple]

_numbers = itertools.count()


@dataclasses.dataclass(frozen=True)
class Wrapped:
    """What a residual gets in a form that functions of NumPy take."""

    coordinates: bool = False
    fields: bool = False

    def coordinate(self, array: Any) -> Any:
        return Numbers(array) if self.coordinates else array

    def channel(self, array: Any) -> Any:
        return Numbers(array) if self.fields else array


# Functions of JAX refuse wrapped numbers: as little is wrapped as it takes.
WAYS = [Wrapped(coordinates, fields) for fields in (False, True) for coordinates in (False, True)]


@dataclasses.dataclass(frozen=True)
class Trace:
    """What a residual asks for; equal traces compute the same.

    `besides_laplacians` are the orders asked for besides Laplacians, None where there are none.
    """

    fingerprint: bytes
    channels: tuple[Channel, ...] = dataclasses.field(compare=False)
    besides_laplacians: tuple[Order, ...] | None = dataclasses.field(compare=False)
    num_residuals: int = dataclasses.field(compare=False)
    wrapped: Wrapped = dataclasses.field(compare=False)

    @property
    def orders(self) -> tuple[Order, ...]:
        """All derivatives asked for, of any field."""
        return tuple(dict.fromkeys(order for _, order in self.channels))

    def highest(self, axis: int, field: int | None = None) -> int:
        """How often a field, or any of them, is differentiated along an axis."""
        orders = (order[axis] for each, order in self.channels if field in (None, each))
        return max(orders, default=0)

    @property
    def has_integrals(self) -> bool:
        return any(INTEGRAL in order for order in self.orders)


def trace_residual(
    evaluate: Evaluate, dimension: int, parameters: Mapping[str, float], laplacian: Any
) -> Trace:
    """Run a residual on symbols; `laplacian` is that of the domain, as a sum of derivatives."""
    errors: list[Exception] = []
    for wrapped in WAYS:
        try:
            return _traced(evaluate, dimension, parameters, laplacian, wrapped)
        except Exception as error:
            # Maybe a function of NumPy was given an array of JAX, or the other way round.
            errors.append(error)
    # Wrapped numbers say what is wrong in their own words.
    raise next((error for error in errors if isinstance(error, NeedsNumber)), errors[0])


def _traced(
    evaluate: Evaluate,
    dimension: int,
    parameters: Mapping[str, float],
    laplacian: Any,
    wrapped: Wrapped,
) -> Trace:
    asked: dict[Channel, Any] = {}
    besides_laplacians: dict[Order, None] = {}
    laplacians: list[int] = []

    def run(coordinates: Any, channels: Any, values: Any) -> tuple:
        def look_up(field: int, order: Order) -> Any:
            if (field, order) not in asked:
                asked[field, order] = channels[len(asked)]
            return asked[field, order]

        def get(field: int, order: Order) -> Any:
            besides_laplacians[order] = None
            return look_up(field, order)

        def of_laplacian(field: int) -> Any:
            laplacians.append(field)
            return laplacian.total(lambda order: look_up(field, order))

        named = dict(zip(parameters, values, strict=True))
        parts = evaluate(get, coordinates, named, of_laplacian, wrapped)
        return tuple(jnp.asarray(part) for part in parts)

    with jax.enable_x64(True):
        shapes = (
            jax.ShapeDtypeStruct((NUM_POINTS, dimension), float),
            jax.ShapeDtypeStruct((MAX_CHANNELS, NUM_POINTS), float),
            [jax.ShapeDtypeStruct((), float)] * len(parameters),
        )
        computed = jax.make_jaxpr(run)(*shapes)
    digest = hashlib.blake2b(repr((tuple(asked), wrapped)).encode())
    _add(digest, computed)
    return Trace(
        fingerprint=digest.digest(),
        channels=tuple(asked),
        besides_laplacians=tuple(besides_laplacians) if laplacians else None,
        num_residuals=len(computed.jaxpr.outvars),
        wrapped=wrapped,
    )


def _add(digest: Any, value: Any) -> None:
    """Add a computation, or a parameter of one of its steps, to a fingerprint."""
    match value:
        case jax_core.ClosedJaxpr():
            _add_steps(digest, value.jaxpr)
            for const in value.consts:
                _add(digest, const)
        case jax_core.Jaxpr():
            _add_steps(digest, value)
        case np.ndarray() | np.generic() | jax.Array():
            array = np.asarray(value)
            digest.update(f"{array.dtype}{array.shape}".encode())
            digest.update(np.ascontiguousarray(array).tobytes())
        case tuple() | list():
            digest.update(f"{len(value)}(".encode())
            for each in value:
                _add(digest, each)
        case dict():
            _add(digest, [(key, value[key]) for key in sorted(value, key=str)])
        case _ if callable(value):
            digest.update(getattr(value, "__qualname__", type(value).__qualname__).encode())
        case _:
            shown = repr(value)
            digest.update((type(value).__qualname__ if " at 0x" in shown else shown).encode())


def _add_steps(digest: Any, jaxpr: Any) -> None:
    names: dict[Any, int] = {}

    def add_variable(variable: Any) -> None:
        if isinstance(variable, jax_core.Literal):
            _add(digest, np.asarray(variable.val))
        else:
            digest.update(f"v{names.setdefault(variable, len(names))}{variable.aval}".encode())

    for variable in (*jaxpr.constvars, *jaxpr.invars):
        add_variable(variable)
    for step in jaxpr.eqns:
        digest.update(step.primitive.name.encode())
        if "callback" in step.primitive.name:
            # What Python computes while the program runs is not known: nothing equals it.
            digest.update(str(next(_numbers)).encode())
        for variable in (*step.invars, *step.outvars):
            add_variable(variable)
        _add(digest, step.params)
    for variable in jaxpr.outvars:
        add_variable(variable)
