"""The functions that the paper's regression experiments fit, on [-1, 1]^d."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float
from scipy.special import eval_legendre

Points = Float[np.ndarray, "points d"]
Values = Float[np.ndarray, " points"]


def legendre_product(points: Points) -> Values:
    """P10(x1) P10(x2) (paper, section 4.1)."""
    return np.asarray(eval_legendre(10, points[:, 0]) * eval_legendre(10, points[:, 1]))


def non_smooth(alpha: float = 2.0) -> Callable[[Points], Values]:
    """|x1|^alpha |x2|^alpha sin(1/x1) sin(1/x2), and 0 where x1 x2 = 0 (paper, section 4.2)."""

    def target(points: Points) -> Values:
        nonzero = np.where(points == 0, 1.0, points)
        factors = np.where(points == 0, 0.0, np.abs(points) ** alpha * np.sin(1 / nonzero))
        return np.prod(factors, axis=1)

    return target


def frequency_mix(points: Points) -> Values:
    """r^2 + 0.35 r^2 sin(10 (x1 + x2)) (paper, section 4.3)."""
    squared = np.sum(points**2, axis=1)
    return squared + 0.35 * squared * np.sin(10 * np.sum(points, axis=1))


def sine_product(points: Points) -> Values:
    """5 pi^2 sin(2 pi x0) prod_{i>=1} sin(pi x_i) (paper, section 4.4)."""
    rest = np.prod(np.sin(np.pi * points[:, 1:]), axis=1)
    return 5 * np.pi**2 * np.sin(2 * np.pi * points[:, 0]) * rest
