"""Shapes, and what can be made of them: differences, unions, intersections, moved and renamed ones.

A shape is a level, which says of any point whether it is inside, and the parts of its boundary.
All else follows from these two.
"""

import abc
import dataclasses
import functools
import os
import re
from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np
import numpy.typing as npt
import scipy  # its submodules are loaded when first used
from jaxtyping import Bool, Float, Int

from pann.domain import Box
from pann.shapes.arcs import Affine, Part, changes
from pann.shapes.boundary import Boundary
from pann.shapes.loops import Corner, Hole, hole_of, junctions, loops_of

Points = Float[np.ndarray, "points d"]
Levels = Float[np.ndarray, " points"]


class Shape(abc.ABC):
    """A bounded region; `-`, `|` and `&` make others, whose boundaries keep their names."""

    @property
    @abc.abstractmethod
    def names(self) -> tuple[str, ...]:
        """The names of the axes."""

    @property
    @abc.abstractmethod
    def parts(self) -> tuple[Part, ...]:
        """The smooth pieces of the boundary, with outward normals."""

    @abc.abstractmethod
    def level(self, points: Points) -> Levels:
        """Negative inside, zero on the boundary, and never larger than the distance to it."""

    @property
    def dimension(self) -> int:
        return len(self.names)

    @functools.cached_property
    def lower(self) -> tuple[float, ...]:
        """The lower ends of the bounding box."""
        return tuple(np.min([part.bounds[0] for part in self.parts], axis=0).tolist())

    @functools.cached_property
    def upper(self) -> tuple[float, ...]:
        """The upper ends of the bounding box."""
        return tuple(np.max([part.bounds[1] for part in self.parts], axis=0).tolist())

    @functools.cached_property
    def size(self) -> float:
        """The longest side of the bounding box."""
        return float(np.max(np.subtract(self.upper, self.lower)))

    def inside(
        self, points: npt.ArrayLike, tolerance: float = 1e-12
    ) -> Bool[np.ndarray, " points"]:
        """Which points lie inside or on the boundary, up to a share of the size."""
        given = np.asarray(points, float)
        if given.ndim != 2 or given.shape[1] != self.dimension:
            raise ValueError(
                f"points have a row each and columns {', '.join(self.names)}, got an array of "
                f"shape {given.shape}"
            )
        return self.level(given) <= tolerance * self.size

    def distance(self, points: Points) -> Levels:
        """About how far points outside are from it."""
        level = self.level(points)
        gaps, _ = scipy.spatial.cKDTree(self.boundary.points(20_000)[0]).query(points)
        # Next to the boundary the level is the distance.
        return np.where(level < 1e-3 * self.size, level, gaps)

    @property
    def boundary(self) -> Boundary:
        """All of the boundary; `boundary["left"]` is a part of it."""
        return Boundary(self, self.parts)

    @functools.cached_property
    def corners(self) -> tuple[Corner, ...]:
        """The points where the boundary turns."""
        meetings = junctions(self.parts, self.inside, self.size)
        return tuple(each for each in meetings if abs(each.angle - np.pi) > 1e-7)

    @functools.cached_property
    def holes(self) -> tuple[Hole, ...]:
        """The bounded pieces of the outside."""
        loops = loops_of(self.parts, self.size)
        inner = [loop for loop in loops if sum(part.area for part in loop) < 0]
        return tuple(hole_of(loop, self.size) for loop in inner)

    @property
    def area(self) -> float:
        return sum(part.area for part in self.parts)

    @property
    def box(self) -> Box:
        """The bounding box, with this shape in it."""
        return Box.of_shape(self)

    def in_time(self, **axis: tuple[float, float]) -> Box:
        """The bounding box with this shape in it and an axis that is time: `in_time(t=(0, 2))`."""
        return Box.of_shape(self, axis)

    def __sub__(self, other: "Shape") -> "Combination":
        return Combination("-", self, other)

    def __or__(self, other: "Shape") -> "Combination":
        return Combination("|", self, other)

    def __and__(self, other: "Shape") -> "Combination":
        return Combination("&", self, other)

    def moved(self, *steps: float, **named: float) -> "Moved":
        """Moved along the axes, in order or by name: `moved(0.5, 0)`, `moved(y=1)`."""
        unknown = [name for name in named if name not in self.names]
        if unknown or len(steps) not in (0, self.dimension) or bool(steps) == bool(named):
            raise ValueError(
                f"a shape is moved by a number for each of {', '.join(self.names)}, or for some "
                f"of them by name, got {(*steps, *named)}"
            )
        shift = np.array(steps or [named.get(name, 0.0) for name in self.names], float)
        return _moved(self, np.eye(self.dimension), shift)

    def scaled(self, factor: float, about: Sequence[float] | None = None) -> "Moved":
        """Larger by a factor, about a point that stays (the origin if none is given)."""
        if not (np.isfinite(factor) and factor > 0):
            raise ValueError(f"a shape is scaled by a positive number, got {factor}")
        return _moved(self, factor * np.eye(self.dimension), None, about)

    def rotated(
        self, angle: float, about: Sequence[float] | None = None, axis: str | None = None
    ) -> "Moved":
        """Turned counterclockwise by radians about a point, in space about an axis through it."""
        if self.dimension == 2:
            plane = [0, 1]
        elif axis in self.names and self.dimension == 3:
            number = self.names.index(axis)
            plane = [(number + 1) % 3, (number + 2) % 3]
        else:
            raise ValueError(
                f"a shape in {self.dimension} dimensions is rotated about one of its axes "
                f"{', '.join(self.names)}, got axis={axis!r}"
            )
        matrix = np.eye(self.dimension)
        cos, sin = np.cos(angle), np.sin(angle)
        matrix[np.ix_(plane, plane)] = [[cos, -sin], [sin, cos]]
        return _moved(self, matrix, None, about)

    def plot(self, path: str | os.PathLike[str] | None = None) -> Any:
        """A picture with the names of the parts of the boundary, and the corners."""
        from pann.plot.outline import plot_shape

        return plot_shape(self, path)

    def renamed(self, **names: str) -> "Renamed":
        """With other names for parts of the boundary: `renamed(left="inlet")`."""
        return Renamed(self, tuple(names.items()))


