"""What a row of a grid does: solve its problem or fit its table, and give back the figures."""

import contextlib
import hashlib
import pathlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pann.kept import fields_of
from pann.network import RandomFourier
from pann.pde import Problem
from pann.problem_files import opened
from pann.runs import Result
from pann.solve import solve

if TYPE_CHECKING:
    from pann.table_commands import Source

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
    from pann.table_commands import fit_file

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
    from pann.table_commands import Source

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
