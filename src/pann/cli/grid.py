"""Grids of runs in TOML: what to solve or fit, with which options, and which values to cross.

    solve = "allen_cahn"      # or fit = "houses.csv"

    [fixed]
    method = "hybrid"
    points = 1024

    [grid]
    degree = [8, 12]
    width = [8, 16]

are four rows. Options are those of the methods and of the run (`pann solve --help`), or those of
`PANNRegressor`. Everything is checked before anything runs; what is not known is refused by name.
"""

import contextlib
import dataclasses
import hashlib
import itertools
import math
import pathlib
import re
import tomllib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pann.cli.options import (
    AUTO,
    choose_method,
    method_options,
    run_options,
    table_options,
)
from pann.cli.problem_files import SUFFIX, opened
from pann.io.checks import shown
from pann.methods import OF_VERB, Option, RunOptions
from pann.methods.options import Choice, Flag, Real, Texts, choose
from pann.pde import Problem
from pann.runs import Result, Row
from pann.runs.excerpt import fields_of, figures_of
from pann.runtime.atomic import reason
from pann.solvers.solve import solve_run

if TYPE_CHECKING:
    from pann.cli.tables import Source

KEYS = ("solve", "fit", "name", "fixed", "grid")
WORKS = {"solve": "pann.cli.grid:solve_row", "fit": "pann.cli.grid:fit_row"}
MAX_ROWS = 100_000
# What a record does not keep of a fit's report, for it has it elsewhere or no use for it.
NOT_KEPT = ("command", "rows", "features", "targets", "leading_terms", "seconds", "file")


def grid_options(kind: str) -> dict[str, Option]:
    """The options that a grid may set, by name."""
    if kind == "solve":
        own = [Option("faithful", False, "as the paper poses it", Flag())]
        own.append(Option("method", None, "name of the method", Choice(OF_VERB["solve"])))
        return {each.name: each for each in own} | run_options("solve") | method_options("solve")
    own = [
        Option("target", None, "columns to predict", Texts()),
        Option("drop", None, "columns to leave out", Texts()),
        Option("test_fraction", None, "of the rows", Real(least=0.0, below=1.0)),
    ]
    return {each.name: each for each in own} | table_options()


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

    def settings(self, row: Row) -> dict[str, Any]:
        """The options of a row in which others differ from it."""
        return {name: row.configuration[name] for name in self.crossed}


def read_grid(path: pathlib.Path) -> Grid:
    """The rows of a grid file; paths in it are relative to the file."""
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
        choose("key", key, KEYS)
    kinds = [kind for kind in WORKS if kind in given]
    if len(kinds) != 1:
        raise ValueError(
            "a grid has either solve, a problem's name or Python file, or fit, a table's file; "
            f"this has {'both' if kinds else 'neither'}"
        )
    kind = kinds[0]
    fixed, crossed = _table(given, "fixed"), _table(given, "grid")
    options = grid_options(kind)
    for key in (*fixed, *crossed):
        choose(f"option of pann {kind}", key, tuple(options))
    for key, values in crossed.items():
        if key in fixed:
            raise ValueError(f"{key} stands in [fixed] and in [grid]; leave it in one of them")
        if not isinstance(values, list) or not values:
            raise ValueError(
                f"{key} in [grid] must be a list of values to cross, got {shown(values)}; a value "
                "that all runs share belongs into [fixed]"
            )
    # Rows have the values as they are in the file.
    for key, values in (crossed | {key: [value] for key, value in fixed.items()}).items():
        for value in values:
            if value != AUTO:
                options[key].check(value)
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
    _check_rows(kind, rows)
    return Grid(name, kind, list(dict.fromkeys(rows)), tuple(crossed))


def _table(given: Mapping[str, Any], key: str) -> dict[str, Any]:
    table = given.get(key, {})
    if not isinstance(table, dict):
        raise ValueError(f"{key} must be a table, [{key}], got {shown(table)}")
    return {name.replace("-", "_"): value for name, value in table.items()}


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


