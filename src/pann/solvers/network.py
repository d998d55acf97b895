"""A network where the polynomial is not enough: units where its residual is large.

Their slopes are those that the basis does not resolve; both halves are trained by
Levenberg-Marquardt, the polynomial eliminated at each step. A few steps of several starts tell
which of them goes on; far from any solution of a nonlinear equation, one of them comes from the
equation linearized at zero.
"""

import dataclasses
import itertools
import time
from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from pann.basis import Basis
from pann.model.architecture import Architecture
from pann.model.pann import Parameters
from pann.network import Complementary
from pann.pde.collocation import Block, ChunkedBlock
from pann.runtime.limits import Progress, product_rate
from pann.solvers.gradual import gradual, has_a_first_step
from pann.solvers.levenberg import LevenbergOutcome, levenberg_marquardt, residual_sizes
from pann.solvers.newton import Unknowns
from pann.solvers.quality import indicator, relative_errors
from pann.solvers.setup import Setup, conditions_of
from pann.solvers.solution import Solution

RACE_STEPS, SECOND_HEAT = 15, 30
# A network by itself starts as beside a polynomial of this degree.
ALONE = 21.0
SMOOTH = 0.5, 4.0
# With fewer points than this the network fits them and nothing between them.
POINTS_A_PARAMETER = 4
# A polynomial with a larger relative residual may be far from any solution.
NEAR = 1e-3
# Floating-point operations of a step over rows x columns^2, the Jacobian's included.
STEP_WORK = 6.0

_Start = tuple[Parameters, Unknowns]
_Trained = tuple[Parameters, Unknowns, LevenbergOutcome]


def starts(basis: Basis) -> tuple[Complementary, ...]:
    """First layers to race, of slopes that the basis does not resolve.

    Gentle ones in all directions for what a slightly larger basis would resolve, steep ones along
    the axes for fronts and kinks, and steeper ones for thin layers. A polynomial of degree n has
    tanh(s x) to exp(-pi n / 2 s). Beside a constant there are also smooth ones, for what the
    polynomial would have.
    """
    own = float(np.max(basis.degrees, initial=0))
    degree = own or ALONE
    gentle = max(1.0, degree / 7), max(3.0, degree / 2.6)
    steep = max(2.0, degree / 8), max(20.0, degree)
    steeper = steep[1] / 2, 8 * steep[1]
    lacking = Complementary(gentle, 0.0), Complementary(steep, 0.5), Complementary(steeper, 0.5)
    return lacking if own else (*lacking, Complementary(SMOOTH, 0.0))


def with_network(
    setup: Setup,
    before: Solution,
    *,
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
    blocks = setup.system(
        basis, precision, POINTS_A_PARAMETER * num_parameters, num_network_parameters=num_parameters
    )
    conditions = conditions_of(blocks)
    fresh = setup.fresh(basis)
    unknowns = Unknowns(
        before.model.parameters.b,
        {name: jnp.asarray(value, precision) for name, value in before.parameters.items()},
    )
    told = lambda step, value: setup.report(
        Progress("network", step, iterations, {"fresh residual": value})
    )
    is_far = not before.parameters and before.residual > NEAR
    is_gradual = is_far and has_a_first_step(fresh)

    def train(start: _Start, steps: int, place: str, share: float = 1.0) -> _Trained:
        inside, at_fresh = blocks[0], fresh
        if is_gradual:
            inside, at_fresh = gradual(inside, share), gradual(at_fresh, share)
        return levenberg_marquardt(
            (inside, *conditions),
            (at_fresh, *conditions),
            *start,
            problem.domain,
            iterations=steps,
            report=told,
            checkpoint=setup.checkpoint.within(place),
        )

    def raced(
        starts: Sequence[_Start], steps: int, name: str, share: float = 1.0
    ) -> list[_Trained]:
        results: list[_Trained] = []
        for number, each in enumerate(starts):
            results.append(train(each, steps, f"{name} {number}", share))
            if results[-1][2].is_stopped:
                break
        return results

    steps, is_linearized = 0, False
    if begun_with is not None and begun_with.model.parameters.network is not None:
        ahead = _network_of(begun_with), unknowns
    else:
        candidates = [
            (_complementary(setup, blocks[0], unknowns, architecture, first_layer), unknowns)
            for architecture, first_layer in itertools.product(architectures, starts(basis))
        ]
        short = min(RACE_STEPS, iterations)
        best = _best(raced(candidates, short, "start"))
        steps = best[2].num_steps
        if is_gradual and not best[2].is_stopped:
            linear = raced(candidates, short, "linearized", 0.0)
            other = train(_best(linear)[:2], short, "from linearized")
            # After a few steps the residual does not tell yet which of them nears a solution.
            second = min(SECOND_HEAT, iterations - short)
            heats = raced([best[:2], other[:2]], second, "heat")
            is_linearized = _best(heats) is heats[-1] and len(heats) > 1
            best, steps = _best(heats), (other if is_linearized else best)[2].num_steps
            steps += best[2].num_steps
        ahead = best[:2]
    # What was stopped is stopped again by its first report.
    trained, solved, outcome = train(ahead, iterations - steps, "network")
    whole = dataclasses.replace(
        trained,
        b=solved.b,
        keep_b=jnp.ones(basis.num_terms, bool),
        overlap=jnp.zeros_like(solved.b),
    )
    model = dataclasses.replace(before.model, parameters=whole)
    residual = indicator(fresh, conditions, solved, model, setup.ansatz)
    rel_l2, field_errors = relative_errors(problem, model, setup.ansatz)
    steps += outcome.num_steps
    begun = ", begun with the linearized equation" if is_linearized else ""
    how = f"{before.report.how}, then Levenberg-Marquardt on both, {steps} steps{begun}"
    report = dataclasses.replace(
        before.report,
        error_estimate=None,
        how=how,
        residual=residual,
        rel_l2=rel_l2,
        stop=outcome.reason,
        stopped=outcome.reason.removeprefix("stopped by ") if outcome.is_stopped else None,
        seconds=time.perf_counter() - begin,
        field_errors=field_errors,
        history=before.report.history
        | {"training residual": outcome.training, "fresh residual": outcome.fresh},
    )
    parameters = {name: float(value) for name, value in solved.parameters.items()}
    return dataclasses.replace(before, model=model, parameters=parameters, report=report)


def _best(raced: Sequence[_Trained]) -> _Trained:
    return min(raced, key=lambda each: min(each[2].fresh))


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
    inside: Block | ChunkedBlock,
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


def network_seconds(
    setup: Setup, basis: Basis, architectures: Sequence[Architecture], iterations: int
) -> float:
    """About how long `with_network` takes at most, beside the polynomial and alone.

    A step factorizes a Jacobian of all columns; how fast, a product of matrices tells.
    """
    problem = setup.problem
    fields, first = len(problem.fields), architectures[0]
    of_network = first.num_network_parameters(problem.domain.dimension, fields)
    rows = POINTS_A_PARAMETER * of_network * problem.asked.num_residuals
    columns = of_network + basis.num_terms * fields
    num_starts = len(architectures) * len(starts(basis))
    steps = 2 * (RACE_STEPS * num_starts + iterations)
    return steps * STEP_WORK * rows * columns**2 / product_rate()
