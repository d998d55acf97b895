"""`pann.solve(problem, tolerance=...)` on every problem of `pann.problems`: is what it says true?

The estimate and the true error, both relative in l2, the factor between them, and whether the
tolerance is met. Errors below those of the references say nothing: 3e-7 for gray_scott, about 1e-10
for the other problems in time. kdv_inverse, which noise keeps from all of them, and gray_scott,
which takes long, are asked for fewer. Seconds include compilation, much of it done once for all
tolerances of a problem.
"""

import math
import time
from collections.abc import Collection, Iterator

from benchmarks.harness import Row
from pann import Problem, problems, solve

TOLERANCES = (1e-6, 1e-4, 1e-8)
OTHER_TOLERANCES = {"kdv_inverse": (1e-6,), "gray_scott": (1e-3, 1e-6)}


KEYS = ("problem", "tolerance")


def rows(only: Collection[str] = ()) -> Iterator[Row]:
    """All rows, or those of the problems named, or of one tolerance, as in "ks 1e-08"."""
    made = {name: make() for name, make in problems.PROBLEMS.items()}
    asked = [
        (name, tolerance) for name in made for tolerance in OTHER_TOLERANCES.get(name, TOLERANCES)
    ]
    # The tolerance that all are asked for comes first, what takes long last.
    asked.sort(key=lambda each: (each[0] == "gray_scott", each[1] != TOLERANCES[0]))
    for name, tolerance in asked:
        if only and not {name, f"{name} {tolerance:g}"} & set(only):
            continue
        problem = made[name]
        assert problem.exact is not None
        # The reference is not part of the work.
        problem.exact(**dict.fromkeys(problem.domain.names, 0.0))
        yield _row(name, problem, tolerance)


def _row(name: str, problem: Problem, tolerance: float) -> Row:
    begin, begin_cpu = time.perf_counter(), time.process_time()
    solution = solve(problem, tolerance=tolerance)
    report = solution.report
    error, estimate = solution.rel_l2 or math.nan, report.error_estimate or math.nan
    return {
        "problem": name,
        "tolerance": tolerance,
        "met": report.met,
        "estimate": estimate,
        "error": error,
        "factor": estimate / error,
        "residual": report.residual,
        "resolutions": len(report.history["difference between resolutions"]) + 1,
        "seconds": time.perf_counter() - begin,
        "cpu_seconds": time.process_time() - begin_cpu,
        "how": report.how,
    }
