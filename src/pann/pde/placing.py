"""Where the equation and the conditions are asked to hold: points inside, on faces, in pairs."""

import dataclasses
import functools
import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from pann.basis import Fourier, Legendre, PiecewiseLegendre, WholeBasis
from pann.basis.basis import INTEGRAL
from pann.domain import SIDES, Box, Faces
from pann.pde.collocation import Placed
from pann.pde.conditions import (
    Break,
    Condition,
    Data,
    Dirichlet,
    Initial,
    Integral,
    Interface,
    Neumann,
    Periodic,
    Robin,
    is_same_plane,
    planes,
    values_at,
    values_of_data,
)
from pann.pde.fields import Order
from pann.pde.interfaces import moved_off
from pann.pde.operators import Channels, Equation, NormalDerivative
from pann.pde.problem import Problem
from pann.points import sample, tensor_grid
from pann.shapes import Boundary, Part

# A point this near to a face, on a scale where the axis has length 2, lies on it.
ON_FACE = 1e-9
# Points on each part of the boundary of a shape, at least.
FEWEST_ON_PARTS = 16
# Decades of distances from the ends of open parts.
TO_CORNERS = 6.0

Pieces = Mapping[str, PiecewiseLegendre]
HashablePieces = tuple[tuple[str, PiecewiseLegendre], ...]


@dataclasses.dataclass(frozen=True, eq=False)
class OnFaces:
    """How points lie on faces: Gauss points unless a sampler is named, or points are given.

    `count` is the number on each face that a sampler draws, if not that of the Gauss points. Points
    are given as one array, or as one for each face; for each part of the boundary of a shape with
    their normals. Otherwise parts of a shape have at least `per_part`.
    """

    sampling: str | None = None
    count: int | None = None
    seed: int = 0
    given: np.ndarray | Mapping[Any, Any] | None = None
    per_part: int = FEWEST_ON_PARTS


GAUSS_ON_FACES = OnFaces()


def points_per_axis_of(problem: Problem, basis: WholeBasis, num_points: int = 0) -> int:
    """How many points along each element of an axis fit the basis and make so many in all.

    The number is even: no point lies in the middle of an axis, where 1 / r is often not finite.
    """
    pieces = {axis: family.num_pieces for axis, family in problem.pieces.items()}
    sizes = zip(basis.axes, basis.num_functions, strict=True)
    fitting = max(math.ceil(size / pieces.get(axis, 1)) for axis, size in sizes) + 3
    filling = (num_points / math.prod(pieces.values())) ** (1 / problem.domain.dimension)
    count = max(fitting, math.ceil(filling - 1e-9))
    return count + count % 2


def points_inside(problem: Problem, points_per_axis: int) -> np.ndarray:
    """A tensor grid of Gauss points, so many along each element of an axis."""
    return _gauss_inside(problem.domain, points_per_axis, tuple(problem.pieces.items()))


@functools.lru_cache(maxsize=16)
def _gauss_inside(domain: Box, points_per_axis: int, pieces: HashablePieces) -> np.ndarray:
    nodes = [
        Fourier().quadrature(points_per_axis)[0]
        if axis in domain.periodic
        else gauss_nodes(dict(pieces), axis, points_per_axis)
        for axis in domain.names
    ]
    return _read_only(domain.from_reference(tensor_grid(*nodes)))


def gauss_nodes(pieces: Pieces, axis: str, points_per_axis: int) -> np.ndarray:
    """Gauss nodes on each element of an axis, in its reference coordinate."""
    if axis not in pieces:
        return Legendre().quadrature(points_per_axis)[0]
    return pieces[axis].quadrature(points_per_axis * pieces[axis].num_pieces)[0]


def place_inside(problem: Problem, points: np.ndarray, orders: tuple[Order, ...]) -> Placed:
    """The equation at points inside; those on an interface count to its upper side."""
    for axis, at in _all_planes(problem):
        points = moved_off(problem.domain, points, axis, at)
    problem = problem.traced()
    target = np.zeros((len(points), problem.asked.num_residuals))
    return Placed("residual", points, target, 1.0, orders, Equation(problem))


