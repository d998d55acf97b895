"""Charts as figures of Plotly, which zoom and show values: JSON for the script of a page.

Numbers are texts with as many digits as a reader can see: compressed they take fewer bytes than
binary numbers. The page's script adds the colors of text and grid, which depend on whether the page
is dark.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from pann.report.charts import GRAY, Axis, Bars, Chart, Line, Lines, Map, Number

# Blue below zero, red above (ColorBrewer's RdBu).
DIVERGING = ["#2166ac", "#4393c3", "#92c5de", "#f7f7f7", "#f4a582", "#d6604d", "#b2182b"]
MAX_POINTS = 240  # of a line
MARKED_POINTS = 40  # a longer line has no symbols
MAX_MAP = 81  # values along an axis of a map
STEPS = 2_000  # of a map, from its lowest to its highest value
LONG_NAME = 4  # letters below a group of bars that fit without being turned


Drawn = dict[str, Any]  # a trace, a layout or a part of them, as Plotly has them


def figure_of(
    chart: Chart, max_points: int = MAX_POINTS, max_map: int = MAX_MAP, steps: int = STEPS
) -> Drawn:
    """The figure of a chart; lines have at most so many points, maps as many values and steps."""
    match chart:
        case Lines():
            data, layout = _lines(chart, max_points)
        case Bars():
            data, layout = _bars(chart)
        case Map():
            data, layout = _map(chart, max_map, steps)
    return {"data": data, "layout": {**layout, "showlegend": False}}


def _line(line: Line, is_log: bool, max_points: int) -> Drawn:
    x, y = coarser(line.x, max_points), coarser(line.y, max_points)
    if is_log:
        y = np.where(y > 0, y, np.nan)
    joined = "lines+markers" if len(x) <= MARKED_POINTS else "lines"
    marker = {"color": line.color, "symbol": line.symbol, "size": 7}
    hover: Drawn = {"hovertemplate": "%{x:.6~g}: %{y:.4~g}"}
    if line.notes:
        marker |= {"size": 6, "opacity": 0.65}
        hover = {"text": list(line.notes), "hovertemplate": "%{text}<br>%{x:.3~g}"}
    return {
        "type": "scatter",
        "name": line.label,
        "x": numbers(x),
        "y": numbers(y),
        "mode": joined if line.is_joined else "markers",
        "line": {"color": line.color, "dash": line.dash, "width": 1.8},
        "marker": marker,
        **hover,
    }


def _lines(chart: Lines, max_points: int) -> tuple[list[Drawn], Drawn]:
    every = [value for line in chart.lines for value in np.asarray(line.y, float)]
    layout: Drawn = {"xaxis": _axis(chart.x), "yaxis": _axis(chart.y, every)}
    if chart.mark is not None:
        vertical = {"type": "line", "x0": chart.mark, "x1": chart.mark, "y0": 0, "y1": 1}
        layout["shapes"] = [{**vertical, "yref": "paper", "line": {"color": GRAY, "width": 1.5}}]
    return [_line(each, chart.y.is_log, max_points) for each in chart.lines], layout


def _bars(chart: Bars) -> tuple[list[Drawn], Drawn]:
    across, along = ("y", "x") if chart.is_sideways else ("x", "y")
    bars: list[Drawn] = [
        {
            "type": "bar",
            "name": "" if chart.is_sideways else kind,
            "orientation": "h" if chart.is_sideways else "v",
            across: chart.groups,
            along: numbers([chart.heights.get((group, kind), np.nan) for group in chart.groups]),
            "marker": {"color": chart.colors[kind]},
            "hovertemplate": f"%{{{across}}}: %{{{along}:.4~g}}",
        }
        for kind in chart.kinds
    ]
    if chart.is_sideways:
        names = {"autorange": "reversed", "type": "category", "ticksuffix": " "}
        return bars, {"xaxis": _axis(chart.y), "yaxis": names, "bargap": 0.3, "barmode": "relative"}
    is_turned = max(map(len, chart.groups), default=0) > LONG_NAME
    layout: Drawn = {
        "xaxis": {"type": "category", "tickangle": -90 if is_turned else 0},
        "yaxis": _axis(chart.y, list(chart.heights.values())),
        "barmode": "group",
        "bargap": 0.25,
    }
    if chart.level is not None:
        height, color = chart.level
        level = {"type": "line", "x0": 0, "x1": 1, "xref": "paper", "y0": height, "y1": height}
        layout["shapes"] = [{**level, "line": {"color": color, "width": 1.2, "dash": "dot"}}]
    return bars, layout


def _map(chart: Map, most: int, steps: int) -> tuple[list[Drawn], Drawn]:
    values, (low, high) = coarser(chart.values, most).T, chart.ends()
    hover = "%{z:.4~g}"
    bar: Drawn = {"thickness": 10, "outlinewidth": 0, "x": 1.01, "xpad": 4}
    if chart.scale == "log":
        low, high = np.log10((low, high)).tolist()
        values = np.log10(values, where=values > 0, out=np.full(values.shape, np.nan))
        bar |= {"tickprefix": "10<sup>", "ticksuffix": "</sup>"}
        hover = "10<sup>%{z:.3f}</sup>"
    colors: Any = "Magma" if chart.scale == "error" else "Viridis"
    if chart.is_diverging:
        colors = [[k / (len(DIVERGING) - 1), color] for k, color in enumerate(DIVERGING)]
    trace: Drawn = {
        "type": "heatmap",
        "z": in_steps(values, steps),
        "x": numbers(coarser(chart.x[1], most)),
        "y": numbers(coarser(chart.y[1], most)),
        "colorscale": colors,
        "zmin": low,
        "zmax": high,
        "colorbar": bar,
        "hovertemplate": f"%{{x:.4~g}}, %{{y:.4~g}}: {hover}<extra></extra>",
    }
    across = {"scaleanchor": "x", "constrain": "domain"} if chart.has_one_unit() else {}
    right = {"constrain": "domain", "constraintoward": "right"}
    layout = {
        "xaxis": {"title": {"text": chart.x[0]}, **right},
        "yaxis": {"title": {"text": chart.y[0]}, **across},
    }
    if not chart.levels:
        return [{**trace, "zsmooth": "best"}], layout
    contours = {"start": low, "end": high, "size": (high - low) / chart.levels or 1.0}
    trace |= {"type": "contour", "contours": contours, "line": {"color": "white", "width": 0.3}}
    cross = {"color": "white", "symbol": "cross-thin-open", "size": 8}
    origin = {"type": "scatter", "x": [0], "y": [0], "mode": "markers", "marker": cross}
    return [trace, {**origin, "hoverinfo": "skip"}], layout


def _axis(axis: Axis, values: Sequence[Number] = ()) -> Drawn:
    layout: Drawn = {"title": {"text": axis.title}} if axis.title else {}
    if axis.is_log:
        layout |= {"type": "log", "exponentformat": "e", "nticks": 7}
        known = [value for value in values if np.isfinite(value) and value > 0]
        if known and max(known) <= 100 * min(known):
            layout["dtick"] = "D2"  # ticks at 1, 2 and 5 times a power of ten
    if axis.limits is not None:
        limits = np.log10(axis.limits) if axis.is_log else np.asarray(axis.limits)
        layout["range"] = limits.tolist()
    if labels := axis.tick_labels():
        layout |= {"tickvals": list(labels), "ticktext": list(labels.values())}
    return layout | ({"side": "top", "tickangle": 0} if axis.is_on_top else {})


def coarser(values: Any, most: int) -> np.ndarray:
    """At most that many values along each axis, both ends among them."""
    array = np.asarray(values, float)
    places = (np.linspace(0, length - 1, min(length, most)) for length in array.shape)
    return array[np.ix_(*(np.unique(along.round().astype(int)) for along in places))]


def numbers(values: np.ndarray | Sequence[Number]) -> list[float | None]:
    """With seven digits, more than a screen shows; None is a gap."""
    known = np.asarray(values, float).tolist()
    return [float(f"{each:.7g}") if np.isfinite(each) else None for each in known]


def in_steps(values: np.ndarray, steps: int) -> list[list[float | None]]:
    """A map rounded so that its range has at least that many steps; None is a gap."""
    is_finite = np.isfinite(values)
    span = float(np.ptp(values[is_finite])) if is_finite.any() else 0.0
    if span > 0:
        values = np.round(values, min(int(np.ceil(np.log10(steps / span))), 300))
    with_gaps = values.astype(object)
    with_gaps[~is_finite] = None
    return with_gaps.tolist()
