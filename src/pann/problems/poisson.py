"""Poisson's equation with a polynomial solution (one of the paper's problems)."""

import functools
from typing import Any

import numpy as np

from pann.domain import Box
from pann.pde import Dirichlet, Problem

DEGREE = 10
# P10'' as a sum of Legendre polynomials: in powers of x the sum would lose three digits.
SECOND_DERIVATIVE = np.polynomial.legendre.legder(np.eye(DEGREE + 1)[DEGREE], 2)


@functools.cache
def poisson() -> Problem:
    """lap u = f, u = P10(x) P10(y)."""
    square = Box(x=(-1, 1), y=(-1, 1))

    def right_hand_side(x: Any, y: Any) -> Any:
        (p, p_xx), (q, q_yy) = _legendre(x), _legendre(y)
        return p_xx * q + p * q_yy

    def exact(x: Any, y: Any) -> Any:
        return _legendre(x)[0] * _legendre(y)[0]

    return Problem(
        square,
        residual=lambda u, x, y: u.laplacian - right_hand_side(x, y),
        conditions=[Dirichlet(square.boundary, exact)],
        exact=exact,
        name="poisson",
    )


def _legendre(x: Any) -> tuple[Any, Any]:
    """P10 and its second derivative by k P_k = (2k - 1) x P_{k-1} - (k - 1) P_{k-2}."""
    values = [0 * x + 1.0, x]
    for k in range(2, DEGREE + 1):
        values.append(((2 * k - 1) * x * values[-1] - (k - 1) * values[-2]) / k)
    second = [c * p for c, p in zip(SECOND_DERIVATIVE.tolist(), values, strict=False) if c]
    return values[DEGREE], sum(second[1:], second[0])