def place_conditions(
    problem: Problem, points_per_axis: int, on_faces: OnFaces = GAUSS_ON_FACES
) -> list[Placed]:
    """Every condition at points on its faces, so many along each element of an axis.

    Hard ones are left out: they hold by the form of the solution. Breaks are not conditions but for
    what ties the elements.
    """
    placed = []
    for number, condition in enumerate(problem.conditions):
        if isinstance(condition, Break) or getattr(condition, "hard", False):
            continue
        name = f"{type(condition).__name__.lower()} {number + 1}"
        new = _Placing(problem, problem.field_number(condition), points_per_axis, on_faces)
        placed += [
            dataclasses.replace(each, name=name + each.name, weight=condition.weight)
            for each in new.rows(condition)
        ]
    for axis, at in _all_planes(problem):
        for field in range(len(problem.fields)):
            placed += _Placing(problem, field, points_per_axis, on_faces).smooth_across(axis, at)
    return placed


def _all_planes(problem: Problem) -> list[tuple[str, float]]:
    found = planes(problem.domain, problem.conditions)
    return [(axis, at) for axis, cuts in found.items() for at in cuts]


@dataclasses.dataclass(frozen=True)
class _Placing:
    """One field at the points of a condition; name and weight are those of the condition."""

    problem: Problem
    field: int
    points_per_axis: int
    on_faces: OnFaces

    def rows(self, condition: Condition) -> list[Placed]:
        """The rows of a condition."""
        problem, domain = self.problem, self.problem.domain
        match condition:
            case Interface():
                return self._interface(condition)
            case Data():
                points = np.asarray(condition.points, float)
                values = values_of_data(condition, domain)
                return self._channels(points, values, (self._order(),), is_data=True)
            case Periodic():
                ends = [Faces(domain, ((condition.axis, side),)) for side in SIDES]
                lower, upper = (
                    face_points(end, self.points_per_axis, problem.pieces)[0] for end in ends
                )
                orders = tuple(
                    self._order(condition.axis, times) for times in range(condition.order + 1)
                )
                return self._channels(upper, 0.0, orders, minus=lower)
            case Integral():
                # At points of the axes that are not integrated over, a single one for all.
                over = condition.over(domain)
                nodes = [
                    np.zeros(1)
                    if axis in over
                    else gauss_nodes(problem.pieces, axis, self.points_per_axis)
                    for axis in domain.names
                ]
                order = tuple(INTEGRAL if axis in over else 0 for axis in domain.names)
                points = domain.from_reference(tensor_grid(*nodes))
                return self._channels(points, condition.value, (order,))
            case Initial():
                points, _ = self._on_faces(domain.initial)
                order = self._order(str(domain.time), condition.order)
                return self._channels(points, condition.value, (order,))
            case Dirichlet():
                points, _ = self._on_faces(condition.faces)
                return self._channels(points, condition.value, (self._order(),))
            case Neumann() | Robin():
                return self._robin(condition)
        raise TypeError(f"{type(condition).__name__} is not a condition at points")

    def _interface(self, condition: Interface) -> list[Placed]:
        """Value and flux on the upper side of a plane, less those on the lower side."""
        domain = self.problem.domain
        at = next(
            at
            for at in planes(domain, self.problem.conditions)[condition.axis]
            if is_same_plane(domain, condition, condition.axis, at)
        )
        points, upper, lower = _on_plane(self.problem, condition.axis, at, self.points_per_axis)
        coefficients = [values_at(condition.coefficient, domain, side) for side in (upper, lower)]
        factors = np.stack(coefficients, axis=1)
        # In units of the coefficient: a large one would leave the other rows to rounding.
        unit = float(np.max(np.abs(factors))) or 1.0
        jump = values_at(condition.jump, domain, points)
        flux_jump = values_at(condition.flux_jump, domain, points) / unit
        zero, first = (self._order(condition.axis, times) for times in (0, 1))
        (value,) = self._channels(upper, jump, (zero,), ", value", minus=lower)
        (flux,) = self._channels(upper, flux_jump, (first,), ", flux", minus=lower)
        return [value, dataclasses.replace(flux, factors=factors / unit)]

    def smooth_across(self, axis: str, at: float) -> list[Placed]:
        """A field without a condition on a plane: as smooth across it as the equation asks for.

        All fields share a basis; where it breaks for one of them, nothing else ties the others.
        """
        problem = self.problem
        is_tied = any(
            isinstance(each, Interface) and is_same_plane(problem.domain, each, axis, at)
            for each in problem.of_field(self.field)
        )
        num_orders = problem.highest_order(self.field, axis)
        if is_tied or num_orders == 0:
            return []
        _, upper, lower = _on_plane(problem, axis, at, self.points_per_axis)
        orders = tuple(self._order(axis, times) for times in range(num_orders))
        name = f"{problem.fields[self.field]} across {axis} = {at:g}"
        return self._channels(upper, 0.0, orders, name, minus=lower)

    def _robin(self, condition: Neumann | Robin) -> list[Placed]:
        domain, faces = self.problem.domain, condition.faces
        points, normals = self._on_faces(faces)
        sides = [axis for axis, _ in faces.sides] if isinstance(faces, Faces) else faces.shape.names
        axes = dict.fromkeys(sides)
        slope = values_at(condition.beta, domain, points)
        zero, firsts = self._order(), tuple(self._order(axis, 1) for axis in axes)
        operator = NormalDerivative(
            alpha=values_at(condition.alpha, domain, points),
            slopes=tuple(normals[:, domain.names.index(axis)] * slope for axis in axes),
            field=self.field,
            zero=zero,
            firsts=firsts,
        )
        values = values_at(condition.value, domain, points)
        return [Placed("", points, values, 1.0, (zero, *firsts), operator)]

    def _channels(
        self,
        points: np.ndarray,
        value: Any,
        orders: tuple[Order, ...],
        name: str = "",
        is_data: bool = False,
        minus: np.ndarray | None = None,
    ) -> list[Placed]:
        """Derivatives of the field that have given values, those of a function or at the points."""
        if callable(value):
            value = values_at(value, self.problem.domain, points)
        each = np.asarray(value, float).reshape(-1, 1)
        target = np.broadcast_to(each, (len(points), len(orders)))
        operator = Channels(self.field, orders)
        factors = None if minus is None else np.ones((len(points), 2))
        return [Placed(name, points, target, 1.0, orders, operator, is_data, minus, factors)]

    def _on_faces(self, faces: Faces | Boundary) -> tuple[np.ndarray, np.ndarray]:
        domain = self.problem.domain
        found = face_points(faces, self.points_per_axis, self.problem.pieces, self.on_faces)
        if not isinstance(faces, Boundary) or domain.time is None:
            return found
        # At all times: as many of them as along an axis, others at each point.
        (low, high), count = domain.times, len(found[0])
        nodes = 0.5 * (1 - np.cos(np.pi * np.linspace(0, 1, self.points_per_axis)))
        times = np.repeat(low + (high - low) * nodes, count)
        at = lambda array, column: np.insert(
            np.tile(array, (len(nodes), 1)), domain.time_number, column, axis=1
        )
        return at(found[0], times), at(found[1], 0.0)

    def _order(self, axis: str = "", times: int = 0) -> Order:
        return tuple(times if name == axis else 0 for name in self.problem.domain.names)


