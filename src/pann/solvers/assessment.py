"""How good a finished solution is, at points that chose nothing on the way to it.

Residuals at fresh points choose degrees, starts and networks, and so are smaller there than
elsewhere. What is reported is measured once, at other points, inside and on the faces.
"""

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from pann.basis import Basis, orthonormal_scales
from pann.domain import SIDES
from pann.network.jets import in_terms
from pann.pde.collocation import Placed
from pann.pde.conditions import Data, Dirichlet, Initial, Neumann, Robin
from pann.pde.evaluation import evaluate_derivatives
from pann.pde.placing import OnFaces, place_conditions, place_inside
from pann.pde.problem import Problem
from pann.points import uniform
from pann.solvers.newton import NEXT_TO_NOTHING, Unknowns, Weakest
from pann.solvers.quality import field_sizes, squares_of_channels, worst_piece
from pann.solvers.setup import CONDITION_WEIGHT, NUM_FRESH
from pann.solvers.solution import Solution

# As many at a time as fresh points, with the program that is there.
NUM_CHUNKS = 5
# A seed apart from those of all other points, and of points on faces.
SEED = 1_009
POINTS_ON_FACES = 500
# A solution counts as resolved below this relative residual, and below this estimate of its error.
RESOLVED, TRUSTED = 1e-5, 1e-2
# No estimate is below so many units in the last place.
ROUNDING = 5_000.0
# Above this relative residual the basis does not resolve the solution, nor then what is less
# stable than its own functions, nor is a nonlinear equation near its linearization: so much more.
UNRESOLVED, SAFETY = 1e-3, 10.0


def assessed(solution: Solution, seed: int, condition_weight: float = CONDITION_WEIGHT) -> Solution:
    """The solution with residual, error estimate and verdict of its report measured anew.

    The estimate is the residual's size over the stability of the problem: an upper bound where the
    equation is linear. What two resolutions say of the error, where they were compared, stands.
    """
    problem = solution.problem
    assert problem is not None
    with jax.enable_x64(True), jax.default_matmul_precision("highest"):
        relative, absolute = _residuals(solution, seed, condition_weight)
    report = solution.report
    estimate = report.error_estimate
    if report.stability is not None and estimate is None:
        rounding = ROUNDING * float(np.finfo(solution.model.precision).eps)
        safety = SAFETY if relative > UNRESOLVED else 1.0
        bound = safety * absolute / max(report.stability, 1e-300)
        estimate = of_the_true_size(max(bound, rounding))
    is_whole = solution.model.domain == problem.domain
    is_trusted = estimate is None or estimate <= TRUSTED
    resolved = bool(is_whole and relative <= RESOLVED and is_trusted)
    new = dataclasses.replace(report, residual=relative, error_estimate=estimate, resolved=resolved)
    return dataclasses.replace(solution, report=new)


def of_the_true_size(error: float) -> float:
    """A bound of the error relative to the solution found, relative to the true one.

    With |e| <= b |u + e|, |u| is at least (1 - b) |u + e|: nothing is known of it from b = 1 on.
    """
    return error / (1 - error) if error < 1 else math.inf


def _residuals(solution: Solution, seed: int, condition_weight: float) -> tuple[float, float]:
    """The largest relative residual, and the root of all squares over the size of the fields."""
    problem, model = solution.problem, solution.model
    assert problem is not None
    points = uniform(model.domain, NUM_CHUNKS * NUM_FRESH, seed=seed + SEED).coordinates
    sizes = field_sizes(model, solution.ansatz, points)
    found = [_of_equation(solution, part, sizes) for part in np.split(points, NUM_CHUNKS)]
    squares, totals = (np.concatenate(each) for each in zip(*found, strict=True))
    relative = [worst_piece(model.basis, points, squares, totals)]
    total = float(np.mean(squares))
    # Conditions lie on the faces of the whole domain, to whose end windows may not have come.
    if model.domain == problem.domain:
        for placed in _conditions(solution, seed):
            squares, totals = _of_condition(solution, placed, sizes)
            relative.append(_ratio(squares, totals))
            total += (condition_weight * placed.weight) ** 2 * float(np.mean(squares))
    size = max(float(np.linalg.norm(sizes)), 1e-300)
    return max(relative), math.sqrt(total) / size


