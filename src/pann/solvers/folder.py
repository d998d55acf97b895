"""Work in a folder: a log, checkpoints to go on from, and at the end the solution's file."""

import contextlib
import dataclasses
import datetime
import hashlib
import os
import pathlib
from collections.abc import Callable, Mapping, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from pann.basis import ShapeBasis, WholeBasis, highest_degree
from pann.io import FileError, read
from pann.io.checkpoint import open_checkpoint
from pann.model.architecture import Architecture
from pann.pde.collocation import Placed
from pann.pde.problem import Problem
from pann.runtime.atomic import check_folder
from pann.runtime.limits import Progress
from pann.solvers.setup import Run, Setup
from pann.solvers.solution import Solution, load

LOG, SOLUTION = "log.txt", "solution.pann"


@dataclasses.dataclass(frozen=True)
class Folder:
    """A folder for the solution, its log and its checkpoints, with the seconds between these."""

    path: str | os.PathLike[str]
    checkpoint_every: float | int = 30.0

    def __post_init__(self) -> None:
        every = self.checkpoint_every
        if isinstance(every, bool) or not isinstance(every, int | float) or not every >= 0:
            raise ValueError(f"checkpoint_every is a number of seconds, got {every!r}")


def in_folder(
    folder: Folder,
    configuration: dict[str, str],
    problem: Problem,
    run: Run,
    work: Callable[[Run], list[Solution]],
    file_names: Sequence[str],
    *,
    resume: bool,
) -> list[Solution]:
    """Do the work, or go on with it; what is finished is read.

    It gives a solution for each name of a file. `work` gets the run with its checkpoint, with a
    log, and begun earlier by the time before.
    """
    path = pathlib.Path(folder.path)
    checkpoint, finished = open_checkpoint(
        path, configuration, resume=resume, interval=folder.checkpoint_every
    )
    files = [path / name for name in file_names]
    if finished and all(file.exists() for file in files):
        return [dataclasses.replace(load(read(file)), problem=problem) for file in files]
    before = checkpoint.seconds_before

    def log(text: str) -> None:
        now = datetime.datetime.now().astimezone().strftime("%Y-%m-%d %H:%M:%S")
        # The work is worth more than its log: a full disk is met again by the checkpoint.
        with contextlib.suppress(OSError), open(path / LOG, "a", encoding="utf-8") as stream:
            stream.write(f"{now}  {text}\n")

    def logged(progress: Progress) -> None:
        figures = "  ".join(f"{name} {value:.4e}" for name, value in progress.figures.items())
        log(f"{progress.what} {progress.step:,} of {progress.num_steps:,}  {figures}")
        run.report(progress)

    own = dataclasses.replace(run, report=logged, checkpoint=checkpoint, begin=run.begin - before)
    log(f"{problem.name}: " + (f"resumed after {before:.0f} s" if before else "begun"))
    try:
        solutions = work(own)
    except BaseException as error:
        log(f"stopped by {type(error).__name__} after {run.seconds:.0f} s")
        with contextlib.suppress(FileError):
            checkpoint.flush()
        raise
    for solution, file in zip(solutions, files, strict=True):
        solution.save(file)
    if stopped := next((s.report.stopped for s in solutions if s.report.stopped), None):
        # Not finished: `resume=True` goes on from here.
        checkpoint.flush()
        log(f"stopped by {stopped} after {own.seconds:.0f} s")
        return solutions
    checkpoint.close()
    log(f"finished after {own.seconds:.0f} s")
    return solutions


def prepared_folder(out: str | os.PathLike[str] | Folder) -> Folder:
    """Make the folder, and find out before the work whether it can be written to."""
    folder = out if isinstance(out, Folder) else Folder(out)
    check_folder(folder.path, create=True)
    return folder


def configuration(
    setup: Setup,
    ladder: Sequence[WholeBasis],
    architectures: Sequence[Architecture],
    start_from: Solution | None,
    given: Mapping[str, str],
) -> dict[str, str]:
    """What determines a solution, in words: work goes on only where all of it agrees.

    Problem, bases, networks, options and points by name, the plainest first.
    """
    problem, basis = setup.problem, ladder[0]
    placed = setup.placed(basis)
    plain = {
        "problem": problem.name,
        "domain": str(problem.domain),
        "seed": str(setup.seed),
        "precision": architectures[0].precision if architectures else "float64",
        "degree": ", ".join(str(highest_degree(each)) for each in ladder),
        "terms": ", ".join(str(_num_terms(each)) for each in ladder),
        "network": "; ".join(str(each) for each in architectures),
    }
    # Last what follows from the rest, or has no name.
    derived = {
        "start": "nothing" if start_from is None else _hash(*jax.tree.leaves(start_from.model)),
        "points": f"{len(placed[0].points):,} ({_hash(placed[0].points)})",
        "condition points": ", ".join(
            f"{each.name} {len(each.points):,} ({_hash(each.points)})" for each in placed[1:]
        ),
        "basis": _hash(
            *(e.singular.numbers if isinstance(e, ShapeBasis) else e.degrees for e in ladder)
        ),
        "equation and conditions": _measured(setup, placed, basis),
    }
    return plain | dict(given) | derived


def _num_terms(basis: WholeBasis) -> int:
    """Those of a shape that depend on others are found when it is used."""
    if isinstance(basis, ShapeBasis):
        return basis.num_polynomials + len(basis.singular)
    return basis.num_terms


def _hash(*arrays: object) -> str:
    """A short name for the bits of some arrays."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(np.ascontiguousarray(np.asarray(array)).tobytes())
    return digest.hexdigest()[:12]


def _measured(setup: Setup, placed: Sequence[Placed], basis: WholeBasis) -> str:
    """Functions have no name to compare: the size of every residual at one arbitrary state."""
    problem = setup.problem
    draws = np.random.default_rng(0).normal(size=(basis.num_terms, len(problem.fields)))
    b = jnp.asarray(draws / (1 + np.asarray(basis.degrees, float)[:, None]) ** 2)
    parameters = {name: jnp.asarray(value + 0.1) for name, value in problem.parameters.items()}
    sizes = [
        jnp.linalg.norm(block.residual(block.polynomial_channels(b), parameters))
        for block in (setup.fresh(basis), *setup.blocks(placed[1:], basis))
    ]
    return ", ".join(f"{float(size):.8g}" for size in sizes)
