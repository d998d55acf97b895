"""Integrals of a solution over its domain and along boundaries: means, fluxes, forces.

The domain is cut into cells on which what is integrated is smooth: elements, pieces of a box,
strips of a shape of the plane, arcs of its boundary. Each cell gets more nodes until its integral
no longer changes. In four and more dimensions, and on bodies, there are many points with equal
weights.
"""

import functools
import itertools
import warnings
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np
import scipy.special
from jaxtyping import Float, Int

from pann.arguments import call_by_name, check_arguments
from pann.basis import Basis, ElementBasis, PiecewiseLegendre
from pann.domain import Box, Faces
from pann.numerics.quadrature import gauss_legendre
from pann.pde.evaluation import evaluate_derivatives
from pann.pde.fields import Field, Order, in_parts, plain_array
from pann.points import sobol, tensor_rule
from pann.shapes import Boundary, Shape
from pann.shapes.strips import cells_of, points_in, smooth_ends

if TYPE_CHECKING:
    from pann.solvers.solution import Solution

# Nodes along each direction of a cell, one after the other. Those on loops, which are equispaced,
# are no multiples of each other, or what repeats as often would be seen nowhere.
LEVELS = (8, 17, 37, 79, 163, 331, 677)
MOST_POINTS = 2_000_000
# Settled is what changes by less than this share of the integral of the absolute value.
SETTLED, UNSETTLED = 1e-13, 1e-7
# Less than this share of the largest derivative counts as this share.
CANCELLED = 1e-4
MOST_AXES = 3  # with products of rules
MANY = 2**17  # points where there are none

Points = Float[np.ndarray, "points d"]
Cells = Int[np.ndarray, " cells"]


class Nodes(NamedTuple):
    """Points with weights, the cells that they belong to, and on boundaries outward normals."""

    points: Points
    weights: Float[np.ndarray, " points"]
    cells: Int[np.ndarray, " points"]
    normals: Points | None = None


class Rule(NamedTuple):
    """How many cells there are, and their nodes for a number along each direction."""

    num_cells: int
    dimension: int
    nodes: Callable[[Cells, int], Nodes]


class Values(Field):
    """A field with known values: functions of NumPy are NumPy's own."""

    def _by_jax(self, name: str, args: Any, options: Any) -> Any:
        function = getattr(np, name, None) or getattr(scipy.special, name)
        return function(*jax.tree.map(plain_array, args), **jax.tree.map(plain_array, options))


def integrate(
    solution: "Solution",
    function: Callable[..., Any] | None,
    over: Faces | Boundary | str | None,
    times: Mapping[str, Any],
) -> Any:
    """The integral of a function over the domain, or a part of a boundary, at given times."""
    domain = solution.model.domain
    if unknown := set(times) - {domain.time}:
        named = f" but time, {domain.time}" if domain.time else ""
        raise ValueError(f"'{unknown.pop()}' cannot be given: integrals are over all axes{named}")
    if domain.time is not None and not times:
        raise ValueError(
            f"integrals are at times: give {domain.time}, integrate(..., {domain.time}="
            f"{domain.times[1]:g}) or an array of several"
        )
    where = _region(domain, over)
    normals = () if where is None else tuple(f"n{domain.names[axis]}" for axis in domain.space)
    if function is not None:
        known = dict.fromkeys([*solution.fields, *domain.names, *normals, *solution.parameters])
        check_arguments(function, known, "the function to integrate")
    if domain.time is None:
        return _integral(solution, function, where, None)
    at = np.asarray(times[domain.time], float)
    if not np.all((domain.times[0] <= at) & (at <= domain.times[1])):
        raise ValueError(f"{domain.time} must be in {list(domain.times)}, got {at.tolist()}")
    each = [_integral(solution, function, where, time) for time in at.ravel().tolist()]
    if isinstance(each[0], tuple):
        return tuple(np.reshape(some, at.shape)[()] for some in zip(*each, strict=True))
    return np.reshape(each, at.shape)[()]


def _region(domain: Box, over: Faces | Boundary | str | None) -> Faces | Boundary | None:
    if isinstance(over, str):
        if domain.shape is None:
            raise ValueError(f"over={over!r}: a box has faces, box.face('{domain.names[0]}', ...)")
        return domain.shape.boundary[over]
    if isinstance(over, Faces):
        if over.domain != domain:
            raise ValueError(f"over has faces of another box, {over.domain}")
        if any(axis == domain.time for axis, _ in over.sides):
            raise ValueError("over is a face of time; give the time instead")
    elif isinstance(over, Boundary):
        if over.shape != domain.shape:
            raise ValueError(
                f"over is a boundary of {over.shape}, and the solution lives on "
                f"{domain.shape or domain}; take parts of its own boundary"
            )
    elif over is not None:
        raise ValueError(
            f"over is a part of the boundary, its name, or None for the domain, got {over!r}"
        )
    return over


