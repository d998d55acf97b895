"""The page of the paper: how far our runs are from it, table by table, and every run behind."""

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any

from pann.report import surroundings
from pann.report.page import Block, Column, Folded, Page, Section, Table, Value
from pann.report.run_details import make_details
from pann.report.texts import counted, duration, name_of, shown
from pann.runs import Store
from reproduction.cells import Cell, Record, make_cells, of_size, printed_cells, setting_names
from reproduction.drawings.finished import Finished
from reproduction.experiments import EXPERIMENTS, MODES, SIZES, Experiment
from reproduction.figures import last_of_cells
from reproduction.published import EXHIBITS
from reproduction.report import overview
from reproduction.report.deviations import deviation_section, deviations_of
from reproduction.report.paper_maps import OF_ARRAYS
from reproduction.report.paper_plots import draw
from reproduction.report.verdicts import LEGEND, judge, measured_value, published_value, value_of

GROUPS = {
    "basis_sizes": "Bases and steps",
    "tables": "Bases and steps",
    "landscape": "Bases and steps",
    "poisson": "Equations",
    "allen_cahn": "Equations",
    "kdv": "Equations",
    "ks": "Equations",
    "grey_scott": "Equations",
    "equal_cost": "Equations",
    "darcy": "Equations",
    "readings": "Equations",
}


@dataclasses.dataclass(frozen=True)
class Part:
    """An experiment as far as it was run: its size, cells and runs."""

    experiment: Experiment
    size: str
    num_rows: int
    cells: list[Cell]
    runs: list[Finished]

    @property
    def anchor(self) -> str:
        return f"experiment-{self.experiment.name}"

    @property
    def title(self) -> str:
        """An experiment's text begins with what it is about."""
        return self.experiment.shows[:1].upper() + self.experiment.shows[1:]

    @property
    def num_done(self) -> int:
        return len(self.runs)


def paper_page(store: Store) -> Page:
    """The page of all that the store has of the paper's experiments."""
    by_name: dict[str, list[Record]] = {each.name: [] for each in EXPERIMENTS}
    for record in store.records():
        if record["experiment"] in by_name:
            by_name[record["experiment"]].append(record)
    own = [record for records in by_name.values() for record in records]
    if not own:
        raise ValueError(
            f"the store '{store.folder}' has no runs of the paper; run some first: "
            "python -m reproduction run, or name their folder with --store"
        )
    found = [_part(each, by_name[each.name], store) for each in EXPERIMENTS]
    parts = [part for part in found if part is not None]
    missing = [each for each in EXPERIMENTS if each.name not in {p.experiment.name for p in parts}]
    sections = (
        overview.section(parts, missing),
        *(_section(part) for part in parts),
        deviation_section(),
        surroundings.section(own),
        *surroundings.failures(own),
    )
    return Page(
        "PANN: the paper and our runs",
        "Every table and figure of the paper on polynomial-augmented neural networks that was run, "
        "beside what was published. Faithful does what the paper did; default is what pann does "
        "without options.",
        overview.tiles(parts, own),
        sections,
        make_details(own, store, OF_ARRAYS),
        "Errors are relative l2 errors at points that were not trained on; a mean has its "
        "deviation over the trials beside it. Written by python -m reproduction report.",
    )


def _part(experiment: Experiment, records: Sequence[Record], store: Store) -> Part | None:
    """At the largest size of which there are faithful runs, or any; None without runs."""
    by_size = {size: of_size(experiment, records, size) for size in reversed(SIZES)}
    found = [size for size, own in by_size.items() if own]
    if not found:
        return None
    is_faithful = lambda record: record["configuration"]["mode"] == "faithful"
    size = next((size for size in found if any(map(is_faithful, by_size[size]))), found[0])
    num_rows = sum(len(experiment.rows(size, mode, None)) for mode in MODES)
    cells = make_cells(experiment, by_size[size], size)
    return Part(experiment, size, num_rows, cells, last_of_cells(by_size[size], store))


# ---- The section of an experiment ----


