"""solve(problem): the polynomial half by Gauss-Newton, then a network where that is not enough.

Without options the degree is raised until the solution is resolved. If the residual at fresh points
still asks for it, a network with complementary features, placed where the residual is large, is
trained beside the polynomial by Levenberg-Marquardt, and kept only if that residual falls.
"""

import dataclasses
import math
import time
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from pann.architecture import Architecture, check_widths
from pann.basis import Basis, make_basis
from pann.domain import Box
from pann.model import PANN, Parameters
from pann.network import Activation, Complementary, activation_named
from pann.network.taylor import smoothness
from pann.pde.blocks import Block, Placed, make_block
from pann.pde.fields import Order
from pann.pde.levenberg import backgrounds, levenberg_marquardt, residual_sizes
from pann.pde.newton import Unknowns, channels_of, newton, start
from pann.pde.placing import (
    evaluate,
    place_conditions,
    place_inside,
    points_inside,
    points_per_axis_of,
)
from pann.pde.planes import piece_numbers
from pann.pde.problem import Problem
from pann.points import Points, sample, uniform
from pann.regression import relative_l2
from pann.solution import Report, Solution

# Degrees to try by dimension, and when a solution counts as resolved.
LADDERS = {1: (8, 16, 32, 64, 128), 2: (8, 14, 22, 32, 44), 3: (6, 9, 13, 17)}
HIGH_DIMENSIONAL = (3, 5, 7)
# Where interfaces cut the domain into pieces the ladder ends before it has more coefficients.
MAX_PIECEWISE_COLUMNS = 3_000
RESOLVED = 1e-10
# Conditions count more than the equation, whose residual is large where u is not yet resolved.
CONDITION_WEIGHT = 100.0
NUM_TEST = 100_000
NUM_FRESH = 2_000
# A network is tried where the relative residual at fresh points is above this.
UNRESOLVED = 1e-6
DEFAULT_WIDTH = 24
# Beside a network the polynomial has at most so many coefficients: each step factorizes them.
MAX_COLUMNS = 400
# With fewer points than this the network fits them and nothing between them.
POINTS_A_PARAMETER = 4


@dataclasses.dataclass(frozen=True)
class _Setup:
    """A problem with its points."""

    problem: Problem
    orders: tuple[Order, ...]
    points: Points | int | None
    sampling: str | None
    seed: int
    report: Callable[[str, float], None]

    def placed(self, basis: Basis, at_least: int = 0) -> list[Placed]:
        """Points that fit the basis, and at least so many inside unless the user chose them."""
        problem = self.problem
        per_axis = points_per_axis_of(problem, basis, at_least)
        if isinstance(self.points, Points):
            inside = self.points.coordinates
        elif self.points is not None:
            sampler = self.sampling or "gauss"
            inside = sample(sampler, problem.domain, self.points, self.seed).coordinates
            per_axis = max(per_axis, points_per_axis_of(problem, basis, len(inside)))
        else:
            inside = points_inside(problem, per_axis)
        conditions = [
            dataclasses.replace(placed, weight=CONDITION_WEIGHT * placed.weight)
            for placed in place_conditions(problem, per_axis)
        ]
        return [place_inside(problem, inside, self.orders), *conditions]

    def blocks(self, basis: Basis, precision: str, at_least: int = 0) -> tuple[Block, ...]:
        return tuple(
            make_block(placed, self.problem, basis, precision)
            for placed in self.placed(basis, at_least)
        )

    def fresh(self, basis: Basis) -> Block:
        """The equation at random points that are not trained on."""
        points = uniform(self.problem.domain, NUM_FRESH, seed=self.seed + 7).coordinates
        placed = place_inside(self.problem, points, self.orders)
        return make_block(placed, self.problem, basis, "float64")


