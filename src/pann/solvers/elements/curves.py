"""Elements divided by curves on which the equation jumps: which ones, and points of the curves.

Boxes are cut until the level function of a curve is a polynomial on each box that it crosses. The
sides of such a box are elements of their own; to refine them, the box is cut and divided again.
"""

import dataclasses
import functools
import itertools
from collections.abc import Mapping

import numpy as np
from jaxtyping import Bool, Float, Int

from pann.basis import Legendre, Tree
from pann.basis.elements import CURVE_SIZE
from pann.domain import Box
from pann.numerics.quadrature import gauss_legendre
from pann.pde.jumps import Values, jump_curves
from pann.pde.problem import Problem
from pann.solvers.elements.carried import carried

# Points of a box along each axis at which a curve is looked for, by dimension.
NUM_LOOKED_AT = {1: 65, 2: 33, 3: 13}
# A level function is a polynomial on a box if this is missed, relative to its size there.
MISSED = 1e-9
# Boxes are cut so often, at the most, to get there.
MOST_LEVELS, MOST_DIVIDED = 12, 4_000
HALVINGS = 50
# Level functions below this, relative to their size on a box, are zero there.
NEAR_ZERO = 1e-14
# Roots with imaginary parts below this are real; parts of a border shorter than this are nothing.
NEAR_REAL = 1e-10
# Beyond what is seen of a side, relative to that.
MORE_ROOM = 0.1
# Planes nearer than this to a border, relative to the domain, are that border.
SAME = 1e-9


@dataclasses.dataclass(frozen=True, eq=False)
class Divided:
    """A tree whose elements are divided by curves, and for each element the number of its box."""

    tree: Tree
    boxes: Int[np.ndarray, " elements"]

    @property
    def is_divided(self) -> Bool[np.ndarray, " elements"]:
        """Whether an element is one side of a box."""
        return np.array([bool(sides) for sides in self.tree.sides])


@dataclasses.dataclass(frozen=True, eq=False)
class Curves:
    """The level functions of a problem, and cuts across axes where it has a kink."""

    levels: tuple[Values, ...]
    planes: tuple[tuple[int, float], ...]

    @staticmethod
    def of(problem: Problem, domain: Box) -> "Curves":
        found = jump_curves(problem, domain)
        return Curves(found.functions + carried(problem), found.planes)

    def resolving(self, tree: Tree) -> Tree:
        """Boxes cut at the planes, and until curves are those of polynomials."""
        for axis, at in self.planes:
            room = SAME * (tree.upper[axis] - tree.lower[axis])
            low, high = tree.corners[:, :, axis].T
            crossed = np.flatnonzero((low < at - room) & (at + room < high))
            tree = tree.cut({int(element): (axis, at) for element in crossed})
        for level in self.levels:
            for _ in range(MOST_LEVELS):
                rough = [
                    element
                    for element in _crossed(tree, level)
                    if not _is_polynomial(tree, int(tree.elements[element]), level)
                ]
                if not rough or len(tree.elements) > MOST_DIVIDED:
                    break
                for axis in range(tree.dimension):
                    nodes = [int(tree.elements[element]) for element in rough]
                    middle = [float(np.mean(tree.bounds[node, :, axis])) for node in nodes]
                    tree = tree.cut({e: (axis, at) for e, at in zip(rough, middle, strict=True)})
                    rough = [int(tree.number[c]) for node in nodes for c in tree.children[node]]
        return tree

    def crossed(self, tree: Tree) -> set[int]:
        """The elements that a curve crosses."""
        return {element for level in self.levels for element in _crossed(tree, level)}

    def divide(self, tree: Tree) -> Divided:
        """Each box that a curve crosses as two elements, those that two curves cross as more."""
        divided = tree
        for level in self.levels:
            divided = divided.divided(
                {
                    int(element): coefficients_on(divided, int(divided.elements[element]), level)
                    for element in _crossed(divided, level)
                }
            )
        # Nodes keep their numbers: those of the sides come after all of the boxes.
        parent = np.arange(len(divided.axis))
        for node in np.flatnonzero(divided.axis == tree.dimension):
            parent[divided.children[node]] = parent[node]
        return Divided(divided, tree.number[parent[divided.elements]])


