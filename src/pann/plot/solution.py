"""Pictures of a solution: curves and heat maps, snapshots in time, and the history of its loss.

Matplotlib's figures are drawn without pyplot, so nothing global changes.
"""

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Float

from pann.basis import ElementBasis
from pann.domain import Box
from pann.plot.files import check_picture, write_picture
from pann.plot.outline import draw_outline, filled, outline_of
from pann.plot.values import (
    ERROR,
    EXACT,
    NETWORK,
    POLYNOMIAL,
    SOLUTION,
    Values,
    cuts,
    name_of,
    shown_ticks,
    values_on_grid,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage
    from matplotlib.legend import Legend

    from pann.solvers.solution import Solution

# ---- Colors ----

# A few extreme values, as of polynomials in the corners, would leave the rest without color.
SHOWN = 0.995
# A field is signed if both signs reach this fraction of its largest value, beyond undershoots.
SIGNED = 0.05
# This fraction of the errors, the least ones, is below the logarithmic scale: along lines where the
# error changes its sign there would be beads. The scale has between 2 and 4 decades.
AS_ZERO = 0.03
DECADES = (4, 2)


class Colors(NamedTuple):
    """What `imshow` needs to color values, and which ends of them lie beyond the scale."""

    options: dict[str, Any]
    extend: str


def colors_of(domain: Box, name: str, values: Float[np.ndarray, "..."]) -> Colors:
    """Those of an error, or of anything else."""
    if name != ERROR:
        return field_colors(values)
    return error_colors(values) if domain.time is None else error_decades(values)


def field_colors(values: Float[np.ndarray, "..."]) -> Colors:
    """White at zero and the same scale to both sides if signed, else from lowest to highest."""
    values = values[np.isfinite(values)]
    low, high = float(np.min(values, initial=np.inf)), float(np.max(values, initial=-np.inf))
    limit, is_cut = _limit(values)
    if min(-low, high) > SIGNED * limit:
        options = {"cmap": "RdBu_r", "vmin": -limit, "vmax": limit}
        return Colors(options, "both" if is_cut else "neither")
    # A constant field is one color: without room around it, its rounding would be drawn.
    room = max(0.0, 1e-6 * limit - (high - low))
    return Colors({"cmap": "viridis", "vmin": low - room, "vmax": high + room}, "neither")


def error_colors(values: Float[np.ndarray, "..."]) -> Colors:
    """From zero to the largest error."""
    values = values[np.isfinite(values)]
    limit, is_cut = _limit(values)
    return Colors({"cmap": "magma", "vmin": 0.0, "vmax": limit}, "max" if is_cut else "neither")


def error_decades(values: Float[np.ndarray, "..."]) -> Colors:
    """Logarithmic: errors that grow in time are of different orders at different times."""
    from matplotlib.colors import LogNorm

    values = values[np.isfinite(values)]
    largest = float(np.max(values))
    if largest == 0:
        return error_colors(values)
    low = float(np.quantile(values, AS_ZERO))
    low = float(np.clip(low, largest * 10.0 ** -DECADES[0], largest * 10.0 ** -DECADES[1]))
    # Zero has no logarithm: it is drawn as the least value.
    options = {"cmap": "magma", "norm": LogNorm(low, largest, clip=True)}
    return Colors(options, "min" if np.min(values) < low else "neither")


def _limit(values: Float[np.ndarray, "..."]) -> tuple[float, bool]:
    """The size up to which colors distinguish values, and whether some are much larger."""
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
    widths, outline = domain.widths, outline_of(domain, axes)
    # Lengths along both axes compare only where neither is time.
    alike = domain.time not in axes and 0.5 <= widths[across] / widths[up] <= 2
    panel.set_xlabel(axes[0])
    panel.set_ylabel(axes[1])
    image = panel.imshow(
        filled(values).T,
        origin="lower",
        extent=(domain.lower[across], domain.upper[across], domain.lower[up], domain.upper[up]),
        aspect="equal" if alike or outline is not None else "auto",
        interpolation="bilinear",
        **colors.options,
    )
    if outline is not None:
        draw_outline(panel, outline)
        image.set_clip_path(outline, panel.transData)
        for side in panel.spines.values():
            side.set_visible(False)
        panel.tick_params(length=2, color="0.6")
    return image


def add_bar(panels: Sequence["Axes"], image: "AxesImage", extend: str) -> None:
    """A color bar to the right of a row of panels."""
    figure = panels[0].figure
    # An image with equal scales is lower than its panel.
    left, right, low, high = image.get_extent()
    lower = min(0.82, max(1.2 * (high - low) / (right - left), 0.4))
    shrink = 1.0 if image.axes.get_aspect() == "auto" else lower
    bar = figure.colorbar(image, ax=panels, shrink=shrink, pad=0.02, extend=extend)
    bar.ax.tick_params(labelsize="small")
    bar.outline.set_visible(False)


# ---- The solution ----

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


def plot(solution: "Solution", path: str | os.PathLike[str] | None = None) -> "Figure":
    """Draw the solution; with a path the picture is also written there."""
    if path is not None:
        check_picture(path)
    ticks = ticks_of(solution)
    fields = values_on_grid(solution, ticks)
    draw = _snapshots if len(ticks) > 2 else _panels
    figure = draw(solution, ticks, fields)
    figure.suptitle(_title(solution, tuple(ticks)))
    if path is not None:
        write_picture(figure, path)
    return figure


def ticks_of(solution: "Solution") -> dict[str, np.ndarray]:
    """The coordinates along each axis that is drawn, the horizontal one first."""
    domain = solution.model.domain
    return shown_ticks(domain, line=801, plane=161, space_time=241, times=4, snapshot=121)


def _title(solution: "Solution", shown: tuple[str, ...]) -> str:
    report = solution.report
    basis = solution.model.basis
    count = int(np.sum(~basis.tree.is_void)) if isinstance(basis, ElementBasis) else 0
    elements = f"{count} elements up to " if count else ""
    parts = [name_of(solution), f"{elements}degree {report.degree}"]
    if solution.model.num_units:
        parts.append(f"{solution.model.num_units} network units")
    if report.rel_l2 is not None:
        parts.append(f"relative l2 error {report.rel_l2:.1e}")
    else:
        parts.append(f"relative residual {report.residual:.1e}")
    if at := cuts(solution.model.domain, shown):
        parts.append(f"slice at {at}")
    return ", ".join(parts)


def _has_history(solution: "Solution") -> bool:
    return any(len(values) > 1 for values in solution.report.history.values())


def _maps(values: Values) -> Values:
    """The values that get a heat map; that of the exact solution would look like the solution's."""
    return {name: array for name, array in values.items() if name != EXACT}


def _panels(
    solution: "Solution", ticks: dict[str, np.ndarray], fields: dict[str, Values]
) -> "Figure":
    """A row of panels for each field: curves and their error, or a map for each of its values."""
    from matplotlib.figure import Figure

    domain, is_line = solution.model.domain, len(ticks) == 1
    rows = {
        field: [name for name in (SOLUTION, ERROR) if name in values] if is_line else _maps(values)
        for field, values in fields.items()
    }
    has_history = _has_history(solution)
    width = len(rows[solution.fields[0]])
    is_wrapped = len(rows) == 1 and width + has_history > MAX_COLUMNS
    num_columns = WRAPPED_COLUMNS if is_wrapped else width + has_history
    num_rows = 2 if is_wrapped else len(rows)
    size = (PANEL[0] * num_columns, _height(domain, ticks) * num_rows + 0.6)
    figure = Figure(figsize=size, layout="constrained")
    grid = figure.add_gridspec(num_rows, num_columns)
    for row, (field, names) in enumerate(rows.items()):
        for number, name in enumerate(names):
            below, column = divmod(number, num_columns)
            panel = figure.add_subplot(grid[row + below, column])
            if is_line:
                _draw_lines(panel, ticks, fields[field], is_error=name == ERROR)
            else:
                array = fields[field][name]
                across, up = ticks
                colors = colors_of(domain, name, array)
                image = draw_map(panel, domain, (across, up), array, colors)
                if name == SOLUTION:
                    draw_elements(panel, solution, (across, up))
                add_bar([panel], image, colors.extend)
            panel.set_title(f"{field}: {name}" if len(rows) > 1 else name)
    if has_history:
        panel = figure.add_subplot(grid[divmod(width, num_columns)])
        # Nothing is right of it at the end of a wrapped row, nor below it in a row of its own.
        empty = "right" if is_wrapped else "below" if len(rows) > 1 else None
        _draw_convergence(solution, empty, panel)
    return figure


def _height(domain: Box, ticks: dict[str, np.ndarray]) -> float:
    """Of a panel: less for shapes that are much wider than high."""
    if domain.shape is None or len(ticks) != 2:
        return PANEL[1]
    across, up = (domain.widths[domain.names.index(axis)] for axis in ticks)
    return float(np.clip(0.9 + PANEL[0] * up / across, 1.9, PANEL[1]))


def draw_elements(panel: "Axes", solution: "Solution", axes: tuple[str, str]) -> None:
    """The outlines of elements over two axes, of those that a slice through the middle meets."""
    from matplotlib.collections import PatchCollection
    from matplotlib.patches import Rectangle

    basis = solution.model.basis
    if not isinstance(basis, ElementBasis):
        return
    domain = solution.model.domain
    across, up = (domain.names.index(axis) for axis in axes)
    middle = 0.5 * (np.asarray(domain.lower) + np.asarray(domain.upper))
    corners = basis.tree.corners[~basis.tree.is_void]
    meets = (corners[:, 0] <= middle) & (middle <= corners[:, 1])
    meets[:, [across, up]] = True
    boxes = [
        Rectangle((low[across], low[up]), high[across] - low[across], high[up] - low[up])
        for low, high in corners[np.all(meets, axis=1)]
    ]
    outlines = PatchCollection(boxes, facecolor="none", edgecolor="black", linewidth=0.4, alpha=0.5)
    panel.add_collection(outlines)


def _draw_lines(
    panel: "Axes", ticks: dict[str, np.ndarray], values: Values, *, is_error: bool
) -> None:
    """The error on a logarithmic axis, or the curves of all other values."""
    ((axis, at),) = ticks.items()
    panel.set_xlim(at[0], at[-1])
    panel.set_xlabel(axis)
    panel.grid(alpha=0.25)
    if is_error:
        panel.semilogy(at, np.maximum(values[ERROR], TINY), color="#7a1f4f", linewidth=1.0)
        return
    curves = [name for name in LINES if name in values]
    for name in curves:
        panel.plot(at, values[name], label=name, **LINES[name])
    if len(curves) > 1:
        panel.legend(frameon=False, fontsize="small")


def _draw_convergence(solution: "Solution", empty: str | None, panel: "Axes") -> None:
    """`empty` says where there is room for the legend outside."""
    draw_history(panel, solution.report.history)
    panel.set_title("convergence")
    if empty is None:
        panel.legend(framealpha=0.8, edgecolor="none", fontsize="small")
    else:
        legend_outside(panel, below=empty == "below")
    # The maps next to it are as high as they are wide, unless one of their axes is time.
    if solution.model.domain.time is None:
        panel.set_box_aspect(0.9)


def _snapshots(
    solution: "Solution", ticks: dict[str, np.ndarray], fields: dict[str, Values]
) -> "Figure":
    """A row for each field and half, in colors that mean the same at all times."""
    from matplotlib.figure import Figure

    domain, (time, *space) = solution.model.domain, ticks
    times = ticks[time]
    rows = [
        (f"{field}: {name}" if len(fields) > 1 else name, name, array)
        for field, values in fields.items()
        for name, array in _maps(values).items()
    ]
    has_history = _has_history(solution)
    size = (SNAPSHOT[0] * len(times) + 1.0, SNAPSHOT[1] * (len(rows) + has_history) + 0.6)
    figure = Figure(figsize=size, layout="constrained")
    grid = figure.add_gridspec(len(rows) + has_history, len(times))
    for row, (title, name, array) in enumerate(rows):
        colors = colors_of(domain, name, array)
        panels = [figure.add_subplot(grid[row, column]) for column in range(len(times))]
        for at, panel, values in zip(times, panels, array, strict=True):
            image = draw_map(panel, domain, (space[0], space[1]), values, colors)
            panel.locator_params(nbins=3)
            if row == 0:
                panel.set_title(f"{time} = {at:.3g}")
            if row < len(rows) - 1:
                panel.set_xlabel("")
                panel.tick_params(labelbottom=False)
        for panel in panels[1:]:
            panel.set_ylabel("")
            panel.tick_params(labelleft=False)
        panels[0].set_ylabel(f"{title}\n{space[1]}")
        add_bar(panels, image, colors.extend)
    if has_history:
        _draw_convergence(solution, "right", figure.add_subplot(grid[-1, : len(times) - 1]))
    return figure


# ---- The history ----

# Measured at points, or rows, that training does not see; not part of the loss.
MEASURED = ("fresh residual", "held_out", "error")
STEP = "step"
FEW_RECORDS = 30
NUM_COLORS, STROKES = 10, ("-", "-.", ":")


def plot_history(solution: "Solution", path: str | os.PathLike[str] | None = None) -> "Figure":
    """Draw the history of a solution's report; with a path the picture is also written there."""
    from matplotlib.figure import Figure

    history = solution.report.history
    if not any(len(values) for values in history.values()):
        raise ValueError(
            "this solution has no history: its report holds no records; plot one that pann.solve "
            "gave back"
        )
    if path is not None:
        check_picture(path)
    figure = Figure(figsize=(8.0, 4.2), layout="constrained")
    panel = figure.add_subplot()
    draw_history(panel, history)
    legend_outside(panel).set_in_layout(True)
    panel.set_title(f"{name_of(solution)}, degree {solution.report.degree}")
    if path is not None:
        write_picture(figure, path)
    return figure


def draw_history(panel: "Axes", history: Mapping[str, Sequence[float]]) -> None:
    """A curve for each name over the steps, or over the number of the record without steps.

    Values measured at fresh points are black, dashed or dotted. On the logarithmic axis there are
    gaps where a value is zero or not finite.
    """
    terms = [name for name in history if name not in (*MEASURED, STEP)]
    steps = history.get(STEP)
    for name in (*terms, *(name for name in MEASURED if name in history)):
        drawn = np.array(history[name], dtype=float)
        is_shown = np.isfinite(drawn) & (drawn > 0)
        label = name if np.any(is_shown) else f"{name} (never above 0)"
        drawn[~is_shown] = np.nan
        style: dict[str, Any]
        if name in MEASURED:
            stroke = ":" if name == "error" else "--"
            style = {"color": "black", "linestyle": stroke, "linewidth": 1.8, "zorder": 3}
        else:
            # Where the colors repeat, the strokes differ.
            repeat, color = divmod(terms.index(name), NUM_COLORS)
            style = {"color": f"C{color}", "linestyle": STROKES[repeat % 3], "linewidth": 1.4}
        # A single record between gaps shows only as a mark.
        marker = "o" if len(drawn) < FEW_RECORDS else None
        at = np.arange(len(drawn)) if steps is None else steps
        panel.plot(at, drawn, label=label, marker=marker, markersize=3.5, **style)
    panel.set_yscale("log")
    panel.set_xlabel("number of the record" if steps is None else "step")
    panel.set_ylabel("value")
    panel.locator_params(axis="x", integer=True)
    panel.grid(alpha=0.25)


def legend_outside(panel: "Axes", *, below: bool = False) -> "Legend":
    """To the right of the panel, or below, in room that must be there: the layout leaves it out."""
    corner = (0.0, -0.25) if below else (1.02, 1.0)
    legend = panel.legend(loc="upper left", bbox_to_anchor=corner, borderaxespad=0.0, frameon=False)
    legend.set_in_layout(False)
    return legend
