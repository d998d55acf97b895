"""Evolution problems in windows of time, `pann.solve` without options, against the references.

Gray-Scott has options, for the default tolerance takes longer; errors are those of the whole
space-time domain. Seconds include compilation.
"""

import time
from collections.abc import Callable, Collection, Iterator

import pann
from benchmarks.harness import Row
from pann import problems, solve
from pann.pde import Problem
from pann.solvers.solution import Solution

CASES: dict[str, tuple[Callable[[], Problem], Callable[[Problem], Solution]]] = {
    "kdv": (problems.kdv, solve),
    "ks": (problems.ks, solve),
    "ks_printed": (problems.ks_printed, solve),
    "burgers": (problems.burgers, solve),
    "burgers, zero on the boundary": (lambda: problems.burgers(dirichlet=True), solve),
    "allen_cahn_time": (problems.allen_cahn_time, solve),
    "gray_scott, modes=32, degree=9": (
        problems.gray_scott,
        lambda problem: solve(problem, pann.Windows(modes=32, degree=9, tail=1e-06)),
    ),
    "gray_scott, modes=64": (
        problems.gray_scott,
        lambda problem: solve(problem, pann.Windows(modes=64, tail=1e-07)),
    ),
}


KEYS = ("problem",)


def rows(only: Collection[str] = ()) -> Iterator[Row]:
    """All rows, or those named, or those of the problems named."""
    for name, (make, solver) in CASES.items():
        problem_name, *_ = name.split(",")
        if only and not {name, problem_name} & set(only):
            continue
        problem = make()
        assert problem.exact is not None
        # The reference is not part of the work.
        problem.exact(**dict.fromkeys(problem.domain.names, 0.0))
        begin, begin_cpu = time.perf_counter(), time.process_time()
        solution = solver(problem)
        report = solution.report
        each = report.field_errors if len(problem.fields) > 1 else {}
        yield {
            "problem": name,
            "error": report.rel_l2,
            "of each field": ", ".join(f"{field} {error:.2g}" for field, error in each.items()),
            "residual": report.residual,
            "windows": len(report.history.get("tail in time", [])),
            "how": report.how,
            "seconds": time.perf_counter() - begin,
            "cpu_seconds": time.process_time() - begin_cpu,
            "stop": report.stop,
        }
