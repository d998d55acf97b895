"""Poisson's equation on a square, to round-off."""

import jax.numpy as jnp

import pann

square = pann.Box(x=(-1, 1), y=(-1, 1))
exact = lambda x, y: jnp.sin(jnp.pi * x) * jnp.sin(jnp.pi * y)
problem = pann.Problem(
    square,
    residual=lambda u, x, y: u.laplacian + 2 * jnp.pi**2 * exact(x, y),
    conditions=[pann.Dirichlet(square.boundary, exact)],
    exact=exact,
)
print(pann.solve(problem))
