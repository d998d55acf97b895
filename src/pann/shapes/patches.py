"""Patches of the boundary of a body: surfaces with a name, moved, turned and trimmed.

A surface is drawn from: points of a unit cube become points that are spread evenly by area. Where
another shape cuts a patch, those that it takes away are dropped.
"""

import abc
import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np
import scipy  # its submodules are loaded when first used
from jaxtyping import Bool, Float

from pann.shapes.arcs import Affine, Directions, Part, Reach
from pann.shapes.loops import Hole
from pann.shapes.trim import Trim

Points = Float[np.ndarray, "points d"]
Drawn = tuple[Float[np.ndarray, "drawn d"], Float[np.ndarray, "drawn d"]]
Unit = Float[np.ndarray, "points k"]

TRIALS, MEASURED = 12, 15  # 2^12 points show what is left of a patch, 2^15 its area


class Surface(abc.ABC):
    """Points, evenly spread by area, and normals."""

    @property
    @abc.abstractmethod
    def variables(self) -> int:
        """The dimension of the cube that it is drawn from."""

    @property
    @abc.abstractmethod
    def measure(self) -> float:
        """Its area."""

    @abc.abstractmethod
    def draw(self, unit: Unit) -> Drawn:
        """Points and outward normals, for each point of the unit cube at most one."""

    @abc.abstractmethod
    def support(self, directions: Directions) -> Reach:
        """How far it reaches along each direction, or farther."""


@final
@dataclasses.dataclass(frozen=True)
class Sphere(Surface):
    """The unit sphere, by normal random numbers."""

    dimension: int

    @property
    def variables(self) -> int:
        return self.dimension

    @property
    def measure(self) -> float:
        return 2 * math.pi ** (self.dimension / 2) / math.gamma(self.dimension / 2)

    def draw(self, unit: Unit) -> Drawn:
        normals = scipy.special.ndtri(np.clip(unit, 1e-15, 1 - 1e-15))
        normals /= np.linalg.norm(normals, axis=1, keepdims=True)
        return normals, normals

    def support(self, directions: Directions) -> Reach:
        return np.linalg.norm(directions, axis=1)


@final
@dataclasses.dataclass(frozen=True)
class Cap(Surface):
    """A shape of the plane at a height, seen from above (sign 1) or from below (-1)."""

    shape: Any
    height: float
    sign: int
    variables = 2

    @property
    def measure(self) -> float:
        return float(self.shape.area)

    def draw(self, unit: Unit) -> Drawn:
        low, high = np.asarray(self.shape.lower), np.asarray(self.shape.upper)
        points = low + unit * (high - low)
        points = points[self.shape.inside(points)]
        above = np.column_stack([points, np.full(len(points), self.height)])
        return above, np.tile([0.0, 0.0, self.sign], (len(points), 1))

    def support(self, directions: Directions) -> Reach:
        flat = reach_of(self.shape.parts, directions[:, :2])
        return flat + self.height * directions[:, 2]


@final
@dataclasses.dataclass(frozen=True)
class Wall(Surface):
    """An arc moved up."""

    arc: Part
    low: float
    high: float
    variables = 2

    @property
    def measure(self) -> float:
        return self.arc.measure * (self.high - self.low)

    def draw(self, unit: Unit) -> Drawn:
        t = self.arc.along(unit[:, 0])
        height = self.low + unit[:, 1] * (self.high - self.low)
        points = np.column_stack([self.arc.point(t), height])
        return points, np.column_stack([self.arc.normal(t), np.zeros(len(t))])

    def support(self, directions: Directions) -> Reach:
        up = directions[:, 2]
        return self.arc.support(directions[:, :2]) + np.maximum(self.low * up, self.high * up)


@final
@dataclasses.dataclass(frozen=True)
class Turned(Surface):
    """An arc of the half-plane r > 0 turned about the axis: (r, h) becomes (r cos, h, r sin)."""

    arc: Part
    variables = 2

    @functools.cached_property
    def measure(self) -> float:
        nodes, weights = self.arc.rule(400)
        return float(2 * np.pi * weights @ self.arc.point(nodes)[:, 0])

    def draw(self, unit: Unit) -> Drawn:
        t = self.arc.along(unit[:, 0], lambda points: points[:, 0])
        around = 2 * np.pi * unit[:, 1]
        return _turned(self.arc.point(t), around), _turned(self.arc.normal(t), around)

    def support(self, directions: Directions) -> Reach:
        outward = np.hypot(directions[:, 0], directions[:, 2])
        return self.arc.support(np.column_stack([outward, directions[:, 1]]))


@final
@dataclasses.dataclass(frozen=True)
class Filtered(Surface):
    """What is left of a patch: by an operator of shapes, or where a predicate holds."""

    patch: "Patch"
    keeps: Callable[..., Any] | Trim

    @property
    def variables(self) -> int:
        return self.patch.surface.variables

    @functools.cached_property
    def measure(self) -> float:
        whole, left = _draw(self.patch, MEASURED, 0)[0], _draw(self, MEASURED, 0)[0]
        return self.patch.measure * len(left) / len(whole)

    def draw(self, unit: Unit) -> Drawn:
        points, normals = self.patch.draw(unit)
        if not isinstance(self.keeps, Trim):
            holds = self.keeps(points, normals)
            return points[holds], normals[holds]
        sides = self.keeps.sides(points, normals)
        holds = sides != 0
        return points[holds], normals[holds] * sides[holds, None]

    def support(self, directions: Directions) -> Reach:
        reach = self.patch.support(directions)
        trim = self.keeps
        if not isinstance(trim, Trim) or trim.operation == "|":
            return reach
        if trim.operation == "-" and not trim.of_second:
            return reach
        return np.minimum(reach, reach_of(trim.other.parts, directions))


