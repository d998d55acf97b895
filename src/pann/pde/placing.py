"""Where the equation and the conditions are asked to hold: points inside, on faces, in pairs."""

import dataclasses
import functools
import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from pann.basis import Basis, Fourier, Legendre, PiecewiseLegendre
from pann.basis.basis import INTEGRAL
from pann.domain import SIDES, Box, Faces
from pann.pde.collocation import Operator, Placed
from pann.pde.conditions import (
    Break,
    Data,
    Dirichlet,
    Initial,
    Integral,
    Interface,
    Neumann,
    Periodic,
    Robin,
    values_at,
    values_of_data,
)
from pann.pde.fields import Order
from pann.pde.interfaces import is_same_plane, moved_off, planes
from pann.pde.operators import Channels, Equation, NormalDerivative
from pann.pde.problem import Problem
from pann.points import sample, tensor_grid

# A point this near to a face, on a scale where the axis has length 2, lies on it.
ON_FACE = 1e-9

Pieces = Mapping[str, PiecewiseLegendre]
HashablePieces = tuple[tuple[str, PiecewiseLegendre], ...]


@dataclasses.dataclass(frozen=True, eq=False)
class OnFaces:
    """How points lie on faces: Gauss points unless a sampler is named, or points are given.

    `count` is the number on each face that a sampler draws, if not that of the Gauss points.
    """

    sampling: str | None = None
    count: int | None = None
    seed: int = 0
    given: np.ndarray | None = None


GAUSS_ON_FACES = OnFaces()


def points_per_axis_of(problem: Problem, basis: Basis, num_points: int = 0) -> int:
    """How many points along each piece of an axis fit the basis and make so many in all."""
    pieces = {axis: family.num_pieces for axis, family in problem.pieces.items()}
    sizes = zip(basis.axes, basis.num_functions, strict=True)
    fitting = max(math.ceil(size / pieces.get(axis, 1)) for axis, size in sizes) + 3
    filling = (num_points / math.prod(pieces.values())) ** (1 / problem.domain.dimension)
    return max(fitting, math.ceil(filling - 1e-9))


def points_inside(problem: Problem, points_per_axis: int) -> np.ndarray:
    """A tensor grid of Gauss points, so many along each piece of an axis."""
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
    """Gauss nodes on each piece of an axis, in its reference coordinate."""
    if axis not in pieces:
        return Legendre().quadrature(points_per_axis)[0]
    return pieces[axis].quadrature(points_per_axis * pieces[axis].num_pieces)[0]


def place_inside(problem: Problem, points: np.ndarray, orders: tuple[Order, ...]) -> Placed:
    """The equation at points inside; those on an interface count to its upper side."""
    for axis, places in planes(problem.domain, problem.conditions).items():
        for at in places:
            points = moved_off(problem.domain, points, axis, at)
    problem = problem.traced()
    operator = Equation(problem)
    target = np.zeros((len(points), problem.asked.num_residuals))
    return Placed("residual", points, target, 1.0, orders, operator)


def place_conditions(
    problem: Problem, points_per_axis: int, on_faces: OnFaces = GAUSS_ON_FACES
) -> list[Placed]:
    """Every condition at points on its faces, so many along each piece of an axis.

    Hard ones are left out: they hold by the form of the solution. Breaks are no conditions but for
    what ties the pieces.
    """
    placed = []
    for number, condition in enumerate(problem.conditions):
        if isinstance(condition, Break) or (
            isinstance(condition, Dirichlet | Initial) and condition.hard
        ):
            continue
        name = f"{type(condition).__name__.lower()} {number + 1}"
        field = problem.field_number(condition)
        zero = (0,) * problem.domain.dimension
        if isinstance(condition, Data):
            points = np.asarray(condition.points, float)
            values = values_of_data(condition, problem.domain)
            operator = Channels(field, (zero,))
            placed.append(Placed(name, points, values, condition.weight, (zero,), operator))
        elif isinstance(condition, Periodic):
            placed.append(_periodic(problem, condition, field, name, points_per_axis))
        elif isinstance(condition, Integral):
            placed.append(_integral(problem, condition, field, name, points_per_axis))
        elif isinstance(condition, Interface):
            placed += _interface(problem, condition, field, name, points_per_axis)
        elif isinstance(condition, Initial):
            assert problem.domain.time is not None
            points, _ = face_points(
                problem.domain.initial, points_per_axis, problem.pieces, on_faces
            )
            order = _unit(problem, problem.domain.time, condition.order)
            operator = Channels(field, (order,))
            values = evaluate(condition.value, problem, points)
            placed.append(Placed(name, points, values, condition.weight, (order,), operator))
        else:
            placed.append(_on_faces(problem, condition, field, name, points_per_axis, on_faces))
    return placed + _smooth_across(problem, points_per_axis)


def _on_faces(
    problem: Problem,
    condition: Dirichlet | Neumann | Robin,
    field: int,
    name: str,
    points_per_axis: int,
    on_faces: OnFaces,
) -> Placed:
    points, normals = face_points(condition.faces, points_per_axis, problem.pieces, on_faces)
    values = evaluate(condition.value, problem, points)
    zero = (0,) * problem.domain.dimension
    if isinstance(condition, Dirichlet):
        operator: Operator = Channels(field, (zero,))
        return Placed(name, points, values, condition.weight, (zero,), operator)
    alpha, beta = (
        (condition.alpha, condition.beta)
        if isinstance(condition, Robin)
        else (0.0, condition.coefficient)
    )
    axes = [problem.domain.names.index(axis) for axis, _ in condition.faces.sides]
    used = tuple(dict.fromkeys(axes))
    firsts = tuple(_unit(problem, problem.domain.names[axis], 1) for axis in used)
    slope = evaluate(beta, problem, points)
    extra = {f"normal_{axis}": normals[:, axis] * slope for axis in used}
    extra["alpha"] = evaluate(alpha, problem, points)
    operator = NormalDerivative(field, zero, used, firsts)
    return Placed(name, points, values, condition.weight, (zero, *firsts), operator, extra)


