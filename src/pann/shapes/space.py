"""Bodies: balls of any dimension, and what shapes of the plane become when moved up or turned."""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any, final

import numpy as np

from pann.domain import Box
from pann.shapes.arcs import Affine, Part
from pann.shapes.checks import axis_names, keep, point, positive
from pann.shapes.patches import Cap, Patch, Sphere, Turned, Wall
from pann.shapes.plane import Disk, Rectangle
from pann.shapes.shape import Levels, Points, Shape, with_other_names


@final
@dataclasses.dataclass(frozen=True, repr=False)
class Ball(Shape):
    """All points no farther than the radius from the center, in three dimensions or more.

    Its part is "ball"; its axes are x, y and z, or x1, x2, ... in higher dimensions.
    """

    center: tuple[float | int, ...] = (0.0, 0.0, 0.0)
    radius: float | int = 1.0
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        dimension = len(self.center)
        if dimension < 3:
            raise ValueError(
                f"a ball has a center in three dimensions or more, got {self.center}; in the "
                "plane there is Disk"
            )
        usual = ("x", "y", "z") if dimension == 3 else tuple(f"x{k + 1}" for k in range(dimension))
        keep(self, names=axis_names(self.names or usual, dimension))
        keep(self, center=point(self.center, dimension, "center"))
        keep(self, radius=positive(self.radius, "radius"))

    @functools.cached_property
    def parts(self) -> tuple[Patch, ...]:
        dimension = len(self.center)
        by = Affine.of(self.radius * np.eye(dimension), np.asarray(self.center))
        return (Patch("ball", Sphere(dimension), by),)

    def level(self, points: Points) -> Levels:
        return np.linalg.norm(points - np.asarray(self.center), axis=1) - self.radius


@final
@dataclasses.dataclass(frozen=True, repr=False)
class Extruded(Shape):
    """A shape of the plane between two heights along a third axis; caps are bottom and top."""

    shape: Shape
    axis: str
    low: float
    high: float

    def __post_init__(self) -> None:
        _check_plane(self.shape, "extruded")
        Box(**{self.axis: (self.low, self.high)})  # type: ignore[arg-type]
        axis_names(self.names, 3)

    @property
    def names(self) -> tuple[str, ...]:
        return (*self.shape.names, self.axis)

    @functools.cached_property
    def parts(self) -> tuple[Part | Patch, ...]:
        place = Affine.identity(3)
        walls = [
            Patch(part.name, Wall(part, self.low, self.high), place) for part in self.shape.arcs
        ]
        caps = [
            Patch("bottom", Cap(self.shape, self.low, -1), place),
            Patch("top", Cap(self.shape, self.high, 1), place),
        ]
        return (*walls, *with_other_names(caps, {part.name for part in walls}))

    def level(self, points: Points) -> Levels:
        flat, height = self.shape.level(points[:, :2]), points[:, 2]
        return np.maximum(flat, np.maximum(self.low - height, height - self.high))

    def __repr__(self) -> str:
        return f"{self.shape}.extruded({self.axis}=({self.low:g}, {self.high:g}))"


@final
@dataclasses.dataclass(frozen=True, repr=False)
class Revolved(Shape):
    """A shape of the plane turned about one of its axes; the other one becomes the radius."""

    shape: Shape
    axis: str
    third: str = "z"

    def __post_init__(self) -> None:
        _check_plane(self.shape, "revolved")
        if self.axis not in self.shape.names:
            raise ValueError(
                f"a shape is revolved about one of its axes {', '.join(self.shape.names)}, got "
                f"'{self.axis}'"
            )
        axis_names(self.names, 3)
        lowest = self.shape.lower[1 - self._along]
        if lowest < -1e-12 * self.shape.size:
            name = self.names[1 - self._along]
            raise ValueError(
                f"a shape is revolved on one side of its axis, {name} >= 0, got one that begins "
                f"at {name} = {lowest:g}; take a half of it by &, or move it"
            )

    @property
    def names(self) -> tuple[str, ...]:
        return (*self.shape.names, self.third)

    @property
    def _along(self) -> int:
        return self.shape.names.index(self.axis)

    @functools.cached_property
    def parts(self) -> tuple[Patch, ...]:
        # Turned about y; about x, that is the mirror image, x and y having changed places.
        mirror = np.eye(2)[::-1] if self._along == 0 else np.eye(2)
        flat = Affine.of(mirror, np.zeros(2))
        turn = np.eye(3)
        turn[:2, :2] = mirror
        place = Affine.of(turn, np.zeros(3))
        arcs = [part if self._along else part.moved(flat).turned() for part in self.shape.arcs]
        size = self.shape.size
        return tuple(
            Patch(arc.name, Turned(arc), place)
            for arc in arcs
            if arc.bounds[1, 0] > 1e-12 * size  # on the axis there is no surface
        )

    def level(self, points: Points) -> Levels:
        radius = np.hypot(points[:, 1 - self._along], points[:, 2])
        along = points[:, self._along]
        flat = [radius, along] if self._along else [along, radius]
        return self.shape.level(np.column_stack(flat))

    def __repr__(self) -> str:
        return f"{self.shape}.revolved(axis={self.axis!r})"


def Cuboid(**axes: tuple[float | int, float | int]) -> Shape:
    """`Cuboid(x=(0, 1), y=(0, 2), z=(0, 1))`: left, right, front, back, bottom and top."""
    if len(axes) != 3:
        raise ValueError(
            f"a cuboid has three axes, Cuboid(x=(0, 1), y=(0, 2), z=(0, 1)), got {len(axes)}"
        )
    first, second, third = axes
    base = Rectangle(**{name: axes[name] for name in (first, second)})
    return base.renamed(bottom="front", top="back").extruded(**{third: axes[third]})


def Cylinder(
    center: Sequence[float | int] = (0.0, 0.0, 0.0),
    radius: float | int = 1.0,
    height: float | int = 1.0,
    axis: str = "z",
    names: Sequence[str] = ("x", "y", "z"),
) -> Shape:
    """A cylinder about its center, along an axis: side, bottom and top."""
    names, (x, y, z) = axis_names(names, 3), point(center, 3, "center")
    if axis not in names:
        raise ValueError(f"axis is one of {', '.join(names)}, got {axis!r}")
    half = positive(height, "height") / 2
    base = Disk(radius=radius, names=names[:2]).renamed(disk="side")
    upright = base.extruded(**{names[2]: (-half, half)})
    # A third of a turn about the diagonal brings z to x, two thirds bring it to y.
    turn = np.roll(np.eye(3), names.index(axis) + 1, axis=0)
    return upright.placed(turn, np.array([x, y, z]))


def _check_plane(shape: Any, what: str) -> None:
    if not isinstance(shape, Shape) or shape.dimension != 2:
        raise ValueError(f"a shape of the plane is {what}, got {shape}")
