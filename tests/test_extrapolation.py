"""How far a fit is followed outside of its points."""

import numpy as np
import pytest
from numpy.polynomial.legendre import legval

import pann
from pann.model.extrapolation import FAR, MAX_MARGIN, margins, tolerated


@pytest.mark.parametrize("degree", [1, 3, 8, 20])
@pytest.mark.parametrize("error", [1e-15, 1e-8, 1e-4, 1e-2])
def test_the_margin_is_where_errors_grow_to_those_of_clipping(degree, error):
    (margin,) = margins(np.array([degree]), error)
    # T_n(x), of all polynomials bounded by 1 on [-1, 1] the largest outside.
    growth = lambda share: np.cosh(degree * np.arccosh(1 + 2 * share))
    if margin > 0:
        assert error * growth(margin) <= margin
    if margin < MAX_MARGIN:
        larger = max(1.1 * margin, 1e-6)
        assert error * growth(larger) > 0.95 * larger


def test_exact_fits_and_constants_have_the_largest_margin_and_noise_has_none():
    np.testing.assert_allclose(margins(np.array([0, 1, 20]), 1e-15), MAX_MARGIN)
    np.testing.assert_array_equal(margins(np.array([0, 4, 8]), 0.1), 0.0)


def test_where_clipping_costs_less_than_the_error_there_is_no_warning():
    np.testing.assert_array_equal(tolerated(np.array([0.01, 0.002]), 0.005), [0.01, 0.005])
    np.testing.assert_array_equal(tolerated(np.array([0.01]), 0.9), [FAR])


def test_a_train_and_test_split_of_a_smooth_function_is_predicted():
    random = np.random.default_rng(0)
    train, test = random.uniform(-1, 1, (500, 2)), random.uniform(-1, 1, (2000, 2))
    assert (np.abs(test) > np.abs(train).max(axis=0)).any()
    smooth = lambda x: np.exp(x[:, 0]) * np.cos(x[:, 1])
    made = pann.fit(train, smooth(train), pann.Polynomial(degree=12))
    assert pann.relative_l2(made(test), smooth(test)) < 1e-9
    # As NumPy does it outside.
    line = pann.fit(train[:, 0], train[:, 0] ** 3, pann.Polynomial(degree=3))
    outside = np.array([train[:, 0].max() + 0.01])
    np.testing.assert_allclose(line(outside), outside**3, rtol=1e-12)


def test_the_relative_error_is_that_of_new_points():
    random = np.random.default_rng(1)
    train, test = random.uniform(-1, 1, (400, 1)), random.uniform(-1, 1, (4000, 1))
    noisy = lambda x: 100 + legval(x[:, 0], [0, 1, 0, 1]) + 0.3 * random.normal(size=len(x))
    expected = 0.3 / np.std(noisy(test))
    for held_out in (0.0, 0.25):
        made = pann.fit(train, noisy(train), pann.Polynomial(degree=6), held_out=held_out)
        assert made.relative_errors[0] == pytest.approx(expected, rel=0.2)


def test_a_domain_that_was_given_is_where_the_model_lives():
    x = np.linspace(-1, 1, 50)
    made = pann.fit(x, x**2, pann.Polynomial(degree=2), domain=pann.Box(x=(-2, 2)))
    np.testing.assert_allclose(made([1.9]), [1.9**2])
    with pytest.raises(ValueError, match="1 of 1 points lie outside of the box"):
        made([2.01])


def test_files_know_whether_a_model_goes_on_outside(tmp_path):
    x = np.linspace(-1, 1, 50)
    made = pann.fit(x, np.exp(x), pann.Polynomial(degree=10)).model
    pann.io.save(tmp_path / "model.pann", made)
    loaded = pann.load(tmp_path / "model.pann")
    assert loaded.relative_error == made.relative_error
    np.testing.assert_array_equal(loaded([1.04]), made([1.04]))
