"""Random functions of a box: smooth, oscillating, with layers, fronts, peaks and kinks."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

from pann import Box

# A function of the coordinates by name, in jnp; a tuple of values for several fields.
Function = Callable[..., Any]
Profile = Callable[[Any], Any]

SHAPES = ("smooth", "exponential", "oscillating", "runge", "front", "layer", "peak", "kink")
# By the dimension: the narrowest width relative to the box, and the highest angular frequency.
NARROWEST = {1: 5e-4, 2: 0.02, 3: 0.15}
HIGHEST = {1: 80.0, 2: 20.0, 3: 8.0}
# Derivatives of higher order lose digits where they are large.
NARROWEST_OF_HIGH_ORDER, HIGHEST_OF_HIGH_ORDER = 0.08, 15.0


@dataclasses.dataclass(frozen=True)
class Shape:
    """A random function with the length, relative to the box, over which it changes."""

    name: str
    width: float
    function: Function


def random_shape(rng: np.random.Generator, domain: Box, order: int, name: str = "") -> Shape:
    """A function with as many derivatives as an equation of this order needs, of a named shape."""
    name = name or str(rng.choice(SHAPES))
    axes = [axis for axis in domain.names if axis not in (*domain.periodic, domain.time)]
    if name == "layer" and not axes:
        name = "front"
    if name == "layer":
        width = _random_width(rng, domain.dimension, order)
        return Shape(name, width, _layer(domain, str(rng.choice(axes)), width))
    if name == "peak":
        width = _random_width(rng, domain.dimension, order)
        return Shape(name, width, _peak(domain, _inner_point(rng, domain), width))
    width, profile = _random_profile(rng, name, domain.dimension, order)
    return Shape(name, width, _along_a_line(rng, domain, profile))


def with_background(rng: np.random.Generator, domain: Box, shape: Shape) -> Shape:
    """The shape plus a smooth function of a third of its size."""
    other = random_shape(rng, domain, 1, "smooth")
    function = lambda **at: shape.function(**at) + 0.3 * other.function(**at)
    return Shape(shape.name, min(shape.width, other.width), function)


def offset(domain: Box, axis: str, position: Any, center: float) -> Any:
    """Distance from a center relative to the box; along a periodic axis a sine, which repeats."""
    length = domain.widths[domain.names.index(axis)]
    distance = (position - center) / length
    return jnp.sin(2 * jnp.pi * distance) / (2 * jnp.pi) if axis in domain.periodic else distance


def _random_width(rng: np.random.Generator, dimension: int, order: int) -> float:
    narrowest = NARROWEST[dimension]
    narrowest = narrowest if order <= 2 else max(narrowest, NARROWEST_OF_HIGH_ORDER)
    return float(math.exp(rng.uniform(math.log(narrowest), math.log(0.4))))


def _inner_point(rng: np.random.Generator, domain: Box) -> dict[str, float]:
    inside = domain.from_reference(rng.uniform(-0.6, 0.6, (1, domain.dimension)))[0]
    return dict(zip(domain.names, inside.tolist(), strict=True))


def _along_a_line(rng: np.random.Generator, domain: Box, profile: Profile) -> Function:
    """profile(d . (x - c)) for a random direction d, in time too, and a random center c."""
    center = _inner_point(rng, domain)
    direction = rng.normal(size=domain.dimension)
    if rng.uniform() < 0.3:
        direction[rng.permutation(domain.dimension)[1:]] = 0.0
    direction = dict(zip(domain.names, direction / np.linalg.norm(direction), strict=True))

    def function(**at: Any) -> Any:
        return profile(
            sum(direction[axis] * offset(domain, axis, at[axis], center[axis]) for axis in at)
        )

    return function


def _layer(domain: Box, axis: str, width: float) -> Function:
    end = domain.upper[domain.names.index(axis)]
    return lambda **at: (
        jnp.exp(offset(domain, axis, at[axis], end) / width)
        + sum(0.5 * offset(domain, other, at[other], 0.0) for other in at)
    )


def _peak(domain: Box, center: dict[str, float], width: float) -> Function:
    return lambda **at: jnp.exp(
        -sum(offset(domain, axis, at[axis], center[axis]) ** 2 for axis in at) / width**2
    )


def _random_profile(
    rng: np.random.Generator, name: str, dimension: int, order: int
) -> tuple[float, Profile]:
    if name == "smooth":
        waves = list(zip(rng.uniform(1, 6, 3), rng.uniform(-3, 3, 3), strict=True))
        return 1 / 6, lambda s: sum(jnp.sin(k * s + shift) for k, shift in waves)
    if name == "exponential":
        rate = float(rng.choice([-1, 1]) * rng.uniform(0.5, 3))
        return 1 / 3, lambda s: jnp.exp(rate * s)
    if name == "oscillating":
        highest = HIGHEST[dimension]
        highest = highest if order <= 2 else min(highest, HIGHEST_OF_HIGH_ORDER)
        frequency, shift = rng.uniform(0.4, 1) * highest, rng.uniform(-3, 3)
        return 1 / frequency, lambda s: jnp.sin(frequency * s + shift)
    if name == "kink":
        # The highest derivative of the equation exists and is continuous, but no further one.
        power = float(order + rng.uniform(0.3, 0.9))
        return 0.1, lambda s: jnp.abs(s) ** power
    width = _random_width(rng, dimension, order)
    if name == "runge":
        return width, lambda s: 1 / (1 + (s / width) ** 2)
    assert name == "front", f"there is no shape '{name}'; choose from {', '.join(SHAPES)}"
    return width, lambda s: jnp.tanh(s / width)
