"""What users see of a solve: verdicts first, progress, time limits, Ctrl-C, and going on."""

import os
import re
import signal

import jax.numpy as jnp
import numpy as np
import pytest

import pann
from pann.domain import Box
from pann.methods import RunOptions
from pann.pde import Dirichlet, Initial, Problem
from pann.runtime.limits import Stopped
from pann.solvers.solution import Report, verdict
from pann.solvers.solve import solve_run

LINE = Box(x=(-1.0, 1.0))
ZERO = [Dirichlet(LINE.boundary, 0.0)]
# |x|^3, which no polynomial resolves.
KINK = Problem(
    LINE,
    lambda u, x: u.xx - 6 * jnp.abs(x - 0.1),
    [Dirichlet(LINE.boundary, lambda x: jnp.abs(x - 0.1) ** 3)],
    exact=lambda x: jnp.abs(x - 0.1) ** 3,
    name="kink",
)
RING = Box(x=(0.0, 2 * np.pi), t=(0.0, 1.0), periodic="x", time="t")
TRANSPORT = Problem(RING, lambda u: u.t + u.x, [Initial(lambda x: jnp.exp(jnp.sin(x)))])


class StopsAt:
    """A progress callback that stops a run at one of its reports."""

    def __init__(self, what):
        self.what, self.seen = what, []

    def __call__(self, progress):
        self.seen.append(progress.what)
        if self.what in progress.what:
            raise Stopped("the test")


# ---- Verdicts ----


def test_the_first_line_says_whether_to_rely_on_it():
    good = pann.solve(
        Problem(LINE, lambda u: u.xx + 2.0, ZERO), pann.Polynomial(degree=4), progress=False
    )
    poor = pann.solve(KINK, pann.Polynomial(degree=6), progress=False)
    assert str(good).startswith("resolved: relative residual ")
    assert str(poor).startswith("NOT RESOLVED: relative residual ")
    hint = "give a higher degree than 6, or a network, pann.Hybrid(network=pann.MLP(width=32))"
    assert hint in str(poor)
    assert "to go on" not in str(good)
    assert poor.report.rel_l2 <= poor.report.error_estimate


def test_hints_fit_what_was_used():
    network = pann.solve(
        KINK,
        pann.Hybrid(degree=3, network=pann.MLP(width=4, activation="tanh"), iterations=2),
        progress=False,
    )
    assert "a wider network than 4 units" in str(network)
    nonlocal_kink = Problem(LINE, lambda u, x: u.xx - jnp.abs(x) - u.integral(), ZERO)
    integral = pann.solve(nonlocal_kink, pann.Hybrid(degree=6), progress=False)
    assert str(integral).endswith("to go on: give a higher degree than 6")
    windows = pann.solve(TRANSPORT, pann.Windows(windows=1, modes=2, degree=3), progress=False)
    assert not windows.report.resolved
    assert "pann.solve(problem, tolerance=...), or more windows" in str(windows)


@pytest.mark.parametrize(
    "changes, expected",
    [
        ({"resolved": True}, "resolved: relative residual 1.0e-07 at points used for nothing else"),
        ({"resolved": False, "error_estimate": 0.5}, "NOT RESOLVED: .*, error estimate 5.0e-01"),
        (
            {"tolerance": 1e-3, "met": True, "error_estimate": 1e-4},
            "tolerance 0.001 met: .*1.0e-04",
        ),
        ({"tolerance": 1e-3, "met": False, "error_estimate": np.inf}, "NOT MET.*estimate unknown"),
    ],
)
def test_verdicts_have_their_figures(changes, expected):
    report = Report("by hand", 3, 10, 1e-7, None, "done", 0.1, {}, **changes)
    assert re.search(expected, verdict(report))


def test_the_report_is_of_points_that_chose_nothing():
    report = pann.solve(KINK, pann.Polynomial(degree=8), progress=False).report
    chosen_by = report.trials[0]["residual"]
    assert report.residual != chosen_by
    assert report.residual == pytest.approx(chosen_by, rel=0.2)


# ---- Stopping ----


