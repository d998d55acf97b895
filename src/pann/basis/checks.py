"""What a basis demands of its arguments: each failure is one sentence with its cure."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Shaped

from pann.domain import Box

# The order along an axis that functions are integrated over, from end to end.
INTEGRAL = -1


def check_axes(domain: Box, axes: Sequence[str]) -> None:
    """Refuse axes that the domain does not have, or has once but are named twice."""
    for name in axes:
        if name not in domain.names:
            raise ValueError(
                f"'{name}' is not an axis of this domain; its axes are {', '.join(domain.names)}"
            )
    if len(set(axes)) != len(axes):
        raise ValueError(f"each axis may be named once, got {', '.join(axes)}")


def check_points(
    domain: Box, points: Shaped[np.ndarray, "points d"]
) -> Float[np.ndarray, "points d"]:
    """The points as finite floats with one column for each axis of the domain."""
    points = np.asarray(points, float)
    if points.ndim != 2 or points.shape[1] != domain.dimension:
        raise ValueError(
            f"points must be an array (points, {domain.dimension}), one column for each of "
            f"{', '.join(domain.names)}; got shape {points.shape}"
        )
    finite = np.isfinite(points).all(axis=1)
    if not finite.all():
        row = int(np.argmin(finite))
        raise ValueError(
            f"points must be finite, but row {row} is {points[row].tolist()}; "
            f"drop such rows ({np.count_nonzero(~finite)} of {len(points)})"
        )
    return points


def check_derivative(domain: Box, derivative: Sequence[int] | None) -> tuple[int, ...]:
    """The order of differentiation along each axis of the domain; None is all zero.

    The order INTEGRAL stands for the integral over the whole of an axis.
    """
    if derivative is None:
        return (0,) * domain.dimension
    orders = tuple(derivative)
    if len(orders) != domain.dimension or any(
        order < INTEGRAL or order != int(order) for order in orders
    ):
        raise ValueError(
            f"derivative must be {domain.dimension} whole numbers from 0, one order for each of "
            f"{', '.join(domain.names)}; got {orders}"
        )
    return tuple(int(order) for order in orders)
