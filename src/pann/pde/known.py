"""Known functions as fields: their derivatives by automatic differentiation."""

import functools
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp

from pann.domain import Box
from pann.pde.fields import Field, Order


def known_fields(
    domain: Box, exact: Callable[..., Any], fields: tuple[str, ...], coordinates: Mapping[str, Any]
) -> tuple[Field, ...]:
    """A solution in jnp at some points; for several fields it returns a tuple."""
    points = jnp.stack([jnp.asarray(coordinates[name]) for name in domain.names], axis=1)

    def at(number: int, point: jax.Array) -> jax.Array:
        values = exact(**{name: point[i] for i, name in enumerate(domain.names)})
        return jnp.asarray(in_parts(values)[number], point.dtype)

    def get(number: int, order: Order) -> jax.Array:
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
        return lambda **coordinates: in_parts(exact(**coordinates))[number]
    orders = {str(domain.time): order}
    return lambda **given: known_fields(domain, exact, fields, given)[number].d(**orders)


def in_parts(result: Any) -> tuple[Any, ...]:
    """What one field or several return, always as a tuple."""
    return result if isinstance(result, tuple) else (result,)


def _differentiated(
    function: Callable[[jax.Array], jax.Array], direction: jax.Array
) -> Callable[[jax.Array], jax.Array]:
    return lambda point: jax.jvp(function, (point,), (direction.astype(point.dtype),))[1]
