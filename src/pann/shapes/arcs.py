"""Smooth arcs of a boundary: a path, the part of it that is used, and where it has been moved to.

A path is a map of [0, 1] into the plane. An arc walks it from `start` to `stop`, backward if `stop`
is the smaller one, so that the inside of the shape is on the left; what operators of shapes do to
arcs is to change these two numbers, the affine map, or the name.
"""

import abc
import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import final

import numpy as np
import scipy  # its submodules are loaded when first used
from jaxtyping import Bool, Float, Int

from pann.numerics.quadrature import gauss_legendre
from pann.shapes.trim import Trim

Parameters = Float[np.ndarray, " points"]
Plane = Float[np.ndarray, "points 2"]
Directions = Float[np.ndarray, "directions d"]
Reach = Float[np.ndarray, " directions"]


class Path(abc.ABC):
    """A smooth map of [0, 1] into the plane; one that is closed has period 1."""

    is_closed: bool = False
    is_straight: bool = False

    @property
    @abc.abstractmethod
    def samples(self) -> int:
        """So many equispaced points show all that it does."""

    @abc.abstractmethod
    def points(self, t: Parameters) -> Plane:
        """Where the path is."""

    @abc.abstractmethod
    def tangents(self, t: Parameters) -> Plane:
        """The derivative with respect to t."""


@final
@dataclasses.dataclass(frozen=True)
class Segment(Path):
    """From one point straight to another."""

    first: tuple[float, float]
    last: tuple[float, float]
    is_straight = True
    samples = 16

    def points(self, t: Parameters) -> Plane:
        # Both ends are met exactly this way.
        return (1 - t[:, None]) * np.asarray(self.first) + t[:, None] * np.asarray(self.last)

    def tangents(self, t: Parameters) -> Plane:
        return np.tile(np.asarray(self.last) - np.asarray(self.first), (len(t), 1))


@final
@dataclasses.dataclass(frozen=True)
class Circle(Path):
    """The unit circle, counterclockwise."""

    is_closed = True
    samples = 256

    def points(self, t: Parameters) -> Plane:
        return np.column_stack([np.cos(2 * np.pi * t), np.sin(2 * np.pi * t)])

    def tangents(self, t: Parameters) -> Plane:
        return 2 * np.pi * np.column_stack([-np.sin(2 * np.pi * t), np.cos(2 * np.pi * t)])


@final
@dataclasses.dataclass(frozen=True)
class Affine:
    """The map x -> matrix x + shift."""

    matrix: tuple[tuple[float, ...], ...]
    shift: tuple[float, ...]

    @staticmethod
    def of(matrix: Float[np.ndarray, "d d"], shift: Float[np.ndarray, " d"]) -> "Affine":
        return Affine(tuple(map(tuple, matrix.tolist())), tuple(shift.tolist()))

    @staticmethod
    def identity(dimension: int) -> "Affine":
        return Affine.of(np.eye(dimension), np.zeros(dimension))

    def __call__(self, points: Float[np.ndarray, "points d"]) -> Float[np.ndarray, "points d"]:
        return self.turn(points) + np.asarray(self.shift)

    def turn(self, vectors: Float[np.ndarray, "points d"]) -> Float[np.ndarray, "points d"]:
        """The map of vectors, which have no place."""
        return vectors @ np.asarray(self.matrix).T

    def after(self, first: "Affine") -> "Affine":
        """This map of what another one gives."""
        matrix = np.asarray(self.matrix)
        shift = matrix @ np.asarray(first.shift) + np.asarray(self.shift)
        return Affine.of(matrix @ np.asarray(first.matrix), shift)

    @functools.cached_property
    def inverse(self) -> "Affine":
        matrix = np.linalg.inv(np.asarray(self.matrix))
        return Affine.of(matrix, -matrix @ np.asarray(self.shift))

    @functools.cached_property
    def factor(self) -> float:
        """How much longer lengths become, where that is the same in all directions."""
        return float(abs(np.linalg.det(np.asarray(self.matrix))) ** (1 / len(self.shift)))


