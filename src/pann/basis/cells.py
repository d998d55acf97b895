"""Boxes in a shape of the plane: which are outside, and what is inside of those that it cuts.

An element that the boundary cuts has polynomials on a box around what is inside; they count there
alone. Points on the boundary are exact, and so are those of a border between two elements: where an
arc crosses it is found by bisection.
"""

import functools
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float, Int

from pann.shapes import Part, Shape
from pann.shapes.arcs import bisect

# The degree of elements outside of the shape, which have no functions.
VOID = -1
# Planes and points nearer to each other than this, relative to the box of an element, are the same.
SAME = 1e-9
# Points a little off an arc or a border, relative to the length of the piece, say what is there.
OFF = 1e-6
# Points of a piece of an arc that show where it is.
NUM_ON_PIECE = 9
# The boundary turns no more than this in an element, in radians.
MOST_TURNING = 1.8
# An element is at most so many times as wide as a turn in it; a cut is so many times that away.
MOST_WIDTH, CUT_AT = 4.0, 2.0
# Of a box with less inside than its extent the rest is cut off, if it is more than this share; so
# much room is left.
WORTH_IT, ROOM = 0.1, 0.01
MOST_LEVELS, MOST_ELEMENTS = 40, 20_000
# Toward re-entrant corners elements become smaller by a factor, until they are as small as the
# error may be, or there are so many of them.
GRADING, SMALLEST, MOST_GRADED = 0.25, 1e-8, 600
PER_LEVEL = 9
REENTRANT = 1.05 * np.pi

Cuts = dict[int, tuple[int, float]]


@runtime_checkable
class Boxes(Protocol):
    """What is asked of a tree of elements."""

    @property
    def elements(self) -> Int[np.ndarray, " elements"]: ...
    @property
    def corners(self) -> Float[np.ndarray, "elements 2 2"]: ...
    @property
    def element_degrees(self) -> Int[np.ndarray, "elements 2"]: ...
    @property
    def is_void(self) -> Bool[np.ndarray, " elements"]: ...
    def locate(self, points: Float[np.ndarray, "points 2"]) -> Int[np.ndarray, " points"]: ...
    def cut(self, cuts: Mapping[int, tuple[int, float]]) -> Any: ...
    def with_degrees(self, degrees: Int[np.ndarray, "elements 2"]) -> Any: ...


Tree = TypeVar("Tree", bound=Boxes)


class Piece(NamedTuple):
    """What an element has of an arc: between two of its parameters."""

    part: Part
    element: int
    start: float
    stop: float

    @property
    def parameters(self) -> Float[np.ndarray, " points"]:
        return self.start + (self.stop - self.start) * np.linspace(0.0, 1.0, NUM_ON_PIECE)


