"""The Korteweg-de Vries equation (one of the paper's), and its coefficients from noisy data.

A cosine breaks up into solitons; the inverse problem has noisy values of them.
"""

import functools
from typing import Any

import jax.numpy as jnp
import numpy as np

from pann.domain import Box
from pann.pde import Data, Problem
from pann.problems.periodic import advective, periodic_problem
from pann.reference import Evolution, PeriodicGrid

DISPERSION = 0.022**2
GUESSES = {"l1": 0.5, "l2": 1e-3}


@functools.cache
def kdv(*, faithful: bool = False) -> Problem:
    """u_t + u u_x + 0.022^2 u_xxx = 0, u(x, 0) = cos(pi x), periodic.

    Zabusky and Kruskal's setting up to t = 1, some time after the wave has steepened.
    """
    return periodic_problem(
        EVOLUTION,
        residual=lambda u: u.t + u * u.x + DISPERSION * u.xxx,
        initial={"u": lambda x, t: jnp.cos(jnp.pi * x)},
        order=3,
        faithful=faithful,
    )


@functools.lru_cache(maxsize=8)
def kdv_inverse(
    *, num_data: int = 2_000, noise: float = 0.01, last: float = 1.0, seed: int = 0
) -> Problem:
    """u_t + l1 u u_x + l2 u_xxx = 0, periodic, l1 and l2 from noisy values of u.

    The data are values of the solution of `kdv`, where l1 = 1 and l2 = 0.022^2, at random points of
    space and of time from 0 to `last`, at most 1, with Gaussian noise of `noise` times the standard
    deviation of u; `seed` is that of points and noise. Nothing else is given, not even the initial
    state. The first guesses are l1 = 0.5 and l2 = 0.001.
    """
    if not 0 < last <= 1:
        raise ValueError(f"kdv is known up to t = 1: last must be in (0, 1], got {last}")
    domain = Box(x=(-1, 1), t=(0, last), periodic="x", time="t")
    points = domain.from_reference(np.random.default_rng(seed).uniform(-1, 1, (num_data, 2)))

    # A function, so that the solution is computed only when it is needed.
    def measured(x: Any, t: Any) -> Any:
        values = np.asarray(EVOLUTION.exact(x=x, t=t))
        errors = np.random.default_rng([seed, 1]).normal(size=values.shape)
        return values + noise * np.std(values) * errors

    return Problem(
        domain,
        lambda u, l1, l2: u.t + l1 * u * u.x + l2 * u.xxx,
        [Data(points, measured)],
        EVOLUTION.exact,
        parameters=GUESSES,
        name="kdv_inverse",
    )


# Half the step changes it by 2e-10, half the stored times the values in between by 9e-11.
EVOLUTION = Evolution(
    name="kdv",
    axes=("x", "t"),
    grid=PeriodicGrid((-1.0,), (1.0,), (512,)),
    times=np.linspace(0, 1, 401),
    largest_step=6.25e-5,
    equation=advective(lambda k: 1j * DISPERSION * k**3),
    initial=lambda x: np.cos(np.pi * x)[None],
)
