"""The work behind `pann fit` and `pann predict`, and the lines that they and `pann info` print.

The work gives back a report, the object that `--json` prints; `..._lines` turn one into text.
"""

import dataclasses
import math
import pathlib
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from pann.cli import csv
from pann.methods import Hybrid
from pann.regression import candidates
from pann.regression.candidates import SECOND_ORDER_OPERATIONS
from pann.regression.degree import BYTES_PER_ENTRY
from pann.regression.description import (
    leading_terms,
    load_regressor,
    target_names,
    what_was_fitted,
)
from pann.regression.estimator import PANNRegressor
from pann.report.texts import counted, duration
from pann.runtime.atomic import check_writable
from pann.training import Adam, default_recipe

Report = dict[str, Any]

SUFFIX = ".pann"
FEWEST_ROWS = 2


@dataclasses.dataclass(frozen=True)
class Source:
    """What to read for a fit, how many of its rows to keep for the test, and the seed of both."""

    path: pathlib.Path
    targets: Sequence[str]
    drop: Sequence[str]
    test_fraction: float
    seed: int


@dataclasses.dataclass(frozen=True)
class Split:
    """Features and targets as frames of numbers, and a mask of the rows that test the model."""

    features: csv.Frame
    targets: csv.Frame
    held_out: np.ndarray

    @property
    def sizes(self) -> Report:
        """What every report of a fit begins with."""
        return dict(
            rows=len(self.held_out),
            rows_fitted=int(np.sum(~self.held_out)),
            rows_held_out=int(np.sum(self.held_out)),
            features=list(self.features.columns),
            targets=list(self.targets.columns),
        )

    def values(self, rows: np.ndarray) -> np.ndarray:
        """The targets, as a vector where there is one."""
        values = self.targets.to_numpy()[rows]
        return values[:, 0] if values.shape[1] == 1 else values


