"""Random problems by `pann.solve`, with a tolerance and without options: right, or honest?

Each case of `benchmarks.random_problems` is solved twice, in a process that is killed if it does
not come back. The error is measured against a solution that the solver does not see. A verdict is a
failure if the solver certifies a wrong solution (`report.met` with an error above the tolerance,
`report.resolved` with one above 1e-3), estimates less than half the error, exceeds its time limit
by more than half and ten seconds, raises anything but a ValueError or TypeError of its own, refuses
a problem that has one solution, or says nothing of one that has none or many.

TRUST_CASES, TRUST_SECONDS and TRUST_WORKERS in the environment change how many cases there are, the
time limit of each, and how many run side by side. `--resume` goes on with a run that was killed.
"""

import collections
import concurrent.futures
import dataclasses
import math
import multiprocessing
import multiprocessing.connection
import os
import pathlib
import queue
import time
import traceback
from collections.abc import Collection, Iterator, Sequence

import jax
import numpy as np

import pann
from benchmarks.harness import Row
from benchmarks.random_problems import Case, random_problem
from benchmarks.random_problems.case import values

NUM_CASES = int(os.environ.get("TRUST_CASES", "200"))
SECONDS = float(os.environ.get("TRUST_SECONDS", "20"))
NUM_WORKERS = int(os.environ.get("TRUST_WORKERS", str(os.cpu_count() or 1)))
KEYS = ("seed",)

NUM_POINTS = 20_000
# What `report.resolved` promises of a solution without a tolerance.
RESOLVED_ERROR = 1e-3
# A process that has compiled many programs grows large.
CASES_PER_PROCESS = 10

# Marks of an exception that is no refusal by pann, and of a solution of part of the time.
RAW, EARLY = " (raw)", ", ends early"
# In the words of a solver that takes a problem for one with many solutions.
UNDETERMINED = "do not determine"
SUCCESSES = ("right", "honest", "refused", "described")
FAILURES = (
    "certified wrong",
    "estimate too small",
    "hang",
    "raw exception",
    "refused though solvable",
    "silent",
)


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What `pann.solve` said of a case ("met", "ValueError", ...), and how far off it is."""

    said: str
    seconds: float
    error: float = math.nan
    estimate: float = math.nan
    residual: float = math.nan
    message: str = ""
    cpu_seconds: float = math.nan

    @property
    def is_certified(self) -> bool:
        return self.said.startswith(("met", "resolved"))


def longest(seconds: float) -> float:
    """How long a call with this time limit may take before it counts as hanging."""
    return 1.5 * seconds + 10


def attempt(case: Case, tolerance: float | None, seconds: float) -> Outcome:
    """One call of `pann.solve`, with everything that it raises."""
    # JAX would hide the frames by which its exceptions are known.
    jax.config.update("jax_traceback_filtering", "off")
    begin, begin_cpu = time.perf_counter(), time.process_time()
    try:
        solution = pann.solve(case.problem, tolerance=tolerance, time_limit=seconds, progress=False)
    except Exception as error:
        is_refusal = isinstance(error, ValueError | TypeError) and _is_own(error)
        said = type(error).__name__ + ("" if is_refusal else RAW)
        return Outcome(said, time.perf_counter() - begin, message=str(error))
    taken, taken_cpu = time.perf_counter() - begin, time.process_time() - begin_cpu
    report = solution.report
    if tolerance is None:
        said = "resolved" if report.resolved else "not resolved"
    else:
        said = "met" if report.met else "not met"
    if solution.model.domain != case.problem.domain:
        said += EARLY
    estimate = report.error_estimate
    return Outcome(
        said,
        taken,
        error=error_of(case, solution),
        estimate=math.nan if estimate is None else estimate,
        residual=report.residual,
        message=" ".join(report.notes),
        cpu_seconds=taken_cpu,
    )


def _is_own(error: Exception) -> bool:
    """Whether pann raised it: errors of JAX and NumPy tell a user nothing of the problem."""
    *_, last = traceback.extract_tb(error.__traceback__)
    return pathlib.Path(pann.__file__).parent in pathlib.Path(last.filename).parents


def error_of(case: Case, solution: pann.Solution) -> float:
    """The relative l2 error at random points of the domain, or of what it reaches of it."""
    domain = solution.model.domain
    rng = np.random.default_rng(case.seed + 1_000_000)
    points = domain.from_reference(rng.uniform(-1, 1, (NUM_POINTS, domain.dimension)))
    found = solution(**{name: points[:, i] for i, name in enumerate(domain.names)})
    found = np.stack(found if isinstance(found, tuple) else (found,), axis=1)
    true = values(case.exact, points, domain.names)
    return float(np.linalg.norm(found - true) / np.linalg.norm(true))


def verdict(case: Case, outcome: Outcome, tolerance: float | None, seconds: float) -> str:
    """One of SUCCESSES or FAILURES."""
    if outcome.said == "hang" or outcome.seconds > longest(seconds):
        return "hang"
    if outcome.said == "crash" or outcome.said.endswith(RAW):
        return "raw exception"
    if outcome.said.endswith("Error"):
        return "refused though solvable" if case.expected == "solvable" else "refused"
    if case.expected == "undetermined":
        return "described" if outcome.message else "silent"
    if case.expected == "inconsistent":
        return "silent" if outcome.is_certified and not outcome.message else "described"
    limit = RESOLVED_ERROR if tolerance is None else tolerance
    if case.expected == "solvable" and UNDETERMINED in outcome.message:
        return "refused though solvable"
    is_whole = not outcome.said.endswith(EARLY)
    if outcome.is_certified and not (is_whole and outcome.error <= limit):
        return "certified wrong"
    if outcome.estimate < 0.5 * outcome.error:
        return "estimate too small"
    return "right" if is_whole and outcome.error <= limit else "honest"


# ---- In processes that can be killed ----


class Worker:
    """A process that attempts cases one after another, and is replaced when it hangs or dies."""

    def __init__(self) -> None:
        self._process: multiprocessing.process.BaseProcess | None = None
        self._left = 0

    def attempt(self, seed: int, with_tolerance: bool, seconds: float) -> Outcome:
        """`attempt` in the process, or that it hung or crashed."""
        if self._process is None or self._left == 0:
            self._start()
        self._left -= 1
        begin = time.perf_counter()
        self._connection.send((seed, with_tolerance, seconds))
        try:
            if self._connection.poll(longest(seconds) + 5):
                return self._connection.recv()
            said = "hang"
        except EOFError:
            said = "crash"
        self.stop()
        return Outcome(said, time.perf_counter() - begin)

    def stop(self) -> None:
        """End the process, whatever it does."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
        self._process = None

    def _start(self) -> None:
        self.stop()
        # Two processes that each let OpenBLAS spin on all cores slow one another a hundredfold.
        os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs,), daemon=True)
        self._process.start()
        theirs.close()
        self._connection.recv()  # imports are not part of the work
        self._left = 2 * CASES_PER_PROCESS


