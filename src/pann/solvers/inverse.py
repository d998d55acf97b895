"""Unknown parameters of an equation from data: bases that grow until the parameters have settled.

Where equation and conditions determine the solution for given parameters, these are fitted to the
data alone (`pann.solvers.data_fit.fit_reduced`), from several first guesses while bases are small.
Where the data stand in for a missing condition, b and the parameters are fitted together, the data
weighed against the equation (`fit_with_data`). The basis grows, along the axes where its
coefficients fall slowest, until the equation is resolved and the parameters move by little against
their standard deviations. Where that is not reached, the report says why: `_trouble`.
"""

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from pann.basis import Basis, WholeBasis, make_basis, orthonormal_scales
from pann.io.checkpoint import Saved, packed, unpacked
from pann.pde.collocation import Block
from pann.pde.conditions import Data
from pann.pde.problem import Problem
from pann.points import Points, tensor_grid
from pann.runtime.limits import Stopped
from pann.solvers import data_fit
from pann.solvers.assessment import indicator, relative_errors
from pann.solvers.data_fit import DataFit
from pann.solvers.newton import Unknowns, newton, start
from pann.solvers.polynomial import carried, last_small, polynomial_model
from pann.solvers.setup import CONDITION_WEIGHT, Setup
from pann.solvers.solution import Report, Solution, progress_of, with_report


@dataclasses.dataclass(frozen=True)
class Tuning:
    """The numbers of the method; levels are those in one and in two dimensions."""

    first_level: tuple[int, int] = (8, 12)  # of the first basis
    max_level: tuple[int, int] = (128, 96)
    max_columns: int = 5_000  # coefficients of the largest basis
    growth: tuple[float, ...] = (1.45, 1.3)  # of the number of terms; the next if that is too much
    last: float = 0.8  # levels above this fraction of the highest are the tail of an axis
    slow: float = 0.3  # an axis grows if its tail is at least this fraction of the largest
    points_per_function: float = 1.4  # along each axis
    # Parameters have settled if they move by less than a fraction of their deviations (a larger one
    # where data are weighed against the equation: another basis has another weight), or by less
    # relative to themselves. Each basis is several times nearer than the one before it: what is
    # left is less than the last move.
    deviations: float = 0.1
    deviations_weighted: float = 0.3
    settled: float = 1e-6
    falling: float = 0.95  # the cross-validated error must not fall below this fraction
    resolved: float = 1e-10  # residuals that are as good as none
    resolved_in_noise: float = 1e-4  # residuals that are small enough next to noise
    exact: float = 1e-5  # misfits relative to the data that are as good as none
    explained: float = 2.0  # the largest misfit relative to that of a smooth fit
    check_level: tuple[int, int] = (32, 18)  # of the basis that shows if conditions are missing
    few_columns: int = 200  # larger bases are not tried from several first guesses


TUNING = Tuning()


def is_inverse(problem: Problem) -> bool:
    """Whether there are parameters to find, and data to find them from."""
    return bool(problem.parameters) and any(isinstance(c, Data) for c in problem.conditions)


class Found(NamedTuple):
    """The polynomial half and the parameters; the same in few terms, for a network next to it.

    The setup has the weight of the data. `before` is the solution in the basis before the last,
    None where the parameters are not to be trusted.
    """

    solution: Solution
    small: Solution
    setup: Setup
    before: Solution | None


def solve_inverse(
    setup: Setup,
    ladder: Sequence[WholeBasis],
    start_from: Solution | None,
    at_least: int = 1,
) -> Found:
    """Grow the basis, over `at_least` so many sizes, until a larger one changes nothing.

    A ladder of one is the basis asked for. A longer one gives way, in one and two dimensions and on
    a single element, to products of functions whose number grows along each axis for itself.
    """
    problem, is_one, dimension = setup.problem, len(ladder) == 1, setup.problem.domain.dimension
    is_product = not is_one and _has_products(problem)
    given = iter(ladder)
    basis: WholeBasis | None = (
        _products(problem, [TUNING.first_level[dimension - 1]] * dimension)
        if is_product
        else next(given)
    )
    is_reduced = _is_determined(setup, ladder[0])
    solutions: list[Solution] = []
    fits: list[DataFit] = []
    has_settled, stopped = False, None
    while basis is not None:
        fit, solution = _on_basis(
            setup,
            basis,
            is_product,
            is_reduced,
            solutions[-1] if solutions else start_from,
            fits[-1] if fits else None,
        )
        is_reduced = fit.weight == 0
        solutions.append(solution)
        fits.append(fit)
        number = len(fits)
        try:
            setup.report(progress_of(solution, f"{basis.num_terms} terms", number, number))
        except Stopped as end:
            stopped = str(end)
            break
        has_settled = number >= at_least and solution.residual <= TUNING.resolved
        has_settled = has_settled or (number > 1 and _has_settled(fits[-2], fit, solution))
        if has_settled:
            break
        basis = _grown(problem, solution) if is_product else next(given, None)
    trouble = _trouble(problem, fit, solution, has_settled=has_settled, is_one=is_one)
    if stopped:
        trouble = f"stopped by {stopped}; next would have been a larger basis"
    rel_l2, field_errors = relative_errors(problem, solution.model, setup.ansatz)
    scores = [each.score for each in fits if math.isfinite(each.score)]
    misfits = [each.misfit for each in fits]
    solution = with_report(
        solution,
        rel_l2=rel_l2,
        field_errors=field_errors,
        stop=trouble or "converged: a larger basis moves the parameters by less than noise does",
        stopped=stopped,
        # Of parameters that are not to be trusted nothing is known.
        error_estimate=math.inf if trouble else None,
        seconds=setup.run.seconds,
        history=solution.report.history
        | {"cross-validated error": scores, "misfit of the data": misfits},
    )
    small = last_small(problem, solutions)
    return Found(
        solution,
        dataclasses.replace(small, report=solution.report, parameters=solution.parameters),
        # A network's steps are damped: data of a smaller weight would be fitted last.
        dataclasses.replace(setup, data_weight=max(fit.weight, 1.0)),
        None if trouble or len(solutions) == 1 else solutions[-2],
    )


