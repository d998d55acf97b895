"""solve(problem, tolerance=1e-6): ever finer resolutions, until two of them agree.

A resolution is a march in windows, a polynomial, or a polynomial with a network; each is finer than
the one before it in every respect. The difference between two is the error of the coarser one, more
than that of the finer, which is returned. Two that agree may both miss what neither resolves: the
residual at fresh points, and the distance from given values, must be below the tolerance as well.
"""

import dataclasses
import itertools
import math
from collections.abc import Generator, Iterator, Sequence

import numpy as np
from jaxtyping import Float

from pann.basis import WholeBasis, make_basis
from pann.errors import WindowsFailed
from pann.methods import Elements, Windows
from pann.pde.conditions import Data, Dirichlet, Initial
from pann.pde.evaluation import evaluate_solution
from pann.pde.placing import OnFaces, place_conditions
from pann.pde.problem import Problem
from pann.points import uniform
from pann.runtime.limits import Stopped
from pann.solvers.assessment import TRUSTED, assessed, relative_to_truth
from pann.solvers.elements.method import compared, is_settled, solve_on_elements
from pann.solvers.inverse import is_inverse, solve_inverse
from pann.solvers.network import Networks, solve_second_order
from pann.solvers.polynomial import (
    has_settled,
    is_hopeless,
    is_small,
    solutions_on,
    solve_on_basis,
    stopped_by,
)
from pann.solvers.setup import Setup
from pann.solvers.shape_windows import finer_marches
from pann.solvers.shapes import bases_of_shape
from pann.solvers.solution import Solution, progress_of, trial_figures, with_report
from pann.solvers.windows.march import UNSOLVED
from pann.solvers.windows.method import DEGREE, solve_plan, window_plan
from pann.solvers.windows.resolution import are_used_up, finer_axes, first_axes


@dataclasses.dataclass(frozen=True)
class Tuning:
    """The numbers of the method."""

    # Marches in windows.
    first_tolerance: float = 0.3  # of the first windows, relative to the tolerance asked for
    stricter: float = 0.1  # factor of the windows' tolerance from one march to the next
    strictest: float = 1e-13  # where round-off ends it
    more_degrees: int = 2  # in time, from one march to the next
    max_marches: int = 5
    # Polynomials beyond the usual degrees.
    growth: float = 1.36  # of the degree
    spectral: float = 0.1  # each must lower the residual to this fraction, as for smooth solutions
    max_further: int = 3
    max_columns: int = 4_000  # coefficients
    # Networks.
    wider: float = 1.5  # factor of the widths from one network to the next
    max_networks: int = 3
    # Elements.
    tails_of_elements: tuple[float, ...] = (0.3, 0.01, 3e-4)  # relative to the tolerance
    # The estimate of the error.
    safety: float = 2.0  # two that differ may both be wrong by as much
    slowest: float = 0.9  # differences that fall more slowly, or grow, count as if they fell so
    round_off: float = 1e-12  # what all resolutions share is rounded alike
    num_compared: int = 20_000  # points at which two resolutions are compared
    num_on_faces: int = 5_000  # points at which given values are compared


TUNING = Tuning()


def solve_to_tolerance(
    setup: Setup,
    *,
    tolerance: float,
    in_windows: bool,
    ladder: Sequence[WholeBasis],
    networks: Networks,
    has_elements: bool = False,
) -> Solution:
    """The first resolution that meets the tolerance, or the best, which says that it does not."""

    def resolutions() -> Iterator[Solution]:
        """Windows where they work; else polynomials, elements, networks next to polynomials."""
        if in_windows and (yield from _marches(setup, tolerance)):
            return
        if is_inverse(setup.problem):
            found = solve_inverse(setup, ladder, None, at_least=2)
            yield from (each for each in (found.before, found.solution) if each is not None)
            return
        residual = yield from _polynomials(setup, ladder, tolerance if has_elements else None)
        if has_elements and (yield from _on_elements(setup, tolerance)):
            return
        if networks.architectures[0].widths:
            yield from _with_networks(setup, ladder, networks, residual)

    tried: list[Solution] = []
    differences: list[float] = []
    is_met, ended = False, None
    try:
        for solution in resolutions():
            before = tried[-1] if tried else None
            if before is not None:
                differences.append(_difference(before, solution))
            tried.append(solution)
            setup.checkpoint.flush()
            # A problem that does not determine its solution is less stable in larger bases.
            is_stable = solution.report.stability is None or has_settled(before, solution)
            error = _error(differences, solution)
            is_met = is_stable and error <= tolerance and solution.residual <= tolerance
            setup.report(progress_of(solution, "resolution", len(tried), len(tried)))
            if is_met:
                break
    except Stopped as stopped:
        ended = stopped
    if not tried:
        # Time was up within a march: the first polynomial takes the least time.
        tried.append(solve_on_basis(setup, ladder[0], None))
    # Without success the best may not be the finest: then the one after it differs from it, too.
    residuals = [each.residual if math.isfinite(each.residual) else math.inf for each in tried]
    chosen = len(tried) - 1 if is_met else residuals.index(min(residuals))
    solution = tried[chosen]
    compared = [differences[:k] for k in (chosen, chosen + 1) if 0 < k <= len(differences)]
    if ended is not None and not is_met:
        solution = stopped_by(solution, ended, "a finer resolution")
    solution = with_report(
        solution,
        seconds=setup.run.seconds,
        history=solution.report.history | {"difference between resolutions": differences},
        trials=[trial_figures(solution, setup.seed)],
        tolerance=tolerance,
        error_estimate=max((_error(each, solution) for each in compared), default=math.inf),
        met=is_met,
    )
    return _checked_again(solution, setup, tolerance)


