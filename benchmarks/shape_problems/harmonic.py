"""Harmonic functions with given boundary values, by least squares on the boundary alone.

Real and imaginary parts of polynomials in z, orthonormalized on the boundary (Arnoldi), of powers
of 1 / (z - c) and log|z - c| about holes, and of poles that cluster at corners from outside (Gopal
and Trefethen, SIAM J. Numer. Anal. 57, 2019). Where lap u = k^2 u the same by Bessel functions. It
shares nothing with the project but NumPy and SciPy.
"""

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np
import scipy.special

DEGREE, NUM_POLES, POWERS = 60, 60, 40


@dataclasses.dataclass(frozen=True)
class Laplace:
    """u = values on the boundary, which is a polygon and circles in it."""

    vertices: Sequence[complex]
    circles: Sequence[tuple[complex, float]]
    values: Callable[[np.ndarray, int], np.ndarray]  # of points of edge or circle by number

    def solve(self) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
        corners = np.asarray(self.vertices)
        count = len(corners)
        t = np.concatenate([np.logspace(-14, -1.3, 150), np.linspace(0.06, 0.5, 120)])
        t = np.concatenate([t, 1 - t])
        edges = [a + t * (b - a) for a, b in zip(corners, np.roll(corners, -1), strict=True)]
        turn = np.exp(2j * np.pi * np.arange(300) / 300)
        loops = [center + radius * turn for center, radius in self.circles]
        points = np.concatenate([*edges, *loops])
        right = np.concatenate([self.values(z, n) for n, z in enumerate([*edges, *loops])])
        size = float(np.max(np.abs(corners - corners.mean())))
        poles: list[complex] = []
        for number in range(count):
            before, here, after = (
                corners[number - 1],
                corners[number],
                corners[(number + 1) % count],
            )
            inward = (before - here) / abs(before - here) + (after - here) / abs(after - here)
            is_convex = ((here - before).conjugate() * (after - here)).imag > 0
            outward = -inward if is_convex else inward
            n = np.arange(1, NUM_POLES + 1)
            distance = size * np.exp(4 * (np.sqrt(n) - np.sqrt(NUM_POLES)))
            poles += list(here + distance * outward / abs(outward))
        hessenberg, middle = np.zeros((DEGREE + 1, DEGREE), complex), corners.mean()
        q = np.ones((len(points), DEGREE + 1), complex)
        for k in range(DEGREE):
            new = (points - middle) / size * q[:, k]
            for _ in range(2):
                shares = q[:, : k + 1].conj().T @ new / len(points)
                new = new - q[:, : k + 1] @ shares
                hessenberg[: k + 1, k] += shares
            hessenberg[k + 1, k] = np.linalg.norm(new) / np.sqrt(len(points))
            q[:, k + 1] = new / hessenberg[k + 1, k]

        def table(z: np.ndarray, polynomials: np.ndarray) -> np.ndarray:
            parts = [polynomials]
            away = np.abs(np.asarray(poles)[:, None] - corners).min(axis=1)
            parts.append(away / (z[:, None] - np.asarray(poles)))
            for center, radius in self.circles:
                parts.append((radius / (z[:, None] - center)) ** np.arange(1, POWERS + 1))
            both = np.concatenate(parts, axis=1)
            logs = [np.log(np.abs(z - center))[:, None] for center, _ in self.circles]
            return np.concatenate([both.real, both.imag, *logs], axis=1)

        matrix = table(points, q)
        scale = np.linalg.norm(matrix, axis=0)
        scale[scale == 0] = 1.0
        found = np.linalg.lstsq(matrix / scale, right, rcond=1e-14)[0] / scale

        def solution(x: np.ndarray, y: np.ndarray) -> np.ndarray:
            z = np.asarray(x) + 1j * np.asarray(y)
            p = np.ones((len(z), DEGREE + 1), complex)
            for k in range(DEGREE):
                new = (z - middle) / size * p[:, k] - p[:, : k + 1] @ hessenberg[: k + 1, k]
                p[:, k + 1] = new / hessenberg[k + 1, k]
            return table(z, p) @ found

        return solution


@dataclasses.dataclass(frozen=True)
class Yukawa:
    """lap u = k^2 u on a square less disks, u given on the boundary; no error exceeds that there.

    I_m about the middle, K_m about the holes, and K_0, K_1 about points that cluster at corners.
    """

    k: float
    half_width: float
    circles: Sequence[tuple[float, float, float]]
    values: Callable[[np.ndarray, np.ndarray, int], np.ndarray]  # on sides (0 to 3), then circles

    def boundary(self, count: int) -> list[tuple[np.ndarray, np.ndarray]]:
        t = np.concatenate([np.logspace(-12, -1, count), np.linspace(0.1, 0.5, 2 * count)])
        t = self.half_width * (2 * np.concatenate([t, 1 - t]) - 1)
        end = np.full(len(t), self.half_width)
        turn = 2 * np.pi * np.arange(3 * count) / (3 * count)
        loops = [(x + r * np.cos(turn), y + r * np.sin(turn)) for x, y, r in self.circles]
        return [(t, -end), (end, t), (t, end), (-end, t), *loops]

    def table(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        k, size = self.k, self.half_width
        columns = []

        def add(x0: float, y0: float, scale: float, orders: int, kind: str) -> None:
            r, theta = np.hypot(x - x0, y - y0), np.arctan2(y - y0, x - x0)
            for m in range(orders):
                if kind == "I":
                    radial = scipy.special.ive(m, k * r) / scipy.special.ive(m, k * scale)
                    radial = radial * np.exp(k * (r - scale))
                else:
                    radial = scipy.special.kve(m, k * r) / scipy.special.kve(m, k * scale)
                    radial = radial * np.exp(-k * (r - scale))
                columns.append(radial * np.cos(m * theta))
                if m:
                    columns.append(radial * np.sin(m * theta))

        add(0.0, 0.0, np.sqrt(2) * size, 70, "I")
        for x0, y0, radius in self.circles:
            add(x0, y0, radius, 30, "K")
        n = np.arange(1, 41)
        away = size * np.exp(4 * (np.sqrt(n) - np.sqrt(40)))
        for sign_x in (-1, 1):
            for sign_y in (-1, 1):
                for each in away.tolist():
                    place = size + each / np.sqrt(2)
                    add(sign_x * place, sign_y * place, each, 2, "K")
        return np.stack(columns, axis=1)

    def solve(self) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
        pieces = self.boundary(120)
        right = np.concatenate([self.values(x, y, n) for n, (x, y) in enumerate(pieces)])
        matrix = self.table(*(np.concatenate(each) for each in zip(*pieces, strict=True)))
        scale = np.maximum(np.linalg.norm(matrix, axis=0), 1e-300)
        found = np.linalg.lstsq(matrix / scale, right, rcond=1e-14)[0] / scale
        return lambda x, y: self.table(np.asarray(x), np.asarray(y)) @ found
