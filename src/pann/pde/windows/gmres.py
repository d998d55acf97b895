"""GMRES for a preconditioned system of any shape (Saad and Schultz, 1986).

The size of M (b - A x) is made small: with a good M that is the error of x itself, whatever the
scales of the equations are. The basis is orthogonalized twice, which loses no digits. Each
iteration adds one rotation to those before it, instead of a factorization of the whole.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

Operator = Callable[[Float[Array, "..."]], Float[Array, "..."]]


class Arnoldi(NamedTuple):
    """Krylov's vectors, Givens' rotations as one matrix Q, and Q times Hessenberg's matrix."""

    count: Int[Array, ""]
    vectors: Float[Array, "vectors size"]
    rotated: Float[Array, "vectors vectors"]
    triangle: Float[Array, "iterations iterations"]
    left: Float[Array, ""]


def gmres(
    operator: Operator,
    preconditioner: Operator,
    right: Float[Array, "..."],
    *,
    tolerance: float,
    iterations: int,
) -> tuple[Float[Array, "..."], Float[Array, ""]]:
    """x with A x = b to a relative tolerance, and the share of the residual that is left."""
    first = preconditioner(right)
    size = jnp.linalg.norm(first)
    tiny = jnp.finfo(first.dtype).tiny
    vectors = jnp.zeros((iterations + 1, first.size)).at[0].set(first.ravel() / (size + tiny))
    start = Arnoldi(
        count=jnp.zeros((), int),
        vectors=vectors,
        rotated=jnp.eye(iterations + 1),
        # Columns not yet reached have a row of their own each, and get the weight 0.
        triangle=jnp.eye(iterations),
        left=jnp.ones(()),
    )

    def unfinished(state: Arnoldi) -> Bool[Array, ""]:
        return (state.count < iterations) & (state.left > tolerance)

    def extended(state: Arnoldi) -> Arnoldi:
        vector = state.vectors[state.count].reshape(right.shape)
        new, column = preconditioner(operator(vector)).ravel(), jnp.zeros(iterations + 1)
        for _ in range(2):
            shares = state.vectors @ new
            new, column = new - shares @ state.vectors, column + shares
        length = jnp.linalg.norm(new)
        vectors = state.vectors.at[state.count + 1].set(new / (length + tiny))
        return _with_column(state, vectors, column.at[state.count + 1].set(length))

    found = jax.lax.while_loop(unfinished, extended, start)
    reached = jnp.arange(iterations) < found.count
    weights = jax.scipy.linalg.solve_triangular(found.triangle, found.rotated[:-1, 0] * reached)
    return (size * (weights @ found.vectors[:-1])).reshape(right.shape), found.left


def _with_column(
    state: Arnoldi, vectors: Float[Array, "..."], column: Float[Array, "..."]
) -> Arnoldi:
    """One more column of the Hessenberg matrix: one more rotation makes it triangular again."""
    count, rotated = state.count, state.rotated @ column
    above, below = rotated[count], rotated[count + 1]
    length = jnp.hypot(above, below)
    cosine, sine = jnp.where(length > 0, jnp.stack([above, below]) / length, jnp.array([1.0, 0.0]))
    upper, lower = state.rotated[count], state.rotated[count + 1]
    upper, lower = cosine * upper + sine * lower, cosine * lower - sine * upper
    turned = rotated.at[count].set(length)[:-1]
    return Arnoldi(
        count=count + 1,
        vectors=vectors,
        rotated=state.rotated.at[count].set(upper).at[count + 1].set(lower),
        triangle=state.triangle.at[:, count].set(
            jnp.where(jnp.arange(len(turned)) <= count, turned, 0.0)
        ),
        left=jnp.abs(lower[0]),
    )
