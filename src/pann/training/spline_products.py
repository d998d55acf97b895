"""Products s_1(x_1) ... s_d(x_d) of cubic splines, added to the network's half where they help.

Every row samples every axis, so that a product resolves an axis as finely as all rows together do.
Its splines are fitted by Levenberg-Marquardt, columns that enter linearly eliminated, and their
cells are halved where the squared residual is large, as long as the held-out error falls.
"""

import dataclasses
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse
import scipy.sparse.linalg
from jaxtyping import Array, Bool, Float
from scipy.interpolate import BSpline, PPoly, make_interp_spline
from threadpoolctl import threadpool_limits

from pann.model.pann import Parameters
from pann.network import ProductUnits
from pann.numerics.least_squares import orthonormalize
from pann.numerics.levenberg_marquardt import NormalEquations, minimize
from pann.training.linear import LeastSquares, all_at_round_off
from pann.training.loss import Rows
from pann.training.task import (
    CONVERGED,
    ROUND_OFF,
    Outcome,
    Recorder,
    Stage,
    Task,
    check_counts,
    choose,
    unstack,
)

DEGREE = 3
Column = Float[np.ndarray, " rows"]
Ends = Float[np.ndarray, " ends"]


class Spline(NamedTuple):
    """A cubic spline with two continuous derivatives, beyond its breaks as at their ends."""

    breaks: Ends
    coefficients: Float[np.ndarray, " functions"]

    def matrix(self, x: Column) -> scipy.sparse.csr_array:
        """The B-splines of these breaks at points: four in a row are not zero."""
        inside = np.clip(x, self.breaks[0], self.breaks[-1])
        return BSpline.design_matrix(inside, _knots(self.breaks), DEGREE)

    def refined(self, split: Bool[np.ndarray, " cells"]) -> "Spline":
        """The same function with these cells halved."""
        middles = (self.breaks[1:] + self.breaks[:-1]) / 2
        breaks = np.sort(np.concatenate([self.breaks, middles[split]]))
        knots = _knots(breaks)
        # Greville's points: interpolation there is always possible, and here exact.
        nodes = np.mean([knots[1:-3], knots[2:-2], knots[3:-1]], axis=0)
        return Spline(breaks, make_interp_spline(nodes, self._function()(nodes), t=knots).c)

    def powers(self) -> Float[np.ndarray, "cells 4"]:
        """The coefficients of s^3, s^2, s and 1 in each cell, s from 0 to 1 across it."""
        cells = PPoly.from_spline(self._function()).c[:, DEGREE:-DEGREE].T
        return cells * np.diff(self.breaks)[:, None] ** np.arange(DEGREE, -1, -1)

    def _function(self) -> BSpline:
        return BSpline(_knots(self.breaks), self.coefficients, DEGREE)


def _knots(breaks: Ends) -> Float[np.ndarray, " knots"]:
    return np.concatenate([breaks[:1].repeat(DEGREE), breaks, breaks[-1:].repeat(DEGREE)])


# ---- Products next to columns that enter linearly ----
FIRST_CELLS = 16
# Cells are split if they have at least this many rows, and while each coefficient has this many.
ROWS_PER_CELL = 6
ROWS_PER_UNKNOWN = 4
# Of the squared residual, what the cells that are split have together.
SPLIT_FRACTION = 0.9
# Random starts of a product, rounds of refinement, and rounds without a lower held-out error.
STARTS = 3
ROUNDS = 16
PATIENCE = 3
# Of second differences of the coefficients, relative to what the rows say of a coefficient.
PENALTY = 1e-4

Product = tuple[Spline, ...]
Columns = Float[np.ndarray, "rows columns"]


class Sample(NamedTuple):
    """Points in [-1, 1]^d with the square roots of their weights, and the target times these.

    The first `num_fitted` of them are fitted, the others are held out.
    """

    x: Float[np.ndarray, "rows d"]
    weights: Column
    target: Column
    num_fitted: int

    def column(self, product: Product) -> Column:
        """The values of a product, times the roots of the weights."""
        factors = [s.matrix(self.x[:, i]) @ s.coefficients for i, s in enumerate(product)]
        return self.weights * np.prod(factors, axis=0)


