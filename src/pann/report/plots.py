"""Plots as Plotly's figures in JSON: lines, bars and maps that zoom and show values.

Colors of text and grid are the page's, which knows whether it is dark; those of lines and bars are
Okabe and Ito's, which color-blind people can tell apart, and every line has its marker or stroke.
"""

import base64
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pann.report.page import Plot

BLUE, ORANGE, GREEN, VERMILION = "#0072B2", "#E69F00", "#009E73", "#D55E00"
PURPLE, SKY, GRAY, OLIVE = "#CC79A7", "#56B4E9", "#8A8F98", "#A89A00"
COLORS = (BLUE, VERMILION, GREEN, ORANGE, PURPLE, SKY, OLIVE, GRAY)
DASHES = ("solid", "dash", "dot", "dashdot")
SYMBOLS = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross", "x", "star")
# Blue below zero, red above (ColorBrewer's RdBu).
DIVERGING = [
    [0.0, "#2166ac"],
    [0.17, "#4393c3"],
    [0.33, "#92c5de"],
    [0.5, "#f7f7f7"],
    [0.67, "#f4a582"],
    [0.83, "#d6604d"],
    [1.0, "#b2182b"],
]
MAX_POINTS = 240  # of a line
MARKED_POINTS = 40  # a longer line has no markers
DECADES = 7  # of a map on a logarithmic scale
LONG_NAME = 4  # letters below a group of bars that fit without being turned


@dataclasses.dataclass(frozen=True)
class Line:
    """Points joined by a line, or alone; NaN is a gap."""

    label: str
    x: Any
    y: Any
    color: str = BLUE
    dash: str = "solid"
    symbol: str = "circle"
    is_joined: bool = True


@dataclasses.dataclass(frozen=True)
class Axis:
    """An axis: what it shows, and how."""

    title: str = ""
    is_log: bool = False
    ticks: Sequence[float | int] = ()


def line_plot(title: str, lines: Sequence[Line], x: Axis, y: Axis, height: int = 280) -> Plot:
    """Lines and points over a common axis."""
    traces = []
    for line in lines:
        at, values = thinned(np.asarray(line.x, float), np.asarray(line.y, float), MAX_POINTS)
        if y.is_log:
            values = np.where(values > 0, values, np.nan)
        joined = "lines+markers" if len(at) <= MARKED_POINTS else "lines"
        traces.append(
            {
                "type": "scatter",
                "name": line.label,
                "x": packed(at),
                "y": packed(values),
                "mode": joined if line.is_joined else "markers",
                "line": {"color": line.color, "dash": line.dash, "width": 1.8},
                "marker": {"color": line.color, "symbol": line.symbol, "size": 7},
                "hovertemplate": "%{x:.6~g}: %{y:.4~g}",
            }
        )
    every = [value for line in lines for value in np.asarray(line.y, float)]
    return _plot(title, traces, {"xaxis": _axis(x), "yaxis": _axis(y, every)}, height)


def bar_plot(
    title: str,
    heights: Mapping[tuple[str, str], float],
    colors: Mapping[str, str],
    y: Axis,
    height: int = 300,
) -> Plot:
    """Bars in groups; heights by group and kind, the kinds in the order of their colors."""
    groups = list(dict.fromkeys(group for group, _ in heights))
    traces = [
        {
            "type": "bar",
            "name": kind,
            "x": groups,
            "y": [_finite(heights.get((group, kind))) for group in groups],
            "marker": {"color": color},
            "hovertemplate": "%{x}: %{y:.4~g}",
        }
        for kind, color in colors.items()
        if any(each == kind for _, each in heights)
    ]
    is_turned = max(map(len, groups), default=0) > LONG_NAME
    layout = {
        "xaxis": {"type": "category", "tickangle": -90 if is_turned else 0},
        "yaxis": _axis(y, list(heights.values())),
        "barmode": "group",
        "bargap": 0.25,
    }
    return _plot(title, traces, layout, height)


