"""What a solution has to satisfy besides the equation: on faces and planes, at points."""

import dataclasses
import numbers
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import jax
import numpy as np
import numpy.typing as npt

from pann.arguments import call_by_name, check_arguments
from pann.basis import PiecewiseLegendre
from pann.domain import Box, Faces
from pann.shapes import Boundary

Values = Callable[..., Any] | float | int

FEWEST_POINTS = 1_024
# Planes that are closer, relative to the width of the axis, are one, rounded in two ways.
SAME_PLANE = 1e-9


@dataclasses.dataclass(frozen=True)
class Dirichlet:
    """The field is `value` on the faces; a number, or a function of the coordinates.

    With `hard` it holds exactly, by the form of the solution, and not in the least-squares sense.
    """

    faces: Faces | Boundary
    value: Values = 0.0
    field: str | None = None
    weight: float = 1.0
    hard: bool = False
    alpha: ClassVar[Values] = 1.0
    beta: ClassVar[Values] = 0.0


@dataclasses.dataclass(frozen=True)
class Neumann:
    """The outward normal derivative, times `coefficient` of the coordinates, is `value`."""

    faces: Faces | Boundary
    value: Values = 0.0
    coefficient: Values = 1.0
    field: str | None = None
    weight: float = 1.0
    alpha: ClassVar[Values] = 0.0

    @property
    def beta(self) -> Values:
        return self.coefficient


@dataclasses.dataclass(frozen=True)
class Robin:
    """alpha u + beta du/dn is `value` on the faces."""

    faces: Faces | Boundary
    alpha: Values
    beta: Values
    value: Values = 0.0
    field: str | None = None
    weight: float = 1.0


@dataclasses.dataclass(frozen=True)
class Initial:
    """The field, or its time derivative of that `order`, is `value` at the initial time.

    With `hard` it holds exactly; a hard derivative, of order 1, also needs a hard value.
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

    points: npt.ArrayLike
    values: npt.ArrayLike | Callable[..., Any]
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


@dataclasses.dataclass(frozen=True)
class Integral:
    """The integral of a field over `axes`, or over all of the domain, is `value`.

    Over some of the axes it is a function of the others: Integral(1.0, axes="x") in (x, t) holds at
    all times. With this condition a pressure, or what Neumann conditions leave open, is fixed.
    """

    value: Values = 0.0
    axes: str | tuple[str, ...] = ()
    field: str | None = None
    weight: float = 1.0

    def over(self, domain: Box) -> tuple[str, ...]:
        """The names of the axes that are integrated over."""
        axes = (self.axes,) if isinstance(self.axes, str) else tuple(self.axes)
        return axes or domain.names


# What holds on the boundary in space: alpha u + beta du/dn is `value` for all three.
OnBoundary = Dirichlet | Neumann | Robin
Condition = OnBoundary | Initial | Data | Periodic | Interface | Break | Integral


def values_at(
    value: Any, domain: Box, points: np.ndarray, what: str = "a given value"
) -> np.ndarray:
    """A number, or a function of the coordinates, at points; refused where it is not finite."""
    result = values_anywhere(value, domain, points, what)
    if not np.all(np.isfinite(result)):
        where = points[int(np.argmin(np.isfinite(result)))]
        raise ValueError(f"{what} is not finite at {where}; look at that function there")
    return result


def values_anywhere(
    value: Any, domain: Box, points: np.ndarray, what: str = "a given value"
) -> np.ndarray:
    """A number, or a function of the coordinates, at points where it need not be defined.

    Functions see one of few numbers of points, the last one repeated: JAX compiles each of their
    operations for each of these numbers. `check_values` has seen that they go point by point.
    """
    if not callable(value):
        return np.broadcast_to(np.asarray(value, float), (len(points),))
    count = max(FEWEST_POINTS, 1 << (len(points) - 1).bit_length())
    padded = np.pad(points, ((0, count - len(points)), (0, 0)), mode="edge")
    return _called(value, domain, padded, what)[: len(points)]


def values_of_data(condition: Data, domain: Box) -> np.ndarray:
    """The values of data, which may be a function of all their points together."""
    points, values = np.asarray(condition.points, float), condition.values
    if callable(values):
        values = _called(values, domain, points, "the function of Data")
    if not np.all(np.isfinite(values)):
        where = points[int(np.argmin(np.isfinite(values)))]
        raise ValueError(f"a value of Data is not finite at {where}; remove it from the data")
    return np.asarray(values, float)


def check_values(value: Any, domain: Box, points: np.ndarray, what: str) -> None:
    """Refuse what is no number, and functions that are none of the coordinates of each point.

    `points` are as many as functions see at least, so that nothing is compiled for this alone.
    """
    if not callable(value):
        if not isinstance(value, numbers.Real) and np.shape(value) != ():
            raise ValueError(
                f"{what} is an array of shape {np.shape(value)}; give a number or a function of "
                "the coordinates, or Data(points, values) for values at points"
            )
        if isinstance(value, str) or not np.isfinite(np.asarray(value, float)):
            raise ValueError(f"{what} is {value!r}; give a finite number or a function")
        return
    check_arguments(value, dict.fromkeys(domain.names), what)
    others = np.random.default_rng(1).permutation(len(points))
    others[: len(points) // 2] = others[0]
    first, second = (_called(value, domain, at, what) for at in (points, points[others]))
    if not np.allclose(first[others], second, rtol=1e-9, atol=0.0, equal_nan=True):
        raise ValueError(
            f"{what} at a point depends on the other points, or on chance (a mean, a maximum, "
            "random numbers?); make it a function of the coordinates of each point alone"
        )


def _called(value: Any, domain: Box, points: np.ndarray, what: str) -> np.ndarray:
    given = {name: points[:, i].copy() for i, name in enumerate(domain.names)}
    try:
        with jax.enable_x64(True):
            result = np.asarray(call_by_name(value, given), float)
        return np.broadcast_to(result, (len(points),))
    except Exception as error:
        raise ValueError(
            f"{what} could not be computed at {len(points)} points: {type(error).__name__}: "
            f"{error}; it takes arrays of coordinates and returns one number per point"
        ) from error


# ---- Planes that cut the domain into elements ----


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
    for axis, cuts in planes(domain, conditions).items():
        points = np.tile(domain.lower, (len(cuts), 1))
        points[:, domain.names.index(axis)] = cuts
        # By the same map as the points of a table, which then round to the same side.
        reference = domain.to_reference(points)[:, domain.names.index(axis)]
        families[axis] = PiecewiseLegendre(tuple(reference.tolist()))
    return families