class LinearFit(NamedTuple):
    """Combinations q of columns that are orthonormal on the rows to fit, at all rows."""

    sample: Sample
    q: Float[np.ndarray, "rows rank"]

    @property
    def fitted_q(self) -> Float[np.ndarray, "fitted rank"]:
        return self.q[: self.sample.num_fitted]

    def error(self, product: Product | None = None) -> float:
        """The norm of the held-out residual: the best columns, next to a product as it is."""
        count, left = self.sample.num_fitted, self.sample.target
        if product is not None:
            left = left - self.sample.column(product)
        predicted = self.q[count:] @ (self.fitted_q.T @ left[:count])
        return float(np.linalg.norm(predicted - left[count:]))


def linear_fit(sample: Sample, columns: Columns) -> LinearFit:
    """Least squares on the independent columns."""
    factors = orthonormalize(columns[: sample.num_fitted])
    return LinearFit(sample, np.concatenate([factors.q, factors.at(columns[sample.num_fitted :])]))


class Found(NamedTuple):
    """Products, their columns, and the held-out error with them."""

    products: tuple[Product, ...]
    columns: Columns
    error: float


def find_products(
    sample: Sample, columns: Columns, limit: int, gain: float, random: np.random.Generator
) -> Found:
    """One product after another, while each lowers the held-out error by the fraction `gain`.

    `columns` are what enters linearly, times the roots of the weights.
    """
    linear = linear_fit(sample, columns)
    found = Found((), columns[:, :0], linear.error())
    while len(found.products) < limit:
        product, error = _find_product(linear, random)
        if error > (1 - gain) * found.error:
            break
        products = np.column_stack([found.columns, sample.column(product)])
        linear = linear_fit(sample, np.hstack([columns, products]))
        found = Found((*found.products, product), products, linear.error())
    return found


def _find_product(linear: LinearFit, random: np.random.Generator) -> tuple[Product, float]:
    """The product with the lowest held-out error among its refinements, and that error."""
    x = linear.sample.x[: linear.sample.num_fitted]
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
        if waited == PATIENCE or finer is product or unknowns * ROWS_PER_UNKNOWN > len(x):
            break
        product, residual = _trained(linear, finer)
    return best, lowest


def _start(dimension: int, random: np.random.Generator) -> Product:
    breaks = np.linspace(-1.0, 1.0, FIRST_CELLS + 1)
    return tuple(Spline(breaks, random.normal(size=FIRST_CELLS + 3)) for _ in range(dimension))


def _refined(product: Product, x: Float[np.ndarray, "rows d"], squares: Column) -> Product:
    """The same product with finer cells where the squared residual is; itself, where none is."""
    splits = [_cells_to_split(s.breaks, x[:, i], squares) for i, s in enumerate(product)]
    if not any(split.any() for split in splits):
        return product
    return tuple(s.refined(split) for s, split in zip(product, splits, strict=True))


def _cells_to_split(breaks: Ends, x: Column, squares: Column) -> Bool[np.ndarray, " cells"]:
    """The fewest cells with most of the squared residual, but for those of hardly any rows."""
    num_cells = len(breaks) - 1
    cell = np.searchsorted(breaks[1:-1], x)
    squared = np.bincount(cell, squares, num_cells)
    order = np.argsort(-squared)
    before = np.cumsum(squared[order]) - squared[order]
    split = np.zeros(num_cells, bool)
    split[order] = before < SPLIT_FRACTION * squared.sum()
    return split & (np.bincount(cell, minlength=num_cells) >= ROWS_PER_CELL)


