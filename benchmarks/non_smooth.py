"""|x1|^a |x2|^a sin(1/x1) sin(1/x2), N=16384: the PANN, its halves, and common alternatives.

The network has 128 axis units and two hidden layers of 8; the polynomial degree 25, as in the
paper for c=0.001. DNN and least squares have the same sizes and recipe, PL the paper's recipe.
"""

import time
from collections.abc import Callable, Iterator

import numpy as np
from scipy.interpolate import RBFInterpolator
from sklearn.ensemble import ExtraTreesRegressor

from benchmarks.harness import Row
from benchmarks.problems import Problem, square
from pann import baselines, targets
from pann.basis import make_basis
from pann.network import AxisUnits
from pann.regression import fit, relative_l2

NUM_POINTS = 16_384
PAPER_BEST = {2.0: 0.00326, 1.5: 0.005808, 1.0: 0.021454}


def rows() -> Iterator[Row]:
    for alpha in (2.0, 1.5, 1.0):
        target = targets.non_smooth(alpha)
        problem = square(target, NUM_POINTS)
        for name, method in _methods(problem, target).items():
            start = time.perf_counter()
            predict = method()
            seconds = time.perf_counter() - start
            yield {
                "alpha": alpha,
                "method": name,
                "error": relative_l2(predict(problem.test), problem.truth),
                "seconds": seconds,
                "paper's best PANN": PAPER_BEST[alpha],
            }


def _methods(problem: Problem, target: Callable) -> dict[str, Callable]:
    domain, x, y, *_ = problem
    shared = {"domain": domain, "degree": 25}
    network = {"embedding": AxisUnits(128), "width": (8, 8)}
    methods: dict[str, Callable] = {}
    for activation in ("tanh", "relu", "repu"):
        options = {**shared, **network, "activation": activation}
        methods[f"PANN {activation}"] = lambda options=options: fit(x, y, **options)
    methods["DNN tanh"] = lambda: baselines.dnn(x, y, **shared, **network)
    methods["PANN tanh, mean of 4 trials"] = lambda: _mean(
        fit(x, y, **shared, **network, trials=4).models
    )
    methods["least squares"] = lambda: baselines.least_squares(x, y, **shared)
    methods["PL (recipe paper)"] = lambda: baselines.polynomial_by_gradient(x, y, **shared)
    methods["L2 projection"] = lambda: baselines.l2_projection(
        make_basis(domain, 25), target, len(x)
    )
    methods["thin-plate RBF, 50 neighbors"] = lambda: RBFInterpolator(x, y, neighbors=50)
    methods["ExtraTrees, 300 trees"] = lambda: (
        ExtraTreesRegressor(300, random_state=0, n_jobs=-1).fit(x, y).predict
    )
    return methods


def _mean(models: tuple) -> Callable[[np.ndarray], np.ndarray]:
    return lambda points: np.mean([model(points) for model in models], axis=0)
