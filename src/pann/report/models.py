"""The `.pann` files of a user in a page: solutions of equations, fits of tables and functions."""

import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pann.domain import Box
from pann.io import read
from pann.model.pann import PANN, Term
from pann.plot.values import (
    NETWORK,
    POLYNOMIAL,
    SOLUTION,
    cuts,
    grid_points,
    shown_ticks,
    values_on_grid,
)
from pann.reader import load
from pann.regression.description import describe_file
from pann.regression.estimator import PANNRegressor
from pann.report.charts import (
    BLUE,
    GREEN,
    ORANGE,
    VERMILION,
    Axis,
    Chart,
    Line,
    Lines,
    Map,
    Panels,
    sideways_bars,
)
from pann.report.page import Block, Column, Facts, Folded, Note, Section, Table, Value
from pann.report.runs import cell, history_panels
from pann.report.texts import duration, name_of, number, shown
from pann.runs.excerpt import figures_of
from pann.solvers.folder import LOG
from pann.solvers.solution import Solution

LINE_POINTS, MAP_POINTS, NUM_TIMES = 201, 81, 3
MAX_TERMS, MAX_FEATURES, MAX_LOG_LINES = 15, 12, 200
SOBOL_POINTS = 2**12
LOOKS = {
    SOLUTION: (BLUE, "solid", "circle"),
    POLYNOMIAL: (VERMILION, "dash", "square"),
    NETWORK: (GREEN, "dot", "triangle-up"),
}
Ticks = Mapping[str, np.ndarray]
Values = Mapping[str, np.ndarray]


def model_section(path: pathlib.Path, name: str, anchor: str) -> Section:
    """The section of a file, whatever it holds, with that title and anchor."""
    loaded = load(path)
    if isinstance(loaded, Solution):
        badge, (lead, blocks) = "solution", _solution(path, loaded)
    elif isinstance(loaded, PANN):
        badge, (lead, blocks) = "model", _function(loaded)
    else:
        badge, (lead, blocks) = "table", _table(path, loaded)
    return Section(anchor, name, lead, blocks, badge=badge, group="Models")


# ---- What all models share: lines or maps of the model and its halves, and the leading terms ----


def _facts(values: Mapping[str, Any]) -> Facts:
    known = {name: value for name, value in values.items() if value is not None}
    return Facts("", [(name_of(name), shown(value)) for name, value in known.items()])


def _whole_and_halves(network: np.ndarray, polynomial: np.ndarray) -> dict[str, np.ndarray]:
    """The sum, and the halves where there are two."""
    whole = {SOLUTION: network + polynomial}
    if not (np.any(network) and np.any(polynomial)):
        return whole
    return whole | {POLYNOMIAL: polynomial, NETWORK: network}


def _ticks(domain: Box) -> Ticks:
    return shown_ticks(domain, LINE_POINTS, MAP_POINTS, MAP_POINTS, NUM_TIMES, MAP_POINTS)


def _value_panels(title: str, values: Values, ticks: Ticks, domain: Box) -> Panels:
    """All lines of one axis in one chart; maps of two, at several times if time comes first."""
    note = f"At {cut}." if (cut := cuts(domain, ticks)) else ""
    if len(ticks) == 1:
        ((axis, at),) = ticks.items()
        lines = [Line(name, at, curve, *LOOKS[name]) for name, curve in values.items()]
        chart = Lines("values", lines, Axis(axis), height=320)
        return Panels(title, [chart], [line.key for line in lines], note)
    *times, first, second = ticks.items()
    charts: list[Chart] = []
    for name, array in values.items():
        if not times:
            charts.append(Map(name, array, first, second, is_square=first[0] != domain.time))
            continue
        ((time, at),) = times
        for moment, each in zip(at, array, strict=True):
            text = f"{name}, {time} = {moment:.3g}"
            charts.append(Map(text, each, first, second, is_square=True))
    return Panels(title, charts, note=note)


def _leading_terms(terms: Sequence[Term]) -> Panels:
    """The leading coefficients of the polynomial half, of its first output."""
    leading = {term.name: float(term.coefficients[0]) for term in terms[:MAX_TERMS]}
    colors = [BLUE if value > 0 else ORANGE for value in leading.values()]
    chart = sideways_bars("coefficient", leading, colors)
    return Panels("Leading polynomial terms", [chart], note="In features scaled to [-1, 1].")


# ---- Solutions of equations ----


