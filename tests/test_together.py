"""Cases trained as one program: the same solutions as one by one, and interrupted the same."""

import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pann
from pann.io.checkpoint import FILE_NAME
from pann.runtime.limits import Progress
from pann.training import LBFGS, Adam, Constant, GradNorm, Prune
from pann.training.task import map_trials

LINE, STRIP = pann.Box(x=(0, 2)), pann.Box(x=(0, 1), t=(0, 1), time="t")
WAVE = pann.Problem.manufactured(LINE, lambda u, x: u.xx + 4 * u, lambda x: jnp.sin(2 * x))
HEAT = pann.Problem.manufactured(STRIP, lambda u, x, t: u.t - u.xx, lambda x, t: jnp.exp(x + t))
CASES = ({"sampling": "uniform"}, {"sampling": "sobol", "seed": 3}, {"condition_weight": 3.0})
SIZES = {"width": 4, "depth": 1, "points": 32, "sampling": "uniform"}
SHARED = {
    **SIZES,
    "degree": 12,
    "recipe": (Adam(30, Constant(1e-2), record_every=10), Prune(3e-4), LBFGS(2), Prune(3e-4)),
    "constraint": "E",
    "preconditioner": True,
    "trials": 2,
}


def check_same(first: pann.Solution, second: pann.Solution) -> None:
    """The same to rounding, which the steps of training let grow."""
    one, other = (jax.tree.leaves(each.model.parameters) for each in (first, second))
    for leaf, its in zip(one, other, strict=True):
        np.testing.assert_allclose(leaf, its, rtol=1e-8, atol=1e-10)
    assert first.report.history.keys() == second.report.history.keys()
    for name, values in first.report.history.items():
        np.testing.assert_allclose(values, second.report.history[name], rtol=1e-8)
    for trial, its in zip(first.report.trials, second.report.trials, strict=True):
        assert [trial[key] for key in ("seed", "terms", "units", "stop")] == [
            its[key] for key in ("seed", "terms", "units", "stop")
        ]
        assert trial["residual"] == pytest.approx(its["residual"], rel=1e-8)
        assert trial["rel_l2"] == pytest.approx(its["rel_l2"], rel=1e-8)


@pytest.fixture(scope="module")
def alone() -> list[pann.Solution]:
    return [pann.solve(WAVE, **{**SHARED, **case}) for case in CASES]


@pytest.fixture(scope="module")
def together() -> list[pann.Solution]:
    return pann.solve_together(WAVE, CASES, **SHARED)


def test_solutions_are_those_of_single_runs(
    alone: list[pann.Solution], together: list[pann.Solution]
) -> None:
    for one, other in zip(alone, together, strict=True):
        check_same(one, other)
    # Every trial has pruned other terms, so that K differs, too.
    kept = [trial["terms"] for solution in together for trial in solution.report.trials]
    assert len(set(kept)) > 1
    assert len({solution.report.stop for solution in together}) > 1


def test_polynomials_alone_are_those_of_single_runs() -> None:
    recipe = (Adam(10, record_every=5),)
    shared = {**SHARED, "recipe": recipe, "width": 0, "constraint": "none"}
    both = pann.solve_together(WAVE, CASES[:2], **shared)
    for case, solution in zip(CASES, both, strict=False):
        check_same(pann.solve(WAVE, **{**shared, **case}), solution)


def test_weights_that_change_and_minibatches_are_those_of_single_runs() -> None:
    stage = Adam(4, batch_size=8, balance=GradNorm(every=2), record_every=2)
    shared = {**SIZES, "degree": 2, "recipe": (stage,), "weighting": "causal", "trials": 2}
    cases = ({"seed": 1}, {"seed": 5})
    found = pann.solve_together(HEAT, cases, **shared)
    for case, solution in zip(cases, found, strict=True):
        check_same(pann.solve(HEAT, **{**shared, **case}), solution)


