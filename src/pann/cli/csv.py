"""Tables on disk: CSV and Parquet, read whole, every fault named by its column and line."""

import contextlib
import csv
import dataclasses
import difflib
import gzip
import importlib.util
import io
import itertools
import math
import os
import pathlib
import secrets
import shlex
import tempfile
import warnings
import zlib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float

Frame = Any  # pandas.DataFrame; pandas takes half a second to import

SUFFIXES = (".csv", ".tsv", ".txt", ".parquet")
COMPRESSION = ".gz"
MAX_LISTED = 20


@dataclasses.dataclass(frozen=True)
class Table:
    """The columns of a file as they were read, numbers or not."""

    path: pathlib.Path
    frame: Frame

    @property
    def columns(self) -> list[str]:
        return list(self.frame.columns)


def read_table(path: pathlib.Path) -> Table:
    """Read a table with named columns and at least one row."""
    suffix = _suffix(path)
    _check_is_file(path)
    with _faults(path):
        frame = _read_parquet(path) if suffix == ".parquet" else _read_text(path)
    if not len(frame):
        raise ValueError(f"{_name(path)} has column names but no rows; add some")
    return Table(path, frame)


def stem(path: pathlib.Path) -> str:
    """The file's name without its endings: data.csv.gz -> data."""
    return path.with_suffix("").stem if _is_compressed(path) else path.stem


# ---- Columns ----


def split_names(given: Sequence[str], table: Table) -> list[str]:
    """Names from repeated options; what is no column itself is split at its commas."""
    known = set(table.columns)
    names = itertools.chain.from_iterable(
        [name] if name in known else name.split(",") for name in given
    )
    return list(dict.fromkeys(name.strip() for name in names if name.strip()))


def check_columns(table: Table, names: Sequence[str], *, why: str = "") -> None:
    """Refuse names that the table does not have; say which were perhaps meant."""
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
        f"there is no column {_listed(missing)}{why} in {_name(table.path)}{meant}; "
        f"its columns are {_listed(table.columns)}"
    )


def numbers(table: Table, names: Sequence[str], *, cure: str) -> Frame:
    """The columns as a frame of finite float64; `cure` says what to do with one that is not.

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
        first = str(column.iloc[int(np.argmax(wrong))])
        given = first if len(first) <= 40 else f"{first[:37]}..."
        raise ValueError(
            f"column '{name}' holds {given!r} in {_place(table, wrong)}, which is no number; "
            f"encode the column as numbers, or {cure}"
        )
    for fault, rows in (("no value", missing), ("an infinite value", np.isinf(values))):
        if rows.any():
            more = f" and in {rows.sum() - 1:,} more rows" if rows.sum() > 1 else ""
            raise ValueError(
                f"column '{name}' has {fault} in {_place(table, rows)}{more}; fill in a number, "
                f"take such rows out, or {cure}"
            )
    return values


def _to_float(column: Any) -> Float[np.ndarray, " rows"]:
    """Numbers and booleans as floats; anything else, dates among it, as NaN."""
    import pandas

    if column.dtype.kind in "mM":
        return np.full(len(column), math.nan)
    try:
        return pandas.to_numeric(column, errors="coerce").to_numpy(float, na_value=math.nan)
    except (TypeError, ValueError):  # lists, complex numbers
        return np.full(len(column), math.nan)


def _place(table: Table, rows: Bool[np.ndarray, " rows"]) -> str:
    """Where the first of the rows stands in the file."""
    first = int(np.argmax(rows))
    if _suffix(table.path) == ".parquet":
        return f"row {first + 1} of {_name(table.path)}"
    with _faults(table.path), _opened(table.path) as file:
        records = _records(file, _separator(table.path))
        header = next(records)
        record = next(itertools.islice(records, first, None))
    # Fields that are not there read as missing values.
    if len(record.fields) < len(header.fields):
        raise ValueError(_ragged(table.path, record, len(header.fields)))
    return f"line {record.line} of {_name(table.path)}"


# ---- Reading ----


class _Record(NamedTuple):
    line: int
    fields: list[str]


def _read_text(path: pathlib.Path) -> Frame:
    import pandas

    separator = _separator(path)
    with _opened(path) as file:
        header = next(_records(file, separator), None)
    if header is None:
        raise ValueError(f"{_name(path)} is empty; the first line should name the columns")
    names = _checked_names(path, header.fields)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pandas.errors.ParserWarning)
            frame = pandas.read_csv(
                path,
                compression="gzip" if _is_compressed(path) else None,
                encoding="utf-8",
                sep=separator,
                header=0,
                names=names,
                index_col=False,
                skipinitialspace=True,
                low_memory=False,
            )
    except (pandas.errors.ParserError, pandas.errors.ParserWarning) as error:
        _raise_ragged(path, separator, len(names))
        reason = str(error).split("C error: ")[-1]
        raise ValueError(f"{_name(path)} is no table: {reason}; check its quotes") from None
    return frame.drop(columns=[""], errors="ignore")


def _checked_names(path: pathlib.Path, fields: list[str]) -> list[str]:
    """The names of the columns; a first one without name, a saved index, stays empty."""
    names = [field.strip() for field in fields]
    if all(is_number(name) for name in names):
        raise ValueError(
            f"the first line of {_name(path)} has numbers where the names of the columns should "
            "be; put a line with names before it"
        )
    for position, name in enumerate(names):
        if position and not name:
            raise ValueError(
                f"column {position + 1} of {_name(path)} has no name in the first line; give it one"
            )
        if name in names[:position]:
            raise ValueError(
                f"{_name(path)} has two columns named '{name}'; rename or remove one of them"
            )
    if not names[0]:
        warnings.warn(
            f"the first column of {_name(path)} has no name and is taken for row numbers; it is "
            "left out",
            stacklevel=2,
        )
    return names


def _read_parquet(path: pathlib.Path) -> Frame:
    if importlib.util.find_spec("pyarrow") is None:
        raise ValueError(
            f"to read {_name(path)}, pyarrow is needed: pip install pyarrow; or save it as .csv"
        )
    import pandas
    import pyarrow

    try:
        frame = pandas.read_parquet(path)
    except pyarrow.ArrowException as error:
        raise ValueError(f"{_name(path)} is no usable Parquet file: {error}") from None
    frame.columns = [str(column) for column in frame.columns]
    repeated = frame.columns[frame.columns.duplicated()]
    if len(repeated):
        raise ValueError(
            f"{_name(path)} has two columns named '{repeated[0]}'; rename or remove one of them"
        )
    return frame.reset_index(drop=True)


def _raise_ragged(path: pathlib.Path, separator: str, num_columns: int) -> None:
    """Name the first line with more fields than there are columns, if there is one."""
    with _opened(path) as file:
        for record in _records(file, separator):
            if len(record.fields) > num_columns:
                raise ValueError(_ragged(path, record, num_columns))


def _ragged(path: pathlib.Path, record: _Record, num_columns: int) -> str:
    return (
        f"line {record.line} of {_name(path)} has {len(record.fields)} fields, but the first line "
        f"names {num_columns} columns; mend that line"
    )


def _records(file: io.TextIOWrapper, separator: str) -> Iterator[_Record]:
    """The records that pandas sees, with the line that each begins in."""
    reader = csv.reader(file, delimiter=separator, skipinitialspace=True)
    line = 1
    for fields in reader:
        if any(field.strip() for field in fields) or len(fields) > 1:
            yield _Record(line, fields)
        line = reader.line_num + 1


def _separator(path: pathlib.Path) -> str:
    if _suffix(path) == ".tsv":
        return "\t"
    with _opened(path) as file:
        first = file.readline()
    return next((separator for separator in ",;\t" if separator in first), ",")


@contextlib.contextmanager
def _opened(path: pathlib.Path) -> Iterator[io.TextIOWrapper]:
    """The file as text, unpacked where it is compressed."""
    opener: Any = gzip.open if _is_compressed(path) else open
    with opener(path, "rb") as raw:
        if b"\0" in raw.read(2**16):
            raise ValueError(
                f"{_name(path)} holds zero bytes, so that it is no text in UTF-8; save it as CSV "
                "in UTF-8"
            )
        raw.seek(0)
        with io.TextIOWrapper(raw, "utf-8-sig", newline="") as text:
            yield text


@contextlib.contextmanager
def _faults(path: pathlib.Path) -> Iterator[None]:
    """Whatever readers raise over a file's bytes becomes one sentence."""
    try:
        yield
    except UnicodeDecodeError as error:
        byte = error.object[error.start]
        raise ValueError(
            f"{_name(path)} is not text in UTF-8, for it holds the byte 0x{byte:02x}; save it as "
            "CSV in UTF-8"
        ) from None
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise ValueError(f"{_name(path)} is no whole gzip file; get a fresh copy") from None
    except csv.Error as error:
        raise ValueError(f"{_name(path)} is no table of text: {error}") from None


