"""The paper's figures as plots, from the same figures of the runs that the drawings show."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pann.report.page import Key, Panels
from pann.report.plots import (
    BLUE,
    COLORS,
    DASHES,
    GRAY,
    GREEN,
    ORANGE,
    PURPLE,
    SKY,
    SYMBOLS,
    VERMILION,
    Axis,
    Line,
    bar_plot,
    line_plot,
    sideways_bars,
)
from pann.report.texts import shown
from reproduction import equations, published, regressions
from reproduction.drawings import bars, histories, lines
from reproduction.drawings.finished import Finished, unique
from reproduction.report import paper_maps

Runs = Sequence[Finished]
METHODS = {
    "PANN": (BLUE, "circle"),
    "DNN": (VERMILION, "square"),
    "PL": (GREEN, "triangle-up"),
    "L2": (PURPLE, "diamond"),
    "least squares": (ORANGE, "triangle-down"),
}
OTHER = (GRAY, "x")
SOURCES = {"published": GRAY, "faithful": BLUE, "default": ORANGE}
KINDS = {
    "published": GRAY,
    "faithful": BLUE,
    "faithful, signed test": SKY,
    "default": ORANGE,
}
MODES = ("faithful", "default")
ERROR = "relative l2 error"


def draw(name: str, runs: Runs, size: str) -> list[Panels]:
    """The figures of an experiment; none where the paper has only a table."""
    return FIGURES[name](runs, size) if name in FIGURES and runs else []


def _activations(runs: Runs) -> list[Any]:
    """Those that were run, in the paper's order."""
    used = {run.told("activation") for run in runs} - {None}
    return sorted(used, key=regressions.ACTIVATIONS.index)


# ---- Lines ----


def _by_points(runs: Runs, size: str) -> list[Panels]:
    return [_along(runs, "num_points", "number of points N")]


def _by_dimension(runs: Runs, size: str) -> list[Panels]:
    return [_along(runs, "dimension", "dimension")]


def _along(runs: Runs, along: str, title: str) -> Panels:
    """Error and seconds; a pair of panels for each activation and mode."""
    activations = _activations(runs) or [None]
    constants = unique([run.told("c") for run in runs])
    ticks = unique([run.told(along) for run in runs])
    x = Axis(title, is_log=along == "num_points", ticks=ticks)
    plots = []
    for quantity, column in ((ERROR, 1), ("seconds", 2)):
        for mode in MODES:
            for activation in activations:
                own = [
                    run
                    for run in runs
                    if run.mode == mode and run.told("activation") in (activation, None)
                ]
                if own:
                    drawn = _method_lines(own, along, column, constants)
                    told = f"{quantity}, {mode}"
                    told += f", {shown(activation)}" if activation else ""
                    plots.append(line_plot(told, drawn, x, Axis(is_log=True)))
    methods = [name for name in METHODS if any(run.told("method") == name for run in runs)]
    keys = [Key(name, METHODS[name][0], "", METHODS[name][1]) for name in methods]
    keys += [Key(f"c = {c:g}", GRAY, DASHES[k % len(DASHES)]) for k, c in enumerate(constants)]
    return Panels(f"Error and time by {title}", tuple(plots), tuple(keys))


def _method_lines(runs: Runs, along: str, column: int, constants: list[Any]) -> list[Line]:
    drawn = []
    for (method, activation, c), line in lines.lines_of(runs, along).items():
        color, symbol = METHODS.get(method, OTHER)
        dash = DASHES[0 if c is None else constants.index(c) % len(DASHES)]
        told = " ".join(shown(part) for part in (method, activation) if part is not None)
        label = told if c is None else f"{told}, c = {c:g}"
        values = [np.nan if point[column] is None else point[column] for point in line]
        drawn.append(Line(label, [point[0] for point in line], values, color, dash, symbol))
    return drawn


def _basis_sizes(runs: Runs, size: str) -> list[Panels]:
    printed = published.load("basis_sizes")
    drawn, keys = [], []
    kinds = dict.fromkeys(run.told("index_set") for run in runs)
    for color, symbol, kind in zip(COLORS, SYMBOLS, kinds, strict=False):
        own = sorted(
            (run.told("dimension"), run.figures["num_terms"])
            for run in runs
            if run.told("index_set") == kind
        )
        at, terms = zip(*own, strict=True)
        drawn.append(Line(shown(kind), at, terms, color, "solid", symbol))
        of_kind = printed[printed["index_set"] == kind]
        printed_at, printed_terms = (
            of_kind[name].astype(float) for name in ("dimension", "num_terms")
        )
        label, look = f"{shown(kind)}, published", {"color": color, "symbol": "circle-open"}
        drawn.append(Line(label, printed_at, printed_terms, is_joined=False, **look))
        keys.append(Key(shown(kind), color, "solid", symbol))
    ticks = unique([run.told("dimension") for run in runs])
    plot = line_plot(
        "number of terms; open circles as published",
        drawn,
        Axis("dimension", ticks=ticks),
        Axis(is_log=True),
        320,
    )
    return [Panels("Terms of a basis of degree 8", (plot,), tuple(keys))]


