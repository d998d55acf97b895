"""|x1|^a |x2|^a sin(1/x1) sin(1/x2), N=16384: error and time beside common regressors.

Seconds are those to fit and to predict at 100,000 points. pann's recipe `products` goes before the
others, compiled anew, and after them, compiled by then; its default recipe takes far longer and
comes last. A column has the time over that of the regressor with the least error.
"""

import pathlib
import tempfile
import time
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

from benchmarks.harness import Row
from benchmarks.non_smooth import DEGREE, NUM_POINTS, method_with
from benchmarks.peers.environments import REGRESSORS, ask
from benchmarks.problems import Problem, square
from pann import Products
from pann.methods import FitMethod
from pann.problems import functions
from pann.regression.fit import fit, relative_l2

METHODS = (
    "LightGBM",
    "ExtraTrees, 300 trees",
    "RBF, 50 neighbors",
    "RBF, 50 neighbors, cubic",
    "kNN by distance",
)
DEFAULT = method_with("tanh")
PRODUCTS = Products(degree=DEGREE)


def rows() -> Iterator[Row]:
    problems = {alpha: square(functions.non_smooth(alpha), NUM_POINTS) for alpha in (2.0, 1.5, 1.0)}
    best = {}
    for alpha, problem in problems.items():
        before = _own(problem, "products", PRODUCTS)
        peers = _peers(problem)
        after = _own(problem, "products", PRODUCTS, is_compiled=True)
        best[alpha] = min(peers, key=lambda row: row.get("error", float("inf")))
        for row in (before, *peers, after):
            yield _row(alpha, row, best[alpha])
    for alpha, problem in problems.items():
        yield _row(alpha, _own(problem, "default", DEFAULT), best[alpha])


def _row(alpha: float, row: dict[str, Any], best: dict[str, Any]) -> Row:
    is_timed = "seconds" in row and "seconds" in best
    return {
        "alpha": alpha,
        "method": row["method"],
        "error": row.get("error", ""),
        "seconds": row.get("seconds", ""),
        "time over the best regressor's": row["seconds"] / best["seconds"] if is_timed else "",
        "reason": row.get("reason", ""),
    }


def _peers(problem: Problem) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        data = pathlib.Path(folder) / "data.npz"
        arrays = {name: value for name, value in problem._asdict().items() if name != "domain"}
        np.savez(data, **arrays)
        job = {"data": str(data)}
        return [{"method": each} | ask(REGRESSORS, job | {"method": each}) for each in METHODS]


def _own(
    problem: Problem, name: str, method: FitMethod, is_compiled: bool = False
) -> dict[str, Any]:
    if not is_compiled:
        jax.clear_caches()
    begin = time.perf_counter()
    fitted = fit(problem.points, problem.values, method, domain=problem.domain)
    error = relative_l2(fitted.models[0](problem.test), problem.truth)
    seconds = time.perf_counter() - begin
    compiling = ", compiled before" if is_compiled else ""
    return {"method": f"pann, {name}{compiling}", "error": error, "seconds": seconds}
