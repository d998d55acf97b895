"""Collocation at Chebyshev points, mapped to where the solution is sharp (NumPy and SciPy only)."""

import dataclasses
from collections.abc import Callable

import numpy as np
import scipy.linalg
import scipy.optimize


@dataclasses.dataclass(frozen=True)
class Line:
    """Points on [low, high], in increasing order, and the matrix that differentiates values."""

    points: np.ndarray
    first: np.ndarray
    to_reference: Callable[[np.ndarray], np.ndarray]
    reference: np.ndarray

    @property
    def second(self) -> np.ndarray:
        return self.first @ self.first

    def shares(self, at: np.ndarray) -> np.ndarray:
        """The matrix that interpolates (barycentric formula)."""
        weights = (-1.0) ** np.arange(len(self.reference))
        weights[[0, -1]] /= 2
        difference = self.to_reference(np.asarray(at, float))[:, None] - self.reference
        is_node = difference == 0
        shares = weights / np.where(is_node, 1.0, difference)
        shares /= shares.sum(axis=1, keepdims=True)
        return np.where(is_node.any(axis=1, keepdims=True), is_node, shares)


def line(
    count: int,
    low: float,
    high: float,
    center: float | None = None,
    width: float = 1.0,
    ends: float = 0.0,
) -> Line:
    """count + 1 Chebyshev points; with a center as x = center + width sinh(a s + b), dense there.

    With `ends` as tanh(ends s) / tanh(ends), dense at both ends. Trefethen, Spectral Methods in
    MATLAB (2000); Tee and Trefethen (2006) for such maps.
    """
    angles = np.pi * np.arange(count + 1) / count
    s = -np.cos(angles)
    # Differences by sines keep their digits where points are close.
    difference = 2 * np.sin((angles[:, None] + angles) / 2) * np.sin((angles[:, None] - angles) / 2)
    signs = np.r_[2, np.ones(count - 1), 2] * (-1.0) ** np.arange(count + 1)
    first = np.outer(signs, 1 / signs) / (difference + np.eye(count + 1))
    first -= np.diag(first.sum(axis=1))
    if ends:
        half, top = (high - low) / 2, np.tanh(ends)
        points = low + half * (1 + np.tanh(ends * s) / top)
        points[[0, -1]] = low, high
        first = first * (np.cosh(ends * s) ** 2 * top / (ends * half))[:, None]
        inverse = lambda x: np.arctanh(((x - low) / half - 1) * top) / ends
        return Line(points, first, inverse, s)
    if center is None:
        half = (high - low) / 2
        points = low + half * (s + 1)
        return Line(points, first / half, lambda x: (x - low) / half - 1, s)
    top, bottom = np.arcsinh((high - center) / width), np.arcsinh((low - center) / width)
    a, b = (top - bottom) / 2, (top + bottom) / 2
    points = center + width * np.sinh(a * s + b)
    points[[0, -1]] = low, high
    first = first / (width * a * np.cosh(a * s + b))[:, None]
    return Line(points, first, lambda x: (np.arcsinh((x - center) / width) - b) / a, s)


def solve_on_line(
    grid: Line,
    residual: Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray],
    slopes: Callable[[np.ndarray, np.ndarray, np.ndarray], tuple[np.ndarray | float, ...]],
    start: np.ndarray,
    steps: int = 40,
) -> Callable[[np.ndarray], np.ndarray]:
    """r(u, u', u'') = 0 by Newton's method from a start that has the boundary values.

    `slopes` are the derivatives of r by u, u', u''. A step is halved while the residual rises.
    """
    first, second, inside = grid.first, grid.second, slice(1, -1)
    u, last = np.array(start, float), np.inf
    rest = lambda u: residual(u, first @ u, second @ u)[inside]
    for _ in range(steps):
        by = slopes(u, first @ u, second @ u)
        by_u, by_first, by_second = (np.broadcast_to(each, u.shape)[:, None] for each in by)
        matrix = by_u * np.eye(len(u)) + by_first * first + by_second * second
        step = np.zeros_like(u)
        old = rest(u)
        step[inside] = scipy.linalg.solve(matrix[inside, inside], -old)
        size = 1.0
        while size > 1e-3 and np.linalg.norm(rest(u + size * step)) > 2 * np.linalg.norm(old):
            size /= 2
        u = u + size * step
        change = np.linalg.norm(step) / np.linalg.norm(u)
        # Rounding keeps the steps from falling further.
        if size == 1.0 and (change <= 1e-13 or 1e-8 > change > last / 4):
            break
        last = change
    return lambda x, *rest: grid.shares(np.ravel(x)) @ u


def solve_on_square(
    lines: tuple[Line, Line],
    operators: tuple[np.ndarray, np.ndarray],
    right: np.ndarray,
    edge: np.ndarray,
) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """A U + U B^T = F at inner points, with U on the boundary from `edge` (Bartels-Stewart)."""
    inside = slice(1, -1)
    a, b = operators
    u = edge.copy()
    u[inside, inside] = 0
    force = (right - a @ u - u @ b.T)[inside, inside]
    u[inside, inside] = sylvester(a[inside, inside], b[inside, inside], force)
    return lambda x, y: on_grid(lines, u, x, y)


def sylvester(a: np.ndarray, b: np.ndarray, force: np.ndarray) -> np.ndarray:
    """X with A X + X B^T = F, by complex Schur forms and back substitution column by column."""
    return scipy.linalg.solve_sylvester(a, b.T, force)


def poisson(
    source: Callable[..., np.ndarray],
    exact: Callable[..., np.ndarray],
    lines: tuple[Line, Line],
    shift: float = 0.0,
) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """lap u + shift u = f, by diagonalizing both second derivatives (Lynch, Rice and Thomas)."""
    inside = slice(1, -1)
    x, y = np.meshgrid(lines[0].points, lines[1].points, indexing="ij")
    u = np.zeros_like(x)
    for border in (np.s_[0, :], np.s_[-1, :], np.s_[:, 0], np.s_[:, -1]):
        u[border] = exact(x[border], y[border])
    seconds = [each.second for each in lines]
    force = np.zeros_like(x)
    force[inside, inside] = source(x[inside, inside], y[inside, inside])
    force = (force - seconds[0] @ u - u @ seconds[1].T)[inside, inside]
    (p, v), (q, w) = (np.linalg.eig(each[inside, inside]) for each in seconds)
    modes = np.linalg.solve(w, np.linalg.solve(v, force).T).T / (p[:, None] + q + shift)
    u[inside, inside] = (v @ modes @ w.T).real
    return lambda x, y: on_grid(lines, u, x, y)


def on_grid(
    lines: tuple[Line, Line], values: np.ndarray, x: np.ndarray, y: np.ndarray
) -> np.ndarray:
    """Interpolated at points."""
    by_x, by_y = lines[0].shares(np.ravel(x)), lines[1].shares(np.ravel(y))
    return np.einsum("pi,pi->p", by_x @ values, by_y)
