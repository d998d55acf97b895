"""Linear least squares by QR, where columns may depend on each other.

A column depends on earlier ones if they leave nothing of it but rounding:

    |R_kk| <= 1000 eps |R e_k|,    R the triangular factor.

Its coefficient is zero, not a quotient of roundings. The row of such a pivot is a direction that
later columns still contain: they are factorized again without the column, so that the solution is
one of least squares wherever the dependent column stands.

Compiled programs use `least_squares`, which never forms Q, or `factorize`, which does. NumPy code,
where the sizes change from call to call, uses `solve`, `orthonormalize` or `ridge`.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg
from jaxtyping import Array, Bool, Float, Int

# Units in the last place.
DEPENDENT = 1e3


def depends(r: Any) -> Any:
    """Which columns of a triangular factor, of NumPy or JAX, depend on earlier ones."""
    xp = jnp if isinstance(r, jax.Array) else np
    tolerance = DEPENDENT * float(xp.finfo(r.dtype).eps)
    return xp.abs(xp.diagonal(r)) <= tolerance * xp.linalg.norm(r, axis=0)


# ---- Inside compiled programs ----


class Triangle(NamedTuple):
    """R of the columns divided by `scale`, in an order that has dependent columns last.

    `is_left_out` says which ones these are, in that order. `whole` is R of all columns in their
    own order. Arrays are of JAX or of NumPy.
    """

    r: Float[Any, "columns columns"]
    scale: Float[Any, " columns"]
    order: Int[Any, " columns"]
    is_left_out: Bool[Any, " columns"]
    whole: Float[Any, "columns columns"]

    def corrected(self, gradient: Float[Any, " columns"]) -> Float[Any, " columns"]:
        """The least-squares solution by R^T R, as good as the residual is small (Bjorck, 1987)."""
        xp, triangular = self._by()
        scaled = xp.where(self.is_left_out, 0.0, (gradient / self.scale)[self.order])
        return self.solved(triangular(self.r, scaled, trans=1))

    def solved(self, projected: Float[Any, " columns"]) -> Float[Any, " columns"]:
        """x with R x = Q^T b; zero where a column is left out."""
        xp, triangular = self._by()
        ordered = triangular(self.r, xp.where(self.is_left_out, 0.0, projected))
        return ordered[xp.argsort(self.order)] / self.scale

    def _by(self) -> tuple[Any, Callable[..., Any]]:
        """NumPy and SciPy, or JAX's."""
        if isinstance(self.r, np.ndarray):
            return np, functools.partial(scipy.linalg.solve_triangular, check_finite=False)
        return jnp, jax.scipy.linalg.solve_triangular


def least_squares(
    matrix: Float[Array, "rows columns"], right: Float[Array, " rows"]
) -> tuple[Float[Array, " columns"], Triangle]:
    """argmin |A x - b|, and the factor of A's columns scaled to unit length."""
    # Transposed, the matrix lies in memory as LAPACK wants it, which saves two copies.
    columns = matrix.T
    lengths = jnp.linalg.norm(columns, axis=1)
    scale = jnp.where(lengths > 0, lengths, 1.0)
    # The last column of R is Q^T b: Q itself, which costs as much as R, is never made.
    both = jnp.concatenate([columns / scale[:, None], right[None]]).T
    count = matrix.shape[1]
    missing = max(count + 1 - matrix.shape[0], 0)
    whole = jnp.linalg.qr(jnp.pad(both, ((0, missing), (0, 0))) if missing else both, mode="r")
    r, projected = whole[:count, :count], whole[:count, -1]
    dependent = depends(r)
    order = jnp.argsort(dependent, stable=True)
    last = dependent[order]

    def without_dependent() -> tuple[Array, Array]:
        kept = jnp.where(last, 0.0, r[:, order])
        again = jnp.linalg.qr(jnp.concatenate([kept, projected[:, None]], axis=1), mode="r")
        return again[:, :count], again[:, -1]

    kept, projected = jax.lax.cond(jnp.any(dependent), without_dependent, lambda: (r, projected))
    kept = jnp.where(last[:, None] | last[None, :], jnp.eye(count, dtype=r.dtype), kept)
    triangle = Triangle(kept, scale, order, last, r)
    return triangle.solved(projected), triangle


