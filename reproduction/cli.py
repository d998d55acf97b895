"""The commands for the paper: list, run, status, summary, table, figure and report."""

import dataclasses
import pathlib
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer

from pann.cli.terminal import STOPPED_SWEEP, Json, plainly, show_report, tell

app = typer.Typer(help="The paper's experiments: run them, and compare.", no_args_is_help=True)

Names = Annotated[
    list[str] | None,
    typer.Argument(help="Names from `python -m reproduction list`; all by default."),
]
Folder = Annotated[pathlib.Path, typer.Option("--store", help="Folder that keeps the runs.")]
SizeOption = Annotated[str, typer.Option(help="smoke (seconds), quick or full (as published).")]
ModeOption = Annotated[str, typer.Option(help="faithful, default or both.")]
Trials = Annotated[int | None, typer.Option(min=1, help="Seeds a row (default: by the size).")]
Form = Annotated[str, typer.Option("--format", help="text, markdown, latex or csv.")]
Only = Annotated[
    list[str] | None,
    typer.Option(help="num_points=16384: only rows with this setting; may be given again."),
]
# Of a row's settings, in the line that tells of it.
SHOWN = (
    "mode",
    "reading",
    "index_set",
    "method",
    "model",
    "base",
    "activation",
    "constraint",
    "norm",
    "sampling",
    "alpha",
    "c",
)
DEFAULT_STORE = pathlib.Path("paper-runs")
# Columns of a name, the longest and a space.
NAME = len("conventional_high_dimensional") + 2


@app.command("list")
def list_experiments(as_json: Json = False) -> None:
    """List the experiments, with the number of their rows."""
    with plainly():
        from reproduction.experiments import EXPERIMENTS, MODES, SIZES

        for each in EXPERIMENTS:
            counts = {
                f"{size} {mode}": len(each.rows(size, mode, None))
                for size in SIZES
                for mode in MODES
            }
            report = {"name": each.name, "shows": each.shows, "rows": counts}
            told = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
            lines = [f"{each.name:{NAME}}{each.shows}", f"{'':{NAME}}rows: {told}"]
            show_report(report, lines, as_json=as_json)


@app.command()
def run(
    names: Names = None,
    size: SizeOption = "smoke",
    mode: ModeOption = "both",
    trials: Trials = None,
    only: Only = None,
    workers: Annotated[int, typer.Option(min=1, help="Processes.")] = 1,
    cluster: Annotated[
        str | None, typer.Option(help="A Dask scheduler's address, or its file .json.")
    ] = None,
    batch: Annotated[
        int | None,
        typer.Option(min=1, help="Rows that run as one, at most (default: as memory allows)."),
    ] = None,
    shard: Annotated[str, typer.Option(help="3/16: the third of 16 equal parts.")] = "1/1",
    retry: Annotated[bool, typer.Option("--retry", help="Try again what failed.")] = False,
    store: Folder = DEFAULT_STORE,
    as_json: Json = False,
) -> None:
    """Run the rows that are not in the store yet; interrupt it, and go on tomorrow."""
    with plainly(STOPPED_SWEEP):
        from pann.cli.sweep_screen import event_line, event_report, summary_line, sweep_bar
        from pann.runs import Event, Store, parse_shard, shard_of, sweep, units_of
        from pann.runtime import compile

        chosen = _chosen(names, size, mode, trials, only)
        part, kept = parse_shard(shard), Store(store)
        compile.use_compilation_cache()

        def told(event: Event) -> None:
            line = event_line(event, _shown(event.row.configuration))
            show_report(event_report(event), [line], as_json=as_json)

        for experiment, rows in chosen:
            together = _together(experiment, batch)
            own = sum(map(len, shard_of(units_of(rows, together), part)))
            with sweep_bar(experiment.name, own, told) as report:
                summary = sweep(
                    rows,
                    experiment.work,
                    kept,
                    workers=workers,
                    cluster=cluster,
                    together=together,
                    shard=part,
                    retry=retry,
                    report=report,
                )
            tell(f"{experiment.name}: {summary_line(summary)}")


@app.command()
def status(
    names: Names = None,
    size: SizeOption = "smoke",
    mode: ModeOption = "both",
    trials: Trials = None,
    only: Only = None,
    store: Folder = DEFAULT_STORE,
    as_json: Json = False,
) -> None:
    """Tell how many rows are done, failed and missing."""
    with plainly():
        from pann.runs import Store

        kept = Store(store)
        for experiment, rows in _chosen(names, size, mode, trials, only):
            records = [kept.record(row) for row in rows]
            counts = {
                "done": sum(r is not None and r["status"] == "done" for r in records),
                "failed": sum(r is not None and r["status"] == "failed" for r in records),
                "missing": sum(r is None for r in records),
            }
            told = ", ".join(f"{count} {name}" for name, count in counts.items())
            report = {"name": experiment.name, **counts}
            show_report(report, [f"{experiment.name:{NAME}}{told}"], as_json=as_json)


