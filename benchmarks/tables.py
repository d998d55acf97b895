"""The default estimator on small tables, against boosted trees and ridge regression.

Root mean square errors: of repeated five-fold cross-validation where the targets are noisy, at
fresh points where they are exact. Friedman's noise is 1 for the first function; for the others a
third of the deviation of the targets, as in his paper (Friedman 1991).
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.datasets import load_diabetes, make_friedman1, make_friedman2, make_friedman3
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import RidgeCV
from sklearn.metrics import root_mean_squared_error
from sklearn.model_selection import RepeatedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

from benchmarks.harness import Row
from benchmarks.problems import Problem, cube, square
from pann import PANNRegressor
from pann.problems import functions

NUM_ROWS = 1000
NUM_TEST = 10_000
NUM_REPEATS = 2
NUM_POINTS = {"square": 4096, "cube": 3072}
# Errors closer than this are a tie: the folds differ by more.
TIE = 1.01
FRIEDMAN = {"1": make_friedman1, "2": make_friedman2, "3": make_friedman3}
METHODS = {
    "PANN": PANNRegressor(random_state=0),
    "boosted trees": HistGradientBoostingRegressor(random_state=0),
    "ridge, degree 2": make_pipeline(
        StandardScaler(),
        PolynomialFeatures(2),
        StandardScaler(),
        RidgeCV(alphas=np.logspace(-6, 3, 19)),
    ),
}


class Split(NamedTuple):
    rows: np.ndarray
    values: np.ndarray
    test: np.ndarray
    truth: np.ndarray


def rows() -> Iterator[Row]:
    for name, make in _tables().items():
        splits = make()
        errors: dict[str, float] = {}
        for method, model in METHODS.items():
            start = time.perf_counter()
            fitted = [clone(model).fit(split.rows, split.values) for split in splits]
            if method == "PANN":
                seconds = (time.perf_counter() - start) / len(splits)
                how = Counter(one.how_ for one in fitted)
            pairs = zip(fitted, splits, strict=True)
            each = [root_mean_squared_error(s.truth, one.predict(s.test)) for one, s in pairs]
            errors[method] = float(np.mean(each))
        ratio = errors["PANN"] / min(error for key, error in errors.items() if key != "PANN")
        yield {
            "table": name,
            "shape": " x ".join(str(size) for size in splits[0].rows.shape),
            "fits": len(splits),
            "deviation of targets": float(np.std(splits[0].values)),
            **errors,
            "PANN / better other": ratio,
            "not worse": ratio <= TIE,
            "how": ", ".join(f"{way} ({count})" for way, count in how.most_common()),
            "seconds a fit": seconds,
        }


def _tables() -> dict[str, Callable[[], list[Split]]]:
    """Made when their turn comes."""
    tables = {"diabetes": lambda: _cross_validation(*load_diabetes(return_X_y=True))}
    for number, make in FRIEDMAN.items():
        tables[f"Friedman {number}"] = lambda make=make: _fresh(make)
        tables[f"Friedman {number}, noise"] = lambda make=make: _noisy(make)
    flat, solid = NUM_POINTS["square"], NUM_POINTS["cube"]
    tables["non-smooth, alpha 2"] = lambda: _function(square(functions.non_smooth(2.0), flat))
    tables["non-smooth, alpha 1"] = lambda: _function(square(functions.non_smooth(1.0), flat))
    tables["sine product, d=3"] = lambda: _function(cube(3, solid))
    tables["Legendre product"] = lambda: _function(square(functions.legendre_product, flat))
    return tables


def _cross_validation(features: np.ndarray, values: np.ndarray) -> list[Split]:
    folds = RepeatedKFold(n_splits=5, n_repeats=NUM_REPEATS, random_state=0).split(features)
    return [Split(features[a], values[a], features[b], values[b]) for a, b in folds]


def _fresh(make: Callable) -> list[Split]:
    train = make(n_samples=NUM_ROWS, noise=0.0, random_state=0)
    return [Split(*train, *make(n_samples=NUM_TEST, noise=0.0, random_state=1))]


def _noisy(make: Callable) -> list[Split]:
    _, clean = make(n_samples=NUM_ROWS, noise=0.0, random_state=0)
    noise = 1.0 if make is make_friedman1 else float(np.std(clean)) / 3
    return _cross_validation(*make(n_samples=NUM_ROWS, noise=noise, random_state=0))


def _function(problem: Problem) -> list[Split]:
    return [Split(problem.points, problem.values, problem.test, problem.truth)]