def _trained(linear: LinearFit, product: Product) -> tuple[Product, Column]:
    """The product after Levenberg-Marquardt steps from here, and the residual that it leaves.

    The columns are eliminated: J^T (I - Q Q^T) J is the normal matrix of the splines, whose
    Jacobian J is sparse.
    """
    sample, q = linear.sample, linear.fitted_q
    x, weights, target = (each[: sample.num_fitted] for each in sample[:3])
    matrices = [s.matrix(x[:, i]) for i, s in enumerate(product)]
    start = np.concatenate([s.coefficients for s in product])
    sizes = [s.coefficients.size for s in product]
    ends = np.cumsum(sizes)[:-1]

    def factors(unknowns: np.ndarray) -> np.ndarray:
        each = zip(matrices, np.split(unknowns, ends), strict=True)
        return np.array([matrix @ coefficients for matrix, coefficients in each])

    def residual(unknowns: np.ndarray) -> np.ndarray:
        left = weights * np.prod(factors(unknowns), axis=0) - target
        return np.concatenate([left - q @ (q.T @ left), penalty @ unknowns])

    def normal_equations(unknowns: np.ndarray, current: np.ndarray) -> NormalEquations:
        jacobian = _jacobian(matrices, factors(unknowns), weights)
        in_columns = jacobian.T @ q
        gram = (jacobian.T @ jacobian + penalty.T @ penalty).toarray()
        gradient = scipy.sparse.vstack([jacobian, penalty]).T @ current
        return gram - in_columns @ in_columns.T, gradient

    penalty = _second_differences(_jacobian(matrices, factors(start), weights), sizes)
    unknowns, current = minimize(
        residual,
        normal_equations,
        start,
        damping=1e-6,
        iterations=30,
        tolerance=1e-5,
        length_floor=1e-3,
    )
    each = zip(product, np.split(unknowns, ends), strict=True)
    trained = tuple(Spline(s.breaks, coefficients) for s, coefficients in each)
    return trained, current[: len(x)]