class Cells:
    """The elements of a tree in a shape."""

    def __init__(self, shape: Shape, tree: Boxes):
        self.shape, self.tree = shape, tree
        self._crossed: dict[tuple[int, float], np.ndarray] = {}

    # ---- The boundary, element by element ----

    @functools.cached_property
    def _planes(self) -> list[Float[np.ndarray, " planes"]]:
        """The coordinates of all cuts, by axis, and of the ends."""
        ends = self.tree.corners
        return [np.unique(ends[:, :, axis]) for axis in range(2)]

    def pieces_of(self, part: Part) -> list[Piece]:
        """An arc, cut where it goes from one element to another."""
        cuts = [np.array([0.0, 1.0])]
        for axis, planes in enumerate(self._planes):
            cuts.append(crossings(part, axis, planes, self.shape.rounding)[0])
        t = np.unique(np.concatenate(cuts))
        t = t[np.append(True, np.diff(t) > 1e-13)]
        t[-1] = 1.0
        middle, lengths = 0.5 * (t[:-1] + t[1:]), np.diff(t) * part.measure
        inward = part.point(middle) - OFF * lengths[:, None] * part.normal(middle)
        elements = self.tree.locate(inward)
        changes = np.flatnonzero(np.diff(elements)) + 1
        first, last = np.append(0, changes), np.append(changes, len(elements))
        return [
            Piece(part, int(elements[i]), float(t[i]), float(t[j]))
            for i, j in zip(first, last, strict=True)
        ]

    @functools.cached_property
    def pieces(self) -> list[Piece]:
        """All arcs of the boundary."""
        return [piece for part in self.shape.arcs for piece in self.pieces_of(part)]

    @functools.cached_property
    def of_elements(self) -> dict[int, list[Piece]]:
        """For each element the pieces of the boundary in it, but for those along its borders."""
        found: dict[int, list[Piece]] = {}
        for piece in self.pieces:
            low, high = self.tree.corners[piece.element]
            points = piece.part.point(piece.parameters)
            away = np.minimum(points - low, high - points) / (high - low)
            if np.any(np.min(away, axis=1) > SAME):
                found.setdefault(piece.element, []).append(piece)
        return found

    @functools.cached_property
    def is_cut(self) -> Bool[np.ndarray, " elements"]:
        """Which elements the boundary cuts."""
        cut = np.zeros(len(self.tree.elements), bool)
        cut[list(self.of_elements)] = True
        return cut & ~self.tree.is_void

    def inside(self, points: Float[np.ndarray, "points 2"]) -> Bool[np.ndarray, " points"]:
        return self.shape.inside(points)

    # ---- Borders ----

    def parts_of_border(
        self, axis: int, at: float, low: float, high: float, sides: tuple[float, ...]
    ) -> list[tuple[float, float]]:
        """Where the inside is, between two coordinates of a line, at distances on its sides."""
        if (axis, at) not in self._crossed:
            own = [
                crossings(part, axis, np.array([at]), self.shape.rounding)[1][:, 1 - axis]
                for part in self.shape.arcs
            ]
            # Those that run along the line begin and end there.
            ends = np.concatenate([part.ends for part in self.shape.arcs])
            along = np.abs(ends[:, axis] - at) <= SAME * self.shape.size
            self._crossed[axis, at] = np.concatenate([*own, ends[along, 1 - axis]])
        found = np.sort(self._crossed[axis, at])
        found = found[(low < found) & (found < high)]
        t = np.concatenate([[low], found, [high]])
        t = t[np.append(True, np.diff(t) > SAME * (high - low))]
        if len(t) < 2:
            return []
        t[-1] = high
        middle = np.empty((len(t) - 1, 2))
        middle[:, 1 - axis] = 0.5 * (t[:-1] + t[1:])
        inside = np.ones(len(middle), bool)
        for off in sides:
            middle[:, axis] = at + off
            inside &= self.inside(middle)
        return [
            (float(a), float(b)) for a, b, is_in in zip(t, t[1:], inside, strict=False) if is_in
        ]

    # ---- Making elements ----

    def wanted_cuts(self) -> Cuts:
        """Cuts that leave in each element a smooth piece of the boundary that hardly turns."""
        cuts: Cuts = {}
        points = np.array([corner.point for corner in self.shape.corners]).reshape(-1, 2)
        corners = self.tree.corners
        for point in points:
            room = SAME * (corners[:, 1] - corners[:, 0])
            touches = np.all((corners[:, 0] - room <= point) & (point <= corners[:, 1] + room), 1)
            within = (corners[:, 0] + room < point) & (point < corners[:, 1] - room)
            for element in np.flatnonzero(touches & np.any(within, axis=1)).tolist():
                axis = int(np.argmax(within[element]))
                cuts.setdefault(element, (axis, float(point[axis])))
        for element, pieces in self.of_elements.items():
            if element in cuts:
                continue
            if (found := self._cut_for(element, pieces)) is not None:
                cuts[element] = found
        return cuts

    def _cut_for(self, element: int, pieces: list[Piece]) -> tuple[int, float] | None:
        low, high = self.tree.corners[element]
        widths = high - low
        turning, bends = 0.0, []
        for piece in pieces:
            points, normals = (
                piece.part.point(piece.parameters),
                piece.part.normal(piece.parameters),
            )
            if piece.part.is_straight:
                axis = int(np.argmin(np.ptp(points, axis=0)))
                at = float(points[0, axis])
                room = SAME * widths[axis]
                if np.ptp(points[:, axis]) <= room and low[axis] + room < at < high[axis] - room:
                    return axis, at
                continue
            cosines = np.sum(normals[1:] * normals[:-1], axis=1)
            own = float(np.sum(np.arccos(np.clip(cosines, -1.0, 1.0))))
            turning += own
            if own > 0.25 * MOST_TURNING:
                bends.append(points)
        if not bends:
            return None
        every = np.concatenate(bends)
        first, last = np.min(every, axis=0), np.max(every, axis=0)
        extent = last - first
        if turning > MOST_TURNING:
            axis = int(np.argmax(extent))
            places = [0.5 * (first + last)[axis]]
            margin = SAME * widths[axis]
        else:
            axis = int(np.argmax(widths))
            margin = float(np.max(extent))
            places = [last[axis] + CUT_AT * margin, first[axis] - CUT_AT * margin]
            if widths[axis] <= MOST_WIDTH * margin:
                return None
        within = [at for at in places if low[axis] + margin < at < high[axis] - margin]
        return (axis, float(within[0])) if within else None

    def extent(self, element: int) -> Float[np.ndarray, "2 2"]:
        """The corners of the smallest box around what is inside of an element."""
        low, high = self.tree.corners[element]
        found = [piece.part.point(piece.parameters) for piece in self.of_elements[element]]
        for axis in range(2):
            other = 1 - axis
            for at, off in ((low[axis], 1.0), (high[axis], -1.0)):
                step = off * OFF * (high[axis] - low[axis])
                for ends in self.parts_of_border(
                    axis, float(at), float(low[other]), float(high[other]), (step,)
                ):
                    points = np.full((2, 2), at)
                    points[:, other] = ends
                    found.append(points)
        points = np.concatenate(found)
        return np.stack([np.min(points, axis=0), np.max(points, axis=0)])


