"""How far outside of its training points a fit may be evaluated, and what happens beyond.

Outside of [-1, 1] by 2 s a polynomial of degree n grows at most like cosh(2 n sqrt(s)), and so does
the error of a fit; s is a fraction of the width. Staying at the edge instead, clipping, costs about
s. A fit of relative error e is therefore followed as far as e cosh(2 n sqrt(s)) <= s, which is
nowhere if noise dominates its error; beyond, the value at that margin is kept.
"""

import warnings

import numpy as np
from jaxtyping import Float, Int

from pann.domain import Box

MAX_MARGIN = 0.05
# Half of the width beyond the training points is worth a warning for any fit.
FAR = 0.5
_FRACTIONS = np.geomspace(1e-7, MAX_MARGIN, 400)


def margins(degrees: Int[np.ndarray, " d"], relative_error: float) -> Float[np.ndarray, " d"]:
    """For axes with polynomials of these degrees, the fraction of the width to extrapolate by."""
    growth = np.cosh(np.minimum(2.0 * degrees[:, None] * np.sqrt(_FRACTIONS), 700.0))
    return np.max(np.where(relative_error * growth <= _FRACTIONS, _FRACTIONS, 0.0), axis=1)


def tolerated(margin: Float[np.ndarray, " d"], relative_error: float) -> Float[np.ndarray, " d"]:
    """The distance outside without a warning: the margin, or where clipping costs less than e."""
    return np.maximum(margin, min(relative_error, FAR))


def clipped(
    domain: Box,
    coordinates: Float[np.ndarray, "points d"],
    margin: Float[np.ndarray, " d"],
    relative_error: float,
) -> Float[np.ndarray, "points d"]:
    """The points, those beyond the margin moved to its end, with a warning."""
    lower, upper, widths = np.asarray(domain.lower), np.asarray(domain.upper), domain.widths
    outside = np.maximum(lower - coordinates, coordinates - upper) / widths
    far = outside > tolerated(margin, relative_error) + 1e-9
    if far.any():
        point, axis = np.unravel_index(np.argmax(np.where(far, outside, 0.0)), outside.shape)
        warn_outside(
            f"{int(far.any(axis=1).sum())} of {len(coordinates)} points lie outside of the box of "
            f"the training points; the worst is point {point} with {domain.names[axis]} = "
            f"{coordinates[point, axis]:.6g}, {100 * outside[point, axis]:.3g}% of the width "
            f"beyond [{lower[axis]:.6g}, {upper[axis]:.6g}]",
            stacklevel=6,  # whoever called the model
        )
    return coordinates.clip(lower - margin * widths, upper + margin * widths)


def warn_outside(what: str, stacklevel: int) -> None:
    warnings.warn(
        f"{what}; predictions there are those at the edge: train on points that reach so far, or "
        "leave them out",
        stacklevel=stacklevel,
    )
