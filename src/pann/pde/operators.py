"""What blocks ask to vanish at each of their points: equal operators share a compiled program."""

import dataclasses
from typing import Any

from pann.network.jets import Laplacian
from pann.pde.fields import Order
from pann.pde.problem import Problem


@dataclasses.dataclass(frozen=True, eq=False)
class Equation:
    """The residuals of a problem, with the Laplacian as a channel of its own where it has one.

    Problems with the same residual and other conditions have the same equation.
    """

    problem: Problem
    laplacian: Laplacian | None = None

    def _content(self) -> tuple[object, ...]:
        # Callable objects of a user's need not be hashable.
        residual = id(self.problem.residual)
        return self.problem.domain, residual, self.problem.fields, self.laplacian

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Equation) and self._content() == other._content()

    def __hash__(self) -> int:
        return hash(self._content())

    def __call__(self, get: Any, coordinates: Any, extra: Any, parameters: Any) -> tuple:
        whole = None if self.laplacian is None else lambda field: get(field, self.laplacian)
        return self.problem.evaluate(get, coordinates, parameters, whole)


@dataclasses.dataclass(frozen=True)
class Channels:
    """Derivatives of one field as they are."""

    field: int
    orders: tuple[Order, ...]

    def __call__(self, get: Any, coordinates: Any, extra: Any, parameters: Any) -> tuple:
        return tuple(get(self.field, order) for order in self.orders)


@dataclasses.dataclass(frozen=True)
class NormalDerivative:
    """alpha u + sum of the slopes along some axes times the normal; both are in `extra`."""

    field: int
    zero: Order
    axes: tuple[int, ...]
    firsts: tuple[Order, ...]

    def __call__(self, get: Any, coordinates: Any, extra: Any, parameters: Any) -> tuple:
        total = extra["alpha"] * get(self.field, self.zero)
        for axis, first in zip(self.axes, self.firsts, strict=True):
            total = total + extra[f"normal_{axis}"] * get(self.field, first)
        return (total,)
