"""Tables as texts: published, faithful and default figures side by side, and a summary of all."""

import csv
import dataclasses
import io
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pann.runs import Store
from reproduction import published
from reproduction.cells import (
    ERROR,
    Cell,
    Measured,
    Record,
    cells_of,
    make_cells,
    of_size,
    printed_cells,
    setting_names,
)
from reproduction.experiments import EXPERIMENTS, MODES, Experiment

FORMATS = ("text", "markdown", "latex", "csv")
SUMMARY = (
    "experiment",
    "rows",
    "done",
    "cells compared",
    "reached",
    "below",
    "median ratio",
    "best default / best published",
)


@dataclasses.dataclass(frozen=True)
class Table:
    """A heading for each column, and lines of texts."""

    title: str
    columns: tuple[str, ...]
    lines: tuple[tuple[str, ...], ...]

    def formatted(self, form: str) -> str:
        """As text, Markdown, LaTeX or comma-separated values."""
        rows = (self.columns, *self.lines)
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        padded = lambda texts: [t.ljust(w) for t, w in zip(texts, widths, strict=True)]
        match form:
            case "text":
                lines = ["  ".join(padded(line)).rstrip() for line in rows]
                return "\n".join([self.title, "", *lines])
            case "markdown":
                rule = ["-" * width for width in widths]
                body = (self.columns, rule, *self.lines)
                lines = [f"| {' | '.join(padded(line))} |" for line in body]
                return "\n".join([f"**{self.title}**", "", *lines])
            case "latex":
                escaped = lambda text: text.replace("_", r"\_").replace("%", r"\%")
                lines = [" & ".join(map(escaped, line)) + r" \\" for line in rows]
                begin = rf"\begin{{tabular}}{{{'l' * len(self.columns)}}}"
                head = [f"% {self.title}", begin, r"\hline", lines[0], r"\hline"]
                return "\n".join([*head, *lines[1:], r"\hline", r"\end{tabular}"])
            case "csv":
                written = io.StringIO()
                csv.writer(written, lineterminator="\n").writerows(rows)
                return written.getvalue().rstrip("\n")
        raise ValueError(f"a table is one of {', '.join(FORMATS)}, got '{form}'")


def compare(experiment: Experiment, store: Store, size: str = "full") -> Table:
    """What the store has of an experiment at that size, with what the paper printed."""
    cells = cells_of(experiment, store, size)
    names = setting_names(cells)
    lines = [
        (
            *(_setting(cell.settings.get(name, "")) for name in names),
            _published(cell),
            *_ours(cell.faithful, cell),
            *_ours(cell.default, cell),
            _setting(cell.published_seconds),
            _setting(cell.faithful and cell.faithful.seconds),
            _setting(cell.default and cell.default.seconds),
        )
        for cell in cells
    ]
    ending = ("published", "faithful", "ratio", "default", "ratio", "s", "s faithful", "s default")
    columns = (*names, *ending)
    used = [k for k in range(len(columns)) if any(line[k] for line in lines)]
    chosen = lambda line: tuple(line[k] for k in used)
    title = f"{experiment.shows} (size {size})"
    return Table(title, chosen(columns), tuple(map(chosen, sorted(lines, key=_order))))


def _published(cell: Cell) -> str:
    """Mean and deviation as printed, with a question mark where there is a doubt."""
    if cell.published_mean is None:
        return ""
    return _with_spread(cell.published_mean, cell.published_deviation) + ("?" if cell.doubt else "")


def _ours(found: Measured | None, cell: Cell) -> tuple[str, str]:
    """Mean and deviation over the trials, and the ratio to the published mean."""
    if found is None:
        return "", ""
    ratio = cell.ratio(found)
    mean = "not finite" if found.mean is None else _with_spread(found.mean, found.deviation)
    return mean, "" if ratio is None else f"{ratio:.2g}"


def _with_spread(mean: float, deviation: float | None) -> str:
    plain = 1 <= mean < 1e6 and round(mean, 1) == mean
    spread = "" if deviation is None else f" ({deviation:.1e})"
    return (f"{mean:g}" if plain else f"{mean:.2e}") + spread


def _setting(value: Any) -> str:
    if published.is_missing(value):
        return ""
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _order(line: tuple[str, ...]) -> tuple:
    """Numbers by their value, before texts."""
    keys: list[tuple[int, float, str]] = []
    for text in line:
        try:
            keys.append((0, float(text), ""))
        except ValueError:
            keys.append((1, 0.0, text))
    return tuple(keys)


# ---- How far from the paper ----


def summarize(store: Store, size: str) -> Table:
    """A line for each experiment: its rows, and how many of its cells are reached."""
    records = store.records()
    lines = []
    for experiment in EXPERIMENTS:
        own = [each for each in records if each["experiment"] == experiment.stored_name]
        lines.append(_summary(experiment, of_size(experiment, own, size), size))
    return Table(f"our runs and the paper (size {size})", SUMMARY, tuple(lines))


def _summary(experiment: Experiment, records: Sequence[Record], size: str) -> tuple[str, ...]:
    num_rows = sum(len(experiment.rows(size, mode, None)) for mode in MODES)
    cells = make_cells(experiment, records, size) if records else []
    compared = [
        cell
        for cell in cells
        if cell.is_compared and cell.faithful is not None and cell.faithful.mean is not None
    ]
    reached = sum(bool(cell.is_reached(cell.faithful)) for cell in compared)
    errors = [cell.ratio(cell.faithful) for cell in compared if cell.quantity == ERROR]
    ratios = [ratio for ratio in errors if ratio is not None]
    best = [
        f"{group}: {ratio:.2g}" if group else f"{ratio:.2g}"
        for group, ratio, _ in best_defaults(experiment, cells, size)
    ]
    return (
        experiment.name,
        str(num_rows),
        str(len(records)),
        str(len(compared)) if compared else "",
        str(reached) if compared else "",
        str(sum(ratio <= 1 for ratio in ratios)) if ratios else "",
        f"{statistics.median(ratios):.2g}" if ratios else "",
        ", ".join(best),
    )


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
        if record["quantity"] == ERROR and mean > 0:  # NaN is not
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


def _group(settings: Mapping[str, Any]) -> str:
    numbers = [("alpha = ", settings.get("alpha")), ("d = ", settings.get("dimension"))]
    words = [f"{name}{value:g}" for name, value in numbers if isinstance(value, int | float)]
    field = settings.get("field")
    return " ".join([*words, *([str(field)] if field else [])])