@final
@dataclasses.dataclass(frozen=True)
class Patch:
    """A surface with a name, where it has been moved to."""

    name: str
    surface: Surface
    map: Affine
    sign: int = 1  # -1 where the inside of the shape is in front of the surface
    is_closed = False
    is_straight = False

    @property
    def variables(self) -> int:
        return self.surface.variables

    @property
    def measure(self) -> float:
        """Its area, to about a thousandth where it has been cut."""
        return self.surface.measure * self.map.factor ** (len(self.map.shift) - 1)

    def draw(self, unit: Unit) -> Drawn:
        points, normals = self.surface.draw(unit)
        return self.map(points), self.map.turn(normals) * (self.sign / self.map.factor)

    def support(self, directions: Directions) -> Reach:
        reach = self.surface.support(directions @ np.asarray(self.map.matrix))
        return reach + directions @ np.asarray(self.map.shift)

    @functools.cached_property
    def bounds(self) -> Float[np.ndarray, "2 d"]:
        """The lower and the upper ends of its bounding box."""
        axes = np.eye(len(self.map.shift))
        return np.stack([-self.support(-axes), self.support(axes)])

    def moved(self, by: Affine) -> "Patch":
        return dataclasses.replace(self, map=by.after(self.map))

    def renamed(self, name: str) -> "Patch":
        return dataclasses.replace(self, name=name)

    @property
    def hole(self) -> Hole | None:
        """What it goes around, where it is a whole sphere seen from outside."""
        if not (isinstance(self.surface, Sphere) and self.sign < 0):
            return None
        return Hole(self.map.shift, self.map.factor, (self.name,))

    def trimmed(self, trim: Trim) -> list["Patch"]:
        """What is left of it: the whole, nothing, or those of its points that are."""
        if trim.is_apart(self):
            # Any point near it is outside of the other shape.
            points = self.bounds[:1]
            sides, is_clear = trim.sides(points, 0 * points), True
        else:
            points, normals = _draw(self, TRIALS, 0)
            sides = trim.sides(points, normals)
            # Whether the boundary of the other shape may pass between the points.
            spacing = (self.measure / len(points)) ** (1 / (len(self.map.shift) - 1))
            is_clear = abs(trim.other.level(points)).min() > 3 * spacing
        if is_clear and (sides == sides[0]).all():
            whole = dataclasses.replace(self, sign=self.sign * int(sides[0] or 1))
            return [whole] if sides[0] else []
        return [self._filtered(trim)] if sides.any() else []

    def chosen(self, state: Callable[..., Bool[np.ndarray, " points"]]) -> list["Patch"]:
        """The piece of it where a state of points and normals is true."""
        holds = state(*_draw(self, TRIALS, 0))
        return [self] if holds.all() else [self._filtered(state)] if holds.any() else []

    def without(self, others: Sequence[object]) -> list["Patch"]:
        """The patch, unless it is among others, or its rest without pieces of it."""
        rest = [self]
        for other in others:
            if other == self:
                return []
            surface = other.surface if isinstance(other, Patch) else None
            if isinstance(surface, Filtered) and surface.patch == self:
                keeps: Any = surface.keeps
                rest = [
                    piece
                    for patch in rest
                    for piece in patch.chosen(lambda *at, keeps=keeps: ~keeps(*at))
                ]
        return rest

    def sample(
        self, count: int, rule: str, generator: np.random.Generator
    ) -> tuple[Points, Points, Float[np.ndarray, " points"]]:
        """Points, normals and equal weights; `uniform` ones are independent."""
        seed, power = int(generator.integers(2**31)), (count - 1).bit_length()
        while True:
            if rule == "uniform":
                unit = np.random.default_rng(seed).random((2**power, self.variables))
                points, normals = self.draw(unit)
            else:
                points, normals = _draw(self, power, seed)
            if len(points) >= count or power > 20:
                break
            power += 1
        points, normals = points[:count], normals[:count]
        return points, normals, np.full(len(points), self.measure / len(points))

    def _filtered(self, keeps: Callable[..., Any] | Trim) -> "Patch":
        return Patch(self.name, Filtered(self, keeps), Affine.identity(len(self.map.shift)))


def _draw(surface: Surface | Patch, power: int, seed: int) -> Drawn:
    """Those of 2^power low-discrepancy points that are on a surface."""
    sequence = scipy.stats.qmc.Sobol(surface.variables, rng=np.random.default_rng(seed))
    return surface.draw(sequence.random_base2(power))


def reach_of(parts: Sequence[Part | Patch], directions: Directions) -> Reach:
    return np.max([part.support(directions) for part in parts], axis=0)


def _turned(
    flat: Float[np.ndarray, "points 2"], around: Float[np.ndarray, " points"]
) -> Float[np.ndarray, "points 3"]:
    out, along = flat.T
    return np.column_stack([out * np.cos(around), along, out * np.sin(around)])
