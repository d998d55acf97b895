"""P10(x1) P10(x2), N=4096, degree 26, tanh 3x100: the default recipe and its halves."""

import dataclasses
from collections.abc import Iterator

from benchmarks.harness import Row
from benchmarks.problems import square
from pann import MLP, Hybrid, Polynomial
from pann.problems import functions
from pann.regression.fit import fit, relative_l2


def rows() -> Iterator[Row]:
    problem = square(functions.legendre_product, 4096)
    both = Hybrid(degree=26, network=MLP(width=100, depth=3))
    methods = {
        "PANN, default recipe": both,
        "PANN, constraint none": dataclasses.replace(both, constraint="none"),
        "least squares": Polynomial(degree=26),
    }
    for name, method in methods.items():
        fitted = fit(problem.points, problem.values, method, domain=problem.domain)
        yield {
            "method": name,
            "error": relative_l2(fitted(problem.test), problem.truth),
            "terms left": fitted.model.num_terms,
            "units left": fitted.model.num_units,
            "seconds": fitted.seconds,
        }
