"""solve(problem, method): check, choose a method, run it, and say how good the solution is.

Without a method, evolution problems are solved in windows of time. For others the degree of a
polynomial is raised until the solution is resolved; if the residual at fresh points still asks for
it, a network with complementary features, placed where the residual is large, is trained together
with the polynomial by Levenberg-Marquardt, and kept only if that residual falls.
"""

import dataclasses
import functools
import math
import os
import time
from collections.abc import Callable, Sequence

import jax

from pann.basis import ShapeBasis, WholeBasis, make_basis
from pann.methods import (
    MLP,
    Elements,
    Hybrid,
    Polynomial,
    RunOptions,
    SolveMethod,
    Training,
    Windows,
    check_verb,
    given_options,
    name_of,
)
from pann.model.architecture import Architecture
from pann.model.pann import PANN
from pann.pde.checks import checked
from pann.pde.hard_conditions import check_alike
from pann.pde.interfaces import with_breaks
from pann.pde.problem import Problem
from pann.runtime.limits import Report
from pann.runtime.progress import supervised
from pann.solvers import shape_windows
from pann.solvers.assessment import assessed
from pann.solvers.elements.carried import carried
from pann.solvers.elements.method import (
    better_on_elements,
    elements_or,
    reason_against,
    solve_on_elements,
)
from pann.solvers.folder import SOLUTION, Folder, configuration, in_folder, prepared_folder
from pann.solvers.gradient import make_case, solve_by_gradient, stages_of
from pann.solvers.network import Networks, solve_second_order
from pann.solvers.plan import make_plan
from pann.solvers.setup import Run, Setup, blas_threads
from pann.solvers.solution import Solution, continued, filled, unsolved
from pann.solvers.tolerance import solve_to_tolerance
from pann.solvers.windows.method import march_windows, suits_windows, window_plan, windows_or

Work = Callable[[Setup], Solution]

# With time, elements in more dimensions take longer than what they are an alternative to.
EVOLVING_ELEMENTS = 2
# Elements that show where a solution is sharp.
COARSE, COARSE_SECONDS = Elements(max_unknowns=2_500), 10.0


def solve(
    problem: Problem,
    method: SolveMethod | None = None,
    *,
    tolerance: float | int | None = None,
    time_limit: float | int | None = None,
    trials: int = 1,
    seed: int = 0,
    precision: str = "float64",
    memory: int | float | str | None = None,
    out: str | os.PathLike[str] | Folder | None = None,
    resume: bool = False,
    progress: bool | Report | None = None,
    start_from: Solution | PANN | None = None,
) -> Solution:
    """Solve a problem; `solution.method` says how, with every choice filled in.

    Parameters
    ----------
    problem
        The equation with its domain and conditions.
    method
        `pann.Polynomial(...)`, `pann.Hybrid(...)`, `pann.Training(...)`, `pann.Windows(...)` or
        `pann.Elements(...)`; None chooses: windows of time for evolution problems, otherwise
        `pann.Hybrid()`, and elements where these do not resolve the solution.
    tolerance
        Relative error to reach. Sizes are raised until two resolutions differ by less than half of
        it, relative in l2, and the residual is below it, too; `report.met` says whether they do,
        `report.error_estimate` is twice their difference. It goes with methods without sizes.
    time_limit
        Seconds. After these, or at Ctrl-C, the best solution so far comes back, and its report says
        what would have come next.
    trials
        Networks from as many seeds; the one with the smallest residual at fresh points is kept.
    seed
        For all random choices.
    precision
        "float64" or "float32", of the model.
    memory
        A budget such as "8GB", or a number of bytes: where tables, derivatives or Jacobians at all
        points would take more, they are computed a chunk of points at a time, with the same
        gradients and steps. Over several devices the points are spread in any case.
    out
        A folder that gets the file `solution.pann`, a log and checkpoints (every 30 seconds, or as
        `pann.Folder(path, checkpoint_every=...)` says).
    resume
        Go on with the work in `out` that was killed or ran out of time: with the same options to
        the same bits on a CPU. Finished work is read from its file.
    progress
        What is being tried, the residual so far and the time: None shows it on a terminal or in a
        notebook, True always, False never; a function gets every `Progress`. With progress=False
        Ctrl-C is a KeyboardInterrupt.
    start_from
        A solution to begin with, or a model, whose basis and network are then used unless the
        method has others.
    """
    run = RunOptions(
        tolerance=tolerance,
        time_limit=time_limit,
        trials=trials,
        seed=seed,
        precision=precision,
        memory=memory,
    )
    return solve_run(
        problem,
        method,
        run,
        out=out,
        resume=resume,
        progress=progress,
        start_from=start_from,
        ctrl_c=progress is not False,
    )


