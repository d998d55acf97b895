"""What a page is made of: sections of tables, plots, facts and notes, and details behind links.

All texts are plain; the template escapes them.
"""

import dataclasses
from typing import Any, ClassVar

# By how much a figure is below (-) or above (+) the one it is compared with, in three steps.
Shade = int
MAX_SHADE = 3


@dataclasses.dataclass(frozen=True)
class Value:
    """A cell of a table: its text, what it is sorted by if not by that, and where it leads.

    `run` is the identity of a detail, `anchor` that of a section; `mark` is a symbol before the
    text, `note` what it means in words, for a shade alone says nothing to many.
    """

    text: str
    order: float | int | None = None
    run: str = ""
    anchor: str = ""
    mark: str = ""
    shade: Shade | None = None
    note: str = ""


@dataclasses.dataclass(frozen=True)
class Column:
    """A heading; the texts of a wide column are broken into lines."""

    title: str
    is_number: bool = False
    is_wide: bool = False
    note: str = ""


@dataclasses.dataclass(frozen=True)
class Table:
    """Lines under headings, which the reader can sort and, if there are many, filter."""

    kind: ClassVar[str] = "table"
    caption: str
    columns: tuple[Column, ...]
    lines: tuple[tuple[Value, ...], ...]


@dataclasses.dataclass(frozen=True)
class Plot:
    """A figure of Plotly's, as JSON, and what it says to those who do not see it."""

    title: str
    figure: dict[str, Any]
    height: int = 280


@dataclasses.dataclass(frozen=True)
class Key:
    """A line of a legend: color and stroke or marker, as in the plots."""

    label: str
    color: str
    dash: str = "solid"
    symbol: str = ""
    is_bar: bool = False


@dataclasses.dataclass(frozen=True)
class Panels:
    """Plots side by side where there is room, with one legend for all."""

    kind: ClassVar[str] = "panels"
    title: str
    plots: tuple[Plot, ...]
    keys: tuple[Key, ...] = ()
    note: str = ""


@dataclasses.dataclass(frozen=True)
class Facts:
    """Names and values; those of a folded list are a click away."""

    kind: ClassVar[str] = "facts"
    title: str
    pairs: tuple[tuple[str, str], ...]


@dataclasses.dataclass(frozen=True)
class Note:
    """A paragraph."""

    kind: ClassVar[str] = "note"
    text: str


@dataclasses.dataclass(frozen=True)
class Folded:
    """Lines of text that are a click away."""

    kind: ClassVar[str] = "folded"
    title: str
    lines: tuple[str, ...]
    is_code: bool = False


Block = Table | Panels | Facts | Note | Folded


@dataclasses.dataclass(frozen=True)
class Section:
    """A part of the page; in the contents it has its `short` title and `badge` under a `group`."""

    anchor: str
    title: str
    lead: str
    blocks: tuple[Block, ...]
    short: str = ""
    badge: str = ""
    group: str = ""


@dataclasses.dataclass(frozen=True)
class Detail:
    """What a link to a run opens."""

    identity: str
    title: str
    lead: str
    blocks: tuple[Block, ...]


@dataclasses.dataclass(frozen=True)
class Tile:
    """A figure to see first."""

    figure: str
    label: str
    note: str = ""


@dataclasses.dataclass(frozen=True)
class Page:
    title: str
    lead: str
    tiles: tuple[Tile, ...]
    sections: tuple[Section, ...]
    details: tuple[Detail, ...] = ()
    footer: str = ""
