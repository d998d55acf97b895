"""The work behind `pann fit`, `predict` and `info`: each gives back a report, and prints nothing.

A report is the object that `--json` prints.
"""

import dataclasses
import itertools
import json
import math
import pathlib
import time
import zipfile
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from pann.cli import csv
from pann.io import FileError
from pann.model.architecture import check_widths
from pann.model.pann import Term
from pann.reader import load
from pann.regression import candidates
from pann.regression.candidates import SECOND_ORDER_OPERATIONS
from pann.regression.degree import BYTES_AN_ENTRY
from pann.regression.estimator import PANNRegressor
from pann.regression.scaling import scale_targets
from pann.solvers.solution import Solution
from pann.training import Sizes, default_recipe

Report = dict[str, Any]

SUFFIX = ".pann"
NUM_LEADING_TERMS = 10
FEWEST_ROWS = 2
ROUND_OFF = 1e-12


@dataclasses.dataclass(frozen=True)
class Source:
    """What to read for a fit, and how many of its rows to keep for the test."""

    path: pathlib.Path
    targets: Sequence[str]
    drop: Sequence[str] = ()
    test_fraction: float = 0.1
    seed: int = 0


@dataclasses.dataclass(frozen=True)
class Split:
    """Features and targets as frames of numbers, and a mask of the rows that test the model."""

    features: csv.Frame
    targets: csv.Frame
    held_out: np.ndarray

    @property
    def inputs(self) -> list[str]:
        return list(self.features.columns)

    @property
    def outputs(self) -> list[str]:
        return list(self.targets.columns)

    def values(self, rows: np.ndarray) -> np.ndarray:
        """The targets, as a vector where there is one."""
        values = self.targets.to_numpy()[rows]
        return values[:, 0] if values.shape[1] == 1 else values


def read_split(source: Source) -> Split:
    """Read the table, tell features from targets, and choose the rows for the test."""
    if not 0 <= source.test_fraction < 1:
        raise ValueError(
            f"the test fraction is a share in [0, 1), got {source.test_fraction}; 0 tests nothing"
        )
    table = csv.read_table(source.path)
    outputs = csv.split_names(source.targets, table)
    drop = csv.split_names(source.drop, table)
    csv.check_columns(table, [*outputs, *drop])
    inputs = [name for name in table.columns if name not in outputs and name not in drop]
    if not outputs or not inputs:
        what = "feature" if outputs else "target"
        raise ValueError(
            f"no column of '{source.path}' is left as {what}; its columns are "
            f"{', '.join(table.columns)}"
        )
    leave_out = "leave it out with --drop {column}"
    features = csv.numbers(table, inputs, cure=leave_out)
    targets = csv.numbers(table, outputs, cure="choose another target")
    return Split(features, targets, _held_out(len(features), source))


def _held_out(num_rows: int, source: Source) -> np.ndarray:
    count = max(1, round(source.test_fraction * num_rows)) if source.test_fraction else 0
    if num_rows - count < FEWEST_ROWS:
        raise ValueError(
            f"'{source.path}' has {num_rows} {'row' if num_rows == 1 else 'rows'}, of which "
            f"{count} would be held out; a fit needs at least {FEWEST_ROWS} others, so add rows"
        )
    held_out = np.zeros(num_rows, bool)
    held_out[np.random.default_rng(source.seed).permutation(num_rows)[:count]] = True
    return held_out


# ---- Fit ----


def fit_file(source: Source, options: dict[str, Any], out: pathlib.Path | None) -> Report:
    """Fit a `PANNRegressor` to the rows that are not held out, test it on the others, write it.

    For several targets `rmse`, `r2` and `rel_l2` are means over them; `by_target` has each.
    """
    start = time.perf_counter()
    out = out or pathlib.Path(csv.stem(source.path) + SUFFIX)
    if out.suffix != SUFFIX:
        raise ValueError(f"a model is written to a file that ends in {SUFFIX}, got '{out}'")
    csv.check_writable(out)
    split = read_split(source)
    regressor = PANNRegressor(**options)
    rows = ~split.held_out
    regressor.fit(split.features[rows], split.values(rows))
    regressor.target_names_ = split.outputs
    test = split.held_out if split.held_out.any() else rows
    network, polynomial = (_columns(half) for half in regressor.parts(split.features[test]))
    truth = split.targets.to_numpy()[test]
    by_target: dict[str, dict[str, float | None]] = {}
    if split.held_out.any():
        for name, true, predicted in zip(
            split.outputs, truth.T, (network + polynomial).T, strict=True
        ):
            by_target[name] = errors(true, predicted)
    shares = variance_shares(network, polynomial)
    regressor.save(out)
    return dict(
        command="fit",
        rows=len(rows),
        rows_fitted=int(rows.sum()),
        rows_held_out=int(split.held_out.sum()),
        features=split.inputs,
        targets=split.outputs,
        **_what(regressor),
        **{key: _mean(by_target, key) for key in ("rmse", "r2", "rel_l2")},
        by_target=by_target,
        share_network=None if shares is None else shares[0],
        share_polynomial=None if shares is None else shares[1],
        leading_terms=_leading(regressor.terms_),
        seconds=time.perf_counter() - start,
        file=str(out),
    )


