"""Ridge regression on a basis with the penalty chosen by leaving one row out.

b minimizes |W (Phi b - y)|^2 + lambda s^2 |b|^2, s the largest singular value of W Phi; the
constant, which must stand first, is not penalized. With W Phi = Q R and R = U S V^T a path of
penalties costs little more than one solve, and the error at each row of the fit without that row
is r_i / (1 - h_i), h_i the diagonal of the hat matrix (Golub, Heath and Wahba 1979).
"""

from typing import NamedTuple

import numpy as np
import scipy.linalg
from jaxtyping import Float

# Relative to the largest squared singular value; 0 is plain least squares.
PENALTIES = (0.0, *np.logspace(-12, 1, 27))


class RidgeFit(NamedTuple):
    """Coefficients of the best penalty, that penalty, and the root mean square error left out."""

    coefficients: Float[np.ndarray, "terms outputs"]
    penalty: float
    error: float


def ridge(
    table: Float[np.ndarray, "rows terms"],
    target: Float[np.ndarray, "rows outputs"],
    weights: Float[np.ndarray, " rows"],
    penalties: tuple[float, ...] = PENALTIES,
) -> RidgeFit:
    """Fit the first term, the constant, freely, the others with the best of the penalties."""
    root = np.sqrt(weights / np.mean(weights))[:, None]
    constant = root / np.linalg.norm(root)
    right = root * target
    right = right - constant @ (constant.T @ right)
    columns = root * table[:, 1:]
    shares = constant.T @ columns
    columns = columns - constant @ shares
    q, r = scipy.linalg.qr(columns, mode="economic", overwrite_a=True, check_finite=False)
    left, values, right_vectors = scipy.linalg.svd(r, full_matrices=False, check_finite=False)
    modes = q @ left
    amplitudes = modes.T @ right
    squares, largest = values**2, max(np.max(values**2, initial=0.0), np.finfo(float).tiny)
    is_rounding = values <= 1e-11 * np.sqrt(largest)
    # One row of factors a penalty; directions that carry only rounding are left out.
    factors = squares / (squares + np.asarray(penalties)[:, None] * largest + is_rounding)
    factors = np.where(is_rounding, 0.0, factors)
    leverage = constant**2 + modes**2 @ factors.T
    slack = np.maximum(1 - leverage, 1e-10)
    errors = np.array(
        [
            np.sqrt(np.mean(((right - modes @ (f[:, None] * amplitudes)) / s[:, None]) ** 2))
            for f, s in zip(factors, slack.T, strict=True)
        ]
    )
    best = int(np.argmin(errors))
    inverse = np.divide(factors[best], values, out=np.zeros_like(values), where=~is_rounding)
    slopes = right_vectors.T @ (inverse[:, None] * amplitudes)
    scale = np.linalg.norm(root)
    first = (constant.T @ (root * target) - shares @ slopes) / scale
    return RidgeFit(np.concatenate([first, slopes]), float(penalties[best]), float(errors[best]))
