"""Jumps and kinks that equations of first order carry along."""

import jax.numpy as jnp
import numpy as np
import pytest

import pann
from pann.pde.checks import checked
from pann.solvers.elements.carried import carried
from pann.solvers.windows.conditions import stays_rough

LINE = pann.Box(x=(0.0, 1.0), t=(0.0, 1.0), time="t")
RING = pann.Box(x=(0.0, 1.0), t=(0.0, 1.0), periodic="x", time="t")
LOWER = LINE.face("x", "lower")


def wave(x, library=np):
    return library.where(library.abs(library.mod(x, 1) - 0.5) < 0.25, 1.0, 0.0)


SQUARE = pann.Initial(lambda x, t: wave(x, jnp))
# Equation, conditions and the solution by the method of characteristics.
CARRIED = {
    "a square wave with a source": (
        RING,
        lambda u, x: u.t + 0.4 * u.x - jnp.cos(2 * jnp.pi * x),
        [SQUARE],
        lambda x, t: (
            wave(x - 0.4 * t)
            + (np.sin(2 * np.pi * x) - np.sin(2 * np.pi * (x - 0.4 * t))) / (0.8 * np.pi)
        ),
    ),
    "a kink, and one where the ring closes": (
        RING,
        lambda u: u.t - 0.3 * u.x + u,
        [pann.Initial(lambda x, t: jnp.abs(x - 0.5))],
        lambda x, t: np.exp(-t) * np.abs(np.mod(x + 0.3 * t, 1) - 0.5),
    ),
    "a speed that varies": (
        LINE,
        lambda u, x: u.t + (1 + x) * u.x,
        [
            pann.Initial(lambda x, t: jnp.where(x < 0.3, jnp.cos(3 * x), 2.0)),
            pann.Dirichlet(LOWER, 1.0),
        ],
        lambda x, t: _fed((1 + x) * np.exp(-t) - 1),
    ),
    "an end that is switched": (
        LINE,
        lambda u: u.t + u.x,
        [pann.Initial(0.0), pann.Dirichlet(LOWER, lambda x, t: jnp.where(t < 0.4, t, -1.0))],
        lambda x, t: np.where(t < x, 0.0, np.where(t - x < 0.4, t - x, -1.0)),
    ),
}


def _fed(start):
    return np.where(start < 0, 1.0, np.where(start < 0.3, np.cos(3 * start), 2.0))


@pytest.mark.parametrize("name", CARRIED)
def test_a_jump_is_carried_along_exactly(name):
    domain, residual, conditions, exact = CARRIED[name]
    solution = pann.solve(pann.Problem(domain, residual, conditions), progress=False)
    x, t = np.random.default_rng(0).uniform(size=(2, 5_000))
    assert np.max(np.abs(solution(x=x, t=t) - exact(x, t))) < 1e-6
    assert solution.report.resolved


STILL = [pann.Initial(lambda x, t: jnp.sin(2 * jnp.pi * x))]
OTHERS = {
    "smooth": (lambda u: u.t + u.x, STILL),
    "smoothed": (lambda u: u.t + u.x - 0.01 * u.xx, [SQUARE]),
    "nonlinear": (lambda u: u.t + u * u.x, [SQUARE]),
    "of second order": (
        lambda u: u.tt - u.xx,
        [SQUARE, pann.Initial(0.0, order=1)],
    ),
}


@pytest.mark.parametrize("name", OTHERS)
def test_nothing_is_carried_where_the_equation_is_another_one(name):
    residual, conditions = OTHERS[name]
    assert carried(checked(pann.Problem(RING, residual, conditions))) == ()


def test_curves_go_around_a_ring():
    # Two jumps, twice around: each is at three places of the axis in turn, the last at its end.
    domain = pann.Box(x=(0.0, 1.0), t=(0.0, 2.0), periodic="x", time="t")
    levels = carried(checked(pann.Problem(domain, lambda u: u.t + u.x, [SQUARE])))
    t = np.linspace(0.1, 1.9, 7)
    for start in (0.25, 0.75):
        points = np.stack([np.mod(start + t, 1), t], axis=1)
        assert np.all(np.min(np.abs([level(points) for level in levels]), axis=0) < 1e-9)
    assert len(levels) == 6


def test_what_a_wave_carries_along_is_followed_by_a_fixed_number_of_modes():
    # By d'Alembert half of the initial state goes either way, kinks and all.
    domain = pann.Box(x=(0.0, 1.0), t=(0.0, 0.3), periodic="x", time="t")
    hat = lambda x, library: library.maximum(0.2 - library.abs(library.mod(x, 1) - 0.5), 0.0)
    start = [pann.Initial(lambda x, t: hat(x, jnp)), pann.Initial(0.0, order=1)]
    problem = pann.Problem(domain, lambda u: u.tt - 0.25 * u.xx, start)
    assert stays_rough(checked(problem))["x"] == pytest.approx([0.3, 0.5, 0.7])
    solution = pann.solve(problem, progress=False)
    x, t = np.random.default_rng(0).uniform(size=(2, 2_000)) * [[1.0], [0.3]]
    exact = 0.5 * (hat(x - 0.5 * t, np) + hat(x + 0.5 * t, np))
    assert np.mean(np.abs(solution(x=x, t=t) - exact)) < 2e-5
    assert not solution.report.resolved
    assert any("x = 0.3, 0.5, 0.7" in note for note in solution.report.notes)


def test_what_melts_is_not_rough():
    domain = pann.Box(x=(0.0, 1.0), y=(0.0, 1.0), t=(0.0, 1.0), periodic=("x", "y"), time="t")
    jump = [pann.Initial(lambda x, y, t: wave(x, jnp) + 0.0 * y)]
    melts = lambda residual: stays_rough(checked(pann.Problem(domain, residual, jump)))
    assert melts(lambda u: u.t + u.x - u.laplacian) == {}
    assert list(melts(lambda u: u.t + u.x - u.yy)) == ["x"]