def _solution(path: pathlib.Path, solution: Solution) -> tuple[str, list[Block]]:
    report = solution.report
    problem = str(read(path).description.get("problem") or "an equation")
    facts = {"problem": problem, **figures_of(solution), "precision": solution.model.precision}
    facts |= {"tolerance": report.tolerance, "time": duration(report.seconds), "stop": report.stop}
    for name, value in facts.pop("parameters").items():
        deviation = solution.parameter_deviations.get(name)
        spread = "" if deviation is None else f" ± {number(deviation, 2)}"
        facts[name] = f"{value:.6g}{spread}"
    notes = map(Note, facts.pop("notes"))
    blocks: list[Block] = [_facts(facts), *notes, *_solution_panels(solution)]
    if any(len(values) > 1 for values in report.history.values()):
        blocks.append(history_panels(report.history))
    if len(report.trials) > 1:
        blocks.append(_trials(solution))
    log = path.parent / LOG
    if log.is_file():
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
        count = f"the last {MAX_LOG_LINES} of " if len(lines) > MAX_LOG_LINES else ""
        title = f"The log ({count}{len(lines)} lines)"
        blocks.append(Folded(title, lines[-MAX_LOG_LINES:], is_code=True))
    best = report.rel_l2 if report.rel_l2 is not None else report.residual
    measure = "relative l2 error" if report.rel_l2 is not None else "relative residual"
    return f"The solution of {problem}: {measure} {number(best)}.", blocks


def _solution_panels(solution: Solution) -> list[Panels]:
    """Every field and its halves: lines in one dimension, maps in two, several times of more."""
    domain = solution.model.domain
    ticks = _ticks(domain)
    return [
        _value_panels(
            f"{field} and its halves" if NETWORK in values else field, values, ticks, domain
        )
        for field, values in values_on_grid(solution, ticks).items()
    ]


def _trials(solution: Solution) -> Table:
    names = ("rel_l2", "residual", "terms", "units", "stop")
    rows = [
        [cell(index), *(cell(trial.get(name)) for name in names)]
        for index, trial in enumerate(solution.report.trials)
    ]
    columns = [Column(name_of(each), is_wide=each == "stop") for each in ("trial", *names)]
    return Table("The trial that is shown has the lowest residual.", columns, rows)


# ---- Fits of tables ----


def _table(path: pathlib.Path, regressor: PANNRegressor) -> tuple[str, list[Block]]:
    report = describe_file(path)
    error, features = report["held_out_error"], report["features"]
    facts = {name: report[name] for name in ("how", "degree", "terms", "units", "trials")}
    facts |= {"targets": report["targets"], "features": len(features), "held-out RMSE": error}
    facts |= {"pann": report["pann_version"], **report["options"]}
    indices = regressor.sobol_indices(SOBOL_POINTS)
    order = np.argsort(-indices.total, kind="stable")
    rows = []
    for k in order:
        bounds = [features[k][end] for end in ("low", "high")]
        every = [*bounds, float(indices.first[k]), float(indices.total[k])]
        rows.append([Value(features[k]["name"]), *(Value(number(each), each) for each in every)])
    columns = [
        *map(Column, ("feature", "lowest", "highest")),
        Column("fraction alone", note="Sobol index of first order"),
        Column("fraction with others", note="total Sobol index"),
    ]
    caption = "Ranges in training; fractions of the prediction's variance (Sobol indices)."
    names = [feature["name"] for feature in features]
    blocks: list[Block] = [
        _facts(facts),
        _along_features(regressor, names, report["targets"][0], order[:MAX_FEATURES]),
        *([_leading_terms(regressor.terms_)] if report["terms"] else []),
        Table(caption, columns, rows),
    ]
    lead = f"A model of {', '.join(report['targets'])} by {len(features)} features."
    if error is not None:
        lead += f" Root mean square error on rows that training held out: {number(error)}."
    return lead, blocks


def _along_features(
    regressor: PANNRegressor, names: Sequence[str], target: str, chosen: np.ndarray
) -> Panels:
    """The first target along each feature, all others in the middle of their range."""
    scaling = regressor.fit_.features
    middle = (scaling.low + scaling.high) / 2
    charts = []
    for column in chosen:
        at = np.linspace(scaling.low[column], scaling.high[column], LINE_POINTS)
        rows = np.tile(middle, (len(at), 1))
        rows[:, column] = at
        halves = [np.reshape(half, (len(at), -1))[:, 0] for half in regressor.halves(rows)]
        lines = [
            Line("prediction" if name == SOLUTION else name, at, curve, *LOOKS[name])
            for name, curve in _whole_and_halves(*halves).items()
        ]
        charts.append(Lines(names[column], lines, height=220))
    left = len(names) - len(chosen)
    note = "Along each feature, the others in the middle of their range."
    note += f" {left} features of less weight are left out." if left else ""
    keys = [line.key for line in lines]
    return Panels(f"Prediction of {target} and its halves", charts, keys, note)


# ---- Fits of functions ----


def _function(model: PANN) -> tuple[str, list[Block]]:
    """Lines of one input, maps of two; others in the middle of their range."""
    domain = model.domain
    facts = {"inputs": domain.names, "outputs": model.num_outputs or 1, "terms": model.num_terms}
    facts |= {"units": model.num_units, "precision": model.precision}
    ticks = _ticks(domain)
    points, shape = grid_points(domain, ticks), tuple(map(len, ticks.values()))
    first = lambda half: np.reshape(half, (len(points), -1))[:, 0].reshape(shape)
    values = _whole_and_halves(*map(first, model.parts(points)))
    panels = _value_panels("The model and its halves", values, ticks, domain)
    terms = [_leading_terms(model.terms())] if model.num_terms else []
    return repr(model), [_facts(facts), panels, *terms]
