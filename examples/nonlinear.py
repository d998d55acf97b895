"""An equation of your own: a reaction u_xx + u_yy = exp(u) - f with a manufactured solution."""

import jax.numpy as jnp

import pann

problem = pann.Problem.manufactured(
    pann.Box(x=(0, 1), y=(0, 1)),
    operator=lambda u: u.laplacian - jnp.exp(u.value),
    exact=lambda x, y: jnp.cos(3 * x) * y**2,
)
solution = pann.solve(problem)
print(solution)
print(
    "u at the center:", solution(x=0.5, y=0.5), "u_x:", solution.derivative({"x": 1}, x=0.5, y=0.5)
)
solution.save("nonlinear.pann")
print("from the file:", pann.load("nonlinear.pann")(x=0.5, y=0.5))
