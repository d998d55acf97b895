"""The runs of a store in a page: a table and charts of an experiment, details of each run."""

import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from pann.report.charts import COLORS, SYMBOLS, Axis, Chart, Key, Line, Lines, Map, Panels, look
from pann.report.page import Block, Column, Detail, Facts, Note, Section, Table, Value
from pann.report.texts import (
    NOTHING,
    counted,
    duration,
    is_number,
    name_of,
    number,
    shown,
    with_spread,
)
from pann.runs import Row, Store

Record = Mapping[str, Any]
Arrays = Mapping[str, np.ndarray]
Draw = Callable[[Arrays], list[Panels]]
MAX_CHARTS, MAX_FAILURES = 6, 500
WIDE_RANGE = 50  # the ratio of largest to smallest from which an axis is logarithmic
LONG_TEXT = 60  # letters of a setting that is not shown in a table
AXIS = "axis_"
PLACE = ("device", "pann", "JAX", "Python", "commit")
DESCRIBED = ("method", "model", "base", "activation", "constraint", "norm", "sampling", "index_set")


def run_section(experiment: str, records: Sequence[Record]) -> Section:
    """The runs of one experiment; settings that are the same in all runs are shown once."""
    names = list(dict.fromkeys(name for each in records for name in each["configuration"]))
    texts = {name: {shown(each["configuration"].get(name)) for each in records} for name in names}
    varying = [n for n in names if len(texts[n]) > 1 and max(map(len, texts[n])) <= LONG_TEXT]
    common = [(name_of(n), min(texts[n])) for n in names if len(texts[n]) == 1]
    done = [each for each in records if each["status"] == "done"]
    figures = list(dict.fromkeys(name for each in done for name in _numbers(each)))
    blocks: list[Block] = [*_panels(done, varying, figures), _table(records, varying, figures)]
    if common and len(records) > 1:
        blocks.append(Facts("The same in all runs", common))
    failed = len(records) - len(done)
    lead = f"{counted(len(done), 'run')} done" + (f", {failed} failed" if failed else "")
    return Section(
        f"runs-{experiment}",
        experiment.replace("_", " "),
        f"{lead}, in {duration(sum(each['seconds'] for each in records))}.",
        blocks,
        badge=f"{len(done)}",
        group="Runs",
    )


def _every_figure(record: Record) -> Iterator[tuple[str, str, Any]]:
    """Name, part and value of every figure but the history; a figure without parts has "" there."""
    for name, value in (record.get("figures") or {}).items():
        if name != "history":
            parts = value if isinstance(value, Mapping) else {"": value}
            yield from ((name, part, each) for part, each in parts.items())


def _numbers(record: Record) -> dict[str, list[float]]:
    """The finite numbers of figures that have some, one for each trial; parts as `errors.u`."""
    found = {}
    for name, part, value in _every_figure(record):
        values = value if isinstance(value, list) else [value]
        known = [float(each) for each in values if is_number(each) and math.isfinite(each)]
        if known:
            found[f"{name}.{part}" if part else name] = known
    return found


def _table(records: Sequence[Record], varying: Sequence[str], figures: Sequence[str]) -> Table:
    titles = ("run", *map(name_of, (*varying, *figures)), "s", "status")
    rows = [
        (
            Value(record["identity"][:8], run=record["identity"]),
            *(cell(record["configuration"].get(name), "") for name in varying),
            *(_figure(record, name) for name in figures),
            cell(float(record["seconds"])),
            Value(record["status"]),
        )
        for record in records
    ]
    caption = "A line for each run; several trials as mean ± deviation."
    return Table(caption, [Column(title) for title in titles], rows)


def cell(value: Any, missing: str = NOTHING) -> Value:
    """A setting or figure in a table; numbers can be sorted."""
    return Value(missing if value is None else shown(value), value if is_number(value) else None)


def _figure(record: Record, name: str) -> Value:
    values = _numbers(record).get(name)
    if values is None:
        return Value("", math.inf)
    mean = statistics.mean(values)
    spread = statistics.pstdev(values) if len(values) > 1 else None
    return Value(with_spread(mean, spread), mean, run=record["identity"])


