"""What blocks ask to vanish at each of their points: equal operators share a compiled program."""

import dataclasses
from typing import Any

from pann.network.jets import Laplacian
from pann.pde.fields import Order
from pann.pde.problem import Problem


@dataclasses.dataclass(frozen=True, eq=False)
class Equation:
    """The residuals of a problem, with the Laplacian as a channel of its own where it has one.

    Equal equations compute the same: programs are shared between them, whatever else their problems
    have, and between no others.
    """

    problem: Problem
    laplacian: Laplacian | None = None

    def _content(self) -> tuple[object, ...]:
        problem = self.problem
        names = (problem.fields, tuple(problem.parameters))
        return problem.asked.fingerprint, problem.domain, names, self.laplacian

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