def errors(
    true: Float[np.ndarray, " rows"], predicted: Float[np.ndarray, " rows"]
) -> dict[str, float | None]:
    """Root mean square error, R2 and relative l2 error; None where a divisor is zero."""
    squares = float(np.sum((predicted - true) ** 2))
    spread = float(np.sum((true - true.mean()) ** 2))
    size = float(np.sum(true**2))
    return {
        "rmse": math.sqrt(squares / len(true)),
        "r2": 1 - squares / spread if spread > 0 else None,
        "rel_l2": math.sqrt(squares / size) if size > 0 else None,
    }


def variance_shares(
    network: Float[np.ndarray, "rows outputs"], polynomial: Float[np.ndarray, "rows outputs"]
) -> tuple[float, float] | None:
    """cov(half, u) / var(u) of each half, the mean over outputs: they add up to 1.

    None where the prediction u does not vary.
    """
    halves = [half - half.mean(axis=0) for half in (network, polynomial)]
    prediction = halves[0] + halves[1]
    variance = np.sum(prediction**2, axis=0)
    # Not zero exactly: a constant is predicted up to rounding.
    if np.any(variance <= 1e-24 * np.sum((network + polynomial) ** 2, axis=0)):
        return None
    shares = [float(np.mean(np.sum(half * prediction, axis=0) / variance)) for half in halves]
    return shares[0], shares[1]


# ---- Plan ----

# Rough figures of two CPU cores.
SECONDS_TO_COMPILE = 8
SECOND_ORDER_RATE = SECOND_ORDER_OPERATIONS / 60
GRADIENT_RATE = 1.2e10


def plan_fit(source: Source, options: dict[str, Any]) -> Report:
    """Choose the basis as `fit` would, guess memory and time, and stop there."""
    start = time.perf_counter()
    split = read_split(source)
    rows = ~split.held_out
    wanted = PANNRegressor(**options)._options()
    values, weights = split.targets.to_numpy()[rows], np.ones(int(rows.sum()))
    features = split.features.to_numpy()[rows]
    task = candidates._Task(
        features,
        scale_targets(values, weights)(values),
        weights,
        candidates._hold_out(features, wanted),
        wanted,
        lambda progress: None,
    )
    ways = [_plan_way(how, task) for how in candidates._candidates(task)]
    return dict(
        command="fit",
        dry_run=True,
        rows=len(rows),
        rows_fitted=len(values),
        rows_held_out=len(rows) - len(values),
        features=split.inputs,
        targets=split.outputs,
        terms=max(way["terms"] for way in ways),
        ways=ways,
        bytes=max(way["bytes"] for way in ways),
        seconds=sum(way["seconds"] for way in ways) + time.perf_counter() - start,
    )


def _plan_way(how: str, task: candidates._Task) -> dict[str, Any]:
    """One of the models that `fit` tries: its basis, and what it would cost."""
    view = task.by_rank if how == "gradient" else task.by_range
    options, num_rows, num_terms = task.options, task.num_train, view.basis.num_terms
    num_outputs = task.target.shape[1]
    widths: tuple[int, ...] = ()
    if how == "second order":
        widths = (candidates._small_width(task),) * 3
    elif how != "polynomial":
        default = 128 if how == "gradient" else 32
        widths = check_widths(default if options.width is None else options.width, options.depth)
    seen = len(view.active) * (candidates.EMBEDDING.size if how == "gradient" else 1)
    layers = [seen, *widths, num_outputs]
    parameters = sum(a * b + b for a, b in itertools.pairwise(layers)) if widths else 0
    sizes = Sizes(num_rows, num_terms, parameters, num_outputs)
    num_bytes = BYTES_AN_ENTRY * len(task.rows) * num_terms
    seconds = 0.0
    if how == "second order" or (how == "as asked" and _is_second_order(options.recipe, sizes)):
        seconds = sizes.newton_operations / SECOND_ORDER_RATE
        num_bytes += int(sizes.newton_bytes)
    elif how != "polynomial":
        passes = max(8.0, min(160.0, 4e6 / num_rows)) if how == "gradient" else 30_000
        seconds = 6 * passes * num_rows * (parameters + num_terms * num_outputs) / GRADIENT_RATE
    if widths:
        seconds = options.trials * seconds + SECONDS_TO_COMPILE
    return {
        "how": how,
        "degree": view.degree,
        "terms": num_terms,
        "widths": list(widths),
        "bytes": num_bytes,
        "seconds": seconds,
    }


