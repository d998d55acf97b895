"""Polynomials on elements: boxes that a tree of cuts divides the domain into.

Each element has its own products of Legendre polynomials, of a degree for each axis; they are zero
outside of it. The tree says which elements are neighbors, and in which order to eliminate them.

A box may also be divided by a curve (in space a surface), the zeros of a polynomial: its two sides
are elements of the same box, each with polynomials of its own that count on its side alone.
"""

import dataclasses
import functools
import itertools
from collections.abc import Mapping, Sequence
from typing import final

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from pann.basis.basis import INTEGRAL, check_derivative
from pann.basis.cells import VOID, Cells
from pann.basis.families import Legendre
from pann.domain import Box
from pann.points import check_points
from pann.runtime.memory import require_memory
from pann.shapes import Shape

MAX_DEGREE = 1_000
# Points evaluated at a time, times the functions of an element.
BLOCK_NUMBERS = 4_000_000
# Coefficients along each axis of the polynomials whose zeros are curves.
CURVE_SIZE = 15
# Draws of points of a shape, of which some lie outside.
MOST_DRAWS = 50
# Points of a boundary may lie so far outside, relative to the domain.
NUDGES = (1e-13, 1e-11, 1e-9, 1e-7)


@final
@dataclasses.dataclass(frozen=True, eq=False)
class Tree:
    """Cuts of a box into elements; node 0 is the box itself.

    A node that is cut has an axis from 0, the coordinate of the cut and two children, the lower one
    first; an element has axis -1. One that is divided by a curve has the number of axes there and
    a row of `curves`, the coefficients of Legendre polynomials on its box; the child where these
    are negative is first, and both have the bounds of the node. `degrees` has a row for each node,
    of which those of elements count; where a shape is the domain, elements outside have -1.
    """

    lower: tuple[float, ...]
    upper: tuple[float, ...]
    axis: Int[np.ndarray, " nodes"]
    at: Float[np.ndarray, " nodes"]
    children: Int[np.ndarray, "nodes 2"]
    degrees: Int[np.ndarray, "nodes d"]
    curve: Int[np.ndarray, " nodes"]
    curves: Float[np.ndarray, "curves coefficients"]

    @staticmethod
    def whole(lower: Sequence[float], upper: Sequence[float], degrees: Sequence[int]) -> "Tree":
        """A single element."""
        return Tree(
            tuple(map(float, lower)),
            tuple(map(float, upper)),
            np.array([-1]),
            np.zeros(1),
            np.full((1, 2), -1),
            np.array([degrees], int),
            np.array([-1]),
            np.zeros((0, CURVE_SIZE ** len(lower))),
        )

    def check(self) -> None:
        """Refuse cuts that are no tree of boxes, whatever a file says."""
        cut = self.axis >= 0
        nodes = np.flatnonzero(cut)
        in_order = self.children[nodes] > nodes[:, None]
        each_once = np.sort(self.children[nodes].ravel())
        if (
            np.any(self.axis > self.dimension)
            or not np.all(in_order)
            or not np.array_equal(each_once, np.arange(1, len(self.axis)))
        ):
            raise ValueError(
                "its cuts are no tree: each node but the first is a child of one other"
            )
        if np.any(self.degrees < VOID) or np.any(self.degrees > MAX_DEGREE):
            raise ValueError(f"degrees of elements must be from 0 to {MAX_DEGREE}")
        if np.any(self.is_void_along != self.is_void[:, None]) or np.all(self.is_void):
            raise ValueError("elements outside of the domain have degree -1 along all axes")
        curved = self.axis == self.dimension
        if np.any((self.curve[curved] < 0) | (self.curve[curved] >= len(self.curves))):
            raise ValueError("a curve that divides one of its elements is not there")
        nodes = np.flatnonzero(cut & ~curved)
        low, high = self.bounds[nodes, :, self.axis[nodes]].T
        if not np.all((low < self.at[nodes]) & (self.at[nodes] < high)):
            raise ValueError("a cut of its elements lies outside of the node that it cuts")

    @property
    def num_terms(self) -> int:
        return int(np.sum(np.prod(self.element_degrees.astype(float) + 1, axis=1)))

    @property
    def dimension(self) -> int:
        return len(self.lower)

    @property
    def is_void_along(self) -> Bool[np.ndarray, "elements d"]:
        return self.element_degrees < 0

    @functools.cached_property
    def is_void(self) -> Bool[np.ndarray, " elements"]:
        """Which elements lie outside of the domain."""
        return np.any(self.is_void_along, axis=1)

    @functools.cached_property
    def elements(self) -> Int[np.ndarray, " elements"]:
        """The nodes that are elements, in their order."""
        return np.flatnonzero(self.axis < 0)

    @functools.cached_property
    def number(self) -> Int[np.ndarray, " nodes"]:
        """The number of each node among the elements, -1 for nodes that are cut."""
        number = np.full(len(self.axis), -1)
        number[self.elements] = np.arange(len(self.elements))
        return number

    @functools.cached_property
    def bounds(self) -> Float[np.ndarray, "nodes 2 d"]:
        """The lower and the upper corner of each node."""
        bounds = np.empty((len(self.axis), 2, self.dimension))
        bounds[0] = self.lower, self.upper
        # Children have larger numbers than the nodes that they are cut from.
        for node in np.flatnonzero(self.axis >= 0):
            low, high = self.children[node]
            bounds[low] = bounds[high] = bounds[node]
            if self.axis[node] < self.dimension:
                bounds[low, 1, self.axis[node]] = bounds[high, 0, self.axis[node]] = self.at[node]
        return bounds

    @functools.cached_property
    def sides(self) -> list[tuple[tuple[int, bool], ...]]:
        """For each element the nodes whose curves bound it, and whether it is on the upper side."""
        of_nodes: list[tuple[tuple[int, bool], ...]] = [()] * len(self.axis)
        for node in np.flatnonzero(self.axis >= 0):
            own, is_curved = of_nodes[node], self.axis[node] == self.dimension
            for side, child in enumerate(self.children[node]):
                of_nodes[child] = (*own, (int(node), bool(side))) if is_curved else own
        return [of_nodes[node] for node in self.elements]

    def along_curve(
        self, node: int, points: Float[np.ndarray, "points d"], order: Sequence[int] | None = None
    ) -> Float[np.ndarray, " points"]:
        """The polynomial whose zeros are the curve of a node, or a derivative of it."""
        if not len(points):
            return np.zeros(0)
        orders = (0,) * self.dimension if order is None else order
        values = self.curves[self.curve[node]].reshape(1, CURVE_SIZE, -1)
        for factor in self._factors(node, points, [CURVE_SIZE] * self.dimension, orders):
            values = np.matmul(factor[:, None, :], values.reshape(len(values), CURVE_SIZE, -1))
        return values.reshape(len(points))

    def factors(
        self, element: int, points: Float[np.ndarray, "points d"], order: Sequence[int]
    ) -> list[Float[np.ndarray, "points _"]]:
        """The polynomials of an element along each axis, or their derivatives, at points in it."""
        node = int(self.elements[element])
        return self._factors(node, points, self.degrees[node] + 1, order)

    def _factors(
        self,
        node: int,
        points: Float[np.ndarray, "points d"],
        sizes: Sequence[int] | Int[np.ndarray, " d"],
        order: Sequence[int],
    ) -> list[Float[np.ndarray, "points _"]]:
        low, high = self.bounds[node]
        reference = 2.0 * (points - low) / (high - low) - 1.0
        return [
            Legendre().table(reference[:, axis], int(sizes[axis]), times)
            * (2.0 / (high[axis] - low[axis])) ** times
            for axis, times in enumerate(order)
        ]

    def is_inside(
        self, element: int, points: Float[np.ndarray, "points d"]
    ) -> Bool[np.ndarray, " points"]:
        """Whether points of the box of an element lie on its side of all curves."""
        return self.is_inside_but(element, -1, points)

    def is_inside_but(
        self, element: int, left_out: int, points: Float[np.ndarray, "points d"]
    ) -> Bool[np.ndarray, " points"]:
        """The same for all curves but that of one node."""
        inside = np.ones(len(points), bool)
        for node, is_upper in self.sides[element]:
            if node != left_out:
                inside &= (self.along_curve(node, points) >= 0) == is_upper
        return inside

    @property
    def corners(self) -> Float[np.ndarray, "elements 2 d"]:
        """The lower and the upper corner of each element."""
        return self.bounds[self.elements]

    @property
    def element_degrees(self) -> Int[np.ndarray, "elements d"]:
        return self.degrees[self.elements]

    def with_degrees(self, degrees: Int[np.ndarray, "elements d"]) -> "Tree":
        """The same elements with other degrees."""
        new = self.degrees.copy()
        new[self.elements] = degrees
        return dataclasses.replace(self, degrees=new)

    def cut(self, cuts: Mapping[int, tuple[int, float]]) -> "Tree":
        """Some elements, by number, cut across an axis at a coordinate; the halves keep degrees."""
        nodes = self.elements[list(cuts)]
        count, first = len(nodes), len(self.axis)
        axis = np.concatenate([self.axis, np.full(2 * count, -1)])
        at = np.concatenate([self.at, np.zeros(2 * count)])
        children = np.concatenate([self.children, np.full((2 * count, 2), -1)])
        for position, (node, (along, where)) in enumerate(zip(nodes, cuts.values(), strict=True)):
            axis[node], at[node] = along, where
            children[node] = first + 2 * position, first + 2 * position + 1
        degrees = np.concatenate([self.degrees, np.repeat(self.degrees[nodes], 2, axis=0)])
        curve = np.concatenate([self.curve, np.full(2 * count, -1)])
        return dataclasses.replace(
            self, axis=axis, at=at, children=children, degrees=degrees, curve=curve
        )

    def divided(self, curves: Mapping[int, Float[np.ndarray, " coefficients"]]) -> "Tree":
        """Some elements, by number, divided by curves; both sides keep degrees."""
        if not curves:
            return self
        nodes = self.elements[list(curves)]
        new = self.cut(dict.fromkeys(curves, (self.dimension, 0.0)))
        new.curve[nodes] = len(self.curves) + np.arange(len(nodes))
        return dataclasses.replace(new, curves=np.concatenate([self.curves, list(curves.values())]))

    def stacked(self, other: "Tree", along: int) -> "Tree":
        """This box with another on its upper side along an axis."""
        first, second = 1, 1 + len(self.axis)
        shift = lambda children, by: np.where(children < 0, -1, children + by)
        return Tree(
            self.lower,
            other.upper,
            np.concatenate([[along], self.axis, other.axis]),
            np.concatenate([[self.upper[along]], self.at, other.at]),
            np.concatenate(
                [[[first, second]], shift(self.children, first), shift(other.children, second)]
            ),
            np.concatenate([self.degrees[:1], self.degrees, other.degrees]),
            np.concatenate([[-1], self.curve, shift(other.curve, len(self.curves))]),
            np.concatenate([self.curves, other.curves]),
        )

    def locate(self, points: Float[np.ndarray, "points d"]) -> Int[np.ndarray, " points"]:
        """The number of the element of each point; one on a cut belongs to the upper side.

        On the border of the domain it is the element inside.
        """
        found = self._located(points)
        if not np.any(self.is_void):
            return found
        for nudge in NUDGES:
            out = np.flatnonzero(self.is_void[found])
            if not len(out):
                break
            steps = itertools.product((-nudge, 0.0, nudge), repeat=self.dimension)
            for step in np.array(list(steps)) * np.subtract(self.upper, self.lower):
                moved = self._located(points[out] + step)
                found[out] = np.where(self.is_void[found[out]], moved, found[out])
        return found

    def _located(self, points: Float[np.ndarray, "points d"]) -> Int[np.ndarray, " points"]:
        nodes = np.zeros(len(points), int)
        while True:
            axis = self.axis[nodes]
            open_ = np.flatnonzero(axis >= 0)
            if not len(open_):
                return self.number[nodes]
            own = nodes[open_]
            is_upper = points[open_, np.minimum(axis[open_], self.dimension - 1)] >= self.at[own]
            for node in np.unique(own[axis[open_] == self.dimension]).tolist():
                here = own == node
                is_upper[here] = self.along_curve(node, points[open_[here]]) >= 0
            nodes[open_] = self.children[own, is_upper.astype(int)]

    def sample(self, count: int, seed: int) -> Float[np.ndarray, "points d"]:
        """Random points, as many in each element, or in as many elements where they are more."""
        rng = np.random.default_rng(seed)
        elements = np.resize(rng.permutation(np.flatnonzero(~self.is_void)), count)
        low, high = self.corners[elements, 0], self.corners[elements, 1]
        return low + rng.uniform(size=low.shape) * (high - low)

    def order_of_elimination(self) -> list[tuple[int, int, int]]:
        """Pairs of nodes that become one, children before parents: (lower, upper, node)."""
        nodes = np.flatnonzero(self.axis >= 0)[::-1]
        return [(int(self.children[n, 0]), int(self.children[n, 1]), int(n)) for n in nodes]