def _conditions(solution: Solution, seed: int) -> list[Placed]:
    """All conditions but data, which may be noisy, at random points on faces."""
    problem = solution.problem
    assert problem is not None
    free = [each for each in problem.conditions if not isinstance(each, Data)]
    on_faces = OnFaces("uniform", POINTS_ON_FACES, seed + SEED)
    along = max(problem.domain.dimension - 1, 1)
    per_axis = max(2, round(POINTS_ON_FACES ** (1 / along)))
    return place_conditions(dataclasses.replace(problem, conditions=free), per_axis, on_faces)


def _of_equation(
    solution: Solution, points: Float[np.ndarray, "points d"], sizes: Float[np.ndarray, " fields"]
) -> tuple[np.ndarray, np.ndarray]:
    problem, model = solution.problem, solution.model
    assert problem is not None
    orders = problem.asked.orders
    placed = place_inside(problem, points, orders)
    channels = evaluate_derivatives(model, solution.ansatz, placed.points, orders)
    return squares_of_channels(problem, model, placed, channels, sizes, solution.parameters)


def _of_condition(
    solution: Solution, placed: Placed, sizes: Float[np.ndarray, " fields"]
) -> tuple[np.ndarray, np.ndarray]:
    """Squares of a condition's residual and of its terms; it is linear in the channels."""
    orders = in_terms(placed.orders)
    channels = evaluate_derivatives(solution.model, solution.ansatz, placed.points, orders)
    if placed.minus is not None:
        upper, lower = placed.pair_factors
        minus = evaluate_derivatives(solution.model, solution.ansatz, placed.minus, orders)
        channels = upper * channels - lower * minus
    scales = [np.prod((2 / solution.model.domain.widths) ** np.asarray(order)) for order in orders]
    least = np.asarray(scales)[:, None, None] * sizes
    target = placed.target.reshape(len(placed.points), -1)

    def applied(values: np.ndarray) -> np.ndarray:
        get: Any = lambda field, order: values[orders.index(order), :, field]
        operator: Any = placed.operator  # arithmetic, of arrays of NumPy as well
        return np.stack(operator(get, placed.points, placed.extra, {}), axis=1)

    totals = target**2
    for order in range(len(orders)):
        alone = np.zeros_like(channels)
        alone[order] = np.maximum(np.abs(channels[order]), least[order])
        totals = totals + applied(alone) ** 2
    return np.sum((applied(channels) - target) ** 2, axis=1), np.sum(totals, axis=1)


def _ratio(squares: np.ndarray, totals: np.ndarray) -> float:
    total = float(np.sum(totals))
    return math.sqrt(float(np.sum(squares)) / total) if total > 0 else 0.0


# ---- Whether equation and conditions determine a solution, by the function that they hardly ----


# Terms of a free function that a message names.
MOST_TERMS = 3


def function_norms(basis: Basis, num_fields: int) -> Float[np.ndarray, " columns"]:
    """The root mean square of each term over the domain, for the columns of all fields."""
    return np.tile(1 / orthonormal_scales(basis), num_fields)


def constant_in_space(basis: Basis) -> Bool[np.ndarray, " terms"]:
    """Which terms depend on time at most."""
    in_space = [axis for axis, name in enumerate(basis.axes) if name != basis.domain.time]
    return np.all(basis.indices[:, in_space] == 0, axis=1)


@dataclasses.dataclass(frozen=True)
class Free:
    """Functions that can be added to a solution: `note` if one of them is chosen, else `refusal`.

    What is chosen has the smallest mean square, so that a free constant makes the mean zero.
    """

    note: str | None = None
    refusal: str | None = None


