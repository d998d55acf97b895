"""A basis: a family for each axis and a set of products, tabulated at any points.

`Basis.table` and `Basis.evaluate` take NumPy's arrays; `tabulate` makes the same table inside a
compiled program, where the points are too many to keep their tables. `make_basis` chooses families
and products by a degree.
"""

import dataclasses
import functools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias, TypeVar, final

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Shaped

from pann.basis.families import (
    TRACEABLE,
    Chebyshev,
    Coordinates,
    Family,
    Fourier,
    Legendre,
    Table,
    family_by_name,
)
from pann.basis.index_sets import INDEX_SETS, MAX_TERMS
from pann.basis.piecewise import PiecewiseLegendre
from pann.basis.tables import (
    LocalFactors,
    ProductTree,
    build_tree,
    evaluate_by_axis,
    local_factors,
    multiply_out,
    multiply_traced,
)
from pann.domain import Box
from pann.points import check_points
from pann.runtime.cache import BoundedCache
from pann.runtime.memory import require_memory

# The order along an axis that functions are integrated over, from end to end.
INTEGRAL = -1
# Rows are tabulated in blocks of this size, which bounds the memory needed besides the result.
_BLOCK_BYTES = 16 * 2**20
# Factors of one axis at few points are needed again: for each derivative along another axis, for
# the values and the residual at the same points, and for the next problem.
_FACTORS: BoundedCache[np.ndarray] = BoundedCache(16 * 2**20)
_FEW_BYTES = 2**20
# For fewer terms a sum by a table is as good as one by axes.
_MANY_TERMS = 64


@final
@dataclasses.dataclass(frozen=True, eq=False)
class Basis:
    """Terms phi_k(x) = prod_i phi_{k_i}(x_i), for each row k of `indices` (paper, section 2.2).

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
        points = check_points(self.domain, points)
        coefficients = np.asarray(coefficients, float)
        if len(coefficients) != len(self):
            raise ValueError(
                f"{len(coefficients)} coefficients for {len(self)} terms; give one for each term"
            )
        out = np.zeros((len(points), *coefficients.shape[1:]))
        orders = check_derivative(self.domain, derivative)
        seen = self.seen_orders(orders)
        if not self.is_nearly_full:
            for rows, block in self.table_blocks(points, orders):
                np.matmul(block, coefficients, out=out[rows])
        elif seen is not None:
            reference = self.domain.to_reference(points)[:, self.columns]
            values = evaluate_by_axis(
                self.families,
                self.indices,
                self.num_functions,
                coefficients.reshape(len(self), -1),
                reference,
                lambda axis, rows: self._factor(axis, reference[rows, axis], seen[axis]),
                lambda axis: self._local_factors(axis, reference[:, axis], seen[axis]),
            )
            out += values.reshape(out.shape) * _integrated_width(self.domain, orders)
        return out

    def evaluate_each(
        self,
        points: Shaped[np.ndarray, "points d"],
        coefficients: Float[np.ndarray, " terms *outputs"],
        derivatives: Sequence[Sequence[int] | None],
    ) -> Float[np.ndarray, " derivatives points *outputs"]:
        """`evaluate` for several derivatives at the same points."""
        return np.stack([self.evaluate(points, coefficients, each) for each in derivatives])

    @functools.cached_property
    def is_nearly_full(self) -> bool:
        """Whether there are many terms, a quarter of all products or more: sums need no table."""
        return len(self) >= _MANY_TERMS and math.prod(self.num_functions) <= 4 * len(self)

    @functools.cached_property
    def tree(self) -> ProductTree:
        """The products of factors that the terms are."""
        return build_tree(self.indices, self.num_functions)

    def _row_blocks(self, num_points: int) -> list[slice]:
        widest = max(len(self), self.tree.num_nodes, sum(self.num_functions))
        size = max(1, _BLOCK_BYTES // (8 * widest))
        return [slice(i, min(i + size, num_points)) for i in range(0, num_points, size)]

    @functools.cached_property
    def columns(self) -> list[int]:
        """The number of each seen axis in the domain."""
        return [self.domain.names.index(name) for name in self.axes]

    def seen_orders(self, orders: tuple[int, ...]) -> tuple[int, ...] | None:
        """The orders along the seen axes; None where another one is positive: all is zero then."""
        others = set(range(self.domain.dimension)) - set(self.columns)
        if any(orders[axis] > 0 for axis in others):
            return None
        return tuple(orders[axis] for axis in self.columns)

    def vanishing_terms(self, seen: tuple[int, ...]) -> Bool[np.ndarray, " terms"]:
        """The terms that are constant along an axis of differentiation."""
        return np.any((self.indices == 0) & (np.array(seen) > 0), axis=1)

    def _fill(
        self,
        points: Float[np.ndarray, "rows d"],
        orders: tuple[int, ...],
        out: Float[np.ndarray, "rows terms"],
    ) -> None:
        """Tabulate one block of rows."""
        seen = self.seen_orders(orders)
        if seen is None:
            out[...] = 0.0
            return
        reference = self.domain.to_reference(points)[:, self.columns]
        factors = [self._factor(axis, reference[:, axis], order) for axis, order in enumerate(seen)]
        multiply_out(self.tree, np.concatenate(factors, axis=1), self.vanishing_terms(seen), out)
        if INTEGRAL in orders:
            out *= _integrated_width(self.domain, orders)

    def _factor(
        self, axis: int, reference: Float[np.ndarray, " rows"], order: int
    ) -> Float[np.ndarray, "rows functions"]:
        """The factors of one seen axis, from the cache where they are few."""
        options = self.factor_options(axis, order)
        num_bytes = 8 * self.num_functions[axis] * len(reference)

        def make() -> np.ndarray:
            table = _factor(*options, reference)
            table.flags.writeable = False
            return table

        if num_bytes > _FEW_BYTES:
            return make()
        return _FACTORS.get(lambda: (*options, reference.tobytes()), num_bytes, make)

    def _local_factors(
        self, axis: int, reference: Float[np.ndarray, " points"], order: int
    ) -> LocalFactors | None:
        """The factors of a seen axis with pieces, unless it is integrated over."""
        family, size, _, width, scaling = self.factor_options(axis, order)
        if not isinstance(family, PiecewiseLegendre) or order == INTEGRAL:
            return None
        scales = np.full(size, (2.0 / width) ** order)
        if scaling == "orthonormal":
            scales /= family.norms(size)
        return local_factors(family, scales, reference, order)

    def factor_options(self, axis: int, order: int) -> tuple[Family, int, int, float, str]:
        """What determines the factors of a seen axis, but for the points."""
        width = float(self.domain.widths[self.columns[axis]])
        return self.families[axis], self.num_functions[axis], order, width, self.scaling


def _factor(
    family: Family, size: int, order: int, width: float, scaling: str, reference: Coordinates
) -> Table:
    """A derivative of the functions of one axis by the domain's coordinate: d/dx = (2/width) d/dr.

    For an integral their means over the axis: that of the constant is 1, as its value is.
    """
    scale = np.full(size, (2.0 / width) ** max(order, 0))
    if scaling == "orthonormal":
        scale /= family.norms(size)
    if order != INTEGRAL:
        return family.table(reference, size, order) * scale.astype(reference.dtype)
    # Means are those of the uniform measure, which is not Chebyshev's.
    rule = Legendre() if isinstance(family, Chebyshev) else family
    nodes, weights = rule.quadrature(size + 1)
    means = weights @ family.table(nodes, size)
    library = np if isinstance(reference, np.ndarray) else jnp
    return library.tile((means * scale).astype(reference.dtype), (reference.shape[0], 1))


def _integrated_width(domain: Box, orders: tuple[int, ...]) -> float:
    """The product of the widths of the axes that are integrated over."""
    widths = zip(orders, domain.widths, strict=True)
    return math.prod((float(w) for order, w in widths if order == INTEGRAL), start=1.0)


def tabulate(
    basis: Basis, x: Float[Array, "points d"], derivative: Sequence[int] | None = None
) -> Float[Array, "points terms"]:
    """`basis.table` at points of the reference cube, traceable; see `check_in_program`."""
    orders = check_derivative(basis.domain, derivative)
    seen = basis.seen_orders(orders)
    if seen is None:
        return jnp.zeros((x.shape[0], len(basis)), x.dtype)
    factors = [
        _factor(*basis.factor_options(axis, order), x[:, basis.columns[axis]]).T
        for axis, order in enumerate(seen)
    ]
    products = multiply_traced(basis.tree, jnp.concatenate(factors), basis.vanishing_terms(seen))
    return products.T * _integrated_width(basis.domain, orders)


def is_in_program(basis: Basis) -> bool:
    """Whether the tables of the basis can be made inside a compiled program."""
    return all(isinstance(family, TRACEABLE) for family in basis.families)


def check_in_program(basis: Basis) -> None:
    """Refuse a basis with a family whose tables are made of NumPy's arrays only."""
    for family, axis in zip(basis.families, basis.axes, strict=True):
        if not isinstance(family, TRACEABLE):
            raise ValueError(
                f"tables in chunks are made for Legendre, Chebyshev and Fourier, but the basis has "
                f"{type(family).__name__} along {axis}; leave memory out, or give another basis"
            )


