"""The command line for equations, and the pictures of solutions."""

import io
import json
import os
import pathlib
import re
import subprocess
import sys
from typing import Any, NoReturn

import jax.numpy as jnp
import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner, Result

import pann
from pann.cli import problem_files, solve
from pann.cli.main import app
from pann.methods import RunOptions
from pann.plot import solution as fields
from pann.problems import PROBLEMS
from pann.runtime import compile, progress
from pann.runtime.limits import Progress
from pann.solvers import network

SOURCE = pathlib.Path(__file__).parent.parent / "src"
GOOD = """
import jax.numpy as jnp, pann
line = pann.Box(x=(0, 1))
problem = pann.Problem.manufactured(line, lambda u: u.xx + u, lambda x: jnp.exp(x), name="mine")
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """The current folder; the configuration of JAX is left alone."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(compile, "use_compilation_cache", lambda: None)
    (tmp_path / "mine.py").write_text(GOOD, encoding="utf-8")
    return tmp_path


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def succeed(*arguments: object) -> str:
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def results(printed: str) -> list[dict[str, Any]]:
    """The last lines of `--json`, one for every trial."""
    lines = [json.loads(line) for line in printed.splitlines()]
    return [line for line in lines if line["event"] == "result"]


def check_sentence(result: Result, message: str) -> None:
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert result.stderr.startswith("pann: ")
    assert result.stderr.count("\n") == 1
    assert re.search(message, result.stderr), result.stderr


def test_list_tells_every_problem() -> None:
    shown = succeed("list")
    for name in PROBLEMS:
        assert re.search(rf"^{name} ", shown, re.MULTILINE)
    assert "x, y in [-1, 1]; solution known" in shown
    found = [json.loads(line) for line in succeed("list", "--json").splitlines()]
    assert [problem["name"] for problem in found] == list(PROBLEMS)
    fields = {problem["name"]: problem["fields"] for problem in found}
    assert fields["darcy_across_mixed"] == ["p", "q"]
    assert fields["gray_scott"] == ["u", "v"]
    domain = pann.Box(x=(0, 1), t=(0, 2), y=(0, 1), time="t", periodic="y")
    assert solve.shown_domain(domain) == ("x in [0, 1]; t in [0, 2]; y in [0, 1] periodic")


def test_solve_writes_what_it_tells(folder: pathlib.Path) -> None:
    printed = succeed(
        "solve", "poisson", "--degree", 12, "--width", 0, "--out", "new/one", "--json"
    )
    (report,) = results(printed)
    assert (report["problem"], report["trial"]) == ("poisson", 0)
    assert report["method"] == "Polynomial(degree=12)"
    assert (report["degree"], report["terms"], report["units"]) == (12, 91, 0)
    assert report["files"] == ["new/one/solution.pann", "new/one/solution.png"]
    assert report["resolved"] == (report["residual"] <= 1e-5)
    assert (folder / "new/one/solution.png").read_bytes().startswith(b"\x89PNG")
    solution = pann.load(folder / "new/one/solution.pann")
    assert solution.rel_l2 == report["rel_l2"]
    assert solution(x=1.0, y=1.0) == pytest.approx(solution.model(np.ones((1, 2)))[0])


def test_a_file_of_the_user_is_solved_and_shown(folder: pathlib.Path) -> None:
    shown = succeed("solve", "mine.py", "--degree", 14, "--width", 0, "--plot", "mine.svg")
    assert shown.startswith("mine: resolved: relative residual ")
    assert "\n  PANN(x: no network; 15 polynomial terms" in shown
    assert "written: mine.svg" in shown
    error = float(re.search(r"relative l2 error at random points: (\S+)", shown)[1])
    assert error < 1e-12
    assert "<svg" in (folder / "mine.svg").read_text()


def test_a_file_may_import_its_neighbor(folder: pathlib.Path) -> None:
    (folder / "below").mkdir()
    (folder / "below" / "pann_neighbor.py").write_text(GOOD, encoding="utf-8")
    (folder / "below" / "my.py").write_text("from pann_neighbor import problem", encoding="utf-8")
    before = list(sys.path)
    assert "mine" in succeed("solve", "below/my.py", "--dry-run")
    assert sys.path == before


