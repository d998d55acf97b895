"""Bodies bounded by triangles, from files."""

import dataclasses
import functools
import os
from typing import Any, final

import numpy as np
import numpy.typing as npt
from jaxtyping import Float, Int

from pann.errors import FileError
from pann.shapes.arcs import Affine, Directions, Reach
from pann.shapes.checks import axis_names, keep
from pann.shapes.patches import Drawn, Patch, Surface, Unit
from pann.shapes.shape import Levels, Points, Shape

Corners = Float[np.ndarray, "faces 3 3"]


# Compared by identity, as its arrays are.
@final
@dataclasses.dataclass(frozen=True, eq=False)
class Triangles(Surface):
    """Triangles, their vertices counterclockwise seen from outside."""

    corners: Corners
    variables = 3

    @functools.cached_property
    def crosses(self) -> Float[np.ndarray, "faces 3"]:
        """Normals as long as twice the areas."""
        a, b, c = np.moveaxis(self.corners, 1, 0)
        return np.cross(b - a, c - a)

    @functools.cached_property
    def measure(self) -> float:
        return float(np.linalg.norm(self.crosses, axis=1).sum() / 2)

    def draw(self, unit: Unit) -> Drawn:
        lengths = np.linalg.norm(self.crosses, axis=1)
        total = np.cumsum(lengths)
        face = np.searchsorted(total, unit[:, 0] * total[-1], side="right").clip(0, len(total) - 1)
        root = np.sqrt(unit[:, 1])
        shares = np.stack([1 - root, root * (1 - unit[:, 2]), root * unit[:, 2]], axis=1)
        points = np.einsum("ps,psd->pd", shares, self.corners[face])
        return points, self.crosses[face] / lengths[face, None]

    def support(self, directions: Directions) -> Reach:
        return (self.corners.reshape(-1, 3) @ directions.T).max(axis=0)


@final
@dataclasses.dataclass(frozen=True, init=False, repr=False, eq=False)
class Mesh(Shape):
    """The inside of a closed surface of triangles: `Mesh("part.stl")` or `Mesh(vertices, faces)`.

    STL files are read as they are, others by trimesh. Its part is "mesh".
    """

    surface: Triangles
    source: str
    names: tuple[str, ...] = ("x", "y", "z")

    def __init__(
        self,
        given: str | os.PathLike[str] | npt.ArrayLike,
        faces: npt.ArrayLike | None = None,
        names: tuple[str, ...] = ("x", "y", "z"),
    ):
        if isinstance(given, str | os.PathLike):
            source, corners = os.fspath(given), _read(os.fspath(given))
        else:
            corners = np.asarray(given, float)[np.asarray(faces, int)]
            source = f"{len(corners)} triangles"
        corners = _checked(corners, source)
        keep(self, surface=Triangles(corners), names=axis_names(names, 3), source=source)

    @functools.cached_property
    def parts(self) -> tuple[Patch, ...]:
        return (Patch("mesh", self.surface, Affine.identity(3)),)

    def level(self, points: Points) -> Levels:
        """Negative inside and zero on the surface; elsewhere only the sign counts."""
        turned = points @ TURN.T
        level, odd = np.zeros(len(points)), np.zeros(len(points), bool)
        for start in range(0, len(points), self._rays.chunk):
            some = slice(start, start + self._rays.chunk)
            level[some], odd[some] = self._rays.cast(turned[some])
        # Farther away, another triangle may be nearer than those above and below.
        level = np.minimum(level, 1e-9 * self.size)
        return np.where(odd, -level, level)

    @functools.cached_property
    def _rays(self) -> "Rays":
        return Rays(self.surface.corners @ TURN.T)

    def __repr__(self) -> str:
        return f"Mesh({self.source})"


# Seen along this direction no edge of a mesh is likely to cover another one.
TURN = np.linalg.qr(np.array([[0.62, 0.31, 0.72], [-0.45, 0.88, 0.13], [0.37, 0.41, -0.83]]))[0]
PAIRS = 2_000_000  # of points and triangles, compared at a time
ENTRIES = 20_000_000  # of triangles in cells, beyond one of each


