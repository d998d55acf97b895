"""Products s_1(x_1) ... s_d(x_d) of splines beside columns that enter linearly.

Sums of such products are the separable functions of Beylkin, Garcke and Mohlenkamp (2009,
"Multivariate regression and machine learning with sums of separable functions"). Every row samples
every axis: a product resolves N points along an axis, where a grid would have N^(1/d). All
coefficients of its splines move together by Levenberg-Marquardt, with the columns eliminated:
alternating between the axes crawls beside a polynomial. Then the cells that hold most of the
squared residual are halved, as long as the error at held-out rows falls. Where hardly any row says
what a spline is, or the other factors are small, a slight penalty on its second differences does.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy.linalg
import scipy.sparse
import scipy.sparse.linalg
from jaxtyping import Bool, Float

from pann.training.splines import Spline

FIRST_CELLS = 16
FEWEST_ROWS_A_CELL = 6
ROWS_AN_UNKNOWN = 4
SPLIT_SHARE = 0.9
STARTS = 3
ROUNDS = 16
PATIENCE = 3

PENALTY = 1e-4
ITERATIONS = 30
SMALLEST_DECREASE = 1e-5
FIRST_DAMPING = 1e-6
DAMPING_FLOOR = 1e-12
MAX_TRIES = 8
LENGTH_FLOOR = 1e-3
DEPENDENT = 1e-9

Product = tuple[Spline, ...]


class Sample(NamedTuple):
    """Points in [-1, 1]^d with the square roots of their weights, and the target times these."""

    x: Float[np.ndarray, "rows d"]
    weights: Float[np.ndarray, " rows"]
    target: Float[np.ndarray, " rows"]

    def column(self, product: Product) -> Float[np.ndarray, " rows"]:
        """The values of a product, times the roots of the weights."""
        factors = [s.matrix(self.x[:, i]) @ s.coefficients for i, s in enumerate(product)]
        return self.weights * np.prod(factors, axis=0)


class Split(NamedTuple):
    """The rows to fit and those held out."""

    train: Sample
    held_out: Sample


class Columns(NamedTuple):
    """What enters linearly, times the roots of the weights, at both kinds of rows."""

    train: Float[np.ndarray, "rows columns"]
    held_out: Float[np.ndarray, "others columns"]

    def beside(self, other: "Columns") -> "Columns":
        return Columns(*(np.hstack(both) for both in zip(self, other, strict=True)))


class LinearFit(NamedTuple):
    """Orthonormal combinations q of columns at the rows to fit, and the same ones elsewhere."""

    split: Split
    q: Float[np.ndarray, "rows rank"]
    held_out_q: Float[np.ndarray, "others rank"]

    def rest(self, column: Float[np.ndarray, " rows"]) -> Float[np.ndarray, " rows"]:
        """What the columns cannot fit."""
        return column - self.q @ (self.q.T @ column)

    def error(self, product: Product | None = None) -> float:
        """The norm of the held-out residual: the best columns, beside a product as it is."""
        train, held_out = self.split
        left, missing = train.target, held_out.target
        if product is not None:
            left, missing = left - train.column(product), missing - held_out.column(product)
        return float(np.linalg.norm(self.held_out_q @ (self.q.T @ left) - missing))


def linear_fit(split: Split, columns: Columns) -> LinearFit:
    """Least squares on the columns, but for those that depend on earlier ones."""
    lengths = np.linalg.norm(columns.train, axis=0)
    used = np.flatnonzero(lengths > 0)
    q, r = np.linalg.qr(columns.train[:, used] / lengths[used])
    independent = np.abs(np.diagonal(r)) > DEPENDENT
    if not independent.all():
        used = used[independent]
        q, r = np.linalg.qr(columns.train[:, used] / lengths[used])
    others = columns.held_out[:, used] / lengths[used]
    return LinearFit(split, q, scipy.linalg.solve_triangular(r, others.T, trans=1).T)


class Found(NamedTuple):
    """Products, their columns, and the held-out error with them."""

    products: tuple[Product, ...]
    columns: Columns
    error: float


def find_products(
    split: Split, columns: Columns, limit: int, gain: float, random: np.random.Generator
) -> Found:
    """One product after another, as long as each lowers the held-out error by the share `gain`."""
    none = Columns(*(side[:, :0] for side in columns))
    linear = linear_fit(split, columns)
    found = Found((), none, linear.error())
    while len(found.products) < limit:
        product, error = _find_product(linear, random)
        if error > (1 - gain) * found.error:
            break
        column = Columns(*(sample.column(product)[:, None] for sample in split))
        products = found.columns.beside(column)
        linear = linear_fit(split, columns.beside(products))
        found = Found((*found.products, product), products, linear.error())
    return found


def _find_product(linear: LinearFit, random: np.random.Generator) -> tuple[Product, float]:
    """The product with the lowest held-out error among its refinements, and that error."""
    x = linear.split.train.x
    starts = [_trained(linear, _start(x.shape[1], random)) for _ in range(STARTS)]
    product, residual = min(starts, key=lambda start: start[1] @ start[1])
    best, lowest, waited = product, np.inf, 0
    for _ in range(ROUNDS):
        error = linear.error(product)
        if error < lowest:
            best, lowest, waited = product, error, 0
        else:
            waited += 1
        finer = _refined(product, x, residual**2)
        unknowns = sum(spline.coefficients.size for spline in finer)
        if waited == PATIENCE or finer is product or unknowns * ROWS_AN_UNKNOWN > len(x):
            break
        product, residual = _trained(linear, finer)
    return best, lowest


def _start(dimension: int, random: np.random.Generator) -> Product:
    breaks = np.linspace(-1.0, 1.0, FIRST_CELLS + 1)
    return tuple(Spline(breaks, random.normal(size=FIRST_CELLS + 3)) for _ in range(dimension))


def _refined(
    product: Product, x: Float[np.ndarray, "rows d"], squares: Float[np.ndarray, " rows"]
) -> Product:
    """The same product with finer cells where the squared residual is; itself, where none is."""
    splits = [_cells_to_split(s.breaks, x[:, i], squares) for i, s in enumerate(product)]
    if not any(split.any() for split in splits):
        return product
    return tuple(s.refined(split) for s, split in zip(product, splits, strict=True))


def _cells_to_split(
    breaks: Float[np.ndarray, " ends"],
    x: Float[np.ndarray, " rows"],
    squares: Float[np.ndarray, " rows"],
) -> Bool[np.ndarray, " cells"]:
    """The fewest cells with most of the squared residual, but for those of hardly any rows."""
    num_cells = len(breaks) - 1
    cell = np.searchsorted(breaks[1:-1], x)
    share = np.bincount(cell, squares, num_cells)
    order = np.argsort(-share)
    before = np.cumsum(share[order]) - share[order]
    split = np.zeros(num_cells, bool)
    split[order] = before < SPLIT_SHARE * share.sum()
    return split & (np.bincount(cell, minlength=num_cells) >= FEWEST_ROWS_A_CELL)


# ---- Levenberg-Marquardt ----


def _trained(linear: LinearFit, product: Product) -> tuple[Product, Float[np.ndarray, " rows"]]:
    """The product after steps from here, and the residual that it leaves."""
    train = linear.split.train
    matrices = [s.matrix(train.x[:, i]) for i, s in enumerate(product)]
    unknowns = np.concatenate([s.coefficients for s in product])
    ends = np.cumsum([s.coefficients.size for s in product])[:-1]

    def factors(unknowns: np.ndarray) -> np.ndarray:
        parts = zip(matrices, np.split(unknowns, ends), strict=True)
        return np.array([matrix @ coefficients for matrix, coefficients in parts])

    def residual(unknowns: np.ndarray) -> np.ndarray:
        column = train.weights * np.prod(factors(unknowns), axis=0)
        return np.concatenate([linear.rest(column - train.target), bends @ unknowns])

    jacobian = _jacobian(matrices, factors(unknowns), train.weights)
    bends = _second_differences(jacobian, [s.coefficients.size for s in product])
    current, damping = residual(unknowns), FIRST_DAMPING
    for _ in range(ITERATIONS):
        jacobian = _jacobian(matrices, factors(unknowns), train.weights)
        in_columns = jacobian.T @ linear.q
        normal = (jacobian.T @ jacobian + bends.T @ bends).toarray() - in_columns @ in_columns.T
        gradient = scipy.sparse.vstack([jacobian, bends]).T @ current
        tried = _step(normal, gradient, damping, unknowns, current, residual)
        if tried is None:
            break
        decrease = 1 - np.linalg.norm(tried.residual) / np.linalg.norm(current)
        unknowns, current, damping = tried
        if decrease < SMALLEST_DECREASE:
            break
    parts = zip(product, np.split(unknowns, ends), strict=True)
    return tuple(Spline(s.breaks, coefficients) for s, coefficients in parts), current[
        : len(train.x)
    ]


def _jacobian(
    matrices: list[scipy.sparse.csr_array],
    factors: Float[np.ndarray, "d rows"],
    weights: Float[np.ndarray, " rows"],
) -> scipy.sparse.csr_array:
    """The derivative of the product's column by the coefficients of its splines."""
    others = [weights * np.prod(np.delete(factors, i, 0), axis=0) for i in range(len(factors))]
    blocks = [
        scipy.sparse.diags_array(other) @ matrix
        for other, matrix in zip(others, matrices, strict=True)
    ]
    return scipy.sparse.csr_array(scipy.sparse.hstack(blocks))


