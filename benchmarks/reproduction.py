"""P10(x1) P10(x2), N=4096, degree 26, tanh 3x100: the default recipe and its halves."""

from collections.abc import Iterator

from benchmarks.harness import Row
from benchmarks.problems import square
from pann import baselines
from pann.problems import functions
from pann.regression.fit import fit, relative_l2


def rows() -> Iterator[Row]:
    problem = square(functions.legendre_product, 4096)
    options = {"domain": problem.domain, "degree": 26, "width": 100, "depth": 3}
    methods = {
        "PANN, default recipe": lambda: fit(problem.points, problem.values, **options),
        "PANN, constraint none": lambda: fit(
            problem.points, problem.values, constraint="none", **options
        ),
        "least squares": lambda: baselines.least_squares(problem.points, problem.values, **options),
    }
    for name, method in methods.items():
        fitted = method()
        yield {
            "method": name,
            "error": relative_l2(fitted(problem.test), problem.truth),
            "terms left": fitted.model.num_terms,
            "units left": fitted.model.num_units,
            "seconds": fitted.seconds,
        }
