"""Three ways to solve a window's linearized equations, by how much of them is kept.

`dense` factorizes the whole Jacobian. `frozen` averages its coefficients over the window's time:
the nodes decouple, and each leaves a dense system in space. `constant` averages them along periodic
axes as well: each wave is left with a system of the fields and the functions of the other axes. The
last two are preconditioners; what they drop is left to GMRES.
"""

import dataclasses
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Complex, Float

from pann.errors import WindowsFailed
from pann.pde.fields import Order
from pann.solvers.windows.system import RowValues, System, Window

Factors = Float[Array, "..."] | Complex[Array, "..."]


SOLVERS = ("dense", "frozen", "constant")
# The whole Jacobian is factorized up to this size; it takes the fewest words and compiles fast.
MAX_DENSE = 400
# Dense systems in space: up to this size where there are waves to average along, and at all.
MAX_FROZEN, LARGEST = 1_500, 4_000


def choose_solver(system: System) -> str:
    """By size, and by whether some of the functions are waves."""
    if math.prod(system.shape) <= MAX_DENSE:
        return "dense"
    all_waves = len(system.wave_axes) == len(system.space_shape)
    small = system.num_fields * math.prod(system.space_shape) <= MAX_FROZEN
    return "frozen" if not system.wave_axes or (small and not all_waves) else "constant"


def check_memory(system: System, solver: str) -> None:
    """Refuse dense systems that no memory holds, before they are made."""
    sizes = [
        size
        for axis, size in enumerate(system.space_shape)
        if solver != "constant" or axis not in system.wave_axes
    ]
    count = system.num_fields * math.prod(sizes)
    if count > LARGEST:
        raise WindowsFailed(
            f"the solver '{solver}' has dense systems of {count:,} unknowns in space, more than "
            f"{LARGEST:,}; make axes periodic where they are, give fewer modes to solve_in_windows "
            "or solve with windows=0, one system over the whole of time"
        )


def factorize(
    system: System, window: Window, unknowns: Float[Array, "..."], solver: str
) -> Factors:
    """The inverses that `apply` multiplies by."""
    if solver == "dense":
        return jnp.linalg.inv(jacobian(system, window, unknowns))
    channels = system.channel_values(system.grid, window, unknowns)
    slopes = system.slopes(system.grid, window, channels)
    waves = system.wave_axes if solver == "constant" else ()
    by_order = _averaged(system, window, slopes, waves)
    scales = system.numbers / window.length ** jnp.arange(len(system.numbers))[:, None]
    each = [
        scale[(..., *[None] * matrix.ndim)] * matrix
        for scale, matrix in zip(scales, by_order, strict=True)
    ]
    return _inverse(sum(each[1:], start=each[0]))


def _inverse(matrix: Complex[Array, "... n n"]) -> Complex[Array, "... n n"]:
    """Of one or two fields per wave by formula, which compiles and runs faster than LU."""
    if matrix.shape[-1] == 1:
        return 1.0 / matrix
    if matrix.shape[-1] == 2:
        a, b, c, d = (matrix[..., i, j] for i in range(2) for j in range(2))
        adjugate = jnp.stack([jnp.stack([d, -b], -1), jnp.stack([-c, a], -1)], -2)
        return adjugate / (a * d - b * c)[..., None, None]
    return jnp.linalg.inv(matrix)


def apply(
    system: System, factors: Factors, right: Float[Array, "..."], solver: str
) -> Float[Array, "..."]:
    """The solution of what was factorized; exact for `dense`."""
    if solver == "dense":
        return (factors @ right.ravel()).reshape(right.shape)
    moved = jnp.moveaxis(jnp.tensordot(right, system.into, axes=(-1, 1)), -1, 0)
    waves = tuple(2 + axis for axis in (system.wave_axes if solver == "constant" else ()))
    in_front = tuple(range(1, 1 + len(waves)))
    split = jnp.moveaxis(_to_waves(moved, waves), waves, in_front)
    flat = split.reshape(*split.shape[: 1 + len(waves)], -1)
    solved = jnp.einsum("...ij,...j->...i", factors, flat).reshape(split.shape)
    joined = _from_waves(jnp.moveaxis(solved, in_front, waves), waves)
    return jnp.tensordot(joined, system.back, axes=(0, 1)).real


def jacobian(
    system: System, window: Window, unknowns: Float[Array, "..."]
) -> Float[Array, "rows columns"]:
    """Of all rows by all unknowns."""
    _, along = jax.linearize(lambda unknowns: system.residual(window, unknowns), unknowns)
    units = jnp.eye(unknowns.size, dtype=unknowns.dtype).reshape(-1, *unknowns.shape)
    return jax.vmap(along)(units).reshape(unknowns.size, -1).T


# ---- Averaged over time, and along waves ----


