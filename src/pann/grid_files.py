"""Grids of runs in TOML: what to solve or fit, with which options, and which values to cross.

    solve = "allen_cahn"      # or fit = "houses.csv"

    [fixed]
    points = 1024

    [grid]
    degree = [8, 12]
    width = [0, 16]

are four rows. Everything is checked before anything runs; what is not known is refused by name.
"""

import dataclasses
import itertools
import math
import pathlib
import re
import tomllib
from collections.abc import Mapping
from typing import Any

from pann.command_options import choice
from pann.files.checks import shown
from pann.grid_options import OPTIONS
from pann.grid_work import content_hash, posed, source_of
from pann.problem_files import SUFFIX, opened
from pann.runs import Row

KEYS = ("solve", "fit", "name", "fixed", "grid")
WORKS = {"solve": "pann.grid_work:solve_row", "fit": "pann.grid_work:fit_row"}
MAX_ROWS = 100_000


@dataclasses.dataclass(frozen=True)
class Grid:
    """Rows for `sweep`, the work that runs them, and the options in which they differ."""

    name: str
    kind: str
    rows: list[Row]
    crossed: tuple[str, ...]

    @property
    def work(self) -> str:
        return WORKS[self.kind]


def read_grid(path: pathlib.Path) -> Grid:
    """The rows of a grid file; paths in it are those beside the file."""
    try:
        given = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ValueError(f"there is no file '{path}'; it should be a grid in TOML") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"'{path}' is no TOML: {error}") from None
    try:
        return _grid(given, path)
    except ValueError as error:
        raise ValueError(f"'{path}': {error}") from error


def _grid(given: dict[str, Any], path: pathlib.Path) -> Grid:
    for key in given:
        choice("key", key, KEYS)
    kinds = [kind for kind in WORKS if kind in given]
    if len(kinds) != 1:
        raise ValueError(
            "a grid has either solve, a problem's name or Python file, or fit, a table's file; "
            f"this has {'both' if kinds else 'neither'}"
        )
    kind = kinds[0]
    fixed = {key: _value(kind, key, value) for key, value in _table(given, "fixed").items()}
    crossed = {key: _values(kind, key, value) for key, value in _table(given, "grid").items()}
    for key in crossed:
        if key in fixed:
            raise ValueError(f"{key} stands in [fixed] and in [grid]; leave it in one of them")
    num_rows = math.prod(len(values) for values in crossed.values())
    if num_rows > MAX_ROWS:
        raise ValueError(f"these are {num_rows:,} runs, of at most {MAX_ROWS:,}; cross fewer")
    name = given.get("name", re.sub(r"[^A-Za-z0-9_.-]", "_", path.stem).lstrip(".-") or "grid")
    if not isinstance(name, str):
        raise ValueError(f"name must be a text, got {shown(name)}")
    what = _what(kind, given[kind], path.parent)
    rows = [
        Row(name, {**what, **fixed, **dict(zip(crossed, values, strict=True))})
        for values in itertools.product(*crossed.values())
    ]
    _check_inputs(kind, rows)
    return Grid(name, kind, list(dict.fromkeys(rows)), tuple(crossed))


def _table(given: Mapping[str, Any], key: str) -> dict[str, Any]:
    table = given.get(key, {})
    if not isinstance(table, dict):
        raise ValueError(f"{key} must be a table, [{key}], got {shown(table)}")
    return {name.replace("-", "_"): value for name, value in table.items()}


def _value(kind: str, key: str, value: Any) -> Any:
    options = OPTIONS[kind]
    choice(f"option of pann {kind}", key, tuple(options))
    return options[key](key, value)


def _values(kind: str, key: str, values: Any) -> list[Any]:
    choice(f"option of pann {kind}", key, tuple(OPTIONS[kind]))
    if not isinstance(values, list) or not values:
        raise ValueError(
            f"{key} in [grid] must be a list of values to cross, got {shown(values)}; a value that "
            "all runs share belongs into [fixed]"
        )
    return [_value(kind, key, value) for value in values]


# ---- What the rows work on ----


def _what(kind: str, given: Any, folder: pathlib.Path) -> dict[str, Any]:
    """The problem's name, or a file by its path and a hash of its content: all that identifies."""
    if not isinstance(given, str) or not given:
        raise ValueError(f"{kind} must be a text, got {shown(given)}")
    key = "problem" if kind == "solve" else "table"
    if kind == "solve" and not given.endswith(SUFFIX):
        with opened(given):
            return {key: given.lower().replace("-", "_")}
    file = (folder / given).resolve()
    return {key: str(file), "sha256": content_hash(file)}


def _check_inputs(kind: str, rows: list[Row]) -> None:
    """Open what the rows will open, so that what is wrong with it is told now, and once."""
    keys = ("faithful",) if kind == "solve" else ("target", "drop", "test_fraction")
    distinct = {str([row.configuration.get(key) for key in keys]): row for row in rows}
    for row in distinct.values():
        if kind == "solve":
            with posed(row.configuration):
                continue
        from pann.table_commands import read_split

        read_split(source_of(row.configuration))
