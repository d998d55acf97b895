"""Curves along which a source is like a power of the distance, which no polynomial resolves.

Where f = c s^(a - m) + ... on one side of a curve s = 0, and the equation is linear of order m, its
solution has s^a times something smooth. The curve is read off the equation, the power off the
source: of f at distances s, s / 2, s / 4, ... two differences have the ratio 2^(a - m).
"""

import math
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from pann.network.embeddings import total_degree_indices
from pann.pde.jumps import Values, jump_curves
from pann.pde.pointwise import held_at_zero, residuals_at
from pann.pde.problem import Problem
from pann.solvers.fronts import Fronts, legendre_products

# The degree of the curves, and what it may leave of a level function.
LEVEL_DEGREE, SAME = 4, 1e-10
NUM_SAMPLES, NUM_ON, HALVINGS = 2_000, 16, 60
# Distances, in units of the reference domain, are 2^-k.
DISTANCES = 2.0 ** -np.arange(6, 19)
# Powers of points along a curve that differ by more are none; so near to a whole number they are
# that, and so near to a short fraction.
SPREAD, WHOLE, SHORT, DENOMINATOR = 1e-3, 1e-2, 1e-4, 30


class Powers(NamedTuple):
    """Polynomials p whose positive parts, to the same power, are in the solution."""

    curves: Fronts
    power: float


def powers_of(problem: Problem) -> Powers | None:
    """None where there are none, or several."""
    domain, order = problem.domain, max(map(problem.asked.highest, range(problem.domain.dimension)))
    found = jump_curves(problem, domain)
    planes = [lambda points, axis=axis, at=at: points[:, axis] - at for axis, at in found.planes]
    curves: list[np.ndarray] = []
    powers: list[float] = []
    for level in (*found.functions, *planes):
        curve = _polynomial(problem, level)
        if curve is None:
            continue
        for side in (1.0, -1.0):
            exponent = _exponent(problem, side * curve)
            if exponent is not None:
                curves.append(side * curve)
                powers.append(order + exponent)
    if not curves or max(powers) - min(powers) > SPREAD or min(powers) <= 0:
        return None
    return Powers(np.stack(curves), powers[0])


def _polynomial(problem: Problem, level: Values) -> Float[np.ndarray, " terms"] | None:
    """A level function as a polynomial in reference coordinates, none if it is not one."""
    points = np.random.default_rng(0).uniform(-1, 1, (NUM_SAMPLES, problem.domain.dimension))
    values = level(problem.domain.from_reference(points))
    size = float(np.max(np.abs(values)))
    for degree in range(1, LEVEL_DEGREE + 1):
        terms = legendre_products(points, degree)
        found = np.linalg.lstsq(terms, values / size)[0]
        if np.max(np.abs(terms @ found - values / size)) < SAME:
            return np.where(np.abs(found) > SAME, found, 0.0)
    return None


def _exponent(problem: Problem, curve: Float[np.ndarray, " terms"]) -> float | None:
    """Of the source on the positive side, None where it is smooth there."""
    domain = problem.domain
    degree = next(
        d for d in range(9) if len(total_degree_indices(domain.dimension, d)) >= len(curve)
    )
    p = lambda points: legendre_products(points, degree) @ curve
    points = np.random.default_rng(1).uniform(-0.9, 0.9, (NUM_SAMPLES, domain.dimension))
    low, high = points[p(points) < 0][:NUM_ON], points[p(points) > 0][:NUM_ON]
    count = min(len(low), len(high))
    low, high = low[:count], high[:count]
    inward = (high - low) / np.maximum(np.linalg.norm(high - low, axis=1, keepdims=True), 1e-300)
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        below = (p(middle) < 0)[:, None]
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    at = high[:, None] + DISTANCES[None, :, None] * inward[:, None]
    values = residuals_at(
        problem, domain.from_reference(at.reshape(-1, domain.dimension)), held_at_zero(problem)
    )
    values = values[:, 0].reshape(count, -1)
    with np.errstate(all="ignore"):
        change = np.diff(values, axis=1)
        exponents = np.log2(np.abs(change[:, :-1] / change[:, 1:]))
        first, second, third = exponents[:, :-2], exponents[:, 1:-1], exponents[:, 2:]
        bend = first - 2 * second + third
        # What is next in size falls by a factor from one distance to the next, too.
        limits = np.where(np.abs(bend) > 1e-12, third - (third - second) ** 2 / bend, third)
    if not count or not np.all(np.isfinite(limits)):
        return None
    spread = np.ptp(limits, axis=0)
    best = int(np.argmin(spread))
    found = float(np.median(limits[:, best]))
    if spread[best] > SPREAD or abs(found - round(found)) < WHOLE:
        return None
    short = Fraction(found).limit_denominator(DENOMINATOR)
    return float(short) if math.isclose(found, float(short), abs_tol=SHORT) else found
