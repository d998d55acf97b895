"""Where points are relative to closed loops of arcs: a grid knows far ones, arcs the near ones."""

import functools
from collections.abc import Sequence

import numpy as np
import scipy  # its submodules are loaded when first used
from jaxtyping import Bool, Float, Int

from pann.shapes.arcs import Parameters, Part, Plane

Ends = Float[np.ndarray, "pieces 2"]

CELLS = 256  # along the longer side


class Outline:
    """The signed distance to the arcs of a boundary, or something smaller far away from them.

    Arcs are cut into pieces no longer than a cell of a grid. The grid knows which cells are inside
    (by counting crossings) and which pieces are near a cell. A point far from all pieces has the
    sign of its cell; one that is near has that of the center of its cell, changed by each piece
    between the two; one that is as near as a piece is to its arc is compared with the arc itself.
    """

    def __init__(self, parts: Sequence[Part]):
        self.parts = tuple(parts)
        polygons = [_polygon(part) for part in parts]
        vertices = np.concatenate([part.point(t) for part, t in zip(parts, polygons, strict=True)])
        low, high = vertices.min(axis=0), vertices.max(axis=0)
        self.low, self.high = low, high
        self.cell = float((high - low).max() / CELLS)
        # Centers of cells on the boundary are unlikely this way.
        self.origin = low - self.cell * np.array([3.13713, 3.35171])
        self.shape = np.ceil((high - self.origin) / self.cell).astype(int) + 3
        pieces = [self._pieces(number, t) for number, t in enumerate(polygons)]
        self.first, self.last, self.times, self.number = (
            np.concatenate(each) for each in zip(*pieces, strict=True)
        )
        self.gap = max(_gap(part, t) for part, t in zip(parts, polygons, strict=True))
        self._fill()

    def level(self, points: Plane) -> Float[np.ndarray, " points"]:
        place = ((points - self.origin) / self.cell).astype(int)
        place = np.clip(place, 0, self.shape - 1)
        cells = place[:, 0] * self.shape[1] + place[:, 1]
        value = self.far[cells]
        beyond = (points < self.low) | (points > self.high)
        out = np.flatnonzero(beyond.any(axis=1))
        away = np.maximum(self.low - points[out], points[out] - self.high).max(axis=1)
        value[out] = np.maximum(value[out], away)
        near = np.flatnonzero(self.counts[cells])
        if near.size:
            value[near] = self._near(points[near], cells[near])
        return value

    def _near(
        self, points: Plane, cells: Int[np.ndarray, " points"]
    ) -> Float[np.ndarray, " points"]:
        counts = self.counts[cells]
        starts = np.cumsum(counts) - counts
        owner = np.repeat(np.arange(len(points)), counts)
        offset = np.arange(len(owner)) - starts[owner]
        piece = self.entries[self.offsets[cells][owner] + offset]
        first, along, of_owner = self.first[piece], self.along[piece], points[owner]
        share = np.sum((of_owner - first) * along, axis=1) / self.squares[piece]
        share = np.clip(share, 0, 1)
        gaps = np.linalg.norm(of_owner - first - share[:, None] * along, axis=1)
        center = self.origin + self.cell * (np.stack(np.divmod(cells, self.shape[1]), 1) + 0.5)
        crossed = _cross(of_owner, center[owner], first, first + along)
        odd = np.add.reduceat(crossed, starts, dtype=int) % 2 == 1
        inside = self.is_inside[cells] ^ odd
        nearest = np.minimum.reduceat(gaps, starts)
        sign = np.where(inside, -1.0, 1.0)
        value = sign * np.clip(nearest - self.gap, 0.0, self.cell / 2)
        unclear = nearest <= 2 * self.gap
        if self.gap and unclear.any():
            chosen = unclear[owner] & (gaps <= nearest[owner] + 2 * self.gap)
            exact = self._exact(points, owner[chosen], piece[chosen], share[chosen], sign)
            value[unclear] = exact[unclear]
        return value

    def _exact(
        self,
        points: Plane,
        owner: Int[np.ndarray, " pairs"],
        piece: Int[np.ndarray, " pairs"],
        share: Float[np.ndarray, " pairs"],
        sign: Float[np.ndarray, " points"],
    ) -> Float[np.ndarray, " points"]:
        """The signed distance to the arcs of the given pieces."""
        begin, end = self.times[piece].T
        t = begin + share * (end - begin)
        found = np.full(len(points), np.inf)
        for number in np.unique(self.number[piece]):
            mine = np.flatnonzero(self.number[piece] == number)
            part, target = self.parts[number], points[owner[mine]]
            times = part.nearest(target, t[mine])
            offset, tangent = target - part.point(times), part.tangent(times)
            distance = np.linalg.norm(offset, axis=1)
            left = tangent[:, 0] * offset[:, 1] - tangent[:, 1] * offset[:, 0]
            at_end = ~part.is_closed & ((times == 0) | (times == 1))
            value = np.where(at_end, sign[owner[mine]], -np.sign(left)) * distance
            for point, each in zip(owner[mine].tolist(), value.tolist(), strict=True):
                if abs(each) < abs(found[point]):
                    found[point] = each
        return found

    def _pieces(
        self, number: int, t: Parameters
    ) -> tuple[Ends, Ends, Ends, Int[np.ndarray, " pieces"]]:
        """Ends, parameters and number of the arc of pieces shorter than a cell."""
        vertices = self.parts[number].point(t)
        lengths = np.linalg.norm(np.diff(vertices, axis=0), axis=1)
        counts = np.maximum(np.ceil(lengths / self.cell), 1).astype(int)
        edge = np.repeat(np.arange(len(counts)), counts)
        step = np.arange(len(edge)) - (np.cumsum(counts) - counts)[edge]
        low, high = step / counts[edge], (step + 1) / counts[edge]
        mix = lambda values, share: (
            values[edge]
            + share.reshape(-1, *[1] * (values.ndim - 1)) * np.diff(values, axis=0)[edge]
        )
        times = np.stack([mix(t, low), mix(t, high)], axis=1)
        return mix(vertices, low), mix(vertices, high), times, np.full(len(edge), number)

    def _fill(self) -> None:
        """What the grid knows."""
        self.along = self.last - self.first
        self.squares = np.maximum(np.sum(self.along**2, axis=1), 1e-300)
        rows, columns = self.shape
        middle = ((self.first + self.last) / 2 - self.origin) / self.cell
        marked = middle.astype(int)
        around = np.stack(np.meshgrid([-1, 0, 1], [-1, 0, 1]), axis=-1).reshape(-1, 2)
        places = (marked[:, None] + around).reshape(-1, 2)
        cells = places[:, 0] * columns + places[:, 1]
        pieces = np.repeat(np.arange(len(marked)), len(around))
        self.entries = pieces[np.argsort(cells, kind="stable")]
        self.counts = np.bincount(cells, minlength=rows * columns)
        self.offsets = np.cumsum(self.counts) - self.counts

        # Of each column of centers, the pieces below change the side.
        crossings = np.zeros((rows, columns), int)
        first, last = (self.first - self.origin) / self.cell, (self.last - self.origin) / self.cell
        low, high = np.minimum(first[:, 0], last[:, 0]), np.maximum(first[:, 0], last[:, 0])
        begin = np.ceil(low - 0.5).astype(int)
        for row in (begin, begin + 1):
            at = row + 0.5
            crossing = (low <= at) & (at < high)
            with np.errstate(divide="ignore", invalid="ignore"):
                share = (at - first[:, 0]) / (last[:, 0] - first[:, 0])
                height = first[:, 1] + share * (last[:, 1] - first[:, 1])
            column = np.ceil(height[crossing] - 0.5).astype(int)
            np.add.at(crossings, (row[crossing], column), 1)
        inside = np.cumsum(crossings, axis=1) % 2 == 1

        empty = np.ones((rows, columns), bool)
        empty[marked[:, 0], marked[:, 1]] = False
        # Half a diagonal for the point, another and half a piece for the piece: 1.92 cells.
        away = scipy.ndimage.distance_transform_edt(empty) - 1.92
        far = self.cell * np.maximum(away, 0.5) - self.gap
        self.is_inside = inside.ravel()
        self.far = np.where(inside, -far, far).ravel()