def _serve(connection: multiprocessing.connection.Connection) -> None:
    connection.send("ready")
    while True:
        try:
            seed, with_tolerance, seconds = connection.recv()
        except EOFError:
            return
        case = random_problem(seed)
        connection.send(attempt(case, case.tolerance if with_tolerance else None, seconds))


# ---- Rows and their summary ----


def names() -> list[str]:
    """Of all rows, for `--resume`."""
    return [str(seed) for seed in range(NUM_CASES)]


def rows(only: Collection[str] = ()) -> Iterator[Row]:
    """All cases, or those with these numbers, as they are done."""
    workers = [Worker() for _ in range(NUM_WORKERS)]
    idle: queue.SimpleQueue[Worker] = queue.SimpleQueue()
    for worker in workers:
        idle.put(worker)

    def with_worker(seed: int) -> Row:
        worker = idle.get()
        try:
            return _row(worker, seed)
        finally:
            idle.put(worker)

    pool = concurrent.futures.ThreadPoolExecutor(NUM_WORKERS)
    try:
        futures = [pool.submit(with_worker, int(name)) for name in only or names()]
        for future in concurrent.futures.as_completed(futures):
            yield future.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for worker in workers:
            worker.stop()


def _row(worker: Worker, seed: int) -> Row:
    case = random_problem(seed)
    to_tolerance = worker.attempt(seed, True, SECONDS)
    plain = worker.attempt(seed, False, SECONDS)
    return {
        "seed": seed,
        "axes": " ".join(case.problem.domain.names),
        "equation": case.equation,
        "solution": case.solution,
        "width": case.width,
        "conditions": case.conditions,
        "expected": case.expected,
        "tolerance": case.tolerance,
        "verdict": verdict(case, to_tolerance, case.tolerance, SECONDS),
        "said": to_tolerance.said,
        "error": to_tolerance.error,
        "estimate": to_tolerance.estimate,
        "seconds": to_tolerance.seconds,
        "cpu_seconds": to_tolerance.cpu_seconds,
        "plain verdict": verdict(case, plain, None, SECONDS),
        "plain said": plain.said,
        "plain error": plain.error,
        "plain residual": plain.residual,
        "plain seconds": plain.seconds,
        "plain cpu_seconds": plain.cpu_seconds,
        "message": " ".join((to_tolerance.message or plain.message).split())[:300],
    }


def summary(rows: Sequence[Row]) -> list[Row]:
    """How many verdicts of each sort there are: in all, by what is expected, and by kind."""
    groups: dict[str, list[Row]] = {"all": list(rows)}
    for column in ("expected", "axes", "solution", "equation"):
        for row in sorted(rows, key=lambda row: str(row[column])):
            groups.setdefault(f"{column}: {row[column]}", []).append(row)
    return [{"kind": kind, "cases": len(each), **_counts(each)} for kind, each in groups.items()]


def _counts(rows: Sequence[Row]) -> dict[str, int]:
    """Verdicts of both calls."""
    found = collections.Counter(
        str(row[key]) for row in rows for key in ("verdict", "plain verdict")
    )
    return {word: found[word] for word in (*SUCCESSES, *FAILURES)}