def free_part(problem: Problem, basis: Basis, weakest: Weakest) -> Free | None:
    """What equation and conditions leave open, None if nothing."""
    if not weakest.is_free:
        return None
    squares = weakest.direction**2 / np.sum(weakest.direction**2)
    count = len(squares) - len(problem.parameters)
    if np.sum(squares[count:]) > NEXT_TO_NOTHING:
        names = [name for name, own in zip(problem.parameters, squares[count:], strict=True) if own]
        return Free(
            refusal=f"the conditions do not determine {', '.join(names)}: other values go with "
            "other solutions; add pann.Data(points, values), or another condition"
        )
    squares = squares[:count].reshape(len(problem.fields), -1)
    of_fields = np.sum(squares, axis=1) > NEXT_TO_NOTHING
    names = [name for name, is_free in zip(problem.fields, of_fields, strict=True) if is_free]
    shown = " and ".join(names)
    is_constant = np.all(basis.indices == 0, axis=1)
    cure = "add pann.Integral(...), or a value by pann.Data, to choose another"
    if np.sum(squares[:, ~is_constant]) <= NEXT_TO_NOTHING:
        return Free(
            f"{shown} is determined up to a constant, and only if sources and fluxes balance; the "
            f"solution with mean zero is taken: {cure}"
        )
    if np.sum(squares[:, ~constant_in_space(basis)]) <= NEXT_TO_NOTHING:
        return Free(
            f"{shown} is determined up to a function of {problem.domain.time}; the solution with "
            f"mean zero over space at all times is taken: {cure}"
        )
    field = int(np.argmax(np.sum(squares, axis=1)))
    return Free(
        refusal=f"the conditions do not determine {shown}: {_named(basis, squares[field])} can be "
        f"added to a solution without any change; {_missing(problem, field)}"
    )


def without_free_part(
    unknowns: Unknowns, weakest: Weakest, norms: Float[np.ndarray, " columns"]
) -> Unknowns:
    """The unknowns of smallest mean square among those that differ by the free direction."""
    count, num_fields = unknowns.b.size, unknowns.b.shape[1]
    size = norms[:count].reshape(num_fields, -1).T
    direction = weakest.direction[:count].reshape(num_fields, -1).T
    b = np.asarray(unknowns.b)
    b = b - np.sum(b * size * direction) * direction / size
    return Unknowns(jnp.asarray(b, unknowns.b.dtype), unknowns.parameters)


def is_linear(problem: Problem) -> bool:
    """Whether the residual is linear in the unknowns, by numbers."""
    if problem.parameters:
        return False
    channels, rng = problem.asked.channels, np.random.default_rng(2)
    one, two = (dict(zip(channels, rng.normal(size=len(channels)), strict=True)) for _ in range(2))
    points = problem.domain.from_reference(rng.uniform(-0.9, 0.9, (8, problem.domain.dimension)))

    def residual(first: float, second: float) -> np.ndarray:
        get = lambda field, order: jnp.full(
            len(points), first * one[field, order] + second * two[field, order]
        )
        parts = problem.evaluate(get, jnp.asarray(points), problem.parameters)
        return np.stack([np.broadcast_to(part, len(points)) for part in parts])

    with jax.enable_x64(True):
        bent = residual(2.0, 3.0) - 2 * residual(1.0, 0.0) - 3 * residual(0.0, 1.0)
        bent += 4 * residual(0.0, 0.0)
        return bool(np.max(np.abs(bent)) <= 1e-9 * np.max(np.abs(residual(1.0, 1.0))))


def _named(basis: Basis, squares: Float[np.ndarray, " terms"]) -> str:
    """The largest terms of a function, with dots where there are more."""
    names, order = basis.term_names(), np.argsort(squares)[::-1]
    largest = [names[term] for term in order[:MOST_TERMS]]
    is_all = np.sum(squares[order[MOST_TERMS:]]) <= NEXT_TO_NOTHING * np.sum(squares)
    return f"a combination of {', '.join(largest)}" + ("" if is_all else ", ...")


def _missing(problem: Problem, field: int) -> str:
    """What a user may have forgotten."""
    name, domain = problem.fields[field], problem.domain
    own = [each for each in problem.conditions if problem.field_number(each) == field]
    if domain.time is not None and not any(isinstance(each, Initial) for each in own):
        return f"there is no initial state of {name}: add pann.Initial(...)"
    held = {
        side
        for each in own
        if isinstance(each, Dirichlet | Neumann | Robin)
        for side in each.faces.sides
    }
    bare = [
        f"{axis} = {bound:g}"
        for axis, low, high in zip(domain.names, domain.lower, domain.upper, strict=True)
        if axis not in domain.periodic and axis != domain.time
        for side, bound in zip(SIDES, (low, high), strict=True)
        if (axis, side) not in held
    ]
    if bare:
        return f"there is no condition for {name} at {', '.join(bare)}: add one"
    return f"add a condition for {name}, or look whether the equation is the one that is meant"
