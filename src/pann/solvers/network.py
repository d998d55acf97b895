"""The default method: the polynomial, and a network next to it where the polynomial is not enough.

The network has units where the residual is large, of slopes that the basis does not resolve. Both
halves are trained by Levenberg-Marquardt, the polynomial eliminated at each step. A few steps of
several starts show which of them goes on; far from any solution of a nonlinear equation, one of the
starts comes from the equation linearized at zero. A network is kept only if the residual at fresh
points falls.
"""

import dataclasses
import functools
import itertools
from collections.abc import Callable, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from pann.basis import WholeBasis
from pann.model.architecture import Architecture
from pann.model.pann import Parameters
from pann.network import Complementary, LevelSets
from pann.pde.checks import has_integrals
from pann.pde.collocation import Block, ChunkedBlock
from pann.runtime.limits import Progress, Stopped, product_rate
from pann.solvers.determinacy import is_linear
from pann.solvers.front_units import (
    INSIDE,
    ON_FACES,
    better_with_fronts,
    better_with_powers,
    may_have_fronts,
    order_of_ways,
)
from pann.solvers.gradual import gradual, has_a_first_step
from pann.solvers.inverse import is_inverse, solve_inverse
from pann.solvers.levenberg import (
    LevenbergOutcome,
    State,
    levenberg_marquardt,
    residual_sizes,
    with_network,
)
from pann.solvers.newton import Blocks, Unknowns
from pann.solvers.polynomial import (
    NEAR,
    RESOLVED,
    UNRESOLVED,
    climb,
    solve_on_basis,
    stopped_by,
)
from pann.solvers.setup import Setup
from pann.solvers.solution import Solution, progress_of, trial_figures, with_report

# Where elements leave less, more of them help, and a network does not.
ENOUGH_ON_ELEMENTS = 0.1
# A network that leaves more than this fraction of the residual is of little help.
LITTLE = 0.1
# Steps of each start in the first round, and of the two best where there is a second round.
FIRST_ROUND, SECOND_ROUND = 15, 30
# A network without a polynomial starts as if next to one of this degree, and with smooth units too.
DEGREE_ALONE = 21.0
SMOOTH = 0.5, 4.0
# With fewer points per parameter the network fits them and nothing between them.
POINTS_PER_PARAMETER = 4
# Programs of a network are compiled in about so many seconds, in which nothing can be stopped.
COMPILATION_SECONDS = 10.0
# Next to fronts the polynomial is not projected out of as many columns.
MAX_TERMS_WITH_FRONTS = 600
# Floating-point operations of a step over rows x columns^2, the Jacobian's included.
STEP_WORK = 6.0

_Trained = tuple[State, LevenbergOutcome]


@dataclasses.dataclass(frozen=True, eq=False)
class Networks:
    """What is tried: architectures that compete, each of them from so many seeds.

    If they are `asked_for` one is trained in any case. The first trial goes on with the network of
    `start_from`, if there is one. With `fronts` units along fronts are tried before.
    """

    architectures: Sequence[Architecture]
    iterations: int
    asked_for: bool
    trials: int = 1
    start_from: Solution | None = None
    fronts: bool = False


