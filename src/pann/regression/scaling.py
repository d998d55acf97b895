"""From a table's columns to [-1, 1], by range or by rank.

By range: linear in the bulk, logarithmic in heavy tails; smooth functions stay smooth.

A column's bulk reaches from 3 interquartile ranges below its first quartile to 3 above its third,
cut at its smallest and largest value. Without values beyond it, the bulk is mapped linearly onto
[-1, 1]. Where there are some, the bulk gets [-0.9, 0.9] on that side and the tail the last tenth,
by its logarithm: a few huge values neither squash the others nor are they lost.

By rank: a value goes to the normal quantile of its rank among the training rows, linear between
knots. Every column then has the same distribution, which works best for networks on noisy tables.

Beyond the range of the training rows (by range: beyond a margin around it) a value counts as the
end, so that no half of a model grows without bound.
"""

import dataclasses

import numpy as np
import scipy.special
from jaxtyping import Bool, Float

TAIL = 0.1
FENCE = 3.0
NUM_KNOTS = 512
OUTERMOST = 1e-3
BLOCK = 65_536  # rows
Rows = Float[np.ndarray, "rows columns"]
Columns = Float[np.ndarray, " columns"]


@dataclasses.dataclass(frozen=True)
class RangeScaling:
    """For each column its range and its bulk."""

    low: Columns
    high: Columns
    bulk_low: Columns
    bulk_high: Columns

    @property
    def is_constant(self) -> Bool[np.ndarray, " columns"]:
        return self.low == self.high

    def __call__(self, rows: Rows, margins: Columns | None = None) -> Rows:
        """The rows in [-1, 1]; constant columns become 0.

        `margins`, fractions of the ranges, allow values beyond [-1, 1] by twice as much.
        """
        margins = np.zeros(rows.shape[1]) if margins is None else margins
        scaled = np.empty(rows.shape)
        # In blocks: every step of the formula copies the rows.
        for start in range(0, len(rows), BLOCK):
            scaled[start : start + BLOCK] = self._block(rows[start : start + BLOCK], margins)
        return scaled

    def _block(self, rows: Rows, margins: Columns) -> Rows:
        middle, half = (self.bulk_low + self.bulk_high) / 2, (self.bulk_high - self.bulk_low) / 2
        half = np.where(half > 0, half, 1.0)
        beyond = margins * (self.high - self.low)
        clipped = np.clip(rows, self.low - beyond, self.high + beyond)
        has_lower, has_upper = self.low < self.bulk_low, self.high > self.bulk_high
        # Linear beyond the bulk only where no tail begins there.
        first, last = np.where(has_lower, -1, -np.inf), np.where(has_upper, 1, np.inf)
        inside = np.clip((clipped - middle) / half, first, last)
        left = np.where(has_lower, -1 + TAIL, -1.0)
        right = np.where(has_upper, 1 - TAIL, 1.0)
        scaled = left + (inside + 1) / 2 * (right - left)
        upper = _tail(clipped - self.bulk_high, half) / _tail(self.high - self.bulk_high, half, 1.0)
        lower = _tail(self.bulk_low - clipped, half) / _tail(self.bulk_low - self.low, half, 1.0)
        scaled = scaled + TAIL * (np.where(has_upper, upper, 0) - np.where(has_lower, lower, 0))
        end = 1 + 2 * margins
        return np.where(self.is_constant, 0.0, np.clip(scaled, -end, end))


def _tail(beyond: np.ndarray, half: np.ndarray, at_zero: float = 0.0) -> np.ndarray:
    grown = np.log1p(np.maximum(beyond, 0) / half)
    return np.where(grown > 0, grown, at_zero)


def scale_by_range(rows: Rows) -> RangeScaling:
    """Learn the range and the bulk of each column from the training rows."""
    low, high = rows.min(axis=0), rows.max(axis=0)
    first, third = np.quantile(rows, [0.25, 0.75], axis=0)
    spread = third - first
    # A column with mostly one value (a rare flag) has no bulk apart from its tail.
    spread = np.where(spread > 0, spread, high - low)
    return RangeScaling(
        low, high, np.maximum(low, first - FENCE * spread), np.minimum(high, third + FENCE * spread)
    )


@dataclasses.dataclass(frozen=True)
class RankScaling:
    """For each column some of its values in order (the last is repeated), and where they go."""

    knots: Float[np.ndarray, "knots columns"]
    places: Float[np.ndarray, "knots columns"]

    @property
    def low(self) -> Columns:
        return self.knots[0]

    @property
    def high(self) -> Columns:
        return self.knots[-1]

    @property
    def is_constant(self) -> Bool[np.ndarray, " columns"]:
        return self.low == self.high

    def __call__(self, rows: Rows, margins: Columns | None = None) -> Rows:
        """The rows in [-1, 1], whatever the margins; constant columns become 0."""
        scaled = np.empty(rows.shape)
        for column, (knots, places) in enumerate(zip(self.knots.T, self.places.T, strict=True)):
            scaled[:, column] = np.interp(rows[:, column], knots, places)
        scaled[:, self.is_constant] = 0.0
        return scaled


def scale_by_rank(rows: Rows) -> RankScaling:
    """Learn the knots of each column from the training rows; equal values get their mean rank."""
    levels = np.linspace(0, 1, min(NUM_KNOTS, len(rows)))
    knots, places = (np.empty((len(levels), rows.shape[1])) for _ in range(2))
    outermost = -scipy.special.ndtri(OUTERMOST)
    for column in range(rows.shape[1]):
        values = np.quantile(rows[:, column], levels)
        distinct, inverse = np.unique(values, return_inverse=True)
        ranks = np.bincount(inverse, levels) / np.bincount(inverse)
        # The ends of the range go to the ends of [-1, 1], however often their values occur.
        ranks[0], ranks[-1] = 0.0, 1.0
        spread = scipy.special.ndtri(np.clip(ranks, OUTERMOST, 1 - OUTERMOST)) / outermost
        filled = np.minimum(np.arange(len(levels)), len(distinct) - 1)
        knots[:, column], places[:, column] = distinct[filled], spread[filled]
    return RankScaling(knots, places)


FeatureScaling = RangeScaling | RankScaling


def distance_outside(scaling: FeatureScaling, rows: Rows) -> Rows:
    """How far each value lies outside the training range, as a fraction of that range."""
    length = np.where(scaling.is_constant, 1.0, scaling.high - scaling.low)
    return np.maximum(np.maximum(scaling.low - rows, rows - scaling.high), 0) / length


@dataclasses.dataclass(frozen=True)
class TargetScaling:
    """Mean zero and unit deviation for each output."""

    mean: Float[np.ndarray, " outputs"]
    deviation: Float[np.ndarray, " outputs"]

    def __call__(
        self, values: Float[np.ndarray, "rows outputs"]
    ) -> Float[np.ndarray, "rows outputs"]:
        return (values - self.mean) / self.deviation

    def undo(
        self, scaled: Float[np.ndarray, "*trials rows outputs"]
    ) -> Float[np.ndarray, "*trials rows outputs"]:
        return scaled * self.deviation + self.mean


def scale_targets(
    values: Float[np.ndarray, "rows outputs"], weights: Float[np.ndarray, " rows"]
) -> TargetScaling:
    """Learn mean and deviation from the weighted training rows; 1 for a constant output."""
    mean = np.average(values, axis=0, weights=weights)
    deviation = np.sqrt(np.average((values - mean) ** 2, axis=0, weights=weights))
    tiny = 1e-12 * np.maximum(np.abs(mean), np.finfo(float).tiny)
    return TargetScaling(mean, np.where(deviation > tiny, deviation, 1.0))
