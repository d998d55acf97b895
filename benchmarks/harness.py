"""Run a benchmark row by row: print a table as it grows, keep a CSV with where it was measured."""

import csv
import json
import pathlib
import platform
from collections.abc import Iterable, Mapping

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


def run(name: str, title: str, rows: Iterable[Row], out: pathlib.Path) -> list[Row]:
    """Collect the rows, write `out/name.csv` after each and `out/name.json` beside it."""
    console = Console()
    console.rule(title)
    out.mkdir(parents=True, exist_ok=True)
    about = {"command": f"python -m benchmarks {name}", "title": title, **machine()}
    (out / f"{name}.json").write_text(json.dumps(about, indent=2) + "\n")
    collected: list[Row] = []
    for row in rows:
        collected.append(row)
        console.print(
            "  ".join(f"{key}={_text(value)}" for key, value in row.items()),
            highlight=False,
            soft_wrap=True,
        )
        _write(out / f"{name}.csv", collected)
    console.print(_table(collected))
    return collected


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
