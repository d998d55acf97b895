"""What a solution has to satisfy besides the equation: on faces, at the start, at points."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from pann.domain import Faces

Values = Callable[..., Any] | float | int


@dataclasses.dataclass(frozen=True)
class Dirichlet:
    """The field is `value` on the faces; a number, or a function of the coordinates.

    With `hard` it holds exactly, by the form of the solution, and not in the least-squares sense.
    """

    faces: Faces
    value: Values = 0.0
    field: str | None = None
    weight: float = 1.0
    hard: bool = False


@dataclasses.dataclass(frozen=True)
class Neumann:
    """The outward normal derivative, times `coefficient` of the coordinates, is `value`."""

    faces: Faces
    value: Values = 0.0
    coefficient: Values = 1.0
    field: str | None = None
    weight: float = 1.0


@dataclasses.dataclass(frozen=True)
class Robin:
    """alpha u + beta du/dn is `value` on the faces."""

    faces: Faces
    alpha: Values
    beta: Values
    value: Values = 0.0
    field: str | None = None
    weight: float = 1.0


@dataclasses.dataclass(frozen=True)
class Initial:
    """The field, or its time derivative of that `order`, is `value` at the first moment.

    With `hard` it holds exactly; a hard derivative, of order 1, needs a hard value beside it.
    """

    value: Values
    order: int = 0
    field: str | None = None
    weight: float = 1.0
    hard: bool = False


@dataclasses.dataclass(frozen=True, eq=False)
class Data:
    """The field has these values at these points, measured or known."""

    points: np.ndarray
    values: np.ndarray
    field: str | None = None
    weight: float = 1.0


@dataclasses.dataclass(frozen=True)
class Periodic:
    """Value and derivatives up to `order` agree at both ends of an axis, as a penalty.

    For exact periodicity make the domain periodic: Box(x=(0, 1), periodic="x").
    """

    axis: str
    order: int = 1
    field: str | None = None
    weight: float = 1.0


Condition = Dirichlet | Neumann | Robin | Initial | Data | Periodic
