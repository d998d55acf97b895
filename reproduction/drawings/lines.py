"""Error and seconds along one setting: a line for each method, activation and constant c."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from reproduction import published
from reproduction.drawings.finished import (
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

# Color and marker.
METHODS = {
    "PANN": (BLUE, "o"),
    "DNN": (VERMILION, "s"),
    "PL": (GREEN, "^"),
    "L2": (PURPLE, "D"),
    "least squares": (ORANGE, "v"),
}
OTHER = (BLACK, "x")
# By c, smallest first: how the line is, and how much of its markers is filled.
STYLES: tuple[tuple[Any, Any], ...] = (("-", "full"), ("--", "left"), (":", "none"))
MODES = ("faithful", "default")
NAMES = {"num_points": "number of points N", "dimension": "dimension"}


def by_points(runs: Sequence[Finished], size: str) -> "Figure":
    """Against the number of points, on logarithmic axes."""
    return _figure(runs, "num_points", base=2)


def by_dimension(runs: Sequence[Finished], size: str) -> "Figure":
    """Against the dimension."""
    return _figure(runs, "dimension", base=None)


def _figure(runs: Sequence[Finished], along: str, base: int | None) -> "Figure":
    """As in the paper a line of panels for each activation; what has none stands in all of them."""
    from matplotlib.figure import Figure

    activations: list[Any] = list(
        dict.fromkeys(run.told("activation") for run in runs if run.told("activation"))
    ) or [None]
    modes = [mode for mode in MODES if any(run.mode == mode for run in runs)]
    columns = 2 * len(modes)
    shape = (1.5 + 3.5 * columns, 0.7 + 2.9 * len(activations))
    figure = Figure(figsize=shape, layout="constrained")
    panels = figure.subplots(len(activations), columns, squeeze=False, sharex=True)
    constants = unique([run.told("c") for run in runs])
    places = unique([run.told(along) for run in runs])
    for row in panels:
        for same in (row[: len(modes)], row[len(modes) :]):
            for panel in same[1:]:
                panel.sharey(same[0])
    for row, activation in zip(panels, activations, strict=True):
        is_first, is_last = activation == activations[0], activation == activations[-1]
        for number, mode in enumerate(modes):
            own = [
                run
                for run in runs
                if run.mode == mode and run.told("activation") in (activation, None)
            ]
            errors, seconds = row[number], row[len(modes) + number]
            _draw(errors, seconds, lines_of(own, along), constants)
            for panel, quantity in ((errors, "relative l2 error"), (seconds, "seconds")):
                panel.set_title(f"{quantity}, {mode}" if is_first else "")
                _axes(panel, along if is_last else None, base, places)
        row[0].set_ylabel(activation or "")
    _legend(figure, runs, constants)
    return figure


def _draw(
    errors: "Axes",
    seconds: "Axes",
    lines: dict[tuple[Any, Any, Any], list[tuple]],
    constants: list[float],
) -> None:
    for (method, activation, c), line in lines.items():
        color, marker = METHODS.get(method, OTHER)
        style, fill = STYLES[0 if c is None else constants.index(c) % len(STYLES)]
        told = " ".join(str(part) for part in (method, activation, c) if part is not None)
        look = {"color": color, "marker": marker, "linestyle": style, "fillstyle": fill}
        places = [place for place, _, _ in line]
        drawn = [float("nan") if error is None else error for _, error, _ in line]
        errors.plot(places, drawn, label=told, markersize=5, linewidth=1.3, **look)
        taken = [second for _, _, second in line]
        seconds.plot(places, taken, label=told, markersize=5, linewidth=1.3, **look)


def lines_of(runs: Sequence[Finished], along: str) -> dict[tuple[Any, Any, Any], list[tuple]]:
    """By method, activation and c: (place, error, seconds) in order of the place."""
    lines: dict[tuple[Any, Any, Any], list[tuple]] = {}
    for run in sorted(runs, key=lambda run: run.told(along)):
        key = (run.told("method"), run.told("activation"), run.told("c"))
        lines.setdefault(key, []).append((run.told(along), run.error(), run.seconds))
    return lines


def _axes(panel: "Axes", along: str | None, base: int | None, places: list[Any]) -> None:
    from matplotlib.ticker import NullLocator

    panel.set_yscale("log")
    if base is not None:
        panel.set_xscale("log", base=base)
        panel.xaxis.set_minor_locator(NullLocator())
    panel.set_xticks(places, [str(place) for place in places])
    panel.set_xlabel(NAMES.get(along or "", ""))
    panel.grid(alpha=0.25)


def _legend(figure: "Figure", runs: Sequence[Finished], constants: list[float]) -> None:
    """What color and style mean: with a line for each there would be ten and more."""
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], color=color, marker=marker, label=name)
        for name, (color, marker) in METHODS.items()
        if any(run.told("method") == name for run in runs)
    ]
    for number, c in enumerate(constants):
        style, fill = STYLES[number % len(STYLES)]
        look = {"linestyle": style, "fillstyle": fill, "marker": "o"}
        handles.append(Line2D([], [], color="0.3", label=f"c = {c:g}", **look))
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