@pytest.mark.parametrize(
    "name, options",
    [
        ("poisson", ("--degree", 10)),
        ("poisson", ("--degree", 6, "--points", 100, "--sampling", "uniform")),
        ("darcy_across", ("--degree", 5)),
        ("darcy_across", ("--degree", 3, "--points", 300, "--sampling", "uniform")),
        ("darcy_across_mixed", ("--degree", 5)),
    ],
)
def test_a_dry_run_tells_the_sizes_of_the_real_one(name: str, options: tuple[object, ...]) -> None:
    planned = json.loads(succeed("solve", name, *options, "--dry-run", "--json"))
    (solved,) = results(succeed("solve", name, *options, "--width", 0, "--json"))
    for key in ("degree", "terms", "points"):
        assert planned[key] == solved[key]
    assert planned["columns"] == solved["terms"] * len(planned["fields"])
    assert planned["bytes"] > 8 * planned["rows"] * planned["columns"]


def test_a_dry_run_writes_nothing(folder: pathlib.Path) -> None:
    before = set(folder.iterdir())
    shown = succeed("solve", "poisson", "--dry-run", "--out", "new", "--plot", "p.png")
    assert "degree    8, 14, 22, 32, 44, 60, until resolved; of the largest:" in shown
    assert "1,891 polynomial terms, network 24-24 if the polynomial is not enough" in shown
    assert "nothing was solved or written" in shown
    assert "windows   as many as it takes" in succeed("solve", "kdv", "--dry-run")
    assert "windows   20" in succeed("solve", "kdv", "--dry-run", "--windows", 20)
    assert "8, 14, 22, 32, 44" in succeed("solve", "kdv", "--dry-run", "--method", "hybrid")
    assert "network 8-4" in succeed("solve", "poisson", "--dry-run", "--width", "8,4")
    assert set(folder.iterdir()) == before


def test_options_reach_solve(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, object] = {}

    def look(problem: pann.Problem, method: object, run: object, **options: object) -> None:
        seen.update(options, method=method, run=run)
        raise ValueError("seen")

    monkeypatch.setattr(solve, "solve_run", look)
    check_sentence(run("solve", "poisson"), "seen")
    assert (seen["method"], seen["run"]) == (None, RunOptions())
    asked = {"--degree": 5, "--width": "8,4", "--activation": "sin", "--method": "paper"}
    asked |= {"--points": 50, "--sampling": "sobol", "--precision": "float32"}
    asked |= {"--condition-points": 40, "--trials": 3, "--embedding": 20, "--axes": "x,y"}
    asked |= {"--constraint": "H", "--weighting": "gradnorm,causal"}
    asked |= {"--out": "run", "--checkpoint-every": 5, "--seed": 9}
    flags = ("--no-preconditioner", "--gated", "--resume")
    run("solve", "poisson", *flags, *(part for pair in asked.items() for part in pair))
    assert seen["method"] == pann.Training.paper(
        degree=5,
        axes=("x", "y"),
        network=pann.MLP(
            width=(8, 4), activation="sin", gated=True, embedding=pann.RandomFourier(20)
        ),
        constraint="H",
        preconditioner=False,
        weighting=("gradnorm", "causal"),
        collocation=pann.Collocation(points=50, sampling="sobol", condition_points=40),
    )
    assert seen["run"] == RunOptions(precision="float32", trials=3, seed=9)
    assert seen["out"] == pann.Folder(pathlib.Path("run"), 5.0)
    assert seen["resume"] is True
    run("solve", "poisson", "--method", "hybrid", "--iterations", 7, "--c", 0.1, "--points", 9)
    assert seen["method"] == pann.Hybrid(
        c=0.1, iterations=7, collocation=pann.Collocation(points=9)
    )


def test_a_problem_as_the_paper_poses_it() -> None:
    asked = ("solve", "kdv", "--dry-run", "--method", "paper", "--width", 8, "--axes", "x")
    assert json.loads(succeed(*asked, "--degree", 9, "--faithful", "--json"))["terms"] == 10
    with problem_files.opened("kdv", faithful=True) as problem:
        assert problem.domain.periodic == ()
    check_sentence(run("solve", "poisson", "--faithful"), "'poisson' is posed in one way only")
    check_sentence(run("solve", "mine.py", "--faithful"), "is a file of your own")


def test_there_is_a_line_for_every_trial() -> None:
    command = ("solve", "poisson", "--degree", 4, "--width", 4, "--iterations", 2, "--trials", 2)
    lines = results(succeed(*command, "--json"))
    assert [line["trial"] for line in lines] == [0, 1]
    assert [line["seed"] for line in lines] == [0, 1]
    keys = {"problem", "method", "trial", "rel_l2", "residual", "seconds", "terms", "stop"}
    assert keys <= set(lines[0])
    shown = succeed(*command)
    assert "trial 1: residual" in shown
    assert "error over the trials: mean" in shown


