"""The paper's figures as data: panels of charts, made once from the runs of a store.

The report page shows them with Plotly; `pictures` draws the same panels with Matplotlib.
"""

import dataclasses
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from pann.report.charts import (
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
    Bars,
    Chart,
    Key,
    Line,
    Lines,
    Map,
    Panels,
    look,
    sideways_bars,
)
from pann.report.texts import number, shown
from pann.runs import Row, Store
from reproduction import equations, published
from reproduction.cells import Record, but_trials, finished_records
from reproduction.experiments import MODES, Experiment
from reproduction.regressions import ACTIVATIONS
from reproduction.spectra import energy_fractions, spectrum

ERROR = "relative l2 error"
METHODS = {
    "PANN": (BLUE, "circle"),
    "DNN": (VERMILION, "square"),
    "PL": (GREEN, "triangle-up"),
    "L2": (PURPLE, "diamond"),
    "least squares": (ORANGE, "triangle-down"),
}
OTHER = (GRAY, "x")
SOURCES = {"published": GRAY, "faithful": BLUE, "default": ORANGE}
PRUNING = {"published": GRAY, "faithful": BLUE, "faithful, signed test": SKY, "default": ORANGE}
CONSTRAINTS = (*"ABCDEFGH", "l1", "none", "exact")
BASES = {"rff": "RFF", "gradnorm": "GradNorm", "modmlp": "ModMLP", "causal": "causal"}
AFTER_LOSSES = ("fresh residual", "error")
FOURIER_MODES = 24  # to each side of zero
DECADES = 6  # of a spectrum
TINY = 1e-14  # fractions of energy below are rounding errors
CONTOURS = 25

Arrays = Mapping[str, np.ndarray]
# By label of the group and by kind of bar.
Heights = dict[tuple[str, str], float]


@dataclasses.dataclass(frozen=True)
class Run:
    """A finished run: its settings and what it measured."""

    record: Record
    store: Store

    @property
    def mode(self) -> str:
        return self.record["configuration"]["mode"]

    def setting(self, name: str) -> Any:
        """A setting of the row; None where it has none."""
        return self.record["configuration"].get(name)

    @property
    def figures(self) -> Mapping[str, Any]:
        return self.record["figures"]

    @property
    def seconds(self) -> float:
        """Those of the fit, or of the whole run where nothing else was timed."""
        figures = self.figures
        return figures.get("fit_seconds") or figures.get("solve_seconds") or self.record["seconds"]

    def error(self, field: str | None = None) -> float | None:
        """The mean over the trials that are finite, as in the tables; None if there are none."""
        errors = self.figures["errors"]
        of_field = errors[field] if isinstance(errors, dict) and field else errors
        finite = [value for value in of_field if value is not None]
        return statistics.mean(finite) if finite else None

    def arrays(self) -> dict[str, np.ndarray]:
        return self.store.arrays(Row(self.record["experiment"], self.record["configuration"]))


Runs = Sequence[Run]


def runs_of(experiment: Experiment, store: Store, size: str) -> list[Run]:
    """The runs of an experiment; of a cell with several numbers of trials, the most."""
    return last_of_cells(finished_records(experiment, store, size), store)


def last_of_cells(records: Sequence[Record], store: Store) -> list[Run]:
    """A run for each cell, the last of its records."""
    latest = {but_trials(record["configuration"]): record for record in records}
    return [Run(record, store) for record in latest.values()]


def panels_of(name: str, runs: Runs, size: str) -> list[Panels]:
    """The figure of an experiment; nothing where the paper has only a table."""
    return FIGURES[name](runs, size) if name in FIGURES and runs else []


def _values(runs: Runs, name: str) -> list[Any]:
    """The values that a setting has, in order."""
    return sorted({run.setting(name) for run in runs} - {None})


def _activations(runs: Runs) -> list[str]:
    return sorted(_values(runs, "activation"), key=ACTIVATIONS.index)


# ---- Lines ----


