"""The rows of an equation on elements: equation and conditions on each, and what ties neighbors.

Rows are measured in units of u. Those of the equation are divided by their largest coefficient in
the coordinates of the element, which go from -1 to 1; a derivative across a border counts as in
these coordinates. So an element of any size, under an equation of any scale, has rows of size 1.
"""

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np
import scipy.linalg
from jaxtyping import Array, Bool, Float, Int

from pann.basis import ElementBasis, Legendre, Tree
from pann.basis.cells import OFF, Cells
from pann.domain import SIDES, Box
from pann.network.jets import Laplacian
from pann.numerics.tree_least_squares import Link, Part, Solved, solve
from pann.pde.collocation import Block, Placed, make_block
from pann.pde.conditions import (
    Data,
    Dirichlet,
    Initial,
    Integral,
    Interface,
    Neumann,
    Periodic,
    Robin,
    is_same_plane,
    values_at,
)
from pann.pde.placing import OnFaces, place_conditions, place_inside
from pann.pde.problem import Problem
from pann.shapes import Boundary
from pann.shapes import Part as Arc
from pann.solvers.elements.curves import bounds_of_side, parts_of_border, points_on
from pann.solvers.gradual import gradual

# Gauss points along an axis beyond those of the degree: products of unknowns are resolved.
MORE_POINTS = 2
# Conditions and what ties elements count more than the equation: while u is not resolved, the
# residual of the equation is large.
TIES = 10.0
# A polynomial of degree p is taken to resolve exponentials exp(c p x) on (-1, 1) with this c.
RESOLVED_EXPONENT = 0.5
# On one side of a curve polynomials nearly depend on each other: their coefficients have rows of
# their own with this weight.
TINY = 1e-11
# Steps that find the function which the rows see least.
INVERSE_STEPS = 5
# Sides of a curve have so many times the points along each axis, and so have their borders.
MORE_ON_SIDES = 2
# Points at which the equation is computed at a time, by one program for all numbers of points.
CHUNK = 4_096
# A coordinate this near to a border, relative to the width of the domain, lies on it.
ON_BORDER = 1e-12

AtPoints = Dirichlet | Neumann | Robin | Initial | Data

Order = tuple[int, ...]
Coefficients = Float[np.ndarray, "terms fields"]


@dataclasses.dataclass(frozen=True, eq=False)
class _Group:
    """Elements of the same degrees: their numbers, and tables at their points for each order."""

    elements: Int[np.ndarray, " elements"]
    shape: tuple[int, ...]
    nodes: tuple[Float[np.ndarray, " _nodes"], ...]
    weights: Float[np.ndarray, "elements points"]  # zero on the other side of a curve
    factors: dict[Order, list[Float[np.ndarray, "_nodes _functions"]]]


@dataclasses.dataclass(frozen=True, eq=False)
class _OnBorder:
    """Rows of a condition on one element: tables by order, target, weight of each point."""

    element: int
    rows: Float[np.ndarray, "rows columns"]
    target: Float[np.ndarray, " rows"]


@dataclasses.dataclass(frozen=True, eq=False)
class Adapted:
    """Other functions on an element, of which only some are seen at each of its borders.

    Along an axis their coefficients are `back` times those of Legendre polynomials, and these
    `change` times their coefficients. The first functions vanish at both ends with all derivatives
    that neighbors share, and all but one of them have mean zero; each of the last has one of these
    derivatives, 1 at one end, and mean zero.
    """

    change: tuple[Float[np.ndarray, "_functions _functions"], ...]
    back: tuple[Float[np.ndarray, "_functions _functions"], ...]

    def table(self, factors: Sequence[Float[np.ndarray, "points _functions"]]) -> np.ndarray:
        """The functions at points, from Legendre polynomials along each axis."""
        first, *others = (
            factor @ change for factor, change in zip(factors, self.change, strict=True)
        )
        for factor in others:
            first = (first[:, :, None] * factor[:, None, :]).reshape(len(first), -1)
        return first

    def on_grid(self, factors: Sequence[Float[np.ndarray, "_nodes _functions"]]) -> np.ndarray:
        """`table` at all points of a grid, from those along each axis."""
        changed = (factor @ change for factor, change in zip(factors, self.change, strict=True))
        return functools.reduce(np.kron, changed)

    def to_legendre(self, own: Float[np.ndarray, " terms"]) -> Float[np.ndarray, " terms"]:
        return _along_axes(own, self.change)

    def transposed(self, values: Float[np.ndarray, " terms"]) -> Float[np.ndarray, " terms"]:
        return _along_axes(values, [change.T for change in self.change])

    def from_legendre(self, c: Float[np.ndarray, " terms"]) -> Float[np.ndarray, " terms"]:
        return _along_axes(c, self.back)


def _along_axes(
    values: Float[np.ndarray, " terms"], matrices: Sequence[Float[np.ndarray, "_new _old"]]
) -> Float[np.ndarray, " terms"]:
    values = values.reshape([len(matrix) for matrix in matrices])
    for axis, matrix in enumerate(matrices):
        values = np.moveaxis(np.tensordot(values, matrix, axes=(axis, 1)), -1, axis)
    return values.ravel()


@functools.lru_cache(maxsize=256)
def adapted(degrees: tuple[int, ...], orders: tuple[int, ...]) -> Adapted:
    """For elements of these degrees, tied in so many derivatives (from 0) across each axis."""
    pairs = [
        _adapted_axis(degree + 1, order) for degree, order in zip(degrees, orders, strict=True)
    ]
    return Adapted(tuple(change for change, _ in pairs), tuple(back for _, back in pairs))


@functools.lru_cache(maxsize=256)
def _adapted_axis(size: int, order: int) -> tuple[np.ndarray, np.ndarray]:
    if 2 * order >= size:
        return np.eye(size), np.eye(size)
    at = np.array([-1.0, 1.0])
    ends = [Legendre().table(at, size, times) for times in range(order)]
    seen = np.concatenate(ends) if order else np.zeros((0, size))
    whole = np.linalg.qr(seen.T, mode="complete")[0] if order else np.eye(size)
    inner = whole[:, 2 * order :]
    # The mean is the coefficient of degree 0: turn the inner functions so that one has it all.
    reflected = np.linalg.qr(inner[:1].T, mode="complete")[0]
    inner = inner @ reflected
    outer = np.linalg.pinv(seen) if order else np.zeros((size, 0))
    outer = outer - inner[:, :1] * (outer[:1] / inner[0, 0])
    change = np.concatenate([inner, outer], axis=1)
    return change, np.linalg.inv(change)


