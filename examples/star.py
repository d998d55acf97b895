"""A nonlinear equation in a star: u_xx + u_yy = exp(u) - f with a known solution."""

import jax.numpy as jnp

import pann

radius = lambda t: 1 + 0.3 * jnp.cos(5 * t)
star = pann.Curve(lambda t: (radius(t) * jnp.cos(t), radius(t) * jnp.sin(t)))
problem = pann.Problem.manufactured(
    star,
    operator=lambda u: u.laplacian - jnp.exp(u.value),
    exact=lambda x, y: jnp.cos(x) * jnp.sin(y),
    name="star",
)
solution = pann.solve(problem, pann.Polynomial(degree=16))
print(solution)
print("at the center:", solution(x=0.0, y=0.0), "outside:", solution(x=1.2, y=1.0))
solution.plot("star.png")
