"""Fronts in a function that a coarse basis knows: the curves p = 0 of units f(p) that it lacks.

A basis of degree n shows of a front what a low-pass filter leaves. So does it of a candidate: the
two are compared by their Legendre coefficients of degrees m to n, whose lower ones are the smooth
part. This sees a front from afar, where the residual of the equation sees it only once it is met.

    min over p and c of sum over m < |k| <= n of <phi_k, u_h - c f(p)>^2

Where nothing is known of u inside, its values on faces, less a polynomial, show where fronts end.
"""

import abc
import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from pann.network.embeddings import total_degree_indices
from pann.numerics import levenberg_marquardt as lm

# Nodes along each axis by dimension.
NODES = {1: 400, 2: 64, 3: 36}
# The degrees that are seen, from afar and from near: up to the first, less up to the second.
VIEWS = (14, 4), (30, 9)
# Heights that vary, and what else the equation tells, take care of such a fraction.
ENOUGH = 0.06
# Another front, or one of a higher degree, has to leave less than this of what is left.
WORTH, HELPS = 0.8, 0.5
MAX_FRONTS = 4
# Candidates whose coefficients have a larger cosine end at the same front.
NEIGHBORS = 0.97
# Degrees of p that are tried one after another, and the candidates that are polished.
LEVEL_DEGREES = (1, 2, 4)
NUM_POLISHED, NUM_REFINED = 4, 2
ITERATIONS = 30

Fronts = Float[np.ndarray, "_fronts _terms"]


class Profile(NamedTuple):
    """Across a front, and its derivative."""

    value: Callable[[np.ndarray], np.ndarray]
    slope: Callable[[np.ndarray], np.ndarray]


TANH = Profile(np.tanh, lambda p: 1 - np.tanh(p) ** 2)
ARCTAN = Profile(np.arctan, lambda p: 1 / (1 + p**2))


class View(abc.ABC):
    """Functions on [-1, 1]^d as numbers from which their smooth part is left out.

    `degree` is about the highest that is seen.
    """

    degree: int
    points: Float[np.ndarray, "nodes d"]

    @property
    def dimension(self) -> int:
        return self.points.shape[1]

    def terms(self, degree: int) -> Float[np.ndarray, "nodes terms"]:
        """What p is a combination of, at the points."""
        return legendre_products(self.points, degree)

    @abc.abstractmethod
    def coefficients(
        self, values: Float[np.ndarray, "*any nodes"]
    ) -> Float[np.ndarray, "*any seen"]:
        """Of one function, or of several, from their values at the points."""


@dataclasses.dataclass(frozen=True, eq=False)
class Inside(View):
    """As a coarse basis sees them: their Legendre coefficients from values at Gauss nodes."""

    degree: int
    points: Float[np.ndarray, "nodes d"]
    analysis: Float[np.ndarray, "functions along"]
    is_seen: Bool[np.ndarray, "..."]

    @classmethod
    def of(cls, dimension: int, degree: int, smooth: int) -> "Inside":
        nodes, weights = np.polynomial.legendre.leggauss(NODES[dimension])
        points = np.stack(np.meshgrid(*[nodes] * dimension, indexing="ij"), axis=-1)
        scale = np.sqrt(np.arange(degree + 1) + 0.5)
        table = np.polynomial.legendre.legvander(nodes, degree) * scale
        total = sum(np.ix_(*[np.arange(degree + 1)] * dimension))
        is_seen = np.asarray((smooth < total) & (total <= degree))
        return cls(degree, points.reshape(-1, dimension), table.T * weights, is_seen)

    def coefficients(
        self, values: Float[np.ndarray, "*any nodes"]
    ) -> Float[np.ndarray, "*any seen"]:
        size, before = self.analysis.shape[1], values.shape[:-1]
        array = values.reshape(*before, *[size] * self.dimension)
        for axis in range(len(before), array.ndim):
            array = np.moveaxis(np.tensordot(self.analysis, array, (1, axis)), 0, axis)
        return array[..., self.is_seen]


@dataclasses.dataclass(frozen=True, eq=False)
class OnFaces(View):
    """Values at points of the faces, less the polynomial of a low degree that is nearest."""

    degree: int
    points: Float[np.ndarray, "nodes d"]
    smooth: Float[np.ndarray, "nodes terms"]

    @classmethod
    def of(cls, points: Float[np.ndarray, "nodes d"], degree: int, smooth: int) -> "OnFaces":
        # Polynomials that are the same on all faces are one column.
        left, sizes, _ = np.linalg.svd(legendre_products(points, smooth), full_matrices=False)
        return cls(degree, points, left[:, sizes > 1e-10 * sizes[0]])

    def coefficients(
        self, values: Float[np.ndarray, "*any nodes"]
    ) -> Float[np.ndarray, "*any nodes"]:
        return values - (values @ self.smooth) @ self.smooth.T


