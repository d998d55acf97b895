"""The paper's published figures: `load("poisson")` is its table of Poisson's equation.

A row of a frame is one cell of the printed table: the columns that say which, then `mean` and
`deviation` of the relative l2 error over the trials, then `seconds`. Figures are kept as printed,
misprints too; `doubt` says why one should not be trusted, after the name of the column that it is
about ("deviation: ..."), several reasons separated by "; ". A cell printed without a figure has
none here, and its reason there.

In the five tables of equations `model` is PL, PINN or PANN, and `base` what a network is or how it
is trained: plain, rff, gradnorm, modmlp or causal. `c_printed` is the row's label, and `c` what it
is read as: the tables of KdV and KS label the same rows in several ways, and the table of degrees
decides. Seconds are printed for the largest number of points only.

The paper writes Grey-Scott, and so do the files of the data and the records of runs, whose names
contain a hash of what they hold (`stored_name`). Readers meet the usual spelling, Gray-Scott.
"""

import csv
import dataclasses
import difflib
from importlib import resources
from typing import Any

Frame = Any  # pandas.DataFrame; pandas takes half a second to import

INTEGERS = {"width", "depth", "num_points", "dimension", "degree", "num_terms"}
FLOATS = {
    "c",
    "c_printed",
    "alpha",
    "constraint_weight",
    "mean",
    "deviation",
    "seconds",
    "seconds_deviation",
    "percent",
}
BOOLEANS = {"preconditioner"}


@dataclasses.dataclass(frozen=True)
class Exhibit:
    """A table, figure or text of the paper, its LaTeX label, and the data with its figures.

    Two exhibits may have the same data: the bars for Poisson's equation are some of its table.
    Where `data` is empty the paper prints no numbers, or only settings.
    """

    name: str
    kind: str
    label: str
    shows: str
    data: str


def _exhibits() -> tuple[Exhibit, ...]:
    text = resources.files("reproduction").joinpath("exhibits.csv").read_text("utf-8")
    rows = csv.DictReader(text.splitlines())
    columns = ("name", "kind", "label", "shows", "data")
    return tuple(Exhibit(*(row[each] for each in columns)) for row in rows)


# In the paper's order.
EXHIBITS = _exhibits()


def stored_name(name: str) -> str:
    """The name of an experiment or problem in records and files."""
    return name.replace("gray_scott", "grey_scott")


def shown_name(name: str) -> str:
    """The name of an experiment or problem as readers know it; both spellings are accepted."""
    return name.replace("grey_scott", "gray_scott")


def tables() -> tuple[str, ...]:
    """The names that `load` knows."""
    return tuple(dict.fromkeys(each.data for each in EXHIBITS if each.data))


def load(name: str) -> Frame:
    """The published figures of that name, a typed `pandas.DataFrame`; texts are never missing."""
    import pandas

    key = shown_name(name.lower().replace("-", "_"))
    if key not in tables():
        close = difflib.get_close_matches(key, tables(), 1)
        meant = f" (did you mean {close[0]}?)" if close else ""
        raise ValueError(
            f"there is no published table '{name}'{meant}; there are {', '.join(tables())}"
        )
    # Every figure is read with all its digits; an empty text stays empty.
    numbers = INTEGERS | FLOATS
    path = resources.files("reproduction").joinpath("data", f"{stored_name(key)}.csv")
    with path.open(encoding="utf-8") as file:
        frame = pandas.read_csv(file, dtype=str, keep_default_na=False)
    for column in frame.columns:
        if column in numbers:
            frame[column] = pandas.to_numeric(frame[column]).astype(
                "Int64" if column in INTEGERS else "float64"
            )
        elif column in BOOLEANS:
            frame[column] = frame[column] == "True"
    return frame


def is_missing(value: Any) -> bool:
    """Whether a frame has nothing there, in whichever way its column says so."""
    import pandas

    return bool(pandas.isna(value)) or value == ""
