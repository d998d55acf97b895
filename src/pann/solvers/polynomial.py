"""The polynomial half by Gauss-Newton, its degree raised until the solution is resolved.

`climb` goes up the degrees; `solve_on_basis` is one of them: points that fit the basis, steps of
Gauss-Newton (one if all is linear), what the problem leaves open, and the residual at fresh points.
A degree starts from the one before it, where that was near a solution.
"""

import math
import time
from collections.abc import Iterable, Iterator, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from pann.basis import AnyBasis, Basis, ShapeBasis, WholeBasis, highest_degree, least_squares
from pann.domain import Box
from pann.model.pann import PANN, Parameters
from pann.pde.collocation import Placed
from pann.pde.conditions import Break
from pann.pde.placing import points_per_axis_of
from pann.pde.problem import Problem
from pann.points import sobol
from pann.runtime.limits import Stopped, product_rate
from pann.solvers.assessment import indicator, relative_errors
from pann.solvers.determinacy import (
    constant_in_space,
    free_part,
    function_norms,
    is_linear,
    without_free_part,
)
from pann.solvers.newton import Blocks, Rows, Unknowns, newton, start
from pann.solvers.setup import Setup
from pann.solvers.shape_rows import ShapeRows
from pann.solvers.solution import Report, Solution, progress_of, with_report

# Degrees to try by dimension, and in more dimensions.
LADDERS = {1: (8, 16, 32, 64, 128, 256, 512, 1024), 2: (8, 14, 22, 32, 44, 60), 3: (6, 9, 13, 17)}
HIGH_DIMENSIONAL = (3, 5, 7)
# On shapes some are left out by how fast the residual falls; one is at most so many times the last.
LADDERS_ON_SHAPES = {2: (8, 14, 18, 22, 26, 30, 34, 38, 42, 48, 54, 60), 3: (6, 9, 11, 13, 15, 17)}
LEAP = 1.6
# On many elements, or in many dimensions, the degrees end before there are more coefficients.
MAX_LADDER_COLUMNS = 3_000
# A solution with a smaller relative residual at fresh points is resolved.
RESOLVED = 1e-10
# Where that of the polynomial is larger, elements or a network are tried.
UNRESOLVED = 1e-6
# Degrees by dimension at which it shows how fast they converge.
ENOUGH_DEGREE = {1: 64, 2: 22, 3: 9}
# And in the plane on a shape, where higher ones take longer.
ENOUGH_ON_SHAPES = 14
# A polynomial with a larger relative residual may be far from any solution.
NEAR = 1e-3
# The stability of a problem has settled if it falls by no more than this from one degree to the
# next. Where it goes on to fall, equation and conditions do not determine the solution.
SETTLED = 0.3
# A residual that is small falls no further where it stays above this share of the one before.
STALLED = 0.2
# Next to a network the polynomial has at most so many coefficients: each step factorizes them.
MAX_COLUMNS_WITH_NETWORK = 400
# Floating-point operations of a Newton step over rows x columns^2.
SOLVE_WORK = 8.0
# Points of a fit to an earlier solution for each term of a basis that has other terms.
POINTS_TO_CARRY = 3


def degrees_to_try(problem: Problem) -> tuple[int, ...]:
    """The degrees by dimension; on many elements, or in many dimensions, those not too large."""
    dimension = problem.domain.dimension
    ladders = LADDERS if problem.domain.shape is None else LADDERS_ON_SHAPES
    degrees = ladders.get(dimension, HIGH_DIMENSIONAL)
    elements = math.prod(family.num_pieces for family in problem.pieces.values())
    columns = [
        elements * math.comb(degree + dimension, dimension) * len(problem.fields)
        for degree in degrees
    ]
    affordable = sum(count <= MAX_LADDER_COLUMNS for count in columns)
    return degrees[: max(affordable, 1)]


def climb(
    setup: Setup,
    ladder: Sequence[WholeBasis],
    start_from: Solution | None,
    *,
    has_elements: bool = False,
) -> tuple[Solution, Solution]:
    """The solution in the first basis that resolves it, or the last; and that in a small one.

    With `has_elements` the degrees end where they converge so slowly that elements are the way.
    """
    problem, is_rung = setup.problem, len(ladder) > 1
    tried: list[Solution] = []
    is_found, ended = False, None
    try:
        for solution in solutions_on(setup, ladder, start_from, is_rung=is_rung):
            before = tried[-1] if tried else None
            is_stable = not is_rung or has_settled(before, solution)
            is_found = solution.residual <= RESOLVED and is_stable
            tried.append(solution)
            what = f"degree {solution.report.degree}"
            setup.report(progress_of(solution, what, len(tried), len(ladder)))
            if is_found:
                break
            if has_stalled(problem, before, solution):
                tried.append(min(tried[-2:], key=lambda each: each.residual))
                break
            if has_elements and is_hopeless(problem, before, solution, ladder[-1], UNRESOLVED):
                break
    except Stopped as stopped:
        ended = stopped
    small = last_small(problem, tried)
    if ended is None:
        return tried[-1], small
    rest = [] if is_found else ladder[len(tried) : len(tried) + 1]
    following = [f"degree {highest_degree(basis)}" for basis in rest]
    return stopped_by(tried[-1], ended, *following), small


