"""From window to window: each starts from the state that the one before it ended with.

Windows are as long as the tail of the coefficients in time allows at the tolerance. Where the tail
in space is too large, the axes get more functions, and the window is solved again.
"""

import dataclasses
import functools
import math
from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from pann.basis import Fourier, Legendre, PiecewiseLegendre
from pann.io.checkpoint import Saved
from pann.methods import Windows
from pann.runtime.limits import Progress, Stopped
from pann.solvers.setup import Setup
from pann.solvers.windows.axes import (
    Axes,
    SpaceAxis,
    joining_losses,
    orthonormal,
    sizes,
    space_tails,
    time_tail,
    to_legendre,
)
from pann.solvers.windows.conditions import initial_values
from pann.solvers.windows.newton import newton
from pann.solvers.windows.preconditioners import choose_solver
from pann.solvers.windows.resolution import first_axes, refined
from pann.solvers.windows.system import System, make_system, make_window

# The first window tried and the shortest, relative to the whole time; the most there may be.
FIRST_LENGTH, SHORTEST, MAX_WINDOWS = 1 / 8, 1e-9, 1_000
# A residual between the nodes, relative to the equation's terms, that no small tail excuses.
UNSOLVED = 1e-2
# A tail in time with which a window so long is not worth more functions in space.
HOPELESS, FAR = 1e-4, 1e-3
# How much shorter or longer the next window may be, and the safety in the estimate of that.
SHORTER, LONGER, SAFETY = 0.1, 2.0, 0.8
THOUSANDTHS = 1_000
ALL_DONE = "all windows done"

# The state and its time derivatives below the order, as coefficients in space; sizes of fields.
State = Float[np.ndarray, "order fields ..."]
Sizes = Float[np.ndarray, " fields"]


@dataclasses.dataclass(frozen=True)
class Solved:
    """A window's time, its functions and coefficients, and how well it is solved.

    `coefficients` belong to the axes' functions and Legendre's in time.
    """

    begin: float
    end: float
    axes: Axes
    coefficients: Float[np.ndarray, "fields ... degrees"]
    steps: int
    tail: float
    space_tail: float
    residual: float

    def state_at_end(self, order: int) -> State:
        """The state and its time derivatives below the order at the window's end."""
        length, degrees = self.end - self.begin, self.coefficients.shape[-1]
        states = [
            self.coefficients @ Legendre().table(np.ones(1), degrees, k)[0] * (2.0 / length) ** k
            for k in range(order)
        ]
        return np.stack(states)


@dataclasses.dataclass(frozen=True)
class Marched:
    """All windows that were accepted, why there are no more, and what it took.

    `stopped` is a time limit, or Ctrl-C, that ended them early.
    """

    windows: list[Solved]
    stop: str
    rejected: int
    solver: str
    num_points: int
    stopped: str | None

    @property
    def finished(self) -> bool:
        return self.stop == ALL_DONE


