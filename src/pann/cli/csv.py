"""Tables on disk: CSV and Parquet as data frames, every fault with its file, column and line."""

import contextlib
import csv
import dataclasses
import difflib
import gzip
import importlib.util
import io
import itertools
import math
import pathlib
import re
import shlex
import warnings
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from pann.runtime.atomic import write_atomically

Frame = Any  # pandas.DataFrame; pandas takes half a second to import

SUFFIXES = (".csv", ".tsv", ".txt", ".parquet")
COMPRESSION = ".gz"
MAX_LISTED = 20


@dataclasses.dataclass(frozen=True)
class Table:
    """The columns of a file as they were read, numbers or not; no separator for Parquet."""

    path: pathlib.Path
    frame: Frame
    separator: str | None = None

    @property
    def columns(self) -> list[str]:
        return list(self.frame.columns)


def read_table(path: pathlib.Path) -> Table:
    """Read a table with named columns and at least one row."""
    suffix = _suffix(path)
    if path.is_dir():
        raise ValueError(f"'{path}' is a folder; name a file in it")
    if not path.exists():
        raise ValueError(f"there is no file '{path}'; check the name and the folder")
    if not path.is_file():
        raise ValueError(f"'{path}' is not a regular file; save the table to one first")
    with _one_sentence(path):
        table = _read_parquet(path) if suffix == ".parquet" else _read_text(path)
    if not len(table.frame):
        raise ValueError(f"'{path}' has column names but no rows; add some")
    return table


def stem(path: pathlib.Path) -> str:
    """The file's name without its endings: data.csv.gz -> data."""
    return path.with_suffix("").stem if _is_compressed(path) else path.stem


def write_csv(path: pathlib.Path, frame: Frame) -> None:
    """Write all at once: a reader sees the old file or the whole new one."""
    # The ending of the name tells pandas whether to compress.
    save = lambda temporary: frame.to_csv(temporary, index=False)
    write_atomically(path, save, suffix=path.suffix)


# ---- Columns ----


def split_names(given: Sequence[str], table: Table) -> list[str]:
    """Names from repeated options; one that is not a column is split at its commas."""
    known = set(table.columns)
    names = itertools.chain.from_iterable(
        [name] if name in known else name.split(",") for name in given
    )
    return list(dict.fromkeys(name.strip() for name in names if name.strip()))


def check_columns(table: Table, names: Sequence[str], *, why: str = "") -> None:
    """Refuse names that the table does not have, and suggest similar ones."""
    missing = [name for name in names if name not in table.columns]
    if not missing:
        return
    by_lower = {column.lower(): column for column in table.columns}
    close = [
        by_lower[match]
        for name in missing
        for match in difflib.get_close_matches(name.lower(), by_lower, 2, 0.6)
    ]
    meant = f" (did you mean {_listed(dict.fromkeys(close), ' or ')}?)" if close else ""
    raise ValueError(
        f"there is no column {_listed(missing)}{why} in '{table.path}'{meant}; "
        f"its columns are {_listed(table.columns)}"
    )


def _listed(names: Any, separator: str = ", ") -> str:
    names = list(names)
    listed = separator.join(f"'{name}'" for name in names[:MAX_LISTED])
    left = len(names) - MAX_LISTED
    return f"{listed} and {left:,} more" if left > 0 else listed


def numbers(table: Table, names: Sequence[str], *, cure: str) -> Frame:
    """The columns as a frame of finite float64; `cure` says what to do with a column that is not.

    In `cure`, {column} stands for the column's name as one would type it in a shell.
    """
    import pandas

    columns = {name: _finite(table, name, cure) for name in names}
    return pandas.DataFrame(columns, columns=list(names))


def _finite(table: Table, name: str, cure: str) -> Float[np.ndarray, " rows"]:
    """One column as numbers. Booleans count as 0 and 1."""
    column = table.frame[name]
    missing = column.isna().to_numpy(bool)
    values = _to_float(column)
    cure = cure.format(column=shlex.quote(name))
    wrong = np.isnan(values) & ~missing
    if wrong.any():
        row = int(np.argmax(wrong))
        first = str(column.iloc[row])
        given = first if len(first) <= 40 else f"{first[:37]}..."
        raise ValueError(
            f"column '{name}' has {given!r} in {_location(table, row)}, which is not a number; "
            f"encode the column as numbers, or {cure}"
        )
    for fault, rows in (("no value", missing), ("an infinite value", np.isinf(values))):
        if rows.any():
            more = f" and in {rows.sum() - 1:,} more rows" if rows.sum() > 1 else ""
            raise ValueError(
                f"column '{name}' has {fault} in {_location(table, int(np.argmax(rows)))}{more}; "
                f"fill in a number, remove such rows, or {cure}"
            )
    return values


def _to_float(column: Any) -> Float[np.ndarray, " rows"]:
    """Numbers and booleans as floats; anything else, such as dates, as NaN."""
    import pandas

    if column.dtype.kind in "mM":
        return np.full(len(column), math.nan)
    try:
        return pandas.to_numeric(column, errors="coerce").to_numpy(float, na_value=math.nan)
    except (TypeError, ValueError):  # lists, complex numbers
        return np.full(len(column), math.nan)


def _location(table: Table, row: int) -> str:
    """Where a row is in the file."""
    if table.separator is None:
        return f"row {row + 1} of '{table.path}'"
    with _one_sentence(table.path), _opened(table.path) as file:
        line, _ = next(itertools.islice(_records(file, table.separator), row + 1, None))
    return f"line {line} of '{table.path}'"


# ---- Reading ----