def read_split(source: Source) -> Split:
    """Read the table, separate features and targets, and choose the rows for the test."""
    if not 0 <= source.test_fraction < 1:
        raise ValueError(
            f"the test fraction is in [0, 1), got {source.test_fraction}; 0 tests nothing"
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
    features = csv.numbers(table, inputs, cure="leave it out with --drop {column}")
    targets = csv.numbers(table, outputs, cure="choose another target")
    return Split(features, targets, _held_out(len(features), source))


def _held_out(num_rows: int, source: Source) -> np.ndarray:
    count = max(1, round(source.test_fraction * num_rows)) if source.test_fraction else 0
    if num_rows - count < FEWEST_ROWS:
        raise ValueError(
            f"'{source.path}' has {counted(num_rows, 'row')}, of which {count} would be held out; "
            f"a fit needs at least {FEWEST_ROWS} others, so add rows"
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
    check_writable(out)
    split = read_split(source)
    regressor = PANNRegressor(**options, random_state=source.seed)
    rows = ~split.held_out
    regressor.fit(split.features[rows], split.values(rows))
    regressor.target_names_ = list(split.targets.columns)
    is_tested = bool(split.held_out.any())
    test = split.held_out if is_tested else rows
    network, polynomial = (_columns(half) for half in regressor.parts(split.features[test]))
    by_target = {
        name: errors(split.targets[name].to_numpy()[test], predicted)
        for name, predicted in zip(split.targets, (network + polynomial).T, strict=True)
        if is_tested
    }
    shares = variance_shares(network, polynomial) or (None, None)
    regressor.save(out)
    return dict(
        command="fit",
        **split.sizes,
        **what_was_fitted(regressor),
        **{key: _mean(by_target, key) for key in ("rmse", "r2", "rel_l2")},
        by_target=by_target,
        share_network=shares[0],
        share_polynomial=shares[1],
        leading_terms=leading_terms(regressor.terms_),
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
    """cov(half, u) / var(u) of each half, the mean over outputs: their sum is 1.

    None where the prediction u does not vary.
    """
    halves = [half - half.mean(axis=0) for half in (network, polynomial)]
    prediction = halves[0] + halves[1]
    variance = np.sum(prediction**2, axis=0)
    # A constant is predicted up to rounding: its variance is not exactly zero.
    if np.any(variance <= 1e-24 * np.sum((network + polynomial) ** 2, axis=0)):
        return None
    shares = [float(np.mean(np.sum(half * prediction, axis=0) / variance)) for half in halves]
    return shares[0], shares[1]


# ---- Plan ----

# Rough figures of two CPU cores.
SECONDS_TO_COMPILE = 8
SECOND_ORDER_RATE = SECOND_ORDER_OPERATIONS / 60
GRADIENT_RATE = 1.2e10
PASSES = 30_000  # over the rows, of a recipe that follows gradients


def plan_fit(source: Source, options: dict[str, Any]) -> Report:
    """Choose the candidates as `fit` would, estimate memory and time, and stop there."""
    start = time.perf_counter()
    split = read_split(source)
    rows = ~split.held_out
    values = split.targets.to_numpy()[rows]
    wanted = PANNRegressor(**options, random_state=source.seed).options()
    planned = candidates.plan(split.features.to_numpy()[rows], values, np.ones(len(values)), wanted)
    ways = [_cost(candidate, planned.data, wanted.trials) for candidate in planned.candidates]
    return dict(
        command="fit",
        dry_run=True,
        **split.sizes,
        terms=max(way["terms"] for way in ways),
        ways=ways,
        bytes=max(way["bytes"] for way in ways),
        seconds=sum(way["seconds"] for way in ways) + time.perf_counter() - start,
    )


def _cost(candidate: candidates.Candidate, data: candidates.Data, trials: int) -> dict[str, Any]:
    """A candidate's basis and network, and a rough guess of what it takes to train it."""
    sizes, widths = candidate.sizes(data), list(candidate.architecture.widths)
    num_bytes = BYTES_PER_ENTRY * len(data.rows) * sizes.num_terms
    seconds, stages = 0.0, getattr(candidate.method, "stages", None)
    if isinstance(candidate.method, Hybrid) and "second order" in default_recipe(sizes)[1]:
        seconds = sizes.newton_operations / SECOND_ORDER_RATE
        num_bytes += int(sizes.newton_bytes)
    elif widths:
        visits = PASSES * sizes.num_points
        if stages is not None:
            visits = sum(
                stage.steps * (stage.batch_size or sizes.num_points)
                for stage in stages
                if isinstance(stage, Adam)
            )
        num_parameters = sizes.num_network_parameters + sizes.num_terms * sizes.num_outputs
        seconds = 6 * visits * num_parameters / GRADIENT_RATE
    return {
        "how": candidate.name,
        "degree": candidate.view.degree,
        "terms": sizes.num_terms,
        "widths": widths,
        "bytes": num_bytes,
        "seconds": trials * seconds + SECONDS_TO_COMPILE if widths else 0.0,
    }


# ---- Predict ----


def predict_file(model: pathlib.Path, data: pathlib.Path, *, std: bool) -> csv.Frame:
    """A frame with a column of predictions per target; with `std`, also of their deviations."""
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
    """The model's features, found by name, or by position if the model has no names."""
    is_named = hasattr(regressor, "feature_names_in_")
    names = regressor.feature_names_ if is_named else table.columns
    if is_named:
        csv.check_columns(table, names, why=", which the model needs,")
    elif len(names) != regressor.n_features_in_:
        raise ValueError(
            f"'{model}' was fitted to {regressor.n_features_in_} columns without names, but "
            f"'{table.path}' has {len(names)} columns; leave just those, in the same order"
        )
    rows = csv.numbers(table, names, cure="predict without such rows")
    return rows if is_named else rows.to_numpy()


def _columns(values: np.ndarray) -> Float[np.ndarray, "rows outputs"]:
    return values.reshape(len(values), -1)


def _mean(by_target: dict[str, dict[str, float | None]], key: str) -> float | None:
    values = [errors[key] for errors in by_target.values()]
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known and len(known) == len(values) else None


# ---- Lines to print ----

HOW = {
    "polynomial": "ridge regression",
    "second order": "Levenberg-Marquardt on a small tanh network",
    "gradient": "minibatch Adam on a network of the features' ranks",
    "as asked": "the given recipe",
}


def fit_lines(report: Report) -> list[str]:
    """The screen of `pann fit`."""
    lines = [*_size_lines(report), _how_line("chosen", report), _model_line(report)]
    for target, errors in report["by_target"].items():
        name = f"{target}: " if len(report["targets"]) > 1 else ""
        lines.append(
            f"test      {name}R2 {_figure(errors['r2'])}, RMSE {_figure(errors['rmse'])}, "
            f"relative l2 {_figure(errors['rel_l2'])}"
        )
    if report["share_network"] is not None:
        lines.append(
            f"shares    network {report['share_network']:.1%}, polynomial "
            f"{report['share_polynomial']:.1%} of the prediction's variance"
        )
    lines += _term_lines(report)
    lines.append(f"time      {duration(report['seconds'])}")
    left_out = ", without those of the test" if report["rows_held_out"] else ""
    lines.append(f"written   {report['file']} (fitted to {report['rows_fitted']:,} rows{left_out})")
    return lines


def plan_lines(report: Report) -> list[str]:
    """The screen of `pann fit --dry-run`."""
    lines = _size_lines(report)
    for way in report["ways"]:
        layers = "-".join(str(width) for width in way["widths"])
        network = f"network {layers}" if layers else "no network"
        lines.append(
            f"try       {way['how']}: degree {way['degree']}, {way['terms']:,} polynomial terms, "
            f"{network}; about {duration(max(way['seconds'], 1.0))}"
        )
    return [
        *lines,
        f"memory    about {max(report['bytes'] / 2**20, 1):,.0f} MiB on top of the table and JAX",
        f"time      about {duration(report['seconds'])} on two CPU cores, a rough guess",
        "nothing was trained or written (--dry-run)",
    ]


def info_lines(report: Report) -> list[str]:
    """The screen of `pann info`."""
    width = max(len(feature["name"]) for feature in report["features"])
    lines = [
        f"{report['file']}: a regressor, written by pann {report['pann_version']} (file format "
        f"{report['format_version']})",
        f"target    {', '.join(report['targets'])}",
        f"features  {len(report['features'])}, with their range in training",
        *(
            f"  {feature['name']:{width}}  {feature['low']:.6g} to {feature['high']:.6g}"
            for feature in report["features"]
        ),
        _how_line("trained", report),
        _model_line(report),
    ]
    if report["held_out_error"] is not None:
        lines.append(
            f"error     RMSE {_figure(report['held_out_error'])} on rows held out to choose a model"
        )
    if report["options"]:
        given = ", ".join(f"{name}={value}" for name, value in report["options"].items())
        lines.append(f"options   {given}")
    return lines + _term_lines(report)


def _size_lines(report: Report) -> list[str]:
    features = counted(len(report["features"]), "feature")
    return [
        f"table     {report['rows']:,} rows, {features}, target {', '.join(report['targets'])}",
        f"rows      {report['rows_fitted']:,} to fit, {report['rows_held_out']:,} to test",
    ]


def _how_line(title: str, report: Report) -> str:
    return f"{title:10}{report['how']}: {HOW.get(report['how'], report['how'])}"


def _model_line(report: Report) -> str:
    terms, units, trials = report["terms"], report["units"], report["trials"]
    polynomial = (
        f"degree {report['degree']}, {terms:,} polynomial terms" if terms else "no polynomial"
    )
    network = f"{units:,} units in the last layer" if units else "no network"
    return f"model     {polynomial}, {network}" + (f", {trials} trials" if trials > 1 else "")


def _term_lines(report: Report) -> list[str]:
    lines = ["terms     the largest, in features scaled to [-1, 1]:"]
    for term in report["leading_terms"]:
        signed = [f"{coefficient:+.3g}" for coefficient in term["coefficients"]]
        factor = signed[0] if len(signed) == 1 else f"({', '.join(signed)})"
        lines.append(f"  {factor}" if term["term"] == "1" else f"  {factor} * {term['term']}")
    return lines


def _figure(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.4g}"
