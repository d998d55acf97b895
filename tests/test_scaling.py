"""Features to [-1, 1] by range and by rank; targets to mean zero and unit deviation."""

import numpy as np
import pytest
from scipy.stats import norm

from pann.regression.scaling import distance_outside, scale_by_range, scale_by_rank, scale_targets

# Of the constants below; tests draw from the fixture `rng`.
DRAWN = np.random.default_rng(0)
COLUMNS = {
    "uniform": DRAWN.uniform(-3, 5, 2000),
    "normal": DRAWN.normal(7, 0.1, 2000),
    "cauchy": DRAWN.standard_cauchy(2000),
    "lognormal": np.exp(2 * DRAWN.normal(size=2000)),
    "flag": (DRAWN.uniform(size=2000) < 0.02) * 1.0,
    "counts": DRAWN.poisson(2.0, 2000) * 1.0,
    "tiny": 1e-300 * DRAWN.uniform(size=2000),
}
SCALES = {"range": scale_by_range, "rank": scale_by_rank}


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("scale", SCALES.values(), ids=SCALES)
def test_a_column_goes_onto_the_whole_interval_in_its_order(name, scale):
    column = COLUMNS[name][:, None]
    scaled = scale(column)(column)[:, 0]
    assert np.abs(scaled).max() <= 1
    np.testing.assert_allclose([scaled.min(), scaled.max()], [-1, 1], rtol=1e-14)
    order = np.argsort(column[:, 0])
    assert np.all(np.diff(scaled[order]) >= -1e-15)


@pytest.mark.parametrize("name", ["uniform", "normal", "counts", "flag"])
def test_by_range_a_column_without_heavy_tails_is_scaled_linearly(name):
    column = COLUMNS[name]
    expected = 2 * (column - column.min()) / np.ptp(column) - 1
    np.testing.assert_allclose(
        scale_by_range(column[:, None])(column[:, None])[:, 0], expected, atol=1e-12
    )


@pytest.mark.parametrize("name", ["cauchy", "lognormal"])
def test_by_range_heavy_tails_neither_squash_the_bulk_nor_are_lost(name):
    column = COLUMNS[name]
    scaled = scale_by_range(column[:, None])(column[:, None])[:, 0]
    squashed = 2 * (column - column.min()) / np.ptp(column) - 1
    spread = lambda values: np.subtract(*np.quantile(values, [0.75, 0.25]))
    assert spread(scaled) > 0.2 > 10 * spread(squashed)
    assert len(np.unique(scaled)) == len(np.unique(column))


def test_by_rank_a_normal_column_comes_out_normal():
    column = COLUMNS["normal"]
    scaled = scale_by_rank(column[:, None])(column[:, None])[:, 0]
    inner = np.abs(scaled) < 0.6  # further out 2000 rows do not say where a quantile lies
    standard = (column - 7) / 0.1 / norm.ppf(1 - 1e-3)
    np.testing.assert_allclose(scaled[inner], standard[inner], atol=0.05)


@pytest.mark.parametrize("scale", SCALES.values(), ids=SCALES)
def test_beyond_the_training_range_a_value_counts_as_the_end(scale):
    rows = np.stack([COLUMNS["uniform"], COLUMNS["cauchy"]], axis=1)
    scaling = scale(rows)
    far = np.array([[1e9, -1e9], [-1e9, 1e9]])
    np.testing.assert_array_equal(scaling(far), [[1, -1], [-1, 1]])
    outside = distance_outside(scaling, np.array([[rows[:, 0].max() + np.ptp(rows[:, 0]), 0.0]]))
    np.testing.assert_allclose(outside, [[1.0, 0.0]])


def test_by_range_a_margin_continues_the_scaling():
    """Linearly where there is no tail, and beyond the margin not at all."""
    rows = np.stack([COLUMNS["uniform"], COLUMNS["cauchy"]], axis=1)
    scaling = scale_by_range(rows)
    length = scaling.high - scaling.low
    margins = np.array([0.03, 0.03])
    near, far = scaling(
        np.stack([scaling.high + 0.01 * length, scaling.high + 9 * length]), margins
    )
    assert near[0] == pytest.approx(1.02)
    assert far[0] == pytest.approx(1.06)
    # The logarithm of a tail grows slowly.
    assert 1 < near[1] < far[1] < 1.01
    np.testing.assert_array_equal(scaling(rows, margins), scaling(rows))


@pytest.mark.parametrize("scale", SCALES.values(), ids=SCALES)
def test_constant_columns_become_zero(scale):
    scaling = scale(np.full((5, 1), 3.0))
    assert scaling.is_constant.all()
    np.testing.assert_array_equal(scaling(np.array([[3.0], [8.0]])), 0.0)


def test_targets_are_standardized_by_their_weights_and_back(rng):
    values = rng.normal(4.0, 3.0, (50, 2))
    values[:, 1] = 8.0
    weights = rng.integers(1, 4, 50).astype(float)
    scaling = scale_targets(values, weights)
    repeated = np.repeat(values, weights.astype(int), axis=0)
    np.testing.assert_allclose(scaling.mean, repeated.mean(axis=0))
    np.testing.assert_allclose(scaling.deviation, [repeated[:, 0].std(), 1.0])
    np.testing.assert_allclose(scaling.undo(scaling(values)), values)