def check_axes(domain: Box, axes: Sequence[str]) -> None:
    """Refuse axes that the domain does not have, or that are named twice."""
    for name in axes:
        if name not in domain.names:
            raise ValueError(
                f"'{name}' is not an axis of this domain; its axes are {', '.join(domain.names)}"
            )
    if len(set(axes)) != len(axes):
        raise ValueError(f"each axis may be named once, got {', '.join(axes)}")


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


# ---- From a domain and a degree to a basis ----


FamilyChoice: TypeAlias = str | Family
Given = TypeVar("Given")


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
    if isinstance(families, str | Family):
        families = dict.fromkeys(axes, families)
    chosen = _by_axis("families", families or {}, axes, default_families(domain))
    known = tuple(each if isinstance(each, Family) else family_by_name(each) for each in chosen)
    if isinstance(weights, Mapping):
        weights = _by_axis("weights", weights, axes, dict.fromkeys(axes, 1.0))
    indices = INDEX_SETS[index_set](known, degree, weights=weights, max_terms=max_terms)
    return Basis(domain, known, indices, scaling, axes)


def default_families(domain: Box) -> dict[str, Family]:
    """Fourier along periodic axes, Legendre along others."""
    return {axis: Fourier() if axis in domain.periodic else Legendre() for axis in domain.names}


def _by_axis(
    what: str, given: Mapping[str, Given], axes: tuple[str, ...], defaults: Mapping[str, Given]
) -> list[Given]:
    """An entry for each axis: the one given for its name, or the default."""
    for name in given:
        if name not in axes:
            raise ValueError(
                f"{what} names '{name}', which the basis does not see; its axes are "
                f"{', '.join(axes)}"
            )
    return [given.get(axis, defaults[axis]) for axis in axes]