def march(setup: Setup, method: Windows, axes: Axes, rejected: int = 0) -> Marched:
    """Window after window to the end of time, or to where it does not go on.

    The method has its degree and tail filled in; if it names modes, the axes stay as they are.
    `rejected` windows were tried before with other axes.
    """
    assert method.degree is not None
    assert method.tail is not None
    problem, tolerance = setup.problem, method.tail
    now, end = problem.domain.times
    whole = end - now
    # The length asked for by number; halves of it where Newton's method fails.
    equal = None if method.windows == "auto" else whole / int(method.windows)
    wanted = whole * FIRST_LENGTH if equal is None else equal
    start = initial_values(problem, axes)
    order = len(start)
    num_nodes = method.degree - order + 1
    scales = sizes(orthonormal(axes, start[0][..., None]))
    done: list[Solved] = []
    in_a_row, stop, stopped = 0, ALL_DONE, None
    saved = setup.checkpoint.under_way()
    if saved is not None:
        done, scales, wanted, rejected = _restored(saved)
        axes, now, start = done[-1].axes, done[-1].end, done[-1].state_at_end(order)
    # Windows with the same axes share their equations.
    system_on = functools.lru_cache(maxsize=1)(
        lambda axes: make_system(problem, axes, order, num_nodes, setup.seed)
    )
    while end - now > 1e-12 * whole:
        if stopped := _reported(setup, done):
            stop = f"stopped by {stopped} at t = {now:.6g}"
            break
        if len(done) >= MAX_WINDOWS:
            stop = f"stopped at t = {now:.6g} after {MAX_WINDOWS} windows"
            break
        length = _fitted(wanted, end - now)
        tried = _tried(system_on(axes), method.solver, axes, now, length, start, scales)
        if tried is None:
            rejected += 1
            wanted = 0.5 * length
            if wanted < SHORTEST * whole:
                stop = f"stopped at t = {now:.6g}, where Newton's method fails in any window"
                break
            continue
        window, tails, scales_now = tried
        if equal is None and not in_a_row and window.tail > HOPELESS and length > FAR * whole:
            # Its tails in space are not those of the solution.
            wanted, rejected, in_a_row = length * SHORTER, rejected + 1, 1
            continue
        finer = axes
        if method.modes is None and any(np.any(tail > tolerance) for tail in tails):
            # Elements of a single axis can be joined.
            can_join = len(axes) == 1 and axes[0].num_pieces > 1
            largest = np.maximum(scales, scales_now)
            losses = joining_losses(axes[0], window.coefficients, largest) if can_join else None
            finer = refined(axes, tails, tolerance, losses)
        if any(old.is_fourier != new.is_fourier for old, new in zip(axes, finer, strict=True)):
            others = first_axes(problem, None, tolerance, fourier=False)
            # The windows in the checkpoint belong to the axes given up.
            return march(setup.within("in elements"), method, others, rejected + len(done))
        if finer != axes:
            # The initial state is known as a function: what coarse axes lose of it is regained.
            start = _moved(start, axes, finer) if done else initial_values(problem, finer)
            axes, rejected = finer, rejected + 1
            continue
        factor = SAFETY * (tolerance / max(window.tail, 1e-300)) ** (1 / num_nodes)
        # What is too fine for the axes leaves a residual in any window.
        is_unsolved = window.residual > UNSOLVED and window.space_tail <= tolerance
        is_poor = window.tail > tolerance or is_unsolved
        if equal is None and is_poor and length > 10 * SHORTEST * whole:
            # Where shorter windows are hardly better, the start is not smooth: go far down.
            wanted = length * (SHORTER if in_a_row else float(np.clip(factor, SHORTER, 0.7)))
            wanted = max(wanted, SHORTEST * whole)
            rejected, in_a_row = rejected + 1, in_a_row + 1
            continue
        # A start that violates the conditions is rough at first; later windows are not.
        was_solved = any(each.residual <= UNSOLVED for each in done)
        if equal is None and was_solved and window.residual > UNSOLVED:
            stop = f"stopped at t = {now:.6g}, where no window, however short, solves the equation"
            break
        done.append(window)
        in_a_row = 0
        now, scales = window.end, np.maximum(scales, scales_now)
        start = window.state_at_end(order)
        wanted = equal or max(length * float(np.clip(factor, 0.5, LONGER)), SHORTEST * whole)
        setup.checkpoint.keep(functools.partial(_saved, [*done], scales, wanted, rejected))
    if stop == ALL_DONE:
        _reported(setup, done)
    return Marched(
        windows=done,
        stop=stop,
        rejected=rejected,
        solver=choose_solver(system_on(axes), method.solver),
        num_points=len(done) * num_nodes * math.prod(len(axis.points) for axis in axes),
        stopped=stopped,
    )


def _reported(setup: Setup, done: list[Solved]) -> str | None:
    """Report how far the windows have come; what stops them, if anything does."""
    begin, end = setup.problem.domain.times
    figures: dict[str, float] = {}
    if done:
        figures = {"tail": done[-1].tail, "fresh residual": done[-1].residual}
    reached = done[-1].end if done else begin
    step = round(THOUSANDTHS * (reached - begin) / (end - begin))
    try:
        setup.report(Progress("windows, thousandths of time", step, THOUSANDTHS, figures))
    except Stopped as stopped:
        return str(stopped)
    return None


