"""A progress bar for training on a terminal; silent anywhere else."""

import contextlib
from collections.abc import Iterator

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from pann.training import Progress as Step
from pann.training import Stage
from pann.training.stage import Report


@contextlib.contextmanager
def progress_bar(
    title: str, console: Console | None = None, *, disable: bool = False
) -> Iterator[Report]:
    """Yield a `report` for `fit` that draws one bar: the stage, its figures, the time left."""
    console = console or Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TextColumn("{task.completed}/{task.total}"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[figures]}"),
    )
    with Progress(
        *columns, console=console, transient=True, disable=disable or not console.is_terminal
    ) as bars:
        bar = bars.add_task(title, total=1, figures="")
        last: list[Stage] = []

        def report(step: Step) -> None:
            if last[-1:] != [step.stage]:
                bars.reset(bar, total=step.num_steps, description=_title(title, step.stage))
                last.append(step.stage)
            figures = "  ".join(f"{name} {value:.2e}" for name, value in step.figures.items())
            bars.update(bar, completed=step.step, figures=figures)

        yield report


def _title(title: str, stage: Stage) -> str:
    return f"{title}: {type(stage).__name__}"
