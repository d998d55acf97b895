"""The default recipe: Gauss-Newton on the polynomial, a network by Levenberg-Marquardt."""

import dataclasses
import functools
import itertools
import math
import time
from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from pann.architecture import Architecture
from pann.basis import Basis
from pann.model import Parameters
from pann.network import Complementary
from pann.pde.blocks import Block
from pann.pde.levenberg import levenberg_marquardt, residual_sizes
from pann.pde.newton import Unknowns, newton, start
from pann.pde.problem import Problem
from pann.solution import Report, Solution, progress_of, trial_figures
from pann.solving.inverse import SMALL, is_inverse, solve_inverse
from pann.solving.polynomial import carried, polynomial_model
from pann.solving.quality import indicator, relative_errors
from pann.solving.setup import Setup
from pann.training.stage import Progress

# Degrees to try by dimension, and when a solution counts as resolved.
LADDERS = {1: (8, 16, 32, 64, 128), 2: (8, 14, 22, 32, 44), 3: (6, 9, 13, 17)}
HIGH_DIMENSIONAL = (3, 5, 7)
# On many pieces, or in many dimensions, the ladder ends before it has more coefficients.
MAX_LADDER_COLUMNS = 3_000
RESOLVED = 1e-10
# A network is tried where the relative residual at fresh points is above this.
UNRESOLVED = 1e-6
# First layers to race: steep units along the axes for kinks and fronts, gentle ones in all
# directions for what a slightly larger basis would resolve.
STARTS = (Complementary((2.0, 20.0), 0.5), Complementary((3.0, 8.0), 0.0))
RACE_STEPS = 15
# With fewer points than this the network fits them and nothing between them.
POINTS_A_PARAMETER = 4


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
        solution = on_basis(setup, rung, precision, start_from, begin)
        what = f"degree {solution.report.degree}"
        setup.report(progress_of(solution, what, number + 1, len(ladder)))
        if small is None or rung.num_terms * len(setup.problem.fields) <= SMALL:
            small = solution
        # From a poor start Newton's method may end in another solution of the equation.
        start_from = solution if solution.residual < 1e-3 else None
        has_network = always_network or solution.residual > UNRESOLVED
        if solution.residual <= RESOLVED:
            break
    assert solution is not None
    assert small is not None
    figures = [trial_figures(solution, setup.seed)] * trials
    if architectures[0].widths and has_network:
        both = [
            _with_network(
                dataclasses.replace(
                    setup,
                    seed=setup.seed + trial,
                    checkpoint=setup.checkpoint.within(f"trial {trial}"),
                ),
                small,
                architectures,
                iterations,
                begun_with if trial == 0 else None,
                begin,
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


def _with_network(
    setup: Setup,
    before: Solution,
    architectures: Sequence[Architecture],
    iterations: int,
    begun_with: Solution | None,
    begin: float,
) -> Solution:
    """Features where the residual is large, trained with the polynomial; kept if that helps."""
    problem, basis, precision = setup.problem, before.model.basis, architectures[0].precision
    num_parameters = architectures[0].num_network_parameters(
        problem.domain.dimension, len(problem.fields)
    )
    blocks = setup.blocks(basis, precision, at_least=POINTS_A_PARAMETER * num_parameters)
    fresh = setup.fresh(basis)
    unknowns = Unknowns(
        before.model.parameters.b,
        {name: jnp.asarray(value, precision) for name, value in before.parameters.items()},
    )
    train = functools.partial(levenberg_marquardt, blocks, (fresh, *blocks[1:]))
    told = lambda step, value: setup.report(
        Progress("network", step, iterations, {"fresh residual": value})
    )
    raced_steps = 0
    if begun_with is not None and begun_with.model.parameters.network is not None:
        network = _network_of(begun_with)
    else:
        raced = [
            train(
                _complementary(setup, blocks[0], unknowns, architecture, first_layer),
                unknowns,
                problem.domain,
                iterations=min(RACE_STEPS, iterations),
                report=told,
                checkpoint=setup.checkpoint.within(f"start {number}"),
            )
            for number, (architecture, first_layer) in enumerate(
                itertools.product(architectures, STARTS)
            )
        ]
        network, unknowns, ahead = min(raced, key=lambda each: min(each[2].fresh))
        raced_steps = len(ahead.fresh) - 1
        iterations -= raced_steps
    trained, solved, outcome = train(
        network,
        unknowns,
        problem.domain,
        iterations=iterations,
        report=told,
        checkpoint=setup.checkpoint.within("network"),
    )
    whole = dataclasses.replace(
        trained,
        b=solved.b,
        keep_b=jnp.ones(basis.num_terms, bool),
        overlap=jnp.zeros_like(solved.b),
    )
    model = dataclasses.replace(before.model, parameters=whole)
    residual = indicator(fresh, blocks[1:], solved, model, setup.ansatz)
    rel_l2, field_errors = relative_errors(problem, model, setup.ansatz)
    steps = raced_steps + len(outcome.fresh) - 1
    how = f"{before.report.how}, then Levenberg-Marquardt on both, {steps} steps"
    report = dataclasses.replace(
        before.report,
        how=how,
        residual=residual,
        rel_l2=rel_l2,
        stop=outcome.reason,
        seconds=time.perf_counter() - begin,
        field_errors=field_errors,
        history=before.report.history
        | {"training residual": outcome.training, "fresh residual": outcome.fresh},
    )
    parameters = {name: float(value) for name, value in solved.parameters.items()}
    return dataclasses.replace(before, model=model, parameters=parameters, report=report)


def _network_of(solution: Solution) -> Parameters:
    """The network of an earlier solution, without its polynomial."""
    parameters = solution.model.parameters
    return dataclasses.replace(
        parameters,
        b=parameters.b[:0],
        keep_b=parameters.keep_b[:0],
        overlap=parameters.overlap[:0],
    )


def _complementary(
    setup: Setup,
    inside: Block,
    unknowns: Unknowns,
    architecture: Architecture,
    initialization: Complementary,
) -> Parameters:
    """A network with its units at points of large residual, of scales that the basis lacks."""
    key, place_key = jax.random.split(jax.random.key(setup.seed))
    parameters = architecture.start(inside.x.shape[1], 0, unknowns.b.shape[1], key=key)
    network = parameters.network
    assert network is not None
    sizes = residual_sizes(inside, unknowns) ** 2
    chances = 0.7 * sizes / max(float(np.sum(sizes)), 1e-300) + 0.3 / len(sizes)
    units = architecture.widths[0]
    rng = np.random.default_rng(setup.seed)
    chosen = rng.choice(len(sizes), units, p=chances / np.sum(chances))
    centers = inside.x[chosen]
    if network.embedding is not None:
        centers = jax.vmap(network.embedding)(centers)
    weight, bias = initialization.first_layer(
        centers.shape[1], units, key=place_key, dtype=architecture.precision, centers=centers
    )
    return eqx.tree_at(
        lambda p: (p.network.weights[0], p.network.biases[0], p.a),
        parameters,
        (weight, bias, jnp.zeros_like(parameters.a)),
    )


def on_basis(
    setup: Setup, basis: Basis, precision: str, before: Solution | None, begin: float
) -> Solution:
    problem = setup.problem
    unknowns = start(basis.num_terms, len(problem.fields), problem.parameters, precision)
    if before is not None:
        unknowns = carried(before, basis, unknowns)
    blocks = setup.blocks(basis, precision)
    place = setup.checkpoint.within(f"terms {basis.num_terms}")
    unknowns, outcome = newton(blocks, unknowns, checkpoint=place)
    model = polynomial_model(problem.domain, basis, unknowns, precision)
    rel_l2, field_errors = relative_errors(problem, model, setup.ansatz)
    parameters = {name: float(value) for name, value in unknowns.parameters.items()}
    return Solution(
        model=model,
        fields=problem.fields,
        parameters=parameters,
        report=Report(
            how=f"Gauss-Newton on the polynomial, {len(outcome.sums) - 1} steps",
            degree=int(np.max(basis.degrees, initial=0)),
            num_points=sum(len(block.weights) for block in blocks),
            residual=indicator(setup.fresh(basis), blocks[1:], unknowns, model, setup.ansatz),
            rel_l2=rel_l2,
            stop=outcome.reason,
            seconds=time.perf_counter() - begin,
            history={"sum of squares": outcome.sums},
            field_errors=field_errors,
        ),
        problem=problem,
        ansatz=setup.ansatz,
    )
