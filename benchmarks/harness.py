"""Run a benchmark row by row: print a table as it grows, keep a CSV with where it was measured."""

import csv
import json
import pathlib
import platform
from collections.abc import Iterable, Mapping, Sequence

import jax
from rich.console import Console
from rich.table import Table

import pann

Row = Mapping[str, object]


def machine() -> dict[str, str]:
    """What a reader needs to judge the times."""
    return {
        "pann": pann.__version__,
        "jax": jax.__version__,
        "python": platform.python_version(),
        "device": str(jax.devices()[0].device_kind),
    }


def run(
    name: str, title: str, rows: Iterable[Row], out: pathlib.Path, keys: Sequence[str] = ()
) -> list[Row]:
    """Collect the rows, write `out/name.csv` after each and `out/name.json` beside it.

    With `keys`, columns that name a row, the rows already there stay but for those run anew.
    """
    console = Console()
    console.rule(title)
    out.mkdir(parents=True, exist_ok=True)
    about = {"command": f"python -m benchmarks {name}", "title": title, **machine()}
    (out / f"{name}.json").write_text(json.dumps(about, indent=2) + "\n")
    collected = _read(out / f"{name}.csv") if keys else []
    has_rows = False
    for row in rows:
        has_rows = True
        _put(collected, row, keys)
        console.print(
            "  ".join(f"{key}={_text(value)}" for key, value in row.items()),
            highlight=False,
            soft_wrap=True,
        )
        _write(out / f"{name}.csv", collected)
    if not has_rows:
        raise SystemExit(f"'{name}' has no such row; leave out --only to run all of its rows")
    console.print(_table(collected))
    return collected


def missing(
    name: str, names: Sequence[str], out: pathlib.Path, keys: Sequence[str]
) -> Sequence[str]:
    """Which of a benchmark's rows are not in its CSV."""
    there = {" ".join(str(row[key]) for key in keys) for row in _read(out / f"{name}.csv")}
    left = [each for each in names if each not in there]
    if not left:
        raise SystemExit(f"'{name}' has all its rows; leave out --resume to run them anew")
    return left


def summarize(name: str, rows: Iterable[Row], out: pathlib.Path) -> None:
    """Print a table made of a benchmark's rows, and write it to `out/name.summary.csv`."""
    rows = list(rows)
    _write(out / f"{name}.summary.csv", rows)
    Console().print(_table(rows))


def _read(path: pathlib.Path) -> list[Row]:
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return [dict(row) for row in csv.DictReader(file)]


def _put(collected: list[Row], row: Row, keys: Sequence[str]) -> None:
    """In place of the row with the same keys, or at the end."""
    named = lambda row: [_text(row[key]) for key in keys]
    for number, old in enumerate(collected if keys else ()):
        if named(old) == named(row):
            collected[number] = row
            return
    collected.append(row)


def _write(path: pathlib.Path, rows: list[Row]) -> None:
    columns = list(dict.fromkeys(key for row in rows for key in row))
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        writer.writerows({key: _text(value) for key, value in row.items()} for row in rows)


def _text(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _table(rows: list[Row]) -> Table:
    columns = list(dict.fromkeys(key for row in rows for key in row))
    table = Table(*columns)
    for row in rows:
        table.add_row(*(_text(row.get(key, "")) for key in columns))
    return table
