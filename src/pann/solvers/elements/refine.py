"""Which elements are not resolved, along which axes, and what to do: raise the degree, or cut."""

import dataclasses
import functools
import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from pann.basis import ElementBasis, Legendre, Tree
from pann.solvers.elements.curves import Divided
from pann.solvers.elements.rows import Missed, coefficients_of, groups_of, inner_table, points_of

# Coefficients that fall off to less than this factor per degree are those of a smooth function.
SMOOTH = 0.75
# The decay that coefficients on one side of a curve are taken to have.
DECAY_ON_SIDES = 0.5
# A cut that leaves elements narrower than this, relative to the domain, is not made.
NARROWEST = 1e-9
# Of the largest tail: elements below it wait, for it may have caused theirs.
SHARE, NEAR = 0.02, 1e-3
ALIKE = 0.1
# A coefficient of degree p leaves a residual of at most its size times this power of p.
CAUSED = 4
# Highest derivatives amplified by more than this say that an element is too wide for its layers.
AMPLIFIED = 1.01
# A residual whose middle is so far out, on (-1, 1), is at an end; cuts toward it are graded so.
AT_AN_END, GRADING, MOST_CUTS = 0.5, 0.25, 3
# In a corner where two layers meet, the middle of both is half as far out along either axis.
AT_TWO_ENDS = 0.3
# One that lies within so much of an end, of the width 2, is cut off there if that is no corner.
CUT_OFF = 0.5
# It is at a point, where its squares are no farther from their middle than this.
AT_A_POINT = 0.56
# Where cuts lower the residual of an element less than this power of its width, the solution is not
# smooth in it.
ROUGH = 2.0
# From this share of the domain on the size of a field on an element counts fully.
COUNTS_FULLY = 1e-4


class Cut(NamedTuple):
    """A cut across an axis, of all that comes from an element, or of what is `near` a point."""

    axis: int
    at: float
    near: tuple[float, ...] | None = None


# By element, one after another.
Cuts = dict[int, list[Cut]]


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
    """By the coefficients of every element, each field relative to its size.

    Polynomials on a part of their box may be anything beyond it, so that their coefficients say
    little: there `missed`, the residual, takes the place of the tail.
    """
    tree = basis.tree
    d = tree.dimension
    tail, decay = np.zeros((len(basis.sizes), d)), np.zeros((len(basis.sizes), d))
    sizes = field_sizes(basis, b)
    for group in groups_of(tree, (), 1):
        own = coefficients_of(basis, group, b)
        own = own / np.expand_dims(sizes[group.elements], tuple(range(1, own.ndim - 1)))
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
    is_side = basis.is_partial
    tail[is_side], decay[is_side] = missed[is_side, None], DECAY_ON_SIDES
    return Tails(tail, decay)


@dataclasses.dataclass(frozen=True, eq=False)
class Measured:
    """What a round left on each box: tails, residual, by how much derivatives were amplified.

    `rough` are points where the solution is not smooth, `is_point` has the boxes with such a point
    at a corner. What is left near them counts with `weights` below 1.
    """

    found: Tails
    missed: Missed
    amplified: Float[np.ndarray, "boxes d"]
    rough: Float[np.ndarray, "points d"]
    is_point: Bool[np.ndarray, " boxes"]
    weights: Float[np.ndarray, " boxes"]

    @functools.cached_property
    def sizes(self) -> Float[np.ndarray, " boxes"]:
        """The largest tail or residual of each box."""
        return np.maximum(np.max(self.found.tail, axis=1), self.missed.size)

    @property
    def is_along(self) -> Bool[np.ndarray, "boxes d"]:
        """Along which axes the coefficients are large: across a layer, not along it."""
        return self.found.tail >= ALIKE * np.max(self.found.tail, axis=1, keepdims=True)

    @property
    def counted(self) -> Float[np.ndarray, " boxes"]:
        return self.weights * self.sizes

    @property
    def worst(self) -> float:
        return float(np.max(self.counted))

    def influences(self, tree: Tree, tolerance: float, order: int) -> Float[np.ndarray, " boxes"]:
        """What the residual on boxes that are not resolved may do elsewhere, as a source would.

        A source f on a box of width h and volume V, f = h^-order in units of u, adds about f V.
        """
        low, high = tree.corners.transpose(1, 0, 2)
        narrow = np.max(np.subtract(tree.upper, tree.lower) / (high - low), axis=1)
        effect = self.missed.size * narrow**order * _shares(tree)
        return np.where(self.sizes > tolerance, effect, 0.0)

    def is_left_out(self, tolerance: float) -> Bool[np.ndarray, " boxes"]:
        """Which boxes are not resolved, and yet do not count."""
        return (self.counted <= tolerance) & (self.sizes > tolerance)


