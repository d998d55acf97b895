"""Planes where coefficients jump: the pieces they cut axes into, and points on either side."""

from collections.abc import Sequence

import numpy as np

from pann.basis import Basis, PiecewiseLegendre
from pann.domain import Box
from pann.pde.conditions import Break, Condition, Interface, values_at

# Planes that are closer, relative to the width of the axis, are one, rounded in two ways.
SAME_PLANE = 1e-9
# Far enough for rounding to tell the sides apart, near enough not to count.
SIDE = 64 * np.finfo(float).eps
CHECK_POINTS = 16


def planes(domain: Box, conditions: Sequence[Condition]) -> dict[str, list[float]]:
    """Where interfaces and breaks cut each axis that they cut, in increasing order."""
    found: dict[str, list[float]] = {}
    cuts = [condition for condition in conditions if isinstance(condition, Interface | Break)]
    for condition in sorted(cuts, key=lambda condition: condition.at):
        known = found.setdefault(condition.axis, [])
        if not any(is_same_plane(domain, condition, condition.axis, at) for at in known):
            known.append(float(condition.at))
    return found


def is_same_plane(domain: Box, condition: Interface | Break, axis: str, at: float | int) -> bool:
    """Whether the condition holds on the plane axis = at."""
    width = float(domain.widths[domain.names.index(axis)])
    return condition.axis == axis and abs(condition.at - at) <= SAME_PLANE * width


def piecewise_axes(domain: Box, conditions: Sequence[Condition]) -> dict[str, PiecewiseLegendre]:
    """Families that break where the interfaces are, for the axes that they cut."""
    families = {}
    for axis, places in planes(domain, conditions).items():
        points = np.tile(domain.lower, (len(places), 1))
        points[:, domain.names.index(axis)] = places
        # By the same map as the points of a table, which then round to the same side.
        reference = domain.to_reference(points)[:, domain.names.index(axis)]
        families[axis] = PiecewiseLegendre(tuple(reference.tolist()))
    return families


def piece_numbers(basis: Basis, points: np.ndarray) -> np.ndarray:
    """Which piece of the domain each point lies in, counted through the axes."""
    numbers = np.zeros(len(points), int)
    for axis, family in zip(basis.axes, basis.families, strict=True):
        if isinstance(family, PiecewiseLegendre):
            reference = basis.domain.to_reference(points)
            along = family.piece_of(reference[:, basis.domain.names.index(axis)])
            numbers = numbers * family.num_pieces + along
    return numbers


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


def check_plane(domain: Box, condition: Interface | Break) -> None:
    """Refuse a plane that is not inside, or across an axis that cannot be cut."""
    what, axis, at = type(condition).__name__, condition.axis, condition.at
    if axis not in domain.names:
        raise ValueError(
            f"{what} names axis '{axis}', which is not in the domain; its axes are "
            f"{', '.join(domain.names)}"
        )
    if axis in domain.periodic:
        raise ValueError(
            f"{what} is across axis '{axis}', which is periodic; make the box without "
            "periodic=... and use the condition pann.pde.Periodic"
        )
    if axis == domain.time:
        raise ValueError(
            f"{what} is across axis '{axis}', which is time; solve one interval after the other"
        )
    index = domain.names.index(axis)
    low, high = domain.lower[index], domain.upper[index]
    room = SAME_PLANE * (high - low)
    if not low + room < at < high - room:
        raise ValueError(f"{what} is at {axis} = {at}, which must lie inside ({low:g}, {high:g})")


def check_interface(domain: Box, condition: Interface, others: Sequence[Condition]) -> None:
    """Refuse a plane that is not inside, is there twice, or has a coefficient that is not finite.

    `others` are conditions for the same field.
    """
    check_plane(domain, condition)
    axis, at = condition.axis, condition.at
    index = domain.names.index(axis)
    for other in others:
        if isinstance(other, Interface) and is_same_plane(domain, other, axis, at):
            raise ValueError(
                f"there are two conditions Interface at {axis} = {at} for the same field; "
                "put jump and flux_jump into one"
            )
    rng = np.random.default_rng(0)
    points = domain.from_reference(rng.uniform(-0.9, 0.9, (CHECK_POINTS, domain.dimension)))
    points[:, index] = at
    for side in (-1.0, 1.0):
        try:
            values_at(condition.coefficient, domain, moved_off(domain, points, axis, at, side))
        except ValueError as error:
            raise ValueError(f"Interface at {axis} = {at}, coefficient: {error}") from None