def solve_run(
    problem: Problem,
    method: SolveMethod | None,
    run: RunOptions,
    *,
    out: str | os.PathLike[str] | Folder | None = None,
    resume: bool = False,
    progress: bool | Report | None = None,
    start_from: Solution | PANN | None = None,
    ctrl_c: bool = True,
) -> Solution:
    """`solve` with the options of a run as one object; `ctrl_c` ends it with what it has."""
    begin = time.perf_counter()
    if out is None and resume:
        raise ValueError("resume=True goes on with the work in a folder; name it by out")
    problem = checked(problem)
    folder = None if out is None else prepared_folder(out)
    prepared = prepare(problem, method, run, start_from)
    with (
        supervised(problem.name, progress, run.time_limit, ctrl_c=ctrl_c) as report,
        jax.enable_x64(True),
        jax.default_matmul_precision("highest"),
    ):
        deadline = math.inf if run.time_limit is None else time.monotonic() + run.time_limit
        own = Run(report, time_limit=run.time_limit, deadline=deadline, begin=begin)
        if folder is None:
            return prepared.solve(own)
        work = lambda resumed: [prepared.solve(resumed)]
        words, names = prepared.describe(), [SOLUTION]
        (solution,) = in_folder(folder, words, problem, own, work, names, resume=resume)
        return solution


@dataclasses.dataclass(frozen=True)
class Prepared:
    """A problem with its points, the work that solves it, and the method that says so."""

    setup: Setup
    work: Work
    method: SolveMethod
    run: RunOptions
    ladder: Sequence[WholeBasis]
    architectures: list[Architecture]
    start_from: Solution | None = None
    in_windows: bool = False

    def solve(self, run: Run) -> Solution:
        """What the work gives, with its method and a verdict by points that it did not see."""
        setup = dataclasses.replace(self.setup, run=run)
        with blas_threads(setup.problem.domain):
            solution = self.work(setup)
            if solution.method is None:
                method = filled(self.method, solution, self.ladder, self.architectures[0])
                solution = dataclasses.replace(solution, method=method)
            if solution.report.resolved is not None:
                return solution
            return assessed(solution, setup.seed, setup.condition_weight)

    def describe(self) -> dict[str, str]:
        """What determines the solution, in words; points and bases are known by their bits."""
        name = ("windows, or " if self.in_windows else "") + name_of(self.method)
        given = {"method": name, "trials": str(self.run.trials)}
        if isinstance(self.method, Training):
            given["stages"] = str(stages_of(self.method))
        for name, value in given_options(self.method).items():
            if isinstance(value, str | int | float | tuple | dict) and name != "stages":
                given[f"option {name}"] = str(value)
        if self.run.tolerance is not None:
            given["tolerance"] = f"{self.run.tolerance:g}"
        return configuration(self.setup, self.ladder, self.architectures, self.start_from, given)


