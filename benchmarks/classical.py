"""`pann.solve` against solvers written for one equation each, compilation apart.

Poisson's and the Allen-Cahn equation against collocation at Chebyshev points with Newton's method,
KdV against the project's ETDRK4. Each solver has the smallest of a list of sizes that reaches the
error asked for; of all runs of that size within three seconds after the first, at least five, the
least counts. Seconds of CPU time, for others may share the machine. `pann.solve` also measures its
residual at fresh points, which the others do not.

The first run leaves to the next ones, besides compiled programs, what domain, degree and seed
determine: the set of terms, the points, those of the check among them, and tables that are not too
large. Values on the boundary, the factorization and the check are made in every run. Collocation is
given its points, the matrix that differentiates, f and the values on the boundary.
"""

import dataclasses
import functools
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import NamedTuple

import jax
import numpy as np
import scipy.linalg

import pann
from benchmarks.harness import Row
from pann import Problem, problems, solve
from pann.problems.kdv import EVOLUTION
from pann.reference.etdrk4 import etdrk4
from pann.reference.grid import PeriodicGrid
from pann.regression.fit import relative_l2

NUM_TEST, REPEATS, SECONDS = 2_000, 5, 3.0
SQUARE = np.random.default_rng(0).uniform(-1, 1, (NUM_TEST, 2))


class Solver(NamedTuple):
    """A solution for a size, and its error."""

    name: str
    sizes: Sequence[int]
    run: Callable[[int], object]
    error: Callable[[object], float]


KEYS = ("problem", "asked")


def rows(only: Collection[str] = ()) -> Iterator[Row]:
    """All rows, or those of the problems named."""
    for name, asked, own, classical in _cases():
        if only and name not in only:
            continue
        first, second = (_measure(solver, asked) for solver in (own, classical))
        yield {
            "problem": name,
            "asked": asked,
            "pann": own.name.format(first["size"]),
            "error": first["error"],
            "seconds": first["seconds"],
            "classical": classical.name.format(second["size"]),
            "classical error": second["error"],
            "classical seconds": second["seconds"],
            "ratio": first["seconds"] / second["seconds"],
        }


def _measure(solver: Solver, asked: float) -> dict[str, float]:
    """The first size that is good enough, and the least time of some runs after the first."""
    for size in solver.sizes:
        error = solver.error(solver.run(size))
        if error <= asked:
            break
    seconds: list[float] = []
    while len(seconds) < REPEATS or sum(seconds) < SECONDS:
        begin = time.process_time()
        solver.run(size)
        seconds.append(time.process_time() - begin)
    return {"size": size, "error": error, "seconds": min(seconds)}


def _cases() -> Iterator[tuple[str, float, Solver, Solver]]:
    poisson, allen_cahn = problems.poisson(), problems.allen_cahn()
    no_reaction = lambda u: (0 * u, 0 * u)
    reaction = lambda u: (u * (u**2 - 1), 3 * u**2 - 1)
    for problem, asked, sizes, react in (
        (poisson, 1e-12, range(16, 30, 2), no_reaction),
        (allen_cahn, 1e-12, range(28, 48, 2), reaction),
    ):
        unknown = dataclasses.replace(problem, exact=None)
        # Bound by argument: the loop goes on before they are called.
        own = Solver(
            "degree {}",
            sizes,
            lambda size, unknown=unknown: solve(unknown, pann.Polynomial(degree=size)),
            lambda u, problem=problem: _error_on_square(problem, lambda x, y: u(x=x, y=y)),
        )
        chebyshev = Solver(
            "{0} x {0} points",
            sizes,
            lambda size, problem=problem, react=react: newton_chebyshev(problem, react, size),
            lambda u, problem=problem: _error_on_square(problem, u),
        )
        yield problem.name, asked, own, chebyshev
    kdv = dataclasses.replace(problems.kdv(), exact=None)
    for asked in (1e-6, 1e-9):
        windows = Solver(
            "{} frequencies",
            (64, 96, 128, 160, 192),
            lambda size, asked=asked: solve(kdv, pann.Windows(modes=size, tail=asked / 10)),
            lambda u: _error_on_ring(lambda x: u(x=x, t=np.ones_like(x))),
        )
        steps = Solver(
            "512 points, {} steps",
            (1_000, 2_000, 4_000, 8_000, 16_000),
            lambda size: kdv_by_etdrk4(512, size),
            lambda modes: _error_on_ring(lambda x: _waves(modes, x)),
        )
        yield "kdv at t = 1", asked, windows, steps


