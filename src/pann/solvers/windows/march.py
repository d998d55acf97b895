"""A window that is done, and all such windows as a checkpoint keeps them."""

import dataclasses
import functools
from typing import Any

import numpy as np
from jaxtyping import Float

from pann.basis import Fourier, Legendre, PiecewiseLegendre
from pann.io.checkpoint import NOWHERE, Checkpoint, Saved
from pann.pde.problem import Problem
from pann.runtime.limits import Progress, Report, Stopped
from pann.solvers.windows.axes import SpaceAxis, scaled, sizes, space_tails, time_tail, to_legendre
from pann.solvers.windows.build import initial_values, make_system, make_window
from pann.solvers.windows.newton import newton
from pann.solvers.windows.preconditioners import check_memory, choose_solver
from pann.solvers.windows.resolution import first_axes, refined
from pann.solvers.windows.system import System


@dataclasses.dataclass(frozen=True)
class Solved:
    """A window's place, its functions and coefficients, and how well it is solved.

    `coefficients` belong to the axes' functions and Legendre's in time.
    """

    begin: float
    end: float
    axes: tuple[SpaceAxis, ...]
    coefficients: Float[np.ndarray, "fields ... degrees"]
    steps: int
    tail: float
    space_tail: float
    residual: float


def kept(
    done: list[Solved], scales: Float[np.ndarray, " fields"], wanted: float, rejected: int
) -> Saved:
    """All windows so far, the fields' sizes, the length wanted next, and how many were rejected."""
    arrays = {f"window{k}": window.coefficients for k, window in enumerate(done)}
    numbers = [[w.begin, w.end, w.tail, w.space_tail, w.residual] for w in done]
    arrays |= {"numbers": np.array(numbers), "scales": scales, "wanted": np.asarray(wanted)}
    notes = {
        "axes": [[_told(axis) for axis in window.axes] for window in done],
        "steps": [window.steps for window in done],
        "rejected": rejected,
    }
    return Saved(arrays, notes)


def restored(saved: Saved) -> tuple[list[Solved], Float[np.ndarray, " fields"], float, int]:
    """What `kept` was given."""
    arrays, notes = saved.arrays, saved.notes
    done = []
    for k, (begin, end, tail, space_tail, residual) in enumerate(arrays["numbers"].tolist()):
        axes = tuple(_axis(told) for told in notes["axes"][k])
        coefficients = np.array(arrays[f"window{k}"])
        steps = int(notes["steps"][k])
        done.append(Solved(begin, end, axes, coefficients, steps, tail, space_tail, residual))
    return done, np.array(arrays["scales"]), float(arrays["wanted"]), int(notes["rejected"])


def _told(axis: SpaceAxis) -> dict[str, Any]:
    family = axis.family
    breaks = list(family.breaks) if isinstance(family, PiecewiseLegendre) else None
    ends = {"name": axis.name, "lower": float(axis.lower), "upper": float(axis.upper)}
    return {**ends, "level": int(axis.level), "breaks": breaks}


def _axis(told: dict[str, Any]) -> SpaceAxis:
    breaks = told["breaks"]
    family = Fourier() if breaks is None else PiecewiseLegendre(tuple(breaks))
    return SpaceAxis(told["name"], told["lower"], told["upper"], family, told["level"])


# ---- From window to window: each starts from the state that the one before it ended with ----


# The first window tried, the shortest and the most there may be, relative to the whole time.
FIRST_LENGTH, SHORTEST, MAX_WINDOWS = 1 / 8, 1e-9, 1_000
# A residual between the nodes, relative to the equation's terms, that no tail excuses.
UNSOLVED = 1e-2
THOUSANDTHS = 1_000
ALL_DONE = "all windows done"
# How much shorter or longer the next window may be, and the safety in the estimate of that.
SHORTER, LONGER, SAFETY = 0.1, 2.0, 0.8


@dataclasses.dataclass(frozen=True)
class Marched:
    """All windows that were accepted, why there are no more, and what it took.

    `stopped` is a time limit, or Ctrl-C, that ended them before their time.
    """

    windows: list[Solved]
    stop: str
    finished: bool
    rejected: int
    solver: str
    num_points: int
    stopped: str | None = None


