"""Steady flow by spectral elements, for references: Taylor and Hood's pair in weak form.

Velocities of degree k and pressures of degree k - 1, all continuous, on the cells of a tensor grid
that lie inside; Newton's method from Stokes flow. What belongs to one cell alone is eliminated
first. It shares nothing with the project but NumPy and SciPy.
"""

import dataclasses
import functools
from collections.abc import Callable

import numpy as np
import scipy.sparse as sparse
from numpy.polynomial import legendre
from scipy.sparse.linalg import spsolve

MOST_STEPS, ENOUGH = 20, 1e-9

Fields = tuple[np.ndarray, np.ndarray, np.ndarray]


def nodes(degree: int) -> np.ndarray:
    """Of Lobatto, on (-1, 1)."""
    slope = legendre.legder(np.eye(degree + 1)[degree])
    return np.concatenate([[-1.0], np.sort(legendre.legroots(slope).real), [1.0]])


def tables(degree: int, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Lagrange's polynomials of the nodes and their slopes, at points."""
    back = np.linalg.inv(legendre.legvander(nodes(degree), degree))
    slopes = legendre.legval(x, legendre.legder(np.eye(degree + 1), axis=0)).T
    return legendre.legvander(x, degree) @ back, slopes @ back


@dataclasses.dataclass(frozen=True, eq=False)
class Numbered:
    """The nodes of all cells, those on borders once."""

    of_cells: np.ndarray
    points: np.ndarray


@dataclasses.dataclass(frozen=True, eq=False)
class Flow:
    """u . grad u + grad p = nu lap u, div u = 0; nu du/dn = p n where nothing is given.

    `given` has for u and for v a mask of the nodes and values there, from their coordinates.
    """

    x: np.ndarray
    y: np.ndarray
    inside: Callable[[float, float], bool]
    degree: int
    nu: float
    given: Callable[[np.ndarray, np.ndarray], list[tuple[np.ndarray, np.ndarray]]]

    @functools.cached_property
    def cells(self) -> list[tuple[int, int]]:
        middle = [0.5 * (axis[1:] + axis[:-1]) for axis in (self.x, self.y)]
        each = np.ndindex(len(middle[0]), len(middle[1]))
        return [(i, j) for i, j in each if self.inside(middle[0][i], middle[1][j])]

    def numbered(self, degree: int) -> Numbered:
        known: dict[tuple[int, int], int] = {}
        points, of_cells = [], []
        t = 0.5 * (nodes(degree) + 1.0)
        for i, j in self.cells:
            own = []
            for a, b in np.ndindex(degree + 1, degree + 1):
                key = (i * degree + a, j * degree + b)
                if key not in known:
                    known[key] = len(known)
                    x = self.x[i] + t[a] * (self.x[i + 1] - self.x[i])
                    points.append((x, self.y[j] + t[b] * (self.y[j + 1] - self.y[j])))
                own.append(known[key])
            of_cells.append(own)
        return Numbered(np.array(of_cells), np.array(points))

    def solve(self) -> Callable[[np.ndarray, np.ndarray], Fields]:
        velocity, pressure = self.numbered(self.degree), self.numbered(self.degree - 1)
        n = len(velocity.points)
        unknown = np.concatenate(
            [velocity.of_cells, n + velocity.of_cells, 2 * n + pressure.of_cells], axis=1
        )
        state = np.zeros(2 * n + len(pressure.points))
        is_given = np.zeros(len(state), bool)
        for number, (mask, values) in enumerate(self.given(*velocity.points.T)):
            at = number * n + np.flatnonzero(mask)
            is_given[at], state[at] = True, values[mask]
        for step in range(MOST_STEPS):
            change = self._step(state, unknown, is_given, 0.0 if step == 0 else 1.0)
            state += change
            if step and np.max(np.abs(change)) < ENOUGH:
                return functools.partial(self._values, state[unknown])
        raise RuntimeError("Newton's method of the reference did not end")

    def _step(
        self, state: np.ndarray, unknown: np.ndarray, is_given: np.ndarray, convection: float
    ) -> np.ndarray:
        counts = np.bincount(unknown.ravel(), minlength=len(state))
        inner = {
            size: np.concatenate(
                [
                    start + np.arange(size**2).reshape(size, size)[1:-1, 1:-1].ravel()
                    for start in starts
                ]
            )
            for size, starts in self._blocks
        }
        own = np.sort(np.concatenate(list(inner.values())))
        rest = np.setdiff1d(np.arange(unknown.shape[1]), own)
        eliminated = []
        rows, columns, entries = [], [], []
        right = np.zeros(len(state))
        for cell, numbers in zip(self.cells, unknown, strict=True):
            matrix, residual = self._cell(cell, state[numbers], convection)
            # Given values on the rim of the cell do not change.
            border, is_fixed = numbers[rest], is_given[numbers[rest]]
            solved = np.linalg.solve(
                matrix[np.ix_(own, own)],
                np.column_stack([matrix[np.ix_(own, rest)], residual[own]]),
            )
            eliminated.append(solved)
            across = matrix[np.ix_(rest, own)]
            schur = matrix[np.ix_(rest, rest)] - across @ solved[:, :-1]
            rows.append(np.repeat(border, len(border)))
            columns.append(np.tile(border, len(border)))
            entries.append(schur.ravel())
            right[border] -= np.where(is_fixed, 0.0, residual[rest] - across @ solved[:, -1])
        whole = sparse.csr_matrix(
            (np.concatenate(entries), (np.concatenate(rows), np.concatenate(columns))),
            shape=(len(state), len(state)),
        )
        is_free = ~is_given & (counts > 0)
        is_free[unknown[:, own].ravel()] = False
        free = np.flatnonzero(is_free)
        change = np.zeros(len(state))
        change[free] = spsolve(whole[free][:, free].tocsc(), right[free])
        for numbers, solved in zip(unknown, eliminated, strict=True):
            change[numbers[own]] = -solved[:, -1] - solved[:, :-1] @ change[numbers[rest]]
        return change

    @property
    def _blocks(self) -> list[tuple[int, list[int]]]:
        """Nodes along an axis, and where the fields begin that have so many."""
        size = self.degree + 1
        return [(size, [0, size**2]), (size - 1, [2 * size**2])]

    @functools.cached_property
    def _tables(self) -> tuple[np.ndarray, ...]:
        """Weights, velocities with their derivatives, pressures, at Gauss points of a cell."""
        points, weights = legendre.leggauss(self.degree + 2 + self.degree // 2)
        value, slope = tables(self.degree, points)
        of_pressure, _ = tables(self.degree - 1, points)
        pairs = ((value, value), (slope, value), (value, slope), (of_pressure, of_pressure))
        return np.multiply.outer(weights, weights).ravel(), *(np.kron(*pair) for pair in pairs)

    def _cell(
        self, cell: tuple[int, int], own: np.ndarray, convection: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """The matrix of a cell and its residual."""
        i, j = cell
        width, height = self.x[i + 1] - self.x[i], self.y[j + 1] - self.y[j]
        weights, t, by_x, by_y, q = self._tables
        w, x, y = 0.25 * width * height * weights, 2.0 / width * by_x, 2.0 / height * by_y
        u, v, p = np.split(own, [t.shape[1], 2 * t.shape[1]])
        at_u, at_v, pressure = t @ u, t @ v, q @ p
        u_x, u_y, v_x, v_y = x @ u, y @ u, x @ v, y @ v
        mass = lambda factor: convection * t.T @ ((w * factor)[:, None] * t)
        along = at_u[:, None] * x + at_v[:, None] * y
        wx, wy = w[:, None] * x, w[:, None] * y
        moved = self.nu * (x.T @ wx + y.T @ wy) + convection * t.T @ (w[:, None] * along)
        b_x, b_y = -wx.T @ q, -wy.T @ q
        nothing = np.zeros((q.shape[1], q.shape[1]))
        matrix = np.block(
            [
                [moved + mass(u_x), mass(u_y), b_x],
                [mass(v_x), moved + mass(v_y), b_y],
                [b_x.T, b_y.T, nothing],
            ]
        )
        forces = [
            self.nu * (x.T @ (w * f_x) + y.T @ (w * f_y))
            + convection * t.T @ (w * (at_u * f_x + at_v * f_y))
            - slope.T @ (w * pressure)
            for f_x, f_y, slope in ((u_x, u_y, x), (v_x, v_y, y))
        ]
        return matrix, np.concatenate([*forces, -q.T @ (w * (u_x + v_y))])

    def _values(self, own: np.ndarray, x: np.ndarray, y: np.ndarray) -> Fields:
        """u, v and p at points."""
        x, y = np.asarray(x, float), np.asarray(y, float)
        found = np.full((3, len(x)), np.nan)
        size = self.degree + 1
        for (i, j), values in zip(self.cells, own, strict=True):
            low, high = (self.x[i], self.y[j]), (self.x[i + 1], self.y[j + 1])
            at = np.flatnonzero((low[0] <= x) & (x <= high[0]) & (low[1] <= y) & (y <= high[1]))
            if not len(at):
                continue
            local = [
                2.0 * (each[at] - a) / (b - a) - 1.0
                for each, a, b in zip((x, y), low, high, strict=True)
            ]
            for field, (degree, part) in enumerate(
                zip(
                    (self.degree, self.degree, self.degree - 1),
                    np.split(values, [size**2, 2 * size**2]),
                    strict=True,
                )
            ):
                along, up = (tables(degree, each)[0] for each in local)
                grid = part.reshape(degree + 1, degree + 1)
                found[field, at] = np.einsum("pa,pb,ab->p", along, up, grid)
        return found[0], found[1], found[2]


def graded(
    corner: float, low: float, high: float, width: float, levels: int, factor: float = 0.25
) -> np.ndarray:
    """Cells of about a width between two coordinates, ever smaller toward the one between them."""
    places = [low, corner, high]
    for end in (low, high):
        count = round(abs(end - corner) / width)
        own = np.sign(end - corner) * abs(end - corner) / count
        places += [corner + own * k for k in range(1, count)]
        places += [corner + own * factor**level for level in range(1, levels + 1)]
    return np.unique(places)
