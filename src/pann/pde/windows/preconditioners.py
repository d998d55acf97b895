"""Three ways to solve a window's linearized equations, by how much of them is kept.

`dense` factorizes the whole Jacobian. `frozen` averages its coefficients over the window's time:
the nodes decouple, and each leaves a dense system in space. `constant` averages them over space as
well: on Fourier's functions each wave is left with a system as large as there are fields. The last
two are preconditioners; what they drop is left to GMRES.
"""

import dataclasses
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Complex, Float

from pann.pde.windows.system import RowValues, System, Window

Factors = Float[Array, "..."] | Complex[Array, "..."]


SOLVERS = ("dense", "frozen", "constant")
# The whole Jacobian is factorized up to this size; it takes the fewest words and compiles fast.
MAX_DENSE = 400


def choose_solver(system: System) -> str:
    """By size, and by whether the functions are waves."""
    if math.prod(system.shape) <= MAX_DENSE:
        return "dense"
    return "constant" if system.waves else "frozen"


def factorize(
    system: System, window: Window, unknowns: Float[Array, "..."], solver: str
) -> Factors:
    """The inverses that `apply` multiplies by."""
    if solver == "dense":
        return jnp.linalg.inv(jacobian(system, window, unknowns))
    channels = system.channel_values(system.grid, window, unknowns)
    slopes = system.slopes(system.grid, window, channels)
    by_order = (_frozen if solver == "frozen" else _constant)(system, window, slopes)
    scales = system.numbers / window.length ** jnp.arange(len(system.numbers))[:, None]
    each = [
        scale[(..., *[None] * matrix.ndim)] * matrix
        for scale, matrix in zip(scales, by_order, strict=True)
    ]
    return jnp.linalg.inv(sum(each[1:], start=each[0]))


def apply(
    system: System, factors: Factors, right: Float[Array, "..."], solver: str
) -> Float[Array, "..."]:
    """The solution of what was factorized; exact for `dense`."""
    if solver == "dense":
        return (factors @ right.ravel()).reshape(right.shape)
    moved = jnp.moveaxis(jnp.tensordot(right, system.into, axes=(-1, 1)), -1, 0)
    if solver == "frozen":
        flat = moved.reshape(len(moved), -1)
        solved = jnp.einsum("kij,kj->ki", factors, flat).reshape(moved.shape)
    else:
        solved = _from_waves(jnp.einsum("k...ij,kj...->ki...", factors, _to_waves(moved)))
    return jnp.tensordot(solved, system.back, axes=(0, 1)).real


def jacobian(
    system: System, window: Window, unknowns: Float[Array, "..."]
) -> Float[Array, "rows columns"]:
    """Of all rows by all unknowns."""
    _, along = jax.linearize(lambda unknowns: system.residual(window, unknowns), unknowns)
    units = jnp.eye(unknowns.size, dtype=unknowns.dtype).reshape(-1, *unknowns.shape)
    return jax.vmap(along)(units).reshape(unknowns.size, -1).T


# ---- Averaged over time ----


def _frozen(
    system: System, window: Window, slopes: tuple[Float[Array, "fields ..."], ...]
) -> list[Float[Array, "rows columns"]]:
    """The operator in space for every order of derivatives by time; conditions count as order 0."""
    means = [jnp.mean(slope, axis=-1, keepdims=True) for slope in slopes]
    # A single moment, at which a single function of time is 1.
    grid = dataclasses.replace(system.grid, times=jnp.ones(1), time_tables=(jnp.ones((1, 1)),))
    still = dataclasses.replace(system, grid=grid)
    size = system.num_fields * math.prod(system.space_shape)
    units = jnp.eye(size).reshape(size, system.num_fields, *system.space_shape, 1)

    def operator(in_time: int) -> Callable[[Array], Array]:
        at_moment = _at_moment(window, scale=float(in_time == 0))

        def of_one(unit: Float[Array, "fields ..."]) -> Float[Array, "fields ..."]:
            total = jnp.zeros((system.num_fields, *means[0].shape[1:]))
            for (field, order), mean in zip(system.channels, means, strict=True):
                if system.in_time(order) == in_time:
                    total = total + mean * grid.values(unit[field], system.in_space(order), 0)
            fields = [
                still.with_conditions(field, still.projected(total[field]), unit[field], at_moment)
                for field in range(system.num_fields)
            ]
            return jnp.stack(fields)

        return of_one

    return [jax.vmap(operator(k))(units).reshape(size, size).T for k in range(len(system.numbers))]


def _at_moment(window: Window, scale: float) -> Window:
    """The window with the linear part of its conditions, averaged over its time."""
    mean = lambda array: jnp.mean(array, axis=-1, keepdims=True)
    rows = tuple(
        tuple(
            RowValues(scale * mean(each.weights), jnp.zeros_like(mean(each.values)))
            for each in of_axis
        )
        for of_axis in window.row_values
    )
    return dataclasses.replace(window, row_values=rows)


# ---- Averaged over time and space ----


def _constant(
    system: System, window: Window, slopes: tuple[Float[Array, "fields ..."], ...]
) -> list[Complex[Array, "... rows columns"]]:
    """The symbol of every order of derivatives by time: a matrix of the fields for each wave."""
    fields = system.num_fields
    numbers = jnp.meshgrid(*system.waves, indexing="ij") if system.waves else []
    symbols = []
    for k in range(len(system.numbers)):
        symbol = jnp.zeros((*system.space_shape, fields, fields), complex)
        for (field, order), slope in zip(system.channels, slopes, strict=True):
            if system.in_time(order) != k:
                continue
            wave = jnp.ones(system.space_shape, complex)
            for number, times in zip(numbers, system.in_space(order), strict=True):
                wave = wave * (1j * number) ** times
            mean = jnp.mean(slope, axis=tuple(range(1, slope.ndim)))
            symbol = symbol.at[..., :, field].add(wave[..., None] * mean)
        symbols.append(symbol)
    return symbols


def _to_waves(real: Complex[Array, "kept fields ..."]) -> Complex[Array, "kept fields ..."]:
    """From 1, cos, sin, ... to exp(i k x) for k = 0, 1, ..., K, -1, ..., -K along each axis."""
    for axis in range(2, real.ndim):
        along = jnp.moveaxis(real, axis, 0)
        cosine, sine = along[1::2], along[2::2]
        waves = [along[:1], 0.5 * (cosine - 1j * sine), 0.5 * (cosine + 1j * sine)]
        real = jnp.moveaxis(jnp.concatenate(waves), 0, axis)
    return real


def _from_waves(waves: Complex[Array, "kept fields ..."]) -> Complex[Array, "kept fields ..."]:
    for axis in range(2, waves.ndim):
        along = jnp.moveaxis(waves, axis, 0)
        count = along.shape[0] // 2
        up, down = along[1 : count + 1], along[count + 1 :]
        pairs = jnp.stack([up + down, 1j * (up - down)], axis=1).reshape(-1, *along.shape[1:])
        waves = jnp.moveaxis(jnp.concatenate([along[:1], pairs]), 0, axis)
    return waves
