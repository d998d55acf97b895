"""Which functions along the axes of space: as few as resolve the state, more where they do not.

Frequencies go up a ladder. On pieces the degree is fixed, and a piece that is not resolved is cut
in two: fronts get small pieces where they are, and the state moves to the finer pieces unchanged.
"""

import dataclasses
from collections.abc import Mapping

import numpy as np

from pann.basis import Fourier, PiecewiseLegendre
from pann.pde.problem import Problem
from pann.pde.windows.building import initial_values
from pann.pde.windows.space_axis import SpaceAxis
from pann.pde.windows.tails import scaled, sizes, space_tails

FREQUENCIES = (16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)
# In several dimensions of space all products are there: at most so many frequencies.
MOST_FREQUENCIES = {1: 512, 2: 96, 3: 24}
DEGREE_ON_A_PIECE = {1: 20, 2: 12, 3: 8}
MAX_PIECES = {1: 64, 2: 4, 3: 2}
MIN_PIECE = 1e-7  # of the width of the axis

Modes = int | Mapping[str, int] | None


def first_axes(
    problem: Problem, modes: Modes, tolerance: float
) -> tuple[SpaceAxis, ...]:
    """The coarsest axes that resolve the initial state, or those with the levels given."""
    axes = _coarsest(problem, modes)
    while modes is None:
        first = initial_values(problem, axes)
        coefficients = scaled(axes, first[0][..., None])
        scales = np.maximum(sizes(coefficients), np.finfo(float).tiny)
        tails = [space_tails(axis, i, coefficients, scales) for i, axis in enumerate(axes)]
        finer = refined(axes, tails, tolerance)
        if finer == axes:
            break
        axes = finer
    return axes


def refined(
    axes: tuple[SpaceAxis, ...], tails: list[np.ndarray], tolerance: float
) -> tuple[SpaceAxis, ...]:
    """Axes with more functions where the tails ask for them, and they can have more.

    Where the frequencies of the only axis are used up, pieces take their place: they do better with
    what is not smooth, or steep at one place.
    """
    return tuple(
        _finer(axis, tail > tolerance, len(axes)) if np.any(tail > tolerance) else axis
        for axis, tail in zip(axes, tails, strict=True)
    )


def _coarsest(problem: Problem, modes: Modes) -> tuple[SpaceAxis, ...]:
    domain = problem.domain
    space = [name for name in domain.names if name != domain.time]
    if isinstance(modes, Mapping):
        for name in modes:
            if name not in space:
                raise ValueError(
                    f"modes names '{name}'; the axes of space are {', '.join(space) or 'none'}"
                )
    axes = []
    for name in space:
        number, is_periodic = domain.names.index(name), name in domain.periodic
        family = Fourier() if is_periodic else PiecewiseLegendre(())
        order = max(problem.highest_order(i, name) for i in range(len(problem.fields)))
        level = FREQUENCIES[0] if is_periodic else DEGREE_ON_A_PIECE.get(len(space), 6)
        given = modes.get(name) if isinstance(modes, Mapping) else modes
        if given is not None and (not isinstance(given, int) or given <= order):
            raise ValueError(
                f"modes along '{name}' must be an integer above {order}, the order of the "
                f"equation, got {given!r}"
            )
        ends = domain.lower[number], domain.upper[number]
        axes.append(SpaceAxis(name, *ends, family, given or level))
    return tuple(axes)


def _finer(axis: SpaceAxis, marked: np.ndarray, dimension: int) -> SpaceAxis:
    if axis.is_fourier:
        most = MOST_FREQUENCIES.get(dimension, 8)
        more = [level for level in FREQUENCIES if axis.level < level <= most]
        if more:
            return dataclasses.replace(axis, level=more[0])
        if dimension > 1:
            return axis
        return dataclasses.replace(axis, family=PiecewiseLegendre(()), level=DEGREE_ON_A_PIECE[1])
    edges = axis.edges
    marked = marked & (np.diff(edges) > 4 * MIN_PIECE)
    if axis.num_pieces + np.sum(marked) > MAX_PIECES.get(dimension, 1):
        return axis
    middles = 0.5 * (edges[:-1] + edges[1:])[marked]
    breaks = np.sort(np.concatenate([edges[1:-1], middles]))
    return dataclasses.replace(axis, family=PiecewiseLegendre(tuple(breaks.tolist())))