def solve_second_order(
    setup: Setup,
    *,
    ladder: Sequence[WholeBasis],
    networks: Networks,
    elements: Callable[[Setup, Solution], Solution] | None = None,
    coarse: Callable[[Setup], Solution] | None = None,
) -> Solution:
    """Raise the degree until resolved; then a network if asked for, or if that is not enough.

    `elements`, where they are allowed, come between the two: they take the polynomial's solution
    and give a better one, or the same. So do units along fronts, which `coarse` shows.

    Where parameters are to be found from data, a small residual is not all, and a network is
    trained only if asked for. A network cannot be integrated: equations with integrals are left to
    the polynomial.
    """
    problem, first, start_from = setup.problem, networks.architectures[0], networks.start_from
    if is_inverse(problem):
        solution, small, setup, _ = solve_inverse(setup, ladder, start_from)
        has_network = networks.asked_for
    else:
        has_fronts = networks.fronts and may_have_fronts(problem, setup.precision)
        solution, small = climb(
            setup,
            ladder,
            start_from,
            has_elements=elements is not None or has_fronts,
        )
        least = small.model.product_basis
        # Not without need: on a shape the number of terms is known when they are made.
        tried = ladder if networks.fronts and problem.domain.shape is None else []
        larger = [e for e in tried if least.num_terms < e.num_terms <= MAX_TERMS_WITH_FRONTS]
        bases = [least, *larger]
        with_fronts = functools.partial(better_with_fronts, small=small, bases=bases)
        asks = lambda: solution.residual > UNRESOLVED and not solution.report.stopped
        if networks.fronts and asks():
            solution = better_with_powers(setup, solution, small=small, bases=bases)
        is_begun = elements is not None and has_fronts and not is_linear(problem)
        if is_begun and asks():
            # Newton's method on elements begins at zero, far from fronts that faces show.
            solution = with_fronts(setup, solution, ways=(ON_FACES,), coarse=None)
        enough = UNRESOLVED
        if elements is not None and asks():
            solution = elements(setup, solution)
            enough = ENOUGH_ON_ELEMENTS
            # What elements made is finer than anything that would be made to be looked at.
            coarse = None
        if has_fronts and asks():
            ways = (INSIDE,) if is_begun else order_of_ways(problem)
            polynomial = solution
            solution = with_fronts(setup, solution, ways=ways, coarse=coarse)
            if elements is None and asks():
                solution = _higher(setup, ladder, polynomial, solution)
        is_resolved = solution.residual <= enough
        has_fronts = isinstance(solution.model.parameters.network, LevelSets)
        has_network = not is_resolved or (networks.asked_for and not has_fronts)
    if has_integrals(problem):
        if networks.asked_for and first.widths:
            raise ValueError(
                "integrals are computed for polynomials alone; use pann.Polynomial(...)"
            )
        has_network = False
    figures = [trial_figures(solution, setup.seed)] * networks.trials
    if has_network and first.widths and not solution.report.stopped:
        solution = _announced(setup, solution, small, networks)
        if not solution.report.stopped:
            solution, figures = _best_trial(setup, solution, small, networks)
    stop = solution.report.stop
    if is_inverse(problem) and solution.model.num_units > 0:
        stop = f"parameters fitted with the network, deviations unknown; {stop}"
    return with_report(solution, trials=figures, stop=stop)


def _higher(
    setup: Setup,
    ladder: Sequence[WholeBasis],
    polynomial: Solution,
    solution: Solution,
) -> Solution:
    """The degrees that fronts were to spare, or the solution if that is better."""
    num_terms = polynomial.model.product_basis.num_terms
    rest = [each for each in ladder if each.num_terms > num_terms]
    if not rest:
        return solution
    last, _ = climb(setup, rest, polynomial)
    if last.residual < solution.residual:
        return last
    return stopped_by(solution, last.report.stopped) if last.report.stopped else solution


def _announced(setup: Setup, solution: Solution, small: Solution, networks: Networks) -> Solution:
    """Report that networks come next, and about how long they take; stop if time is up.

    A step factorizes a Jacobian of all columns, at the speed of a product of matrices. There are
    networks next to the polynomial and alone.
    """
    problem, fields = setup.problem, len(setup.problem.fields)
    num_parameters = networks.architectures[0].num_network_parameters(
        problem.domain.dimension, fields
    )
    rows = POINTS_PER_PARAMETER * num_parameters * problem.asked.num_residuals
    columns = num_parameters + small.model.num_terms * fields
    num_starts = len(networks.architectures) * len(starts(small.model.product_basis))
    steps = 2 * (FIRST_ROUND * num_starts + networks.iterations) * networks.trials
    seconds = steps * STEP_WORK * rows * columns**2 / product_rate()
    what = f"networks next to degree {small.report.degree}, about {seconds:.0f} s at most"
    try:
        setup.report(progress_of(solution, what, 0, networks.iterations))
        setup.run.check_time(COMPILATION_SECONDS)
    except Stopped as stopped:
        return stopped_by(solution, stopped, what)
    return solution


