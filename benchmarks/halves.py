"""The PANN against its two halves at equal sizes: the polynomial alone, the network alone.

All problems of `pann.problems` without time at sizes most of which do not resolve them, and some
layers that are thin for their degree. Evolution problems are solved in windows, where `pann.solve`
takes no network: there the PANN is its polynomial half. `ratio` is the PANN's error over that of
the better half; it should not be above 1.05 unless both are below 1e-11.
"""

import dataclasses
import time
from collections.abc import Callable, Collection, Iterator

import jax.numpy as jnp
import numpy as np

import pann
from benchmarks.harness import Row
from pann import Box, Dirichlet, Problem, problems, solve
from pann.solvers.windows.method import suits_windows

DEGREE, WIDTH, ITERATIONS = 10, 8, 30
# P10(x) P10(y) is orthogonal to all polynomials of a lower degree than 20.
DEGREES = {"poisson": 20, "thin layer": 32, "oblique layer": 14}
# Windows choose their own sizes, but for two fields in two dimensions of space.
WINDOWS = {"gray_scott": pann.Windows(modes=20, degree=8, tail=1e-4)}


def thin_layer() -> Problem:
    """0.001 u_xx - u = f, u = tanh(60 (x - 0.3)) + sin(3 x)."""
    return Problem.manufactured(
        Box(x=(-1, 1)),
        lambda u: 1e-3 * u.xx - u.value,
        lambda x: jnp.tanh(60 * (x - 0.3)) + jnp.sin(3 * x),
    )


def oblique_layer() -> Problem:
    """0.0009 lap u + u - u^3 = 0 between two phases, the layer held by the boundary."""
    square, thickness = Box(x=(-1, 1), y=(-1, 1)), 0.03
    exact = lambda x, y: jnp.tanh((0.8 * x + 0.6 * y - 0.1) / (np.sqrt(2) * thickness))
    return Problem(
        square,
        lambda u: thickness**2 * (u.xx + u.yy) + u - u**3,
        [Dirichlet(square.boundary, exact)],
        exact,
    )


CASES: dict[str, Callable[[], Problem]] = problems.PROBLEMS | {
    "thin layer": thin_layer,
    "oblique layer": oblique_layer,
}


KEYS = ("problem",)


def rows(only: Collection[str] = ()) -> Iterator[Row]:
    """All rows, or those of the problems named."""
    for name, make in CASES.items():
        if only and name not in only:
            continue
        problem, degree = make(), DEGREES.get(name, DEGREE)
        method = pann.Hybrid(degree=degree, network=pann.MLP(width=WIDTH), iterations=ITERATIONS)
        begin = time.perf_counter()
        if suits_windows(problem):
            both = polynomial = solve(problem, WINDOWS.get(name, pann.Windows()))
        else:
            both = solve(problem, method)
            polynomial = solve(problem, pann.Polynomial(degree=degree))
        seconds = time.perf_counter() - begin
        alone = solve(problem, dataclasses.replace(method, degree=0))
        yield {
            "problem": name,
            "how": "windows" if both is polynomial else f"degree {degree}",
            "PANN": both.rel_l2,
            "polynomial": polynomial.rel_l2,
            "network": alone.rel_l2,
            "ratio": both.rel_l2 / min(polynomial.rel_l2, alone.rel_l2),
            "PANN residual": both.residual,
            "polynomial residual": polynomial.residual,
            "network residual": alone.residual,
            "units": both.model.num_units,
            "seconds": seconds,
        }