def _panels(
    records: Sequence[Record], varying: Sequence[str], figures: Sequence[str]
) -> list[Panels]:
    """The first figure, and the seconds, along every setting that is a number."""
    along, texts = [], []
    for name in varying:
        values = [each["configuration"].get(name) for each in records]
        if not all(value is None or is_number(value) for value in values):
            texts.append(name)
        elif len(set(values) - {None}) > 1:
            along.append(name)
    if not figures or not along:
        return []
    kind_of = [", ".join(shown(each["configuration"].get(n)) for n in texts) for each in records]
    if len(set(kind_of)) > len(COLORS):
        kind_of = [""] * len(records)
    kinds = list(dict.fromkeys(kind_of))
    first = [statistics.mean(_numbers(each).get(figures[0], [math.nan])) for each in records]
    measured = ((name_of(figures[0]), first), ("seconds", [each["seconds"] for each in records]))
    charts: list[Chart] = []
    for name in along:
        x = np.array([each["configuration"].get(name) for each in records], float)
        across = Axis(name_of(name), _is_wide(x))
        for what, values in measured:
            lines, y, title = [], np.array(values, float), f"{what} by {name_of(name)}"
            for kind, color, symbol in zip(kinds, COLORS, SYMBOLS, strict=False):
                at = np.array(kind_of) == kind
                symbols = Line(kind or title, x[at], y[at], color, symbol=symbol, is_joined=False)
                lines.append(symbols)
            charts.append(Lines(title, lines, across, Axis(is_log=_is_wide(y))))
    keys = [Key(kind, COLORS[k], "", SYMBOLS[k]) for k, kind in enumerate(kinds) if len(kinds) > 1]
    return [Panels("Figures by setting", charts[:MAX_CHARTS], keys)]


def _is_wide(values: np.ndarray) -> bool:
    known = values[np.isfinite(values)]
    return len(known) > 0 and bool(0 < WIDE_RANGE * known.min() < known.max())


# ---- The details of a run ----


def make_details(
    records: Sequence[Record], store: Store, special: Mapping[str, Draw] | None = None
) -> list[Detail]:
    """A detail for each run; `special` draws the arrays of some experiments in another way."""
    special = special or {}
    draw = lambda record: special.get(record["experiment"], _array_panels)
    return [_make_detail(record, store, draw(record)) for record in records]


def _make_detail(record: Record, store: Store, draw: Draw) -> Detail:
    figures, configuration = record.get("figures") or {}, record["configuration"]
    blocks: list[Block] = []
    if record["status"] != "done":
        blocks.append(Note(f"It failed: {record.get('reason')}"))
    pairs = [
        (f"{name_of(name)} of {part}" if part else name_of(name), shown(value))
        for name, part, value in _every_figure(record)
    ]
    blocks.append(Facts("Figures", pairs))
    history = figures.get("history")
    if isinstance(history, Mapping) and any(len(each) > 1 for each in history.values()):
        blocks.append(history_panels(history))
    if record.get("arrays"):
        arrays = store.arrays(Row(record["experiment"], configuration))
        blocks += draw(arrays)
    settings = [(name_of(name), shown(value)) for name, value in configuration.items()]
    blocks.append(Facts("Configuration", settings))
    blocks.append(Facts("Where and when", list(_environment(record))))
    lead = f"{record['experiment']}, {record['status']} in {duration(record['seconds'])}"
    return Detail(record["identity"], describe(configuration), lead, blocks)


def describe(configuration: Mapping[str, Any]) -> str:
    """A configuration in a line: what is run, its size, its number of points."""
    words = [shown(configuration[name]) for name in DESCRIBED if name in configuration]
    if "depth" in configuration and "width" in configuration:
        words.append(f"{configuration['depth']}x{configuration['width']}")
    for name in ("c", "alpha", "dimension", "degree"):
        if name in configuration:
            words.append(f"{name_of(name)} = {shown(configuration[name])}")
    if "num_points" in configuration:
        words.append(f"N = {configuration['num_points']:,}")
    mode = configuration.get("mode")
    text = ", ".join(words) or ", ".join(
        f"{name_of(name)} {shown(value)}" for name, value in list(configuration.items())[:4]
    )
    return f"{mode}: {text}" if mode and words else str(mode or text or "a run")


