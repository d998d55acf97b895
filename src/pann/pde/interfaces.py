"""Elements of the domain: points on either side of a plane, and planes where the equation jumps.

A coefficient or a source that jumps leaves a kink in the solution, or in its derivatives, and a
polynomial across it converges slowly, if at all. Where the jump lies on planes, polynomials on
either side, tied as smoothly as the equation asks for, converge as if there were none. These planes
are found by bisection.
"""

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from pann.arguments import call_by_name
from pann.basis import AnyBasis, ElementBasis, EvolvingBasis, PiecewiseLegendre, ShapeBasis
from pann.domain import Box
from pann.pde.conditions import SAME_PLANE, Break, planes, values_anywhere
from pann.pde.conditions import Values as Given
from pann.pde.pointwise import held_anyhow, residuals_at
from pann.pde.problem import Problem

# Far enough for rounding to tell the sides apart, near enough not to count.
SIDE = 64 * np.finfo(float).eps
NUM_CELLS, NUM_LINES, MAX_PLANES = 128, 3, 12
# From a cell to neighboring numbers.
HALVINGS = 52
# What is left of a difference over a cell is a jump, and not rounding, above these shares; at the
# jump itself a value may lie in the middle.
OF_THE_CELL, OF_THE_SIZE = 0.4, 1e-8

Values = Callable[[Float[np.ndarray, "points d"]], Float[np.ndarray, "points residuals"]]


def moved_off(
    domain: Box, points: np.ndarray, axis: str, at: float | int, side: float = 1.0
) -> np.ndarray:
    """The points, those on the plane moved to its upper side, or to its lower one for side -1."""
    index = domain.names.index(axis)
    distance = SIDE * max(abs(at), domain.widths[index])
    moved = np.array(points, float)
    column = moved[:, index]
    column[np.abs(column - at) < distance] = at + side * distance
    return moved


def piece_numbers(basis: AnyBasis, points: np.ndarray) -> np.ndarray:
    """Which element of the domain each point lies in, counted through the axes."""
    if isinstance(basis, ElementBasis):
        return basis.tree.locate(points)
    if isinstance(basis, EvolvingBasis):
        return basis.window_of(points)
    if isinstance(basis, ShapeBasis):
        return np.zeros(len(points), int)
    numbers = np.zeros(len(points), int)
    for axis, family in zip(basis.axes, basis.families, strict=True):
        if isinstance(family, PiecewiseLegendre):
            reference = basis.domain.to_reference(points)
            along = family.piece_of(reference[:, basis.domain.names.index(axis)])
            numbers = numbers * family.num_pieces + along
    return numbers


# One problem for each that was given: compiled programs belong to it.
@functools.lru_cache(maxsize=16)
def with_breaks(problem: Problem) -> Problem:
    """The problem with a basis that breaks where the equation jumps; itself if nowhere."""
    found = breaks(problem)
    if not found:
        return problem
    return dataclasses.replace(problem, conditions=[*problem.conditions, *found])


def breaks(problem: Problem) -> tuple[Break, ...]:
    """Where the equation jumps, with all fields held, unless a condition breaks the basis there.

    Axes that are periodic, or time, cannot be cut.
    """
    problem = problem.traced()  # once, and not at each look at its residuals
    domain, numbers = problem.domain, held_anyhow(problem)
    found: list[Break] = []
    values = lambda points: residuals_at(problem, points, numbers)
    known = planes(domain, problem.conditions)
    for index, axis in enumerate(domain.names):
        if axis in domain.periodic or axis == domain.time:
            continue
        room = SAME_PLANE * domain.widths[index]
        lines = [jumps_along(domain, values, index, line) for line in range(NUM_LINES)]
        cuts = [
            cut
            for cut in lines[0]
            if all(np.any(np.abs(others - cut) <= room) for others in lines[1:])
            and not any(abs(cut - other) <= room for other in known.get(axis, []))
        ]
        if len(cuts) <= MAX_PLANES:
            found += [Break(axis, float(cut)) for cut in cuts]
    return tuple(found)


def jumps_along(domain: Box, values: Values, index: int, line: int) -> Float[np.ndarray, " jumps"]:
    """Where values jump on one of some lines along an axis, at most once in a cell."""
    through = np.random.default_rng(line).uniform(-0.95, 0.95, (1, domain.dimension))
    points = np.repeat(domain.from_reference(through), NUM_CELLS, axis=0)

    def along(coordinate: Float[np.ndarray, " cells"]) -> Float[np.ndarray, "cells residuals"]:
        points[:, index] = coordinate
        return values(points)

    edges = np.linspace(domain.lower[index], domain.upper[index], NUM_CELLS + 1)
    left, right = edges[:-1], edges[1:]
    below, above = along(left), along(right)
    first, size = _distance(above, below), np.max(np.abs([below, above]))
    for _ in range(HALVINGS):
        middle = 0.5 * (left + right)
        between = along(middle)
        goes_left = _distance(between, below) > _distance(above, between)
        left, right = np.where(goes_left, left, middle), np.where(goes_left, middle, right)
        below = np.where(goes_left[:, None], below, between)
        above = np.where(goes_left[:, None], between, above)
    jump = _distance(above, below)
    inside = (right > edges[0]) & (right < edges[-1])
    return right[inside & (jump > OF_THE_CELL * first) & (jump > OF_THE_SIZE * size)]


def rough_along(domain: Box, value: Given, index: int, held: Mapping[int, float]) -> list[float]:
    """Where a given function of a face, or its slope, jumps along an axis of the face.

    `held` has the coordinates that all points of the face share.
    """
    if not callable(value):
        return []

    def both(points: np.ndarray) -> np.ndarray:
        points = points.copy()
        for axis, at in held.items():
            points[:, axis] = at
        values = values_anywhere(value, domain, points)
        return np.stack([values, slope_along(domain, value, points, index)], axis=1)

    return jumps_along(domain, both, index, 0).tolist()


def slope_along(
    domain: Box, value: Given, points: Float[np.ndarray, "points d"], index: int
) -> Float[np.ndarray, " points"]:
    """The derivative along an axis, zero of functions that JAX cannot differentiate."""
    if not callable(value):
        return np.zeros(len(points))
    function: Callable[..., Any] = value

    def along(x: jax.Array) -> jax.Array:
        given = {name: points[:, k] for k, name in enumerate(domain.names)}
        return call_by_name(function, given | {domain.names[index]: x}) + 0.0 * x

    try:
        with jax.enable_x64(True):
            x = jnp.asarray(points[:, index])
            return np.asarray(jax.jvp(along, (x,), (jnp.ones_like(x),))[1])
    except (TypeError, jax.errors.JAXTypeError):
        return np.zeros(len(points))


def _distance(
    one: Float[np.ndarray, "cells residuals"], other: Float[np.ndarray, "cells residuals"]
) -> Float[np.ndarray, " cells"]:
    return np.linalg.norm(one - other, axis=1)