class QR(eqx.Module):
    """A = Q R over the kept columns, which stand first in `order`; Q is zero in the others.

    Where few columns are kept most others are left out: `rank` may be below `columns`.
    """

    q: Float[Array, "rows rank"]
    r: Float[Array, "rank rank"]
    order: Int[Array, " columns"]

    def solve(self, right: Float[Array, "rows outputs"]) -> Float[Array, "columns outputs"]:
        """The least-squares coefficients for right-hand sides."""
        solved = jax.scipy.linalg.solve_triangular(self.r, (right.T @ self.q).T)
        coefficients = jnp.zeros((self.order.shape[0], right.shape[1]), right.dtype)
        return coefficients.at[self.order[: self.q.shape[1]]].set(solved)


def factorize(
    table: Float[Array, "rows columns"],
    weights: Float[Array, " rows"],
    kept: Bool[Array, " columns"],
    size: int | None = None,
) -> QR:
    """Factors of diag(weights) table over the kept columns that are independent.

    `size` is the number of columns of Q, if not that of the table.
    """

    def over(kept: Bool[Array, " columns"]) -> QR:
        order = jnp.argsort(~kept, stable=True)
        active = kept[order[:size]]
        q, r = jnp.linalg.qr(weights[:, None] * table[:, order[:size]] * active)
        # Columns that are not kept are zero and stand last: what QR makes up for them is dropped.
        both = active[:, None] & active[None, :]
        return QR(q * active, jnp.where(both, r, jnp.eye(r.shape[0], dtype=r.dtype)), order)

    factors = over(kept)
    dependent = depends(factors.r)
    independent = kept & ~jnp.zeros_like(kept).at[factors.order[:size]].set(dependent)
    return jax.lax.cond(jnp.any(dependent), lambda: over(independent), lambda: factors)


# ---- In NumPy ----


def triangle_of(
    columns_and_right: Float[np.ndarray, "rows columns_and_one"],
) -> tuple[Float[np.ndarray, " columns"], Triangle]:
    """`least_squares` of a matrix in Fortran order, which is overwritten: A, and b after it."""
    both, count = columns_and_right, columns_and_right.shape[1] - 1
    lengths = np.linalg.norm(both[:, :count], axis=0)
    scale = np.where(lengths > 0, lengths, 1.0)
    both[:, :count] /= scale
    whole = _triangular(both)
    r, projected = whole[:count, :count], whole[:count, count]
    dependent = depends(r)
    order = np.argsort(dependent, kind="stable")
    last, kept = dependent[order], r
    if np.any(dependent):
        without = np.where(last, 0.0, r[:, order])
        again = _triangular(np.asfortranarray(np.column_stack([without, projected])))
        kept, projected = again[:, :count], again[:, count]
        kept = np.where(last[:, None] | last[None, :], np.eye(count), kept)
    triangle = Triangle(kept, scale, order, last, r)
    return triangle.solved(projected), triangle


def _triangular(matrix: Float[np.ndarray, "rows columns"]) -> Float[np.ndarray, "least columns"]:
    """R of a matrix in Fortran order, which is overwritten."""
    size = scipy.linalg.lapack.dgeqrf_lwork(*matrix.shape)[0]
    factored = scipy.linalg.lapack.dgeqrf(matrix, lwork=int(size), overwrite_a=True)[0]
    return np.triu(factored[: matrix.shape[1]])


def solve(
    matrix: Float[np.ndarray, "rows columns"], right: Float[np.ndarray, "rows outputs"]
) -> tuple[Float[np.ndarray, "columns outputs"], bool]:
    """argmin |A x - b|, and whether columns of A depend on each other. A may be overwritten.

    If they do, the solution is the one of least norm in columns of unit length.
    """
    # Q is applied to the right-hand side as reflections; it is never formed.
    rotated, triangle = scipy.linalg.qr_multiply(matrix, right.T, mode="right", overwrite_a=True)
    lengths = np.linalg.norm(triangle, axis=0)
    lengths[lengths == 0.0] = 1.0
    scaled = np.asfortranarray(triangle / lengths)
    tolerance = DEPENDENT * float(np.finfo(float).eps)
    reciprocal_condition, _ = scipy.linalg.lapack.dtrcon(scaled)
    is_dependent = not reciprocal_condition > tolerance
    if is_dependent:
        # R has the column geometry of the whole matrix, so pivoting it is as good and far cheaper.
        solution = scipy.linalg.lstsq(
            scaled, rotated.T, cond=tolerance, lapack_driver="gelsy", check_finite=False
        )[0]
    else:
        solution = scipy.linalg.solve_triangular(scaled, rotated.T, check_finite=False)
    return solution / lengths[:, None], is_dependent


