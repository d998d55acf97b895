"""The paper's experiments: rows that cover its tables, runs at the smallest size, comparisons."""

import ast
import importlib
import itertools
import json
import pathlib

import numpy as np
import pytest
from typer.testing import CliRunner, Result

import pann
import reproduction
from pann.pde import Periodic
from pann.problems import PROBLEMS
from pann.runs import Result as RunResult
from pann.runs import Row, Store, fields_of, halves_of, history_of, sweep
from pann.training import LBFGS, PAPER_EQUATIONS, Adam, Prune
from reproduction import equations, methods, published, readings, spectra
from reproduction.cells import Measured
from reproduction.cli import app
from reproduction.comparison import FORMATS, Table, compare, summarize
from reproduction.degrees import degree_of
from reproduction.experiments import EXPERIMENTS, MODES, SIZES, experiment_named


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [*(str(argument) for argument in arguments)])


# ---- What the paper's code uses of the library ----

# Everything else of `pann` may change without a word.
PUBLIC = {
    "pann",
    "pann.baselines",
    "pann.basis",
    "pann.cli",
    "pann.io",
    "pann.methods",
    "pann.model",
    "pann.network",
    "pann.pde",
    "pann.plot",
    "pann.points",
    "pann.problems",
    "pann.problems.functions",
    "pann.regression",
    "pann.report",
    "pann.report.charts",
    "pann.report.page",
    "pann.report.runs",
    "pann.report.texts",
    "pann.report.writing",
    "pann.runs",
    "pann.runtime",
    "pann.solvers",
    "pann.training",
}


