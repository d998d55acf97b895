"""Flow in a square cavity that a lid drives, and the stream function by Newton's method."""

import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg

from benchmarks.sharp_problems import chebyshev
from benchmarks.sharp_problems.case import Case, Function
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
        for advection in (1.0,) if reynolds <= 400 else (0.03, 0.1, 0.2, 0.35, 0.6, 1.0):
            psi = newton(psi, advection)
        self.psi = np.zeros((count + 1, count + 1))
        self.psi[1:-1, 1:-1] = psi.reshape(size, size)
        self.u, self.v = self.psi @ line.first.T, -line.first @ self.psi

    def __call__(self, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        by_x, by_y = self.line.shares(np.ravel(x)), self.line.shares(np.ravel(y))
        return tuple(np.einsum("pi,pi->p", by_x @ each, by_y) for each in (self.u, self.v))


def smooth_lid(x: Any) -> Any:
    """u = 16 x^2 (1 - x)^2 on the lid."""
    return 16 * x**2 * (1 - x) ** 2


def parabolic_lid(x: Any) -> Any:
    """u = 4 x (1 - x) on the lid."""
    return 4 * x * (1 - x)


def constant_lid(x: Any) -> Any:
    """u = 1 on the lid."""
    return 1.0 + 0.0 * x


# ---- Published values (Ghia, Ghia and Shin, 1982, tables I and II) ----

GHIA_Y = (0.9766, 0.9688, 0.9609, 0.9531, 0.8516, 0.7344, 0.6172, 0.5)
GHIA_Y += (0.4531, 0.2813, 0.1719, 0.1016, 0.0703, 0.0625, 0.0547)
GHIA_X = (0.9688, 0.9609, 0.9531, 0.9453, 0.9063, 0.8594, 0.8047, 0.5)
GHIA_X += (0.2344, 0.2266, 0.1563, 0.0938, 0.0781, 0.0703, 0.0625)
# u(0.5, y) and v(x, 0.5). In the table for 3200 u(0.5, 0.4531) is misprinted as -0.86636.
GHIA = {
    100: (
        (
            0.84123,
            0.78871,
            0.73722,
            0.68717,
            0.23151,
            0.00332,
            -0.13641,
            -0.20581,
            -0.2109,
            -0.15662,
            -0.1015,
            -0.06434,
            -0.04775,
            -0.04192,
            -0.03717,
        ),
        (
            -0.05906,
            -0.07391,
            -0.08864,
            -0.10313,
            -0.16914,
            -0.22445,
            -0.24533,
            0.05454,
            0.17527,
            0.17507,
            0.16077,
            0.12317,
            0.1089,
            0.10091,
            0.09233,
        ),
    ),
    3200: (
        (
            0.53236,
            0.48296,
            0.46547,
            0.46101,
            0.34682,
            0.19791,
            0.07156,
            -0.04272,
            -0.086636,
            -0.24427,
            -0.34323,
            -0.41933,
            -0.37827,
            -0.35344,
            -0.32407,
        ),
        (
            -0.39017,
            -0.47425,
            -0.52357,
            -0.54053,
            -0.44307,
            -0.37401,
            -0.31184,
            0.00999,
            0.28188,
            0.2903,
            0.37119,
            0.42768,
            0.41906,
            0.40917,
            0.3956,
        ),
    ),
}


def on_centerlines(function: Function, y: Any, x: Any) -> tuple[np.ndarray, np.ndarray]:
    """u(0.5, y) and v(x, 0.5)."""
    x, y = np.asarray(x, float), np.asarray(y, float)
    return (
        np.asarray(function(np.full_like(y, 0.5), y)[0]),
        np.asarray(function(x, np.full_like(x, 0.5))[1]),
    )


# ---- References ----

# Stream functions that `Flow` has computed, 72 points for the smooth lid and 112 for the others,
# and for the constant lid what they are on the center lines. Against 80 and 96 points they differ
# by 3e-10 (smooth lid) and 2e-7 (parabolic lid) in l2, 2e-6 (100) and 2e-5 (3200) on the lines.
STORED = pathlib.Path(__file__).with_name("cavity.npz")


def stored_flow(name: str) -> Function:
    """Velocities by a stored stream function at inner points."""
    with np.load(STORED) as file:
        psi = np.pad(file[name], 1)
    line = chebyshev.line(len(psi) - 1, 0, 1)
    u, v = psi @ line.first.T, -line.first @ psi

    def velocities(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, ...]:
        by_x, by_y = line.shares(np.ravel(x)), line.shares(np.ravel(y))
        return tuple(np.einsum("pi,pi->p", by_x @ each, by_y) for each in (u, v))

    return velocities


def stored_lines(reynolds: float, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """u(0.5, at) and v(at, 0.5) under the constant lid."""
    with np.load(STORED) as file:
        u, v = file[f"lines {reynolds:g}"]
    shares = chebyshev.line(len(u) - 1, 0, 1).shares(at)
    return shares @ u, shares @ v


def regular_case(name: str, lid: Lid, goal: float, seconds: float, count: int) -> Case:
    """The error in l2, since that of the parabolic lid is largest in the corners of the lid."""

    def measure(function: Function) -> dict[str, float]:
        points = np.random.default_rng(0).uniform(0, 1, (4_000, 2))
        true = np.stack(stored_flow(name)(*points.T))
        found = np.stack([np.asarray(part) for part in function(*points.T)[:2]])
        error = np.linalg.norm(found - true) / np.linalg.norm(true)
        return {"error": float(error), "largest": float(np.max(np.abs(found - true)))}

    return Case(
        f"cavity 100, {name} lid",
        f"lid-driven cavity, Re = 100, {lid.__doc__}",
        lambda: problem(100.0, lid),
        lambda x, y: stored_flow(name)(x, y),
        goal,
        seconds,
        dedicated=lambda: Flow(100.0, lid, count),
        dedicated_name=f"stream function at {count} x {count} Chebyshev points, Newton",
        measure=measure,
    )


def classical_case(reynolds: float, goal: float, seconds: float, count: int) -> Case:
    """The largest error on the center lines, since u jumps in the corners of the lid."""

    def measure(function: Function) -> dict[str, float]:
        at = np.linspace(0.02, 0.98, 193)
        pairs = zip(on_centerlines(function, at, at), stored_lines(reynolds, at), strict=True)
        error = max(float(np.max(np.abs(found - true))) for found, true in pairs)
        found = np.concatenate(on_centerlines(function, GHIA_Y, GHIA_X))
        table = np.concatenate(GHIA[int(reynolds)])
        return {"error": error, "off Ghia's table": float(np.max(np.abs(found - table)))}

    return Case(
        f"cavity {reynolds:g}, constant lid",
        f"lid-driven cavity, Re = {reynolds:g}, {constant_lid.__doc__}",
        lambda: problem(reynolds, constant_lid),
        None,
        goal,
        seconds,
        dedicated=lambda: Flow(reynolds, constant_lid, count),
        dedicated_name=f"stream function at {count} x {count} Chebyshev points, Newton",
        measure=measure,
    )


CASES = (
    regular_case("smooth", smooth_lid, 1e-8, 30, 40),
    regular_case("parabolic", parabolic_lid, 1e-6, 60, 48),
    classical_case(100.0, 1e-4, 60, 32),
    classical_case(3200.0, 1e-3, 300, 48),
)
