"""A network of level sets: units along the fronts of a coarse solution, then the equation.

Where polynomials in boxes converge slowly, along fronts that are oblique or curved, a unit along
the front leaves something smooth. Fronts are read off a coarse solution (`pann.solvers.fronts`), or
off the values on the faces. Levenberg-Marquardt on the equation moves the curves, both polynomials,
beside the fronts and times the fronts, eliminated; their degrees are raised as long as that pays,
and points are drawn anew along the curves.
"""

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from pann.basis import WholeBasis, make_basis
from pann.model.pann import initial_parameters
from pann.network import Activation, LevelSets, Power, activation_named
from pann.network.embeddings import total_degree_indices
from pann.pde.checks import has_integrals
from pann.pde.collocation import Block
from pann.pde.conditions import Break, Dirichlet
from pann.pde.evaluation import evaluate_solution
from pann.pde.placing import place_conditions, points_inside
from pann.pde.problem import Problem
from pann.points import Points
from pann.runtime.limits import Progress, Stopped
from pann.solvers import fronts as of_fronts
from pann.solvers.determinacy import is_linear
from pann.solvers.fronts import ARCTAN, TANH, Fronts, OnFaces, View, found_fronts
from pann.solvers.inverse import is_inverse
from pann.solvers.levenberg import State, levenberg_marquardt, with_network
from pann.solvers.line_powers import powers_of
from pann.solvers.newton import Unknowns
from pann.solvers.polynomial import RESOLVED, UNRESOLVED, stopped_by
from pann.solvers.setup import Setup
from pann.solvers.solution import Solution, with_report

DIMENSIONS = 2, 3
# Where fronts are looked for.
INSIDE, ON_FACES = "inside", "on faces"
# Fronts that leave more than this of what is seen are none, and on faces.
LEFT, LEFT_ON_FACES = 0.15, 0.1
# Curves that leave more are not yet where the equation has them.
ROUGH = 0.03
FACE_POINTS = 400
FACE_DEGREES, FACE_VIEWS = (1, 2), ((14, 3), (30, 3))


@dataclasses.dataclass(frozen=True)
class Size:
    """Degrees of the curve and of its height, derivatives of the profile, most steps."""

    level: int
    height: int
    derivatives: int
    steps: int


# The first ones move curves of which only the ends are known; larger ones are nearly linear.
RIGID = {2: Size(4, 2, 0, 25), 3: Size(2, 1, 0, 25)}
SIZES = {
    2: (Size(6, 8, 4, 3), Size(6, 12, 5, 2)),
    3: (Size(2, 2, 2, 4), Size(4, 4, 2, 2)),
}
# Next to powers of the distance from curves that are known.
WITH_POWERS = {2: Size(0, 8, 0, 1), 3: Size(0, 4, 0, 1)}
# The next size is tried only if the last lowered the residual by this factor.
PAYS = 0.5
# Points along the curves for each column, and at least; candidates for each of these.
POINTS_PER_COLUMN, FEWEST_POINTS, CANDIDATES = 3.0, 1_000, 30
CONDITION_POINTS = 400
# Values that a nonlinear equation is begun with; what they leave open is of low degrees.
NUM_KNOWN, RELUCTANCE, ROUNDING = 2_000, 3.0, 1e-10
# Compilation of a size, in seconds.
COMPILATION = 6.0


def may_have_fronts(problem: Problem, precision: str) -> bool:
    """Whether level sets can be units of a solution."""
    return (
        problem.domain.dimension in DIMENSIONS
        and problem.domain.shape is None
        and precision == "float64"
        and not problem.domain.periodic
        and not problem.pieces
        and not is_inverse(problem)
        and not problem.parameters
        and not has_integrals(problem)
    )


def order_of_ways(problem: Problem) -> tuple[str, ...]:
    """Where fronts are looked for first.

    Far from the solution of a nonlinear equation its values on faces say more than a coarse one.
    """
    return (INSIDE, ON_FACES) if is_linear(problem) else (ON_FACES, INSIDE)


def better_with_fronts(
    setup: Setup,
    before: Solution,
    *,
    small: Solution,
    bases: Sequence[WholeBasis],
    ways: Sequence[str],
    coarse: Callable[[Setup], Solution] | None,
) -> Solution:
    """The solution with units along fronts next to the last of the bases, or the one before.

    `coarse` gives a solution that shows where they are; else the one before is looked at. `small`
    is a polynomial's.
    """
    best = before
    try:
        for way in ways:
            setup.report(Progress("fronts", 0, 0, {"residual": best.residual}))
            setup.run.check_time(COMPILATION)
            found = _on_faces(setup) if way == ON_FACES else _inside(setup, before, coarse)
            if found is not None:
                own = setup.within(f"fronts {way}")
                best = _trained(own, best, small, bases, found)
            if best.report.stopped or best.residual <= UNRESOLVED:
                break
    except Stopped as stopped:
        return stopped_by(best, stopped, "units along fronts")
    return best


