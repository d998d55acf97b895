"""Over the steps: a panel for every term of the loss and for the error, a line for each model."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from reproduction.drawings.bars import label
from reproduction.drawings.finished import COLORS, Finished

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STYLES = ("-", "--", "-.", ":")
LAST = ("fresh residual", "error")
COLUMNS = 3


def equal_cost(runs: Sequence[Finished], size: str) -> "Figure":
    """The paper's models on Poisson's equation, and the seconds that each took."""
    from matplotlib.figure import Figure

    own = sorted(
        (run for run in runs if run.mode == "faithful"),
        key=lambda run: label(run.record["configuration"]),
    )
    if not own:
        raise ValueError(
            "the figure of 'equal_cost' shows gradient training, and the store has none: run it "
            f"with python -m reproduction run equal_cost --mode faithful --size {size}"
        )
    names = list(dict.fromkeys(name for run in own for name in run.figures["history"]))
    terms = sorted(name for name in names if name not in ("step", *LAST))
    drawn = [*terms, *(name for name in LAST if name in names)]
    num_lines = -(-(len(drawn) + 1) // COLUMNS)
    figure = Figure(figsize=(13.0, 0.5 + 3.3 * num_lines), layout="constrained")
    panels = list(figure.subplots(num_lines, COLUMNS, squeeze=False).ravel())
    for panel, name in zip(panels, drawn, strict=False):
        for number, run in enumerate(own):
            steps, values = curve(run, name)
            style = {"color": COLORS[number], "linestyle": STYLES[number % len(STYLES)]}
            panel.plot(steps, values, label=label(run.record["configuration"]), **style)
        panel.set_title("relative l2 error" if name == "error" else name)
        panel.set_yscale("log")
        panel.set_xlabel("step")
        panel.locator_params(axis="x", nbins=6, integer=True)
        panel.grid(alpha=0.25)
    bars = panels[len(drawn)]
    labels = [label(run.record["configuration"]) for run in own]
    bars.barh(labels, [run.seconds for run in own], color=COLORS[: len(own)])
    bars.invert_yaxis()
    bars.set_title("seconds")
    bars.grid(axis="x", alpha=0.25)
    bars.set_axisbelow(True)
    for panel in panels[len(drawn) + 1 :]:
        panel.set_visible(False)
    handles, shown = panels[len(drawn) - 1].get_legend_handles_labels()
    figure.legend(handles, shown, loc="outside upper right", ncols=len(own), frameon=False)
    return figure


def curve(run: Finished, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Steps and values; there are gaps where a value is not finite or not above zero."""
    history = run.figures["history"]
    values = np.array(history.get(name, []), dtype=float)
    values[~(values > 0)] = np.nan
    return np.array(history["step"], dtype=float)[: len(values)], values
