"""The way to a solution: every term of the loss, and the residual at points that were not used."""

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pann.plot.files import check_picture, write_picture
from pann.plot.values import Drawable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.legend import Legend

# Not part of what is made small: measured at points, or rows, that training does not see.
MEASURED = ("fresh residual", "held_out", "error")
STEP = "step"
FEW_RECORDS = 30
NUM_COLORS = 10

History = Mapping[str, Sequence[float]]


def plot_history(solution: Drawable, path: str | os.PathLike[str] | None = None) -> "Figure":
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
    name = "solution" if solution.problem is None else solution.problem.name
    panel.set_title(f"{name}, degree {solution.report.degree}")
    if path is not None:
        write_picture(figure, path)
    return figure


def draw_history(panel: "Axes", history: History) -> None:
    """A curve for each name over the steps, or the number of its records where there are none.

    What is measured at fresh points is black, dashed or dotted. On the logarithmic axis there are
    gaps where a value is zero or not finite.
    """
    terms = [name for name in history if name not in (*MEASURED, STEP)]
    steps = history.get(STEP)
    for name in (*terms, *(name for name in MEASURED if name in history)):
        drawn = np.array(history[name], dtype=float)
        is_shown = np.isfinite(drawn) & (drawn > 0)
        label = name if np.any(is_shown) else f"{name} (never above 0)"
        drawn[~is_shown] = np.nan
        style = _measured_style(name) if name in MEASURED else _term_style(terms.index(name))
        # A single record between gaps shows only as a mark.
        marker = "o" if len(drawn) < FEW_RECORDS else None
        places = np.arange(len(drawn)) if steps is None else steps
        panel.plot(places, drawn, label=label, marker=marker, markersize=3.5, **style)
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


def _measured_style(name: str) -> dict[str, Any]:
    stroke = ":" if name == "error" else "--"
    return {"color": "black", "linestyle": stroke, "linewidth": 1.8, "zorder": 3}


def _term_style(number: int) -> dict[str, Any]:
    # Where the colors begin again, the strokes differ.
    stroke = ("-", "-.", ":")[number // NUM_COLORS % 3]
    return {"color": f"C{number % NUM_COLORS}", "linestyle": stroke, "linewidth": 1.4}
