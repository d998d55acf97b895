"""The command line: what is typed, what is shown, and errors as one sentence."""

import contextlib
import json
import pathlib
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console

from pann import command_options, table_reports

app = typer.Typer(
    help="Polynomial-augmented neural networks: solve equations, fit tables of data, look inside.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,
)

WRONG, INTERRUPTED = 2, 130

Json = Annotated[bool, typer.Option("--json", help="Print JSON, one object a line.")]


@contextlib.contextmanager
def _plainly() -> Iterator[None]:
    """What a user can mend is told in one sentence; a bug keeps its traceback."""
    import jax

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        _tell(f"warning: {message}")

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", UserWarning)
            warnings.showwarning = show
            yield
    except KeyboardInterrupt:
        _fail("stopped", INTERRUPTED)
    except BrokenPipeError:  # `| head` has seen enough
        raise
    except MemoryError as error:
        _fail(f"out of memory ({error}); use fewer rows or a lower degree")
    except jax.errors.JaxRuntimeError as error:
        if "RESOURCE_EXHAUSTED" not in str(error):
            raise
        _fail("out of memory on the device; use fewer rows, a lower degree or a smaller network")
    except OSError as error:
        where = "" if error.filename is None else f" '{error.filename}'"
        _fail(f"cannot read or write{where}: {(error.strerror or str(error)).lower()}")
    except ValueError as error:
        _fail(str(error))


def _fail(sentence: str, code: int = WRONG) -> NoReturn:
    _tell(sentence)
    raise typer.Exit(code)


def _tell(sentence: str) -> None:
    typer.echo(_printable(f"pann: {' '.join(sentence.split())}"), err=True)


def _printable(text: str) -> str:
    """Names come from files: no control characters for the terminal."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def _show(report: dict[str, Any], lines: Sequence[str], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(report, allow_nan=False))
        return
    for line in lines:
        print(_printable(line))


def _print_version(wanted: bool) -> bool:
    if wanted:
        version()
        raise typer.Exit
    return wanted


@app.callback()
def main(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    pass  # the help is that of `app`


# ---- Equations ----


@app.command("list")
def list_problems(as_json: Json = False) -> None:
    """List the problems that `pann solve` knows by name."""
    with _plainly():
        from pann import solve_commands

        found = solve_commands.list_problems()
        width = max(len(problem["name"]) for problem in found)
        for problem in found:
            known = "known" if problem["exact"] else "unknown"
            lines = [
                f"{problem['name']:{width}}  {problem['equation']}",
                f"{'':{width}}  {problem['domain']}; solution {known}",
            ]
            _show(problem, lines, as_json=as_json)


@app.command()
def solve(
    problem: Annotated[
        str,
        typer.Argument(
            help="A name from `pann list`, or a Python file that defines `problem`; the file is "
            "executed, so open no stranger's.",
            show_default=False,
        ),
    ],
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
    windows: Annotated[int | None, typer.Option(min=0, help="Windows of time; 0: none.")] = None,
    precision: Annotated[str | None, typer.Option(help="float64 or float32.")] = None,
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="For all random choices.")] = 0,
    out: Annotated[
        pathlib.Path | None,
        typer.Option(
            "--out", "-o", help="Folder for solution.pann and solution.png; made if missing."
        ),
    ] = None,
    plot: Annotated[
        pathlib.Path | None, typer.Option(help="File for a picture: .png, .pdf, .svg.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only tell sizes and memory.")] = False,
    as_json: Json = False,
) -> None:
    """Solve a differential equation, and tell how good the solution is."""
    with _plainly():
        from pann import compilation_cache, problem_files, solve_commands

        options = command_options.solve_options(
            degree, width, activation, points, sampling, precision, recipe, constraint
        )
        numbers = {
            "depth": depth,
            "network": network,
            "iterations": iterations,
            "windows": windows,
            "c": c,
            "condition_points": condition_points,
            "preconditioner": preconditioner,
            "weighting": None if weighting is None else tuple(weighting.split(",")),
        }
        options |= {name: value for name, value in numbers.items() if value is not None}
        options |= {"seed": seed, "trials": trials}
        compilation_cache.use_compilation_cache()
        with problem_files.opened(problem) as posed:
            if dry_run:
                reports = [solve_commands.plan_solve(posed, options)]
                lines = solve_commands.plan_lines(reports[0])
            else:
                files = solve_commands.Files(out, plot)
                with _steps() as progress:
                    solution, reports = solve_commands.solve_problem(
                        posed, options, files, progress
                    )
                lines = [f"{posed.name}: {solution}".replace("\n", "\n  ")]
                lines += [f"  {line}" for line in solve_commands.trial_lines(reports)]
                lines += [f"  written: {file}" for file in reports[0]["files"]]
            if as_json:
                for report in reports:
                    _show(report, [], as_json=True)
            else:
                parts = [part for line in lines for part in line.split("\n")]
                _show(reports[0], parts, as_json=False)


@contextlib.contextmanager
def _steps() -> Iterator[Callable[[str, float], None]]:
    """A line for each degree and one for the network's steps, on a terminal alone."""
    clear, is_terminal = "\r\x1b[2K", sys.stderr.isatty()

    def progress(what: str, residual: float) -> None:
        if is_terminal:
            end = "" if "step" in what else "\n"
            print(f"{clear}{what}: residual {residual:.2e}", end=end, file=sys.stderr, flush=True)

    try:
        yield progress
    finally:
        if is_terminal:
            print(clear, end="", file=sys.stderr, flush=True)


# ---- Tables ----


