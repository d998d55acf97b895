"""The default recipe: Gauss-Newton on the polynomial, a network by Levenberg-Marquardt."""

import dataclasses
import functools
import math
import time
from collections.abc import Callable, Sequence

import numpy as np

from pann.basis import Basis
from pann.model.architecture import Architecture
from pann.pde.checks import has_integrals
from pann.pde.collocation import Placed
from pann.pde.conditions import Break
from pann.pde.placing import points_per_axis_of
from pann.pde.problem import Problem
from pann.runtime.limits import Stopped, product_rate
from pann.solvers.assessment import (
    constant_in_space,
    free_part,
    function_norms,
    is_linear,
    without_free_part,
)
from pann.solvers.inverse import SMALL, is_inverse, solve_inverse
from pann.solvers.network import NEAR, network_seconds, with_network
from pann.solvers.newton import newton, start
from pann.solvers.polynomial import carried, polynomial_model
from pann.solvers.quality import polynomial_indicator, relative_errors
from pann.solvers.setup import Setup, conditions_of
from pann.solvers.solution import Report, Solution, progress_of, trial_figures

# Degrees to try by dimension, and when a solution counts as resolved.
LADDERS = {1: (8, 16, 32, 64, 128, 256, 512, 1024), 2: (8, 14, 22, 32, 44, 60), 3: (6, 9, 13, 17)}
HIGH_DIMENSIONAL = (3, 5, 7)
# On many pieces, or in many dimensions, the ladder ends before it has more coefficients.
MAX_LADDER_COLUMNS = 3_000
RESOLVED = 1e-10
# A network that leaves more than this share of the residual is of little help.
LITTLE = 0.1
# A network is tried where the relative residual at fresh points is above this.
UNRESOLVED = 1e-6
# Programs of a network are compiled in about so many seconds, in which nothing can be stopped.
NETWORK_SECONDS = 10.0
# Floating-point operations of a Newton step over rows x columns^2.
SOLVE_WORK = 8.0
# A solution that is found stands if the stability of the problem is no longer falling with the
# degree: where it goes on to fall, equation and conditions do not determine the solution.
SETTLED = 0.3


def degrees_to_try(problem: Problem) -> tuple[int, ...]:
    """The degrees of the ladder; on many pieces, or in many dimensions, those not too large."""
    dimension = problem.domain.dimension
    rungs = LADDERS.get(dimension, HIGH_DIMENSIONAL)
    pieces = math.prod(family.num_pieces for family in problem.pieces.values())
    columns = [
        pieces * math.comb(rung + dimension, dimension) * len(problem.fields) for rung in rungs
    ]
    affordable = sum(count <= MAX_LADDER_COLUMNS for count in columns)
    return rungs[: max(affordable, 1)]


def solve_second_order(
    setup: Setup,
    *,
    ladder: list[Basis],
    architectures: Sequence[Architecture],
    always_network: bool,
    trials: int,
    iterations: int,
    start_from: Solution | None,
    begin: float,
) -> Solution:
    """Climb the ladder until resolved; then a network if asked for, or if that is not enough.

    Where there are several architectures, they race. Where parameters are to be found from data, a
    small residual is not all, and a network is trained only if asked for. A network does not know
    integrals: equations that have some are left to the polynomial.
    """
    precision, begun_with = architectures[0].precision, start_from
    if is_inverse(setup.problem):
        solution, small, setup, _ = solve_inverse(setup, ladder, precision, start_from, begin)
        has_network = always_network
    else:
        solution, small = climb(setup, ladder, precision, start_from, begin)
        has_network = always_network or solution.residual > UNRESOLVED
    if has_integrals(setup.problem):
        if always_network and architectures[0].widths:
            raise ValueError("integrals are computed for polynomials alone; give width=0")
        has_network = False
    figures = [trial_figures(solution, setup.seed)] * trials
    has_network = has_network and bool(architectures[0].widths) and not solution.report.stopped
    if has_network:
        solution = _announced(setup, solution, small, architectures, trials, iterations)
    if has_network and not solution.report.stopped:
        both: list[Solution] = []
        for trial in range(trials):
            own = dataclasses.replace(
                setup,
                seed=setup.seed + trial,
                checkpoint=setup.checkpoint.within(f"trial {trial}"),
            )
            train = functools.partial(
                with_network,
                architectures=architectures,
                iterations=iterations,
                begun_with=begun_with if trial == 0 else None,
                begin=begin,
            )
            enough = max(LITTLE * solution.residual, RESOLVED)
            both.append(_beside_or_alone(own, small, enough, train))
            if both[-1].report.stopped:
                break
        kept = [
            candidate if candidate.residual < solution.residual else _tried(solution, begin)
            for candidate in both
        ]
        figures = [
            trial_figures(candidate, setup.seed + trial) for trial, candidate in enumerate(kept)
        ]
        solution = min(kept, key=lambda candidate: candidate.residual)
        if stopped := both[-1].report.stopped:
            solution = stopped_by(solution, stopped, "more steps of the network")
    report = dataclasses.replace(solution.report, trials=figures)
    if is_inverse(setup.problem) and solution.model.num_units > 0:
        stop = f"parameters fitted with the network, deviations unknown; {report.stop}"
        report = dataclasses.replace(report, stop=stop)
    return dataclasses.replace(solution, report=report)


