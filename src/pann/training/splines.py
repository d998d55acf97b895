"""Cubic splines of one coordinate, whose cells can be halved where more is needed."""

from typing import NamedTuple

import numpy as np
import scipy.sparse
from jaxtyping import Bool, Float
from scipy.interpolate import BSpline, PPoly, make_interp_spline

DEGREE = 3


class Spline(NamedTuple):
    """A cubic spline with two continuous derivatives, beyond its breaks as at their ends."""

    breaks: Float[np.ndarray, " ends"]
    coefficients: Float[np.ndarray, " functions"]

    def matrix(self, x: Float[np.ndarray, " rows"]) -> scipy.sparse.csr_array:
        """The B-splines of these breaks at points: four in a row are not zero."""
        inside = np.clip(x, self.breaks[0], self.breaks[-1])
        return BSpline.design_matrix(inside, _knots(self.breaks), DEGREE)

    def refined(self, split: Bool[np.ndarray, " cells"]) -> "Spline":
        """The same function with these cells halved."""
        middles = (self.breaks[1:] + self.breaks[:-1]) / 2
        breaks = np.sort(np.concatenate([self.breaks, middles[split]]))
        knots = _knots(breaks)
        # Greville's points: interpolation there is always possible, and here exact.
        places = np.mean([knots[1:-3], knots[2:-2], knots[3:-1]], axis=0)
        return Spline(breaks, make_interp_spline(places, self._function()(places), t=knots).c)

    def powers(self) -> Float[np.ndarray, "cells 4"]:
        """The coefficients of s^3, s^2, s and 1 in each cell, s from 0 to 1 across it."""
        pieces = PPoly.from_spline(self._function()).c[:, DEGREE:-DEGREE].T
        return pieces * np.diff(self.breaks)[:, None] ** np.arange(DEGREE, -1, -1)

    def _function(self) -> BSpline:
        return BSpline(_knots(self.breaks), self.coefficients, DEGREE)


def _knots(breaks: Float[np.ndarray, " ends"]) -> Float[np.ndarray, " knots"]:
    return np.concatenate([breaks[:1].repeat(DEGREE), breaks, breaks[-1:].repeat(DEGREE)])