def has_stalled(problem: Problem, before: Solution | None, now: Solution) -> bool:
    """Whether functions of corners and holes leave a residual that no degree takes away.

    Next to a corner derivatives are infinite, and their rounding stays.
    """
    if before is None or problem.domain.shape is None:
        return False
    return now.residual <= UNRESOLVED and now.residual > STALLED * before.residual


def is_hopeless(
    problem: Problem, before: Solution | None, now: Solution, last: WholeBasis, goal: float
) -> bool:
    """Whether degrees up to the last, at the rate of these two, would miss the goal."""
    enough = ENOUGH_DEGREE.get(problem.domain.dimension, math.inf)
    if problem.domain.shape is not None:
        enough = min(enough, ENOUGH_ON_SHAPES)
    if before is None or now.report.degree < enough:
        return False
    ahead = highest_degree(last) - now.report.degree
    steps = ahead / max(now.report.degree - before.report.degree, 1)
    rate = now.residual / max(before.residual, 1e-300)
    return now.residual * min(rate, 1.0) ** steps > goal


def solutions_on(
    setup: Setup,
    bases: Iterable[WholeBasis],
    start_from: Solution | None,
    *,
    is_rung: bool,
) -> Iterator[Solution]:
    """The solution in each basis; `Stopped` where the next would not be done in time."""
    before: Solution | None = None
    solution: Solution | None = None
    seconds, left = 0.0, list(bases)
    while left:
        if solution is not None:
            left = _worthwhile(left, before, solution)
            _check_time(setup, left[0], solution, seconds)
        begun, before = time.monotonic(), solution
        solution = solve_on_basis(setup, left.pop(0), start_from, is_rung=is_rung)
        seconds = time.monotonic() - begun
        # From a poor start Newton's method may end in another solution of the equation.
        start_from = solution if solution.residual < NEAR else None
        yield solution


def _worthwhile(left: list[WholeBasis], before: Solution | None, now: Solution) -> list[WholeBasis]:
    """Without those of a shape that would not resolve the solution, by the last two residuals.

    Each is a system of its own, and nothing of it is of use to the next.
    """
    if before is None or not isinstance(left[0], ShapeBasis) or now.residual >= before.residual:
        return left
    ahead = now.report.degree - before.report.degree
    rate = math.log(before.residual / max(now.residual, 1e-300)) / max(ahead, 1)
    needed = math.log(max(now.residual / RESOLVED, 1.0)) / rate
    enough = now.report.degree + min(needed, (LEAP - 1) * now.report.degree)
    found = [number for number, basis in enumerate(left) if highest_degree(basis) >= enough]
    return left[found[0] if found else -1 :]


def solve_on_basis(
    setup: Setup,
    basis: WholeBasis,
    before: Solution | None,
    *,
    is_rung: bool = False,
) -> Solution:
    """The solution in one basis; `is_rung` if others of other sizes follow."""
    problem, num_fields = setup.problem, len(setup.problem.fields)
    unknowns = start(basis.num_terms, num_fields, problem.parameters, setup.precision)
    if before is not None:
        unknowns = carried(before, basis, unknowns)
    count = len(problem.parameters)
    norms = np.append(function_norms(basis, num_fields), np.ones(count))
    constants = np.append(np.tile(constant_in_space(basis), num_fields), np.zeros(count, bool))
    placed = setup.placed(basis)
    _check_rows(placed, len(norms))
    unknowns, outcome = newton(
        *_rows_and_start(setup, placed, basis, unknowns),
        is_rung=is_rung,
        norms=norms,
        constants=constants,
        checkpoint=setup.checkpoint.within(f"terms {basis.num_terms}"),
    )
    free = free_part(problem, basis, outcome.weakest)
    if free is not None and free.note is not None:
        unknowns = without_free_part(unknowns, outcome.weakest, norms)
    model = polynomial_model(problem.domain, basis, unknowns.b, setup.precision)
    rel_l2, field_errors = relative_errors(problem, model, setup.ansatz)
    residual = indicator(setup, placed[1:], model, unknowns.parameters)
    if free is not None and free.refusal is not None and (residual < NEAR or is_linear(problem)):
        raise ValueError(free.refusal)
    return Solution(
        model=model,
        fields=problem.fields,
        parameters=unknowns.numbers,
        report=Report(
            how=f"Gauss-Newton on the polynomial{_breaks(problem)}, {len(outcome.sums) - 1} steps",
            degree=highest_degree(basis),
            num_points=sum(len(each.points) for each in placed),
            residual=residual,
            stability=outcome.weakest.stability,
            notes=[] if free is None else [free.note or str(free.refusal)],
            rel_l2=rel_l2,
            stop=outcome.reason,
            seconds=setup.run.seconds,
            history={"sum of squares": outcome.sums},
            field_errors=field_errors,
        ),
        problem=problem,
        ansatz=setup.ansatz,
    )


