"""5 pi^2 sin(2 pi x0) prod sin(pi x_i) in d = 2..6 dimensions, degree 8, as in the paper's sizes.

Every network has three hidden layers of 16 and the default recipe; PL has the paper's.
"""

from collections.abc import Iterator

from benchmarks.harness import Row
from benchmarks.problems import cube
from pann import MLP, Hybrid, Polynomial, Training, baselines
from pann.regression.fit import fit, relative_l2

NUM_POINTS = {2: 1536, 3: 3072, 4: 6144, 5: 12_288, 6: 24_576}


BOTH = Hybrid(degree=8, network=MLP(width=16, depth=3))
METHODS = {
    "PANN": BOTH,
    "DNN": baselines.network_alone(BOTH),
    "least squares": Polynomial(degree=8),
    "PL (recipe paper)": Training.paper(degree=8, network=None, constraint="none"),
}


def rows() -> Iterator[Row]:
    for name, method in METHODS.items():
        for dimension, num_points in NUM_POINTS.items():
            problem = cube(dimension, num_points)
            fitted = fit(problem.points, problem.values, method, domain=problem.domain)
            yield {
                "method": name,
                "dimension": dimension,
                "error": relative_l2(fitted(problem.test), problem.truth),
                "seconds": fitted.seconds,
                "recipe": fitted.why.split(":")[0],
            }