def _averaged(
    system: System,
    window: Window,
    slopes: tuple[Float[Array, "fields ..."], ...],
    waves: tuple[int, ...],
) -> list[Float[Array, "... rows columns"] | Complex[Array, "... rows columns"]]:
    """The operator in space for every order of derivatives by time; conditions count as order 0.

    Along the axes of `waves` derivatives are numbers, so that each wave has a matrix of the fields
    and the functions of the other axes.
    """
    of_space = tuple(1 + axis for axis in waves)
    means = [jnp.mean(jnp.mean(slope, -1, keepdims=True), of_space) for slope in slopes]
    still = _still(system, waves)
    size = system.num_fields * math.prod(still.space_shape)
    units = jnp.eye(size).reshape(size, system.num_fields, *still.space_shape, 1)
    split = [(system.in_time(order), *_split(system, order, waves)) for _, order in system.channels]

    def operator(in_time: int, along: tuple[int, ...]) -> Callable[[Array], Array]:
        at_moment = _at_moment(window, waves, scale=float(in_time == 0 and not any(along)))

        def of_one(unit: Float[Array, "fields ..."]) -> Float[Array, "fields ..."]:
            total = jnp.zeros((system.num_fields, *means[0].shape[1:]))
            for (field, _), (k, of_waves, others), mean in zip(
                system.channels, split, means, strict=True
            ):
                if (k, of_waves) == (in_time, along):
                    total = total + mean * still.grid.values(unit[field], others, 0)
            fields = [
                still.with_conditions(field, still.projected(total[field]), unit[field], at_moment)
                for field in range(system.num_fields)
            ]
            return jnp.stack(fields)

        return of_one

    none = (0,) * len(waves)
    found = []
    for k in range(len(system.numbers)):
        orders = {none, *(of_waves for in_time, of_waves, _ in split if in_time == k)}
        matrices = {
            along: jax.vmap(operator(k, along))(units).reshape(size, size).T
            for along in sorted(orders)
        }
        each = [_symbol(system, waves, along) * matrix for along, matrix in matrices.items()]
        found.append(sum(each[1:], start=each[0]))
    return found


def _still(system: System, waves: tuple[int, ...]) -> System:
    """A single moment, at which a single function of time is 1, and the axes that have no waves."""
    pick = lambda parts: tuple(part for axis, part in enumerate(parts) if axis not in waves)
    grid = dataclasses.replace(
        system.grid,
        points=pick(system.grid.points),
        tables=pick(system.grid.tables),
        times=jnp.ones(1),
        time_tables=(jnp.ones((1, 1)),),
    )
    return dataclasses.replace(
        system, grid=grid, projections=pick(system.projections), rows=pick(system.rows)
    )


def _split(
    system: System, order: Order, waves: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The orders of a derivative along waves, and along the other axes of space."""
    in_space = system.in_space(order)
    others = tuple(times for axis, times in enumerate(in_space) if axis not in waves)
    return tuple(in_space[axis] for axis in waves), others


def _at_moment(window: Window, waves: tuple[int, ...], scale: float) -> Window:
    """The window with the linear part of its conditions, averaged over its time and along waves."""

    def mean(array: Float[Array, "..."], axis: int, leading: int) -> Float[Array, "..."]:
        # The face of an axis has all axes but that one.
        along = tuple(leading + wave - (wave > axis) for wave in waves)
        return jnp.mean(jnp.mean(array, -1, keepdims=True), along)

    rows = tuple(
        tuple(
            RowValues(
                scale * mean(each.weights, axis, 2), jnp.zeros_like(mean(each.values, axis, 1))
            )
            for each in of_axis
        )
        for axis, of_axis in enumerate(window.row_values)
        if axis not in waves
    )
    return dataclasses.replace(window, row_values=rows)


def _symbol(
    system: System, waves: tuple[int, ...], along: tuple[int, ...]
) -> Float[Array, "..."] | Complex[Array, "..."]:
    """What a derivative along waves multiplies each of them by, with two axes for a matrix."""
    if not any(along):
        return jnp.ones((1,) * (len(waves) + 2))
    numbers = jnp.meshgrid(*(system.waves[axis] for axis in waves), indexing="ij")
    symbol = jnp.ones(numbers[0].shape, complex)
    for number, times in zip(numbers, along, strict=True):
        symbol = symbol * (1j * number) ** times
    return symbol[..., None, None]


def _to_waves(
    real: Complex[Array, "kept fields ..."], axes: tuple[int, ...]
) -> Complex[Array, "kept fields ..."]:
    """From 1, cos, sin, ... to exp(i k x) for k = 0, 1, ..., K, -1, ..., -K along some axes."""
    for axis in axes:
        along = jnp.moveaxis(real, axis, 0)
        cosine, sine = along[1::2], along[2::2]
        waves = [along[:1], 0.5 * (cosine - 1j * sine), 0.5 * (cosine + 1j * sine)]
        real = jnp.moveaxis(jnp.concatenate(waves), 0, axis)
    return real


def _from_waves(
    waves: Complex[Array, "kept fields ..."], axes: tuple[int, ...]
) -> Complex[Array, "kept fields ..."]:
    for axis in axes:
        along = jnp.moveaxis(waves, axis, 0)
        count = along.shape[0] // 2
        up, down = along[1 : count + 1], along[count + 1 :]
        pairs = jnp.stack([up + down, 1j * (up - down)], axis=1).reshape(-1, *along.shape[1:])
        waves = jnp.moveaxis(jnp.concatenate([along[:1], pairs]), 0, axis)
    return waves