def solve(
    problem: Problem,
    *,
    degree: int | None = None,
    basis: Basis | None = None,
    points: Points | int | None = None,
    sampling: str | None = None,
    width: int | tuple[int, ...] | None = None,
    depth: int = 2,
    activation: str | Activation = "tanh",
    iterations: int = 200,
    precision: str = "float64",
    seed: int = 0,
    start_from: Solution | None = None,
    report: Callable[[str, float], None] = lambda what, value: None,
) -> Solution:
    """Solve a problem; with no options the degree is raised until the solution is resolved.

    `points` is a number, with a `sampling` by name, or points of your own; by default Gauss points
    that fit the degree. `width` is that of the network, 0 for none; by default 24, only where the
    polynomial does not resolve the solution. `start_from` is a solution to begin with.
    """
    begin = time.perf_counter()
    setup = _Setup(problem, problem.check(), points, sampling, seed, report)
    widths = check_widths(DEFAULT_WIDTH if width is None else width, depth)
    if problem.domain.periodic:
        if widths and width is not None:
            raise ValueError(
                "a network that is periodic along an axis is not there yet; use width=0, or a box "
                "that is not periodic with the condition pann.pde.Periodic"
            )
        widths = ()
    _check_smoothness(setup.orders, activation_named(activation), bool(widths))
    if basis is not None:
        ladder = [basis]
    elif degree is not None:
        ladder = [make_basis(problem.domain, degree, families=problem.pieces)]
    else:
        rungs = degrees_to_try(problem)
        ladder = [make_basis(problem.domain, rung, families=problem.pieces) for rung in rungs]
    with jax.enable_x64(True), jax.default_matmul_precision("highest"):
        solution = small = None
        for rung in ladder:
            solution = _on_basis(setup, rung, precision, start_from, begin)
            report(f"degree {solution.report.degree}", solution.residual)
            if small is None or rung.num_terms * len(problem.fields) <= MAX_COLUMNS:
                small = solution
            # From a poor start Newton's method may end in another solution of the equation.
            start_from = solution if solution.residual < 1e-3 else None
            if solution.residual <= RESOLVED:
                break
        assert solution is not None
        assert small is not None
        if widths and (width is not None or solution.residual > UNRESOLVED):
            architecture = Architecture(
                widths=widths,
                activation=activation_named(activation),
                embedding=None,
                dropout=0.0,
                initialization=None,
                bias=False,
                precision=precision,
            )
            both = _with_network(setup, small, architecture, iterations, begin)
            solution = both if both.residual < solution.residual else _tried(solution, begin)
    return solution


def degrees_to_try(problem: Problem) -> tuple[int, ...]:
    """The degrees of the ladder; on many pieces those whose bases are not too large."""
    dimension = problem.domain.dimension
    rungs = LADDERS.get(dimension, HIGH_DIMENSIONAL)
    pieces = math.prod(family.num_pieces for family in problem.pieces.values())
    columns = [
        pieces * math.comb(rung + dimension, dimension) * len(problem.fields) for rung in rungs
    ]
    affordable = sum(count <= MAX_PIECEWISE_COLUMNS for count in columns)
    return rungs if pieces == 1 else rungs[: max(affordable, 1)]


def _tried(solution: Solution, begin: float) -> Solution:
    """The solution without the network, with a word on it."""
    stop = f"{solution.report.stop}; a network was tried and did not lower the residual"
    seconds = time.perf_counter() - begin
    report = dataclasses.replace(solution.report, stop=stop, seconds=seconds)
    return dataclasses.replace(solution, report=report)


def _check_smoothness(orders: tuple[Order, ...], activation: Activation, is_used: bool) -> None:
    """Refuse an activation with fewer derivatives than the equation has."""
    highest, limit = max(sum(order) for order in orders), smoothness(activation)
    if is_used and limit is not None and highest > limit:
        raise ValueError(
            f"the equation has derivatives of order {highest}, but {activation} has only {limit}; "
            "use activation='tanh', or width=0 for no network"
        )


