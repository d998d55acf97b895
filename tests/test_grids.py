"""Grids in TOML: the rows they make, what they refuse, and that they run as printed."""

import inspect
import itertools
import json
import pathlib

import numpy as np
import pytest
from typer.testing import CliRunner

import pann
from pann.cli.grid import (
    grid_options,
    posed,
    read_grid,
    solve_options,
    solve_row,
    source_of,
)
from pann.cli.main import app
from pann.cli.sweeps import table_lines
from pann.methods import RunOptions
from pann.runs import Row, Store, sweep

EXAMPLE = pathlib.Path(__file__).parent.parent / "examples" / "sweep.toml"
POISSON = """
import pann
line = pann.Box(x=(0, 1))
problem = pann.Problem(
    line,
    residual=lambda u, x: u.xx + 2,
    conditions=[pann.Dirichlet(line.boundary, lambda x: 0 * x)],
    exact=lambda x: x * (1 - x),
)
"""


def written(folder, text, name="my grid.toml"):
    path = folder / name
    path.write_text(text)
    return path


def write_table(folder):
    x = np.linspace(-1, 1, 60)
    lines = [f"{a},{a**2},{a**3 - a}" for a in x]
    (folder / "cubic.csv").write_text("\n".join(["x,square,y", *lines]))


def invoked(*arguments):
    return CliRunner().invoke(app, ["sweep", *map(str, arguments)])


@pytest.mark.parametrize("name", ["solve", "fit"])
def test_grid_has_all_options_of_the_command_but_those_for_files(name):
    commands = {command.callback.__name__: command.callback for command in app.registered_commands}
    of_files = {"problem", "data", "out", "resume", "checkpoint_every", "tensorboard", "plot"}
    of_files |= {"dry_run", "as_json"}
    assert set(inspect.signature(commands[name]).parameters) - of_files <= set(grid_options(name))


def test_rows_are_all_combinations_in_the_order_of_the_file(tmp_path):
    text = 'solve = "Allen-Cahn"\n[fixed]\npoints = 64\n[grid]\ndegree = [4, "auto"]\n'
    text += "width = [0, [8, 4]]"
    grid = read_grid(written(tmp_path, text))
    assert grid.rows == [
        Row("my_grid", {"problem": "allen_cahn", "points": 64, "degree": degree, "width": width})
        for degree, width in itertools.product([4, "auto"], [0, [8, 4]])
    ]
    assert grid.crossed == ("degree", "width")
    same = 'solve = "allen_cahn"\nname = "my_grid"\nfixed.points = 64\n'
    same += 'grid.degree = [4, "auto", 4]\ngrid.width = [0, [8, 4]]'
    assert read_grid(written(tmp_path, same, "other.toml")).rows == grid.rows


def test_row_is_another_when_the_content_of_its_file_is(tmp_path):
    path = written(tmp_path, 'solve = "line.py"\nfixed.degree = 4\nfixed.width = 0')
    (tmp_path / "line.py").write_text(POISSON)
    (before,) = read_grid(path).rows
    assert before.configuration["problem"] == str(tmp_path / "line.py")
    (tmp_path / "line.py").write_text(POISSON.replace("+ 2", "+ 4"))
    (after,) = read_grid(path).rows
    assert before != after
    # A sweep that was begun with the one does not run the other.
    store = Store(tmp_path / "store")
    sweep([before], read_grid(path).work, store)
    assert "has changed since the sweep was started" in store.record(before)["reason"]


