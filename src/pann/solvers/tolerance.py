"""solve(problem, tolerance=1e-6): ever finer resolutions, until two of them agree.

A resolution is a march in windows, a polynomial, or a polynomial with a network; each is finer than
the one before it in every respect. The difference between two is the error of the coarser one, more
than that of the finer, which is given back. Two that agree may both miss what neither resolves:
the residual at fresh points, and the distance from values that are given, must be below the
tolerance as well.
"""

import dataclasses
import itertools
import math
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from pann.basis import Basis, make_basis
from pann.errors import WindowsFailed
from pann.model.architecture import Architecture
from pann.pde.conditions import Condition, Data, Dirichlet, Initial, values_of_data
from pann.pde.evaluation import evaluate_solution
from pann.pde.placing import OnFaces, evaluate, face_points
from pann.pde.problem import Problem
from pann.points import uniform
from pann.runtime.limits import Stopped
from pann.solvers.assessment import TRUSTED, assessed, of_the_true_size
from pann.solvers.inverse import SMALL, is_inverse, solve_inverse
from pann.solvers.second_order import (
    check_time_for,
    has_settled,
    on_basis,
    solve_second_order,
    stopped_by,
)
from pann.solvers.setup import Setup
from pann.solvers.solution import Solution, progress_of, trial_figures
from pann.solvers.windows.march import UNSOLVED
from pann.solvers.windows.method import DEGREE, solve_plan, window_plan
from pann.solvers.windows.resolution import are_used_up, finer_axes, first_axes

# Options that go with a tolerance.
NO_SIZES, LEFT_OUT = ("activation", "network", "embedding"), (("width", 0), ("windows", 0))
NUM_COMPARED = 20_000
FRESH = OnFaces("uniform", 5_000, seed=3)
# Of a march: the first tolerance of its windows relative to that asked for, by how much each next
# one is stricter and of a higher degree in time, how many there are, and where round-off ends it.
FIRST_SHARE, STRICTER, MORE_DEGREES, MAX_MARCHES, STRICTEST = 0.3, 0.1, 2, 5, 1e-13
# Of a polynomial: by how much degrees grow beyond the ladder, while each lowers the residual to
# this share, as only smooth solutions let them; and how many coefficients there may be.
GROWTH, SPECTRAL, MAX_FURTHER, MAX_COLUMNS = 1.36, 0.1, 3, 4_000
# Of a network: how much wider each next one is, and how many there are.
WIDER, MAX_NETWORKS = 1.5, 3
# Two that differ may both be wrong by as much. Differences that fall more slowly than by this
# share, or do not fall, count as if they did; what all resolutions share is rounded alike.
SAFETY, SLOWEST, ROUND_OFF = 2.0, 0.9, 1e-12


def check_tolerance(tolerance: float | int, options: Mapping[str, object]) -> None:
    """Refuse what is no tolerance, and sizes beside one."""
    if not isinstance(tolerance, int | float) or not 0 < tolerance < 1:
        raise ValueError(f"tolerance must be a positive number below 1, got {tolerance!r}")
    given = [
        name
        for name, value in options.items()
        if value is not None and name not in NO_SIZES and (name, value) not in LEFT_OUT
    ]
    if given:
        raise ValueError(
            f"tolerance={tolerance:g} chooses the sizes by itself; leave out {', '.join(given)}, "
            "or leave out tolerance"
        )


def solve_to_tolerance(
    setup: Setup,
    *,
    tolerance: float,
    in_windows: bool,
    ladder: Sequence[Basis],
    architectures: Sequence[Architecture],
    iterations: int,
    begin: float,
) -> Solution:
    """The first resolution that meets the tolerance, or the best, which says that it does not."""
    resolutions = _resolutions(
        setup, tolerance, in_windows, ladder, architectures, iterations, begin
    )
    tried: list[Solution] = []
    differences: list[float] = []
    is_met, ended = False, None
    try:
        for solution in resolutions:
            if tried:
                differences.append(_difference(tried[-1], solution))
            tried.append(solution)
            setup.checkpoint.flush()
            is_met = _is_met(tried, differences, tolerance)
            setup.report(progress_of(solution, "resolution", len(tried), len(tried)))
            if is_met:
                break
    except Stopped as stopped:
        ended = stopped
    if not tried:
        # Time was up within a march: the first polynomial takes the least time.
        tried.append(on_basis(setup, ladder[0], "float64", None, begin))
    # Without success the best may not be the finest: then the one after it differs from it, too.
    best = min(range(len(tried)), key=lambda k: _or_inf(tried[k].residual))
    chosen = len(tried) - 1 if is_met else best
    solution = tried[chosen]
    compared = [differences[:k] for k in (chosen, chosen + 1) if 0 < k <= len(differences)]
    if ended is not None and not is_met:
        solution = stopped_by(solution, ended, "a finer resolution")
    report = dataclasses.replace(
        solution.report,
        seconds=time.perf_counter() - begin,
        history=solution.report.history | {"difference between resolutions": differences},
        trials=[trial_figures(solution, setup.seed)],
        tolerance=tolerance,
        error_estimate=max((_error(each, solution) for each in compared), default=math.inf),
        met=is_met,
    )
    return _checked_again(dataclasses.replace(solution, report=report), setup)