class Orthonormal(NamedTuple):
    """Q R of the independent columns of a matrix, which are numbered in `used`."""

    q: Float[np.ndarray, "rows rank"]
    r: Float[np.ndarray, "rank rank"]
    used: np.ndarray

    def at(self, others: Float[np.ndarray, "others columns"]) -> Float[np.ndarray, "others rank"]:
        """The combinations of columns that make up Q, of other rows."""
        return scipy.linalg.solve_triangular(self.r, others[:, self.used].T, trans=1).T


def orthonormalize(matrix: Float[np.ndarray, "rows columns"]) -> Orthonormal:
    """Factors of the columns that do not depend on earlier ones."""
    used = np.arange(matrix.shape[1])
    q, r = np.linalg.qr(matrix)
    if np.any(dependent := depends(r)):
        used = used[~dependent]
        q, r = np.linalg.qr(matrix[:, used])
    return Orthonormal(q, r, used)


# Relative to the largest squared singular value; 0 is plain least squares.
PENALTIES = (0.0, *np.logspace(-12, 1, 27))


class RidgeFit(NamedTuple):
    """Coefficients of the best penalty, that penalty, and the leave-one-out RMS error."""

    coefficients: Float[np.ndarray, "terms outputs"]
    penalty: float
    error: float


def ridge(
    table: Float[np.ndarray, "rows terms"],
    target: Float[np.ndarray, "rows outputs"],
    weights: Float[np.ndarray, " rows"],
    penalties: tuple[float, ...] = PENALTIES,
) -> RidgeFit:
    """Ridge regression, its penalty chosen by leaving one row out.

    b minimizes |W (Phi b - y)|^2 + lambda s^2 |b|^2, s the largest singular value of W Phi; the
    constant, which must be the first term, is not penalized. With W Phi = Q R and R = U S V^T a
    path of penalties costs little more than one solve, and the error at each row of the fit without
    that row is r_i / (1 - h_i), h_i the diagonal of the hat matrix (Golub, Heath and Wahba 1979).
    """
    root = np.sqrt(weights / np.mean(weights))[:, None]
    constant = root / np.linalg.norm(root)
    right = root * target
    right = right - constant @ (constant.T @ right)
    columns = root * table[:, 1:]
    means = constant.T @ columns
    columns = columns - constant @ means
    q, r = scipy.linalg.qr(columns, mode="economic", overwrite_a=True, check_finite=False)
    left, values, right_vectors = scipy.linalg.svd(r, full_matrices=False, check_finite=False)
    modes = q @ left
    amplitudes = modes.T @ right
    squares, largest = values**2, max(np.max(values**2, initial=0.0), np.finfo(float).tiny)
    is_rounding = values <= 1e-11 * np.sqrt(largest)
    # One row of factors per penalty; directions that carry only rounding are left out.
    factors = squares / (squares + np.asarray(penalties)[:, None] * largest + is_rounding)
    factors = np.where(is_rounding, 0.0, factors)
    leverage = constant**2 + modes**2 @ factors.T
    slack = np.maximum(1 - leverage, 1e-10)
    errors = [
        np.sqrt(np.mean(((right - modes @ (f[:, None] * amplitudes)) / s[:, None]) ** 2))
        for f, s in zip(factors, slack.T, strict=True)
    ]
    best = int(np.argmin(errors))
    inverse = np.divide(factors[best], values, out=np.zeros_like(values), where=~is_rounding)
    slopes = right_vectors.T @ (inverse[:, None] * amplitudes)
    first = (constant.T @ (root * target) - means @ slopes) / np.linalg.norm(root)
    return RidgeFit(np.concatenate([first, slopes]), float(penalties[best]), float(errors[best]))
