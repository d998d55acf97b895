"""GMRES for a preconditioned system of any shape (Saad and Schultz, 1986).

The size of M (b - A x) is made small: with a good M that is the error of x itself, whatever the
scales of the equations are. The basis is orthogonalized twice, which loses no digits.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

Operator = Callable[[Float[Array, "..."]], Float[Array, "..."]]


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
    # Columns not yet reached have a row of their own each, and get the weight 0.
    hessenberg = jnp.eye(iterations + 1, iterations, k=-1)

    Carry = tuple[Int[Array, ""], Array, Array, Array, Array]

    def unfinished(carry: Carry) -> Bool[Array, ""]:
        count, *_, left = carry
        return (count < iterations) & (left > tolerance)

    def extended(carry: Carry) -> Carry:
        count, vectors, hessenberg, _, _ = carry
        new = preconditioner(operator(vectors[count].reshape(right.shape))).ravel()
        column = jnp.zeros(iterations + 1)
        for _ in range(2):
            shares = vectors @ new
            new, column = new - shares @ vectors, column + shares
        length = jnp.linalg.norm(new)
        vectors = vectors.at[count + 1].set(new / (length + tiny))
        hessenberg = hessenberg.at[:, count].set(column.at[count + 1].set(length))
        unit = jnp.zeros(iterations + 1).at[0].set(1.0)
        q, r = jnp.linalg.qr(hessenberg)
        weights = jax.scipy.linalg.solve_triangular(r, q.T @ unit)
        return (
            count + 1,
            vectors,
            hessenberg,
            weights,
            jnp.linalg.norm(unit - hessenberg @ weights),
        )

    start = (jnp.array(0), vectors, hessenberg, jnp.zeros(iterations), jnp.ones(()))
    _, vectors, _, weights, left = jax.lax.while_loop(unfinished, extended, start)
    return (size * (weights @ vectors[:-1])).reshape(right.shape), left