def _by_points(runs: Runs, size: str) -> list[Panels]:
    return _along(runs, "num_points", "number of points N")


def _by_dimension(runs: Runs, size: str) -> list[Panels]:
    return _along(runs, "dimension", "dimension")


def _along(runs: Runs, along: str, title: str) -> list[Panels]:
    """Error and seconds in both modes, for each activation; methods without one are in all."""
    modes = [mode for mode in MODES if any(run.mode == mode for run in runs)]
    constants = _values(runs, "c")
    x = Axis(title, is_log=along == "num_points", ticks=_values(runs, along))
    charts: list[Chart] = []
    for activation in _activations(runs) or [""]:
        chosen = [run for run in runs if run.setting("activation") in (activation or None, None)]
        ending = f", {shown(activation)}" if activation else ""
        for quantity in (ERROR, "seconds"):
            lines = {
                mode: _method_lines(
                    [run for run in chosen if run.mode == mode], along, quantity, constants
                )
                for mode in modes
            }
            limits = _log_limits([v for each in lines.values() for line in each for v in line.y])
            y = Axis(is_log=True, limits=limits)
            charts += [
                Lines(f"{quantity}, {mode}{ending}", each, x, y)
                for mode, each in lines.items()
                if each
            ]
    used = set(_values(runs, "method"))
    keys = [Key(name, color, "", mark) for name, (color, mark) in METHODS.items() if name in used]
    keys += [Key(f"c = {c:g}", GRAY, DASHES[k % len(DASHES)]) for k, c in enumerate(constants)]
    return [Panels(f"Error and time by {title}", charts, keys, columns=2 * len(modes))]


def _method_lines(runs: Runs, along: str, quantity: str, constants: list[float]) -> list[Line]:
    """A line for each method, activation and constant c."""
    lines: dict[tuple[Any, Any, Any], list[Run]] = {}
    for run in sorted(runs, key=lambda run: run.setting(along)):
        key = (run.setting("method"), run.setting("activation"), run.setting("c"))
        lines.setdefault(key, []).append(run)
    made = []
    for (method, activation, c), own in lines.items():
        color, symbol = METHODS.get(method, OTHER)
        dash = DASHES[0 if c is None else constants.index(c) % len(DASHES)]
        label = " ".join(shown(part) for part in (method, activation) if part is not None)
        label += "" if c is None else f", c = {c:g}"
        measured = [run.error() if quantity == ERROR else run.seconds for run in own]
        y = [math.nan if value is None else value for value in measured]
        made.append(Line(label, [run.setting(along) for run in own], y, color, dash, symbol))
    return made


def _basis_sizes(runs: Runs, size: str) -> list[Panels]:
    """Terms by dimension; open circles are the published numbers."""
    printed = published.load("basis_sizes")
    lines, keys = [], []
    kinds = dict.fromkeys(run.setting("index_set") for run in runs)
    for color, symbol, kind in zip(COLORS, SYMBOLS, kinds, strict=False):
        own = sorted(
            (run.setting("dimension"), run.figures["num_terms"])
            for run in runs
            if run.setting("index_set") == kind
        )
        at, terms = zip(*own, strict=True)
        lines.append(Line(shown(kind), at, terms, color, "solid", symbol))
        of_kind = printed[printed["index_set"] == kind]
        at, terms = (tuple(of_kind[name].astype(float)) for name in ("dimension", "num_terms"))
        label = f"{shown(kind)}, published"
        lines.append(Line(label, at, terms, color, symbol="circle-open", is_joined=False))
        keys.append(Key(shown(kind), color, "solid", symbol))
    chart = Lines(
        "number of terms; open circles as published",
        lines,
        Axis("dimension", ticks=_values(runs, "dimension")),
        Axis(is_log=True),
        320,
    )
    return [Panels("Terms of a basis of degree 8", [chart], keys)]


# ---- Bars ----