def _is_met(tried: Sequence[Solution], differences: Sequence[float], tolerance: float) -> bool:
    """Whether the last of the solutions meets the tolerance, and the problem determines it."""
    if len(tried) < 2:
        return False
    error, now = _error(differences, tried[-1]), tried[-1]
    is_determined = now.report.stability is None or has_settled(tried[-2], now)
    return error <= tolerance and now.residual <= tolerance and is_determined


def _checked_again(solution: Solution, setup: Setup) -> Solution:
    """Residual and verdict at points that chose nothing.

    Resolutions that agree may both be unresolved: where the tolerance is not met, the estimate is
    at least what the residual allows.
    """
    report = dataclasses.replace(solution.report, error_estimate=None)
    bound = assessed(dataclasses.replace(solution, report=report), setup.seed)
    by_residual, tolerance = bound.report.error_estimate, solution.report.tolerance
    assert tolerance is not None
    estimate = solution.report.error_estimate or 0.0
    is_met = bool(solution.report.met) and bound.residual <= tolerance
    if not is_met:
        estimate = max(estimate, math.inf if by_residual is None else by_residual)
    report = dataclasses.replace(
        bound.report,
        error_estimate=estimate,
        met=is_met,
        resolved=is_met or bool(bound.report.resolved and estimate <= TRUSTED),
    )
    return dataclasses.replace(bound, report=report)


# ---- How far apart they are ----


def _error(differences: Sequence[float], solution: Solution) -> float:
    """An estimate of a solution's error, infinite where there is nothing to compare it with.

    Twice the last difference, or the sum of all that would follow it if they went on to fall as the
    last two do, where that is more; not below the distance from values that are given.
    """
    if not differences:
        return math.inf
    ratio = 0.0 if len(differences) == 1 else differences[-1] / max(differences[-2], 1e-300)
    ratio = min(ratio, SLOWEST)
    error = max(differences[-1] * max(SAFETY, ratio / (1 - ratio)), _misfit(solution), ROUND_OFF)
    return of_the_true_size(error)


def _difference(coarse: Solution, fine: Solution) -> float:
    """Between the fields, relative l2 at random points, or between unknown parameters if more."""
    before, now = _values(coarse), _values(fine)
    moves = [
        abs(value - coarse.parameters[name]) / max(abs(value), 1e-300)
        for name, value in fine.parameters.items()
    ]
    return max(_size(now - before) / max(_size(now), 1e-300), *moves, 0.0)


def _misfit(solution: Solution) -> float:
    """The largest distance from values that are given, relative to the field.

    Data may be noisy, and a spike in an initial state between the points of all resolutions.
    """
    problem = solution.problem
    assert problem is not None
    misfits = [0.0]
    for condition, points, values in _given(problem):
        field = problem.field_number(condition)
        found = evaluate_solution(solution.model, solution.ansatz, points)[:, field]
        missed = _size(found - evaluate(values, problem, points))
        misfits.append(missed / max(_size(_values(solution)[:, field]), 1e-300))
    return max(misfits)


def _given(problem: Problem) -> Iterator[tuple[Condition, np.ndarray, Any]]:
    """Conditions that give the values of a field, points and the values."""
    for condition in problem.conditions:
        if isinstance(condition, Data):
            points = np.asarray(condition.points, float)
            yield condition, points, values_of_data(condition, problem.domain)
        elif isinstance(condition, Dirichlet):
            yield condition, face_points(condition.faces, 1, on_faces=FRESH)[0], condition.value
        elif isinstance(condition, Initial) and condition.order == 0:
            faces = problem.domain.initial
            yield condition, face_points(faces, 1, on_faces=FRESH)[0], condition.value


def _values(solution: Solution) -> Float[np.ndarray, "points fields"]:
    points = uniform(solution.model.domain, NUM_COMPARED, seed=2).coordinates
    return evaluate_solution(solution.model, solution.ansatz, points)


def _size(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(values**2)))


