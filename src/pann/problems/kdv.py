"""The Korteweg-de Vries equation: a wave that breaks up into solitons (one of the paper's)."""

import functools
from typing import Any

import jax.numpy as jnp
import numpy as np

from pann.pde import Problem
from pann.problems.evolving import evolving
from pann.reference import Evolution, PeriodicGrid

DISPERSION = 0.022**2


@functools.cache
def kdv(*, faithful: bool = False) -> Problem:
    """u_t + u u_x + 0.022^2 u_xxx = 0, u(x, 0) = cos(pi x), periodic.

    Zabusky and Kruskal's setting up to t = 1, some time after the wave has steepened.
    """
    return evolving(
        EVOLUTION,
        residual=lambda u: u.t + u * u.x + DISPERSION * u.xxx,
        initial={"u": lambda x, t: jnp.cos(jnp.pi * x)},
        order=3,
        faithful=faithful,
    )


def _equation(grid: PeriodicGrid) -> tuple[Any, Any]:
    (k,) = grid.wavenumbers()

    def nonlinear(modes: Any) -> Any:
        return -0.5j * k * grid.to_modes(grid.to_values(modes) ** 2)

    return 1j * DISPERSION * k[None] ** 3, nonlinear


# Half the step changes it by 2e-10, half the stored times the values in between by 9e-11.
EVOLUTION = Evolution(
    name="kdv",
    axes=("x", "t"),
    grid=PeriodicGrid((-1.0,), (1.0,), (512,)),
    times=np.linspace(0, 1, 401),
    largest_step=6.25e-5,
    equation=_equation,
    initial=lambda x: np.cos(np.pi * x)[None],
)
