"""California housing by constraint, with and without the preconditioner K (paper, section 4.5).

Three layers of 100 beside a polynomial of degree 2, which the paper does not state, in the bounding
box of each training fold; test rows outside it go to its faces. `default` is `PANNRegressor()`.
"""

import dataclasses
import pathlib
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from pann import baselines
from pann.domain import Box
from pann.model import PANN
from pann.paper import published
from pann.paper.conventional import NUM_FOLDS, housing_folds
from pann.regression import Fit, fit, relative_l2
from pann.runs import Result, Row
from pann.training import LBFGS, Adam, Cosine, Prune, Recipe

WIDTH, DEGREE, CONSTRAINT_WEIGHT = 100, 2, 1e-3
CELL = ("method", "constraint", "activation", "degree", "preconditioner")
REVISION = 1


@dataclasses.dataclass(frozen=True)
class Size:
    """How long a fit is, on how many folds and rows; minibatches go without L-BFGS."""

    adam_steps: int
    lbfgs_iterations: int = 0
    num_folds: int = 1
    batch_size: int | None = None
    num_points: int | None = None


SIZES = {
    "smoke": Size(4, batch_size=64, num_points=256),
    "quick": Size(1_000, batch_size=512),
    "full": Size(20_000, 400, NUM_FOLDS),
}


def rows(size: str, mode: str, trials: int | None = None) -> list[Row]:
    """A row for each published cell, one of each method at the smallest size; one by default."""
    chosen = {name: value for name, value in vars(SIZES[size]).items() if value is not None}
    common: dict[str, Any] = {"mode": mode, "seed": 0, "revision": REVISION}
    if mode == "default":
        where = {name: chosen[name] for name in ("num_folds", "num_points") if name in chosen}
        return [Row("housing", common | where)]
    common |= chosen | {"trials": trials or 1, "precision": "float32"}
    cells = []
    for record in published.load("housing").to_dict("records"):
        cell = {key: record[key] for key in CELL if not published.is_missing(record[key])}
        if "degree" in cell:
            cell["degree"] = int(cell["degree"])
        cells.append(cell | {"preconditioner": bool(record["preconditioner"])})
    if size == "smoke":
        cells = list({cell["method"]: cell for cell in reversed(cells)}.values())
    return [Row("housing", common | cell) for cell in cells]


def run(configuration: Mapping[str, Any], scratch: pathlib.Path) -> Result:
    """Fit every fold; all trials of all folds count."""
    fit_fold = _by_default if configuration["mode"] == "default" else _faithful
    errors, seconds = [], []
    folds = housing_folds(configuration.get("num_points"))
    for train, values, test, truth in folds[: configuration["num_folds"]]:
        start = time.perf_counter()
        predictions = fit_fold(configuration, train, values)
        seconds.append(time.perf_counter() - start)
        errors += [relative_l2(predict(test), truth) for predict in predictions]
    return Result({"errors": errors, "fit_seconds": float(np.mean(seconds))})


Predictions = list[Callable[[np.ndarray], np.ndarray]]


def _by_default(
    configuration: Mapping[str, Any], train: np.ndarray, values: np.ndarray
) -> Predictions:
    from pann.estimator import PANNRegressor

    model = PANNRegressor(random_state=configuration["seed"]).fit(train, values)
    return [lambda test: np.asarray(model.predict(test))]


def _faithful(
    configuration: Mapping[str, Any], train: np.ndarray, values: np.ndarray
) -> Predictions:
    box = Box.from_bounds(train.min(axis=0).tolist(), train.max(axis=0).tolist())
    batch, method = configuration.get("batch_size"), configuration["method"]
    options: dict[str, Any] = {
        "domain": box,
        "width": WIDTH,
        "recipe": recipe(configuration),
        "preconditioner": configuration["preconditioner"],
        "trials": configuration["trials"],
        "seed": configuration["seed"],
        "precision": configuration["precision"],
        "held_out": 0.0,
    }
    fitted: Fit
    if method == "DNN":
        fitted = baselines.dnn(train, values, activation=configuration["activation"], **options)
    elif method == "PL":
        options["degree"] = configuration["degree"]
        fitted = baselines.polynomial_by_gradient(train, values, **options)
    else:
        # |C| grows like the root of the number of rows: a batch counts as much as all of them.
        share = 1.0 if batch is None else len(train) / batch
        options |= {key: configuration[key] for key in ("activation", "constraint")}
        options |= {"degree": DEGREE, "constraint_weight": CONSTRAINT_WEIGHT * share**0.5}
        fitted = fit(train, values, **options)
    return [_clipped(model, box) for model in fitted.models]


def _clipped(model: PANN, box: Box) -> Callable[[np.ndarray], np.ndarray]:
    return lambda test: model(np.clip(test, box.lower, box.upper))


def recipe(configuration: Mapping[str, Any]) -> Recipe:
    """The paper's recipe for regression, in minibatches where the row says so."""
    steps, batch = configuration["adam_steps"], configuration.get("batch_size")
    prune = () if configuration["method"] == "DNN" else (Prune(1e-4),)
    stages: Recipe = (Adam(steps, Cosine(1e-3), batch_size=batch), *prune)
    if not configuration["lbfgs_iterations"]:
        return stages
    return (*stages, LBFGS(configuration["lbfgs_iterations"]), *prune)