def not_public(source: str) -> list[str]:
    """Names of `pann` that a source imports, though they are deep or private."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [each.name for each in node.names if each.name.split(".")[0] == "pann"]
            found += [name for name in names if name not in PUBLIC]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "pann":
            module = importlib.import_module(node.module) if node.module in PUBLIC else None
            known = getattr(module, "__all__", None)
            for name in (each.name for each in node.names):
                is_known = known is None or name in known or f"{node.module}.{name}" in PUBLIC
                if module is None or not is_known or name.startswith("_"):
                    found.append(f"{node.module}.{name}")
    return found


@pytest.mark.parametrize(
    "path", sorted(pathlib.Path(reproduction.__file__).parent.rglob("*.py")), ids=lambda p: p.stem
)
def test_only_public_names_of_the_library_are_imported(path: pathlib.Path) -> None:
    assert not_public(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "source",
    [
        "import pann.solvers.plan",
        "from pann.solvers.plan import make_plan",
        "from pann.solvers import plan",
        "from pann.runs import _store",
        "def f():\n    from pann.cli.terminal import plainly",
    ],
)
def test_a_deep_or_private_import_is_found(source: str) -> None:
    assert len(not_public(source)) == 1


# ---- Rows ----


@pytest.mark.parametrize("name", equations.NAMES)
def test_every_published_cell_of_an_equation_has_its_row(name: str) -> None:
    rows = experiment_named(name).rows("full", "faithful", None)
    cells = {tuple(str(row.configuration.get(key, "")) for key in equations.CELL) for row in rows}
    printed = published.load(name)
    for record in printed.to_dict("records"):
        wanted = tuple(
            "" if published.is_missing(record[key]) else str(record[key]) for key in equations.CELL
        )
        assert wanted in cells
    # A row of ours has all fields: u and v of Grey-Scott are two cells.
    assert len(rows) * printed["field"].nunique() == len(printed)
    assert all(row.configuration["trials"] == 5 for row in rows)
    assert all(row.configuration["adam_steps"] == 100_000 for row in rows)


def test_rows_differ_by_size_mode_and_trials() -> None:
    for name in ("alpha", "kdv", "darcy"):
        experiment = experiment_named(name)
        sizes = [set(experiment.rows(size, "faithful", None)) for size in SIZES]
        assert all(sizes)
        assert len(set.union(*sizes)) == sum(map(len, sizes))
        assert not sizes[1] & set(experiment.rows("quick", "default", None))
        many = experiment.rows("quick", "faithful", 7)
        assert len(many) == len(sizes[1])
        assert all(row.configuration["trials"] == 7 for row in many)


@pytest.mark.parametrize("name", equations.NAMES)
def test_the_quick_size_has_every_network_and_no_run_twice(name: str) -> None:
    """With few points both c may be one degree, and then one of them is enough."""
    quick, full = (
        [row.configuration for row in experiment_named(name).rows(size, "faithful", None)]
        for size in ("quick", "full")
    )
    which = ("sampling", "model", "base", "width", "depth")
    cell = lambda row: tuple(row.get(key) for key in which)
    assert {cell(row) for row in quick} == {cell(row) for row in full}
    degree = lambda row: degree_of(name, row["c"], row["num_points"]) if "c" in row else None
    assert len({(*cell(row), degree(row)) for row in quick}) == len(quick)
    wanted = {(*cell(row), degree(row | {"num_points": quick[0]["num_points"]})) for row in full}
    assert len(quick) == len(wanted)


def test_lbfgs_is_as_long_as_measured_at_full_size() -> None:
    """As `Training.paper()` where the published polynomials say so, else 400 iterations."""
    (paper,) = (stage for stage in PAPER_EQUATIONS if isinstance(stage, LBFGS))
    lengths = {}
    for name in (*equations.NAMES, "equal_cost", "darcy", "landscape"):
        for row in experiment_named(name).rows("full", "faithful", None):
            (lbfgs,) = (
                stage
                for stage in methods.equation_options(row.configuration)["method"].stages
                if isinstance(stage, LBFGS)
            )
            lengths.setdefault(name, set()).add((lbfgs.iterations, lbfgs.memory))
    long = {(paper.iterations, paper.memory)}
    assert {name for name, found in lengths.items() if found == long} == {
        "poisson",
        "allen_cahn",
        "equal_cost",
        "darcy",
        "landscape",
    }
    assert lengths["kdv"] == lengths["ks"] == lengths["gray_scott"] == {(400, 50)}


def test_degrees_of_rows_follow_the_papers_rule() -> None:
    for name in ("reproduction", "non_smooth"):
        for row in experiment_named(name).rows("full", "faithful", None):
            told = row.configuration
            if "c" in told:
                assert told["degree"] == degree_of(name, told["c"], told["num_points"])


def test_the_recipes_are_those_of_the_paper() -> None:
    steps = {"adam_steps": 100_000, "lbfgs_iterations": 400}
    adam, first, lbfgs, second = methods.equation_recipe(steps)
    assert isinstance(adam, Adam)
    assert isinstance(lbfgs, LBFGS)
    assert (adam.steps, adam.rate.value, adam.rate.every) == (100_000, 1e-3, 2_000)
    assert lbfgs.iterations == 400
    assert first == second == Prune(1e-4)
    steps = {"adam_steps": 20_000, "lbfgs_iterations": 400, "method": "DNN"}
    adam, *rest = methods.regression_recipe(steps)
    assert adam.steps == 20_000
    assert rest == [LBFGS(400, record_every=20)]


# ---- Runs ----


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    ["basis_sizes", "darcy", "kdv", "frequency", "conventional_non_smooth"],
)
def test_an_experiment_runs_at_the_smallest_size(name: str, tmp_path: pathlib.Path) -> None:
    experiment, store = experiment_named(name), Store(tmp_path)
    rows = [row for mode in MODES for row in experiment.rows("smoke", mode, None)[:2]]
    summary = sweep(rows, experiment.work, store)
    reasons = [record.get("reason") for record in store.records()]
    assert (summary.done, summary.failed) == (len(rows), 0), reasons
    for row in rows:
        figures = store.record(row)["figures"]
        errors = figures.get("errors") or [figures["num_terms"]]
        of_fields = errors.values() if isinstance(errors, dict) else [errors]
        for each in of_fields:
            assert len(each) == 1
            assert each[0] > 0
    assert sweep(rows, experiment.work, store).skipped == len(rows)
    table = compare(experiment, store, "smoke")
    assert len(table.lines) >= 1


def test_counts_of_terms_are_the_published_ones_but_for_a_misprint(tmp_path: pathlib.Path) -> None:
    experiment, store = experiment_named("basis_sizes"), Store(tmp_path)
    sweep(experiment.rows("full", "faithful", None), experiment.work, store)
    table = compare(experiment, store)
    at = {name: number for number, name in enumerate(table.columns)}
    differing = {
        line[at["published"]]: line[at["faithful"]]
        for line in table.lines
        if line[at["published"]].rstrip("?") != line[at["faithful"]]
    }
    assert differing == {"792?": "729"}
    assert len(table.lines) == 15


def test_energies_of_a_polynomial_lie_at_its_degrees() -> None:
    """x y and P2(x), under the uniform probability measure of [-1, 1]^2."""
    both = lambda x: np.stack([x[:, 0] * x[:, 1], 1.5 * x[:, 0] ** 2 - 0.5], axis=-1)
    energies = spectra.legendre_energies(both)
    np.testing.assert_allclose(energies[2], [1 / 9, 1 / 5], rtol=1e-12)
    np.testing.assert_allclose(energies.sum(axis=0), [1 / 9, 1 / 5], rtol=1e-12)


def test_a_half_that_was_pruned_to_zero_has_no_fractions_of_energy():
    fractions = spectra.energy_fractions(np.array([[3.0, 0.0], [1.0, 0.0]]))
    np.testing.assert_array_equal(fractions, [[0.75, 0.0], [0.25, 0.0]])


# ---- What runs keep ----


def test_a_run_keeps_its_solution_on_a_grid() -> None:
    """The last moment of u_t = x y^2 from zero; with one axis of space, time goes to the right."""
    box = pann.Box(x=(0, 2), y=(-1, 1), t=(0, 3), time="t")
    exact = lambda x, y, t: t * x * y**2
    problem = pann.Problem(box, lambda u, x, y, t: u.t - x * y**2, [pann.Initial(0.0)], exact=exact)
    arrays = fields_of(pann.solve(problem, pann.Polynomial(degree=4)))
    assert set(arrays) == {"axis_1_x", "axis_2_y", "u"}
    x, y = arrays["axis_1_x"][:, None], arrays["axis_2_y"]
    np.testing.assert_allclose(arrays["u"], 3 * x * y**2, atol=1e-5)
    line = pann.Box(x=(0, 1), t=(0, 1), time="t")
    advected = pann.Problem(line, lambda u, x, t: u.t - x, [pann.Initial(0.0)])
    assert {"axis_1_t", "axis_2_x"} <= set(
        fields_of(pann.solve(advected, pann.Polynomial(degree=2)))
    )


def test_a_fit_keeps_its_halves_and_its_curves() -> None:
    box = pann.Box(x=(-1, 1), y=(0, 1))
    points = np.random.default_rng(0).uniform([-1, 0], [1, 1], (80, 2))
    recipe = (Adam(20, record_every=5), Prune(1e-9), Adam(10, record_every=5))
    values = np.abs(points[:, 0]) + points[:, 1]
    fitted = pann.fit(
        points,
        values,
        pann.Training(stages=recipe, degree=2, network=pann.MLP(width=5, depth=1)),
        domain=box,
    )
    arrays = halves_of(fitted.model, box)
    np.testing.assert_allclose(arrays["u"], arrays["u_network"] + arrays["u_polynomial"], atol=1e-5)
    corner = fitted.model([[arrays["axis_1_x"][-1], arrays["axis_2_y"][0]]])
    np.testing.assert_allclose(arrays["u"][-1, 0], corner[0], rtol=1e-5)
    history = history_of(fitted)
    assert history["step"][-1] == 30
    assert history["step"] == sorted(history["step"])
    last = fitted.outcomes[-1].history["data"][0, -1]
    assert history["data"][-1] == pytest.approx(float(last))


# ---- Comparisons ----


def fake(configuration: dict, scratch: pathlib.Path) -> RunResult:
    """Twice the published error for a row of the faithful mode, a tenth by default."""
    if configuration["mode"] == "default":
        return RunResult({"errors": {"u": [0.01]}})
    return RunResult({"errors": {"u": [0.788, 0.788 * 2]}})


def test_an_interrupted_run_took_all_its_seconds() -> None:
    record = {"seconds": 6.0, "figures": {"solve_seconds": 440.0}}
    assert Measured(record, [0.1]).seconds == 440.0
    assert Measured(record | {"figures": {}}, [0.1]).seconds == 6.0
    # Of rows that ran as one, each has its share.
    assert Measured(record | {"together": 2}, [0.1]).seconds == 6.0


def test_figures_stand_beside_those_of_the_same_cell(tmp_path: pathlib.Path) -> None:
    experiment, store = experiment_named("table-kdv"), Store(tmp_path)
    with pytest.raises(ValueError, match="no finished row of 'kdv' at size full; run it first"):
        compare(experiment, store)
    cell = {"model": "PINN", "base": "plain", "width": 100, "num_points": 16_384}
    rows = [
        row
        for row in experiment.rows("full", "faithful", None)
        if cell.items() <= row.configuration.items()
        and row.configuration["sampling"] == "equispaced"
        and row.configuration["depth"] == 3
    ]
    assert len(rows) == 1
    sweep([*rows, *experiment.rows("full", "default", None)], fake, store)
    table = compare(experiment, store)
    (line,) = table.lines
    told = dict(zip(table.columns, line, strict=False))
    # Published: 0.394 (0.18) in 792 s; ours (0.788 + 1.576) / 2.
    assert told["published"] == "3.94e-01 (1.8e-01)"
    assert told["faithful"] == "1.18e+00 (3.9e-01)"
    assert told["default"] == "1.00e-02"
    assert told["s"] == "792"
    ratios = [text for name, text in zip(table.columns, line, strict=True) if name == "ratio"]
    assert ratios == ["3", "0.025"]
    summary = summarize(store, "full")
    (of_kdv,) = (line for line in summary.lines if line[0] == "kdv")
    of_all = dict(zip(summary.columns, of_kdv, strict=True))
    # Three times the published error, above two deviations; the best one printed is 0.101.
    expected = {"rows": "137", "done": "2", "cells compared": "1", "reached": "0", "below": "0"}
    assert expected.items() <= of_all.items()
    assert of_all["median ratio"] == "3"
    assert of_all["best default / best published"] == "0.099"
    printed = run("summary", "--format", "csv", "--store", tmp_path).stdout.splitlines()
    assert printed[0].split(",") == list(summary.columns)
    assert "kdv,137,2,1,0,0,3,0.099" in printed
    with pytest.raises(ValueError, match="no finished row of 'kdv' at size smoke"):
        compare(experiment, Store(tmp_path), "smoke")


def test_tables_are_written_in_four_forms() -> None:
    table = Table("errors", ("model", "num_points", "ours"), (("PANN", "256", "1%"),))
    text, markdown, latex, comma_separated = (table.formatted(form) for form in FORMATS)
    assert text.splitlines()[-1].split() == ["PANN", "256", "1%"]
    assert markdown.splitlines()[2:] == [
        "| model | num_points | ours |",
        "| ----- | ---------- | ---- |",
        "| PANN  | 256        | 1%   |",
    ]
    assert r"PANN & 256 & 1\% \\" in latex
    assert r"num\_points" in latex
    assert comma_separated == "model,num_points,ours\nPANN,256,1%"
    with pytest.raises(ValueError, match=r"a table is one of text, .*, csv, got 'html'"):
        table.formatted("html")


# ---- The command line ----


def test_the_list_has_every_experiment() -> None:
    listed = [json.loads(line) for line in run("list", "--json").stdout.splitlines()]
    assert [each["name"] for each in listed] == [each.name for each in EXPERIMENTS]
    counts = {each["name"]: each["rows"]["full faithful"] for each in listed}
    assert (counts["kdv"], counts["gray_scott"]) == (136, 51)
    assert "gray_scott" in run("list").stdout


def test_both_spellings_of_gray_scott_are_the_rows_of_the_paper(tmp_path: pathlib.Path) -> None:
    """Records are found by a hash that has the paper's spelling, Grey-Scott."""
    experiment = experiment_named("grey-scott")
    assert experiment == experiment_named("gray_scott")
    for size, mode in itertools.product(SIZES, MODES):
        for row in experiment.rows(size, mode, None):
            assert (row.experiment, row.configuration["problem"]) == ("grey_scott", "grey_scott")
    assert published.load("grey_scott").equals(published.load("gray_scott"))
    arguments = ("--size", "full", "--mode", "faithful", "--store", tmp_path, "--json")
    gray, grey = (
        run("status", "readings", f"--only=problem={name}", *arguments).stdout
        for name in ("gray_scott", "grey_scott")
    )
    assert gray == grey
    assert json.loads(gray)["missing"] > 0