def in_shape(shape: Shape, tree: Tree) -> Tree:
    """The elements cut until the boundary is simple in each, and those outside without functions.

    What boxes have outside is cut off where that is a share of them.
    """
    for _ in range(MOST_LEVELS):
        cuts = Cells(shape, tree).wanted_cuts()
        if not cuts or len(tree.elements) > MOST_ELEMENTS:
            break
        tree = tree.cut(cuts)
    tree = _without_outside(shape, tree)
    for _ in range(4):
        cells = Cells(shape, tree)
        cuts = {}
        for element in np.flatnonzero(cells.is_cut).tolist():
            low, high = tree.corners[element]
            first, last = cells.extent(element)
            shares = np.stack([first - low, high - last]) / (high - low)
            side, axis = np.unravel_index(np.argmax(shares), (2, 2))
            if shares[side, axis] > WORTH_IT:
                room = ROOM * (last - first)[axis]
                at = first[axis] - room if side == 0 else last[axis] + room
                cuts[element] = (int(axis), float(at))
        if not cuts:
            break
        tree = _without_outside(shape, tree.cut(cuts))
    return tree


def graded(shape: Shape, tree: Tree, smallest: float) -> Tree:
    """Elements in a shape, down to this share of its size at re-entrant corners.

    What r^a leaves of an element of width h in the corner disturbs the others like h^(2a), and a is
    above a half.
    """
    points = [corner.point for corner in shape.corners if corner.angle > REENTRANT]
    levels = round(np.log(max(smallest, SMALLEST)) / np.log(GRADING))
    levels = min(levels, MOST_GRADED // (PER_LEVEL * max(len(points), 1)))
    for point in np.array(points).reshape(-1, 2):
        for _ in range(levels):
            for axis in range(2):
                low, high = tree.corners.transpose(1, 0, 2)
                room = SAME * (high - low)
                at_end = [np.abs(end - point) <= room for end in (low, high)]
                own = np.all(at_end[0] | at_end[1], axis=1) & ~tree.is_void
                # Along the other axis some are cut already.
                places = low + (high - low) * np.where(at_end[0], GRADING, 1.0 - GRADING)
                tree = tree.cut(
                    {int(e): (axis, float(places[e, axis])) for e in np.flatnonzero(own)}
                )
    return in_shape(shape, tree) if len(points) else tree


def _without_outside(shape: Shape, tree: Tree) -> Tree:
    cells = Cells(shape, tree)
    middle = tree.corners.mean(axis=1)
    is_out = ~shape.inside(middle) | tree.is_void
    is_out[list(cells.of_elements)] = False
    degrees = tree.element_degrees.copy()
    degrees[is_out] = VOID
    return tree.with_degrees(degrees)


def crossings(
    part: Part, axis: int, planes: Float[np.ndarray, " planes"], rounding: float
) -> tuple[Float[np.ndarray, " crossings"], Float[np.ndarray, "crossings 2"]]:
    """Parameters and points of an arc where it crosses lines across an axis."""
    t = part.fine
    x = part.point(t)[:, axis]
    room = max(1e-13 * float(np.ptp(part.bounds)), rounding)
    own = planes[(np.min(x) < planes) & (planes < np.max(x))]
    if not len(own) or np.ptp(x) <= room:
        return np.zeros(0), np.zeros((0, 2))
    if part.is_straight:
        found = (own - x[0]) / (x[-1] - x[0])
        points = part.point(found)
        points[:, axis] = own
        return found, points
    above = x[:, None] >= own
    step, number = np.nonzero(above[:-1] != above[1:])
    begins = above[step, number]
    found, _ = bisect(
        lambda s: (part.point(s)[:, axis] >= own[number]) == begins, t[step], t[step + 1]
    )
    return found, part.point(found)