def test_a_stop_on_the_ladder_gives_the_best_so_far_and_says_what_is_next():
    progress = StopsAt("degree 16")
    solution = pann.solve(KINK, progress=progress)
    assert progress.seen == ["degree 8", "degree 16"]
    assert solution.report.degree == 16
    assert solution.report.stopped == "the test"
    assert "stopped by the test; next would have been degree 32" in str(solution)
    assert "to go on: give more time" in str(solution)
    assert not solution.report.resolved


def test_networks_are_announced_with_their_time_and_can_be_left_out():
    progress = StopsAt("networks next to degree 6, about ")
    method = pann.Hybrid(degree=6, network=pann.MLP(width=6, activation="tanh"), iterations=4)
    solution = pann.solve(KINK, method, progress=progress)
    assert solution.model.num_units == 0
    assert "next would have been networks next to degree 6, about" in solution.report.stop


def test_a_network_that_is_stopped_is_kept_if_it_helps():
    steps = []

    def stop_from_the_eighth_on(progress):
        steps.append(progress.what == "network")
        if sum(steps) >= 8:
            raise Stopped("the test")

    network = pann.MLP(width=6, depth=1, activation="tanh")
    method = pann.Hybrid(degree=6, network=network, iterations=60)
    solution = pann.solve(KINK, method, progress=stop_from_the_eighth_on)
    assert solution.report.stopped == "the test"
    assert solution.model.num_units == 6
    assert solution.residual < pann.solve(KINK, pann.Polynomial(degree=6), progress=False).residual


def test_windows_that_are_stopped_end_where_they_are():
    def stop_later(progress):
        if progress.step > 200:
            raise Stopped("the test")

    solution = pann.solve(TRANSPORT, progress=stop_later)
    end = solution.model.domain.upper[1]
    assert 0.2 < end < 1.0
    assert "stopped by the test at t =" in solution.report.stop
    assert not solution.report.resolved
    np.testing.assert_allclose(solution(1.0, 0.2), np.exp(np.sin(0.8)), rtol=1e-8)


def test_a_tolerance_that_is_stopped_is_not_met():
    solution = pann.solve(KINK, pann.Polynomial(), tolerance=1e-09, progress=StopsAt("resolution"))
    assert solution.report.met is False
    assert solution.report.error_estimate == np.inf
    assert "next would have been a finer resolution" in solution.report.stop


def test_a_time_limit_ends_it():
    solution = pann.solve(KINK, time_limit=0.01, progress=False)
    assert solution.report.degree == 8
    assert "stopped by the time limit of 0.01 s; next would have been degree 16" in str(solution)


def test_ctrl_c_gives_the_best_so_far():
    def press(progress):
        if progress.what == "degree 8":
            os.kill(os.getpid(), signal.SIGINT)

    solution = pann.solve(KINK, progress=press)
    assert solution.report.stopped == "Ctrl-C"
    assert solution.report.degree in (8, 16)
    with pytest.raises(KeyboardInterrupt):
        solve_run(KINK, None, RunOptions(), progress=press, ctrl_c=False)


def test_what_was_stopped_goes_on(tmp_path):
    network = pann.MLP(width=5, depth=1, activation="tanh")
    method = pann.Hybrid(degree=6, network=network, iterations=12)
    whole = pann.solve(KINK, method, progress=False)
    folder = tmp_path / "run"
    stopped = pann.solve(KINK, method, out=folder, progress=StopsAt("networks"))
    assert stopped.report.stopped
    assert pann.load(folder / "solution.pann").report.stopped == "the test"
    resumed = pann.solve(KINK, method, out=folder, resume=True, progress=False)
    assert resumed.report.stopped is None
    x = np.linspace(-1, 1, 9)
    np.testing.assert_array_equal(resumed(x), whole(x))
    assert "stopped by the test" in (folder / "log.txt").read_text()


def test_progress_shows_what_is_tried(capfd):
    pann.solve(
        Problem(LINE, lambda u: u.xx + 2.0, ZERO, name="parabola"), pann.Polynomial(), progress=True
    )
    shown = capfd.readouterr().err
    assert "parabola: degree 8 1/8  fresh residual" in shown
    pann.solve(Problem(LINE, lambda u: u.xx + 2.0, ZERO), pann.Polynomial())
    assert capfd.readouterr().err == ""
