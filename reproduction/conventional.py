"""Conventional regressors with scikit-learn's defaults, as in the paper's appendix.

Features are scaled to [-1, 1] by the training rows where a method sees scales.
"""

import pathlib
import time
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from pann import Box, points, relative_l2
from pann.runs import Result, Row
from reproduction import published
from reproduction.regressions import HIGH_DIMENSIONAL, sample, target_of

DATA = {
    "reproduction": "P10 P10",
    "non_smooth": "the non-smooth function",
    "high_dimensional": "a product of sines",
    "housing": "California housing",
}
NUM_TEST, NUM_FOLDS, REVISION = 20_000, 4, 1


def rows(data: str, size: str, mode: str, trials: int | None = None) -> list[Row]:
    """A row for each published cell; small sizes have few points, and no default mode."""
    if mode != "faithful":
        return []
    common = {"mode": mode, "data": data, "trials": 1, "seed": 0, "revision": REVISION}
    made = []
    for record in published.load(f"conventional_{data}").to_dict("records"):
        cell: dict[str, Any] = {"method": record["method"]}
        if data == "high_dimensional":
            cell["dimension"] = int(record["dimension"])
            cell["num_points"] = HIGH_DIMENSIONAL[cell["dimension"]]
        elif data != "housing":
            cell["num_points"] = int(record["num_points"])
        if size != "full":
            most = 256 if size == "smoke" else 1024
            if cell.get("num_points", 0) > most and data != "high_dimensional":
                continue
            if data in ("housing", "high_dimensional"):
                cell["num_points"] = most
        made.append(Row(f"conventional_{data}", common | cell))
    unique = list(dict.fromkeys(made))
    return unique[:2] if size == "smoke" else unique


def run(configuration: Mapping[str, Any], scratch: pathlib.Path) -> Result:
    """Fit one regressor, on all folds of the housing data."""
    from sklearn.exceptions import ConvergenceWarning

    errors, seconds = [], []
    with warnings.catch_warnings():
        # Defaults are what is compared, also where they stop before converging.
        warnings.simplefilter("ignore", ConvergenceWarning)
        for train, values, test, truth in _data(configuration):
            model, start = _estimator(configuration["method"]), time.perf_counter()
            model.fit(train, values)
            seconds.append(time.perf_counter() - start)
            errors.append(relative_l2(model.predict(test), truth))
    return Result({"errors": errors, "fit_seconds": float(np.mean(seconds))})


def _data(configuration: Mapping[str, Any]) -> list[tuple[np.ndarray, ...]]:
    name = configuration["data"]
    if name == "housing":
        return housing_folds(configuration.get("num_points"))
    target, domain = target_of({"target": name}), Box.cube(configuration.get("dimension", 2))
    train = sample(domain, configuration["num_points"])
    test = points.uniform(domain, NUM_TEST, seed=1).coordinates
    return [(train, target(train), test, target(test))]


def housing_folds(most: int | None = None) -> list[tuple[np.ndarray, ...]]:
    """For each fold features and values to train on, at most so many, and those to test."""
    from sklearn.datasets import fetch_california_housing
    from sklearn.model_selection import KFold

    try:
        features, values = fetch_california_housing(return_X_y=True)
    except OSError as error:
        raise ValueError(
            f"California housing is neither on disk nor to be downloaded ({error}); set "
            "SCIKIT_LEARN_DATA to a folder with cal_housing_py3.pkz"
        ) from error
    splits = KFold(NUM_FOLDS, shuffle=True, random_state=0).split(features)
    # The rows lie on the map as in the file: the first few would all be neighbors.
    rng = np.random.default_rng(0)
    chosen = [(a if most is None else rng.permutation(a)[:most], b) for a, b in splits]
    return [(features[a], values[a], features[b], values[b]) for a, b in chosen]


def _estimator(name: str) -> Any:
    """The regressor of that name; trees do not see a scale."""
    from sklearn import ensemble, linear_model, neighbors, neural_network, svm
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import MinMaxScaler

    trees = {
        "AdaBoost": ensemble.AdaBoostRegressor(random_state=0),
        "Bagging": ensemble.BaggingRegressor(random_state=0),
        "gradient boosting": ensemble.GradientBoostingRegressor(random_state=0),
    }
    scaled = {
        "Bayesian ridge": linear_model.BayesianRidge(),
        "Elastic Net": linear_model.ElasticNet(),
        "Huber": linear_model.HuberRegressor(),
        "Tweedie": linear_model.TweedieRegressor(),
        "k neighbors": neighbors.KNeighborsRegressor(),
        "nu-SVR": svm.NuSVR(),
        "SVR": svm.SVR(),
        "linear SVR": svm.LinearSVR(random_state=0),
        "MLP": neural_network.MLPRegressor(random_state=0),
        "Theil-Sen": linear_model.TheilSenRegressor(random_state=0),
    }
    return trees[name] if name in trees else make_pipeline(MinMaxScaler((-1, 1)), scaled[name])
