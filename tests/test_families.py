"""The one-dimensional families against mpmath, closed forms and their own orthogonality."""

import functools
import math

import mpmath
import numpy as np
import pytest
import scipy.special

from pann.basis import Chebyshev, Family, Fourier, Legendre, family_by_name

FAMILIES = [Legendre(), Chebyshev(), Fourier()]
# The ends, next to them, where the recurrence is worst, and inside.
POINTS = np.array([-1.0, 1.0, 1 - 1e-9, -1 + 1e-5, 1 - 1e-4, 0.9995, 0.97, -0.8, 0.3, 1e-3, 0.0])


@functools.cache
def integer_coefficients(family: Family, degree: int) -> tuple[tuple[int, ...], int]:
    """Ascending coefficients of a polynomial as whole numbers over a power of two."""
    coefficients = [0] * (degree + 1)
    if isinstance(family, Legendre):  # Rodrigues' sum (DLMF 18.5.8 with alpha = beta = 0)
        for j in range(degree // 2 + 1):
            coefficients[degree - 2 * j] = (
                (-1) ** j * math.comb(degree, j) * math.comb(2 * degree - 2 * j, degree)
            )
        return tuple(coefficients), degree
    for j in range(degree // 2 + 1):  # twice T_n has whole coefficients in this form
        numerator = degree * (-1) ** j * math.factorial(degree - j - 1) * 2 ** (degree - 2 * j)
        coefficients[degree - 2 * j] = numerator // (
            math.factorial(j) * math.factorial(degree - 2 * j)
        )
    return tuple(coefficients), 1


def exact(family: Family, degree: int, order: int, x: float) -> mpmath.mpf:
    """The derivative by differentiating the power series; 150 digits outlast its cancellation."""
    coefficients, power = integer_coefficients(family, degree)
    for _ in range(order):
        coefficients = tuple(i * c for i, c in enumerate(coefficients))[1:]
    with mpmath.workdps(150):
        value = mpmath.mpf(0)
        for coefficient in reversed(coefficients):
            value = value * mpmath.mpf(x) + coefficient
        return value / mpmath.mpf(2) ** power


def local_maximum(family: Family, degree: int, order: int, x: float) -> mpmath.mpf:
    """The largest absolute value within half a wavelength, which is 2 pi / degree in arccos x."""
    angle, half = math.acos(x), math.pi / degree
    angles = np.linspace(max(angle - half, 0.0), min(angle + half, math.pi), 9)
    return max(abs(exact(family, degree, order, math.cos(a))) for a in angles)


@pytest.mark.parametrize("order", range(5))
@pytest.mark.parametrize("family", FAMILIES[:2], ids=["legendre", "chebyshev"])
def test_degree_120_matches_mpmath_to_1e_11_of_the_local_maximum(family, order):
    column = family.table(POINTS, 121, order)[:, 120]
    for x, value in zip(POINTS, column, strict=True):
        error = abs(exact(family, 120, order, float(x)) - float(value))
        assert error <= 1e-11 * local_maximum(family, 120, order, float(x)), x


@pytest.mark.parametrize("order", [0, 1, 2, 3, 6])
@pytest.mark.parametrize("family", FAMILIES[:2], ids=["legendre", "chebyshev"])
def test_every_low_degree_matches_mpmath(family, order):
    table = family.table(POINTS, 10, order)
    expected = [[float(exact(family, n, order, float(x))) if n else 0.0 for n in range(10)]
                for x in POINTS]  # fmt: skip
    expected = np.array(expected)
    expected[:, 0] = float(order == 0)
    scale = np.abs(expected).max(axis=0) + 1e-300
    assert np.max(np.abs(table - expected) / scale) < 1e-14


@pytest.mark.parametrize("degree", [1, 7, 40])
def test_legendre_is_one_at_the_right_end(degree):
    assert Legendre().table(np.array([1.0]), degree + 1)[0, degree] == pytest.approx(1.0, abs=1e-14)


def test_legendre_values_match_scipy():
    x = np.linspace(-1, 1, 101)
    expected = scipy.special.eval_legendre(np.arange(61), x[:, None])
    np.testing.assert_allclose(Legendre().table(x, 61), expected, atol=1e-13)


def test_chebyshev_values_are_cosines():
    x = np.linspace(-1, 1, 101)
    expected = np.cos(np.arange(61) * np.arccos(x)[:, None])
    np.testing.assert_allclose(Chebyshev().table(x, 61), expected, atol=1e-13)


@pytest.mark.parametrize("order", range(6))
def test_fourier_matches_the_closed_form(order):
    x = np.linspace(-1.7, 1.3, 37)
    table = Fourier().table(x, 21, order)
    np.testing.assert_array_equal(table[:, 0], float(order == 0))
    for frequency in range(1, 11):
        scale = (np.pi * frequency) ** order
        argument = np.pi * frequency * x + order * np.pi / 2
        np.testing.assert_allclose(
            table[:, 2 * frequency - 1], scale * np.cos(argument), atol=1e-13 * scale
        )
        np.testing.assert_allclose(
            table[:, 2 * frequency], scale * np.sin(argument), atol=1e-13 * scale
        )


@pytest.mark.parametrize("order", range(4))
def test_fourier_is_periodic_to_the_last_bit(order):
    left, right = Fourier().table(np.array([-1.0, 1.0]), 201, order)
    np.testing.assert_array_equal(left, right)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: type(family).__name__)
