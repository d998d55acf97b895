"""An equation linearized at zero, and in full, in one program.

Downhill from zero a network ends in whichever solution of a nonlinear equation it meets first, or
in none. Newton's method first solves the equation linearized at zero, and from there reaches the
solution that polynomials reach. That equation follows from N alone: N(0) + d/dt N(t u) at t = 0.
"""

import dataclasses
from typing import Any, overload

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from pann.pde.collocation import Block, ChunkedBlock, Get, Operator

# Few points and channels of several sizes show whether an operator is linear.
NUM_TRIED = 64
LINEAR = 1e-10


class Gradual(eqx.Module):
    """An operator linearized at zero, and a fraction of what that leaves out, at each point."""

    operator: Operator
    fraction: Float[Array, " points"]

    def __call__(self, get: Get, coordinates: Any, parameters: Any) -> tuple[Array, ...]:
        def along(t: Array) -> tuple[Array, ...]:
            scaled = lambda field, order: t * get(field, order)
            return self.operator(scaled, coordinates, parameters)

        at_zero, slopes = jax.jvp(along, (jnp.zeros(()),), (jnp.ones(()),))
        whole, fraction = self.operator(get, coordinates, parameters), self.fraction
        return tuple(
            fraction * part + (1 - fraction) * (zero + slope)
            for part, zero, slope in zip(whole, at_zero, slopes, strict=True)
        )


@overload
def gradual(block: Block, fraction: float) -> Block: ...
@overload
def gradual(block: ChunkedBlock, fraction: float) -> ChunkedBlock: ...
def gradual(block: Block | ChunkedBlock, fraction: float) -> Block | ChunkedBlock:
    """The block with a fraction of its nonlinear terms; all fractions have one program."""
    if isinstance(block, ChunkedBlock):
        return dataclasses.replace(block, points=gradual(block.points, fraction))
    operator = block.operator
    inner = operator.operator if isinstance(operator, Gradual) else operator
    whole = Gradual(inner, jnp.full_like(block.weights, fraction))
    return dataclasses.replace(block, operator=whole)


def has_a_first_step(block: Block) -> bool:
    """Whether the operator is nonlinear, and has a finite linearization at zero."""
    count = min(NUM_TRIED, block.num_points)
    few = jax.tree.map(lambda array: array[:count], block)
    rng = np.random.default_rng(0)
    sizes = 10.0 ** rng.uniform(-1, 1, (1, count, 1))
    drawn = sizes * rng.normal(size=(len(block.orders), count, block.num_fields))
    found = _both(few, jnp.asarray(drawn, block.x.dtype))
    linear, slopes, whole, size = (np.asarray(array) for array in found)
    if not (np.all(np.isfinite(linear)) and np.all(np.isfinite(slopes))):
        return False
    return bool(np.any(np.abs(whole - linear) > LINEAR * size))


@eqx.filter_jit
def _both(block: Block, channels: Array) -> tuple[Array, Array, Array, Array]:
    """The residual with and without nonlinear terms, the slopes without, the size of all terms."""
    linear, slopes = gradual(block, 0.0).linearize(channels, {})
    terms = jnp.einsum("opf,ofpr->ofpr", jnp.abs(channels), jnp.abs(slopes))
    size = jnp.sum(terms, axis=(0, 1)) + jnp.abs(block.residual(jnp.zeros_like(channels), {}))
    return linear, slopes, block.residual(channels, {}), size