def legendre_products(
    points: Float[np.ndarray, "points d"], degree: int
) -> Float[np.ndarray, "points terms"]:
    indices = total_degree_indices(points.shape[1], degree)
    tables = np.polynomial.legendre.legvander(points.T, degree)
    pairs = zip(tables, indices.T, strict=True)
    return np.prod([table[:, column] for table, column in pairs], axis=0)


def inside(dimension: int) -> tuple[Inside, Inside]:
    return Inside.of(dimension, *VIEWS[0]), Inside.of(dimension, *VIEWS[1])


def found_fronts(
    views: tuple[View, View],
    values: Float[np.ndarray, "nodes fields"],
    profile: Profile = TANH,
    degrees: Sequence[int] = LEVEL_DEGREES,
) -> tuple[Fronts, float]:
    """The fronts, one at a time as long as they pay, and the fraction that all of them leave.

    Each is found in the first view, and made out in the second.
    """
    coarse, fine = (_Fit(view, view.coefficients(values.T), profile) for view in views)
    dimension = fine.view.dimension
    simple = functools.partial(_cost, dimension)
    whole = left = float(np.linalg.norm(fine.seen))
    fronts = np.zeros((0, dimension + 1))
    while len(fronts) < MAX_FRONTS and left > ENOUGH * whole:
        candidates = [_joined(fronts, each) for each in coarse.candidates(fronts)]
        starts = sorted((coarse.polished(each, (1, 2)) for each in candidates), key=simple)
        polished = [fine.polished(start, degrees) for start, _ in starts[:NUM_REFINED]]
        best, after = min(polished, key=simple)
        if after > WORTH * left:
            break
        fronts, left = best, after
    return fronts, left / max(whole, 1e-300)


def refitted(
    view: View, values: Float[np.ndarray, "nodes fields"], fronts: Fronts, profile: Profile
) -> tuple[Fronts, float]:
    """The same curves with another profile, and the fraction that they leave."""
    fit = _Fit(view, view.coefficients(values.T), profile)
    moved, left = fit.polished(fronts, (degree_of(fronts, view.dimension),))
    return moved, left / max(float(np.linalg.norm(fit.seen)), 1e-300)


def _cost(dimension: int, found: tuple[Fronts, float]) -> float:
    """What is left, more for curves of higher degrees."""
    fronts, left = found
    return left / HELPS ** sum(degree < degree_of(fronts, dimension) for degree in LEVEL_DEGREES)


def _joined(fronts: Fronts, other: Float[np.ndarray, " _terms"]) -> Fronts:
    size = max(fronts.shape[1], len(other))
    return np.stack([np.pad(each, (0, size - len(each))) for each in (*fronts, other)])