def _integral(
    solution: "Solution",
    function: Callable[..., Any] | None,
    where: Faces | Boundary | None,
    time: float | None,
) -> Any:
    domain = solution.model.domain
    is_tuple = function is None and len(solution.fields) > 1

    def values(nodes: Nodes) -> tuple[Float[np.ndarray, "parts points"], float]:
        nonlocal is_tuple
        points = nodes.points
        if time is not None:
            points = np.insert(points, domain.time_number, time, axis=1)
        given, kept = _given(solution, points, nodes.normals)
        if function is None:
            found: Any = tuple(given[name].value for name in solution.fields)
        else:
            with jax.enable_x64(True):
                found = call_by_name(function, given)
            is_tuple = isinstance(found, tuple | list)
        parts = [np.asarray(plain_array(part), float) for part in in_parts(found)]
        largest = max((float(np.max(np.abs(each))) for each in kept.values()), default=0.0)
        return np.stack([np.broadcast_to(part, len(points)) for part in parts]), largest

    totals = _settled(_rule(solution, where, time), values)
    return tuple(totals) if is_tuple else totals[0]


def _given(
    solution: "Solution", points: Points, normals: Float[np.ndarray, "points space"] | None
) -> tuple[dict[str, Any], dict[Order, np.ndarray]]:
    """Fields, coordinates, normals and parameters by name; and the derivatives asked for."""
    model, domain = solution.model, solution.model.domain
    kept: dict[Order, np.ndarray] = {}

    def get(number: int, order: Order) -> np.ndarray:
        if order not in kept:
            (kept[order],) = evaluate_derivatives(model, solution.ansatz, points, (order,))
        return kept[order][:, number]

    given: dict[str, Any] = {
        name: Values(name, domain, functools.partial(get, number))
        for number, name in enumerate(solution.fields)
    }
    given |= dict(zip(domain.names, points.T, strict=True)) | dict(solution.parameters)
    if normals is not None:
        axes = (domain.names[axis] for axis in domain.space)
        given |= {f"n{axis}": each for axis, each in zip(axes, normals.T, strict=True)}
    return given, kept


def _settled(
    rule: Rule, values: Callable[[Nodes], tuple[Float[np.ndarray, "parts points"], float]]
) -> list[float]:
    """Integrals with as many nodes in each cell as it needs."""
    left: Cells = np.arange(rule.num_cells)
    now: Any = None
    for count in LEVELS:
        if now is not None and len(left) * count**rule.dimension > MOST_POINTS:
            break
        nodes = rule.nodes(left, count)
        found, largest = values(nodes)
        if not np.all(np.isfinite(found)):
            where = nodes.points[int(np.argmin(np.isfinite(found).all(axis=0)))]
            raise ValueError(f"what is integrated is not finite at {where}")
        sums = _sums(nodes, found, rule.num_cells)
        if now is None:
            now, size = sums.copy(), _sums(nodes, abs(found), rule.num_cells).sum(axis=1)
            # Where derivatives cancel, rounding of them is left.
            size = np.maximum(size, CANCELLED * largest * nodes.weights.sum() + 1e-300)
            changes = np.full(now.shape, np.inf)
            if rule.dimension == 0:
                return [float(each) for each in now.sum(axis=1)]
            continue
        changes[:, left] = abs(sums - now)[:, left]
        now[:, left] = sums[:, left]
        left = np.flatnonzero((changes > SETTLED * size[:, None]).any(axis=0))
        if not len(left):
            break
    worst = float(np.max(changes.sum(axis=1) / size))
    if worst > UNSETTLED:
        warnings.warn(
            f"the integral still changes by {worst:.1e} of its size with more points: what is "
            "integrated is not smooth",
            stacklevel=5,
        )
    return [float(each) for each in now.sum(axis=1)]


def _sums(
    nodes: Nodes, values: Float[np.ndarray, "parts points"], num_cells: int
) -> Float[np.ndarray, "parts cells"]:
    return np.stack([np.bincount(nodes.cells, nodes.weights * each, num_cells) for each in values])


# ---- Nodes ----


def _rule(solution: "Solution", where: Faces | Boundary | None, time: float | None) -> Rule:
    domain = solution.model.domain
    if isinstance(where, Boundary):
        return _along_boundary(where)
    if isinstance(domain.shape, Shape) and where is None:
        return _over_shape(domain.shape)
    corners = _corners(solution, time)
    if where is None:
        return _over_boxes(corners)
    sides, axes = [], [domain.names[axis] for axis in domain.space]
    for axis, side in where.sides:
        number, end = axes.index(axis), where.end(axis, side)
        touching = corners[
            abs(corners[:, int(side == "upper"), number] - end)
            < 1e-12 * np.ptp(corners[:, :, number])
        ]
        sides.append((number, end, 1.0 if side == "upper" else -1.0, touching))
    return _over_faces(sides)