def better_with_powers(
    setup: Setup, before: Solution, *, small: Solution, bases: Sequence[WholeBasis]
) -> Solution:
    """The solution with powers of the distance from curves where the source has them, or before.

    A basis that breaks along such a line would have to meet slopes which are infinite there.
    """
    kept = [each for each in setup.problem.conditions if not isinstance(each, Break)]
    problem = dataclasses.replace(setup.problem, conditions=kept)
    if not may_have_fronts(problem, small.model.precision) or not is_linear(problem):
        return before
    found = powers_of(problem)
    if found is None:
        return before
    dimension, basis = problem.domain.dimension, bases[-1]
    if setup.problem.pieces:
        basis = make_basis(problem.domain, int(np.max(basis.degrees)))
    size, known = WITH_POWERS[dimension], Known(np.zeros((0, dimension)), np.zeros((0, 1)))
    network = _network(found.curves, Power(found.power), dimension, size)
    own = dataclasses.replace(setup.within("powers"), problem=problem)
    try:
        setup.run.check_time(COMPILATION)
        solution, _ = _solved(own, small, basis, network, known, size, 0)
    except Stopped as stopped:
        return stopped_by(before, stopped, "powers of the distance from curves")
    if not solution.residual < before.residual:
        return before
    how = f"least squares on the polynomial and s^{found.power:g} along curves"
    return with_report(dataclasses.replace(solution, problem=problem), how=how)


class Found(NamedTuple):
    """Curves, what is across them, and the values that showed them: on faces, only their ends."""

    fronts: Fronts
    activation: Activation
    known: "Known"
    is_rigid: bool


class Known(NamedTuple):
    """Values of u at points."""

    points: Float[np.ndarray, "points d"]
    values: Float[np.ndarray, "points fields"]


def _inside(
    setup: Setup, before: Solution, coarse: Callable[[Setup], Solution] | None
) -> Found | None:
    seen = before if coarse is None else coarse(setup)
    views = of_fronts.inside(setup.problem.domain.dimension)
    at = setup.problem.domain.from_reference(views[1].points)
    values = evaluate_solution(seen.model, seen.ansatz, at)
    return _best(views, Known(at, values), LEFT, of_fronts.LEVEL_DEGREES, is_rigid=False)


def _on_faces(setup: Setup) -> Found | None:
    given = _face_values(setup.problem)
    if given is None:
        return None
    points = setup.problem.domain.to_reference(given.points)
    views = OnFaces.of(points, *FACE_VIEWS[0]), OnFaces.of(points, *FACE_VIEWS[1])
    return _best(views, given, LEFT_ON_FACES, FACE_DEGREES, is_rigid=True)


def _best(
    views: tuple[View, View],
    known: Known,
    enough: float,
    degrees: Sequence[int],
    *,
    is_rigid: bool,
) -> Found | None:
    """Fronts that leave little, with the profile that leaves less."""
    fronts, left = found_fronts(views, known.values, TANH, degrees)
    if not len(fronts) or left > enough or not _cross(fronts, views[1]):
        return None
    tried = {"tanh": (fronts, left)}
    tried["arctan"] = of_fronts.refitted(views[1], known.values, fronts, ARCTAN)
    name = min(tried, key=lambda name: tried[name][1])
    fronts, left = tried[name]
    return Found(fronts, activation_named(name), known, is_rigid or left > ROUGH)


def _cross(fronts: Fronts, view: View) -> bool:
    """Whether a front is inside: what a curve outside leaves is a layer at the boundary."""
    p = view.terms(of_fronts.degree_of(fronts, view.dimension)) @ fronts.T
    return bool(np.any((np.min(p, axis=0) < 0) & (np.max(p, axis=0) > 0)))


def _face_values(problem: Problem) -> Known | None:
    """What is given on faces, for one field."""
    given = [each for each in problem.conditions if isinstance(each, Dirichlet) and not each.hard]
    if len(problem.fields) > 1 or not given:
        return None
    per_axis = round((FACE_POINTS / 4) ** (1 / (problem.domain.dimension - 1)))
    placed = place_conditions(dataclasses.replace(problem, conditions=given), per_axis)
    values = [each.target.reshape(len(each.points), 1) for each in placed]
    return Known(np.concatenate([each.points for each in placed]), np.concatenate(values))


# ---- On the equation ----


def _trained(
    setup: Setup,
    before: Solution,
    small: Solution,
    bases: Sequence[WholeBasis],
    found: Found,
) -> Solution:
    """Larger and larger networks along the fronts; the best, or the solution before."""
    dimension = setup.problem.domain.dimension
    sizes = ((RIGID[dimension],) if found.is_rigid else ()) + SIZES[dimension]
    best, last, fronts, known = before, math.inf, found.fronts, found.known
    for number, size in enumerate(sizes):
        basis = bases[max(0, min(len(bases) - 1, len(bases) + number - len(sizes)))]
        network = _network(fronts, found.activation, dimension, size)
        try:
            setup.run.check_time(COMPILATION)
            solution, moved = _solved(setup, small, basis, network, known, size, number)
        except Stopped as stopped:
            return stopped_by(best, stopped, "more units along fronts")
        if solution.residual < best.residual:
            best = solution
        if solution.report.stopped:
            return stopped_by(best, solution.report.stopped, "more units along fronts")
        if solution.residual <= RESOLVED or (
            number > found.is_rigid and solution.residual > PAYS * last
        ):
            break
        fronts, last = moved, min(last, solution.residual)
        known = _known_of(solution, moved)
    return best


