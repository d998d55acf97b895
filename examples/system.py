"""A system: two unknowns that drive each other, u' = v, v' = -u, with values at the start."""

import jax.numpy as jnp

import pann

line = pann.Box(t=(0, 6), time="t")
problem = pann.Problem(
    line,
    residual=lambda u, v: (u.t - v, v.t + u),
    conditions=[pann.Initial(0.0, field="u"), pann.Initial(1.0, field="v")],
    fields=("u", "v"),
    exact=lambda t: (jnp.sin(t), jnp.cos(t)),
)
solution = pann.solve(problem)
print(solution)
u, v = solution(t=[0.0, 1.0, 2.0])
print("u =", u, " v =", v)