def history_panels(history: Mapping[str, Sequence[Any]]) -> Panels:
    """Every term of the loss and the error over the steps."""
    steps = history.get("step")
    lines: list[Line] = []
    for name, recorded in history.items():
        if name != "step":
            y = np.array([np.nan if value is None else value for value in recorded], float)
            x = np.arange(len(y)) if steps is None else np.array(steps, float)[: len(y)]
            lines.append(Line(name, x, y, *look(len(lines))))
    title = "number of the record" if steps is None else "step"
    chart = Lines("over the training", lines, Axis(title), Axis(is_log=True))
    return Panels("Curves", [chart], [each.key for each in lines])


def _environment(record: Record) -> Iterator[tuple[str, str]]:
    yield "identity", record["identity"]
    yield from zip(PLACE, _place(record), strict=True)
    for name in ("started", "finished"):
        yield name, str(record[name])[:19].replace("T", " ")
    yield "seconds", shown(record["seconds"])
    if record.get("together"):
        yield "rows trained together", shown(record["together"])


def _array_panels(arrays: Arrays) -> list[Panels]:
    """Maps of arrays with two dimensions, lines of those with one.

    Arrays called `axis_1_x`, `axis_2_y` have the coordinates along the axes x and y of the others.
    """
    axes = {name: array for name, array in sorted(arrays.items()) if name.startswith(AXIS)}
    along = [(name.removeprefix(AXIS).partition("_")[2], each) for name, each in axes.items()]
    charts: list[Chart] = []
    for name, array in arrays.items():
        if name in axes or array.dtype == bool:
            continue
        fits = array.shape == tuple(len(each) for each in axes.values())
        if array.ndim == 2 and min(array.shape) > 1:
            indices = zip(("first index", "second index"), map(np.arange, array.shape), strict=True)
            charts.append(Map(name_of(name), array, *(along if fits else indices)))
        elif array.ndim == 1 and len(array) > 2:
            title, x = along[0] if fits else ("number", np.arange(len(array)))
            charts.append(Lines(name_of(name), [Line(name, x, array)], Axis(title)))
    return [Panels("Solution and halves", charts)] if charts else []


# ---- Where runs took place, and which of them failed ----


def environment_sections(records: Sequence[Record]) -> list[Section]:
    """Devices, versions and commits with the seconds spent on each; then the runs that failed."""
    groups: dict[tuple[str, ...], list[Record]] = {}
    for record in records:
        groups.setdefault(_place(record), []).append(record)
    rows = []
    for place, each in sorted(groups.items(), key=lambda pair: -len(pair[1])):
        seconds = sum(record["seconds"] for record in each)
        days = sorted(str(record["started"])[:10] for record in each)
        rows.append(
            (
                *(Value(text) for text in place),
                Value(f"{len(each):,}", len(each)),
                Value(duration(seconds), seconds),
                Value(days[0] if days[0] == days[-1] else f"{days[0]} to {days[-1]}"),
            )
        )
    titles = (*PLACE, "runs", "time", "days")
    table = Table("A line for each device and version.", [Column(each) for each in titles], rows)
    about = Section(
        "environment",
        "Times, versions, devices",
        f"{counted(len(records), 'run')} in {duration(sum(r['seconds'] for r in records))}. The "
        "details of a run have its own.",
        [table],
        group="About",
    )
    failed = [record for record in records if record["status"] != "done"]
    return [about, _failures(failed)] if failed else [about]


def _failures(failed: Sequence[Record]) -> Section:
    columns = [Column("experiment"), Column("run"), Column("reason", is_wide=True), Column("s")]
    rows = [
        (
            Value(record["experiment"]),
            Value(describe(record["configuration"]), run=record["identity"]),
            Value(str(record.get("reason"))),
            Value(number(record["seconds"]), record["seconds"]),
        )
        for record in failed[:MAX_FAILURES]
    ]
    cut = f", of which this table has the first {MAX_FAILURES}" if len(failed) > len(rows) else ""
    lead = f"{counted(len(failed), 'run')} failed{cut}; a failure is recorded like a result."
    table = Table("The reason as it was recorded.", columns, rows)
    return Section("failures", "Failures", lead, [table], group="About")


def _place(record: Record) -> tuple[str, ...]:
    versions, git = record.get("versions") or {}, record.get("git") or {}
    commit = str(git.get("commit") or NOTHING)[:10] + (" + changes" if git.get("dirty") else "")
    known = (record.get("device"), *(versions.get(name) for name in ("pann", "jax", "python")))
    return (*(str(each or NOTHING) for each in known), commit)
