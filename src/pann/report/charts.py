"""A chart is data: lines, bars or a map, with axes, labels and colors.

Charts know nothing of what draws them. `pann.report.plots` makes figures of Plotly for a page; the
pictures of `python -m reproduction figure` are made by Matplotlib from the same charts. Colors are
those of Okabe and Ito, which color-blind readers can tell apart; every line also has a dash
pattern or a symbol of its own. Dashes and symbols have Plotly's names.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

BLUE, ORANGE, GREEN, VERMILION = "#0072B2", "#E69F00", "#009E73", "#D55E00"
PURPLE, SKY, GRAY, OLIVE = "#CC79A7", "#56B4E9", "#8A8F98", "#A89A00"
COLORS = (BLUE, VERMILION, GREEN, ORANGE, PURPLE, SKY, OLIVE, GRAY)
DASHES = ("solid", "dash", "dot", "dashdot")
SYMBOLS = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross", "x", "star")
DECADES = 7  # of a map on a logarithmic scale
Number = float | int


@dataclasses.dataclass(frozen=True)
class Axis:
    """The title and scale of an axis; `ticks` are places, or places with their labels."""

    title: str = ""
    is_log: bool = False
    ticks: Sequence[Number] | Mapping[Number, str] = ()
    limits: tuple[Number, Number] | None = None
    is_on_top: bool = False

    def tick_labels(self) -> dict[Number, str]:
        """The label of every tick."""
        if isinstance(self.ticks, Mapping):
            return dict(self.ticks)
        return {tick: f"{tick:g}" for tick in self.ticks}


@dataclasses.dataclass(frozen=True)
class Line:
    """Points joined by a line, or symbols alone; NaN is a gap. `notes` describe each point."""

    label: str
    x: Any
    y: Any
    color: str = BLUE
    dash: str = "solid"
    symbol: str = "circle"
    is_joined: bool = True
    notes: Sequence[str] = ()

    @property
    def key(self) -> "Key":
        """Its entry in a legend."""
        return Key(self.label, self.color, self.dash, self.symbol)


@dataclasses.dataclass(frozen=True)
class Lines:
    """Lines over a common axis, with a vertical line at `mark` if there is one."""

    title: str
    lines: Sequence[Line]
    x: Axis = Axis()
    y: Axis = Axis()
    height: int = 280
    mark: Number | None = None


@dataclasses.dataclass(frozen=True)
class Bars:
    """Bars in groups: heights by (group, kind), the kinds in the order of their colors.

    `level` draws a horizontal line, (height, color). Sideways there is one bar for each group, the
    first on top.
    """

    title: str
    heights: Mapping[tuple[str, str], Number]
    colors: Mapping[str, str]
    y: Axis = Axis()
    height: int = 300
    level: tuple[Number, str] | None = None
    is_sideways: bool = False

    @property
    def groups(self) -> list[str]:
        return list(dict.fromkeys(group for group, _ in self.heights))

    @property
    def kinds(self) -> list[str]:
        return [kind for kind in self.colors if any(each == kind for _, each in self.heights)]


@dataclasses.dataclass(frozen=True)
class Map:
    """Values on a grid as colors; their first axis goes to the right.

    The scale of a `field` is symmetric about zero where the field changes its sign; an `error`
    begins at zero; a `log` one spans seven decades at most. `limits` fix the ends of the scale,
    for maps that are compared. `levels` adds as many contours, and a cross at the origin. In a
    square map both axes have the same unit, if they are about as long as each other.
    """

    title: str
    values: np.ndarray
    x: tuple[str, np.ndarray]
    y: tuple[str, np.ndarray]
    scale: str = "field"
    limits: tuple[Number, Number] | None = None
    is_square: bool = False
    levels: int = 0
    height: int = 300

    @property
    def is_diverging(self) -> bool:
        """Whether the scale of a field has zero in its middle."""
        low, high = self.ends()
        return self.scale == "field" and low < 0 < high

    def ends(self) -> tuple[Number, Number]:
        """The lowest and the highest value of the scale."""
        if self.limits is not None:
            return self.limits
        known = self.values[np.isfinite(self.values)]
        known = known[known > 0] if self.scale == "log" else known
        if not len(known):
            return 0.1, 1.0
        low, high = float(known.min()), float(known.max())
        if self.scale == "log":
            return max(low, high * 10.0**-DECADES), high
        if self.scale == "error":
            return 0.0, high or 1.0
        return (-max(-low, high), max(-low, high)) if low < 0 < high else (low, high)

    def has_one_unit(self) -> bool:
        spans = [float(np.ptp(ticks)) for _, ticks in (self.x, self.y)]
        return self.is_square and 0 < max(spans) <= 3 * min(spans)


Chart = Lines | Bars | Map


@dataclasses.dataclass(frozen=True)
class Key:
    """An entry of a legend: color and dash or symbol, as in the charts."""

    label: str
    color: str
    dash: str = "solid"
    symbol: str = ""
    is_bar: bool = False


@dataclasses.dataclass(frozen=True)
class Panels:
    """Charts with one legend; a picture has that many columns, a page as many as fit."""

    kind: ClassVar[str] = "panels"
    title: str
    charts: Sequence[Chart]
    keys: Sequence[Key] = ()
    note: str = ""
    columns: int = 0


def look(number: int) -> tuple[str, str, str]:
    """Color, dash and symbol of the line of that number."""
    of = lambda choices: choices[number % len(choices)]
    return of(COLORS), of(DASHES), of(SYMBOLS)


def sideways_bars(title: str, lengths: Mapping[str, Number], colors: Sequence[str]) -> Bars:
    """A bar for each name, in its color."""
    heights = {(name, color): lengths[name] for name, color in zip(lengths, colors, strict=True)}
    height = max(140, 70 + 26 * len(lengths))
    return Bars(title, heights, {each: each for each in colors}, height=height, is_sideways=True)
