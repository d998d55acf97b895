"""`pann sweep`: every combination of some options of `pann solve` or `pann fit`."""

import pathlib
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pann.cli.terminal import STOPPED_SWEEP, Json, plainly, show_report, tell

if TYPE_CHECKING:
    from pann.cli.grid import Grid
    from pann.runs import Row

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
        from pann import runs
        from pann.cli import grid as grids
        from pann.cli.sweep_screen import (
            event_line,
            event_report,
            settings_text,
            summary_line,
            sweep_bar,
            table_lines,
        )
        from pann.runtime import compile

        made, part, kept = grids.read_grid(grid), runs.parse_shard(shard), runs.Store(store)
        settings = lambda row: {name: row.configuration[name] for name in made.crossed}
        if dry_run:
            for row in made.rows:
                listed = {"identity": row.identity, **settings(row)}
                show_report(listed, [settings_text(settings(row))], as_json=as_json)
            tell(f"{len(made.rows)} runs; none was begun (--dry-run)")
            return
        compile.use_compilation_cache()

        def show(event: runs.Event) -> None:
            line = event_line(event, settings_text(settings(event.row)))
            show_report(event_report(event), [line], as_json=as_json)

        with sweep_bar(made.name, len(made.rows[part[0] - 1 :: part[1]]), show) as report:
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


def _line(grid: "Grid", row: "Row", record: dict[str, Any]) -> dict[str, Any]:
    figures = {
        name: record["figures"].get(key)
        for name, key in SHOWN[grid.kind].items()
        if name not in grid.crossed
    }
    settings = {name: row.configuration[name] for name in grid.crossed}
    return {**settings, **figures, "seconds": record["seconds"], "status": record["status"]}
