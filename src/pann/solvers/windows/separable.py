"""Constant coefficients along all axes: fast diagonalization (Lynch, Rice and Thomas, 1964).

Of each field's own equation those terms are kept that are derivatives along one axis, of one order
for each axis, with coefficients averaged over time and space. Conditions take the place of the
highest functions as everywhere: the last of an axis's coefficients are g - R times the others,
which leaves a square matrix for the derivative among the others. With its eigenvectors each
decoupled node is divided by numbers. Only even orders are taken: the eigenvectors of odd ones are
worse the more functions there are. The rest is left to GMRES.
"""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Complex, Float

from pann.pde.problem import Problem
from pann.solvers.windows.axes import Axes, SpaceAxis
from pann.solvers.windows.conditions import condition_rows, order_along, row_values
from pann.solvers.windows.operators import Tensor

# Beyond these conditions of the eigenvectors and of the rows for the highest functions there are
# no digits that help.
WORST_VECTORS, WORST_ROWS = 1e6, 1e13


class Diagonal(eqx.Module):
    """One field along one axis: the derivative's eigenvectors, and how conditions are met.

    The highest coefficients are `inverse` times what the conditions say less `others` times the
    rest; `inhomogeneous` is what the derivative makes of the first part.
    """

    numbers: Float[Array | np.ndarray, " kept"]
    into: Float[Array | np.ndarray, "kept kept"]
    back: Float[Array | np.ndarray, "kept kept"]
    inverse: Float[Array | np.ndarray, "rows rows"]
    others: Float[Array | np.ndarray, "rows kept"]
    inhomogeneous: Float[Array | np.ndarray, "kept rows"]
    order: int = eqx.field(static=True)


Diagonals = tuple[tuple[Diagonal, ...], ...]


def make_diagonals(problem: Problem, axes: Axes) -> Diagonals | None:
    """For every field and axis, with the conditions at the beginning of time; None without use."""
    if len(axes) < 2 or all(axis.is_fourier for axis in axes):
        return None
    names, times = problem.domain.names, np.array(problem.domain.times[:1])
    found = []
    for field in range(len(problem.fields)):
        each = []
        for number, axis in enumerate(axes):
            rows = condition_rows(problem, axis, field)
            given = row_values(problem, axes, number, field, times, len(rows)).weights
            weights = np.mean(np.asarray(given), axis=tuple(range(2, given.ndim)))
            order = order_along(problem, field, names.index(axis.name))
            each.append(diagonal(axis, order, np.einsum("rk,rkf->rf", weights, rows)))
        if any(along is None for along in each):
            return None
        found.append(tuple(along for along in each if along is not None))
    return tuple(found)


def diagonal(
    axis: SpaceAxis, order: int, forms: Float[np.ndarray, "rows functions"]
) -> Diagonal | None:
    """For the conditions of an axis as rows; None if rounding leaves nothing of it."""
    size, count = axis.num_functions, len(forms)
    kept = size - count
    inverse, others = np.zeros((0, 0)), np.zeros((0, kept))
    if count:
        if np.linalg.cond(forms[:, kept:]) > WORST_ROWS:
            return None
        inverse = np.linalg.inv(forms[:, kept:])
        others = np.linalg.solve(forms[:, kept:], forms[:, :kept])
    derivative = (
        axis.projection @ axis.table(axis.grid[0], order) if order else np.zeros((size, size))
    )
    if axis.is_fourier:
        # What is rounding would make Fourier modes, which are eigenvectors, look coupled.
        derivative[np.abs(derivative) <= 1e-12 * np.max(np.abs(derivative))] = 0.0
    derivative = derivative[:kept]
    matrix = derivative[:, :kept] - derivative[:, kept:] @ others
    is_diagonal = not np.any(matrix - np.diag(np.diag(matrix)))
    numbers, vectors = (np.diag(matrix), np.eye(kept)) if is_diagonal else np.linalg.eig(matrix)
    is_real = np.max(np.abs(numbers.imag), initial=0.0) <= 1e-6 * np.max(
        np.abs(numbers), initial=1e-300
    )
    if not is_real or np.linalg.cond(vectors) > WORST_VECTORS:
        return None
    vectors = vectors.real
    return Diagonal(
        numbers=np.ascontiguousarray(numbers.real),
        into=np.linalg.inv(vectors),
        back=vectors,
        inverse=inverse,
        others=others,
        inhomogeneous=derivative[:, kept:] @ inverse,
        order=order,
    )


class SeparableFactors(eqx.Module):
    """For each field: 1 / (operator on eigenvectors), and the averaged coefficient of each axis."""

    inverses: tuple[Complex[Array, "kept ..."], ...]
    coefficients: tuple[tuple[Float[Array, ""], ...], ...]


def solve_separable(
    diagonals: Diagonals,
    factors: SeparableFactors,
    right: Float[Array, "fields ..."],
    into: Complex[Array | np.ndarray, "kept nodes"],
    back: Complex[Array | np.ndarray, "functions kept"],
) -> Float[Array, "fields ..."]:
    """Field by field: real along the axes, complex only among the decoupled nodes."""
    found = []
    # Conditions are met at the nodes, whose values lead to coefficients in time.
    to_functions = (back @ into).real
    for field, each in enumerate(diagonals):
        inside, rows = _split(each, right[field])
        for axis, (along, given) in enumerate(zip(each, rows, strict=True)):
            if given.shape[axis]:
                part = _along(along.inhomogeneous, _inner(each, given, axis + 1), axis)
                inside = inside - factors.coefficients[field][axis] * part
        for axis, along in enumerate(each):
            inside = _along(along.into, inside, axis)
        nodes = jnp.moveaxis(jnp.tensordot(inside, into, axes=(-1, 1)), -1, 0)
        inside = jnp.tensordot(nodes * factors.inverses[field], back, axes=(0, 1)).real
        for axis, along in enumerate(each):
            inside = _along(along.back, inside, axis)
        for axis in reversed(range(len(each))):
            given = rows[axis] @ to_functions.T
            highest = _along(each[axis].inverse, given, axis) - _along(
                each[axis].others, inside, axis
            )
            inside = jnp.concatenate([inside, highest], axis=axis)
        found.append(inside)
    return jnp.stack(found)


def _split(each: tuple[Diagonal, ...], right: Tensor) -> tuple[Tensor, list[Tensor]]:
    """The equations inside, and the conditions of each axis; corners belong to the first axis."""
    rows = []
    for axis, along in enumerate(each):
        kept = len(along.numbers)
        right, given = jnp.split(right, [kept], axis=axis)
        rows.append(given)
    return right, rows


def _inner(each: tuple[Diagonal, ...], given: Tensor, first: int) -> Tensor:
    """Without the highest functions along the axes from a number on."""
    for axis in range(first, len(each)):
        given = given[(slice(None),) * axis + (slice(0, len(each[axis].numbers)),)]
    return given


def _along(matrix: Float[Array | np.ndarray, "m n"], tensor: Tensor, axis: int) -> Tensor:
    return jnp.moveaxis(jnp.tensordot(matrix, tensor, axes=(1, axis)), 0, axis)
