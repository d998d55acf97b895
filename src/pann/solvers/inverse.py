"""Unknown parameters of an equation from data: bases that grow until the parameters have settled.

Where equation and conditions determine the solution for given parameters, these are fitted to the
data alone (`pann.solvers.data_fit`), from several first guesses while bases are small. Where the
data stand in for a missing condition, b and the parameters are fitted together, the data weighed
against the equation (`pann.solvers.data_fit`). The basis grows, along the axes where its
coefficients fall slowest, until the equation is resolved and the parameters move by little against
their standard deviations. Where that cannot be had, the report says why: `_trouble`.
"""

import dataclasses
import functools
import math
import time
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from pann.basis import Basis, make_basis, orthonormal_scales
from pann.io.checkpoint import Saved, packed, unpacked
from pann.pde.collocation import Block
from pann.pde.conditions import Data
from pann.pde.problem import Problem
from pann.points import Points, tensor_grid
from pann.runtime.limits import Stopped
from pann.solvers.data_fit import (
    DataFit,
    SmoothFit,
    fit_parameters,
    fit_reduced,
    fit_with_data,
    is_determined,
    levels,
    other_guesses,
    smooth_fit,
)
from pann.solvers.newton import Unknowns, newton, start
from pann.solvers.polynomial import carried, polynomial_model
from pann.solvers.quality import indicator, relative_errors
from pann.solvers.setup import CONDITION_WEIGHT, Setup
from pann.solvers.solution import Report, Solution, progress_of

# Levels of the first basis by dimension; by how much the number of terms grows, less where
# that is too much; and where that ends.
FIRST_LEVEL, MAX_LEVEL = {1: 8, 2: 12}, {1: 128, 2: 96}
GROWTH, MAX_COLUMNS = (1.45, 1.3), 5_000
# The last levels of an axis, and how large they are against those of the slowest if it is to grow.
LAST, SLOW = 0.8, 0.3
# Points along an axis for each of its functions.
POINTS_A_FUNCTION = 1.4
# Parameters have settled if they move by less than this share of their deviations (more where data
# are weighed against the equation: another basis has another weight), or relative to them by this,
# and if the cross-validated error does not fall below this share of that before. Each basis is
# several times nearer than the one before it: what is left is less than the last move.
DEVIATIONS, DEVIATIONS_WEIGHED, SETTLED, FALLING = 0.1, 0.3, 1e-6, 0.95
# Residuals that are as good as none, and that are small enough beside noise; misfits relative to
# the data that are as good as none.
RESOLVED, RESOLVED_IN_NOISE, EXACT = 1e-10, 1e-4, 1e-5
# So many times the misfit of a smooth fit: the equation does not explain the data.
EXPLAINED = 2.0
# Levels of the basis by which is seen whether conditions are missing.
CHECK_LEVEL = {1: 32, 2: 18}
# Several first guesses are tried on bases of at most so many coefficients.
FEW = 200
# Beside a network the polynomial has at most so many coefficients: each step factorizes them.
SMALL = 400


def is_inverse(problem: Problem) -> bool:
    """Whether there are parameters to find, and data to find them from."""
    return bool(problem.parameters) and any(isinstance(c, Data) for c in problem.conditions)