# ---- Bars ----


def _constraints(runs: Runs, size: str) -> list[Panels]:
    found = []
    for activation in _activations(runs):
        own = [run for run in runs if run.told("activation") == activation]
        quantities = (ERROR, "seconds", "pruned of the network (%)", "pruned of the polynomial (%)")
        heights = bars.constraint_heights(own, activation, size)
        plots = tuple(
            bar_plot(title, each, KINDS, Axis(is_log=number < 2))
            for number, (title, each) in enumerate(zip(quantities, heights, strict=True))
        )
        present = {kind for each in heights for _, kind in each}
        keys = tuple(Key(k, color, is_bar=True) for k, color in KINDS.items() if k in present)
        found.append(Panels(f"By constraint, {shown(activation)}", plots, keys))
    return found


def _equation(runs: Runs, size: str) -> list[Panels]:
    """Bars of the cells with the most points and the lower degree, as the paper draws them."""
    cells = bars.equation_cells(runs, size)
    plots = []
    for (sampling, field), own in sorted(cells.heights.items(), reverse=True):
        heights = dict(own)
        if field in cells.default:
            heights["default", "default"] = cells.default[field]
        if not heights:
            continue
        points = "" if cells.num_points is None else f", N = {cells.num_points:,}"
        of_field = f" of {field}" if len({f for _, f in cells.heights}) > 1 else ""
        title = f"{ERROR}{of_field}" + (f", {shown(sampling)}{points}" if sampling else "")
        plots.append(bar_plot(title, heights, SOURCES, Axis(is_log=True), 360))
    present = {kind for each in cells.heights.values() for _, kind in each}
    present |= {"default"} if cells.default else set()
    keys = tuple(
        Key(kind, color, is_bar=True) for kind, color in SOURCES.items() if kind in present
    )
    return [Panels("Errors of the paper's bars", tuple(plots), keys)] if plots else []


def _step_cost(runs: Runs, size: str) -> list[Panels]:
    heights = {
        (run.told("precision"), kind): run.figures[f"seconds_{kind.replace(' ', '_')}"]
        for run in runs
        for kind in ("with tables", "without tables")
    }
    colors = {"with tables": BLUE, "without tables": ORANGE}
    plot = bar_plot("seconds of an Adam step", heights, colors, Axis())
    keys = tuple(Key(kind, color, is_bar=True) for kind, color in colors.items())
    return [Panels("What tables save", (plot,), keys)]


# ---- Histories ----


def _equal_cost(runs: Runs, size: str) -> list[Panels]:
    own = sorted(
        (run for run in runs if run.mode == "faithful"),
        key=lambda run: bars.label(run.record["configuration"]),
    )
    if not own:
        return []
    names = dict.fromkeys(name for run in own for name in run.figures["history"])
    terms = sorted(name for name in names if name not in ("step", *histories.LAST))
    labels = [bars.label(run.record["configuration"]) for run in own]
    plots = []
    for name in (*terms, *(name for name in histories.LAST if name in names)):
        drawn = [
            Line(label, *histories.curve(run, name), COLORS[k], DASHES[k % 4], SYMBOLS[k])
            for k, (label, run) in enumerate(zip(labels, own, strict=True))
        ]
        title = ERROR if name == "error" else name
        plots.append(line_plot(title, drawn, Axis("step"), Axis(is_log=True)))
    seconds = {label: run.seconds for label, run in zip(labels, own, strict=True)}
    plots.append(sideways_bars("seconds", seconds, COLORS[: len(own)], Axis()))
    keys = tuple(Key(label, COLORS[k], DASHES[k % 4], SYMBOLS[k]) for k, label in enumerate(labels))
    return [Panels("Losses and error during training", tuple(plots), keys)]


FIGURES: dict[str, Callable[[Runs, str], list[Panels]]] = {
    "basis_sizes": _basis_sizes,
    "tables": _step_cost,
    "landscape": paper_maps.landscape,
    "reproduction": _by_points,
    "constraints": _constraints,
    "non_smooth": _by_points,
    "frequency": paper_maps.frequency,
    "high_dimensional": _by_dimension,
    **dict.fromkeys(equations.NAMES, _equation),
    "equal_cost": _equal_cost,
}
