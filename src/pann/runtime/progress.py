"""Showing progress: a bar on a terminal, lines elsewhere, JSON for programs, TensorBoard."""

import contextlib
import datetime
import json
import math
import os
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import IO, TYPE_CHECKING

from pann.runtime.limits import Progress as Step
from pann.runtime.limits import Report, limited

if TYPE_CHECKING:
    from rich.console import Console

# Seconds between updates of a line in place, and between lines of a log.
REFRESH, LOG_EVERY = 0.2, 10.0


@contextlib.contextmanager
def supervised(
    title: str,
    progress: bool | Report | None = None,
    time_limit: float | int | None = None,
    *,
    ctrl_c: bool = True,
) -> Iterator[Report]:
    """Yield the `report` of a run: it shows progress, and raises `Stopped` when the run is to end.

    `progress` is True, False, None for a display on a terminal or in a notebook only, or a callback
    that gets every `Progress`; see `pann.runtime.limits.limited` for the time limit and Ctrl-C.
    """
    with display(title, progress) as show, limited(show, time_limit, ctrl_c=ctrl_c) as report:
        yield report


def display(title: str, progress: bool | Report | None = None) -> AbstractContextManager[Report]:
    """The context of a `report` that shows progress as `progress` says; see `supervised`."""
    if callable(progress):
        return contextlib.nullcontext(progress)
    if progress not in (None, True, False):
        raise ValueError(
            f"progress is True, False, None or a function of a Progress, got {progress!r}; leave "
            "it out to see progress on a terminal"
        )
    silent = contextlib.nullcontext(lambda step: None)
    if progress is False:
        return silent
    from rich.console import Console

    console = Console(stderr=True)
    if console.is_terminal:
        return progress_bar(title, console)
    if console.is_jupyter or progress:
        return progress_line(title, sys.stderr, in_place=console.is_jupyter)
    return silent


@contextlib.contextmanager
def progress_line(title: str, file: IO[str], *, in_place: bool) -> Iterator[Report]:
    """Yield a `report` that writes lines of text, each over the last one if `in_place`."""
    last_what, last_time, width = "", -math.inf, 0

    def report(step: Step) -> None:
        nonlocal last_what, last_time, width
        now = time.monotonic()
        is_due = now - last_time >= (REFRESH if in_place else LOG_EVERY)
        if not is_due and (in_place or step.what == last_what):
            return
        last_what, last_time = step.what, now
        figures = "".join(f"  {name} {value:.2e}" for name, value in step.figures.items())
        line = f"{title}: {step.what} {step.step:,}/{step.num_steps:,}{figures}"
        # Blanks cover the rest of a longer previous line.
        print(f"\r{line:<{width}}" if in_place else line, end="" if in_place else "\n", file=file)
        file.flush()
        width = len(line)

    yield report
    if width and in_place:
        print(file=file)


@contextlib.contextmanager
def progress_bar(
    title: str, console: "Console | None" = None, *, disable: bool = False
) -> Iterator[Report]:
    """Yield a `report` that draws a bar with speed and time left, and the figures below it.

    Silent where the console is not a terminal.
    """
    # Loaded when first used: `import pann` does not need it.
    from rich.console import Console, Group
    from rich.live import Live
    from rich.progress import BarColumn, Progress, TextColumn
    from rich.text import Text

    console = console or Console(stderr=True)
    if disable or not console.is_terminal:
        yield lambda step: None
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TextColumn("{task.completed:,}/{task.total:,}"),
        TextColumn("{task.fields[speed]}"),
    )
    bars, figures = Progress(*columns, console=console), Text()
    bar = bars.add_task(title, total=1, speed="")
    # The first report of a stage comes after its compilation: speed counts from there.
    what, first, since = "", 0, 0.0
    with Live(Group(bars, figures), console=console, transient=True):

        def report(step: Step) -> None:
            nonlocal what, first, since
            now, speed = time.perf_counter(), ""
            if step.what != what or step.step <= first:
                what, first, since = step.what, step.step, now
            else:
                each = (now - since) / (step.step - first)
                left = datetime.timedelta(seconds=round(each * (step.num_steps - step.step)))
                rate = 1 / max(each, 1e-9)
                speed = f"{rate:,.0f} steps/s" if rate >= 10 else f"{rate:.2g} steps/s"
                speed += f", {left} left"
            bars.update(
                bar,
                description=f"{title}: {step.what}",
                total=step.num_steps,
                completed=step.step,
                speed=speed,
            )
            figures.plain = "  ".join(f"{name} {value:.2e}" for name, value in step.figures.items())

        yield report


def json_lines(file: IO[str]) -> Report:
    """A `report` that writes one JSON object per line, {"event": "progress", ...}."""
    start = time.perf_counter()

    def report(step: Step) -> None:
        figures = {
            name: value if math.isfinite(value) else None for name, value in step.figures.items()
        }
        entry = {
            "event": "progress",
            "what": step.what,
            "step": step.step,
            "steps": step.num_steps,
            "seconds": round(time.perf_counter() - start, 3),
            "figures": figures,
        }
        print(json.dumps(entry, allow_nan=False), file=file, flush=True)

    return report


@contextlib.contextmanager
def tensorboard(folder: str | os.PathLike[str]) -> Iterator[Report]:
    """Yield a `report` that writes scalars which `tensorboard --logdir FOLDER` shows."""
    try:
        from tensorboardX import SummaryWriter
    except ImportError:
        raise ValueError(
            "scalars for TensorBoard need the package tensorboardX; install pann[tensorboard]"
        ) from None
    with SummaryWriter(str(folder)) as writer:

        def report(step: Step) -> None:
            for name, value in step.figures.items():
                writer.add_scalar(f"{step.what}/{name}".replace(" ", "_"), value, step.step)

        yield report


def to_all(*reports: Report) -> Report:
    """A `report` that calls several."""

    def report(step: Step) -> None:
        for each in reports:
            each(step)

    return report
