"""Bases of shapes: polynomials orthonormal on points of the shape, and singular functions.

Products of Legendre polynomials of the bounding box depend on each other on a part of it, the more
the higher the degree. Polynomials that are orthonormal over points X of the shape do not, and their
three-term recurrence between degrees, found by orthogonalizing x_i P_n against P_n and P_(n-1)
(Vandermonde with Arnoldi: Brubeck, Nakatsukasa and Trefethen, 2021), gives them and their
derivatives anywhere without loss:

    P_(n+1) = sum_i x_i P_n V_i - P_n H - P_(n-1) G.

Singular functions are orthonormalized against them, so that all columns have mean square one.
"""

import dataclasses
import functools
import itertools
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeAlias, final

import numpy as np
import scipy.linalg
from jaxtyping import Bool, Float, Int, Shaped

from pann.basis.basis import Basis, check_derivative
from pann.basis.singular import Singular
from pann.domain import Box
from pann.points import check_points, graded
from pann.runtime.cache import BoundedCache
from pann.runtime.memory import require_memory

# Points of the inner product for each term.
POINTS_PER_TERM, FEWEST_POINTS = 5, 1_000
NONE = Singular.of(())
# What polynomials and other singular functions leave of one is rounding below this.
DEPENDENT = 1e-10
# Rows are tabulated in blocks of so many numbers.
BLOCK_NUMBERS = 2_000_000

Order = tuple[int, ...]
# Tables at the same points are asked for one derivative after the other.
_TABLES: BoundedCache[dict[Order, np.ndarray]] = BoundedCache(256 * 2**20)


class Step(NamedTuple):
    """The matrices V (those of all axes stacked), H and G from one degree to the next."""

    mix: Float[np.ndarray, "products next"]
    last: Float[np.ndarray, "last next"]
    before: Float[np.ndarray, "before next"]


class Made(NamedTuple):
    """Steps of the polynomials P; the other terms are (S - P shared) mixed, of functions S."""

    steps: tuple[Step, ...]
    shared: Float[np.ndarray, "polynomials functions"]
    mixed: Float[np.ndarray, "functions others"]


