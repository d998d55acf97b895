"""Newton's method on one window, each step by GMRES, or by the whole Jacobian where that is small.

The preconditioner is made once a window, at its start. GMRES need not solve more accurately than
Newton's own error, which the next step makes up for.
"""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from pann.pde.windows.gmres import gmres
from pann.pde.windows.preconditioners import Factors, apply, factorize
from pann.pde.windows.system import System, Window

MAX_STEPS = 20
# Relative sizes of a step: the next would be at round-off; small, and the next is no smaller.
CONVERGED, STALLED = 1e-11, 1e-8
# GMRES lowers the residual to this share, in at most so many iterations.
INNER_TOLERANCE, INNER_ITERATIONS = 1e-3, 40


@dataclasses.dataclass(frozen=True)
class Outcome:
    """The coefficients of v, how many steps led to them, and whether they solve the equations."""

    unknowns: Float[Array, "..."]
    steps: int
    converged: bool
    reason: str


def newton(system: System, window: Window, solver: str) -> Outcome:
    """Steps from the state at the window's start until they are at round-off."""
    unknowns = jax.device_put(np.zeros(system.shape))
    factors = _factors(system, window, unknowns, solver)
    last = np.inf
    for count in range(1, MAX_STEPS + 1):
        if solver == "dense" and count > 1:
            factors = _factors(system, window, unknowns, solver)
        unknowns, relative = _step(system, window, unknowns, factors, solver)
        size = float(relative)
        if not np.isfinite(size) or (count > 2 and size > 10 * last):
            return Outcome(unknowns, count, False, "Newton's method diverges")
        if size <= CONVERGED or (size <= STALLED and size > 0.1 * last):
            return Outcome(unknowns, count, True, "converged")
        last = size
    return Outcome(unknowns, MAX_STEPS, False, f"no convergence in {MAX_STEPS} steps")


@eqx.filter_jit
def _factors(system: System, window: Window, unknowns: Float[Array, "..."], solver: str) -> Factors:
    return factorize(system, window, unknowns, solver)


@eqx.filter_jit
def _step(
    system: System, window: Window, unknowns: Float[Array, "..."], factors: Factors, solver: str
) -> tuple[Float[Array, "..."], Float[Array, ""]]:
    """The unknowns after a step, and its size relative to u."""
    residual, along = jax.linearize(lambda unknowns: system.residual(window, unknowns), unknowns)
    inverse = lambda right: apply(system, factors, right, solver)
    if solver == "dense":
        step = inverse(residual)
    else:
        step, _ = gmres(
            along, inverse, residual, tolerance=INNER_TOLERANCE, iterations=INNER_ITERATIONS
        )
    moved = unknowns - step
    size = jnp.linalg.norm(step) / jnp.linalg.norm(system.whole(window, moved))
    return moved, size


@eqx.filter_jit
def fresh_residual(
    system: System, window: Window, unknowns: Float[Array, "..."]
) -> Float[Array, ""]:
    """The residual at random points and times, relative to the size of the equation's terms."""
    channels = system.channel_values(system.fresh, window, unknowns)
    residual = system.equation(system.fresh, window, channels)
    slopes = system.slopes(system.fresh, window, channels)
    rest = system.equation(system.fresh, window, tuple(map(jnp.zeros_like, channels)))
    terms = sum(
        jnp.sum((slope * channel) ** 2) for slope, channel in zip(slopes, channels, strict=True)
    )
    return jnp.sqrt(jnp.sum(residual**2) / (terms + jnp.sum(rest**2) + 1e-300))