@final
@dataclasses.dataclass(frozen=True, repr=False)
class Moved(Shape):
    """A shape moved, scaled or rotated."""

    shape: Shape
    by: Affine

    @property
    def names(self) -> tuple[str, ...]:
        return self.shape.names

    @functools.cached_property
    def parts(self) -> tuple[Part, ...]:
        return tuple(part.moved(self.by) for part in self.shape.parts)

    def level(self, points: Points) -> Levels:
        return self.shape.level(self.by.inverse(points)) * self.by.factor

    def __repr__(self) -> str:
        matrix = np.asarray(self.by.matrix)
        said = repr(self.shape)
        if abs(self.by.factor - 1) > 1e-15:
            said += f".scaled({self.by.factor:g})"
        turn = matrix / self.by.factor
        if self.dimension == 2 and not np.array_equal(turn, np.eye(2)):
            said += f".rotated({np.arctan2(turn[1, 0], turn[0, 0]):g})"
        elif not np.array_equal(turn, np.eye(self.dimension)):
            said += ".rotated(...)"
        if any(self.by.shift):
            said += f".moved({', '.join(f'{step:g}' for step in self.by.shift)})"
        return said


@final
@dataclasses.dataclass(frozen=True, repr=False)
class Renamed(Shape):
    """A shape whose parts have other names."""

    shape: Shape
    pairs: tuple[tuple[str, str], ...]

    def __post_init__(self) -> None:
        for name, _ in self.pairs:
            self.shape.boundary.check(name)

    @property
    def names(self) -> tuple[str, ...]:
        return self.shape.names

    @functools.cached_property
    def parts(self) -> tuple[Part, ...]:
        new = dict(self.pairs)
        return tuple(part.renamed(new.get(part.name, part.name)) for part in self.shape.parts)

    def level(self, points: Points) -> Levels:
        return self.shape.level(points)

    def __repr__(self) -> str:
        return f"{self.shape}.renamed({', '.join(f'{old}={new!r}' for old, new in self.pairs)})"


RULES: dict[str, Callable[[Any, Any], Any]] = {
    "-": lambda first, second: first & ~second,
    "|": lambda first, second: first | second,
    "&": lambda first, second: first & second,
}


