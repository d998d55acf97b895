"""`pann sweep`: every combination of some options of `pann solve` or `pann fit`.

On the screen are a line for each event, a bar on a terminal, and a table at the end.
"""

import contextlib
import datetime
import pathlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from pann import runs
from pann.cli.grid import Grid, read_grid
from pann.cli.terminal import STOPPED_SWEEP, Json, plainly, show_report, tell
from pann.runs import Event, Row, Summary
from pann.runtime import compile

Report = Callable[[Event], None]

DEFAULT_STORE = pathlib.Path("sweep-runs")
# What the table shows of a record's figures, by the kind of work.
COMMON = {"degree": "degree", "terms": "terms", "units": "units"}
SHOWN = {
    "solve": {"error": "rel_l2", "residual": "residual", **COMMON},
    "fit": {"rmse": "rmse", "r2": "r2", **COMMON},
}


def sweep(
    grid: Annotated[
        pathlib.Path,
        typer.Argument(help="A grid in TOML, as above.", show_default=False),
    ],
    store: Annotated[
        pathlib.Path, typer.Option("--store", help="Folder that keeps the runs.")
    ] = DEFAULT_STORE,
    workers: Annotated[int, typer.Option(min=1, help="Processes on this machine.")] = 1,
    cluster: Annotated[
        str | None,
        typer.Option(help="Address of a Dask scheduler, or its file .json."),
    ] = None,
    shard: Annotated[str, typer.Option(help="3/16: the third of 16 equal parts.")] = "1/1",
    retry: Annotated[bool, typer.Option("--retry", help="Try again what failed.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list the runs.")] = False,
    as_json: Json = False,
) -> None:
    r"""Solve an equation, or fit a table, with every combination of some options.

    A grid is a file such as

        solve = "allen_cahn"     # a name from `pann list`, or a Python file

        \[fixed]                  # options of `pann solve`, the same in all runs
        width = 0

        \[grid]                   # every combination of these is a run
        degree = [8, 12, 16]
        points = [1024, 4096]

    With fit = "houses.csv" the options are those of `pann fit`, target = "price" among them.

    Runs that are in the store are not done again: interrupt the sweep, and go on tomorrow.
    """
    with plainly(STOPPED_SWEEP):
        made, part, kept = read_grid(grid), runs.parse_shard(shard), runs.Store(store)
        if dry_run:
            for row in made.rows:
                listed = {"identity": row.identity, **made.settings(row)}
                show_report(listed, [settings_text(made.settings(row))], as_json=as_json)
            tell(f"{len(made.rows)} runs; none was begun (--dry-run)")
            return
        compile.use_compilation_cache()

        def show(event: Event) -> None:
            line = event_line(event, settings_text(made.settings(event.row)))
            show_report(event_report(event), [line], as_json=as_json)

        with sweep_bar(made.name, len(runs.shard_of(made.rows, part)), show) as report:
            summary = runs.sweep(
                made.rows,
                made.work,
                kept,
                workers=workers,
                cluster=cluster,
                shard=part,
                retry=retry,
                report=report,
            )
        # One line for each run of the grid that has a record, in the grid's order.
        records = [(row, record) for row in made.rows if (record := kept.record(row)) is not None]
        lines = [_line(made, row, record) for row, record in records]
        if as_json:
            for line in lines:
                show_report({"event": "result", **line}, [], as_json=True)
        elif lines:
            cells = [list(line.values()) for line in lines]
            show_report({}, ["", *table_lines(list(lines[0]), cells)], as_json=False)
        tell(f"{made.name}: {summary_line(summary)}; the runs are in {store}")


def _line(grid: Grid, row: Row, record: dict[str, Any]) -> dict[str, Any]:
    figures = {
        name: record["figures"].get(key)
        for name, key in SHOWN[grid.kind].items()
        if name not in grid.crossed
    }
    ended = {"seconds": record["seconds"], "status": record["status"]}
    return {**grid.settings(row), **figures, **ended}


# ---- What is shown ----


@contextlib.contextmanager
def sweep_bar(
    title: str, num_rows: int, show: Report, console: Console | None = None
) -> Iterator[Report]:
    """Yield a `report` that shows an event, and draws the numbers of rows and the time left.

    On a console that is not a terminal it draws no bar.
    """
    console = console or Console(stderr=True)
    if not console.is_terminal:
        yield show
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TextColumn("{task.completed:,}/{task.total:,}"),
        TextColumn("{task.fields[state]}"),
    )
    running: set[str] = set()
    ended, num_failed, start = 0, 0, time.perf_counter()
    with Progress(*columns, console=console, transient=True) as bars:
        bar = bars.add_task(title, total=num_rows, state="")

        def report(event: Event) -> None:
            nonlocal ended, num_failed
            show(event)
            identity = event.row.identity
            if event.kind == "begun":
                running.add(identity)
            else:
                ended += identity in running
                running.discard(identity)
                num_failed += event.kind == "failed"
                bars.advance(bar)
            state = [f"{len(running)} at work"]
            state += [f"{num_failed} failed"] if num_failed else []
            if ended:
                left = num_rows - bars.tasks[0].completed
                seconds = round(left * (time.perf_counter() - start) / ended)
                state.append(f"{datetime.timedelta(seconds=seconds)} left")
            bars.update(bar, state=", ".join(state))

        yield report


def event_report(event: Event) -> dict[str, Any]:
    """The object that `--json` prints for an event."""
    return {
        "event": event.kind,
        "experiment": event.row.experiment,
        "identity": event.row.identity,
        "seconds": round(event.seconds, 3),
        "reason": event.reason,
    }


def event_line(event: Event, what: str) -> str:
    took = f"  {event.seconds:.1f} s" if event.seconds else ""
    reason = f"  {event.reason}" if event.reason else ""
    return f"{event.kind:8}{event.row.experiment}  {what}{took}{reason}"


def summary_line(summary: Summary) -> str:
    return (
        f"{summary.done} done, {summary.skipped} done before, {summary.failed} failed, "
        f"{summary.failed_before} failed before, {summary.claimed} with others"
    )


def table_lines(heading: Sequence[str], lines: Sequence[Sequence[Any]]) -> list[str]:
    """Columns under their names; numbers to the right, and short."""
    texts = [[cell_text(cell) for cell in line] for line in lines]
    widths = [max(map(len, column)) for column in zip(heading, *texts, strict=True)]
    numeric = [
        all(type(cell) in (int, float, type(None)) for cell in column)
        for column in zip(*lines, strict=True)
    ] or [False] * len(heading)
    aligned = lambda line: "  ".join(
        text.rjust(width) if right else text.ljust(width)
        for text, width, right in zip(line, widths, numeric, strict=True)
    ).rstrip()
    return [aligned(line) for line in (heading, *texts)]


def cell_text(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.3g}"
    if isinstance(value, list | tuple):
        return ",".join(map(cell_text, value))
    return str(value)


def settings_text(settings: Mapping[str, Any]) -> str:
    """degree 8, width 16."""
    return ", ".join(f"{name} {cell_text(value)}" for name, value in settings.items())
