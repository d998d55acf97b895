"""How good a finished solution is, at points that chose nothing on the way to it.

Residuals at fresh points choose degrees, starts and networks, and so are smaller there than
elsewhere. What is reported is measured once, at other points, inside and on the faces.
"""

import dataclasses
import math
from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from pann.network.jets import in_terms
from pann.pde.blocks import Placed
from pann.pde.conditions import Data
from pann.pde.evaluation import evaluate_derivatives
from pann.pde.placing import OnFaces, place_conditions, place_inside
from pann.points import uniform
from pann.solution import Solution
from pann.solving.quality import field_sizes, squares_of_channels, worst_piece
from pann.solving.setup import CONDITION_WEIGHT, NUM_FRESH

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