def _is_compressed(path: pathlib.Path) -> bool:
    return path.suffix.lower() == COMPRESSION


def _suffix(path: pathlib.Path) -> str:
    suffix = pathlib.Path(path.name.lower().removesuffix(COMPRESSION)).suffix
    suffix = ".parquet" if suffix == ".pq" else suffix
    if suffix not in SUFFIXES:
        raise ValueError(
            f"{_name(path)} does not end in {', '.join(SUFFIXES[:-1])} (also with .gz) or "
            f"{SUFFIXES[-1]}, which are the tables that pann reads"
        )
    return suffix


def _check_is_file(path: pathlib.Path) -> None:
    if path.is_dir():
        raise ValueError(f"{_name(path)} is a folder; name a file in it")
    if not path.exists():
        raise ValueError(f"there is no file {_name(path)}; check the name and the folder")
    if not path.is_file():
        raise ValueError(f"{_name(path)} is not a regular file; save the table to one first")


# ---- Writing ----


def check_writable(path: pathlib.Path) -> None:
    """Find out before the work whether a file can be written there."""
    if path.is_dir():
        raise ValueError(f"{_name(path)} is a folder; name a file in it")
    folder = path.parent
    if not folder.is_dir():
        raise ValueError(f"there is no folder {_name(folder)} to write to; create it first")
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ValueError(f"cannot write to the folder {_name(folder)}: {reason}") from None


def write_csv(path: pathlib.Path, frame: Frame) -> None:
    """Write all at once: whoever looks sees the old file or the whole new one."""
    target = pathlib.Path(os.path.realpath(path))
    temporary = target.parent / f".pann-{secrets.token_hex(8)}.tmp"
    try:
        with open(temporary, "x", encoding="utf-8", newline="") as file:
            frame.to_csv(file, index=False)
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


# ---- Words ----


def is_number(text: str) -> bool:
    """Whether a text is one that `float` reads."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def _name(path: pathlib.Path) -> str:
    return f"'{path}'"


def _listed(names: Any, separator: str = ", ") -> str:
    names = list(names)
    listed = separator.join(f"'{name}'" for name in names[:MAX_LISTED])
    left = len(names) - MAX_LISTED
    return f"{listed} and {left:,} more" if left > 0 else listed
