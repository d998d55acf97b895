"""Error and seconds along one setting: a line for each method, activation and constant c."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pann.paper import published
from pann.paper.drawings.finished import (
    BLACK,
    BLUE,
    COLORS,
    GREEN,
    ORANGE,
    PURPLE,
    VERMILION,
    Finished,
    unique,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

METHODS = {
    "PANN": BLUE,
    "DNN": VERMILION,
    "PL": GREEN,
    "L2": PURPLE,
    "least squares": ORANGE,
}
MARKERS = {"tanh": "o", "relu": "s", "repu": "^", None: "x"}
STYLES: tuple[Any, ...] = ("-", "--", ":")
NAMES = {"num_points": "number of points N", "dimension": "dimension"}


def by_points(runs: Sequence[Finished], size: str) -> "Figure":
    """Against the number of points, on logarithmic axes."""
    return _figure(runs, "num_points", base=2)


def by_dimension(runs: Sequence[Finished], size: str) -> "Figure":
    """Against the dimension."""
    return _figure(runs, "dimension", base=None)


def _figure(runs: Sequence[Finished], along: str, base: int | None) -> "Figure":
    from matplotlib.figure import Figure

    modes = [mode for mode in ("faithful", "default") if any(run.mode == mode for run in runs)]
    figure = Figure(figsize=(11.0, 0.8 + 3.6 * len(modes)), layout="constrained")
    panels = figure.subplots(len(modes), 2, squeeze=False, sharex=True)
    constants = unique([run.told("c") for run in runs])
    for mode, (errors, seconds) in zip(modes, panels, strict=True):
        for key, line in lines_of([run for run in runs if run.mode == mode], along).items():
            method, activation, c = key
            style = {
                "color": METHODS.get(method, BLACK),
                "marker": MARKERS.get(activation, "D"),
                "linestyle": "-" if c is None else STYLES[constants.index(c) % len(STYLES)],
                "label": " ".join(str(part) for part in key if part is not None),
                "markersize": 5,
                "linewidth": 1.3,
                "alpha": 0.9,
            }
            places = [place for place, _, _ in line]
            errors.plot(places, [_or_gap(error) for _, error, _ in line], **style)
            seconds.plot(places, [second for _, _, second in line], **style)
        errors.set_ylabel("relative l2 error")
        seconds.set_ylabel("seconds")
        for panel in (errors, seconds):
            panel.set_title(mode)
            _axes(panel, along, base, unique([run.told(along) for run in runs]))
    _legend(figure, runs, constants)
    return figure


def lines_of(runs: Sequence[Finished], along: str) -> dict[tuple[Any, Any, Any], list[tuple]]:
    """By method, activation and c: (place, error, seconds) in order of the place."""
    lines: dict[tuple[Any, Any, Any], list[tuple]] = {}
    for run in sorted(runs, key=lambda run: run.told(along)):
        key = (run.told("method"), run.told("activation"), run.told("c"))
        lines.setdefault(key, []).append((run.told(along), run.error(), run.seconds))
    return lines


def _or_gap(value: float | None) -> float:
    return float("nan") if value is None else value


def _axes(panel: "Axes", along: str, base: int | None, places: list[Any]) -> None:
    from matplotlib.ticker import NullLocator

    panel.set_yscale("log")
    if base is not None:
        panel.set_xscale("log", base=base)
        panel.xaxis.set_minor_locator(NullLocator())
    panel.set_xticks(places, [f"{place:,}" for place in places])
    panel.set_xlabel(NAMES[along])
    panel.grid(alpha=0.25)


def _legend(figure: "Figure", runs: Sequence[Finished], constants: list[float]) -> None:
    """What color, marker and style mean: a line of its own in the legend would be 15 or more."""
    from matplotlib.lines import Line2D

    methods = [name for name in METHODS if any(run.told("method") == name for run in runs)]
    activations = [
        name for name in MARKERS if name and any(run.told("activation") == name for run in runs)
    ]
    handles = [Line2D([], [], color=METHODS[name], label=name, linewidth=3) for name in methods]
    handles += [
        Line2D([], [], color="0.3", marker=MARKERS[name], linestyle="", label=name)
        for name in activations
    ]
    handles += [
        Line2D([], [], color="0.3", linestyle=STYLES[k % len(STYLES)], label=f"c = {c:g}")
        for k, c in enumerate(constants)
    ]
    figure.legend(handles=handles, loc="outside right upper", frameon=False)


def basis_sizes(runs: Sequence[Finished], size: str) -> "Figure":
    """Terms by dimension, a line for each index set; what the paper printed are circles."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.6, 4.0), layout="constrained")
    panel = figure.add_subplot()
    printed = published.load("basis_sizes")
    kinds = dict.fromkeys(run.told("index_set") for run in runs)
    for color, kind in zip(COLORS, kinds, strict=False):
        own = sorted(
            (run.told("dimension"), run.figures["num_terms"])
            for run in runs
            if run.told("index_set") == kind
        )
        name = kind.replace("_", " ")
        panel.plot(*zip(*own, strict=True), color=color, marker=".", label=name)
        of_kind = printed[printed["index_set"] == kind]
        panel.plot(
            of_kind["dimension"].astype(int),
            of_kind["num_terms"].astype(int),
            color=color,
            linestyle="",
            marker="o",
            markersize=10,
            fillstyle="none",
            label=f"{name}, published",
        )
    panel.set_yscale("log")
    panel.set_xlabel("dimension")
    panel.set_ylabel("number of terms")
    panel.set_xticks(unique([run.told("dimension") for run in runs]))
    panel.grid(alpha=0.25)
    panel.legend(frameon=False)
    return figure
