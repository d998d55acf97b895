"""What an equation has at a point by itself: its residuals, with its fields held.

Sources and coefficients show this way before anything is solved: where they jump, where they have
a peak, which elements resolve them.
"""

import functools
from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from pann.domain import Box
from pann.pde.operators import Equation
from pann.pde.problem import Problem
from pann.points import uniform

# Points evaluated at a time, by one program for all numbers of points.
CHUNK = 2_048
# Random points at which peaks are looked for, and those of a peak that are kept.
NUM_LOOKED_AT, NUM_KEPT = 2**17, 400
# A peak is what exceeds by this factor all that the first of the points see.
PEAK = 5.0
SEED = 5_003

# A number for each derivative that the equation asks for, in the order of `problem.asked.channels`.
Numbers = Float[np.ndarray, " channels"]


def held_at_zero(problem: Problem) -> Numbers:
    return np.zeros(len(problem.asked.channels))


def held_anyhow(problem: Problem) -> Numbers:
    """Arbitrary numbers, with which coefficients show as well as sources."""
    return np.random.default_rng(3).uniform(0.5, 1.5, len(problem.asked.channels))


def residuals_at(
    problem: Problem, points: Float[np.ndarray, "points d"], numbers: Numbers
) -> Float[np.ndarray, "points residuals"]:
    """The residuals at points, with all derivatives of all fields held at these numbers."""
    equation, parameters = Equation(problem.traced()), dict(problem.parameters)
    count = len(points)
    padded = np.pad(points, ((0, -count % CHUNK), (0, 0)), mode="edge")
    with jax.enable_x64(True):
        parts = [
            np.asarray(_residuals(equation, part, numbers, parameters))
            for part in np.split(padded, len(padded) // CHUNK)
        ]
    return np.concatenate(parts)[:count]


@functools.partial(jax.jit, static_argnums=0)
def _residuals(
    equation: Equation,
    points: Float[Array, "points d"],
    numbers: Float[Array, " channels"],
    parameters: Mapping[str, Array],
) -> Float[Array, "points residuals"]:
    channels = equation.problem.asked.channels
    get = lambda field, order: jnp.broadcast_to(
        numbers[channels.index((field, order))], points.shape[:1]
    )
    parts = equation(get, points, parameters)
    return jnp.stack([jnp.broadcast_to(part, points.shape[:1]) for part in parts], axis=1)


@functools.lru_cache(maxsize=16)
def peak_points(problem: Problem, domain: Box, few: int) -> Float[np.ndarray, "points d"]:
    """Random points where sources or coefficients are far larger than at the first `few` of them.

    What so few points do not see would not be there for anybody who looks at these alone.
    """
    points = uniform(domain, NUM_LOOKED_AT, seed=SEED).coordinates
    values = residuals_at(problem, points, held_anyhow(problem))
    sizes = np.abs(values - np.median(values[:few], axis=0))
    sizes = np.where(np.isfinite(sizes), sizes, 0.0)
    seen = PEAK * np.max(sizes[:few], axis=0)
    excess = np.max(sizes / np.maximum(seen, 1e-300), axis=1)
    above = np.flatnonzero(excess > 1.0)
    return points[above[np.argsort(-excess[above], kind="stable")[:NUM_KEPT]]]
