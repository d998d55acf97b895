"""Rows of the paper's equations and regressions that are trained as one program."""

import dataclasses
import pathlib

import numpy as np
import pytest
from typer.testing import CliRunner

from pann.methods import MLP
from pann.runs import Row, Store, Summary, Together, sweep, units_of
from pann.solvers import num_cases_that_fit
from pann.training.task import Recorder
from reproduction import equations, housing, methods, readings, regressions
from reproduction.cli import app
from reproduction.experiments import EQUATIONS_TOGETHER, HOUSING_TOGETHER, REGRESSIONS_TOGETHER

SMALL = {
    "model": "PANN",
    "base": "plain",
    "c": 0.004,
    "num_points": 64,
    "width": 5,
    "depth": 1,
    "adam_steps": 8,
    "lbfgs_iterations": 0,
    "trials": 1,
    "precision": "float64",
}


def units(rows: list[Row]) -> list[list[Row]]:
    return units_of(rows, EQUATIONS_TOGETHER)


def test_rows_that_differ_in_their_points_alone_are_alike() -> None:
    for name in ("poisson", "allen_cahn", "kdv", "ks"):
        found = units(equations.rows(name, "full", "faithful"))
        assert [len(unit) for unit in found] == [2] * 68
        for one, other in found:
            theirs = {"sampling": other.configuration["sampling"]}
            assert dict(one.configuration) | theirs == other.configuration
    assert all(len(unit) == 1 for unit in units(equations.rows("poisson", "full", "default")))
    with_networks = [
        row for row in readings.rows("full", "faithful") if row.configuration["model"] != "PL"
    ]
    weights = [unit for unit in units(with_networks) if len(unit) > 1]
    assert {tuple(row.configuration["reading"] for row in unit) for unit in weights} == {
        ("as decided", "lambda = 0.01", "lambda = 0.0001"),
        ("tensor product", "tensor product, lambda = 0.0001"),
        *(
            tuple(name for name in readings.PAIRS if name.startswith(f"{tied} tied"))
            for tied in readings.TIED
        ),
        (*readings.STEADY, *readings.STEADY),  # by both samplings
    }


def figures_of_both(row: Row, stores: tuple[Store, Store]) -> tuple[dict, dict]:
    """Of a row that was run alone in one store and with another row in the other."""
    alone, together = (store.record(row) for store in stores)
    assert alone is not None
    assert together is not None
    assert together["together"] == 2
    assert alone["figures"].keys() == together["figures"].keys()
    return alone["figures"], together["figures"]


def test_records_are_those_of_rows_run_alone(tmp_path: pathlib.Path) -> None:
    plain = equations.rows("poisson", "full", "faithful")[0].configuration
    # On points that are symmetric some gradients are zero but for rounding, which Adam magnifies.
    samplings = ("sobol", "poisson_disk")
    rows = [Row("poisson", {**plain, **SMALL, "sampling": each}) for each in samplings]
    stores = Store(tmp_path / "alone"), Store(tmp_path / "together")
    work = "reproduction.equations:run"
    assert sweep(rows, work, stores[0]) == Summary(done=2)
    assert sweep(rows, work, stores[1], together=EQUATIONS_TOGETHER) == Summary(done=2)
    for row in rows:
        alone, together = figures_of_both(row, stores)
        for name in ("stop", "terms", "units", "degree"):
            assert alone[name] == together[name]
        for name in ("residuals", "history", "errors"):
            assert_near(alone[name], together[name])


def settings(rows: list[Row], name: str) -> set[object]:
    return {row.configuration.get(name) for row in rows}


def test_regressions_of_equal_shapes_are_alike() -> None:
    found = units_of(regressions.rows("constraints", "full", "faithful"), REGRESSIONS_TOGETHER)
    assert [len(unit) for unit in found] == [10] * 6
    for unit in found:
        assert len(settings(unit, "constraint")) == 10
        assert len(settings(unit, "signed")) == len(settings(unit, "activation")) == 1
    for unit in units_of(regressions.rows("alpha", "full", "faithful"), REGRESSIONS_TOGETHER):
        alone = settings(unit, "method") == {"L2"}
        assert len(settings(unit, "alpha")) == len(unit) == (1 if alone else 3)
    for unit in units_of(regressions.rows("non_smooth", "full", "faithful"), REGRESSIONS_TOGETHER):
        assert len(settings(unit, "degree")) == len(settings(unit, "num_points")) == 1
    sizes = [len(unit) for unit in units_of(housing.rows("full", "faithful"), HOUSING_TOGETHER)]
    assert sorted(sizes) == [1] * 5 + [8] * 4
    default = units_of(regressions.rows("alpha", "full", "default"), REGRESSIONS_TOGETHER)
    assert all(len(unit) == 1 for unit in default)


