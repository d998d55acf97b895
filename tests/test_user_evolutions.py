"""Evolution problems of a user's own in windows: one to three dimensions of space, and systems.

The exact solutions lie in the windows' spaces, so that what is left is rounding; a system without a
right-hand side is compared with an integrator of ordinary differential equations on a grid.
"""

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate

import pann
from pann import Box, Dirichlet, Initial, Neumann, Problem

TURN = (0, 2 * np.pi)
UV = ("u", "v")
LINE = Box(x=(0, 1), t=(0, 0.5), time="t")
SQUARE = Box(x=(0, 1), y=(0, 1), t=(0, 0.3), time="t")
made = Problem.manufactured

CASES = {
    "third order on a line": Problem(
        LINE,
        lambda u, x, t: u.t + u.xxx - (x**3 + 6 * t),
        [
            Initial(0.0),
            Dirichlet(LINE.boundary, lambda x, t: x**3 * t),
            Neumann(LINE.face("x", "upper"), lambda x, t: 3 * t),
        ],
        lambda x, t: x**3 * t,
    ),
    "reaction of two fields on a line": made(
        Box(x=(0, 1), t=(0, 0.5), time="t"),
        lambda u, v: (u.t - 0.1 * u.xx + u * v, v.t - 0.2 * v.xx - u * v**2),
        lambda x, t: (x**2 - t, 1 + x * t),
        fields=UV,
    ),
    "Burgers' equations on a torus": made(
        Box(x=TURN, y=TURN, t=(0, 0.3), time="t", periodic=("x", "y")),
        lambda u, v: (
            u.t + u * u.x + v * u.y - 0.1 * (u.xx + u.yy),
            v.t + u * v.x + v * v.y - 0.1 * (v.xx + v.yy),
        ),
        lambda x, y, t: (jnp.sin(x) * jnp.cos(y) * (1 - t), -jnp.cos(x) * jnp.sin(y) * (1 + t**2)),
        fields=UV,
    ),
    "a channel": made(
        Box(x=TURN, y=(-1, 1), t=(0, 0.3), time="t", periodic="x"),
        lambda u, y: u.t + (1 - y**2) * u.x - 0.1 * (u.xx + u.yy) + u**2,
        lambda x, y, t: jnp.sin(x) * y**2 + t,
    ),
    "insulated on two sides": Problem(
        SQUARE,
        lambda u, x, y, t: u.t - u.xx - u.yy - y * (1 + x**2 / 2 - x**3 / 3) + t * y * (1 - 2 * x),
        [
            Initial(0.0),
            Neumann(SQUARE.face("x", "lower"), 0.0),
            Neumann(SQUARE.face("x", "upper"), 0.0),
            Dirichlet(SQUARE.face("y", "lower"), 0.0),
            Dirichlet(SQUARE.face("y", "upper"), lambda x, y, t: t * (1 + x**2 / 2 - x**3 / 3)),
        ],
        lambda x, y, t: t * y * (1 + x**2 / 2 - x**3 / 3),
    ),
    "a wave on a square": made(
        Box(x=(0, 1), y=(0, 1), t=(0, 0.4), time="t"),
        lambda u: u.tt + u.t - u.xx - u.yy + u**2,
        lambda x, y, t: x * y * (1 + t**3),
    ),
    "a cube": made(
        Box(x=(0, 1), y=(0, 1), z=(0, 1), t=(0, 0.2), time="t"),
        lambda u, z: u.t - u.xx - u.yy - (1 + z) * u.zz + u * u.x,
        lambda x, y, z, t: x**2 * y - z**2 * t,
    ),
    "a torus of three dimensions": made(
        Box(x=TURN, y=TURN, z=TURN, t=(0, 0.2), time="t", periodic=("x", "y", "z")),
        lambda u: u.t - u.xx - u.yy - u.zz + u * u.x,
        lambda x, y, z, t: jnp.sin(x) * jnp.cos(y + z) * (1 + t),
    ),
    "two fields, two periodic axes of three": made(
        Box(x=TURN, y=TURN, z=(0, 1), t=(0, 0.2), time="t", periodic=("x", "y")),
        lambda u, v, z: (
            u.t - u.xx - u.yy - (1 + z) * u.zz + v * u.x,
            v.t - v.xx - v.yy - v.zz + u * v,
        ),
        lambda x, y, z, t: (jnp.sin(x) * z**2 + t, jnp.cos(x + y) * (z - t)),
        fields=UV,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_solutions_within_the_space_are_found_to_rounding(name):
    solution = pann.solve(CASES[name], pann.Windows(windows=2, modes=4, degree=4))
    assert solution.rel_l2 < 1e-10
    assert solution.residual < 1e-8


def test_fourier_modes_along_some_axes_leave_what_the_frozen_solver_finds():
    name = "two fields, two periodic axes of three"
    frozen, constant = (
        pann.solve(CASES[name], pann.Windows(windows=1, modes=3, degree=4, solver=solver))
        for solver in ("frozen", "constant")
    )
    b = np.asarray(frozen.model.parameters.b)
    np.testing.assert_allclose(np.asarray(constant.model.parameters.b), b, atol=1e-10)
    assert "solver constant" in constant.report.how


def test_excitable_waves_agree_with_an_integrator_on_a_grid():
    """FitzHugh and Nagumo's equations on a ring, without options."""
    ring = Box(x=TURN, t=(0, 2), time="t", periodic="x")
    start = lambda x, t: 1.5 * np.exp(np.cos(x) - 1) - 0.5
    problem = Problem(
        ring,
        lambda u, v: (u.t - 0.1 * u.xx - u + u**3 / 3 + v, v.t - 0.2 * (u - v + 0.3)),
        [Initial(start, field="u"), Initial(0.0, field="v")],
        fields=UV,
    )
    solution = pann.solve(problem)
    assert "windows" in solution.report.how
    count = 64
    x = np.arange(count) * 2 * np.pi / count
    laplacian = -((np.fft.fftfreq(count, 1 / count)) ** 2)

    def change(t, state):
        u, v = state.reshape(2, count)
        diffused = np.fft.ifft(laplacian * np.fft.fft(u)).real
        return np.concatenate([0.1 * diffused + u - u**3 / 3 - v, 0.2 * (u - v + 0.3)])

    first = np.concatenate([start(x, 0), np.zeros(count)])
    times = [0.5, 1.3, 2.0]
    known = scipy.integrate.solve_ivp(
        change, (0, 2), first, "DOP853", times, rtol=1e-11, atol=1e-12
    ).y
    for number, time in enumerate(times):
        found = np.concatenate(solution(x=x, t=np.full(count, time)))
        np.testing.assert_allclose(found, known[:, number], atol=2e-9)


def test_dense_systems_that_no_memory_holds_are_refused():
    with pytest.raises(ValueError, match=r"dense systems of 29,791 unknowns .* fewer modes"):
        pann.solve(CASES["a cube"], pann.Windows(windows=1, modes=30, degree=4, solver="frozen"))


def test_manufactured_waves_start_with_their_velocity():
    orders = [c.order for c in CASES["a wave on a square"].conditions if isinstance(c, Initial)]
    assert orders == [0, 1]