def _on_plane(
    problem: Problem, axis: str, at: float, points_per_axis: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Gauss points on a plane inside, and moved to its upper and to its lower side."""
    face = Faces(problem.domain, ((axis, "lower"),))
    points, _ = face_points(face, points_per_axis, problem.pieces)
    points[:, problem.domain.names.index(axis)] = at
    upper = moved_off(problem.domain, points, axis, at)
    lower = moved_off(problem.domain, points, axis, at, side=-1.0)
    return points, upper, lower


def face_points(
    faces: Faces | Boundary,
    points_per_axis: int,
    pieces: Pieces = MappingProxyType({}),
    on_faces: OnFaces = GAUSS_ON_FACES,
) -> tuple[np.ndarray, np.ndarray]:
    """Points on each face, so many along each element of an axis, and the outward normals."""
    if isinstance(faces, Boundary):
        return _on_boundary(faces, points_per_axis, on_faces)
    domain = faces.domain
    points, normals = [], []
    for number, (axis, side) in enumerate(faces.sides):
        index = domain.names.index(axis)
        end = -1.0 if side == "lower" else 1.0
        if isinstance(on_faces.given, Mapping):
            found = on_faces.given[axis, side]
        elif on_faces.given is not None:
            reference = domain.to_reference(on_faces.given)
            found = on_faces.given[np.abs(reference[:, index] - end) < ON_FACE]
            if not len(found):
                raise ValueError(
                    f"none of the points with the tag 'boundary' lies on "
                    f"{Faces(domain, ((axis, side),))}, where there is a condition; add some"
                )
        elif domain.dimension > 1 and (on_faces.sampling or domain.shape) is not None:
            rest = _without(domain, axis)
            count = on_faces.count or points_per_axis**rest.dimension
            drawn = sample(on_faces.sampling or "sobol", rest, count, on_faces.seed + number)
            found = np.insert(drawn.coordinates, index, faces.end(axis, side), axis=1)
        else:
            found = _gauss_on_face(domain, axis, end, points_per_axis, tuple(pieces.items()))
        points.append(found)
        normals.append(np.tile(end * np.eye(domain.dimension)[index], (len(found), 1)))
    return np.concatenate(points), np.concatenate(normals)


def _on_boundary(
    boundary: Boundary, points_per_axis: int, on_faces: OnFaces
) -> tuple[np.ndarray, np.ndarray]:
    """Points on the parts of a boundary of a shape, and the outward normals.

    Along a straight part a polynomial has as many numbers as its degree, along a curve several
    times as many; along short parts it varies less.
    """
    if isinstance(on_faces.given, np.ndarray):
        raise ValueError(
            "points of a shape are all inside: those on its boundary are chosen by its parts; "
            "leave out the tags"
        )
    shape = boundary.shape
    if on_faces.given is not None:
        points, normals = zip(*(on_faces.given[part] for part in boundary), strict=True)
        return np.concatenate(points), np.concatenate(normals)
    if on_faces.sampling is not None:
        count = on_faces.count or points_per_axis ** (shape.dimension - 1)
        return boundary.points(count, "uniform", on_faces.seed)[:2]
    found = []
    for part in boundary:
        along = 8 if part.is_closed else 2 if part.is_straight else 4
        share = min(1.0, (part.measure / shape.size) ** 0.5)
        count = math.ceil(along * share * points_per_axis ** (shape.dimension - 1))
        one = Boundary(shape, (part,)).points(max(count, on_faces.per_part))
        found.append(one[:2])
        if isinstance(part, Part) and not part.is_closed:
            # Functions of a corner vary on all scales toward it.
            t = np.logspace(-TO_CORNERS, -1.0, max(count // 4, FEWEST_ON_PARTS))
            t = np.concatenate([t, 1.0 - t])
            found.append((part.point(t), part.normal(t)))
    points, normals = zip(*found, strict=True)
    return np.concatenate(points), np.concatenate(normals)


@functools.lru_cache(maxsize=64)
def _gauss_on_face(
    domain: Box, axis: str, end: float, points_per_axis: int, pieces: HashablePieces
) -> np.ndarray:
    nodes = [
        np.array([end]) if name == axis else gauss_nodes(dict(pieces), name, points_per_axis)
        for name in domain.names
    ]
    return _read_only(domain.from_reference(tensor_grid(*nodes)))


def _read_only(points: np.ndarray) -> np.ndarray:
    points.flags.writeable = False
    return points


def _without(domain: Box, axis: str) -> Box:
    """The box of the other axes."""
    bounds = zip(domain.names, domain.lower, domain.upper, strict=True)
    axes: dict[str, Any] = {name: (low, high) for name, low, high in bounds if name != axis}
    rest = Box(**axes, periodic=tuple(name for name in domain.periodic if name != axis))
    return rest.filled_by(domain.shape)