def measured(
    divided: Divided,
    found: Tails,
    missed: Missed,
    amplified: Float[np.ndarray, "elements d"],
) -> Measured:
    """For the boxes whose sides elements are the figures of the worse side."""
    if len(divided.tree.curves):
        largest = lambda values: _largest(values, divided.boxes)
        order = np.argsort(missed.size, kind="stable")
        center, spread = np.zeros((2, np.max(divided.boxes) + 1, missed.center.shape[1]))
        center[divided.boxes[order]] = missed.center[order]
        spread[divided.boxes[order]] = missed.spread[order]
        found = Tails(largest(found.tail), largest(found.decay))
        missed, amplified = Missed(largest(missed.size), center, spread), largest(amplified)
    count, dimension = amplified.shape
    none, all_alike = np.zeros(count, bool), np.ones(count)
    return Measured(found, missed, amplified, np.zeros((0, dimension)), none, all_alike)


def compared_with(
    now: Measured, tree: Tree, last: Measured, last_tree: Tree, tolerance: float
) -> Measured:
    """With the points where the solution is not smooth, such as corners.

    There cuts do not lower the residual, however small the element. Its share of the domain gets
    smaller, and that of all that is no farther from the point than elements about it, to which the
    error leaks: they count by the root of that share, as in l2.
    """
    parents = last_tree.locate(tree.corners.mean(axis=1))
    shares = _shares(tree)
    narrowed = (shares / _shares(last_tree)[parents]) ** (1.0 / tree.dimension)
    is_cut, is_wide = narrowed < 0.9, np.any(now.amplified > AMPLIFIED, axis=1)
    is_rough = is_cut & ~is_wide & (now.sizes > narrowed**ROUGH * last.sizes[parents])
    away, spread = 1.0 - np.abs(now.missed.center), now.missed.spread
    is_near = (away < AT_AN_END) & (spread < AT_A_POINT) & (away < spread)
    # Along a layer the coefficients across it alone are large.
    is_alike = np.min(now.found.tail, axis=1) > ALIKE * np.max(now.found.tail, axis=1)
    is_point = is_rough & is_alike & np.all(is_near, axis=1)
    at_upper = (now.missed.center[is_point] > 0).astype(int)
    low, high = tree.corners[is_point].transpose(1, 0, 2)
    rough = np.unique(np.concatenate([last.rough, np.where(at_upper, high, low)]), axis=0)
    low, high = tree.corners.transpose(1, 0, 2)
    apart = np.abs(rough[:, None] - np.clip(rough[:, None], low, high))
    # What looked so on wide elements may be smooth.
    is_still = np.any(np.all(apart == 0, axis=2) & (now.sizes > tolerance), axis=1)
    rough, apart = rough[is_still], apart[is_still]
    widths = np.subtract(tree.upper, tree.lower)
    reach = np.min(np.max((apart + (high - low)) / widths, axis=2), axis=0, initial=1.0)
    weights = reach ** (tree.dimension / 2)
    return dataclasses.replace(now, rough=rough, is_point=is_point, weights=weights)


def _shares(tree: Tree) -> Float[np.ndarray, " elements"]:
    """The volume of each element as a fraction of the whole."""
    corners = tree.corners
    volumes = np.prod(corners[:, 1] - corners[:, 0], axis=1)
    return volumes / np.sum(volumes)


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
) -> Float[np.ndarray, "elements fields"]:
    """The root mean square of each field on an element, or overall where that is larger.

    Overall it is the largest on any element, where small ones count by their share: a pressure that
    is infinite in a corner would otherwise be as large as the elements there are small.
    """
    squares = _mean_squares(basis, b)
    weights = np.minimum(1.0, _shares(basis.tree) / COUNTS_FULLY)
    overall = np.max(weights[:, None] * squares, axis=0)
    return np.sqrt(np.maximum(squares, np.maximum(overall, 1e-300)))


