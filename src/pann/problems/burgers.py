"""Burgers' equation with little viscosity: a sine steepens to a front."""

import dataclasses
import functools
from typing import Any

import jax.numpy as jnp
import numpy as np

from pann.pde import Dirichlet, Initial, Problem
from pann.problems.periodic import advective, periodic_problem
from pann.reference import Evolution, PeriodicGrid

VISCOSITY = 0.01 / np.pi


@functools.cache
def burgers(*, dirichlet: bool = False, faithful: bool = False) -> Problem:
    """u_t + u u_x = (0.01 / pi) u_xx, u(x, 0) = -sin(pi x), periodic.

    The solution is odd about x = 0 and x = 1, so that u = 0 on the boundary (`dirichlet`) is the
    same problem.
    """
    if dirichlet and faithful:
        raise ValueError(
            "burgers is given dirichlet=True and faithful=True; the second asks for periodic "
            "conditions, choose one of them"
        )

    def residual(u: Any) -> Any:
        return u.t + u * u.x - VISCOSITY * u.xx

    def initial(x: Any, t: Any) -> Any:
        return -jnp.sin(jnp.pi * x)

    has_ends = faithful or dirichlet
    problem = periodic_problem(EVOLUTION, residual, {"u": initial}, order=2, faithful=has_ends)
    if not dirichlet:
        return problem
    boundary = Dirichlet(problem.domain.boundary, 0.0, hard=True)
    return dataclasses.replace(problem, conditions=[boundary, Initial(initial, hard=True)])


# The front is resolved to 1e-11; half the step changes the solution by 9e-10.
EVOLUTION = Evolution(
    name="burgers",
    axes=("x", "t"),
    grid=PeriodicGrid((-1.0,), (1.0,), (2048,)),
    times=np.linspace(0, 1, 401),
    largest_step=2.5e-4,
    equation=advective(lambda k: -VISCOSITY * k**2),
    initial=lambda x: -np.sin(np.pi * x)[None],
)
