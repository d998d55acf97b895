"""Equations that jump on planes: where they do is found, and the solution is as good as smooth."""

import jax.numpy as jnp
import numpy as np
import pytest

import pann
from pann import Box, Dirichlet, Interface, Problem
from pann.pde import Break
from pann.pde.interfaces import breaks

LINE = Box(x=(-1, 1))
SQUARE = Box(x=(0, 2), y=(-1, 1))
ENDS = [Dirichlet(LINE.boundary, 0.0)]
EDGE = [Dirichlet(SQUARE.boundary, 0.0)]


def test_jumps_are_found_to_the_last_digits():
    problem = Problem(
        SQUARE,
        lambda u, x, y: (
            jnp.where(x < 1 / 3, 1.0, 5.0) * u.xx + u.yy - jnp.where(y < jnp.sqrt(0.1), x, 2.0)
        ),
        EDGE,
    )
    (first, second) = breaks(problem)
    assert (first.axis, second.axis) == ("x", "y")
    assert first.at == pytest.approx(1 / 3, abs=1e-15)
    assert second.at == pytest.approx(np.sqrt(0.1), abs=1e-15)


@pytest.mark.parametrize(
    "residual",
    [
        lambda u, x, y: u.xx + u.yy - jnp.tanh(1e4 * (x - 0.7)),  # steep, but smooth
        lambda u, x, y: u.xx + u.yy - jnp.abs(x - 0.7) ** 0.5,  # a cusp, but continuous
        lambda u, x, y: u.xx + u.yy - jnp.where(x + y > 1, 1.0, 0.0),  # on no plane x = c or y = c
        lambda u, x, y: u.xx + u.yy - jnp.where(x > 5, 1.0, 0.0),  # outside
        lambda u, x, y: u.xx + u.yy + jnp.where(u.value > 0.2, 1.0, 0.0),  # in u, not in space
    ],
)
def test_what_does_not_jump_on_a_plane_is_left_alone(residual):
    assert breaks(Problem(SQUARE, residual, EDGE)) == ()


def test_planes_with_an_interface_are_not_cut_twice():
    k = lambda x: jnp.where(jnp.asarray(x) < 0.25, 1.0, 3.0)
    conditions = [*ENDS, Interface("x", 0.25, coefficient=k)]
    assert breaks(Problem(LINE, lambda u, x: k(x) * u.xx + 1, conditions)) == ()


def test_a_source_that_jumps_is_solved_to_rounding():
    """u'' = f with f = 1 beyond c and -2 before, u(+-1) = 0: parabolas that meet with one slope."""
    c = 0.3
    problem = Problem(LINE, lambda u, x: u.xx - jnp.where(x > c, 1.0, -2.0), ENDS)
    solution = pann.solve(problem)
    assert "in pieces that meet at x = 0.3" in solution.report.how
    slope = (4 - 1.5 * (1 - c) ** 2) / 2
    truth = lambda x: slope * (x + 1) - (x + 1) ** 2 + 1.5 * np.maximum(x - c, 0) ** 2
    x = np.linspace(-1, 1, 41)
    np.testing.assert_allclose(solution(x=x), truth(x), atol=1e-12)


def test_darcy_flow_across_strips_in_mixed_form():
    solution = pann.solve(pann.problems.darcy_across_mixed())
    assert solution.rel_l2 < 1e-11


def test_a_break_outside_the_domain_is_refused():
    problem = Problem(LINE, lambda u: u.xx, [*ENDS, Break("x", 1.5)])
    with pytest.raises(ValueError, match=r"Break is at x = 1.5, which must lie inside \(-1, 1\)"):
        pann.solve(problem)
