"""Pictures of a solution: its fields and their halves, the error where it is known, the way there.

Lines in one dimension, heat maps in two; beyond, heat maps over the first two axes with the other
coordinates in the middle of the domain.
"""

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from pann.model import PANN
from pann.pde.ansatz import Ansatz
from pann.pde.evaluation import evaluate_parts
from pann.pde.placing import evaluate
from pann.pde.problem import Problem

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

RESOLUTION = {1: 801, 2: 161}
PANEL = (3.7, 3.1)  # inches
TINY = 1e-17  # where a curve on a logarithmic axis ends
ERROR = "|error|"
# A few extreme values, as of polynomials in the corners, would leave the rest without color.
SHOWN = 0.995
# Dark and different in print, too; the exact solution lies under the others.
LINES: dict[str, dict[str, Any]] = {
    "exact": {"color": "0.75", "linewidth": 5.0},
    "solution": {"color": "#1f4e9c", "linewidth": 1.8},
    "polynomial half": {"color": "#c8553d", "linestyle": "--", "linewidth": 1.4},
    "network half": {"color": "#2a8c6a", "linestyle": ":", "linewidth": 1.8},
}


@runtime_checkable
class Quality(Protocol):
    """What a picture needs of a solution's report."""

    @property
    def degree(self) -> int: ...
    @property
    def residual(self) -> float: ...
    @property
    def rel_l2(self) -> float | None: ...
    @property
    def history(self) -> Mapping[str, Sequence[float]]: ...


@runtime_checkable
class Drawable(Protocol):
    """What a picture needs of a solution."""

    @property
    def model(self) -> PANN: ...
    @property
    def ansatz(self) -> Ansatz | None: ...
    @property
    def fields(self) -> tuple[str, ...]: ...
    @property
    def report(self) -> Quality: ...
    @property
    def problem(self) -> Problem | None: ...


def plot(solution: Drawable, path: str | os.PathLike[str] | None = None) -> "Figure":
    """Draw the solution; with a path the picture is also written there."""
    from matplotlib.figure import Figure

    lines = solution.model.domain.dimension == 1
    panels = [
        (field, _line_panels(values) if lines else _map_panels(values))
        for field, values in _fields(solution).items()
    ]
    has_history = any(len(values) > 1 for values in solution.report.history.values())
    num_columns = max(len(names) for _, names in panels) + has_history
    size = (PANEL[0] * num_columns, PANEL[1] * len(panels) + 0.6)
    figure = Figure(figsize=size, layout="constrained")
    grid = figure.add_gridspec(len(panels), num_columns)
    for row, (field, names) in enumerate(panels):
        for column, (name, values) in enumerate(names.items()):
            panel = figure.add_subplot(grid[row, column])
            if lines:
                _draw_lines(panel, solution, name, values)
            else:
                _draw_map(figure, panel, solution, name, values[name])
            panel.set_title(f"{field}: {name}" if len(panels) > 1 else name)
    if has_history:
        _draw_history(figure.add_subplot(grid[0, -1]), solution)
    figure.suptitle(_title(solution))
    if path is not None:
        figure.savefig(path, dpi=130)
    return figure


def _title(solution: Drawable) -> str:
    report = solution.report
    name = "solution" if solution.problem is None else solution.problem.name
    parts = [name, f"degree {report.degree}"]
    if solution.model.num_units:
        parts.append(f"{solution.model.num_units} network units")
    if report.rel_l2 is not None:
        parts.append(f"relative l2 error {report.rel_l2:.1e}")
    else:
        parts.append(f"relative residual {report.residual:.1e}")
    domain = solution.model.domain
    middle = [
        f"{axis} = {(low + high) / 2:g}"
        for axis, low, high in zip(domain.names, domain.lower, domain.upper, strict=True)
    ]
    if len(middle) > 2:
        parts.append(f"slice at {', '.join(middle[2:])}")
    return ", ".join(parts)


# ---- What is drawn ----


def _fields(solution: Drawable) -> dict[str, dict[str, np.ndarray]]:
    """For every field its values on the grid, by the names of the panels or curves."""
    points, shape = _grid(solution)
    network, polynomial = evaluate_parts(solution.model, solution.ansatz, points)
    exact = _exact(solution, points)
    fields = {}
    for number, field in enumerate(solution.fields):
        value = network[:, number] + polynomial[:, number]
        values = {"solution": value}
        if solution.model.num_units:
            values["polynomial half"] = polynomial[:, number]
            values["network half"] = network[:, number]
        if exact is not None:
            values["exact"] = exact[number]
            values[ERROR] = np.abs(value - exact[number])
        fields[field] = {name: array.reshape(shape) for name, array in values.items()}
    return fields


