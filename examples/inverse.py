"""An inverse problem: the diffusivity in -(k u')' = sin(x) from noisy measurements of u."""

import jax.numpy as jnp
import numpy as np

import pann

rng = np.random.default_rng(0)
line = pann.Box(x=(0, np.pi))
where = rng.uniform(0, np.pi, (200, 1))
measured = np.sin(where[:, 0]) / 0.7 + 0.01 * rng.normal(size=200)

problem = pann.Problem(
    line,
    residual=lambda u, x, k: -k * u.xx - jnp.sin(x),
    conditions=[pann.Dirichlet(line.boundary, 0.0), pann.Data(where, measured)],
    parameters={"k": 1.0},
)
solution = pann.solve(problem)
k, deviation = solution.parameters["k"], solution.parameter_deviations["k"]
print(f"k = {k:.4f} +- {deviation:.4f} (true: 0.7)")