@app.command()
def fit(
    data: Annotated[pathlib.Path, typer.Argument(help="A .csv, .csv.gz, .tsv or .parquet file.")],
    target: Annotated[
        list[str],
        typer.Option("--target", "-t", help="Column to predict; repeat it, or use commas."),
    ],
    drop: Annotated[
        list[str] | None, typer.Option("--drop", help="Column to leave out; repeat it.")
    ] = None,
    out: Annotated[
        pathlib.Path | None,
        typer.Option("--out", "-o", help="Model file (default: the table's name, with .pann)."),
    ] = None,
    degree: Annotated[str, typer.Option(help="Polynomial: number, auto or none.")] = "auto",
    width: Annotated[
        str, typer.Option(help="Units of a hidden layer: a number (0: no network), auto, or 64,32.")
    ] = "auto",
    depth: Annotated[int, typer.Option(min=1, help="Hidden layers, if width is a number.")] = 3,
    activation: Annotated[str, typer.Option(help="auto, tanh, relu, repu or sin.")] = "auto",
    constraint: Annotated[
        str, typer.Option(help="Between the halves: auto, none, A to H, l1 or exact.")
    ] = "auto",
    recipe: Annotated[str, typer.Option(help="Training: auto, default or paper.")] = "auto",
    trials: Annotated[int, typer.Option(min=1, help="Networks whose mean predicts.")] = 1,
    precision: Annotated[str, typer.Option(help="auto, float64 or float32.")] = "auto",
    memory: Annotated[str, typer.Option(help="For the polynomial; bounds its degree.")] = "2GB",
    test_fraction: Annotated[
        float, typer.Option(help="Share of the rows kept from the fit to test it; 0 for none.")
    ] = 0.1,
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="For all random choices.")] = 0,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only tell sizes, memory and rough time.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Fit a model to a table, test it on rows kept aside, and write it to a .pann file."""
    with _plainly():
        options = command_options.table_options(
            degree, width, activation, constraint, recipe, precision
        )
        options |= {"depth": depth, "trials": trials, "memory": memory, "random_state": seed}
        from pann import table_commands

        source = table_commands.Source(data, target, drop or [], test_fraction, seed)
        if dry_run:
            report = table_commands.plan_fit(source, options)
            _show(report, table_reports.plan_lines(report), as_json=as_json)
        else:
            report = table_commands.fit_file(source, options | {"verbose": True}, out)
            _show(report, table_reports.fit_lines(report), as_json=as_json)


@app.command()
def predict(
    model: Annotated[pathlib.Path, typer.Argument(help="A .pann file that `pann fit` wrote.")],
    data: Annotated[pathlib.Path, typer.Argument(help="A table with the model's features.")],
    out: Annotated[
        pathlib.Path | None,
        typer.Option("--out", "-o", help="CSV file to write (default: to the screen)."),
    ] = None,
    std: Annotated[
        bool, typer.Option("--std", help="Also the deviation of the trials, if there are some.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Predict the rows of a table; columns are found by their names, others are ignored."""
    with _plainly():
        from pann import table_commands, tables

        if out is not None:
            tables.check_writable(out)
            for given in (model, data):
                if out.exists() and given.exists() and out.samefile(given):
                    raise ValueError(f"'{out}' is read and cannot be written; name another file")
        frame = table_commands.predict_file(model, data, std=std)
        if out is not None:
            tables.write_csv(out, frame)
            names = list(frame.columns)
            report = {"command": "predict", "model": str(model), "rows": len(frame)}
            report |= {"columns": names, "file": str(out)}
            line = f"written   {out} ({len(frame):,} rows of {', '.join(names)})"
            _show(report, [line], as_json=as_json)
        elif as_json:
            for row in frame.to_dict("records"):
                print(json.dumps(row, allow_nan=False))
        else:
            frame.to_csv(sys.stdout, index=False, lineterminator="\n")
            # Here, so that a closed pipe is noticed while it can be told.
            sys.stdout.flush()


@app.command()
def info(
    model: Annotated[pathlib.Path, typer.Argument(help="A .pann file of `pann fit` or `solve`.")],
    as_json: Json = False,
) -> None:
    """Tell what a .pann file holds: what it was made from and how, its error, leading terms."""
    with _plainly():
        from pann import solve_commands, table_commands

        solution = solve_commands.describe_file(model)
        if solution is not None:
            _show(solution, solution["text"].splitlines(), as_json=as_json)
            return
        report = table_commands.describe_file(model)
        _show(report, table_reports.info_lines(report), as_json=as_json)


# ---- The rest ----


@app.command()
def demo(
    out: Annotated[pathlib.Path, typer.Option(help="Folder for the figure.")] = pathlib.Path("out"),
) -> None:
    """Fit the paper's non-smooth function five ways, draw it, and solve Poisson's equation."""
    with _plainly():
        from pann import demo as demonstration

        demonstration.run(out, Console())


@app.command()
def recipes() -> None:
    """Print the named training recipes."""
    from pann.training import PAPER, Sizes, default_recipe, describe

    console = Console(highlight=False, soft_wrap=True)
    console.print("paper =", describe(PAPER))
    for title, sizes in {
        "default, small network": Sizes(4_096, 253, 1_296),
        "default, large network": Sizes(500_000, 253, 100_000),
        "default, no network": Sizes(4_096, 253, 0),
    }.items():
        recipe, why = default_recipe(sizes)
        console.print(f"\n{title} ({why}) =", describe(recipe))


@app.command()
def version() -> None:
    """Print the version."""
    import pann

    print(pann.__version__)
