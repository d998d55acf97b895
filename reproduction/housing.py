"""California housing by constraint, with and without the preconditioner K (paper, section 4.5).

Three layers of 100 and a polynomial of degree 2, which the paper does not state, in the bounding
box of each training fold; test rows outside it go to its faces. `default` is `PANNRegressor()`.
"""

import dataclasses
import pathlib
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pann import Box, PANNRegressor, relative_l2
from pann.runs import Result, Row
from reproduction import methods, published
from reproduction.conventional import NUM_FOLDS, housing_folds

WIDTH, DEPTH, DEGREE = 100, 3, 2
CELL = ("method", "constraint", "activation", "degree", "preconditioner")
# Rows that differ in these alone are trained as one program: shapes and stages are the same.
OWN = {"seed", "constraint"}
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
    """Fit every fold; the errors are those of all trials of all folds."""
    if configuration["mode"] == "faithful":
        return run_together([configuration], scratch)[0]
    errors, seconds = [], []
    for train, values, test, truth in _folds(configuration):
        start = time.perf_counter()
        model = PANNRegressor(random_state=configuration["seed"]).fit(train, values)
        seconds.append(time.perf_counter() - start)
        errors.append(relative_l2(np.asarray(model.predict(test)), truth))
    return _result(errors, seconds)


def alike(row: Row) -> str | None:
    """What rows that are trained as one program have in common."""
    return methods.common(row, OWN) if row.configuration["mode"] == "faithful" else None


def room(configuration: Mapping[str, Any]) -> int:
    """The number of rows like this one to train as one program."""
    train, *_ = _folds(configuration)[0]
    settings = _settings(configuration)
    degree = None if settings["method"] == "DNN" else settings["degree"]
    return methods.num_regressions_that_fit(settings, _box(train), len(train), degree)


def run_together(
    configurations: Sequence[Mapping[str, Any]], scratch: pathlib.Path
) -> list[Result]:
    """Run rows that are alike as one program, fold by fold."""
    errors: list[list[float]] = [[] for _ in configurations]
    seconds = []
    folds = _folds(configurations[0])
    cases = (
        [
            methods.regression_options(_settings(each), _box(train), train, values)
            for each in configurations
        ]
        for train, values, *_ in folds
    )
    of_folds = methods.fit_rows(configurations, cases, scratch)
    for (train, _, test, truth), fits in zip(folds, of_folds, strict=True):
        seconds.append(fits[0].seconds)
        inside = np.clip(test, train.min(axis=0), train.max(axis=0))
        for own, fitted in zip(errors, fits, strict=True):
            own += [relative_l2(model(inside), truth) for model in fitted.models]
    return [_result(own, seconds) for own in errors]


def _result(errors: list[float], seconds: list[float]) -> Result:
    return Result({"errors": errors, "fit_seconds": float(np.mean(seconds))})


def _folds(configuration: Mapping[str, Any]) -> list[Any]:
    return housing_folds(configuration.get("num_points"))[: configuration["num_folds"]]


def _box(train: np.ndarray) -> Box:
    return Box.from_bounds(train.min(axis=0).tolist(), train.max(axis=0).tolist())


def _settings(configuration: Mapping[str, Any]) -> dict[str, Any]:
    """With what is the same in all rows."""
    return {"width": WIDTH, "depth": DEPTH, "degree": DEGREE, **configuration}
