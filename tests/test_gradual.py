"""An equation linearized at zero, and the solution that a network reaches from there."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pann
from pann import Box, Dirichlet, Problem
from pann.basis import make_basis
from pann.solvers.gradual import gradual, has_a_first_step
from pann.solvers.setup import Setup

LINE = Box(x=(-1, 1))


def problem_of(residual):
    return Problem(LINE, residual, [Dirichlet(LINE.boundary, 0.0)])


def block_of(problem, memory=None):
    setup = Setup(problem, memory=memory)
    basis = make_basis(LINE, 5)
    return setup.system(setup.placed(basis, 5_000), basis, "float64")[0]


@pytest.mark.parametrize("memory", [None, 2_000_000])
def test_the_linearized_equation_is_that_by_hand(memory):
    """N(u) = u'' + (2 + u)^3 + u u' has N(0) + N'(0) u = u'' + 8 + 12 u."""
    with jax.enable_x64(True):
        block = block_of(problem_of(lambda u: u.xx + (2 + u) ** 3 + u * u.x), memory)
        by_hand = block_of(problem_of(lambda u, x: u.xx + 8 + 12 * u + 0 * u.x), memory)
        b = jnp.asarray(np.random.default_rng(0).normal(size=(6, 1)))
        sizes = lambda part: jnp.abs(part.residual(part.polynomial_channels(b), {}))[:, 0]
        first, whole = (gradual(block, fraction).at_points(sizes) for fraction in (0.0, 1.0))
        np.testing.assert_allclose(first, by_hand.at_points(sizes), rtol=1e-12, atol=1e-13)
        np.testing.assert_array_equal(whole, block.at_points(sizes))


@pytest.mark.parametrize(
    "residual, expected",
    [
        (lambda u, x: jnp.exp(x) * u.xx - 3 * u + x, False),
        (lambda u: u.xx + 1e-3 * u**2, True),
        (lambda u: u.xx + u * u.x, True),
        # No slope at zero.
        (lambda u: u.xx + jnp.sqrt(jnp.abs(u.value)), False),
    ],
)
def test_nonlinear_equations_with_a_slope_at_zero_have_a_first_step(residual, expected):
    problem = problem_of(residual)
    with jax.enable_x64(True):
        assert has_a_first_step(problem, block_of(problem)) == expected


def test_a_network_alone_reaches_the_solution_that_newtons_method_reaches():
    """Downhill from zero, this start ends in another solution of the equation, 0.69 away.

    Newton's method from zero by Chebyshev collocation with 65 points reaches the exact one.
    """
    exact = lambda x: x**3 + 5 * x * jnp.cos(2.5 * jnp.pi * x)
    problem = Problem.manufactured(LINE, lambda u: u.xx + u * (u**2 - 1), exact)
    network = pann.MLP(width=8, activation="sin")
    solution = pann.solve(problem, pann.Hybrid(degree=0, network=network, iterations=40), seed=2)
    assert solution.rel_l2 < 1e-3
    assert "linearized" in solution.report.how
