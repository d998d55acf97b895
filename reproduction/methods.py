"""How a row is run: its configuration as options of `fit` and `solve`, and all calls of these.

`faithful` does what the paper did: Adam, pruning, L-BFGS and pruning again in float32, with the
constraint E and the preconditioner K. `default` is `pann` without options.
"""

import dataclasses
import json
import pathlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

import pann
from pann import baselines
from pann.basis import make_basis
from pann.io import kept_in
from pann.methods import FitMethod, SolveMethod
from pann.network import RandomFourier
from pann.problems import PROBLEMS
from pann.regression import num_fits_that_fit
from pann.runs import Row
from pann.solvers import num_cases_that_fit
from pann.training import LBFGS, Adam, Cosine, Prune, Recipe, Stepwise
from reproduction.degrees import degree_of
from reproduction.published import shown_name, stored_name

Settings = Mapping[str, Any]
# In time the paper's polynomial is constant.
SPACE = {"kdv": ("x",), "ks": ("x",), "gray_scott": ("x", "y")}
NUM_FREQUENCIES, CONSTRAINT_WEIGHT = 100, 1e-3


def canonical(settings: Settings) -> str:
    """Settings as one text, whatever their order."""
    return json.dumps(dict(settings), sort_keys=True)


def common(row: Row, own: set[str]) -> str:
    """What a row has in common with those that differ in their own settings alone."""
    return canonical({key: row.configuration[key] for key in set(row.configuration) - own})


# ---- Equations ----


def make_problem(name: str, **options: Any) -> pann.Problem:
    """A problem by either spelling of its name."""
    key = next(each for each in (shown_name(name), stored_name(name)) if each in PROBLEMS)
    return PROBLEMS[key](**options)


