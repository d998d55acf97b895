"""A stage that adds products of splines to the network's half, where they help."""

import dataclasses
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from threadpoolctl import threadpool_limits

from pann.loss import Rows
from pann.model import Parameters
from pann.network import ProductUnits
from pann.training.guard import choose
from pann.training.linear import LeastSquares, at_round_off
from pann.training.separable import (
    Columns,
    Product,
    Sample,
    Split,
    find_products,
    linear_fit,
)
from pann.training.stage import CONVERGED, ROUND_OFF, Outcome, Recorder, Stage, Task, unstack


@dataclasses.dataclass(frozen=True)
class AddProducts(Stage):
    """Add up to `limit` products s_1(x_1) ... s_d(x_d) of splines to the network's half.

    They are sought beside the polynomial, and once more beside its constant alone, for a high
    degree can hide them; each must lower the held-out error by the share `gain`. What is better
    with the polynomial is kept. Trained units would hide them as well: this stage stands before
    those that train the network, whose a becomes zero where products are added.
    """

    limit: int = 4
    gain: float = 0.2

    def __post_init__(self) -> None:
        if self.limit < 1:
            raise ValueError(f"limit must be at least 1, got {self.limit}")
        if not 0 <= self.gain < 1:
            raise ValueError(f"gain is a share in [0, 1), got {self.gain:g}")

    def run(self, task: Task, trials: Parameters) -> tuple[Parameters, Outcome]:
        num_trials = trials.keep_b.shape[0]
        recorder = Recorder(self, task, num_trials)
        obstacle = _obstacle(task, trials)
        if obstacle:
            return trials, recorder.outcome(np.full(num_trials, CONVERGED), (obstacle,))
        weights = task.weights(trials)
        if np.all(np.asarray(at_round_off(task, trials, weights))):
            return trials, recorder.outcome(np.full(num_trials, ROUND_OFF))
        found = []
        with threadpool_limits(1):
            for index, parameters in enumerate(unstack(trials, num_trials)):
                key = jax.random.fold_in(task.key, index)
                random = np.random.default_rng(np.asarray(jax.random.key_data(key)))
                found.append(self._products(_view(task, parameters, weights[index]), random))
        trials = _with_products(task, trials, found)
        recorder.record(num_trials, task.figures(trials))
        notes = tuple(_cells(products) for products in found)
        return trials, recorder.outcome(np.full(num_trials, CONVERGED), notes)

    def _products(self, view: "_View", random: np.random.Generator) -> tuple[Product, ...]:
        """What was found beside all terms, or beside the constant if that is better with them."""
        find = lambda columns: find_products(view.split, columns, self.limit, self.gain, random)
        beside_all = find(view.terms)
        beside_constant = find(view.constant)
        all_beside = view.terms.beside(beside_constant.columns)
        if linear_fit(view.split, all_beside).error() < beside_all.error:
            return beside_constant.products
        return beside_all.products


class _View(NamedTuple):
    """A trial's rows and its terms, with the bias as one more, and those that are constant."""

    split: Split
    terms: Columns
    constant: Columns


def _view(task: Task, parameters: Parameters, weights: Float[Array, " points"]) -> _View:
    held_out = task.held_out
    assert isinstance(held_out, Rows)
    sides = ((task.data, weights), (held_out, held_out.weights))
    split = Split(*(_sample(rows, of_rows) for rows, of_rows in sides))
    tables = [_table(rows, parameters) for rows, _ in sides]
    is_constant = np.ptp(tables[0], axis=0) == 0
    terms = Columns(*(s.weights[:, None] * t for s, t in zip(split, tables, strict=True)))
    return _View(split, terms, Columns(*(side[:, is_constant] for side in terms)))


def _sample(rows: Rows, weights: Float[Array, " points"]) -> Sample:
    x, target = np.asarray(rows.x, float), np.asarray(rows.target, float)
    roots = np.asarray(weights, float)
    return Sample(x, roots, roots * target[:, 0])


def _table(rows: Rows, parameters: Parameters) -> Float[np.ndarray, "points terms"]:
    table = np.asarray(rows.table, float)[:, np.asarray(parameters.keep_b)]
    if parameters.bias is None:
        return table
    return np.hstack([table, np.ones((len(table), 1))])


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
    """The trials with a share of their products solved for; as they were where there are none."""
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
            _stacked(found, str(trials.b.dtype)),
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


def _stacked(trials: list[tuple[Product, ...]], dtype: str) -> ProductUnits:
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
