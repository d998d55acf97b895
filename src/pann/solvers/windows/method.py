"""All windows as one model: polynomials in pieces of time, in the functions of the finest axes."""

import dataclasses
from collections.abc import Callable

import numpy as np
from jaxtyping import Float
from threadpoolctl import threadpool_limits

from pann.basis import Basis, Family, Legendre, PiecewiseLegendre
from pann.domain import Box
from pann.errors import WindowsFailed
from pann.methods import Windows
from pann.model.pann import PANN
from pann.pde.checks import checked
from pann.pde.conditions import Dirichlet
from pann.pde.placing import OnFaces, place_conditions
from pann.pde.problem import Problem
from pann.solvers.assessment import indicator, relative_errors
from pann.solvers.polynomial import polynomial_model
from pann.solvers.setup import Setup
from pann.solvers.solution import Report, Solution, trial_figures, with_report
from pann.solvers.windows.axes import SpaceAxis, union
from pann.solvers.windows.conditions import reason_against, stays_rough
from pann.solvers.windows.march import UNSOLVED, Marched, Solved, march
from pann.solvers.windows.resolution import are_used_up, first_axes


def joined(problem: Problem, windows: list[Solved]) -> PANN:
    """The windows in the functions of axes that hold those of all windows."""
    domain = _up_to(problem.domain, windows[-1].end)
    axes = union(window.axes for window in windows)
    families = {axis.name: _plain(axis.family) for axis in axes}
    edges, number = np.array([window.begin for window in windows]), domain.time_number
    breaks = 2.0 * (edges[1:] - domain.lower[number]) / domain.widths[number] - 1.0
    family = PiecewiseLegendre(tuple(breaks.tolist()))
    families[str(domain.time)] = _plain(family)
    tensor = _in_steps(family, np.stack([_on(axes, window) for window in windows], axis=-1))
    # To the order of the domain's axes, with the fields last.
    tensor = np.moveaxis(np.moveaxis(tensor, -1, 1 + number), 0, -1)
    kept = np.any(tensor != 0, axis=-1)
    if any(axis.num_pieces > 1 for axis in axes):
        # Sums over all products take few of them at each point.
        kept[...] = True
    basis = Basis(domain, tuple(families[name] for name in domain.names), np.argwhere(kept))
    return polynomial_model(domain, basis, tensor[kept])


def _up_to(domain: Box, end: float) -> Box:
    """The domain as far as the windows go."""
    number = domain.time_number
    if abs(end - domain.upper[number]) <= 1e-9 * domain.widths[number]:
        return domain
    ends = {
        name: (low, end if name == domain.time else high)
        for name, low, high in zip(domain.names, domain.lower, domain.upper, strict=True)
    }
    return Box(periodic=domain.periodic, time=domain.time, **ends)


def _plain(family: Family) -> Family:
    """One piece is the whole axis."""
    one = isinstance(family, PiecewiseLegendre) and family.num_pieces == 1
    return Legendre() if one else family


def _on(axes: tuple[SpaceAxis, ...], window: Solved) -> Float[np.ndarray, "fields ... degrees"]:
    """A window's coefficients in the functions of other axes."""
    coefficients = window.coefficients
    if axes == window.axes:
        return coefficients
    for old, new in zip(window.axes, axes, strict=True):
        coefficients = np.moveaxis(new.moved_from(old, np.moveaxis(coefficients, 1, 0)), 0, -1)
    # The degrees have come to stand behind the fields.
    coefficients = np.moveaxis(coefficients, 1, -1)
    return np.where(np.abs(coefficients) > 1e-18 * np.max(np.abs(coefficients)), coefficients, 0.0)


def _in_steps(
    family: PiecewiseLegendre, tensor: Float[np.ndarray, "fields ... degrees windows"]
) -> Float[np.ndarray, "fields ... functions"]:
    """Coefficients of the functions of time: degree by degree all windows, degree 0 in steps."""
    middles = 0.5 * np.convolve([-1.0, *family.breaks, 1.0], [1.0, 1.0], "valid")
    steps = family.table(middles, family.num_pieces)
    tensor, level_0 = tensor.copy(), tensor[..., 0, :]
    solved = np.linalg.solve(steps, level_0.reshape(-1, family.num_pieces).T).T
    tensor[..., 0, :] = solved.reshape(level_0.shape)
    return tensor.reshape(*tensor.shape[:-2], -1)