def equation_recipe(settings: Settings) -> Recipe:
    """The paper's recipe for equations, as long as the row says."""
    steps, iterations = settings["adam_steps"], settings["lbfgs_iterations"]
    # A divisor of the 1,000 steps after which GradNorm looks.
    record_every = next(n for n in (500, 250, 100, 50, 10, 1) if n <= max(1, steps // 4))
    adam = Adam(steps, Stepwise(1e-3, 0.9, max(1, steps // 50)), record_every=record_every)
    prunes = settings.get("prune", True)
    prune = (Prune(1e-4, signed=settings.get("signed", False)),) if prunes else ()
    if not iterations:
        return (adam, *prune)
    lbfgs = LBFGS(
        iterations,
        memory=settings.get("lbfgs_memory", LBFGS.memory),
        tolerance=settings.get("lbfgs_tolerance", LBFGS.tolerance),
        record_every=max(1, iterations // 20),
    )
    return (adam, *prune, lbfgs, *prune)


def equation_options(settings: Settings) -> dict[str, Any]:
    """The method and the other parameters of `solve` for a row of an equation."""
    if settings["mode"] == "default":
        return {"method": _default_method(settings)}
    run = {key: settings[key] for key in ("precision", "seed", "trials")}
    method = _faithful_method(settings)
    return run | {"method": baselines.as_pinn(method) if settings["model"] == "PINN" else method}


def _default_method(settings: Settings) -> SolveMethod | None:
    """The sizes of a row that has some."""
    if "degree" not in settings:
        return None
    if settings.get("width") == 0:
        return pann.Polynomial(degree=settings["degree"])
    network = pann.MLP(width=settings["width"]) if "width" in settings else None
    return pann.Hybrid(degree=settings["degree"], network=network)


def _faithful_method(settings: Settings) -> pann.Training:
    name, model = shown_name(settings["problem"]), settings["model"]
    base, axes = settings.get("base", "plain"), SPACE.get(name)
    basis, degree = None, 0
    if model != "PINN":
        degree = degree_of(name, settings["c"], settings["num_points"])
    if model != "PINN" and "index_set" in settings:
        domain, index_set = make_problem(name).domain, settings["index_set"]
        basis = make_basis(domain, degree, axes=axes, index_set=index_set)
    network = pann.MLP(
        **{key: settings[key] for key in ("width", "depth") if key in settings},
        embedding=RandomFourier(NUM_FREQUENCIES) if base == "rff" else None,
        gated=base == "modmlp",
    )
    return pann.Training(
        stages=equation_recipe(settings),
        degree=degree if basis is None else "auto",
        axes=axes if basis is None else None,
        basis=basis,
        network=None if model == "PL" else network,
        constraint="E" if model == "PANN" else "none",
        constraint_weight=(
            settings.get("constraint_weight", CONSTRAINT_WEIGHT) if model == "PANN" else None
        ),
        preconditioner=True,
        reduction=settings.get("reduction") or "mean",
        weighting=(base,) if base in ("gradnorm", "causal") else (),
        collocation=pann.Collocation(
            points=settings["num_points"],
            sampling=settings["sampling"],
            condition_weight=settings.get("condition_weight"),
        ),
    )


def solve_row(problem: pann.Problem, settings: Settings, scratch: pathlib.Path) -> pann.Solution:
    """The solution of a row; a run that was killed continues from its checkpoint."""
    return pann.solve(problem, **equation_options(settings), out=scratch, resume=True)


def solve_rows(
    problem: pann.Problem, rows: Sequence[Settings], scratch: pathlib.Path
) -> list[pann.Solution]:
    """The solutions of rows that are trained as one program."""
    options = [equation_options(each) for each in rows]
    return pann.solve_together(problem, options, out=scratch, resume=True)


def num_equations_that_fit(problem: pann.Problem, settings: Settings) -> int:
    """The number of rows like this one that memory has room for."""
    return num_cases_that_fit(problem, **equation_options(settings))


# ---- Regressions ----


def regression_recipe(settings: Settings) -> Recipe:
    """The paper's recipe for regression; a network alone is not pruned."""
    steps, iterations = settings["adam_steps"], settings["lbfgs_iterations"]
    batch, prunes = settings.get("batch_size"), settings.get("method") != "DNN"
    record_every = max(1, min(100, steps))
    adam = Adam(steps, Cosine(1e-3), batch_size=batch, record_every=record_every)
    prune = (Prune(1e-4, signed=settings.get("signed", False)),) if prunes else ()
    if not iterations:
        return (adam, *prune)
    return (adam, *prune, LBFGS(iterations, record_every=max(1, iterations // 20)), *prune)


def regression_options(
    settings: Settings, domain: pann.Box, points: np.ndarray, values: np.ndarray
) -> dict[str, Any]:
    """Points, values, the method and the other parameters of `fit` for a row of a regression."""
    shared = {"points": points, "values": values, "domain": domain}
    shared |= {"trials": settings["trials"], "seed": settings["seed"]}
    if settings["mode"] == "default":
        return {**shared, "method": _default_fit(settings)}
    run = {"precision": settings["precision"], "held_out": 0.0}
    return {**shared, **run, "method": _faithful_fit(settings, len(points))}


def _network(settings: Settings) -> pann.MLP:
    activation = settings.get("activation", "tanh")
    return pann.MLP(width=settings["width"], depth=settings["depth"], activation=activation)


def _default_fit(settings: Settings) -> FitMethod:
    method, degree = settings.get("method", "PANN"), settings.get("degree")
    if method == "least squares":
        return pann.Polynomial(degree=degree)
    both = pann.Hybrid(degree=degree, network=_network(settings))
    if method == "DNN":
        return baselines.network_alone(both)
    if method == "PANN" and "constraint" in settings:
        return dataclasses.replace(both, constraint=settings["constraint"])
    return both


def _faithful_fit(settings: Settings, num_points: int) -> pann.Training:
    method = settings.get("method", "PANN")
    both = pann.Training(
        stages=regression_recipe(settings),
        degree=settings.get("degree"),
        network=_network(settings),
    )
    if method in baselines.ORDERS:
        return both
    preconditioner = settings.get("preconditioner", method != "DNN")
    both = dataclasses.replace(both, preconditioner=preconditioner)
    if method == "DNN":
        return baselines.network_alone(both)
    if method == "PL":
        return baselines.polynomial_alone(both)
    weight = None
    if "batch_size" in settings:
        # |C| grows like the root of the number of rows: a batch counts as much as all of them.
        weight = CONSTRAINT_WEIGHT * (num_points / settings["batch_size"]) ** 0.5
    return dataclasses.replace(
        both,
        constraint=settings.get("constraint", "E"),
        constraint_weight=weight,
        norm=settings.get("norm"),
    )


def fit_row(settings: Settings, domain: pann.Box, points: np.ndarray, values: np.ndarray) -> Any:
    """The fit of a row that is trained alone; of one half after the other a pair of fits."""
    options = regression_options(settings, domain, points, values) | {"progress": False}
    if settings.get("method") in baselines.ORDERS:
        return baselines.sequential(order=settings["method"], **options)
    return pann.fit(**options)


def fit_rows(
    rows: Sequence[Settings], folds: Iterable[Sequence[dict[str, Any]]], scratch: pathlib.Path
) -> Iterator[list[pann.Fit]]:
    """The fits of rows that are trained as one program, fold by fold.

    A fold has the options of every row; a run that was killed continues from its checkpoint.
    """
    configuration = {"rows": " ".join(map(canonical, rows))}
    with kept_in(scratch, configuration) as checkpoint:
        for number, fold in enumerate(folds):
            yield pann.fit_together(fold, checkpoint=checkpoint.within(f"fold {number}"))


def num_regressions_that_fit(
    settings: Settings, domain: pann.Box, num_points: int, degree: int | None
) -> int:
    """The number of rows like this one to train as one program."""
    return num_fits_that_fit(
        num_points=num_points,
        num_terms=num_terms(domain, degree),
        num_units=settings["depth"] * settings["width"],
        trials=settings["trials"],
        precision=settings["precision"],
        num_seen=settings.get("batch_size", num_points) * settings["adam_steps"],
        by_constraint="constraint" in settings,
    )


def num_terms(domain: pann.Box, degree: int | None) -> int:
    """The terms of all polynomials of that total degree; none without one."""
    return 0 if degree is None else make_basis(domain, degree).num_terms
