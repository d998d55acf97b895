"""Tables: the published figure, ours in the faithful mode and by default, side by side."""

import csv
import dataclasses
import io
from typing import Any

from pann.cli.csv import is_number
from pann.runs import Store
from reproduction import published
from reproduction.cells import Cell, Measured, cells_of, ratio_of, setting_names
from reproduction.experiments import Experiment

FORMATS = ("text", "markdown", "latex", "csv")


@dataclasses.dataclass(frozen=True)
class Table:
    """A heading for each column, and lines of texts."""

    title: str
    columns: tuple[str, ...]
    lines: tuple[tuple[str, ...], ...]

    def shown(self, form: str) -> str:
        """As text, Markdown, LaTeX or comma-separated values."""
        if form not in FORMATS:
            raise ValueError(f"a table is one of {', '.join(FORMATS)}, got '{form}'")
        if form == "latex":
            return self._latex()
        if form == "csv":
            return self._csv()
        widths = [max(map(len, column)) for column in zip(self.columns, *self.lines, strict=True)]
        row = lambda texts: [t.ljust(w) for t, w in zip(texts, widths, strict=True)]
        if form == "text":
            lines = ["  ".join(row(line)).rstrip() for line in (self.columns, *self.lines)]
            return "\n".join([self.title, "", *lines])
        rule = ["-" * width for width in widths]
        lines = [f"| {' | '.join(row(line))} |" for line in (self.columns, rule, *self.lines)]
        return "\n".join([f"**{self.title}**", "", *lines])

    def _csv(self) -> str:
        written = io.StringIO()
        csv.writer(written, lineterminator="\n").writerows((self.columns, *self.lines))
        return written.getvalue().rstrip("\n")

    def _latex(self) -> str:
        escaped = lambda text: text.replace("_", r"\_").replace("%", r"\%")
        lines = [" & ".join(map(escaped, line)) + r" \\" for line in (self.columns, *self.lines)]
        head = [rf"\begin{{tabular}}{{{'l' * len(self.columns)}}}", r"\hline", lines[0], r"\hline"]
        return "\n".join([f"% {self.title}", *head, *lines[1:], r"\hline", r"\end{tabular}"])


def compare(experiment: Experiment, store: Store, size: str = "full") -> Table:
    """What the store has of an experiment at that size, beside what the paper printed."""
    cells = cells_of(experiment, store, size)
    names = setting_names(cells)
    lines = [
        (
            *(shown_setting(cell.settings.get(name, "")) for name in names),
            shown_published(cell),
            *_ours(cell.faithful, cell),
            *_ours(cell.default, cell),
            shown_setting(cell.published_seconds),
            shown_setting(cell.faithful and cell.faithful.seconds),
            shown_setting(cell.default and cell.default.seconds),
        )
        for cell in cells
    ]
    ending = ("published", "faithful", "ratio", "default", "ratio", "s", "s faithful", "s default")
    columns = (*names, *ending)
    used_columns = [k for k in range(len(columns)) if any(line[k] for line in lines)]
    chosen = lambda line: tuple(line[k] for k in used_columns)
    title = f"{experiment.shows} (size {size})"
    return Table(title, chosen(columns), tuple(map(chosen, sorted(lines, key=_order))))


def shown_measured(found: Measured | None) -> str:
    """Mean and deviation over the trials."""
    if found is None:
        return ""
    if found.mean is None:
        return "not finite"
    spread = "" if found.deviation is None else f" ({found.deviation:.1e})"
    return f"{shown_number(found.mean)}{spread}"


def shown_published(cell: Cell) -> str:
    """Mean and deviation as printed, with a question mark where there is a doubt."""
    if cell.published_mean is None:
        return ""
    deviation, doubted = cell.published_deviation, "?" if cell.doubt else ""
    spread = "" if deviation is None else f" ({deviation:.1e})"
    return f"{shown_number(cell.published_mean)}{spread}{doubted}"


def shown_number(value: float | int) -> str:
    return f"{value:g}" if 1 <= value < 1e6 and round(value, 1) == value else f"{value:.2e}"


def shown_setting(value: Any) -> str:
    if published.is_missing(value):
        return ""
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _ours(found: Measured | None, cell: Cell) -> tuple[str, str]:
    ratio = ratio_of(found, cell)
    return shown_measured(found), "" if ratio is None else f"{ratio:.2g}"


def _order(line: tuple[str, ...]) -> tuple:
    return tuple((0, float(t), "") if is_number(t) else (1, 0.0, t) for t in line)
