"""Ways to solve a window's linearized equations, by how much of them is kept.

`dense` factorizes the whole Jacobian. The others are preconditioners; what they drop is left to
GMRES. `frozen` averages the coefficients over the window's time: the nodes decouple, and each
leaves a dense system in space. `pieces` solves the same for a single axis on several elements,
element by element. `constant` averages along periodic axes as well: each Fourier mode is left with
a system of the fields and the functions of the other axes. `separable` averages along all axes.
"""

import dataclasses
import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Complex, Float

from pann.errors import WindowsFailed
from pann.solvers.windows.conditions import RowValues
from pann.solvers.windows.pieces import PieceFactors, factorize_pieces, has_pieces, solve_pieces
from pann.solvers.windows.separable import SeparableFactors, solve_separable
from pann.solvers.windows.system import Fields, System, Tensor, Window

# Real, or complex where nodes are decoupled.
Inverses = Float[Array, "..."] | Complex[Array, "..."]
Factors = Inverses | PieceFactors | SeparableFactors
Modes = Complex[Array, "kept fields ..."]

# The whole Jacobian is factorized up to this size: it is the simplest, and compiles fast.
MAX_DENSE = 400
# Where constant coefficients along all axes are another way: dense systems up to this size.
MAX_BESIDE_SEPARABLE = 600
NEEDS = {
    "pieces": "a single axis of space on several elements",
    "separable": "two axes of space or more, not all periodic, with derivatives of even order",
}
# Dense systems in space: up to this size where there are Fourier modes instead, and at all.
MAX_FROZEN, LARGEST = 1_500, 4_000


def choose_solver(system: System, given: str | None) -> str:
    """The one given, or by size, and by whether some of the functions are Fourier modes.

    Dense systems that no memory holds are refused before they are made.
    """
    solver = given or _by_size(system)
    if solver in ("pieces", "separable"):
        applies = has_pieces(system) if solver == "pieces" else system.diagonals is not None
        if not applies:
            raise WindowsFailed(f"the solver '{solver}' needs {NEEDS[solver]}; leave it out")
        return solver
    modes = _mode_axes(system, solver)
    sizes = [size for axis, size in enumerate(system.space_shape) if axis not in modes]
    count = system.num_fields * math.prod(sizes)
    if count > LARGEST:
        raise WindowsFailed(
            f"the solver '{solver}' has dense systems of {count:,} unknowns in space, more than "
            f"{LARGEST:,}; make axes periodic where they are, give fewer modes, "
            "pann.Windows(modes=...), or use pann.Hybrid(), one system over the whole of time"
        )
    return solver


def _by_size(system: System) -> str:
    if math.prod(system.shape) <= MAX_DENSE:
        return "dense"
    if has_pieces(system):
        return "pieces"
    fields, only_fourier = system.num_fields, len(system.fourier_axes) == len(system.space_shape)
    modes = _mode_axes(system, "constant")
    rest = math.prod(size for axis, size in enumerate(system.space_shape) if axis not in modes)
    if system.diagonals is not None and fields * rest > MAX_BESIDE_SEPARABLE:
        return "separable"
    small = fields * math.prod(system.space_shape) <= MAX_FROZEN
    return "frozen" if not system.fourier_axes or (small and not only_fourier) else "constant"


def _mode_axes(system: System, solver: str) -> tuple[int, ...]:
    """The axes along which a solver takes Fourier modes one by one."""
    return system.fourier_axes if solver == "constant" else ()


def factorize(system: System, window: Window, unknowns: Tensor, solver: str) -> Factors:
    """The inverses that `apply` multiplies by."""
    if solver == "dense":
        jacobian = jax.jacfwd(lambda unknowns: system.residual(window, unknowns))(unknowns)
        return jnp.linalg.inv(jacobian.reshape(unknowns.size, unknowns.size))
    channels = system.channel_values(system.grid, window, unknowns)
    slopes = system.slopes(system.grid, window, channels)
    numbers = jnp.asarray(system.decoupled.numbers)
    scales = numbers / window.length ** jnp.arange(len(numbers))[:, None]
    if solver == "pieces":
        return factorize_pieces(system, window, slopes, scales)
    if solver == "separable":
        return _separated(system, slopes, scales)
    by_order = _averaged(system, window, slopes, _mode_axes(system, solver))
    each = [
        scale[(..., *[None] * matrix.ndim)] * matrix
        for scale, matrix in zip(scales, by_order, strict=True)
    ]
    return _inverse(sum(each[1:], start=each[0]))


