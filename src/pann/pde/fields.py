"""u, u.x, u.xx in a residual: an unknown with derivatives named by axes.

A field takes part in arithmetic as its value. Which derivatives a residual asks for is found by
running it once on fields that take notes.
"""

from collections.abc import Callable
from typing import Any

from jaxtyping import Array

from pann.domain import Box
from pann.network.jets import Laplacian

Order = tuple[int, ...]


class Field:
    """An unknown at some points: `u.value`, `u.x`, `u.xxt`, `u.d(x=2, t=1)`, `u.laplacian`.

    The Laplacian is the sum of second derivatives unless there is a function for it.
    """

    def __init__(
        self,
        name: str,
        domain: Box,
        get: Callable[[Order], Array],
        laplacian: Callable[[], Array] | None = None,
    ):
        self._name, self._domain, self._get = name, domain, get
        self._laplacian = laplacian

    @property
    def value(self) -> Array:
        """The plain array, for functions such as `jnp.sin(u.value)`."""
        return self._get((0,) * self._domain.dimension)

    @property
    def laplacian(self) -> Array:
        """The sum of the second derivatives along all axes but time."""
        if self._laplacian is not None:
            return self._laplacian()
        return laplacian_in_space(self._domain).total(self._get)

    def d(self, **orders: int) -> Array:
        """Any derivative by the names of the axes: `u.d(x1=2, t=1)`."""
        names = self._domain.names
        for axis, order in orders.items():
            if axis not in names:
                raise AttributeError(
                    f"{self._name}.d({axis}={order}): '{axis}' is not an axis; the axes are "
                    f"{', '.join(names)}"
                )
            if not isinstance(order, int) or order < 0:
                raise AttributeError(
                    f"{self._name}.d({axis}={order!r}) needs an order of 0, 1, ..."
                )
        return self._get(tuple(orders.get(name, 0) for name in names))

    def __getattr__(self, letters: str) -> Array:
        if letters.startswith("__"):
            raise AttributeError(letters)
        names = self._domain.names
        single = [name for name in names if len(name) == 1]
        unknown = [letter for letter in letters if letter not in single]
        if unknown:
            raise AttributeError(
                f"{self._name}.{letters}: '{unknown[0]}' is not an axis of one letter; the axes "
                f"are {', '.join(names)}; longer names go as {self._name}.d({names[0]}=1)"
            )
        return self._get(tuple(letters.count(name) if len(name) == 1 else 0 for name in names))

    # ---- Arithmetic, as the value ----

    def __add__(self, other: Any) -> Array:
        return self.value + _value(other)

    def __sub__(self, other: Any) -> Array:
        return self.value - _value(other)

    def __mul__(self, other: Any) -> Array:
        return self.value * _value(other)

    def __truediv__(self, other: Any) -> Array:
        return self.value / _value(other)

    def __pow__(self, other: Any) -> Array:
        return self.value ** _value(other)

    def __radd__(self, other: Any) -> Array:
        return _value(other) + self.value

    def __rsub__(self, other: Any) -> Array:
        return _value(other) - self.value

    def __rmul__(self, other: Any) -> Array:
        return _value(other) * self.value

    def __rtruediv__(self, other: Any) -> Array:
        return _value(other) / self.value

    def __rpow__(self, other: Any) -> Array:
        return _value(other) ** self.value

    def __neg__(self) -> Array:
        return -self.value

    def __repr__(self) -> str:
        return f"Field({self._name})"


def laplacian_in_space(domain: Box) -> Laplacian:
    """The sum of the second derivatives along all axes but time."""
    return Laplacian(tuple(float(name != domain.time) for name in domain.names))


def _value(other: Any) -> Any:
    return other.value if isinstance(other, Field) else other
