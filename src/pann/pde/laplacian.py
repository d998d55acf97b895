"""An equation's rows with the Laplacian as one channel, for networks that gradients train."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from pann.network.jets import lower_set
from pann.pde.blocks import Placed
from pann.pde.fields import Order, laplacian_in_space
from pann.pde.operators import Equation
from pann.pde.problem import Problem


def with_laplacian(placed: Placed) -> Placed:
    """The equation with the Laplacian as one channel, if it has no other use for its terms.

    A network propagates it as one array instead of one for each axis, and there is one table.
    """
    if not isinstance(placed.operator, Equation):
        return placed
    problem = placed.operator.problem
    laplacian, orders = laplacian_in_space(problem.domain), _orders_beside_laplacian(problem)
    terms = {second for _, second in laplacian.terms}
    if orders is None or terms & set(lower_set(orders)):
        return placed
    return dataclasses.replace(
        placed, orders=(*orders, laplacian), operator=Equation(problem, laplacian)
    )


def _orders_beside_laplacian(problem: Problem) -> tuple[Order, ...] | None:
    """The derivatives that the residual asks for beside Laplacians, None if it asks for none."""
    asked: dict[Order, None] = {}
    laplacians: list[int] = []

    def get(field: int, order: Order) -> Any:
        asked[order] = None
        return jnp.ones(2)

    def laplacian(field: int) -> Any:
        laplacians.append(field)
        return jnp.ones(2)

    points = problem.domain.from_reference(np.zeros((2, problem.domain.dimension)) + 0.123)
    jax.eval_shape(lambda: problem.evaluate(get, points, problem.parameters, laplacian))
    return tuple(asked) if laplacians else None
