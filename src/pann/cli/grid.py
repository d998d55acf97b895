"""The options that a grid may set, by what they are for, each with a check of its values."""

import contextlib
import dataclasses
import hashlib
import itertools
import math
import pathlib
import re
import tomllib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from pann.cli.options import choice
from pann.cli.problem_files import SUFFIX, opened
from pann.io.container import shown
from pann.model.architecture import KINDS, PRECISIONS
from pann.network import RandomFourier
from pann.network.activations import ACTIVATIONS
from pann.pde import Problem
from pann.points import SAMPLERS
from pann.runs import Result, Row
from pann.runs.kept import fields_of
from pann.solvers.solve import solve
from pann.training.loss import CONSTRAINT_NAMES
from pann.training.recipes import NAMES

if TYPE_CHECKING:
    from pann.cli.tables import Source

# Gets the option's name and a value, and gives the value back or says what it should be.
Check = Callable[[str, Any], Any]

AUTO = "auto"


def _refuse(key: str, value: Any, wanted: str) -> ValueError:
    return ValueError(f"{key} must be {wanted}, got {shown(value)}")


def _whole(low: int, *words: str) -> Check:
    def check(key: str, value: Any) -> Any:
        if value in words and isinstance(value, str):
            return value
        if type(value) is not int or value < low:
            others = "".join(f', or "{word}"' for word in words)
            raise _refuse(key, value, f"a whole number of at least {low}{others}")
        return value

    return check


def _real(low: float, high: float | None = None) -> Check:
    def check(key: str, value: Any) -> float:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not low <= value or not (high is None or value < high):
            wanted = f"a number of at least {low:g}" + ("" if high is None else f", below {high:g}")
            raise _refuse(key, value, wanted)
        return float(value)

    return check


def _one_of(*choices: str) -> Check:
    def check(key: str, value: Any) -> str:
        if not isinstance(value, str):
            raise _refuse(key, value, f"one of {', '.join(choices)}")
        return choice(key, value, choices)

    return check


