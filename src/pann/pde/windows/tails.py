"""How well a window is resolved: the share of the highest functions along each axis.

Coefficients times the norms of their functions have squares that add up to the mean square of u
(Parseval), so that the norm of the last of them says how large a function is left out.
"""

import numpy as np
from jaxtyping import Float

from pann.basis import Legendre
from pann.pde.windows.space_axis import SpaceAxis

# The last eighth of the frequencies, the last two degrees.
FREQUENCY_SHARE, LAST_DEGREES = 8, 2


def scaled(
    axes: tuple[SpaceAxis, ...], coefficients: Float[np.ndarray, "fields ... degrees"]
) -> Float[np.ndarray, "fields ... degrees"]:
    """Coefficients of orthonormal functions from those of the axes' and of Legendre's in time."""
    norms = [axis.family.norms(axis.num_functions) for axis in axes]
    norms.append(Legendre().norms(coefficients.shape[-1]))
    for number, norm in enumerate(norms, start=1):
        shape = [-1 if axis == number else 1 for axis in range(coefficients.ndim)]
        coefficients = coefficients * norm.reshape(shape)
    return coefficients


def sizes(scaled: Float[np.ndarray, "fields ..."]) -> Float[np.ndarray, " fields"]:
    return np.sqrt(np.sum(scaled.reshape(len(scaled), -1) ** 2, axis=1))


def time_tail(
    scaled: Float[np.ndarray, "fields ... degrees"], scales: Float[np.ndarray, " fields"]
) -> float:
    """The last two degrees in time, relative to the fields' scales."""
    return float(np.max(sizes(scaled[..., -LAST_DEGREES:]) / scales))


def space_tails(
    axis: SpaceAxis,
    number: int,
    scaled: Float[np.ndarray, "fields ..."],
    scales: Float[np.ndarray, " fields"],
) -> Float[np.ndarray, " pieces"]:
    """The highest frequencies, or the last two degrees on each piece."""
    relative = np.moveaxis(scaled, number + 1, 1)
    relative = relative.reshape(*relative.shape[:2], -1) / scales[:, None, None]
    squares = np.sum(relative**2, axis=2)
    levels = axis.family.levels(axis.num_functions)
    if axis.is_fourier:
        last = max(LAST_DEGREES, axis.level // FREQUENCY_SHARE)
        return np.sqrt(np.max(np.sum(squares[:, levels > axis.level - last], axis=1)))[None]
    highest = squares[:, levels > axis.level - LAST_DEGREES]
    by_piece = np.sum(highest.reshape(len(scales), -1, axis.num_pieces), axis=1)
    return np.sqrt(np.max(by_piece, axis=0))