def sideways_bars(title: str, lengths: Mapping[str, float], colors: Sequence[str], x: Axis) -> Plot:
    """A bar for each name, the first on top."""
    bars = {
        "type": "bar",
        "name": "",
        "x": [_finite(value) for value in lengths.values()],
        "y": list(lengths),
        "orientation": "h",
        "marker": {"color": list(colors)},
        "hovertemplate": "%{y}: %{x:.4~g}",
    }
    names = {"autorange": "reversed", "type": "category", "ticksuffix": " "}
    layout = {"xaxis": _axis(x), "yaxis": names, "bargap": 0.3}
    return _plot(title, [bars], layout, max(140, 70 + 26 * len(lengths)))


def map_plot(
    title: str,
    values: np.ndarray,
    axes: tuple[Axis, Axis],
    ticks: tuple[Any, Any],
    *,
    scale: str = "field",
    limit: float | None = None,
    is_square: bool = False,
) -> Plot:
    """Values whose first axis goes to the right, as colors.

    The scale of a `field` is symmetric about zero where it changes its sign, or up to a limit that
    several maps have in common; an `error` begins at zero, and a `log` one spans a few decades at
    most. In a square map both axes have one unit, if they are about as long as each other.
    """
    shown = np.asarray(values, float).T
    hover = "%{z:.4~g}"
    if scale == "log":
        with np.errstate(divide="ignore", invalid="ignore"):
            shown = np.where(shown > 0, np.log10(shown), np.nan)
        hover = "10<sup>%{z:.3f}</sup>"
    bar: dict[str, Any] = {"thickness": 10, "outlinewidth": 0, "x": 1.01, "xpad": 4}
    if scale == "log":
        bar |= {"tickprefix": "10<sup>", "ticksuffix": "</sup>"}
    trace = {
        "type": "heatmap",
        "z": packed(shown),
        "x": packed(np.asarray(ticks[0], float)),
        "y": packed(np.asarray(ticks[1], float)),
        "colorbar": bar,
        "hovertemplate": f"%{{x:.4~g}}, %{{y:.4~g}}: {hover}<extra></extra>",
        "zsmooth": "best",
        **_colors(shown, scale, limit),
    }
    spans = [float(np.ptp(np.asarray(each, float))) for each in ticks]
    is_even = is_square and 0 < max(spans) <= 3 * min(spans)
    across: dict[str, Any] = {"scaleanchor": "x", "constrain": "domain"} if is_even else {}
    layout = {
        "xaxis": {**_axis(axes[0]), "constrain": "domain", "constraintoward": "right"},
        "yaxis": {**_axis(axes[1]), **across},
    }
    return _plot(title, [trace], layout, 300)


def _colors(shown: np.ndarray, scale: str, limit: float | None) -> dict[str, Any]:
    finite = shown[np.isfinite(shown)]
    if not len(finite):
        return {"colorscale": "Viridis"}
    lowest, highest = float(finite.min()), float(finite.max())
    if scale == "log":
        return {
            "colorscale": "Viridis",
            "zmin": max(lowest, highest - DECADES),
            "zmax": highest,
        }
    if scale == "error":
        return {"colorscale": "Magma", "zmin": 0.0, "zmax": highest or 1.0}
    if lowest < 0 < highest or limit is not None:
        most = max(-lowest, highest) if limit is None else limit
        return {"colorscale": DIVERGING, "zmin": -most, "zmax": most}
    return {"colorscale": "Viridis"}


