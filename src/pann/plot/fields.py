"""Heat maps: colors that fit a field, and a panel with named axes and a bar."""

import functools
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Float

from pann.domain import Box
from pann.plot.files import check_picture, write_picture
from pann.plot.history import draw_history, legend_outside
from pann.plot.values import (
    ERROR,
    EXACT,
    NETWORK,
    POLYNOMIAL,
    SOLUTION,
    Drawable,
    Values,
    middle_of,
    space_axes,
    ticks_along,
    values_on_grid,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

# A few extreme values, as of polynomials in the corners, would leave the rest without color.
SHOWN = 0.995
# A field is signed if both signs reach this share of its largest value: undershoots do not count.
SIGNED = 0.05
# On a logarithmic scale this share of an error is as good as zero: along lines where it changes its
# sign there would be beads. The decades below its largest value are at most and at least so many.
AS_ZERO = 0.03
DECADES = (4, 2)


class Colors(NamedTuple):
    """What `imshow` needs to color values, and which ends of them lie beyond the scale."""

    options: dict[str, Any]
    extend: str


def field_colors(values: Float[np.ndarray, "..."]) -> Colors:
    """White at zero and the same scale to both sides if signed, else from lowest to highest."""
    low, high = float(np.min(values)), float(np.max(values))
    limit, is_cut = _limit(values)
    if min(-low, high) > SIGNED * limit:
        options = {"cmap": "RdBu_r", "vmin": -limit, "vmax": limit}
        return Colors(options, "both" if is_cut else "neither")
    # A constant field is one color: without room around it, its rounding would be drawn.
    room = max(0.0, 1e-6 * limit - (high - low))
    return Colors({"cmap": "viridis", "vmin": low - room, "vmax": high + room}, "neither")


def error_colors(values: Float[np.ndarray, "..."]) -> Colors:
    """From zero to the largest error."""
    limit, is_cut = _limit(values)
    return Colors({"cmap": "magma", "vmin": 0.0, "vmax": limit}, "max" if is_cut else "neither")


def error_decades(values: Float[np.ndarray, "..."]) -> Colors:
    """Logarithmic: errors that grow in time are of different orders at different times."""
    from matplotlib.colors import LogNorm

    largest = float(np.max(values))
    if largest == 0:
        return error_colors(values)
    low = float(np.quantile(values, AS_ZERO))
    low = float(np.clip(low, largest * 10.0 ** -DECADES[0], largest * 10.0 ** -DECADES[1]))
    # What is zero has no logarithm: it is drawn as the least.
    options = {"cmap": "magma", "norm": LogNorm(low, largest, clip=True)}
    return Colors(options, "min" if np.min(values) < low else "neither")


def _limit(values: Float[np.ndarray, "..."]) -> tuple[float, bool]:
    """The size up to which values are told apart, and whether some are much larger."""
    largest = float(np.max(np.abs(values)))
    limit = float(np.quantile(np.abs(values), SHOWN)) or largest or 1.0
    is_cut = largest > 1.5 * limit
    return limit if is_cut else largest or 1.0, is_cut


def draw_map(
    panel: "Axes",
    domain: Box,
    axes: tuple[str, str],
    values: Float[np.ndarray, "across up"],
    colors: Colors,
) -> "AxesImage":
    """Values over two axes of the domain, the first from left to right."""
    across, up = (domain.names.index(axis) for axis in axes)
    widths = domain.widths
    # Lengths along both axes compare only where neither is time.
    alike = domain.time not in axes and 0.5 <= widths[across] / widths[up] <= 2
    panel.set_xlabel(axes[0])
    panel.set_ylabel(axes[1])
    return panel.imshow(
        values.T,
        origin="lower",
        extent=(domain.lower[across], domain.upper[across], domain.lower[up], domain.upper[up]),
        aspect="equal" if alike else "auto",
        interpolation="bilinear",
        **colors.options,
    )


def add_bar(panels: Sequence["Axes"], image: "AxesImage", extend: str) -> None:
    """A color bar to the right of a row of panels."""
    figure = panels[0].figure
    # Where lengths compare, the image is lower than the place that it has.
    shrink = 1.0 if image.axes.get_aspect() == "auto" else 0.82
    bar = figure.colorbar(image, ax=panels, shrink=shrink, pad=0.02, extend=extend)
    bar.ax.tick_params(labelsize="small")
    bar.outline.set_visible(False)


# ---- Pictures of a solution ----


LINE_POINTS, MAP_POINTS, SPACE_TIME_POINTS, SNAPSHOT_POINTS = 801, 161, 241, 121
NUM_SNAPSHOTS = 4
PANEL, SNAPSHOT = (3.7, 3.1), (2.3, 2.25)  # inches
# A single row of more panels would be too wide for a page or a screen.
MAX_COLUMNS, WRAPPED_COLUMNS = 4, 3
TINY = 1e-17  # where a curve on a logarithmic axis ends
# Dark and different in print, too; the exact solution lies under the others.
LINES: dict[str, dict[str, Any]] = {
    EXACT: {"color": "0.75", "linewidth": 5.0},
    SOLUTION: {"color": "#1f4e9c", "linewidth": 1.8},
    POLYNOMIAL: {"color": "#c8553d", "linestyle": "--", "linewidth": 1.4},
    NETWORK: {"color": "#2a8c6a", "linestyle": ":", "linewidth": 1.8},
}


def plot(solution: Drawable, path: str | os.PathLike[str] | None = None) -> "Figure":
    """Draw the solution; with a path the picture is also written there."""
    if path is not None:
        check_picture(path)
    ticks, fields = _ticks(solution), _fields(solution)
    figure = _snapshots(solution, ticks, fields) if len(ticks) > 2 else _panels(solution, fields)
    figure.suptitle(_title(solution, tuple(ticks)))
    if path is not None:
        write_picture(figure, path)
    return figure


def _fields(solution: Drawable) -> dict[str, Values]:
    """For every field what is drawn of it."""
    return values_on_grid(solution, _ticks(solution))


def _ticks(solution: Drawable) -> dict[str, np.ndarray]:
    """Where each axis that is drawn is evaluated, the one from left to right first."""
    domain = solution.model.domain
    space, time = space_axes(domain), domain.time
    if domain.dimension == 1:
        return {domain.names[0]: ticks_along(domain, domain.names[0], LINE_POINTS)}
    if time is None:
        return {axis: ticks_along(domain, axis, MAP_POINTS) for axis in space[:2]}
    if len(space) == 1:
        axes = (time, *space)
        return {axis: ticks_along(domain, axis, SPACE_TIME_POINTS) for axis in axes}
    moments = {time: ticks_along(domain, time, NUM_SNAPSHOTS)}
    return moments | {axis: ticks_along(domain, axis, SNAPSHOT_POINTS) for axis in space[:2]}


def _title(solution: Drawable, shown: tuple[str, ...]) -> str:
    report, domain = solution.report, solution.model.domain
    name = "solution" if solution.problem is None else solution.problem.name
    parts = [name, f"degree {report.degree}"]
    if solution.model.num_units:
        parts.append(f"{solution.model.num_units} network units")
    if report.rel_l2 is not None:
        parts.append(f"relative l2 error {report.rel_l2:.1e}")
    else:
        parts.append(f"relative residual {report.residual:.1e}")
    cut = [axis for axis in domain.names if axis not in shown]
    if cut:
        places = ", ".join(f"{axis} = {middle_of(domain, axis):g}" for axis in cut)
        parts.append(f"slice at {places}")
    return ", ".join(parts)


def _has_history(solution: Drawable) -> bool:
    return any(len(values) > 1 for values in solution.report.history.values())


def _colors(solution: Drawable, name: str, values: np.ndarray) -> Colors:
    if name != ERROR:
        return field_colors(values)
    is_evolving = solution.model.domain.time is not None
    return error_decades(values) if is_evolving else error_colors(values)


def _maps(values: Values) -> Values:
    """What gets a heat map; that of the exact solution would look like the solution's."""
    return {name: array for name, array in values.items() if name != EXACT}


# ---- A row of panels for each field ----


def _panels(solution: Drawable, fields: dict[str, Values]) -> "Figure":
    from matplotlib.figure import Figure

    cells_of = _line_cells if solution.model.domain.dimension == 1 else _map_cells
    rows = {field: cells_of(solution, values) for field, values in fields.items()}
    has_history = _has_history(solution)
    width = len(rows[solution.fields[0]])
    is_wrapped = len(rows) == 1 and width + has_history > MAX_COLUMNS
    num_columns = WRAPPED_COLUMNS if is_wrapped else width + has_history
    num_rows = 2 if is_wrapped else len(rows)
    size = (PANEL[0] * num_columns, PANEL[1] * num_rows + 0.6)
    figure = Figure(figsize=size, layout="constrained")
    grid = figure.add_gridspec(num_rows, num_columns)
    for row, (field, cells) in enumerate(rows.items()):
        for number, (name, draw) in enumerate(cells):
            below, column = divmod(number, num_columns)
            panel = figure.add_subplot(grid[row + below, column])
            draw(panel)
            panel.set_title(f"{field}: {name}" if len(rows) > 1 else name)
    if has_history:
        panel = figure.add_subplot(grid[divmod(width, num_columns)])
        # Nothing is beside it at the end of a wrapped row, nor below it in a row of its own.
        empty = "right" if is_wrapped else "below" if len(rows) > 1 else None
        _draw_convergence(solution, empty, panel)
    return figure


# A title, and what draws below it.
Cell = tuple[str, Callable[["Axes"], None]]


def _line_cells(solution: Drawable, values: Values) -> list[Cell]:
    """The curves in one panel, the error in another."""
    curves = {name: values[name] for name in LINES if name in values}
    cells: list[Cell] = [(SOLUTION, functools.partial(_draw_lines, solution, curves))]
    if ERROR in values:
        cells.append((ERROR, functools.partial(_draw_error_line, solution, values[ERROR])))
    return cells


def _map_cells(solution: Drawable, values: Values) -> list[Cell]:
    return [
        (name, functools.partial(_draw_map, solution, name, array))
        for name, array in _maps(values).items()
    ]


def _draw_lines(solution: Drawable, curves: Values, panel: "Axes") -> None:
    at = _along(solution, panel)
    for label, curve in curves.items():
        panel.plot(at, curve, label=label, **LINES[label])
    if len(curves) > 1:
        panel.legend(frameon=False, fontsize="small")


def _draw_error_line(solution: Drawable, error: np.ndarray, panel: "Axes") -> None:
    panel.semilogy(_along(solution, panel), np.maximum(error, TINY), color="#7a1f4f", linewidth=1.0)


def _along(solution: Drawable, panel: "Axes") -> np.ndarray:
    """Name the panel's axis after the only one there is, and give the coordinates along it."""
    domain = solution.model.domain
    panel.set_xlim(domain.lower[0], domain.upper[0])
    panel.set_xlabel(domain.names[0])
    panel.grid(alpha=0.25)
    return ticks_along(domain, domain.names[0], LINE_POINTS)


def _draw_map(solution: Drawable, name: str, values: np.ndarray, panel: "Axes") -> None:
    domain = solution.model.domain
    first, second = tuple(_ticks(solution))
    colors = _colors(solution, name, values)
    image = draw_map(panel, domain, (first, second), values, colors)
    add_bar([panel], image, colors.extend)


def _draw_convergence(solution: Drawable, empty: str | None, panel: "Axes") -> None:
    """`empty` says where there is room for the legend outside."""
    draw_history(panel, solution.report.history)
    panel.set_title("convergence")
    if empty is None:
        panel.legend(framealpha=0.8, edgecolor="none", fontsize="small")
    else:
        legend_outside(panel, below=empty == "below")
    # The maps beside it are as high as they are wide, unless one of their axes is time.
    if solution.model.domain.time is None:
        panel.set_box_aspect(0.9)


# ---- Snapshots ----


def _snapshots(
    solution: Drawable, ticks: dict[str, np.ndarray], fields: dict[str, Values]
) -> "Figure":
    """A row for each field and half, in colors that mean the same at all moments."""
    from matplotlib.figure import Figure

    domain, (time, *space) = solution.model.domain, ticks
    moments = ticks[time]
    rows = [
        (f"{field}: {name}" if len(fields) > 1 else name, name, array)
        for field, values in fields.items()
        for name, array in _maps(values).items()
    ]
    has_history = _has_history(solution)
    size = (SNAPSHOT[0] * len(moments) + 1.0, SNAPSHOT[1] * (len(rows) + has_history) + 0.6)
    figure = Figure(figsize=size, layout="constrained")
    grid = figure.add_gridspec(len(rows) + has_history, len(moments))
    for row, (title, name, array) in enumerate(rows):
        colors = _colors(solution, name, array)
        panels = [figure.add_subplot(grid[row, column]) for column in range(len(moments))]
        for moment, panel, values in zip(moments, panels, array, strict=True):
            image = draw_map(panel, domain, (space[0], space[1]), values, colors)
            panel.locator_params(nbins=3)
            if row == 0:
                panel.set_title(f"{time} = {moment:.3g}")
            if row < len(rows) - 1:
                panel.set_xlabel("")
                panel.tick_params(labelbottom=False)
        for panel in panels[1:]:
            panel.set_ylabel("")
            panel.tick_params(labelleft=False)
        panels[0].set_ylabel(f"{title}\n{space[1]}")
        add_bar(panels, image, colors.extend)
    if has_history:
        _draw_convergence(solution, "right", figure.add_subplot(grid[-1, : len(moments) - 1]))
    return figure