@final
@dataclasses.dataclass(frozen=True, eq=False)
class ElementBasis:
    """Products of Legendre polynomials on each element; element by element, the last axis fastest.

    It has what a model asks of its `Basis`, for sums without tables.
    """

    domain: Box
    tree: Tree

    def __len__(self) -> int:
        return int(self.offsets[-1])

    def __repr__(self) -> str:
        return f"ElementBasis({len(self)} terms on {len(self.tree.elements)} elements)"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ElementBasis) and self._content() == other._content()

    def __hash__(self) -> int:
        return hash(self._content())

    def _content(self) -> tuple[object, ...]:
        tree = self.tree
        arrays = (tree.axis, tree.at, tree.children, tree.degrees, tree.curve, tree.curves)
        return self.domain, tree.lower, tree.upper, *(array.tobytes() for array in arrays)

    @property
    def num_terms(self) -> int:
        return len(self)

    @functools.cached_property
    def cells(self) -> Cells | None:
        """The elements in the shape that is the domain, None of a box."""
        shape = self.domain.shape
        return Cells(shape, self.tree) if isinstance(shape, Shape) else None

    @functools.cached_property
    def is_partial(self) -> Bool[np.ndarray, " elements"]:
        """Which elements count on a part of their box alone: at curves and at the boundary."""
        partial = np.array([bool(sides) for sides in self.tree.sides])
        return partial if self.cells is None else partial | self.cells.is_cut

    def is_inside(
        self, element: int, points: Float[np.ndarray, "points d"]
    ) -> Bool[np.ndarray, " points"]:
        """Which points of the box of an element count."""
        inside = self.tree.is_inside(element, points)
        if self.cells is not None and self.cells.is_cut[element]:
            inside &= self.cells.inside(points)
        return inside

    def sample(self, count: int, seed: int) -> Float[np.ndarray, "points d"]:
        """Random points of the domain, about as many in each element."""
        if self.cells is None:
            return self.tree.sample(count, seed)
        found = np.zeros((0, self.tree.dimension))
        for draw in range(MOST_DRAWS):
            points = self.tree.sample(2 * count, seed + draw)
            found = np.concatenate([found, points[self.domain.inside(points)]])
            if len(found) >= count:
                break
        return np.resize(found, (count, self.tree.dimension))

    @property
    def axes(self) -> tuple[str, ...]:
        return self.domain.names

    @functools.cached_property
    def sizes(self) -> Int[np.ndarray, " elements"]:
        """How many terms each element has."""
        return np.prod(self.tree.element_degrees + 1, axis=1)

    @functools.cached_property
    def offsets(self) -> Int[np.ndarray, " elements_and_end"]:
        return np.concatenate([[0], np.cumsum(self.sizes)])

    @functools.cached_property
    def indices(self) -> Int[np.ndarray, "terms d"]:
        """The degree of each term along each axis."""
        shapes = self.tree.element_degrees + 1
        return np.concatenate([np.indices(shape).reshape(len(shape), -1).T for shape in shapes])

    @property
    def degrees(self) -> Int[np.ndarray, " terms"]:
        return self.indices.sum(axis=1)

    def term_names(self) -> list[str]:
        """Each term with its element, such as `P2(x) P1(y) [12]`."""
        elements = np.repeat(np.arange(len(self.sizes)), self.sizes)
        names = []
        for row, element in zip(self.indices, elements, strict=True):
            factors = [f"P{k}({axis})" for k, axis in zip(row, self.domain.names, strict=True) if k]
            names.append(" ".join([*(factors or ["1"]), f"[{element + 1}]"]))
        return names

    def subset(self, kept: Bool[np.ndarray, " terms"] | Sequence[int]) -> "ElementBasis":
        """All terms: elements keep theirs."""
        chosen = np.flatnonzero(kept) if np.asarray(kept).dtype == bool else np.asarray(kept)
        if len(chosen) != len(self):
            raise ValueError("the terms of elements cannot be pruned; give a Basis for that")
        return self

    def table(
        self, points: Shaped[np.ndarray, "points d"], derivative: Sequence[int] | None = None
    ) -> Float[np.ndarray, "points terms"]:
        """Values of D^derivative of every term; most of them are zero."""
        points = check_points(self.domain, points)
        orders = check_derivative(self.domain, derivative)
        require_memory(
            8 * len(points) * len(self),
            f"a table of {len(points):,} points and {len(self):,} terms",
            "evaluate the solution instead, or give fewer points",
        )
        out = np.zeros((len(points), len(self)))
        for element, rows in self._points_by_element(points):
            factors = self.tree.factors(element, points[rows], orders)
            product = factors[0]
            for factor in factors[1:]:
                product = (product[:, :, None] * factor[:, None, :]).reshape(len(rows), -1)
            out[rows, self.offsets[element] : self.offsets[element + 1]] = product
        return out

    def evaluate(
        self,
        points: Shaped[np.ndarray, "points d"],
        coefficients: Float[np.ndarray, " terms *outputs"],
        derivative: Sequence[int] | None = None,
    ) -> Float[np.ndarray, " points *outputs"]:
        """sum_k b_k D^derivative phi_k(x_i)."""
        return self.evaluate_each(points, coefficients, [derivative])[0]

    def evaluate_each(
        self,
        points: Shaped[np.ndarray, "points d"],
        coefficients: Float[np.ndarray, " terms *outputs"],
        derivatives: Sequence[Sequence[int] | None],
    ) -> Float[np.ndarray, "derivatives points *outputs"]:
        """`evaluate` for several derivatives at the same points."""
        points = check_points(self.domain, points)
        columns = np.asarray(coefficients, float).reshape(len(self), -1)
        out = np.zeros((len(derivatives), len(points), columns.shape[1]))
        orders = [check_derivative(self.domain, derivative) for derivative in derivatives]
        if any(INTEGRAL in order for order in orders):
            return np.stack([self._one(points, coefficients, order) for order in orders])
        for element, rows in self._points_by_element(points):
            own = columns[self.offsets[element] : self.offsets[element + 1]]
            for part in np.array_split(rows, -(-len(rows) * len(own) // BLOCK_NUMBERS)):
                out[:, part] = self._on_element(element, points[part], own, orders)
        shape = (len(derivatives), len(points), *np.shape(coefficients)[1:])
        return out.reshape(shape)

    def _one(
        self,
        points: Float[np.ndarray, "points d"],
        coefficients: Float[np.ndarray, " terms *outputs"],
        order: tuple[int, ...],
    ) -> Float[np.ndarray, " points *outputs"]:
        """A derivative, or the integral over the whole domain, the same at all points."""
        if INTEGRAL not in order:
            return self.evaluate(points, coefficients, order)
        if set(order) != {INTEGRAL}:
            raise ValueError("on elements integrals are over the whole domain, not some axes")
        corners = self.tree.corners
        volumes = np.prod(corners[:, 1] - corners[:, 0], axis=1)
        integral = np.tensordot(volumes, np.asarray(coefficients)[self.offsets[:-1]], axes=1)
        return np.broadcast_to(integral, (len(points), *np.shape(coefficients)[1:]))

    def _on_element(
        self,
        element: int,
        points: Float[np.ndarray, "points d"],
        own: Float[np.ndarray, "own outputs"],
        orders: Sequence[tuple[int, ...]],
    ) -> Float[np.ndarray, "derivatives points outputs"]:
        shape = self.tree.element_degrees[element] + 1
        found = []
        for order in orders:
            first, *others = self.tree.factors(element, points, order)
            values = first @ own.reshape(shape[0], -1)
            for factor in others:
                values = values.reshape(len(points), factor.shape[1], -1)
                values = np.matmul(factor[:, None, :], values)[:, 0]
            found.append(values.reshape(len(points), -1))
        return np.stack(found)

    def _points_by_element(
        self, points: Float[np.ndarray, "points d"]
    ) -> list[tuple[int, Int[np.ndarray, " rows"]]]:
        elements = self.tree.locate(points)
        order = np.argsort(elements, kind="stable")
        starts = np.flatnonzero(np.diff(elements[order], prepend=-1))
        groups = [rows for rows in np.split(order, starts[1:]) if len(rows)]
        numbers = [int(elements[rows[0]]) for rows in groups]
        pairs = zip(numbers, groups, strict=True)
        return [(number, rows) for number, rows in pairs if not self.tree.is_void[number]]