@pytest.mark.parametrize("backend", ["cpu", "gpu"])
@pytest.mark.parametrize("cases, trials", [(None, 4), (2, 4), (4, 4), (1, 3), (1, 1), (None, 1)])
def test_every_trial_sees_what_its_case_shares(
    monkeypatch: pytest.MonkeyPatch, backend: str, cases: int | None, trials: int
) -> None:
    """Which of two ways is taken depends on the device."""
    monkeypatch.setattr(jax, "default_backend", lambda: backend)
    of_trials = np.arange(3.0 * trials).reshape(trials, 3)
    shared = np.arange(6.0) if cases is None else np.arange(6.0 * cases).reshape(cases, 6)
    keys = jax.random.split(jax.random.key(0), trials)

    def one(trial: tuple, shared: jax.Array) -> dict:
        (values, key), draw = trial, jax.random.uniform(trial[1])
        return {"product": values @ shared.reshape(3, 2), "key": key, "draw": draw}

    found = map_trials(one, cases, (jnp.asarray(of_trials), keys), jnp.asarray(shared))
    for number, values in enumerate(of_trials):
        own = shared if cases is None else shared[number * cases // trials]
        np.testing.assert_allclose(found["product"][number], values @ own.reshape(3, 2))
        assert found["key"][number] == keys[number]
        np.testing.assert_allclose(found["draw"][number], jax.random.uniform(keys[number]))


class Stopped(Exception):
    """In place of a kill."""


def test_a_group_that_was_interrupted_goes_on(
    together: list[pann.Solution], tmp_path: pathlib.Path
) -> None:
    told: list[Progress] = []

    def stop(progress: Progress) -> None:
        told.append(progress)
        if len(told) == 4:
            raise Stopped

    work = {"out": tmp_path, "checkpoint_every": 0.0}
    with pytest.raises(Stopped):
        pann.solve_together(WAVE, CASES, **SHARED, **work, report=stop)
    with pytest.raises(ValueError, match="holds work that was interrupted after"):
        pann.solve_together(WAVE, CASES, **SHARED, **work)
    with pytest.raises(ValueError, match=r"another configuration: .*seed is 0 \| 3 \| 0 there"):
        pann.solve_together(WAVE, CASES[1:], **SHARED, **work, resume=True)
    rest: list[Progress] = []
    resumed = pann.solve_together(WAVE, CASES, **SHARED, **work, resume=True, report=rest.append)
    assert len(told) - 1 + len(rest) == 3 + 1 + 1 + 1  # nothing that was kept is done again
    for one, other in zip(together, resumed, strict=True):
        check_same(one, other)
    files = sorted(path.name for path in tmp_path.iterdir())
    assert files == [FILE_NAME, "log.txt", *(f"solution-{i}.pann" for i in (1, 2, 3))]
    # Finished work comes back from its files.
    again = pann.solve_together(WAVE, CASES, **SHARED, **work, resume=True)
    for one, other in zip(resumed, again, strict=True):
        check_same(one, other)
    assert pann.load(tmp_path / "solution-2.pann").report.trials == resumed[1].report.trials


@pytest.mark.parametrize(
    "cases, options, message",
    [
        ([], {}, "there are no cases to solve"),
        ([{}, {"points": 30}], {}, "case 2 has other numbers of points than the first, 30 in res"),
        ([{}, {"degree": 3}], {}, "case 2 has another basis than the first"),
        ([{}, {"trials": 1}], {}, "case 2 has another trials than the first, 1 and 2"),
        ([{}, {}], {"recipe": "default"}, "trained together by gradients; give recipe='paper'"),
        ([{}, {}], {"trials": 0}, "trials must be an integer of at least 1, got 0"),
        ([{}, {}], {"constraint": "exact"}, "belongs to recipe='default'"),
        ([{}, {}], {"resume": True}, "resume=True goes on with the work in a folder"),
    ],
)
def test_cases_that_are_no_one_program_are_refused(
    cases: list[dict], options: dict, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        pann.solve_together(WAVE, cases, **{**SHARED, **options})


def test_unknown_options_are_refused_as_by_solve() -> None:
    with pytest.raises(TypeError, match="iterations"):
        pann.solve_together(WAVE, [{}, {}], **SHARED, iterations=3)
