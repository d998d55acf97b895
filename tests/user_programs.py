"""Fits and solutions whose errors are known, printed as JSON: python tests/user_programs.py.

tests/test_optimized.py runs it in a process of its own, with all of XLA's optimizations.
"""

import json
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

import pann
from pann import Box, Dirichlet, Initial, Problem

LINE = Box(x=(-1, 1))
SQUARE = Box(x=(0, 1), y=(0, 1))
RING = Box(x=(0, 2 * np.pi), t=(0, 1), periodic="x", time="t")
X = np.linspace(-1, 1, 201)


def distance(found: np.ndarray, known: np.ndarray) -> float:
    return float(np.linalg.norm(found - known) / np.linalg.norm(known))


def fit() -> float:
    known = lambda x: np.sin(3 * x[:, 0]) * x[:, 1]
    rows, new = np.random.default_rng(0).uniform(-1, 1, (2, 200, 2))
    recipe = (pann.Adam(50), pann.LeastSquares())
    fitted = pann.fit(
        rows,
        known(rows),
        pann.Training(stages=recipe, degree=9, network=pann.MLP(width=6, depth=1)),
    )
    inside = new[np.all((new > rows.min(0)) & (new < rows.max(0)), axis=1)]
    return distance(np.ravel(fitted(inside)), known(inside))


def linear() -> float:
    known = lambda x, y: jnp.sin(jnp.pi * x) * jnp.sin(jnp.pi * y)
    problem = Problem(
        SQUARE,
        lambda u, x, y: u.laplacian + 2 * jnp.pi**2 * known(x, y),
        [Dirichlet(SQUARE.boundary, 0.0)],
    )
    solution = pann.solve(problem, pann.Polynomial(degree=14))
    x, y = np.random.default_rng(0).uniform(0, 1, (2, 200))
    return distance(solution(x=x, y=y), np.sin(np.pi * x) * np.sin(np.pi * y))


def nonlinear() -> float:
    """u'' = (3 / 2) u^2 with u(0) = 4, u(1) = 1 is solved by 4 / (1 + x)^2."""
    line = Box(x=(0, 1))
    ends = Dirichlet(line.boundary, lambda x: 4 / (1 + x) ** 2)
    solution = pann.solve(
        Problem(line, lambda u: u.xx - 1.5 * u**2, [ends]), pann.Polynomial(degree=20)
    )
    x = np.linspace(0, 1, 101)
    return distance(solution(x=x), 4 / (1 + x) ** 2)


def windows() -> float:
    initial = Initial(lambda x, t: jnp.cos(x) + jnp.sin(2 * x))
    solution = pann.solve(Problem(RING, lambda u: u.t - u.xx, [initial]), pann.Windows(windows=2))
    x, t = np.random.default_rng(0).uniform(0, [[6], [1]], (2, 200))
    return distance(solution(x=x, t=t), np.exp(-t) * np.cos(x) + np.exp(-4 * t) * np.sin(2 * x))


def levenberg(precision: str) -> float:
    """A front that degree 4 misses by 14 percent."""
    front = Problem.manufactured(LINE, lambda u, x: u.xx, lambda x: jnp.tanh(4 * x))
    method = pann.Hybrid(
        degree=4,
        network=pann.MLP(width=6, depth=1, activation="tanh"),
        iterations=20,
        collocation=pann.Collocation(points=60),
    )
    solution = pann.solve(front, method, precision=precision)
    assert solution.model.parameters.a.dtype == precision
    return distance(solution(x=X), np.tanh(4 * X))


def gradients() -> float:
    wave = Problem.manufactured(LINE, lambda u, x: u.xx, lambda x: jnp.sin(3 * x))
    recipe = (pann.Adam(50), pann.LBFGS(100))
    solution = pann.solve(
        wave,
        pann.Training(
            stages=recipe,
            degree=8,
            network=pann.MLP(width=4, depth=1),
            collocation=pann.Collocation(points=40),
        ),
    )
    return distance(solution(x=X), np.sin(3 * X))


PROGRAMS: dict[str, Callable[[], float]] = {
    "fit": fit,
    "linear equation": linear,
    "nonlinear equation": nonlinear,
    "windows": windows,
    "Levenberg-Marquardt in float32": lambda: levenberg("float32"),
    "Levenberg-Marquardt in float64": lambda: levenberg("float64"),
    "gradients": gradients,
}


if __name__ == "__main__":
    found = {name: program() for name, program in PROGRAMS.items()}
    optimized = not jax.config.values["jax_disable_most_optimizations"]
    print(json.dumps({"optimized": optimized, "errors": found}))
