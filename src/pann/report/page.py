"""What a page is made of: sections of tables, charts, facts and notes, and details behind links.

All texts are plain; the template escapes them.
"""

import dataclasses
from collections.abc import Sequence
from typing import ClassVar

from pann.report.charts import Panels

MAX_SHADE = 3


@dataclasses.dataclass(frozen=True)
class Value:
    """A cell of a table: its text, the number to sort by if any, and the target of its link.

    `run` is the identity of a detail, `anchor` that of a section. `mark` is a symbol before the
    text and `note` says what it means. `shade` colors the cell by how far it is below (-1 to -3)
    or above (1 to 3) the figure it is compared with; a color alone says nothing to many readers.
    """

    text: str
    order: float | int | None = None
    run: str = ""
    anchor: str = ""
    mark: str = ""
    shade: int | None = None
    note: str = ""


@dataclasses.dataclass(frozen=True)
class Column:
    """A heading with a note; the texts of a wide column wrap."""

    title: str
    note: str = ""
    is_wide: bool = False


@dataclasses.dataclass(frozen=True)
class Table:
    """Rows under headings, which the reader can sort and, if there are many, filter."""

    kind: ClassVar[str] = "table"
    caption: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Value]]

    def have_numbers(self) -> list[bool]:
        """Whether all that a column has are numbers, which stand to the right; for each column."""
        columns = [[row[k] for row in self.rows if row[k].text] for k in range(len(self.columns))]
        return [bool(of) and all(each.order is not None for each in of) for of in columns]


@dataclasses.dataclass(frozen=True)
class Facts:
    """Names and values."""

    kind: ClassVar[str] = "facts"
    title: str
    pairs: Sequence[tuple[str, str]]


@dataclasses.dataclass(frozen=True)
class Note:
    """A paragraph."""

    kind: ClassVar[str] = "note"
    text: str


@dataclasses.dataclass(frozen=True)
class Folded:
    """Lines of text that a click opens."""

    kind: ClassVar[str] = "folded"
    title: str
    lines: Sequence[str]
    is_code: bool = False


Block = Table | Panels | Facts | Note | Folded


@dataclasses.dataclass(frozen=True)
class Section:
    """A part of the page, listed in the contents by `short` title and `badge` under its `group`."""

    anchor: str
    title: str
    lead: str
    blocks: Sequence[Block]
    short: str = ""
    badge: str = ""
    group: str = ""


@dataclasses.dataclass(frozen=True)
class Detail:
    """The details of a run, which a link opens."""

    identity: str
    title: str
    lead: str
    blocks: Sequence[Block]


@dataclasses.dataclass(frozen=True)
class Tile:
    """A number at the top of the page."""

    figure: str
    label: str
    note: str = ""


@dataclasses.dataclass(frozen=True)
class Page:
    """A whole page."""

    title: str
    lead: str
    tiles: Sequence[Tile]
    sections: Sequence[Section]
    details: Sequence[Detail] = ()
    footer: str = ""
