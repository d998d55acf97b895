"""A string that swings, u_tt = u_xx: over time and space as a picture, and as a moving one."""

import pathlib

import jax.numpy as jnp

import pann

box = pann.Box(x=(0, 1), t=(0, 2), time="t")
wave = lambda number, x, t: jnp.sin(number * jnp.pi * x) * jnp.cos(number * jnp.pi * t)
exact = lambda x, t: wave(1, x, t) + 0.5 * wave(2, x, t) + 0.25 * wave(3, x, t)
problem = pann.Problem(
    box,
    residual=lambda u: u.tt - u.xx,
    conditions=[
        pann.Dirichlet(box.boundary, 0.0),
        pann.Initial(lambda x, t: exact(x, 0.0)),
        pann.Initial(0.0, order=1),
    ],
    exact=exact,
    name="string",
)
solution = pann.solve(problem, pann.Polynomial(degree=20))
solution.plot("string.png")
solution.plot_history("history.png")
solution.animate("string.gif", frames=40, seconds=4)
print(solution)
for name in ("string.png", "history.png", "string.gif"):
    print(f"{name}: {pathlib.Path(name).stat().st_size / 1000:.0f} kB")
