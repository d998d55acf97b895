"""What blocks ask to vanish at each of their points.

Operators are trees: their leaves are numbers at the points, and all else is compared, so that equal
operators share a compiled program.
"""

import dataclasses
from typing import Any

import equinox as eqx
import jax
from jaxtyping import Float

from pann.network.jets import Laplacian, lower_set
from pann.pde.collocation import Get, Placed
from pann.pde.fields import Order, laplacian_in_space
from pann.pde.problem import Problem


@jax.tree_util.register_static
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
        names = (tuple(problem.fields), tuple(problem.parameters))
        return problem.asked.fingerprint, problem.domain, names, self.laplacian

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Equation) and self._content() == other._content()

    def __hash__(self) -> int:
        return hash(self._content())

    def __call__(self, get: Get, coordinates: Any, parameters: Any) -> tuple[Any, ...]:
        laplacian = self.laplacian
        whole = None if laplacian is None else lambda field: get(field, laplacian)
        return self.problem.evaluate(get, coordinates, parameters, whole)


class Channels(eqx.Module):
    """Derivatives of one field as they are."""

    field: int = eqx.field(static=True)
    orders: tuple[Order, ...] = eqx.field(static=True)

    def __call__(self, get: Get, coordinates: Any, parameters: Any) -> tuple[Any, ...]:
        return tuple(get(self.field, order) for order in self.orders)


class NormalDerivative(eqx.Module):
    """alpha u + sum over axes of beta n_axis du/d(axis), with the outward normal n."""

    alpha: Float[Any, " points"]
    slopes: tuple[Float[Any, " points"], ...]  # beta n_axis
    field: int = eqx.field(static=True)
    zero: Order = eqx.field(static=True)
    firsts: tuple[Order, ...] = eqx.field(static=True)

    def __call__(self, get: Get, coordinates: Any, parameters: Any) -> tuple[Any, ...]:
        total = self.alpha * get(self.field, self.zero)
        for slope, first in zip(self.slopes, self.firsts, strict=True):
            total = total + slope * get(self.field, first)
        return (total,)


def with_laplacian(placed: Placed) -> Placed:
    """The equation with the Laplacian as one channel, if it has no other use for its terms.

    A network that gradients train propagates it as one array instead of one for each axis, and
    there is one table.
    """
    if not isinstance(placed.operator, Equation):
        return placed
    problem = placed.operator.problem
    laplacian, orders = laplacian_in_space(problem.domain), problem.asked.besides_laplacians
    terms = {second for _, second in laplacian.terms}
    if orders is None or terms & set(lower_set(orders)):
        return placed
    return dataclasses.replace(
        placed, orders=(*orders, laplacian), operator=Equation(problem, laplacian)
    )
