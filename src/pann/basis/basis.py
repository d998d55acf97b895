"""What a basis demands of its arguments: each failure is one sentence with its cure."""

import dataclasses
import functools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias, final

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from pann.basis.families import Chebyshev, Family, Legendre, family_by_name
from pann.basis.index_sets import INDEX_SETS, MAX_TERMS
from pann.basis.tables import (
    ProductTree,
    build_tree,
    evaluate_by_axis,
    is_nearly_full,
    multiply_out,
)
from pann.domain import Box
from pann.runtime.cache import BoundedCache
from pann.runtime.memory import require_memory

# The order along an axis that functions are integrated over, from end to end.
INTEGRAL = -1


def check_axes(domain: Box, axes: Sequence[str]) -> None:
    """Refuse axes that the domain does not have, or has once but are named twice."""
    for name in axes:
        if name not in domain.names:
            raise ValueError(
                f"'{name}' is not an axis of this domain; its axes are {', '.join(domain.names)}"
            )
    if len(set(axes)) != len(axes):
        raise ValueError(f"each axis may be named once, got {', '.join(axes)}")


def check_points(
    domain: Box, points: Shaped[np.ndarray, "points d"]
) -> Float[np.ndarray, "points d"]:
    """The points as finite floats with one column for each axis of the domain."""
    points = np.asarray(points, float)
    if points.ndim != 2 or points.shape[1] != domain.dimension:
        raise ValueError(
            f"points must be an array (points, {domain.dimension}), one column for each of "
            f"{', '.join(domain.names)}; got shape {points.shape}"
        )
    finite = np.isfinite(points).all(axis=1)
    if not finite.all():
        row = int(np.argmin(finite))
        raise ValueError(
            f"points must be finite, but row {row} is {points[row].tolist()}; "
            f"drop such rows ({np.count_nonzero(~finite)} of {len(points)})"
        )
    return points


def check_derivative(domain: Box, derivative: Sequence[int] | None) -> tuple[int, ...]:
    """The order of differentiation along each axis of the domain; None is all zero.

    The order INTEGRAL stands for the integral over the whole of an axis.
    """
    if derivative is None:
        return (0,) * domain.dimension
    orders = tuple(derivative)
    if len(orders) != domain.dimension or any(
        order < INTEGRAL or order != int(order) for order in orders
    ):
        raise ValueError(
            f"derivative must be {domain.dimension} whole numbers from 0, one order for each of "
            f"{', '.join(domain.names)}; got {orders}"
        )
    return tuple(int(order) for order in orders)


# ---- A basis: a family for each axis and a set of products, tabulated at any points ----


# Rows are tabulated in blocks of this size: what is held besides the result stays this small.
_BLOCK_BYTES = 16 * 2**20
# Factors of one axis at few points are asked for again: by each derivative along another axis, by
# the values and the residual at the same points, and by the next problem.
_FACTORS: BoundedCache[np.ndarray] = BoundedCache(16 * 2**20)
_FEW_BYTES = 2**20


