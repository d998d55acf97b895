"""How far ours is from the published figure: below it, within its spread, or above.

For an error: below if its mean is at most the published mean; within if it is at most two published
deviations above. A percentage is within if it differs by at most two points, and a count is the
same or not.
"""

import dataclasses
import math

from pann.report.page import MAX_SHADE, Value
from pann.report.texts import factor, with_spread
from reproduction.cells import ERROR, Cell, Measured, ratio_of
from reproduction.summary import is_reached

BELOW, WITHIN, ABOVE = "▼", "≈", "▲"
WORDS = {BELOW: "below the published figure", WITHIN: "within its spread", ABOVE: "above it"}
LEGEND = (
    f"{BELOW} at most the published figure; {WITHIN} at most two published deviations above it "
    f"(percentages: within two points; counts: the same); {ABOVE} further above. The shade grows "
    "with each factor of ten."
)


@dataclasses.dataclass(frozen=True)
class Verdict:
    """A symbol, the ratio of ours to the published (the difference, of percentages), a shade."""

    symbol: str
    amount: float
    shade: int
    text: str
    is_reached: bool


def judge(cell: Cell, ours: Measured | None) -> Verdict | None:
    """None where there is nothing to compare."""
    if ours is None or ours.mean is None or cell.published_mean is None:
        return None
    if cell.quantity == ERROR:
        return _of_errors(cell, ours)
    difference = ours.mean - cell.published_mean
    is_within = bool(is_reached(cell, ours))
    symbol = WITHIN if is_within else (ABOVE if difference > 0 else BELOW)
    # Neither more nor less is better: no shade but that of a difference.
    return Verdict(symbol, difference, 0, f"{difference:+.3g}", is_within)


def _of_errors(cell: Cell, ours: Measured) -> Verdict | None:
    ratio = ratio_of(ours, cell)
    if ratio is None:
        return None
    symbol = BELOW if ratio <= 1 else WITHIN if is_reached(cell, ours) else ABOVE
    return Verdict(symbol, ratio, shade_of(symbol, ratio), factor(ratio), symbol != ABOVE)


def shade_of(symbol: str, ratio: float) -> int:
    """In steps of a factor of ten: 1 up to there, 2 up to a hundred, 3 beyond."""
    if symbol == WITHIN or ratio == 1:
        return 0
    steps = 1 + int(min(abs(math.log10(ratio)) if ratio > 0 else math.inf, MAX_SHADE - 1))
    return steps if symbol == ABOVE else -steps


def value_of(verdict: Verdict | None) -> Value:
    """As a cell of a table."""
    if verdict is None:
        return Value("")
    return Value(
        verdict.text,
        verdict.amount,
        mark=verdict.symbol,
        shade=verdict.shade,
        note=WORDS[verdict.symbol],
    )


def measured_value(ours: Measured | None) -> Value:
    """Mean and deviation, with the way to the run."""
    if ours is None:
        return Value("")
    if ours.mean is None:
        return Value("not finite", math.inf, run=ours.record["identity"])
    text = with_spread(ours.mean, ours.deviation)
    return Value(text, ours.mean, run=ours.record["identity"])


def published_value(cell: Cell) -> Value:
    """As printed, a doubtful one with a question mark."""
    if cell.published_mean is None:
        return Value("")
    text = with_spread(cell.published_mean, cell.published_deviation)
    doubt = " ?" if cell.doubt else ""
    return Value(f"{text}{doubt}", cell.published_mean, note=cell.doubt)
