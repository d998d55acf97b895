"""A collocation system on a shape as a least-squares problem, put together by NumPy.

Every degree has other numbers of points and terms, and a compiled step would be a program for each:
compiling them took longer than all their factorizations. Here the equation alone is compiled, for
so many points at a time, and one program serves all degrees, steps and verdicts.
"""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple, final

import jax
import numpy as np
from jaxtyping import Float

from pann.basis import ShapeBasis
from pann.network.jets import in_terms
from pann.numerics import gauss_newton
from pann.numerics.gauss_newton import FullStep
from pann.numerics.least_squares import Triangle, triangle_of
from pann.pde.collocation import Placed, linearized, make_block
from pann.pde.operators import Equation
from pann.pde.problem import Problem
from pann.solvers.newton import Rows, Unknowns
from pann.solvers.setup import NUM_FRESH

Tables = list[Float[np.ndarray, "points terms"]]


class Equations(NamedTuple):
    """The equation at points: blocks of equally many of them, the last filled up, and tables."""

    blocks: list[Any]
    tables: Tables
    num_points: int


class Given(NamedTuple):
    """A condition, which is linear: rows of one field, and values."""

    field: int
    rows: Float[np.ndarray, "rows terms"]
    values: Float[np.ndarray, " rows"]


@final
class ShapeRows(Rows):
    """All rows of a problem in one basis, in double precision."""

    def __init__(self, problem: Problem, placed: Sequence[Placed], basis: ShapeBasis) -> None:
        self.num_terms, self.num_fields = len(basis), len(problem.fields)
        self.num_parameters = len(problem.parameters)
        self.equation = _equation(problem, placed[0], basis)
        self.given = [rows for each in placed[1:] for rows in _given(each, basis, self.num_fields)]
        self.num_rows = self.equation.num_points * problem.asked.num_residuals
        self.num_rows += sum(len(each.values) for each in self.given)
        self._last: tuple[Slopes, Triangle] | None = None

    def full_step(self, unknowns: Unknowns) -> FullStep:
        """A step and its correction, as `pann.numerics.gauss_newton.full_step` has them."""
        residual, slopes = self._linearized(unknowns)
        if self._last is not None and self._last[0].has_slopes_of(slopes):
            # Of a linear equation there is one matrix.
            factor = self._last[1]
            columns = factor.corrected(self._transposed(slopes, residual))
        else:
            matrix = self._matrix(slopes, extra=1)
            matrix[:, -1] = residual
            columns, factor = triangle_of(matrix)
        self._last = slopes, factor
        step = self._tree(columns, unknowns)
        once = gauss_newton.minus(unknowns, step)
        left = self._residual(once)
        correction = self._tree(factor.corrected(self._transposed(slopes, left)), unknowns)
        twice = gauss_newton.minus(once, correction)
        first, second = float(left @ left), self.sum_of_squares(twice)
        small, size = _relative(correction, twice), _relative(step, once)
        is_better = second < first
        is_last = small <= gauss_newton.SMALL and first - second <= gauss_newton.NO_FALL * first
        figures = [
            float(residual @ residual),
            second if is_better else first,
            small if is_better else size,
            float(is_last),
        ]
        return FullStep(step, twice if is_better else once, np.asarray(figures), factor)

    def shortened(
        self, unknowns: Unknowns, step: Unknowns, fraction: float
    ) -> tuple[Unknowns, float]:
        moved = gauss_newton.minus(unknowns, step, fraction)
        return moved, self.sum_of_squares(moved)

    def sum_of_squares(self, unknowns: Unknowns) -> float:
        residual = self._residual(unknowns)
        return float(residual @ residual)

    def _residual(self, unknowns: Unknowns) -> Float[np.ndarray, " rows"]:
        return self._linearized(unknowns)[0]

    def _linearized(self, unknowns: Unknowns) -> tuple[Float[np.ndarray, " rows"], "Slopes"]:
        b = np.asarray(unknowns.b)
        channels = np.stack([table @ b for table in self.equation.tables])
        found = linearized_at(self.equation.blocks, channels, unknowns.parameters)
        conditions = [each.rows @ b[:, each.field] - each.values for each in self.given]
        residual = np.concatenate([found.residual.ravel(), *conditions])
        return residual, found

    def _matrix(self, slopes: "Slopes", extra: int) -> Float[np.ndarray, "rows columns"]:
        """The Jacobian in Fortran order, with room for more columns; fields one after another."""
        size, count = self.num_terms, self.num_fields * self.num_terms
        matrix = np.zeros((self.num_rows, count + self.num_parameters + extra), order="F")
        points, residuals = slopes.residual.shape
        inside = points * residuals
        for field in range(self.num_fields):
            columns = slice(field * size, (field + 1) * size)
            for number in range(residuals):
                rows = matrix[number:inside:residuals, columns]
                for order, table in enumerate(self.equation.tables):
                    if np.any(by := slopes.by_channel[order, field, :, number]):
                        rows += by[:, None] * table
        matrix[:inside, count : count + self.num_parameters] = slopes.by_parameter
        start = inside
        for each in self.given:
            end = start + len(each.values)
            matrix[start:end, each.field * size : (each.field + 1) * size] = each.rows
            start = end
        return matrix

    def _transposed(
        self, slopes: "Slopes", residual: Float[np.ndarray, " rows"]
    ) -> Float[np.ndarray, " columns"]:
        """J^T r without J."""
        points, residuals = slopes.residual.shape
        inside = residual[: points * residuals].reshape(points, residuals)
        weighted = np.einsum("ofpr,pr->ofp", slopes.by_channel, inside)
        b = np.zeros((self.num_fields, self.num_terms))
        for order, table in enumerate(self.equation.tables):
            b += weighted[order] @ table
        start = points * residuals
        for each in self.given:
            end = start + len(each.values)
            b[each.field] += residual[start:end] @ each.rows
            start = end
        return np.concatenate([b.ravel(), slopes.by_parameter.T @ inside.ravel()])

    def _tree(self, columns: Float[np.ndarray, " columns"], like: Unknowns) -> Unknowns:
        count = self.num_terms * self.num_fields
        b = columns[:count].reshape(self.num_fields, self.num_terms).T
        rest = columns[count:]
        return Unknowns(b, {name: rest[i] for i, name in enumerate(like.parameters)})