def _on_basis(
    setup: Setup,
    basis: WholeBasis,
    is_product: bool,
    is_reduced: bool,
    before: Solution | None,
    fit_before: DataFit | None,
) -> tuple[DataFit, Solution]:
    problem = setup.problem
    if is_product and setup.points is None:
        setup = dataclasses.replace(setup, points=_points(problem, basis))
    placed = dataclasses.replace(setup, data_weight=1.0).placed(basis)
    unknowns = start(basis.num_terms, len(problem.fields), problem.parameters, "float64")
    checkpoint = setup.checkpoint.within(f"terms {basis.num_terms}")
    done = checkpoint.done()
    if done is not None:
        fit = _restored(done, unknowns)
    else:
        blocks = setup.blocks(placed, basis)
        fit = _fit(blocks, basis, unknowns, is_reduced, before, fit_before)
        checkpoint.finish(functools.partial(_saved, fit))
    how = "least squares of the data on the parameters, the polynomial solved for at each"
    if fit.weight > 0:
        how = f"Gauss-Newton on the polynomial and the parameters, data of weight {fit.weight:.2g}"
    if fit.weight > 0 and fit.misfit <= TUNING.exact * fit.size:
        weighted = dataclasses.replace(setup, data_weight=fit.weight).placed(basis)
        unknowns, _ = newton(setup.blocks(weighted, basis), fit.unknowns)
        fit = dataclasses.replace(fit, unknowns=unknowns)
    whole = polynomial_model(problem.domain, basis, fit.unknowns.b)
    report = Report(
        how=how,
        degree=int(np.max(basis.degrees, initial=0)),
        num_points=sum(len(each.points) for each in placed),
        residual=indicator(setup, placed[1:], whole, fit.unknowns.parameters),
        rel_l2=None,
        stop="the basis is not the last",
        seconds=0.0,
        history={"sum of squares": fit.sums},
        parameter_deviations=fit.deviations,
    )
    rounded = fit.unknowns.b.astype(setup.precision)
    model = polynomial_model(problem.domain, basis, rounded, setup.precision)
    numbers = fit.unknowns.numbers
    return fit, Solution(model, problem.fields, numbers, report, problem, setup.ansatz)


def _fit(
    blocks: tuple[Block, ...],
    basis: WholeBasis,
    unknowns: Unknowns,
    is_reduced: bool,
    before: Solution | None,
    fit_before: DataFit | None,
) -> DataFit:
    """Begun with the solution before, or with the data; on small bases from several guesses."""
    guess = unknowns.numbers
    is_first = before is None or not np.any(before.model.parameters.b)
    is_tried = is_first or unknowns.b.size <= TUNING.few_columns
    smooth = (
        data_fit.smooth_fit(blocks, basis, unknowns) if is_tried else data_fit.SmoothFit(unknowns)
    )
    by_equation = data_fit.fit_parameters(blocks, smooth)
    score = smooth.score if fit_before is None else min(smooth.score, fit_before.smooth_score)
    begun = None if before is None or is_first else carried(before, basis, unknowns)
    fit = None
    if is_reduced:
        guesses = [guess, by_equation.numbers, *data_fit.other_guesses(guess)] if is_tried else []
        fit = data_fit.fit_reduced(blocks, smooth.unknowns if begun is None else begun, guesses)
    if fit is None:
        is_near = fit_before is not None and fit_before.weight > 0
        weight = fit_before.weight if fit_before is not None and is_near else CONDITION_WEIGHT
        first = by_equation if begun is None else begun
        fit = data_fit.fit_with_data(blocks, first, weight, is_near=is_near)
    return dataclasses.replace(fit, smooth_score=score)


