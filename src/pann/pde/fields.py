"""u, u.x, u.xx in a residual: an unknown, or a known function, with derivatives named by axes.

A field takes part in arithmetic, and in functions of NumPy, as its value. Which derivatives a
residual asks for is found by running it once on fields that take notes (`pann.pde.trace`). Known
functions are differentiated automatically.
"""

import functools
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from numpy.lib.mixins import NDArrayOperatorsMixin

from pann.arguments import call_by_name
from pann.basis.basis import INTEGRAL
from pann.domain import Box
from pann.network.jets import Laplacian

Order = tuple[int, ...]


class NoDerivative(AttributeError):
    """A field was asked for a derivative, or an integral, that it does not have."""


class NeedsNumber(TypeError):
    """A number was asked for where there is one at each of many points."""


class _InNumPy(NDArrayOperatorsMixin):
    """Operators and functions of NumPy, carried out by JAX's function of the same name."""

    def __float__(self) -> float:
        raise NeedsNumber(
            "the residual asks for the number at a point while it is compiled for all of them (by "
            "if, min, max, float or a function of math); use jnp.where, jnp.minimum, jnp.sin, ..."
        )

    def __bool__(self) -> bool:
        return bool(float(self))

    def __int__(self) -> int:
        return int(float(self))

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *args: Any, **options: Any) -> Any:
        if method != "__call__" or "out" in options:
            return NotImplemented
        return self._by_jax(ufunc.__name__, args, options)

    def __array_function__(self, function: Any, types: Any, args: Any, options: Any) -> Any:
        return self._by_jax(function.__name__, args, options)

    def _by_jax(self, name: str, args: Any, options: Any) -> Any:
        function = getattr(jnp, name, None) or getattr(jax.scipy.special, name, None)
        if function is None:
            return NotImplemented
        is_ours = lambda value: isinstance(value, _InNumPy)
        plain = lambda tree: jax.tree.map(plain_array, tree, is_leaf=is_ours)
        result = function(*plain(args), **plain(options))
        given = jax.tree.leaves((args, options), is_leaf=is_ours)
        values = [each.value if isinstance(each, Field) else each for each in given]
        # Where any of the numbers are wrapped the result is, too.
        return Numbers(result) if any(isinstance(each, Numbers) for each in values) else result


class Numbers(_InNumPy):
    """An array of JAX that functions of NumPy take as well."""

    def __init__(self, array: Array):
        self.array = array

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.array, name)

    def __getitem__(self, index: Any) -> "Numbers":
        return Numbers(self.array[index])

    def __repr__(self) -> str:
        return f"Numbers({self.array})"


class Field(_InNumPy):
    """An unknown at some points: `u.value`, `u.x`, `u.xxt`, `u.d(x=2, t=1)`, `u.laplacian`.

    The Laplacian is the sum of second derivatives unless there is a function for it.
    """

    def __init__(
        self,
        name: str,
        domain: Box,
        get: Callable[[Order], Any],
        laplacian: Callable[[], Any] | None = None,
    ):
        self._name, self._domain, self._get = name, domain, get
        self._laplacian = laplacian

    @property
    def value(self) -> Any:
        """The plain array, for functions such as `jnp.sin(u.value)`."""
        return self._get((0,) * self._domain.dimension)

    @property
    def laplacian(self) -> Any:
        """The sum of the second derivatives along all axes but time."""
        if self._laplacian is not None:
            return self._laplacian()
        return laplacian_in_space(self._domain).total(self._get)

    def d(self, **orders: int) -> Any:
        """Any derivative by the names of the axes: `u.d(x1=2, t=1)`."""
        names = self._domain.names
        for axis, order in orders.items():
            if axis not in names:
                raise NoDerivative(
                    f"{self._name}.d({axis}={order}): '{axis}' is not an axis; the axes are "
                    f"{', '.join(names)}"
                )
            if not isinstance(order, int) or order < 0:
                raise NoDerivative(f"{self._name}.d({axis}={order!r}) needs an order of 0, 1, ...")
        return self._get(tuple(orders.get(name, 0) for name in names))

    def integral(self, *axes: str) -> Any:
        """The integral over some axes, `u.integral("x")`, or over all of the domain without any.

        It is a function of the other axes, the same number at all points of the axes named.
        """
        names = self._domain.names
        for axis in axes:
            if axis not in names:
                raise NoDerivative(
                    f"{self._name}.integral({axis!r}): there is no such axis; the axes are "
                    f"{', '.join(names)}"
                )
        over = axes or names
        return self._get(tuple(INTEGRAL if name in over else 0 for name in names))

    def __getattr__(self, letters: str) -> Any:
        if letters.startswith("__"):
            raise AttributeError(letters)
        names = self._domain.names
        single = [name for name in names if len(name) == 1]
        unknown = [letter for letter in letters if letter not in single]
        if unknown:
            raise NoDerivative(
                f"{self._name}.{letters}: '{unknown[0]}' is not an axis of one letter; the axes "
                f"are {', '.join(names)}; longer names go as {self._name}.d({names[0]}=1)"
            )
        return self._get(tuple(letters.count(name) if len(name) == 1 else 0 for name in names))

    def __repr__(self) -> str:
        return f"Field({self._name})"


def plain_array(value: Any) -> Any:
    """A field's value, or wrapped numbers, as an array of JAX; anything else as it is."""
    if isinstance(value, Field):
        value = value.value
    return value.array if isinstance(value, Numbers) else value


def laplacian_in_space(domain: Box) -> Laplacian:
    """The sum of the second derivatives along all axes but time."""
    return Laplacian(tuple(float(name != domain.time) for name in domain.names))


# ---- Known functions ----


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
        if INTEGRAL in order:
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
