"""Points and weights of integrals over shapes of the plane: strips between horizontal lines.

Lines go through all ends of arcs and all points at which an arc is horizontal, or nearly so.
Between two of them the shape is some pieces with an arc on the left and one on the right, both
functions of the height. A point of a strip is its height and its share of the way between the two
arcs.

Arcs may begin like a root, and functions like a power of the distance from a corner: nodes are
those of Gauss and Legendre, moved by a polynomial that leaves both ends with the fourth power. They
stay inside of the shape, and converge faster than any power where the function is smooth.
"""

import dataclasses
import itertools
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int

from pann.numerics.quadrature import gauss_legendre
from pann.shapes.arcs import Parameters, Part, Plane, bisect

SAME = 1e-12  # heights nearer than this, relative to the size, are one
HALVINGS, NEAREST = 55, 1e-14
# Arcs are cut where they are least steep, if that is less than this.
FLAT = 0.5


@dataclasses.dataclass(frozen=True)
class Rise:
    """A piece of an arc along which the height does not turn back."""

    part: Part
    start: float
    stop: float
    low: float
    high: float

    def across(self, heights: Parameters) -> Parameters:
        """Where it is at some heights."""
        if self.part.is_straight:
            first, last = self.part.point(np.array([self.start, self.stop]))
            share = (heights - first[1]) / (last[1] - first[1])
            return (1 - share) * first[0] + share * last[0]
        # `low` is the parameter of what lies below, and may be the larger one.
        up = self.part.point(np.array([self.start, self.stop]))[:, 1]
        ends = (self.start, self.stop) if up[0] < up[1] else (self.stop, self.start)
        low, high = np.full(len(heights), ends[0]), np.full(len(heights), ends[1])
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            below = self.part.point(middle)[:, 1] < heights
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return self.part.point(low)[:, 0]


@dataclasses.dataclass(frozen=True)
class Cell:
    """A piece of a strip, from one share of the way between two arcs to another."""

    low: float
    high: float
    left: Rise
    right: Rise
    shares: tuple[float, float]


def smooth_ends(count: int) -> tuple[Parameters, Parameters]:
    """Nodes on [0, 1] and weights, for functions with singularities at both ends."""
    nodes, weights = gauss_legendre(count)
    t = (nodes + 1) / 2
    moved = np.polyval([-20, 70, -84, 35, 0, 0, 0, 0], t)
    # Not at the ends themselves, where functions of corners are infinite.
    return moved.clip(NEAREST, 1 - NEAREST), weights * 140 * (t * (1 - t)) ** 3


def cells_of(parts: Sequence[Part], size: float) -> list[Cell]:
    """What a shape of the plane with this boundary consists of."""
    rises = [rise for part in parts for rise in _rises(part, size)]
    ends = np.concatenate([part.ends for part in parts])
    heights = np.sort([*(each.low for each in rises), *(each.high for each in rises)])
    heights = heights[np.append(True, np.diff(heights) > SAME * size)]
    cells = []
    for low, high in itertools.pairwise(heights.tolist()):
        room = SAME * size
        met = [each for each in rises if each.low <= low + room and each.high >= high - room]
        if len(met) % 2:
            raise ValueError(f"the boundary of this shape does not close near a height of {low:g}")
        middle = np.array([(low + high) / 2])
        met.sort(key=lambda each: float(each.across(middle)[0]))
        for left, right in zip(met[::2], met[1::2], strict=True):
            breaks = {0.0, 1.0}
            for height in (low, high):
                at = np.array([height])
                first, last = left.across(at)[0], right.across(at)[0]
                here = ends[abs(ends[:, 1] - height) <= room, 0]
                inside = here[(here > first + 1e-9 * size) & (here < last - 1e-9 * size)]
                breaks |= {round(float((x - first) / (last - first)), 9) for x in inside}
            cells += [Cell(low, high, left, right, s) for s in itertools.pairwise(sorted(breaks))]
    return cells


def points_in(
    cells: Sequence[Cell], chosen: Int[np.ndarray, " some"], count: int
) -> tuple[Plane, Float[np.ndarray, " points"], Int[np.ndarray, " points"]]:
    """Points of some cells, as many along both directions, weights, and numbers of the cells."""
    nodes, weights = smooth_ends(count)
    points, shares = [], []
    for number in chosen.tolist():
        cell = cells[number]
        heights = cell.low + (cell.high - cell.low) * nodes
        first, last = cell.left.across(heights), cell.right.across(heights)
        begin, end = cell.shares
        along = begin + (end - begin) * nodes
        x = first[:, None] * (1 - along) + last[:, None] * along
        points.append(np.stack([x, np.broadcast_to(heights[:, None], x.shape)], -1).reshape(-1, 2))
        area = (cell.high - cell.low) * weights * (last - first) * (end - begin)
        shares.append(np.multiply.outer(area, weights).ravel())
    return np.concatenate(points), np.concatenate(shares), np.repeat(chosen, count**2)


def _rises(part: Part, size: float) -> list[Rise]:
    t = np.array([0.0, 1.0])
    if not part.is_straight:
        fine = np.linspace(0, 1, 1025)
        tangent = part.tangent(fine)
        slope = tangent[:, 1] / np.linalg.norm(tangent, axis=1)
        rising, size_of = slope > 0, abs(slope)
        turns = np.flatnonzero(rising[:-1] != rising[1:])
        state = lambda s: (part.tangent(s)[:, 1] > 0) == rising[turns]
        turning = bisect(state, fine[turns], fine[turns + 1])[0]
        least = (size_of[1:-1] <= size_of[:-2]) & (size_of[1:-1] < size_of[2:])
        flat = least & (size_of[1:-1] < FLAT) & (rising[:-2] == rising[2:])
        t = np.sort(np.concatenate([[0.0, 1.0], turning, fine[1:-1][flat]]))
        t = t[np.append(True, np.diff(t) > 1e-14)]
    heights = part.point(t)[:, 1]
    ends = zip(itertools.pairwise(t.tolist()), itertools.pairwise(heights.tolist()), strict=True)
    return [
        Rise(part, start, stop, min(rise), max(rise))
        for (start, stop), rise in ends
        if abs(rise[1] - rise[0]) > SAME * size
    ]