@pytest.mark.parametrize("num_nodes", [1, 2, 9, 64, 65])
def test_quadrature_weights_sum_to_one_and_nodes_increase(family, num_nodes):
    nodes, weights = family.quadrature(num_nodes)
    assert weights.sum() == pytest.approx(1.0, abs=1e-14)
    assert nodes.shape == (num_nodes,)
    assert np.all(np.diff(nodes) > 0)
    assert np.all(np.abs(nodes) <= 1)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: type(family).__name__)
def test_functions_over_their_norms_are_orthonormal(family):
    nodes, weights = family.quadrature(41)
    functions = family.table(nodes, 41) / family.norms(41)
    np.testing.assert_allclose(functions.T * weights @ functions, np.eye(41), atol=1e-12)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: type(family).__name__)
def test_the_measure_is_the_one_named(family):
    """The second moment tells the uniform measure (1/3) from Chebyshev's (1/2)."""
    nodes, weights = family.quadrature(5)
    if isinstance(family, Fourier):
        # Periodic rules do not integrate x^2; the square of a cosine has mean 1/2.
        assert weights @ np.cos(np.pi * nodes) ** 2 == pytest.approx(0.5, abs=1e-14)
    else:
        expected = 0.5 if isinstance(family, Chebyshev) else 1 / 3
        assert weights @ nodes**2 == pytest.approx(expected, abs=1e-14)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: type(family).__name__)
def test_levels_and_counts_agree(family):
    levels = family.levels(30)
    assert np.all(np.diff(levels) >= 0)
    for level in range(10):
        assert family.num_functions(level) == np.count_nonzero(levels <= level)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: type(family).__name__)
@pytest.mark.parametrize("num_functions", [0, 1, 2])
@pytest.mark.parametrize("order", [0, 1, 5])
def test_short_tables_have_the_shape_asked_for(family, num_functions, order):
    assert family.table(POINTS, num_functions, order).shape == (len(POINTS), num_functions)


def test_names():
    assert Legendre().name(2, "x") == "P2(x)"
    assert Chebyshev().name(3, "t") == "T3(t)"
    assert [Fourier().name(i, "x") for i in range(4)] == ["", "cos1(x)", "sin1(x)", "cos2(x)"]


def test_families_compare_by_kind_and_are_found_by_name():
    assert family_by_name("legendre") == Legendre() != Chebyshev()
    with pytest.raises(ValueError, match="'hermite' is not a family; use one of legendre"):
        family_by_name("hermite")


def test_a_negative_derivative_or_no_node_is_refused():
    with pytest.raises(ValueError, match="derivative must be at least 0, got -1"):
        Legendre().table(POINTS, 3, -1)
    with pytest.raises(ValueError, match="at least 1 node, got 0"):
        Fourier().quadrature(0)


@pytest.mark.parametrize("num_nodes", [7, 65, 200])
def test_gauss_weights_lose_no_digits(num_nodes):
    nodes, weights = Legendre().quadrature(num_nodes)
    with mpmath.workdps(40):
        for place in (0, num_nodes // 3, num_nodes // 2):
            x = mpmath.findroot(lambda x: mpmath.legendre(num_nodes, x), nodes[place])
            slope = mpmath.diff(lambda x: mpmath.legendre(num_nodes, x), x)
            expected = 1 / ((1 - x**2) * slope**2)
            assert weights[place] == pytest.approx(float(expected), rel=3e-14)
