"""Work in a folder: a log, checkpoints to go on from, and at the end the solution's file."""

import contextlib
import dataclasses
import pathlib
import tempfile
import time
from collections.abc import Callable, Sequence

from pann.checkpoints import Checkpoint, open_checkpoint
from pann.files import FileError, read
from pann.pde.problem import Problem
from pann.runtime_limits import Progress, Report
from pann.solution import Solution, load
from pann.solving.log import TextLog
from pann.solving.setup import Setup

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

    def alone(checkpoint: Checkpoint, report: Report, begin: float) -> list[Solution]:
        return [work(dataclasses.replace(setup, checkpoint=checkpoint, report=report), begin=begin)]

    (solution,) = all_in_folder(
        folder,
        configuration,
        setup.problem,
        setup.report,
        alone,
        (FILE_NAME,),
        begin=begin,
        resume=resume,
        interval=interval,
    )
    return solution


def all_in_folder(
    folder: pathlib.Path,
    configuration: dict[str, str],
    problem: Problem,
    tell: Report,
    work: Callable[[Checkpoint, Report, float], list[Solution]],
    file_names: Sequence[str],
    *,
    begin: float,
    resume: bool,
    interval: float | int,
) -> list[Solution]:
    """The same for work that gives several solutions, one for each name of a file.

    `work` gets a checkpoint, whom to tell of progress, and when it began, less the time before.
    """
    checkpoint, finished = open_checkpoint(folder, configuration, resume=resume, interval=interval)
    paths, log = [folder / name for name in file_names], TextLog(folder)
    if finished and all(path.exists() for path in paths):
        return [dataclasses.replace(load(read(path)), problem=problem) for path in paths]
    before = checkpoint.seconds_before
    log.write(f"{problem.name}: " + (f"resumed after {before:.0f} s" if before else "begun"))

    def report(progress: Progress) -> None:
        log(progress)
        tell(progress)

    try:
        solutions = work(checkpoint, report, begin - before)
    except BaseException as error:
        log.write(f"stopped by {type(error).__name__} after {time.perf_counter() - begin:.0f} s")
        with contextlib.suppress(FileError):
            checkpoint.flush()
        raise
    for solution, path in zip(solutions, paths, strict=True):
        solution.save(path)
    if stopped := next((s.report.stopped for s in solutions if s.report.stopped), None):
        # Not finished: `resume=True` goes on from here.
        checkpoint.flush()
        log.write(f"stopped by {stopped} after {time.perf_counter() - begin + before:.0f} s")
        return solutions
    checkpoint.close()
    log.write(f"finished after {time.perf_counter() - begin + before:.0f} s")
    return solutions


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
