"""Which functions along the axes of space: as few as resolve the state, more where they do not.

Frequencies go up a ladder. On elements the degree is fixed, and an element that is not resolved is
cut in two: fronts get small elements where they are, and the state moves to the finer ones
unchanged.
"""

import dataclasses
import math
from collections.abc import Mapping

import numpy as np

from pann.basis import Fourier, PiecewiseLegendre
from pann.pde.problem import Problem
from pann.solvers.windows.axes import Axes, SpaceAxis, orthonormal, sizes, space_tails
from pann.solvers.windows.conditions import (
    condition_rows,
    end_conditions,
    initial_values,
    is_joined,
    row_values,
)

# Along a single axis few steps: it takes longer to compile a program than to run one too fine.
FREQUENCIES_ALONE, LARGEST_STEP_ALONE = (48, 96, 192, 384), 4
FREQUENCIES, LARGEST_STEP = (16, 24, 32, 48, 64, 96, 128, 192, 256, 384), 2
# By the number of axes of space, along which all products are there.
MOST_FREQUENCIES = {1: 384, 2: 96, 3: 24}
ELEMENT_DEGREE = {1: 20, 2: 16, 3: 8}
# Elements are as many as one of these: windows with as many share a program, wherever they are.
NUM_ELEMENTS = (1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256)
MAX_ELEMENTS = {1: 256, 2: 8, 3: 2}
AFTER_FREQUENCIES = 16
JOINED = 0.03  # of the tolerance, that may be lost where two elements become one
MORE_DEGREES = 4  # on each element of finer axes
MIN_ELEMENT = 1e-7  # of the width of the axis
GRADING = 4.0  # from an element to its neighbor, toward an end where the initial state has a kink

Modes = int | Mapping[str, int] | None


def first_axes(problem: Problem, modes: Modes, tolerance: float, fourier: bool = True) -> Axes:
    """The coarsest axes that resolve the initial state, or those with the levels given.

    Without `fourier` periodic axes have elements, too.
    """
    axes = _coarsest(problem, modes, fourier)
    while modes is None:
        first = np.concatenate(initial_values(problem, axes))
        coefficients = orthonormal(axes, first[..., None])
        scales = np.maximum(sizes(coefficients), np.finfo(float).tiny)
        finer = refined(axes, space_tails(axes, coefficients, scales), tolerance)
        if finer == axes:
            break
        axes = finer
    if modes is None and len(axes) == 1 and not axes[0].is_fourier:
        axes = (_graded(problem, axes[0], tolerance),)
    return axes


def refined(
    axes: Axes,
    tails: list[np.ndarray],
    tolerance: float,
    losses: np.ndarray | None = None,
) -> Axes:
    """Axes with more functions where the tails are too large, if there can be more.

    `losses` are those of the only axis where elements that are no longer needed can be joined to
    make up for new ones. Where the frequencies of the only axis are used up, elements take their
    place: they do better with what is not smooth, or steep at one point.
    """
    return tuple(
        _finer(axis, tail, tolerance, len(axes), losses) if np.any(tail > tolerance) else axis
        for axis, tail in zip(axes, tails, strict=True)
    )


def finer_axes(axes: Axes) -> Axes:
    """More functions along every axis: the next frequency, or higher degrees on each element."""
    finer = []
    for axis in axes:
        level = axis.level + MORE_DEGREES
        if axis.is_fourier:
            above = [each for each in FREQUENCIES if each > axis.level]
            level = above[0] if above else math.ceil(4 / 3 * axis.level)
        finer.append(dataclasses.replace(axis, level=level))
    return tuple(finer)


def are_used_up(axes: Axes) -> bool:
    """Whether there are no more frequencies along one of the axes."""
    most = MOST_FREQUENCIES.get(len(axes), 8)
    return any(axis.is_fourier and axis.level >= most for axis in axes)


def _coarsest(problem: Problem, modes: Modes, fourier: bool) -> Axes:
    domain = problem.domain
    space = [name for name in domain.names if name != domain.time]
    by_name = modes if isinstance(modes, Mapping) else dict.fromkeys(space, modes)
    for name in by_name:
        if name not in space:
            raise ValueError(
                f"modes names '{name}'; the axes of space are {', '.join(space) or 'none'}"
            )
    axes = []
    for name in space:
        number, is_fourier = domain.names.index(name), fourier and name in domain.periodic
        # What all frequencies do not resolve takes no fewer elements than these.
        breaks = np.linspace(-1, 1, 1 + (1 if fourier else AFTER_FREQUENCIES))[1:-1]
        family = Fourier() if is_fourier else PiecewiseLegendre(tuple(breaks.tolist()))
        order, given = problem.asked.highest(number), by_name.get(name)
        coarsest = FREQUENCIES_ALONE[0] if len(space) == 1 else FREQUENCIES[0]
        level = coarsest if is_fourier else ELEMENT_DEGREE.get(len(space), 6)
        if given is not None and (not isinstance(given, int) or given <= order):
            raise ValueError(
                f"modes along '{name}' must be an integer above {order}, the order of the "
                f"equation, got {given!r}"
            )
        ends = domain.lower[number], domain.upper[number]
        axes.append(SpaceAxis(name, *ends, family, given or level))
    return tuple(axes)