def _grid(dimension: int) -> Float[np.ndarray, "points d"]:
    """Points of a reference box, its borders included."""
    line = np.linspace(-1.0, 1.0, NUM_LOOKED_AT[dimension])
    return np.stack(np.meshgrid(*[line] * dimension, indexing="ij"), axis=-1).reshape(-1, dimension)


def _crossed(tree: Tree, level: Values) -> list[int]:
    """The elements in which a level function has both signs."""
    grid = _grid(tree.dimension)
    corners = tree.corners
    low, high = corners[:, :1], corners[:, 1:]
    points = low + 0.5 * (grid + 1.0) * (high - low)
    values = level(points.reshape(-1, tree.dimension)).reshape(len(corners), -1)
    size = NEAR_ZERO * np.max(np.abs(values), axis=1, keepdims=True, initial=0.0)
    found = []
    for element in np.flatnonzero(np.any(values > size, axis=1) & np.any(values < -size, axis=1)):
        inside = tree.is_inside(int(element), points[element])
        own = values[element][inside]
        if np.any(own > size[element]) and np.any(own < -size[element]):
            found.append(int(element))
    return found


@functools.lru_cache(maxsize=8)
def _analysis() -> tuple[np.ndarray, np.ndarray]:
    """Gauss points of a curve's polynomials, and from values there to coefficients."""
    nodes, weights = gauss_legendre(CURVE_SIZE)
    table = Legendre().table(nodes, CURVE_SIZE) * (2.0 * np.arange(CURVE_SIZE) + 1.0)
    return nodes, (weights[:, None] * table).T


def coefficients_on(tree: Tree, node: int, level: Values) -> Float[np.ndarray, " coefficients"]:
    """The polynomial through a level function on the box of a node, of size 1."""
    nodes, analysis = _analysis()
    low, high = tree.bounds[node]
    grid = np.stack(np.meshgrid(*[nodes] * tree.dimension, indexing="ij"), axis=-1)
    values = level((low + 0.5 * (grid + 1.0) * (high - low)).reshape(-1, tree.dimension))
    values = values.reshape([CURVE_SIZE] * tree.dimension)
    values = values / max(float(np.max(np.abs(values))), 1e-300)
    for axis in range(tree.dimension):
        values = np.moveaxis(np.tensordot(values, analysis, axes=(axis, 1)), -1, axis)
    return values.ravel()


def _is_polynomial(tree: Tree, node: int, level: Values) -> bool:
    """Whether the last coefficients of a level function are nothing."""
    size, dimension = CURVE_SIZE, tree.dimension
    c = np.abs(coefficients_on(tree, node, level)).reshape([size] * dimension)
    last = max(float(np.max(np.take(c, (size - 2, size - 1), axis=a))) for a in range(dimension))
    return last <= MISSED


def bounds_of_side(tree: Tree, element: int) -> Float[np.ndarray, "2 d"]:
    """The corners of a box around a side of a curve, in reference coordinates of its element."""
    count = NUM_LOOKED_AT[tree.dimension]
    grid = _grid(tree.dimension)
    low, high = tree.corners[element]
    inside = grid[tree.is_inside(element, low + 0.5 * (grid + 1.0) * (high - low))]
    room = np.full(tree.dimension, 2.0 / (count - 1))
    if tree.dimension == 2:
        # A side may be narrower than the grid: it reaches as far as its parts of the border do.
        ends = [
            end
            for axis in range(2)
            for at in (low[axis], high[axis])
            for part in parts_of_border(tree, {element: at}, low, high, axis)
            for end in part
        ]
        on_border = 2.0 * (np.reshape(ends, (-1, 2)) - low) / (high - low) - 1.0
        inside = np.concatenate([inside, on_border])
        extent = np.ptp(inside, axis=0) if len(inside) else np.zeros(2)
        room = np.minimum(room, MORE_ROOM * extent)
    if not len(inside) or np.any(np.ptp(inside, axis=0) == 0):
        return np.stack([-np.ones(tree.dimension), np.ones(tree.dimension)])
    return np.clip([inside.min(axis=0) - room, inside.max(axis=0) + room], -1.0, 1.0)


