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
from jaxtyping import Array, Float

from pann.pde.collocation import Block, ChunkedBlock, Get, Operator
from pann.pde.problem import Problem
from pann.solvers.determinacy import is_linear

# At so many points it shows whether the linearization is finite.
NUM_TRIED = 64


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


def has_a_first_step(problem: Problem, block: Block) -> bool:
    """Whether the equation is nonlinear, and has a finite linearization at zero."""
    if is_linear(problem):
        return False
    few = jax.tree.map(lambda array: array[:NUM_TRIED], block)
    residual, slopes = _at_zero(few)
    return bool(jnp.all(jnp.isfinite(residual)) & jnp.all(jnp.isfinite(slopes)))


@eqx.filter_jit
def _at_zero(block: Block) -> tuple[Array, Array]:
    zero = jnp.zeros((len(block.orders), block.num_points, block.num_fields), block.x.dtype)
    return gradual(block, 0.0).linearize(zero, {})
