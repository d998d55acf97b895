"""Newton's method on one window, each step by GMRES, or by the whole Jacobian where that is small.

The preconditioner is made once per window, at its start. GMRES need not solve more accurately than
Newton's own error, which the next step makes up for.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from pann.numerics.gmres import gmres
from pann.solvers.windows.preconditioners import Factors, apply, factorize
from pann.solvers.windows.system import System, Tensor, Window

MAX_STEPS = 20
# Relative sizes of a step: the next would be at round-off; small, and the next is no smaller.
CONVERGED, STALLED = 1e-11, 1e-8
# GMRES lowers the residual to this fraction, in at most so many iterations.
INNER_TOLERANCE, INNER_ITERATIONS = 1e-3, 40
# If it leaves a larger fraction, two windows of half the length take less work.
INNER_FAILED = 0.1
# After so many steps that are still so large, half the window takes less work, too.
MANY_STEPS, STILL_LARGE = 6, 0.2


# Solvers that factorize anew in each step: it takes less than the iterations that it saves.
OFTEN = ("dense", "pieces")


class Outcome(NamedTuple):
    """The coefficients of v, how many steps led to them, and whether they solve the equations.

    `residual` is that at random points and times, relative to the size of the equation's terms.
    """

    unknowns: Tensor
    steps: Int[Array, ""]
    converged: Bool[Array, ""]
    residual: Float[Array, ""]


class Steps(NamedTuple):
    """The state of Newton's method; the sizes are those of the last two steps, relative to u.

    `left` is the fraction of the linearized residual that GMRES left at the last step.
    """

    unknowns: Tensor
    number: Int[Array, ""]
    size: Float[Array, ""]
    last: Float[Array, ""]
    left: Float[Array, ""]

    @property
    def converged(self) -> Bool[Array, ""]:
        stalled = (self.size <= STALLED) & (self.size > 0.1 * self.last)
        return (self.size <= CONVERGED) | stalled

    @property
    def failed(self) -> Bool[Array, ""]:
        diverging = (self.number > 2) & (self.size > 10 * self.last)
        straying = (self.number >= MANY_STEPS) & (self.size > STILL_LARGE)
        unsolved = self.left > INNER_FAILED
        return ~jnp.isfinite(self.size) | diverging | straying | unsolved


@eqx.filter_jit
def newton(system: System, window: Window, solver: str) -> Outcome:
    """Steps from the state at the window's start until they are at round-off.

    All are one program, since each takes seconds to compile.
    """
    start = jnp.zeros(system.shape)
    frozen = None if solver in OFTEN else factorize(system, window, start, solver)

    def is_unfinished(steps: Steps) -> Bool[Array, ""]:
        goes_on = ~(steps.failed | steps.converged)
        return (steps.number == 0) | (goes_on & (steps.number < MAX_STEPS))

    def further(steps: Steps) -> Steps:
        factors = factorize(system, window, steps.unknowns, solver) if frozen is None else frozen
        unknowns, size, left = _step(system, window, steps.unknowns, factors, solver)
        return Steps(unknowns, steps.number + 1, size, steps.size, left)

    none = Steps(start, jnp.zeros((), int), *(jnp.array(each) for each in (jnp.inf, jnp.inf, 0.0)))
    reached = jax.lax.while_loop(is_unfinished, further, none)
    converged = reached.converged & ~reached.failed
    residual = _fresh_residual(system, window, reached.unknowns)
    return Outcome(reached.unknowns, reached.number, converged, residual)


def _step(
    system: System, window: Window, unknowns: Tensor, factors: Factors, solver: str
) -> tuple[Tensor, Float[Array, ""], Float[Array, ""]]:
    """The unknowns after a step, its size relative to u, and the fraction that GMRES left."""
    residual, along = jax.linearize(lambda unknowns: system.residual(window, unknowns), unknowns)
    inverse = lambda right: apply(system, factors, right, solver)
    if solver == "dense":
        step, left = inverse(residual), jnp.zeros(())
    else:
        step, left = gmres(
            along, inverse, residual, tolerance=INNER_TOLERANCE, iterations=INNER_ITERATIONS
        )
    moved = unknowns - step
    size = jnp.linalg.norm(step) / jnp.linalg.norm(system.whole(window, moved))
    return moved, size, left


def _fresh_residual(system: System, window: Window, unknowns: Tensor) -> Float[Array, ""]:
    """The residual at random points and times, relative to the size of the equation's terms."""
    channels = system.channel_values(system.fresh, window, unknowns)
    residual = system.equation(system.fresh, window, channels)
    slopes = system.slopes(system.fresh, window, channels)
    rest = system.equation(system.fresh, window, tuple(map(jnp.zeros_like, channels)))
    terms = sum(
        jnp.sum((slope * channel) ** 2) for slope, channel in zip(slopes, channels, strict=True)
    )
    return jnp.sqrt(jnp.sum(residual**2) / (terms + jnp.sum(rest**2) + 1e-300))
