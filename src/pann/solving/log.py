"""A log file: one line of text for every step that is told of."""

import contextlib
import datetime
import pathlib

from pann.runtime_limits import Progress

FILE_NAME = "log.txt"


class TextLog:
    """A `report` that appends to `log.txt` in a folder."""

    def __init__(self, folder: pathlib.Path):
        self.path = folder / FILE_NAME

    def __call__(self, progress: Progress) -> None:
        figures = "  ".join(f"{name} {value:.4e}" for name, value in progress.figures.items())
        self.write(f"{progress.what} {progress.step:,} of {progress.num_steps:,}  {figures}")

    def write(self, text: str) -> None:
        now = datetime.datetime.now().astimezone().strftime("%Y-%m-%d %H:%M:%S")
        # The work is worth more than its log: a full disk is met again by the checkpoint.
        with contextlib.suppress(OSError), open(self.path, "a", encoding="utf-8") as file:
            file.write(f"{now}  {text}\n")
