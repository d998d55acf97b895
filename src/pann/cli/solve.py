"""The commands for equations: `pann list` and `pann solve`."""

import contextlib
import pathlib
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pann.cli.terminal import Json, plainly, show_report

if TYPE_CHECKING:
    from pann.runtime.limits import Progress as Step


def list_problems(as_json: Json = False) -> None:
    """List the problems that `pann solve` knows by name."""
    with plainly():
        from pann.cli import solve_commands

        found = solve_commands.list_problems()
        width = max(len(problem["name"]) for problem in found)
        for problem in found:
            known = "known" if problem["exact"] else "unknown"
            lines = [
                f"{problem['name']:{width}}  {problem['equation']}",
                f"{'':{width}}  {problem['domain']}; solution {known}",
            ]
            show_report(problem, lines, as_json=as_json)


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
        from pann.cli import problem_files, solve_commands
        from pann.cli.options import choose_method, method_options, run_options, typed_values
        from pann.methods import RunOptions
        from pann.runtime import compile
        from pann.solvers.folder import Folder

        given = typed_values(typed, method_options("solve"))
        chosen = choose_method(method, given, "solve")
        run = RunOptions(**typed_values(typed, run_options("solve")))
        compile.use_compilation_cache()
        with problem_files.opened(problem, faithful=faithful) as posed:
            if dry_run:
                reports = [solve_commands.plan_solve(posed, chosen, run)]
                lines = solve_commands.plan_lines(reports[0])
            else:
                folder = None if out is None else Folder(out, checkpoint_every)
                with _progress(posed.name, tensorboard, as_json=as_json) as progress:
                    solution, reports = solve_commands.solve_problem(
                        posed, chosen, run, progress, folder=folder, picture=plot, resume=resume
                    )
                lines = [f"{posed.name}: {solution}".replace("\n", "\n  ")]
                lines += [f"  {line}" for line in solve_commands.trial_lines(reports)]
                lines += [f"  written: {file}" for file in reports[0]["files"]]
            if as_json:
                for report in reports:
                    show_report(report, [], as_json=True)
            else:
                parts = [part for line in lines for part in line.split("\n")]
                show_report(reports[0], parts, as_json=False)


@contextlib.contextmanager
def _progress(
    title: str, scalars: pathlib.Path | None, *, as_json: bool
) -> Iterator[Callable[["Step"], None]]:
    """Lines of JSON where they are asked for, a bar on a terminal; scalars besides."""
    from pann.runtime import progress

    with contextlib.ExitStack() as stack:
        shown = (
            progress.json_lines(sys.stdout)
            if as_json
            else stack.enter_context(progress.progress_bar(title))
        )
        if scalars is not None:
            shown = progress.to_all(shown, stack.enter_context(progress.tensorboard(scalars)))
        yield shown
