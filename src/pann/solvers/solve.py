"""solve(problem): the polynomial half by Gauss-Newton, then a network where that is not enough.

Evolution problems are solved in windows of time. For others, without options, the degree is raised
until the solution is resolved. If the residual at fresh points still asks for it, a network with
complementary features, placed where the residual is large, is trained beside the polynomial by
Levenberg-Marquardt, and kept only if that residual falls. With `recipe="paper"`, or stages of your
own, both halves are trained by gradients instead.
"""

import dataclasses
import functools
import os
import pathlib
import time
from collections.abc import Callable, Sequence

import jax
import numpy.typing as npt

from pann.basis import Basis
from pann.model.pann import PANN
from pann.network import Activation, EmbeddingOptions
from pann.pde.checks import checked
from pann.pde.hard_conditions import check_alike
from pann.pde.problem import Problem
from pann.points import Points
from pann.runtime.limits import Report, check_time_limit
from pann.runtime.progress import supervised
from pann.solvers.assessment import assessed
from pann.solvers.folder import configuration, in_folder, prepared_folder
from pann.solvers.gradient import (
    Weighting,
    check_trials,
    solve_by_gradient,
    training_options,
    weightings,
)
from pann.solvers.plan import as_points, make_plan
from pann.solvers.second_order import solve_second_order
from pann.solvers.setup import Setup
from pann.solvers.solution import Solution, network_options, unsolved
from pann.solvers.tolerance import check_tolerance, solve_to_tolerance
from pann.solvers.windows.method import march_windows, suits_windows, windows_or
from pann.training import Recipe

ITERATIONS, CONSTRAINT_WEIGHT = 200, 1e-3


def solve(
    problem: Problem,
    *,
    tolerance: float | int | None = None,
    degree: int | None = None,
    c: float | None = None,
    basis: Basis | None = None,
    axes: Sequence[str] | None = None,
    points: Points | int | npt.ArrayLike | None = None,
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
    constraint_weight: float | None = None,
    reduction: str | None = None,
    preconditioner: bool | None = None,
    weighting: Weighting | Sequence[Weighting] | None = None,
    recipe: str | Recipe = "default",
    trials: int = 1,
    iterations: int | None = None,
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
    `pann.solvers.inverse` says.

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
    problem = checked(problem)
    points = as_points(points, problem.domain)
    weak = constraint not in (None, "exact") or _any_given(reduction, constraint_weight)
    if not by_gradient and (weak or preconditioner or weightings(weighting)):
        raise ValueError(
            "the default recipe solves for b at each step, where weak constraints and their "
            "weight, the preconditioner, reduction and weighting have no place; give "
            "recipe='paper' with them"
        )
    if by_gradient and iterations is not None:
        raise ValueError(
            "iterations are those of Levenberg-Marquardt in the default recipe; give the steps of "
            "others with the stages, recipe=(pann.Adam(...), pann.LBFGS(...))"
        )
    iterations = ITERATIONS if iterations is None else iterations
    if basis is not None and _any_given(degree, c, axes):
        raise ValueError("a basis has its own degree and axes; leave degree, c and axes out")
    if (
        width == 0
        and not by_gradient
        and (_any_given(depth, activation, embedding) or network != "mlp")
    ):
        raise ValueError(
            "width=0 is no network; leave depth, activation, network and embedding out"
        )
    if sampling is not None and not isinstance(points, int) and not by_gradient:
        raise ValueError(
            f"sampling={sampling!r} is how a number of points lie; give that number, points=1000"
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
            constraint_weight=CONSTRAINT_WEIGHT if constraint_weight is None else constraint_weight,
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
        if time_limit is not None:
            end = time.monotonic() + time_limit
            setup = dataclasses.replace(setup, time_limit=float(time_limit), deadline=end)
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


def _any_given(*options: object) -> bool:
    return any(option is not None for option in options)
