"""Telling of progress: a bar on a terminal, lines of JSON for programs, scalars for TensorBoard."""

import contextlib
import datetime
import json
import math
import os
import time
from collections.abc import Iterator
from typing import IO

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, Progress, TextColumn
from rich.text import Text

from pann.training import Progress as Step
from pann.training.stage import Report


@contextlib.contextmanager
def progress_bar(
    title: str, console: Console | None = None, *, disable: bool = False
) -> Iterator[Report]:
    """Yield a `report` that draws a bar with speed and time left, and the figures below it.

    Silent where the console is not a terminal.
    """
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
    """A `report` that writes one JSON object a line, {"event": "progress", ...}."""
    start = time.perf_counter()

    def report(step: Step) -> None:
        figures = {
            name: value if math.isfinite(value) else None for name, value in step.figures.items()
        }
        told = {
            "event": "progress",
            "what": step.what,
            "step": step.step,
            "steps": step.num_steps,
            "seconds": round(time.perf_counter() - start, 3),
            "figures": figures,
        }
        print(json.dumps(told, allow_nan=False), file=file, flush=True)

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
    """A `report` that tells several."""

    def report(step: Step) -> None:
        for each in reports:
            each(step)

    return report
