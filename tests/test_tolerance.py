"""A tolerance instead of sizes: met where it is claimed, and not claimed where it is not met."""

import json

import jax.numpy as jnp
import numpy as np
import pytest
from typer.testing import CliRunner

import pann
from pann import Box, Data, Dirichlet, Initial, Problem
from pann.cli.main import app
from pann.runtime.limits import Progress
from pann.solvers import polynomial, tolerance

SQUARE = Box(x=(-1, 1), y=(-1, 1))
RING = Box(x=(0, 2 * np.pi), t=(0, 0.3), periodic="x", time="t")

poisson = Problem.manufactured(
    SQUARE, lambda u: u.xx + u.yy, lambda x, y: jnp.exp(x) * jnp.sin(2 * y)
)
allen_cahn = Problem.manufactured(
    Box(x=(-1, 1)), lambda u: u.xx + u * (u**2 - 1), lambda x: x + jnp.cos(4 * x)
)
kdv = Problem.manufactured(
    RING, lambda u: u.t + u * u.x + 0.1 * u.xxx, lambda x, t: jnp.exp(jnp.sin(x - t))
)
on_a_line = Problem.manufactured(
    Box(x=(0, 1), t=(0, 0.3), time="t"),
    lambda u: u.t - u.xx + u**2,
    lambda x, t: jnp.sin(3 * x - t),
)


def growing(end: float) -> Problem:
    """u = cos t, from which every error departs as exp(10 t)."""
    return Problem(
        Box(t=(0, end), time="t"),
        lambda u, t: u.t - 10 * (u - jnp.cos(t)) + jnp.sin(t),
        [Initial(1.0)],
        lambda t: jnp.cos(t),
    )


def singular() -> Problem:
    """u = |x - 0.3|^(3/2), by its slope, which no polynomials approximate well."""
    line, exact = Box(x=(-1, 1)), lambda x: jnp.abs(x - 0.3) ** 1.5
    slope = lambda x: 1.5 * jnp.sign(x - 0.3) * jnp.sqrt(jnp.abs(x - 0.3))
    start = Dirichlet(line.face("x", "lower"), exact)
    return Problem(line, lambda u, x: u.x - slope(x), [start], exact)


def decaying(noise: float) -> Problem:
    """u' = -k u with k = 2, from values of u."""
    t = np.linspace(0, 1, 40)
    values = np.exp(-2 * t) + noise * np.random.default_rng(0).normal(size=40)
    return Problem(
        Box(t=(0, 1), time="t"),
        lambda u, k: u.t + k * u,
        [Data(t[:, None], values)],
        lambda t: jnp.exp(-2 * t),
        parameters={"k": 1.0},
    )


@pytest.mark.parametrize(
    "problem, asked",
    [
        (poisson, 1e-6),
        (allen_cahn, 1e-8),
        (kdv, 1e-6),
        (on_a_line, 1e-5),
        (growing(2.0), 1e-6),
    ],
)
def test_what_is_claimed_is_true(problem: Problem, asked: float) -> None:
    reports: list[Progress] = []
    solution = pann.solve(problem, tolerance=asked, progress=reports.append)
    report = solution.report
    assert report.met is True
    # Where polynomials converge fast, no time goes to a network.
    assert "network" not in {progress.what for progress in reports}
    assert solution.rel_l2 <= report.error_estimate <= asked
    assert solution.residual <= asked
    assert f"tolerance {asked:g} met: relative residual " in str(solution)


def test_smaller_tolerances_cost_more() -> None:
    coarse, fine = (pann.solve(allen_cahn, tolerance=asked) for asked in (1e-2, 1e-10))
    assert coarse.report.met
    assert fine.report.met
    assert coarse.report.degree < fine.report.degree
    assert fine.rel_l2 < 1e-10


def test_what_is_not_resolved_is_said(monkeypatch) -> None:
    """Polynomials converge too slowly to climb beyond the ladder; a network gets too few steps."""
    monkeypatch.setattr(tolerance, "TUNING", tolerance.Tuning(max_networks=1))
    monkeypatch.setitem(polynomial.LADDERS, 1, (4, 8, 16))
    reports: list[Progress] = []
    solution = pann.solve(
        singular(),
        pann.Hybrid(network=pann.MLP(activation="tanh"), iterations=2),
        tolerance=1e-6,
        progress=reports.append,
    )
    report = solution.report
    assert report.met is False
    assert 1e-6 < solution.rel_l2 <= report.error_estimate
    assert "tolerance 1e-06 NOT MET" in str(solution)
    assert "network" in {progress.what for progress in reports}
    assert report.degree <= 16