def test_status_counts_what_is_missing_and_wrong_names_are_a_sentence(
    tmp_path: pathlib.Path,
) -> None:
    store = ("--store", tmp_path / "new")
    (told,) = run("status", "poisson", "--mode", "faithful", *store, "--json").stdout.splitlines()
    assert json.loads(told) == {"name": "poisson", "done": 0, "failed": 0, "missing": 3}
    for arguments, message in (
        (("run", "poison"), "no experiment 'poison' (did you mean poisson?)"),
        (("run", "poisson", "--size", "tiny"), "no size 'tiny'"),
        (("run", "poisson", "--mode", "faitful"), "no mode 'faitful' (did you mean faithful?)"),
        (("run", "poisson", "--shard", "5/4"), "shard"),
        (("run", "poisson", "--only", "width"), "--only takes name=value"),
        (("run", "poisson", "--only", "wide=50"), "--only takes name=value"),
        (("run", "poisson", "--only", "width=51"), "no row has width=51; there are 0, 6"),
        (("table", "poisson"), "no finished row of 'poisson'"),
        (("table", "poisson", "--format", "html"), "no finished row"),
    ):
        result = run(*arguments, *store)
        assert result.exit_code == 2, result.output
        assert message in result.stderr
        assert result.stderr.count("\n") == 1


