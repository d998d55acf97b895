"""How far our runs are from the paper, a line for each experiment.

A cell is reached if our mean error is at most the published mean plus two published deviations;
where none is printed, at most the mean. A percentage is reached within two points, a count if it is
the same.
"""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pann.runs import Store
from reproduction.cells import (
    ERROR,
    OF_A_STEP,
    PERCENT,
    Cell,
    Measured,
    make_cells,
    of_size,
    printed_cells,
    quantity_of,
    ratio_of,
)
from reproduction.comparison import Table
from reproduction.experiments import EXPERIMENTS, MODES, Experiment

DEVIATIONS, POINTS = 2.0, 2.0
COLUMNS = (
    "experiment",
    "rows",
    "done",
    "cells compared",
    "reached",
    "below",
    "median ratio",
    "best default / best published",
)


def is_compared(cell: Cell) -> bool:
    return cell.quantity != OF_A_STEP and cell.published_mean is not None


def is_reached(cell: Cell, ours: Measured | None) -> bool | None:
    """None where there is nothing to compare."""
    if ours is None or ours.mean is None or cell.published_mean is None:
        return None
    difference = ours.mean - cell.published_mean
    if cell.quantity == ERROR:
        return difference <= DEVIATIONS * (cell.published_deviation or 0.0)
    return abs(difference) <= (POINTS if cell.quantity == PERCENT else 0)


def best_defaults(
    experiment: Experiment, cells: Iterable[Cell], size: str
) -> list[tuple[str, float, str]]:
    """By field and exponent: our best default error over the best published one, and the run."""
    groups: dict[str, list[Cell]] = {}
    for cell in cells:
        if cell.quantity == ERROR:
            groups.setdefault(_group(cell.settings), []).append(cell)
    printed: dict[str, list[float]] = {}
    for record in printed_cells(experiment) if size != "smoke" else []:
        mean = float(record["mean"])
        if quantity_of(record) == ERROR and mean > 0:  # NaN is not
            printed.setdefault(_group(record), []).append(mean)
    found = []
    for group, own in groups.items():
        ours = {
            each.mean: each.record["identity"]
            for cell in own
            if (each := cell.default) is not None and each.mean is not None
        }
        theirs = printed.get(group) or (next(iter(printed.values())) if len(printed) == 1 else [])
        if ours and theirs:
            least = min(ours)
            found.append((group, least / min(theirs), ours[least]))
    return found


def summarize(store: Store, size: str) -> Table:
    """What the store has of every experiment at that size."""
    records = store.records()
    lines = []
    for experiment in EXPERIMENTS:
        own = of_size(experiment, (r for r in records if r["experiment"] == experiment.name), size)
        lines.append(_line(experiment, own, size))
    return Table(f"our runs and the paper (size {size})", COLUMNS, tuple(lines))


def _line(experiment: Experiment, records: Sequence[Mapping[str, Any]], size: str) -> tuple:
    num_rows = sum(len(experiment.rows(size, mode, None)) for mode in MODES)
    cells = make_cells(experiment, records, size) if records else []
    compared = [
        (cell, is_reached(cell, cell.faithful))
        for cell in cells
        if is_compared(cell) and cell.faithful is not None and cell.faithful.mean is not None
    ]
    ratios = [
        ratio
        for cell, _ in compared
        if cell.quantity == ERROR and (ratio := ratio_of(cell.faithful, cell)) is not None
    ]
    best = [
        f"{group}: {ratio:.2g}" if group else f"{ratio:.2g}"
        for group, ratio, _ in best_defaults(experiment, cells, size)
    ]
    return (
        experiment.name,
        str(num_rows),
        str(len(records)),
        str(len(compared)) if compared else "",
        str(sum(bool(reached) for _, reached in compared)) if compared else "",
        str(sum(ratio <= 1 for ratio in ratios)) if ratios else "",
        f"{statistics.median(ratios):.2g}" if ratios else "",
        ", ".join(best),
    )


def _group(settings: Mapping[str, Any]) -> str:
    told = [("alpha = ", settings.get("alpha")), ("d = ", settings.get("dimension"))]
    words = [f"{name}{value:g}" for name, value in told if isinstance(value, int | float)]
    field = settings.get("field")
    return " ".join([*words, *([str(field)] if field else [])])
