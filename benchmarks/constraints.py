"""Recipe `paper` on P10(x1) P10(x2), N=4096, degree 26, tanh 3x100: each constraint, one trial.

Pruned shares are in percent, network / polynomial, beside the paper's (its table 4), with the
test as decided here (absolute) and as printed there (signed).
"""

from collections.abc import Iterator

import pann
from benchmarks.harness import Row
from benchmarks.problems import square
from pann.problems import functions
from pann.regression.fit import fit, relative_l2
from pann.training import LBFGS, Adam, Cosine, Prune

PUBLISHED = {
    "G": "100/99.7",
    "E": "97.6/99.7",
    "none": "47.4/97.1",
    "l1": "47.8/99.4",
    "A": "51.8/99.7",
    "B": "52.8/99.6",
    "C": "50.0/99.7",
    "D": "52.0/99.7",
    "F": "52.4/99.7",
    "H": "",
    "exact": "",
}
SIGNED = ("none", "E")


def rows(precisions: tuple[str, ...] = ("float32", "float64")) -> Iterator[Row]:
    problem = square(functions.legendre_product, 4096)
    for precision in precisions:
        for constraint, published in PUBLISHED.items():
            for signed in (False, True) if constraint in SIGNED else (False,):
                prune = Prune(1e-4, signed=signed)
                recipe = (Adam(20_000, Cosine(1e-3)), prune, LBFGS(400), prune)
                fitted = fit(
                    problem.points,
                    problem.values,
                    pann.Training(
                        stages=recipe,
                        degree=26,
                        network=pann.MLP(width=100),
                        constraint=constraint,
                        preconditioner=True,
                    ),
                    domain=problem.domain,
                    held_out=0.0,
                    precision=precision,
                )
                model = fitted.model
                yield {
                    "precision": precision,
                    "constraint": constraint,
                    "signed test": signed,
                    "error": relative_l2(model(problem.test), problem.truth),
                    "pruned": f"{100 - model.num_units:.1f}/{100 - model.num_terms / 3.78:.1f}",
                    "paper's": published,
                    "seconds": fitted.seconds,
                }
