"""Sections of a user's own store: for each experiment its runs in a table, and plots of them."""

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from pann.report.page import Block, Column, Facts, Key, Panels, Plot, Section, Table, Value
from pann.report.plots import COLORS, SYMBOLS, Axis, Line, line_plot
from pann.report.texts import counted, duration, name_of, shown, with_spread

Record = Mapping[str, Any]
MOST_PLOTS, MOST_KINDS = 6, len(COLORS)
WIDE_RANGE = 50  # the ratio of largest to smallest from which an axis is logarithmic
LONG_TEXT = 60  # letters of a setting that is not shown in a table


def run_section(experiment: str, records: Sequence[Record]) -> Section:
    """The runs of one experiment; settings that never change are told once."""
    names = list(dict.fromkeys(name for each in records for name in each["configuration"]))
    told = {name: {shown(each["configuration"].get(name)) for each in records} for name in names}
    varying = [n for n in names if len(told[n]) > 1 and max(map(len, told[n])) <= LONG_TEXT]
    common = [(name_of(n), min(told[n])) for n in names if len(told[n]) == 1]
    done = [each for each in records if each["status"] == "done"]
    figures = _figure_names(done)
    blocks: list[Block] = [*_plots(done, varying, figures), _table(records, varying, figures)]
    if common and len(records) > 1:
        blocks.append(Facts("The same in all runs", tuple(common)))
    seconds = sum(each["seconds"] for each in records)
    failed = len(records) - len(done)
    lead = f"{counted(len(done), 'run')} done" + (f", {failed} failed" if failed else "")
    return Section(
        f"runs-{experiment}",
        experiment.replace("_", " "),
        f"{lead}, in {duration(seconds)}.",
        tuple(blocks),
        badge=f"{len(done)}",
        group="Runs",
    )


def numbers_of(record: Record, name: str) -> list[float]:
    """A figure as the numbers of its trials, whatever is finite of it; `errors.u` is nested."""
    value: Any = record.get("figures") or {}
    for part in name.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    values = value if isinstance(value, list) else [value]
    return [
        float(each)
        for each in values
        if isinstance(each, int | float) and not isinstance(each, bool) and math.isfinite(each)
    ]


def _figure_names(records: Sequence[Record]) -> list[str]:
    """Figures that are numbers, or a number for each trial, in the order of the first runs."""
    names: dict[str, None] = {}
    for record in records:
        for name, value in (record.get("figures") or {}).items():
            if name == "history":
                continue
            nested = [f"{name}.{part}" for part in value] if isinstance(value, Mapping) else [name]
            names |= dict.fromkeys(each for each in nested if numbers_of(record, each))
    return list(names)


def _table(records: Sequence[Record], varying: Sequence[str], figures: Sequence[str]) -> Table:
    columns = (
        Column("run"),
        *(Column(name_of(name), _all_numbers(records, name)) for name in varying),
        *(Column(name_of(name), is_number=True) for name in figures),
        Column("s", is_number=True),
        Column("status"),
    )
    lines = tuple(
        (
            Value(record["identity"][:8], run=record["identity"]),
            *(_setting(record["configuration"].get(name)) for name in varying),
            *(_figure(record, name) for name in figures),
            Value(shown(float(record["seconds"])), record["seconds"]),
            Value(record["status"]),
        )
        for record in records
    )
    return Table("A line for each run; several trials as mean ± deviation.", columns, lines)


def _all_numbers(records: Sequence[Record], name: str) -> bool:
    values = [record["configuration"].get(name) for record in records]
    return all(value is None or _is_number(value) for value in values)


def _setting(value: Any) -> Value:
    return Value("" if value is None else shown(value), value if _is_number(value) else None)


def _figure(record: Record, name: str) -> Value:
    values = numbers_of(record, name)
    if not values:
        return Value("", math.inf)
    spread = statistics.pstdev(values) if len(values) > 1 else None
    mean = statistics.mean(values)
    return Value(with_spread(mean, spread), mean, run=record["identity"])


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


# ---- Plots ----


def _plots(
    records: Sequence[Record], varying: Sequence[str], figures: Sequence[str]
) -> list[Panels]:
    """The first figure, and the seconds, along every setting that is a number."""
    values = {
        name: {each["configuration"].get(name) for each in records}
        for name in varying
        if _all_numbers(records, name)
    }
    along = [name for name, found in values.items() if len(found - {None}) > 1]
    if not records or not figures or not along:
        return []
    texts = [name for name in varying if name not in values]
    kinds = list(dict.fromkeys(_kind(record, texts) for record in records))
    if len(kinds) > MOST_KINDS:
        texts, kinds = [], [""]
    quantities = {figures[0]: name_of(figures[0]), "": "seconds"}
    plots = []
    for name in along:
        for figure, title in quantities.items():
            points = {
                kind: [_point(r, name, figure) for r in records if _kind(r, texts) == kind]
                for kind in kinds
            }
            plots.append(_scatter(f"{title} by {name_of(name)}", name_of(name), points))
    keys = tuple(
        Key(kind, COLORS[k], "", SYMBOLS[k]) for k, kind in enumerate(kinds) if len(kinds) > 1
    )
    return [Panels("Figures by setting", tuple(plots[:MOST_PLOTS]), keys)]


def _kind(record: Record, texts: Sequence[str]) -> str:
    return ", ".join(shown(record["configuration"].get(name)) for name in texts)


def _point(record: Record, along: str, figure: str) -> tuple[float, float]:
    values = numbers_of(record, figure) if figure else [float(record["seconds"])]
    at = record["configuration"].get(along)
    return (math.nan if at is None else float(at), statistics.mean(values) if values else math.nan)


def _scatter(title: str, along: str, points: Mapping[str, list[tuple[float, float]]]) -> Plot:
    every = [point for each in points.values() for point in each]
    x, y = ([point[k] for point in every] for k in range(2))
    lines = []
    for k, (kind, each) in enumerate(points.items()):
        at, values = ([point[axis] for point in each] for axis in range(2))
        look = {"color": COLORS[k], "symbol": SYMBOLS[k]}
        lines.append(Line(kind or title, at, values, is_joined=False, **look))
    return line_plot(title, lines, Axis(along, _is_wide(x)), Axis(is_log=_is_wide(y)))


def _is_wide(values: Sequence[float]) -> bool:
    known = [value for value in values if math.isfinite(value)]
    return bool(known) and min(known) > 0 and max(known) > WIDE_RANGE * min(known)