def relative_size(
    basis: ElementBasis,
    step: Float[np.ndarray, "terms fields"],
    b: Float[np.ndarray, "terms fields"],
) -> float:
    """The root mean square of a step relative to the fields, on the element where it is largest.

    Over all elements a pressure that is infinite in a corner would hide the flow.
    """
    return float(np.sqrt(np.max(_mean_squares(basis, step) / field_sizes(basis, b) ** 2)))


def unevenness(basis: ElementBasis, b: Float[np.ndarray, "terms fields"]) -> float:
    """The size of a field overall over its root mean square on the whole domain."""
    overall = np.min(field_sizes(basis, b), axis=0)
    means = _shares(basis.tree) @ _mean_squares(basis, b)
    return float(np.max(overall / np.maximum(np.sqrt(means), 1e-300)))


def _mean_squares(
    basis: ElementBasis, b: Float[np.ndarray, "terms fields"]
) -> Float[np.ndarray, "elements fields"]:
    squares = b**2 / np.prod(2.0 * basis.indices + 1.0, axis=1)[:, None]
    out = np.zeros((len(basis.sizes), b.shape[1]))
    # Elements outside of the domain have nothing.
    full = np.flatnonzero(basis.sizes)
    out[full] = np.add.reduceat(squares, basis.offsets[full], axis=0)
    if basis.cells is not None:
        for element in np.flatnonzero(basis.is_partial).tolist():
            own = b[basis.offsets[element] : basis.offsets[element + 1]]
            table, weights = inner_table(basis, element)
            out[element] = weights @ (table @ own) ** 2
    return out


@dataclasses.dataclass(frozen=True)
class Bounds:
    """Degrees that elements may have: those they begin with, and the highest."""

    first: int
    highest: int


def refined(
    tree: Tree,
    now: Measured,
    tolerance: float,
    bounds: Bounds,
    widths: Float[np.ndarray, " d"],
    chosen: Bool[np.ndarray, " boxes"] | None = None,
) -> Tree | None:
    """The next elements, None if all are resolved; those `chosen` are refined anyhow.

    An axis with a large tail gets a higher degree where its coefficients fall fast enough to end
    below the tolerance by that, and is cut otherwise. Elements whose highest derivatives were
    amplified are cut, toward the end where the residual is if it is at one.
    """
    # Near the solution every element has to do its part.
    worst = float(np.max(now.counted[~now.is_point], initial=0.0))
    is_large = now.counted > max(tolerance, SHARE * worst if worst > NEAR else 0.0)
    is_large = is_large if chosen is None else chosen
    # A residual that the last coefficients cannot have left comes from others, which go first.
    own = np.max(now.found.tail * (tree.element_degrees + 1.0) ** CAUSED, axis=1)
    is_own = is_large & (own > now.missed.size)
    if np.any(is_own) and not np.any(now.amplified[is_large] > AMPLIFIED):
        is_large = is_own
    degrees = tree.element_degrees.copy()
    cuts: Cuts = {}
    for element in np.flatnonzero(is_large).tolist():
        corners = tree.corners[element]
        is_narrow = (corners[1] - corners[0]) <= 2 * NARROWEST * widths
        to_cut = []
        for axis in _axes_to_blame(now, element, tolerance):
            degree, wanted = int(degrees[element, axis]), 10**6
            is_wide = now.amplified[element, axis] > AMPLIFIED
            if not is_wide:
                tail, decay = now.found.tail[element, axis], now.found.decay[element, axis]
                wanted = _degree_for(max(tail, 1e-300), decay, degree, tolerance)
            if wanted <= bounds.highest or (is_narrow[axis] and degree < bounds.highest):
                degrees[element, axis] = min(max(wanted, degree + 2), bounds.highest)
            elif not is_narrow[axis]:
                to_cut.append(axis)
        if to_cut:
            cuts[element] = _cuts(now, element, corners, to_cut)
    if not cuts and np.array_equal(degrees, tree.element_degrees):
        return None
    return cut(tree.with_degrees(degrees), cuts)


