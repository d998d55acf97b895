"""The solution of Allen-Cahn that values lie near, by Newton's method on Chebyshev points.

lap u + u (u^2 - 1) = f with u given on the boundary has more solutions than the one that it was
made from: a library that finds another of them has solved the equation, and nothing in the
equation says which one is meant. An error is therefore measured to the one that is approached, too.
"""

import equations
import numpy as np

# Another solution changed by 1e-7 from here to degree 52; the exact one is found to 1e-14.
DEGREE = 44
STEPS, SMALL = 20, 1e-9


def points() -> np.ndarray:
    """Chebyshev points of the square, x running slowest."""
    x = _points_on_line()
    return np.stack(np.meshgrid(x, x, indexing="ij"), axis=-1).reshape(-1, 2)


def solution_near(values: np.ndarray) -> np.ndarray | None:
    """Newton's iteration from values at `points`; None where it finds no solution."""
    x, y = points().T
    line = _second_derivative()
    identity = np.eye(DEGREE + 1)
    laplacian = np.kron(line, identity) + np.kron(identity, line)
    inner = (np.abs(x) < 1) & (np.abs(y) < 1)
    source = equations.allen_cahn_source(x, y, np)
    u = np.where(inner, values, equations.allen_cahn_exact(x, y, np))
    for _ in range(STEPS):
        residual = laplacian @ u + u * (u * u - 1) - source
        slope = laplacian[np.ix_(inner, inner)] + np.diag(3 * u[inner] ** 2 - 1)
        step = np.linalg.solve(slope, -residual[inner])
        u[inner] += step
        if not np.isfinite(step).all():
            return None
        if np.max(np.abs(step)) < SMALL:
            return u
    return None


def relative_l2(found: np.ndarray, true: np.ndarray) -> float:
    """From values at `points`, by Clenshaw and Curtis's quadrature."""
    weights = np.outer(_weights(), _weights()).ravel()
    return float(np.sqrt(weights @ (found - true) ** 2 / (weights @ true**2)))


def _points_on_line() -> np.ndarray:
    x = np.cos(np.pi * np.arange(DEGREE + 1) / DEGREE)
    return (x - x[::-1]) / 2  # symmetric to the last digit


def _second_derivative() -> np.ndarray:
    """The square of the differentiation matrix (Trefethen, Spectral Methods in MATLAB, 6)."""
    x = _points_on_line()
    signs = (-1.0) ** np.arange(DEGREE + 1)
    signs[[0, -1]] *= 2
    first = np.outer(signs, 1 / signs) / (x[:, None] - x + np.eye(DEGREE + 1))
    first -= np.diag(first.sum(axis=1))
    return first @ first


def _weights() -> np.ndarray:
    """Weights with which all Chebyshev polynomials of an even degree are integrated exactly."""
    degrees = np.arange(DEGREE + 1)
    integrals = np.where(degrees % 2 == 0, 2 / (1 - degrees**2.0 + (degrees == 1)), 0)
    values = np.cos(np.outer(degrees, np.pi * np.arange(DEGREE + 1) / DEGREE))
    return np.linalg.solve(values, integrals)
