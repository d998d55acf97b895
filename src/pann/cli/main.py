"""The command line: what is typed, what is shown, and errors as one sentence."""

import json
import pathlib
import sys
from typing import Annotated, Any

import typer
from rich.console import Console

from pann.cli import csv, options, solve, sweeps
from pann.cli import demo as demonstration
from pann.cli.terminal import Json, plainly, show_report
from pann.runtime.atomic import check_writable
from pann.training import PAPER, PRODUCTS, Sizes, default_recipe, describe

app = typer.Typer(
    help="Polynomial-augmented neural networks: solve equations, fit tables of data, look inside.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,
)


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

app.command("list")(solve.list_problems)
app.command()(solve.solve)
app.command()(sweeps.sweep)


# ---- Tables ----


@app.command()
@options.with_parameters(options.table_parameters)
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
    test_fraction: Annotated[
        float, typer.Option(help="Share of the rows kept from the fit to test it; 0 for none.")
    ] = 0.1,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only print sizes, memory and rough time.")
    ] = False,
    as_json: Json = False,
    **typed: Any,
) -> None:
    """Fit a model to a table, test it on rows kept aside, and write it to a .pann file."""
    with plainly():
        from pann.cli import tables

        given = options.typed_values(typed, options.table_options())
        seed = given.pop("seed", 0)
        source = tables.Source(data, target, drop or [], test_fraction, seed)
        if dry_run:
            report = tables.plan_fit(source, given)
            show_report(report, tables.plan_lines(report), as_json=as_json)
        else:
            report = tables.fit_file(source, given | {"verbose": True}, out)
            show_report(report, tables.fit_lines(report), as_json=as_json)


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
    with plainly():
        from pann.cli import tables

        if out is not None:
            check_writable(out)
            for given in (model, data):
                if out.exists() and given.exists() and out.samefile(given):
                    raise ValueError(f"'{out}' is read and cannot be written; name another file")
        frame = tables.predict_file(model, data, std=std)
        if out is not None:
            csv.write_csv(out, frame)
            names = list(frame.columns)
            report = {"command": "predict", "model": str(model), "rows": len(frame)}
            report |= {"columns": names, "file": str(out)}
            line = f"written   {out} ({len(frame):,} rows of {', '.join(names)})"
            show_report(report, [line], as_json=as_json)
        elif as_json:
            for row in frame.to_dict("records"):
                print(json.dumps(row, allow_nan=False))
        else:
            frame.to_csv(sys.stdout, index=False, lineterminator="\n")
            # Here, so that a closed pipe is noticed while it can be reported.
            sys.stdout.flush()


@app.command()
def info(
    model: Annotated[pathlib.Path, typer.Argument(help="A .pann file of `pann fit` or `solve`.")],
    as_json: Json = False,
) -> None:
    """Tell what a .pann file holds: what it was made from and how, its error, leading terms."""
    with plainly():
        from pann.cli import tables

        report = solve.describe_file(model)
        is_solution = report["kind"] == "solution"
        lines = report["text"].splitlines() if is_solution else tables.info_lines(report)
        show_report(report, lines, as_json=as_json)


# ---- The rest ----


@app.command()
def report(
    place: Annotated[
        pathlib.Path,
        typer.Argument(metavar="DIR", help="A folder with runs or models, or one .pann file."),
    ],
    out: Annotated[pathlib.Path, typer.Option("--out", "-o", help="Page to write.")] = pathlib.Path(
        "report.html"
    ),
    as_json: Json = False,
) -> None:
    """Write one HTML page of your own runs, solved equations and fitted tables."""
    with plainly():
        from pann.report.own import own_page
        from pann.report.writing import check_page, write_page

        check_page(out)
        size = write_page(own_page(place), out)
        written = {"command": "report", "page": str(out), "bytes": size}
        show_report(written, [f"wrote {out} ({size / 1e6:.1f} MB)"], as_json=as_json)


@app.command()
def demo(
    out: Annotated[pathlib.Path, typer.Option(help="Folder for the figure.")] = pathlib.Path("out"),
) -> None:
    """Fit the paper's non-smooth function five ways, draw it, and solve Poisson's equation."""
    with plainly():
        demonstration.run(out, Console())


@app.command()
def recipes() -> None:
    """Print the named training recipes."""
    console = Console(highlight=False, soft_wrap=True)
    console.print("paper =", describe(PAPER))
    console.print("\nproducts =", describe(PRODUCTS))
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