def _polygon(part: Part) -> Parameters:
    """Parameters of vertices of a polygon close to an arc."""
    if part.is_straight:
        return np.array([0.0, 1.0])
    count = 2 * part.path.samples
    while True:
        t = np.linspace(0, 1, count + 1)
        if count >= 4096 or _gap(part, t) <= 1e-5 * np.ptp(part.point(t), axis=0).max():
            return t
        count *= 2


def _gap(part: Part, t: Parameters) -> float:
    """How far an arc is from a polygon with vertices on it."""
    if part.is_straight:
        return 0.0
    vertices = part.point(t)
    middle = part.point((t[:-1] + t[1:]) / 2)
    return float(1.5 * np.linalg.norm(middle - (vertices[:-1] + vertices[1:]) / 2, axis=1).max())


def _cross(start: Plane, stop: Plane, first: Plane, last: Plane) -> Bool[np.ndarray, " points"]:
    """Which segments from start to stop cross those from first to last."""
    left = functools.partial(_left, start, stop)
    return (left(first) != left(last)) & (_left(first, last, start) != _left(first, last, stop))


def _left(start: Plane, stop: Plane, points: Plane) -> Bool[np.ndarray, " points"]:
    """Which points are on the left of the lines from start to stop."""
    along, offset = stop - start, points - start
    return along[:, 0] * offset[:, 1] > along[:, 1] * offset[:, 0]
