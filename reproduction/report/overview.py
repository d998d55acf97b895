"""The first section: how far from the paper, table by table."""

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pann.report.page import Block, Column, Key, Note, Panels, Section, Table, Tile, Value
from pann.report.plots import BLUE, ORANGE, ratio_strips
from pann.report.texts import duration, factor, number
from reproduction.cells import ERROR, PERCENT, printed_cells
from reproduction.experiments import Experiment
from reproduction.report.verdicts import ABOVE, BELOW, Verdict, judge, shade_of
from reproduction.summary import best_defaults, is_compared

if TYPE_CHECKING:
    from reproduction.report.paper import Part

MODES = {"faithful": (BLUE, "circle"), "default": (ORANGE, "diamond")}


def tiles(parts: Sequence["Part"], records: Sequence[Mapping[str, Any]]) -> tuple[Tile, ...]:
    """What there is, what is reached, and how good the default is."""
    done = [record for record in records if record["status"] == "done"]
    failed = len(records) - len(done)
    # Shorter runs do not count, and other readings are of the same cells.
    tables = [p for p in parts if p.size == "full" and p.experiment.name != "readings"]
    verdicts = [verdict for part in tables for verdict in _faithful(part)]
    reached = sum(verdict.is_reached for verdict in verdicts)
    best = [ratio for part in parts for _, ratio, _ in _best_defaults(part)]
    found = [
        Tile(
            f"{len(done):,}",
            "runs",
            duration(sum(record["seconds"] for record in done))
            + (f", {failed} failed" if failed else ""),
        ),
        Tile(f"{len(parts)}", "experiments", "of the paper's"),
    ]
    if verdicts:
        found.append(
            Tile(
                f"{reached / len(verdicts):.0%}",
                "of the cells run at full size reached",
                f"{reached:,} of {len(verdicts):,}: below, or within two deviations",
            )
        )
    if best:
        better = sum(ratio <= 1 for ratio in best)
        found.append(
            Tile(
                f"{better} of {len(best)}",
                "best published errors that the default beats",
                f"by a factor of {factor(1 / statistics.median(best))} in the median",
            )
        )
    return tuple(found)


def section(parts: Sequence["Part"], missing: Sequence[Experiment]) -> Section:
    """The strips of ratios and a line for each experiment."""
    blocks: list[Block] = []
    strips = _strips(parts)
    if strips is not None:
        blocks.append(strips)
    blocks.append(_table(parts))
    if missing:
        blocks.append(Note(f"Not run yet: {', '.join(each.name for each in missing)}."))
    return Section(
        "overview",
        "How far from the paper",
        "A cell is reached if the mean error of the faithful runs is at most the published mean "
        "plus two published deviations; where none is printed, at most the mean.",
        tuple(blocks),
        group="Overview",
    )


def _best_defaults(part: "Part") -> list[tuple[str, float, str]]:
    return best_defaults(part.experiment, part.cells, part.size)


def _faithful(part: "Part") -> list[Verdict]:
    cells = [cell for cell in part.cells if is_compared(cell)]
    return [verdict for cell in cells if (verdict := judge(cell, cell.faithful)) is not None]


def _strips(parts: Sequence["Part"]) -> Panels | None:
    """Ours over the published figure, a dot for each cell."""
    dots: dict[str, list[tuple[str, float, str]]] = {mode: [] for mode in MODES}
    for part in parts:
        for cell in part.cells:
            if not is_compared(cell) or cell.quantity != ERROR:
                continue
            for mode, ours in (("faithful", cell.faithful), ("default", cell.default)):
                verdict = judge(cell, ours)
                if verdict is not None and verdict.amount > 0:
                    told = ", ".join(str(value) for value in cell.settings.values())
                    dots[mode].append((part.experiment.name, verdict.amount, told))
    if not any(dots.values()):
        return None
    keys = tuple(
        Key(f"{mode} ÷ published", color, "", symbol) for mode, (color, symbol) in MODES.items()
    )
    return Panels(
        "Our error over the published one",
        (ratio_strips("a dot for each cell; left of 1 is better than the paper", dots, MODES),),
        keys,
    )


def _table(parts: Sequence["Part"]) -> Table:
    number_column = lambda title, note="": Column(title, is_number=True, note=note)
    columns = (
        Column("experiment", is_wide=True),
        number_column("reached", "cells below, or within two published deviations"),
        number_column("share"),
        number_column("median ratio", "faithful over published; of percentages the difference"),
        number_column("best default", "our best default error over the best published one"),
        number_column("cells", "published ones"),
        number_column("runs"),
        Column("size"),
        number_column("hours"),
    )
    return Table(
        "Reached: below, or within two published deviations. Median ratio: faithful over published "
        "errors; of percentages and counts the difference. Best default: our best default error "
        f"over the best published one, {BELOW} where it is lower.",
        columns,
        tuple(_line(part) for part in parts),
    )


def _line(part: "Part") -> tuple[Value, ...]:
    verdicts = _faithful(part)
    reached = sum(verdict.is_reached for verdict in verdicts)
    compared, printed = len(verdicts), len(printed_cells(part.experiment))
    median = statistics.median(each.amount for each in verdicts) if verdicts else None
    hours = sum(run.record["seconds"] for run in part.runs) / 3600
    return (
        Value(part.title, anchor=part.anchor),
        Value(f"{reached} of {compared}" if compared else "", reached),
        Value(f"{reached / compared:.0%}", reached / compared) if compared else Value("", -1),
        Value("", math.inf) if median is None else Value(_median(part, median), median),
        _best(part),
        Value(f"{printed:,}" if printed else "", printed),
        Value(f"{part.num_done} of {part.num_rows}", part.num_done),
        Value(part.size),
        Value(number(hours, 2), hours),
    )


def _median(part: "Part", median: float) -> str:
    is_percent = any(cell.quantity == PERCENT for cell in part.cells)
    is_count = not is_percent and all(cell.quantity != ERROR for cell in part.cells)
    if is_percent:
        return f"{median:+.2g} points"
    return f"{median:+.2g}" if is_count else factor(median)


def _best(part: "Part") -> Value:
    found = _best_defaults(part)
    if not found:
        return Value("", math.inf)
    ratios = [ratio for _, ratio, _ in found]
    least, largest = min(ratios), max(ratios)
    text = factor(largest) if len(found) == 1 else f"{factor(least)} to {factor(largest)}"
    symbol = BELOW if largest <= 1 else ABOVE
    word = "better than the paper" if largest <= 1 else "not everywhere better than the paper"
    if len(found) > 1:
        word += ": " + ", ".join(f"{group}: {factor(ratio)}" for group, ratio, _ in found)
    return Value(
        text,
        largest,
        run=found[0][2] if len(found) == 1 else "",
        mark=symbol,
        shade=shade_of(symbol, largest),
        note=word,
    )
