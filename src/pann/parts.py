"""A sum over points, part by part, so that a gradient's way back finds all it needs in the cache.

The layers' derivatives at all points are larger than a processor's cache, and a step would wait for
memory. Here the gradient is made right after the sum of a part, while the part is at hand, and the
gradients of the parts are added up: nothing is computed twice, and nothing of a part is kept. It is
the gradient of the sum over all points, to rounding.
"""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree

# What the part of this number adds to the sum: of the parameters, and of data that stay the same.
PartSum = Callable[[PyTree, PyTree, Int[Array, ""]], Float[Array, ""]]


@eqx.filter_custom_vjp
def total(parameters: PyTree, data: PyTree, of_part: PartSum, num_parts: int) -> Float[Array, ""]:
    """The sum of of_part(parameters, data, number) over all parts."""
    return _add_up(lambda number: of_part(parameters, data, number), num_parts)


@total.def_fwd
def _total_and_gradient(
    perturbed: PyTree, parameters: PyTree, data: PyTree, of_part: PartSum, num_parts: int
) -> tuple[Float[Array, ""], PyTree]:
    moving, fixed = eqx.partition(parameters, perturbed)

    def both(number: Int[Array, ""]) -> tuple[Float[Array, ""], PyTree]:
        value = lambda moving: of_part(eqx.combine(moving, fixed), data, number)
        return jax.value_and_grad(value)(moving)

    return _add_up(both, num_parts)


@total.def_bwd
def _scaled_gradient(
    gradient: PyTree,
    cotangent: Float[Array, ""],
    perturbed: PyTree,
    parameters: PyTree,
    data: PyTree,
    of_part: PartSum,
    num_parts: int,
) -> PyTree:
    return jax.tree.map(lambda leaf: cotangent * leaf, gradient)


def _add_up(of_part: Callable[[Int[Array, ""]], PyTree], num_parts: int) -> PyTree:
    shapes = jax.eval_shape(of_part, jnp.zeros((), int))
    zeros = jax.tree.map(lambda shape: jnp.zeros(shape.shape, shape.dtype), shapes)
    add = lambda number, sums: jax.tree.map(jnp.add, sums, of_part(number))
    return jax.lax.fori_loop(0, num_parts, add, zeros)