def _best_trial(
    setup: Setup, solution: Solution, small: Solution, networks: Networks
) -> tuple[Solution, list[dict]]:
    """The best of the trials, each with a network if that helped, and the figures of all."""
    kept: list[Solution] = []
    stopped: str | None = None
    tried = f"{solution.report.stop}; a network was tried and did not lower the residual"
    enough = max(LITTLE * solution.residual, RESOLVED)
    for trial in range(networks.trials):
        own = dataclasses.replace(setup, seed=setup.seed + trial).within(f"trial {trial}")
        trained = networks if trial == 0 else dataclasses.replace(networks, start_from=None)
        train = functools.partial(_with_network, networks=trained)
        candidate = with_polynomial_or_alone(own, small, enough, train)
        stopped = candidate.report.stopped
        if not candidate.residual < solution.residual:
            seconds = setup.run.seconds
            candidate = with_report(solution, stop=tried, seconds=seconds)
        kept.append(candidate)
        if stopped:
            break
    figures = [trial_figures(each, setup.seed + trial) for trial, each in enumerate(kept)]
    best = min(kept, key=lambda each: each.residual)
    return stopped_by(best, stopped, "more steps of the network") if stopped else best, figures


def with_polynomial_or_alone(
    setup: Setup, before: Solution, enough: float, train: Callable[[Setup, Solution], Solution]
) -> Solution:
    """A network next to the polynomial; next to a constant, where that leaves more than `enough`.

    What a polynomial leaves of a front ripples everywhere, and may be harder than the front.
    """
    both, basis = train(setup, before), before.model.product_basis
    constants = np.flatnonzero(np.asarray(basis.degrees) == 0)
    is_enough = both.residual <= enough or len(constants) == len(basis)
    if both.report.stopped or is_enough or is_inverse(setup.problem):
        return both
    own = setup.within("alone")
    constant = solve_on_basis(own, basis.subset(constants), None)
    return min(both, train(own, constant), key=lambda candidate: candidate.residual)


def _with_network(setup: Setup, before: Solution, *, networks: Networks) -> Solution:
    """Both halves trained together, from the polynomial `before` and the best of several starts."""
    problem, basis, start_from = setup.problem, before.model.product_basis, networks.start_from
    first, iterations = networks.architectures[0], networks.iterations
    num_parameters = first.num_network_parameters(problem.domain.dimension, len(problem.fields))
    placed = setup.placed(basis, POINTS_PER_PARAMETER * num_parameters)
    blocks = setup.system(placed, basis, setup.precision, num_parameters)
    unknowns = Unknowns(
        before.model.parameters.b,
        {name: jnp.asarray(value, setup.precision) for name, value in before.parameters.items()},
    )
    fresh = setup.fresh(basis)
    is_far = not before.parameters and before.residual > NEAR
    is_gradual = is_far and has_a_first_step(problem, fresh)
    training = _Training(setup, blocks, fresh, iterations, is_gradual)
    steps, is_linearized = 0, False
    if start_from is not None and start_from.model.parameters.network is not None:
        ahead = State(_network_of(start_from), unknowns)
    else:
        candidates = [
            State(_complementary(setup, blocks[0], unknowns, architecture, first_layer), unknowns)
            for architecture, first_layer in itertools.product(
                networks.architectures, starts(basis)
            )
        ]
        ahead, steps, is_linearized = training.best_of(candidates)
    # What was stopped is stopped again by its first report.
    trained, outcome = training.train(ahead, iterations - steps, "network")
    begun = ", begun with the linearized equation" if is_linearized else ""
    steps += outcome.num_steps
    how = f"{before.report.how}, then Levenberg-Marquardt on both, {steps} steps{begun}"
    return with_network(setup, before, basis, placed, trained, outcome, how)


