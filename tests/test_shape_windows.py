"""Evolution on shapes against exact solutions: series of Bessel functions, manufactured ones."""

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special

import pann
from pann.shapes import Disk

DISK = Disk()
SHORT = DISK.in_time(t=(0.0, 0.5))


def test_heat_with_moving_values_on_the_boundary():
    exact = lambda x, y, t: jnp.exp(-t) * jnp.sin(x + 1) * jnp.cos(y)
    solution = pann.solve(
        pann.Problem.manufactured(SHORT, lambda u: u.t - 0.1 * u.laplacian, exact)
    )
    assert solution.report.resolved
    assert solution.rel_l2 < 1e-9
    there = np.exp(-0.4) * np.sin(1.3) * np.cos(0.2)
    assert abs(solution(x=0.3, y=0.2, t=0.4) - there) < 1e-9


def test_membrane_swings_without_growing():
    k = scipy.special.jn_zeros(0, 1)[0]

    def exact(x, y, t):
        return scipy.special.j0(k * np.hypot(x, y)) * np.cos(k * np.asarray(t))

    start = lambda x, y: exact(x, y, 0.0)
    conditions = [pann.Dirichlet(DISK.boundary), pann.Initial(start), pann.Initial(0.0, 1)]
    problem = pann.Problem(
        DISK.in_time(t=(0.0, 2.0)), lambda u: u.tt - u.laplacian, conditions, exact=exact
    )
    solution = pann.solve(problem)
    assert solution.report.resolved
    assert solution.rel_l2 < 1e-8


def test_wave_with_values_that_move_on_a_ring():
    """What grows without satisfying the equation is taken out of rounding, not of the solution."""
    ring = Disk(radius=1) - Disk(radius=0.3)
    exact = lambda x, y, t: jnp.cos(3 * t) * jnp.sin(2 * x + 1) * jnp.cos(2 * y)
    solution = pann.solve(
        pann.Problem.manufactured(ring.in_time(t=(0.0, 0.5)), lambda u: u.tt - u.laplacian, exact)
    )
    assert solution.rel_l2 < 1e-6


def test_reaction_is_solved_by_steps():
    exact = lambda x, y, t: jnp.cos(t) * jnp.sin(x + y)
    operator = lambda u: u.t - 0.05 * u.laplacian - u.value + u.value**3
    solution = pann.solve(pann.Problem.manufactured(SHORT, operator, exact))
    assert solution.report.resolved
    assert solution.rel_l2 < 1e-9


def test_state_that_does_not_fit_the_boundary_is_not_called_resolved():
    conditions = [pann.Dirichlet(DISK.boundary), pann.Initial(1.0)]
    problem = pann.Problem(DISK.in_time(t=(0.0, 0.01)), lambda u: u.t - u.laplacian, conditions)
    assert not pann.solve(problem, time_limit=5.0).report.resolved


def test_windows_on_a_shape_are_as_many_as_it_takes():
    problem = pann.Problem.manufactured(
        SHORT, lambda u: u.t - u.laplacian, lambda x, y, t: x + y + t
    )
    with pytest.raises(ValueError, match="as many as it takes; leave out windows"):
        pann.solve(problem, pann.Windows(windows=4))


def test_tolerance_is_met_by_marches_that_agree():
    exact = lambda x, y, t: jnp.cos(2 * t) * jnp.exp(x - y / 2)
    operator = lambda u: u.t - 0.1 * u.laplacian
    problem = pann.Problem.manufactured(SHORT, operator, exact)
    solution = pann.solve(problem, tolerance=1e-6)
    assert solution.report.met
    assert "windows" in solution.report.how
    assert len(solution.report.history["difference between resolutions"]) >= 1
    assert solution.rel_l2 <= solution.report.error_estimate <= 1e-6
    with pytest.raises(ValueError, match="chooses the sizes by itself; leave out degree"):
        pann.solve(problem, pann.Windows(degree=5), tolerance=1e-6)


def test_what_time_allows_is_a_solution_up_to_there(tmp_path):
    """The first window always; a wave that was given no more time goes on with more, from files."""
    k = scipy.special.jn_zeros(0, 1)[0]
    start = lambda x, y: scipy.special.j0(k * np.hypot(x, y))
    conditions = [pann.Dirichlet(DISK.boundary), pann.Initial(start), pann.Initial(0.0, 1)]
    problem = pann.Problem(
        DISK.in_time(t=(0.0, 1.0)), lambda u: u.tt - u.laplacian, conditions, name="drum"
    )
    first = pann.solve(problem, time_limit=0.01, out=tmp_path)
    assert first.report.stopped
    assert not first.report.resolved
    end = first.model.domain.times[1]
    assert 0.0 < end < 1.0
    assert first(x=0.0, y=0.0, t=end) == pytest.approx(np.cos(k * end), abs=1e-8)
    with pytest.raises(ValueError, match="interrupted"):
        pann.solve(problem, out=tmp_path)
    whole = pann.solve(problem, out=tmp_path, resume=True)
    assert whole.report.resolved
    stored = pann.load(tmp_path / "solution.pann")
    for solution in (whole, stored):
        assert solution(x=0.0, y=0.0, t=1.0) == pytest.approx(np.cos(k), abs=1e-8)
        assert np.isnan(solution(x=0.9, y=0.9, t=0.5))
    at = {"x": 0.3, "y": -0.2, "t": 0.7}
    assert stored(**at) == whole(**at)
    assert stored.derivative({"t": 2}, **at) == whole.derivative({"t": 2}, **at)