def _grid(solution: Drawable) -> tuple[np.ndarray, tuple[int, ...]]:
    """Points along the first two axes at most, the others in the middle."""
    domain = solution.model.domain
    varied = min(domain.dimension, 2)
    ticks = np.linspace(-1.0, 1.0, RESOLUTION[varied])
    mesh = np.stack(np.meshgrid(*[ticks] * varied, indexing="ij"), axis=-1)
    points = np.zeros((mesh[..., 0].size, domain.dimension))
    points[:, :varied] = mesh.reshape(-1, varied)
    return domain.from_reference(points), mesh.shape[:-1]


def _exact(solution: Drawable, points: np.ndarray) -> list[np.ndarray] | None:
    problem = solution.problem
    if problem is None or problem.exact is None:
        return None
    exact = problem.exact
    return [
        evaluate(lambda number=number, **at: _part(exact(**at), number), problem, points)
        for number in range(len(solution.fields))
    ]


def _part(values: Any, number: int) -> Any:
    return values[number] if isinstance(values, tuple) else values


# ---- Panels ----


Values = dict[str, np.ndarray]


def _line_panels(values: Values) -> dict[str, Values]:
    """The curves in one panel, the error in another."""
    curves = {name: values[name] for name in LINES if name in values}
    panels = {"solution": curves}
    if ERROR in values:
        panels[ERROR] = {ERROR: values[ERROR]}
    return panels


def _map_panels(values: Values) -> dict[str, Values]:
    """A heat map each; that of the exact solution would look like the solution's."""
    return {name: {name: array} for name, array in values.items() if name != "exact"}


def _draw_lines(panel: "Axes", solution: Drawable, name: str, curves: Values) -> None:
    domain = solution.model.domain
    at = np.linspace(domain.lower[0], domain.upper[0], RESOLUTION[1])
    if name == ERROR:
        panel.semilogy(at, np.maximum(curves[ERROR], TINY), color="#7a1f4f", linewidth=1.0)
    else:
        for label, curve in curves.items():
            panel.plot(at, curve, label=label, **LINES[label])
        if len(curves) > 1:
            panel.legend(frameon=False, fontsize="small")
    panel.set_xlim(domain.lower[0], domain.upper[0])
    panel.set_xlabel(domain.names[0])
    panel.grid(alpha=0.25)


def _draw_map(
    figure: "Figure", panel: "Axes", solution: Drawable, name: str, values: np.ndarray
) -> None:
    domain = solution.model.domain
    extent = (domain.lower[0], domain.upper[0], domain.lower[1], domain.upper[1])
    colors, extend = _colors(values, is_error=name == ERROR)
    # Lengths along both axes compare only where neither is time.
    widths = domain.widths
    alike = domain.time not in domain.names[:2] and 0.5 <= widths[0] / widths[1] <= 2
    image = panel.imshow(
        values.T,
        origin="lower",
        extent=extent,
        aspect="equal" if alike else "auto",
        interpolation="bilinear",
        **colors,
    )
    panel.set_xlabel(domain.names[0])
    panel.set_ylabel(domain.names[1])
    bar = figure.colorbar(image, ax=panel, shrink=0.82, pad=0.02, extend=extend)
    bar.ax.tick_params(labelsize="small")
    bar.outline.set_visible(False)


def _colors(values: np.ndarray, *, is_error: bool) -> tuple[dict[str, Any], str]:
    """Map and limits, and which ends of the values lie beyond them."""
    low, high = float(np.min(values)), float(np.max(values))
    largest = max(abs(low), abs(high))
    limit = float(np.quantile(np.abs(values), SHOWN)) or largest or 1.0
    is_cut = largest > 1.5 * limit
    limit = limit if is_cut else largest or 1.0
    if is_error:
        return {"cmap": "magma", "vmin": 0.0, "vmax": limit}, "max" if is_cut else "neither"
    if low < 0 < high:
        colors = {"cmap": "RdBu_r", "vmin": -limit, "vmax": limit}
        return colors, "both" if is_cut else "neither"
    # A constant field is one color: without room around it, its rounding would be drawn.
    room = max(0.0, 1e-6 * largest - (high - low))
    return {"cmap": "viridis", "vmin": low - room, "vmax": high + room}, "neither"


def _draw_history(panel: "Axes", solution: Drawable) -> None:
    for name, values in solution.report.history.items():
        marker = "o" if len(values) < 30 else None
        panel.semilogy(
            np.maximum(values, 1e-40), marker=marker, markersize=4, linewidth=1.4, label=name
        )
    panel.set_title("convergence")
    panel.set_box_aspect(0.9)
    panel.set_xlabel("step")
    panel.locator_params(axis="x", integer=True)
    panel.grid(alpha=0.25)
    panel.legend(frameon=False, fontsize="small")