def _checked_again(solution: Solution, setup: Setup, tolerance: float) -> Solution:
    """Residual and verdict at points that chose nothing.

    Resolutions that agree may both be unresolved: where the tolerance is not met, the estimate is
    at least what the residual allows.
    """
    bound = assessed(with_report(solution, error_estimate=None), setup.seed)
    by_residual, estimate = bound.report.error_estimate, solution.report.error_estimate or 0.0
    is_met = bool(solution.report.met) and bound.residual <= tolerance
    if not is_met:
        estimate = max(estimate, math.inf if by_residual is None else by_residual)
    resolved = is_met or bool(bound.report.resolved and estimate <= TRUSTED)
    return with_report(bound, error_estimate=estimate, met=is_met, resolved=resolved)


# ---- The difference between resolutions ----


def _error(differences: Sequence[float], solution: Solution) -> float:
    """An estimate of a solution's error, infinite where there is nothing to compare it with.

    Twice the last difference, or the sum of all that would follow it if they went on to fall as the
    last two do, where that is more; not below the distance from given values.
    """
    if not differences:
        return math.inf
    ratio = 0.0 if len(differences) == 1 else differences[-1] / max(differences[-2], 1e-300)
    ratio = min(ratio, TUNING.slowest)
    error = differences[-1] * max(TUNING.safety, ratio / (1 - ratio))
    return relative_to_truth(max(error, _misfit(solution), TUNING.round_off))


def _difference(coarse: Solution, fine: Solution) -> float:
    """Between the fields, relative l2 at random points, or between unknown parameters if more."""
    before, now = _values(coarse), _values(fine)
    moves = [
        abs(value - coarse.parameters[name]) / max(abs(value), 1e-300)
        for name, value in fine.parameters.items()
    ]
    return max(_size(now - before) / max(_size(now), 1e-300), *moves, 0.0)


def _misfit(solution: Solution) -> float:
    """The largest distance from given values, relative to the field.

    Data may be noisy, and an initial state may have a spike between the points of all resolutions.
    """
    problem = solution.problem
    assert problem is not None
    given = [
        # Windows do not meet hard conditions by the form of the solution.
        each if isinstance(each, Data) else dataclasses.replace(each, hard=False)
        for each in problem.conditions
        if isinstance(each, Data | Dirichlet) or (isinstance(each, Initial) and each.order == 0)
    ]
    of_given = dataclasses.replace(problem, conditions=given)
    placed = place_conditions(of_given, 1, OnFaces("uniform", TUNING.num_on_faces, seed=3))
    misfits = [0.0]
    for condition, each in zip(given, placed, strict=True):
        field = problem.field_number(condition)
        found = evaluate_solution(solution.model, solution.ansatz, each.points)[:, field]
        missed = _size(found - each.target[:, 0])
        misfits.append(missed / max(_size(_values(solution)[:, field]), 1e-300))
    return max(misfits)


def _values(solution: Solution) -> Float[np.ndarray, "points fields"]:
    points = uniform(solution.model.domain, TUNING.num_compared, seed=2).coordinates
    return evaluate_solution(solution.model, solution.ansatz, points)


def _size(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(values**2)))


# ---- Ever finer resolutions ----


