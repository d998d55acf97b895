"""Bars: errors and pruned shares by constraint, and the errors of an equation's cells."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from reproduction import published
from reproduction.drawings.finished import BLUE, SKY, SOURCES, Finished, unique

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CONSTRAINTS = (*"ABCDEFGH", "l1", "none", "exact")
PARTS = ("network", "polynomial")
SHOWN = {"rff": "RFF", "gradnorm": "GradNorm", "modmlp": "ModMLP", "causal": "causal"}

# By label of the group and by kind of bar.
Heights = dict[tuple[str, str], float]


def grouped(
    panel: "Axes", heights: Mapping[tuple[str, str], float], colors: Mapping[str, str]
) -> None:
    """Bars side by side in groups, the kinds in the order of their colors."""
    labels = list(dict.fromkeys(label for label, _ in heights))
    kinds = [kind for kind in colors if any(each == kind for _, each in heights)]
    for label, kind in heights:
        # A group that has one kind of bar has it in its middle.
        own = [each for each in kinds if (label, each) in heights]
        width = 0.8 / max(len(kinds), 1)
        place = labels.index(label) + (own.index(kind) - (len(own) - 1) / 2) * width
        panel.bar(place, heights[label, kind], width, color=colors[kind])
    panel.set_xticks(range(len(labels)), labels)
    panel.set_xlim(-0.6, len(labels) - 0.4)
    panel.grid(axis="y", alpha=0.25)
    panel.set_axisbelow(True)


def _legend(figure: "Figure", colors: Mapping[str, str]) -> None:
    from matplotlib.patches import Patch

    handles = [Patch(color=color, label=kind) for kind, color in colors.items()]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False)


# ---- Constraints ----

KINDS = {
    "published": SOURCES["published"],
    "faithful": BLUE,
    "faithful, signed test": SKY,
    "default": SOURCES["default"],
}


def constraints(runs: Sequence[Finished], size: str) -> "Figure":
    """By constraint: error, seconds, pruned shares of both halves; a column for an activation."""
    from matplotlib.figure import Figure

    activations = list(dict.fromkeys(run.told("activation") for run in runs))
    figure = Figure(figsize=(max(7.0, 5.2 * len(activations)), 9.6), layout="constrained")
    panels = figure.subplots(4, len(activations), squeeze=False, sharex="col", sharey="row")
    present: dict[str, str] = {}
    for column, activation in zip(panels.T, activations, strict=True):
        own = [run for run in runs if run.told("activation") == activation]
        for panel, heights in zip(column, constraint_heights(own, activation, size), strict=True):
            grouped(panel, heights, KINDS)
            present |= {kind: KINDS[kind] for kind in KINDS if kind in {k for _, k in heights}}
        column[0].set_title(activation)
        column[0].set_yscale("log")
        column[1].set_yscale("log")
    panels[0, 0].set_ylabel("relative l2 error")
    panels[1, 0].set_ylabel("seconds")
    for panel, part in zip(panels[2:, 0], PARTS, strict=True):
        panel.set_ylabel(f"pruned of the {part} (%)")
        panel.set_ylim(0, 105)
    _legend(figure, {kind: color for kind, color in KINDS.items() if kind in present})
    return figure


def constraint_heights(
    runs: Sequence[Finished], activation: str, size: str
) -> tuple[Heights, Heights, Heights, Heights]:
    """Of one activation: errors, seconds, and the shares of either half pruned, in percent."""
    order = [name for name in CONSTRAINTS if any(run.told("constraint") == name for run in runs)]
    errors: Heights = {}
    seconds: Heights = {}
    shares: dict[str, Heights] = {part: {} for part in PARTS}
    printed = published.load("pruning")
    for name in order:
        for part in PARTS if size != "smoke" else ():
            of_cell = printed[
                (printed["activation"] == activation)
                & (printed["constraint"] == name)
                & (printed["part"] == part)
            ]
            for percent in of_cell["percent"]:
                shares[part][name, "published"] = float(percent)
        for run in (run for run in runs if run.told("constraint") == name):
            kind = "faithful, signed test" if run.told("signed") else run.mode
            error = run.error()
            if error is not None:
                errors[name, kind] = error
            seconds[name, kind] = run.seconds
            for part in PARTS:
                shares[part][name, kind] = run.figures[f"pruned_{part}"]
    return errors, seconds, shares["network"], shares["polynomial"]


# ---- Equations ----


@dataclasses.dataclass(frozen=True)
class Cells:
    """The cells of a table that are drawn, and what each source says of them."""

    num_points: int | None
    heights: dict[tuple[str, str], Heights]  # by sampling and field
    default: dict[str, float]  # by field


def equation(runs: Sequence[Finished], size: str) -> "Figure":
    """Published, faithful and default errors of the cells that the paper draws.

    These are the cells with the most points and the lower degree; a panel for each sampling.
    """
    from matplotlib.figure import Figure

    cells = equation_cells(runs, size)
    fields = unique([field for _, field in cells.heights])
    samplings = sorted({sampling for sampling, _ in cells.heights}, reverse=True)
    count = max(len({label for label, _ in each}) for each in cells.heights.values())
    width = max(6.5, (1.2 + 0.44 * (count + 1)) * len(samplings))
    figure = Figure(figsize=(width, 1.9 + 3.1 * len(fields)), layout="constrained")
    panels = figure.subplots(len(fields), len(samplings), squeeze=False, sharex="col", sharey=True)
    for line, field in zip(panels, fields, strict=True):
        for panel, sampling in zip(line, samplings, strict=True):
            heights = dict(cells.heights.get((sampling, field), {}))
            if field in cells.default:
                heights["default", "default"] = cells.default[field]
                panel.axhline(
                    cells.default[field], color=SOURCES["default"], linestyle=":", linewidth=1.2
                )
            grouped(panel, heights, SOURCES)
            panel.set_yscale("log")
            panel.tick_params(axis="x", labelrotation=90)
            points = "" if cells.num_points is None else f", N = {cells.num_points:,}"
            panel.set_title(f"{sampling.replace('_', ' ')}{points}" if sampling else "")
        line[0].set_ylabel("relative l2 error" + (f" of {field}" if len(fields) > 1 else ""))
    every = [height for each in cells.heights.values() for height in each.values()]
    every += cells.default.values()
    # Room below the lowest bar, so that it is one.
    panels[0, 0].set_ylim(min(every) / 4, 2 * max(every))
    kinds = {kind for each in cells.heights.values() for _, kind in each}
    kinds |= {"default"} if cells.default else set()
    _legend(figure, {kind: color for kind, color in SOURCES.items() if kind in kinds})
    return figure


def equation_cells(runs: Sequence[Finished], size: str) -> Cells:
    """Of all cells those with the most points that were run (or printed) and the smallest c."""
    faithful = [run for run in runs if run.mode == "faithful"]
    name = runs[0].record["experiment"]
    printed = [] if size == "smoke" else published.load(name).to_dict("records")
    told = [*(dict(run.record["configuration"]) for run in faithful)] or printed
    num_points = max((int(each["num_points"]) for each in told), default=None)
    constants = [
        float(each["c"]) for each in (*told, *printed) if not published.is_missing(each.get("c"))
    ]
    smallest = min(constants, default=None)

    def is_drawn(cell: Mapping[str, Any]) -> bool:
        c = cell.get("c")
        has_c = smallest is not None and not published.is_missing(c)
        is_smallest = not has_c or math.isclose(float(c or 0), smallest or 0)
        return int(cell["num_points"]) == num_points and is_smallest

    found: dict[tuple[str, str], Heights] = {}
    for cell in filter(is_drawn, printed):
        if not published.is_missing(cell["mean"]):
            panel = found.setdefault((cell["sampling"], cell["field"]), {})
            panel[label(cell), "published"] = float(cell["mean"])
    for run in (run for run in faithful if is_drawn(run.record["configuration"])):
        for field in run.figures["errors"]:
            error = run.error(field)
            if error is not None:
                panel = found.setdefault((run.told("sampling"), field), {})
                panel[label(run.record["configuration"]), "faithful"] = error
    default = {
        field: error
        for run in runs
        if run.mode == "default"
        for field in run.figures["errors"]
        if (error := run.error(field)) is not None
    }
    if not found:
        found = {("", field): {} for field in default}
    return Cells(num_points, {key: _ordered(each) for key, each in found.items()}, default)


def label(cell: Mapping[str, Any]) -> str:
    """Model, what its network is or how it is trained, and its size: PANN RFF 3x100."""
    words = [cell["model"]]
    base = cell.get("base")
    if base in SHOWN:
        words.append(SHOWN[base])
    if not published.is_missing(cell.get("width")):
        words.append(f"{int(cell['depth'])}x{int(cell['width'])}")
    return " ".join(words)


def _ordered(heights: Heights) -> Heights:
    """A PINN beside the PANN with the same network; the polynomial by itself first."""
    model = lambda label: label.split(" ", 1)
    key = lambda each: (model(each[0])[1:] or [""], -ord(model(each[0])[0][1]))
    return {each: heights[each] for each in sorted(heights, key=key)}
