"""A step along a direction to where the strong Wolfe conditions hold (Nocedal and Wright, 3.5).

    f(x + t p) <= f(x) + c1 t f'(0),    |f'(t)| <= c2 |f'(0)|.

Where rounding hides the decrease, slopes tell of it (Hager and Zhang 2005). A search evaluates once
a step, whether it looks for an interval or narrows one down: trials that are mapped wait for each
other, but do nothing in vain. What it ends with has value and gradient: nothing is computed twice.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

DECREASE, CURVATURE = 1e-4, 0.9
MAX_STEPS = 25
# The next step, as a share of the interval, or as a multiple of the last one.
SHARES, MULTIPLES = (0.1, 0.9), (1.5, 10.0)


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
    """`low` has the least value so far of those that are low enough; `best` is the place there."""

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
    """The place found, which is the start where no step is low enough, and how many were tried.

    `first` is the step that is tried first; without a descent none is. A value may be as low as the
    first one if it is above it by no more than the share `noise`.
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
        place = evaluate(start.vector + now.step * direction)
        end = _End(now.step, place.value, place.gradient @ direction)
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
        # Where rounding tells two places no more apart, there is nothing between them.
        is_same = jnp.all(place.vector == now.best.vector)
        following = jnp.where(has_interval, _between(low, high), _beyond(now.low, end))
        return _Search(
            low,
            high,
            _pick(is_better | is_found, place, now.best),
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
    share = (_minimum(low, high) - low.step) / width
    share = jnp.where(jnp.isfinite(share), jnp.clip(share, *SHARES), 0.5)
    # A value that is not finite says nothing of where to go.
    share = jnp.where(jnp.isfinite(high.value), share, SHARES[0])
    return low.step + share * width


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