@pytest.mark.parametrize(
    "text, sentence",
    [
        ("solve = ", "is no TOML: "),
        ("", "either solve, a problem's name or Python file, or fit, .*; this has neither"),
        ('solve = "kdv"\nfit = "a.csv"', "this has both"),
        ('solve = "kdv"\ngird.degree = [1]', r"no key 'gird' \(did you mean grid\?\); choose from"),
        ('solve = "kdc"', r"there is no problem 'kdc' \(did you mean kdv\?\)"),
        ('solve = "none.py"', "cannot read '.*none.py': no such file or directory"),
        ('solve = "poisson"\ngrid.faithful = [false, true]', "'poisson' is posed in one way only"),
        ("solve = 3", "solve must be a text, got 3"),
        ('solve = "kdv"\nname = "a/b"', "'a/b' cannot name an experiment"),
        ('solve = "kdv"\ngrid = [1]', r"grid must be a table, \[grid\], got \[1\]"),
        (
            'solve = "kdv"\ngrid.degre = [1]',
            r"no option of pann solve 'degre' \(did you mean degree",
        ),
        ('solve = "kdv"\nfixed.target = "y"', "no option of pann solve 'target'"),
        ('solve = "kdv"\ngrid.degree = 3', r"degree in \[grid\] must be a list of values to cross"),
        ('solve = "kdv"\ngrid.degree = []', r"got \[\]; a value that all runs share belongs into"),
        ('solve = "kdv"\ngrid.degree = [3, -1]', "degree must be a whole number of at least 0, or"),
        ('solve = "kdv"\ngrid.degree = [true]', "or 'auto', .*got True"),
        ('solve = "kdv"\ngrid.width = [[8, 0]]', "one of at least 1 for each layer"),
        ('solve = "kdv"\nfixed.c = "x"', "c must be a number of at least 0, got 'x'"),
        ('solve = "kdv"\nfixed.preconditioner = 1', "preconditioner must be True or False, got 1"),
        ('solve = "kdv"\nfixed.activation = "tan"', r"no activation 'tan' \(did you mean tanh\?\)"),
        (
            'solve = "kdv"\nfixed.weighting = ["causl"]',
            r"no weighting 'causl' \(did you mean causal",
        ),
        ('solve = "kdv"\nfixed.seed = 1\ngrid.seed = [1]', r"stands in \[fixed\] and in \[grid\]"),
        (
            'solve = "kdv"\ngrid.seed = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]\n'
            + "\n".join(
                f"grid.{name} = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]"
                for name in ("degree", "depth", "points", "trials", "iterations")
            ),
            "these are 1,000,000 runs, of at most 100,000; cross fewer",
        ),
        ('fit = "cubic.csv"\ngrid.degree = [1]', "a fit needs a target; name the column"),
        ('fit = "cubic.csv"\nfixed.target = "z"', "there is no column 'z'"),
        ('fit = "cubic.csv"\nfixed.target = "y"\nfixed.test-fraction = 1', "at least 0 below 1"),
        ('fit = "none.csv"\nfixed.target = "y"', "cannot read '.*none.csv'"),
    ],
)
def test_grid_that_is_wrong_is_refused_in_one_sentence(tmp_path, text, sentence):
    write_table(tmp_path)
    path = written(tmp_path, text)
    with pytest.raises(ValueError, match=sentence) as told:
        read_grid(path)
    assert str(path) in str(told.value)
    assert "\n" not in str(told.value)


@pytest.mark.slow
def test_sweep_of_an_equation_prints_a_table_and_does_nothing_twice(tmp_path):
    (tmp_path / "line.py").write_text(POISSON)
    path = written(tmp_path, 'solve = "line.py"\nfixed.width = 0\ngrid.degree = [1, 2, 3]')
    result = invoked(path, "--store", tmp_path / "store")
    assert result.exit_code == 0, result.output
    table = result.stdout.split("\n\n")[1].splitlines()
    assert table[0].split() == [
        "degree",
        "error",
        "residual",
        "terms",
        "units",
        "seconds",
        "status",
    ]
    assert [line.split()[0] for line in table[1:]] == ["1", "2", "3"]
    # A parabola: not of degree 1, and exactly of degree 2.
    errors = [float(line.split()[1]) for line in table[1:]]
    assert errors[0] > 0.1
    assert max(errors[1:]) < 1e-12
    again = invoked(path, "--store", tmp_path / "store", "--json")
    told = [json.loads(line) for line in again.stdout.splitlines()]
    assert [each["event"] for each in told] == ["skipped"] * 3 + ["result"] * 3
    assert [each["degree"] for each in told[3:]] == [1, 2, 3]


def test_auto_is_what_an_option_does_when_it_is_left_out(tmp_path):
    write_table(tmp_path)
    for rest in ('faithful = "auto"', 'method = "auto"'):
        (row,) = read_grid(written(tmp_path, f'solve = "kdv"\n[fixed]\n{rest}')).rows
        with posed(row.configuration) as problem:
            assert problem.conditions == pann.problems.kdv().conditions
        assert solve_options(row.configuration) == (None, RunOptions())
    for rest in ('test_fraction = "auto"', 'seed = "auto"'):
        text = f'fit = "cubic.csv"\n[fixed]\ntarget = "y"\n{rest}'
        (row,) = read_grid(written(tmp_path, text)).rows
        source = source_of(row.configuration)
        assert (source.test_fraction, source.seed) == (0.1, 0)


