"""Work in a folder: a log, checkpoints to go on from, and at the end the solution's file."""

import contextlib
import dataclasses
import pathlib
import tempfile
import time
from collections.abc import Callable

from pann.checkpoints import open_checkpoint
from pann.files import FileError, read
from pann.solution import Solution, load
from pann.solving.log import TextLog
from pann.solving.setup import Setup
from pann.training.stage import Progress

FILE_NAME = "solution.pann"


def in_folder(
    folder: pathlib.Path,
    configuration: dict[str, str],
    setup: Setup,
    work: Callable[..., Solution],
    *,
    begin: float,
    resume: bool,
    interval: float | int,
) -> Solution:
    """Do the work, or go on with it; what is finished is read."""
    checkpoint, finished = open_checkpoint(folder, configuration, resume=resume, interval=interval)
    path, log = folder / FILE_NAME, TextLog(folder)
    if finished and path.exists():
        return dataclasses.replace(load(read(path)), problem=setup.problem)
    before = checkpoint.seconds_before
    log.write(f"{setup.problem.name}: " + (f"resumed after {before:.0f} s" if before else "begun"))

    def report(progress: Progress) -> None:
        log(progress)
        setup.report(progress)

    own = dataclasses.replace(setup, checkpoint=checkpoint, report=report)
    try:
        solution = work(own, begin=begin - before)
    except BaseException as error:
        log.write(f"stopped by {type(error).__name__} after {time.perf_counter() - begin:.0f} s")
        with contextlib.suppress(FileError):
            checkpoint.flush()
        raise
    solution.save(path)
    checkpoint.close()
    log.write(f"finished after {solution.report.seconds:.0f} s")
    return solution


def prepared_folder(folder: pathlib.Path) -> pathlib.Path:
    """Make the folder, and find out before the work whether it can be written to."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except FileExistsError:
        raise ValueError(f"'{folder}' is a file; out names a folder") from None
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ValueError(f"cannot write to the folder '{folder}': {reason}") from None
    return folder
