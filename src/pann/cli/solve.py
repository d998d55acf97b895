"""The commands for equations: `pann list` and `pann solve`."""

import contextlib
import pathlib
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from pann.cli import options
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
            "executed, so open no stranger's.",
            show_default=False,
        ),
    ],
    faithful: Annotated[
        bool,
        typer.Option(
            "--faithful",
            help="Evolution problems as the paper poses them: raw coordinates, periodic and "
            "initial conditions in the least-squares sense.",
        ),
    ] = False,
    tolerance: Annotated[
        float | None,
        typer.Option(help="Relative error to reach; all sizes are raised until it is met."),
    ] = None,
    degree: Annotated[
        str, typer.Option(help="Of the polynomial: a number, or auto: raised until resolved.")
    ] = "auto",
    width: Annotated[
        str,
        typer.Option(help="Units of a hidden layer: a number (0: no network), auto, or 64,32."),
    ] = "auto",
    depth: Annotated[
        int | None, typer.Option(min=1, help="Hidden layers, if width is a number.")
    ] = None,
    activation: Annotated[str | None, typer.Option(help="tanh, relu, repu or sin.")] = None,
    network: Annotated[str | None, typer.Option(help="mlp, or modified for gated layers.")] = None,
    fourier: Annotated[
        int | None, typer.Option(min=1, help="Random Fourier features before the network.")
    ] = None,
    axes: Annotated[
        str | None, typer.Option(help="Axes that the polynomial sees, x or x,y (default: all).")
    ] = None,
    points: Annotated[
        int | None,
        typer.Option(min=1, help="Points inside (default: Gauss points to fit the degree)."),
    ] = None,
    sampling: Annotated[
        str | None, typer.Option(help="How --points lie: gauss, poisson_disk, sobol, ...")
    ] = None,
    c: Annotated[
        float | None,
        typer.Option("--c", min=0, help="The degree by the paper's rule, ceil(c N) + 8."),
    ] = None,
    condition_points: Annotated[
        int | None, typer.Option(min=1, help="Points for the conditions, on all faces together.")
    ] = None,
    recipe: Annotated[
        str, typer.Option(help="default (second order), or paper (Adam, L-BFGS, pruning).")
    ] = "default",
    constraint: Annotated[
        str | None, typer.Option(help="Between the halves, with recipe paper: none, A to H, l1.")
    ] = None,
    preconditioner: Annotated[
        bool | None,
        typer.Option(
            "--preconditioner/--no-preconditioner", help="K on or off, with recipe paper."
        ),
    ] = None,
    weighting: Annotated[
        str | None,
        typer.Option(
            help="Of the loss's terms, with recipe paper: gradnorm, causal or gradnorm,causal."
        ),
    ] = None,
    trials: Annotated[
        int, typer.Option(min=1, help="Networks from as many seeds; the best is kept.")
    ] = 1,
    iterations: Annotated[
        int | None, typer.Option(min=0, help="Most steps of training the network.")
    ] = None,
    time_limit: Annotated[
        float | None, typer.Option(min=0, help="Seconds; then the best solution so far.")
    ] = None,
    windows: Annotated[int | None, typer.Option(min=0, help="Windows of time; 0: none.")] = None,
    precision: Annotated[str | None, typer.Option(help="float64 or float32.")] = None,
    memory: Annotated[
        str | None, typer.Option(help="Budget such as 8GB; what is larger is made in chunks.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="For all random choices.")] = 0,
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
        float | None, typer.Option(min=0, help="Seconds between checkpoints (default: 30).")
    ] = None,
    tensorboard: Annotated[
        pathlib.Path | None, typer.Option(help="Folder for scalars that TensorBoard shows.")
    ] = None,
    plot: Annotated[
        pathlib.Path | None, typer.Option(help="File for a picture: .png, .pdf, .svg.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only tell sizes and memory.")] = False,
    as_json: Json = False,
) -> None:
    """Solve a differential equation, and tell how good the solution is."""
    with plainly():
        from pann.cli import problem_files, solve_commands
        from pann.network import RandomFourier
        from pann.runtime import compile

        options = options.solve_options(
            degree, width, activation, points, sampling, precision, recipe, constraint
        )
        numbers = {
            "tolerance": tolerance,
            "depth": depth,
            "network": network,
            "iterations": iterations,
            "time_limit": time_limit,
            "windows": windows,
            "memory": memory,
            "c": c,
            "condition_points": condition_points,
            "checkpoint_every": checkpoint_every,
            "preconditioner": preconditioner,
            "weighting": None if weighting is None else tuple(weighting.split(",")),
            "embedding": None if fourier is None else RandomFourier(fourier),
            "axes": None if axes is None else tuple(axes.split(",")),
        }
        options |= {name: value for name, value in numbers.items() if value is not None}
        options |= {"seed": seed, "trials": trials, "resume": resume}
        compile.use_compilation_cache()
        with problem_files.opened(problem, faithful=faithful) as posed:
            if dry_run:
                reports = [solve_commands.plan_solve(posed, options)]
                lines = solve_commands.plan_lines(reports[0])
            else:
                files = solve_commands.Files(out, plot)
                with _progress(posed.name, tensorboard, as_json=as_json) as progress:
                    solution, reports = solve_commands.solve_problem(
                        posed, options, files, progress
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
