"""Points and values as a user gives them, checked once, with errors that say what is wrong."""

import dataclasses
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from jaxtyping import Float

from pann.domain import Box
from pann.points import Points, from_array
from pann.shapes import Shape


@dataclasses.dataclass(frozen=True, eq=False)
class Data:
    """What is fitted: points, values, weights, and which rows are held out."""

    points: npt.ArrayLike | Points
    values: npt.ArrayLike
    domain: Box | Shape | None = None
    sample_weight: npt.ArrayLike | None = None
    held_out: float | np.ndarray | None = None
    pad: bool = False


class Samples(NamedTuple):
    """Points in a domain, each with a row of targets and a weight.

    `num_outputs` is None where the values came as a plain vector.
    """

    domain: Box
    coordinates: Float[np.ndarray, "points d"]
    target: Float[np.ndarray, "points outputs"]
    weights: Float[np.ndarray, " points"]
    num_outputs: int | None


def check_samples(data: Data) -> Samples:
    """Refuse what cannot be fitted; the domain is the bounding box by default."""
    coordinates, domain = _check_points(data.points, data.domain)
    target, num_outputs = _check_values(data.values, len(coordinates))
    weights = _check_weights(data.sample_weight, len(coordinates))
    return Samples(domain, coordinates, target, weights, num_outputs)


def _check_points(
    points: npt.ArrayLike | Points, domain: Box | Shape | None
) -> tuple[Float[np.ndarray, "points d"], Box]:
    array = np.asarray(points.coordinates if isinstance(points, Points) else points)
    if array.ndim == 1:
        array = array[:, None]
    if isinstance(domain, Shape):
        domain = domain.box
    if domain is None:
        if array.ndim != 2 or array.size == 0 or array.dtype.kind not in "iuf":
            raise ValueError(
                f"points must be numbers of shape (points, d), got {array.dtype} of "
                f"{array.shape}; convert them with numpy.asarray(points, float), one row per point"
            )
        # The box of the finite entries; points with others are refused below.
        finite = np.where(np.isfinite(array), array, 0)
        low, high = finite.min(axis=0), finite.max(axis=0)
        # A constant column gets an interval of length 1.
        high = np.where(high > low, high, low + 1.0)
        domain = Box.from_bounds(low.tolist(), high.tolist())
    return from_array(domain, array).coordinates, domain


def _check_values(
    values: npt.ArrayLike, num_points: int
) -> tuple[Float[np.ndarray, "points outputs"], int | None]:
    """The targets as a matrix, and the number of outputs, None for a plain vector."""
    array = np.asarray(values)
    if array.dtype.kind not in "iuf" or array.ndim not in (1, 2) or array.size == 0:
        raise ValueError(
            f"values must be numbers of shape (points,) or (points, outputs), got {array.dtype} "
            f"of shape {array.shape}"
        )
    if len(array) != num_points:
        raise ValueError(
            f"there are {num_points} points but {len(array)} values; give one value per point"
        )
    broken = ~np.isfinite(array.reshape(num_points, -1)).all(axis=1)
    if broken.any():
        raise ValueError(
            f"{broken.sum()} of {num_points} values are NaN or infinite, the first is value "
            f"{broken.argmax()}; remove them first"
        )
    if not np.any(array):
        raise ValueError("all values are zero: there is nothing to fit")
    num_outputs = None if array.ndim == 1 else array.shape[1]
    return array.reshape(num_points, -1).astype(float), num_outputs


def _check_weights(sample_weight: npt.ArrayLike | None, num_points: int) -> np.ndarray:
    if sample_weight is None:
        return np.ones(num_points)
    weights = np.asarray(sample_weight)
    if (
        weights.shape != (num_points,)
        or weights.dtype.kind not in "iufb"
        or not np.all(np.isfinite(weights) & (weights >= 0))
        or not np.any(weights)
    ):
        raise ValueError(
            f"sample_weight needs {num_points} finite numbers of at least 0, not all of them 0, "
            f"got {weights.dtype} of shape {weights.shape}"
        )
    return weights.astype(float)
