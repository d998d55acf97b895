"""L-BFGS (Liu and Nocedal 1989) with a line search for the strong Wolfe conditions.

    f(x + t p) <= f(x) + c1 t f'(0),    |f'(t)| <= c2 |f'(0)|    (Nocedal and Wright, 3.5)

Where rounding hides the decrease, slopes show it (Hager and Zhang 2005). A search evaluates once
per step, whether it looks for an interval or narrows one: under `vmap` searches wait for each
other, but nothing is evaluated in vain. The point found has its value and gradient: nothing is
computed twice.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

DECREASE, CURVATURE = 1e-4, 0.9
MAX_STEPS = 25
# The next step, as a fraction of the interval, or as a multiple of the last one.
FRACTIONS, MULTIPLES = (0.1, 0.9), (1.5, 10.0)


class Evaluated(eqx.Module):
    """A point with the value, the gradient, and whatever else an evaluation gives."""

    vector: Float[Array, " size"]
    value: Float[Array, ""]
    gradient: Float[Array, " size"]
    details: Any


Evaluate = Callable[[Float[Array, " size"]], Evaluated]


class _End(eqx.Module):
    """One end of the interval: its distance, and value and slope there."""

    step: Float[Array, ""]
    value: Float[Array, ""]
    slope: Float[Array, ""]


class _Search(eqx.Module):
    """`low` has the least value so far of those that are low enough; `best` is the point there."""

    low: _End
    high: _End
    best: Evaluated
    step: Float[Array, ""]
    has_interval: Bool[Array, ""]
    is_done: Bool[Array, ""]
    count: Int[Array, ""]


def search(
    evaluate: Evaluate,
    start: Evaluated,
    direction: Float[Array, " size"],
    first: Float[Array, ""],
    noise: Float[Array, ""] | float,
) -> tuple[Evaluated, Int[Array, ""]]:
    """The point found, or the start where no step is low enough, and how many were tried.

    `first` is the step that is tried first; none is if the direction does not descend. A value
    counts as low as that of the start if it is above it by no more than the fraction `noise`.
    """
    slope = start.gradient @ direction
    here = _End(jnp.zeros_like(first), start.value, slope)

    def falls(end: _End) -> Bool[Array, ""]:
        enough = end.value <= start.value + DECREASE * end.step * slope
        return enough & (end.value < start.value)

    def may_be_lower(end: _End) -> Bool[Array, ""]:
        as_low = end.value <= start.value + noise * jnp.abs(start.value)
        return as_low & (end.slope <= (2 * DECREASE - 1) * slope)

    def go_on(now: _Search) -> Bool[Array, ""]:
        return ~now.is_done & (now.count < MAX_STEPS)

    def narrow(now: _Search) -> _Search:
        point = evaluate(start.vector + now.step * direction)
        end = _End(now.step, point.value, point.gradient @ direction)
        is_finite = jnp.isfinite(end.value) & jnp.isfinite(end.slope)
        is_better = is_finite & falls(end) & (end.value < now.low.value)
        is_flat = jnp.abs(end.slope) <= CURVATURE * jnp.abs(slope)
        is_found = is_finite & is_flat & (falls(end) | may_be_lower(end))
        # The minimum is between the new low end and the one that it falls away from.
        ahead = jnp.where(now.has_interval, now.high.step - now.low.step, 1.0)
        turns = end.slope * ahead >= 0
        low = _pick(is_better, end, now.low)
        high = _pick(is_better, _pick(turns, now.low, now.high), end)
        has_interval = now.has_interval | ~is_better | turns
        # Where rounding no longer tells two points apart, there is nothing between them.
        is_same = jnp.all(point.vector == now.best.vector)
        following = jnp.where(has_interval, _between(low, high), _beyond(now.low, end))
        return _Search(
            low,
            high,
            _pick(is_better | is_found, point, now.best),
            following.astype(now.step.dtype),
            has_interval,
            is_found | is_same,
            now.count + 1,
        )

    is_up = ~(slope < 0)
    begin = _Search(here, here, start, first, jnp.array(False), is_up, jnp.array(0))
    found = jax.lax.while_loop(go_on, narrow, begin)
    return found.best, found.count


def _pick(which: Bool[Array, ""], one: Any, other: Any) -> Any:
    return jax.tree.map(lambda a, b: jnp.where(which, a, b), one, other)


def _between(low: _End, high: _End) -> Float[Array, ""]:
    """Where the cubic through both ends is least, not too close to either; else the middle."""
    width = high.step - low.step
    fraction = (_minimum(low, high) - low.step) / width
    fraction = jnp.where(jnp.isfinite(fraction), jnp.clip(fraction, *FRACTIONS), 0.5)
    # A value that is not finite says nothing of where to go.
    fraction = jnp.where(jnp.isfinite(high.value), fraction, FRACTIONS[0])
    return low.step + fraction * width


def _beyond(before: _End, now: _End) -> Float[Array, ""]:
    """Further, to where the cubic is least, within bounds."""
    least, most = (multiple * now.step for multiple in MULTIPLES)
    guess = _minimum(before, now)
    return jnp.where(guess > now.step, jnp.clip(guess, least, most), most)


def _minimum(one: _End, other: _End) -> Float[Array, ""]:
    """Where the cubic with these values and slopes is least (Nocedal and Wright, eq. 3.59)."""
    width = other.step - one.step
    d1 = one.slope + other.slope - 3 * (other.value - one.value) / width
    root = jnp.sqrt(d1**2 - one.slope * other.slope) * jnp.sign(width)
    return other.step - width * (other.slope + root - d1) / (other.slope - one.slope + 2 * root)


# ---- Iterations ----

# Noise of the function, relative to it, that is assumed at first, and at most.
LEAST_NOISE, MOST_NOISE = 1e-6, 1e-2


class Memory(eqx.Module):
    """Pairs of a step s and a change y, each over sqrt(s . y), the last one at the end.

    They are zero where there is none yet. `gamma` is s . y / y . y of the last, or 0; `noise` is
    that of the function, relative to it.
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
        steps, changes = join(self.steps, step), join(self.changes, change)
        new = Memory(steps, changes, product / square, self.noise)
        return _pick(is_convex, new, self)

    def noisier(self) -> "Memory":
        """With ten times the noise, or without pairs where that is too much."""
        noisier = dataclasses.replace(self, noise=10 * self.noise)
        empty = dataclasses.replace(jax.tree.map(jnp.zeros_like, self), noise=self.noise)
        return _pick(noisier.noise <= MOST_NOISE, noisier, empty)

    def direction(self, gradient: Float[Array, " size"]) -> Float[Array, " size"]:
        """-H g, or -g without pairs."""

        def newest_first(q: Array, pair: tuple[Array, Array]) -> tuple[Array, Array]:
            step, change = pair
            weight = step @ q
            return q - weight * change, weight

        def oldest_first(r: Array, pair: tuple[Array, Array, Array]) -> tuple[Array, None]:
            step, change, weight = pair
            return r + (weight - change @ r) * step, None

        pairs = (self.steps, self.changes)
        q, weights = jax.lax.scan(newest_first, gradient, pairs, reverse=True)
        scaled = jnp.where(self.is_empty, 1.0, self.gamma) * q
        return -jax.lax.scan(oldest_first, scaled, (*pairs, weights))[0]


