"""The equations on the square [-1, 1]^2, in words that every library understands.

A residual takes u, its coordinates, and the derivatives as functions of (how often by x, by y) so
that a library computes only those that are used; `math` has its sin and cos.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

Derivative = Callable[[int, int], Any]


def poisson(u: Any, d: Derivative, x: Any, y: Any, math: Any) -> Any:
    return d(2, 0) + d(0, 2) - 1


def kdv(u: Any, d: Derivative, x: Any, y: Any, math: Any) -> Any:
    return d(0, 1) + u * d(1, 0) + 0.022**2 * d(3, 0)


def ks(u: Any, d: Derivative, x: Any, y: Any, math: Any) -> Any:
    return d(0, 1) + 100 / 16 * u * d(1, 0) + 100 / 16**2 * d(2, 0) + 100 / 16**4 * d(4, 0)


def allen_cahn(u: Any, d: Derivative, x: Any, y: Any, math: Any) -> Any:
    return d(2, 0) + d(0, 2) + u * (u * u - 1) - allen_cahn_source(x, y, math)


def allen_cahn_exact(x: Any, y: Any, math: Any) -> Any:
    return x**3 * y**3 + 5 * x * math.cos(2 * np.pi * x) * math.cos(2 * np.pi * y)


def allen_cahn_source(x: Any, y: Any, math: Any) -> Any:
    """lap u + u (u^2 - 1) of the exact solution."""
    k = 2 * np.pi
    u = allen_cahn_exact(x, y, math)
    wave = 5 * math.cos(k * y) * (-2 * k * math.sin(k * x) - 2 * k**2 * x * math.cos(k * x))
    return 6 * x * y**3 + 6 * x**3 * y + wave + u * (u * u - 1)


RESIDUALS = {"poisson": poisson, "kdv": kdv, "ks": ks, "allen_cahn": allen_cahn}


def allen_cahn_exactly_on_boundary(output: Any, x: Any, y: Any, math: Any) -> Any:
    """What a network stands for whose boundary values are right whatever its output is.

    The output times a function that is zero there, and beside it the blend of the four edges.
    """
    one = 0 * x + 1
    exact = lambda x, y: allen_cahn_exact(x, y, math)
    shares = lambda z: ((1 - z) / 2, (1 + z) / 2)
    (west, east), (south, north) = shares(x), shares(y)
    edges = west * exact(-one, y) + east * exact(one, y)
    edges = edges + south * exact(x, -one) + north * exact(x, one)
    corners = south * (west * exact(-one, -one) + east * exact(one, -one))
    corners = corners + north * (west * exact(-one, one) + east * exact(one, one))
    return edges - corners + (1 - x * x) * (1 - y * y) * output


def boundary_values(name: str, points: np.ndarray) -> np.ndarray:
    if name != "allen_cahn":
        return np.zeros(len(points), points.dtype)
    return allen_cahn_exact(points[:, 0], points[:, 1], np).astype(points.dtype)
