"""A network of level sets: units along the fronts of a coarse solution, then the equation.

Where polynomials in boxes converge slowly, along fronts that are oblique or curved, a unit along
the front leaves something smooth. Fronts are read off a coarse solution (`pann.solvers.fronts`), or
off the values on the faces. Levenberg-Marquardt on the equation moves the curves, both polynomials,
beside the fronts and times the fronts, eliminated; their degrees are raised as long as that pays,
and points are drawn anew along the curves.
"""

import dataclasses
import time
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from pann.basis import Basis
from pann.model.pann import initial_parameters
from pann.network import Activation, LevelSets, activation_named
from pann.network.embeddings import total_degree_indices
from pann.pde.checks import has_integrals
from pann.pde.collocation import Block
from pann.pde.conditions import Dirichlet
from pann.pde.evaluation import evaluate_solution
from pann.pde.placing import place_conditions, points_inside
from pann.pde.problem import Problem
from pann.points import Points
from pann.runtime.limits import Progress, Stopped
from pann.solvers import fronts as of_fronts
from pann.solvers.fronts import ARCTAN, TANH, Fronts, Profile, found_fronts
from pann.solvers.inverse import is_inverse
from pann.solvers.levenberg import State, levenberg_marquardt
from pann.solvers.newton import start
from pann.solvers.polynomial import RESOLVED, stopped_by
from pann.solvers.setup import Setup
from pann.solvers.solution import Solution
from pann.solvers.trained import with_network

DIMENSIONS = 2, 3
PROFILES: dict[str, Profile] = {"tanh": TANH, "arctan": ARCTAN}
# Fronts that leave more than this of what is seen are none, and on faces.
LEFT, LEFT_ON_FACES = 0.1, 0.02
FACE_POINTS = 400
FACE_DEGREES = (1, 2)


@dataclasses.dataclass(frozen=True)
class Size:
    """Degrees of the curve and of its height, derivatives of the profile, most steps."""

    level: int
    height: int
    derivatives: int
    steps: int


# Small ones move the curves, larger ones are nearly linear problems.
SIZES = (Size(4, 0, 0, 25), Size(6, 4, 2, 8), Size(6, 8, 4, 4), Size(6, 12, 5, 4))
SIZES_3D = (Size(2, 0, 0, 25), Size(2, 2, 2, 6), Size(4, 4, 2, 4))
# The next size is tried only if the last lowered the residual by this factor.
PAYS = 0.5
# Points along the curves for each column, and at least; candidates for each of these.
POINTS_PER_COLUMN, FEWEST_POINTS, CANDIDATES = 3.0, 1_000, 30
CONDITION_POINTS = 400
# Compilation of a size, in seconds.
COMPILATION = 3.0


def may_have_fronts(problem: Problem, precision: str) -> bool:
    """Whether level sets can be units of a solution."""
    return (
        problem.domain.dimension in DIMENSIONS
        and precision == "float64"
        and not problem.domain.periodic
        and not problem.pieces
        and not is_inverse(problem)
        and not problem.parameters
        and not has_integrals(problem)
    )


def better_with_fronts(
    setup: Setup,
    before: Solution,
    bases: Sequence[Basis],
    coarse: Callable[[Setup], Solution] | None,
    begin: float,
) -> Solution:
    """The solution with units along fronts next to the last of the bases, or the one before.

    `coarse` gives a solution that shows where they are; else the one before is looked at.
    """
    try:
        setup.report(Progress("fronts", 0, 0, {"residual": before.residual}))
        seen = before if coarse is None else coarse(setup)
        setup.run.check_time(COMPILATION)
        best = before
        for number, (fronts, name) in enumerate(_starts(setup, seen)):
            own = setup.within(f"fronts {number}")
            best = _trained(own, best, bases, fronts, activation_named(name), begin)
            if best.report.stopped or best.residual < before.residual:
                break
        return best
    except Stopped as stopped:
        return stopped_by(before, stopped, "units along fronts")


def _starts(setup: Setup, seen: Solution) -> list[tuple[Fronts, str]]:
    """Fronts with their profiles: those inside, and those that end on faces."""
    dimension = setup.problem.domain.dimension
    views = of_fronts.inside(dimension)
    at = setup.problem.domain.from_reference(views[1].points)
    found = [_best(views, evaluate_solution(seen.model, seen.ansatz, at), LEFT)]
    on_faces = _face_values(setup.problem)
    if on_faces is not None:
        points, values = on_faces
        reference = setup.problem.domain.to_reference(points)
        faces = tuple(of_fronts.OnFaces.of(reference, d, smooth) for d, smooth in ((14, 3), (30, 3)))
        found.append(_best((faces[0], faces[1]), values, LEFT_ON_FACES, FACE_DEGREES))
    return [each for each in found if each is not None]