@final
@dataclasses.dataclass(frozen=True)
class Part:
    """One smooth arc of a boundary, for t in [0, 1], with the inside of its shape on the left."""

    name: str
    path: Path
    map: Affine = Affine(((1.0, 0.0), (0.0, 1.0)), (0.0, 0.0))
    start: float = 0.0
    stop: float = 1.0

    interval = (0.0, 1.0)

    @property
    def is_straight(self) -> bool:
        return self.path.is_straight

    @property
    def is_closed(self) -> bool:
        """Whether it is a whole loop without an end."""
        return self.path.is_closed and abs(abs(self.stop - self.start) - 1) < 1e-12

    def point(self, t: Parameters) -> Plane:
        return self.map(self.path.points(self._on_path(t)))

    def tangent(self, t: Parameters) -> Plane:
        """The derivative of `point`."""
        return self.map.turn(self.path.tangents(self._on_path(t))) * (self.stop - self.start)

    def normal(self, t: Parameters) -> Plane:
        """Of length 1, outward."""
        tangent = self.tangent(t)
        outward = np.column_stack([tangent[:, 1], -tangent[:, 0]])
        return outward / np.linalg.norm(outward, axis=1, keepdims=True)

    def cut(self, low: float, high: float) -> "Part":
        """What lies between two parameters; beyond 1 a closed arc goes on from 0."""
        start, stop = self._on_path(np.array([low, high])).tolist()
        return dataclasses.replace(self, start=start, stop=stop)

    def turned(self) -> "Part":
        """The same arc, walked the other way."""
        return dataclasses.replace(self, start=self.stop, stop=self.start)

    def moved(self, by: Affine) -> "Part":
        return dataclasses.replace(self, map=by.after(self.map))

    def renamed(self, name: str) -> "Part":
        return dataclasses.replace(self, name=name)

    def trimmed(self, trim: Trim) -> list["Part"]:
        """What is left of it, neighboring pieces joined."""
        cuts = changes(self, trim)
        if self.is_closed and len(cuts):
            limits = np.append(cuts, cuts[0] + 1)
        else:
            limits = np.concatenate([[0.0], cuts, [1.0]])
        limits = limits[np.append(True, np.diff(limits) * self.measure > 1e-8 * trim.size)]
        # Three points of each piece, for one may be where boundaries touch.
        t = (limits[:-1] + np.array([[0.27], [0.49], [0.74]]) * np.diff(limits)).ravel()
        sides = np.median(trim.sides(self.point(t), self.normal(t)).reshape(3, -1), axis=0)
        pieces: list[tuple[float, float, float]] = []
        for low, high, side in np.stack([limits[:-1], limits[1:], sides], axis=1).tolist():
            start = pieces.pop()[0] if pieces and pieces[-1][2] == side else low
            pieces.append((start, high, side))
        if self.is_closed and len(pieces) > 1 and pieces[0][2] == pieces[-1][2]:
            pieces[0] = (pieces.pop()[0] - 1, *pieces[0][1:])
        if len(pieces) > 1:
            arcs = [(self.cut(low, high), side) for low, high, side in pieces]
        else:
            arcs = [(self, side) for *_, side in pieces]
        return [arc if side > 0 else arc.turned() for arc, side in arcs if side]

    def rule(self, count: int) -> tuple[Parameters, Parameters]:
        """Parameters, and weights of arc length: Gauss-Legendre, or equispaced on a loop."""
        if self.is_closed:
            nodes, weights = np.arange(count) / count, np.full(count, 1 / count)
        else:
            nodes, weights = gauss_legendre(count)
            nodes = (nodes + 1) / 2
        return nodes, weights * np.linalg.norm(self.tangent(nodes), axis=1)

    @functools.cached_property
    def _integrals(self) -> tuple[float, float]:
        """The length, and half the integral of x dy - y dx, x and y measured from its start."""
        before = np.full(2, np.inf)
        # No multiples of each other, or what repeats as often as the nodes is seen nowhere.
        for count in (1, 37, 101, 211, 433, 877, 1753, *((3511, 7027) if self.is_closed else ())):
            nodes, weights = self.rule(count)
            across = np.sum((self.point(nodes) - self.ends[0]) * self.normal(nodes), axis=1)
            now = np.array([weights.sum(), weights @ across / 2])
            if self.is_straight or abs(now - before).max() <= 4e-15 * abs(now).max():
                break
            before = now
        return float(now[0]), float(now[1])

    @property
    def measure(self) -> float:
        """Its length."""
        return self._integrals[0]

    @property
    def length(self) -> float:
        return self.measure

    @property
    def area(self) -> float:
        """Its share of the area by Green's theorem: what lies between it and the origin."""
        return self.area_from(np.zeros(2))

    def area_from(self, center: Float[np.ndarray, " 2"]) -> float:
        """What lies between it and a point."""
        (x, y), (dx, dy) = self.ends[0] - center, self.ends[1] - self.ends[0]
        return self._integrals[1] + float(x * dy - y * dx) / 2

    @property
    def fine(self) -> Parameters:
        """Parameters close enough to see all that it does."""
        return np.linspace(0, 1, self.path.samples + 1)

    @functools.cached_property
    def ends(self) -> Float[np.ndarray, "2 2"]:
        return self.point(np.array([0.0, 1.0]))

    def support(self, directions: Directions) -> Reach:
        """How far it reaches along each direction."""
        reach = (self.ends @ directions.T).max(axis=0)
        if self.is_straight:
            return reach
        t = self.fine
        rising = self.tangent(t) @ directions.T > 0
        tops, which = np.nonzero(rising[:-1] & ~rising[1:])
        along = lambda points: np.sum(points * directions[which], axis=1)
        t, _ = bisect(lambda s: along(self.tangent(s)) > 0, t[tops], t[tops + 1])
        np.maximum.at(reach, which, along(self.point(t)))
        return reach

    @functools.cached_property
    def bounds(self) -> Float[np.ndarray, "2 2"]:
        """The lower and the upper ends of its bounding box."""
        reach = self.support(np.concatenate([-np.eye(2), np.eye(2)])).reshape(2, 2)
        return np.stack([-reach[0], reach[1]])

    def nearest(self, points: Plane, t: Parameters) -> Parameters:
        """The parameters of the nearest points of the arc, by Gauss-Newton steps from near ones."""
        for _ in range(20):
            tangent = self.tangent(t)
            squares = np.maximum(np.sum(tangent**2, axis=1), 1e-300)
            step = np.sum((points - self.point(t)) * tangent, axis=1) / squares
            before, t = t, t + step if self.is_closed else np.clip(t + step, 0, 1)
            if not abs(t - before).max(initial=0) > 1e-15:
                break
        return t

    def sample(
        self, count: int, rule: str, generator: np.random.Generator
    ) -> tuple[Plane, Plane, Parameters]:
        """Points, normals and weights that sum to the length; `uniform` ones are drawn."""
        if rule == "gauss":
            t, weights = self.rule(count)
            weights *= self.measure / weights.sum()
        else:
            t = self.along(generator.random(count))
            weights = np.full(count, self.measure / count)
        return self.point(t), self.normal(t), weights

    def along(
        self, shares: Parameters, density: Callable[[Plane], Parameters] | None = None
    ) -> Parameters:
        """Where these shares of the length are behind, or of the integral of a density."""
        t = np.linspace(0, 1, 8 * self.path.samples + 1)
        speed = np.linalg.norm(self.tangent(t), axis=1)
        if density is not None:
            speed *= np.maximum(density(self.point(t)), 0)
        total = np.append(0, np.cumsum(speed[1:] + speed[:-1]))
        return np.interp(shares * total[-1], total, t)

    def chosen(self, state: Callable[[Plane, Plane], Bool[np.ndarray, " points"]]) -> list["Part"]:
        """Its pieces where a state of points and normals is true."""
        holds = lambda t: state(self.point(t), self.normal(t))
        t = np.append(0, (np.arange(2 * self.path.samples) + 0.5) / (2 * self.path.samples))
        t = np.append(t, 1)
        states = holds(t)
        if self.is_closed and states[0]:
            # Begin where it is not true, so that no piece goes on at the other end.
            if states.all():
                return [self]
            shift = float(t[~states][0])
            return self.cut(shift, shift + 1).chosen(state)
        low, high = t[:-1], t[1:]
        ups, downs = ~states[:-1] & states[1:], states[:-1] & ~states[1:]
        starts = bisect(lambda s: ~holds(s), low[ups], high[ups])[1]
        stops = bisect(holds, low[downs], high[downs])[0]
        starts = np.append([0.0] if states[0] else [], starts)
        stops = np.append(stops, [1.0] if states[-1] else [])
        if len(starts) == 1 and (starts[0], stops[0]) == (0, 1):
            return [self]
        return [self.cut(*ends) for ends in zip(starts.tolist(), stops.tolist(), strict=True)]

    def without(self, others: Sequence[object]) -> list["Part"]:
        """What is left of it without others, which may be pieces of the same arc."""
        same = [
            part
            for part in others
            if isinstance(part, Part)
            and (part.name, part.path, part.map) == (self.name, self.path, self.map)
            and (part.stop > part.start) == (self.stop > self.start)
        ]
        taken = []
        for part in same:
            for turn in (-1, 0, 1) if self.path.is_closed else (0,):
                ends = np.array([part.start, part.stop]) + turn
                low, high = (ends - self.start) / (self.stop - self.start)
                if high > 1e-14 and low < 1 - 1e-14:
                    taken.append((max(float(low), 0.0), min(float(high), 1.0)))
        if not taken:
            return [self]
        left, low = [], 0.0
        for start, stop in [*sorted(taken), (1.0, 1.0)]:
            if start > low + 1e-14:
                left.append((low, start))
            low = max(low, stop)
        if self.is_closed and len(left) > 1 and left[0][0] == 0 and left[-1][1] == 1:
            left[-1] = (left[-1][0], 1 + left.pop(0)[1])
        return [self.cut(*ends) for ends in left]

    def distance(self, points: Plane) -> Float[np.ndarray, " points"]:
        t = self.fine
        _, first = scipy.spatial.cKDTree(self.point(t)).query(points)
        return np.linalg.norm(points - self.point(self.nearest(points, t[first])), axis=1)

    def _on_path(self, t: Parameters) -> Parameters:
        return (1 - t) * self.start + t * self.stop