def test_errors_that_grow_show_in_the_difference() -> None:
    """Round-off alone grows to more than the tolerance; the residual does not show it."""
    solution = pann.solve(growing(3.0), tolerance=1e-6)
    assert solution.residual < 1e-10
    assert solution.report.met is False
    assert 1e-6 < solution.rel_l2 <= solution.report.error_estimate


def test_a_spike_between_all_points_is_seen(monkeypatch) -> None:
    """Advection of a wave, and of a spike that the points of neither resolution meet."""
    monkeypatch.setattr(tolerance, "TUNING", tolerance.Tuning(max_marches=2))
    start = lambda x, t: jnp.sin(x - t) + 0.3 * jnp.exp(-((jnp.sin((x - t - 1) / 2) / 1e-3) ** 2))
    problem = Problem(RING, lambda u: u.t + u.x, [Initial(start)], start)
    solution = pann.solve(problem, tolerance=1e-6)
    assert solution.report.met is False
    assert 1e-6 < solution.rel_l2 < 2 * solution.report.error_estimate


def test_noise_of_data_is_not_below_the_tolerance() -> None:
    exact, noisy = (pann.solve(decaying(noise), tolerance=1e-6) for noise in (0.0, 0.01))
    assert exact.report.met is True
    assert exact.parameters["k"] == pytest.approx(2, abs=1e-6)
    assert noisy.report.met is False
    assert 1e-6 < noisy.rel_l2 <= noisy.report.error_estimate


def test_a_file_and_the_command_line_have_it(tmp_path) -> None:
    (tmp_path / "mine.py").write_text(
        "import pann\n"
        "line = pann.Box(x=(-1, 1))\n"
        "problem = pann.Problem.manufactured(line, lambda u: u.xx, lambda x: x / (x + 3))\n"
    )
    out = tmp_path / "run"
    arguments = ["solve", str(tmp_path / "mine.py"), "--tolerance", "1e-6", "--out", str(out)]
    result = CliRunner().invoke(app, [*arguments, "--json"])
    assert result.exit_code == 0, result.output
    printed = json.loads(result.stdout.splitlines()[-1])
    assert (printed["tolerance"], printed["met"]) == (1e-6, True)
    loaded = pann.load(out / "solution.pann")
    assert loaded.report.error_estimate == printed["error_estimate"] <= 1e-6
    assert loaded.report.met is True
    planned = CliRunner().invoke(app, [*arguments[:4], "--dry-run"])
    assert "degree    8, 16, 32, 64, 128, 256, 512, 1024, until resolved" in planned.output
    refused = CliRunner().invoke(app, [*arguments[:4], "--degree", "9", "--dry-run"])
    assert "tolerance=1e-06 chooses the sizes by itself; leave out degree" in refused.output


class Killed(Exception):
    pass


@pytest.mark.parametrize("problem", [kdv, allen_cahn], ids=["windows", "degrees"])
def test_it_goes_on_after_the_last_resolution(problem: Problem, tmp_path) -> None:
    undisturbed = pann.solve(problem, tolerance=1e-6)

    def kill_at_the_second(progress: Progress) -> None:
        if progress.what == "resolution" and progress.step == 2:
            raise Killed

    out = tmp_path / "run"
    with pytest.raises(Killed):
        pann.solve(problem, tolerance=1e-6, out=out, progress=kill_at_the_second)
    with pytest.raises(ValueError, match="tolerance is 1e-06 there and 1e-05 here"):
        pann.solve(problem, tolerance=1e-5, out=out, resume=True)
    resumed = pann.solve(problem, tolerance=1e-6, out=out, resume=True)
    np.testing.assert_array_equal(resumed.model.parameters.b, undisturbed.model.parameters.b)
    assert resumed.report.error_estimate == undisturbed.report.error_estimate


@pytest.mark.parametrize(
    "method, asked, message",
    [
        (None, 0.0, "tolerance must be a positive number below 1, got 0.0"),
        (None, 2, "tolerance must be a positive number below 1, got 2"),
        (pann.Hybrid(degree=12), 1e-6, "tolerance=1e-06 chooses the sizes .* out degree"),
        (pann.Windows(windows=4, modes=8), 1e-6, "leave out windows, modes"),
        (
            pann.Hybrid(network=pann.MLP(width=8, depth=1)),
            1e-6,
            "leave out width, depth",
        ),
        (pann.Training.paper(), 1e-6, "leave out Training or tolerance"),
        (pann.Polynomial(degree=0), 1e-6, "leave out degree, or"),
    ],
)
def test_sizes_along_with_a_tolerance_are_refused(method, asked, message) -> None:
    with pytest.raises(ValueError, match=message):
        pann.solve(kdv, method, tolerance=asked)
