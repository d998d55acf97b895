"""The examples of the README and of docs/choosing.md run as printed."""

import pathlib
import re

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).parents[1]


def examples_in(path: str) -> list[str]:
    text = (ROOT / path).read_text(encoding="utf-8")
    return re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)


EXAMPLES = examples_in("README.md")
CHANNEL, LAYER = examples_in("docs/choosing.md")


def run(example: str) -> dict:
    names: dict = {}
    exec(compile(example, "README.md", "exec"), names)
    return names


@pytest.mark.slow
def test_the_first_example_is_short_and_fits_its_function(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert len(EXAMPLES[0].strip().splitlines()) <= 11
    names = run(EXAMPLES[0])
    truth = np.sin(3 * names["new"][:, 0]) * names["new"][:, 1] + np.abs(names["new"][:, 0])
    assert np.max(np.abs(names["fit"](names["new"]) - truth)) < 0.05
    assert "polynomial terms" in capsys.readouterr().out


@pytest.mark.slow
def test_the_table_and_the_equation_run_as_printed(capsys: pytest.CaptureFixture[str]) -> None:
    _, table, equation = EXAMPLES
    names = run(table)
    assert names["model"].score(names["X"], names["y"]) > 0.4
    solution = run(equation)["solution"]
    assert solution.rel_l2 < 1e-9
    exact = np.sin(0.1 * np.pi) * np.sin(0.2 * np.pi)
    assert solution(x=0.1, y=0.2) == pytest.approx(exact, abs=1e-9)
    assert "relative l2 error" in capsys.readouterr().out


@pytest.mark.slow
def test_the_channel_keeps_what_is_in_it(capsys: pytest.CaptureFixture[str]) -> None:
    """What reacts away of u becomes v, and nothing passes the walls: the mean of u + v stays."""
    solution = run(CHANNEL)["solution"]
    x = np.arange(40) * 2 * np.pi / 40
    y, weights = np.polynomial.legendre.leggauss(30)
    grid = {"x": np.repeat(x, 30), "y": np.tile(y, 40)}
    means = [
        np.mean(sum(solution(t=np.full(1200, t), **grid)).reshape(40, 30) @ weights) / 2
        for t in (0.0, 0.5, 1.0)
    ]
    np.testing.assert_allclose(means[1:], means[0], rtol=1e-9)
    assert "solver constant" in capsys.readouterr().out


def test_the_layer_is_solved_at_the_points_printed() -> None:
    """u = x - (exp(-(1 - x) / eps) - exp(-1 / eps)) / (1 - exp(-1 / eps))."""
    solution = run(LAYER)["solution"]
    distance = np.array([1e-5, 1e-6, 1e-7])
    truth = 1 - distance - np.exp(-distance / 1e-6)
    np.testing.assert_allclose(solution(x=1 - distance), truth, atol=1e-10)


@pytest.mark.slow
def test_the_shapes_of_the_documentation_run_as_printed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    examples = examples_in("docs/equations.md")
    plate, integrals = (each for each in examples if "plate" in each or "integrate(" in each)
    names = run(plate)
    exec(compile(integrals, "docs/equations.md", "exec"), names)
    # What comes in on the right leaves on the left, and nothing through the hole.
    left = names["solution"].integrate(names["flux"], over="left")
    assert names["through"] == pytest.approx(-left, rel=1e-6)
    assert names["solution"].integrate(names["flux"], over="disk") == pytest.approx(0, abs=1e-6)
    assert 0.4 < names["mean"] < 0.6
    assert capsys.readouterr().out.startswith("resolved")