def _read_text(path: pathlib.Path) -> Table:
    import pandas

    with _opened(path) as file:
        start = file.read(2**16)
        if "\0" in start:
            raise ValueError(
                f"'{path}' contains zero bytes, so it is not text in UTF-8; save it as CSV in UTF-8"
            )
        separator, decimal = _dialect(path, start)
        file.seek(0)
        _, fields = next(_records(file, separator), (0, None))
    if fields is None:
        raise ValueError(f"'{path}' is empty; the first line should name the columns")
    names = _checked_names(path, fields)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pandas.errors.ParserWarning)
            frame = pandas.read_csv(
                path,
                encoding="utf-8",
                sep=separator,
                decimal=decimal,
                header=0,
                names=names,
                index_col=False,
                skipinitialspace=True,
                low_memory=False,
            )
    except pandas.errors.ParserWarning:  # of values that would be lost
        raise ValueError(
            f"the rows of '{path}' have more fields than the {len(names)} that its first line "
            "names; name them all, or remove the others"
        ) from None
    except pandas.errors.ParserError as error:
        reason = str(error).split("C error: ")[-1].strip()
        raise ValueError(
            f"'{path}' is not a table: {reason}; correct that line, or its quotes"
        ) from None
    return Table(path, frame.drop(columns=[""], errors="ignore"), separator)


def _dialect(path: pathlib.Path, start: str) -> tuple[str, str]:
    """The separator and the decimal mark, from the start of a file.

    In 1,5;2,5 the comma is the decimal mark. It is not where some field has a decimal point, nor
    where all commas are before three digits, as in 1,234, which could be a thousand.
    """
    first = start.split("\n", 1)[0]
    separator = next((mark for mark in ",;\t" if mark in first), ",")
    if _suffix(path) == ".tsv":
        separator = "\t"
    if separator == ",":
        return separator, "."
    fields = [field.strip(' "') for field in re.split(rf"[{separator}\r\n]", start)]
    exist = lambda pattern: any(re.fullmatch(pattern, field) for field in fields)
    commas = exist(r"[+-]?(0,\d+|\d*,(\d\d?|\d{4,}))(e[+-]?\d+)?")
    return separator, "," if commas and not exist(r"[+-]?\d*\.\d+(e[+-]?\d+)?") else "."


def _checked_names(path: pathlib.Path, fields: list[str]) -> list[str]:
    """The names of the columns; a first one without name, a saved index, stays empty."""
    names = [field.strip() for field in fields]
    if all(map(_is_number, names)):
        raise ValueError(
            f"the first line of '{path}' has numbers where the names of the columns should "
            "be; put a line with names before it"
        )
    if "" in names[1:]:
        number = names.index("", 1) + 1
        raise ValueError(f"column {number} of '{path}' has no name in the first line; give it one")
    _check_distinct(path, names)
    if not names[0]:
        warnings.warn(
            f"the first column of '{path}' has no name and is taken for row numbers; it is left "
            "out",
            stacklevel=2,
        )
    return names


def _check_distinct(path: pathlib.Path, names: list[str]) -> None:
    repeated = [name for number, name in enumerate(names) if name in names[:number]]
    if repeated:
        raise ValueError(
            f"'{path}' has two columns named '{repeated[0]}'; rename or remove one of them"
        )


def _read_parquet(path: pathlib.Path) -> Table:
    if importlib.util.find_spec("pyarrow") is None:
        raise ValueError(
            f"to read '{path}', pyarrow is needed: pip install pyarrow; or save it as .csv"
        )
    import pandas
    import pyarrow

    try:
        frame = pandas.read_parquet(path)
    except pyarrow.ArrowException as error:
        raise ValueError(f"'{path}' is not a usable Parquet file: {error}") from None
    frame.columns = [str(column) for column in frame.columns]
    _check_distinct(path, list(frame.columns))
    return Table(path, frame.reset_index(drop=True))


def _records(file: io.TextIOWrapper, separator: str) -> Iterator[tuple[int, list[str]]]:
    """The records that pandas sees: the line that each begins in, and its fields."""
    reader = csv.reader(file, delimiter=separator, skipinitialspace=True)
    line = 1
    for fields in reader:
        if any(field.strip() for field in fields) or len(fields) > 1:
            yield line, fields
        line = reader.line_num + 1


def _opened(path: pathlib.Path) -> io.TextIOWrapper:
    opener: Any = gzip.open if _is_compressed(path) else open
    return opener(path, "rt", encoding="utf-8-sig", newline="")


@contextlib.contextmanager
def _one_sentence(path: pathlib.Path) -> Iterator[None]:
    """What readers raise about a file's bytes becomes one sentence."""
    try:
        yield
    except UnicodeDecodeError as error:
        byte = error.object[error.start]
        raise ValueError(
            f"'{path}' is not text in UTF-8: it contains the byte 0x{byte:02x}; save it as CSV in "
            "UTF-8"
        ) from None
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise ValueError(f"'{path}' is not a complete gzip file; get a new copy") from None
    except csv.Error as error:
        raise ValueError(f"'{path}' is not a table of text: {error}") from None


def _is_compressed(path: pathlib.Path) -> bool:
    return path.suffix.lower() == COMPRESSION


def _suffix(path: pathlib.Path) -> str:
    suffix = pathlib.Path(path.name.lower().removesuffix(COMPRESSION)).suffix
    suffix = ".parquet" if suffix == ".pq" else suffix
    if suffix not in SUFFIXES:
        raise ValueError(
            f"'{path}' does not end in {', '.join(SUFFIXES[:-1])} (also with .gz) or "
            f"{SUFFIXES[-1]}, which are the tables that pann reads"
        )
    return suffix


def _is_number(text: str) -> bool:
    """Whether `float` accepts a text."""
    try:
        float(text)
    except ValueError:
        return False
    return True