def _check_rows(kind: str, rows: list[Row]) -> None:
    """Open what the rows will open, so that what is wrong with it is said now, and once."""
    keys = ("faithful",) if kind == "solve" else ("target", "drop", "test_fraction")
    distinct = {str([row.configuration.get(key) for key in keys]): row for row in rows}
    for row in distinct.values():
        if kind == "solve":
            with posed(row.configuration):
                pass
        else:
            from pann.cli.tables import read_split

            read_split(source_of(row.configuration))
    for row in rows if kind == "solve" else ():
        solve_options(row.configuration)


def posed(configuration: Mapping[str, Any]) -> contextlib.AbstractContextManager[Problem]:
    """The problem that a row is about."""
    given = _given(grid_options("solve"), configuration)
    return opened(configuration["problem"], faithful=given.get("faithful", False))


def solve_options(configuration: Mapping[str, Any]) -> tuple[Any, RunOptions]:
    """The method and the run of a row."""
    name = _given(grid_options("solve"), configuration).get("method")
    method = choose_method(name, _given(method_options("solve"), configuration), "solve")
    return method, RunOptions(**_given(run_options("solve"), configuration))


def _given(options: Mapping[str, Option], configuration: Mapping[str, Any]) -> dict[str, Any]:
    """The options that a row sets."""
    return {
        name: option.check(configuration[name])
        for name, option in options.items()
        if configuration.get(name, AUTO) != AUTO
    }


def solve_row(configuration: Mapping[str, Any], scratch: pathlib.Path) -> Result:
    """Solve the problem as the row says; what was killed goes on from its checkpoint."""
    _check_unchanged(configuration, "problem")
    method, run = solve_options(configuration)
    with posed(configuration) as problem:
        solution = solve_run(problem, method, run, out=scratch, resume=True)
    report = solution.report
    return Result(
        {
            **figures_of(solution),
            "field_errors": report.field_errors,
            "stop": report.stop,
            "solve_seconds": report.seconds,
            "trials": report.trials,
            "history": report.history,
        },
        fields_of(solution),
    )


def fit_row(configuration: Mapping[str, Any], scratch: pathlib.Path) -> Result:
    """Fit the table as the row says, and test the model on the rows kept from the fit."""
    from pann.cli.tables import fit_file

    _check_unchanged(configuration, "table")
    given = _given(table_options(), configuration)
    given.pop("seed", None)  # the source has it
    report = fit_file(source_of(configuration), given, scratch / "model.pann")
    figures = {name: value for name, value in report.items() if name not in NOT_KEPT}
    return Result({**figures, "fit_seconds": report["seconds"]})


def source_of(configuration: Mapping[str, Any]) -> "Source":
    """The table, and what of it is for what."""
    from pann.cli.tables import Source

    if "target" not in configuration:
        raise ValueError('a fit needs a target; name the column, target = "..." in [fixed]')
    given = _given(grid_options("fit"), configuration)
    return Source(
        pathlib.Path(configuration["table"]),
        # A column may be called "auto".
        Texts().check("target", configuration["target"]),
        Texts().check("drop", configuration.get("drop", ())),
        given.get("test_fraction", 0.1),
        given.get("seed", 0),
    )


def _check_unchanged(configuration: Mapping[str, Any], key: str) -> None:
    """A row is known by its file's content: another content is another row."""
    if "sha256" not in configuration:
        return
    if content_hash(pathlib.Path(configuration[key])) != configuration["sha256"]:
        raise ValueError(
            f"'{configuration[key]}' has changed since the sweep was started; start it again"
        )


def content_hash(file: pathlib.Path) -> str:
    try:
        with file.open("rb") as content:
            return hashlib.file_digest(content, "sha256").hexdigest()
    except OSError as error:
        raise ValueError(f"cannot read '{file}': {reason(error)}") from None
