"""The equations averaged over a window's time, solved piece by piece along a single axis.

Within a piece the projected equations see its own functions alone. They are as many as the
functions less m, the orders of all fields, so that each piece has a particular solution and m free
solutions, from the complete QR factorization of its equations. Continuity and the conditions at the
ends, m for each piece, determine the multiples of the free ones. This solves what the averages
leave as one dense matrix would, in work that grows with the pieces by far more slowly.
"""

import equinox as eqx
import jax.numpy as jnp
import jax.scipy.linalg
import numpy as np
from jaxtyping import Array, Complex, Float, Int

from pann.solvers.windows.operators import PiecewiseOperator
from pann.solvers.windows.system import Fields, System, Tensor, Window


class PieceFactors(eqx.Module):
    """For each decoupled node: solutions on the pieces, and what the conditions make of them.

    `particular` leads from the equations of a piece to its coefficients, `free` has the solutions
    without right-hand side; `conditions` are rows on the coefficients of each field, and `joints`
    the inverse of the conditions on the free solutions.
    """

    particular: Complex[Array, "kept pieces unknowns equations"]
    free: Complex[Array, "kept pieces unknowns free"]
    conditions: tuple[Float[Array, "_ levels pieces"], ...]
    joints: Complex[Array, "kept joints joints"]


def has_pieces(system: System) -> bool:
    """Whether there is one axis of space, of several pieces, with all the conditions it takes."""
    if len(system.grid.axes) != 1 or not isinstance(system.grid.axes[0], PiecewiseOperator):
        return False
    pieces = system.grid.axes[0].num_pieces
    return all(len(rows) % pieces == 0 for rows in system.rows[0])


def factorize_pieces(
    system: System, window: Window, slopes: tuple[Fields, ...], scales: Complex[Array, "orders kept"]
) -> PieceFactors:
    """Factors of the equations whose derivatives by time are multiples: `scales` of each order."""
    equations = _equations(system, slopes, scales)[:, :, _kept(system)]
    unknowns, count = equations.shape[-1], equations.shape[-2]
    adjoint = jnp.conj(jnp.swapaxes(equations, -1, -2))
    orthogonal, triangular = jnp.linalg.qr(adjoint, mode="complete")
    lower = jnp.conj(jnp.swapaxes(triangular[..., :count, :], -1, -2))
    identity = jnp.broadcast_to(jnp.eye(count, dtype=lower.dtype), lower.shape)
    inverse = jax.scipy.linalg.solve_triangular(lower, identity, lower=True)
    particular, free = orthogonal[..., :count] @ inverse, orthogonal[..., count:]
    conditions = _conditions(system, window)
    by_field = _by_field(system, free)
    joints = jnp.concatenate(
        [
            jnp.einsum("rlp,npls->nrps", rows, by_field[:, :, field])
            for field, rows in enumerate(conditions)
        ],
        axis=1,
    )
    joints = joints.reshape(*joints.shape[:2], -1)
    assert unknowns == system.num_fields * _axis(system).num_levels
    return PieceFactors(particular, free, conditions, jnp.linalg.inv(joints))


def solve_pieces(
    system: System, factors: PieceFactors, right: Complex[Array, "kept fields functions"]
) -> Complex[Array, "kept fields functions"]:
    """The solution for decoupled right-hand sides."""
    axis = _axis(system)
    # Levels, pieces, then nodes and fields.
    local = axis.to_pieces(jnp.moveaxis(right, -1, 0))
    given = [_given(system, right[:, field], field) for field in range(system.num_fields)]
    flat = jnp.moveaxis(local, (2, 1, 3, 0), (0, 1, 2, 3))
    flat = flat.reshape(*flat.shape[:2], -1)[:, :, _kept(system)]
    found = jnp.einsum("npue,npe->npu", factors.particular, flat)
    by_field = _by_field(system, found)
    missing = jnp.concatenate(
        [
            wanted - jnp.einsum("rlp,npl->nr", rows, by_field[:, :, field])
            for field, (rows, wanted) in enumerate(zip(factors.conditions, given, strict=True))
        ],
        axis=1,
    )
    multiples = jnp.einsum("nij,nj->ni", factors.joints, missing)
    multiples = multiples.reshape(*found.shape[:2], -1)
    found = found + jnp.einsum("npus,nps->npu", factors.free, multiples)
    coefficients = axis.from_pieces(jnp.moveaxis(_by_field(system, found), (3, 1), (0, 1)))
    return jnp.moveaxis(coefficients, 0, -1)


def _axis(system: System) -> PiecewiseOperator:
    (axis,) = system.grid.axes
    assert isinstance(axis, PiecewiseOperator)
    return axis


def _kept(system: System) -> Int[np.ndarray, " equations"]:
    """The equations of a piece, by field and level, that no conditions replace."""
    axis = _axis(system)
    levels = np.arange(axis.num_levels)
    orders = [len(rows) // axis.num_pieces for rows in system.rows[0]]
    kept = [levels < axis.num_levels - order for order in orders]
    return np.flatnonzero(np.concatenate(kept))


def _by_field(system: System, flat: Complex[Array, "kept pieces unknowns ..."]) -> Tensor:
    shape = (system.num_fields, _axis(system).num_levels)
    return flat.reshape(*flat.shape[:2], *shape, *flat.shape[3:])


def _given(
    system: System, right: Complex[Array, "kept functions"], field: int
) -> Complex[Array, "kept rows"]:
    """The right-hand sides of a field's conditions, in place of its highest functions."""
    return right[:, right.shape[1] - len(system.rows[0][field]) :]


def _equations(
    system: System, slopes: tuple[Fields, ...], scales: Complex[Array, "orders kept"]
) -> Complex[Array, "kept pieces unknowns unknowns"]:
    """All equations of each piece: the averaged slopes between its functions, projected."""
    axis = _axis(system)
    fields, levels, pieces = system.num_fields, axis.num_levels, axis.num_pieces
    total = [jnp.zeros((pieces, fields, levels, fields, levels)) for _ in scales]
    for (field, order), slope in zip(system.channels, slopes, strict=True):
        (along,), in_time = system.in_space(order), system.in_time(order)
        mean = jnp.mean(slope, -1).reshape(fields, pieces, -1)
        mean = mean * axis.stretch[:, None] ** along
        block = jnp.einsum("lq,fpq,qm->pflm", axis.projection, mean, axis.tables[along])
        total[in_time] = total[in_time].at[:, :, :, field].add(block)
    size = fields * levels
    return jnp.einsum("kn,kpij->npij", scales, jnp.stack(total).reshape(-1, pieces, size, size))


def _conditions(system: System, window: Window) -> tuple[Float[Array, "_ levels pieces"], ...]:
    """The conditions of each field, averaged over the window, on the coefficients of the pieces."""
    axis, found = _axis(system), []
    for rows, given in zip(system.rows[0], window.row_values[0], strict=True):
        forms = jnp.einsum("rk,rkf->rf", jnp.mean(given.weights, -1), rows)
        forms = forms.reshape(-1, axis.num_levels, axis.num_pieces)
        constants = forms[:, 0] @ axis.from_constants
        found.append(jnp.concatenate([constants[:, None], forms[:, 1:]], axis=1))
    return tuple(found)
