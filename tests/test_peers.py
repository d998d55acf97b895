"""What the benchmarks beside other libraries measure errors against."""

import importlib
import pathlib

import numpy as np
import pytest
from numpy.polynomial import chebyshev

WORKERS = pathlib.Path(__file__).parents[1] / "benchmarks" / "peers" / "workers"


@pytest.fixture
def nearest(monkeypatch):
    monkeypatch.syspath_prepend(str(WORKERS))
    return importlib.import_module("nearest")


@pytest.fixture
def equations(monkeypatch):
    monkeypatch.syspath_prepend(str(WORKERS))
    return importlib.import_module("equations")


def residual(values, degree, x, y, source):
    """Of the polynomial through values at Chebyshev points, by NumPy's own series."""
    line = np.cos(np.pi * np.arange(degree + 1) / degree)
    vandermonde = chebyshev.chebvander(line, degree)
    series = np.linalg.solve(vandermonde, values.reshape(degree + 1, degree + 1))
    series = np.linalg.solve(vandermonde, series.T).T
    u = chebyshev.chebval2d(x, y, series)
    laplacian = sum(chebyshev.chebval2d(x, y, chebyshev.chebder(series, 2, axis=a)) for a in (0, 1))
    return laplacian + u * (u**2 - 1) - source


def bump(x, y):
    """About what another solution has above the one that the equation was made from."""
    wave = lambda i, j: np.sin(i * np.pi * (x + 1) / 2) * np.sin(j * np.pi * (y + 1) / 2)
    along_x = 1.27 * wave(1, 1) + 0.54 * wave(2, 1) + 0.28 * wave(3, 1)
    return along_x - 0.16 * wave(1, 3) - 0.18 * wave(2, 3) - 0.08 * wave(3, 3)


def test_allen_cahn_has_a_solution_beside_the_one_it_was_made_from(nearest, equations, monkeypatch):
    between = np.random.default_rng(0).uniform(-1, 1, (2, 2000))
    source = equations.allen_cahn_source(*between, np)
    distances, residuals = [], []
    for degree in (28, 36, 44):
        monkeypatch.setattr(nearest, "DEGREE", degree)
        x, y = nearest.points().T
        made_from = equations.allen_cahn_exact(x, y, np)
        found = nearest.solution_near(made_from + bump(x, y))
        edge = (np.abs(x) == 1) | (np.abs(y) == 1)
        np.testing.assert_array_equal(found[edge], made_from[edge])
        distances.append(nearest.relative_l2(found, made_from))
        left = residual(found, degree, *between, source)
        residuals.append(np.linalg.norm(left) / np.linalg.norm(source))

    # Both are analytic: what is left between the points falls geometrically with the degree.
    assert residuals[1] < residuals[0] / 5
    assert residuals[2] < residuals[1] / 5
    assert residuals[2] < 1e-4
    assert distances[1:] == pytest.approx([distances[0]] * 2, rel=1e-3)
    assert distances[2] > 0.4


def test_the_solution_it_was_made_from_is_the_one_that_newton_finds_from_zero(nearest, equations):
    x, y = nearest.points().T
    made_from = equations.allen_cahn_exact(x, y, np)

    found = nearest.solution_near(np.zeros_like(x))

    assert nearest.relative_l2(found, made_from) < 1e-12


def test_relative_l2_is_that_of_integrals(nearest):
    x, y = nearest.points().T

    # Mean squares of x and 1 + y^3 over the square.
    assert nearest.relative_l2(1 + y**3 + x, 1 + y**3) == pytest.approx(np.sqrt((1 / 3) / (8 / 7)))
