"""Tables: the published figure, ours in the faithful mode and by default, side by side."""

import dataclasses
import json
import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pann.paper import published
from pann.paper.experiments import MODES, Experiment
from pann.runs import Store
from pann.tables import is_number

Record = Mapping[str, Any]
# Settings that say how a row was run, not which cell it is.
HOW = {
    "mode",
    "revision",
    "seed",
    "precision",
    "problem",
    "target",
    "trials",
    "adam_steps",
    "lbfgs_iterations",
    "batch_size",
    "num_folds",
    "extent",
    "resolution",
    "steps",
    "rounds",
    "data",
}
ORDER = (
    "sampling",
    "field",
    "method",
    "model",
    "base",
    "activation",
    "constraint",
    "preconditioner",
    "norm",
    "part",
    "signed",
    "index_set",
    "alpha",
    "dimension",
    "width",
    "depth",
    "c",
    "degree",
    "num_points",
    "constraint_weight",
)
FORMATS = ("text", "markdown", "latex")


@dataclasses.dataclass(frozen=True)
class Table:
    """A heading for each column, and lines of texts."""

    title: str
    columns: tuple[str, ...]
    lines: tuple[tuple[str, ...], ...]

    def shown(self, form: str) -> str:
        """As text, Markdown or LaTeX."""
        if form not in FORMATS:
            raise ValueError(f"a table is one of {', '.join(FORMATS)}, got '{form}'")
        if form == "latex":
            return self._latex()
        widths = [max(map(len, column)) for column in zip(self.columns, *self.lines, strict=True)]
        row = lambda texts: [t.ljust(w) for t, w in zip(texts, widths, strict=True)]
        if form == "text":
            lines = ["  ".join(row(line)).rstrip() for line in (self.columns, *self.lines)]
            return "\n".join([self.title, "", *lines])
        rule = ["-" * width for width in widths]
        lines = [f"| {' | '.join(row(line))} |" for line in (self.columns, rule, *self.lines)]
        return "\n".join([f"**{self.title}**", "", *lines])

    def _latex(self) -> str:
        escaped = lambda text: text.replace("_", r"\_").replace("%", r"\%")
        lines = [" & ".join(map(escaped, line)) + r" \\" for line in (self.columns, *self.lines)]
        head = [rf"\begin{{tabular}}{{{'l' * len(self.columns)}}}", r"\hline", lines[0], r"\hline"]
        return "\n".join([f"% {self.title}", *head, *lines[1:], r"\hline", r"\end{tabular}"])


def compare(experiment: Experiment, store: Store, size: str = "full") -> Table:
    """What the store has of an experiment at that size, beside what the paper printed.

    Of a cell that was run with several numbers of trials the most count.
    """
    records = finished_records(experiment, store, size)
    cells: dict[tuple[tuple[str, Any], ...], dict[str, Any]] = {}
    for record in records:
        for part, errors in _quantities(record):
            key = _cell(record, part)
            cells.setdefault(key, {})[record["configuration"]["mode"]] = (record, errors)
    used = dict.fromkeys(name for key in cells for name, _ in key)
    names = sorted(used, key=lambda name: ORDER.index(name) if name in ORDER else len(ORDER))
    # Steps of a smoke test are too few to be compared with anything.
    printed = [] if size == "smoke" else _published(experiment)
    by_default = [each for key, each in cells.items() if set(each) == {"default"} and len(key) < 2]
    lines = []
    for key, modes in cells.items():
        told = dict(key)
        if "faithful" not in modes and modes in by_default and len(cells) > len(by_default):
            continue  # one run for the whole table: it stands in every line
        found = _find(printed, told)
        default = modes.get("default") or _of_field(by_default, cells, told)
        lines.append(
            (
                *(_text(told.get(name, "")) for name in names),
                _mean(found),
                *_ours(modes.get("faithful"), found),
                *_ours(default, found),
                _text(found.get("seconds") if found else None),
                _text(_seconds(modes.get("faithful"))),
                _text(_seconds(default)),
            )
        )
    ending = ("published", "faithful", "ratio", "default", "ratio", "s", "s faithful", "s default")
    columns = (*names, *ending)
    used_columns = [k for k in range(len(columns)) if any(line[k] for line in lines)]
    chosen = lambda line: tuple(line[k] for k in used_columns)
    title = f"{experiment.shows} (size {size})"
    return Table(title, chosen(columns), tuple(map(chosen, sorted(lines, key=_order))))