def test_json_tells_of_progress_as_it_goes() -> None:
    command = ("solve", "poisson", "--degree", 4, "--width", 4, "--iterations", 3, "--json")
    told = [json.loads(line) for line in succeed(*command).splitlines()]
    steps = [line for line in told if line["event"] == "progress"]
    assert told[len(steps) :] == [line for line in told if line["event"] == "result"]
    assert (steps[0]["what"], steps[0]["step"], steps[0]["steps"]) == ("degree 4", 1, 1)
    assert set(steps[0]["figures"]) == {"fresh residual", "error"}
    network = [line for line in steps if line["what"] == "network"]
    assert network[-1]["steps"] == 3
    assert all(line["figures"]["fresh residual"] > 0 for line in network)


def test_progress_is_drawn_on_terminals_alone() -> None:
    for is_terminal in (False, True):
        written = io.StringIO()
        console = Console(file=written, force_terminal=is_terminal, width=100)
        with progress.progress_bar("kdv", console) as report:
            for step in (500, 1000):
                report(Progress("Adam", step, 2000, {"residual": 0.25, "error": 0.125}))
        assert bool(written.getvalue()) == is_terminal
        if is_terminal:
            for part in (
                "kdv: Adam",
                "1,000/2,000",
                "steps/s",
                "residual 2.50e-01",
                "error 1.25e-01",
            ):
                assert part in written.getvalue()


def test_scalars_for_tensorboard_can_be_read_back(folder: pathlib.Path) -> None:
    pytest.importorskip("tensorboardX")
    from tensorboardX.proto.event_pb2 import Event

    with progress.tensorboard(folder / "scalars") as report:
        report(Progress("Adam", 500, 2000, {"fresh residual": 0.25}))
        report(Progress("Adam", 1000, 2000, {"fresh residual": 0.125}))
    (file,) = (folder / "scalars").iterdir()
    content, events = file.read_bytes(), []
    while content:
        # A record is its length, a checksum, the event, and a checksum.
        length = int.from_bytes(content[:8], "little")
        events.append(Event.FromString(content[12 : 12 + length]))
        content = content[16 + length :]
    found = [
        (value.tag, event.step, value.simple_value)
        for event in events
        for value in event.summary.value
    ]
    assert found == [("Adam/fresh_residual", 500, 0.25), ("Adam/fresh_residual", 1000, 0.125)]


def test_tensorboard_without_its_package_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    result = run("solve", "poisson", "--degree", 3, "--tensorboard", "scalars")
    assert result.exit_code == 2
    assert "install pann[tensorboard]" in result.stderr


