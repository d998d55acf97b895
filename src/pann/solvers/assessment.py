"""How good a solution is: its relative residual, its error where that is known, and a verdict.

The relative residual is the root mean square of the residual over that of the terms of the
equation. At fresh points, which are not trained on, it chooses degrees, starts and networks
(`indicator`), and is therefore smaller there than elsewhere. What a report says is measured once
more, at points that chose nothing (`assessed`).
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from pann.basis import AnyBasis, ElementBasis, WholeBasis
from pann.model.pann import PANN, Parameters
from pann.network.jets import in_terms
from pann.pde.collocation import Placed, linearized, make_block
from pann.pde.conditions import Data
from pann.pde.evaluation import evaluate_derivatives, evaluate_solution
from pann.pde.hard_conditions import Ansatz, OfV
from pann.pde.interfaces import piece_numbers
from pann.pde.operators import Equation
from pann.pde.placing import OnFaces, place_conditions, place_inside
from pann.pde.problem import Problem
from pann.points import uniform
from pann.regression.fit import relative_l2
from pann.solvers.setup import CONDITION_WEIGHT, NUM_FRESH, Setup, with_peaks
from pann.solvers.solution import Solution, with_report
from pann.training.task import Watch

# Random points of the errors where the solution is known; of those during training.
NUM_TEST, NUM_TEST_ON_SHAPES, NUM_WATCHED = 100_000, 10_000, 2_000
# A verdict takes so many times the fresh points, as many at once: one program serves both.
NUM_CHUNKS = 5
# A seed apart from those of all other points, and the number of points on each face.
SEED, POINTS_ON_FACES = 1_009, 500
# A solution is resolved below this relative residual, and below this estimate of its error.
RESOLVED, TRUSTED = 1e-5, 1e-2
# No estimate is below so many units in the last place.
ROUNDING = 5_000.0
# Above this relative residual the basis does not resolve the solution. It then does not see what is
# less stable than its own functions, and a nonlinear equation is not near its linearization: the
# estimate is so much larger.
UNRESOLVED, SAFETY = 1e-3, 10.0

Sizes = Float[np.ndarray, " fields"]
Numbers = Mapping[str, Any]  # the values of an equation's parameters
NO_NUMBERS: Numbers = MappingProxyType({})


# ---- Relative residuals ----


def indicator(
    setup: Setup, conditions: Sequence[Placed], model: PANN, parameters: Numbers = NO_NUMBERS
) -> float:
    """The largest relative residual: of the equation at fresh points, of each condition at its own.

    Data may be noisy, and do not show how well the equation is solved.
    """
    fresh = setup.fresh_placed()
    sizes = field_sizes(model, setup.ansatz, fresh.points)
    # At coordinates of double precision, whatever the model's: their rounding is no residual.
    wide = dataclasses.replace(model, precision="float64")
    placed = [fresh, *(each for each in conditions if not each.is_data)]
    return max(
        residual_of(setup.problem, wide, each, sizes, setup.ansatz, parameters) for each in placed
    )


def field_sizes(model: PANN, ansatz: Ansatz | None, points: Float[np.ndarray, "points d"]) -> Sizes:
    """The root mean squares of the fields."""
    return np.sqrt(np.mean(evaluate_solution(model, ansatz, points) ** 2, axis=0))


def residual_of(
    problem: Problem,
    model: PANN,
    placed: Placed,
    sizes: Sizes,
    ansatz: Ansatz | None = None,
    parameters: Numbers = NO_NUMBERS,
) -> float:
    """The relative residual of the equation, or of a condition, at its points.

    Where the basis has several elements, on the worst: a large coefficient on one would hide the
    others. `sizes` are those of the fields.
    """
    squares, terms = _squares(problem, model, placed, sizes, ansatz, parameters)
    if isinstance(model.basis, ElementBasis):
        # Too few points in each.
        return math.sqrt(np.sum(squares) / (np.sum(terms) or 1.0))
    return _worst_element(model.basis, placed.points, squares, terms)


def _worst_element(
    basis: AnyBasis,
    points: Float[np.ndarray, "points d"],
    squares: Float[np.ndarray, " points"],
    terms: Float[np.ndarray, " points"],
) -> float:
    """The root of the ratio of two sums of squares, on the element where it is largest."""
    elements = piece_numbers(basis, points)
    own, all_terms = np.bincount(elements, squares), np.bincount(elements, terms)
    return float(np.sqrt(np.max(own / np.where(all_terms > 0, all_terms, 1.0))))


def _squares(
    problem: Problem,
    model: PANN,
    placed: Placed,
    sizes: Sizes,
    ansatz: Ansatz | None,
    parameters: Numbers,
) -> tuple[Float[np.ndarray, " points"], Float[np.ndarray, " points"]]:
    """At each point the square of the residual, and of the terms that it consists of.

    A derivative counts at least as much as u over the widths of the domain, or of an element: where
    all terms vanish, as for a linear solution of Laplace's equation, only rounding would be left to
    compare with.
    """
    operator = placed.operator.of_u if isinstance(placed.operator, OfV) else placed.operator
    orders = in_terms(placed.orders)
    placed = dataclasses.replace(placed, operator=operator, orders=orders)
    channels = placed.differences(
        lambda points: evaluate_derivatives(model, ansatz, points, orders)
    )
    slopes = 2 / model.domain.widths[None]
    if isinstance(model.basis, ElementBasis):
        tree = model.basis.tree
        slopes = 2 / np.diff(tree.corners, axis=1)[tree.locate(placed.points), 0]
    scales = np.stack([np.prod(slopes ** np.asarray(order), axis=1) for order in orders])
    at_least = scales[:, :, None] * sizes
    if not isinstance(operator, Equation):
        return _of_condition(placed, channels, np.maximum(np.abs(channels), at_least))
    block = make_block(placed, problem, None, "float64")
    # One program for verdicts of all sizes, and for the rows of problems on shapes.
    known = {name: np.asarray(value, float) for name, value in parameters.items()}
    residual, slopes, _ = map(np.asarray, linearized(block, channels, known))
    zero = np.asarray(linearized(block, np.zeros_like(channels), known)[0])
    terms = np.maximum(np.abs(channels), at_least)[:, :, :, None] * np.swapaxes(slopes, 1, 2)
    # A block weighs each of its points by one over the root of their number.
    squares = len(placed.points) * np.sum(residual**2, axis=1)
    return squares, len(placed.points) * (
        np.sum(terms**2, axis=(0, 2, 3)) + np.sum(zero**2, axis=1)
    )


def _of_condition(
    placed: Placed,
    channels: Float[np.ndarray, "orders points fields"],
    sizes: Float[np.ndarray, "orders points fields"],
) -> tuple[Float[np.ndarray, " points"], Float[np.ndarray, " points"]]:
    """Of a condition, which is linear in the channels of one field: no program is compiled."""
    target = placed.target.reshape(len(placed.points), -1)

    def applied(values: np.ndarray) -> np.ndarray:
        get: Any = lambda field, order: values[placed.orders.index(order), :, field]
        operator: Any = placed.operator  # arithmetic, which arrays of NumPy have as well
        return np.stack(operator(get, placed.points, {}), axis=1)

    terms = target**2
    for order, size in enumerate(sizes):
        alone = np.zeros_like(channels)
        alone[order] = size
        terms = terms + applied(alone) ** 2
    return np.sum((applied(channels) - target) ** 2, axis=1), np.sum(terms, axis=1)


# ---- The verdict ----


def assessed(solution: Solution, seed: int, condition_weight: float = CONDITION_WEIGHT) -> Solution:
    """The solution with residual, error estimate and verdict of its report measured again.

    The estimate is the residual's size over the stability of the problem: an upper bound where the
    equation is linear. An estimate by the difference of two resolutions stays as it is.
    """
    problem = solution.problem
    assert problem is not None
    with jax.enable_x64(True), jax.default_matmul_precision("highest"):
        relative, absolute = _residuals(solution, problem, seed, condition_weight)
    report = solution.report
    estimate = report.error_estimate
    if report.stability is not None and estimate is None:
        rounding = ROUNDING * float(np.finfo(solution.model.precision).eps)
        safety = SAFETY if relative > UNRESOLVED else 1.0
        bound = safety * absolute / max(report.stability, 1e-300)
        estimate = relative_to_truth(max(bound, rounding))
    basis = solution.model.basis
    if estimate is not None and isinstance(basis, ElementBasis) and len(basis.tree.curves):
        # Next to curves only these points look.
        estimate = max(estimate, relative)
    is_whole = solution.model.domain == problem.domain
    is_trusted = estimate is None or estimate <= TRUSTED
    resolved = bool(is_whole and relative <= RESOLVED and is_trusted)
    return with_report(solution, residual=relative, error_estimate=estimate, resolved=resolved)


def relative_to_truth(error: float) -> float:
    """A bound of the error relative to the true solution, from one relative to that found.

    With |e| <= b |u + e|, |u| is at least (1 - b) |u + e|: nothing is known of it from b = 1 on.
    """
    return error / (1 - error) if error < 1 else math.inf


def _residuals(
    solution: Solution, problem: Problem, seed: int, condition_weight: float
) -> tuple[float, float]:
    """The largest relative residual, and the root of all squares over the size of the fields."""
    model = solution.model
    count = NUM_CHUNKS * NUM_FRESH
    points = uniform(model.domain, count, seed=seed + SEED).coordinates
    sizes = field_sizes(model, solution.ansatz, points)
    if isinstance(model.basis, ElementBasis):
        # As many in each element: small ones are where the solution is sharp.
        points = _off(solution.report.not_smooth, model.basis.sample(count, seed + SEED))
    if model.domain == problem.domain:
        points = with_peaks(problem, points)
    measure = lambda placed: _squares(
        problem, model, placed, sizes, solution.ansatz, solution.parameters
    )
    found = [
        measure(place_inside(problem, part, problem.asked.orders))
        for part in np.split(points, NUM_CHUNKS)
    ]
    squares, terms = (np.concatenate(each) for each in zip(*found, strict=True))
    largest, total = _worst_element(model.basis, points, squares, terms), float(np.mean(squares))
    # Conditions lie on the faces of the whole domain, to whose end windows may not have come.
    for placed in _conditions(problem, seed) if model.domain == problem.domain else ():
        squares, terms = measure(placed)
        largest = max(largest, math.sqrt(np.sum(squares) / (np.sum(terms) or 1.0)))
        total += (condition_weight * placed.weight) ** 2 * float(np.mean(squares))
    return largest, math.sqrt(total) / max(float(np.linalg.norm(sizes)), 1e-300)


def _off(
    boxes: Sequence[Sequence[Sequence[float]]], points: Float[np.ndarray, "points d"]
) -> Float[np.ndarray, "points d"]:
    """The points, others of them in place of those in one of the boxes."""
    inside = np.zeros(len(points), bool)
    for low, high in np.asarray(boxes, float).reshape(-1, 2, points.shape[1]):
        inside |= np.all((low <= points) & (points <= high), axis=1)
    return np.resize(points[~inside], points.shape) if np.any(~inside) else points


def _conditions(problem: Problem, seed: int) -> list[Placed]:
    """All conditions but data, which may be noisy, at random points on faces."""
    without_data = [each for each in problem.conditions if not isinstance(each, Data)]
    on_faces = OnFaces("uniform", POINTS_ON_FACES, seed + SEED)
    per_axis = max(2, round(POINTS_ON_FACES ** (1 / max(problem.domain.dimension - 1, 1))))
    return place_conditions(
        dataclasses.replace(problem, conditions=without_data), per_axis, on_faces
    )


# ---- Errors where the solution is known ----


def relative_errors(
    problem: Problem, model: PANN, ansatz: Ansatz | None = None
) -> tuple[float | None, dict[str, float]]:
    """The relative l2 error of all fields, and of each, at many random points, if known."""
    if problem.exact is None:
        return None, {}
    count = NUM_TEST if problem.domain.shape is None else NUM_TEST_ON_SHAPES
    points = uniform(problem.domain, count, seed=1).coordinates
    found, true = evaluate_solution(model, ansatz, points), problem.exact_at(points).T
    return relative_l2(found, true), {
        name: relative_l2(found[:, number], true[:, number])
        for number, name in enumerate(problem.fields)
    }


def error_during_training(
    problem: Problem, basis: WholeBasis, ansatz: Ansatz | None, precision: str
) -> Watch:
    """The relative l2 error of each trial at some random points, nothing if it is not known."""
    if problem.exact is None:
        return lambda trials: {}
    points = uniform(problem.domain, NUM_WATCHED, seed=1).coordinates
    zero = (0,) * problem.domain.dimension
    lift, bump = (
        (0.0, 1.0) if ansatz is None else (ansatz.lift(points, zero), ansatz.bump(points, zero))
    )
    arrays = (
        problem.domain.to_reference(points),
        basis.table(points),
        lift,
        bump,
        problem.exact_at(points).T,
    )
    watched = tuple(jnp.asarray(array, precision) for array in arrays)
    return lambda trials: {"error": _errors(trials, *watched)}


@eqx.filter_jit
def _errors(
    trials: Parameters, x: Array, table: Array, lift: Array, bump: Array, true: Array
) -> Float[Array, " trials"]:
    def one(parameters: Parameters) -> Float[Array, ""]:
        u = lift + bump * parameters.output(x, table)
        return jnp.linalg.norm(u - true) / jnp.linalg.norm(true)

    return jax.vmap(one)(trials)
