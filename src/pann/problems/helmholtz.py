"""Helmholtz' equation: indefinite, two wavelengths to each unit of length."""

import functools
from typing import Any

import jax.numpy as jnp

from pann.domain import Box
from pann.pde import Problem

WAVE_NUMBER = 4 * jnp.pi


@functools.cache
def helmholtz() -> Problem:
    """lap u + (4 pi)^2 u = f, u = sin(pi x) cos(4 pi y) + exp(x y).

    The solution is unique: the eigenvalues of -lap on [-1, 1]^2 with u = 0 on the boundary are
    (pi/2)^2 (m^2 + n^2) with m, n >= 1, and (4 pi)^2 would need m^2 + n^2 = 64, whose only
    solutions have a zero in them. The nearest are 61 = 5^2 + 6^2 and 65 = 1 + 8^2 = 4^2 + 7^2.
    """

    def exact(x: Any, y: Any) -> Any:
        return jnp.sin(jnp.pi * x) * jnp.cos(4 * jnp.pi * y) + jnp.exp(x * y)

    return Problem.manufactured(
        Box(x=(-1, 1), y=(-1, 1)),
        operator=lambda u: u.laplacian + WAVE_NUMBER**2 * u,
        exact=exact,
        name="helmholtz",
    )