class Found(NamedTuple):
    """The polynomial half and the parameters; the same in few terms, which a network goes beside.

    The weight of the data comes as a part of the setup; `before` is the solution in the basis
    before the last, None where the parameters are not to be trusted.
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
    is_reduced = _is_determined(setup, ladder[0])
    solution, small = start_from, None
    fit: DataFit | None = None
    coarser: Solution | None = None
    number, has_settled, stopped = 0, False, None
    history: dict[str, list[float]] = {"cross-validated error": [], "misfit of the data": []}
    while basis is not None:
        before, coarser = fit, solution if number else None
        fit, solution = _on_basis(setup, basis, is_growing, is_reduced, precision, solution, fit)
        is_reduced = fit.weight == 0
        if small is None or basis.num_terms * len(setup.problem.fields) <= SMALL:
            small = solution
        history["cross-validated error"] += [fit.score] if math.isfinite(fit.score) else []
        history["misfit of the data"].append(fit.misfit)
        number += 1
        try:
            setup.report(progress_of(solution, f"{basis.num_terms} terms", number, number))
        except Stopped as end:
            stopped = str(end)
            break
        has_settled = number >= at_least and solution.residual <= RESOLVED
        has_settled = has_settled or (before is not None and _has_settled(before, fit, solution))
        if has_settled:
            break
        basis = _grown(setup.problem, solution) if is_growing else next(rungs, None)
    assert solution is not None
    assert small is not None
    assert fit is not None
    is_one = len(ladder) == 1
    trouble = _trouble(setup.problem, fit, solution, has_settled=has_settled, is_one=is_one)
    if stopped:
        trouble = f"stopped by {stopped}; next would have been a larger basis"
    rel_l2, field_errors = relative_errors(setup.problem, solution.model, setup.ansatz)
    report = dataclasses.replace(
        solution.report,
        rel_l2=rel_l2,
        field_errors=field_errors,
        stop=trouble or "converged: a larger basis moves the parameters by less than noise does",
        stopped=stopped,
        # Of parameters that are not to be trusted nothing is known.
        error_estimate=math.inf if trouble else None,
        seconds=time.perf_counter() - begin,
        history=solution.report.history | history,
    )
    return Found(
        dataclasses.replace(solution, report=report),
        dataclasses.replace(small, report=report, parameters=solution.parameters),
        # A network's steps are damped: were the data to count less, they would be left for last.
        dataclasses.replace(setup, data_weight=max(fit.weight, 1.0)),
        None if trouble else coarser,
    )


def _on_basis(
    setup: Setup,
    basis: Basis,
    is_product: bool,
    is_reduced: bool,
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
        fit = _fit(blocks, basis, unknowns, is_reduced, before, fit_before)
        place.finish(functools.partial(_saved, fit))
    how = "least squares of the data on the parameters, the polynomial solved for at each"
    if fit.weight > 0:
        how = f"Gauss-Newton on the polynomial and the parameters, data of weight {fit.weight:.2g}"
    if fit.weight > 0 and fit.misfit <= EXACT * fit.size:
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
        stop="the basis is not the last",
        seconds=0.0,
        history={"sum of squares": fit.sums},
        parameter_deviations=fit.deviations,
    )
    parameters = {name: float(value) for name, value in fit.unknowns.parameters.items()}
    return fit, Solution(model, problem.fields, parameters, report, problem, setup.ansatz)


def _fit(
    blocks: tuple[Block, ...],
    basis: Basis,
    unknowns: Unknowns,
    is_reduced: bool,
    before: Solution | None,
    fit_before: DataFit | None,
) -> DataFit:
    """Begun with the solution before, or with the data; on small bases from several guesses."""
    guess = {name: float(value) for name, value in unknowns.parameters.items()}
    is_first = before is None or not np.any(before.model.parameters.b)
    is_small = is_first or unknowns.b.size <= FEW
    smooth = smooth_fit(blocks, basis, unknowns) if is_small else SmoothFit(unknowns)
    by_equation = fit_parameters(blocks, smooth)
    score = smooth.score
    if fit_before is not None:
        score = min(score, fit_before.smooth_score)
    fit = None
    if is_reduced:
        begun = smooth.unknowns if before is None or is_first else carried(before, basis, unknowns)
        fitted = {name: float(value) for name, value in by_equation.parameters.items()}
        guesses = [guess, fitted, *other_guesses(guess)] if is_small else []
        fit = fit_reduced(blocks, begun, guesses)
    if fit is None:
        begun = by_equation if before is None or is_first else carried(before, basis, unknowns)
        is_near = fit_before is not None and fit_before.weight > 0
        weight = fit_before.weight if fit_before is not None and is_near else CONDITION_WEIGHT
        fit = fit_with_data(blocks, begun, weight, is_near=is_near)
    return dataclasses.replace(fit, smooth_score=score)


def _is_determined(setup: Setup, basis: Basis) -> bool:
    """Whether equation and conditions determine the solution; seen on a basis of medium size."""
    problem = setup.problem
    levels_of = CHECK_LEVEL.get(problem.domain.dimension)
    if levels_of is not None and not problem.pieces:
        basis = _product(problem, [levels_of] * problem.domain.dimension)
        setup = dataclasses.replace(setup, points=_points(problem, basis))
    blocks = setup.blocks(basis, "float64")
    unknowns = start(basis.num_terms, len(problem.fields), problem.parameters, "float64")
    return is_determined(blocks, basis, unknowns)


def _saved(fit: DataFit) -> Saved:
    arrays = {
        "numbers": np.array([fit.weight, fit.score, fit.misfit, fit.size, fit.smooth_score]),
        "sums": np.asarray(fit.sums),
        "deviations": np.array(list(fit.deviations.values())),
    }
    notes = {"is_converged": fit.is_converged, "deviations": list(fit.deviations)}
    return Saved(arrays | packed("unknowns", fit.unknowns), notes)


def _restored(saved: Saved, like: Unknowns) -> DataFit:
    weight, score, misfit, size, smooth_score = saved.arrays["numbers"].tolist()
    names, values = saved.notes["deviations"], saved.arrays["deviations"].tolist()
    return DataFit(
        unpacked("unknowns", saved.arrays, like),
        weight,
        score,
        misfit,
        size,
        dict(zip(names, values, strict=True)),
        saved.arrays["sums"].tolist(),
        saved.notes["is_converged"],
        smooth_score,
    )


def _has_settled(before: DataFit, now: DataFit, solution: Solution) -> bool:
    """Whether a larger basis changed neither the parameters nor the fit, beyond the noise."""
    deviations = DEVIATIONS if now.weight == 0 else DEVIATIONS_WEIGHED
    for name, value in now.unknowns.parameters.items():
        allowed = max(deviations * now.deviations.get(name, 0.0), SETTLED * abs(float(value)))
        if not abs(float(value - before.unknowns.parameters[name])) <= allowed:
            return False
    return solution.residual <= RESOLVED_IN_NOISE and now.score >= FALLING * before.score


def _trouble(
    problem: Problem, fit: DataFit, solution: Solution, *, has_settled: bool, is_one: bool
) -> str | None:
    """Why the parameters are not to be trusted, and what to do; None if they are.

    `is_one` says that the basis is one that was asked for, and that no other was tried.
    """
    free = [name for name in problem.parameters if _is_free(problem, fit, name)]
    if free:
        return (
            f"not determined by the data: {', '.join(free)}; fix what is known, "
            "or give data that depend on it"
        )
    if not fit.is_converged:
        return "not converged: the parameters move at the last step; give other first guesses"
    if solution.residual > RESOLVED_IN_NOISE:
        cure = "raise the degree, or leave it out" if is_one else "take a smaller domain"
        return (
            f"not resolved: the relative residual is {solution.residual:.1e}, and the parameters "
            f"may be wrong by more than their deviations; {cure}"
        )
    if not (has_settled or is_one):
        return "not settled: the largest basis is reached, and the parameters still move"
    if fit.weight == 0 and fit.misfit > max(EXPLAINED * fit.smooth_score, EXACT * fit.size):
        return (
            f"not explained: the misfit of the data is {fit.misfit:.1e}, that of a smooth fit "
            f"without the equation {fit.smooth_score:.1e}; look for errors in equation, conditions "
            "and data, or give other first guesses"
        )
    return None


def _is_free(problem: Problem, fit: DataFit, name: str) -> bool:
    """Whether a parameter has diverged, or has a deviation larger than it and its first guess."""
    value = float(fit.unknowns.parameters[name])
    return not math.isfinite(value) or fit.deviations.get(name, 0.0) > max(
        abs(value), abs(float(problem.parameters[name]))
    )


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
