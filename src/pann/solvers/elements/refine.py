"""Which elements are not resolved, along which axes, and what to do: raise the degree, or cut."""

import dataclasses
import math

import numpy as np
from jaxtyping import Float, Int

from pann.basis import ElementBasis, Legendre, Tree
from pann.solvers.elements.curves import Divided
from pann.solvers.elements.rows import Missed, coefficients_of, groups_of, points_of

# Coefficients that fall off to less than this factor per degree are those of a smooth function.
SMOOTH = 0.75
# The decay that coefficients on one side of a curve are taken to have.
DECAY_ON_SIDES = 0.5
# A cut that leaves elements narrower than this, relative to the domain, is not made.
NARROWEST = 1e-9
# Of the largest tail: elements below it wait, for it may have caused theirs.
SHARE, NEAR = 0.02, 1e-3
ALIKE = 0.1
# Highest derivatives amplified by more than this say that an element is too wide for its layers.
AMPLIFIED = 1.01
# A residual whose middle is so far out, on (-1, 1), is at an end; cuts toward it are graded so.
AT_AN_END, GRADING, MOST_CUTS = 0.5, 0.25, 3


# By element: places across axes where it is to be cut.
Cuts = dict[int, list[tuple[int, float]]]


@dataclasses.dataclass(frozen=True, eq=False)
class Tails:
    """For each element and axis the last coefficients, relative to the field, and their decay.

    `tail` is the root mean square of the terms of the two highest degrees along the axis, `decay`
    the factor by which the terms fall from one degree to the next.
    """

    tail: Float[np.ndarray, "elements d"]
    decay: Float[np.ndarray, "elements d"]


def tails(
    basis: ElementBasis,
    b: Float[np.ndarray, "terms fields"],
    missed: Float[np.ndarray, " elements"] | None = None,
) -> Tails:
    """By the coefficients of every element, each field relative to its largest value anywhere.

    Polynomials on one side of a curve may be anything beyond it, so that their coefficients say
    little: there `missed`, the residual, takes the place of the tail.
    """
    tree = basis.tree
    d = tree.dimension
    tail, decay = np.zeros((len(basis.sizes), d)), np.zeros((len(basis.sizes), d))
    sizes = np.maximum(field_sizes(basis, b), 1e-300)
    for group in groups_of(tree, (), 1):
        own = coefficients_of(basis, group, b) / sizes
        for axis, count in enumerate(group.shape):
            shape = [1] * own.ndim
            shape[1 + axis] = count
            others = tuple(i for i in range(1, own.ndim) if i != 1 + axis)
            norms = 1.0 / np.sqrt(2.0 * np.arange(count) + 1.0)
            energy = np.sqrt(np.sum(own**2, axis=others)) * norms  # elements, degrees
            tail[group.elements, axis] = np.sqrt(np.sum(energy[:, -2:] ** 2, axis=1))
            decay[group.elements, axis] = _decay(energy)
    if missed is None:
        return Tails(tail, decay)
    is_side = np.array([bool(sides) for sides in tree.sides])
    tail[is_side], decay[is_side] = missed[is_side, None], DECAY_ON_SIDES
    return Tails(tail, decay)


def of_boxes(
    divided: Divided,
    found: Tails,
    missed: Missed,
    amplified: Float[np.ndarray, "elements d"],
) -> tuple[Tails, Missed, Float[np.ndarray, "boxes d"]]:
    """The same for the boxes whose sides elements are: of the worse side."""
    if not len(divided.tree.curves):
        return found, missed, amplified
    largest = lambda values: _largest(values, divided.boxes)
    order = np.argsort(missed.size, kind="stable")
    center = np.zeros((np.max(divided.boxes) + 1, missed.center.shape[1]))
    center[divided.boxes[order]] = missed.center[order]
    tails = Tails(largest(found.tail), largest(found.decay))
    return tails, Missed(largest(missed.size), center), largest(amplified)


def _largest(values: np.ndarray, boxes: Int[np.ndarray, " elements"]) -> np.ndarray:
    out = np.zeros((np.max(boxes) + 1, *values.shape[1:]))
    np.maximum.at(out, boxes, values)
    return out


