"""Ridge regression with the penalty by leaving one out, against doing that row by row."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge as SklearnRidge

from pann.basis import ridge

# Of the constants below; tests draw from the fixture `rng`.
DRAWN = np.random.default_rng(1)
TABLE = np.concatenate([np.ones((40, 1)), DRAWN.normal(1.0, 1.0, (40, 8))], axis=1)
TARGET = TABLE @ DRAWN.normal(size=(9, 2)) + 0.7 * DRAWN.normal(size=(40, 2))
WEIGHTS = DRAWN.uniform(0.5, 2.0, 40)


def penalty_in_absolute_terms(penalty):
    """The penalty is relative to the largest squared singular value of the centered columns."""
    root = np.sqrt(WEIGHTS / WEIGHTS.mean())[:, None]
    columns = root * (TABLE[:, 1:] - np.average(TABLE[:, 1:], axis=0, weights=WEIGHTS))
    return penalty * np.linalg.norm(columns, 2) ** 2


def sklearn_fit(rows, penalty):
    model = SklearnRidge(alpha=max(penalty_in_absolute_terms(penalty), 1e-13), solver="svd")
    model.fit(TABLE[rows][:, 1:], TARGET[rows], sample_weight=(WEIGHTS / WEIGHTS.mean())[rows])
    return model


@pytest.mark.parametrize("penalty", [0.0, 1e-3, 0.1])
def test_coefficients_are_those_of_scikit_learn(penalty):
    expected = sklearn_fit(np.arange(40), penalty)
    solved = ridge(TABLE, TARGET, WEIGHTS, (penalty,)).coefficients
    np.testing.assert_allclose(solved[1:], expected.coef_.T, atol=1e-9)
    np.testing.assert_allclose(solved[0], expected.intercept_, atol=1e-9)


@pytest.mark.parametrize("penalty", [0.0, 1e-3, 0.1])
def test_the_error_is_that_of_leaving_each_row_out(penalty):
    residuals = []
    for row in range(40):
        others = np.delete(np.arange(40), row)
        predicted = sklearn_fit(others, penalty).predict(TABLE[row : row + 1, 1:])[0]
        residuals.append(np.sqrt(WEIGHTS[row] / WEIGHTS.mean()) * (TARGET[row] - predicted))
    error = ridge(TABLE, TARGET, WEIGHTS, (penalty,)).error
    assert error == pytest.approx(np.sqrt(np.mean(np.square(residuals))), rel=1e-6)


def test_the_penalty_with_the_lowest_error_is_taken():
    penalties = (0.0, 1e-3, 1e-2, 0.1, 1.0)
    errors = [ridge(TABLE, TARGET, WEIGHTS, (penalty,)).error for penalty in penalties]
    best = ridge(TABLE, TARGET, WEIGHTS, penalties)
    assert best.penalty == penalties[int(np.argmin(errors))]
    assert best.error == pytest.approx(min(errors))


def test_noise_is_penalized_and_a_polynomial_is_not(rng):
    noise = rng.normal(size=(40, 1))
    assert ridge(TABLE, noise, np.ones(40)).penalty > 1e-2
    exact = ridge(TABLE, TABLE @ np.arange(9.0)[:, None], np.ones(40))
    np.testing.assert_allclose(exact.coefficients[:, 0], np.arange(9.0), atol=1e-10)


def test_repeated_columns_share_their_coefficient():
    doubled = np.concatenate([TABLE, TABLE[:, 1:2]], axis=1)
    solved = ridge(doubled, TARGET, np.ones(40), (0.0,))
    plain = ridge(TABLE, TARGET, np.ones(40), (0.0,))
    np.testing.assert_allclose(solved.coefficients[1], solved.coefficients[-1], atol=1e-9)
    np.testing.assert_allclose(doubled @ solved.coefficients, TABLE @ plain.coefficients, atol=1e-9)
    assert solved.error == pytest.approx(plain.error)


def test_more_columns_than_rows_are_no_obstacle(rng):
    wide = np.concatenate([TABLE, rng.normal(size=(40, 60))], axis=1)
    solved = ridge(wide, TARGET, np.ones(40))
    assert np.all(np.isfinite(solved.coefficients))
    assert solved.error < np.sqrt(np.mean(TARGET**2))