def climb(
    setup: Setup,
    ladder: Sequence[Basis],
    precision: str,
    start_from: Solution | None,
    begin: float,
) -> tuple[Solution, Solution]:
    """The solution in the first basis that resolves it, or the last; and that in a small one."""
    solution: Solution | None = None
    for number, rung in enumerate(ladder):
        before, begun = solution, time.monotonic()
        solution = on_basis(setup, rung, precision, start_from, begin, is_rung=len(ladder) > 1)
        if before is None or rung.num_terms * len(setup.problem.fields) <= SMALL:
            small = solution
        # From a poor start Newton's method may end in another solution of the equation.
        start_from = solution if solution.residual < NEAR else None
        is_found = solution.residual <= RESOLVED and (
            len(ladder) == 1 or has_settled(before, solution)
        )
        rest = [] if is_found else ladder[number + 1 : number + 2]
        try:
            what = f"degree {solution.report.degree}"
            setup.report(progress_of(solution, what, number + 1, len(ladder)))
            for basis in rest:
                check_time_for(setup, basis, solution, time.monotonic() - begun)
        except Stopped as stopped:
            following = [f"degree {int(np.max(basis.degrees))}" for basis in rest]
            return stopped_by(solution, stopped, *following), small
        if is_found:
            break
    assert solution is not None
    return solution, small


def check_time_for(setup: Setup, basis: Basis, last: Solution, seconds: float) -> None:
    """Stop where a larger basis would not be done in time, by the seconds that the last took."""
    if setup.deadline == math.inf:
        return
    steps = max(len(last.report.history["sum of squares"]) - 1, 1)
    work = [_solve_work(setup.problem, each) for each in (last.model.basis, basis)]
    more = steps * (work[1] - work[0]) / product_rate()
    if time.monotonic() + seconds + more > setup.deadline:
        raise Stopped(f"the time limit of {setup.time_limit:g} s")


def _solve_work(problem: Problem, basis: Basis) -> float:
    """Floating-point operations of a step: a factorization, and twice the Jacobian."""
    columns = basis.num_terms * len(problem.fields)
    points = points_per_axis_of(problem, basis) ** problem.domain.dimension
    return SOLVE_WORK * max(points * problem.asked.num_residuals, columns) * columns**2


def has_settled(before: Solution | None, now: Solution) -> bool:
    """Whether a larger basis found the problem as stable as a smaller one."""
    if before is None or before.report.stability is None or now.report.stability is None:
        return False
    return now.report.stability >= SETTLED * before.report.stability


def stopped_by(solution: Solution, stopped: Stopped | str, *following: str) -> Solution:
    """The best solution so far, with what ended the work and what would have come next."""
    ahead = f"; next would have been {' and '.join(following)}" if following else ""
    stop = f"stopped by {stopped}{ahead}"
    report = dataclasses.replace(solution.report, stop=stop, stopped=str(stopped))
    return dataclasses.replace(solution, report=report)


def _announced(
    setup: Setup,
    solution: Solution,
    small: Solution,
    architectures: Sequence[Architecture],
    trials: int,
    iterations: int,
) -> Solution:
    """Report that networks come next, and about how long they take; stop if time is up."""
    seconds = network_seconds(setup, small.model.basis, architectures, iterations) * trials
    what = f"networks beside degree {small.report.degree}, about {seconds:.0f} s at most"
    try:
        setup.report(progress_of(solution, what, 0, iterations))
        if time.monotonic() + NETWORK_SECONDS > setup.deadline:
            raise Stopped(f"the time limit of {setup.time_limit:g} s")
    except Stopped as stopped:
        return stopped_by(solution, stopped, what)
    return solution