def _is_determined(setup: Setup, basis: WholeBasis) -> bool:
    """Whether equation and conditions determine the solution, by a basis of medium size."""
    problem, dimension = setup.problem, setup.problem.domain.dimension
    if _has_products(problem):
        basis = _products(problem, [TUNING.check_level[dimension - 1]] * dimension)
        setup = dataclasses.replace(setup, points=_points(problem, basis))
    blocks = setup.blocks(setup.placed(basis), basis)
    unknowns = start(basis.num_terms, len(problem.fields), problem.parameters, "float64")
    return data_fit.is_determined(blocks, basis, unknowns)


_NUMBERS = ("weight", "score", "misfit", "size", "smooth_score")


def _saved(fit: DataFit) -> Saved:
    arrays = {
        "numbers": np.array([getattr(fit, name) for name in _NUMBERS]),
        "sums": np.asarray(fit.sums),
        "deviations": np.array(list(fit.deviations.values())),
    }
    notes = {"is_converged": fit.is_converged, "deviations": list(fit.deviations)}
    return Saved(arrays | packed("unknowns", fit.unknowns), notes)


def _restored(saved: Saved, like: Unknowns) -> DataFit:
    arrays, names = saved.arrays, saved.notes["deviations"]
    return DataFit(
        unpacked("unknowns", arrays, like),
        deviations=dict(zip(names, arrays["deviations"].tolist(), strict=True)),
        sums=arrays["sums"].tolist(),
        is_converged=saved.notes["is_converged"],
        **dict(zip(_NUMBERS, arrays["numbers"].tolist(), strict=True)),
    )


def _has_settled(before: DataFit, now: DataFit, solution: Solution) -> bool:
    """Whether a larger basis changed neither the parameters nor the fit, beyond the noise."""
    deviations = TUNING.deviations if now.weight == 0 else TUNING.deviations_weighted
    for name, value in now.unknowns.parameters.items():
        by_noise = deviations * now.deviations.get(name, 0.0)
        allowed = max(by_noise, TUNING.settled * abs(float(value)))
        if not abs(float(value - before.unknowns.parameters[name])) <= allowed:
            return False
    is_resolved = solution.residual <= TUNING.resolved_in_noise
    return is_resolved and now.score >= TUNING.falling * before.score


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
    if solution.residual > TUNING.resolved_in_noise:
        cure = "raise the degree, or leave it out" if is_one else "take a smaller domain"
        return (
            f"not resolved: the relative residual is {solution.residual:.1e}, and the parameters "
            f"may be wrong by more than their deviations; {cure}"
        )
    if not (has_settled or is_one):
        return "not settled: the largest basis is reached, and the parameters still move"
    most = max(TUNING.explained * fit.smooth_score, TUNING.exact * fit.size)
    if fit.weight == 0 and fit.misfit > most:
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


def _has_products(problem: Problem) -> bool:
    """Whether bases are products of functions whose number is chosen for each axis."""
    return problem.domain.dimension <= 2 and not problem.pieces and problem.domain.shape is None


def _products(problem: Problem, along: Sequence[int]) -> WholeBasis:
    """All products of functions of at most these levels along the axes."""
    weights = [float(level) for level in along]
    return make_basis(problem.domain, 1, index_set="tensor_product", weights=weights)


def _grown(problem: Problem, solution: Solution) -> WholeBasis | None:
    """A basis larger along the axes where the coefficients fall slowest; None at the end."""
    basis = solution.model.product_basis
    assert isinstance(basis, Basis)
    each = data_fit.levels(basis)
    sizes = np.asarray(solution.model.parameters.b) / orthonormal_scales(basis)[:, None]
    squares = np.sum(sizes**2, axis=1)
    top = np.max(each, axis=0)
    tails = np.sqrt(squares @ (each > TUNING.last * top))
    slow = tails >= TUNING.slow * np.max(tails)
    for growth in TUNING.growth:
        larger = np.ceil(growth ** (1 / np.sum(slow)) * top)
        along = np.where(slow, larger, top).astype(int).tolist()
        columns = len(problem.fields) * math.prod(
            family.num_functions(level) for family, level in zip(basis.families, along, strict=True)
        )
        max_level = TUNING.max_level[problem.domain.dimension - 1]
        if columns <= TUNING.max_columns and max(along) <= max_level:
            return _products(problem, along)
    return None


def _points(problem: Problem, basis: WholeBasis) -> Points:
    """A grid of Gauss points with as many along each axis as its functions need."""
    assert isinstance(basis, Basis)
    nodes = [
        family.quadrature(math.ceil(TUNING.points_per_function * count) + 2)[0]
        for family, count in zip(basis.families, basis.num_functions, strict=True)
    ]
    return Points(problem.domain.from_reference(tensor_grid(*nodes)))
