"""California housing by constraint, with and without the preconditioner K (paper, section 4.5).

Three layers of 100 beside a polynomial of degree 2, which the paper does not state, in the bounding
box of each training fold; test rows outside it go to its faces. `default` is `PANNRegressor()`.
"""

import dataclasses
import pathlib
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from pann import baselines
from pann.basis import make_basis
from pann.domain import Box
from pann.io.checkpoint import kept_in
from pann.regression.batch import fit_together, num_fits_that_fit
from pann.regression.fit import relative_l2
from pann.runs import Result, Row
from pann.runs.row import canonical
from pann.training import LBFGS, Adam, Cosine, Prune, Recipe
from reproduction import published
from reproduction.conventional import NUM_FOLDS, housing_folds

WIDTH, DEPTH, DEGREE, CONSTRAINT_WEIGHT = 100, 3, 2, 1e-3
CELL = ("method", "constraint", "activation", "degree", "preconditioner")
# What rows that are trained as one program may differ in: neither shapes nor stages depend on it.
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
    """Fit every fold; all trials of all folds count. Faithful ones go on from a checkpoint."""
    if configuration["mode"] == "faithful":
        return run_together([configuration], scratch)[0]
    errors, seconds = [], []
    for train, values, test, truth in _folds(configuration):
        start = time.perf_counter()
        prediction = _by_default(configuration, train, values)
        seconds.append(time.perf_counter() - start)
        errors.append(relative_l2(prediction(test), truth))
    return _result(errors, seconds)


def alike(row: Row) -> str | None:
    """What rows that are trained as one program have in common."""
    if row.configuration["mode"] != "faithful":
        return None
    return canonical({key: row.configuration[key] for key in set(row.configuration) - OWN})


def room(configuration: Mapping[str, Any]) -> int:
    """How many rows such as this one to train as one program."""
    train, *_ = _folds(configuration)[0]
    case = _case(configuration, _box(train), train, np.zeros(len(train)))
    degree = case["degree"]
    return num_fits_that_fit(
        num_points=len(train),
        num_terms=0 if degree is None else make_basis(case["domain"], degree).num_terms,
        num_units=DEPTH * WIDTH,
        trials=configuration["trials"],
        precision=configuration["precision"],
        num_seen=configuration.get("batch_size", len(train)) * configuration["adam_steps"],
        by_constraint="constraint" in configuration,
    )


def run_together(
    configurations: Sequence[Mapping[str, Any]], scratch: pathlib.Path
) -> list[Result]:
    """Run rows that are alike, fold by fold; what was killed goes on from its checkpoint."""
    errors: list[list[float]] = [[] for _ in configurations]
    seconds = []
    told = {"rows": " ".join(canonical(dict(each)) for each in configurations)}
    with kept_in(scratch, told) as checkpoint:
        for number, (train, values, test, truth) in enumerate(_folds(configurations[0])):
            box = _box(train)
            fits = fit_together(
                [_case(each, box, train, values) for each in configurations],
                checkpoint=checkpoint.within(f"fold {number}"),
            )
            seconds.append(fits[0].seconds)
            inside = np.clip(test, box.lower, box.upper)
            for own, fitted in zip(errors, fits, strict=True):
                own += [relative_l2(model(inside), truth) for model in fitted.models]
    return [_result(own, seconds) for own in errors]


def _result(errors: list[float], seconds: list[float]) -> Result:
    return Result({"errors": errors, "fit_seconds": float(np.mean(seconds))})


def _folds(configuration: Mapping[str, Any]) -> list[Any]:
    return housing_folds(configuration.get("num_points"))[: configuration["num_folds"]]


def _box(train: np.ndarray) -> Box:
    return Box.from_bounds(train.min(axis=0).tolist(), train.max(axis=0).tolist())


def _by_default(
    configuration: Mapping[str, Any], train: np.ndarray, values: np.ndarray
) -> Callable[[np.ndarray], np.ndarray]:
    from pann.regression.estimator import PANNRegressor

    model = PANNRegressor(random_state=configuration["seed"]).fit(train, values)
    return lambda test: np.asarray(model.predict(test))


def _case(
    configuration: Mapping[str, Any], box: Box, train: np.ndarray, values: np.ndarray
) -> dict[str, Any]:
    """What `fit` is given for a row on a fold."""
    batch, method = configuration.get("batch_size"), configuration["method"]
    options: dict[str, Any] = {
        "points": train,
        "values": values,
        "domain": box,
        "width": WIDTH,
        "depth": DEPTH,
        "recipe": recipe(configuration),
        "preconditioner": configuration["preconditioner"],
        "trials": configuration["trials"],
        "seed": configuration["seed"],
        "precision": configuration["precision"],
        "held_out": 0.0,
    }
    if method == "PL":
        return baselines.polynomial_options(**options, degree=configuration["degree"])
    options["activation"] = configuration["activation"]
    if method == "DNN":
        return baselines.dnn_options(**options)
    # |C| grows like the root of the number of rows: a batch counts as much as all of them.
    share = 1.0 if batch is None else len(train) / batch
    return options | {
        "constraint": configuration["constraint"],
        "constraint_weight": CONSTRAINT_WEIGHT * share**0.5,
        "degree": DEGREE,
    }


def recipe(configuration: Mapping[str, Any]) -> Recipe:
    """The paper's recipe for regression, in minibatches where the row says so."""
    steps, batch = configuration["adam_steps"], configuration.get("batch_size")
    prune = () if configuration["method"] == "DNN" else (Prune(1e-4),)
    stages: Recipe = (Adam(steps, Cosine(1e-3), batch_size=batch), *prune)
    if not configuration["lbfgs_iterations"]:
        return stages
    return (*stages, LBFGS(configuration["lbfgs_iterations"]), *prune)
