"""Layers, shocks, peaks, corners and jumps by `pann.solve` as it is, beside a solver of a page.

Each problem of `benchmarks.sharp_problems` in a process of its own: seconds are those of
`pann.solve` with compilation, without imports. It has twice the time that is asked for, and the
process is killed if it does not keep to that. Errors are measured against formulas or solvers that
share nothing with the project, largest over largest true value, also within the feature; `l2` is
over the same points. Rows that need what a box does not have are listed, and not run.
"""

import dataclasses
import importlib
import multiprocessing
import multiprocessing.connection
import time
import traceback
from collections.abc import Collection, Iterator
from typing import Any

import pann
from benchmarks.harness import Row
from benchmarks.sharp_problems import PROBLEMS, Built, Case

__all__ = ["PROBLEMS", "Built", "Case", "rows"]

KEYS = ("problem",)
LIMIT = 2.0  # over the seconds asked for
DEDICATED_SECONDS = 600.0


def names() -> list[str]:
    """Of all rows, for `--resume`."""
    return list(PROBLEMS)


def rows(only: Collection[str] = ()) -> Iterator[Row]:
    """All rows, or those of the problems named."""
    yield from rows_of("benchmarks.sharp_problems", only)


def rows_of(package: str, only: Collection[str] = ()) -> Iterator[Row]:
    """All rows of a package's PROBLEMS, or those named."""
    for name, case in problems_of(package).items():
        if not only or name in only:
            yield _row(package, case)


def problems_of(package: str) -> dict[str, Case]:
    return importlib.import_module(package).PROBLEMS


def _row(package: str, case: Case) -> Row:
    row: dict[str, object] = {"problem": case.name, "goal": case.goal, "goal seconds": case.seconds}
    if case.needs:
        return {**row, "said": f"not run: {case.needs}"}
    limit = LIMIT * case.seconds
    context = multiprocessing.get_context("spawn")
    connection, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs, package, case.name, limit), daemon=True)
    process.start()
    theirs.close()
    begin = time.perf_counter()
    try:
        _received(connection, 120.0)  # imports are not part of the work
        begin = time.perf_counter()
        solved = _received(connection, 1.5 * limit + 10)
        solved |= _received(connection, DEDICATED_SECONDS)
        solved |= _received(connection, DEDICATED_SECONDS)
    except TimeoutError:
        solved = {"said": "hang", "seconds": time.perf_counter() - begin}
    except EOFError:
        solved = {"said": "crash", "seconds": time.perf_counter() - begin}
    finally:
        process.kill()
        process.join()
    error, seconds = solved.get("error", float("nan")), solved["seconds"]
    row["met"] = bool(error <= case.goal and seconds <= case.seconds)
    return {**row, **solved}


def _received(connection: multiprocessing.connection.Connection, seconds: float) -> dict[str, Any]:
    if not connection.poll(seconds):
        raise TimeoutError
    return connection.recv()


def _serve(
    connection: multiprocessing.connection.Connection, package: str, name: str, limit: float
) -> None:
    case = problems_of(package)[name]
    problem = case.make()
    connection.send({})
    solution, said = attempt(case, limit, problem)
    connection.send(said)
    # The reference is not part of the work.
    connection.send({} if solution is None else measured(case, solution))
    connection.send(beside(case))


def attempt(
    case: Case, limit: float | None = None, problem: pann.Problem | None = None
) -> tuple[pann.Solution | None, dict[str, Any]]:
    """`pann.solve` as it is, and what it says of itself."""
    problem = case.make() if problem is None else problem
    begin = time.perf_counter()
    try:
        solution = pann.solve(problem, time_limit=limit, progress=False)
    except Exception as error:
        traceback.print_exc()
        words = f"{type(error).__name__}: {' '.join(str(error).split())}"[:200]
        return None, {"said": words, "seconds": time.perf_counter() - begin}
    report = solution.report
    return solution, {
        "said": "resolved" if report.resolved else "not resolved",
        "seconds": time.perf_counter() - begin,
        "estimate": report.error_estimate,
        "residual": report.residual,
        "method": type(solution.method).__name__,
        "how": report.how,
    }


def measured(case: Case, solution: pann.Solution) -> dict[str, Any]:
    """The errors of a solution; it may end before the domain does."""
    begin = time.perf_counter()
    domain = solution.model.domain
    if solution.problem is not None and domain != solution.problem.domain:
        return {"said": f"ends early, at {domain.upper}"}
    errors = case.errors(WithDerivative(solution))
    return {**errors, "seconds to measure": time.perf_counter() - begin}


@dataclasses.dataclass(frozen=True)
class WithDerivative:
    """A solution as a function, with `size`, the number of its coefficients along space."""

    solution: pann.Solution

    def __call__(self, *at: Any) -> Any:
        return self.solution(*at)

    def derivative(self, *at: Any) -> Any:
        """By the first axis."""
        names = self.solution.model.domain.names
        return self.solution.derivative({names[0]: 1}, **dict(zip(names, at, strict=True)))


def beside(case: Case) -> dict[str, Any]:
    """The dedicated solver: what it is, its error, its seconds."""
    if case.dedicated is None:
        return {"dedicated": "none"}
    begin = time.perf_counter()
    function = case.dedicated()
    seconds = time.perf_counter() - begin
    errors = case.errors(function)
    return {
        "dedicated": case.dedicated_name,
        **{f"dedicated {key}": value for key, value in errors.items()},
        "dedicated seconds": seconds,
    }