def finished_records(experiment: Experiment, store: Store, size: str) -> list[dict[str, Any]]:
    """What the store has of an experiment at that size, the most trials last."""
    wanted = {
        but_trials(row.configuration) for mode in MODES for row in experiment.rows(size, mode, None)
    }
    records = [
        each
        for each in store.records(experiment.name)
        if each["status"] == "done" and but_trials(each["configuration"]) in wanted
    ]
    if not records:
        raise ValueError(
            f"the store has no finished row of '{experiment.name}' at size {size}; run it first: "
            f"pann paper run {experiment.name} --size {size}"
        )
    return sorted(records, key=lambda each: each["configuration"].get("trials", 1))


def but_trials(configuration: Mapping[str, Any]) -> str:
    """The cell that a configuration is of, whatever its number of trials."""
    told = {name: value for name, value in configuration.items() if name != "trials"}
    return json.dumps(told, sort_keys=True)


def _quantities(record: Record) -> Iterator[tuple[dict[str, str], Sequence[float | int | None]]]:
    """What a run measured, and which cell of it that is, where there are several."""
    figures = record["figures"]
    if "num_terms" in figures:
        yield {}, [figures["num_terms"]]
        return
    if record["experiment"] == "tables":
        for part in ("seconds_with_tables", "seconds_without_tables", "ratio"):
            of_step = {
                "part": part.replace("_", " "),
                "precision": record["configuration"]["precision"],
            }
            yield of_step, [figures[part]]
        return
    errors = figures["errors"]
    if isinstance(errors, dict):
        for field, values in errors.items():
            yield {"field": field} if len(errors) > 1 else {}, values
    else:
        yield {}, errors
    if record["experiment"] == "constraints":
        for part in ("network", "polynomial"):
            yield {"part": part}, [figures[f"pruned_{part}"]]


def _cell(record: Record, part: Mapping[str, str]) -> tuple[tuple[str, Any], ...]:
    cell = {name: value for name, value in record["configuration"].items() if name not in HOW}
    if record["configuration"]["mode"] == "default":
        # The size of the default network is not the cell's.
        cell = {name: value for name, value in cell.items() if name not in ("width", "depth")}
    return tuple({**cell, **part}.items())


def _published(experiment: Experiment) -> list[Record]:
    """The printed cells; whatever a table is of is called its mean."""
    if experiment.published is None:
        return []
    frame = published.load(experiment.published)
    return frame.rename(columns={"num_terms": "mean", "percent": "mean"}).to_dict("records")


def _find(printed: Sequence[Record], cell: Mapping[str, Any]) -> Record | None:
    """The printed cell that says the same wherever both say something."""
    for record in printed:
        shared = [name for name in cell if name in record]
        if shared and all(_same(record[name], cell[name]) for name in shared):
            empty = [n for n in ("c", "width", "activation") if n in record and n not in cell]
            if all(published.is_missing(record[name]) for name in empty):
                return record
    return None


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, str) or isinstance(other, str):
        return str(one) == str(other)
    return not published.is_missing(one) and math.isclose(float(one), float(other))


def _of_field(by_default: list[Any], cells: Mapping[Any, Any], told: Mapping[str, Any]) -> Any:
    for key, modes in cells.items():
        if modes in by_default and dict(key).get("field") == told.get("field"):
            return modes["default"]
    return None


def _ours(found: tuple[Record, Sequence[float | int | None]] | None, cell: Record | None) -> tuple:
    if found is None:
        return "", ""
    errors = [error for error in found[1] if error is not None]
    if not errors:
        return "not finite", ""
    mean = statistics.mean(errors)
    deviation = f" ({statistics.pstdev(errors):.1e})" if len(errors) > 1 else ""
    ratio = (
        ""
        if cell is None or published.is_missing(cell["mean"])
        else f"{mean / float(cell['mean']):.2g}"
    )
    return f"{_number(mean)}{deviation}", ratio


def _mean(found: Record | None) -> str:
    if found is None or published.is_missing(found["mean"]):
        return ""
    deviation = found.get("deviation")
    doubted = "?" if found.get("doubt") else ""
    spread = "" if published.is_missing(deviation) else f" ({float(deviation):.1e})"  # type: ignore[arg-type]
    return f"{_number(float(found['mean']))}{spread}{doubted}"


def _number(value: float | int) -> str:
    return f"{value:g}" if 1 <= value < 1e6 and round(value, 1) == value else f"{value:.2e}"


def _seconds(found: tuple[Record, Any] | None) -> float | None:
    return None if found is None else found[0]["seconds"]


def _text(value: Any) -> str:
    if published.is_missing(value):
        return ""
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _order(line: tuple[str, ...]) -> tuple:
    return tuple((0, float(t), "") if is_number(t) else (1, 0.0, t) for t in line)
