"""Sections of a user's own fits, of tables and of functions."""

import json
import pathlib
from collections.abc import Sequence

import numpy as np

from pann.cli.tables import describe_file
from pann.model.pann import PANN
from pann.plot.values import SOLUTION, middle_of, ticks_along
from pann.regression.estimator import PANNRegressor
from pann.report.halves import (
    LINE_PLACES,
    LOOKS,
    MAP_PLACES,
    both_halves,
    curves,
    leading_terms,
    maps,
)
from pann.report.page import Block, Column, Facts, Key, Panels, Table, Value
from pann.report.plots import Axis, Line, line_plot
from pann.report.texts import number, shown

MOST_FEATURES = 12
SOBOL_POINTS = 2**12


# ---- Fits of tables ----


def regressor_parts(path: pathlib.Path, regressor: PANNRegressor) -> tuple[str, list[Block]]:
    """What leads the section of a fitted table, and what is in it."""
    report = describe_file(path)
    error = report["held_out_error"]
    pairs = [
        ("targets", ", ".join(report["targets"])),
        ("features", shown(len(report["features"]))),
        ("trained by", report["how"]),
        ("held-out RMSE", "unknown" if error is None else number(error)),
        ("degree", shown(report["degree"])),
        ("polynomial terms", shown(report["terms"])),
        ("network units", shown(report["units"])),
        ("trials", shown(report["trials"])),
        ("written by pann", report["pann_version"]),
        *((name, json.dumps(value)) for name, value in report["options"].items()),
    ]
    indices = regressor.sobol_indices(SOBOL_POINTS)
    order = np.argsort(-indices.total, kind="stable")
    features = tuple(
        (
            Value(report["features"][k]["name"]),
            *(
                Value(number(value), value)
                for value in (
                    report["features"][k]["low"],
                    report["features"][k]["high"],
                    float(indices.first[k]),
                    float(indices.total[k]),
                )
            ),
        )
        for k in order
    )
    columns = (
        Column("feature"),
        Column("lowest", is_number=True),
        Column("highest", is_number=True),
        Column("share alone", is_number=True, note="Sobol index of first order"),
        Column("share with others", is_number=True, note="total Sobol index"),
    )
    caption = "Ranges in training; shares of the prediction's variance (Sobol indices)."
    blocks: list[Block] = [
        Facts("", tuple(pairs)),
        _along_features(regressor, report["targets"], order[:MOST_FEATURES]),
        *([leading_terms(regressor.terms_)] if report["terms"] else []),
        Table(caption, columns, features),
    ]
    lead = f"A model of {', '.join(report['targets'])} by {len(report['features'])} features."
    if error is not None:
        lead += f" Root mean square error on rows that training held out: {number(error)}."
    return lead, blocks


def _along_features(regressor: PANNRegressor, targets: Sequence[str], chosen: np.ndarray) -> Panels:
    """The first target along each feature, all others in the middle of their range."""
    scaling, names = regressor.fit_.features, regressor._feature_names()
    middle = (scaling.low + scaling.high) / 2
    plots = []
    for column in chosen:
        at = np.linspace(scaling.low[column], scaling.high[column], LINE_PLACES)
        rows = np.tile(middle, (len(at), 1))
        rows[:, column] = at
        halves = [np.reshape(half, (len(at), -1))[:, 0] for half in regressor._parts(rows)]
        lines = [
            Line(name, at, curve, *LOOKS[name]) for name, curve in both_halves(*halves).items()
        ]
        plots.append(line_plot(names[column], lines, Axis(), Axis(), 220))
    drawn = {line.label for line in lines}
    keys = tuple(
        Key("prediction" if name == SOLUTION else name, *look)
        for name, look in LOOKS.items()
        if name in drawn
    )
    left = len(names) - len(chosen)
    note = "Along each feature, the others in the middle of their range."
    note += f" {left} features of less weight are left out." if left else ""
    return Panels(f"Prediction of {targets[0]} and its halves", tuple(plots), keys, note)


# ---- Fits of functions ----


def model_parts(model: PANN) -> tuple[str, list[Block]]:
    """What leads the section of a fitted function, and what is in it."""
    domain = model.domain
    pairs = (
        ("inputs", ", ".join(domain.names)),
        ("outputs", shown(model.num_outputs or 1)),
        ("polynomial terms", shown(model.num_terms)),
        ("network units", shown(model.num_units)),
        ("precision", model.precision),
    )
    blocks: list[Block] = [Facts("", pairs), *_model_panels(model)]
    if model.num_terms:
        blocks.append(leading_terms(model.terms()))
    return repr(model), blocks


def _model_panels(model: PANN) -> list[Panels]:
    """Lines of one input, maps of two; others in the middle of their range."""
    domain = model.domain
    shown_axes = domain.names[:2]
    count = LINE_PLACES if len(shown_axes) == 1 else MAP_PLACES
    ticks = {axis: ticks_along(domain, axis, count) for axis in shown_axes}
    mesh = np.meshgrid(*ticks.values(), indexing="ij")
    columns = [
        mesh[shown_axes.index(axis)].ravel()
        if axis in shown_axes
        else np.full(mesh[0].size, middle_of(domain, axis))
        for axis in domain.names
    ]
    halves = model.parts(np.stack(columns, axis=1))
    values = both_halves(
        *(np.reshape(half, (mesh[0].size, -1))[:, 0].reshape(mesh[0].shape) for half in halves)
    )
    plots = curves(values, ticks) if len(ticks) == 1 else maps(values, ticks, domain.names)
    keys = tuple(Key(name, *LOOKS[name]) for name in values) if len(ticks) == 1 else ()
    return [Panels("The model and its halves", tuple(plots), keys)]
