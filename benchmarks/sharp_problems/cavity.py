"""Flow in a square cavity that a lid drives, and the stream function by Newton's method."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg

from benchmarks.sharp_problems import chebyshev
from pann import Box, Dirichlet, Problem

UNIT = Box(x=(0, 1), y=(0, 1))
Lid = Callable[[Any], Any]


def problem(reynolds: float, lid: Lid) -> Problem:
    """u u_x + v u_y + p_x = lap u / Re, the same for v, u_x + v_y = 0."""

    def residual(u: Any, v: Any, p: Any) -> tuple[Any, Any, Any]:
        return (
            u * u.x + v * u.y + p.x - u.laplacian / reynolds,
            u * v.x + v * v.y + p.y - v.laplacian / reynolds,
            u.x + v.y,
        )

    top = UNIT.face("y", "upper")
    sides = UNIT.face("x", "lower") + UNIT.face("x", "upper")
    rest = sides + UNIT.face("y", "lower")
    conditions = [
        Dirichlet(rest, 0.0, field="u"),
        Dirichlet(top, lambda x, y: lid(x) + 0.0 * y, field="u"),
        Dirichlet(UNIT.boundary, 0.0, field="v"),
    ]
    return Problem(UNIT, residual, conditions, fields=("u", "v", "p"))


class Flow:
    """psi at Chebyshev points with u = psi_y, v = -psi_x.

    lap^2 psi / Re = psi_y lap psi_x - psi_x lap psi_y at points at least two from the walls, and
    the velocity along the walls at the points of the boundary.
    """

    def __init__(self, reynolds: float, lid: Lid, count: int, ends: float = 0.0) -> None:
        self.line = line = chebyshev.line(count, 0, 1, ends=ends)
        inner, deep = np.arange(1, count), np.arange(2, count - 1)
        powers = [np.eye(count + 1)]
        for _ in range(4):
            powers.append(powers[-1] @ line.first)
        grid = np.arange((count + 1) ** 2).reshape(count + 1, count + 1)
        unknown = grid[np.ix_(inner, inner)].ravel()
        points = grid[np.ix_(deep, deep)].ravel()
        size = count - 1

        def operator(x: int, y: int, rows: np.ndarray = deep, others: np.ndarray = deep) -> Any:
            # psi is 0 on the boundary.
            return np.kron(powers[x][np.ix_(rows, inner)], powers[y][np.ix_(others, inner)])

        d_x, d_y = operator(1, 0), operator(0, 1)
        lap_x = operator(3, 0) + operator(1, 2)
        lap_y = operator(2, 1) + operator(0, 3)
        bilaplacian = (operator(4, 0) + 2 * operator(2, 2) + operator(0, 4)) / reynolds
        ends = np.array([0, count])
        # All inner points of two walls, and those of the others but for the ones in the corners.
        walls = np.concatenate([operator(1, 0, ends, inner), operator(0, 1, deep, ends)])
        speeds = np.zeros((len(deep), 2))
        speeds[:, 1] = lid(line.points[deep])
        speeds = np.concatenate([np.zeros(2 * size), speeds.ravel()])
        assert len(points) + len(speeds) == len(unknown)
        scale = np.max(np.abs(bilaplacian), axis=1)

        def newton(psi: np.ndarray, advection: float) -> np.ndarray:
            last = np.inf
            for _ in range(30):
                u, v, wx, wy = d_y @ psi, d_x @ psi, lap_x @ psi, lap_y @ psi
                rest = bilaplacian @ psi - advection * (u * wx - v * wy)
                slope = u[:, None] * lap_x + wx[:, None] * d_y - v[:, None] * lap_y
                slope = bilaplacian - advection * (slope - wy[:, None] * d_x)
                matrix = np.concatenate([slope / scale[:, None], walls])
                rest = np.concatenate([rest / scale, walls @ psi - speeds])
                step = scipy.linalg.solve(matrix, -rest, overwrite_a=True, check_finite=False)
                psi = psi + step
                change = np.max(np.abs(step)) / np.max(np.abs(psi))
                # Rounding keeps the steps from falling further.
                if change < 1e-12 or 1e-6 > change > last / 4:
                    break
                last = change
            return psi

        psi = newton(np.zeros(len(unknown)), 0.0)
        for advection in (1.0,) if reynolds <= 400 else (0.03, 0.1, 0.25, 0.5, 1.0):
            psi = newton(psi, advection)
        self.psi = np.zeros((count + 1, count + 1))
        self.psi[1:-1, 1:-1] = psi.reshape(size, size)
        self.u, self.v = self.psi @ line.first.T, -line.first @ self.psi

    def __call__(self, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        by_x, by_y = self.line.shares(np.ravel(x)), self.line.shares(np.ravel(y))
        return tuple(np.einsum("pi,pi->p", by_x @ each, by_y) for each in (self.u, self.v))


@functools.lru_cache(maxsize=2)
def flow(reynolds: float, lid: Lid, count: int) -> Flow:
    return Flow(reynolds, lid, count)


def smooth_lid(x: Any) -> Any:
    return 16 * x**2 * (1 - x) ** 2


def parabolic_lid(x: Any) -> Any:
    return 4 * x * (1 - x)


def constant_lid(x: Any) -> Any:
    return 1.0 + 0.0 * x
