"""The Allen-Cahn equation: stationary, with a solution of several waves, and in time."""

import functools
from typing import Any

import jax.numpy as jnp
import numpy as np

from pann.domain import Box
from pann.pde import Problem
from pann.problems.periodic import periodic_problem
from pann.reference import Evolution, PeriodicGrid, stored_times

DIFFUSION = 1e-4


@functools.cache
def allen_cahn() -> Problem:
    """lap u + u (u^2 - 1) = f, u = x^3 y^3 + 5 x cos(2 pi x) cos(2 pi y)."""

    def exact(x: Any, y: Any) -> Any:
        return x**3 * y**3 + 5 * x * jnp.cos(2 * jnp.pi * x) * jnp.cos(2 * jnp.pi * y)

    return Problem.manufactured(
        Box(x=(-1, 1), y=(-1, 1)),
        operator=lambda u: u.laplacian + u * (u**2 - 1),
        exact=exact,
        name="allen_cahn",
    )


@functools.cache
def allen_cahn_time(*, faithful: bool = False) -> Problem:
    """u_t = 0.0001 u_xx - 5 u^3 + 5 u, u(x, 0) = x^2 cos(pi x), periodic.

    The initial state has a kink where the ends meet, and holds in the least-squares sense.
    """

    def residual(u: Any) -> Any:
        return u.t - DIFFUSION * u.xx + 5 * u**3 - 5 * u

    def initial(x: Any, t: Any) -> Any:
        return x**2 * jnp.cos(jnp.pi * x)

    return periodic_problem(
        EVOLUTION, residual, {"u": initial}, order=2, faithful=faithful, is_smooth=False
    )


def _equation(grid: PeriodicGrid) -> tuple[Any, Any]:
    (k,) = grid.wavenumbers()

    def nonlinear(modes: Any) -> Any:
        return -5 * grid.to_modes(grid.to_values(modes) ** 3)

    return 5 - DIFFUSION * k[None] ** 2, nonlinear


# Half the step changes it by 4e-11 at t = 1. Twice the points change it at the kink by 4e-5 at
# t = 0, 5e-7 at t = 1e-4, and nowhere by more than 1e-13 from t = 1e-3 on.
EVOLUTION = Evolution(
    name="allen_cahn_time",
    axes=("x", "t"),
    # The initial state has a kink where the ends meet, u_x = 2 and -2: many modes.
    grid=PeriodicGrid((-1.0,), (1.0,), (16_384,)),
    # It smooths out as the square root of time, which is not smooth at its beginning.
    times=stored_times((0, 1e-4, 1e-3, 1e-2, 0.1, 1), (40, 40, 40, 60, 180)),
    largest_step=1.25e-3,
    equation=_equation,
    initial=lambda x: (x**2 * np.cos(np.pi * x))[None],
)