def _decay(energy: Float[np.ndarray, "elements degrees"]) -> Float[np.ndarray, " elements"]:
    """The factor per degree, by a line through the logarithms of the upper half's envelope."""
    count = energy.shape[1]
    envelope = np.maximum.accumulate(energy[:, ::-1], axis=1)[:, ::-1]
    first = max(1, count // 3) if count > 3 else 0
    k = np.arange(first, count)
    logs = np.log(np.maximum(envelope[:, first:], 1e-18))
    centered = k - np.mean(k)
    slope = (logs @ centered) / max(float(centered @ centered), 1e-300)
    return np.exp(np.minimum(slope, 0.0))


def field_sizes(
    basis: ElementBasis, b: Float[np.ndarray, "terms fields"]
) -> Float[np.ndarray, " fields"]:
    """The largest root mean square of a field on any element."""
    squares = b**2 / np.prod(2.0 * basis.indices + 1.0, axis=1)[:, None]
    sums = np.add.reduceat(squares, basis.offsets[:-1], axis=0)
    return np.sqrt(np.max(sums, axis=0))


def unevenness(basis: ElementBasis, b: Float[np.ndarray, "terms fields"]) -> float:
    """The largest root mean square of a field on any element over that on the whole domain."""
    corners = basis.tree.corners
    volumes = np.prod(corners[:, 1] - corners[:, 0], axis=1)
    squares = b**2 / np.prod(2.0 * basis.indices + 1.0, axis=1)[:, None]
    sums = np.add.reduceat(squares, basis.offsets[:-1], axis=0)
    means = volumes @ sums / np.sum(volumes)
    return float(np.max(field_sizes(basis, b) / np.maximum(np.sqrt(means), 1e-300)))


@dataclasses.dataclass(frozen=True)
class Bounds:
    """Degrees that elements may have: those they begin with, and the highest."""

    first: int
    highest: int


def refined(
    tree: Tree,
    found: Tails,
    missed: Missed,
    amplified: Float[np.ndarray, "elements d"],
    tolerance: float,
    bounds: Bounds,
    widths: Float[np.ndarray, " d"],
) -> Tree | None:
    """The next elements, None if all are resolved.

    An axis with a large tail gets a higher degree where its coefficients fall fast enough to end
    below the tolerance by that, and is cut otherwise. Elements whose highest derivatives were
    amplified are cut, toward the end where the residual is if it is at one.
    """
    worst = np.maximum(np.max(found.tail, axis=1), missed.size)
    # Near the solution every element has to do its part.
    share = SHARE if float(np.max(worst)) > NEAR else 0.0
    marked = np.flatnonzero(worst > max(tolerance, share * float(np.max(worst))))
    degrees = tree.element_degrees.copy()
    corners = tree.corners
    cuts: Cuts = {}
    for element in marked:
        own, stretched = found.tail[element], amplified[element] > AMPLIFIED
        along = np.flatnonzero(stretched | (own > max(tolerance, SHARE * np.max(own))))
        if np.any(stretched):
            along = np.flatnonzero(stretched)
        elif not len(along):
            # Where the residual alone is too large, axes with tails of about the same size are to
            # blame for it alike.
            along = np.flatnonzero(own > ALIKE * np.max(own))
        for axis in along:
            degree = int(degrees[element, axis])
            low, high = corners[element, :, axis]
            is_narrow = (high - low) <= 2 * NARROWEST * widths[axis]
            wanted = _degree_for(
                max(own[axis], 1e-300), found.decay[element, axis], degree, tolerance
            )
            if stretched[axis] and not is_narrow:
                places = _toward(missed.center[element, axis], amplified[element, axis])
                cuts.setdefault(int(element), []).extend(
                    (int(axis), float(low + place * (high - low))) for place in places
                )
            elif wanted <= bounds.highest or (is_narrow and degree < bounds.highest):
                degrees[element, axis] = min(max(wanted, degree + 2), bounds.highest)
            elif not is_narrow:
                cuts.setdefault(int(element), []).append((int(axis), 0.5 * float(low + high)))
    if not cuts and np.array_equal(degrees, tree.element_degrees):
        return None
    return cut(tree.with_degrees(degrees), cuts)


def _toward(center: float, amplified: float) -> list[float]:
    """Where to cut an element, from 0 to 1: graded toward an end with the residual, or halved."""
    if abs(center) < AT_AN_END:
        return [0.5]
    count = min(max(math.ceil(math.log(amplified) / math.log(1 / GRADING) - 0.5), 1), MOST_CUTS)
    places = [GRADING ** (k + 1) for k in range(count)]
    return places if center < 0 else [1.0 - place for place in places]


def _degree_for(tail: float, decay: float, degree: int, tolerance: float) -> int:
    """The degree at which a tail that goes on to fall so is below the tolerance."""
    if tail <= tolerance:
        return degree + 2
    if decay >= SMOOTH:
        return 10**6
    return degree + math.ceil(math.log(0.5 * tolerance / tail) / math.log(decay))


def cut(tree: Tree, cuts: Cuts) -> Tree:
    """Elements cut at several places, one after another."""
    while cuts:
        nodes = {element: int(tree.elements[element]) for element in cuts}
        tree = tree.cut({element: places[0] for element, places in cuts.items()})
        following: Cuts = {}
        for element, places in cuts.items():
            for child in tree.children[nodes[element]]:
                low, high = tree.bounds[child]
                inside = [(a, at) for a, at in places[1:] if low[a] < at < high[a]]
                if inside:
                    following[int(tree.number[child])] = inside
        cuts = following
    return tree


def carried(
    before: ElementBasis,
    b: Float[np.ndarray, "terms fields"],
    after: ElementBasis,
    held: tuple[int, float] | None = None,
) -> Float[np.ndarray, "_new fields"]:
    """The same function in another basis; with `held`, its values at one coordinate of an axis."""
    tree = after.tree
    new = np.zeros((len(after), b.shape[1]))
    for group in groups_of(tree, (), 1):
        points = points_of(tree, group).reshape(-1, tree.dimension)
        if held is not None:
            points[:, held[0]] = held[1]
        values = before.evaluate(points, b)
        values = values.reshape(len(group.elements), *map(len, group.nodes), -1)
        for axis, (nodes, count) in enumerate(zip(group.nodes, group.shape, strict=True)):
            weights = Legendre().quadrature(len(nodes))[1]
            table = Legendre().table(nodes, count) * (2.0 * np.arange(count) + 1.0)
            analysis = (weights[:, None] * table).T
            values = np.moveaxis(np.tensordot(values, analysis, axes=(1 + axis, 1)), -1, 1 + axis)
        rows = after.offsets[group.elements][:, None] + np.arange(math.prod(group.shape))
        new[rows.ravel()] = values.reshape(-1, b.shape[1])
    return new


def num_unknowns(tree: Tree, num_fields: int) -> int:
    return int(np.sum(np.prod(tree.element_degrees + 1, axis=1))) * num_fields


def shown(degrees: Int[np.ndarray, "elements d"]) -> str:
    """Degrees in words, `8 to 16`."""
    low, high = int(np.min(degrees)), int(np.max(degrees))
    return str(low) if low == high else f"{low} to {high}"
