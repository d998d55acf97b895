"""|x1|^a |x2|^a sin(1/x1) sin(1/x2), N=16384: the PANN, its halves, and common alternatives.

The network has 128 axis units and two hidden layers of 8; the polynomial degree 25, as in the
paper for c=0.001. DNN and least squares have the same sizes and recipe, PL the paper's recipe.
"products" is the same polynomial with products of splines and no network, recipe `products`; a seed
chooses the rows held out and the starts.
"""

import time
from collections.abc import Callable, Collection, Iterator

import numpy as np
from scipy.interpolate import RBFInterpolator
from sklearn.ensemble import ExtraTreesRegressor

from benchmarks.harness import Row
from benchmarks.problems import Problem, square
from pann import MLP, Hybrid, Polynomial, Products, Training, baselines
from pann.basis import make_basis
from pann.network import AxisUnits
from pann.problems import functions
from pann.regression.fit import Fit, fit, relative_l2

NUM_POINTS = 16_384
SEEDS = range(5)
PAPER_BEST = {2.0: 0.00326, 1.5: 0.005808, 1.0: 0.021454}


KEYS = ("method", "alpha")


def rows(only: Collection[str] = ()) -> Iterator[Row]:
    """All rows, or those of the methods named."""
    problems = {alpha: square(functions.non_smooth(alpha), NUM_POINTS) for alpha in (2.0, 1.5, 1.0)}
    for name in METHODS:
        if only and name not in only:
            continue
        for alpha, problem in problems.items():
            start = time.perf_counter()
            predict = METHODS[name](problem, functions.non_smooth(alpha))
            fitted = time.perf_counter()
            error = relative_l2(predict(problem.test), problem.truth)
            yield {
                "method": name,
                "alpha": alpha,
                "error": error,
                "paper's best PANN": PAPER_BEST[alpha],
                "seconds to fit": fitted - start,
                "to predict": time.perf_counter() - fitted,
            }


DEGREE = 25


def method_with(activation: str) -> Hybrid:
    """The sizes of all networks here."""
    network = MLP(embedding=AxisUnits(128), width=(8, 8), activation=activation)
    return Hybrid(degree=DEGREE, network=network)


def _pann(problem: Problem, activation: str, trials: int = 1) -> Fit:
    method = method_with(activation)
    return fit(problem.points, problem.values, method, domain=problem.domain, trials=trials)


def _dnn(problem: Problem, activation: str) -> Fit:
    method = method_with(activation)
    return baselines.dnn(problem.points, problem.values, method, domain=problem.domain)


def _products(problem: Problem, seed: int) -> Fit:
    return fit(
        problem.points, problem.values, Products(degree=DEGREE), domain=problem.domain, seed=seed
    )


def _mean(fitted: Fit) -> Callable:
    return lambda points: np.mean([model(points) for model in fitted.models], axis=0)


def _extra_trees(problem: Problem) -> Callable:
    trees = ExtraTreesRegressor(300, random_state=0, n_jobs=-1)
    return trees.fit(problem.points, problem.values).predict


METHODS: dict[str, Callable[[Problem, Callable], Callable]] = {
    "least squares": lambda problem, _: baselines.least_squares(
        problem.points, problem.values, Polynomial(degree=DEGREE), domain=problem.domain
    ),
    "L2 projection": lambda problem, target: baselines.l2_projection(
        make_basis(problem.domain, 25), target, NUM_POINTS
    ),
    "thin-plate RBF, 50 neighbors": lambda problem, _: RBFInterpolator(
        problem.points, problem.values, neighbors=50
    ),
    "ExtraTrees, 300 trees": lambda problem, _: _extra_trees(problem),
    "PANN tanh": lambda problem, _: _pann(problem, "tanh"),
    "DNN tanh": lambda problem, _: _dnn(problem, "tanh"),
    "PL (recipe paper)": lambda problem, _: baselines.polynomial_by_gradient(
        problem.points, problem.values, Training.paper(degree=DEGREE), domain=problem.domain
    ),
    "PANN relu": lambda problem, _: _pann(problem, "relu"),
    "DNN relu": lambda problem, _: _dnn(problem, "relu"),
    "PANN repu": lambda problem, _: _pann(problem, "repu"),
    "DNN repu": lambda problem, _: _dnn(problem, "repu"),
    "mean of 5 PANN tanh": lambda problem, _: _mean(_pann(problem, "tanh", trials=5)),
} | {
    f"products, seed {seed}": lambda problem, _, seed=seed: _products(problem, seed)
    for seed in SEEDS
}