def empty_memory(num_pairs: int, vector: Float[Array, " size"]) -> Memory:
    rows = jnp.zeros((num_pairs, len(vector)), vector.dtype)
    zero = jnp.zeros((), vector.dtype)
    return Memory(rows, rows, zero, zero + LEAST_NOISE)


class Iteration(NamedTuple):
    """Where it led, and whether it is stuck: no step is lower, not even down the gradient."""

    point: Evaluated
    memory: Memory
    is_stuck: Bool[Array, ""]
    num_evaluations: Int[Array, ""]


def iterate(evaluate: Evaluate, point: Evaluated, memory: Memory) -> Iteration:
    """One iteration of L-BFGS."""
    direction = memory.direction(point.gradient)
    # Without pairs the length is unknown: a step of at most 1 in the sum of absolute values.
    size = jnp.sum(jnp.abs(point.gradient))
    first = jnp.where(memory.is_empty, jnp.minimum(1.0, 1.0 / size), 1.0)
    found, count = search(evaluate, point, direction, first, memory.noise)
    has_moved = jnp.any(found.vector != point.vector)
    longer = memory.after(found.vector - point.vector, found.gradient - point.gradient)
    kept = _pick(has_moved, longer, memory.noisier())
    return Iteration(found, kept, ~has_moved & memory.is_empty, count)