# ---- Evolution problems window by window ----


DEGREE = 12
# By the number of axes of space: what is left out, relative to the fields.
TAILS = {0: 1e-12, 1: 1e-10, 2: 1e-7}
POINTS_ON_FACES = 40
# By the number of axes of space: modes of a state that no number of them resolves.
ROUGH_MODES, FEWEST_MODES = {1: 192, 2: 48}, 16
# Places that a note names, along each axis.
MOST_SHOWN = 4


def march_windows(setup: Setup, method: Windows) -> Solution:
    """All windows one after another, from the first axes of space that the method asks for.

    If they do not reach the end of time, the solution's domain ends where they do. Work that was
    killed goes on with the window that it was at.
    """
    plan = window_plan(setup, method)
    tail, dimension = plan.tail, setup.problem.domain.dimension
    assert tail is not None
    axes = first_axes(setup.problem, method.modes, tail)
    rough: dict[str, list[float]] = {}
    is_fine = any(axis.num_pieces > 1 for axis in axes) or are_used_up(axes)
    if method.modes is None and is_fine and (rough := stays_rough(setup.problem)):
        plan = dataclasses.replace(plan, modes=ROUGH_MODES.get(dimension - 1, FEWEST_MODES))
        axes = first_axes(setup.problem, plan.modes, tail)
    if method.solver == "constant" and axes and not any(axis.is_fourier for axis in axes):
        raise ValueError(
            "the solver 'constant' needs a periodic axis; use 'frozen' or leave it out"
        )
    solution = solve_plan(setup, plan, axes)[0]
    if not rough:
        return solution
    return with_report(solution, notes=[*solution.report.notes, _stays_rough(rough)])


def window_plan(setup: Setup, method: Windows) -> Windows:
    """Check a method against the problem, and fill in its degree and tail if they are left out."""
    problem = setup.problem
    if reason := reason_against(problem):
        raise ValueError(reason)
    order = problem.highest_order(0, str(problem.domain.time))
    degree = DEGREE if method.degree is None else method.degree
    if degree < order:
        raise ValueError(f"degree must be at least {order}, the order in time, got {degree}")
    tail = TAILS.get(problem.domain.dimension - 1, 1e-5) if method.tail is None else method.tail
    return dataclasses.replace(method, degree=degree, tail=tail)


def solve_plan(
    setup: Setup, plan: Windows, axes: tuple[SpaceAxis, ...]
) -> tuple[Solution, Marched]:
    """The solution of the windows planned, beginning with these axes, and the windows."""
    assert plan.tail is not None
    problem = setup.problem
    # The many small factorizations of a window go to OpenBLAS, whose threads wait for XLA's.
    with threadpool_limits(1, "blas"):
        marched = march(setup.within("windows"), plan, axes)
    if not marched.windows:
        raise WindowsFailed(
            f"no window could be solved: {marched.stop}; give other modes or a lower degree, "
            "or pann.Hybrid() for one system over the whole of time"
        )
    model, last = joined(problem, marched.windows), marched.windows[-1]
    reached = dataclasses.replace(problem, domain=model.domain)
    rel_l2, field_errors = relative_errors(reached, model)
    report = Report(
        how=_how(marched),
        degree=last.coefficients.shape[-1] - 1,
        num_points=marched.num_points,
        residual=_residual(setup, model),
        rel_l2=rel_l2,
        field_errors=field_errors,
        stop=_stop(marched, plan.tail),
        stopped=marched.stopped,
        seconds=setup.run.seconds,
        history={
            "fresh residual": [window.residual for window in marched.windows],
            "tail in time": [window.tail for window in marched.windows],
            "tail in space": [window.space_tail for window in marched.windows],
        },
    )
    method = dataclasses.replace(
        plan,
        windows=len(marched.windows),
        modes={axis.name: axis.level for axis in last.axes} or None,
        solver=marched.solver,
    )
    solution = Solution(model, problem.fields, {}, report, problem, method=method)
    report = dataclasses.replace(report, trials=[trial_figures(solution, setup.seed)])
    return dataclasses.replace(solution, report=report), marched