@dataclasses.dataclass(frozen=True, eq=False)
class _Training:
    """Levenberg-Marquardt on both halves, where `is_gradual` also on the linearized equation."""

    setup: Setup
    blocks: Blocks
    fresh: Block
    iterations: int
    is_gradual: bool

    def train(self, start: State, steps: int, name: str, nonlinear: float = 1.0) -> _Trained:
        """So many steps; `nonlinear` is the fraction of the nonlinear terms that is there."""
        inside, fresh = self.blocks[0], self.fresh
        if self.is_gradual:
            inside, fresh = gradual(inside, nonlinear), gradual(fresh, nonlinear)
        # Those of conditions are never in chunks.
        conditions = tuple(block for block in self.blocks[1:] if isinstance(block, Block))
        return levenberg_marquardt(
            (inside, *conditions),
            (fresh, *conditions),
            start,
            self.setup.problem.domain,
            iterations=steps,
            report=lambda step, value: self.setup.report(
                Progress("network", step, self.iterations, {"fresh residual": value})
            ),
            checkpoint=self.setup.checkpoint.within(name),
        )

    def round(
        self, starts: Sequence[State], steps: int, name: str, nonlinear: float = 1.0
    ) -> list[_Trained]:
        """A few steps of each start, or of those before a stop."""
        results: list[_Trained] = []
        for number, each in enumerate(starts):
            results.append(self.train(each, steps, f"{name} {number}", nonlinear))
            if results[-1][1].stopped:
                break
        return results

    def best_of(self, candidates: Sequence[State]) -> tuple[State, int, bool]:
        """The start that goes on, the steps it has made, and whether it began linearized."""
        short = min(FIRST_ROUND, self.iterations)
        best, outcome = _best(self.round(candidates, short, "start"))
        if not self.is_gradual or outcome.stopped:
            return best, outcome.num_steps, False
        linear, _ = _best(self.round(candidates, short, "linearized", 0.0))
        other, of_other = self.train(linear, short, "from linearized")
        # After a few steps the residual does not show yet which of them nears a solution.
        second = min(SECOND_ROUND, self.iterations - short)
        results = self.round([best, other], second, "second round")
        ahead, last = _best(results)
        is_linearized = len(results) > 1 and ahead is results[-1][0]
        before = of_other if is_linearized else outcome
        return ahead, before.num_steps + last.num_steps, is_linearized


def _best(results: Sequence[_Trained]) -> _Trained:
    return min(results, key=lambda each: min(each[1].fresh))


def starts(basis: WholeBasis) -> tuple[Complementary, ...]:
    """First layers that compete, of slopes that the basis does not resolve.

    Gentle ones in all directions for what a slightly larger basis would resolve, steep ones along
    the axes for fronts and kinks, and steeper ones for thin layers. A polynomial of degree n has
    tanh(s x) to exp(-pi n / 2 s). Next to a constant there are also smooth ones, for what the
    polynomial would have.
    """
    own = float(np.max(basis.degrees, initial=0))
    degree = own or DEGREE_ALONE
    gentle = max(1.0, degree / 7), max(3.0, degree / 2.6)
    steep = max(2.0, degree / 8), max(20.0, degree)
    steeper = steep[1] / 2, 8 * steep[1]
    lacking = Complementary(gentle, 0.0), Complementary(steep, 0.5), Complementary(steeper, 0.5)
    return lacking if own else (*lacking, Complementary(SMOOTH, 0.0))


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


def _network_of(solution: Solution) -> Parameters:
    """The network of an earlier solution, without its polynomial."""
    parameters = solution.model.parameters
    return dataclasses.replace(
        parameters,
        b=parameters.b[:0],
        keep_b=parameters.keep_b[:0],
        overlap=parameters.overlap[:0],
    )