@dataclasses.dataclass(frozen=True, eq=False)
class _Fit:
    """Values as a view sees them, and fronts of one profile that are fitted to them."""

    view: View
    seen: Float[np.ndarray, "fields seen"]
    profile: Profile

    def columns(self, fronts: Fronts) -> Float[np.ndarray, "seen columns"]:
        """f(p), and f(p) times the coordinates: heights vary."""
        degree = degree_of(fronts, self.view.dimension)
        p = fronts @ self.view.terms(degree).T
        heights = self.view.terms(1).T
        return self.view.coefficients(
            (self.profile.value(p)[:, None] * heights).reshape(-1, p.shape[1])
        ).T

    def left(self, fronts: Fronts) -> Float[np.ndarray, "seen fields"]:
        """What the fronts leave, with the best heights."""
        if not len(fronts):
            return self.seen.T
        columns = self.columns(fronts)
        return self.seen.T - columns @ np.linalg.lstsq(columns, self.seen.T, rcond=1e-10)[0]

    def candidates(self, fronts: Fronts) -> list[Float[np.ndarray, " _terms"]]:
        """Those of all straight ones and circles that explain most of what these leave."""
        left = self.left(fronts)
        scores, each = [], _catalog(self.view.dimension, self.view.degree)
        q = np.linalg.qr(self.columns(fronts))[0] if len(fronts) else None
        for batch in _batches(each):
            degree = degree_of(batch, self.view.dimension)
            rows = self.view.coefficients(self.profile.value(batch @ self.view.terms(degree).T))
            if q is not None:
                rows = rows - (rows @ q) @ q.T
            sizes = np.maximum(np.linalg.norm(rows, axis=1), 1e-12)
            scores.append(np.linalg.norm(rows @ left, axis=1) / sizes)
        order = np.argsort(-np.concatenate(scores))
        chosen: list[np.ndarray] = []
        for number in order:
            # Neighbors in the catalog end at the same front.
            if all(_cosine(each[number], other) < NEIGHBORS for other in chosen):
                chosen.append(each[number])
            if len(chosen) == NUM_POLISHED:
                break
        return chosen

    def polished(self, fronts: Fronts, degrees: Sequence[int]) -> tuple[Fronts, float]:
        """The fronts nearest to these, of degrees that are raised as long as that helps."""
        first = degree_of(fronts, self.view.dimension)
        best, least = fronts, float(np.linalg.norm(self.left(fronts)))
        enough = ENOUGH * float(np.linalg.norm(self.seen))
        for degree in degrees:
            if degree < first or (degree > first and least < enough):
                continue
            size = len(total_degree_indices(self.view.dimension, degree))
            start = np.pad(best, ((0, 0), (0, size - best.shape[1])))
            moved = self._moved(start)
            after = float(np.linalg.norm(self.left(moved)))
            if after > HELPS * least and degree > max(first, 2):
                break
            if degree == first or after < HELPS * least:
                best, least = moved, after
        return best, least

    def _moved(self, start: Fronts) -> Fronts:
        shape = start.shape
        degree = degree_of(start, self.view.dimension)
        terms, heights = self.view.terms(degree), self.view.terms(1)

        def residual(flat: np.ndarray) -> np.ndarray:
            return self.left(flat.reshape(shape)).ravel()

        def normal_equations(flat: np.ndarray, now: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            fronts = flat.reshape(shape)
            columns = self.columns(fronts)
            q = np.linalg.qr(columns)[0]
            c = np.linalg.lstsq(columns, self.seen.T, rcond=1e-10)[0]
            steep = self.profile.slope(fronts @ terms.T)
            jacobian = []
            for number, height in enumerate(c.reshape(shape[0], heights.shape[1], -1)):
                factor = (steep[number][:, None] * (heights @ height)).T[:, None] * terms.T
                found = self.view.coefficients(factor)  # fields, terms, seen
                found = found - (found @ q) @ q.T
                jacobian.append(
                    -np.moveaxis(found, 1, 2).transpose(1, 0, 2).reshape(-1, found.shape[1])
                )
            matrix = np.concatenate(jacobian, axis=1)
            return matrix.T @ matrix, matrix.T @ now

        return lm.minimize(
            residual,
            normal_equations,
            start.ravel(),
            damping=1e-2,
            iterations=ITERATIONS,
            tolerance=1e-3,
        )[0].reshape(shape)


def _batches(catalog: Sequence[np.ndarray]) -> Iterator[Fronts]:
    """Those of one degree, some at a time."""
    for _, same in itertools.groupby(catalog, len):
        rows = np.asarray(list(same))
        yield from np.array_split(rows, max(1, len(rows) // 100))


def _cosine(one: Float[np.ndarray, " _"], other: Float[np.ndarray, " _"]) -> float:
    size = min(len(one), len(other))
    product = abs(one[:size] @ other[:size])
    return float(product / (np.linalg.norm(one) * np.linalg.norm(other)))


def degree_of(fronts: Fronts, dimension: int) -> int:
    size = fronts.shape[1]
    return next(d for d in itertools.count() if len(total_degree_indices(dimension, d)) == size)


def _catalog(dimension: int, degree: int) -> list[Float[np.ndarray, " _terms"]]:
    """Straight fronts in all directions, and circles, as wide as the basis sees them."""
    steep = degree / 3.0
    directions = _directions(dimension)
    size = len(total_degree_indices(dimension, 2))
    found = []
    for direction, offset in itertools.product(directions, np.linspace(-1.2, 1.2, 31)):
        found.append(np.array([-steep * offset, *(steep * direction)]))
    if dimension == 1:
        return found
    squares = [
        int(np.flatnonzero((total_degree_indices(dimension, 2) == 2 * row).all(axis=1))[0])
        for row in np.eye(dimension, dtype=int)
    ]
    for center in itertools.product(np.linspace(-0.9, 0.9, 7), repeat=dimension):
        for radius in (0.25, 0.4, 0.55, 0.7, 0.9):
            # (|x - c|^2 - R^2) / 2 R, with x^2 = (2 P_2 + 1) / 3.
            p, scale = np.zeros(size), steep / (2 * radius)
            p[0] = scale * (np.sum(np.square(center)) - radius**2 + dimension / 3)
            p[1 : 1 + dimension] = -2 * scale * np.asarray(center)
            p[squares] = 2 * scale / 3
            found.append(p)
    return found


def _directions(dimension: int) -> Sequence[Float[np.ndarray, " d"]]:
    if dimension == 1:
        return [np.ones(1)]
    if dimension == 2:
        return [np.array([np.cos(a), np.sin(a)]) for a in np.linspace(0, np.pi, 24, endpoint=False)]
    # Fibonacci's points on half a sphere.
    z = (np.arange(60) + 0.5) / 60
    angle, r = np.pi * (3 - np.sqrt(5)) * np.arange(60), np.sqrt(1 - z**2)
    return list(np.stack([r * np.cos(angle), r * np.sin(angle), z], axis=1))
