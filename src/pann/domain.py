"""Boxes with named axes, their faces, and the map to the reference box [-1, 1]^d."""

import abc
import dataclasses
import keyword
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Shaped


class Region(abc.ABC):
    """What a box asks of the shape that fills a part of it: `pann.shapes` has them."""

    @property
    @abc.abstractmethod
    def names(self) -> tuple[str, ...]:
        """The names of the axes."""

    @property
    @abc.abstractmethod
    def lower(self) -> tuple[float, ...]:
        """The lower corner of its bounding box."""

    @property
    @abc.abstractmethod
    def upper(self) -> tuple[float, ...]:
        """The upper corner of its bounding box."""

    @property
    @abc.abstractmethod
    def dimension(self) -> int:
        """How many axes there are."""

    @property
    @abc.abstractmethod
    def size(self) -> float:
        """The longest side of its bounding box."""

    @property
    @abc.abstractmethod
    def boundary(self) -> Any:
        """Its boundary, with names."""

    @property
    @abc.abstractmethod
    def corners(self) -> Any:
        """The points where its boundary turns."""

    @abc.abstractmethod
    def inside(
        self, points: Float[np.ndarray, "points d"], tolerance: float = 1e-12
    ) -> Bool[np.ndarray, " points"]:
        """Which points belong to it."""

    @abc.abstractmethod
    def distance(self, points: Float[np.ndarray, "points d"]) -> Float[np.ndarray, " points"]:
        """About how far points outside are from it."""


@dataclasses.dataclass(frozen=True, init=False)
class Box:
    """A product of intervals with a name for each axis, `Box(x=(-1, 1), t=(0, 2), time="t")`.

    `periodic` names the axes along which everything repeats; `time` names the axis, if any, that
    is time. Both are properties of the domain: bases and networks read them from here. Where a
    `shape` fills a part of the box, along all axes but time, that part is the domain; it is made by
    the shape, `pann.Disk(radius=1).box`.
    """

    names: tuple[str, ...]
    lower: tuple[float, ...]
    upper: tuple[float, ...]
    periodic: tuple[str, ...]
    time: str | None
    shape: Region | None

    def __init__(
        self,
        *,
        periodic: str | Sequence[str] = (),
        time: str | None = None,
        **axes: tuple[float | int, float | int],
    ):
        for word, value in (("time", time), ("periodic", periodic)):
            if value is not None and not all(isinstance(name, str) for name in value):
                raise ValueError(
                    f"{word} names axes, as in Box(t=(0, 1), {word}='t'), got {value!r}; an axis "
                    f"cannot be called '{word}' itself"
                )
        periodic = (periodic,) if isinstance(periodic, str) else tuple(periodic)
        _check_axes(axes)
        for name in (*periodic, *(() if time is None else (time,))):
            if name not in axes:
                raise ValueError(
                    f"'{name}' is not an axis of this box; its axes are {', '.join(axes)}"
                )
        object.__setattr__(self, "names", tuple(axes))
        object.__setattr__(self, "lower", tuple(float(low) for low, _ in axes.values()))
        object.__setattr__(self, "upper", tuple(float(high) for _, high in axes.values()))
        object.__setattr__(self, "periodic", periodic)
        object.__setattr__(self, "time", time)
        object.__setattr__(self, "shape", None)

    @staticmethod
    def of_shape(shape: Region, axis: Mapping[str, tuple[float, float]] | None = None) -> "Box":
        """The bounding box of a shape with the shape in it, and one more axis, which is time."""
        if axis is not None and len(axis) != 1:
            raise ValueError(f"a shape has one axis of time, in_time(t=(0, 1)), got {axis}")
        bounds = zip(shape.names, shape.lower, shape.upper, strict=True)
        axes: dict[str, Any] = {name: (low, high) for name, low, high in bounds}
        time = None if axis is None else next(iter(axis))
        return Box(**axes | dict(axis or {}), time=time).filled_by(shape)

    def filled_by(self, shape: Region | None) -> "Box":
        """This box with a shape as the domain, whose bounding box it is along the axes of space."""
        box: Box = object.__new__(Box)
        for field in dataclasses.fields(self):
            object.__setattr__(box, field.name, getattr(self, field.name))
        object.__setattr__(box, "shape", shape)
        return box

    @staticmethod
    def cube(dimension: int, lower: float | int = -1, upper: float | int = 1) -> "Box":
        """The box [lower, upper]^dimension with axes x1, x2, ..."""
        if dimension < 1:
            raise ValueError(f"dimension must be at least 1, got {dimension}")
        return Box.from_bounds([lower] * dimension, [upper] * dimension)

    @staticmethod
    def from_bounds(lower: Sequence[float | int], upper: Sequence[float | int]) -> "Box":
        """The box between two corners with axes x1, x2, ..."""
        axes: dict[str, Any] = {
            f"x{axis + 1}": (float(low), float(high))
            for axis, (low, high) in enumerate(zip(lower, upper, strict=True))
        }
        return Box(**axes)

    @property
    def dimension(self) -> int:
        return len(self.names)

    @property
    def time_number(self) -> int:
        """The number of the axis that is time, where there is one."""
        return self.names.index(str(self.time))

    @property
    def times(self) -> tuple[float, float]:
        """The first time and the last."""
        return self.lower[self.time_number], self.upper[self.time_number]

    @property
    def widths(self) -> Float[np.ndarray, " d"]:
        return np.asarray(self.upper) - np.asarray(self.lower)

    def to_reference(self, points: Shaped[np.ndarray, "points d"]) -> Float[np.ndarray, "points d"]:
        """Map the box affinely to [-1, 1]^d."""
        return 2.0 * (np.asarray(points, float) - np.asarray(self.lower)) / self.widths - 1.0

    def from_reference(
        self, points: Shaped[np.ndarray, "points d"]
    ) -> Float[np.ndarray, "points d"]:
        """Map [-1, 1]^d affinely to the box."""
        return np.asarray(self.lower) + 0.5 * (np.asarray(points, float) + 1.0) * self.widths

    def face(self, axis: str, side: str) -> "Faces":
        """One face by name: `box.face("x", "lower")`."""
        if self.shape is not None and axis != self.time:
            raise ValueError(
                "the boundary of a shape has parts with names, not faces: shape.boundary, "
                f"shape.boundary[{self.shape.boundary.names[0]!r}]"
            )
        if axis not in self.names:
            listed = ", ".join(self.names)
            raise ValueError(f"'{axis}' is not an axis of this box; its axes are {listed}")
        if side not in SIDES:
            raise ValueError(f"a face is the 'lower' or the 'upper' one, got {side!r}")
        if axis in self.periodic:
            raise ValueError(f"axis '{axis}' is periodic and has no faces")
        return Faces(self, ((axis, side),))

    @property
    def boundary(self) -> Any:
        """All faces in space: both ends of every axis that is neither periodic nor time.

        Where a shape is the domain, its boundary.
        """
        if self.shape is not None:
            return self.shape.boundary
        bounded = [name for name in self.names if name not in self.periodic and name != self.time]
        return Faces(self, tuple((name, side) for name in bounded for side in SIDES))

    @property
    def initial(self) -> "Faces":
        """The slice at the first time."""
        if self.time is None:
            raise ValueError("this box has no time; make it with Box(x=..., t=..., time='t')")
        return Faces(self, ((self.time, "lower"),))

    def contains(self, points: Shaped[np.ndarray, "points d"]) -> bool:
        """Whether every point lies in the closed domain, up to rounding."""
        return bool(np.all(self.inside(points)))

    def inside(
        self, points: Shaped[np.ndarray, "points d"], tolerance: float = 1e-12
    ) -> Bool[np.ndarray, " points"]:
        """Which points lie in the closed domain, up to a share of its size."""
        found = np.all(np.abs(self.to_reference(points)) <= 1.0 + tolerance, axis=1)
        if self.shape is not None:
            found &= self.shape.inside(np.asarray(points, float)[:, self.space], tolerance)
        return found

    @property
    def space(self) -> list[int]:
        """The numbers of the axes that are not time."""
        return [number for number, name in enumerate(self.names) if name != self.time]

    def filled(
        self, draw: Callable[[int], Float[np.ndarray, "points d"]], count: int
    ) -> Float[np.ndarray, "points d"]:
        """So many points of the domain, from `draw`, which gives as many of the unit cube as asked.

        Of a shape those that lie in it, of as many draws as that takes.
        """
        lower, upper = np.asarray(self.lower), np.asarray(self.upper)

        def place(unit: np.ndarray) -> np.ndarray:
            # This form, unlike lower + unit * width, meets both ends exactly.
            return (lower * (1.0 - unit) + upper * unit).clip(lower, upper)

        if self.shape is None:
            return place(draw(count))
        found = np.zeros((0, self.dimension))
        wanted = max(1024, 1 << count.bit_length())
        for _ in range(MOST_DRAWS):
            points = place(draw(wanted))
            found = np.concatenate([found, points[self.inside(points)]])
            if len(found) >= count:
                return found[:count]
        raise ValueError(
            f"of {MOST_DRAWS * wanted:,} points in the bounding box only {len(found)} lie in "
            f"{self.shape}; give several shapes that each fill more of their boxes"
        )