def windows_or(otherwise: Callable[[Setup], Solution], setup: Setup) -> Solution:
    """The solution in windows, or that of another way if they fail."""
    try:
        solution = march_windows(setup, Windows())
    except WindowsFailed:
        return otherwise(setup)
    is_whole = solution.model.domain == setup.problem.domain
    is_solved = is_whole and solution.residual <= UNSOLVED
    is_kept = is_solved or solution.report.stopped or stays_rough(setup.problem)
    return solution if is_kept else otherwise(setup)


def suits_windows(problem: Problem) -> bool:
    """Whether windows are the way to solve a problem if nothing else is said.

    They start exactly from the initial state and meet constants on the boundary exactly; other
    values there they meet to the tolerance, which is not what hard ones ask for.
    """
    problem = checked(problem)
    hard_values = [
        condition.value
        for condition in problem.conditions
        if isinstance(condition, Dirichlet) and condition.hard
    ]
    return not any(map(callable, hard_values)) and reason_against(problem) is None


def _stays_rough(places: dict[str, list[float]]) -> str:
    shown = [
        f"{axis} = {', '.join(f'{at:.4g}' for at in own[:MOST_SHOWN])}"
        + (", ..." if len(own) > MOST_SHOWN else "")
        for axis, own in places.items()
    ]
    return (
        f"the initial state jumps or has a kink at {' and '.join(shown)}, and the equation carries "
        "that on unsmoothed: a fixed number of modes follows it, with errors around it that fall "
        "slowly with more, pann.Windows(modes=...)"
    )


def _how(marched: Marched) -> str:
    """The windows, their functions and the work, in a line."""
    windows = marched.windows
    steps = sum(window.steps for window in windows)
    return (
        f"Newton's method on {len(windows)} windows of {_shown(windows[-1].axes)}"
        f"degree {windows[-1].coefficients.shape[-1] - 1} in time, {steps} steps, "
        f"{marched.rejected} windows tried again, solver {marched.solver}"
    )


def _shown(axes: tuple[SpaceAxis, ...]) -> str:
    def functions(axis: SpaceAxis) -> str:
        if axis.is_fourier:
            return f"{axis.level} frequencies"
        on_pieces = "" if axis.num_pieces == 1 else f" on {axis.num_pieces} pieces"
        return f"degree {axis.level}{on_pieces}"

    return "".join(f"{functions(axis)} in {axis.name}, " for axis in axes)


def _stop(marched: Marched, tolerance: float) -> str:
    """Why there are no more windows, and which of them miss the tolerance."""
    missed = [
        window
        for window in marched.windows
        if max(window.tail, window.space_tail) > tolerance or window.residual > UNSOLVED
    ]
    if not missed:
        return f"{marched.stop}, all tails below {tolerance:.0e}"
    worst = max(missed, key=lambda window: max(window.tail, window.space_tail))
    return (
        f"{marched.stop}; {len(missed)} of {len(marched.windows)} windows miss the tolerance "
        f"{tolerance:.0e}, the worst, from t = {worst.begin:.6g} to {worst.end:.6g}, with a tail "
        f"of {worst.tail:.1e} in time and {worst.space_tail:.1e} in space and a relative residual "
        f"of {worst.residual:.1e}"
    )


def _residual(setup: Setup, model: PANN) -> float:
    """The largest relative residual, of the equation and of the conditions, at points not used."""
    problem, conditions = setup.problem, []
    # Conditions lie on the faces of the whole domain, to whose end the windows may not have come.
    if model.domain == problem.domain:
        on_faces = OnFaces("uniform", POINTS_ON_FACES, setup.seed)
        conditions = place_conditions(problem, POINTS_ON_FACES, on_faces)
    else:
        problem = dataclasses.replace(problem, domain=model.domain)
    # Windows meet hard conditions by themselves, not by the form of the solution.
    setup = dataclasses.replace(setup, problem=problem, ansatz=None)
    return indicator(setup, conditions, model)
