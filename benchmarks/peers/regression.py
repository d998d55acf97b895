"""|x1|^a |x2|^a sin(1/x1) sin(1/x2), N=16384: error and time beside common regressors.

Seconds are those to fit and to predict at 100,000 points; pann is fitted before and after.
"""

import pathlib
import tempfile
import time
from collections.abc import Iterator

import numpy as np

from benchmarks.harness import Row
from benchmarks.non_smooth import NUM_POINTS, SIZES
from benchmarks.peers.environments import REGRESSORS, ask
from benchmarks.problems import Problem, square
from pann import targets
from pann.regression import fit, relative_l2

METHODS = ("LightGBM", "RBF, 50 neighbors", "RBF, 50 neighbors, cubic", "kNN by distance")


def rows() -> Iterator[Row]:
    for alpha in (2.0, 1.5, 1.0):
        problem = square(targets.non_smooth(alpha), NUM_POINTS)
        yield _own(alpha, problem)
        with tempfile.TemporaryDirectory() as folder:
            data = pathlib.Path(folder) / "data.npz"
            arrays = {name: value for name, value in problem._asdict().items() if name != "domain"}
            np.savez(data, **arrays)
            for method in METHODS:
                answer = ask(REGRESSORS, {"data": str(data), "method": method})
                yield {
                    "alpha": alpha,
                    "method": method,
                    "error": answer.get("error", ""),
                    "seconds": answer.get("seconds", ""),
                    "reason": answer.get("reason", ""),
                }
        yield _own(alpha, problem)


def _own(alpha: float, problem: Problem) -> Row:
    begin = time.perf_counter()
    fitted = fit(problem.points, problem.values, domain=problem.domain, activation="tanh", **SIZES)
    error = relative_l2(fitted.models[0](problem.test), problem.truth)
    seconds = time.perf_counter() - begin
    return {"alpha": alpha, "method": "PANN tanh", "error": error, "seconds": seconds, "reason": ""}