def _tried(solution: Solution, begin: float) -> Solution:
    """The solution without the network, with a word on it."""
    stop = f"{solution.report.stop}; a network was tried and did not lower the residual"
    seconds = time.perf_counter() - begin
    report = dataclasses.replace(solution.report, stop=stop, seconds=seconds)
    return dataclasses.replace(solution, report=report)


def _beside_or_alone(
    setup: Setup, before: Solution, enough: float, train: Callable[[Setup, Solution], Solution]
) -> Solution:
    """A network beside the polynomial; by itself, with a constant, where that is of little help.

    What a polynomial leaves of a front ripples everywhere, and may be harder than the front.
    """
    beside, basis = train(setup, before), before.model.basis
    if beside.report.stopped:
        return beside
    constants = np.flatnonzero(np.asarray(basis.degrees) == 0)
    if beside.residual <= enough or is_inverse(setup.problem) or len(constants) == len(basis):
        return beside
    own = dataclasses.replace(setup, checkpoint=setup.checkpoint.within("alone"))
    constant = on_basis(own, basis.subset(constants), before.model.precision, None, 0.0)
    return min(beside, train(own, constant), key=lambda candidate: candidate.residual)


def on_basis(
    setup: Setup,
    basis: Basis,
    precision: str,
    before: Solution | None,
    begin: float,
    *,
    is_rung: bool = False,
) -> Solution:
    problem = setup.problem
    unknowns = start(basis.num_terms, len(problem.fields), problem.parameters, precision)
    if before is not None:
        unknowns = carried(before, basis, unknowns)
    place = setup.checkpoint.within(f"terms {basis.num_terms}")
    norms = function_norms(basis, len(problem.fields))
    norms = np.append(norms, np.ones(len(problem.parameters)))
    placed = setup.placed(basis)
    check_rows(placed, len(norms))
    blocks = setup.system(basis, precision, placed=placed)
    constants = np.resize(constant_in_space(basis), len(norms))
    constants[basis.num_terms * len(problem.fields) :] = False
    unknowns, outcome = newton(
        blocks, unknowns, is_rung=is_rung, norms=norms, constants=constants, checkpoint=place
    )
    free = free_part(problem, basis, outcome.weakest)
    if free is not None and free.note is not None:
        unknowns = without_free_part(unknowns, outcome.weakest, norms)
    model = polynomial_model(problem.domain, basis, unknowns, precision)
    rel_l2, field_errors = relative_errors(problem, model, setup.ansatz)
    parameters = {name: float(value) for name, value in unknowns.parameters.items()}
    residual = polynomial_indicator(
        setup.fresh_placed(), conditions_of(blocks), unknowns, model, problem, setup.ansatz
    )
    if free is not None and free.refusal is not None and (residual < NEAR or is_linear(problem)):
        raise ValueError(free.refusal)
    return Solution(
        model=model,
        fields=problem.fields,
        parameters=parameters,
        report=Report(
            how=f"Gauss-Newton on the polynomial{_pieces(problem)}, {len(outcome.sums) - 1} steps",
            degree=int(np.max(basis.degrees, initial=0)),
            num_points=sum(block.num_points for block in blocks),
            residual=residual,
            stability=outcome.weakest.stability,
            notes=[] if free is None else [free.note or str(free.refusal)],
            rel_l2=rel_l2,
            stop=outcome.reason,
            seconds=time.perf_counter() - begin,
            history={"sum of squares": outcome.sums},
            field_errors=field_errors,
        ),
        problem=problem,
        ansatz=setup.ansatz,
    )


def check_rows(placed: Sequence[Placed], num_columns: int) -> None:
    """Refuse fewer rows than unknowns, which leave some of these open."""
    num_rows = sum(each.target.size for each in placed)
    if num_rows < num_columns:
        raise ValueError(
            f"{num_rows} values at points are too few for {num_columns} coefficients; give more "
            "points, or a lower degree"
        )


def _pieces(problem: Problem) -> str:
    """Where the polynomial breaks because the equation jumps."""
    at = [f"{c.axis} = {c.at:.6g}" for c in problem.conditions if isinstance(c, Break)]
    return f", in pieces that meet at {', '.join(at)}" if at else ""
