"""GMRES for a preconditioned system of any shape, in the form of generalized conjugate residuals.

The size of M (b - A x) is made small: with a good M that is the error of x itself, whatever the
scales of the equations are. Directions p are kept with their images M A p, which are made
orthonormal, twice, which loses no digits; so x and what is left are at hand in each iteration
(Eisenstat, Elman and Schultz, 1983), and there is no matrix to factorize, which on a GPU would
take longer to compile, and to run, than all the rest.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

Operator = Callable[[Float[Array, "..."]], Float[Array, "..."]]


class Search(NamedTuple):
    """The solution so far, what it leaves, and the directions that led to it."""

    number: Int[Array, ""]
    x: Float[Array, " size"]
    left: Float[Array, " size"]
    directions: Float[Array, "iterations size"]
    images: Float[Array, "iterations size"]
    share: Float[Array, ""]


def gmres(
    operator: Operator,
    preconditioner: Operator,
    right: Float[Array, "..."],
    *,
    tolerance: float,
    iterations: int,
) -> tuple[Float[Array, "..."], Float[Array, ""]]:
    """x with A x = b to a relative tolerance, and the share of the residual that is left."""
    first = preconditioner(right).ravel()
    size = jnp.linalg.norm(first) + jnp.finfo(first.dtype).tiny
    none = jnp.zeros((iterations, first.size))
    unit = first / size
    start = Search(jnp.zeros((), int), jnp.zeros_like(first), unit, none, none, jnp.ones(()))

    def unfinished(search: Search) -> Bool[Array, ""]:
        return (search.number < iterations) & (search.share > tolerance)

    def further(search: Search) -> Search:
        direction = search.left
        image = preconditioner(operator(direction.reshape(right.shape))).ravel()
        for _ in range(2):
            shares = search.images @ image
            image = image - shares @ search.images
            direction = direction - shares @ search.directions
        length = jnp.linalg.norm(image) + jnp.finfo(first.dtype).tiny
        image, direction = image / length, direction / length
        step = image @ search.left
        left = search.left - step * image
        return Search(
            number=search.number + 1,
            x=search.x + step * direction,
            left=left,
            directions=search.directions.at[search.number].set(direction),
            images=search.images.at[search.number].set(image),
            share=jnp.linalg.norm(left),
        )

    found = jax.lax.while_loop(unfinished, further, start)
    return (size * found.x).reshape(right.shape), found.share
