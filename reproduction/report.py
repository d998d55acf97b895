"""The page of the paper: how far our runs are from it, table by table, and every run behind.

An error is below if its mean is at most the published mean, and within if it is at most two
published deviations above. A percentage is within if it differs by at most two points, and a count
if it is the same.
"""

import dataclasses
import functools
import math
import statistics
import tomllib
from collections.abc import Callable, Sequence
from importlib import resources

from pann.report.charts import BLUE, ORANGE, Axis, Key, Line, Lines, Panels
from pann.report.page import (
    MAX_SHADE,
    Block,
    Column,
    Folded,
    Note,
    Page,
    Section,
    Table,
    Tile,
    Value,
)
from pann.report.runs import environment_sections, make_details
from pann.report.texts import counted, duration, is_number, name_of, number, shown, with_spread
from pann.runs import Store
from reproduction.cells import (
    ERROR,
    PERCENT,
    Cell,
    Measured,
    Record,
    make_cells,
    of_size,
    printed_cells,
    setting_names,
)
from reproduction.comparison import best_defaults
from reproduction.experiments import EXPERIMENTS, MODES, SIZES, Experiment
from reproduction.figures import OF_ARRAYS, Run, last_of_cells, panels_of
from reproduction.published import EXHIBITS

GROUPS = {
    **dict.fromkeys(("basis_sizes", "tables", "landscape"), "Bases and steps"),
    **dict.fromkeys(("poisson", "allen_cahn", "kdv", "ks", "gray_scott"), "Equations"),
    **dict.fromkeys(("equal_cost", "darcy", "readings"), "Equations"),
}
LOOKS = {"faithful": (BLUE, "circle"), "default": (ORANGE, "diamond")}
BELOW, WITHIN, ABOVE = "▼", "≈", "▲"
WORDS = {BELOW: "below the published figure", WITHIN: "within its spread", ABOVE: "above it"}
LEGEND = (
    f"{BELOW} at most the published figure; {WITHIN} at most two published deviations above it "
    f"(percentages: within two points; counts: the same); {ABOVE} further above. The shade grows "
    "with each factor of ten."
)
factor = functools.partial(number, digits=2)


@dataclasses.dataclass(frozen=True)
class Part:
    """An experiment as far as it was run: its size, cells and runs."""

    experiment: Experiment
    size: str
    num_rows: int
    cells: list[Cell]
    runs: list[Run]

    @property
    def anchor(self) -> str:
        return f"experiment-{self.experiment.name}"

    @property
    def title(self) -> str:
        return self.experiment.shows[:1].upper() + self.experiment.shows[1:]

    @property
    def seconds(self) -> float:
        return sum(run.record["seconds"] for run in self.runs)

    def verdicts(self) -> list["Verdict"]:
        """How far the faithful runs are from the published figures."""
        found = [judge(cell, cell.faithful) for cell in self.cells if cell.is_compared]
        return [verdict for verdict in found if verdict is not None]

    def best_defaults(self) -> list[tuple[str, float, str]]:
        return best_defaults(self.experiment, self.cells, self.size)