def bisect(
    state: Callable[[Parameters], Bool[np.ndarray, " points"]], low: Parameters, high: Parameters
) -> tuple[Parameters, Parameters]:
    """Neighboring numbers between which the state changes from true (at `low`) to false."""
    while True:
        middle = (low + high) / 2
        if not ((middle != low) & (middle != high)).any():
            return low, high
        holds = state(middle)
        low, high = np.where(holds, middle, low), np.where(holds, high, middle)


def changes(part: Part, trim: Trim) -> Float[np.ndarray, " cuts"]:
    """Where an arc crosses the boundary of another shape, or begins or ends to run along it.

    Its level is never larger than the distance to its boundary, so that an arc shorter than the
    levels at its ends has no crossing: all others are halved. Cuts next to corners of the other
    shape are moved onto them.
    """
    level, corners = trim.other.level, trim.corners
    size, tolerance = trim.size, trim.tolerance
    if trim.is_apart(part):
        return np.zeros(0)
    # Where a loop is opened, a cut is unlikely this way.
    t = part.fine + (0.012371 if part.is_closed else 0.0)
    t = np.union1d(t, _around(part, t, size, corners))
    values = level(part.point(t))
    while True:
        speed = np.linalg.norm(part.tangent(t), axis=1)
        lengths = 1.1 * np.diff(t) * np.maximum(speed[:-1], speed[1:])
        # Where the two run along each other, they cross only next to a corner, which is among the
        # parameters, or where they come nearest.
        gaps = abs(values)
        along = np.maximum(gaps[:-1], gaps[1:]) <= np.maximum(1e-9 * size, 1e-2 * lengths)
        slopes = np.diff(gaps)
        falls, rises = slopes < -1e-12 * size, slopes > 1e-12 * size
        nearest = np.append(True, falls[:-1]) & np.append(rises[1:], True)
        smallest = np.where(along & ~nearest, size / 300, 1e-7 * size)
        unclear = (gaps[:-1] + gaps[1:] < lengths) & (lengths > smallest)
        if not unclear.any():
            break
        new = ((t[:-1] + t[1:]) / 2)[unclear]
        where = np.flatnonzero(unclear) + 1
        t, values = np.insert(t, where, new), np.insert(values, where, level(part.point(new)))
    states = np.where(abs(values) <= tolerance, 0, np.sign(values)).astype(int)
    # A run that short is a crossing, or a touch, which is no cut.
    first, last = _runs(states)
    place = np.append(0, np.cumsum(lengths))
    short = (states[first] == 0) & (place[last] - place[first] < 3e-5 * size)
    if short.all():  # a whole arc of that length
        return np.zeros(0)
    keep = np.repeat(~short, last - first + 1)
    t, states = t[keep], states[keep]
    jumps = np.flatnonzero(states[:-1] != states[1:])
    if not jumps.size:
        return np.zeros(0)
    left, right = states[jumps], states[jumps + 1]

    def holds(s: Parameters) -> Bool[np.ndarray, " points"]:
        values = level(part.point(s))
        on = (abs(values) <= tolerance) == (left == 0)
        return np.where(left * right == 0, on, (values < 0) == (left < 0))

    low, high = bisect(holds, t[jumps], t[jumps + 1])
    cuts = np.where(left == 0, low, high)
    if len(corners):
        points = part.point(cuts)
        gaps = np.linalg.norm(points[:, None] - corners, axis=2)
        corner = corners[gaps.argmin(axis=1)]
        moved = part.nearest(corner, cuts)
        is_near = np.linalg.norm(part.point(moved) - corner, axis=1) <= tolerance
        cuts = np.where((gaps.min(axis=1) < 3e-5 * size) & is_near, moved, cuts)
    return np.sort(cuts)


def _around(
    part: Part, t: Parameters, size: float, corners: Float[np.ndarray, "corners 2"]
) -> Float[np.ndarray, " around"]:
    """Parameters of corners that are on the arc, and of points next to them."""
    if not len(corners):
        return t
    gaps = np.linalg.norm(part.point(t)[:, None] - corners, axis=2)
    nearest = part.nearest(corners, t[gaps.argmin(axis=0)])
    points, speed = part.point(nearest), np.linalg.norm(part.tangent(nearest), axis=1)
    there = (np.linalg.norm(points - corners, axis=1) <= 1e-9 * size) & (speed > 0)
    if part.is_closed:
        nearest = t[0] + (nearest - t[0]) % 1.0
    around = nearest[there, None] + 1e-6 * size / speed[there, None] * np.array([-1, 0, 1])
    return np.clip(around.ravel(), t[0], t[-1])


def _runs(states: Int[np.ndarray, " points"]) -> tuple[Int[np.ndarray, " runs"], ...]:
    """The first and the last index of each run of equal states."""
    jumps = np.flatnonzero(states[:-1] != states[1:])
    return np.append(0, jumps + 1), np.append(jumps, len(states) - 1)