def _axes_to_blame(now: Measured, element: int, tolerance: float) -> list[int]:
    """The axes along which an element is to be refined."""
    own, is_wide = now.found.tail[element], now.amplified[element] > AMPLIFIED
    if np.any(is_wide):
        is_across = is_wide & now.is_along[element]
        return np.flatnonzero(is_across if np.any(is_across) else is_wide).tolist()
    large = np.flatnonzero(own > max(tolerance, SHARE * np.max(own)))
    # Where the residual alone is too large, axes with tails of about the same size are to blame for
    # it alike.
    return (large if len(large) else np.flatnonzero(own > ALIKE * np.max(own))).tolist()


def _cuts(
    now: Measured, element: int, corners: Float[np.ndarray, "2 d"], axes: list[int]
) -> list[Cut]:
    """Where to cut an element: in the middle, or toward an end or a point with the residual."""
    low, high = corners
    center, wide = now.missed.center[element], now.amplified[element]
    at_end, is_point = np.abs(center) > AT_AN_END, now.is_point[element]
    reach = 1.0 - np.abs(center) + now.missed.spread[element]
    is_corner = np.sum((wide > AMPLIFIED) & (np.abs(center) > AT_TWO_ENDS)) > 1
    far_out = AT_TWO_ENDS if is_corner else AT_AN_END
    places = {}
    for axis in axes:
        inside = [0.5]
        if is_point:
            inside = _toward(center[axis], MOST_CUTS)
        elif wide[axis] > AMPLIFIED and abs(center[axis]) > far_out:
            count = math.ceil(math.log(wide[axis]) / math.log(1 / GRADING) - 0.5)
            inside = _toward(center[axis], min(max(count, 1), MOST_CUTS))
        elif not np.all(at_end) and reach[axis] < CUT_OFF:
            count = math.floor(math.log(0.5 * reach[axis]) / math.log(GRADING))
            inside = _toward(center[axis], min(count, MOST_CUTS))
        places[axis] = [float(low[axis] + place * (high - low)[axis]) for place in inside]
    if not is_point:
        return [Cut(axis, at) for axis, own in places.items() for at in own]
    point = tuple(np.where(center < 0, low, high).tolist())
    return [Cut(axis, places[axis][k], point) for k in range(MOST_CUTS) for axis in axes]


def _toward(center: float, count: int) -> list[float]:
    """Where to cut, from 0 to 1, ever nearer to the end where the middle of the residual is."""
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
        tree = tree.cut({element: own[0][:2] for element, own in cuts.items()})
        following: Cuts = {}
        for element, own in cuts.items():
            for child in tree.children[nodes[element]]:
                if inside := [each for each in own[1:] if _concerns(each, *tree.bounds[child])]:
                    following[int(tree.number[child])] = inside
        cuts = following
    return tree


def _concerns(cut: Cut, low: np.ndarray, high: np.ndarray) -> bool:
    is_near = cut.near is None or bool(np.all((low <= cut.near) & (cut.near <= high)))
    return is_near and bool(low[cut.axis] < cut.at < high[cut.axis])


def carried(
    before: ElementBasis,
    b: Float[np.ndarray, "terms fields"],
    after: ElementBasis,
    held: tuple[int, float] | None = None,
) -> Float[np.ndarray, "_new fields"]:
    """The same function in another basis; with `held`, its values at one coordinate of an axis."""
    tree = after.tree
    # Elements that the boundary of a shape cuts are polynomials beyond it, too.
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
    return int(np.sum(num_unknowns_each(tree, num_fields)))


def num_unknowns_each(tree: Tree, num_fields: int) -> Int[np.ndarray, " elements"]:
    return np.prod(tree.element_degrees + 1, axis=1) * num_fields


def shown(degrees: Int[np.ndarray, "elements d"]) -> str:
    """Degrees in words, `8 to 16`."""
    degrees = degrees[np.all(degrees >= 0, axis=1)]
    low, high = int(np.min(degrees)), int(np.max(degrees))
    return str(low) if low == high else f"{low} to {high}"