class Rays:
    """Vertical lines through triangles, which a grid in the plane finds."""

    def __init__(self, corners: Corners):
        self.corners = corners
        flat = corners[:, :, :2]
        self.cells = 2 * int(np.clip(len(corners) ** 0.5, 16, 512))
        self.low, high = flat.min(axis=(0, 1)), flat.max(axis=(0, 1))
        counts = np.array([2 * ENTRIES + len(corners)])
        # Long triangles lie in many cells: then there are fewer.
        while counts.sum() > ENTRIES + len(corners):
            self.cells //= 2
            self.cell = (high - self.low) / self.cells * (1 + 1e-12)
            first = ((flat.min(axis=1) - self.low) / self.cell).astype(int)
            last = ((flat.max(axis=1) - self.low) / self.cell).astype(int).clip(max=self.cells - 1)
            widths = last - first + 1
            counts = widths.prod(axis=1)
        face = np.repeat(np.arange(len(corners)), counts)
        step = np.arange(len(face)) - np.repeat(np.cumsum(counts) - counts, counts)
        row, column = (
            first[face, 0] + step // widths[face, 1],
            first[face, 1] + step % widths[face, 1],
        )
        cells = row * self.cells + column
        self.entries = face[np.argsort(cells, kind="stable")]
        self.counts = np.bincount(cells, minlength=self.cells**2)
        self.offsets = np.cumsum(self.counts) - self.counts
        self.chunk = max(1, PAIRS // max(int(self.counts.max()), 1))

    def cast(self, points: Points) -> tuple[Levels, np.ndarray]:
        """The distance to the nearest plane of a triangle that is met, and whether inside."""
        place = ((points[:, :2] - self.low) / self.cell).astype(int)
        within = ((points[:, :2] >= self.low) & (place < self.cells)).all(axis=1)
        cells = np.where(within, place[:, 0] * self.cells + place[:, 1], 0)
        counts = np.where(within, self.counts[cells], 0)
        owner = np.repeat(np.arange(len(points)), counts)
        offset = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)
        face = self.entries[self.offsets[cells][owner] + offset]
        a, b, c = np.moveaxis(self.corners[face], 1, 0)
        x = points[owner]
        left = [_left(x, *edge) for edge in ((a, b), (b, c), (c, a))]
        met = (left[0] == left[1]) & (left[1] == left[2])
        owner, x, a, b, c = owner[met], x[met], a[met], b[met], c[met]
        normal = np.cross(b - a, c - a)
        normal /= np.linalg.norm(normal, axis=1, keepdims=True)
        gap = np.sum((x - a) * normal, axis=1)
        above = gap * np.sign(normal[:, 2]) < 0
        odd = np.bincount(owner[above], minlength=len(points)) % 2 == 1
        nearest = np.full(len(points), np.inf)
        np.minimum.at(nearest, owner, abs(gap))
        return nearest, odd


def _left(x: Points, start: Points, stop: Points) -> np.ndarray:
    """Which points are left of an edge; of the two triangles at an edge exactly one is met."""
    swap = (start[:, 0] > stop[:, 0]) | ((start[:, 0] == stop[:, 0]) & (start[:, 1] > stop[:, 1]))
    first, last = (np.where(swap[:, None], one, two) for one, two in ((stop, start), (start, stop)))
    along, offset = last - first, x - first
    return (along[:, 0] * offset[:, 1] > along[:, 1] * offset[:, 0]) ^ swap


def _read(path: str) -> Corners:
    try:
        with open(path, "rb") as file:
            content = file.read()
    except OSError as error:
        raise FileError(f"{path} cannot be opened: {error.strerror}") from None
    if not path.lower().endswith(".stl"):
        try:
            import trimesh
        except ImportError:
            raise FileError(
                f"{path} is read by trimesh, which is not installed: pip install pann[mesh]; STL "
                "files need nothing else"
            ) from None
        mesh: Any = trimesh.load(path, force="mesh")
        return np.asarray(mesh.vertices, float)[np.asarray(mesh.faces, int)]
    count = int.from_bytes(content[80:84], "little")
    if len(content) == 84 + 50 * count:
        kind = np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("rest", "<u2")])
        return np.frombuffer(content, kind, offset=84)["corners"].astype(float)
    words = content.split()
    numbers = [words[k + 1 : k + 4] for k, word in enumerate(words) if word == b"vertex"]
    try:
        return np.array(numbers, float).reshape(-1, 3, 3)
    except ValueError:
        raise FileError(f"{path} is no STL file, neither a binary one nor one of text") from None


def _checked(corners: Corners, source: str) -> Corners:
    """Triangles that close, turned outward."""
    if not len(corners) or not np.isfinite(corners).all():
        raise ValueError(f"a mesh has triangles with finite vertices; {source} has none or others")
    flat = corners.reshape(-1, 3)
    # Files in single precision may have one vertex several times, a rounding apart.
    rounded = np.round(flat / (1e-6 * np.ptp(flat, axis=0).max()))
    _, first, numbers = np.unique(rounded, axis=0, return_index=True, return_inverse=True)
    vertices, faces = flat[first], numbers.reshape(-1, 3)
    faces = faces[(faces != np.roll(faces, 1, axis=1)).all(axis=1)]
    corners = vertices[faces]
    edges: Int[np.ndarray, "edges 2"] = np.concatenate(
        [faces[:, [k, (k + 1) % 3]] for k in range(3)]
    )
    code = lambda edge: edge[:, 0] * len(vertices) + edge[:, 1]
    there, back = code(edges), code(edges[:, ::-1])
    single = np.flatnonzero(~np.isin(there, back))
    if single.size or len(np.unique(there)) < len(there):
        x, y, z = vertices[edges[single[0] if single.size else 0, 0]]
        raise ValueError(
            f"the mesh {source} is not watertight: {max(single.size, 1)} of {len(edges)} edges do "
            f"not belong to two triangles that are turned alike, one at ({x:.6g}, {y:.6g}, "
            f"{z:.6g}); repair it where it was made, or with trimesh.repair"
        )
    a, b, c = np.moveaxis(corners, 1, 0)
    volume = float(np.sum(a * np.cross(b, c)) / 6)
    if abs(volume) <= 1e-12 * np.ptp(vertices, axis=0).max() ** 3:
        raise ValueError(f"the mesh {source} has no volume")
    return corners if volume > 0 else corners[:, ::-1]