def test_only_some_rows_are_chosen(tmp_path: pathlib.Path) -> None:
    wishes = [f"--only={wish}" for wish in ("sampling=equispaced", "num_points=256", "c=0.003")]
    arguments = ("--size", "full", "--mode", "faithful", *wishes, "--store", tmp_path, "--json")
    (told,) = run("status", "poisson", *arguments).stdout.splitlines()
    rows = experiment_named("poisson").rows("full", "faithful", None)
    expected = sum(
        (each["sampling"], each["num_points"], each.get("c")) == ("equispaced", 256, 0.003)
        for each in (row.configuration for row in rows)
    )
    assert json.loads(told)["missing"] == expected > 1


def test_a_table_has_rows_as_they_are_defined_now(tmp_path: pathlib.Path) -> None:
    """A record of an earlier definition stays in the store, and is not shown."""
    experiment, store = experiment_named("poisson"), Store(tmp_path)
    new = experiment.rows("full", "faithful", None)[0]
    told = {name: new.configuration[name] for name in new.configuration if name != "lbfgs_memory"}
    sweep([Row("poisson", told | {"lbfgs_iterations": 400})], fake, store)
    with pytest.raises(ValueError, match="no finished row of 'poisson' at size full"):
        compare(experiment, store)
    sweep([new], fake, store)
    assert len(store.records()) == 2
    table = compare(experiment, store)
    assert len(table.lines) == 1
    assert "lbfgs_memory" not in table.columns
    (of_poisson,) = (line for line in summarize(store, "full").lines if line[0] == "poisson")
    assert of_poisson[2] == "1"


