"""The equations averaged over a window's time, solved piece by piece along a single axis.

Within a piece the projected equations see its own functions alone. They are as many as the
functions less m, the orders of all fields, so that each piece has a particular solution and m free
ones. Continuity and the conditions at the
ends, m for each piece, determine the multiples of the free ones. This solves what the averages
leave as one dense matrix would, in work that grows with the pieces by far more slowly.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Complex, Float, Int

from pann.solvers.windows.operators import PiecewiseOperator
from pann.solvers.windows.system import Fields, System, Window


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
    system: System,
    window: Window,
    slopes: tuple[Fields, ...],
    scales: Complex[Array, "orders kept"],
) -> PieceFactors:
    """Factors of the equations whose derivatives by time are multiples: `scales` of each order."""
    equations = _equations(system, slopes, scales)[:, :, _kept(system)]
    particular, free = _solutions(equations)
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
    # One by one: batches of jaxlib's factorizations may wait for each other's threads for ever.
    return PieceFactors(particular, free, conditions, jax.lax.map(jnp.linalg.inv, joints))


def solve_pieces(
    system: System, factors: PieceFactors, right: Complex[Array, "kept fields functions"]
) -> Complex[Array, "kept fields functions"]:
    """The solution for decoupled right-hand sides."""
    axis = _axis(system)
    # Levels, pieces, then nodes and fields.
    local = axis.to_pieces(jnp.moveaxis(right, -1, 0))
    # In place of the highest functions of each field stand what its conditions say.
    size = right.shape[-1]
    given = [right[:, field, size - len(rows) :] for field, rows in enumerate(system.rows[0])]
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


def _solutions(
    equations: Complex[Array, "kept pieces equations unknowns"],
) -> tuple[
    Complex[Array, "kept pieces unknowns equations"], Complex[Array, "kept pieces unknowns free"]
]:
    """All solutions, by elimination of the largest unknown of each equation in turn.

    Those that are not eliminated are free. All pieces and nodes go through it side by side.
    """
    count, size = equations.shape[-2:]
    identity = jnp.broadcast_to(jnp.eye(count), (*equations.shape[:-1], count))
    chosen = jnp.zeros((*equations.shape[:-2], size))

    def eliminated(row: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
        rows, chosen = state
        pivot = rows[..., row, :]
        largest = jnp.argmax(jnp.abs(pivot[..., :size]) * (1 - chosen), axis=-1)
        column = jnp.take_along_axis(rows, largest[..., None, None], axis=-1)[..., 0]
        pivot = pivot / column[..., row][..., None]
        rows = rows - column[..., None] * pivot[..., None, :]
        return rows.at[..., row, :].set(pivot), chosen + jax.nn.one_hot(largest, size)

    start = jnp.concatenate([equations, identity], axis=-1)
    rows, chosen = jax.lax.fori_loop(0, count, eliminated, (start, chosen))
    left, inverse = rows[..., :size], rows[..., size:]
    # An eliminated unknown has a one in its own equation, and zeros in the others.
    places = jnp.round(jnp.real(left)) * chosen[..., None, :]
    outside = jnp.argsort(chosen, axis=-1, stable=True)[..., : size - count]
    free = jax.nn.one_hot(outside, size)
    of_free = jnp.einsum("nper,npsr->npes", left, free)
    solutions = jnp.swapaxes(free, -1, -2) - jnp.einsum("nper,npes->nprs", places, of_free)
    return jnp.einsum("nper,npef->nprf", places, inverse), solutions


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


def _by_field(
    system: System, flat: Complex[Array, "kept pieces unknowns ..."]
) -> Complex[Array, "kept pieces fields levels ..."]:
    shape = (system.num_fields, _axis(system).num_levels)
    return flat.reshape(*flat.shape[:2], *shape, *flat.shape[3:])


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