# ---- Collocation at Chebyshev points (Trefethen, Spectral Methods in MATLAB, 2000) ----


def chebyshev(count: int) -> tuple[np.ndarray, np.ndarray]:
    """count + 1 points and the matrix that differentiates values at them."""
    x = np.cos(np.pi * np.arange(count + 1) / count)
    signs = np.r_[2, np.ones(count - 1), 2] * (-1) ** np.arange(count + 1)
    difference = x[:, None] - x
    matrix = np.outer(signs, 1 / signs) / (difference + np.eye(count + 1))
    return x, matrix - np.diag(matrix.sum(axis=1))


def newton_chebyshev(
    problem: Problem,
    reaction: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]],
    count: int,
) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """lap u + r(u) = f with the exact solution's f and boundary values, from zero."""
    x, first, exact, force = _given(problem, count)
    second, inside = first @ first, slice(1, -1)
    edge = exact.copy()
    edge[inside, inside] = 0
    force = force - (second @ edge + edge @ second.T)[inside, inside]
    own, eye = second[inside, inside], np.eye(count - 1)
    laplacian = np.kron(own, eye) + np.kron(eye, own)
    u, right = np.zeros(force.size), force.ravel()
    for _ in range(20):
        value, slope = reaction(u)
        step = scipy.linalg.solve(laplacian + np.diag(slope), right - laplacian @ u - value)
        u = u + step
        if np.linalg.norm(step) <= 1e-12 * np.linalg.norm(u) or not np.any(slope):
            break
    edge[inside, inside] = u.reshape(count - 1, count - 1)
    return lambda at_x, at_y: _interpolate(x, edge, at_x, at_y)


@functools.cache
def _given(problem: Problem, count: int) -> tuple[np.ndarray, ...]:
    """Points, derivative, exact values, and f inside: the residual at u = 0, r(0) being 0."""
    x, first = chebyshev(count)
    grid = np.meshgrid(x, x, indexing="ij")
    points = np.stack([part[1:-1, 1:-1].ravel() for part in grid], axis=1)
    zero = np.zeros(len(points))
    with jax.enable_x64(True):
        (residual,) = problem.evaluate(lambda field, order: zero, points, {})
        force = -np.asarray(residual).reshape(count - 1, count - 1)
        return x, first, np.asarray(problem.exact(*grid)), force


def _interpolate(nodes: np.ndarray, values: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Barycentric, along both axes."""
    weights = (-1.0) ** np.arange(len(nodes))
    weights[[0, -1]] /= 2
    rows = []
    for at in (x, y):
        shares = weights / (at[:, None] - nodes)
        rows.append(shares / shares.sum(axis=1, keepdims=True))
    return np.einsum("pi,ij,pj->p", rows[0], values, rows[1])


def _error_on_square(problem: Problem, u: Callable[..., np.ndarray]) -> float:
    x, y = SQUARE.T
    with jax.enable_x64(True):
        return relative_l2(u(x, y), np.asarray(problem.exact(x, y)))


# ---- KdV ----


def kdv_by_etdrk4(num_points: int, num_steps: int) -> np.ndarray:
    """The modes at t = 1."""
    grid = PeriodicGrid((-1.0,), (1.0,), (num_points,))
    linear, nonlinear = EVOLUTION.equation(grid)
    resolved = grid.resolved()
    initial = grid.to_modes(EVOLUTION.initial(*grid.coordinates())) * resolved
    states = etdrk4(
        linear * resolved,
        lambda modes: nonlinear(modes) * resolved,
        initial,
        np.array([0.0, 1.0]),
        1 / num_steps,
    )
    *_, last = states
    return last


def _waves(modes: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The sum of the waves on [-1, 1) at any points."""
    count = modes.shape[-1]
    numbers = np.arange(count)
    factors = np.exp(1j * np.pi * np.outer(x + 1, numbers)) / (2 * (count - 1))
    factors[:, 1:] *= 2
    return (factors @ modes[0]).real


def _error_on_ring(u: Callable[[np.ndarray], np.ndarray]) -> float:
    """Against ETDRK4 with smaller steps."""
    x = SQUARE[:, 0]
    return relative_l2(u(x), _waves(_reference(), x))


@functools.cache
def _reference() -> np.ndarray:
    return kdv_by_etdrk4(768, 40_000)
