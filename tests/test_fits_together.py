"""Fits trained as one program: the same as one by one, and interrupted the same."""

import dataclasses
import pathlib
from typing import Any

import jax
import numpy as np
import pytest

import pann
from pann.io.checkpoint import kept_in
from pann.regression.batch import fit_together, num_fits_that_fit
from pann.runtime.limits import Progress
from pann.training import LBFGS, Adam, Constant, Prune

RECIPE = (Adam(30, Constant(1e-2), record_every=10), Prune(1e-2), LBFGS(3), Prune(1e-2))
METHOD = pann.Training(
    stages=RECIPE,
    degree=4,
    network=pann.MLP(width=6, depth=1),
    constraint="E",
    preconditioner=True,
)
SHARED = {"domain": pann.Box.cube(2), "held_out": 0.0}


def changed(method: pann.Training = METHOD, **options: Any) -> dict[str, pann.Training]:
    """A case with some options of the method changed."""
    return {"method": dataclasses.replace(method, **options)}


def data(exponent: float, seed: int = 0) -> dict[str, Any]:
    x = np.random.default_rng(seed).uniform(-1, 1, (48, 2))
    return {"points": x, "values": np.abs(x[:, 0]) ** exponent * np.sin(3 * x[:, 1])}


CASES = ({**data(1.0), "seed": 3}, data(2.0, seed=1), data(1.5, seed=2))
PRUNED = dataclasses.replace(METHOD, stages=RECIPE[:2])
CONSTRAINED = (
    {**data(1.0), **changed(PRUNED, constraint="C")},
    {**data(2.0), **changed(PRUNED, constraint="l1", constraint_weight=1e-2)},
    {**data(1.0), **changed(PRUNED, constraint="none"), "seed": 3},
)


def check_same(first: pann.Fit, second: pann.Fit) -> None:
    """The same to rounding, which the steps of training let grow."""
    np.testing.assert_allclose(first.scores, second.scores, rtol=1e-9)
    assert first.recipe == second.recipe
    for one, other in zip(first.outcomes, second.outcomes, strict=True):
        assert (one.stage, one.reasons, one.notes) == (other.stage, other.reasons, other.notes)
        assert one.history.keys() == other.history.keys()
        for name in one.history.keys() - {"seconds"}:
            np.testing.assert_allclose(one.history[name], other.history[name], rtol=1e-8)
    for one, other in zip(first.models, second.models, strict=True):
        assert one.basis == other.basis
        leaves = (jax.tree.leaves(each.parameters) for each in (one, other))
        for leaf, its in zip(*leaves, strict=True):
            np.testing.assert_allclose(leaf, its, rtol=1e-7, atol=1e-10)


@pytest.fixture(scope="module")
def together() -> list[pann.Fit]:
    return fit_together(CASES, method=METHOD, **SHARED)


def test_fits_are_those_of_single_runs(together: list[pann.Fit]) -> None:
    for case, found in zip(CASES, together, strict=True):
        check_same(pann.fit(method=METHOD, **SHARED, **case), found)
    # Every case has pruned other terms, so that K differs, too.
    assert len({found.model.num_terms for found in together}) > 1


def test_each_has_its_constraint_and_a_gpu_maps_them_in_another_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shared = {**SHARED, "trials": 2}
    alone = [pann.fit(**shared, **case) for case in CONSTRAINED]
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    for one, found in zip(alone, fit_together(CONSTRAINED, **shared), strict=True):
        check_same(one, found)


def test_minibatches_and_held_out_rows_are_those_of_single_runs() -> None:
    stage = Adam(12, batch_size=8, patience=8, record_every=4)
    shared = {**SHARED, **changed(stages=(stage,)), "held_out": 0.25}
    cases = [data(1.0) | {"seed": seed} for seed in (1, 5)]
    for case, found in zip(cases, fit_together(cases, **shared), strict=True):
        check_same(pann.fit(**shared, **case), found)


class Stopped(Exception):
    """In place of a kill."""


def test_fits_that_were_interrupted_go_on(together: list[pann.Fit], tmp_path: pathlib.Path) -> None:
    told: list[Progress] = []

    def stop(progress: Progress) -> None:
        told.append(progress)
        if len(told) == 5:
            raise Stopped

    work, shared = {"rows": "these"}, {**SHARED, "method": METHOD}
    with pytest.raises(Stopped), kept_in(tmp_path, work, 0.0) as checkpoint:
        fit_together(CASES, **shared, checkpoint=checkpoint, progress=stop)
    rest: list[Progress] = []
    with kept_in(tmp_path, work) as checkpoint:
        resumed = fit_together(CASES, **shared, checkpoint=checkpoint, progress=rest.append)
    assert len(told) - 1 + len(rest) == 3 + 1 + 1 + 1  # nothing that was kept is done again
    for one, other in zip(together, resumed, strict=True):
        check_same(one, other)
    with (
        pytest.raises(ValueError, match="rows is these there and others here"),
        kept_in(tmp_path, {"rows": "others"}),
    ):
        pass


@pytest.mark.parametrize(
    "case, options, message",
    [
        (
            {"points": data(1.0)["points"][:40], "values": np.ones(40)},
            {},
            "other numbers of points than the first, 40 and 48",
        ),
        (changed(degree=3), {}, "another number of terms than the first, 10 and 15"),
        ({"trials": 2}, {}, "case 2 has another trials than the first, 2 and 1"),
        (
            changed(network=pann.MLP(width=5, depth=1)),
            {},
            "case 2 has another architecture than the first",
        ),
        (changed(stages=RECIPE[:1]), {}, "case 2 has another recipe than the first"),
        (changed(reduction="sum"), {}, "another reduction than the first, sum and mean"),
        (
            changed(preconditioner=False),
            {},
            "another preconditioner than the first, False and True",
        ),
        ({"held_out": 0.5}, {}, "another number of points held out than the first, 24 and 0"),
        (
            changed(constraint="A", norm="spectral"),
            changed(norm="spectral"),
            "have Frobenius norms only",
        ),
        (
            {},
            {"method": pann.Hybrid(degree=4, network=METHOD.network)},
            r"fitted together by gradients: give Training.paper\(\), or stages Adam",
        ),
        ({}, changed(constraint="exact"), "and a constraint other than exact"),
        ({}, {"memory": 1e3}, "with tables of all rows; leave memory out"),
    ],
)
def test_cases_that_are_no_one_program_are_refused(
    case: dict[str, Any], options: dict[str, Any], message: str
) -> None:
    shared = {**SHARED, "method": METHOD, **data(1.0), **options}
    with pytest.raises(ValueError, match=message):
        fit_together([{}, case], **shared)


def test_no_cases_and_unknown_options_are_refused() -> None:
    with pytest.raises(ValueError, match="there are no cases to fit"):
        fit_together([])
    with pytest.raises(TypeError, match="windows"):
        fit_together([data(1.0)], windows=3)


def test_the_device_says_how_many_fits_are_one_program(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = {"num_terms": 100, "num_units": 300, "trials": 1, "precision": "float32"}
    monkeypatch.setattr("pann.regression.batch.device_memory", lambda: 1e9)

    def count(num_points: int, steps: int = 100, by_constraint: bool = True) -> int:
        seen = num_points * steps
        more = {"num_seen": seen, "by_constraint": by_constraint}
        return num_fits_that_fit(num_points=num_points, **sizes, **more)

    assert 1 < count(8192) < count(1024)
    assert count(1024, steps=20_000) == count(1024, by_constraint=False) == 1
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert count(1024, steps=20_000) == count(1024, by_constraint=False) == count(1024) > 1
    assert count(10**9) == 1