def _section(part: Part) -> Section:
    blocks: list[Block] = [*draw(part.experiment.name, part.runs, part.size), _table(part)]
    doubts = _doubts(part)
    if doubts:
        blocks.append(Folded(f"Doubtful published figures ({len(doubts)})", doubts))
    apart = deviations_of(part.experiment.name)
    if apart:
        blocks.append(Folded(f"Where the paper was read otherwise ({len(apart)})", apart))
    group = GROUPS.get(part.experiment.name, "Regression")
    badge = f"{part.num_done} of {part.num_rows}"
    return Section(
        part.anchor,
        part.title,
        _lead(part),
        tuple(blocks),
        short=part.experiment.name.replace("_", " "),
        badge=badge,
        group=group,
    )


def _lead(part: Part) -> str:
    seconds = sum(run.record["seconds"] for run in part.runs)
    told = f"{counted(part.num_done, 'run')} of {part.num_rows} at size {part.size}, "
    told += f"{duration(seconds)} altogether."
    printed = len(printed_cells(part.experiment))
    labels = [e.label for e in EXHIBITS if e.data and e.data == part.experiment.published]
    if printed:
        where = f" ({', '.join(labels)})" if labels else ""
        told += f" Beside it: {counted(printed, 'published cell')}{where}."
    if part.size == "smoke":
        told += " A smoke test trains for a few steps: its figures are compared with nothing."
    elif part.size == "quick":
        told += " Quick runs are shorter and smaller than the published ones."
    return told


def _table(part: Part) -> Table:
    cells = sorted(part.cells, key=lambda cell: _order(cell, setting_names(part.cells)))
    names = setting_names(cells)
    columns: list[tuple[Column, Any]] = [
        (
            Column(name_of(name), all(_is_number(cell.settings.get(name)) for cell in cells)),
            functools.partial(_setting, name),
        )
        for name in names
        if name not in ("width", "depth")
    ]
    if "width" in names:
        columns.insert(names.index("width"), (Column("network"), _network))
    number = functools.partial(Column, is_number=True)
    columns += [
        (number("published"), published_value),
        (number("faithful"), lambda cell: measured_value(cell.faithful)),
        (
            number("ratio", note="faithful over published"),
            lambda cell: value_of(judge(cell, cell.faithful)),
        ),
        (number("default"), lambda cell: measured_value(cell.default)),
        (
            number("ratio", note="default over published"),
            lambda cell: value_of(judge(cell, cell.default)),
        ),
        (number("s published"), lambda cell: _seconds(cell.published_seconds)),
        (number("s faithful"), lambda cell: _seconds(cell.faithful and cell.faithful.seconds)),
        (number("s default"), lambda cell: _seconds(cell.default and cell.default.seconds)),
    ]
    filled = [(column, [told(cell) for cell in cells]) for column, told in columns]
    used = [(column, values) for column, values in filled if any(v.text for v in values)]
    lines = tuple(zip(*(values for _, values in used), strict=True))
    caption = LEGEND if any(cell.published for cell in cells) else "A figure leads to its run."
    return Table(caption, tuple(column for column, _ in used), lines)


def _order(cell: Cell, names: Sequence[str]) -> tuple:
    told = [cell.settings.get(name) for name in names]
    return tuple(
        (0, each, "") if _is_number(each) and each is not None else (1, 0, str(each or ""))
        for each in told
    )


def _setting(name: str, cell: Cell) -> Value:
    value = cell.settings.get(name)
    if value is None:
        return Value("", math.inf if name in ("c", "degree", "width", "depth") else None)
    is_number = _is_number(value) and not isinstance(value, bool)
    return Value(shown(value), value if is_number else None)


def _network(cell: Cell) -> Value:
    """Layers and their width in one column: 3x100."""
    width, depth = (cell.settings.get(name) for name in ("width", "depth"))
    if width is None or depth is None:
        return Value("", 0)
    return Value(f"{depth}x{width}", width * depth)


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def _seconds(value: float | None) -> Value:
    return Value("") if value is None else Value(shown(float(value)), value)


def _doubts(part: Part) -> tuple[str, ...]:
    """One line for each reason, with the cells that it is about."""
    reasons: dict[str, list[str]] = {}
    for cell in part.cells:
        if cell.doubt:
            told = ", ".join(shown(v) for v in cell.settings.values())
            reasons.setdefault(cell.doubt, []).append(told)
    return tuple(f"{reason}: {'; '.join(cells)}" for reason, cells in reasons.items())