def ratio_strips(
    title: str,
    dots: Mapping[str, Sequence[tuple[str, float, str]]],
    looks: Mapping[str, tuple[str, str]],
) -> Plot:
    """For each kind dots (name, ratio, what it is) in the strip of their name."""
    names = list(dict.fromkeys(name for each in dots.values() for name, _, _ in each))
    traces = []
    for number, (kind, (color, symbol)) in enumerate(looks.items()):
        of_kind = dots[kind]
        # In a strip the kinds lie one below the other, and the dots of a kind a little apart.
        middle = 0.4 * (number - (len(looks) - 1) / 2)
        apart = 0.14 * np.sin(37.0 * np.arange(len(of_kind)))
        places = np.array([names.index(name) for name, _, _ in of_kind]) + middle + apart
        traces.append(
            {
                "type": "scatter",
                "name": kind,
                "x": packed(np.array([ratio for _, ratio, _ in of_kind])),
                "y": packed(places),
                "text": [f"{name}: {what}" for name, _, what in of_kind],
                "mode": "markers",
                "marker": {"color": color, "symbol": symbol, "size": 6, "opacity": 0.65},
                "hovertemplate": "%{text}<br>%{x:.3~g} of the published",
            }
        )
    one = {"type": "line", "x0": 1, "x1": 1, "y0": 0, "y1": 1, "yref": "paper"}
    layout = {
        "xaxis": {**_axis(Axis("ours ÷ published", is_log=True)), "side": "top", "tickangle": 0},
        "yaxis": {
            "tickvals": list(range(len(names))),
            "ticktext": [f"{name.replace('_', '<br>', 1).replace('_', ' ')} " for name in names],
            "range": [len(names) - 0.4, -0.6],
            "fixedrange": True,
        },
        "shapes": [{**one, "line": {"color": GRAY, "width": 1.5}}],
    }
    return _plot(title, traces, layout, 90 + 34 * len(names))


def history_lines(history: Mapping[str, Sequence[Any]], most: int = MAX_POINTS) -> list[Line]:
    """A line for each name of a history over its steps, or the number of the record."""
    lines: list[Line] = []
    steps = history.get("step")
    for name, recorded in history.items():
        if name == "step":
            continue
        values = np.array([np.nan if value is None else value for value in recorded], float)
        at = np.arange(len(values)) if steps is None else np.array(steps, float)[: len(values)]
        k = len(lines)
        look = (COLORS[k % len(COLORS)], DASHES[k % len(DASHES)], SYMBOLS[k % len(SYMBOLS)])
        lines.append(Line(name, *thinned(at, values, most), *look))
    return lines


def thinned(x: np.ndarray, y: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
    """At most so many points, both ends among them."""
    if len(x) <= most:
        return x, y
    chosen = np.unique(np.linspace(0, len(x) - 1, most).round().astype(int))
    return x[chosen], y[chosen]


def coarser(values: np.ndarray, most: int) -> np.ndarray:
    """At most so many values along each axis, both ends among them."""
    chosen = [
        np.unique(np.linspace(0, length - 1, min(length, most)).round().astype(int))
        for length in values.shape
    ]
    return values[np.ix_(*chosen)]


def packed(values: np.ndarray) -> dict[str, Any]:
    """Numbers as Plotly reads them from bytes, in float32: more digits than a screen shows."""
    with np.errstate(over="ignore"):
        content = np.ascontiguousarray(values, "<f4")
    told: dict[str, Any] = {
        "dtype": "f4",
        "bdata": base64.b64encode(content.tobytes()).decode("ascii"),
    }
    return told if values.ndim == 1 else {**told, "shape": ", ".join(map(str, values.shape))}


def _plot(title: str, traces: list[dict[str, Any]], layout: dict[str, Any], height: int) -> Plot:
    return Plot(title, {"data": traces, "layout": {**layout, "showlegend": False}}, height)


def _axis(axis: Axis, values: Sequence[float] = ()) -> dict[str, Any]:
    told: dict[str, Any] = {"title": {"text": axis.title}} if axis.title else {}
    if axis.is_log:
        told |= {"type": "log", "exponentformat": "e", "nticks": 7}
        known = [value for value in values if np.isfinite(value) and value > 0]
        if known and max(known) <= 100 * min(known):
            told["dtick"] = "D2"  # ticks at 1, 2 and 5 times a power of ten
    if axis.ticks:
        told |= {"tickvals": list(axis.ticks), "ticktext": [f"{tick:g}" for tick in axis.ticks]}
    return told


def _finite(value: float | None) -> float | None:
    return value if value is not None and np.isfinite(value) else None