def _periodic(
    problem: Problem, condition: Periodic, field: int, name: str, points_per_axis: int
) -> Placed:
    ends = [Faces(problem.domain, ((condition.axis, side),)) for side in SIDES]
    lower, upper = (face_points(end, points_per_axis, problem.pieces)[0] for end in ends)
    orders = tuple(_unit(problem, condition.axis, k) for k in range(condition.order + 1))
    target = np.zeros((len(lower), len(orders)))
    operator = Channels(field, orders)
    return Placed(name, upper, target, condition.weight, orders, operator, minus=lower)


def _integral(
    problem: Problem, condition: Integral, field: int, name: str, points_per_axis: int
) -> Placed:
    """The integral at points of the axes that are not integrated over, a single one for all."""
    domain, over = problem.domain, condition.over(problem.domain)
    nodes = [
        np.zeros(1) if axis in over else gauss_nodes(problem.pieces, axis, points_per_axis)
        for axis in domain.names
    ]
    points = domain.from_reference(tensor_grid(*nodes))
    order = tuple(INTEGRAL if axis in over else 0 for axis in domain.names)
    values = evaluate(condition.value, problem, points)
    return Placed(name, points, values, condition.weight, (order,), Channels(field, (order,)))


def _interface(
    problem: Problem, condition: Interface, field: int, name: str, points_per_axis: int
) -> list[Placed]:
    """Value and flux on the upper side, less those on the lower side."""
    at = next(
        at
        for at in planes(problem.domain, problem.conditions)[condition.axis]
        if is_same_plane(problem.domain, condition, condition.axis, at)
    )
    points, upper, lower = _on_plane(problem, condition.axis, at, points_per_axis)
    coefficients = [evaluate(condition.coefficient, problem, side) for side in (upper, lower)]
    factors = np.stack(coefficients, axis=1)
    # In units of the coefficient: a large one would leave the other rows to rounding.
    unit = float(np.max(np.abs(factors))) or 1.0
    zero, first = (_unit(problem, condition.axis, order) for order in (0, 1))
    value = Placed(
        f"{name}, value",
        upper,
        evaluate(condition.jump, problem, points),
        condition.weight,
        (zero,),
        Channels(field, (zero,)),
        minus=lower,
    )
    flux = Placed(
        f"{name}, flux",
        upper,
        evaluate(condition.flux_jump, problem, points) / unit,
        condition.weight,
        (first,),
        Channels(field, (first,)),
        minus=lower,
        factors=factors / unit,
    )
    return [value, flux]


def _smooth_across(problem: Problem, points_per_axis: int) -> list[Placed]:
    """Fields without a condition on a plane: as smooth across it as the equation asks for.

    All fields share a basis; where it breaks for one of them, nothing else ties the others.
    """
    placed = []
    for axis, places in planes(problem.domain, problem.conditions).items():
        for at in places:
            tied = {
                problem.field_number(condition)
                for condition in problem.conditions
                if isinstance(condition, Interface)
                and is_same_plane(problem.domain, condition, axis, at)
            }
            _, upper, lower = _on_plane(problem, axis, at, points_per_axis)
            for field in set(range(len(problem.fields))) - tied:
                times = range(problem.highest_order(field, axis))
                orders = tuple(_unit(problem, axis, order) for order in times)
                if orders:
                    name = f"{problem.fields[field]} across {axis} = {at:g}"
                    target = np.zeros((len(upper), len(orders)))
                    operator = Channels(field, orders)
                    placed.append(Placed(name, upper, target, 1.0, orders, operator, minus=lower))
    return placed


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
    faces: Faces,
    points_per_axis: int,
    pieces: Pieces = MappingProxyType({}),
    on_faces: OnFaces = GAUSS_ON_FACES,
) -> tuple[np.ndarray, np.ndarray]:
    """Points on each face, so many along each piece of an axis, and the outward normals."""
    domain = faces.domain
    points, normals = [], []
    for number, (axis, side) in enumerate(faces.sides):
        index = domain.names.index(axis)
        end = -1.0 if side == "lower" else 1.0
        if on_faces.given is not None:
            reference = domain.to_reference(on_faces.given)
            found = on_faces.given[np.abs(reference[:, index] - end) < ON_FACE]
            if not len(found):
                raise ValueError(
                    f"none of the points with the tag 'boundary' lies on "
                    f"{Faces(domain, ((axis, side),))}, where there is a condition; add some"
                )
        elif on_faces.sampling is not None and domain.dimension > 1:
            rest = _without(domain, axis)
            count = on_faces.count or points_per_axis**rest.dimension
            drawn = sample(on_faces.sampling, rest, count, on_faces.seed + number).coordinates
            found = np.insert(drawn, index, faces.end(axis, side), axis=1)
        else:
            found = _gauss_on_face(domain, axis, end, points_per_axis, tuple(pieces.items()))
        points.append(found)
        normals.append(np.tile(end * np.eye(domain.dimension)[index], (len(found), 1)))
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
    return Box(**axes, periodic=tuple(name for name in domain.periodic if name != axis))


def evaluate(value: Any, problem: Problem, points: np.ndarray) -> np.ndarray:
    """A number, or a function of the coordinates, at points; refused where it is not finite."""
    return values_at(value, problem.domain, points)


def _unit(problem: Problem, axis: str, order: int) -> Order:
    return tuple(order if name == axis else 0 for name in problem.domain.names)
