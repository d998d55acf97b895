"""The references of the sharp problems solve the problems that are posed, by derivatives of ours.

A reference is interpolated at Chebyshev points of a small box about a point, and differentiated
there: the largest box in which that is accurate is found by trying. Where a reference is not
smooth, it must be at points to both sides, and what holds across is tested for itself.
"""

import jax
import mpmath
import numpy as np
import pytest

from benchmarks.sharp_problems import PROBLEMS, chebyshev, evolutions
from pann import Dirichlet, Initial
from pann.pde.conditions import values_at

NUM_NODES = 11
SIZES = 10.0 ** -np.arange(0.5, 8, 0.5)
# Formulas for all fields; the others have tests of their own below.
OWN = {"coefficient on a disk", "square wave once around"}
FORMULAS = [
    case
    for name, case in PROBLEMS.items()
    if case.reference is not None and name not in OWN and "cavity" not in name
]
name_of = lambda case: case.name


def derivatives(reference, domain, point, size):
    """By order: values on a small grid, of tensor products, in a box within the domain."""
    half = size * domain.widths / 2
    low, high = np.asarray(domain.lower), np.asarray(domain.upper)
    middle = np.clip(point, low + half, high - half)
    lines = [chebyshev.line(NUM_NODES - 1, c - h, c + h) for c, h in zip(middle, half, strict=True)]
    grid = np.meshgrid(*(line.points for line in lines), indexing="ij")
    values = np.asarray(reference(*(part.ravel() for part in grid))).reshape(grid[0].shape)

    def derivative(order):
        found = values
        for line, times, at in zip(lines, order, point, strict=True):
            row = line.shares(np.array([at])) @ np.linalg.matrix_power(line.first, times)
            found = np.tensordot(row[0], found, axes=(0, 0))
        return float(found)

    return derivative


def relative_residual(problem, point, derivative):
    """Over the sum of what each derivative contributes."""
    asked = {}

    def get(field, order):
        asked[order] = derivative(order)
        return np.array([asked[order]])

    def residual(values):
        read = lambda field, order: np.array([values[order]])
        with jax.enable_x64(True):
            return float(problem.evaluate(read, point[None], {})[0][0])

    with jax.enable_x64(True):
        whole = float(problem.evaluate(get, point[None], {})[0][0])
    scale = sum(abs(residual(asked | {order: 0.0}) - whole) for order in asked)
    return abs(whole) / max(scale, abs(residual(dict.fromkeys(asked, 0.0))), 1e-30)


@pytest.mark.parametrize("case", FORMULAS, ids=name_of)
def test_references_solve_the_equations(case):
    problem = case.make()
    points = case.points(problem)
    # Not at the start itself, where some references jump.
    if problem.domain.time is not None:
        points = points[points[:, -1] > 0.02 * problem.domain.upper[-1]]
    chosen = np.concatenate([points[:6], points[-6:]])
    for point in chosen:
        sizes = (derivatives(case.reference, problem.domain, point, size) for size in SIZES)
        found = min(relative_residual(problem, point, each) for each in sizes)
        assert found < 1e-6, (point, found)


@pytest.mark.parametrize("case", FORMULAS, ids=name_of)
def test_references_have_the_values_on_faces_and_at_the_start(case):
    problem = case.make()
    domain, rng = problem.domain, np.random.default_rng(2)
    for condition in problem.conditions:
        if isinstance(condition, Dirichlet):
            sides = condition.faces.sides
        elif isinstance(condition, Initial):
            sides = ((domain.time, "lower"),)
        else:
            continue
        for axis, side in sides:
            points = domain.from_reference(rng.uniform(-1, 1, (20, domain.dimension)))
            number = domain.names.index(axis)
            points[:, number] = (domain.lower if side == "lower" else domain.upper)[number]
            asked = values_at(condition.value, domain, points)
            true = case.true(points)[:, 0]
            np.testing.assert_allclose(true, asked, atol=1e-11 * np.max(np.abs(true)) + 1e-12)


# ---- By other means ----


def test_cole_hopf_by_more_digits():
    """The quotient of integrals by mpmath, where the shock is."""
    nu = evolutions.VISCOSITY
    for x, t in ((0.5005, 0.7), (0.4, 0.1), (0.9, 1.0)):
        potential = lambda z, x=x, t=t: (
            z**2 / (2 * t) + (1 - mpmath.cos(2 * mpmath.pi * (x - z))) / (2 * mpmath.pi)
        )
        weight = lambda z, potential=potential: mpmath.exp(-potential(z) / (2 * nu))
        nodes = [mpmath.mpf(k) / 40 * 1.6 for k in range(-40, 41)]
        with mpmath.workdps(20):
            above = mpmath.quad(lambda z, t=t, weight=weight: z / t * weight(z), nodes, maxdegree=4)
            true = above / mpmath.quad(weight, nodes, maxdegree=4)
        found = evolutions.cole_hopf(np.array([x]), np.array([t]))
        assert abs(found[0] - float(true)) < 1e-11
