"""Arcs joined to loops: corners where they meet, area, and the holes that loops go around."""

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np
import scipy  # its submodules are loaded when first used
from jaxtyping import Bool, Float

from pann.shapes.arcs import Part, Plane


@dataclasses.dataclass(frozen=True)
class Corner:
    """Where two arcs meet; the inside is `direction` < theta < `direction` + `angle`.

    `direction` is that of the arc that leaves the corner when the boundary is walked with the
    inside on the left; `before` and `after` are the names of the two arcs.
    """

    point: tuple[float, float]
    angle: float
    direction: float
    arriving: Part
    leaving: Part

    @property
    def before(self) -> str:
        return self.arriving.name

    @property
    def after(self) -> str:
        return self.leaving.name

    @property
    def is_straight(self) -> bool:
        """Whether both arcs are straight."""
        return self.arriving.is_straight and self.leaving.is_straight


@dataclasses.dataclass(frozen=True)
class Hole:
    """A bounded piece of the outside: a point deep in it, and the distance to its boundary."""

    center: tuple[float, ...]
    radius: float
    names: tuple[str, ...]


def successors(parts: Sequence[Part], size: float) -> list[int]:
    """The number of the arc that follows each arc, a loop following itself."""
    following, taken = list(range(len(parts))), set()
    arcs = [number for number, part in enumerate(parts) if not part.is_closed]
    starts = np.array([parts[number].ends[0] for number in arcs]).reshape(-1, 2)
    leaving = np.array([_heading(parts[number], 0, size) for number in arcs])
    for number in arcs:
        gaps = np.linalg.norm(starts - parts[number].ends[1], axis=1)
        near = np.flatnonzero(gaps <= gaps.min() + 2e-8 * size)
        # Where several arcs meet, the inside is between neighboring ones.
        angles = (_heading(parts[number], 1, size) - leaving[near]) % (2 * np.pi)
        following[number] = after = arcs[near[angles.argmin()]]
        if gaps.min() > 1e-7 * size or after in taken:
            x, y = parts[number].ends[1]
            raise ValueError(
                f"the boundary of this shape does not close at ({x:.6g}, {y:.6g}): boundaries "
                "touch there without crossing, or leave a slit too narrow to be told from that "
                f"(below {1e-7 * size:g}); move or scale one of the shapes a little"
            )
        taken.add(after)
    return following


def loops_of(parts: Sequence[Part], size: float) -> list[tuple[Part, ...]]:
    """The closed loops, each as its arcs in order."""
    following = successors(parts, size)
    left = dict.fromkeys(range(len(parts)))
    loops = []
    while left:
        loop = [next(iter(left))]
        del left[loop[0]]
        while following[loop[-1]] in left:
            loop.append(following[loop[-1]])
            del left[loop[-1]]
        loops.append(tuple(parts[number] for number in loop))
    return loops


def area_of(parts: Sequence[Part]) -> float:
    """The area that closed loops of arcs go around, negative where they go clockwise."""
    # From a point nearby, or coordinates far from the origin would cancel.
    return float(sum(part.area_from(parts[0].ends[0]) for part in parts))


def junctions(
    parts: Sequence[Part], inside: Callable[[Plane], Bool[np.ndarray, " points"]], size: float
) -> tuple[Corner, ...]:
    """Where arcs meet, also those that go on without a turn (angle pi)."""
    found = []
    for part, number in zip(parts, successors(parts, size), strict=True):
        if part.is_closed:
            continue
        after = parts[number]
        direction, arriving = _direction(after, 0.0), _direction(part, 1.0)
        angle = (arriving - direction) % (2 * np.pi)
        point = after.ends[0]
        if min(angle, 2 * np.pi - angle) < 1e-7:
            behind = point - 1e-7 * size * np.array([np.cos(direction), np.sin(direction)])
            angle = 2 * np.pi if inside(behind[None])[0] else 0.0
        place = (float(point[0]), float(point[1]))
        found.append(Corner(place, angle, direction, part, after))
    return tuple(found)


def hole_of(loop: Sequence[Part]) -> Hole:
    """The deepest point of what a clockwise loop goes around: its centroid, if that is as deep."""
    count = max(240 // len(loop), 2)
    points = np.concatenate([part.point(np.arange(count) / count) for part in loop])
    center = points.mean(axis=0)
    tree = scipy.spatial.cKDTree(points)
    low, high = points.min(axis=0), points.max(axis=0)
    best, depth = center, _depth(center[None], points, tree)[0]
    middle, width = (low + high) / 2, (high - low) / 2
    offsets = np.stack(np.meshgrid(*[np.linspace(-1, 1, 15)] * 2), axis=-1).reshape(-1, 2)
    for _ in range(6):
        trials = middle + offsets * width
        depths = _depth(trials, points, tree)
        if depths.max() > depth * (1 + 1e-4):
            best, depth = trials[depths.argmax()], depths.max()
        middle, width = best, width / 4
    nearest = [float(part.distance(best[None])[0]) for part in loop]
    names = tuple(dict.fromkeys(part.name for part in loop))
    return Hole((float(best[0]), float(best[1])), min(nearest), names)


def _depth(
    trials: Plane, loop: Float[np.ndarray, "vertices 2"], tree: "scipy.spatial.cKDTree"
) -> Float[np.ndarray, " points"]:
    """The distance to a polygon's vertices, negative outside."""
    distances, _ = tree.query(trials)
    after = np.roll(loop, -1, axis=0)
    height, (x, y) = trials[:, 1, None], loop.T
    crossed = (y > height) != (after[:, 1] > height)
    with np.errstate(divide="ignore", invalid="ignore"):
        at = x + (height - y) * (after[:, 0] - x) / (after[:, 1] - y)
    odd = np.sum(crossed & (trials[:, 0, None] < at), axis=1) % 2 == 1
    return np.where(odd, distances, -distances)


def _direction(part: Part, t: float) -> float:
    """The direction in which an arc leaves its end, into the arc."""
    at, sign = np.array([t]), 1 if t == 0 else -1
    tangent = part.tangent(at)[0]
    if np.linalg.norm(tangent) < 1e-8 * part.measure:
        # A path that stops at its end: the limit of its direction.
        near, far = (part.tangent(abs(at - step))[0] for step in (1e-4, 2e-4))
        tangent = 2 * near / np.linalg.norm(near) - far / np.linalg.norm(far)
    return float(np.arctan2(*(sign * tangent[::-1])))


def _heading(part: Part, end: int, size: float) -> float:
    """The direction from an end to a point of the arc nearby: of arcs that touch, not the same."""
    step = min(0.3, 1e-4 * size / part.measure)
    x, y = part.point(np.array([step if end == 0 else 1 - step]))[0] - part.ends[end]
    return float(np.arctan2(y, x))
