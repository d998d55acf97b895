"""Shapes of the plane that a few numbers describe: rectangles, disks, ellipses and polygons."""

import dataclasses
import functools
import json
import operator
import os
import re
from collections.abc import Sequence
from typing import Any, final

import numpy as np
from jaxtyping import Float, Int

from pann.domain import Box
from pann.errors import FileError
from pann.shapes.arcs import Affine, Circle, Part, Plane, Segment
from pann.shapes.checks import axes_of, axis_names, keep, point, positive, table
from pann.shapes.outline import Outline
from pann.shapes.shape import Shape

Point = tuple[float | int, float | int]
NAMES = ("x", "y")
# How wide a slit should be, relative to the size: far above what is told apart (1e-7), and small.
SLIT = 1e-5


@final
@dataclasses.dataclass(frozen=True, init=False, repr=False)
class Rectangle(Shape):
    """`Rectangle(x=(-2, 2), y=(-1, 1))`, with parts left, right, bottom and top."""

    domain: Box

    def __init__(self, **axes: tuple[float | int, float | int]):
        if len(axes) != 2:
            raise ValueError(
                f"a rectangle has two axes, Rectangle(x=(-2, 2), y=(-1, 1)), got {len(axes)}"
            )
        object.__setattr__(self, "domain", Box(**axes))  # type: ignore[arg-type]

    @property
    def names(self) -> tuple[str, ...]:
        return self.domain.names

    @functools.cached_property
    def parts(self) -> tuple[Part, ...]:
        (left, bottom), (right, top) = self.domain.lower, self.domain.upper
        vertices = [(left, bottom), (right, bottom), (right, top), (left, top)]
        sides = dict(zip(("bottom", "right", "top", "left"), _segments(vertices), strict=True))
        return tuple(Part(name, sides[name]) for name in ("left", "right", "bottom", "top"))

    def level(self, points: Plane) -> Float[np.ndarray, " points"]:
        (left, bottom), (right, top), (x, y) = self.domain.lower, self.domain.upper, points.T
        return np.maximum.reduce([left - x, x - right, bottom - y, y - top])

    def __repr__(self) -> str:
        return f"Rectangle({axes_of(self.domain)})"


@final
@dataclasses.dataclass(frozen=True, repr=False)
class Disk(Shape):
    """All points no farther than the radius from the center; its part is "disk"."""

    center: Point = (0.0, 0.0)
    radius: float | int = 1.0
    names: tuple[str, ...] = NAMES

    def __post_init__(self) -> None:
        keep(self, names=axis_names(self.names, 2), center=point(self.center, 2, "center"))
        keep(self, radius=positive(self.radius, "radius"))

    @functools.cached_property
    def parts(self) -> tuple[Part, ...]:
        matrix = ((self.radius, 0.0), (0.0, self.radius))
        return (Part("disk", Circle(), Affine(matrix, self.center)),)

    def level(self, points: Plane) -> Float[np.ndarray, " points"]:
        x, y = points.T
        return np.hypot(x - self.center[0], y - self.center[1]) - self.radius


@final
@dataclasses.dataclass(frozen=True, repr=False)
class Ellipse(Shape):
    """An ellipse with two radii, turned counterclockwise by an angle; its part is "ellipse"."""

    center: Point = (0.0, 0.0)
    radii: Point = (1.0, 0.5)
    angle: float | int = 0.0
    names: tuple[str, ...] = NAMES

    def __post_init__(self) -> None:
        keep(self, names=axis_names(self.names, 2), center=point(self.center, 2, "center"))
        radii = point(self.radii, 2, "radii")
        keep(self, radii=tuple(positive(radius, "radius") for radius in radii))
        keep(self, angle=point([self.angle], 1, "angle")[0])

    @functools.cached_property
    def parts(self) -> tuple[Part, ...]:
        return (Part("ellipse", Circle(), self._map),)

    @functools.cached_property
    def _map(self) -> Affine:
        """From the unit disk."""
        cos, sin = np.cos(self.angle), np.sin(self.angle)
        matrix = np.array([[cos, -sin], [sin, cos]]) * np.asarray(self.radii)
        return Affine.of(matrix, np.asarray(self.center))

    def level(self, points: Plane) -> Float[np.ndarray, " points"]:
        # Toward the boundary, lengths grow by at least the smaller radius.
        return (np.linalg.norm(self._map.inverse(points), axis=1) - 1) * min(self.radii)


