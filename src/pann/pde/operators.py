"""What blocks ask to vanish at each of their points: equal operators share a compiled program."""

import dataclasses
from typing import Any

from pann.network.jets import Laplacian, lower_set
from pann.pde.collocation import Placed
from pann.pde.fields import Order, laplacian_in_space
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


# ---- An equation's rows with the Laplacian as one channel, for networks that gradients train ----


def with_laplacian(placed: Placed) -> Placed:
    """The equation with the Laplacian as one channel, if it has no other use for its terms.

    A network propagates it as one array instead of one for each axis, and there is one table.
    """
    if not isinstance(placed.operator, Equation):
        return placed
    problem = placed.operator.problem
    laplacian, orders = laplacian_in_space(problem.domain), problem.asked.beside
    terms = {second for _, second in laplacian.terms}
    if orders is None or terms & set(lower_set(orders)):
        return placed
    return dataclasses.replace(
        placed, orders=(*orders, laplacian), operator=Equation(problem, laplacian)
    )
