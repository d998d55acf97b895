"""Projection, least squares and the preconditioner: exactness, oracles and refusals."""

import numpy as np
import pytest

from pann.basis import christoffel_weights, fit, least_squares, make_basis, project, quadrature
from pann.domain import Box

BOX = Box(x=(0.0, 3.0), y=(-2.0, -1.0))
MIXED = Box(x=(0.0, 2.0), y=(-2.0, -1.0), periodic="x")


def cubic(x, y):
    return 1 + x**2 * y - 3 * x * y**2 + y**3


@pytest.mark.parametrize("preconditioner", [False, True])
@pytest.mark.parametrize("families", ["legendre", "chebyshev"])
@pytest.mark.parametrize("scaling", ["plain", "orthonormal"])
def test_projection_reproduces_polynomials(preconditioner, families, scaling, rng):
    basis = make_basis(BOX, 5, families=families, scaling=scaling)
    coefficients = project(basis, cubic, 6, preconditioner)
    points = BOX.from_reference(rng.uniform(-1, 1, (50, 2)))
    np.testing.assert_allclose(basis.evaluate(points, coefficients), cubic(*points.T), rtol=1e-11)
    np.testing.assert_allclose(coefficients[basis.degrees > 3], 0.0, atol=1e-11)


@pytest.mark.parametrize("preconditioner", [False, True])
def test_projection_reproduces_trigonometric_times_polynomial(preconditioner, rng):
    basis = make_basis(MIXED, 4)
    expected = rng.normal(size=(len(basis), 2))
    points, _ = quadrature(basis, (9, 5))
    actual = project(basis, basis.table(points) @ expected, (9, 5), preconditioner)
    np.testing.assert_allclose(actual, expected, atol=1e-12)


def test_projection_is_the_weighted_least_squares_solution():
    """The two agree whenever the rule integrates products of the terms exactly."""
    basis = make_basis(MIXED, 6)
    points, weights = quadrature(basis, 15)
    values = np.exp(np.sin(np.pi * points[:, 0])) / points[:, 1]
    expected = least_squares(basis.table(points), values, weights)
    np.testing.assert_allclose(project(basis, values, 15), expected, atol=1e-12)


def test_projection_of_the_absolute_value_has_known_coefficients():
    """|x| = 1/2 + 5/8 P2 - 3/16 P4 + ...: each half integrated by hand."""
    basis = make_basis(Box(x=(-1.0, 1.0)), 4)
    # A kink in the middle: the error of Gauss's rule falls like 1/n^2.
    coefficients = project(basis, np.abs, 2000)
    np.testing.assert_allclose(coefficients, [1 / 2, 0, 5 / 8, 0, -3 / 16], atol=1e-5)


def test_an_unseen_axis_is_averaged_over():
    basis = make_basis(BOX, 3, axes=("x",))
    coefficients = project(basis, lambda x, y: x * (y + 2), 4)
    expected = project(make_basis(Box(x=(0.0, 3.0)), 3), lambda x: 0.5 * x, 4)
    np.testing.assert_allclose(coefficients, expected, atol=1e-13)


def test_quadrature_covers_the_box_with_unit_weight():
    points, weights = quadrature(make_basis(BOX, 2), (3, 4))
    assert points.shape == (12, 2)
    assert BOX.contains(points)
    assert weights.sum() == pytest.approx(1.0, abs=1e-14)
    mean = weights @ (points[:, 0] ** 2 * points[:, 1])
    assert mean == pytest.approx(3.0 * -1.5, rel=1e-13)


def test_too_few_nodes_are_noticed():
    with pytest.warns(UserWarning, match="5 nodes along 'x' cannot resolve its 6 functions"):
        project(make_basis(Box(x=(-1.0, 1.0)), 5), np.sin, 5)
    with pytest.raises(ValueError, match="3 numbers of nodes for 2 axes"):
        quadrature(make_basis(BOX, 2), (3, 3, 3))
    with pytest.raises(ValueError, match=r"shape \(7,\) for 9 nodes"):
        project(make_basis(BOX, 2), np.zeros(7), 3)


@pytest.mark.parametrize("shape", [(60,), (60, 1), (60, 3)])
@pytest.mark.parametrize("weighted", [False, True])
def test_least_squares_agrees_with_lapack_and_keeps_the_shape(shape, weighted, rng):
    table, values = rng.normal(size=(60, 12)), rng.normal(size=shape)
    weights = rng.uniform(0.1, 2.0, 60) if weighted else np.ones(60)
    roots = np.sqrt(weights)
    expected = np.linalg.lstsq(table * roots[:, None], (values.T * roots).T, rcond=None)[0]
    kept = table.copy(), values.copy()
    actual = least_squares(table, values, weights if weighted else None)
    assert actual.shape == (12, *shape[1:])
    np.testing.assert_allclose(actual, expected, rtol=1e-10)
    np.testing.assert_array_equal(table, kept[0])
    np.testing.assert_array_equal(values, kept[1])


