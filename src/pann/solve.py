"""solve(problem): the polynomial half by Gauss-Newton, then a network where that is not enough.

Evolution problems are solved in windows of time. For others, without options, the degree is raised
until the solution is resolved. If the residual at fresh points still asks for it, a network with
complementary features, placed where the residual is large, is trained beside the polynomial by
Levenberg-Marquardt, and kept only if that residual falls. With `recipe="paper"`, or stages of your
own, both halves are trained by gradients instead.
"""

import dataclasses
import functools
import math
import os
import pathlib
import time
from collections.abc import Callable, Sequence

import jax

from pann.architecture import Architecture, check_widths
from pann.basis import Basis, make_basis
from pann.chunks import parse_bytes
from pann.domain import Box
from pann.model import PANN
from pann.network import (
    Activation,
    Circles,
    EmbeddingOptions,
    RandomFourier,
    activation_named,
)
from pann.network.taylor import smoothness
from pann.pde.ansatz import check_alike
from pann.pde.checks import checked
from pann.pde.fields import Order
from pann.pde.jumps import with_breaks
from pann.pde.lift import make_ansatz
from pann.pde.problem import Problem
from pann.points import Points
from pann.progress import supervised
from pann.runtime_limits import check_time_limit
from pann.solution import Solution, network_options, unsolved
from pann.solving.assessment import assessed
from pann.solving.configuration import configuration
from pann.solving.folder import in_folder, prepared_folder
from pann.solving.gradient import (
    Weighting,
    check_trials,
    solve_by_gradient,
    training_options,
    weightings,
)
from pann.solving.inverse import is_inverse
from pann.solving.second_order import degrees_to_try, solve_second_order
from pann.solving.setup import CONDITION_WEIGHT, Setup
from pann.solving.tolerance import check_tolerance, solve_to_tolerance
from pann.solving.windows import march_windows, suits_windows, windows_or
from pann.training import Recipe
from pann.training.stage import Report

# Where nothing is said: the network of the default recipe, and what gradient training takes.
DEFAULT_WIDTH, DEFAULT_DEPTH = 24, 2
PAPER_WIDTH, PAPER_DEPTH = 50, 3
DEFAULT_ACTIVATIONS, PAPER_ACTIVATIONS = ("tanh", "sin"), ("tanh",)
PAPER_POINTS, PAPER_SAMPLING, PAPER_CONDITION_POINTS = 4096, "poisson_disk", 400
PAPER_C = 0.003