def _best(
    views: tuple[of_fronts.View, of_fronts.View],
    values: Float[np.ndarray, "points fields"],
    enough: float,
    degrees: Sequence[int] = of_fronts.LEVEL_DEGREES,
) -> tuple[Fronts, str] | None:
    """The profile with which few fronts leave little."""
    tried = {
        name: found_fronts(views, values, profile, degrees) for name, profile in PROFILES.items()
    }
    cost = lambda name: len(tried[name][0]) * tried[name][1] if len(tried[name][0]) else 1.0
    name = min(tried, key=cost)
    fronts, left = tried[name]
    return (fronts, name) if len(fronts) and left < enough else None


def _face_values(
    problem: Problem,
) -> tuple[Float[np.ndarray, "points d"], Float[np.ndarray, "points fields"]] | None:
    """What is given on faces, for one field."""
    given = [each for each in problem.conditions if isinstance(each, Dirichlet)]
    if len(problem.fields) > 1 or not given:
        return None
    per_axis = round((FACE_POINTS / 4) ** (1 / (problem.domain.dimension - 1)))
    placed = place_conditions(dataclasses.replace(problem, conditions=given), per_axis)
    values = [each.target.reshape(len(each.points), 1) for each in placed]
    return np.concatenate([each.points for each in placed]), np.concatenate(values)


# ---- On the equation ----


def _trained(
    setup: Setup,
    before: Solution,
    bases: Sequence[Basis],
    fronts: Fronts,
    activation: Activation,
    begin: float,
) -> Solution:
    """Larger and larger networks along the fronts; the best, or the solution before."""
    dimension = setup.problem.domain.dimension
    sizes = SIZES if dimension == 2 else SIZES_3D
    best, last = before, np.inf
    for number, size in enumerate(sizes):
        basis = bases[min(number, len(bases) - 1)]
        network = _network(fronts, activation, dimension, size)
        try:
            setup.run.check_time(COMPILATION)
            solution, moved = _solved(setup, before, basis, network, size, number, begin)
        except Stopped as stopped:
            return stopped_by(best, stopped, "more units along fronts")
        if solution.residual < best.residual:
            best = solution
        if solution.report.stopped:
            return stopped_by(best, solution.report.stopped, "more units along fronts")
        if solution.residual <= RESOLVED or (number > 1 and solution.residual > PAYS * last):
            break
        fronts, last = moved, min(last, solution.residual)
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
    before: Solution,
    basis: Basis,
    network: LevelSets,
    size: Size,
    number: int,
    begin: float,
) -> tuple[Solution, Fronts]:
    problem = setup.problem
    fields = len(problem.fields)
    parameters = initial_parameters(
        network, 0, fields, bias=False, key=jax.random.key(0), dtype="float64"
    )
    parameters = dataclasses.replace(parameters, a=jnp.zeros_like(parameters.a))
    columns = basis.num_terms + network.width
    placed = _placed(setup, basis, network, round(POINTS_PER_COLUMN * columns), number)
    blocks = setup.system(placed, basis, "float64", network.weights.size + network.width * fields)
    conditions = tuple(block for block in blocks[1:] if isinstance(block, Block))
    trained, outcome = levenberg_marquardt(
        (blocks[0], *conditions),
        (setup.fresh(basis), *conditions),
        State(parameters, start(basis.num_terms, fields, {}, "float64")),
        problem.domain,
        iterations=size.steps,
        report=lambda step, value: setup.report(
            Progress("fronts", step, size.steps, {"fresh residual": value})
        ),
        checkpoint=setup.checkpoint.within(f"size {number}"),
    )
    count = network.weights.shape[0]
    how = f"Levenberg-Marquardt on {count} {'front' if count == 1 else 'fronts'} and the polynomial"
    found = with_network(setup, before, basis, placed, trained, outcome, how, begin)
    moved = trained.parameters.network
    assert isinstance(moved, LevelSets)
    return found, np.asarray(moved.weights)


def _placed(setup: Setup, basis: Basis, network: LevelSets, count: int, number: int) -> list:
    """Points that fit the basis, and as many along the curves as suit the network."""
    domain = setup.problem.domain
    rng = np.random.default_rng([setup.seed, number])
    count = max(count, FEWEST_POINTS)
    candidates = rng.uniform(-1, 1, (CANDIDATES * count, domain.dimension))
    p = of_fronts.legendre_products(candidates, network.degree) @ np.asarray(network.weights).T
    near = np.sum(1 / np.cosh(np.clip(p / 2, -300, 300)), axis=1)
    kept = rng.choice(len(candidates), count, replace=False, p=near / np.sum(near))
    smooth = points_inside(setup.problem, max(basis.num_functions) + 3)
    points = np.concatenate([smooth, domain.from_reference(candidates[kept])])
    per_face = max(CONDITION_POINTS, setup.condition_points or 0)
    own = dataclasses.replace(setup, points=Points(points), condition_points=per_face)
    return own.placed(basis)