@final
@dataclasses.dataclass(frozen=True, init=False, repr=False)
class Polygon(Shape):
    """A polygon by its vertices in order; e0 is the edge from the first to the second, and so on.

    The inside is the bounded side, whichever way around the vertices are given.
    """

    vertices: tuple[Point, ...]
    names: tuple[str, ...] = NAMES

    def __init__(self, vertices: Any, names: Sequence[str] = NAMES):
        given = table(vertices, "vertices")
        if len(given) > 1 and np.array_equal(given[0], given[-1]):
            given = given[:-1]
        if len(given) < 3:
            raise ValueError(f"a polygon has at least three vertices, got {len(given)}")
        pairs = tuple((float(x), float(y)) for x, y in given)
        keep(self, vertices=pairs, names=axis_names(names, 2))
        _check_polygon(given)

    @staticmethod
    def read(path: str | os.PathLike[str]) -> Shape:
        """The polygons of a file: GeoJSON, with holes, or CSV with a vertex in each line."""
        path = os.fspath(path)
        try:
            with open(path, encoding="utf-8") as file:
                text = file.read()
        except OSError as error:
            raise FileError(f"{path} cannot be opened: {error.strerror}") from None
        polygons = _geojson(text) if text.lstrip().startswith("{") else [[_csv(text)]]
        if not polygons:
            raise FileError(f"{path} has no polygon; it should be GeoJSON, or CSV with two columns")
        shapes = []
        for outer, *holes in polygons:
            shape: Shape = Polygon(outer)
            for number, hole in enumerate(holes):
                inner = Polygon(hole)
                names = {name: f"hole {number + 1}" for name in inner.boundary.names}
                shape = shape - inner.renamed(**names)
            shapes.append(shape)
        return functools.reduce(operator.or_, shapes)

    @functools.cached_property
    def parts(self) -> tuple[Part, ...]:
        x, y = (np.asarray(self.vertices) - self.vertices[0]).T
        parts = [Part(f"e{k}", path) for k, path in enumerate(_segments(self.vertices))]
        if np.sum(x * np.roll(y, -1) - y * np.roll(x, -1)) < 0:
            parts = [part.turned() for part in parts]
        return tuple(parts)

    @functools.cached_property
    def _outline(self) -> Outline:
        return Outline(self.parts)

    def level(self, points: Plane) -> Float[np.ndarray, " points"]:
        return self._outline.level(points)

    def __repr__(self) -> str:
        if len(self.vertices) > 8:
            return f"Polygon(of {len(self.vertices)} vertices)"
        return f"Polygon([{', '.join(f'({x:g}, {y:g})' for x, y in self.vertices)}])"


def _overlap(first: Plane, last: Plane) -> Plane | None:
    """The ends of what two segments on one line have in common, None if that is a point at most."""
    along = last[0] - first[0]
    ends = np.stack([first[1], last[1]]) - first[0]
    away = abs(ends[:, 0] * along[1] - ends[:, 1] * along[0]) / np.hypot(*along)
    shares = np.sort(ends @ along / (along @ along)).clip(0, 1)
    if away.max() > 1e-12 * np.hypot(*along) or not shares[0] < shares[1]:
        return None
    return first[0] + shares[:, None] * along


def _said(point: Float[np.ndarray, " 2"]) -> str:
    return f"({point[0]:.6g}, {point[1]:.6g})"