def _with_network(
    setup: _Setup, before: Solution, architecture: Architecture, iterations: int, begin: float
) -> Solution:
    """Features where the residual is large, trained with the polynomial; kept if that helps."""
    problem, basis, precision = setup.problem, before.model.basis, architecture.precision
    num_parameters = architecture.num_network_parameters(
        problem.domain.dimension, len(problem.fields)
    )
    blocks = setup.blocks(basis, precision, at_least=POINTS_A_PARAMETER * num_parameters)
    fresh = setup.fresh(basis)
    unknowns = Unknowns(
        before.model.parameters.b,
        {name: jnp.asarray(value, precision) for name, value in before.parameters.items()},
    )
    network = _complementary(setup, blocks[0], unknowns, architecture)
    trained, solved, outcome = levenberg_marquardt(
        blocks,
        fresh,
        network,
        unknowns,
        problem.domain,
        iterations=iterations,
        report=lambda step, value: setup.report(f"network, step {step}", value),
    )
    whole = dataclasses.replace(
        trained,
        b=solved.b,
        keep_b=jnp.ones(basis.num_terms, bool),
        overlap=jnp.zeros_like(solved.b),
    )
    model = dataclasses.replace(before.model, parameters=whole)
    (background,) = backgrounds((fresh,), trained, problem.domain)
    residual = relative_residual(fresh, solved, model, background)
    how = f"{before.report.how}, then Levenberg-Marquardt on both, {len(outcome.fresh) - 1} steps"
    report = dataclasses.replace(
        before.report,
        how=how,
        residual=residual,
        rel_l2=relative_error(problem, model),
        stop=outcome.reason,
        seconds=time.perf_counter() - begin,
        history=before.report.history
        | {"training residual": outcome.training, "fresh residual": outcome.fresh},
    )
    parameters = {name: float(value) for name, value in solved.parameters.items()}
    return dataclasses.replace(before, model=model, parameters=parameters, report=report)


def _complementary(
    setup: _Setup, inside: Block, unknowns: Unknowns, architecture: Architecture
) -> Parameters:
    """A network with its units at points of large residual, of scales that the basis lacks."""
    key, place_key = jax.random.split(jax.random.key(setup.seed))
    dimension, num_fields = inside.x.shape[1], unknowns.b.shape[1]
    parameters = architecture.start(dimension, 0, num_fields, key=key)
    assert parameters.network is not None
    sizes = residual_sizes(inside, unknowns) ** 2
    chances = 0.7 * sizes / max(float(np.sum(sizes)), 1e-300) + 0.3 / len(sizes)
    units = architecture.widths[0]
    rng = np.random.default_rng(setup.seed)
    centers = np.asarray(inside.x)[rng.choice(len(sizes), units, p=chances / np.sum(chances))]
    initialization = Complementary((2.0, 20.0), 0.5)
    weight, bias = initialization.first_layer(
        dimension,
        units,
        key=place_key,
        dtype=architecture.precision,
        centers=jnp.asarray(centers),
    )
    return eqx.tree_at(
        lambda p: (p.network.weights[0], p.network.biases[0], p.a),
        parameters,
        (weight, bias, jnp.zeros_like(parameters.a)),
    )


def _on_basis(
    setup: _Setup, basis: Basis, precision: str, before: Solution | None, begin: float
) -> Solution:
    problem = setup.problem
    unknowns = start(basis.num_terms, len(problem.fields), problem.parameters, precision)
    if before is not None:
        unknowns = _carried(before, basis, unknowns)
    blocks = setup.blocks(basis, precision)
    unknowns, outcome = newton(blocks, unknowns)
    model = _model(problem.domain, basis, unknowns, precision)
    parameters = {name: float(value) for name, value in unknowns.parameters.items()}
    return Solution(
        model=model,
        fields=problem.fields,
        parameters=parameters,
        report=Report(
            how=f"Gauss-Newton on the polynomial, {len(outcome.sums) - 1} steps",
            degree=int(np.max(basis.degrees, initial=0)),
            num_points=sum(len(block.weights) for block in blocks),
            residual=relative_residual(setup.fresh(basis), unknowns, model),
            rel_l2=relative_error(problem, model),
            stop=outcome.reason,
            seconds=time.perf_counter() - begin,
            history={"sum of squares": outcome.sums},
        ),
        problem=problem,
    )