def _constraints(runs: Runs, size: str) -> list[Panels]:
    """By constraint: error, seconds and the pruned percentages; panels for each activation."""
    titles = (ERROR, "seconds", "pruned of the network (%)", "pruned of the polynomial (%)")
    heights = {each: _constraint_heights(runs, each, size) for each in _activations(runs)}
    limits = [
        _log_limits([v for each in heights.values() for v in each[k].values()], 2.0) for k in (0, 1)
    ]
    axes = [*(Axis(is_log=True, limits=each) for each in limits), *2 * [Axis(limits=(0, 105))]]
    found = []
    for activation, own in heights.items():
        charts = [
            Bars(title, each, PRUNING, y) for title, each, y in zip(titles, own, axes, strict=True)
        ]
        keys = _bar_keys(PRUNING, charts)
        found.append(Panels(f"By constraint, {shown(activation)}", charts, keys, columns=4))
    return found


def _constraint_heights(runs: Runs, activation: str, size: str) -> tuple[Heights, ...]:
    """Errors, seconds, and the percentages pruned of either half."""
    errors: Heights = {}
    seconds: Heights = {}
    pruned: dict[str, Heights] = {"network": {}, "polynomial": {}}
    printed = [] if size == "smoke" else published.load("pruning").to_dict("records")
    own = [run for run in runs if run.setting("activation") == activation]
    for name in CONSTRAINTS:
        of_name = [run for run in own if run.setting("constraint") == name]
        for cell in printed if of_name else ():
            is_there = not published.is_missing(cell["percent"])
            if (cell["activation"], cell["constraint"]) == (activation, name) and is_there:
                pruned[cell["part"]][name, "published"] = float(cell["percent"])
        for run in of_name:
            kind = "faithful, signed test" if run.setting("signed") else run.mode
            if (error := run.error()) is not None:
                errors[name, kind] = error
            seconds[name, kind] = run.seconds
            for part, heights in pruned.items():
                heights[name, kind] = run.figures[f"pruned_{part}"]
    return errors, seconds, pruned["network"], pruned["polynomial"]


def _equation(runs: Runs, size: str) -> list[Panels]:
    """Errors of the cells that the paper draws: the most points, and the smaller c."""
    faithful = [run for run in runs if run.mode == "faithful"]
    printed = [] if size == "smoke" else _printed(runs)
    cells = [*(run.record["configuration"] for run in faithful)] or printed
    num_points = max((int(cell["num_points"]) for cell in cells), default=None)
    constants = [c for cell in (*cells, *printed) if (c := _constant(cell)) is not None]
    smallest = min(constants, default=0.0)

    def is_drawn(cell: Mapping[str, Any]) -> bool:
        c = _constant(cell)
        return int(cell["num_points"]) == num_points and (c is None or math.isclose(c, smallest))

    found: dict[tuple[str, str], Heights] = {}
    for cell in filter(is_drawn, printed):
        if not published.is_missing(cell["mean"]):
            heights = found.setdefault((cell["field"], cell["sampling"]), {})
            heights[label(cell), "published"] = float(cell["mean"])
    for run in (run for run in faithful if is_drawn(run.record["configuration"])):
        for field in run.figures["errors"]:
            if (error := run.error(field)) is not None:
                heights = found.setdefault((field, run.setting("sampling")), {})
                heights[label(run.record["configuration"]), "faithful"] = error
    default = {
        field: error
        for run in runs
        if run.mode == "default"
        for field in run.figures["errors"]
        if (error := run.error(field)) is not None
    }
    found = found or {(field, ""): {} for field in default}
    every = [v for each in (*found.values(), default) for v in each.values()]
    # Room below the lowest bar, so that it is one.
    y = Axis(is_log=True, limits=_log_limits(every, 3.0))
    fields = dict.fromkeys(field for field, _ in found)
    points = "" if num_points is None else f", N = {num_points:,}"
    charts = []
    order = sorted(found, key=lambda each: each[1], reverse=True)
    for field, sampling in sorted(order, key=lambda each: each[0]):
        heights = _ordered(found[field, sampling])
        title = f"{ERROR} of {field}" if len(fields) > 1 else ERROR
        title += f", {shown(sampling)}{points}" if sampling else ""
        level = None
        if field in default:
            heights["default", "default"] = default[field]
            level = (default[field], SOURCES["default"])
        charts.append(Bars(title, heights, SOURCES, y, 360, level))
    keys = _bar_keys(SOURCES, charts)
    columns = len({sampling for _, sampling in found})
    return [Panels("Errors of the paper's bars", charts, keys, columns=columns)] if charts else []


