"""The default recipe: Gauss-Newton on the polynomial, a network by Levenberg-Marquardt."""

import dataclasses
import functools
import math
import time
from collections.abc import Callable, Sequence

import numpy as np

from pann.architecture import Architecture
from pann.basis import Basis
from pann.pde.conditions import Break
from pann.pde.newton import newton, start
from pann.pde.problem import Problem
from pann.solution import Report, Solution, progress_of, trial_figures
from pann.solving.beside import NEAR, with_network
from pann.solving.inverse import SMALL, is_inverse, solve_inverse
from pann.solving.polynomial import carried, polynomial_model
from pann.solving.quality import polynomial_indicator, relative_errors
from pann.solving.setup import Setup, conditions_of

# Degrees to try by dimension, and when a solution counts as resolved.
LADDERS = {1: (8, 16, 32, 64, 128), 2: (8, 14, 22, 32, 44), 3: (6, 9, 13, 17)}
HIGH_DIMENSIONAL = (3, 5, 7)
# On many pieces, or in many dimensions, the ladder ends before it has more coefficients.
MAX_LADDER_COLUMNS = 3_000
RESOLVED = 1e-10
# A network that leaves more than this share of the residual is of little help.
LITTLE = 0.1
# A network is tried where the relative residual at fresh points is above this.
UNRESOLVED = 1e-6


def degrees_to_try(problem: Problem) -> tuple[int, ...]:
    """The degrees of the ladder; on many pieces, or in many dimensions, those not too large."""
    dimension = problem.domain.dimension
    rungs = LADDERS.get(dimension, HIGH_DIMENSIONAL)
    if dimension in LADDERS and not problem.pieces:
        return rungs
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
    small residual is not all, and a network is trained only if asked for.
    """
    solution = small = None
    precision, begun_with = architectures[0].precision, start_from
    has_network = always_network
    if is_inverse(setup.problem):
        solution, small, setup, _ = solve_inverse(setup, ladder, precision, start_from, begin)
        ladder = []
    for number, rung in enumerate(ladder):
        solution = on_basis(setup, rung, precision, start_from, begin, is_rung=len(ladder) > 1)
        what = f"degree {solution.report.degree}"
        setup.report(progress_of(solution, what, number + 1, len(ladder)))
        if small is None or rung.num_terms * len(setup.problem.fields) <= SMALL:
            small = solution
        # From a poor start Newton's method may end in another solution of the equation.
        start_from = solution if solution.residual < NEAR else None
        has_network = always_network or solution.residual > UNRESOLVED
        if solution.residual <= RESOLVED:
            break
    assert solution is not None
    assert small is not None
    figures = [trial_figures(solution, setup.seed)] * trials
    if architectures[0].widths and has_network:
        both = [
            _beside_or_alone(
                dataclasses.replace(
                    setup,
                    seed=setup.seed + trial,
                    checkpoint=setup.checkpoint.within(f"trial {trial}"),
                ),
                small,
                max(LITTLE * solution.residual, RESOLVED),
                functools.partial(
                    with_network,
                    architectures=architectures,
                    iterations=iterations,
                    begun_with=begun_with if trial == 0 else None,
                    begin=begin,
                ),
            )
            for trial in range(trials)
        ]
        kept = [
            candidate if candidate.residual < solution.residual else _tried(solution, begin)
            for candidate in both
        ]
        figures = [
            trial_figures(candidate, setup.seed + trial) for trial, candidate in enumerate(kept)
        ]
        solution = min(kept, key=lambda candidate: candidate.residual)
    report = dataclasses.replace(solution.report, trials=figures)
    return dataclasses.replace(solution, report=report)


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
    blocks = setup.system(basis, precision)
    place = setup.checkpoint.within(f"terms {basis.num_terms}")
    unknowns, outcome = newton(blocks, unknowns, is_rung=is_rung, checkpoint=place)
    model = polynomial_model(problem.domain, basis, unknowns, precision)
    rel_l2, field_errors = relative_errors(problem, model, setup.ansatz)
    parameters = {name: float(value) for name, value in unknowns.parameters.items()}
    return Solution(
        model=model,
        fields=problem.fields,
        parameters=parameters,
        report=Report(
            how=f"Gauss-Newton on the polynomial{_pieces(problem)}, {len(outcome.sums) - 1} steps",
            degree=int(np.max(basis.degrees, initial=0)),
            num_points=sum(block.num_points for block in blocks),
            residual=polynomial_indicator(
                setup.fresh_placed(),
                conditions_of(blocks),
                unknowns,
                model,
                problem,
                setup.ansatz,
            ),
            rel_l2=rel_l2,
            stop=outcome.reason,
            seconds=time.perf_counter() - begin,
            history={"sum of squares": outcome.sums},
            field_errors=field_errors,
        ),
        problem=problem,
        ansatz=setup.ansatz,
    )


def _pieces(problem: Problem) -> str:
    """Where the polynomial breaks because the equation jumps."""
    at = [f"{c.axis} = {c.at:.6g}" for c in problem.conditions if isinstance(c, Break)]
    return f", in pieces that meet at {', '.join(at)}" if at else ""
