"""Shapes, and what can be made of them: differences, unions, intersections, moved and renamed ones.

A shape is a level, which says of any point whether it is inside, and the parts of its boundary.
All else follows from these two.
"""

import abc
import dataclasses
import functools
import os
import re
from collections.abc import Sequence
from typing import Any, final

import numpy as np
import numpy.typing as npt
import scipy  # its submodules are loaded when first used
from jaxtyping import Bool, Float

from pann.domain import Box, Region
from pann.shapes.arcs import Affine, Part
from pann.shapes.boundary import Boundary
from pann.shapes.loops import Corner, Hole, area_of, hole_of, junctions, loops_of, successors
from pann.shapes.patches import Patch
from pann.shapes.trim import Trim

Points = Float[np.ndarray, "points d"]
Levels = Float[np.ndarray, " points"]


# Slits and gaps below this share of the size are not told from arcs that touch.
THIN = 1e-7


class Shape(Region):
    """A bounded region; `-`, `|` and `&` make others, whose boundaries keep their names."""

    @property
    @abc.abstractmethod
    def names(self) -> tuple[str, ...]:
        """The names of the axes."""

    @property
    @abc.abstractmethod
    def parts(self) -> tuple[Part | Patch, ...]:
        """The smooth pieces of the boundary, with outward normals."""

    @abc.abstractmethod
    def level(self, points: Points) -> Levels:
        """Negative inside, zero on the boundary, and never larger than the distance to it."""

    def __repr__(self) -> str:
        fields = dataclasses.fields(self)  # type: ignore[arg-type]
        given = [(each.name, getattr(self, each.name), each.default) for each in fields]
        said = [f"{name}={value!r}" for name, value, default in given if value != default]
        return f"{type(self).__name__}({', '.join(said)})"

    @property
    def dimension(self) -> int:
        return len(self.names)

    @functools.cached_property
    def lower(self) -> tuple[float, ...]:
        """The lower ends of the bounding box."""
        return tuple((np.min([part.bounds[0] for part in self.parts], axis=0) + 0.0).tolist())

    @functools.cached_property
    def upper(self) -> tuple[float, ...]:
        """The upper ends of the bounding box."""
        return tuple(np.max([part.bounds[1] for part in self.parts], axis=0).tolist())

    @functools.cached_property
    def size(self) -> float:
        """The longest side of the bounding box."""
        return float(np.max(np.subtract(self.upper, self.lower)))

    @functools.cached_property
    def rounding(self) -> float:
        """What coordinates far from the origin cannot resolve."""
        return 1e-15 * float(np.max(np.abs([self.lower, self.upper])))

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
        return self.level(given) <= tolerance * self.size + self.rounding

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
        meetings = junctions(self.arcs, self.inside, self.size)
        return tuple(each for each in meetings if abs(each.angle - np.pi) > 1e-7)

    @functools.cached_property
    def holes(self) -> tuple[Hole, ...]:
        """The bounded pieces of the outside."""
        loops = loops_of(self.arcs, self.size)
        inner = [hole_of(loop) for loop in loops if area_of(loop) < 0]
        bodies = [part.hole for part in self.parts if isinstance(part, Patch)]
        return (*inner, *(hole for hole in bodies if hole is not None))

    @property
    def area(self) -> float:
        """The area of a shape of the plane."""
        return area_of(self.arcs)

    @functools.cached_property
    def volume(self) -> float:
        """The volume of a body to about a thousandth, by 2^16 low-discrepancy points."""
        sequence = scipy.stats.qmc.Sobol(self.dimension, rng=np.random.default_rng(0))
        widths = np.subtract(self.upper, self.lower)
        points = np.asarray(self.lower) + widths * sequence.random_base2(16)
        return float(self.inside(points).mean() * widths.prod())

    @property
    def arcs(self) -> tuple[Part, ...]:
        """The parts of the boundary of a shape of the plane."""
        return tuple(part for part in self.parts if isinstance(part, Part))

    @property
    def box(self) -> Box:
        """The bounding box, with this shape in it."""
        return Box.of_shape(self)

    def in_time(self, **axis: tuple[float, float]) -> Box:
        """The bounding box with this shape in it and an axis that is time: `in_time(t=(0, 2))`."""
        return Box.of_shape(self, axis)

    def __sub__(self, other: Any) -> "Combination":
        return Combination("-", self, other)

    def __or__(self, other: Any) -> "Combination":
        return Combination("|", self, other)

    def __and__(self, other: Any) -> "Combination":
        return Combination("&", self, other)

    def moved(self, *steps: float | int, **named: float | int) -> "Moved":
        """Moved along the axes, in order or by name: `moved(0.5, 0)`, `moved(y=1)`."""
        unknown = [name for name in named if name not in self.names]
        if unknown or len(steps) not in (0, self.dimension) or bool(steps) == bool(named):
            raise ValueError(
                f"a shape is moved by a number for each of {', '.join(self.names)}, or for some "
                f"of them by name, got {(*steps, *named)}"
            )
        shift = np.array(steps or [named.get(name, 0.0) for name in self.names], float)
        return self.placed(np.eye(self.dimension), shift)

    def scaled(self, factor: float | int, about: Sequence[float | int] | None = None) -> "Moved":
        """Larger by a factor, about a point that stays (the origin if none is given)."""
        if not (np.isfinite(factor) and factor > 0):
            raise ValueError(f"a shape is scaled by a positive number, got {factor}")
        return self._about(factor * np.eye(self.dimension), about)

    def rotated(
        self,
        angle: float | int,
        about: Sequence[float | int] | None = None,
        axis: str | None = None,
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
        return self._about(matrix, about)

    def placed(self, matrix: Float[np.ndarray, "d d"], shift: Float[np.ndarray, " d"]) -> "Moved":
        """Moved by the map x -> matrix x + shift, where the matrix is a rotation times a number."""
        if not (np.isfinite(shift).all() and np.isfinite(matrix).all()):
            raise ValueError("a shape is moved, scaled and rotated by finite numbers")
        by = Affine.of(matrix, shift)
        if isinstance(self, Moved):
            return Moved(self.shape, by.after(self.by))
        return Moved(self, by)

    def _about(
        self, matrix: Float[np.ndarray, "d d"], about: Sequence[float | int] | None
    ) -> "Moved":
        center = np.zeros(self.dimension) if about is None else np.asarray(about, float)
        if center.shape != (self.dimension,):
            raise ValueError(
                f"about is a point with a number for each of {', '.join(self.names)}, got {about}"
            )
        return self.placed(matrix, center - matrix @ center)

    def extruded(self, **axis: tuple[float | int, float | int]) -> "Shape":
        """Moved up along a third axis: `extruded(z=(0, 1))` has the parts bottom and top, too."""
        from pann.shapes.space import Extruded

        if len(axis) != 1:
            raise ValueError(f"a shape is extruded along one axis, extruded(z=(0, 1)), got {axis}")
        ((name, (low, high)),) = axis.items()
        return Extruded(self, name, float(low), float(high))

    def revolved(self, axis: str, third: str = "z") -> "Shape":
        """Turned about one of its axes; the other one becomes the distance from it."""
        from pann.shapes.space import Revolved

        return Revolved(self, axis, third)

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
    def parts(self) -> tuple[Part | Patch, ...]:
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
    def parts(self) -> tuple[Part | Patch, ...]:
        new = dict(self.pairs)
        return tuple(part.renamed(new.get(part.name, part.name)) for part in self.shape.parts)

    def level(self, points: Points) -> Levels:
        return self.shape.level(points)

    def __repr__(self) -> str:
        return f"{self.shape}.renamed({', '.join(f'{old}={new!r}' for old, new in self.pairs)})"


@final
@dataclasses.dataclass(frozen=True, repr=False)
class Combination(Shape):
    """The difference, the union or the intersection of two shapes."""

    operation: str
    first: Shape
    second: Any  # a shape, or else an error says so

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
        if self.operation == "-" and self.dimension == 2:
            self._check_slit()
        successors(self.arcs, self.size)  # which says where it does not close

    def _check_slit(self) -> None:
        """Refuse a cut whose two sides cannot be told apart."""
        around = sum(part.measure for part in self.second.arcs)
        width = 2 * abs(self.second.area) / around
        # What lies outside of the first shape cuts nothing.
        before, now = (sum(each.measure for each in of.arcs) for of in (self.first, self))
        if width < THIN * self.size and now > before + THIN * self.size:
            raise ValueError(
                f"{self.second}, taken away from {self.first}, is about {width:.1g} wide on "
                f"average: a slit whose sides cannot be told apart, from "
                f"{_place(self.second.lower)} to {_place(self.second.upper)}; make it at least "
                f"{100 * THIN * self.size:g} wide"
            )

    @property
    def names(self) -> tuple[str, ...]:
        return self.first.names

    def level(self, points: Points) -> Levels:
        value, is_seam = self._level(points)
        # Where both boundaries are, the inside may go on (a seam of a union), or there is none
        # (shapes that touch).
        seam = np.flatnonzero(is_seam)
        if seam.size and self.dimension == 2:
            distance = np.min([part.distance(points[seam]) for part in self.arcs], axis=0)
            off = distance > 2e-12 * self.size + self.rounding
            value[seam[off]] = distance[off] * (-1 if self.operation == "|" else 1)
        elif seam.size:
            step = 1e-9 * self.size
            around = points[seam, None] + step * _directions(self.dimension)
            levels, along = self._level(around.reshape(-1, self.dimension))
            signs = np.where(along, 0.0, np.sign(levels)).reshape(len(seam), -1)
            total = signs.sum(axis=1)
            same = abs(total) == abs(signs).sum(axis=1)
            value[seam[same]] = step * np.sign(total[same])
        return value

    def _level(self, points: Points) -> tuple[Levels, Bool[np.ndarray, " points"]]:
        """The level, and where it is that of both shapes."""
        first, second = self.first.level(points), self.second.level(points)
        if self.operation == "|":
            value = np.minimum(first, second)
        else:
            value = np.maximum(first, second if self.operation == "&" else -second)
        return value, np.maximum(abs(first), abs(second)) <= 1e-12 * self.size + self.rounding

    @functools.cached_property
    def parts(self) -> tuple[Part | Patch, ...]:
        second = with_other_names(self.second.parts, {part.name for part in self.first.parts})
        size = max(self.first.size, self.second.size)
        trims = [Trim(self.operation, self.second, False, size)]
        trims.append(Trim(self.operation, self.first, True, size))
        return tuple(
            piece
            for trim, parts in zip(trims, (self.first.parts, second), strict=True)
            for part in parts
            for piece in part.trimmed(trim)
        )

    def __repr__(self) -> str:
        return f"({self.first} {self.operation} {self.second})"


def with_other_names(parts: Sequence[Part | Patch], taken: set[str]) -> list[Part | Patch]:
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
    drawn = np.random.default_rng(0).normal(size=(100, dimension))
    return drawn / np.linalg.norm(drawn, axis=1, keepdims=True)


def _place(point: Sequence[float]) -> str:
    return f"({', '.join(f'{each:g}' for each in point)})"
