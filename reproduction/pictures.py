"""Pictures of the paper's figures: panels of charts, drawn by Matplotlib."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pann.report.charts import Axis, Bars, Chart, Key, Line, Lines, Map, Panels
from pann.runs import Store
from reproduction import equations
from reproduction.experiments import Experiment
from reproduction.figures import FIGURES, panels_of, runs_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LINES: dict[str, Any] = {"solid": "-", "dash": "--", "dot": ":", "dashdot": "-.", "": ""}
SYMBOLS = {
    "circle": "o",
    "circle-open": "o",
    "square": "s",
    "triangle-up": "^",
    "diamond": "D",
    "triangle-down": "v",
    "cross": "P",
    "x": "x",
    "star": "*",
    "": "",
}
MARKED_POINTS = 40  # a longer line has no symbols
LONG_NAME = 7  # letters below a group of bars that fit without being turned


def draw(experiment: Experiment, store: Store, size: str = "full") -> "Figure":
    """The figure of an experiment from what the store has of it at that size."""
    name = experiment.name
    if name not in FIGURES:
        raise ValueError(
            f"'{name}' has no figure, but a table: python -m reproduction table {name}; there are "
            f"figures of {', '.join(FIGURES)}"
        )
    panels = panels_of(name, runs_of(experiment, store, size), size)
    if not panels:
        raise ValueError(
            f"the figure of '{name}' shows gradient training, and the store has none: run it with "
            f"python -m reproduction run {name} --mode faithful --size {size}"
        )
    shows = experiment.shows
    if name in equations.NAMES:
        shows = f"{shows.partition(':')[0]}: errors"  # the table has more
    return picture(panels, f"{shows} (size {size})")


def picture(panels: Sequence[Panels], title: str) -> "Figure":
    """Panels one below the other, each with its charts in rows and its legend."""
    from matplotlib.figure import Figure

    sizes = [_size(each) for each in panels]
    width, height = max(width for width, _ in sizes), sum(height for _, height in sizes)
    figure = Figure(figsize=(width, height + 0.4), layout="constrained")
    ratios = [height for _, height in sizes]
    parts = figure.subfigures(len(panels), 1, squeeze=False, height_ratios=ratios)[:, 0]
    for part, each in zip(parts, panels, strict=True):
        num_rows, columns = _grid(each)
        axes = part.subplots(num_rows, columns, squeeze=False).ravel()
        for panel, chart in zip(axes, each.charts, strict=False):
            _draw(panel, chart)
        for panel in axes[len(each.charts) :]:
            panel.set_visible(False)
        if len(panels) > 1:
            part.suptitle(each.title)
        if each.keys:
            handles = [_handle(key) for key in each.keys]
            part.legend(handles=handles, loc="outside lower center", ncols=8, frameon=False)
    figure.suptitle(title, x=0.01, ha="left")
    return figure


def _grid(panels: Panels) -> tuple[int, int]:
    columns = panels.columns or len(panels.charts)
    return -(-len(panels.charts) // columns), columns


def _size(panels: Panels) -> tuple[float, float]:
    num_rows, columns = _grid(panels)
    widths, heights = zip(*(_chart_size(chart) for chart in panels.charts), strict=True)
    width = max(6.6, columns * max(widths))
    return width, num_rows * max(heights) + (0.4 if panels.keys else 0.1)


def _chart_size(chart: Chart) -> tuple[float, float]:
    if isinstance(chart, Map):
        return (5.4, 4.6) if chart.levels else (3.0, 2.7)
    if isinstance(chart, Bars) and not chart.is_sideways:
        return max(3.6, 1.2 + 0.44 * len(chart.groups)), 4.0 if _is_turned(chart) else 2.6
    return 3.7, 2.9


def _draw(panel: "Axes", chart: Chart) -> None:
    match chart:
        case Lines():
            for line in chart.lines:
                _draw_line(panel, line)
            _set_axis(panel, "x", chart.x)
            _set_axis(panel, "y", chart.y)
            panel.grid(alpha=0.25)
        case Bars(is_sideways=True):
            colors = [chart.colors[kind] for _, kind in chart.heights]
            panel.barh(chart.groups, list(chart.heights.values()), color=colors)
            panel.invert_yaxis()
            panel.grid(axis="x", alpha=0.25)
        case Bars():
            _draw_bars(panel, chart)
        case Map():
            _draw_map(panel, chart)
    panel.set_axisbelow(True)
    panel.set_title(chart.title, fontsize="medium")


def _draw_line(panel: "Axes", line: Line) -> None:
    symbol = SYMBOLS[line.symbol] if len(line.x) <= MARKED_POINTS else ""
    is_open = line.symbol.endswith("-open")
    panel.plot(
        line.x,
        line.y,
        label=line.label,
        color=line.color,
        linestyle=LINES[line.dash] if line.is_joined else "",
        linewidth=1.3,
        marker=symbol,
        markersize=10 if is_open else 5,
        fillstyle="none" if is_open else "full",
    )


def _draw_bars(panel: "Axes", chart: Bars) -> None:
    groups, kinds = chart.groups, chart.kinds
    width = 0.8 / max(len(kinds), 1)
    for (group, kind), height in chart.heights.items():
        # A group that has one kind of bar has it in its middle.
        own = [each for each in kinds if (group, each) in chart.heights]
        place = groups.index(group) + (own.index(kind) - (len(own) - 1) / 2) * width
        panel.bar(place, height, width, color=chart.colors[kind])
    if chart.level is not None:
        panel.axhline(chart.level[0], color=chart.level[1], linestyle=":", linewidth=1.2)
    panel.set_xticks(range(len(groups)), groups, rotation=90 if _is_turned(chart) else 0)
    panel.set_xlim(-0.6, len(groups) - 0.4)
    _set_axis(panel, "y", chart.y)
    panel.grid(axis="y", alpha=0.25)


def _is_turned(chart: Bars) -> bool:
    return max(map(len, chart.groups), default=0) > LONG_NAME


def _draw_map(panel: "Axes", chart: Map) -> None:
    from matplotlib.colors import LogNorm

    (x_name, x), (y_name, y) = chart.x, chart.y
    low, high = chart.ends()
    colors = "RdBu_r" if chart.is_diverging else "magma" if chart.scale == "error" else "viridis"
    drawn: Any
    if chart.levels:
        values = np.where(chart.values > 0, chart.values, np.nan)
        # A little wider than the values, which else would lie on the edge and stay white.
        levels = np.geomspace(0.999 * low, 1.001 * high, chart.levels)
        norm = LogNorm(levels[0], levels[-1])
        drawn = panel.contourf(x, y, values.T, levels, norm=norm, cmap=colors)
        panel.contour(x, y, values.T, levels, colors="white", linewidths=0.3)
        panel.plot(0, 0, "+", color="white", markersize=7)
    else:
        scale: dict[str, Any] = {"vmin": low, "vmax": high}
        if chart.scale == "log":
            scale = {"norm": LogNorm(low, high, clip=True)}
        extent = (*_ends(x), *_ends(y))
        drawn = panel.imshow(chart.values.T, origin="lower", extent=extent, cmap=colors, **scale)
    panel.set_aspect("equal" if chart.has_one_unit() else "auto")
    panel.set_xlabel(x_name)
    panel.set_ylabel(y_name)
    bar = panel.figure.colorbar(drawn, ax=panel, shrink=0.8)
    if chart.levels:
        ticks = levels[:: (chart.levels - 1) // 6].tolist()
        bar.set_ticks(ticks, labels=[f"{tick:.3g}" for tick in ticks])
        bar.ax.minorticks_off()


def _ends(ticks: np.ndarray) -> tuple[float, float]:
    """The outer edges of the first and the last pixel."""
    half = (ticks[-1] - ticks[0]) / (len(ticks) - 1) / 2
    return float(ticks[0] - half), float(ticks[-1] + half)


def _set_axis(panel: "Axes", which: str, axis: Axis) -> None:
    from matplotlib.ticker import NullLocator

    side = panel.xaxis if which == "x" else panel.yaxis
    panel.set(**{f"{which}label": axis.title})
    if axis.is_log:
        panel.set(**{f"{which}scale": "log"})
    if labels := axis.tick_labels():
        side.set_ticks(list(labels), labels=list(labels.values()))
        side.set_minor_locator(NullLocator())
    if axis.limits is not None:
        panel.set(**{f"{which}lim": axis.limits})


def _handle(key: Key) -> Any:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    if key.is_bar:
        return Patch(color=key.color, label=key.label)
    marker = SYMBOLS[key.symbol]
    line = LINES[key.dash]
    return Line2D([], [], color=key.color, linestyle=line, marker=marker, label=key.label)