def _network(fronts: Fronts, activation: Activation, dimension: int, size: Size) -> LevelSets:
    """Units along the fronts, with all the coefficients that a size has."""
    terms = len(total_degree_indices(dimension, size.level))
    weights = np.pad(fronts, ((0, 0), (0, max(0, terms - fronts.shape[1]))))
    level = max(size.level, of_fronts.degree_of(fronts, dimension))
    return LevelSets(
        jax.device_put(weights), None, activation, dimension, level, size.height, size.derivatives
    )


def _solved(
    setup: Setup,
    small: Solution,
    basis: WholeBasis,
    network: LevelSets,
    known: Known,
    size: Size,
    number: int,
) -> tuple[Solution, Fronts]:
    problem = setup.problem
    fields = len(problem.fields)
    parameters = initial_parameters(
        network, 0, fields, bias=False, key=jax.random.key(0), dtype="float64"
    )
    a, b = jnp.zeros_like(parameters.a), jnp.zeros((basis.num_terms, fields))
    if not is_linear(problem):
        a, b = _fitted(basis, network, known)
    parameters = dataclasses.replace(parameters, a=a)
    columns = basis.num_terms + network.width
    placed = _placed(setup, basis, network, round(POINTS_PER_COLUMN * columns), number)
    blocks = setup.system(placed, basis, "float64", network.weights.size + network.width * fields)
    conditions = tuple(block for block in blocks[1:] if isinstance(block, Block))
    trained, outcome = levenberg_marquardt(
        (blocks[0], *conditions),
        (setup.fresh(basis), *conditions),
        State(parameters, Unknowns(b, {})),
        problem.domain,
        iterations=size.steps,
        report=lambda step, value: setup.report(
            Progress("fronts", step, size.steps, {"fresh residual": value})
        ),
        checkpoint=setup.checkpoint.within(f"size {number}"),
    )
    count = network.weights.shape[0]
    how = f"Levenberg-Marquardt on {count} {'front' if count == 1 else 'fronts'} and the polynomial"
    found = with_network(setup, small, basis, placed, trained, outcome, how)
    moved = trained.parameters.network
    assert isinstance(moved, LevelSets)
    return found, np.asarray(moved.weights)


def _fitted(basis: WholeBasis, network: LevelSets, known: Known) -> tuple[Array, Array]:
    """a and b by least squares, of low degrees where the values leave them open."""
    x = jnp.asarray(basis.domain.to_reference(known.points))
    weights = np.concatenate(
        [
            (1.0 + np.asarray(basis.degrees)) ** -RELUCTANCE,
            np.tile(
                (1.0 + total_degree_indices(x.shape[1], network.amplitude_degree).sum(axis=1))
                ** -RELUCTANCE,
                network.width // network.num_amplitudes,
            ),
        ]
    )
    columns = np.concatenate([basis.table(known.points), jax.vmap(network.features)(x)], axis=1)
    found = np.linalg.lstsq(columns * weights, known.values, rcond=ROUNDING)[0] * weights[:, None]
    b, a = np.split(found, [basis.num_terms])
    return jax.device_put(a), jax.device_put(b)


def _known_of(solution: Solution, fronts: Fronts) -> Known:
    """Values of a solution, more of them near its fronts."""
    domain = solution.model.domain
    reference = _near(fronts, NUM_KNOWN, domain.dimension, np.random.default_rng(0))
    rest = np.random.default_rng(1).uniform(-1, 1, reference.shape)
    points = domain.from_reference(np.concatenate([reference, rest]))
    return Known(points, evaluate_solution(solution.model, solution.ansatz, points))


def _near(
    fronts: Fronts, count: int, dimension: int, rng: np.random.Generator
) -> Float[np.ndarray, "points d"]:
    """Random points, most of them where some |p| is a few units."""
    candidates = rng.uniform(-1, 1, (CANDIDATES * count, dimension))
    degree = of_fronts.degree_of(fronts, dimension)
    p = of_fronts.legendre_products(candidates, degree) @ fronts.T
    near = np.sum(1 / np.cosh(np.clip(p / 2, -300, 300)), axis=1)
    return candidates[rng.choice(len(candidates), count, replace=False, p=near / np.sum(near))]


def _placed(setup: Setup, basis: WholeBasis, network: LevelSets, count: int, number: int) -> list:
    """Points that fit the basis, and as many along the curves as suit the network."""
    domain = setup.problem.domain
    rng = np.random.default_rng([setup.seed, number])
    near = _near(np.asarray(network.weights), max(count, FEWEST_POINTS), domain.dimension, rng)
    smooth = points_inside(setup.problem, max(basis.num_functions) + 3)
    points = np.concatenate([smooth, domain.from_reference(near)])
    per_face = max(CONDITION_POINTS, setup.condition_points or 0)
    own = dataclasses.replace(setup, points=Points(points), condition_points=per_face)
    return own.placed(basis)