def test_columns_of_very_different_size_are_not_taken_for_dependent(rng):
    table = rng.normal(size=(40, 8))
    scales = 10.0 ** np.arange(-16, 16, 4)
    expected = rng.normal(size=8) / scales
    actual = least_squares(table * scales, table * scales @ expected)
    np.testing.assert_allclose(actual, expected, rtol=1e-10)


@pytest.mark.parametrize("noise", [0.0, 1e-15])
def test_dependent_columns_give_a_small_solution(noise, rng):
    table = rng.normal(size=(50, 6))
    twice = np.column_stack([table, table[:, 0] + noise * rng.normal(size=50), np.zeros(50)])
    values = table @ np.array([2.0, 1, 1, 1, 1, 1]) + rng.normal(size=50)
    actual = least_squares(twice, values)
    alone = least_squares(table, values)
    np.testing.assert_allclose(twice @ actual, table @ alone, atol=1e-12)
    np.testing.assert_allclose(actual[[0, 6]], alone[0] / 2, rtol=1e-10)
    assert actual[7] == 0.0


def test_a_point_of_weight_zero_does_not_count(rng):
    table, values = rng.normal(size=(20, 4)), rng.normal(size=20)
    weights = np.r_[0.0, np.ones(19)]
    expected = least_squares(table[1:], values[1:])
    np.testing.assert_allclose(least_squares(table, values, weights), expected, rtol=1e-11)


def test_fit_converges_exponentially_for_an_analytic_function():
    """Errors of Chebyshev-distributed samples fall at least like 2^-degree for sin."""
    domain = Box(x=(-1.0, 1.0))
    points = np.cos(np.linspace(0, np.pi, 400))[:, None]
    errors = []
    for degree in (4, 8, 12):
        basis = make_basis(domain, degree)
        coefficients = fit(basis, points, np.sin(3 * points[:, 0]))
        errors.append(np.abs(basis.evaluate(points, coefficients) - np.sin(3 * points[:, 0])).max())
    assert errors[1] < errors[0] / 2**4
    assert errors[2] < errors[1] / 2**4


def test_fewer_points_than_terms_are_refused_with_the_degree_that_fits(rng):
    basis = make_basis(BOX, 26)
    points = BOX.from_reference(rng.uniform(-1, 1, (200, 2)))
    with pytest.raises(
        ValueError, match=r"degree 26 has 378 terms but there are only 200 points; lower .* most 18"
    ):
        fit(basis, points, points[:, 0])
    assert np.count_nonzero(basis.degrees <= 18) <= 200 < np.count_nonzero(basis.degrees <= 19)
    with pytest.raises(ValueError, match="378 terms but only 200 points"):
        least_squares(basis.table(points), points[:, 0])


def test_bad_values_and_weights_are_refused_in_one_sentence():
    table = np.ones((3, 1))
    with pytest.raises(ValueError, match="values hold NaN"):
        least_squares(table, np.array([1.0, np.nan, 0.0]))
    with pytest.raises(ValueError, match="table holds NaN"):
        least_squares(np.full((3, 1), np.inf), np.ones(3))
    with pytest.raises(ValueError, match="weights must be finite and at least 0, least is -1"):
        least_squares(table, np.ones(3), np.array([1.0, -1.0, 1.0]))


def test_christoffel_weights_at_the_ends_and_on_average():
    """sum_n (2n+1) P_n(1)^2 = m^2, so K(1) = 1/sqrt(m); and 1/K^2 has mean 1."""
    basis = make_basis(Box(x=(0.0, 5.0)), 9)
    ends = christoffel_weights(basis, np.array([[0.0], [5.0]]))
    np.testing.assert_allclose(ends, 1 / np.sqrt(10), rtol=1e-13)
    points, weights = quadrature(basis, 10)
    assert weights @ christoffel_weights(basis, points) ** -2 == pytest.approx(1.0, rel=1e-12)
    plain = christoffel_weights(basis, np.array([[5.0]]), scaling="plain")
    np.testing.assert_allclose(plain, 1.0, rtol=1e-13)


def test_christoffel_weights_of_whole_frequencies_are_one(rng):
    """cos^2 + sin^2 = 1: translation invariance leaves nothing to weigh."""
    basis = make_basis(Box(x=(0.0, 1.0), periodic="x"), 6)
    points = rng.uniform(size=(30, 1))
    np.testing.assert_allclose(christoffel_weights(basis, points), 1.0, rtol=1e-12)


def test_christoffel_weights_do_not_depend_on_the_scaling_of_the_basis(rng):
    points = BOX.from_reference(rng.uniform(-1, 1, (20, 2)))
    plain, orthonormal = (
        christoffel_weights(make_basis(BOX, 6, scaling=scaling), points)
        for scaling in ("plain", "orthonormal")
    )
    np.testing.assert_array_equal(plain, orthonormal)


def test_christoffel_weights_are_one_where_nothing_is_left():
    basis = make_basis(Box(x=(-1.0, 1.0)), 3)
    points = np.array([[0.0], [0.5]])
    np.testing.assert_array_equal(christoffel_weights(basis.subset([]), points), 1.0)
    odd = christoffel_weights(basis.subset([1]), points)
    assert odd[0] == 1.0
    assert odd[1] == pytest.approx(2 / np.sqrt(3))