def test_readings_are_called_by_the_iterations_that_they_make() -> None:
    called = {
        size: {
            readings.shown_reading(row.configuration): row.configuration["lbfgs_iterations"]
            for row in experiment_named("readings").rows(size, "faithful", None)
        }
        for size in ("quick", "full")
    }
    assert "as decided" not in called["full"].keys() | called["quick"].keys()
    for found in called.values():
        counts = {name: made for name, made in found.items() if "L-BFGS iterations" in name}
        assert len(counts) >= 2
        assert all(f"{made:,} L-BFGS iterations" in name for name, made in counts.items())
    long = [
        (row["problem"], row["model"], row["num_points"])
        for row in (r.configuration for r in readings.rows("full", "faithful"))
        if row["reading"] == "8,000 L-BFGS iterations, history 100"
    ]
    for problem, model in itertools.product(("kdv", "ks"), ("PINN", "PANN")):
        assert (problem, model, published.load(problem)["num_points"].max()) in long


def test_readings_change_one_decision_each() -> None:
    rows = [row.configuration for row in experiment_named("readings").rows("full", "faithful", 1)]
    rows = [row for row in rows if row["reading"] not in readings.STEADY]
    cell = lambda row: (row["problem"], row["model"], row["sampling"])
    decided = {cell(row): row for row in rows if row["reading"] == readings.BASE}
    assert len(decided) == 14
    for row in rows:
        base = decided[cell(row)]
        changed = {name for name in row if row.get(name) != base.get(name)} - {"reading"}
        if row["reading"] == "L-BFGS to convergence":
            assert changed == {"precision", *(name for name in row if name.startswith("lbfgs"))}
        else:
            assert len(changed) == len(readings.READINGS[row["reading"]])