def _finer(
    axis: SpaceAxis,
    tail: np.ndarray,
    tolerance: float,
    dimension: int,
    losses: np.ndarray | None,
) -> SpaceAxis:
    if axis.is_fourier:
        # A tail that falls as exp(-a k) reaches the tolerance at this frequency.
        wanted = axis.level * np.log(min(tolerance, 0.1)) / np.log(min(tail[0], 0.5))
        most = MOST_FREQUENCIES.get(dimension, 8)
        levels = FREQUENCIES_ALONE if dimension == 1 else FREQUENCIES
        more = [level for level in levels if axis.level < level <= most]
        if more:
            level = next((level for level in more if level >= wanted), more[-1])
            largest = LARGEST_STEP_ALONE if dimension == 1 else LARGEST_STEP
            return dataclasses.replace(axis, level=min(level, largest * axis.level))
        if dimension > 1:
            return axis
        return dataclasses.replace(axis, family=PiecewiseLegendre(()), level=ELEMENT_DEGREE[1])
    finer = _with_elements(axis, tail, tolerance, MAX_ELEMENTS.get(dimension, 1), losses)
    if finer == axis and axis.level == ELEMENT_DEGREE.get(dimension) and dimension == 2:
        # There can be no more elements.
        return dataclasses.replace(axis, level=axis.level + MORE_DEGREES)
    return finer


def _with_elements(
    axis: SpaceAxis, tail: np.ndarray, tolerance: float, most: int, losses: np.ndarray | None
) -> SpaceAxis:
    """The elements with large tails cut in two, others joined or cut to be as many as a program."""
    edges, count = axis.edges, axis.num_pieces
    can_be_cut = np.diff(edges) > 4 * MIN_ELEMENT
    marked = (tail > tolerance) & can_be_cut
    if not np.any(marked):
        return axis
    wanted = count + int(np.sum(marked))
    joined = _to_join(losses, marked, tolerance)
    # As many as before if joining others makes room, else as many as the next number.
    room = [each for each in NUM_ELEMENTS if each <= most and each >= wanted - len(joined)]
    if not room:
        return axis
    number = max(room[0], count) if count in NUM_ELEMENTS else room[0]
    joined = joined[: max(wanted - number, 0)]
    # Where there is more room than needed, what is next to be cut is cut now.
    kept = can_be_cut & ~marked
    kept[joined] = kept[joined + 1] = False
    spare = np.flatnonzero(kept)
    more = spare[np.argsort(-tail[spare])][: max(number - wanted + len(joined), 0)]
    marked[more] = True
    breaks = np.delete(edges, joined + 1)[1:-1]
    middles = 0.5 * (edges[:-1] + edges[1:])[marked]
    family = PiecewiseLegendre(tuple(np.union1d(breaks, middles).tolist()))
    return dataclasses.replace(axis, family=family)


def _to_join(losses: np.ndarray | None, marked: np.ndarray, tolerance: float) -> np.ndarray:
    """The elements that can be joined with the next, those that lose least first."""
    if losses is None or not len(losses):
        return np.zeros(0, int)
    can_be = (losses <= JOINED * tolerance) & ~marked[:-1] & ~marked[1:]
    order = np.argsort(losses)
    return order[can_be[order]]


def _graded(problem: Problem, axis: SpaceAxis, tolerance: float) -> SpaceAxis:
    """Ever smaller elements toward ends where the initial state violates the conditions.

    A layer grows there like the square root of time, from nothing: no equal elements resolve it.
    """
    start = initial_values(problem, (axis,))[0]
    scales = sizes(orthonormal((axis,), start[..., None]))
    count = np.ceil(np.log(1 / MIN_ELEMENT) / np.log(GRADING))
    distances = 2.0 * GRADING ** -np.arange(1.0, count)
    breaks = axis.edges[1:-1].tolist()
    for field in range(len(problem.fields)):
        rows = condition_rows(problem, axis, field)
        times = np.array(problem.domain.times[:1])
        given = row_values(problem, (axis,), 0, field, times, len(rows))
        found = np.sum(np.asarray(given.weights)[..., 0] * (rows @ start[field]), axis=1)
        misses = np.abs(found - np.asarray(given.values)[..., 0])
        bad = misses > np.sqrt(tolerance) * scales[field]
        sides = [side for side, _ in end_conditions(problem, axis.name, field)]
        inside = len(rows) - len(sides)
        joined = is_joined(problem, axis.name, field) and np.any(bad[:inside])
        at_ends = [side for side, is_bad in zip(sides, bad[inside:], strict=True) if is_bad]
        for side, end in (("lower", -1.0), ("upper", 1.0)):
            if joined or side in at_ends:
                breaks += (end - end * distances).tolist()
    return dataclasses.replace(axis, family=PiecewiseLegendre(tuple(sorted(set(breaks)))))
