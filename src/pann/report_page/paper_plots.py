"""The paper's figures as plots, from the same figures of the runs that the drawings show."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from pann.paper import equations, published
from pann.paper.drawings import bars, histories, lines, maps
from pann.paper.drawings.finished import Finished, unique
from pann.report_page.page import Key, Panels, Plot
from pann.report_page.plots import (
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
    coarser,
    line_plot,
    map_plot,
    sideways_bars,
)
from pann.report_page.texts import number, shown

Runs = Sequence[Finished]
Arrays = Mapping[str, np.ndarray]
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
MAP_PLACES = 64


def draw(name: str, runs: Runs, size: str) -> list[Panels]:
    """The figures of an experiment; none where the paper has only a table."""
    return FIGURES[name](runs, size) if name in FIGURES and runs else []


# ---- Lines ----


def _by_points(runs: Runs, size: str) -> list[Panels]:
    return [_along(runs, "num_points", "number of points N")]


def _by_dimension(runs: Runs, size: str) -> list[Panels]:
    return [_along(runs, "dimension", "dimension")]


def _along(runs: Runs, along: str, title: str) -> Panels:
    """Error and seconds; a pair of panels for each activation and mode."""
    activations: list[Any] = list(
        dict.fromkeys(run.told("activation") for run in runs if run.told("activation"))
    ) or [None]
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
        drawn.append(Line(shown(kind), *zip(*own, strict=True), color, "solid", symbol))
        of_kind = printed[printed["index_set"] == kind]
        at, terms = (of_kind[name].astype(float) for name in ("dimension", "num_terms"))
        label = f"{shown(kind)}, published"
        drawn.append(Line(label, at, terms, color, "dot", "circle-open", is_joined=False))
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
    for activation in dict.fromkeys(run.told("activation") for run in runs):
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
    keys = tuple(Key(kind, color, is_bar=True) for kind, color in SOURCES.items() if kind in present)
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
    keys = tuple(
        Key(label, COLORS[k], DASHES[k % 4], SYMBOLS[k]) for k, label in enumerate(labels)
    )
    return [Panels("Losses and error during training", tuple(plots), keys)]


# ---- Maps ----


def _frequency(runs: Runs, size: str) -> list[Panels]:
    found = []
    for run in sorted(runs, key=lambda run: run.mode, reverse=True):
        error = run.error()
        told = "" if error is None else f", {ERROR} {number(error)}"
        found += halves(run.arrays(), f"{run.mode}{told}")
    return found


def halves(arrays: Arrays, what: str = "the run") -> list[Panels]:
    """Prediction and halves in space and in frequency."""
    keys = (
        Key("network", VERMILION, "solid", "square"),
        Key("polynomial", BLUE, "solid", "circle"),
    )
    return [
        Panels(f"In space: {what}", tuple(_in_space(arrays))),
        Panels(f"In frequency: {what}", tuple(_in_frequency(arrays)), keys),
    ]


def _fields(arrays: Arrays) -> dict[str, np.ndarray]:
    return {
        "reference": arrays["truth"],
        "prediction": arrays["network"] + arrays["polynomial"],
        "polynomial half": arrays["polynomial"],
        "network half": arrays["network"],
    }


def _in_space(arrays: Arrays) -> list[Plot]:
    fields = _fields(arrays)
    limit = float(np.max(np.abs(arrays["truth"])))
    axes = (Axis("x1"), Axis("x2"))
    at = np.linspace(-1, 1, len(arrays["truth"]), endpoint=False)
    ticks = (coarser(at, MAP_PLACES), coarser(at, MAP_PLACES))
    plots = []
    for name, values in fields.items():
        own = limit if name in ("reference", "prediction") else None
        plots.append(map_plot(name, coarser(values, MAP_PLACES), axes, ticks, limit=own, is_square=True))
    error = coarser(np.abs(fields["prediction"] - arrays["truth"]), MAP_PLACES)
    plots.append(map_plot("|error|", error, axes, ticks, scale="error", is_square=True))
    return plots


def _in_frequency(arrays: Arrays) -> list[Plot]:
    modes = np.arange(-maps.MODES, maps.MODES + 1)
    axes = (Axis("k1"), Axis("k2"))
    plots = []
    for name, values in _fields(arrays).items():
        spectrum = maps.spectrum(values)
        middle = len(spectrum) // 2
        low, high = middle - maps.MODES, middle + maps.MODES + 1
        shown_part = spectrum[low:high, low:high]
        title = f"|FFT| of the {name}"
        plots.append(map_plot(title, shown_part, axes, (modes, modes), scale="log", is_square=True))
    shares = arrays["energies"] / np.sum(arrays["energies"], axis=0, keepdims=True)
    degrees = np.arange(len(shares))
    shares = np.where(shares > maps.TINY, shares, np.nan)
    drawn = [
        Line("network", degrees, shares[:, 0], VERMILION, "solid", "square"),
        Line("polynomial", degrees, shares[:, 1], BLUE, "solid", "circle"),
    ]
    title = "share of the Legendre energy"
    plots.append(line_plot(title, drawn, Axis("total degree"), Axis(is_log=True), 300))
    return plots


def _landscape(runs: Runs, size: str) -> list[Panels]:
    ordered = sorted(runs, key=lambda run: run.told("model"))
    return [_losses([(f"{run.told('model')}: ", run.arrays()) for run in ordered])]


def _losses(found: Sequence[tuple[str, Arrays]]) -> Panels:
    plots = []
    for name, arrays in found:
        first, second = (number(float(each)) for each in arrays["eigenvalues"])
        ticks = (arrays["alphas"], arrays["alphas"])
        axes = (Axis("alpha"), Axis("beta"))
        title = f"{name}eigenvalues {first}, {second}"
        plots.append(
            map_plot(title, arrays["loss"], axes, ticks, scale="log", is_square=True)
        )
    note = "In the plane of the two leading eigenvectors of its Hessian; training ended at 0, 0."
    return Panels("The training loss", tuple(plots), note=note)


FIGURES: dict[str, Callable[[Runs, str], list[Panels]]] = {
    "basis_sizes": _basis_sizes,
    "tables": _step_cost,
    "landscape": _landscape,
    "reproduction": _by_points,
    "constraints": _constraints,
    "non_smooth": _by_points,
    "frequency": _frequency,
    "high_dimensional": _by_dimension,
    **dict.fromkeys(equations.NAMES, _equation),
    "equal_cost": _equal_cost,
}
# What draws the arrays of a single run.
OF_ARRAYS: dict[str, Callable[[Arrays], list[Panels]]] = {
    "frequency": halves,
    "landscape": lambda arrays: [_losses([("", arrays)])],
}