def solve(
    problem: Problem,
    *,
    tolerance: float | int | None = None,
    degree: int | None = None,
    c: float | None = None,
    basis: Basis | None = None,
    axes: Sequence[str] | None = None,
    points: Points | int | None = None,
    sampling: str | None = None,
    condition_points: int | None = None,
    condition_sampling: str | None = None,
    condition_weight: float | None = None,
    width: int | tuple[int, ...] | None = None,
    depth: int | None = None,
    activation: str | Activation | None = None,
    network: str = "mlp",
    embedding: EmbeddingOptions | None = None,
    constraint: str | None = None,
    constraint_weight: float = 1e-3,
    reduction: str | None = None,
    preconditioner: bool | None = None,
    weighting: Weighting | Sequence[Weighting] | None = None,
    recipe: str | Recipe = "default",
    trials: int = 1,
    iterations: int = 200,
    windows: int | str | None = None,
    precision: str = "float64",
    memory: int | float | str | None = None,
    seed: int = 0,
    start_from: Solution | PANN | None = None,
    out: str | os.PathLike[str] | None = None,
    resume: bool = False,
    checkpoint_every: float | int = 30.0,
    report: Report | None = None,
    progress: bool | Report | None = None,
    time_limit: float | int | None = None,
) -> Solution:
    """Solve a problem; with no options the degree is raised until the solution is resolved.

    With a `tolerance` instead of sizes these are raised until two resolutions differ by less than
    half of it, relative in l2, and the residual is below it, too; `report.met` says whether they
    do, `report.error_estimate` twice their difference. width=0 and windows=0 go with it.

    `c` gives the degree by the paper's rule, ceil(c N) + 8; `axes` are those that the polynomial
    sees, all by default. `points` is a number, with a `sampling` by name, or points of your own
    (with tags `inside` and `boundary` if you bring both); by default Gauss points that fit the
    degree, in more than three dimensions Sobol points. `condition_points` is the number over all
    faces, `condition_sampling` how they lie there, and `condition_weight` the factor of their
    residuals against the equation's, 100 by default, 1 in gradient training. `width` is that of the
    network, 0 for none; by default 24, only where the polynomial does not resolve the solution; its
    `activation`, if none is given, is tanh or sin, whichever does better in a few steps. `network`
    is "mlp", or "modified" for gated layers. `start_from` is a solution to begin with, or a model
    of your own, whose basis and network are then used unless you ask for others. Where the problem
    has unknown parameters and data, bases, start and the weight of the data are chosen as
    `pann.solving.inverse` says.

    `out` is a folder that gets the file `solution.pann`, a log, and every `checkpoint_every`
    seconds a checkpoint. What was killed goes on from there with `resume=True` and the same
    options, to the same bits on a CPU; work that is finished comes back from its file.

    The default recipe eliminates b at each step (the exact constraint). `recipe="paper"` is Adam,
    pruning and L-BFGS with constraint E and the preconditioner on 4096 Poisson-disk points with
    400 for the conditions; `constraint`, its weight, `preconditioner`, `reduction` ("mean" over the
    points of each term, or "sum") and `weighting` ("gradnorm", "causal", or both; fixed otherwise)
    go with it, or with stages of your own. `trials` networks are trained from as many seeds, and
    that with the smallest residual at fresh points is the solution.

    `memory` is a budget such as "8GB", or a number of bytes: where tables, derivatives or Jacobians
    at all points would take more, they are made a chunk of points at a time, with the same
    gradients and steps. Over several devices the points are spread in any case.

    `progress` shows what is tried, the residual so far and the time: None on a terminal or in a
    notebook only, True always, False never; a function gets every `Progress` instead, as does that
    of `report`. After `time_limit` seconds, or at Ctrl-C, the best solution so far comes back, and
    its report says what would have come next. With progress=False or `report`, which are for
    programs, Ctrl-C is a KeyboardInterrupt.

    `windows` cuts time into so many parts, or into as many as it takes with "auto", each of them
    solved by Newton's method to spectral accuracy (`pann.solve_in_windows` has more options);
    `degree` is then that in time. An evolution problem without any options is solved that way;
    windows=0 solves for the whole of time at once.
    """
    begin = time.perf_counter()
    by_gradient = recipe != "default"
    check_trials(trials)
    weak = constraint not in (None, "exact") or reduction is not None
    if not by_gradient and (weak or preconditioner or weightings(weighting)):
        raise ValueError(
            "the default recipe solves for b at each step, where weak constraints, the "
            "preconditioner, reduction and weighting have no place; give recipe='paper' with them"
        )
    if isinstance(start_from, PANN):
        if degree is None and c is None and basis is None:
            basis = start_from.basis
        if width is None:
            shape = network_options(start_from)
            width, depth = shape.get("width", 0), shape.get("depth", depth)
            network = shape.get("network", network)
        start_from = unsolved(start_from, problem)
    folder = None if out is None else prepared_folder(pathlib.Path(out))
    others = {
        "c": c,
        "basis": basis,
        "axes": axes,
        "points": points,
        "sampling": sampling,
        "condition_points": condition_points,
        "condition_sampling": condition_sampling,
        "condition_weight": condition_weight,
        "width": width or None,
        "depth": depth,
        "activation": activation,
        "embedding": embedding,
        "start_from": start_from,
        "recipe": None if recipe == "default" else recipe,
        "trials": None if trials == 1 else trials,
        "precision": None if precision == "float64" else precision,
        "memory": memory,
    }
    if tolerance is not None:
        check_tolerance(tolerance, {"degree": degree, "windows": windows, **others})
    asked_for = [name for name, value in others.items() if value is not None]
    if windows and asked_for:
        raise ValueError(f"windows go without {', '.join(asked_for)}; leave them out")
    if report is not None and progress is not None:
        raise ValueError("progress and report are the same option; give one of them")
    check_time_limit(time_limit)
    plan = make_plan(
        problem,
        degree=degree,
        c=c,
        basis=basis,
        axes=axes,
        points=points,
        sampling=sampling,
        condition_points=condition_points,
        condition_sampling=condition_sampling,
        condition_weight=condition_weight,
        width=width,
        depth=depth,
        activation=activation,
        network=network,
        embedding=embedding,
        by_gradient=by_gradient,
        precision=precision,
        memory=memory,
        seed=seed,
    )
    problem = plan.setup.problem
    if start_from is not None:
        check_alike(start_from.ansatz, plan.setup.ansatz)
    if folder is None and resume:
        raise ValueError("resume=True goes on with the work in a folder; name it by out")
    if by_gradient:
        options = training_options(
            recipe=recipe,
            constraint=constraint,
            constraint_weight=constraint_weight,
            reduction=reduction,
            preconditioner=preconditioner,
            weighting=weighting,
            trials=trials,
        )
        work = functools.partial(solve_by_gradient, basis=plan.ladder[0], **options)
    else:
        options = dict(trials=trials, iterations=iterations, always_network=width is not None)
        work = functools.partial(solve_second_order, ladder=plan.ladder, **options)
    work = functools.partial(work, architectures=plan.architectures, start_from=start_from)
    if tolerance is not None:
        options = dict(tolerance=tolerance, iterations=iterations)
        work = functools.partial(
            solve_to_tolerance,
            in_windows=windows is None and not asked_for and suits_windows(problem),
            ladder=plan.ladder,
            architectures=plan.architectures,
            **options,
        )
    elif windows:
        work = functools.partial(march_windows, windows=windows, degree=degree)
    elif windows is None and degree is None and width is None and not asked_for:
        work = functools.partial(windows_or, work) if suits_windows(problem) else work
    options["windows"] = windows
    by_program = report is not None or progress is False
    shown = progress if report is None else report
    with (
        supervised(problem.name, shown, time_limit, ctrl_c=not by_program) as watched,
        jax.enable_x64(True),
        jax.default_matmul_precision("highest"),
    ):
        setup = dataclasses.replace(plan.setup, report=watched)
        work = functools.partial(_assess, work)
        if folder is None:
            return work(setup, begin=begin)
        told = configuration(setup, plan.ladder, plan.architectures, start_from, **options)
        return in_folder(
            folder, told, setup, work, begin=begin, resume=resume, interval=checkpoint_every
        )


