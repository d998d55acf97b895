"""The output of a sweep: a line for each event, a bar on a terminal, a table at the end."""

import contextlib
import datetime
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from pann.runs import Event, Summary

Report = Callable[[Event], None]


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