def _inverse(matrix: Complex[Array, "... n n"]) -> Complex[Array, "... n n"]:
    """Of one or two fields per mode by formula, which compiles and runs faster than LU."""
    if matrix.shape[-1] == 1:
        return 1.0 / matrix
    if matrix.shape[-1] == 2:
        a, b, c, d = (matrix[..., i, j] for i in range(2) for j in range(2))
        adjugate = jnp.stack([jnp.stack([d, -b], -1), jnp.stack([-c, a], -1)], -2)
        return adjugate / (a * d - b * c)[..., None, None]
    return jnp.linalg.inv(matrix)


def apply(system: System, factors: Factors, right: Tensor, solver: str) -> Tensor:
    """The solution of what was factorized; exact for `dense`."""
    if isinstance(factors, PieceFactors):
        decoupled = jnp.moveaxis(jnp.tensordot(right, system.decoupled.into, axes=(-1, 1)), -1, 0)
        solved = solve_pieces(system, factors, decoupled)
        return jnp.tensordot(solved, system.decoupled.back, axes=(0, 1)).real
    if isinstance(factors, SeparableFactors):
        assert system.diagonals is not None
        parts = system.decoupled
        return solve_separable(system.diagonals, factors, right, parts.into, parts.back)
    if solver == "dense":
        return (factors @ right.ravel()).reshape(right.shape)
    moved = jnp.moveaxis(jnp.tensordot(right, system.decoupled.into, axes=(-1, 1)), -1, 0)
    modes = tuple(2 + axis for axis in _mode_axes(system, solver))
    in_front = tuple(range(1, 1 + len(modes)))
    split = jnp.moveaxis(_to_modes(moved, modes), modes, in_front)
    flat = split.reshape(*split.shape[: 1 + len(modes)], -1)
    solved = jnp.einsum("...ij,...j->...i", factors, flat).reshape(split.shape)
    joined = _from_modes(jnp.moveaxis(solved, in_front, modes), modes)
    return jnp.tensordot(joined, system.decoupled.back, axes=(0, 1)).real


# ---- Averages over time and space ----


def _separated(
    system: System, slopes: tuple[Fields, ...], scales: Complex[Array, "orders kept"]
) -> SeparableFactors:
    """Of each field's own equation the averages that `solve_separable` takes."""
    assert system.diagonals is not None
    inverses, coefficients = [], []
    for field, each in enumerate(system.diagonals):
        still, along = jnp.zeros_like(scales[:, 0]), [jnp.zeros(()) for _ in each]
        for (number, order), slope in zip(system.channels, slopes, strict=True):
            in_space, in_time, mean = system.in_space(order), system.in_time(order), slope[field]
            if number != field:
                continue
            if not any(in_space):
                still = still.at[in_time].add(jnp.mean(mean))
            for axis, diagonal in enumerate(each):
                if (
                    in_time == 0
                    and diagonal.order
                    and in_space[axis] == diagonal.order == sum(in_space)
                ):
                    along[axis] = along[axis] + jnp.mean(mean)
        total = (still @ scales)[(slice(None), *[None] * len(each))]
        for axis, (diagonal, coefficient) in enumerate(zip(each, along, strict=True)):
            shape = [1] * (len(each) + 1)
            shape[axis + 1] = -1
            total = total + coefficient * diagonal.numbers.reshape(shape)
        inverses.append(1.0 / total)
        coefficients.append(tuple(along))
    return SeparableFactors(tuple(inverses), tuple(coefficients))


# ---- Averages over time, and along Fourier modes ----


