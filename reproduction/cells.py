"""Cells of the paper's tables: what was printed, and what our runs in both modes measured.

A cell is reached if our mean error is at most the published mean plus two published deviations;
where none is printed, at most the mean. A percentage is reached within two points, a count if it is
the same.
"""

import dataclasses
import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from pann.runs import Store
from reproduction import published, readings
from reproduction.experiments import MODES, Experiment
from reproduction.methods import canonical

Record = Mapping[str, Any]
Numbers = Sequence[float | int | None]
# What the readings of the paper change.
CHANGED = {name for change in readings.READINGS.values() for name in change}
# Settings that distinguish cells, in the order of the columns; others say how a row was run.
COLUMNS = (
    "problem",
    "reading",
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
# A printed cell that has one of these differs from a cell without it.
REQUIRED = ("c", "width", "activation")
# What a cell measures.
ERROR, TERMS, PERCENT, STEP = "error", "terms", "percent", "step"
# An error is reached within so many published deviations, a percentage within so many points.
DEVIATIONS, POINTS = 2.0, 2.0


@dataclasses.dataclass(frozen=True)
class Measured:
    """What a run measured for a cell: a number for each trial, None where it is not finite."""

    record: Record
    values: Numbers

    @property
    def mean(self) -> float | None:
        """None if no trial is finite."""
        return float(statistics.mean(self._finite)) if self._finite else None

    @property
    def deviation(self) -> float | None:
        """None of a single trial."""
        return float(statistics.pstdev(self._finite)) if len(self._finite) > 1 else None

    @property
    def seconds(self) -> float:
        """Those of the whole run: a record has those since it was last interrupted."""
        last = self.record["seconds"]
        if "together" in self.record:
            return last
        return max(last, self.record["figures"].get("solve_seconds", 0.0))

    @property
    def _finite(self) -> list[float | int]:
        return [value for value in self.values if value is not None]


@dataclasses.dataclass(frozen=True)
class Cell:
    """The settings that distinguish a cell from others, the printed figure and ours."""

    settings: Mapping[str, Any]
    quantity: str
    published: Record | None
    faithful: Measured | None
    default: Measured | None

    @property
    def published_mean(self) -> float | None:
        return self._printed("mean")

    @property
    def published_deviation(self) -> float | None:
        return self._printed("deviation")

    @property
    def published_seconds(self) -> float | None:
        return self._printed("seconds")

    @property
    def is_compared(self) -> bool:
        """Whether the paper printed a figure to compare with."""
        return self.quantity != STEP and self.published_mean is not None

    def ratio(self, ours: Measured | None) -> float | None:
        """Ours over the printed figure, where there are both and the latter is not zero."""
        if ours is None or ours.mean is None or not self.published_mean:
            return None
        return ours.mean / self.published_mean

    def is_reached(self, ours: Measured | None) -> bool | None:
        """Whether ours is as good as the printed figure; None where there is nothing to compare."""
        if ours is None or ours.mean is None or self.published_mean is None:
            return None
        difference = ours.mean - self.published_mean
        if self.quantity == ERROR:
            return difference <= DEVIATIONS * (self.published_deviation or 0.0)
        return abs(difference) <= (POINTS if self.quantity == PERCENT else 0)

    @property
    def doubt(self) -> str:
        """Why the printed figure should not be trusted; empty if nothing is known against it."""
        return "" if self.published is None else self.published.get("doubt") or ""

    def _printed(self, name: str) -> float | None:
        value: Any = None if self.published is None else self.published.get(name)
        return None if published.is_missing(value) else float(value)


def cells_of(experiment: Experiment, store: Store, size: str = "full") -> list[Cell]:
    """What the store has of an experiment at that size, with what the paper printed."""
    return make_cells(experiment, finished_records(experiment, store, size), size)


def make_cells(experiment: Experiment, records: Sequence[Record], size: str) -> list[Cell]:
    """The cells of these runs of that size; of several runs of a cell the last counts."""
    found: dict[tuple[tuple[str, Any], ...], dict[str, Measured]] = {}
    quantities: dict[tuple[tuple[str, Any], ...], str] = {}
    for record in records:
        for quantity, part, values in _quantities(record):
            key = _cell(record, part)
            quantities[key] = quantity
            found.setdefault(key, {})[record["configuration"]["mode"]] = Measured(record, values)
    # Steps of a smoke test are too few to be compared with anything.
    printed = [] if size == "smoke" else printed_cells(experiment)
    by_default = [each for key, each in found.items() if set(each) == {"default"} and len(key) < 2]
    cells = []
    for key, modes in found.items():
        settings = dict(key)
        if "faithful" not in modes and modes in by_default and len(found) > len(by_default):
            continue  # one run for the whole table, which is shown in every line
        default = modes.get("default") or _of_field(by_default, found, settings)
        of_quantity = [each for each in printed if each["quantity"] == quantities[key]]
        faithful = modes.get("faithful")
        cells.append(
            Cell(settings, quantities[key], _find(of_quantity, settings), faithful, default)
        )
    return cells


def setting_names(cells: Sequence[Cell]) -> list[str]:
    """The settings that any of the cells has, in the order of the tables' columns."""
    used = dict.fromkeys(name for cell in cells for name in cell.settings)
    return sorted(used, key=lambda name: COLUMNS.index(name) if name in COLUMNS else len(COLUMNS))


def finished_records(experiment: Experiment, store: Store, size: str) -> list[Record]:
    """What the store has of an experiment at that size, the most trials last."""
    records = of_size(experiment, store.records(experiment.stored_name), size)
    if not records:
        raise ValueError(
            f"the store has no finished row of '{experiment.name}' at size {size}; run it first: "
            f"python -m reproduction run {experiment.name} --size {size}"
        )
    return records


def of_size(experiment: Experiment, records: Iterable[Record], size: str) -> list[Record]:
    """Those of an experiment's records that are done and of that size, the most trials last."""
    wanted = {
        but_trials(row.configuration) for mode in MODES for row in experiment.rows(size, mode, None)
    }
    done = [
        each
        for each in records
        if each["status"] == "done" and but_trials(each["configuration"]) in wanted
    ]
    return sorted(done, key=lambda each: each["configuration"].get("trials", 1))


def but_trials(configuration: Mapping[str, Any]) -> str:
    """The cell of a configuration, whatever its number of trials."""
    return canonical({name: value for name, value in configuration.items() if name != "trials"})


def printed_cells(experiment: Experiment) -> list[Record]:
    """The printed cells; what a table measures is called its mean."""
    if experiment.name == "readings":
        return [
            {**cell, "problem": name} for name in readings.CELLS for cell in _printed_table(name)
        ]
    return [] if experiment.published is None else _printed_table(experiment.published)


def _printed_table(name: str) -> list[Record]:
    frame = published.load(name)
    quantity = TERMS if "num_terms" in frame else PERCENT if "percent" in frame else ERROR
    named = frame.rename(columns={"num_terms": "mean", "percent": "mean"})
    return named.assign(quantity=quantity).to_dict("records")


def _quantities(record: Record) -> Iterator[tuple[str, dict[str, str], Numbers]]:
    """What a run measured, and in which of its cells, where it has several."""
    figures = record["figures"]
    if "num_terms" in figures:
        yield TERMS, {}, [figures["num_terms"]]
        return
    if record["experiment"] == "tables":
        for part in ("seconds_with_tables", "seconds_without_tables", "ratio"):
            precision = record["configuration"]["precision"]
            yield STEP, {"part": part.replace("_", " "), "precision": precision}, [figures[part]]
        return
    errors = figures["errors"]
    if isinstance(errors, dict):
        for field, values in errors.items():
            yield ERROR, {"field": field} if len(errors) > 1 else {}, values
    else:
        yield ERROR, {}, errors
    if record["experiment"] == "constraints":
        for part in ("network", "polynomial"):
            yield PERCENT, {"part": part}, [figures[f"pruned_{part}"]]


def _cell(record: Record, part: Mapping[str, str]) -> tuple[tuple[str, Any], ...]:
    row = record["configuration"]
    cell = {n: value for n, value in row.items() if n in COLUMNS and n != "problem"}
    if "reading" in row:
        # What a reading changes it says itself; the other tables are of one problem each.
        cell = {name: value for name, value in cell.items() if name not in CHANGED}
        problem, reading = published.shown_name(row["problem"]), readings.shown_reading(row)
        cell |= {"problem": problem, "reading": reading}
    if row["mode"] == "default" or "problem" not in row:
        # The size of the network is the mode's, or that of all of the paper's regressions.
        cell = {name: value for name, value in cell.items() if name not in ("width", "depth")}
    return tuple({**cell, **part}.items())


def _find(printed: Sequence[Record], cell: Mapping[str, Any]) -> Record | None:
    """The printed cell that says the same wherever both say something."""
    for record in printed:
        shared = [name for name in cell if name in record]
        if shared and all(_same(record[name], cell[name]) for name in shared):
            empty = [n for n in REQUIRED if n in record and n not in cell]
            if all(published.is_missing(record[name]) for name in empty):
                return record
    return None


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, str) or isinstance(other, str):
        return str(one) == str(other)
    return not published.is_missing(one) and math.isclose(float(one), float(other))


def _of_field(
    by_default: list[dict[str, Measured]], found: Mapping[Any, Any], settings: Mapping[str, Any]
) -> Measured | None:
    for key, modes in found.items():
        if modes in by_default and dict(key).get("field") == settings.get("field"):
            return modes["default"]
    return None