def _assess(work: Callable[..., Solution], setup: Setup, *, begin: float) -> Solution:
    """What the work gives, with a verdict by points that it did not see."""
    solution = work(setup, begin=begin)
    if solution.report.resolved is not None:
        return solution
    return assessed(solution, setup.seed, setup.condition_weight)


@dataclasses.dataclass(frozen=True)
class Plan:
    """What is to be solved: points, bases to try one after another, and networks to race."""

    setup: Setup
    ladder: list[Basis]
    architectures: list[Architecture]


def make_plan(
    problem: Problem,
    *,
    degree: int | None = None,
    c: float | None = None,
    basis: Basis | None = None,
    axes: Sequence[str] | None = None,
    points: Points | int | None = None,
    sampling: str | None = None,
    condition_points: int | None = None,
    condition_sampling: str | None = None,
    condition_weight: float | None = None,
    width: int | tuple[int, ...] | None = None,
    depth: int | None = None,
    activation: str | Activation | None = None,
    network: str = "mlp",
    embedding: EmbeddingOptions | None = None,
    by_gradient: bool = False,
    precision: str = "float64",
    memory: int | float | str | None = None,
    seed: int = 0,
    report: Report = lambda progress: None,
) -> Plan:
    """Check the problem and the options of `solve`, and fill in what was left out."""
    if by_gradient and points is None:
        points, sampling = PAPER_POINTS, sampling or PAPER_SAMPLING
    if by_gradient and condition_points is None:
        condition_points = PAPER_CONDITION_POINTS
    if c is not None or (by_gradient and degree is None and basis is None):
        degree = degree_by_rule(PAPER_C if c is None else c, points, degree)
    if condition_weight is None:
        condition_weight = 1.0 if by_gradient else CONDITION_WEIGHT
    elif not condition_weight > 0:
        raise ValueError(f"condition_weight must be positive, got {condition_weight!r}")
    problem = checked(problem)
    # A constant in pieces is no help to a network, which has to tie them.
    has_pieces = basis is None and points is None and degree != 0
    if not by_gradient and has_pieces and problem.domain.time is None:
        problem = with_breaks(problem)
    setup = Setup(
        problem,
        problem.asked.orders,
        points,
        sampling,
        seed,
        report,
        condition_points,
        float(condition_weight),
        make_ansatz(problem),
        condition_sampling,
        memory=None if memory is None else parse_bytes(memory),
    )
    if memory is not None and not by_gradient and is_inverse(problem):
        raise ValueError(
            "where parameters are found from data by the default recipe nothing is made in chunks; "
            "leave memory out, or give recipe='paper'"
        )
    default_width = PAPER_WIDTH if by_gradient else DEFAULT_WIDTH
    default_depth = PAPER_DEPTH if by_gradient else DEFAULT_DEPTH
    activations = PAPER_ACTIVATIONS if by_gradient else DEFAULT_ACTIVATIONS
    architectures = [
        Architecture(
            widths=check_widths(default_width if width is None else width, depth or default_depth),
            activation=activation_named(choice),
            embedding=_periodic(problem.domain, embedding),
            dropout=0.0,
            initialization=None,
            bias=False,
            precision=precision,
            kind=network,
        )
        for choice in (activations if activation is None else (activation,))
    ]
    _check_smoothness(setup.orders, architectures[0])
    if basis is not None:
        return Plan(setup, [basis], architectures)
    degrees = degrees_to_try(problem) if degree is None else (degree,)
    seen = problem.domain.names if axes is None else tuple(axes)
    families = {axis: family for axis, family in problem.pieces.items() if axis in seen}
    ladder = [make_basis(problem.domain, each, families=families, axes=seen) for each in degrees]
    return Plan(setup, ladder, architectures)