def parts_of_border(
    tree: Tree,
    coordinates: Mapping[int, float],
    lower: Float[np.ndarray, " d"],
    upper: Float[np.ndarray, " d"],
    axis: int,
) -> list[Float[np.ndarray, "2 d"]]:
    """The corners of those parts of a border that lie on the sides of the elements at it.

    In the plane, where `coordinates` say at which one across the axis each element has the border.
    Anywhere else, and for elements without sides, it is the whole border.
    """
    if tree.dimension != 2 or not any(tree.sides[element] for element in coordinates):
        return [np.stack([lower, upper])]
    nodes, analysis = _analysis()
    other = 1 - axis

    def points(reference: Float[np.ndarray, " points"], at: float) -> np.ndarray:
        out = np.full((len(reference), 2), at)
        out[:, other] = lower[other] + 0.5 * (reference + 1.0) * (upper - lower)[other]
        return out

    found = [-1.0, 1.0]
    for element, at in coordinates.items():
        for node, _ in tree.sides[element]:
            values = tree.along_curve(node, points(nodes, at))
            roots = np.polynomial.legendre.legroots(analysis @ values)
            real = roots.real[np.abs(roots.imag) < NEAR_REAL]
            found += real[np.abs(real) < 1.0].tolist()
    ends = np.sort(found)
    middles = 0.5 * (ends[:-1] + ends[1:])
    inside = np.diff(ends) > NEAR_REAL
    for element, at in coordinates.items():
        inside &= tree.is_inside(element, points(middles, at))
    at = next(iter(coordinates.values()))
    pairs = [points(np.array(pair), at) for pair in itertools.pairwise(ends)]
    return [pair for pair, is_own in zip(pairs, inside, strict=True) if is_own]


def points_on(
    tree: Tree, node: int, count: int
) -> tuple[Float[np.ndarray, "on d"], Float[np.ndarray, "on d"], Float[np.ndarray, " on"]]:
    """Points of the curve of a node, unit normals, and weights of sum 1.

    They lie on `count` lines along each axis, between samples of different signs.
    """
    low, high = tree.bounds[node]
    dimension = tree.dimension
    reference, own_weights = gauss_legendre(count)
    samples = np.linspace(-1.0, 1.0, 4 * count + 1)
    points, weights = [], []
    for axis in range(dimension):
        others = [reference] * dimension
        others[axis] = samples
        grid = np.stack(np.meshgrid(*others, indexing="ij"), axis=-1)
        across = functools.reduce(
            np.multiply.outer,
            [np.ones(len(samples)) if i == axis else own_weights for i in range(dimension)],
        )
        grid, across = np.moveaxis(grid, axis, 0), np.moveaxis(across, axis, 0)
        at = low + 0.5 * (grid + 1.0) * (high - low)
        values = tree.along_curve(node, at.reshape(-1, dimension)).reshape(at.shape[:-1])
        changes = np.nonzero((values[:-1] >= 0) != (values[1:] >= 0))
        first, second = at[:-1][changes], at[1:][changes]
        is_upper = values[:-1][changes] >= 0
        for _ in range(HALVINGS):
            middle = 0.5 * (first + second)
            same = ((tree.along_curve(node, middle) >= 0) == is_upper)[:, None]
            first, second = np.where(same, middle, first), np.where(same, second, middle)
        points.append(0.5 * (first + second))
        weights.append(across[:-1][changes] / (high - low)[axis])
    found = np.concatenate(points)
    axes = np.repeat(np.arange(dimension), [len(each) for each in points])
    gradient = np.stack(
        [tree.along_curve(node, found, unit) for unit in np.eye(dimension, dtype=int).tolist()],
        axis=1,
    )
    normals = gradient / np.maximum(np.linalg.norm(gradient, axis=1, keepdims=True), 1e-300)
    straight = np.abs(normals[np.arange(len(found)), axes])
    # A point stands for a length of 1 / n_a over the distance of its lines; those of all axes count
    # each piece of the curve once if they have shares of n_a^2.
    weight = np.concatenate(weights) * straight
    return found, normals, weight / max(float(np.sum(weight)), 1e-300)