def _over_shape(shape: Shape) -> Rule:
    if shape.dimension > 2:
        points = sobol(shape.box.filled_by(None), MANY).coordinates
        inside = points[shape.inside(points)]
        return _equal(inside, float(np.prod(shape.box.widths)) * len(inside) / MANY)
    cells = cells_of(shape.arcs, shape.size)
    return Rule(len(cells), 2, lambda left, count: Nodes(*points_in(cells, left, count)))


def _along_boundary(boundary: Boundary) -> Rule:
    if boundary.shape.dimension > 2:
        points, normals, weights = boundary.points(MANY)
        nodes = Nodes(points, weights, np.zeros(len(points), int), normals)
        return Rule(1, 0, lambda left, count: nodes)

    def nodes_of(left: Cells, count: int) -> Nodes:
        found = []
        for number in left.tolist():
            part = boundary.parts[number]
            t, weights = smooth_ends(count)
            if part.is_closed:
                t, weights = np.arange(count) / count, np.full(count, 1 / count)
            weights = weights * np.linalg.norm(part.tangent(t), axis=1)
            found.append((part.point(t), weights, np.full(count, number), part.normal(t)))
        return Nodes(*(np.concatenate(each) for each in zip(*found, strict=True)))

    return Rule(len(boundary.parts), 1, nodes_of)


def _corners(solution: "Solution", time: float | None) -> Float[np.ndarray, "cells 2 d"]:
    """Boxes in space, lower and upper corner, on each of which the solution is smooth."""
    domain, basis = solution.model.domain, solution.model.basis
    if isinstance(basis, ElementBasis):
        corners = basis.tree.corners
        if time is not None:
            first, last = corners[:, :, domain.time_number].T
            # Of two elements that meet at this time, the earlier one.
            is_start = (time == domain.times[0]) & (first == time)
            corners = corners[is_start | (first < time) & (time <= last)]
        return corners[:, :, domain.space]
    ticks = []
    for axis in domain.space:
        name, low, width = domain.names[axis], domain.lower[axis], domain.widths[axis]
        breaks: tuple[float, ...] = ()
        if isinstance(basis, Basis) and name in basis.axes:
            family = basis.families[basis.axes.index(name)]
            breaks = family.breaks if isinstance(family, PiecewiseLegendre) else ()
        ticks.append([low, *(low + width * (each + 1) / 2 for each in breaks), domain.upper[axis]])
    pieces = itertools.product(*(itertools.pairwise(each) for each in ticks))
    return np.swapaxes(np.array(list(pieces), float), 1, 2)


def _over_boxes(corners: Float[np.ndarray, "cells 2 d"]) -> Rule:
    dimension = corners.shape[2]
    if dimension > MOST_AXES:
        low, high = corners.min(axis=(0, 1)), corners.max(axis=(0, 1))
        points = sobol(Box.from_bounds(low.tolist(), high.tolist()), MANY).coordinates
        return _equal(points, float(np.prod(high - low)))

    def nodes_of(left: Cells, count: int) -> Nodes:
        nodes, weights = gauss_legendre(count)
        unit, shares = tensor_rule([((nodes + 1) / 2, weights)] * dimension)
        low, high = corners[left, 0][:, None], corners[left, 1][:, None]
        points = (low + unit * (high - low)).reshape(-1, dimension)
        volumes = np.prod(high - low, axis=2)
        return Nodes(points, (volumes * shares).ravel(), np.repeat(left, len(unit)))

    return Rule(len(corners), dimension, nodes_of)


def _over_faces(
    sides: list[tuple[int, float, float, Float[np.ndarray, "cells 2 d"]]],
) -> Rule:
    """Faces, each by axis, coordinate, sign of its normal, and the boxes that it touches."""
    dimension = sides[0][3].shape[2]
    if dimension == 1:
        end_of_line = Nodes(np.zeros((1, 0)), np.ones(1), np.zeros(1, int))
        rules = [Rule(1, 0, lambda left, count: end_of_line)] * len(sides)
    else:
        rules = [_over_boxes(np.delete(boxes, axis, axis=2)) for axis, _, _, boxes in sides]
    first = np.cumsum([0, *(rule.num_cells for rule in rules)])

    def nodes_of(left: Cells, count: int) -> Nodes:
        found = []
        for number, (rule, (axis, end, sign, _)) in enumerate(zip(rules, sides, strict=True)):
            own = left[(first[number] <= left) & (left < first[number + 1])] - first[number]
            if len(own):
                points, weights, cells, _ = rule.nodes(own, count)
                normals = np.tile(sign * np.eye(dimension)[axis], (len(points), 1))
                points = np.insert(points, axis, end, axis=1)
                found.append((points, weights, cells + first[number], normals))
        return Nodes(*(np.concatenate(each) for each in zip(*found, strict=True)))

    return Rule(int(first[-1]), rules[0].dimension, nodes_of)


def _equal(points: Points, volume: float) -> Rule:
    weights = np.full(len(points), volume / len(points))
    nodes = Nodes(points, weights, np.zeros(len(points), int))
    return Rule(1, 0, lambda left, count: nodes)
