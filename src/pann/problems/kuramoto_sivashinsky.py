"""The Kuramoto-Sivashinsky equation: chaotic, and as the paper prints it."""

import functools
from typing import Any

import jax.numpy as jnp
import numpy as np

from pann.pde import Problem
from pann.problems.periodic import advective, periodic_problem
from pann.reference import Evolution, PeriodicGrid

# Lengths and times of the equation with coefficients 1 on a circle of 32 pi, up to t = 100.
ADVECTION, DIFFUSION, HYPERDIFFUSION = 100 / 16, 100 / 16**2, 100 / 16**4


@functools.cache
def ks(*, faithful: bool = False) -> Problem:
    """u_t + (100/16) u u_x + (100/16^2) u_xx + (100/16^4) u_xxxx = 0, chaotic, periodic.

    u(x, 0) = cos(x) (1 + sin(x)), the setting used in the field for it.
    """

    def residual(u: Any) -> Any:
        return u.t + ADVECTION * u * u.x + DIFFUSION * u.xx + HYPERDIFFUSION * u.xxxx

    return periodic_problem(
        EVOLUTION,
        residual,
        {"u": lambda x, t: jnp.cos(x) * (1 + jnp.sin(x))},
        order=4,
        faithful=faithful,
    )


@functools.cache
def ks_printed(*, faithful: bool = False) -> Problem:
    """u_t + u u_x + u_xx + u_xxxx = 0 on [0, 2 pi], u(x, 0) = cos(x), periodic.

    As the paper prints it. Not chaotic: the first mode is neutral, and all others decay.
    """
    return periodic_problem(
        EVOLUTION_PRINTED,
        lambda u: u.t + u * u.x + u.xx + u.xxxx,
        {"u": lambda x, t: jnp.cos(x) + 0 * t},
        order=4,
        faithful=faithful,
    )


# Half the step changes it by 6e-9; it is chaotic, and errors at the beginning grow 3000-fold.
EVOLUTION = Evolution(
    name="ks",
    axes=("x", "t"),
    grid=PeriodicGrid((0.0,), (2 * np.pi,), (512,)),
    times=np.linspace(0, 1, 1001),
    largest_step=2.5e-5,
    equation=advective(lambda k: DIFFUSION * k**2 - HYPERDIFFUSION * k**4, ADVECTION),
    initial=lambda x: (np.cos(x) * (1 + np.sin(x)))[None],
)

# Half the step changes it by 2e-11.
EVOLUTION_PRINTED = Evolution(
    name="ks_printed",
    axes=("x", "t"),
    grid=PeriodicGrid((0.0,), (2 * np.pi,), (64,)),
    times=np.linspace(0, 1, 401),
    largest_step=2.5e-3,
    equation=advective(lambda k: k**2 - k**4),
    initial=lambda x: np.cos(x)[None],
)
