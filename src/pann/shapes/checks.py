"""Checks of what users give to make a shape."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from pann.domain import Box
from pann.shapes.arcs import Plane


def keep(shape: object, **fields: object) -> None:
    """Set fields of a frozen shape, once they have been checked."""
    for name, value in fields.items():
        object.__setattr__(shape, name, value)


def positive(value: Any, what: str) -> float:
    number = point([value], 1, what)[0]
    if number <= 0:
        raise ValueError(f"a {what} is positive, got {number:g}")
    return number


def point(value: Any, dimension: int, what: str) -> tuple[float, ...]:
    """A point of finite numbers."""
    try:
        numbers = tuple(float(each) for each in value)
    except (TypeError, ValueError):
        numbers = ()
    if len(numbers) != dimension or not np.isfinite(numbers).all():
        kind = "a finite number" if dimension == 1 else f"{dimension} finite numbers"
        raise ValueError(f"{what} is {kind}, got {value[0] if dimension == 1 else value!r}")
    return numbers


def table(value: Any, what: str) -> Plane:
    """Points of the plane, of finite numbers."""
    try:
        array = np.asarray(value, float)
    except (TypeError, ValueError):
        array = np.zeros(0)
    if array.ndim != 2 or array.shape[1] != 2 or not np.isfinite(array).all():
        raise ValueError(f"{what} are pairs (x, y) of finite numbers, got {value!r:.200}")
    return array


def axis_names(names: Sequence[str], dimension: int) -> tuple[str, ...]:
    names = tuple(names)
    if len(names) != dimension or len(set(names)) != dimension:
        raise ValueError(f"names are {dimension} different names of axes, got {names}")
    return names


def axes_of(box: Box) -> str:
    return ", ".join(
        f"{name}=({low:g}, {high:g})"
        for name, low, high in zip(box.names, box.lower, box.upper, strict=True)
    )
