"""The demonstration, its picture, the progress bar and the command line."""

import io
import pathlib

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

import pann
from pann.cli import demo
from pann.cli.main import app
from pann.domain import Box
from pann.network import AxisUnits
from pann.plot.values import grid_points, ticks_along
from pann.problems import functions
from pann.runtime.limits import Progress
from pann.runtime.progress import progress_bar
from pann.training import LBFGS, PAPER, Adam, KeepIfBetter, LeastSquares, Place, Prune


@pytest.fixture
def small_demo(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "NUM_POINTS", 400)
    monkeypatch.setattr(demo, "DEGREE", 6)
    short = (Place(), LeastSquares("both"), KeepIfBetter((Adam(50),)))
    network = pann.MLP(embedding=AxisUnits(8), width=(4,))
    both = pann.Training(stages=short, degree=6, network=network)
    monkeypatch.setattr(demo, "BOTH", both)
    monkeypatch.setattr(demo, "GRADIENT", (Adam(50), Prune(1e-4), LBFGS(5)))


@pytest.mark.slow
def test_the_demonstration_compares_five_methods_and_draws_the_fit(
    small_demo: None, tmp_path: pathlib.Path
) -> None:
    written = io.StringIO()
    results = demo.run(tmp_path / "new folder", Console(file=written, width=120))
    assert [result.method.split(":")[0].split(" ")[0] for result in results] == [
        "PL",
        "L2",
        "polynomial",
        "DNN",
        "PANN",
    ]
    errors = {result.method: result.error for result in results}
    assert errors["PANN: both"] <= 1.05 * errors["polynomial by least squares"]
    picture = tmp_path / "new folder" / "demo.png"
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert str(picture) in written.getvalue().replace("\n", "")
    assert f"{errors['PANN: both']:.5f}" in written.getvalue()
    assert "Poisson's equation, degree 21: relative l2 error" in written.getvalue()


def test_a_grid_covers_the_box_and_cuts_other_axes_in_the_middle() -> None:
    box = Box(x=(0, 2), y=(-1, 1), z=(0, 4))
    grid = grid_points(box, {axis: ticks_along(box, axis, 5) for axis in "xy"})
    assert grid.shape == (25, 3)
    np.testing.assert_allclose(grid[[0, 1, -1]], [[0, -1, 2], [0, -0.5, 2], [2, 1, 2]])


def test_the_progress_bar_is_silent_off_a_terminal_and_shows_figures_on_one() -> None:
    for is_terminal in (False, True):
        written = io.StringIO()
        console = Console(file=written, force_terminal=is_terminal, width=140)
        with progress_bar("fit", console) as report:
            report(Progress("Adam", 5, 10, {"data": 0.125}))
        assert ("data 1.25e-01" in written.getvalue()) == is_terminal
        assert ("Adam" in written.getvalue()) == is_terminal


def test_the_command_line_tells_the_version_and_the_recipes() -> None:
    runner = CliRunner()
    assert runner.invoke(app, ["version"]).output.strip() == pann.__version__
    printed = runner.invoke(app, ["recipes"]).output
    assert all(repr(stage) in printed for stage in PAPER)
    assert "second order" in printed
    assert "gradient" in printed
    wrong = runner.invoke(app, ["no-such-command"])
    assert wrong.exit_code == 2


def test_targets_equal_their_formulas_at_hand_picked_points() -> None:
    points = np.array([[0.5, -0.25], [0.0, 0.3], [1.0, 1.0]])
    expected = 0.5**1.5 * np.sin(2.0) * 0.25**1.5 * np.sin(-4.0)
    np.testing.assert_allclose(
        functions.non_smooth(1.5)(points), [expected, 0.0, np.sin(1.0) ** 2], rtol=1e-14
    )
    # P10(0) = -63/256 (paper, section 4.1).
    np.testing.assert_allclose(functions.legendre_product(np.zeros((1, 2))), (63 / 256) ** 2)
    np.testing.assert_allclose(functions.frequency_mix(points[2:]), 2 + 0.7 * np.sin(20.0))
    np.testing.assert_allclose(
        functions.sine_product(np.array([[0.25, 0.5, -0.5]])), [-5 * np.pi**2]
    )
