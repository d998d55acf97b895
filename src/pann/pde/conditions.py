"""What a solution has to satisfy besides the equation: on faces and planes, at points."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from pann.domain import Box, Faces

Values = Callable[..., Any] | float | int

FEWEST_POINTS = 1_024


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
    """The field has these values at these points, measured or known.

    Values are an array with one for each point, or a function of the coordinates.
    """

    points: np.ndarray
    values: np.ndarray | Callable[..., Any]
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


@dataclasses.dataclass(frozen=True)
class Interface:
    """On the plane axis = at, u jumps by `jump` and coefficient * du/d(axis) by `flux_jump`.

    For equations of second order. Jumps are those from the lower to the upper side; `coefficient`
    is a number or a function of the coordinates, evaluated on either side of the plane.
    """

    axis: str
    at: float | int
    coefficient: Values = 1.0
    jump: Values = 0.0
    flux_jump: Values = 0.0
    field: str | None = None
    weight: float = 1.0


@dataclasses.dataclass(frozen=True)
class Break:
    """The equation jumps on the plane axis = at: polynomials break there.

    All fields stay as smooth as the equation asks for: of second order, value and slope.
    """

    axis: str
    at: float | int


Condition = Dirichlet | Neumann | Robin | Initial | Data | Periodic | Interface | Break


def values_at(value: Any, domain: Box, points: np.ndarray) -> np.ndarray:
    """A number, or a function of the coordinates, at points; refused where it is not finite."""
    result = values_anywhere(value, domain, points)
    if not np.all(np.isfinite(result)):
        where = points[int(np.argmin(np.isfinite(result)))]
        raise ValueError(f"a given value is not finite at {where}; look at that function there")
    return result


def values_anywhere(value: Any, domain: Box, points: np.ndarray) -> np.ndarray:
    """A number, or a function of the coordinates, at points where it need not be defined.

    Functions see one of few numbers of points, the last one repeated: JAX compiles each of their
    operations for each of these numbers.
    """
    if not callable(value):
        return np.broadcast_to(np.asarray(value, float), (len(points),))
    count = max(FEWEST_POINTS, 1 << (len(points) - 1).bit_length())
    padded = np.pad(points, ((0, count - len(points)), (0, 0)), mode="edge")
    with jax.enable_x64(True):
        value = value(**{name: padded[:, i] for i, name in enumerate(domain.names)})
    return np.broadcast_to(np.asarray(value, float), (count,))[: len(points)]