def _or_inf(value: float) -> float:
    return value if math.isfinite(value) else math.inf


# ---- Ever finer resolutions ----


def _resolutions(
    setup: Setup,
    tolerance: float,
    in_windows: bool,
    ladder: Sequence[Basis],
    architectures: Sequence[Architecture],
    iterations: int,
    begin: float,
) -> Iterator[Solution]:
    """Windows where they work; otherwise polynomials, then networks beside them."""
    if in_windows and (yield from _marches(setup, tolerance, begin)):
        return
    if is_inverse(setup.problem):
        found = solve_inverse(setup, ladder, "float64", None, begin, at_least=2)
        yield from (each for each in (found.before, found.solution) if each is not None)
        return
    residual = yield from _polynomials(setup, ladder, begin)
    if architectures[0].widths:
        yield from _networks(setup, ladder, architectures, iterations, residual, begin)


def _marches(setup: Setup, tolerance: float, begin: float) -> Generator[Solution, None, bool]:
    """Ever stricter windows with more functions in space and time; whether there were any.

    Those that do not reach the end, or do not solve the equation, are left out, and end it.
    """
    local = FIRST_SHARE * tolerance
    axes = first_axes(setup.problem, None, local)
    while are_used_up(axes) and local < UNSOLVED:
        # No frequencies resolve the initial state: leave some for a second resolution.
        local /= STRICTER
        axes = first_axes(setup.problem, None, local)
    for number in range(MAX_MARCHES):
        scoped = dataclasses.replace(setup, checkpoint=setup.checkpoint.within(f"march {number}"))
        plan = window_plan(scoped, tolerance=local, degree=DEGREE + MORE_DEGREES * number)
        try:
            solution, marched = solve_plan(scoped, plan, axes, begin)
        except WindowsFailed:
            return number > 0
        if not marched.finished or not solution.residual <= UNSOLVED:
            return number > 0
        yield solution
        axes = marched.windows[-1].axes
        if local <= STRICTEST or (number and are_used_up(axes)):
            break
        local, axes = max(local * STRICTER, STRICTEST), finer_axes(axes)
    return True


def _polynomials(
    setup: Setup, ladder: Sequence[Basis], begin: float
) -> Generator[Solution, None, float]:
    """Up the ladder, and beyond it while the convergence is that to a smooth solution.

    The residual of the last one comes back.
    """
    start_from, residual = None, math.inf
    last: tuple[Solution, float] | None = None
    for number, basis in enumerate(itertools.chain(ladder, _further(setup, ladder[-1]))):
        if last is not None:
            check_time_for(setup, basis, *last)
        begun = time.monotonic()
        solution = on_basis(setup, basis, "float64", start_from, begin, is_rung=True)
        last = solution, time.monotonic() - begun
        # From a poor start Newton's method may end in another solution of the equation.
        start_from = solution if solution.residual < 1e-3 else None
        before, residual = residual, solution.residual
        yield solution
        if number + 1 >= len(ladder) and not residual <= SPECTRAL * before:
            break
    return residual


def _further(setup: Setup, last: Basis) -> Iterator[Basis]:
    problem, degree = setup.problem, int(np.max(last.degrees, initial=1))
    for _ in range(MAX_FURTHER):
        degree = math.ceil(GROWTH * degree)
        basis = make_basis(problem.domain, degree, families=dict(problem.pieces))
        if basis.num_terms * len(problem.fields) > MAX_COLUMNS:
            break
        yield basis


def _networks(
    setup: Setup,
    ladder: Sequence[Basis],
    architectures: Sequence[Architecture],
    iterations: int,
    residual: float,
    begin: float,
) -> Iterator[Solution]:
    """Ever wider networks beside ever larger polynomials, as long as the residual falls."""
    fields = len(setup.problem.fields)
    first = max(sum(basis.num_terms * fields <= SMALL for basis in ladder) - 1, 0)
    for number, basis in enumerate(ladder[first : first + MAX_NETWORKS]):
        solution = solve_second_order(
            dataclasses.replace(setup, checkpoint=setup.checkpoint.within(f"network {number}")),
            ladder=[basis],
            architectures=[_wider(each, WIDER**number) for each in architectures],
            always_network=True,
            trials=1,
            iterations=iterations,
            start_from=None,
            begin=begin,
        )
        if solution.model.num_units == 0 or not solution.residual < residual:
            return
        residual = solution.residual
        yield solution


def _wider(architecture: Architecture, factor: float) -> Architecture:
    widths = tuple(math.ceil(factor * width) for width in architecture.widths)
    return dataclasses.replace(architecture, widths=widths)
