"""An equation as Newton's first step from zero has it, and in full, in one program.

Downhill from zero a network ends in whichever solution of a nonlinear equation it meets first, or
where there is none. Newton's method solves the equation linearized at zero first, and from there
reaches the solution that polynomials reach. N(t u) as a function of t gives that equation without a
look at what N is made of: N(0) + d/dt N(t u) at t = 0.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, overload

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from pann.pde.collocation import Block, ChunkedBlock, Get, Operator

SHARE = "share of the nonlinear terms"
# Few points and channels of several sizes tell whether an operator is linear.
NUM_TRIED = 64
LINEAR = 1e-10


@dataclasses.dataclass(frozen=True)
class Gradual:
    """An operator linearized at zero, and a share of what that leaves out; it is in `extra`."""

    operator: Operator

    def __call__(
        self, get: Get, coordinates: Any, extra: Mapping[str, Array], parameters: Any
    ) -> tuple[Array, ...]:
        def along(t: Array) -> tuple[Array, ...]:
            scaled = lambda field, order: t * get(field, order)
            return self.operator(scaled, coordinates, extra, parameters)

        at_zero, slopes = jax.jvp(along, (jnp.zeros(()),), (jnp.ones(()),))
        whole, share = self.operator(get, coordinates, extra, parameters), extra[SHARE]
        return tuple(
            share * part + (1 - share) * (zero + slope)
            for part, zero, slope in zip(whole, at_zero, slopes, strict=True)
        )


@overload
def gradual(block: Block, share: float) -> Block: ...
@overload
def gradual(block: ChunkedBlock, share: float) -> ChunkedBlock: ...
def gradual(block: Block | ChunkedBlock, share: float) -> Block | ChunkedBlock:
    """The block with so much of its nonlinear terms; blocks of all shares have one program."""
    if isinstance(block, ChunkedBlock):
        return dataclasses.replace(block, points=gradual(block.points, share))
    operator = block.operator
    return dataclasses.replace(
        block,
        operator=operator if isinstance(operator, Gradual) else Gradual(operator),
        extra=block.extra | {SHARE: jnp.full_like(block.weights, share)},
    )


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
