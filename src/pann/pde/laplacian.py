"""An equation's rows with the Laplacian as one channel, for networks that gradients train."""

import dataclasses

from pann.network.jets import lower_set
from pann.pde.blocks import Placed
from pann.pde.fields import laplacian_in_space
from pann.pde.operators import Equation


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