def _carried(before: Solution, basis: Basis, unknowns: Unknowns) -> Unknowns:
    """The coefficients of an earlier solution in a larger basis."""
    place = {tuple(index): k for k, index in enumerate(basis.indices.tolist())}
    b = np.asarray(unknowns.b).copy()
    old = np.asarray(before.model.parameters.b)
    for k, index in enumerate(before.model.basis.indices.tolist()):
        if tuple(index) in place:
            b[place[tuple(index)]] = old[k]
    parameters = {
        name: jnp.asarray(before.parameters.get(name, value), b.dtype)
        for name, value in unknowns.parameters.items()
    }
    return Unknowns(jnp.asarray(b), parameters)


def _model(domain: Box, basis: Basis, unknowns: Unknowns, precision: str) -> PANN:
    num_terms, num_fields = unknowns.b.shape
    parameters = Parameters(
        network=None,
        a=jnp.zeros((0, num_fields), precision),
        b=unknowns.b,
        bias=None,
        keep_a=jnp.ones(0, bool),
        keep_b=jnp.ones(num_terms, bool),
        overlap=jnp.zeros_like(unknowns.b),
    )
    return PANN(domain, basis, parameters, precision, None if num_fields == 1 else num_fields)


def relative_residual(
    block: Block, unknowns: Unknowns, model: PANN, background: Any = None
) -> float:
    """The residual's root mean square over the size of the equation's terms, at the block's points.

    On the worst piece, where the basis has several: a large coefficient on one would hide others.
    A derivative counts at least as much as u over the widths of the domain: where all terms vanish,
    as for a linear solution of Laplace's equation, only rounding would be left to compare with.
    """
    channels = channels_of(block, unknowns.b.astype(block.x.dtype), background)
    parameters = {name: value.astype(block.x.dtype) for name, value in unknowns.parameters.items()}
    residual, slopes = block.linearize(channels, parameters)
    values = model(np.asarray(block.coordinates)).reshape(len(block.x), -1)
    sizes = np.sqrt(np.mean(values**2, axis=0))
    scales = [np.prod((2 / model.domain.widths) ** np.asarray(order)) for order in block.orders]
    floor = jnp.asarray(np.outer(scales, sizes))[:, None, :]
    terms = jnp.einsum("opf,ofpr->ofpr", jnp.maximum(jnp.abs(channels), floor), slopes)
    zero = block.residual(jnp.zeros_like(channels), parameters)
    pieces = piece_numbers(model.basis, np.asarray(block.coordinates))
    squares = np.bincount(pieces, np.sum(np.asarray(residual) ** 2, axis=1))
    sizes = np.bincount(
        pieces,
        np.sum(np.asarray(terms) ** 2, axis=(0, 1, 3)) + np.sum(np.asarray(zero) ** 2, axis=1),
    )
    return float(np.sqrt(np.max(squares / np.where(sizes > 0, sizes, 1.0))))


def relative_error(problem: Problem, model: PANN) -> float | None:
    """The relative l2 error of all fields at 100,000 random points, if the solution is known."""
    if problem.exact is None:
        return None
    points = uniform(problem.domain, NUM_TEST, seed=1).coordinates
    exact = problem.exact(**{name: points[:, i] for i, name in enumerate(problem.domain.names)})
    parts = exact if isinstance(exact, tuple) else (exact,)
    true = np.stack([evaluate(np.asarray(part), problem, points) for part in parts], axis=1)
    return relative_l2(model(points).reshape(len(points), -1), true)