def _printed(runs: Runs) -> list[Record]:
    return published.load(runs[0].record["experiment"]).to_dict("records")


def _constant(cell: Mapping[str, Any]) -> float | None:
    c = cell.get("c")
    return None if published.is_missing(c) else float(c)  # type: ignore[arg-type]


def label(cell: Mapping[str, Any]) -> str:
    """Model, what its network is or how it is trained, and its size: PANN RFF 3x100."""
    words = [cell["model"]]
    if cell.get("base") in BASES:
        words.append(BASES[cell["base"]])
    if not published.is_missing(cell.get("width")):
        words.append(f"{int(cell['depth'])}x{int(cell['width'])}")
    return " ".join(words)


def _ordered(heights: Heights) -> Heights:
    """A PINN next to the PANN with the same network; the polynomial by itself first."""
    parts = lambda each: each[0].split(" ", 1)
    key = lambda each: (parts(each)[1:] or [""], -ord(parts(each)[0][1]))
    return {each: heights[each] for each in sorted(heights, key=key)}


def _step_cost(runs: Runs, size: str) -> list[Panels]:
    heights = {
        (run.setting("precision"), kind): run.figures[f"seconds_{kind.replace(' ', '_')}"]
        for run in runs
        for kind in ("with tables", "without tables")
    }
    colors = {"with tables": BLUE, "without tables": ORANGE}
    chart = Bars("seconds per Adam step", heights, colors)
    return [Panels("What tables save", [chart], _bar_keys(colors, [chart]))]


# ---- Histories ----


def _equal_cost(runs: Runs, size: str) -> list[Panels]:
    """Terms of the loss and the error over the steps, and the seconds; a line for each model."""
    labels = {label(run.record["configuration"]): run for run in runs if run.mode == "faithful"}
    own = dict(sorted(labels.items()))
    if not own:
        return []
    names = dict.fromkeys(name for run in own.values() for name in run.figures["history"])
    terms = sorted(name for name in names if name not in ("step", *AFTER_LOSSES))
    charts: list[Chart] = []
    for name in (*terms, *(name for name in AFTER_LOSSES if name in names)):
        lines = [
            Line(model, *_curve(run, name), *look(k)) for k, (model, run) in enumerate(own.items())
        ]
        title = ERROR if name == "error" else name
        charts.append(Lines(title, lines, Axis("step"), Axis(is_log=True)))
    seconds = {model: run.seconds for model, run in own.items()}
    charts.append(sideways_bars("seconds", seconds, COLORS[: len(own)]))
    keys = [Key(model, *look(k)) for k, model in enumerate(own)]
    return [Panels("Losses and error during training", charts, keys, columns=3)]


