"""Where the equation and the conditions are asked to hold: points inside, on faces, in pairs."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from pann.basis.families import Legendre
from pann.domain import Faces
from pann.pde.blocks import Operator, Placed
from pann.pde.conditions import Data, Dirichlet, Initial, Neumann, Periodic, Robin
from pann.pde.fields import Order
from pann.pde.problem import Problem
from pann.points import tensor_grid


def place_inside(problem: Problem, points: np.ndarray, orders: tuple[Order, ...]) -> Placed:
    """The equation at points inside."""
    operator = functools.partial(_equation, problem)
    target = np.zeros((len(points), _num_residuals(problem)))
    return Placed("residual", points, target, 1.0, orders, operator)


def place_conditions(problem: Problem, points_per_axis: int) -> list[Placed]:
    """Every condition at Gauss points on its faces, `points_per_axis` along each axis.

    Hard ones are left out: they hold by the form of the solution.
    """
    placed = []
    for number, condition in enumerate(problem.conditions):
        if isinstance(condition, Dirichlet | Initial) and condition.hard:
            continue
        name = f"{type(condition).__name__.lower()} {number + 1}"
        field = 0 if condition.field is None else problem.fields.index(condition.field)
        zero = (0,) * problem.domain.dimension
        if isinstance(condition, Data):
            points = np.asarray(condition.points, float)
            values = np.asarray(condition.values, float)
            operator = functools.partial(_value, field, zero)
            placed.append(Placed(name, points, values, condition.weight, (zero,), operator))
        elif isinstance(condition, Periodic):
            placed.append(_periodic(problem, condition, field, name, points_per_axis))
        elif isinstance(condition, Initial):
            assert problem.domain.time is not None
            points, _ = face_points(problem.domain.initial, points_per_axis)
            order = _unit(problem, problem.domain.time, condition.order)
            operator = functools.partial(_value, field, order)
            values = evaluate(condition.value, problem, points)
            placed.append(Placed(name, points, values, condition.weight, (order,), operator))
        else:
            placed.append(_on_faces(problem, condition, field, name, points_per_axis))
    return placed


def _on_faces(
    problem: Problem,
    condition: Dirichlet | Neumann | Robin,
    field: int,
    name: str,
    points_per_axis: int,
) -> Placed:
    points, normals = face_points(condition.faces, points_per_axis)
    values = evaluate(condition.value, problem, points)
    zero = (0,) * problem.domain.dimension
    if isinstance(condition, Dirichlet):
        operator: Operator = functools.partial(_value, field, zero)
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
    operator = functools.partial(_normal_derivative, field, zero, used, firsts)
    return Placed(name, points, values, condition.weight, (zero, *firsts), operator, extra)


def _periodic(
    problem: Problem, condition: Periodic, field: int, name: str, points_per_axis: int
) -> Placed:
    lower, _ = face_points(Faces(problem.domain, ((condition.axis, "lower"),)), points_per_axis)
    upper, _ = face_points(Faces(problem.domain, ((condition.axis, "upper"),)), points_per_axis)
    orders = tuple(_unit(problem, condition.axis, k) for k in range(condition.order + 1))
    target = np.zeros((len(lower), len(orders)))
    operator = functools.partial(_values, field, orders)
    return Placed(name, upper, target, condition.weight, orders, operator, minus=lower)


def face_points(faces: Faces, points_per_axis: int) -> tuple[np.ndarray, np.ndarray]:
    """Gauss points on each face, and the outward normals there."""
    domain = faces.domain
    nodes, _ = Legendre().quadrature(points_per_axis)
    points, normals = [], []
    for axis, side in faces.sides:
        index = domain.names.index(axis)
        others = [nodes] * (domain.dimension - 1)
        grid = tensor_grid(*others) if others else np.zeros((1, 0))
        end = -1.0 if side == "lower" else 1.0
        grid = np.insert(grid, index, end, axis=1)
        points.append(domain.from_reference(grid))
        normals.append(end * np.eye(domain.dimension)[[index] * len(grid)])
    return np.concatenate(points), np.concatenate(normals)


def evaluate(value: Any, problem: Problem, points: np.ndarray) -> np.ndarray:
    """A number, or a function of the coordinates, at points; refused where it is not finite."""
    result = evaluate_anywhere(value, problem, points)
    if not np.all(np.isfinite(result)):
        where = points[int(np.argmin(np.isfinite(result)))]
        raise ValueError(f"a given value is not finite at {where}; look at that function there")
    return result


def evaluate_anywhere(value: Any, problem: Problem, points: np.ndarray) -> np.ndarray:
    """A number, or a function of the coordinates, at points where it need not be defined."""
    if callable(value):
        with jax.enable_x64(True):
            value = value(**{name: points[:, i] for i, name in enumerate(problem.domain.names)})
    return np.broadcast_to(np.asarray(value, float), (len(points),))


def _unit(problem: Problem, axis: str, order: int) -> Order:
    return tuple(order if name == axis else 0 for name in problem.domain.names)


def _num_residuals(problem: Problem) -> int:
    """How many equations there are, from a run on ones."""
    ones = jnp.ones(2)
    points = problem.domain.from_reference(np.zeros((2, problem.domain.dimension)) + 0.123)
    return len(problem.evaluate(lambda field, order: ones, points, problem.parameters))


# Operators are partial functions of module functions: equal arguments are one compiled program.


def _equation(problem: Problem, get: Any, coordinates: Any, extra: Any, parameters: Any) -> tuple:
    return problem.evaluate(get, coordinates, parameters)


def _value(field: int, order: Order, get: Any, coordinates: Any, extra: Any, p: Any) -> tuple:
    return (get(field, order),)


def _normal_derivative(
    field: int,
    zero: Order,
    axes: tuple[int, ...],
    firsts: tuple[Order, ...],
    get: Any,
    coordinates: Any,
    extra: Any,
    parameters: Any,
) -> tuple:
    total = extra["alpha"] * get(field, zero)
    for axis, first in zip(axes, firsts, strict=True):
        total = total + extra[f"normal_{axis}"] * get(field, first)
    return (total,)


def _values(
    field: int, orders: tuple[Order, ...], get: Any, coordinates: Any, extra: Any, parameters: Any
) -> tuple:
    return tuple(get(field, order) for order in orders)
