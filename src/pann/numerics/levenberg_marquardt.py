"""Levenberg-Marquardt steps, with an undamped block of unknowns eliminated.

    min |r - J s - F t|^2 + lambda |D s|^2    over s and t

With F = Q R the best t for a given s is R^-1 Q^T (r - J s); what is left is the same problem with r
and J projected onto the complement of F (variable projection, Golub and Pereyra 1973). This is what
zero damping on t amounts to, and it does not square the condition of F. D are the lengths of the
projected columns of J. With more columns than rows the step is solved in the space of rows.

`try_steps` tries one step with more and more damping until the sum of squares falls.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg
from jaxtyping import Array, Bool, Float, PyTree

from pann.runtime.matmul import lower_gram

MAX_TRIES = 10
# Unit scaling alone throws parameters that hardly matter too far: columns shorter than this
# fraction of the root mean square count as that long.
LENGTH_FLOOR = 0.1
RAISE, LOWER = 4.0, 3.0


class DampedProblem(eqx.Module):
    """The linear problem of a step: `columns` is J D^-1 projected, `normal` its Gram matrix.

    `r` is the factor of F with its columns divided by `free_lengths`, `projected` is Q^T r, and
    `overlap` is Q^T J.
    """

    columns: Float[Array, "rows parameters"]
    residual: Float[Array, " rows"]
    normal: Float[Array, "size size"]
    lengths: Float[Array, " parameters"]
    r: Float[Array, "free free"]
    free_lengths: Float[Array, " free"]
    projected: Float[Array, " free"]
    overlap: Float[Array, "free parameters"]

    def step(
        self, damping: Float[Array, ""]
    ) -> tuple[Float[Array, " parameters"], Float[Array, " free"], Float[Array, ""]]:
        """The steps s and t to subtract, and the reduction of the sum of squares they predict.

        Only the lower triangle of the normal matrix is read.
        """
        dtype = self.normal.dtype
        # The damping is of double precision, which must not raise that of the step.
        shift = (damping + 10 * jnp.finfo(dtype).eps).astype(dtype)
        damped = self.normal + shift * jnp.eye(len(self.normal), dtype=dtype)
        factor = jax.scipy.linalg.cho_factor(damped, lower=True)
        gradient = self.columns.T @ self.residual
        if len(self.normal) < len(self.lengths):
            scaled = self.columns.T @ jax.scipy.linalg.cho_solve(factor, self.residual)
        else:
            scaled = jax.scipy.linalg.cho_solve(factor, gradient)
        step = scaled / self.lengths
        right = self.projected - self.overlap @ step
        free_step = jax.scipy.linalg.solve_triangular(self.r, right) / self.free_lengths
        predicted = scaled @ (gradient + shift * scaled) + jnp.sum(self.projected**2)
        return step, free_step, predicted


def damped_problem(
    jacobian: Float[Array, "rows parameters"],
    residual: Float[Array, " rows"],
    free: Float[Array, "rows free"] | None = None,
    ridge: float = 0.0,
) -> DampedProblem:
    """J, r and F of the problem; F is left out if it was eliminated before.

    With a `ridge` rows of its own keep t small along what F, with columns of length 1, hardly sees:
    columns that nearly depend on each other would otherwise have huge opposite coefficients.
    """
    free = jnp.zeros((len(residual), 0), residual.dtype) if free is None else free
    free_lengths = jnp.linalg.norm(free, axis=0)
    free_lengths = jnp.where(free_lengths > 0, free_lengths, 1.0)
    scaled = free / free_lengths
    if ridge:
        scaled = jnp.concatenate([scaled, ridge * jnp.eye(free.shape[1], dtype=free.dtype)])
        jacobian = jnp.pad(jacobian, ((0, free.shape[1]), (0, 0)))
        residual = jnp.pad(residual, (0, free.shape[1]))
    q, r = jnp.linalg.qr(scaled)
    projected, overlap = q.T @ residual, q.T @ jacobian
    left = jacobian - q @ overlap
    lengths = jnp.linalg.norm(left, axis=0)
    lengths = jnp.maximum(lengths, LENGTH_FLOOR * jnp.sqrt(jnp.mean(lengths**2)))
    lengths = jnp.where(lengths > 0, lengths, 1.0)
    columns = left / lengths
    normal = lower_gram(columns if columns.shape[0] < columns.shape[1] else columns.T)
    rest = residual - q @ projected
    return DampedProblem(columns, rest, normal, lengths, r, free_lengths, projected, overlap)


# ---- Steps until one is accepted ----


class Damping(NamedTuple):
    """What is added to the diagonal of the scaled normal matrix, and Nielsen's rate of growth."""

    value: Float[Array, "*trials"]
    growth: Float[Array, "*trials"]