@final
@dataclasses.dataclass(frozen=True, eq=False)
class ShapeBasis:
    """Polynomials up to a degree, then combinations of singular functions.

    What the recurrence consists of is made when it is first asked for, or given by a file.
    """

    domain: Box
    degree: int
    singular: Singular = NONE
    given: Made | None = None

    def __len__(self) -> int:
        return self.num_polynomials + self.made.mixed.shape[1]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ShapeBasis) and self._content == other._content

    def __hash__(self) -> int:
        return hash(self._content)

    def __repr__(self) -> str:
        functions = f", {len(self.singular)} singular functions" if len(self.singular) else ""
        return f"ShapeBasis(degree {self.degree}{functions})"

    @functools.cached_property
    def _content(self) -> tuple[object, ...]:
        last = () if self.given is None else self.given.steps[-1:]
        given = tuple(matrix.tobytes() for step in last for matrix in step)
        return self.domain, self.degree, self.singular.numbers.tobytes(), given

    @functools.cached_property
    def made(self) -> Made:
        """The recurrence, and the combinations of singular functions."""
        if self.given is not None:
            return self.given
        made = orthonormal(self.domain, self.degree, len(self.singular))
        return made.with_singular(self.singular)

    @property
    def num_terms(self) -> int:
        return len(self)

    @property
    def num_polynomials(self) -> int:
        return math.comb(self.degree + self.domain.dimension, self.domain.dimension)

    @property
    def num_functions(self) -> tuple[int, ...]:
        """Polynomials of one variable that fit along each axis."""
        return (self.degree + 1,) * self.domain.dimension

    @property
    def axes(self) -> tuple[str, ...]:
        return self.domain.names

    @property
    def degrees(self) -> Int[np.ndarray, " terms"]:
        """Of polynomials; that of the others counts as the highest."""
        dimension = self.domain.dimension
        each = [
            np.full(math.comb(n + dimension - 1, dimension - 1), n) for n in range(self.degree + 1)
        ]
        return np.concatenate([*each, np.full(len(self) - self.num_polynomials, self.degree)])

    @property
    def is_constant(self) -> Bool[np.ndarray, " terms"]:
        return np.arange(len(self)) == 0

    def term_names(self) -> list[str]:
        """Numbers of polynomials within their degree; singular functions by number."""
        counts = np.bincount(self.degrees[: self.num_polynomials]).tolist()
        names = [f"P{n}.{k + 1}" for n, count in enumerate(counts) for k in range(count)]
        others = len(self) - self.num_polynomials
        return ["1", *names[1:], *(f"S{number + 1}" for number in range(others))]

    def subset(
        self, kept: Bool[np.ndarray, " terms"] | Int[np.ndarray, " kept"] | Sequence[int]
    ) -> "ShapeBasis":
        """All terms, or the polynomials of a lower degree: each degree is made of those before."""
        kept = np.asarray(kept)
        positions = np.flatnonzero(kept) if kept.dtype == bool else kept
        lower = [
            degree
            for degree in range(self.degree + 1)
            if math.comb(degree + self.domain.dimension, self.domain.dimension) == len(positions)
        ]
        if np.array_equal(positions, np.arange(len(self))):
            return self
        if not lower or not np.array_equal(positions, np.arange(len(positions))):
            raise ValueError("terms of a basis on a shape cannot be left out; give a lower degree")
        return ShapeBasis(self.domain, lower[0])

    def table(
        self, points: Shaped[np.ndarray, "points d"], derivative: Sequence[int] | None = None
    ) -> Float[np.ndarray, "points terms"]:
        """Values of D^derivative of all terms at points, in the domain's own coordinates."""
        points = check_points(self.domain, points)
        order = check_derivative(self.domain, derivative)
        self._refuse_integrals(order)
        self._require_memory(points, sum(order))
        total = sum(order)
        wanted = [each for each in np.ndindex((total + 1,) * len(order)) if sum(each) <= total]
        num_bytes = 8 * len(points) * len(self) * len(wanted)
        key = lambda: (self, total, points.shape, points.tobytes())
        return _TABLES.get(key, num_bytes, lambda: self._tables(points, wanted))[order]

    def tables(
        self, points: Shaped[np.ndarray, "points d"], orders: Sequence[Order]
    ) -> dict[Order, Float[np.ndarray, "points terms"]]:
        """`table` for several derivatives, of which nothing is kept."""
        for order in orders:
            self._refuse_integrals(order)
        self._require_memory(points, max(map(sum, orders)))
        return self._tables(check_points(self.domain, points), orders)

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
    ) -> Float[np.ndarray, " derivatives points *outputs"]:
        """`evaluate` for several derivatives at the same points."""
        points = check_points(self.domain, points)
        orders = [check_derivative(self.domain, each) for each in derivatives]
        for order in orders:
            self._refuse_integrals(order)
        coefficients = np.asarray(coefficients, float)
        out = np.zeros((len(orders), len(points), *coefficients.shape[1:]))
        size = max(1, BLOCK_NUMBERS // max(len(self), 1))
        for start in range(0, len(points), size):
            tables = self._tables(points[start : start + size], orders)
            for number, order in enumerate(orders):
                out[number, start : start + size] = tables[order] @ coefficients
        return out

    def table_blocks(
        self, points: Shaped[np.ndarray, "points d"], derivative: Sequence[int] | None = None
    ) -> Iterator[tuple[slice, Float[np.ndarray, "rows terms"]]]:
        """The table a few rows at a time."""
        order = check_derivative(self.domain, derivative)
        size = max(1, BLOCK_NUMBERS // max(len(self), 1))
        for start in range(0, len(points), size):
            rows = slice(start, min(start + size, len(points)))
            yield rows, self._tables(points[rows], [order])[order]

    def _require_memory(self, points: Shaped[np.ndarray, "points d"], total: int) -> None:
        require_memory(
            8 * len(points) * len(self) * (1 + total) ** 2,
            f"tables of {len(points):,} points and {len(self):,} terms",
            "lower the degree or give fewer points",
        )

    def _refuse_integrals(self, order: Order) -> None:
        if min(order) < 0:
            raise ValueError(
                "an equation on a shape has no integrals along axes; pose it on a box, or fix a "
                "free constant by pann.Data"
            )

    def _tables(
        self, points: Float[np.ndarray, "points d"], orders: Sequence[Order]
    ) -> dict[Order, Float[np.ndarray, "points terms"]]:
        reference, slopes = self.domain.to_reference(points), 2.0 / self.domain.widths
        polynomials = polynomial_tables(reference, self.made.steps, orders)
        found = {}
        for order in dict.fromkeys(orders):
            own = polynomials[order]
            if any(order):
                own *= float(np.prod(slopes ** np.asarray(order)))
            if len(self.singular):
                raw = singular_table(self.domain, self.singular, points, order)
                others = (raw - own @ self.made.shared) @ self.made.mixed
                own = np.concatenate([own, others], axis=1)
            found[order] = own
        return found


def singular_table(
    domain: Box, singular: Singular, points: Float[np.ndarray, "points d"], order: Order
) -> Float[np.ndarray, "points functions"]:
    """Singular functions live in the plane, and are constant in time."""
    first, second = domain.space
    if domain.time is not None and order[domain.time_number]:
        return np.zeros((len(points), len(singular)))
    return singular.table(points[:, [first, second]], (order[first], order[second]))


def polynomial_tables(
    x: Float[np.ndarray, "points d"], steps: Sequence[Step], orders: Sequence[Order]
) -> dict[Order, Float[np.ndarray, "points terms"]]:
    """Derivatives of all polynomials by the recurrence: D(x_i p) = x_i Dp + (D's order) D'p.

    Columns are contiguous, and each degree is one product of matrices.
    """
    below = {each for order in orders for each in itertools.product(*(range(k + 1) for k in order))}
    ordered = sorted(below, key=sum)
    count, num_terms = len(x), 1 + sum(step.mix.shape[1] for step in steps)
    found = {order: np.empty((count, num_terms), order="F") for order in ordered}
    for order, own in found.items():
        own[:, 0] = 0.0 if any(order) else 1.0
    before, last = slice(0, 0), slice(0, 1)
    for step in steps:
        after = slice(last.stop, last.stop + step.mix.shape[1])
        whole = np.concatenate([step.mix, -step.last, -step.before])
        size = last.stop - last.start
        for order in ordered:
            own = found[order]
            factors = np.empty((count, len(whole)), order="F")
            for axis, times in enumerate(order):
                part = factors[:, axis * size : (axis + 1) * size]
                np.multiply(x[:, [axis]], own[:, last], out=part)
                if times:
                    lower = (*order[:axis], times - 1, *order[axis + 1 :])
                    part += times * found[lower][:, last]
            factors[:, len(order) * size : (len(order) + 1) * size] = own[:, last]
            factors[:, (len(order) + 1) * size :] = own[:, before]
            np.matmul(factors, whole, out=own[:, after])
        before, last = last, after
    return {order: found[order] for order in orders}


class Orthonormal:
    """Polynomials up to a degree, orthonormal over points of a domain."""

    def __init__(self, domain: Box, degree: int, num_functions: int) -> None:
        self.domain = domain
        terms = math.comb(degree + domain.dimension, domain.dimension) + num_functions
        count = max(POINTS_PER_TERM * terms, FEWEST_POINTS)
        inside = graded(domain, count, seed=1).coordinates
        # Nothing grows between points inside and a boundary that has points, too.
        on_parts = domain.boundary.points(count // 4)[0]
        if domain.time is not None:
            times = np.random.default_rng(1).uniform(*domain.times, len(on_parts))
            on_parts = np.insert(on_parts, domain.time_number, times, axis=1)
        self._points = np.concatenate([inside, on_parts])
        blocks, steps = [np.full((len(self._points), 1), len(self._points) ** -0.5)], []
        for _ in range(degree):
            step, block = _next(domain.to_reference(self._points), blocks)
            steps.append(step)
            blocks.append(block)
        self._steps, self._values = tuple(steps), np.concatenate(blocks, axis=1)

    def next_to(self, singular: Singular) -> Made:
        """The recurrence with singular functions as they are, of mean square one."""
        raw = singular_table(self.domain, singular, self._points, (0,) * self.domain.dimension)
        sizes = np.sqrt(np.mean(raw**2, axis=0))
        return Made(self._steps, np.zeros((self._values.shape[1], len(sizes))), np.diag(1 / sizes))

    def with_singular(self, singular: Singular) -> Made:
        """The recurrence with singular functions orthonormalized against the polynomials."""
        values = self._values
        if not len(singular):
            return Made(self._steps, np.zeros((values.shape[1], 0)), np.zeros((0, 0)))
        zero = (0,) * self.domain.dimension
        raw = singular_table(self.domain, singular, self._points, zero) * len(self._points) ** -0.5
        sizes = np.linalg.norm(raw, axis=0)
        raw = raw / sizes
        shared = values.T @ raw
        left = raw - values @ shared
        again = values.T @ left
        shared, left = shared + again, left - values @ again
        _, r, order = scipy.linalg.qr(left, mode="economic", pivoting=True)
        rank = int(np.sum(np.abs(np.diagonal(r)) > DEPENDENT))
        mixed = np.zeros((len(singular), rank))
        mixed[order[:rank]] = scipy.linalg.solve_triangular(r[:rank, :rank], np.eye(rank))
        # Of the functions as they are: columns were divided by their sizes.
        return Made(self._steps, shared * sizes, mixed / sizes[:, None])


def _next(
    x: Float[np.ndarray, "points d"], blocks: Sequence[Float[np.ndarray, "points _"]]
) -> tuple[Step, Float[np.ndarray, "points next"]]:
    """The polynomials of the next degree from those of the last two."""
    last, degree, dimension = blocks[-1], len(blocks) - 1, x.shape[1]
    before = blocks[-2] if degree else np.zeros((len(last), 0))
    products = np.concatenate([x[:, [axis]] * last for axis in range(dimension)], axis=1)
    of_last, of_before = 0.0, 0.0
    for _ in range(2):
        more_last, more_before = last.T @ products, before.T @ products
        products -= last @ more_last + before @ more_before
        of_last, of_before = of_last + more_last, of_before + more_before
    # Products commute: that many of them are combinations of the others.
    size = math.comb(degree + dimension, dimension - 1)
    values, vectors = np.linalg.eigh(products.T @ products)
    mix = vectors[:, -size:] / np.sqrt(values[-size:])
    # Squares cost half of the digits, which a second factor gives back.
    block = products @ mix
    triangle = np.linalg.cholesky(block.T @ block).T
    mix = scipy.linalg.solve_triangular(triangle, mix.T, trans=1).T
    return Step(mix, of_last @ mix, of_before @ mix), products @ mix


@functools.lru_cache(maxsize=4)
def orthonormal(domain: Box, degree: int, num_functions: int) -> Orthonormal:
    """Kept for the next equation on the same shape."""
    return Orthonormal(domain, degree, num_functions)


# Bases whose terms live on the whole of a domain.
WholeBasis: TypeAlias = Basis | ShapeBasis


def highest_degree(basis: WholeBasis) -> int:
    """That of a shape is known before its functions are made, which takes long."""
    return basis.degree if isinstance(basis, ShapeBasis) else int(np.max(basis.degrees, initial=0))