class Slopes(NamedTuple):
    """The residual of an equation at points, and its derivatives by channels and parameters."""

    residual: Float[np.ndarray, "points residuals"]
    by_channel: Float[np.ndarray, "orders fields points residuals"]
    by_parameter: Float[np.ndarray, "rows parameters"]

    def has_slopes_of(self, other: "Slopes") -> bool:
        return np.array_equal(self.by_channel, other.by_channel) and np.array_equal(
            self.by_parameter, other.by_parameter
        )


def linearized_at(
    blocks: Sequence[Any], channels: Float[np.ndarray, "orders points fields"], parameters: Any
) -> Slopes:
    """The equation at all points of `channels`, a block of them at a time."""
    count, size = channels.shape[1], len(blocks[0].x)
    padded = np.pad(channels, ((0, 0), (0, len(blocks) * size - count), (0, 0)), mode="edge")
    found = [
        linearized(block, part, parameters)
        for block, part in zip(blocks, np.split(padded, len(blocks), axis=1), strict=True)
    ]
    residual, by_channel, by_parameter = zip(*found, strict=True)
    whole = np.concatenate(residual)[:count]
    slopes = np.concatenate(by_channel, axis=2)[:, :, :count]
    return Slopes(whole, slopes, np.concatenate(by_parameter)[: whole.size])


def _equation(problem: Problem, placed: Placed, basis: ShapeBasis) -> Equations:
    """Blocks that are as large as those of verdicts, with which they share a program."""
    count = len(placed.points)
    whole = make_block(placed, problem, None, "float64")
    pad = lambda array: np.pad(
        np.asarray(array), ((0, -count % NUM_FRESH), *((0, 0),) * (np.ndim(array) - 1)), mode="edge"
    )
    arrays, tree = jax.tree.flatten(whole)
    pieces = [np.split(pad(array), -(-count // NUM_FRESH)) for array in arrays]
    blocks = [jax.tree.unflatten(tree, each) for each in zip(*pieces, strict=True)]
    orders = in_terms(placed.orders)
    tables = basis.tables(placed.points, orders)
    return Equations(blocks, [tables[order] for order in orders], count)


def _given(placed: Placed, basis: ShapeBasis, num_fields: int) -> list[Given]:
    """Rows of a condition: what its operator makes of all terms."""
    assert not isinstance(placed.operator, Equation)
    points, orders = placed.points, in_terms(placed.orders)
    operator: Any = placed.operator  # arithmetic, which arrays of NumPy have as well
    tables = {
        order: placed.differences(functools.partial(basis.table, derivative=order)).T
        for order in orders
    }
    nothing = {order: np.zeros((1, len(points))) for order in orders}
    target = placed.target.reshape(len(points), -1)
    scale = placed.weight * len(points) ** -0.5
    at_zero = operator(lambda _, order: nothing[order], points, {})
    found = []
    for field in range(num_fields):
        get = lambda own, order, field=field: (tables if own == field else nothing)[order]
        for number, (rows, zero) in enumerate(zip(operator(get, points, {}), at_zero, strict=True)):
            own = np.broadcast_to(rows - zero, (len(basis), len(points)))
            if np.any(own):
                values = target[:, number] - np.ravel(zero)
                found.append(Given(field, scale * own.T, scale * values))
    return found


def _relative(step: Unknowns, unknowns: Unknowns) -> float:
    """The largest relative size of a step, in b or in a parameter."""
    both = zip(jax.tree.leaves(step), jax.tree.leaves(unknowns), strict=True)
    return max(float(np.linalg.norm(a)) / max(float(np.linalg.norm(b)), 1e-300) for a, b in both)
