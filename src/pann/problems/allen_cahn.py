"""The stationary Allen-Cahn equation: cubic, with a solution of several waves."""

from typing import Any

import jax.numpy as jnp

from pann.domain import Box
from pann.pde import Problem


def allen_cahn() -> Problem:
    """lap u + u (u^2 - 1) = f, u = x^3 y^3 + 5 x cos(2 pi x) cos(2 pi y)."""

    def exact(x: Any, y: Any) -> Any:
        return x**3 * y**3 + 5 * x * jnp.cos(2 * jnp.pi * x) * jnp.cos(2 * jnp.pi * y)

    return Problem.manufactured(
        Box(x=(-1, 1), y=(-1, 1)),
        operator=lambda u: u.xx + u.yy + u * (u**2 - 1),
        exact=exact,
        name="allen_cahn",
    )