def _is_second_order(recipe: Any, sizes: Sizes) -> bool:
    return recipe == "default" and default_recipe(sizes)[1].startswith("second order")


# ---- Predict ----


def predict_file(model: pathlib.Path, data: pathlib.Path, *, std: bool) -> csv.Frame:
    """A frame with a column of predictions for each target; with `std`, of their deviations too."""
    import pandas

    regressor = load_regressor(model)
    if std and len(regressor.fit_.models) < 2:
        raise ValueError(
            f"--std needs several trials, but '{model}' has one; fit it with --trials 5, for "
            "instance"
        )
    rows = _inputs(regressor, model, csv.read_table(data))
    names = target_names(regressor)
    predicted = regressor.predict(rows, return_std=std)
    if isinstance(predicted, tuple):
        names = [*names, *(f"{name}_std" for name in names)]
        predicted = np.concatenate([_columns(values) for values in predicted], axis=1)
    return pandas.DataFrame(_columns(predicted), columns=names)


def _inputs(regressor: PANNRegressor, model: pathlib.Path, table: csv.Table) -> Any:
    """The features as the model knows them, by name; by position if it knows no names."""
    if hasattr(regressor, "feature_names_in_"):
        names = list(regressor.feature_names_in_)
        csv.check_columns(table, names, why=", which the model needs,")
    else:
        names = table.columns
        if len(names) != regressor.n_features_in_:
            raise ValueError(
                f"'{model}' was fitted to {regressor.n_features_in_} columns without names, but "
                f"'{table.path}' has {len(names)} columns; leave just those, in the same order"
            )
    rows = csv.numbers(table, names, cure="predict without such rows")
    return rows if hasattr(regressor, "feature_names_in_") else rows.to_numpy()


def target_names(regressor: PANNRegressor) -> list[str]:
    """The names of the targets; of a regressor that was never told, made-up ones."""
    names = getattr(regressor, "target_names_", None)
    if names is not None:
        return list(names)
    count = len(regressor.fit_.targets.mean)
    return ["prediction"] if count == 1 else [f"prediction_{i + 1}" for i in range(count)]


def load_regressor(path: pathlib.Path) -> PANNRegressor:
    loaded = load(path)
    if not isinstance(loaded, PANNRegressor):
        what = "a model of points, not of a table"
        if isinstance(loaded, Solution):
            what = "the solution of an equation, not a model of a table"
        raise FileError(f"'{path}' holds {what}; use it in Python with pann.load")
    return loaded


# ---- Info ----


def describe_file(path: pathlib.Path) -> Report:
    """What a `.pann` file of a regressor says of itself."""
    loaded = load_regressor(path)
    # `load` has checked the file; the versions are all that it does not hand on.
    with zipfile.ZipFile(path) as archive:
        manifest = json.loads(archive.read("pann.json"))
    versions = {key: manifest[key] for key in ("pann_version", "format_version")}
    scaling, defaults = loaded.fit_.features, PANNRegressor().get_params()
    return dict(
        command="info",
        file=str(path),
        kind="regressor",
        **versions,
        features=_ranges(loaded._feature_names(), scaling.low, scaling.high),
        targets=target_names(loaded),
        **_what(loaded),
        held_out_error=loaded.held_out_error_,
        options={
            name: value
            for name, value in loaded.get_params().items()
            if value != defaults[name] and name != "verbose"
        },
        leading_terms=_leading(loaded.terms_),
    )


# ---- What reports share ----


def _what(regressor: PANNRegressor) -> dict[str, Any]:
    models = regressor.fit_.models
    return {
        "how": regressor.how_,
        "degree": regressor.degree_,
        "terms": max(model.num_terms for model in models),
        "units": max(model.num_units for model in models),
        "trials": len(models),
    }


def _leading(terms: Sequence[Term]) -> list[dict[str, Any]]:
    """The first terms as JSON, without those that are rounding."""
    sizes = [float(np.max(np.abs(term.coefficients))) for term in terms]
    return [
        {"term": term.name, "coefficients": [float(c) for c in term.coefficients]}
        for term, size in list(zip(terms, sizes, strict=True))[:NUM_LEADING_TERMS]
        if size > ROUND_OFF * sizes[0]
    ]


def _ranges(names: list[str], low: np.ndarray, high: np.ndarray) -> list[dict[str, Any]]:
    return [
        {"name": name, "low": float(a), "high": float(b)}
        for name, a, b in zip(names, low, high, strict=True)
    ]


def _columns(values: np.ndarray) -> Float[np.ndarray, "rows outputs"]:
    return values.reshape(len(values), -1)


def _mean(by_target: dict[str, dict[str, float | None]], key: str) -> float | None:
    values = [errors[key] for errors in by_target.values()]
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known and len(known) == len(values) else None
