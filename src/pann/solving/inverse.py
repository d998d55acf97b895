"""Unknown parameters of an equation from data: bases that grow until the parameters have settled.

The first basis begins with a fit of the data, each other one with the solution in the one before
it; `pann.pde.data_fit` solves for all. The residual cannot say when to stop: constants solve many
equations, and noise leaves some residual in any basis. The basis grows, along the axes where its
coefficients fall slowest, until the parameters move by little against their standard deviations.
"""

import dataclasses
import functools
import math
import time
from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from pann.basis import Basis, make_basis, orthonormal_scales
from pann.checkpoints import Saved, packed, unpacked
from pann.pde.conditions import Data
from pann.pde.data_fit import DataFit, fit_with_data, is_data, levels, start_from_data
from pann.pde.newton import Unknowns, newton, start
from pann.pde.problem import Problem
from pann.points import Points, tensor_grid
from pann.solution import Report, Solution, progress_of
from pann.solving.polynomial import carried, polynomial_model
from pann.solving.quality import indicator, relative_errors
from pann.solving.setup import CONDITION_WEIGHT, Setup

# Levels of the first basis by dimension; by how much the number of terms grows, less where
# that is too much; and where that ends.
FIRST_LEVEL, MAX_LEVEL = {1: 8, 2: 12}, {1: 128, 2: 96}
GROWTH, MAX_COLUMNS = (1.45, 1.3), 5_000
# The last levels of an axis, and how large they are against those of the slowest if it is to grow.
LAST, SLOW = 0.8, 0.3
# Points along an axis for each of its functions.
POINTS_A_FUNCTION = 1.4
# Parameters have settled if they move by less than so many deviations, or relative to them by this,
# and if the cross-validated error does not fall below this share of that before. Each basis is
# several times nearer than the one before it: what is left is less than the last move.
DEVIATIONS, SETTLED, FALLING = 3.0, 1e-6, 0.95
# Residuals, and misfits relative to the data, that are as good as none.
RESOLVED, EXACT = 1e-10, 1e-5
# Beside a network the polynomial has at most so many coefficients: each step factorizes them.
SMALL = 400


def is_inverse(problem: Problem) -> bool:
    """Whether there are parameters to find, and data to find them from."""
    return bool(problem.parameters) and any(isinstance(c, Data) for c in problem.conditions)


class Found(NamedTuple):
    """The polynomial half and the parameters; the same in few terms, which a network goes beside.

    The weight of the data comes as a part of the setup; `before` is the solution in the basis
    before the last.
    """

    solution: Solution
    small: Solution
    setup: Setup
    before: Solution | None


def solve_inverse(
    setup: Setup,
    ladder: Sequence[Basis],
    precision: str,
    start_from: Solution | None,
    begin: float,
    at_least: int = 1,
) -> Found:
    """Grow the basis, `at_least` so often, until a larger one changes nothing.

    A ladder of one is the basis asked for. A longer one gives way, in one and two dimensions and
    without pieces, to products of functions whose number grows along each axis for itself.
    """
    is_growing = len(ladder) > 1 and setup.problem.domain.dimension in FIRST_LEVEL
    is_growing = is_growing and not setup.problem.pieces
    rungs = iter(ladder)
    basis: Basis | None = _first(setup.problem) if is_growing else next(rungs)
    stop, solution, small = "", start_from, None
    fit: DataFit | None = None
    coarser: Solution | None = None
    number = 0
    history: dict[str, list[float]] = {"cross-validated error": [], "misfit of the data": []}
    while basis is not None:
        before, coarser = fit, solution if number else None
        fit, solution = _on_basis(setup, basis, is_growing, precision, solution, fit)
        if small is None or basis.num_terms * len(setup.problem.fields) <= SMALL:
            small = solution
        history["cross-validated error"] += [fit.score] if math.isfinite(fit.score) else []
        history["misfit of the data"].append(fit.misfit)
        number += 1
        setup.report(progress_of(solution, f"{basis.num_terms} terms", number, number))
        stop = fit.reason
        if solution.residual <= RESOLVED and number >= at_least:
            break
        if before is not None and _has_settled(before, fit):
            stop = "converged: a larger basis moves the parameters by no more than noise does"
            break
        basis = _grown(setup.problem, solution) if is_growing else next(rungs, None)
        if basis is None and before is not None:
            stop = "the largest basis is reached, and the parameters still move"
    assert solution is not None
    assert small is not None
    assert fit is not None
    rel_l2, field_errors = relative_errors(setup.problem, solution.model, setup.ansatz)
    report = dataclasses.replace(
        solution.report,
        rel_l2=rel_l2,
        field_errors=field_errors,
        stop=stop,
        seconds=time.perf_counter() - begin,
        history=solution.report.history | history,
    )
    return Found(
        dataclasses.replace(solution, report=report),
        dataclasses.replace(small, report=report, parameters=solution.parameters),
        # A network's steps are damped: were the data to count less, they would be left for last.
        dataclasses.replace(setup, data_weight=max(fit.weight, 1.0)),
        coarser,
    )