def _rows_and_start(
    setup: Setup, placed: Sequence[Placed], basis: WholeBasis, unknowns: Unknowns
) -> tuple[Blocks | Rows, Unknowns]:
    """Compiled rows, or on a shape those of NumPy."""
    if not isinstance(basis, ShapeBasis) or setup.precision != "float64":
        return setup.system(placed, basis, setup.precision), unknowns
    return ShapeRows(setup.problem, placed, basis), jax.tree.map(np.asarray, unknowns)


def is_small(problem: Problem, basis: WholeBasis) -> bool:
    """Whether a basis is small enough to be trained with a network."""
    return basis.num_terms * len(problem.fields) <= MAX_COLUMNS_WITH_NETWORK


def last_small(problem: Problem, tried: Sequence[Solution]) -> Solution:
    """The last of these in a basis small enough for a network next to it, or the first."""
    small = [each for each in tried if is_small(problem, each.model.product_basis)]
    return small[-1] if small else tried[0]


def has_settled(before: Solution | None, now: Solution) -> bool:
    """Whether a larger basis found the problem as stable as a smaller one."""
    if before is None or before.report.stability is None or now.report.stability is None:
        return False
    return now.report.stability >= SETTLED * before.report.stability


def stopped_by(solution: Solution, stopped: Stopped | str, *following: str) -> Solution:
    """The best solution so far, with what ended the work and what would have come next."""
    ahead = f"; next would have been {' and '.join(following)}" if following else ""
    return with_report(solution, stop=f"stopped by {stopped}{ahead}", stopped=str(stopped))


def carried(before: Solution, basis: WholeBasis, unknowns: Unknowns) -> Unknowns:
    """The coefficients of an earlier solution in a larger basis."""
    b, old = np.asarray(unknowns.b).copy(), before.model.product_basis
    if isinstance(basis, Basis) and isinstance(old, Basis):
        new_row = {tuple(index): row for row, index in enumerate(basis.indices.tolist())}
        given = np.asarray(before.model.parameters.b)
        for index, coefficients in zip(old.indices.tolist(), given, strict=True):
            if tuple(index) in new_row:
                b[new_row[tuple(index)]] = coefficients
    else:
        points = sobol(basis.domain, POINTS_TO_CARRY * basis.num_terms).coordinates
        values = old.evaluate(points, np.asarray(before.model.parameters.b, float))
        b = least_squares(basis.table(points), values).astype(b.dtype)
    parameters = {
        name: jnp.asarray(before.parameters.get(name, value), b.dtype)
        for name, value in unknowns.parameters.items()
    }
    return Unknowns(jnp.asarray(b), parameters)


def polynomial_model(
    domain: Box,
    basis: AnyBasis,
    b: Float[Array | np.ndarray, "terms fields"],
    precision: str = "float64",
) -> PANN:
    """A model without a network."""
    num_terms, num_fields = b.shape
    # Arrays of NumPy are only moved: JAX would compile a program to fill one of every size.
    arrays = jax.device_put(
        {
            "a": np.zeros((0, num_fields), precision),
            "keep_a": np.ones(0, bool),
            "keep_b": np.ones(num_terms, bool),
            "overlap": np.zeros(b.shape, b.dtype),
        }
    )
    # Over several processes an array of JAX belongs to all of them, and cannot be moved.
    b = b if isinstance(b, jax.Array) else jax.device_put(b)
    parameters = Parameters(network=None, bias=None, b=b, **arrays)
    return PANN(domain, basis, parameters, precision, None if num_fields == 1 else num_fields)


def _check_time(setup: Setup, basis: WholeBasis, last: Solution, seconds: float) -> None:
    """Stop where a larger basis would not be done in time, by the seconds that the last took."""
    if setup.run.deadline == math.inf:
        return
    steps = max(len(last.report.history["sum of squares"]) - 1, 1)
    work = [_solve_work(setup.problem, each) for each in (last.model.product_basis, basis)]
    setup.run.check_time(seconds + steps * (work[1] - work[0]) / product_rate())


def _solve_work(problem: Problem, basis: WholeBasis) -> float:
    """Floating-point operations of a step: a factorization, and twice the Jacobian."""
    columns = basis.num_terms * len(problem.fields)
    points = points_per_axis_of(problem, basis) ** problem.domain.dimension
    return SOLVE_WORK * max(points * problem.asked.num_residuals, columns) * columns**2


def _check_rows(placed: Sequence[Placed], num_columns: int) -> None:
    """Refuse fewer rows than unknowns, which leave some of these open."""
    num_rows = sum(each.target.size for each in placed)
    if num_rows < num_columns:
        raise ValueError(
            f"{num_rows} values at points are too few for {num_columns} coefficients; give more "
            "points, or a lower degree"
        )


def _breaks(problem: Problem) -> str:
    """Where the polynomial breaks because the equation jumps."""
    at = [f"{c.axis} = {c.at:.6g}" for c in problem.conditions if isinstance(c, Break)]
    return f", in pieces that meet at {', '.join(at)}" if at else ""
