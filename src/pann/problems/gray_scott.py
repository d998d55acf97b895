"""The Gray-Scott equations: two substances that react and form patterns (one of the paper's)."""

import functools
from typing import Any

import jax.numpy as jnp
import numpy as np

from pann.pde import Problem
from pann.problems.periodic import periodic_problem
from pann.reference import Evolution, PeriodicGrid, stored_times

DIFFUSION_U, DIFFUSION_V = 0.2, 0.1
FEED, LOSS, REACTION = 40.0, 100.0, 1000.0


@functools.cache
def gray_scott(*, printed: bool = False, faithful: bool = False) -> Problem:
    """u_t = 0.2 lap u + 40 (1 - u) - 1000 u v^2, v_t = 0.1 lap v - 100 v + 1000 u v^2.

    On [-1, 1]^2, periodic. u(0) = 1 - exp(-10 ((x + .05)^2 + (y + .02)^2)) and
    v(0) = exp(-10 ((x - .05)^2 + (y - .02)^2)); with `printed` v(0) is 1 - exp(...) as the paper
    prints it, from which v dies out at once. Both jump by 1e-4 where the ends meet, and hold in the
    least-squares sense.
    """

    def residual(u: Any, v: Any) -> tuple[Any, Any]:
        reaction = REACTION * u * v**2
        return (
            u.t - DIFFUSION_U * u.laplacian - FEED * (1 - u) + reaction,
            v.t - DIFFUSION_V * v.laplacian + LOSS * v - reaction,
        )

    return periodic_problem(
        _evolution(printed),
        residual,
        {
            "u": lambda x, y, t: _initial(x, y, printed, jnp)[0],
            "v": lambda x, y, t: _initial(x, y, printed, jnp)[1],
        },
        order=2,
        faithful=faithful,
        is_smooth=False,
    )


def _initial(x: Any, y: Any, printed: bool, library: Any) -> tuple[Any, Any]:
    """u and v by the functions of a library, numpy or jax.numpy."""
    u = 1 - library.exp(-10 * ((x + 0.05) ** 2 + (y + 0.02) ** 2))
    v = library.exp(-10 * ((x - 0.05) ** 2 + (y - 0.02) ** 2))
    return u, 1 - v if printed else v


def _equation(grid: PeriodicGrid) -> tuple[Any, Any]:
    k, m = grid.wavenumbers()
    laplacian = -(k**2) - m**2

    def nonlinear(modes: Any) -> Any:
        u, v = grid.to_values(modes)
        reaction = grid.to_modes(REACTION * u * v**2)
        change = np.stack([-reaction, reaction])
        change[0, 0, 0] += FEED * u.size
        return change

    return np.stack([DIFFUSION_U * laplacian - FEED, DIFFUSION_V * laplacian - LOSS]), nonlinear


@functools.cache
def _evolution(printed: bool) -> Evolution:
    return Evolution(
        name="gray_scott",
        stored_name="grey_scott",
        axes=("x", "y", "t"),
        # In the mean within 3e-7 of 256 x 256 points at t = 0.02, and 1e-8 from t = 0.1 on; within
        # 1e-6 of twice the step, the method being of fourth order.
        grid=PeriodicGrid((-1.0, -1.0), (1.0, 1.0), (192, 192)),
        # The reaction begins within thousandths of the time that the patterns need; in the mean
        # the fields between stored times are within 1e-7 of those computed there (tested).
        times=stored_times((0, 0.02, 0.1, 0.2, 2), (80, 40, 20, 150)),
        largest_step=2.5e-4,
        equation=_equation,
        initial=lambda x, y: np.stack(_initial(x, y, printed, np)),
    )