@final
@dataclasses.dataclass(frozen=True, repr=False)
class Combination(Shape):
    """The difference, the union or the intersection of two shapes."""

    operation: str
    first: Shape
    second: Shape

    def __post_init__(self) -> None:
        if not isinstance(self.second, Shape):
            raise ValueError(
                f"shapes are combined with shapes, got {self.first} {self.operation} "
                f"{self.second!r}"
            )
        if self.first.names != self.second.names:
            raise ValueError(
                f"{self.first} has axes {', '.join(self.first.names)} and {self.second} has axes "
                f"{', '.join(self.second.names)}; shapes that are combined have the same ones: "
                "give names=(...) where they are made"
            )
        if not self.parts:
            raise ValueError(
                f"{self} is empty; check where the shapes are: the first reaches from "
                f"{_place(self.first.lower)} to {_place(self.first.upper)}, the second from "
                f"{_place(self.second.lower)} to {_place(self.second.upper)}"
            )

    @property
    def names(self) -> tuple[str, ...]:
        return self.first.names

    def level(self, points: Points) -> Levels:
        first, second = self.first.level(points), self.second.level(points)
        if self.operation == "|":
            value = np.minimum(first, second)
        else:
            value = np.maximum(first, second if self.operation == "&" else -second)
        # Where both boundaries are, the inside may go on (a seam of a union), or be nothing (shapes
        # that touch): then all the points about have the same sign.
        seam = np.flatnonzero((abs(first) <= self._tolerance) & (abs(second) <= self._tolerance))
        if seam.size:
            around = points[seam, None] + 1e3 * self._tolerance * _directions(self.dimension)
            signs = np.sign(self.level(around.reshape(-1, self.dimension))).reshape(len(seam), -1)
            same = abs(signs.sum(axis=1)) == signs.shape[1]
            value[seam[same]] = 1e3 * self._tolerance * signs[same, 0]
        return value

    @functools.cached_property
    def _tolerance(self) -> float:
        return 1e-12 * max(self.first.size, self.second.size)

    @functools.cached_property
    def parts(self) -> tuple[Part, ...]:
        size = max(self.first.size, self.second.size)
        second = _with_other_names(self.second.parts, {part.name for part in self.first.parts})
        found = []
        for parts, other in ((self.first.parts, self.second), (second, self.first)):
            ends = [part.ends for part in other.parts if not part.is_closed]
            corners = np.concatenate([*ends, np.zeros((0, 2))])
            for part in parts:
                cuts = changes(part, other.level, size, corners)
                found += self._kept(part, other is self.first, cuts)
        return tuple(found)

    def _kept(self, part: Part, of_second: bool, cuts: Levels) -> list[Part]:
        """The pieces of an arc between cuts that are on the boundary, neighbors joined."""
        if part.is_closed and len(cuts):
            limits = np.append(cuts, cuts[0] + 1)
        else:
            limits = np.concatenate([[0.0], cuts, [1.0]])
        limits = limits[np.append(True, np.diff(limits) * part.measure > 100 * self._tolerance)]
        middle = (limits[:-1] + limits[1:]) / 2
        sides = self.sides(part.point(middle), part.normal(middle), of_second)
        pieces: list[tuple[float, float, int]] = []
        for low, high, side in zip(limits[:-1], limits[1:], sides, strict=True):
            if pieces and pieces[-1][2] == side:
                low = pieces.pop()[0]
            pieces.append((float(low), float(high), int(side)))
        if part.is_closed and len(pieces) > 1 and pieces[0][2] == pieces[-1][2]:
            low = pieces.pop()[0]
            pieces[0] = (low - 1, pieces[0][1], pieces[0][2])
        arcs = [part.cut(low, high) if len(pieces) > 1 else part for low, high, _ in pieces]
        return [
            arc if side > 0 else arc.turned()
            for arc, (_, _, side) in zip(arcs, pieces, strict=True)
            if side
        ]

    def sides(self, points: Points, normals: Points, of_second: bool) -> Int[np.ndarray, " points"]:
        """Of points on the boundary of one shape: 0, or 1 or -1 where they are on this one's.

        There the inside is behind the normal (1) or in front of it (-1). What both shapes have in
        common counts once, for the first.
        """
        step = 1e3 * self._tolerance * normals
        other = self.first if of_second else self.second
        behind, before = other.level(points - step) < 0, other.level(points + step) < 0
        rule = RULES[self.operation]
        if of_second:
            is_behind, is_before = rule(behind, np.True_), rule(before, np.False_)
        else:
            is_behind, is_before = rule(np.True_, behind), rule(np.False_, before)
        counts = (is_behind != is_before) & ~(of_second & (behind != before))
        return np.where(counts, np.where(is_behind, 1, -1), 0)

    def __repr__(self) -> str:
        return f"({self.first} {self.operation} {self.second})"


def _moved(
    shape: Shape,
    matrix: Float[np.ndarray, "d d"],
    shift: Float[np.ndarray, " d"] | None,
    about: Sequence[float] | None = None,
) -> Moved:
    if shift is None:
        center = np.zeros(shape.dimension) if about is None else np.asarray(about, float)
        if center.shape != (shape.dimension,):
            raise ValueError(
                f"about is a point with a number for each of {', '.join(shape.names)}, got {about}"
            )
        shift = center - matrix @ center
    if not (np.isfinite(shift).all() and np.isfinite(matrix).all()):
        raise ValueError("a shape is moved, scaled and rotated by finite numbers")
    by = Affine.of(matrix, shift)
    if isinstance(shape, Moved):
        return Moved(shape.shape, by.after(shape.by))
    return Moved(shape, by)


def _with_other_names(parts: Sequence[Part], taken: set[str]) -> list[Part]:
    """Parts renamed where a name is taken: "disk" is "disk 2" then, or the next free number."""
    new: dict[str, str] = {}
    for part in parts:
        if part.name not in new:
            base, number, name = re.sub(r" \d+$", "", part.name), 1, part.name
            while name in taken or name in new.values():
                number += 1
                name = f"{base} {number}"
            new[part.name] = name
    return [part.renamed(new[part.name]) for part in parts]


@functools.cache
def _directions(dimension: int) -> Points:
    """Many directions, none of them along an axis."""
    if dimension == 2:
        angles = 2 * np.pi * (np.arange(64) + 0.3717) / 64
        return np.column_stack([np.cos(angles), np.sin(angles)])
    drawn = np.random.default_rng(0).normal(size=(100, dimension))
    return drawn / np.linalg.norm(drawn, axis=1, keepdims=True)


def _place(point: Sequence[float]) -> str:
    return f"({', '.join(f'{each:g}' for each in point)})"