@dataclasses.dataclass(frozen=True)
class Plan:
    """What is asked for: equal windows by their number, or windows as long as the tolerance allows.

    With `fixed_axes` the functions in space stay as they are. `count` is the number of nodes in
    time, `order` that of the equation in it.
    """

    problem: Problem
    order: int
    count: int
    num_windows: int | None
    fixed_axes: bool
    tolerance: float
    solver: str | None
    seed: int
    report: Report
    checkpoint: Checkpoint = NOWHERE

    def anew(self) -> "Plan":
        """The same, with windows that do not go on from those of a checkpoint."""
        return dataclasses.replace(self, checkpoint=self.checkpoint.within("anew"))

    @property
    def ends(self) -> tuple[float, float]:
        domain = self.problem.domain
        number = domain.names.index(str(domain.time))
        return domain.lower[number], domain.upper[number]

    @functools.cached_property
    def _systems(self) -> dict[tuple[SpaceAxis, ...], System]:
        return {}

    def system(self, axes: tuple[SpaceAxis, ...]) -> System:
        if axes not in self._systems:
            self._systems.clear()
            self._systems[axes] = make_system(self.problem, axes, self.order, self.count, self.seed)
        return self._systems[axes]


def march(plan: Plan, axes: tuple[SpaceAxis, ...], rejected: int = 0) -> Marched:
    """Window after window to the end of time, or to where it does not go on.

    `rejected` windows were tried before with other axes.
    """
    begin, end = plan.ends
    whole, now = end - begin, begin
    wanted = whole * FIRST_LENGTH if plan.num_windows is None else whole / plan.num_windows
    # The length asked for by number; halves of it where Newton's method fails.
    equal = None if plan.num_windows is None else wanted
    start = initial_values(plan.problem, axes)
    scales = sizes(scaled(axes, start[0][..., None]))
    done: list[Solved] = []
    in_a_row, stop, stopped = 0, ALL_DONE, None
    saved = plan.checkpoint.under_way()
    if saved is not None:
        done, scales, wanted, rejected = restored(saved)
        axes, now, start = done[-1].axes, done[-1].end, _state_at_end(plan, done[-1])
    while end - now > 1e-12 * whole:
        if stopped := _reported(plan, done):
            stop = f"stopped by {stopped} at t = {now:.6g}"
            break
        if len(done) >= MAX_WINDOWS:
            stop = f"stopped at t = {now:.6g} after {MAX_WINDOWS} windows"
            break
        length = _fitted(wanted, end - now)
        tried = _tried(plan, axes, now, length, start, scales)
        if tried is None:
            rejected += 1
            wanted = 0.5 * length
            if wanted < SHORTEST * whole:
                stop = f"stopped at t = {now:.6g}, where Newton's method fails in any window"
                break
            continue
        window, tails, scales_now = tried
        if not plan.fixed_axes:
            finer = refined(axes, tails, plan.tolerance)
            if any(old.is_fourier != new.is_fourier for old, new in zip(axes, finer, strict=True)):
                others = first_axes(plan.problem, None, plan.tolerance, waves=False)
                # What was kept of the windows so far belongs to the axes given up.
                return march(plan.anew(), others, rejected + len(done))
            if finer != axes:
                # The first state is known as a function: what coarse axes lose of it is regained.
                start = _moved(start, axes, finer) if done else initial_values(plan.problem, finer)
                axes, rejected = finer, rejected + 1
                continue
        share = (plan.tolerance / max(window.tail, 1e-300)) ** (1 / plan.count)
        poor = window.tail > plan.tolerance or window.residual > UNSOLVED
        if equal is None and poor and length > 10 * SHORTEST * whole:
            # Where shorter windows are hardly better, the start is not smooth: go far down.
            wanted = length * (
                SHORTER if in_a_row else float(np.clip(SAFETY * share, SHORTER, 0.7))
            )
            rejected, in_a_row = rejected + 1, in_a_row + 1
            continue
        # A start that violates the conditions is rough at first; what was solved stays so.
        was_solved = any(each.residual <= UNSOLVED for each in done)
        if equal is None and was_solved and window.residual > UNSOLVED:
            stop = f"stopped at t = {now:.6g}, where no window, however short, solves the equation"
            break
        done.append(window)
        in_a_row = 0
        now, scales = window.end, np.maximum(scales, scales_now)
        start = _state_at_end(plan, window)
        wanted = equal or length * float(np.clip(SAFETY * share, 0.5, LONGER))
        plan.checkpoint.keep(functools.partial(kept, [*done], scales, wanted, rejected))
    if stop == ALL_DONE:
        _reported(plan, done)
    system = plan.system(axes)
    points = [len(each) for each in system.grid.points]
    return Marched(
        windows=done,
        stop=stop,
        finished=stop == ALL_DONE,
        stopped=stopped,
        rejected=rejected,
        solver=plan.solver or choose_solver(system),
        num_points=len(done) * plan.count * int(np.prod(points)),
    )


