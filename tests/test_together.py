"""Cases trained as one program: the same solutions as one by one, and interrupted the same."""

import dataclasses
import pathlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles import random_parameters

import pann
from pann.io.checkpoint import FILE_NAME
from pann.runtime.limits import Progress
from pann.training import LBFGS, Adam, Constant, GradNorm, Prune
from pann.training.batch import by_case, check_shared
from pann.training.loss import Loss, Rows
from pann.training.task import Outcome, Task, map_trials

LINE, STRIP = pann.Box(x=(0, 2)), pann.Box(x=(0, 1), t=(0, 1), time="t")
WAVE = pann.Problem.manufactured(LINE, lambda u, x: u.xx + 4 * u, lambda x: jnp.sin(2 * x))
HEAT = pann.Problem.manufactured(STRIP, lambda u, x, t: u.t - u.xx, lambda x, t: jnp.exp(x + t))
UNIFORM = pann.Collocation(points=32, sampling="uniform")
SOBOL = pann.Collocation(points=32, sampling="sobol")
HEAVY = dataclasses.replace(UNIFORM, condition_weight=3.0)
METHOD = pann.Training(
    stages=(Adam(30, Constant(1e-2), record_every=10), Prune(3e-4), LBFGS(2), Prune(3e-4)),
    degree=12,
    network=pann.MLP(width=4, depth=1),
    constraint="E",
    preconditioner=True,
    collocation=UNIFORM,
)


def changed(**options: Any) -> dict[str, pann.Training]:
    """A case with some options of the method changed."""
    return {"method": dataclasses.replace(METHOD, **options)}


CASES = (changed(), {**changed(collocation=SOBOL), "seed": 3}, changed(collocation=HEAVY))


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
    return [pann.solve(WAVE, **case, trials=2) for case in CASES]


@pytest.fixture(scope="module")
def together() -> list[pann.Solution]:
    return pann.solve_together(WAVE, CASES, trials=2)


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
    own = {"stages": (Adam(10, record_every=5),), "network": None, "constraint": "none"}
    cases = (changed(**own), {**changed(**own, collocation=SOBOL), "seed": 3})
    both = pann.solve_together(WAVE, cases, trials=2)
    for case, solution in zip(cases, both, strict=True):
        check_same(pann.solve(WAVE, **case, trials=2), solution)


def test_weights_that_change_and_minibatches_are_those_of_single_runs() -> None:
    stage = Adam(4, batch_size=8, balance=GradNorm(every=2), record_every=2)
    method = pann.Training(
        stages=(stage,),
        degree=2,
        network=METHOD.network,
        weighting="causal",
        collocation=UNIFORM,
    )
    cases = ({"seed": 1}, {"seed": 5})
    found = pann.solve_together(HEAT, cases, method=method, trials=2)
    for case, solution in zip(cases, found, strict=True):
        check_same(pann.solve(HEAT, method, trials=2, **case), solution)


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


def test_every_case_gets_its_trials_outcomes_and_scores() -> None:
    each = [random_parameters(seed, num_terms=2, dtype="float32") for seed in range(6)]
    trials = jax.tree.map(lambda *leaves: jnp.stack(leaves), *each)
    history = {"step": np.arange(2), "data": np.arange(12.0).reshape(6, 2)}
    outcome = Outcome(Prune(), tuple("uvwxyz"), history, 1.0, ("first", "second"))
    rows = Rows(jnp.ones((4, 1)), jnp.ones((4, 2)), jnp.ones((4, 1)), jnp.ones(4))
    task = Task(rows, Loss(), jax.random.split(jax.random.key(0)), cases=2)
    _, second = by_case(task, trials, (outcome,), np.arange(6.0))
    np.testing.assert_array_equal(second.trials.b[1], each[4].b)
    np.testing.assert_array_equal(second.scores, [3, 4, 5])
    (own,) = second.outcomes
    assert (own.reasons, own.notes) == (("x", "y", "z"), ("second",))
    np.testing.assert_array_equal(own.history["data"], history["data"][3:])
    np.testing.assert_array_equal(own.history["step"], history["step"])


def test_what_cases_do_not_share_is_named_with_the_cure() -> None:
    check_shared([{"degree": 2, "trials": 1}] * 2, "solve")
    with pytest.raises(
        ValueError, match="case 2 has another degree than the first, 3 and 2; solve"
    ):
        check_shared([{"degree": 2}, {"degree": 3}], "solve")


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

    work = {"out": pann.Folder(tmp_path, checkpoint_every=0.0), "trials": 2}
    with pytest.raises(Stopped):
        pann.solve_together(WAVE, CASES, **work, progress=stop)
    with pytest.raises(ValueError, match="holds work that was interrupted after"):
        pann.solve_together(WAVE, CASES, **work)
    with pytest.raises(ValueError, match=r"another configuration: .*seed is 0 \| 3 \| 0 there"):
        pann.solve_together(WAVE, CASES[1:], **work, resume=True)
    rest: list[Progress] = []
    resumed = pann.solve_together(WAVE, CASES, **work, resume=True, progress=rest.append)
    assert len(told) - 1 + len(rest) == 3 + 1 + 1 + 1  # nothing that was kept is done again
    for one, other in zip(together, resumed, strict=True):
        check_same(one, other)
    files = sorted(path.name for path in tmp_path.iterdir())
    assert files == [FILE_NAME, "log.txt", *(f"solution-{i}.pann" for i in (1, 2, 3))]
    # Finished work comes back from its files.
    again = pann.solve_together(WAVE, CASES, **work, resume=True)
    for one, other in zip(resumed, again, strict=True):
        check_same(one, other)
    assert pann.load(tmp_path / "solution-2.pann").report.trials == resumed[1].report.trials


@pytest.mark.parametrize(
    "cases, options, message",
    [
        ([], {}, "there are no cases to solve"),
        (
            [{}, changed(collocation=dataclasses.replace(UNIFORM, points=30))],
            {},
            "case 2 has other numbers of points than the first, 30 in res",
        ),
        ([{}, changed(degree=3)], {}, "case 2 has another basis than the first"),
        ([{}, {"trials": 1}], {}, "case 2 has another trials than the first, 1 and 2"),
        (
            [{}, {}],
            {"method": pann.Hybrid(degree=12)},
            r"trained together by gradients; give pann.Training\(...\), not Hybrid\(degree=12\)",
        ),
        ([{}, {}], {"trials": 0}, "trials must be a whole number of at least 1, got 0"),
        ([{}, {}], changed(constraint="exact"), r"belongs to pann.Hybrid\(...\)"),
        ([{}, {}], {"resume": True}, "resume=True goes on with the work in a folder"),
    ],
)
def test_cases_that_are_no_one_program_are_refused(
    cases: list[dict], options: dict, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        pann.solve_together(WAVE, cases, **{"method": METHOD, "trials": 2, **options})


def test_unknown_options_are_refused_as_by_solve() -> None:
    with pytest.raises(TypeError, match="iterations"):
        pann.solve_together(WAVE, [{}, {}], method=METHOD, iterations=3)