SIDES = ("lower", "upper")
# Draws of points before a shape counts as too thin for its bounding box.
MOST_DRAWS = 200


@dataclasses.dataclass(frozen=True)
class Faces:
    """Some faces of a box, each an axis and a side; `+` joins them."""

    domain: Box
    sides: tuple[tuple[str, str], ...]

    def __add__(self, other: "Faces") -> "Faces":
        if other.domain != self.domain:
            raise ValueError("faces of different boxes cannot be joined")
        return Faces(self.domain, tuple(dict.fromkeys(self.sides + other.sides)))

    def __len__(self) -> int:
        return len(self.sides)

    def end(self, axis: str, side: str) -> float:
        """The coordinate of a face along its axis."""
        ends = self.domain.lower if side == "lower" else self.domain.upper
        return ends[self.domain.names.index(axis)]

    def __str__(self) -> str:
        return ", ".join(f"{axis}={self.end(axis, side):g}" for axis, side in self.sides)


def _check_axes(axes: dict[str, tuple[float | int, float | int]]) -> None:
    if not axes:
        raise ValueError("a box needs at least one axis: Box(x=(-1, 1))")
    for name, interval in axes.items():
        if keyword.iskeyword(name):
            raise ValueError(
                f"'{name}' is a word of Python and cannot name an axis; choose another"
            )
        try:
            low, high = (float(end) for end in interval)
        except (TypeError, ValueError):
            raise ValueError(
                f"axis '{name}' needs a pair (low, high), got {interval!r}: Box({name}=(-1, 1))"
            ) from None
        if not (np.isfinite([low, high]).all() and low < high):
            raise ValueError(f"axis '{name}' needs finite low < high, got ({low:g}, {high:g})")