def test_options_of_a_row_reach_the_solver(tmp_path, monkeypatch):
    given = {}

    def note(problem, method, run, **options):
        given.update(options, problem=problem.name, method=method, run=run)
        raise KeyboardInterrupt

    monkeypatch.setattr("pann.cli.grid.solve_run", note)
    text = """
        solve = "kdv"
        grid.width = [[8, 4]]
        [fixed]
        method = "paper"
        faithful = true
        degree = "auto"
        embedding = 5
        axes = "x"
        c = 0
        trials = 2
        weighting = ["gradnorm", "causal"]
    """
    (row,) = read_grid(written(tmp_path, text)).rows
    with pytest.raises(KeyboardInterrupt):
        solve_row(row.configuration, tmp_path)
    method = pann.Training.paper(
        c=0.0,
        axes=("x",),
        network=pann.MLP(width=(8, 4), embedding=pann.RandomFourier(5)),
        weighting=("gradnorm", "causal"),
    )
    assert given == {
        "problem": "kdv",
        "method": method,
        "run": RunOptions(trials=2),
        "out": tmp_path,
        "resume": True,
    }


def test_a_width_of_zero_is_no_network(tmp_path):
    text = 'solve = "poisson"\n[fixed]\ndegree = 4\n[grid]\nwidth = [0, 8]'
    rows = read_grid(written(tmp_path, text)).rows
    methods = [solve_options(row.configuration)[0] for row in rows]
    network = pann.MLP(width=8)
    assert methods == [pann.Polynomial(degree=4), pann.Hybrid(degree=4, network=network)]
    with pytest.raises(ValueError, match="width 0 is no network; leave out depth"):
        read_grid(written(tmp_path, text + "\ndepth = [2]"))
    crossed = 'solve = "poisson"\n[grid]\nmethod = ["polynomial", "hybrid"]'
    rows = read_grid(written(tmp_path, crossed)).rows
    assert [solve_options(row.configuration)[0] for row in rows] == [
        pann.Polynomial(),
        pann.Hybrid(),
    ]


@pytest.mark.slow
def test_sweep_of_a_table_tests_every_fit(tmp_path):
    write_table(tmp_path)
    text = 'fit = "cubic.csv"\n[fixed]\ntarget = "y"\ndrop = "square"\nwidth = 0\n'
    text += "[grid]\ndegree = [2, 3]"
    result = invoked(written(tmp_path, text), "--store", tmp_path / "store", "--json")
    assert result.exit_code == 0, result.output
    told = [json.loads(line) for line in result.stdout.splitlines()]
    by_degree = {each["degree"]: each for each in told if each["event"] == "result"}
    assert by_degree[2]["rmse"] > 0.05
    assert by_degree[3]["rmse"] < 1e-6


def test_dry_run_lists_the_runs_and_writes_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = invoked(EXAMPLE, "--dry-run")
    lines = result.stdout.splitlines()
    assert len(lines) == len(read_grid(EXAMPLE).rows)
    assert lines[0] == "degree 12, sampling gauss"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_example_runs_as_printed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = invoked(EXAMPLE)
    assert result.exit_code == 0, result.output
    records = Store("sweep-runs").records()
    assert len(records) == len(read_grid(EXAMPLE).rows)
    errors = {
        (record["configuration"]["degree"], record["configuration"]["sampling"]): record["figures"][
            "rel_l2"
        ]
        for record in records
    }
    for sampling in ("gauss", "sobol"):
        assert errors[24, sampling] < 1e-3 < 0.1 < errors[12, sampling]


def test_page_on_clusters_has_the_grid_of_the_example(tmp_path):
    page = (EXAMPLE.parents[1] / "docs" / "cluster.md").read_text(encoding="utf-8")
    printed = page.split("```toml\n")[1].split("```")[0]
    assert read_grid(written(tmp_path, printed, EXAMPLE.name)).rows == read_grid(EXAMPLE).rows


def test_wrong_grid_ends_the_command_with_its_sentence(tmp_path):
    result = invoked(written(tmp_path, 'solve = "kdv"\ngrid.degre = [1]'))
    assert result.exit_code == 2
    assert "did you mean degree?" in result.stderr
    assert "Traceback" not in result.output


def test_table_has_numbers_to_the_right_and_text_to_the_left():
    lines = table_lines(["name", "error"], [["tanh", 0.00123456], ["sin", None], ["relu", 12.0]])
    assert lines == ["name    error", "tanh  0.00123", "sin         -", "relu       12"]
    assert table_lines(["widths", "on"], [[[8, 4], True]]) == ["widths  on", "8,4     yes"]
