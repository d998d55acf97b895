"""L-BFGS (Liu and Nocedal 1989): the last steps and changes of the gradient in place of a Hessian.

Where a search finds nothing lower, rounding may hide it: the next ones take the loss to be ten
times as noisy as before, and go by slopes. With noise that is too large to believe in, the memory
is made empty, as in L-BFGS-B, and a search that finds nothing then is the last.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from pann.training.line_search import Evaluate, Evaluated, search

# What is assumed at first, and at most.
LEAST_NOISE, MOST_NOISE = 1e-6, 1e-2


class Memory(eqx.Module):
    """Pairs of a step s and a change y, each over sqrt(s . y), the last one at the end.

    They are zero where there is none yet. `gamma` is s . y / y . y of the last, or 0; `noise` that
    of the loss, relative to it.
    """

    steps: Float[Array, "pairs size"]
    changes: Float[Array, "pairs size"]
    gamma: Float[Array, ""]
    noise: Float[Array, ""]

    @property
    def is_empty(self) -> Bool[Array, ""]:
        return self.gamma == 0

    def after(self, step: Float[Array, " size"], change: Float[Array, " size"]) -> "Memory":
        """With one more pair, if the function is convex along it."""
        product, square = step @ change, change @ change
        is_convex = product > jnp.finfo(step.dtype).eps * square
        scale = jax.lax.rsqrt(jnp.where(is_convex, product, 1.0))
        join = lambda rows, row: jnp.concatenate([rows[1:], (scale * row)[None]])
        pairs = (join(self.steps, step), join(self.changes, change))
        new = Memory(*pairs, product / square, self.noise)
        return jax.tree.map(lambda a, b: jnp.where(is_convex, a, b), new, self)

    def noisier(self) -> "Memory":
        """With ten times the noise, or without pairs where that is too much."""
        noise = 10 * self.noise
        fits = noise <= MOST_NOISE
        return Memory(
            jnp.where(fits, self.steps, 0.0),
            jnp.where(fits, self.changes, 0.0),
            jnp.where(fits, self.gamma, 0.0),
            jnp.where(fits, noise, self.noise),
        )

    def direction(self, gradient: Float[Array, " size"]) -> Float[Array, " size"]:
        """-H g, or -g without pairs."""

        def newest_first(q: Array, pair: tuple[Array, Array]) -> tuple[Array, Array]:
            step, change = pair
            share = step @ q
            return q - share * change, share

        def oldest_first(r: Array, pair: tuple[Array, Array, Array]) -> tuple[Array, None]:
            step, change, share = pair
            return r + (share - change @ r) * step, None

        pairs = (self.steps, self.changes)
        q, shares = jax.lax.scan(newest_first, gradient, pairs, reverse=True)
        scaled = jnp.where(self.is_empty, 1.0, self.gamma) * q
        return -jax.lax.scan(oldest_first, scaled, (*pairs, shares))[0]


def empty_memory(num_pairs: int, vector: Float[Array, " size"]) -> Memory:
    rows = jnp.zeros((num_pairs, len(vector)), vector.dtype)
    zero = jnp.zeros((), vector.dtype)
    return Memory(rows, rows, zero, zero + LEAST_NOISE)


class Iteration(NamedTuple):
    """Where it led, and whether it is stuck: no step is lower, not even down the gradient."""

    place: Evaluated
    memory: Memory
    is_stuck: Bool[Array, ""]
    num_evaluations: Int[Array, ""]


def iterate(evaluate: Evaluate, place: Evaluated, memory: Memory) -> Iteration:
    """One iteration of L-BFGS."""
    direction = memory.direction(place.gradient)
    # Without pairs nothing is known of how far to go: not further than by one in all.
    size = jnp.sum(jnp.abs(place.gradient))
    first = jnp.where(memory.is_empty, jnp.minimum(1.0, 1.0 / size), 1.0)
    found, count = search(evaluate, place, direction, first, memory.noise)
    has_moved = jnp.any(found.vector != place.vector)
    longer = memory.after(found.vector - place.vector, found.gradient - place.gradient)
    noisier = memory.noisier()
    kept = jax.tree.map(lambda a, b: jnp.where(has_moved, a, b), longer, noisier)
    return Iteration(found, kept, ~has_moved & memory.is_empty, count)