def _marches(setup: Setup, tolerance: float) -> Generator[Solution, None, bool]:
    """Ever stricter windows with more functions in space and time; whether there were any.

    Those that do not reach the end, or do not solve the equation, are left out, and end it.
    """
    local = TUNING.first_tolerance * tolerance
    if setup.problem.domain.shape is not None:
        return (yield from _marches_on_shape(setup, local))
    axes = first_axes(setup.problem, None, local)
    while are_used_up(axes) and local < UNSOLVED:
        # No frequencies resolve the initial state: leave some for a second resolution.
        local /= TUNING.stricter
        axes = first_axes(setup.problem, None, local)
    for number in range(TUNING.max_marches):
        scoped = setup.within(f"march {number}")
        degree = DEGREE + TUNING.more_degrees * number
        plan = window_plan(scoped, Windows(tail=local, degree=degree))
        try:
            solution, marched = solve_plan(scoped, plan, axes)
        except WindowsFailed:
            return number > 0
        if not marched.finished or not solution.residual <= UNSOLVED:
            return number > 0
        yield solution
        axes = marched.windows[-1].axes
        if local <= TUNING.strictest or (number and are_used_up(axes)):
            break
        local, axes = max(local * TUNING.stricter, TUNING.strictest), finer_axes(axes)
    return True


def _marches_on_shape(setup: Setup, local: float) -> Generator[Solution, None, bool]:
    tails = [local * TUNING.stricter**number for number in range(TUNING.max_marches)]
    tails = list(dict.fromkeys(max(tail, TUNING.strictest) for tail in tails))
    any_done = False
    try:
        for solution, is_whole in finer_marches(setup, tails, TUNING.more_degrees):
            if not is_whole or not solution.residual <= UNSOLVED:
                break
            yield solution
            any_done = True
    except WindowsFailed:
        pass
    return any_done


def _polynomials(
    setup: Setup, ladder: Sequence[WholeBasis], goal: float | None
) -> Generator[Solution, None, float]:
    """The usual degrees, and higher ones while they converge as to a smooth solution.

    The residual of the last one is returned. With a `goal` for it there are elements as well, and
    the degrees end where it is out of reach for them.
    """
    bases = itertools.chain(ladder, _further(setup.problem, ladder[-1]))
    residual, tried = math.inf, None
    for number, solution in enumerate(solutions_on(setup, bases, None, is_rung=True), start=1):
        before, residual = residual, solution.residual
        yield solution
        if goal is not None and is_hopeless(setup.problem, tried, solution, ladder[-1], goal):
            break
        tried = solution
        if number >= len(ladder) and not residual <= TUNING.spectral * before:
            break
    return residual


def _on_elements(setup: Setup, tolerance: float) -> Generator[Solution, None, bool]:
    """Elements with ever smaller tails; whether the last ones are resolved."""
    solution = None
    for share in TUNING.tails_of_elements:
        tail = max(share * tolerance, TUNING.round_off)
        scoped = setup.within(f"tail {tail:g}")
        solution = solve_on_elements(scoped, Elements(tail=tail))
        yield compared(scoped, solution)
        if solution.report.stopped or not is_settled(solution):
            return False
    return True


def _further(problem: Problem, last: WholeBasis) -> Iterator[WholeBasis]:
    degree = int(np.max(last.degrees, initial=1))
    for _ in range(TUNING.max_further):
        degree = math.ceil(TUNING.growth * degree)
        basis: WholeBasis = (
            make_basis(problem.domain, degree, families=dict(problem.pieces))
            if problem.domain.shape is None
            else bases_of_shape(problem, [degree])[0]
        )
        if basis.num_terms * len(problem.fields) > TUNING.max_columns:
            break
        yield basis


def _with_networks(
    setup: Setup, ladder: Sequence[WholeBasis], networks: Networks, residual: float
) -> Iterator[Solution]:
    """Ever wider networks next to ever larger polynomials, as long as the residual falls."""
    first = max(sum(is_small(setup.problem, basis) for basis in ladder) - 1, 0)
    for number, basis in enumerate(ladder[first : first + TUNING.max_networks]):
        wider = [
            dataclasses.replace(
                each, widths=tuple(math.ceil(TUNING.wider**number * units) for units in each.widths)
            )
            for each in networks.architectures
        ]
        own = dataclasses.replace(networks, architectures=wider, asked_for=True)
        scoped = setup.within(f"network {number}")
        solution = solve_second_order(scoped, ladder=[basis], networks=own)
        if solution.model.num_units == 0 or not solution.residual < residual:
            return
        residual = solution.residual
        yield solution