def _jacobian(
    matrices: list[scipy.sparse.csr_array], factors: Float[np.ndarray, "d rows"], weights: Column
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
    """Rows of the penalty, small against those that say what an average coefficient is."""
    squares = np.split(scipy.sparse.linalg.norm(jacobian, axis=0) ** 2, np.cumsum(sizes)[:-1])
    blocks = [
        np.sqrt(PENALTY * np.mean(square))
        * scipy.sparse.diags_array([1.0, -2.0, 1.0], offsets=[0, 1, 2], shape=(size - 2, size))
        for square, size in zip(squares, sizes, strict=True)
    ]
    return scipy.sparse.csr_array(scipy.sparse.block_diag(blocks))


# ---- The stage ----


@dataclasses.dataclass(frozen=True)
class AddProducts(Stage):
    """Add up to `limit` products s_1(x_1) ... s_d(x_d) of splines to the network's half.

    They are sought together with the polynomial, and once more with its constant alone, for a high
    degree can hide them; each must lower the held-out error by the fraction `gain`. What is better
    with the polynomial is kept. Trained units would hide them as well: this stage comes before
    those that train the network, whose a becomes zero where products are added.
    """

    limit: int = 4
    gain: float = 0.2

    def __post_init__(self) -> None:
        check_counts(self, "limit")
        if not 0 <= self.gain < 1:
            raise ValueError(f"gain is a fraction in [0, 1), got {self.gain:g}")

    def run(self, task: Task, trials: Parameters) -> tuple[Parameters, Outcome]:
        num_trials = trials.keep_b.shape[0]
        recorder = Recorder(self, task, num_trials)
        obstacle = _obstacle(task, trials)
        if obstacle:
            return trials, recorder.outcome(np.full(num_trials, CONVERGED), (obstacle,))
        if all_at_round_off(task, trials):
            return trials, recorder.outcome(np.full(num_trials, ROUND_OFF))
        weights = task.weights(trials)
        found = []
        with threadpool_limits(1):
            for index, parameters in enumerate(unstack(trials, num_trials)):
                key = jax.random.fold_in(task.key, index)
                random = np.random.default_rng(np.asarray(jax.random.key_data(key)))
                found.append(self._products(*_view(task, parameters, weights[index]), random))
        trials = _with_products(task, trials, found)
        recorder.record(num_trials, task.figures(trials))
        notes = tuple(_cells(products) for products in found)
        return trials, recorder.outcome(np.full(num_trials, CONVERGED), notes)

    def _products(
        self,
        sample: Sample,
        terms: Columns,
        is_constant: Bool[np.ndarray, " columns"],
        random: np.random.Generator,
    ) -> tuple[Product, ...]:
        """What was found with all terms, or with the constant alone if that is better with them."""
        find = lambda columns: find_products(sample, columns, self.limit, self.gain, random)
        with_all, with_constant = find(terms), find(terms[:, is_constant])
        together = np.hstack([terms, with_constant.columns])
        if linear_fit(sample, together).error() < with_all.error:
            return with_constant.products
        return with_all.products


def _view(
    task: Task, parameters: Parameters, weights: Float[Array, " points"]
) -> tuple[Sample, Columns, Bool[np.ndarray, " columns"]]:
    """A trial's rows, its terms, with the bias as one more, and which of them are constant."""
    assert isinstance(task.held_out, Rows)
    sides, count = (task.data, task.held_out), task.data.num_points
    joined = lambda arrays: np.concatenate([np.asarray(each, float) for each in arrays])
    roots = joined((weights, task.held_out.weights))
    table = joined(rows.table for rows in sides)[:, np.asarray(parameters.keep_b)]
    if parameters.bias is not None:
        table = np.hstack([table, np.ones((len(table), 1))])
    target = roots * joined(rows.target[:, 0] for rows in sides)
    sample = Sample(joined(rows.x for rows in sides), roots, target, count)
    return sample, roots[:, None] * table, np.ptp(table[:count], axis=0) == 0


def _obstacle(task: Task, trials: Parameters) -> str:
    """Why no products can be sought; empty if they can."""
    if trials.products is not None:
        return "there are products already"
    if task.held_out is None:
        return "without held-out rows nothing says whether products help"
    if trials.a.shape[2] > 1:
        return f"products are fitted to one output, and there are {trials.a.shape[2]}"
    return ""


def _with_products(task: Task, trials: Parameters, found: list[tuple[Product, ...]]) -> Parameters:
    """The trials with their products, solved for; as they were where there are none."""
    counts = np.array([len(products) for products in found])
    most = int(counts.max())
    if most == 0:
        return trials
    padded = eqx.tree_at(
        lambda p: (p.a, p.keep_a, p.products),
        trials,
        (
            jnp.pad(trials.a, ((0, 0), (0, most), (0, 0))),
            jnp.pad(trials.keep_a, ((0, 0), (0, most))),
            stacked(found, str(trials.b.dtype)),
        ),
        is_leaf=lambda leaf: leaf is None,
    )
    is_product = np.arange(most) < counts[:, None]
    kept = jnp.asarray(np.hstack([np.asarray(trials.keep_a), is_product]))
    products_only = kept & (jnp.arange(kept.shape[1]) >= trials.keep_a.shape[1])
    solved, _ = LeastSquares("both").run(
        task, eqx.tree_at(lambda p: p.keep_a, padded, products_only)
    )
    solved = eqx.tree_at(lambda p: p.keep_a, solved, kept)
    return choose(jnp.asarray(counts > 0), solved, padded)


def stacked(trials: list[tuple[Product, ...]], dtype: str) -> ProductUnits:
    """The products of every trial, filled up to equal numbers of units and of cells."""
    splines = [spline for products in trials for product in products for spline in product]
    dimension = next(len(product) for products in trials for product in products)
    num_cells = max(len(spline.breaks) for spline in splines) - 1
    shape = (len(trials), max(len(products) for products in trials), dimension)
    breaks = np.ones((*shape, num_cells + 1))
    breaks[..., 0] = -1.0
    coefficients = np.zeros((*shape, num_cells, 4))
    for trial, products in enumerate(trials):
        for unit, product in enumerate(products):
            for axis, spline in enumerate(product):
                powers = spline.powers()
                breaks[trial, unit, axis, : len(spline.breaks)] = spline.breaks
                coefficients[trial, unit, axis, : len(powers)] = powers
    return ProductUnits(jnp.asarray(breaks, dtype), jnp.asarray(coefficients, dtype))


def _cells(products: tuple[Product, ...]) -> str:
    """How many products there are, and how finely each resolves the axes."""
    if not products:
        return "no product lowers the held-out error"
    counts = [" x ".join(str(len(s.breaks) - 1) for s in product) for product in products]
    return f"products of splines with {', '.join(counts)} cells"