def _reported(plan: Plan, done: list[Solved]) -> str | None:
    """Report how far the windows have come; what stops them, if anything does."""
    begin, end = plan.ends
    figures: dict[str, float] = {}
    if done:
        figures = {"tail": done[-1].tail, "fresh residual": done[-1].residual}
    reached = done[-1].end if done else begin
    share_done = round(THOUSANDTHS * (reached - begin) / (end - begin))
    try:
        plan.report(Progress("windows, thousandths of time", share_done, THOUSANDTHS, figures))
    except Stopped as stopped:
        return str(stopped)
    return None


def _fitted(wanted: float, left: float) -> float:
    """No longer than what is left, and no short window at the end."""
    if wanted >= left * (1 - 1e-9):
        return left
    return 0.5 * left if wanted > 0.5 * left * (1 + 1e-9) else wanted


def _tried(
    plan: Plan,
    axes: tuple[SpaceAxis, ...],
    begin: float,
    length: float,
    start: Float[np.ndarray, "order fields ..."],
    scales: Float[np.ndarray, " fields"],
) -> tuple[Solved, list[np.ndarray], Float[np.ndarray, " fields"]] | None:
    """A window, its tails in space and its fields' sizes, or None if Newton's method fails."""
    system = plan.system(axes)
    solver = plan.solver or choose_solver(system)
    check_memory(system, solver)
    window = make_window(system, axes, begin, length, start)
    outcome = newton(system, window, solver)
    if not outcome.converged:
        return None
    powers = length ** np.arange(plan.order)
    known = np.moveaxis(start, 0, -1) * powers
    whole = np.concatenate([known, outcome.unknowns], axis=-1)
    coefficients = whole @ to_legendre(plan.order, plan.count).T
    orthonormal = scaled(axes, coefficients)
    now = sizes(orthonormal)
    largest = np.maximum(np.maximum(scales, now), np.finfo(float).tiny)
    tails = [space_tails(axis, i, orthonormal, largest) for i, axis in enumerate(axes)]
    solved = Solved(
        begin=begin,
        end=begin + length,
        axes=axes,
        coefficients=coefficients,
        steps=outcome.steps,
        # A second derivative by time sees more of the highest degrees than the first.
        tail=time_tail(orthonormal, largest) * plan.count ** (2 * plan.order - 2),
        space_tail=max((float(np.max(tail)) for tail in tails), default=0.0),
        residual=outcome.residual,
    )
    return solved, tails, now


def _state_at_end(plan: Plan, window: Solved) -> Float[np.ndarray, "order fields ..."]:
    """The state and its time derivatives at the window's end."""
    length, degrees = window.end - window.begin, window.coefficients.shape[-1]
    states = [
        window.coefficients @ Legendre().table(np.ones(1), degrees, k)[0] * (2.0 / length) ** k
        for k in range(plan.order)
    ]
    return np.stack(states)


def _moved(
    start: Float[np.ndarray, "order fields ..."],
    axes: tuple[SpaceAxis, ...],
    finer: tuple[SpaceAxis, ...],
) -> Float[np.ndarray, "order fields ..."]:
    """The same state in the functions of finer axes."""
    for old, new in zip(axes, finer, strict=True):
        start = np.tensordot(start, new.transfer_from(old), axes=(2, 1))
    return start
