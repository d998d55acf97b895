"""The commands for the paper: list, run, status, summary, table, figure, report and pack."""

import dataclasses
import pathlib
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from pann.cli import STOPPED_SWEEP, Json, plainly, show_report, tell

app = typer.Typer(help="The paper's experiments: run them, and compare.", no_args_is_help=True)

Names = Annotated[
    list[str] | None,
    typer.Argument(help="Names from `python -m reproduction list`; all by default."),
]
Folder = Annotated[pathlib.Path, typer.Option("--store", help="Folder that keeps the runs.")]
SizeOption = Annotated[str, typer.Option(help="smoke (seconds), quick or full (as published).")]
ModeOption = Annotated[str, typer.Option(help="faithful, default or both.")]
Trials = Annotated[int | None, typer.Option(min=1, help="Seeds per row (default: by the size).")]
Form = Annotated[str, typer.Option("--format", help="text, markdown, latex or csv.")]
Only = Annotated[
    list[str] | None,
    typer.Option(help="num_points=16384: only rows with this setting; may be given again."),
]
# The settings in the line of a row.
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
            text = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
            lines = [f"{each.name:{NAME}}{each.shows}", f"{'':{NAME}}rows: {text}"]
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
    """Run the rows that are not in the store yet; after an interruption, the same again."""
    with plainly(STOPPED_SWEEP):
        from pann.cli import event_line, event_report, summary_line, sweep_bar
        from pann.runs import Event, Store, parse_shard, shard_of, sweep, units_of
        from pann.runtime import use_compilation_cache
        from reproduction.published import shown_name

        chosen = _chosen(names, size, mode, trials, only)
        part, kept = parse_shard(shard), Store(store)
        use_compilation_cache()

        def show(event: Event) -> None:
            line = event_line(event, _shown(event.row.configuration))
            show_report(event_report(event), [shown_name(line)], as_json=as_json)

        for experiment, rows in chosen:
            together = _together(experiment, batch)
            own = sum(map(len, shard_of(units_of(rows, together), part)))
            with sweep_bar(experiment.name, own, show) as report:
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
    """Count the rows that are done, failed and missing."""
    with plainly():
        from pann.runs import Store

        kept = Store(store)
        for experiment, rows in _chosen(names, size, mode, trials, only):
            records = [kept.record(row) for row in rows]
            found = ["missing" if record is None else record["status"] for record in records]
            counts = {status: found.count(status) for status in ("done", "failed", "missing")}
            text = ", ".join(f"{count} {name}" for name, count in counts.items())
            report = {"name": experiment.name, **counts}
            show_report(report, [f"{experiment.name:{NAME}}{text}"], as_json=as_json)


@app.command()
def summary(size: SizeOption = "full", form: Form = "text", store: Folder = DEFAULT_STORE) -> None:
    """Print how far the runs are from the paper, a line for each experiment."""
    with plainly():
        from pann.cli import choice
        from pann.runs import Store
        from reproduction.comparison import summarize
        from reproduction.experiments import SIZES

        choice("size", size, SIZES)
        print(summarize(Store(store), size).formatted(form))


@app.command()
def table(
    name: Annotated[str, typer.Argument(help="A name from `python -m reproduction list`.")],
    size: SizeOption = "full",
    form: Form = "text",
    store: Folder = DEFAULT_STORE,
) -> None:
    """Print published, faithful and default figures side by side."""
    with plainly():
        from pann.cli import choice
        from pann.runs import Store
        from reproduction.comparison import compare
        from reproduction.experiments import SIZES, experiment_named

        choice("size", size, SIZES)
        print(compare(experiment_named(name), Store(store), size).formatted(form))


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
        from pann.cli import choice
        from pann.plot import check_picture, write_picture
        from pann.runs import Store
        from reproduction.experiments import SIZES, experiment_named
        from reproduction.pictures import draw

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
    """Write one HTML page of all runs in the store with what the paper printed."""
    with plainly():
        from pann.report.writing import check_page, write_page
        from pann.runs import Store
        from reproduction.report import paper_page

        check_page(out)
        size = write_page(paper_page(Store(store)), out)
        written = {"page": str(out), "bytes": size}
        show_report(written, [f"wrote {out} ({size / 1e6:.1f} MB)"], as_json=as_json)


@app.command()
def pack(
    out: Annotated[pathlib.Path, typer.Option("--out", help="File to write, *.jsonl.xz.")],
    store: Folder = DEFAULT_STORE,
) -> None:
    """Write all runs of a store to one small file, which --store of the other commands reads."""
    with plainly():
        from pann.runs import Store
        from pann.runs import pack as pack_store

        tell(f"wrote {pack_store(Store(store), out)} runs to {out}")


@app.command()
def unpack(
    store: Annotated[pathlib.Path, typer.Option("--store", help="A packed store, *.jsonl.xz.")],
    out: Annotated[pathlib.Path, typer.Option("--out", help="Folder to add its runs to.")],
) -> None:
    """Copy the runs of a packed store into a folder, for `run` to go on with."""
    with plainly():
        from pann.runs import Store, copy_records

        tell(f"added {copy_records(Store(store), Store(out))} runs to {out}")


def _together(experiment: Any, batch: int | None) -> Any:
    """How the rows of an experiment run as one, at most `batch` of them if it is given."""
    if experiment.together is None or batch is None:
        return experiment.together
    return dataclasses.replace(experiment.together, at_most=batch, room=None)


def _chosen(
    names: list[str] | None, size: str, mode: str, trials: int | None, only: list[str] | None
) -> list[tuple[Any, list[Any]]]:
    """The experiments of these names with their rows of that size and mode."""
    from pann.cli import choice
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
    for setting in only or ():
        found = [(each, rows) for each, rows in _with_setting(found, setting) if rows]
    return found


def _with_setting(chosen: list[tuple[Any, list[Any]]], setting: str) -> list[tuple[Any, list[Any]]]:
    """The rows that have a setting, given as name=value."""
    from reproduction.published import shown_name

    name, equals, value = (part.strip() for part in setting.partition("="))
    value_of = lambda row: shown_name(str(row.configuration.get(name)))
    known = {key for _, rows in chosen for row in rows for key in row.configuration}
    if not equals or name not in known:
        raise ValueError(
            f"--only takes name=value with one of {', '.join(sorted(known))}, got '{setting}'"
        )
    values = {value_of(row) for _, rows in chosen for row in rows} - {"None"}
    if shown_name(value) not in values:
        raise ValueError(f"no row has {name}={value}; there are {', '.join(sorted(values))}")
    return [
        (each, [row for row in rows if value_of(row) == shown_name(value)]) for each, rows in chosen
    ]


def _shown(configuration: Mapping[str, Any]) -> str:
    """The settings of a row in a few words."""
    settings = dict(configuration)
    if "reading" in settings:
        from reproduction.readings import shown_reading

        settings["reading"] = shown_reading(settings)
    words = [str(settings[name]) for name in SHOWN if name in settings]
    if "depth" in settings:
        words.append(f"{settings['depth']}x{settings['width']}")
    if "dimension" in settings:
        words.append(f"{settings['dimension']}D")
    if "num_points" in settings:
        words.append(f"N={settings['num_points']:,}")
    return " ".join(words)
