"""GMRES with a preconditioner M, in the form of generalized conjugate residuals.

It minimizes |M (b - A x)|: with a good M that is the error of x itself, whatever the scales of the
equations are. Directions p are kept with their images M A p, which are orthonormalized twice, so
that no digits are lost. Solution and residual are at hand in each iteration (Eisenstat, Elman and
Schultz, 1983), and there is no matrix to factorize, which on a GPU would take longer to compile,
and to run, than all the rest.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

Operator = Callable[[Float[Array, "..."]], Float[Array, "..."]]


class Search(NamedTuple):
    """The solution so far, the residual relative to the first, and the directions so far."""

    number: Int[Array, ""]
    x: Float[Array, " size"]
    residual: Float[Array, " size"]
    directions: Float[Array, "iterations size"]
    images: Float[Array, "iterations size"]
    norm: Float[Array, ""]


def gmres(
    operator: Operator,
    preconditioner: Operator,
    right: Float[Array, "..."],
    *,
    tolerance: float,
    iterations: int,
) -> tuple[Float[Array, "..."], Float[Array, ""]]:
    """x with A x = b to a relative tolerance, and the norm of the relative residual."""
    first = preconditioner(right).ravel()
    size = jnp.linalg.norm(first) + jnp.finfo(first.dtype).tiny
    none = jnp.zeros((iterations, first.size))
    unit = first / size
    start = Search(jnp.zeros((), int), jnp.zeros_like(first), unit, none, none, jnp.ones(()))

    def unfinished(search: Search) -> Bool[Array, ""]:
        return (search.number < iterations) & (search.norm > tolerance)

    def further(search: Search) -> Search:
        direction = search.residual
        image = preconditioner(operator(direction.reshape(right.shape))).ravel()
        for _ in range(2):
            components = search.images @ image
            image = image - components @ search.images
            direction = direction - components @ search.directions
        length = jnp.linalg.norm(image) + jnp.finfo(first.dtype).tiny
        image, direction = image / length, direction / length
        step = image @ search.residual
        residual = search.residual - step * image
        return Search(
            number=search.number + 1,
            x=search.x + step * direction,
            residual=residual,
            directions=search.directions.at[search.number].set(direction),
            images=search.images.at[search.number].set(image),
            norm=jnp.linalg.norm(residual),
        )

    found = jax.lax.while_loop(unfinished, further, start)
    return (size * found.x).reshape(right.shape), found.norm