def prepare(
    problem: Problem,
    method: SolveMethod | None,
    run: RunOptions,
    start_from: Solution | PANN | None,
) -> Prepared:
    """What solves the problem, as the method says."""
    if method is not None and not isinstance(method, SolveMethod):
        raise ValueError(
            "the method of an equation is Polynomial(...), Hybrid(...), Training(...), "
            f"Windows(...) or Elements(...) of pann, got {method!r}"
        )
    if run.tolerance is not None:
        _check_sizes(method, run, start_from)
    work: Work
    is_evolving_shape = problem.domain.shape is not None and problem.domain.time is not None
    is_chosen = method is None
    in_windows = is_chosen and not _given(run, start_from) and suits_windows(problem)
    if (method is None or isinstance(method, Windows)) and is_evolving_shape:
        found = prepared_on_shape(problem, method, run, start_from)
        if found is not None and run.tolerance is None:
            return found
        method, in_windows = None, found is not None
    # Functions along a whole axis do not follow a jump.
    in_windows = in_windows and not carried(problem)
    if isinstance(method, Windows | Elements) and (given := _given(run, start_from)):
        raise ValueError(f"{name_of(method)} go without {', '.join(given)}; leave them out")
    if isinstance(method, Windows):
        setup = Setup(problem, seed=run.seed)
        window_plan(setup, method)  # what is wrong with the options is said before the work
        if run.tolerance is None:
            work = functools.partial(march_windows, method=method)
            return Prepared(setup, work, method, run, [make_basis(problem.domain, 2)], [])
        method, in_windows, is_chosen = None, True, False
    if isinstance(method, Elements):
        check_verb(method, "solve")
        problem = with_breaks(problem) if problem.domain.time is None else problem
        if reason := reason_against(problem):
            raise ValueError(reason)
        work = functools.partial(solve_on_elements, method=method)
        setup = Setup(problem, seed=run.seed)
        return Prepared(setup, work, method, run, [make_basis(problem.domain, 2)], [])
    has_elements = is_chosen and not _given(run, start_from) and reason_against(problem) is None
    method = Hybrid() if method is None else method
    assert isinstance(method, Polynomial | Hybrid | Training)
    if start_from is not None:
        # Refuses elements.
        _ = (start_from if isinstance(start_from, PANN) else start_from.model).product_basis
    if isinstance(start_from, PANN):
        method = continued(method, start_from)
        start_from = unsolved(start_from, problem)
    plan = make_plan(problem, method, run)
    if start_from is not None:
        check_alike(start_from.ansatz, plan.setup.ansatz)
    if isinstance(method, Training):
        case = make_case(plan, method, run, start_from)
        work = functools.partial(solve_by_gradient, case)
    else:
        iterations = method.iterations if isinstance(method, Hybrid) else 0
        networks = Networks(
            plan.architectures,
            iterations,
            has_width(method),
            run.trials,
            start_from,
            fronts=has_fronts(method, start_from),
        )
        coarse = None if reason_against(problem) else coarse_elements
        if run.tolerance is not None:
            work = functools.partial(
                solve_to_tolerance,
                tolerance=run.tolerance,
                in_windows=in_windows,
                ladder=plan.ladder,
                networks=dataclasses.replace(networks, fronts=False),
                has_elements=has_elements,
            )
        else:
            elements = better_on_elements if has_elements else None
            work = functools.partial(
                solve_second_order,
                ladder=plan.ladder,
                networks=networks,
                elements=elements,
                coarse=coarse,
            )
            if in_windows:
                # A polynomial over all of time is for problems that are smooth in all of it.
                if has_elements and problem.domain.dimension <= EVOLVING_ELEMENTS:
                    work = functools.partial(elements_or, work)
                work = functools.partial(windows_or, work)
            elif has_elements and carried(problem):
                work = functools.partial(elements_or, work)
    return Prepared(
        plan.setup, work, method, run, plan.ladder, plan.architectures, start_from, in_windows
    )


def prepared_on_shape(
    problem: Problem,
    method: Windows | None,
    run: RunOptions,
    start_from: Solution | PANN | None,
) -> Prepared | None:
    """Windows of time on a shape, unless something else is asked of them that they do not have."""
    reason = shape_windows.reason_against(problem)
    given = _given(run, start_from)
    if given and reason is None:
        reason = f"windows on a shape go without {', '.join(given)}; leave them out"
    own = Windows() if method is None else method
    sizes = [name for name in given_options(own) if name not in ("degree", "tail")]
    if sizes and reason is None:
        reason = f"windows on a shape are as many as it takes; leave out {', '.join(sizes)}"
    if reason is not None:
        if method is not None:
            raise ValueError(reason)
        return None
    work = functools.partial(shape_windows.march_shape, method=own)
    setup = Setup(problem, seed=run.seed)
    return Prepared(setup, work, own, run, [ShapeBasis(problem.domain, 0)], [])


def _given(run: RunOptions, start_from: object) -> list[str]:
    """Options of a run that windows of time do not take."""
    given = [name for name in ("trials", "precision", "memory") if name in given_options(run)]
    return given + ([] if start_from is None else ["start_from"])


def _check_sizes(method: SolveMethod | None, run: RunOptions, start_from: object) -> None:
    """Refuse sizes where a tolerance chooses them."""
    if isinstance(method, Training):
        raise ValueError("a tolerance is reached by second order; leave out Training or tolerance")
    sizeless = ("activation", "gated", "embedding", "iterations")
    given = [] if method is None else [n for n in given_options(method) if n not in sizeless]
    given += _given(run, start_from)
    if given:
        raise ValueError(
            f"tolerance={run.tolerance:g} chooses the sizes by itself; leave out "
            f"{', '.join(given)}, or leave out tolerance"
        )


def coarse_elements(setup: Setup) -> Solution:
    """A few rounds of elements, in seconds: enough to see where the solution is sharp."""
    deadline = min(setup.run.deadline, time.monotonic() + COARSE_SECONDS)
    own = setup.within("coarse").with_run(time_limit=COARSE_SECONDS, deadline=deadline)
    return solve_on_elements(own, COARSE)


def has_fronts(method: SolveMethod, start_from: Solution | None) -> bool:
    """Whether units along fronts may be the network: where nothing but sizes is asked of it."""
    if not isinstance(method, Hybrid) or start_from is not None or not method.iterations:
        return False
    network = MLP() if method.network is None else method.network
    return network == MLP(width=network.width, depth=network.depth)


def has_width(method: SolveMethod) -> bool:
    """Whether a network is asked for, and not only allowed."""
    if isinstance(method, Hybrid):
        return method.network is not None and method.network.width is not None
    return isinstance(method, Training)