@final
@dataclasses.dataclass(frozen=True, eq=False)
class Basis:
    """Terms phi_k(x) = prod_i phi_{k_i}(x_i), k running over the rows of `indices` (section 2.2).

    `axes` are the axes of the domain that the basis sees, with a family and a column of `indices`
    each. Scaling is `plain`, or `orthonormal`: each factor over its norm in its family's measure.
    """

    domain: Box
    families: tuple[Family, ...]
    indices: Int[np.ndarray, "terms axes"]
    scaling: str = "plain"
    axes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        indices = np.array(self.indices, dtype=np.int64)
        indices.flags.writeable = False
        object.__setattr__(self, "indices", indices)
        object.__setattr__(self, "families", tuple(self.families))
        object.__setattr__(self, "axes", tuple(self.axes) or self.domain.names)
        check_axes(self.domain, self.axes)
        if self.scaling not in ("plain", "orthonormal"):
            raise ValueError(f"scaling must be 'plain' or 'orthonormal', got {self.scaling!r}")
        if len(self.families) != len(self.axes):
            raise ValueError(
                f"{len(self.families)} families for {len(self.axes)} axes; give one for each axis"
            )
        if indices.ndim != 2 or indices.shape[1] != len(self.axes) or indices.min(initial=0) < 0:
            raise ValueError(
                f"indices must be an array (terms, {len(self.axes)}) of numbers from 0, "
                f"got one of shape {indices.shape} and least value {indices.min(initial=0)}"
            )

    def _content(self) -> tuple[object, ...]:
        indices = (self.indices.shape, self.indices.tobytes())
        return (self.domain, self.families, self.scaling, self.axes, *indices)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Basis) and self._content() == other._content()

    def __hash__(self) -> int:
        return hash(self._content())

    def __len__(self) -> int:
        return len(self.indices)

    def __repr__(self) -> str:
        pairs = zip(self.axes, self.families, strict=True)
        shown = ", ".join(f"{axis}: {type(family).__name__}" for axis, family in pairs)
        return f"Basis({len(self)} terms; {shown}; {self.scaling})"

    @property
    def num_terms(self) -> int:
        return len(self)

    @functools.cached_property
    def num_functions(self) -> tuple[int, ...]:
        """How many functions of each seen axis's family are in use."""
        return tuple(int(column.max(initial=0)) + 1 for column in self.indices.T)

    @property
    def degrees(self) -> Int[np.ndarray, " terms"]:
        """The total level of each term: its polynomial degrees and frequencies added up."""
        sizes = zip(self.families, self.num_functions, self.indices.T, strict=True)
        return sum(
            (family.levels(size)[column] for family, size, column in sizes),
            start=np.zeros(len(self), dtype=np.int64),
        )

    def term_names(self) -> list[str]:
        """Each term in terms of the axes, such as `P2(x) P1(y)`; `1` for the constant."""
        axes = list(zip(self.families, self.axes, strict=True))
        return [
            " ".join(
                family.name(int(index), axis)
                for index, (family, axis) in zip(row, axes, strict=True)
                if index
            )
            or "1"
            for row in self.indices
        ]

    def subset(
        self, kept: Bool[np.ndarray, " terms"] | Int[np.ndarray, " kept"] | Sequence[int]
    ) -> "Basis":
        """The basis of the kept terms, given as a mask or as positions."""
        kept = np.asarray(kept)
        if kept.dtype == bool and kept.shape != (len(self),):
            raise ValueError(f"a mask of {kept.size} entries for {len(self)} terms; give one each")
        positions = np.flatnonzero(kept) if kept.dtype == bool else kept.astype(np.int64)
        return dataclasses.replace(self, indices=self.indices[positions])

    def table(
        self, points: Shaped[np.ndarray, "points d"], derivative: Sequence[int] | None = None
    ) -> Float[np.ndarray, "points terms"]:
        """Values of D^derivative phi_k(x_i), the points in the domain's own coordinates.

        `derivative` has one order for each axis of the domain: (2, 0) is d^2/dx^2 in (x, y), and
        (-1, 0) the integral over x.
        """
        points = check_points(self.domain, points)
        orders = check_derivative(self.domain, derivative)
        require_memory(
            8 * len(points) * len(self),
            f"a table of {len(points):,} points and {len(self):,} terms",
            "lower the degree, use index_set='hyperbolic_cross', or give fewer points",
        )
        out = np.empty((len(points), len(self)))
        if not len(self):
            return out
        for rows in self._row_blocks(len(points)):
            self._fill(points[rows], orders, out[rows])
        return out

    def table_blocks(
        self, points: Shaped[np.ndarray, "points d"], derivative: Sequence[int] | None = None
    ) -> Iterator[tuple[slice, Float[np.ndarray, "rows terms"]]]:
        """The table a few rows at a time; each block is overwritten by the next."""
        points = check_points(self.domain, points)
        orders = check_derivative(self.domain, derivative)
        blocks = self._row_blocks(len(points))
        buffer = np.empty((blocks[0].stop if blocks else 0, len(self)))
        for rows in blocks:
            block = buffer[: rows.stop - rows.start]
            self._fill(points[rows], orders, block)
            yield rows, block

    def evaluate(
        self,
        points: Shaped[np.ndarray, "points d"],
        coefficients: Float[np.ndarray, " terms *outputs"],
        derivative: Sequence[int] | None = None,
    ) -> Float[np.ndarray, " points *outputs"]:
        """sum_k b_k D^derivative phi_k(x_i), without ever holding the whole table."""
        return self.evaluate_each(points, coefficients, [derivative])[0]

    def evaluate_each(
        self,
        points: Shaped[np.ndarray, "points d"],
        coefficients: Float[np.ndarray, " terms *outputs"],
        derivatives: Sequence[Sequence[int] | None],
    ) -> Float[np.ndarray, " derivatives points *outputs"]:
        """`evaluate` for several derivatives at the same points."""
        coefficients = np.asarray(coefficients, float)
        if len(coefficients) != len(self):
            raise ValueError(
                f"{len(coefficients)} coefficients for {len(self)} terms; give one for each term"
            )
        shape = (len(derivatives), len(points), *coefficients.shape[1:])
        if self.is_nearly_full:
            columns = coefficients.reshape(len(self), -1)
            return self._evaluate_by_axis(points, columns, derivatives).reshape(shape)
        out = np.empty(shape)
        for own, derivative in zip(out, derivatives, strict=True):
            for rows, block in self.table_blocks(points, derivative):
                np.matmul(block, coefficients, out=own[rows])
        return out

    @functools.cached_property
    def is_nearly_full(self) -> bool:
        """Whether there are many terms, nearly all products: then no table is needed for sums."""
        return is_nearly_full(len(self), self.num_functions)

    def _evaluate_by_axis(
        self,
        points: Shaped[np.ndarray, "points d"],
        coefficients: Float[np.ndarray, "terms outputs"],
        derivatives: Sequence[Sequence[int] | None],
    ) -> Float[np.ndarray, "derivatives points outputs"]:
        points = check_points(self.domain, points)
        seen = [self.domain.names.index(name) for name in self.axes]
        unseen = set(range(self.domain.dimension)) - set(seen)
        out = np.zeros((len(derivatives), len(points), coefficients.shape[1]))
        asked = {}
        for number, derivative in enumerate(derivatives):
            orders = check_derivative(self.domain, derivative)
            if not any(orders[axis] > 0 for axis in unseen):
                asked[number] = tuple(orders[axis] for axis in seen)
        reference = self.domain.to_reference(points)[:, seen]
        out[list(asked)] = evaluate_by_axis(
            self.families,
            self.indices,
            self.num_functions,
            coefficients,
            reference,
            list(asked.values()),
            lambda axis, rows, order: self._factor(axis, reference[rows, axis], order),
        )
        for own, derivative in zip(out, derivatives, strict=True):
            own *= integrated_width(self.domain, derivative)
        return out

    @functools.cached_property
    def tree(self) -> ProductTree:
        """The products of factors that the terms are."""
        return build_tree(self.indices, self.num_functions)

    def _row_blocks(self, num_points: int) -> list[slice]:
        widest = max(len(self), self.tree.num_nodes, sum(self.num_functions))
        size = max(1, _BLOCK_BYTES // (8 * widest))
        return [slice(i, min(i + size, num_points)) for i in range(0, num_points, size)]

    def _fill(
        self,
        points: Float[np.ndarray, "rows d"],
        orders: tuple[int, ...],
        out: Float[np.ndarray, "rows terms"],
    ) -> None:
        """Tabulate one block of rows by the chain rule: d/dx = (2/width) d/d(reference x)."""
        domain = self.domain
        reference = domain.to_reference(points)
        order_of = dict(zip(domain.names, orders, strict=True))
        if any(order_of[name] > 0 for name in domain.names if name not in self.axes):
            out[...] = 0.0
            return
        is_zero = np.zeros(len(self), dtype=bool)
        factors = []
        for axis, name in enumerate(self.axes):
            column, order = domain.names.index(name), order_of[name]
            factors.append(self._factor(axis, reference[:, column], order))
            if order > 0:
                is_zero |= self.indices[:, axis] == 0
        multiply_out(self.tree, np.concatenate(factors, axis=1), is_zero, out)
        if INTEGRAL in orders:
            out *= integrated_width(domain, orders)

    def _factor(
        self, axis: int, reference: Float[np.ndarray, " rows"], order: int
    ) -> Float[np.ndarray, "rows functions"]:
        """A derivative of the functions of one seen axis, by the domain's coordinate.

        For an integral their means over the axis: that of the constant is 1, as its value is.
        """
        family, size = self.families[axis], self.num_functions[axis]
        width = float(self.domain.widths[self.domain.names.index(self.axes[axis])])
        given = family, size, order, width, self.scaling
        num_bytes = 8 * size * len(reference)
        if num_bytes > _FEW_BYTES:
            return _factor(*given, reference)
        return _FACTORS.get(
            lambda: (*given, reference.tobytes()), num_bytes, lambda: _factor(*given, reference)
        )


def _factor(
    family: Family,
    size: int,
    order: int,
    width: float,
    scaling: str,
    reference: Float[np.ndarray, " rows"],
) -> Float[np.ndarray, "rows functions"]:
    scale = np.full(size, (2.0 / width) ** max(order, 0))
    if scaling == "orthonormal":
        scale /= family.norms(size)
    if order == INTEGRAL:
        table = np.tile(means(family, size) * scale, (len(reference), 1))
    else:
        table = family.table(reference, size, order) * scale
    table.flags.writeable = False
    return table


def means(family: Family, num_functions: int) -> Float[np.ndarray, " functions"]:
    """The mean of each function over [-1, 1]."""
    rule = Legendre() if isinstance(family, Chebyshev) else family
    nodes, weights = rule.quadrature(num_functions + 1)
    return weights @ family.table(nodes, num_functions)


def integrated_width(domain: Box, derivative: Sequence[int] | None) -> float:
    """The product of the widths of the axes that are integrated over."""
    orders = check_derivative(domain, derivative)
    widths = zip(orders, domain.widths, strict=True)
    return math.prod((float(w) for order, w in widths if order == INTEGRAL), start=1.0)


# ---- From a domain and a degree to a basis ----


FamilyChoice: TypeAlias = str | Family


def make_basis(
    domain: Box,
    degree: int,
    *,
    index_set: str = "total_degree",
    families: FamilyChoice | Mapping[str, FamilyChoice] | None = None,
    weights: Sequence[float] | Mapping[str, float] | None = None,
    scaling: str = "plain",
    axes: Sequence[str] | None = None,
    max_terms: int = MAX_TERMS,
) -> Basis:
    """All products of at most the given degree (paper, section 2.2).

    Families are Fourier along the domain's periodic axes and Legendre elsewhere, unless one name
    is given for all axes or a mapping from axes to names for some. A weight of 2 along an axis
    lets the degree along it go twice as far.
    """
    axes = domain.names if axes is None else (axes,) if isinstance(axes, str) else tuple(axes)
    check_axes(domain, axes)
    if not axes:
        raise ValueError(f"a basis needs at least one axis of {', '.join(domain.names)}")
    if index_set not in INDEX_SETS:
        raise ValueError(f"'{index_set}' is not an index set; use one of {', '.join(INDEX_SETS)}")
    chosen = _choose_families(domain, axes, families)
    indices = INDEX_SETS[index_set](
        chosen, degree, weights=_weights_by_axis(axes, weights), max_terms=max_terms
    )
    return Basis(domain, chosen, indices, scaling, axes)


def _choose_families(
    domain: Box,
    axes: tuple[str, ...],
    families: FamilyChoice | Mapping[str, FamilyChoice] | None,
) -> tuple[Family, ...]:
    if isinstance(families, str | Family):
        choices: Mapping[str, FamilyChoice] = dict.fromkeys(axes, families)
    else:
        choices = families or {}
    _check_keys("families", choices, axes)
    defaults = {axis: "fourier" if axis in domain.periodic else "legendre" for axis in axes}
    return tuple(
        choice if isinstance(choice, Family) else family_by_name(choice)
        for choice in (choices.get(axis, defaults[axis]) for axis in axes)
    )


def _weights_by_axis(
    axes: tuple[str, ...], weights: Sequence[float] | Mapping[str, float] | None
) -> Sequence[float] | None:
    if isinstance(weights, Mapping):
        _check_keys("weights", weights, axes)
        return [weights.get(axis, 1.0) for axis in axes]
    return weights


def _check_keys(what: str, given: Mapping[str, object], axes: tuple[str, ...]) -> None:
    for name in given:
        if name not in axes:
            raise ValueError(
                f"{what} names '{name}', which the basis does not see; its axes are "
                f"{', '.join(axes)}"
            )