def test_regressions_have_the_records_of_rows_run_alone_also_after_a_kill(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = regressions.rows("constraints", "smoke", "faithful")[0].configuration
    small = {**SMALL, "degree": 3, "lbfgs_iterations": 2, "signed": False}
    rows = [
        Row("constraints", {**plain, **small, **own})
        for own in ({"constraint": "B"}, {"constraint": "B", "seed": 2})
    ]
    work, stores = "reproduction.regressions:run", (Store(tmp_path / "a"), Store(tmp_path / "b"))
    assert sweep(rows, work, stores[0]) == Summary(done=2)

    record, calls = Recorder.record, []

    def killed(self: Recorder, step: int, values: dict) -> None:
        calls.append(step)
        if len(calls) == 3:
            raise KeyboardInterrupt
        record(self, step, values)

    with monkeypatch.context() as patched:
        patched.setattr(Recorder, "record", killed)
        with pytest.raises(KeyboardInterrupt):
            sweep(rows, work, stores[1], together=REGRESSIONS_TOGETHER)
    assert len(list((tmp_path / "b" / "work").rglob("checkpoint.pann"))) == 1
    assert sweep(rows, work, stores[1], together=REGRESSIONS_TOGETHER) == Summary(done=2)
    for row in rows:
        alone, together = figures_of_both(row, stores)
        for name in alone.keys() - {"fit_seconds"}:
            assert_near(alone[name], together[name])
        halves = [store.arrays(row) for store in stores]
        assert halves[0].keys() == halves[1].keys()
        for name, values in halves[0].items():
            np.testing.assert_allclose(halves[1][name], values, rtol=1e-5, atol=1e-6)


def test_housing_rows_as_one_are_those_run_alone(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = np.random.default_rng(0).normal
    folds = [(draw(size=(40, 2)), draw(size=40), draw(size=(9, 2)), draw(size=9)) for _ in range(2)]
    monkeypatch.setattr(housing, "housing_folds", lambda most: folds)
    monkeypatch.setattr(housing, "WIDTH", 4)
    plain = housing.rows("smoke", "faithful")[-1].configuration
    assert plain["method"] == "PANN"
    more = {"num_folds": 2, "batch_size": 8, "precision": "float64"}
    rows = [{**plain, **more, "seed": seed} for seed in (0, 1)]
    assert housing.room(rows[0]) > 1
    together = housing.run_together(rows, tmp_path)
    for number, (row, found) in enumerate(zip(rows, together, strict=True)):
        folder = tmp_path / str(number)
        folder.mkdir()
        alone = housing.run(row, folder)
        assert len(found.figures["errors"]) == 2
        assert found.figures["errors"] == pytest.approx(alone.figures["errors"], rel=1e-8)


def assert_near(one: object, other: object) -> None:
    if isinstance(one, dict) and isinstance(other, dict):
        assert one.keys() == other.keys()
        for name, value in one.items():
            assert_near(value, other[name])
    else:
        assert one == pytest.approx(other, rel=1e-8)


def test_the_more_a_row_takes_the_fewer_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    (row, *_) = equations.rows("poisson", "full", "faithful")
    problem = equations.problem_of(row.configuration)
    options = methods.equation_options(row.configuration)
    wide = dataclasses.replace(options.pop("method"), network=MLP(width=50, depth=3))
    monkeypatch.setattr("pann.solvers.batch.device_memory", lambda: 1e9)
    count = {}
    for number in (1024, 8192):
        method = dataclasses.replace(
            wide, collocation=dataclasses.replace(wide.collocation, points=number)
        )
        count[number] = num_cases_that_fit(problem, method, **options)
    assert 1 <= count[8192] < count[1024]
    monkeypatch.setattr("pann.solvers.batch.device_memory", lambda: 1e3)
    assert num_cases_that_fit(problem, wide, **options) == 1


def test_the_command_limits_how_many_rows_run_as_one(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Together | None] = []

    def no_sweep(*rows: object, together: Together | None, **options: object) -> Summary:
        asked.append(together)
        return Summary()

    monkeypatch.setattr("pann.runs.sweep", no_sweep)
    command = ["run", "kdv", "alpha", "--store", str(tmp_path)]
    for options in ([], ["--batch", "1"]):
        result = CliRunner().invoke(app, command + options)
        assert result.exit_code == 0, result.output
    assert asked == [
        EQUATIONS_TOGETHER,
        REGRESSIONS_TOGETHER,
        dataclasses.replace(EQUATIONS_TOGETHER, at_most=1, room=None),
        dataclasses.replace(REGRESSIONS_TOGETHER, at_most=1, room=None),
    ]