@app.command()
def summary(size: SizeOption = "full", form: Form = "text", store: Folder = DEFAULT_STORE) -> None:
    """Print how far the runs are from the paper, a line for each experiment."""
    with plainly():
        from pann.cli.options import choice
        from pann.runs import Store
        from reproduction.experiments import SIZES
        from reproduction.summary import summarize

        choice("size", size, SIZES)
        print(summarize(Store(store), size).shown(form))


@app.command()
def table(
    name: Annotated[str, typer.Argument(help="A name from `python -m reproduction list`.")],
    size: SizeOption = "full",
    form: Form = "text",
    store: Folder = DEFAULT_STORE,
) -> None:
    """Print published, faithful and default figures side by side."""
    with plainly():
        from pann.cli.options import choice
        from pann.runs import Store
        from reproduction.comparison import compare
        from reproduction.experiments import SIZES, experiment_named

        choice("size", size, SIZES)
        print(compare(experiment_named(name), Store(store), size).shown(form))


@app.command()
def figure(
    name: Annotated[str, typer.Argument(help="A name from `python -m reproduction list`.")],
    size: SizeOption = "full",
    out: Annotated[
        pathlib.Path | None, typer.Option("--out", help="Picture to write (default: NAME.png).")
    ] = None,
    store: Folder = DEFAULT_STORE,
    as_json: Json = False,
) -> None:
    """Draw a figure of the paper from the runs of the store."""
    with plainly():
        from pann.cli.options import choice
        from pann.plot.files import check_picture, write_picture
        from pann.runs import Store
        from reproduction.experiments import SIZES, experiment_named
        from reproduction.figures import draw

        choice("size", size, SIZES)
        experiment = experiment_named(name)
        path = out or pathlib.Path(f"{experiment.name}.png")
        check_picture(path)
        write_picture(draw(experiment, Store(store), size), path)
        report = {"name": experiment.name, "size": size, "picture": str(path)}
        show_report(report, [f"wrote {path}"], as_json=as_json)


@app.command()
def report(
    out: Annotated[pathlib.Path, typer.Option("--out", help="Page to write.")] = pathlib.Path(
        "paper-report.html"
    ),
    store: Folder = DEFAULT_STORE,
    as_json: Json = False,
) -> None:
    """Write one HTML page of all runs in the store beside what the paper printed."""
    with plainly():
        from pann.report.writing import check_page, write_page
        from pann.runs import Store
        from reproduction.report.paper import paper_page

        check_page(out)
        size = write_page(paper_page(Store(store)), out)
        told = {"page": str(out), "bytes": size}
        show_report(told, [f"wrote {out} ({size / 1e6:.1f} MB)"], as_json=as_json)


def _together(experiment: Any, batch: int | None) -> Any:
    """How the rows of an experiment run as one, so many of them if a number is given."""
    if experiment.together is None or batch is None:
        return experiment.together
    return dataclasses.replace(experiment.together, at_most=batch, room=None)


def _chosen(
    names: list[str] | None, size: str, mode: str, trials: int | None, only: list[str] | None
) -> list[tuple[Any, list[Any]]]:
    from pann.cli.options import choice
    from reproduction.experiments import EXPERIMENTS, MODES, SIZES, experiment_named

    choice("size", size, SIZES)
    choice("mode", mode, (*MODES, "both"))
    every = not names or names == ["all"]
    experiments = EXPERIMENTS if every else [experiment_named(name) for name in names or ()]
    modes = MODES if mode == "both" else (mode,)
    found = [
        (each, [row for kind in modes for row in each.rows(size, kind, trials)])
        for each in experiments
    ]
    for wish in only or ():
        found = [(each, rows) for each, rows in _with_setting(found, wish) if rows]
    return found


def _with_setting(
    chosen: list[tuple[Any, list[Any]]], wish: str
) -> Iterator[tuple[Any, list[Any]]]:
    """The rows that have a setting, given as name=value."""
    name, equals, value = (part.strip() for part in wish.partition("="))
    known = {key for _, rows in chosen for row in rows for key in row.configuration}
    if not equals or name not in known:
        raise ValueError(
            f"--only takes name=value with one of {', '.join(sorted(known))}, got '{wish}'"
        )
    values = {str(row.configuration.get(name)) for _, rows in chosen for row in rows} - {"None"}
    if value not in values:
        raise ValueError(f"no row has {name}={value}; there are {', '.join(sorted(values))}")
    for each, rows in chosen:
        yield each, [row for row in rows if str(row.configuration.get(name)) == value]


def _shown(configuration: Mapping[str, Any]) -> str:
    told = dict(configuration)
    if "reading" in told:
        from reproduction import readings

        told["reading"] = readings.told(told)
    words = [str(told[name]) for name in SHOWN if name in told]
    if "depth" in configuration:
        words.append(f"{configuration['depth']}x{configuration['width']}")
    if "dimension" in configuration:
        words.append(f"{configuration['dimension']}D")
    if "num_points" in configuration:
        words.append(f"N={configuration['num_points']:,}")
    return " ".join(words)