def _averaged(
    system: System,
    window: Window,
    slopes: tuple[Fields, ...],
    modes: tuple[int, ...],
) -> list[Inverses]:
    """The operator in space for every order of derivatives by time; conditions count as order 0.

    Along the axes of `modes` derivatives are numbers, so that each mode has a matrix of the fields
    and the functions of the other axes.
    """
    means = [
        jnp.mean(jnp.mean(slope, -1, keepdims=True), tuple(1 + axis for axis in modes))
        for slope in slopes
    ]
    still = _without_time(system, modes)
    nothing = jnp.zeros((system.num_fields, *still.space_shape, 1))
    # Of each channel the orders in time, along modes, and along the other axes.
    split = []
    for _, order in system.channels:
        in_space = system.in_space(order)
        others = tuple(k for axis, k in enumerate(in_space) if axis not in modes)
        split.append((system.in_time(order), tuple(in_space[axis] for axis in modes), others))

    def matrix(in_time: int, along: tuple[int, ...]) -> Float[Array, "size size"]:
        has_conditions = in_time == 0 and not any(along)
        averaged = _averaged_window(window, modes, scale=float(has_conditions))

        def operator(whole: Fields) -> Fields:
            total = jnp.zeros((system.num_fields, *means[0].shape[1:]))
            for (field, _), (k, of_modes, others), mean in zip(
                system.channels, split, means, strict=True
            ):
                if (k, of_modes) == (in_time, along):
                    total = total + mean * still.grid.values(whole[field], others, 0)
            return still.with_conditions(total, whole, averaged)

        return jax.jacfwd(operator)(nothing).reshape(nothing.size, nothing.size)

    none = (0,) * len(modes)
    found = []
    for k in range(len(system.decoupled.numbers)):
        orders = {none, *(of_modes for in_time, of_modes, _ in split if in_time == k)}
        each = [_symbol(system, modes, along) * matrix(k, along) for along in sorted(orders)]
        found.append(sum(each[1:], start=each[0]))
    return found


def _without_time(system: System, modes: tuple[int, ...]) -> System:
    """A single time, at which a single function of time is 1, and the axes that are not `modes`."""
    pick = lambda parts: tuple(part for axis, part in enumerate(parts) if axis not in modes)
    grid = dataclasses.replace(
        system.grid,
        points=pick(system.grid.points),
        axes=pick(system.grid.axes),
        times=jnp.ones(1),
        time_tables=(jnp.ones((1, 1)),),
    )
    return dataclasses.replace(system, grid=grid, rows=pick(system.rows))


def _averaged_window(window: Window, modes: tuple[int, ...], scale: float) -> Window:
    """The window with the linear part of its conditions, averaged over its time and along modes."""

    def mean(array: Tensor, axis: int, leading: int) -> Tensor:
        # The face of an axis has all axes but that one.
        along = tuple(leading + mode - (mode > axis) for mode in modes)
        return jnp.mean(jnp.mean(array, -1, keepdims=True), along)

    rows = tuple(
        tuple(
            RowValues(
                scale * mean(each.weights, axis, 2), jnp.zeros_like(mean(each.values, axis, 1))
            )
            for each in of_axis
        )
        for axis, of_axis in enumerate(window.row_values)
        if axis not in modes
    )
    return dataclasses.replace(window, row_values=rows)


def _symbol(system: System, modes: tuple[int, ...], along: tuple[int, ...]) -> Inverses:
    """What a derivative multiplies each mode by, with two axes for a matrix."""
    if not any(along):
        return jnp.ones((1,) * (len(modes) + 2))
    numbers = jnp.meshgrid(*(system.wavenumbers[axis] for axis in modes), indexing="ij")
    symbol = jnp.ones(numbers[0].shape, complex)
    for number, order in zip(numbers, along, strict=True):
        symbol = symbol * (1j * number) ** order
    return symbol[..., None, None]


def _to_modes(real: Modes, axes: tuple[int, ...]) -> Modes:
    """From 1, cos, sin, ... to exp(i k x) for k = 0, 1, ..., K, -1, ..., -K along some axes."""
    for axis in axes:
        along = jnp.moveaxis(real, axis, 0)
        cosine, sine = along[1::2], along[2::2]
        modes = [along[:1], 0.5 * (cosine - 1j * sine), 0.5 * (cosine + 1j * sine)]
        real = jnp.moveaxis(jnp.concatenate(modes), 0, axis)
    return real


def _from_modes(modes: Modes, axes: tuple[int, ...]) -> Modes:
    for axis in axes:
        along = jnp.moveaxis(modes, axis, 0)
        count = along.shape[0] // 2
        up, down = along[1 : count + 1], along[count + 1 :]
        pairs = jnp.stack([up + down, 1j * (up - down)], axis=1).reshape(-1, *along.shape[1:])
        modes = jnp.moveaxis(jnp.concatenate([along[:1], pairs]), 0, axis)
    return modes
