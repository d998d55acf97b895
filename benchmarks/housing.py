"""California housing, four folds, relative l2 error (paper, section 4.5 and its table).

`default` and `ensemble` are the estimator; `paper` is the paper's experiment: three hidden layers
of 100 beside a polynomial of degree 2, features scaled to [-1, 1] by the training fold, with its
20,000 Adam steps. On a GPU they see all rows and 400 steps of L-BFGS follow, as in the paper; on a
CPU that would take a day, and the steps are by minibatch. Beside the estimator stands the paper's
best figure.
"""

import itertools
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import jax
import numpy as np

from benchmarks.harness import Row
from pann import MLP, PANNRegressor, PeriodicFeatures, Training
from pann.domain import Box
from pann.regression.fit import fit, relative_l2
from pann.training import LBFGS, Adam, Cosine, Prune, Recipe
from pann.training.constraints import CONSTRAINTS
from reproduction.conventional import housing_folds

NUM_STEPS = 20_000
NUM_LBFGS = 400
CPU_BATCH = 512
PART_NAMES = ("default", "ensemble", "paper")
PL_DEGREES = {2: 0.2538, 4: 0.2654, 6: 0.8696}
DNN_PUBLISHED = {"relu": 0.2132, "tanh": 0.2157}
# By constraint and activation: without K, with K.
PUBLISHED = {
    ("A", "relu"): (0.2256, 0.2126),
    ("A", "tanh"): (0.2249, 0.2202),
    ("B", "relu"): (0.2164, 0.2139),
    ("B", "tanh"): (0.2200, 0.2209),
    ("C", "relu"): (0.2213, 0.2124),
    ("C", "tanh"): (0.2639, 0.2239),
    ("D", "relu"): (0.2615, 0.2120),
    ("D", "tanh"): (0.2645, 0.2183),
    ("E", "relu"): (0.2122, 0.2118),
    ("E", "tanh"): (0.2319, 0.2225),
    ("F", "relu"): (0.2153, 0.2123),
    ("F", "tanh"): (0.2291, 0.2288),
    ("G", "relu"): (0.2450, 0.2126),
    ("G", "tanh"): (0.2189, 0.2214),
    ("H", "relu"): (0.2120, 0.2123),
    ("H", "tanh"): (0.2253, 0.2268),
}
PAPER_BEST = 0.2118


class Fold(NamedTuple):
    points: np.ndarray
    values: np.ndarray
    test: np.ndarray
    truth: np.ndarray


class Measured(NamedTuple):
    """Over the folds: mean and deviation of the relative l2 error, mean seconds to fit."""

    error: float
    deviation: float
    seconds: float


def folds() -> list[Fold]:
    """The four folds, shuffled with a fixed seed."""
    try:
        return [Fold(*fold) for fold in housing_folds()]
    except ValueError as error:
        raise SystemExit(str(error)) from error


def measure(fit_fold: Callable[[Fold], Callable], data: list[Fold]) -> Measured:
    """Fit every fold by a function that gives back a prediction function."""
    errors, seconds = [], []
    for fold in data:
        start = time.perf_counter()
        predict = fit_fold(fold)
        seconds.append(time.perf_counter() - start)
        errors.append(relative_l2(predict(fold.test), fold.truth))
    return Measured(float(np.mean(errors)), float(np.std(errors)), float(np.mean(seconds)))


def rows(part: str = "all") -> Iterator[Row]:
    if part not in ("all", *PART_NAMES):
        raise ValueError(f"there is no part '{part}'; choose all or one of {', '.join(PART_NAMES)}")
    data = folds()
    if part in ("all", "default"):
        yield _estimator("PANNRegressor()", PANNRegressor(random_state=0), data)
    if part in ("all", "ensemble"):
        ensemble = PANNRegressor(
            trials=8,
            width=256,
            degree=2,
            embedding=PeriodicFeatures(48, 32, 4.0, True),
            random_state=0,
        )
        yield _estimator("PANNRegressor, 8 trials of width 256", ensemble, data)
    if part in ("all", "paper"):
        yield from (setting.row(data) for setting in paper_settings())


def _estimator(name: str, model: PANNRegressor, data: list[Fold]) -> Row:
    ways = []

    def fit_fold(fold: Fold) -> Callable:
        model.fit(fold.points, fold.values)
        ways.append(model.how_)
        return model.predict

    measured = measure(fit_fold, data)
    return _row(name, ", ".join(dict.fromkeys(ways)), measured, PAPER_BEST)


class Setting(NamedTuple):
    """One row of the paper's experiment."""

    name: str
    activation: str
    published: float
    fitter: Callable[[Fold], Callable]

    def row(self, data: list[Fold]) -> Row:
        return _row(self.name, self.activation, measure(self.fitter, data), self.published)


def paper_settings() -> list[Setting]:
    """The paper's table: its eight constraints with and without K, DNN and PL."""
    settings = [
        Setting("DNN", activation, published, _fitter(activation=activation, degree=None))
        for activation, published in DNN_PUBLISHED.items()
    ]
    for degree, published in PL_DEGREES.items():
        fitter = _fitter(degree=degree, prune=True, preconditioner=True, activation=None)
        settings.append(Setting(f"PL, degree {degree}, K", "", published, fitter))
    for constraint, activation, with_k in itertools.product(
        CONSTRAINTS, ("relu", "tanh"), (False, True)
    ):
        published_without, published_with = PUBLISHED[constraint, activation]
        fitter = _fitter(
            constraint=constraint,
            activation=activation,
            preconditioner=with_k,
            degree=2,
            prune=True,
        )
        name = f"PANN {constraint}{', K' if with_k else ''}"
        published = published_with if with_k else published_without
        settings.append(Setting(name, activation, published, fitter))
    return settings


def _row(name: str, detail: str, measured: Measured, published: float) -> Row:
    return {
        "method": name,
        "activation or choice": detail,
        "error": measured.error,
        "deviation": measured.deviation,
        "published": published,
        "seconds a fold": measured.seconds,
    }


def _fitter(
    *,
    degree: int | None,
    activation: str | None,
    prune: bool = False,
    constraint: str = "none",
    preconditioner: bool = False,
) -> Callable:
    """Fit the training fold in its own bounding box; test rows outside go to its faces."""

    def fit_fold(fold: Fold) -> Callable:
        box = Box.from_bounds(fold.points.min(axis=0), fold.points.max(axis=0))
        batch = CPU_BATCH if jax.default_backend() == "cpu" else None
        weight = None
        if batch is not None and constraint != "none":
            # |C| grows like the root of the number of rows: a batch counts as much as all of them.
            weight = 1e-3 * (len(fold.points) / batch) ** 0.5
        method = Training(
            stages=_recipe(batch, prune),
            degree=degree,
            network=None if activation is None else MLP(width=100, activation=activation),
            constraint=constraint,
            constraint_weight=weight,
            preconditioner=preconditioner,
        )
        fitted = fit(
            fold.points, fold.values, method, domain=box, held_out=0.0, precision="float32"
        )
        return lambda test: fitted(np.clip(test, box.lower, box.upper))

    return fit_fold


def _recipe(batch: int | None, prune: bool) -> Recipe:
    dropping = (Prune(1e-4),) if prune else ()
    adam = Adam(NUM_STEPS, Cosine(1e-3), batch_size=batch)
    return (adam, *dropping) if batch else (adam, *dropping, LBFGS(NUM_LBFGS), *dropping)