Rule = Callable[[Damping, Bool[Array, ""], Float[Array, ""]], Damping]


def constant_factors(damping: Damping, accepted: Array, ratio: Array) -> Damping:
    """Times 4 after a rejected step, divided by 3 after an accepted one."""
    value = jnp.where(accepted, damping.value / LOWER, damping.value * RAISE)
    return Damping(value, damping.growth)


def nielsen(damping: Damping, accepted: Array, ratio: Array) -> Damping:
    """By the ratio of the reduction to the predicted one (Nielsen 1999).

    What just worked is not made so small that the next step is tried in vain.
    """
    factor = jnp.where(accepted, jnp.clip(1 - (2 * ratio - 1) ** 3, 1 / 3, 2.0), damping.growth)
    return Damping(damping.value * factor, jnp.where(accepted, 2.0, 2 * damping.growth))


def first_damping(value: float, dtype: Any = float) -> Damping:
    return Damping(jnp.asarray(value, dtype), jnp.asarray(2.0, dtype))


class Tried(NamedTuple):
    """The last point tried and its sum of squares; `accepted` if it is below that of the start."""

    point: PyTree
    value: Float[Array, ""]
    damping: Damping
    accepted: Bool[Array, ""]


# From damping and fraction of the step: a point, its sum of squares, the predicted reduction.
Propose = Callable[[Array, Array], tuple[PyTree, Float[Array, ""], Float[Array, ""]]]


def try_steps(
    propose: Propose,
    start: PyTree,
    value: Float[Array, ""],
    damping: Damping,
    rule: Rule = constant_factors,
    *,
    shorten: bool = False,
) -> Tried:
    """Steps from the start, whose sum of squares is `value`, with more and more damping.

    More damping does not shorten the undamped part of a step: with `shorten`, the second half of
    the tries halves the whole step instead.
    """

    def attempt(carry: tuple[Tried, Array]) -> tuple[Tried, Array]:
        before, tries = carry[0].damping, carry[1]
        halvings = jnp.maximum(0, tries - MAX_TRIES // 2) if shorten else jnp.array(0)
        point, new, predicted = propose(before.value, 0.5**halvings)
        accepted = new < value
        after = rule(before, accepted, (value - new) / predicted)
        after = after._replace(value=jnp.where(halvings > 0, before.value, after.value))
        return Tried(point, new, after, accepted), tries + 1

    first = (Tried(start, value, damping, jnp.array(False)), jnp.array(0))
    is_open = lambda carry: ~carry[0].accepted & (carry[1] < MAX_TRIES)
    return jax.lax.while_loop(is_open, attempt, first)[0]


# ---- In NumPy, from normal equations ----

NormalEquations = tuple[Float[np.ndarray, "unknowns unknowns"], Float[np.ndarray, " unknowns"]]


def minimize(
    residual: Callable[[np.ndarray], np.ndarray],
    normal_equations: Callable[[np.ndarray, np.ndarray], NormalEquations],
    start: Float[np.ndarray, " unknowns"],
    *,
    damping: float,
    iterations: int,
    tolerance: float,
    length_floor: float = LENGTH_FLOOR,
    max_tries: int = 8,
) -> tuple[Float[np.ndarray, " unknowns"], Float[np.ndarray, " rows"]]:
    """The unknowns after steps damped by constant factors, and the residual there.

    For Jacobians J that are sparse: `normal_equations(unknowns, residual)` gives J^T J and J^T r.
    Steps end when the norm of the residual falls by less than `tolerance`, relatively.
    """
    unknowns, current = start, residual(start)
    for _ in range(iterations):
        normal, gradient = normal_equations(unknowns, current)
        lengths = np.sqrt(np.maximum(np.diagonal(normal), 0.0))
        lengths = np.maximum(lengths, length_floor * np.sqrt(np.mean(lengths**2)))
        if not np.all(lengths > 0):
            break
        scaled = normal / np.outer(lengths, lengths)
        for _ in range(max_tries):
            new, moved = np.full(1, np.inf), unknowns
            try:
                damped = scaled + (damping + 1e-12) * np.eye(len(scaled))
                factor = scipy.linalg.cho_factor(damped, check_finite=False)
            except np.linalg.LinAlgError:
                pass
            else:
                moved = unknowns - scipy.linalg.cho_solve(factor, gradient / lengths) / lengths
                new = residual(moved)
            if new @ new < current @ current:
                break
            damping *= RAISE
        else:
            break
        decrease = 1 - np.linalg.norm(new) / np.linalg.norm(current)
        unknowns, current, damping = moved, new, damping / LOWER
        if decrease < tolerance:
            break
    return unknowns, current