def test_interrupted_from_the_shell_it_goes_on_from_the_shell(
    folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ("solve", "poisson", "--degree", 4, "--width", 4, "--iterations", 5, "--out", "run")

    def stop(*_: object, **__: object) -> NoReturn:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(network, "_complementary", stop)
        stopped = run(*command)
    assert stopped.exit_code == 130
    assert (
        stopped.stderr
        == "pann: stopped; with --out DIR the work so far is kept, and --resume continues it\n"
    )
    refused = run(*command)
    assert refused.exit_code == 2
    assert "resume=True (--resume)" in refused.stderr
    assert "another folder" in run(*command, "--resume", "--seed", 1).stderr
    succeed(*command, "--resume")
    assert sorted(path.name for path in (folder / "run").iterdir()) == [
        "checkpoint.pann",
        "log.txt",
        "solution.pann",
        "solution.png",
    ]


# ---- What does not work ----


WRONG = {
    "name": (["poison"], "no problem 'poison' .did you mean poisson"),
    "no file": (["none.py"], "there is no file 'none.py'; it should define problem"),
    "degree": (
        ["poisson", "--degree", "-1"],
        "--degree must be a whole number of at least 0, or 'auto'",
    ),
    "width": (
        ["poisson", "--width", "8,x"],
        "--width must be .* one of at least 1 for each layer, got '8,x'",
    ),
    "activation": (["poisson", "--activation", "tan"], "no activation 'tan' .did you mean tanh"),
    "too rough": (["poisson", "--activation", "relu", "--width", "4"], "order 2"),
    "sampling": (
        ["poisson", "--points", "9", "--sampling", "sobl"],
        "no sampling 'sobl' .did you mean sobol",
    ),
    "sampling alone": (["poisson", "--sampling", "sobol"], "give that number, points=1000"),
    "points": (["poisson", "--points", "50", "--sampling", "gauss"], "use num_points=49"),
    "precision": (["poisson", "--precision", "float16"], "no precision 'float16'"),
    "out is a file": (["poisson", "--out", "mine.py"], "'mine.py' is a file"),
    "no place": (["poisson", "--out", "/proc/new"], "cannot write to the folder '/proc/new'"),
    "picture": (["poisson", "--plot", "a.doc"], "a picture ends in .*.png, .*got 'a.doc'"),
    "picture's folder": (["poisson", "--plot", "no/a.png"], "there is no folder 'no'"),
}


@pytest.mark.parametrize("arguments, message", WRONG.values(), ids=WRONG)
def test_a_wrong_command_is_one_sentence(
    arguments: list[str], message: str, folder: pathlib.Path
) -> None:
    before = set(folder.iterdir())
    check_sentence(run("solve", *arguments), message)
    assert set(folder.iterdir()) == before


WRONG_FILES = {
    "syntax": ("x = 1\nproblem = (\n", "line 2 of 'wrong.py': SyntaxError: '\\(' was never"),
    "name": ("\n\nproblem = nothing\n", "line 3 of 'wrong.py': NameError: name 'nothing'"),
    "nothing": ("x = 1\n", "'wrong.py' defines no problem; write problem = pann.Problem"),
    "another thing": ("problem = 3\n", "'wrong.py' has a problem that is a int"),
    "box": ("import pann\npann.Box(x=(1, 0))", "line 2 of 'wrong.py': ValueError: axis 'x'"),
    "exit": ("import sys\nsys.exit()", "line 2 of 'wrong.py': SystemExit\n"),
    "residual": (
        GOOD + "def residual(u, x):\n    return u.xx + missing\n"
        "problem = pann.Problem(line, residual, [pann.Dirichlet(line.boundary, 0.0)])",
        "line 6 of 'wrong.py': NameError: name 'missing'",
    ),
    "value": (
        GOOD + "def value(x):\n    return [][2]\n"
        "problem = pann.Problem(line, lambda u: u.xx, [pann.Dirichlet(line.boundary, value)])",
        "line 6 of 'wrong.py': IndexError: list index",
    ),
    "no conditions": (GOOD + "problem = pann.Problem(line, lambda u: u.xx)", "has no conditions"),
}


@pytest.mark.parametrize("text, message", WRONG_FILES.values(), ids=WRONG_FILES)
def test_an_error_in_the_file_is_one_sentence_with_its_line(
    text: str, message: str, folder: pathlib.Path
) -> None:
    (folder / "wrong.py").write_text(text, encoding="utf-8")
    check_sentence(run("solve", "wrong.py", "--degree", 4, "--width", 0), message)


def test_a_bug_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("bug")

    monkeypatch.setattr(solve, "solve_run", fail)
    for name in ("poisson", "mine.py"):
        assert isinstance(run("solve", name).exception, RuntimeError)


# ---- Real processes ----


def in_shell(cache: pathlib.Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "OPENBLAS_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, "-m", "pann", *arguments],
        env=environment | {"PANN_CACHE": str(cache)},
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.mark.slow
def test_a_process_keeps_its_programs_on_disk(folder: pathlib.Path) -> None:
    arguments = ("solve", "mine.py", "--degree", "6", "--width", "0", "--json")
    first = in_shell(folder / "cache", *arguments)
    assert (first.returncode, first.stderr) == (0, "")
    kept = {path.name for path in (folder / "cache" / "xla").iterdir()}
    assert len(kept) > 5
    second = in_shell(folder / "cache", *arguments)
    assert {path.name for path in (folder / "cache" / "xla").iterdir()} == kept
    errors = [results(done.stdout)[0]["rel_l2"] for done in (first, second)]
    assert errors[0] == errors[1]


def test_a_cache_that_cannot_be_written_does_no_harm(
    folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    monkeypatch.setenv("PANN_CACHE", str(folder / "mine.py"))
    assert compile.use_compilation_cache() is None


# ---- Pictures ----


def titles(figure: object) -> list[str]:
    return [panel.get_title() for panel in figure.axes if panel.get_title()]


def solved(
    domain: pann.Box, exact: object, method: object = pann.Polynomial(degree=4)
) -> pann.Solution:
    laplacian = lambda u: sum((u.d(**{name: 2}) for name in domain.names), 0.0)
    problem = pann.Problem.manufactured(domain, laplacian, exact)
    return pann.solve(problem, method)


def test_a_line_shows_solution_and_error(folder: pathlib.Path) -> None:
    solution = solved(pann.Box(x=(0, 2)), lambda x: jnp.exp(x))
    figure = solution.plot(folder / "line.png")
    assert titles(figure) == ["solution", "|error|", "convergence"]
    assert (folder / "line.png").read_bytes().startswith(b"\x89PNG")
    assert figure.axes[0].get_xlabel() == "x"
    curves = {line.get_label(): line.get_ydata() for line in figure.axes[0].lines}
    np.testing.assert_allclose(curves["exact"], np.exp(np.linspace(0, 2, 801)))
    np.testing.assert_allclose(curves["solution"], curves["exact"], atol=0.05)


def test_a_map_has_the_first_axis_across_and_its_values(folder: pathlib.Path) -> None:
    solution = solved(pann.Box(x=(-1, 1), y=(0, 1)), lambda x, y: x + 3 * y)
    figure = solution.plot()
    (image,) = figure.axes[0].images
    assert image.get_extent() == [-1, 1, 0, 1]
    values = np.asarray(image.get_array())
    corners = values[0, 0], values[0, -1], values[-1, 0], values[-1, -1]
    np.testing.assert_allclose(corners, [-1, 1, 2, 4], atol=1e-10)
    assert (figure.axes[0].get_xlabel(), figure.axes[0].get_ylabel()) == ("x", "y")
    # Without its problem a solution has no error to show.
    solution.save(folder / "map.pann")
    assert "|error|" not in titles(pann.load(folder / "map.pann").plot())


def test_beyond_two_dimensions_the_middle_is_cut() -> None:
    solution = solved(
        pann.Box(x=(0, 1), y=(0, 1), z=(0, 4)), lambda x, y, z: x * y + z, pann.Polynomial(degree=2)
    )
    figure = solution.plot()
    assert "slice at z = 2" in figure.get_suptitle()
    values = np.asarray(figure.axes[0].images[0].get_array())
    np.testing.assert_allclose([values[0, 0], values[-1, -1]], [2, 3], atol=1e-10)


def test_each_field_has_its_row_and_a_network_its_half() -> None:
    across = pann.solve(pann.problems.darcy_across_mixed(), pann.Polynomial(degree=4))
    assert titles(across.plot()) == [
        "p: solution",
        "p: |error|",
        "q: solution",
        "q: |error|",
        "convergence",
    ]
    both = pann.Hybrid(
        degree=6,
        network=pann.MLP(width=6, depth=1),
        collocation=pann.Collocation(points=200),
    )
    layer = solved(pann.Box(x=(-1, 1)), lambda x: jnp.tanh(20 * x), both)
    assert layer.model.num_units == 6
    curves = {line.get_label(): line.get_ydata() for line in layer.plot().axes[0].lines}
    assert list(curves) == ["exact", "solution", "polynomial half", "network half"]
    np.testing.assert_allclose(
        curves["polynomial half"] + curves["network half"], curves["solution"], atol=1e-12
    )


def test_extreme_values_leave_the_rest_its_color() -> None:
    values = np.sin(np.linspace(0, 30, 1000))
    values[0] = 1000.0
    colors, extend = fields.field_colors(values)
    assert (colors["vmax"], extend) == (pytest.approx(1.0, rel=1e-3), "both")
    colors, extend = fields.field_colors(np.full(10, 3.0) + 1e-15)
    assert colors["vmax"] - colors["vmin"] > 1e-6


def test_info_tells_what_a_solution_is_and_predict_refuses_it(folder):
    succeed("solve", "mine.py", "--degree", 8, "--width", 0, "--out", "here")
    assert "the solution of an equation" in succeed("info", "here/solution.pann")
    told = json.loads(succeed("info", "here/solution.pann", "--json"))
    assert told["kind"] == "solution"
    assert told["axes"] == {"x": [0.0, 1.0]}
    (folder / "new.csv").write_text("x\n1\n2\n", encoding="utf-8")
    result = run("predict", "here/solution.pann", "new.csv")
    check_sentence(result, "holds the solution of an equation, not a model of a table")
