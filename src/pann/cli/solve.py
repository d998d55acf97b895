"""`pann list` and `pann solve`: what is typed, what is done, and what is shown.

A report is the object that `--json` prints; `..._lines` turn one into text.
"""

import contextlib
import math
import pathlib
import statistics
import sys
from collections.abc import Iterator
from typing import Annotated, Any

import numpy as np
import typer

from pann.cli import problem_files
from pann.cli.options import (
    choose_method,
    method_options,
    run_options,
    solve_parameters,
    typed_values,
    with_parameters,
)
from pann.cli.terminal import Json, plainly, show_report
from pann.domain import Box
from pann.io import read
from pann.io.checks import plain
from pann.methods import RunOptions, SolveMethod, Training, Windows
from pann.pde import Problem
from pann.plot import check_picture
from pann.problems import PROBLEMS, equation_of
from pann.runs.excerpt import figures_of
from pann.runtime import compile, limits, progress
from pann.solvers.folder import SOLUTION, Folder
from pann.solvers.solution import KIND, Solution, load
from pann.solvers.solve import has_width, prepare, solve_run

Report = dict[str, Any]

PICTURE = "solution.png"
# The Jacobian, its scaled copy, Q and what LAPACK needs besides.
COPIES_OF_JACOBIAN = 4


def list_problems(as_json: Json = False) -> None:
    """List the problems that `pann solve` knows by name."""
    with plainly():
        width = max(map(len, PROBLEMS))
        for name, make in PROBLEMS.items():
            problem = make()
            report = dict(
                name=name,
                equation=equation_of(name),
                domain=shown_domain(problem.domain),
                fields=list(problem.fields),
                exact=problem.exact is not None,
            )
            known = "known" if report["exact"] else "unknown"
            lines = [
                f"{name:{width}}  {report['equation']}",
                f"{'':{width}}  {report['domain']}; solution {known}",
            ]
            show_report(report, lines, as_json=as_json)


def shown_domain(domain: Box) -> str:
    """x in [0, 1], t in [0, 2]; equal intervals are named once."""
    intervals: dict[str, list[str]] = {}
    for name, low, high in zip(domain.names, domain.lower, domain.upper, strict=True):
        periodic = " periodic" if name in domain.periodic else ""
        intervals.setdefault(f"in [{low:g}, {high:g}]{periodic}", []).append(name)
    return "; ".join(f"{', '.join(names)} {where}" for where, names in intervals.items())


@with_parameters(solve_parameters)
def solve(
    problem: Annotated[
        str,
        typer.Argument(
            help="A name from `pann list`, or a Python file that defines `problem`; the file is "
            "executed, so open only files that you trust.",
            show_default=False,
        ),
    ],
    method: Annotated[
        str | None,
        typer.Option(
            help="polynomial, hybrid, paper (gradient training) or windows (of time); by default "
            "chosen by the problem, or by the options given.",
            show_default=False,
        ),
    ] = None,
    faithful: Annotated[
        bool,
        typer.Option(
            "--faithful",
            help="Evolution problems as the paper poses them: raw coordinates, periodic and "
            "initial conditions in the least-squares sense.",
        ),
    ] = False,
    out: Annotated[
        pathlib.Path | None,
        typer.Option(
            "--out",
            "-o",
            help="Folder for solution.pann, solution.png, a log and a checkpoint; made if missing.",
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with what was interrupted in --out.")
    ] = False,
    checkpoint_every: Annotated[
        float, typer.Option(min=0, help="Seconds between checkpoints in --out.")
    ] = 30.0,
    tensorboard: Annotated[
        pathlib.Path | None, typer.Option(help="Folder for scalars that TensorBoard shows.")
    ] = None,
    plot: Annotated[
        pathlib.Path | None, typer.Option(help="File for a picture: .png, .pdf, .svg.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only print sizes and memory.")
    ] = False,
    as_json: Json = False,
    **typed: Any,
) -> None:
    """Solve a differential equation, and say how good the solution is."""
    with plainly():
        given = typed_values(typed, method_options("solve"))
        chosen = choose_method(method, given, "solve")
        run = RunOptions(**typed_values(typed, run_options("solve")))
        compile.use_compilation_cache()
        with problem_files.opened(problem, faithful=faithful) as posed:
            if dry_run:
                plan = plan_solve(posed, chosen, run)
                show_report(plan, plan_lines(plan), as_json=as_json)
                return
            folder = None if out is None else Folder(out, checkpoint_every)
            if plot is not None:
                check_picture(plot)
            with _progress(posed.name, tensorboard, as_json=as_json) as report:
                solution = solve_run(
                    posed, chosen, run, out=folder, resume=resume, progress=report, ctrl_c=False
                )
            files = [] if out is None else [out / SOLUTION]
            pictures = [] if out is None else [out / PICTURE]
            pictures += [] if plot is None else [plot]
            for picture in pictures:
                solution.plot(picture)
            reports = trial_reports(posed, solution, [*map(str, files + pictures)])
            if as_json:
                for each in reports:
                    show_report(each, [], as_json=True)
                return
            lines = f"{posed.name}: {solution}".replace("\n", "\n  ").split("\n")
            lines += [f"  {line}" for line in trial_lines(reports)]
            lines += [f"  written: {file}" for file in reports[0]["files"]]
            show_report({}, lines, as_json=False)


@contextlib.contextmanager
def _progress(
    title: str, scalars: pathlib.Path | None, *, as_json: bool
) -> Iterator[limits.Report]:
    """Lines of JSON where they are asked for, a bar on a terminal; scalars besides."""
    with contextlib.ExitStack() as stack:
        shown = (
            progress.json_lines(sys.stdout)
            if as_json
            else stack.enter_context(progress.progress_bar(title))
        )
        if scalars is not None:
            shown = progress.to_all(shown, stack.enter_context(progress.tensorboard(scalars)))
        yield shown


def trial_reports(problem: Problem, solution: Solution, files: list[str]) -> list[Report]:
    """How good each trial is."""
    common = dict(
        event="result",
        command="solve",
        problem=problem.name,
        precision=solution.model.precision,
        tolerance=solution.report.tolerance,
        files=files,
        **figures_of(solution),
    )
    trials = solution.report.trials
    if len(trials) == 1:
        # Of several the residuals at other points have chosen one.
        trials = [{**trials[0], "residual": solution.residual}]
    return [plain({**common, "trial": number, **figures}) for number, figures in enumerate(trials)]


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
    """The screen of `pann solve --dry-run`."""
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


def describe_file(path: pathlib.Path) -> Report:
    """What a file with a solution or a fitted table says about itself."""
    contents = read(path)
    if contents.kind != KIND:
        from pann.regression import description

        return description.describe_file(path)
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
        "tolerance": loaded.report.tolerance,
        **plain(figures_of(loaded)),
        "text": f"{path}: the solution of an equation\n{loaded}",
    }