def _curve(run: Run, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Steps and values; there are gaps where a value is not finite or not above zero."""
    history = run.figures["history"]
    values = np.array(history.get(name, []), dtype=float)
    values[~(values > 0)] = np.nan
    return np.array(history["step"], dtype=float)[: len(values)], values


# ---- Maps ----


def _frequency(runs: Runs, size: str) -> list[Panels]:
    found = []
    for run in sorted(runs, key=lambda run: run.mode, reverse=True):
        error = run.error()
        found += halves(
            run.arrays(), run.mode + ("" if error is None else f", {ERROR} {number(error)}")
        )
    return found


def halves(arrays: Arrays, which: str = "the run") -> list[Panels]:
    """Prediction and halves in space and in frequency, and the energy of either by degree."""
    truth = arrays["truth"]
    fields = {
        "reference": truth,
        "prediction": arrays["network"] + arrays["polynomial"],
        "polynomial half": arrays["polynomial"],
        "network half": arrays["network"],
    }
    ticks = np.linspace(-1, 1, len(truth), endpoint=False)
    space = (("x1", ticks), ("x2", ticks))
    limit = float(np.max(np.abs(truth)))
    limits = {"reference": (-limit, limit), "prediction": (-limit, limit)}
    in_space = [
        Map(name, values, *space, limits=limits.get(name), is_square=True)
        for name, values in fields.items()
    ]
    error = np.abs(fields["prediction"] - truth)
    in_space.append(Map("|error|", error, *space, scale="error", is_square=True))

    modes = np.arange(-FOURIER_MODES, FOURIER_MODES + 1)
    middle = slice(len(truth) // 2 - FOURIER_MODES, len(truth) // 2 + FOURIER_MODES + 1)
    spectra = {name: spectrum(values)[middle, middle] for name, values in fields.items()}
    highest = max(float(each.max()) for each in spectra.values())
    common = {"scale": "log", "limits": (highest * 10.0**-DECADES, highest), "is_square": True}
    in_frequency: list[Chart] = [
        Map(f"|FFT| of the {name}", values, ("k1", modes), ("k2", modes), **common)  # type: ignore[arg-type]
        for name, values in spectra.items()
    ]
    fractions = energy_fractions(arrays["energies"])
    fractions = np.where(fractions > TINY, fractions, np.nan)
    degrees = np.arange(len(fractions))
    looks = {"network": (VERMILION, "solid", "square"), "polynomial": (BLUE, "solid", "circle")}
    lines = [
        Line(name, degrees, fractions[:, k], *each) for k, (name, each) in enumerate(looks.items())
    ]
    title, y = "fraction of the Legendre energy", Axis(is_log=True)
    in_frequency.append(Lines(title, lines, Axis("total degree"), y, 300))
    keys = [Key(name, *each) for name, each in looks.items()]
    return [
        Panels(f"In space: {which}", in_space, columns=5),
        Panels(f"In frequency: {which}", in_frequency, keys, columns=5),
    ]


def _landscape(runs: Runs, size: str) -> list[Panels]:
    ordered = sorted(runs, key=lambda run: run.setting("model"))
    return losses({f"{run.setting('model')}: ": run.arrays() for run in ordered})


def losses(found: Mapping[str, Arrays]) -> list[Panels]:
    """The loss in the plane of two eigenvectors; every map has its own scale."""
    charts = []
    for name, arrays in found.items():
        first, second = (number(float(each)) for each in arrays["eigenvalues"])
        x, y = ("alpha", arrays["alphas"]), ("beta", arrays["alphas"])
        title = f"{name}eigenvalues {first}, {second}"
        scale = {"scale": "log", "levels": CONTOURS, "is_square": True}
        charts.append(Map(title, arrays["loss"], x, y, **scale))  # type: ignore[arg-type]
    note = "In the plane of the two leading eigenvectors of its Hessian; training ended at 0, 0."
    return [Panels("The training loss", charts, note=note, columns=len(charts))]


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
# What shows the arrays of a single run.
OF_ARRAYS: dict[str, Callable[[Arrays], list[Panels]]] = {
    "frequency": halves,
    "landscape": lambda arrays: losses({"": arrays}),
}


def _bar_keys(colors: Mapping[str, str], charts: Sequence[Bars]) -> list[Key]:
    """A legend of the kinds of bars that the charts have."""
    used = {kind for chart in charts for kind in chart.kinds}
    return [Key(kind, color, is_bar=True) for kind, color in colors.items() if kind in used]


def _log_limits(
    values: Sequence[float | int | None], factor: float = 1.5
) -> tuple[float, float] | None:
    """Limits of a logarithmic axis that several charts have in common."""
    known = [value for value in values if value is not None and np.isfinite(value) and value > 0]
    return (min(known) / factor, max(known) * factor) if known else None