def _fitted(wanted: float, left: float) -> float:
    """No longer than what is left, and no short window at the end."""
    if wanted >= left * (1 - 1e-9):
        return left
    return 0.5 * left if wanted > 0.5 * left * (1 + 1e-9) else wanted


def _tried(
    system: System,
    solver: str | None,
    axes: Axes,
    begin: float,
    length: float,
    start: State,
    scales: Sizes,
) -> tuple[Solved, list[np.ndarray], Sizes] | None:
    """A window, its tails in space and its fields' sizes, or None if Newton's method fails."""
    order, num_nodes, solver = len(start), system.num_nodes, choose_solver(system, solver)
    outcome = jax.device_get(
        newton(system, make_window(system, axes, begin, length, start), solver)
    )
    if not outcome.converged:
        return None
    known = np.moveaxis(start, 0, -1) * length ** np.arange(order)
    whole = np.concatenate([known, outcome.unknowns], axis=-1)
    coefficients = whole @ to_legendre(order, num_nodes).T
    of_orthonormal = orthonormal(axes, coefficients)
    now = sizes(of_orthonormal)
    largest = np.maximum(np.maximum(scales, now), np.finfo(float).tiny)
    tails = space_tails(axes, of_orthonormal, largest)
    solved = Solved(
        begin=begin,
        end=begin + length,
        axes=axes,
        coefficients=coefficients,
        steps=int(outcome.steps),
        # A second derivative by time sees more of the highest degrees than the first.
        tail=time_tail(of_orthonormal, largest) * num_nodes ** (2 * order - 2),
        space_tail=max((float(np.max(tail)) for tail in tails), default=0.0),
        residual=float(outcome.residual),
    )
    return solved, tails, now


def _moved(start: State, axes: Axes, finer: Axes) -> State:
    """The same state in the functions of finer axes."""
    for old, new in zip(axes, finer, strict=True):
        start = np.moveaxis(new.moved_from(old, np.moveaxis(start, 2, 0)), 0, -1)
    return start


# ---- Checkpoints ----


def _saved(done: list[Solved], scales: Sizes, wanted: float, rejected: int) -> Saved:
    """All windows so far, the fields' sizes, the length wanted next, and how many were rejected."""
    arrays = {f"window{k}": window.coefficients for k, window in enumerate(done)}
    numbers = [[w.begin, w.end, w.tail, w.space_tail, w.residual] for w in done]
    arrays |= {"numbers": np.array(numbers), "scales": scales, "wanted": np.asarray(wanted)}
    notes = {
        "axes": [[_described(axis) for axis in window.axes] for window in done],
        "steps": [window.steps for window in done],
        "rejected": rejected,
    }
    return Saved(arrays, notes)


def _restored(saved: Saved) -> tuple[list[Solved], Sizes, float, int]:
    """What `_saved` was given."""
    arrays, notes = saved.arrays, saved.notes
    done = []
    for k, (begin, end, tail, space_tail, residual) in enumerate(arrays["numbers"].tolist()):
        axes = tuple(_axis(*description) for description in notes["axes"][k])
        coefficients, steps = np.array(arrays[f"window{k}"]), int(notes["steps"][k])
        done.append(Solved(begin, end, axes, coefficients, steps, tail, space_tail, residual))
    return done, np.array(arrays["scales"]), float(arrays["wanted"]), int(notes["rejected"])


def _described(axis: SpaceAxis) -> list[Any]:
    family = axis.family
    breaks = list(family.breaks) if isinstance(family, PiecewiseLegendre) else None
    return [axis.name, float(axis.lower), float(axis.upper), breaks, int(axis.level)]


def _axis(name: str, lower: float, upper: float, breaks: list | None, level: int) -> SpaceAxis:
    family = Fourier() if breaks is None else PiecewiseLegendre(tuple(breaks))
    return SpaceAxis(name, lower, upper, family, level)