@dataclasses.dataclass(frozen=True, eq=False)
class Linearized:
    """Rows and residuals at some coefficients.

    `amplified` has the factor of the highest derivatives along each axis.
    """

    rows: list[Float[np.ndarray, "_rows _columns"]]
    residuals: list[Float[np.ndarray, " _rows"]]
    amplified: Float[np.ndarray, "elements d"]


@dataclasses.dataclass(frozen=True, eq=False)
class Missed:
    """The residual on each element in units of u; the middle of its squares, and how far they are
    from it, in coordinates from -1 to 1.
    """

    size: Float[np.ndarray, " elements"]
    center: Float[np.ndarray, "elements d"]
    spread: Float[np.ndarray, "elements d"]


class ElementSystem:
    """The least-squares problem of an equation on the elements of a basis.

    The basis may cover a window of time alone; `before` is the basis and the coefficients of the
    window before it, whose end is then the initial state. Of all nonlinear terms a `fraction`
    counts.
    """

    fraction = 1.0

    def __init__(
        self,
        problem: Problem,
        basis: ElementBasis,
        ties: float = TIES,
        before: tuple[ElementBasis, Coefficients] | None = None,
    ):
        self.problem, self.basis, self.ties, self.before = problem, basis, ties, before
        self.num_fields = len(problem.fields)
        self.orders: tuple[Order, ...] = problem.asked.orders
        corners = basis.tree.corners
        self.slopes = 2.0 / (corners[:, 1] - corners[:, 0])  # d reference / d coordinate

    @property
    def is_side(self) -> Bool[np.ndarray, " elements"]:
        """Which elements are one side of a curve, or cut by the boundary."""
        return self.basis.is_partial

    # ---- The equation inside ----

    @functools.cached_property
    def groups(self) -> list[_Group]:
        return groups_of(self.basis.tree, self.orders, MORE_POINTS, inside=self.basis)

    @functools.cached_property
    def points(self) -> list[Float[np.ndarray, "_elements _points d"]]:
        """The points of each group."""
        return [points_of(self.basis.tree, group) for group in self.groups]

    def channels(
        self, group: _Group, b: Coefficients
    ) -> Float[np.ndarray, "orders elements points fields"]:
        """All derivatives at the points of a group."""
        own = coefficients_of(self.basis, group, b)
        found = []
        for order, scale in zip(self.orders, self._scales(group), strict=True):
            values = own
            for axis, factor in enumerate(group.factors[order]):
                values = np.moveaxis(np.tensordot(values, factor, axes=(1 + axis, 1)), -1, 1 + axis)
            found.append(values.reshape(len(own), -1, self.num_fields) * scale[:, None, None])
        return np.stack(found)

    def equation(
        self, b: Coefficients
    ) -> tuple[list[np.ndarray], list[np.ndarray], list[np.ndarray]]:
        """For each group the channels, the residuals, and their derivatives by all channels."""
        flat_points = np.concatenate([p.reshape(-1, p.shape[-1]) for p in self.points])
        channels = [self.channels(group, b) for group in self.groups]
        flat = np.concatenate([c.reshape(len(c), -1, self.num_fields) for c in channels], axis=1)
        residual, slopes = evaluate_equation(self.problem, flat_points, flat, self.fraction)
        found, by_channels, start = [], [], 0
        for group in self.groups:
            count, each = group.weights.shape
            end = start + count * each
            # On the other side of a curve they are not asked for, and need not be numbers.
            counts = (group.weights > 0)[..., None]
            own = slopes[:, :, start:end].reshape(*slopes.shape[:2], count, each, residual.shape[1])
            found.append(np.where(counts, residual[start:end].reshape(count, each, -1), 0.0))
            by_channels.append(np.where(counts, own, 0.0))
            start = end
        return channels, found, by_channels

    def linearize(
        self, b: Coefficients, smoothed: Bool[np.ndarray, "elements d"] | None = None
    ) -> Linearized:
        """All rows of every element at some coefficients, and their residuals.

        Along `smoothed` axes the highest derivatives are amplified to what the degrees resolve.
        """
        num_elements = len(self.basis.sizes)
        rows: list[Any] = [None] * num_elements
        residuals: list[Any] = [None] * num_elements
        amplified = np.ones((num_elements, self.basis.tree.dimension))
        channels, found, by_channels = self.equation(b)
        for group, values, residual, slopes in zip(
            self.groups, channels, found, by_channels, strict=True
        ):
            if smoothed is not None:
                own = smoothed[group.elements]
                factors, amplified[group.elements] = self.amplification(group, slopes, own)
                residual = residual + np.einsum(
                    "ofe,oepf,ofepr->epr", factors - 1.0, values, slopes, optimize=True
                )
                slopes = slopes * factors[..., None, None]
            # elements, points, residuals
            factor = np.sqrt(group.weights)[..., None] / self._units(group, slopes)[:, None, :]
            slopes = slopes * factor * self._scales(group)[:, None, :, None, None]
            scaled = np.moveaxis(factor * residual, 2, 1)
            count, width = scaled.shape[2], math.prod(group.shape)
            matrix = np.zeros((*scaled.shape, self.num_fields * width))
            first = int(group.elements[0])
            tables = [
                [self._adapted(first, field).on_grid(group.factors[order]) for order in self.orders]
                for field in range(self.num_fields)
            ]
            product = np.empty((count, width))
            for number, field, result in np.argwhere(np.any(slopes, axis=(2, 3))).tolist():
                own_columns = self._columns_of(first, field)
                # One by one: products of all elements would not stay in the cache.
                for place, own in enumerate(slopes[number, field, :, :, result]):
                    np.multiply(own[:, None], tables[field][number], out=product)
                    matrix[place, result, :, own_columns] += product
            matrix = matrix.reshape(len(matrix), -1, matrix.shape[3])
            for place, element in enumerate(group.elements):
                rows[element], residuals[element] = matrix[place], scaled[place].ravel()
        columns = self.columns(b)
        for element in np.flatnonzero(self.basis.tree.is_void).tolist():
            rows[element], residuals[element] = np.zeros((0, 0)), np.zeros(0)
        for element in np.flatnonzero(self.is_side).tolist():
            kept = np.any(rows[element] != 0, axis=1)
            small = self._small_rows(element)
            rows[element] = np.concatenate([rows[element][kept], small])
            residuals[element] = np.concatenate(
                [residuals[element][kept], small @ columns[element]]
            )
        for each in self.on_borders:
            element = each.element
            missed = each.rows @ columns[element] - each.target
            rows[element] = np.concatenate([rows[element], each.rows])
            residuals[element] = np.concatenate([residuals[element], missed])
        return Linearized(rows, residuals, amplified)

    def _small_rows(self, element: int) -> Float[np.ndarray, "columns columns"]:
        """Rows that keep coefficients of Legendre polynomials small, those of high degrees most."""
        degrees = self.basis.indices[self.basis.offsets[element] : self.basis.offsets[element + 1]]
        weights = TINY * np.sum(degrees, axis=1) ** 2.0
        changes = [self._adapted(element, field).change for field in range(self.num_fields)]
        return scipy.linalg.block_diag(
            *(weights[:, None] * functools.reduce(np.kron, change) for change in changes)
        )

    def _scales(self, group: _Group) -> Float[np.ndarray, "orders elements"]:
        """The derivatives by coordinates over those by the reference coordinates."""
        slopes = self.slopes[group.elements]
        return np.stack([np.prod(slopes ** np.asarray(order), axis=1) for order in self.orders])

    def _sizes(
        self, group: _Group, slopes: Float[np.ndarray, "orders fields elements points residuals"]
    ) -> Float[np.ndarray, "orders fields elements residuals"]:
        """Of the coefficients in reference coordinates, the root mean squares on each element."""
        sizes = np.sqrt(np.einsum("ep,ofepr->ofer", group.weights, slopes**2))
        return sizes * self._scales(group)[:, None, :, None]

    def _units(
        self, group: _Group, slopes: Float[np.ndarray, "orders fields elements points residuals"]
    ) -> Float[np.ndarray, "elements residuals"]:
        """The largest of them, which makes of a residual one in units of u; 1 if all are zero."""
        unit = np.max(self._sizes(group, slopes), axis=(0, 1))
        return np.where(unit > 0, unit, 1.0)

    def amplification(
        self,
        group: _Group,
        slopes: Float[np.ndarray, "orders fields elements points _residuals"],
        smoothed: Bool[np.ndarray, "elements d"],
    ) -> tuple[Float[np.ndarray, "orders fields elements"], Float[np.ndarray, "elements d"]]:
        """Factors of the highest derivatives with which the degrees of an element resolve layers.

        Also the largest along each axis, 1 along those that are not `smoothed`.

        With a_k the coefficient of the k-th derivative in reference coordinates, layers have
        exponents up to (a_j / a_k)^(1 / (k - j)), and polynomials of degree p resolve some p.
        """
        count, d = len(group.elements), len(group.shape)
        factors, by_axis = np.ones((len(self.orders), self.num_fields, count)), np.ones((count, d))
        sizes = self._sizes(group, slopes)
        for axis in range(d):
            along = [
                (order[axis], number)
                for number, order in enumerate(self.orders)
                if sum(order) == order[axis]
            ]
            top, highest = max(along, default=(0, 0))
            if top < 2 or top % 2:
                continue
            resolved = RESOLVED_EXPONENT * (group.shape[axis] - 1)
            own = sizes[highest]  # fields, elements, residuals
            has_layers = (own > 0) & smoothed[:, axis, None]
            for order, number in along:
                if order < top:
                    least = np.where(has_layers, own, np.inf) * resolved ** (top - order)
                    wanted = np.max(sizes[number] / least, axis=2)
                    factors[highest] = np.maximum(factors[highest], wanted)
            by_axis[:, axis] = np.max(factors[highest], axis=0)
        return factors, by_axis

    def missed(self, b: Coefficients) -> "Missed":
        """The residual of the equation between the points of the rows, in units of u."""
        finer = ElementSystem(self.problem, self.basis)
        finer.fraction = self.fraction
        finer.groups = groups_of(self.basis.tree, self.orders, MORE_POINTS + 3, inside=self.basis)
        num_elements, d = len(self.basis.sizes), self.basis.tree.dimension
        size, center = np.zeros(num_elements), np.zeros((num_elements, d))
        spread = np.zeros((num_elements, d))
        _, found, by_channels = finer.equation(b)
        for group, residual, slopes in zip(finer.groups, found, by_channels, strict=True):
            squares = (residual / finer._units(group, slopes)[:, None, :]) ** 2
            squares = group.weights[..., None] * squares
            size[group.elements] = np.sqrt(np.max(np.sum(squares, axis=1), axis=1))
            share = np.sum(squares, axis=2)
            share = share / np.maximum(np.sum(share, axis=1, keepdims=True), 1e-300)
            reference = np.stack(np.meshgrid(*group.nodes, indexing="ij"), axis=-1)
            reference = reference.reshape(-1, d)
            center[group.elements] = share @ reference
            off = (reference - center[group.elements, None]) ** 2
            spread[group.elements] = np.sqrt(np.einsum("ep,epd->ed", share, off))
        return Missed(size, center, spread)

    def columns(self, b: Coefficients) -> list[Float[np.ndarray, " _columns"]]:
        """The coefficients of each element's adapted functions, field by field."""
        return self._by_element(b, Adapted.from_legendre)

    def _by_element(
        self, b: Coefficients, change: Callable[[Adapted, np.ndarray], np.ndarray]
    ) -> list[Float[np.ndarray, " _columns"]]:
        """What a change of functions makes of the coefficients of each element and field."""
        fields = range(self.num_fields)
        return [
            np.concatenate([change(self._adapted(element, k), own[:, k]) for k in fields])
            for element, own in enumerate(np.split(b, self.basis.offsets[1:-1]))
        ]

    def coefficients(self, columns: Sequence[Float[np.ndarray, " _columns"]]) -> Coefficients:
        """The Legendre coefficients of all elements."""
        return np.concatenate(
            [
                np.stack(
                    [
                        self._adapted(element, field).to_legendre(each)
                        for field, each in enumerate(np.split(own, self.num_fields))
                    ],
                    axis=1,
                )
                for element, own in enumerate(columns)
            ]
        )

    def _adapted(self, element: int, field: int) -> Adapted:
        degrees = tuple(int(degree) for degree in self.basis.tree.element_degrees[element])
        return adapted(degrees, self._tied[field])

    @functools.cached_property
    def _tied(self) -> list[tuple[int, ...]]:
        """For each field, how many derivatives links may see across each axis."""
        tied = []
        for field in range(self.num_fields):
            orders = {
                axis: self.problem.highest_order(field, axis) for axis in self.problem.domain.names
            }
            for condition in self.problem.conditions:
                if not isinstance(condition, Interface | Periodic):
                    continue
                if self.problem.field_number(condition) == field:
                    order = 2 if isinstance(condition, Interface) else condition.order + 1
                    orders[condition.axis] = max(orders[condition.axis], order)
            tied.append(tuple(orders.values()))
        return tied

    def _columns_of(self, element: int, field: int) -> slice:
        """Where the functions of a field are among the columns of an element."""
        size = int(self.basis.sizes[element])
        return slice(field * size, (field + 1) * size)

    # ---- Conditions ----

    @functools.cached_property
    def on_borders(self) -> list[_OnBorder]:
        """The rows of all conditions, which are linear, element by element."""
        problem, domain = self.problem, self.basis.domain
        faces: dict[Any, Any] = {
            (axis, side): self._face_points(axis, side)
            for axis in domain.names
            if axis not in domain.periodic and domain.shape is None
            for side in SIDES
        }
        if domain.shape is not None:
            on_parts = (getattr(condition, "faces", ()) for condition in problem.conditions)
            arcs = (arc for boundary in on_parts for arc in boundary)
            faces = {arc: self._part_points(arc) for arc in arcs if isinstance(arc, Arc)}
        given = {key: points for key, (points, _, _) in faces.items()}
        kept = [c for c in problem.conditions if isinstance(c, AtPoints)]
        found: list[_OnBorder] = []
        for condition in kept:
            placed = place_conditions(
                dataclasses.replace(problem, conditions=[condition]), 1, OnFaces(given=given)
            )
            for each in placed:
                found += self._condition_rows(condition, each, faces)
        return found

    def _condition_rows(
        self, condition: AtPoints, placed: Placed, faces: dict[Any, Any]
    ) -> Iterator[_OnBorder]:
        if isinstance(condition, Data):
            elements = self.basis.tree.locate(placed.points)
            weights = np.full(len(elements), 1.0 / len(elements))
        else:
            own = getattr(condition, "faces", None) or self.problem.domain.initial
            sides = own if isinstance(own, Boundary) else own.sides
            elements = np.concatenate([faces[side][1] for side in sides])
            weights = np.concatenate([faces[side][2] for side in sides])
        count = len(placed.points)
        if isinstance(condition, Initial) and self.before is not None:
            basis, b = self.before
            order = next(each for each in placed.orders if not isinstance(each, Laplacian))
            values = basis.evaluate(placed.points, b[:, operator_field(placed)], order)
            placed = dataclasses.replace(placed, target=values[:, None])
        target = np.broadcast_to(
            placed.target.reshape(count, -1), (count, placed.target.size // count)
        )
        coefficients = operator_coefficients(placed)
        orders = [tuple(order) for order in placed.orders if not isinstance(order, Laplacian)]
        for element in np.unique(elements).tolist():
            at = np.flatnonzero(elements == element)
            slopes = self.slopes[element]
            scales = [np.prod(slopes ** np.asarray(order)) for order in orders]
            sizes = [
                np.max(np.abs(each[at]), axis=0) * scale
                for each, scale in zip(coefficients, scales, strict=True)
            ]
            unit = np.max(sizes, axis=0)
            factor = (
                self.ties
                * condition.weight
                * np.sqrt(weights[at])[:, None]
                / np.where(unit > 0, unit, 1.0)
            )
            field = operator_field(placed)
            tables = [self._table(element, field, placed.points[at], order) for order in orders]
            rows = sum(
                (factor * each[at])[:, :, None] * table[:, None, :]
                for each, table in zip(coefficients, tables, strict=True)
            )
            rows = self._in_field(rows.reshape(-1, rows.shape[2]), element, field)
            yield _OnBorder(element, rows, (factor * target[at]).ravel())

    def _in_field(self, rows: np.ndarray, element: int, field: int) -> np.ndarray:
        """Rows of one field among the columns of all."""
        out = np.zeros((len(rows), rows.shape[1] * self.num_fields))
        out[:, self._columns_of(element, field)] = rows
        return out

    def _table(
        self, element: int, field: int, points: Float[np.ndarray, "points d"], order: Order
    ) -> Float[np.ndarray, "points terms"]:
        return self._adapted(element, field).table(self.basis.tree.factors(element, points, order))

    def _part_points(
        self, part: Arc
    ) -> tuple[Any, Int[np.ndarray, " points"], Float[np.ndarray, " points"]]:
        """Gauss points on an arc of a shape with normals, their elements and weights."""
        cells, tree = self.basis.cells, self.basis.tree
        assert cells is not None
        parameters, elements, weights = [], [], []
        for piece in cells.pieces_of(part):
            if tree.is_void[piece.element]:
                continue
            count = MORE_ON_SIDES * int(np.max(tree.element_degrees[piece.element])) + MORE_POINTS
            nodes, own = Legendre().quadrature(count)
            parameters.append(piece.start + 0.5 * (nodes + 1.0) * (piece.stop - piece.start))
            elements.append(np.full(count, piece.element))
            weights.append(own)
        t = np.concatenate(parameters)
        points = part.point(t), part.normal(t)
        return points, np.concatenate(elements), np.concatenate(weights)

    def _face_points(
        self, axis: str, side: str
    ) -> tuple[np.ndarray, Int[np.ndarray, " points"], Float[np.ndarray, " points"]]:
        """Gauss points of the elements on a face of the domain, their elements and weights."""
        domain, tree = self.basis.domain, self.basis.tree
        index = domain.names.index(axis)
        end = (domain.lower if side == "lower" else domain.upper)[index]
        corners = tree.corners
        near = np.abs(corners[:, SIDES.index(side), index] - end)
        points, elements, weights = [], [], []
        for element in np.flatnonzero(near <= ON_BORDER * domain.widths[index]).tolist():
            low, high = corners[element]
            counts = tree.element_degrees[element]
            counts = counts * (MORE_ON_SIDES if self.is_side[element] else 1) + MORE_POINTS
            own, own_weights = points_on_border(
                self.basis, {element: end}, low, high, counts, index
            )
            points.append(own)
            weights.append(own_weights)
            elements.append(np.full(len(own), element))
        return np.concatenate(points), np.concatenate(elements), np.concatenate(weights)

    # ---- What ties neighbors ----

    @functools.cached_property
    def links(self) -> tuple[list[dict[int, np.ndarray]], dict[int, Link]]:
        """For each element its columns of the links that it is in, and the links."""
        of_elements: list[dict[int, np.ndarray]] = [{} for _ in self.basis.sizes]
        links: dict[int, Link] = {}
        for number, (axis, low, high, seam) in enumerate(self._borders()):
            rows, right = self._ties(axis, low, high, seam)
            if rows is None:
                continue
            first, second = rows
            if low == high:
                of_elements[low][number] = first + second
                links[number] = Link(1, right)
                continue
            of_elements[low][number], of_elements[high][number] = first, second
            links[number] = Link(2, right)
        free = 1 + max(links, default=0)
        for number, (node, low, high) in enumerate(curve_neighbors(self.basis.tree), free):
            tied = self._ties_on_curve(node, low, high)
            if tied is not None:
                of_elements[low][number], of_elements[high][number] = tied
                links[number] = Link(2, np.zeros(len(tied[0])))
        for condition in self.problem.conditions:
            if isinstance(condition, Integral):
                number = -1 - len(links)
                for element in range(len(of_elements)):
                    of_elements[element][number] = self._integral_row(element, condition)
                value = float(np.asarray(condition.value))
                size = float(np.prod(self.problem.domain.widths))
                links[number] = Link(
                    len(of_elements), np.array([self.ties * condition.weight * value / size])
                )
        return of_elements, links

    def _borders(self) -> Iterator[tuple[int, int, int, bool]]:
        """Axis, lower and upper neighbor of each border, and whether it is where an axis closes."""
        domain, tree = self.problem.domain, self.basis.tree
        void = tree.is_void
        for axis, low, high in neighbors(tree):
            if not void[low] and not void[high]:
                yield axis, low, high, False
        joined = {c.axis for c in self.problem.conditions if isinstance(c, Periodic)}
        for name in {*domain.periodic, *joined}:
            index = domain.names.index(name)
            for low, high in seam_neighbors(tree, index):
                yield index, low, high, True

    def _ties(
        self, axis: int, low: int, high: int, seam: bool
    ) -> tuple[tuple[np.ndarray, np.ndarray] | None, np.ndarray]:
        """Rows of value and slopes on either side of a border, upper less lower."""
        domain, tree = self.problem.domain, self.basis.tree
        name = domain.names[axis]
        corners, degrees = tree.corners, tree.element_degrees
        lower = np.maximum(corners[low, 0], corners[high, 0])
        upper = np.minimum(corners[low, 1], corners[high, 1])
        at_low, at_high = corners[low, 1, axis], corners[high, 0, axis]
        times = MORE_ON_SIDES if self.is_side[low] or self.is_side[high] else 1
        counts = times * np.maximum(degrees[low], degrees[high]) + 1
        coordinates = {high: at_high, low: at_low}
        on_low, weights = points_on_border(self.basis, coordinates, lower, upper, counts, axis)
        on_low[:, axis] = at_low
        on_high = on_low.copy()
        on_high[:, axis] = at_high
        if not len(weights):
            return None, np.zeros(0)
        unit = 1.0 / math.sqrt(self.slopes[low, axis] * self.slopes[high, axis])
        first, second, right = [], [], []
        for field in range(self.num_fields):
            interface = None if seam else self._interface(field, name, float(at_low))
            for times in range(self._continuity(field, name, seam, interface)):
                order = tuple(times if i == axis else 0 for i in range(domain.dimension))
                weight = 1.0 if interface is None else interface.weight
                factor = (self.ties * weight * np.sqrt(weights) * unit**times)[:, None]
                of_low, of_high = 1.0, 1.0
                jump: Any = np.zeros(len(on_low))
                if interface is not None:
                    of_low, of_high, jump = interface_factors(
                        interface, domain, on_low, axis, times
                    )
                rows = of_low * self._table(low, field, on_low, order)
                first.append(self._in_field(_without_rounding(-factor * rows), low, field))
                rows = of_high * self._table(high, field, on_high, order)
                second.append(self._in_field(_without_rounding(factor * rows), high, field))
                right.append(factor[:, 0] * jump)
        if not first:
            return None, np.zeros(0)
        return (np.concatenate(first), np.concatenate(second)), np.concatenate(right)

    def _ties_on_curve(
        self, node: int, low: int, high: int
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """Rows of what stays the same across a curve, on its upper side less on its lower one.

        Of a field that the equation differentiates along all axes these are the value and the
        derivatives along the normal below its order; of others, such as the parts of a flux, what
        the equations differentiate of them together: p n_x + q n_y for p.x + q.y, and nothing of
        what u.t + a u.x carries along the curve.
        """
        tree = self.basis.tree
        count = MORE_ON_SIDES * int(np.max(tree.element_degrees[[low, high]])) + MORE_POINTS
        points, normals, weights = points_on(tree, node, count)
        inside = tree.is_inside_but(low, node, points) & tree.is_inside_but(high, node, points)
        if not np.any(inside):
            return None
        points, normals, weights = points[inside], normals[inside], weights[inside]
        unit = float(np.prod(self.slopes[low])) ** (-1.0 / tree.dimension)
        sides: list[np.ndarray] = []
        for element, sign in ((low, -1.0), (high, 1.0)):
            rows = [
                sum(
                    self._in_field(
                        (self.ties * np.sqrt(weights) * unit ** sum(order) * factor)[:, None]
                        * self._table(element, field, points, order),
                        element,
                        field,
                    )
                    for field, order, factor in terms
                )
                for terms in self._across_curves(points, normals)
            ]
            sides.append(_without_rounding(sign * np.concatenate(rows)))
        return sides[0], sides[1]

    def _across_curves(
        self, points: Float[np.ndarray, "points d"], normals: Float[np.ndarray, "points d"]
    ) -> Iterator[list[tuple[int, Order, Float[np.ndarray, " points"]]]]:
        """Sums that are the same on both sides of a curve: field, derivative and its factor."""
        problem = self.problem
        names, d = problem.domain.names, problem.domain.dimension
        partial = []
        for field in range(self.num_fields):
            highest = [problem.highest_order(field, axis) for axis in names]
            if min(highest) == 0 < max(highest) or max(highest) == 1:
                partial.append(field)
                continue
            for times in range(max(highest)):
                yield [
                    (
                        field,
                        order,
                        _multinomial(order) * np.prod(normals ** np.array(order), axis=1),
                    )
                    for order in itertools.product(range(times + 1), repeat=d)
                    if sum(order) == times
                ]
        if not partial:
            return
        nothing = np.zeros((len(self.orders), len(points), self.num_fields))
        _, slopes = evaluate_equation(problem, points, nothing)
        for residual in range(slopes.shape[3]):
            terms = [
                (field, (0,) * d, slopes[number, field, :, residual], normals[:, axis])
                for number, order in enumerate(self.orders)
                for axis in range(d)
                for field in partial
                if sum(order) == 1 and order[axis] and np.any(slopes[number, field, :, residual])
            ]
            if terms:
                size = np.sqrt(sum(np.max(np.abs(factor)) ** 2 for _, _, factor, _ in terms))
                yield [(field, order, factor / size * n) for field, order, factor, n in terms]

    def _interface(self, field: int, axis: str, at: float) -> Interface | None:
        for condition in self.problem.conditions:
            if (
                isinstance(condition, Interface)
                and self.problem.field_number(condition) == field
                and is_same_plane(self.problem.domain, condition, axis, at)
            ):
                return condition
        return None

    def _continuity(self, field: int, axis: str, seam: bool, interface: Interface | None) -> int:
        """How many derivatives, from 0, agree across a border."""
        if interface is not None:
            return 2
        if seam and axis not in self.problem.domain.periodic:
            orders = [
                condition.order + 1
                for condition in self.problem.conditions
                if isinstance(condition, Periodic)
                and condition.axis == axis
                and self.problem.field_number(condition) == field
            ]
            return max(orders, default=0)
        return self.problem.highest_order(field, axis)

    def _integral_row(self, element: int, condition: Integral) -> np.ndarray:
        """The mean of a field over the domain, by the constants of the elements."""
        low, high = self.basis.tree.corners[element]
        share = float(np.prod((high - low) / self.problem.domain.widths))
        field = self.problem.field_number(condition)
        mean = np.zeros(int(self.basis.sizes[element]))
        mean[0] = self.ties * condition.weight * share
        row = self._adapted(element, field).transposed(mean)
        return self._in_field(_without_rounding(row[None]), element, field)

    # ---- Solving ----

    def step(
        self, b: Coefficients, at: Linearized, check: Callable[[], None] = lambda: None
    ) -> tuple[Coefficients, Solved]:
        """The Gauss-Newton step from b, which ends with what `check` raises."""
        of_elements, links = self.links
        nodes = self.basis.tree.elements
        missed = self._missed_links(b)
        current = {name: Link(link.num_parts, -missed[name]) for name, link in links.items()}
        parts = {
            int(node): Part(rows, -residual, own)
            for node, rows, residual, own in zip(
                nodes, at.rows, at.residuals, of_elements, strict=True
            )
        }
        solved = solve(parts, current, self.basis.tree.order_of_elimination(), check)
        return self.coefficients(solved.columns), solved

    def step_by(self, b: Coefficients, at: Linearized, solved: Solved) -> Coefficients:
        """The step from b with the factors of the rows that another step was made with."""
        missed = self._missed_links(b)
        downhill = [
            -(residual @ rows) - sum(missed[name] @ matrix for name, matrix in own.items())
            for rows, residual, own in zip(at.rows, at.residuals, self.links[0], strict=True)
        ]
        return self.coefficients(solved.inverse(downhill))

    def sum_of_squares(self, b: Coefficients, at: Linearized) -> float:
        """Of all rows at b."""
        missed = self._missed_links(b).values()
        return sum(float(each @ each) for each in itertools.chain(at.residuals, missed))

    def _missed_links(self, b: Coefficients) -> dict[int, Float[np.ndarray, " _rows"]]:
        """By how much b misses each link."""
        of_elements, links = self.links
        missed = {name: -link.right for name, link in links.items()}
        for own, values in zip(of_elements, self.columns(b), strict=True):
            for name, matrix in own.items():
                missed[name] += matrix @ values
        return missed

    def stability(self, solved: Solved) -> float:
        """The least norm of all rows times a function with a root mean square of 1."""
        basis = self.basis
        v = np.random.default_rng(5).normal(size=(len(basis), self.num_fields))
        least = 0.0
        for _ in range(INVERSE_STEPS):
            v = v / math.sqrt(max(float(np.sum(v * self._mass(v))), 1e-300))
            v = self.coefficients(solved.inverse(self._transposed(self._mass(v))))
            least = float(np.sum(v * self._mass(v))) ** -0.25
        return least

    def _mass(self, v: Coefficients) -> Coefficients:
        """The mean of the square of a function is v times this, over the domain alone."""
        basis = self.basis
        corners = basis.tree.corners
        volumes = np.prod(corners[:, 1] - corners[:, 0], axis=1)
        volumes = volumes / np.sum(volumes[~basis.tree.is_void])
        squares = np.repeat(volumes, basis.sizes) / np.prod(2.0 * basis.indices + 1.0, axis=1)
        out = squares[:, None] * v
        if basis.cells is not None:
            for element in np.flatnonzero(basis.is_partial).tolist():
                own = slice(basis.offsets[element], basis.offsets[element + 1])
                table, weights = inner_table(basis, element)
                out[own] = volumes[element] * table.T @ (weights[:, None] * (table @ v[own]))
        return out

    def _transposed(self, values: Coefficients) -> list[Float[np.ndarray, " _columns"]]:
        """`coefficients` transposed."""
        return self._by_element(values, Adapted.transposed)


def _without_rounding(rows: Float[np.ndarray, "rows columns"]) -> np.ndarray:
    """Zero where functions vanish but for rounding: what no link sees can be eliminated."""
    return np.where(np.abs(rows) > 1e-11 * np.max(np.abs(rows), initial=0.0), rows, 0.0)


# ---- Points, tables and channels ----


def groups_of(
    tree: Tree,
    orders: Sequence[Order],
    more: int,
    *,
    inside: ElementBasis | None = None,
) -> list[_Group]:
    """Elements of the same degrees, with Gauss points that many beyond the degree.

    `inside` has the part of its box on which each element counts: other points have no weight.
    """
    is_side = np.zeros(len(tree.elements), bool) if inside is None else inside.is_partial
    sides, whole = np.flatnonzero(is_side), np.flatnonzero(~is_side & ~tree.is_void)
    found = []
    if inside is not None:
        found = [_side_group(inside, element, orders, more) for element in sides.tolist()]
    kinds, inverse = np.unique(tree.element_degrees[whole], axis=0, return_inverse=True)
    for number, kind in enumerate(kinds.tolist()):
        rules = [Legendre().quadrature(_even(degree + more)) for degree in kind]
        elements = whole[inverse.ravel() == number]
        found.append(_group(elements, kind, [nodes for nodes, _ in rules], rules, orders))
    return found


def _even(count: int) -> int:
    """Without a point in the middle of an element, where 1 / r is often not finite."""
    return count + count % 2


def _group(
    elements: Int[np.ndarray, " elements"],
    degrees: Sequence[int],
    nodes: Sequence[np.ndarray],
    rules: Sequence[tuple[np.ndarray, np.ndarray]],
    orders: Sequence[Order],
) -> _Group:
    weights = functools.reduce(np.multiply.outer, [weights for _, weights in rules]).ravel()
    factors = {
        order: [
            Legendre().table(each, degree + 1, times)
            for each, degree, times in zip(nodes, degrees, order, strict=True)
        ]
        for order in orders
    }
    shape = tuple(degree + 1 for degree in degrees)
    weights = np.broadcast_to(weights, (len(elements), len(weights)))
    return _Group(elements, shape, tuple(nodes), weights, factors)


def _side_group(basis: ElementBasis, element: int, orders: Sequence[Order], more: int) -> _Group:
    """A side of a curve by itself, with points of the box around it, which may be narrow."""
    tree = basis.tree
    degrees = tree.element_degrees[element].tolist()
    rules = [Legendre().quadrature(_even(MORE_ON_SIDES * degree + more)) for degree in degrees]
    ends = np.array([[-1.0, -1.0], [1.0, 1.0]])
    if tree.sides[element]:
        ends = bounds_of_side(tree, element)
    nodes = [
        low + 0.5 * (reference + 1.0) * (high - low)
        for (reference, _), low, high in zip(rules, *ends, strict=True)
    ]
    group = _group(np.array([element]), degrees, nodes, rules, orders)
    inside = basis.is_inside(element, points_of(tree, group)[0])
    weights = group.weights * inside
    return dataclasses.replace(group, weights=weights / max(float(np.sum(weights)), 1e-300))


@functools.lru_cache(maxsize=4_096)
def inner_table(
    basis: ElementBasis, element: int
) -> tuple[Float[np.ndarray, "points terms"], Float[np.ndarray, " points"]]:
    """The functions of an element at points of the part of its box that counts, with weights."""
    group = _side_group(basis, element, ((0,) * basis.tree.dimension,), 1)
    factors = next(iter(group.factors.values()))
    counts = group.weights[0] > 0
    return functools.reduce(np.kron, factors)[counts], group.weights[0][counts]


def points_of(tree: Tree, group: _Group) -> Float[np.ndarray, "elements points d"]:
    reference = np.stack(np.meshgrid(*group.nodes, indexing="ij"), axis=-1)
    reference = reference.reshape(-1, tree.dimension)
    low, high = tree.corners[group.elements, 0], tree.corners[group.elements, 1]
    return low[:, None] + 0.5 * (reference[None] + 1.0) * (high - low)[:, None]


def coefficients_of(
    basis: ElementBasis, group: _Group, b: Coefficients
) -> Float[np.ndarray, "elements *shape_and_fields"]:
    size = math.prod(group.shape)
    rows = basis.offsets[group.elements][:, None] + np.arange(size)
    return b[rows].reshape(len(group.elements), *group.shape, b.shape[1])


def gauss_on(
    low: np.ndarray, high: np.ndarray, counts: np.ndarray, axis: int, at: float
) -> tuple[Float[np.ndarray, "points d"], Float[np.ndarray, " points"]]:
    """Gauss points on the part of a plane between two corners, and weights of sum 1."""
    nodes, weights = [], []
    for index in range(len(low)):
        if index == axis:
            nodes.append(np.array([at]))
            weights.append(np.ones(1))
            continue
        reference, own = Legendre().quadrature(int(counts[index]))
        nodes.append(low[index] + 0.5 * (reference + 1.0) * (high[index] - low[index]))
        weights.append(own)
    points = np.stack(np.meshgrid(*nodes, indexing="ij"), axis=-1).reshape(-1, len(low))
    return points, functools.reduce(np.multiply.outer, weights).ravel()


def points_on_border(
    basis: ElementBasis,
    coordinates: Mapping[int, float],
    lower: np.ndarray,
    upper: np.ndarray,
    counts: np.ndarray,
    axis: int,
) -> tuple[Float[np.ndarray, "points d"], Float[np.ndarray, " points"]]:
    """Gauss points on what elements have of a border, and weights, of sum 1 on a whole one."""
    tree, found = basis.tree, []
    if basis.cells is None:
        parts = parts_of_border(tree, coordinates, lower, upper, axis)
    else:
        parts = _parts_inside(basis.cells, coordinates, lower, upper, axis)
    for part in parts:
        points, weights = gauss_on(part[0], part[1], counts, axis, next(iter(coordinates.values())))
        inside = np.ones(len(points), bool)
        for element, at in coordinates.items():
            points[:, axis] = at
            inside &= tree.is_inside(element, points)
        share = np.prod(np.delete(part[1] - part[0], axis) / np.delete(upper - lower, axis))
        found.append((points[inside], share * weights[inside]))
    if not found:
        return np.zeros((0, tree.dimension)), np.zeros(0)
    return np.concatenate([each for each, _ in found]), np.concatenate([each for _, each in found])


def _parts_inside(
    cells: Cells,
    coordinates: Mapping[int, float],
    lower: np.ndarray,
    upper: np.ndarray,
    axis: int,
) -> list[Float[np.ndarray, "2 d"]]:
    """The parts of a border that have the inside of the shape on both sides."""
    at, other = next(iter(coordinates.values())), 1 - axis
    if not np.any(cells.is_cut[list(coordinates)]):
        return [np.stack([lower, upper])]
    corners = cells.tree.corners[list(coordinates)]
    step = OFF * float(np.min(corners[:, 1, axis] - corners[:, 0, axis]))
    found = []
    for ends in cells.parts_of_border(
        axis, at, float(lower[other]), float(upper[other]), (-step, step)
    ):
        part = np.stack([lower, upper])
        part[:, other] = ends
        found.append(part)
    return found


def evaluate_equation(
    problem: Problem,
    points: Float[np.ndarray, "points d"],
    channels: Float[np.ndarray, "orders points fields"],
    fraction: float = 1.0,
) -> tuple[
    Float[np.ndarray, "points residuals"], Float[np.ndarray, "orders fields points residuals"]
]:
    """Residuals and their derivatives by the channels, with a fraction of the nonlinear terms."""
    count = len(points)
    padding = -count % CHUNK
    points = np.pad(points, ((0, padding), (0, 0)), mode="edge")
    channels = np.pad(channels, ((0, 0), (0, padding), (0, 0)), mode="edge")
    residuals, slopes = [], []
    for start in range(0, count, CHUNK):
        own = points[start : start + CHUNK]
        placed = place_inside(problem, own, problem.asked.orders)
        block = make_block(placed, problem, None, "float64")
        block = dataclasses.replace(block, weights=jax.device_put(np.ones(CHUNK)))
        block = block if fraction == 1 else gradual(block, fraction)
        found = _linearized(block, jax.device_put(channels[:, start : start + CHUNK]))
        residuals.append(np.asarray(found[0]))
        slopes.append(np.asarray(found[1]))
    return np.concatenate(residuals)[:count], np.concatenate(slopes, axis=2)[:, :, :count]


@jax.jit
def _linearized(block: Block, channels: Array) -> tuple[Array, Array]:
    return block.linearize(channels, {})


def operator_coefficients(placed: Placed) -> list[Float[np.ndarray, "points residuals"]]:
    """A condition's coefficients of each derivative; conditions are linear in one field."""
    operator: Any = placed.operator
    found = []
    for order in placed.orders:
        get: Any = lambda field, asked, order=order: np.full(
            len(placed.points), asked == order, float
        )
        found.append(np.stack([np.asarray(p) for p in operator(get, placed.points, {})], axis=1))
    return found


def operator_field(placed: Placed) -> int:
    operator: Any = placed.operator
    return int(operator.field)


def interface_factors(
    interface: Interface, domain: Box, points: np.ndarray, axis: int, times: int
) -> tuple[Any, Any, Any]:
    """Factors of the lower and the upper side and the jump, for the value or the flux."""
    from pann.pde.interfaces import moved_off

    if times == 0:
        return 1.0, 1.0, values_at(interface.jump, domain, points)
    sides = [
        values_at(
            interface.coefficient,
            domain,
            moved_off(domain, points, domain.names[axis], interface.at, side),
        )
        for side in (-1.0, 1.0)
    ]
    unit = float(np.max(np.abs(sides))) or 1.0
    jump = values_at(interface.flux_jump, domain, points) / unit
    return sides[0][:, None] / unit, sides[1][:, None] / unit, jump


# ---- Neighbors ----


def curve_neighbors(tree: Tree) -> Iterator[tuple[int, int, int]]:
    """Nodes that a curve divides, with each pair of elements on its lower and its upper side."""
    of_sides: dict[tuple[int, bool], list[int]] = {}
    for element, sides in enumerate(tree.sides):
        for side in sides:
            of_sides.setdefault(side, []).append(element)
    for (node, is_upper), elements in of_sides.items():
        if not is_upper:
            for low, high in itertools.product(elements, of_sides[node, True]):
                yield node, low, high


def _multinomial(order: Order) -> float:
    """How often a derivative is among those of its total order along a direction."""
    return math.factorial(sum(order)) / math.prod(map(math.factorial, order))


def neighbors(tree: Tree) -> Iterator[tuple[int, int, int]]:
    """Axis, lower and upper element of each border inside the box."""
    corners = tree.corners
    under: dict[int, np.ndarray] = {}
    for node in range(len(tree.axis) - 1, -1, -1):
        axis = int(tree.axis[node])
        if axis < 0:
            under[node] = np.array([tree.number[node]])
            continue
        low, high = (under[int(child)] for child in tree.children[node])
        under[node] = np.concatenate([low, high])
        if axis == tree.dimension:
            continue
        low = low[corners[low, 1, axis] == tree.at[node]]
        high = high[corners[high, 0, axis] == tree.at[node]]
        for one, other in _overlapping(corners, low, high, axis):
            yield axis, one, other


def seam_neighbors(tree: Tree, axis: int) -> Iterator[tuple[int, int]]:
    """Elements at the upper end of an axis and at its lower end that meet where it closes."""
    corners = tree.corners
    last = np.flatnonzero(corners[:, 1, axis] == tree.upper[axis])
    first = np.flatnonzero(corners[:, 0, axis] == tree.lower[axis])
    yield from _overlapping(corners, last, first, axis)


def _overlapping(
    corners: np.ndarray, ones: np.ndarray, others: np.ndarray, axis: int
) -> Iterator[tuple[int, int]]:
    """Pairs of elements that share more than an edge of a plane across an axis."""
    rest = [i for i in range(corners.shape[2]) if i != axis]
    lower = np.maximum(corners[ones][:, None, 0][..., rest], corners[others][None, :, 0][..., rest])
    upper = np.minimum(corners[ones][:, None, 1][..., rest], corners[others][None, :, 1][..., rest])
    for one, other in np.argwhere(np.all(upper > lower, axis=2)):
        yield int(ones[one]), int(others[other])