def _flag(key: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise _refuse(key, value, "true or false")
    return value


def _widths(key: str, value: Any) -> Any:
    layers = value if isinstance(value, list) and value else None
    if layers is not None and all(type(width) is int and width > 0 for width in layers):
        return layers
    if layers is not None or isinstance(value, list):
        raise _refuse(key, value, "a list of one whole number of at least 1 a layer")
    return _whole(0, AUTO)(key, value)


def _texts(key: str, value: Any) -> list[str]:
    given = [value] if isinstance(value, str) else value
    if not isinstance(given, list) or not all(isinstance(text, str) for text in given):
        raise _refuse(key, value, "a text, or a list of texts")
    return given


def _weighting(key: str, value: Any) -> list[str]:
    return [choice(key, text, ("gradnorm", "causal")) for text in _texts(key, value)]


def _memory(key: str, value: Any) -> int | str:
    if not isinstance(value, str) and (type(value) is not int or value < 1):
        raise _refuse(key, value, 'a size such as "2GB", or a number of bytes')
    return value


_SEED = _whole(0)
SOLVE: Mapping[str, Check] = {
    "faithful": _flag,
    "tolerance": _real(0.0),
    "degree": _whole(0, AUTO),
    "c": _real(0.0),
    "axes": _texts,
    "points": _whole(1),
    "sampling": _one_of(*SAMPLERS),
    "condition_points": _whole(1),
    "condition_sampling": _one_of(*SAMPLERS),
    "width": _widths,
    "depth": _whole(1),
    "activation": _one_of(*ACTIVATIONS),
    "network": _one_of(*KINDS),
    "fourier": _whole(1),
    "recipe": _one_of(*NAMES),
    "constraint": _one_of(*CONSTRAINT_NAMES),
    "constraint_weight": _real(0.0),
    "preconditioner": _flag,
    "weighting": _weighting,
    "trials": _whole(1),
    "iterations": _whole(0),
    "time_limit": _real(0.0),
    "windows": _whole(0, AUTO),
    "precision": _one_of(*PRECISIONS),
    "memory": _memory,
    "seed": _SEED,
}
FIT: Mapping[str, Check] = {
    "target": _texts,
    "drop": _texts,
    "test_fraction": _real(0.0, 1.0),
    "degree": _whole(0, AUTO, "none"),
    "width": _widths,
    "depth": _whole(1),
    "activation": _one_of(AUTO, *ACTIVATIONS),
    "constraint": _one_of(AUTO, *CONSTRAINT_NAMES),
    "recipe": _one_of(AUTO, *NAMES),
    "trials": _whole(1),
    "precision": _one_of(AUTO, *PRECISIONS),
    "memory": _memory,
    "seed": _SEED,
}
OPTIONS: Mapping[str, Mapping[str, Check]] = {"solve": SOLVE, "fit": FIT}


# ---- What a row of a grid does ----


# What a record keeps of a fit's report.
FIT_FIGURES = (
    "rmse",
    "r2",
    "rel_l2",
    "by_target",
    "how",
    "degree",
    "terms",
    "units",
    "share_network",
    "share_polynomial",
    "rows_fitted",
    "rows_held_out",
)


NOT_OF_SOLVE = ("problem", "sha256", "faithful", "fourier")


def posed(configuration: Mapping[str, Any]) -> contextlib.AbstractContextManager[Problem]:
    """The problem that a row is about."""
    return opened(configuration["problem"], faithful=configuration.get("faithful", False))


def solve_row(configuration: Mapping[str, Any], scratch: pathlib.Path) -> Result:
    """Solve the problem as the row says; what was killed goes on from its checkpoint."""
    _check_unchanged(configuration, "problem")
    options: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in configuration.items()
        if name not in NOT_OF_SOLVE and (value != "auto" or name == "windows")
    }
    if "fourier" in configuration:
        options["embedding"] = RandomFourier(configuration["fourier"])
    with posed(configuration) as problem:
        solution = solve(problem, out=scratch, resume=True, **options)
    report = solution.report
    return Result(
        {
            "rel_l2": solution.rel_l2,
            "residual": solution.residual,
            "field_errors": report.field_errors,
            "parameters": dict(solution.parameters),
            "degree": report.degree,
            "terms": solution.model.num_terms,
            "units": solution.model.num_units,
            "points": report.num_points,
            "how": report.how,
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
    about_rows = ("table", "sha256", "target", "drop", "test_fraction", "seed")
    options = {name: value for name, value in configuration.items() if name not in about_rows}
    if options.get("degree") == "none":
        options["degree"] = None
    if isinstance(options.get("width"), list):
        options["width"] = tuple(options["width"])
    options["random_state"] = configuration.get("seed", 0)
    report = fit_file(source_of(configuration), options, scratch / "model.pann")
    figures = {name: report[name] for name in FIT_FIGURES}
    return Result({**figures, "fit_seconds": report["seconds"]})


def source_of(configuration: Mapping[str, Any]) -> "Source":
    """The table, and what of it is for what."""
    from pann.cli.tables import Source

    if "target" not in configuration:
        raise ValueError('a fit needs a target; name the column, target = "..." in [fixed]')
    return Source(
        pathlib.Path(configuration["table"]),
        configuration["target"],
        configuration.get("drop", []),
        configuration.get("test_fraction", 0.1),
        configuration.get("seed", 0),
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
        reason = (error.strerror or str(error)).lower()
        raise ValueError(f"cannot read '{file}': {reason}") from None


# ---- Grids of runs in TOML ----


KEYS = ("solve", "fit", "name", "fixed", "grid")
WORKS = {"solve": "pann.cli.main.grid:solve_row", "fit": "pann.cli.main.grid:fit_row"}
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
        from pann.cli.tables import read_split

        read_split(source_of(row.configuration))