def crossings(first: Plane, last: Plane) -> Int[np.ndarray, "pairs 2"]:
    """Pairs of segments of a closed chain that meet, other than neighbors at their common end."""
    count = len(first)
    scale = np.ptp(first, axis=0).max()
    low, high = np.minimum(first, last), np.maximum(first, last)
    order = np.argsort(low[:, 0])
    # In order of their left ends, a segment can meet those that begin before its right end.
    reach = np.searchsorted(low[order, 0], high[order, 0] + 1e-12 * scale, side="right")
    rank = np.arange(count)
    counts = reach - rank - 1
    i = np.repeat(rank, counts)
    j = i + 1 + np.arange(len(i)) - np.repeat(np.cumsum(counts) - counts, counts)
    i, j = order[i], order[j]
    overlap = (low[i, 1] <= high[j, 1] + 1e-12 * scale) & (low[j, 1] <= high[i, 1] + 1e-12 * scale)
    apart = (i - j) % count
    i, j = (each[overlap & (apart != 1) & (apart != count - 1)] for each in (i, j))
    if not i.size:
        return np.zeros((0, 2), int)
    side = lambda a, b, c: (
        np.cross(b - a, c - a)
        if False
        else ((b - a)[:, 0] * (c - a)[:, 1] - (b - a)[:, 1] * (c - a)[:, 0])
    )
    cross = (side(first[i], last[i], first[j]) * side(first[i], last[i], last[j]) < 0) & (
        side(first[j], last[j], first[i]) * side(first[j], last[j], last[i]) < 0
    )
    touch = np.min(
        [
            distance_to_segment(ends[a], first[b], last[b])
            for a, b in ((i, j), (j, i))
            for ends in (first, last)
        ],
        axis=0,
    )
    meet = cross | (touch <= 1e-12 * scale)
    return np.sort(np.stack([i[meet], j[meet]], axis=1), axis=1)


def distance_to_segment(points: Plane, first: Plane, last: Plane) -> Float[np.ndarray, " points"]:
    along = last - first
    share = np.sum((points - first) * along, axis=1) / np.maximum(np.sum(along**2, axis=1), 1e-300)
    return np.linalg.norm(points - first - np.clip(share, 0, 1)[:, None] * along, axis=1)


def _geojson(text: str) -> list[list[list[Point]]]:
    """The rings of each polygon, the outer one first."""
    found: list[list[list[Point]]] = []
    left = [json.loads(text)]
    while left:
        item = left.pop(0)
        left += item.get("features") or item.get("geometries") or []
        left += [item["geometry"]] if item.get("geometry") else []
        if item.get("type") == "Polygon":
            found.append(item["coordinates"])
        elif item.get("type") == "MultiPolygon":
            found += item["coordinates"]
    return [[[(each[0], each[1]) for each in ring] for ring in rings] for rings in found]


def _csv(text: str) -> list[Point]:
    """The first two numbers of each line that begins with numbers."""
    rows = []
    for line in text.splitlines():
        try:
            x, y = map(float, re.split(r"[,;\s]+", line.strip())[:2])
            rows.append((x, y))
        except ValueError:
            if rows and line.strip():
                raise FileError(f"a line of the file is no pair of numbers: {line!r}") from None
    return rows


def _segments(vertices: Sequence[Point]) -> list[Segment]:
    return [
        Segment(first, last)
        for first, last in zip(vertices, [*vertices[1:], vertices[0]], strict=True)
    ]


def _check_polygon(vertices: Plane) -> None:
    after = np.roll(vertices, -1, axis=0)
    for number in np.flatnonzero((vertices == after).all(axis=1)):
        x, y = vertices[number]
        raise ValueError(
            f"vertex {number} of the polygon, ({x:g}, {y:g}), is repeated; give it once"
        )
    along = after - vertices
    before = np.roll(along, 1, axis=0)
    turn = along[:, 0] * before[:, 1] - along[:, 1] * before[:, 0]
    lengths = np.linalg.norm(along, axis=1) * np.linalg.norm(before, axis=1)
    back = (abs(turn) <= 1e-12 * lengths) & (np.sum(along * before, axis=1) < 0)
    pairs = [((number - 1) % len(vertices), number) for number in np.flatnonzero(back)]
    pairs += [tuple(pair) for pair in crossings(vertices, after).tolist()]
    for first, second in pairs:
        slit = _overlap(vertices[[first, second]], after[[first, second]])
        if slit is not None:
            size = np.ptp(vertices, axis=0).max()
            raise ValueError(
                f"edges e{first} and e{second} of the polygon meet along a line, a spike or a "
                f"slit of no width from {_said(slit[0])} to {_said(slit[1])}; leave a spike out, "
                f"open a slit by {SLIT * size:g} or so, as a wedge with its tip where the slit "
                "ends, or, if it only leads to a hole, take the hole away by -"
            )
    for first, second in pairs:
        raise ValueError(
            f"edges e{first} and e{second} of the polygon meet; a polygon's edges meet only at "
            "their ends: check the order of the vertices, or make two polygons and join them"
        )
