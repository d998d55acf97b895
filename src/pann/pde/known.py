"""Known functions as fields: their derivatives by automatic differentiation."""

import functools
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp

from pann.domain import Box
from pann.pde.arguments import call_by_name
from pann.pde.fields import Field, Numbers, Order, is_integral, plain_array


def known_fields(
    domain: Box, exact: Callable[..., Any], fields: tuple[str, ...], coordinates: Mapping[str, Any]
) -> tuple[Field, ...]:
    """A known solution at some points; for several fields it returns a tuple."""
    arrays = [jnp.asarray(plain_array(coordinates[name])) for name in domain.names]
    points = jnp.stack(arrays, axis=1)

    def at(number: int, point: jax.Array) -> jax.Array:
        values = _at_symbols(exact, dict(zip(domain.names, point, strict=True)))
        return jnp.asarray(plain_array(in_parts(values)[number]), point.dtype)

    def get(number: int, order: Order) -> jax.Array:
        if is_integral(order):
            raise ValueError(
                "integrals of a known solution are not computed: leave u.integral out of the "
                "operator of Problem.manufactured, or write the residual with its number"
            )
        function: Callable[[jax.Array], jax.Array] = functools.partial(at, number)
        for axis, times in enumerate(order):
            for _ in range(times):
                function = _differentiated(function, jnp.eye(domain.dimension)[axis])
        return jax.vmap(function)(points)

    return tuple(
        Field(name, domain, functools.partial(get, number)) for number, name in enumerate(fields)
    )


def known_values(
    domain: Box, exact: Callable[..., Any], fields: tuple[str, ...], field: str, order: int = 0
) -> Callable[..., Any]:
    """One field of a solution, or its derivative by time, as a function of the coordinates."""
    number = fields.index(field)
    if order == 0:
        return lambda **coordinates: in_parts(call_by_name(exact, coordinates))[number]
    orders = {str(domain.time): order}
    return lambda **given: known_fields(domain, exact, fields, given)[number].d(**orders)


def in_parts(result: Any) -> tuple[Any, ...]:
    """What one field or several return, always as a tuple."""
    return tuple(result) if isinstance(result, tuple | list) else (result,)


def _at_symbols(function: Callable[..., Any], given: Mapping[str, Any]) -> Any:
    """A function of JAX or of NumPy, of symbols."""
    try:
        return call_by_name(function, given)
    except jax.errors.TracerArrayConversionError:
        return call_by_name(function, {name: Numbers(value) for name, value in given.items()})


def _differentiated(
    function: Callable[[jax.Array], jax.Array], direction: jax.Array
) -> Callable[[jax.Array], jax.Array]:
    return lambda point: jax.jvp(function, (point,), (direction.astype(point.dtype),))[1]
