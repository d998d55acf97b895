"""The work behind `pann solve` and `pann list`: each gives back a report, and prints nothing.

A report is the object that `--json` prints.
"""

import math
import pathlib
import statistics
from collections.abc import Callable
from typing import Any

import numpy as np

from pann.domain import Box
from pann.io import read
from pann.methods import RunOptions, SolveMethod, Training, Windows
from pann.pde import Problem
from pann.plot import check_picture
from pann.problems import PROBLEMS, equation_of
from pann.runtime.limits import Progress
from pann.solvers.folder import SOLUTION, Folder
from pann.solvers.solution import KIND, Solution, load
from pann.solvers.solve import has_width, prepare, solve_run

Report = dict[str, Any]

PICTURE = "solution.png"
# The Jacobian, its scaled copy, Q and what LAPACK needs besides.
COPIES_OF_JACOBIAN = 4


def solve_problem(
    problem: Problem,
    method: SolveMethod | None,
    run: RunOptions,
    progress: Callable[[Progress], None],
    *,
    folder: Folder | None = None,
    picture: pathlib.Path | None = None,
    resume: bool = False,
) -> tuple[Solution, list[Report]]:
    """Solve, write what was asked for, and report on each trial how good it is.

    A folder has everything, a picture besides; a picture may also be written alone.
    """
    if picture is not None:
        check_picture(picture)
    solution = solve_run(
        problem, method, run, out=folder, resume=resume, progress=progress, ctrl_c=False
    )
    written, pictures = [], [] if picture is None else [picture]
    if folder is not None:
        path = pathlib.Path(folder.path)
        written, pictures = [str(path / SOLUTION)], [path / PICTURE, *pictures]
    for each in pictures:
        solution.plot(each)
        written.append(str(each))
    common = dict(
        event="result",
        command="solve",
        problem=problem.name,
        method=repr(solution.method),
        degree=solution.report.degree,
        points=solution.report.num_points,
        precision=solution.model.precision,
        parameters=dict(solution.parameters),
        how=solution.report.how,
        tolerance=solution.report.tolerance,
        error_estimate=_finite(solution.report.error_estimate),
        met=solution.report.met,
        resolved=solution.report.resolved,
        notes=solution.report.notes,
        files=written,
    )
    reports = []
    trials = solution.report.trials
    if len(trials) == 1:
        # Of several the residuals at other points have chosen one.
        trials = [{**trials[0], "residual": solution.residual}]
    for trial, figures in enumerate(trials):
        finite: Report = {key: _finite(figures[key]) for key in ("rel_l2", "residual")}
        finite["field_errors"] = {
            name: _finite(value) for name, value in figures["field_errors"].items()
        }
        reports.append({**common, "trial": trial, **figures, **finite})
    return solution, reports


def trial_lines(reports: list[Report]) -> list[str]:
    """The figures of several trials; of one there is nothing to add."""
    if len(reports) == 1:
        return []
    lines = [
        f"trial {report['trial']}: residual {report['residual'] or math.nan:.2e}"
        + (f", error {report['rel_l2']:.2e}" if report["rel_l2"] is not None else "")
        for report in reports
    ]
    errors = [report["rel_l2"] for report in reports if report["rel_l2"] is not None]
    if len(errors) == len(reports):
        mean, deviation = statistics.mean(errors), statistics.pstdev(errors)
        lines.append(f"error over the trials: mean {mean:.2e}, deviation {deviation:.2e}")
    return lines