def paper_page(store: Store) -> Page:
    """The page of all that the store has of the paper's experiments."""
    by_name: dict[str, list[Record]] = {each.stored_name: [] for each in EXPERIMENTS}
    for record in store.records():
        by_name.get(record["experiment"], []).append(record)
    own = [record for records in by_name.values() for record in records]
    if not own:
        raise ValueError(
            f"the store '{store.folder}' has no runs of the paper; run some first: "
            "python -m reproduction run, or name their folder with --store"
        )
    found = {each.name: _part(each, by_name[each.stored_name], store) for each in EXPERIMENTS}
    parts = [part for part in found.values() if part is not None]
    return Page(
        "PANN: the paper and our runs",
        "Every table and figure of the paper on polynomial-augmented neural networks that was run, "
        "next to what was published. Faithful does what the paper did; default is what pann does "
        "without options.",
        _tiles(parts, own),
        [
            _overview(parts, [name for name, part in found.items() if part is None]),
            *(_section(part) for part in parts),
            _deviation_section(),
            *environment_sections(own),
        ],
        make_details(own, store, OF_ARRAYS),
        "Errors are relative l2 errors at points that were not trained on; a mean has its "
        "deviation over the trials. Written by python -m reproduction report.",
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


# ---- Verdicts ----


@dataclasses.dataclass(frozen=True)
class Verdict:
    """A symbol, the ratio of ours to the published (the difference, of percentages), a shade."""

    symbol: str
    amount: float
    shade: int
    text: str
    is_reached: bool

    def value(self) -> Value:
        """As a cell of a table."""
        note = WORDS[self.symbol]
        return Value(self.text, self.amount, mark=self.symbol, shade=self.shade, note=note)


def judge(cell: Cell, ours: Measured | None) -> Verdict | None:
    """None where there is nothing to compare."""
    if ours is None or ours.mean is None or cell.published_mean is None:
        return None
    is_reached = bool(cell.is_reached(ours))
    if cell.quantity != ERROR:
        difference = ours.mean - cell.published_mean
        symbol = WITHIN if is_reached else (ABOVE if difference > 0 else BELOW)
        # Neither more nor less is better: no shade.
        return Verdict(symbol, difference, 0, f"{difference:+.3g}", is_reached)
    ratio = cell.ratio(ours)
    if ratio is None:
        return None
    symbol = BELOW if ratio <= 1 else WITHIN if is_reached else ABOVE
    return Verdict(symbol, ratio, _shade(symbol, ratio), factor(ratio), symbol != ABOVE)


def _shade(symbol: str, ratio: float) -> int:
    """In steps of a factor of ten: 1 up to ten, 2 up to a hundred, 3 beyond."""
    if symbol == WITHIN or ratio == 1:
        return 0
    steps = 1 + int(min(abs(math.log10(ratio)) if ratio > 0 else math.inf, MAX_SHADE - 1))
    return steps if symbol == ABOVE else -steps


# ---- The overview ----


def _tiles(parts: Sequence[Part], records: Sequence[Record]) -> list[Tile]:
    """What there is, what is reached, and how good the default is."""
    done = [record for record in records if record["status"] == "done"]
    failed = len(records) - len(done)
    # Shorter runs do not count, and other readings are of the same cells.
    full = [p for p in parts if p.size == "full" and p.experiment.name != "readings"]
    verdicts = [verdict for part in full for verdict in part.verdicts()]
    reached = sum(verdict.is_reached for verdict in verdicts)
    best = [ratio for part in parts for _, ratio, _ in part.best_defaults()]
    time = duration(sum(record["seconds"] for record in done))
    tiles = [
        Tile(f"{len(done):,}", "runs", time + (f", {failed} failed" if failed else "")),
        Tile(f"{len(parts)}", "experiments", "of the paper's"),
    ]
    if verdicts:
        share = f"{reached:,} of {len(verdicts):,}: below, or within two deviations"
        label = "of the cells run at full size reached"
        tiles.append(Tile(f"{reached / len(verdicts):.0%}", label, share))
    if best:
        better = sum(ratio <= 1 for ratio in best)
        note = f"by a factor of {factor(1 / statistics.median(best))} in the median"
        label = "best published errors that the default beats"
        tiles.append(Tile(f"{better} of {len(best)}", label, note))
    return tiles


def _overview(parts: Sequence[Part], missing: Sequence[str]) -> Section:
    """The ratios to the published errors, and a line for each experiment."""
    blocks: list[Block] = [*_ratio_panels(parts), _overview_table(parts)]
    if missing:
        blocks.append(Note(f"Not run yet: {', '.join(missing)}."))
    return Section(
        "overview",
        "How far from the paper",
        "A cell is reached if the mean error of the faithful runs is at most the published mean "
        "plus two published deviations; where none is printed, at most the mean.",
        blocks,
        group="Overview",
    )


def _ratio_panels(parts: Sequence[Part]) -> list[Panels]:
    """Our error over the published one, a dot for each cell in the strip of its experiment."""
    dots: dict[str, list[tuple[str, float, str]]] = {mode: [] for mode in MODES}
    for part in parts:
        for cell in part.cells:
            for mode, ours in (("faithful", cell.faithful), ("default", cell.default)):
                ratio = cell.ratio(ours) if cell.is_compared and cell.quantity == ERROR else None
                if ratio is not None and ratio > 0:
                    settings = ", ".join(str(value) for value in cell.settings.values())
                    dots[mode].append((part.experiment.name, ratio, settings))
    names = list(dict.fromkeys(name for each in dots.values() for name, _, _ in each))
    if not names:
        return []
    lines = []
    for k, (mode, (color, symbol)) in enumerate(LOOKS.items()):
        # In a strip the modes lie one below the other, and the dots of a mode a little apart.
        y = [
            names.index(name) + 0.4 * (k - 0.5) + 0.14 * math.sin(37.0 * index)
            for index, (name, _, _) in enumerate(dots[mode])
        ]
        x = [ratio for _, ratio, _ in dots[mode]]
        notes = [f"{name}: {settings}" for name, _, settings in dots[mode]]
        lines.append(Line(mode, x, y, color, symbol=symbol, is_joined=False, notes=notes))
    broken = [f"{name.replace('_', '<br>', 1).replace('_', ' ')} " for name in names]
    labels: dict[float, str] = dict(enumerate(broken))
    chart = Lines(
        "a dot for each cell; left of 1 is better than the paper",
        lines,
        Axis("ours ÷ published", is_log=True, is_on_top=True),
        Axis(ticks=labels, limits=(len(names) - 0.4, -0.6)),
        90 + 34 * len(names),
        mark=1.0,
    )
    keys = [Key(f"{mode} ÷ published", color, "", mark) for mode, (color, mark) in LOOKS.items()]
    return [Panels("Our error over the published one", [chart], keys)]


def _overview_table(parts: Sequence[Part]) -> Table:
    columns = (
        Column("experiment", is_wide=True),
        Column("reached", "cells below, or within two published deviations"),
        Column("fraction"),
        Column("median ratio", "faithful over published; of percentages the difference"),
        Column("best default", "our best default error over the best published one"),
        Column("cells", "published ones"),
        Column("runs"),
        Column("size"),
        Column("hours"),
    )
    caption = (
        "Reached: below, or within two published deviations. Median ratio: faithful over published "
        "errors; of percentages and counts the difference. Best default: our best default error "
        f"over the best published one, {BELOW} where it is lower."
    )
    return Table(caption, columns, [_overview_row(part) for part in parts])


def _overview_row(part: Part) -> list[Value]:
    verdicts = part.verdicts()
    reached = sum(verdict.is_reached for verdict in verdicts)
    compared, printed = len(verdicts), len(printed_cells(part.experiment))
    hours = part.seconds / 3600
    return [
        Value(part.title, anchor=part.anchor),
        Value(f"{reached} of {compared}" if compared else "", reached),
        Value(f"{reached / compared:.0%}", reached / compared) if compared else Value("", -1),
        _median(part, verdicts),
        _best(part),
        Value(f"{printed:,}" if printed else "", printed),
        Value(f"{len(part.runs)} of {part.num_rows}", len(part.runs)),
        Value(part.size),
        Value(factor(hours), hours),
    ]


def _median(part: Part, verdicts: Sequence[Verdict]) -> Value:
    if not verdicts:
        return Value("", math.inf)
    median = statistics.median(each.amount for each in verdicts)
    if any(cell.quantity == PERCENT for cell in part.cells):
        return Value(f"{median:+.2g} points", median)
    is_count = all(cell.quantity != ERROR for cell in part.cells)
    return Value(f"{median:+.2g}" if is_count else factor(median), median)


def _best(part: Part) -> Value:
    found = part.best_defaults()
    if not found:
        return Value("", math.inf)
    ratios = [ratio for _, ratio, _ in found]
    least, largest = min(ratios), max(ratios)
    symbol = BELOW if largest <= 1 else ABOVE
    note = "better than the paper" if largest <= 1 else "not everywhere better than the paper"
    text, run = factor(largest), found[0][2]
    if len(found) > 1:
        text, run = f"{factor(least)} to {factor(largest)}", ""
        note += ": " + ", ".join(f"{group}: {factor(ratio)}" for group, ratio, _ in found)
    shade = _shade(symbol, largest)
    return Value(text, largest, run=run, mark=symbol, shade=shade, note=note)


# ---- The section of an experiment ----


def _section(part: Part) -> Section:
    name = part.experiment.name
    blocks: list[Block] = [*panels_of(name, part.runs, part.size), _table(part)]
    if doubts := _doubts(part):
        blocks.append(Folded(f"Doubtful published figures ({len(doubts)})", doubts))
    apart = [
        f"{each.about}. Paper: {each.paper}. Here: {each.here}. Why: {each.why}."
        for each in deviations()
        if name in each.experiments
    ]
    if apart:
        blocks.append(Folded(f"Decisions where the paper is open ({len(apart)})", apart))
    return Section(
        part.anchor,
        part.title,
        _lead(part),
        blocks,
        short=name.replace("_", " "),
        badge=f"{len(part.runs)} of {part.num_rows}",
        group=GROUPS.get(name, "Regression"),
    )


def _lead(part: Part) -> str:
    lead = f"{counted(len(part.runs), 'run')} of {part.num_rows} at size {part.size}, "
    lead += f"{duration(part.seconds)} altogether."
    printed = len(printed_cells(part.experiment))
    labels = [e.label for e in EXHIBITS if e.data and e.data == part.experiment.published]
    if printed:
        where = f" ({', '.join(labels)})" if labels else ""
        lead += f" With {counted(printed, 'published cell')}{where}."
    if part.size == "smoke":
        lead += " A smoke test trains for a few steps: its figures are compared with nothing."
    elif part.size == "quick":
        lead += " Quick runs are shorter and smaller than the published ones."
    return lead


def _table(part: Part) -> Table:
    names = setting_names(part.cells)
    cells = sorted(part.cells, key=lambda cell: _order(cell, names))
    columns: list[tuple[Column, Callable[[Cell], Value]]] = [
        (Column(name_of(name)), functools.partial(_setting, name))
        for name in names
        if name not in ("width", "depth")
    ]
    if "width" in names:
        columns.insert(names.index("width"), (Column("network"), _network))
    columns += [
        (Column("published"), _published),
        (Column("faithful"), lambda cell: _measured(cell.faithful)),
        (Column("ratio", "faithful over published"), lambda cell: _ratio(cell, cell.faithful)),
        (Column("default"), lambda cell: _measured(cell.default)),
        (Column("ratio", "default over published"), lambda cell: _ratio(cell, cell.default)),
        (Column("s published"), lambda cell: _seconds(cell.published_seconds)),
        (Column("s faithful"), lambda cell: _seconds(_time(cell.faithful))),
        (Column("s default"), lambda cell: _seconds(_time(cell.default))),
    ]
    filled = [(column, [value(cell) for cell in cells]) for column, value in columns]
    used = [(column, values) for column, values in filled if any(v.text for v in values)]
    rows = list(zip(*(values for _, values in used), strict=True))
    caption = LEGEND if any(cell.published for cell in cells) else "A figure links to its run."
    return Table(caption, [column for column, _ in used], rows)


def _order(cell: Cell, names: Sequence[str]) -> tuple:
    values = [cell.settings.get(name) for name in names]
    return tuple((0, v, "") if is_number(v) else (1, 0, str(v or "")) for v in values)


def _setting(name: str, cell: Cell) -> Value:
    value = cell.settings.get(name)
    if value is None:
        return Value("", math.inf if name in ("c", "degree") else None)
    return Value(shown(value), value if is_number(value) else None)


def _network(cell: Cell) -> Value:
    """Layers and their width in one column: 3x100."""
    width, depth = (cell.settings.get(name) for name in ("width", "depth"))
    if width is None or depth is None:
        return Value("", 0)
    return Value(f"{depth}x{width}", width * depth)


def _measured(ours: Measured | None) -> Value:
    """Mean and deviation, with a link to the run."""
    if ours is None:
        return Value("")
    run = ours.record["identity"]
    if ours.mean is None:
        return Value("not finite", math.inf, run=run)
    return Value(with_spread(ours.mean, ours.deviation), ours.mean, run=run)


def _published(cell: Cell) -> Value:
    """As printed, a doubtful one with a question mark."""
    if cell.published_mean is None:
        return Value("")
    text = with_spread(cell.published_mean, cell.published_deviation)
    return Value(text + (" ?" if cell.doubt else ""), cell.published_mean, note=cell.doubt)


def _ratio(cell: Cell, ours: Measured | None) -> Value:
    verdict = judge(cell, ours)
    return Value("") if verdict is None else verdict.value()


def _time(ours: Measured | None) -> float | None:
    return None if ours is None else ours.seconds


def _seconds(value: float | None) -> Value:
    return Value("") if value is None else Value(shown(float(value)), value)


def _doubts(part: Part) -> list[str]:
    """One line for each reason, with the cells that it is about."""
    reasons: dict[str, list[str]] = {}
    for cell in part.cells:
        if cell.doubt:
            settings = ", ".join(shown(value) for value in cell.settings.values())
            reasons.setdefault(cell.doubt, []).append(settings)
    return [f"{reason}: {'; '.join(cells)}" for reason, cells in reasons.items()]


# ---- Where the paper is silent or contradicts itself ----


@dataclasses.dataclass(frozen=True)
class Deviation:
    """What the paper says, what is done here and why; for all experiments if none is named."""

    about: str
    paper: str
    here: str
    why: str
    experiments: Sequence[str] = ()


@functools.cache
def deviations() -> tuple[Deviation, ...]:
    """All decisions, as `deviations.toml` has them."""
    path = resources.files("reproduction").joinpath("deviations.toml")
    return tuple(Deviation(**each) for each in tomllib.loads(path.read_text("utf-8"))["deviation"])


def _deviation_section() -> Section:
    rows = [
        [Value(text) for text in (each.about, each.paper, each.here, each.why)]
        for each in deviations()
    ]
    titles = ("about", "the paper", "here, in the faithful mode", "why")
    columns = [Column(title, is_wide=title != "about") for title in titles]
    by_default = Note(
        "By default pann does something else altogether: all linear unknowns are solved for, in "
        "float64, and the network is trained by Levenberg-Marquardt; the default columns are that."
    )
    return Section(
        "deviations",
        "Deviations from the paper",
        "Where the paper is silent, or says two things, the faithful mode had to choose.",
        [Table("Each is an ordinary option.", columns, rows), by_default],
        group="About",
    )