def _second_differences(
    jacobian: scipy.sparse.csr_array, sizes: list[int]
) -> scipy.sparse.csr_array:
    """The penalty's rows: small beside the rows that say what an average coefficient is."""
    squares = np.split(scipy.sparse.linalg.norm(jacobian, axis=0) ** 2, np.cumsum(sizes)[:-1])
    blocks = [
        np.sqrt(PENALTY * np.mean(square))
        * scipy.sparse.diags_array([1.0, -2.0, 1.0], offsets=[0, 1, 2], shape=(size - 2, size))
        for square, size in zip(squares, sizes, strict=True)
    ]
    return scipy.sparse.csr_array(scipy.sparse.block_diag(blocks))


class _Tried(NamedTuple):
    unknowns: np.ndarray
    residual: np.ndarray
    damping: float


def _step(
    normal: Float[np.ndarray, "unknowns unknowns"],
    gradient: Float[np.ndarray, " unknowns"],
    damping: float,
    unknowns: Float[np.ndarray, " unknowns"],
    residual: Float[np.ndarray, " rows"],
    at: Callable[[np.ndarray], np.ndarray],
) -> _Tried | None:
    """A step that lowers the residual, with more and more damping; None if there is none."""
    lengths = np.sqrt(np.maximum(np.diagonal(normal), 0.0))
    lengths = np.maximum(lengths, LENGTH_FLOOR * np.sqrt(np.mean(lengths**2)))
    if not np.all(lengths > 0):
        return None
    scaled = normal / np.outer(lengths, lengths)
    for _ in range(MAX_TRIES):
        damped = scaled + (damping + DAMPING_FLOOR) * np.eye(len(scaled))
        try:
            factor = scipy.linalg.cho_factor(damped, check_finite=False)
        except np.linalg.LinAlgError:
            damping *= 4
            continue
        moved = unknowns - scipy.linalg.cho_solve(factor, gradient / lengths) / lengths
        new = at(moved)
        if new @ new < residual @ residual:
            return _Tried(moved, new, damping / 3)
        damping *= 4
    return None