def test_pairs_of_readings_reach_the_conditions_and_their_weight() -> None:
    pairs = [
        row.configuration
        for row in readings.rows("full", "faithful", 1)
        if row.configuration["reading"] in readings.PAIRS
    ]
    assert len(pairs) == 2 * 2 * 8
    for row in pairs:
        problem = equations.problem_of(row)
        orders = {each.order for each in problem.conditions if isinstance(each, Periodic)}
        assert orders == {row["periodic_order"]}
        weight = methods.equation_options(row)["method"].collocation.condition_weight
        assert weight == row.get("condition_weight")
        tied = {order: name for name, order in readings.TIED.items()}[row["periodic_order"]]
        assert row["reading"].startswith(f"{tied} tied, ")
    usual = PROBLEMS["kdv"](faithful=True).conditions
    assert [each.order for each in usual if isinstance(each, Periodic)] == [2]


def test_weights_of_steady_equations_are_asked_at_cells_of_their_tables() -> None:
    rows = [row.configuration for row in readings.rows("full", "faithful", 1)]
    rows = [row for row in rows if row["reading"] in readings.STEADY]
    assert len(rows) == 2 * 2 * 2 * len(readings.STEADY)
    for row in rows:
        method = methods.equation_options(row)["method"]
        assert method.collocation.condition_weight == row.get("condition_weight")
        weight = float(row["reading"].split(", ")[0].removeprefix("lambda = "))
        assert row.get("condition_weight", 1.0) ** -2 == pytest.approx(weight)
        printed = published.load(row["problem"])
        cell = ("model", "sampling", "base", "width", "depth", "num_points")
        assert (printed[list(cell)] == [row[name] for name in cell]).all(axis=1).any()


def test_a_reading_reaches_the_problem_and_the_recipe() -> None:
    problem = equations.shortened(PROBLEMS["kdv"](faithful=True), 0.5)
    assert dict(zip(problem.domain.names, problem.domain.upper, strict=True)) == {"x": 1, "t": 0.5}
    steps = {"adam_steps": 100, "lbfgs_iterations": 20, "signed": True}
    stages = methods.equation_recipe(steps)
    assert [stage.signed for stage in stages if isinstance(stage, Prune)] == [True, True]
    row = next(
        row.configuration
        for row in experiment_named("readings").rows("full", "faithful", 1)
        if row.configuration["reading"] == "L-BFGS to convergence"
    )
    lbfgs = methods.equation_options(row)["method"].stages[-1]
    assert (lbfgs.iterations, lbfgs.memory, lbfgs.tolerance) == (8_000, 100, 1e-7)
    row = next(
        row.configuration
        for row in experiment_named("readings").rows("full", "faithful", 1)
        if row.configuration["reading"] == "tensor product"
    )
    assert methods.equation_options(row)["method"].basis.num_terms == 13**2


def test_a_row_says_all_that_determines_it() -> None:
    row = Row("poisson", {"mode": "default"})
    for experiment in EXPERIMENTS:
        for each in experiment.rows("full", "faithful", None):
            assert {"mode", "trials", "seed", "revision"} <= set(each.configuration)
            assert each != row