def plan_solve(problem: Problem, method: SolveMethod | None, run: RunOptions) -> Report:
    """Sizes and memory of the largest system that `solve` would make; nothing is solved."""
    prepared = prepare(problem, method, run, None)
    report: Report = dict(command="solve", dry_run=True, problem=problem.name)
    report["fields"] = list(problem.fields)
    if isinstance(prepared.method, Windows) or prepared.in_windows:
        number = prepared.method.windows if isinstance(prepared.method, Windows) else "auto"
        return report | {"windows": None if number == "auto" else number}
    basis = prepared.ladder[-1]
    placed = prepared.setup.placed(basis)
    rows = sum(block.target.size for block in placed)
    columns = basis.num_terms * len(problem.fields) + len(problem.parameters)
    tables = sum(len(block.points) * len(block.orders) for block in placed) * basis.num_terms
    architecture = prepared.architectures[0]
    size = np.dtype(architecture.precision).itemsize
    # Gradients need the tables, Gauss-Newton the Jacobian as well.
    by_gradient = isinstance(prepared.method, Training)
    jacobians = 0 if by_gradient else COPIES_OF_JACOBIAN * rows * columns
    degrees = [int(max(rung.degrees)) for rung in prepared.ladder]
    return report | dict(
        degree=degrees[-1],
        degrees=degrees,
        terms=basis.num_terms,
        columns=columns,
        points=sum(len(block.points) for block in placed),
        rows=rows,
        widths=list(architecture.widths),
        network_if_needed=not has_width(prepared.method),
        bytes=size * (tables + jacobians),
    )


def plan_lines(report: Report) -> list[str]:
    if "windows" in report:
        number = report["windows"] or "as many as it takes"
        return [
            f"problem   {report['problem']}",
            f"windows   {number}, with functions in space as the solution needs them",
            "nothing was solved or written (--dry-run)",
        ]
    layers = "-".join(str(width) for width in report["widths"])
    network = "no network"
    if layers:
        needed = " if the polynomial is not enough" if report["network_if_needed"] else ""
        network = f"network {layers}{needed}"
    degrees = ", ".join(str(degree) for degree in report["degrees"])
    unknowns = f"{report['terms']:,} polynomial terms"
    if len(report["fields"]) > 1:
        unknowns += f" for each of {', '.join(report['fields'])}"
    largest = ", until resolved; of the largest:" if len(report["degrees"]) > 1 else ""
    return [
        f"problem   {report['problem']}",
        f"degree    {degrees}{largest}",
        f"terms     {unknowns}, {network}",
        f"rows      {report['rows']:,} at {report['points']:,} points",
        f"memory    about {max(report['bytes'] / 2**20, 1):,.0f} MiB besides Python and JAX",
        "nothing was solved or written (--dry-run)",
    ]


def list_problems() -> list[Report]:
    """Name, equation, domain and whether the solution is known, of every named problem."""
    return [
        dict(
            name=name,
            equation=equation_of(name),
            domain=shown_domain(problem.domain),
            fields=list(problem.fields),
            exact=problem.exact is not None,
        )
        for name, problem in ((name, make()) for name, make in PROBLEMS.items())
    ]


def shown_domain(domain: Box) -> str:
    """x in [0, 1], t in [0, 2]; equal intervals are named once."""
    intervals: dict[str, list[str]] = {}
    for name, low, high in zip(domain.names, domain.lower, domain.upper, strict=True):
        periodic = " periodic" if name in domain.periodic else ""
        intervals.setdefault(f"in [{low:g}, {high:g}]{periodic}", []).append(name)
    return "; ".join(f"{', '.join(names)} {where}" for where, names in intervals.items())


def _finite(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else value


def describe_file(path: pathlib.Path) -> Report:
    """What a file with a solution or a fitted table says about itself."""
    contents = read(path)
    if contents.kind != KIND:
        from pann.regression.description import describe_contents

        return describe_contents(contents, path)
    loaded = load(contents)
    domain = loaded.model.domain
    return {
        "command": "info",
        "file": str(path),
        "kind": "solution",
        "fields": list(loaded.fields),
        "axes": {
            name: [low, high]
            for name, low, high in zip(domain.names, domain.lower, domain.upper, strict=True)
        },
        "parameters": dict(loaded.parameters),
        "terms": loaded.model.num_terms,
        "units": loaded.model.num_units,
        "degree": loaded.report.degree,
        "rel_l2": loaded.rel_l2,
        "residual": loaded.residual,
        "tolerance": loaded.report.tolerance,
        "error_estimate": _finite(loaded.report.error_estimate),
        "met": loaded.report.met,
        "text": f"{path}: the solution of an equation\n{loaded}",
    }
