"""Jumps and kinks that an equation of first order carries along, and the curves that they follow.

b u_t + a u_x + c u = f smooths nothing: what the initial state or the values at an end have at one
point stays on the curve dx/dt = a / b from there. Elements have sides along these curves. Across
them the equation ties nothing.
"""

import functools
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.integrate

from pann.pde.conditions import Dirichlet, Initial, Periodic, values_anywhere
from pann.pde.interfaces import rough_along, slope_along
from pann.pde.jumps import Values
from pann.pde.pointwise import held_at_zero, residuals_at
from pann.pde.problem import Problem
from pann.solvers.determinacy import is_linear

# Values that differ by more than this where two conditions meet, relative to the largest, jump.
SAME = 1e-8
ACCURACY = 1e-12
# Times at which a curve is looked at, to see how often it goes around a periodic axis.
NUM_TIMES = 1_001
MOST_CURVES = 64


@functools.lru_cache(maxsize=16)
def carried(problem: Problem) -> tuple[Values, ...]:
    """Level functions of the curves, none where nothing jumps or the equation is another one."""
    domain = problem.domain
    if domain.time is None or domain.dimension != 2 or len(problem.fields) > 1:
        return ()
    if any(problem.highest_order(0, axis) != 1 for axis in domain.names):
        return ()
    if not is_linear(problem) or any(isinstance(c, Periodic) for c in problem.conditions):
        return ()
    space = 1 - domain.time_number
    found: list[Values] = []
    for x, t in _starts(problem, space):
        path, shifts = _path(problem, space, x, t), np.zeros(1)
        if domain.names[space] in domain.periodic:
            times = path(np.linspace(*domain.times, NUM_TIMES)) - domain.lower[space]
            rounds = np.floor(times / domain.widths[space])
            shifts = domain.widths[space] * np.arange(np.min(rounds), np.max(rounds) + 1)
        found += [functools.partial(_level, path, space, shift) for shift in shifts.tolist()]
    return tuple(found) if len(found) <= MOST_CURVES else ()


def _level(path: Values, space: int, shift: float, points: np.ndarray) -> np.ndarray:
    return points[:, space] + shift - path(points[:, 1 - space])


def _starts(problem: Problem, space: int) -> Iterator[tuple[float, float]]:
    """Points of the border where what is given is not smooth; none if nothing jumps."""
    domain = problem.domain
    axis, begin = domain.names[space], domain.times[0]
    (initial,) = (c for c in problem.conditions if isinstance(c, Initial))
    at_ends = {
        side: condition.value
        for condition in problem.conditions
        if isinstance(condition, Dirichlet)
        for name, side in condition.faces.sides
        if name == axis
    }
    ends = {"lower": domain.lower[space], "upper": domain.upper[space]}
    found = [(x, begin) for x in rough_along(domain, initial.value, space, {1 - space: begin})]
    for side, value in at_ends.items():
        times = rough_along(domain, value, 1 - space, {space: ends[side]})
        found += [(ends[side], t) for t in times]
    corners = np.zeros((2, 2))
    corners[:, space], corners[:, 1 - space] = list(ends.values()), begin
    first = values_anywhere(initial.value, domain, corners)
    along = np.repeat(corners[:1], NUM_TIMES, axis=0)
    along[:, space] = np.linspace(ends["lower"], ends["upper"], NUM_TIMES)
    # At the ends alone a function may be zero but for rounding.
    size = SAME * max(float(np.max(np.abs(values_anywhere(initial.value, domain, along)))), 1e-300)
    slopes = slope_along(domain, initial.value, corners, space) * domain.widths[space]
    seam = np.abs(np.diff(np.stack([first, slopes], axis=1), axis=0))
    if axis in domain.periodic and np.any(seam > max(size, SAME * float(np.max(np.abs(slopes))))):
        found.append((ends["lower"], begin))
    others = [
        values_anywhere(at_ends[side], domain, corners[k : k + 1])[0] if side in at_ends else own
        for k, (side, own) in enumerate(zip(ends, first, strict=True))
    ]
    if found or np.any(np.abs(others - first) > size):
        yield from found
        yield from ((ends[side], begin) for side in at_ends)


def _path(problem: Problem, space: int, x: float, t: float) -> Values:
    """x(t) of the curve through a point, over all times, by the equation as far as it goes."""
    domain, channels = problem.domain, problem.asked.channels
    low, width, (start, end) = domain.lower[space], domain.widths[space], domain.times
    is_periodic = domain.names[space] in domain.periodic
    rest = held_at_zero(problem)
    held = np.stack([rest, rest, rest])
    for row, axis in enumerate((space, 1 - space), start=1):
        order = tuple(int(each == axis) for each in range(2))
        held[row, channels.index((0, order))] = 1.0

    def speed(t: float, x: np.ndarray) -> list[float]:
        # Outside of the domain the curve is of no account, but a kink of it would be.
        most = (
            low + (x[0] - low) % width
            if is_periodic
            else np.clip(x[0], low - width, low + 2 * width)
        )
        for inside in (most, np.clip(most, low, low + width)):
            point = np.zeros((1, 2))
            point[0, space], point[0, 1 - space] = inside, t
            zero, a, b = (float(residuals_at(problem, point, each)[0, 0]) for each in held)
            if np.isfinite(found := (a - zero) / (b - zero)):
                break
        return [found]

    def toward(until: float) -> Any:
        if until == t:
            return lambda times: np.full((1, len(times)), x)
        solve = scipy.integrate.solve_ivp
        own = {"rtol": ACCURACY, "atol": ACCURACY * domain.widths[space], "dense_output": True}
        return solve(speed, (t, until), [x], "DOP853", **own).sol

    before, after = toward(start), toward(end)
    return lambda times: np.where(times < t, before(times)[0], after(times)[0])