def _on_basis(
    setup: Setup,
    basis: Basis,
    is_product: bool,
    precision: str,
    before: Solution | None,
    fit_before: DataFit | None,
) -> tuple[DataFit, Solution]:
    problem = setup.problem
    if is_product and setup.points is None:
        setup = dataclasses.replace(setup, points=_points(problem, basis))
    blocks = dataclasses.replace(setup, data_weight=1.0).blocks(basis, "float64")
    unknowns = start(basis.num_terms, len(problem.fields), problem.parameters, "float64")
    place = setup.checkpoint.within(f"terms {basis.num_terms}")
    done = place.done()
    if done is not None:
        fit = _restored(done, unknowns)
    else:
        if before is None or not np.any(before.model.parameters.b):
            unknowns = start_from_data(blocks, basis, unknowns)
        else:
            unknowns = carried(before, basis, unknowns)
        weight = CONDITION_WEIGHT if fit_before is None else fit_before.weight
        fit = fit_with_data(blocks, unknowns, weight, is_near=fit_before is not None)
        place.finish(functools.partial(_saved, fit))
    data = [block for block in blocks if is_data(block)]
    size = math.sqrt(sum(float(jnp.sum((b.weights[:, None] * b.target) ** 2)) for b in data))
    how = f"Gauss-Newton on the polynomial and the parameters, data of weight {fit.weight:.2g}"
    if fit.misfit <= EXACT * size:
        weighted = dataclasses.replace(setup, data_weight=fit.weight)
        blocks = weighted.blocks(basis, "float64")
        solved, _ = newton(blocks, fit.unknowns)
        fit = dataclasses.replace(fit, unknowns=solved)
    model = polynomial_model(
        problem.domain,
        basis,
        dataclasses.replace(fit.unknowns, b=fit.unknowns.b.astype(precision)),
        precision,
    )
    report = Report(
        how=how,
        degree=int(np.max(basis.degrees, initial=0)),
        num_points=sum(len(block.weights) for block in blocks),
        residual=indicator(setup.fresh(basis), blocks[1:], fit.unknowns, model, setup.ansatz),
        rel_l2=None,
        stop=fit.reason,
        seconds=0.0,
        history={"sum of squares": fit.sums},
        parameter_deviations=fit.deviations,
    )
    parameters = {name: float(value) for name, value in fit.unknowns.parameters.items()}
    return fit, Solution(model, problem.fields, parameters, report, problem, setup.ansatz)


def _saved(fit: DataFit) -> Saved:
    arrays = {
        "numbers": np.array([fit.weight, fit.score, fit.misfit]),
        "sums": np.asarray(fit.sums),
        "deviations": np.array(list(fit.deviations.values())),
    }
    notes = {"reason": fit.reason, "deviations": list(fit.deviations)}
    return Saved(arrays | packed("unknowns", fit.unknowns), notes)


def _restored(saved: Saved, like: Unknowns) -> DataFit:
    weight, score, misfit = saved.arrays["numbers"].tolist()
    names, values = saved.notes["deviations"], saved.arrays["deviations"].tolist()
    return DataFit(
        unpacked("unknowns", saved.arrays, like),
        weight,
        score,
        misfit,
        dict(zip(names, values, strict=True)),
        saved.arrays["sums"].tolist(),
        saved.notes["reason"],
    )


def _has_settled(before: DataFit, now: DataFit) -> bool:
    """Whether a larger basis changed neither the parameters nor the fit, beyond the noise."""
    for name, value in now.unknowns.parameters.items():
        deviation = max(each.deviations.get(name, 0.0) for each in (before, now))
        allowed = max(DEVIATIONS * deviation, SETTLED * abs(float(value)))
        if not abs(float(value - before.unknowns.parameters[name])) <= allowed:
            return False
    return now.score >= FALLING * before.score


def _first(problem: Problem) -> Basis:
    dimension = problem.domain.dimension
    return _product(problem, [FIRST_LEVEL[dimension]] * dimension)


def _product(problem: Problem, along: Sequence[int]) -> Basis:
    """All products of functions of at most these levels along the axes."""
    return make_basis(
        problem.domain, 1, index_set="tensor_product", weights=[float(each) for each in along]
    )


def _grown(problem: Problem, solution: Solution) -> Basis | None:
    """A basis larger along the axes where the coefficients fall slowest; None at the end."""
    basis = solution.model.basis
    each = levels(basis)
    sizes = np.asarray(solution.model.parameters.b) / orthonormal_scales(basis)[:, None]
    squares = np.sum(sizes**2, axis=1)
    top = np.max(each, axis=0)
    tails = np.sqrt(
        np.array([np.sum(squares[each[:, i] > LAST * top[i]]) for i in range(len(top))])
    )
    slow = tails >= SLOW * np.max(tails)
    for growth in GROWTH:
        along = (
            np.where(slow, np.ceil(growth ** (1 / np.sum(slow)) * top), top).astype(int).tolist()
        )
        columns = math.prod(
            family.num_functions(level) for family, level in zip(basis.families, along, strict=True)
        ) * len(problem.fields)
        if columns <= MAX_COLUMNS and max(along) <= MAX_LEVEL[problem.domain.dimension]:
            return _product(problem, along)
    return None


def _points(problem: Problem, basis: Basis) -> Points:
    """A grid of Gauss points with as many along each axis as its functions ask for."""
    nodes = [
        family.quadrature(math.ceil(POINTS_A_FUNCTION * count) + 2)[0]
        for family, count in zip(basis.families, basis.num_functions, strict=True)
    ]
    return Points(problem.domain.from_reference(tensor_grid(*nodes)))
