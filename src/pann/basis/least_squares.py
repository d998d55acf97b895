"""Least squares on a basis, with inputs checked."""

import numpy as np
from jaxtyping import Float, Shaped

from pann.basis.basis import Basis
from pann.numerics import least_squares as numerics
from pann.runtime.memory import require_memory


def least_squares(
    table: Float[np.ndarray, "points terms"],
    values: Shaped[np.ndarray, " points *outputs"],
    weights: Shaped[np.ndarray, " points"] | None = None,
) -> Float[np.ndarray, " terms *outputs"]:
    """argmin_b sum_i w_i (sum_k table_ik b_k - values_i)^2, w = 1 unless given.

    Where columns depend on each other to rounding, the answer is the one of least norm in columns
    of unit length, not the huge one that division by a rounding error would give.
    """
    _check(table, values, weights)
    # LAPACK overwrites the table it factors, so the caller's is copied.
    require_memory(
        8 * table.size,
        f"least squares with {table.shape[0]:,} points and {table.shape[1]:,} terms",
        "lower the degree or give fewer points",
    )
    matrix = np.array(table, dtype=float, order="F")
    right = np.array(values, dtype=float).reshape(len(matrix), -1)
    if weights is not None:
        roots = np.sqrt(np.asarray(weights, float))[:, None]
        matrix *= roots
        right *= roots
    if matrix.shape[1] == 0:
        return np.zeros((0, *np.shape(values)[1:]))
    coefficients, _ = numerics.solve(matrix, right)
    return coefficients.reshape(-1, *np.shape(values)[1:])


def fit(
    basis: Basis,
    points: Shaped[np.ndarray, "points d"],
    values: Shaped[np.ndarray, " points *outputs"],
    weights: Shaped[np.ndarray, " points"] | None = None,
) -> Float[np.ndarray, " terms *outputs"]:
    """The coefficients of the basis that fit the values best, by `least_squares`."""
    if len(points) < len(basis):
        counts = np.cumsum(np.bincount(basis.degrees))
        fitting = int(np.searchsorted(counts, len(points), side="right")) - 1
        cure = (
            f"lower the degree to at most {fitting} (basis.subset(basis.degrees <= {fitting})) or "
        )
        raise ValueError(
            f"a basis of degree {basis.degrees.max()} has {len(basis):,} terms but there are only "
            f"{len(points):,} points; {cure if fitting >= 0 else ''}give more points"
        )
    return least_squares(basis.table(points), values, weights)


def _check(
    table: Float[np.ndarray, "points terms"],
    values: Shaped[np.ndarray, " points *outputs"],
    weights: Shaped[np.ndarray, " points"] | None,
) -> None:
    num_points, num_terms = table.shape
    if len(values) != num_points:
        raise ValueError(f"{len(values)} values for {num_points} points; give one for each point")
    if num_points < num_terms:
        raise ValueError(
            f"the table has {num_terms:,} terms but only {num_points:,} points; lower the degree "
            f"until at most {num_points:,} terms are left, or give more points"
        )
    if not np.isfinite(values).all():
        raise ValueError("the values hold NaN or infinity; drop those points")
    if not np.isfinite(table).all():
        raise ValueError("the table holds NaN or infinity; check the points it was made at")
    if weights is None:
        return
    if np.shape(weights) != (num_points,):
        raise ValueError(
            f"weights of shape {np.shape(weights)} for {num_points} points; give one for each point"
        )
    if not (np.isfinite(weights).all() and np.min(weights, initial=0.0) >= 0.0):
        raise ValueError(f"weights must be finite and at least 0, least is {np.min(weights)}")
