"""Sums over points, part by part, so that a gradient's way back finds all it needs in the cache.

The layers' derivatives at all points are larger than a processor's cache, and a step would wait for
memory. Here the gradient of each sum is made right after the sum itself, while the part is at hand,
and the gradients of the parts are added up: nothing is computed twice, and nothing of a part is
kept. It is the gradient of the sums over all points, to rounding.
"""

import functools
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree

Sums = dict[str, Float[Array, ""]]
# What the part of this number adds to the sums: of the parameters, and of data that stay the same.
PartSums = Callable[[PyTree, PyTree, Int[Array, ""]], Sums]


@eqx.filter_custom_vjp
def total(parameters: PyTree, data: PyTree, of_part: PartSums, num_parts: int) -> Sums:
    """The sum of of_part(parameters, data, number) over all parts."""
    return _add_up(lambda number: of_part(parameters, data, number), num_parts)


@total.def_fwd
def _total_and_gradients(
    perturbed: PyTree, parameters: PyTree, data: PyTree, of_part: PartSums, num_parts: int
) -> tuple[Sums, dict[str, PyTree]]:
    moving, fixed = eqx.partition(parameters, perturbed)

    def both(number: Int[Array, ""]) -> tuple[Sums, dict[str, PyTree]]:
        sums = lambda moving: of_part(eqx.combine(moving, fixed), data, number)
        names = jax.eval_shape(sums, moving)
        # One by one: what a sum does not depend on then has no part in its way back.
        found = {
            name: jax.value_and_grad(lambda moving, name=name: sums(moving)[name])(moving)
            for name in names
        }
        values, gradients = ({name: pair[k] for name, pair in found.items()} for k in (0, 1))
        return values, gradients

    return _add_up(both, num_parts)


@total.def_bwd
def _weigh_gradients(
    gradients: dict[str, PyTree],
    cotangents: dict[str, Float[Array, ""] | None],
    perturbed: PyTree,
    parameters: PyTree,
    data: PyTree,
    of_part: PartSums,
    num_parts: int,
) -> PyTree:
    asked = {name: each for name, each in cotangents.items() if each is not None}

    def weigh(*leaves: Array) -> Array:
        products = map(jnp.multiply, asked.values(), leaves)
        return functools.reduce(jnp.add, products)

    return jax.tree.map(weigh, *(gradients[name] for name in asked))


def _add_up(of_part: Callable[[Int[Array, ""]], PyTree], num_parts: int) -> PyTree:
    shapes = jax.eval_shape(of_part, jnp.zeros((), int))
    zeros = jax.tree.map(lambda shape: jnp.zeros(shape.shape, shape.dtype), shapes)
    add = lambda number, sums: jax.tree.map(jnp.add, sums, of_part(number))
    return jax.lax.fori_loop(0, num_parts, add, zeros)