def degree_by_rule(c: float, points: Points | int | None, degree: int | None = None) -> int:
    """ceil(c N) + 8, the paper's rule for Poisson's and the Allen-Cahn equation."""
    if degree is not None:
        raise ValueError(f"degree={degree} and c={c:g} both give the degree; use one of them")
    if points is None:
        raise ValueError("c gives the degree by the number of points, ceil(c N) + 8; give points=N")
    count = len(points.coordinates) if isinstance(points, Points) else points
    return math.ceil(c * count) + 8


def _periodic(domain: Box, embedding: EmbeddingOptions | None) -> EmbeddingOptions | None:
    """cos and sin along the periodic axes: the network repeats there as the basis does."""
    if not domain.periodic:
        return embedding
    axes = tuple(domain.names.index(axis) for axis in domain.periodic)
    if isinstance(embedding, RandomFourier):
        return Circles(axes, embedding.num_frequencies, embedding.scale)
    if embedding is not None:
        raise ValueError(
            f"the axes {', '.join(domain.periodic)} are periodic, where the network sees cos and "
            "sin of the coordinate; leave the embedding out, or use RandomFourier"
        )
    return Circles(axes)


def _check_smoothness(orders: tuple[Order, ...], architecture: Architecture) -> None:
    """Refuse an activation with fewer derivatives than the equation has."""
    highest, limit = max(sum(order) for order in orders), smoothness(architecture.activation)
    if architecture.widths and limit is not None and highest > limit:
        raise ValueError(
            f"the equation has derivatives of order {highest}, but {architecture.activation} has "
            f"only {limit}; use activation='tanh', or width=0 for no network"
        )
