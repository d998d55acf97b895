"""The equations of one window: residual at the nodes in time, projected in space, with conditions.

Unknowns are the coefficients of v in u = start + s^m v, a tensor of all fields and axes. Values and
derivatives come axis by axis from small tables; no table of all points and all terms is made. The
tables, the start, the window's place in time and the conditions' values are arguments of compiled
functions, so that windows of equal sizes share their programs.
"""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Complex, Float

from pann.pde.fields import Order
from pann.pde.problem import Problem

# A derivative of a field that the equation asks for.
Channel = tuple[int, Order]


class Grid(eqx.Module):
    """Points along each axis of space and times in [0, 1], with tables of derivatives there."""

    points: tuple[Float[Array, " _"], ...]
    tables: tuple[tuple[Float[Array, "_ _"], ...], ...]
    times: Float[Array, " times"]
    time_tables: tuple[Float[Array, "times functions"], ...]

    def values(
        self, coefficients: Float[Array, "... functions"], orders: tuple[int, ...], in_time: int
    ) -> Float[Array, "... times"]:
        """A field's derivative on the grid, by s; axes of space first, then time."""
        for table, order in zip(self.tables, orders, strict=True):
            coefficients = jnp.tensordot(coefficients, table[order], axes=(0, 1))
        return jnp.tensordot(coefficients, self.time_tables[in_time], axes=(0, 1))


class Rows(eqx.Module):
    """Conditions along one axis for one field: two linear forms each, weighed along the face."""

    forms: Float[Array, "rows 2 functions"]


class RowValues(eqx.Module):
    """What the conditions of a window say: weights of the two forms, and their sum."""

    weights: Float[Array, "rows 2 ..."]
    values: Float[Array, "rows ..."]


class Window(eqx.Module):
    """Where a window lies in time, the state it starts from, and its conditions.

    `start` has the state and its time derivatives below the order, as coefficients in space.
    """

    begin: Float[Array, ""]
    length: Float[Array, ""]
    start: Float[Array, "order fields ..."]
    row_values: tuple[tuple[RowValues, ...], ...]


class System(eqx.Module):
    """The equations of windows of one resolution."""

    grid: Grid
    fresh: Grid
    projections: tuple[Float[Array, "_ _"], ...]
    rows: tuple[tuple[Rows, ...], ...]
    numbers: Complex[Array, "derivatives kept"]
    into: Complex[Array, "kept nodes"]
    back: Complex[Array, "functions kept"]
    # Wavenumbers of the functions of each axis; none where they are not Fourier's.
    waves: tuple[Float[Array, " _"], ...]
    problem: Problem = eqx.field(static=True)
    channels: tuple[Channel, ...] = eqx.field(static=True)
    time_order: int = eqx.field(static=True)

    @property
    def time_axis(self) -> int:
        return self.problem.domain.names.index(str(self.problem.domain.time))

    @property
    def num_fields(self) -> int:
        return len(self.problem.fields)

    @property
    def wave_axes(self) -> tuple[int, ...]:
        return tuple(axis for axis, waves in enumerate(self.waves) if waves.size)

    @property
    def space_shape(self) -> tuple[int, ...]:
        return tuple(projection.shape[0] for projection in self.projections)

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the unknowns: fields, functions along each axis of space, functions of time."""
        return (self.num_fields, *self.space_shape, self.back.shape[0])

    def in_space(self, order: Order) -> tuple[int, ...]:
        return order[: self.time_axis] + order[self.time_axis + 1 :]

    def in_time(self, order: Order) -> int:
        return order[self.time_axis]

    # ---- The equation on a grid ----

    def whole(self, window: Window, unknowns: Float[Array, "..."]) -> Float[Array, "..."]:
        """Coefficients of u: start and v."""
        powers = window.length ** jnp.arange(self.time_order)
        start = jnp.moveaxis(window.start, 0, -1) * powers
        return jnp.concatenate([start, unknowns], axis=-1)

    def channel_values(
        self, grid: Grid, window: Window, unknowns: Float[Array, "..."]
    ) -> tuple[Float[Array, "..."], ...]:
        """Every derivative that the equation asks for, on the grid, by the domain's coordinates."""
        whole = self.whole(window, unknowns)
        return tuple(
            grid.values(whole[field], self.in_space(order), self.in_time(order))
            / window.length ** self.in_time(order)
            for field, order in self.channels
        )

    def equation(
        self, grid: Grid, window: Window, channels: tuple[Float[Array, "..."], ...]
    ) -> Float[Array, "fields ..."]:
        """The residual as a function of the derivatives, point by point."""
        shape = (*(len(points) for points in grid.points), len(grid.times))
        place = {channel: number for number, channel in enumerate(self.channels)}
        get = lambda field, order: channels[place[field, order]].ravel()
        parts = self.problem.evaluate(get, self._coordinates(grid, window), {})
        size = math.prod(shape)
        return jnp.stack([jnp.broadcast_to(part, (size,)).reshape(shape) for part in parts])

    def _coordinates(self, grid: Grid, window: Window) -> Float[Array, "points d"]:
        axes = list(grid.points)
        axes.append(window.begin + window.length * grid.times)
        mesh = [axis.ravel() for axis in jnp.meshgrid(*axes, indexing="ij")]
        mesh.insert(self.time_axis, mesh.pop())
        return jnp.stack(mesh, axis=1)

    def slopes(
        self, grid: Grid, window: Window, channels: tuple[Float[Array, "..."], ...]
    ) -> tuple[Float[Array, "fields ..."], ...]:
        """The derivative of the residual by each channel."""
        function = lambda *channels: self.equation(grid, window, channels)
        zeros = [jnp.zeros_like(channel) for channel in channels]
        found = []
        for number, channel in enumerate(channels):
            tangent = [*zeros[:number], jnp.ones_like(channel), *zeros[number + 1 :]]
            found.append(jax.jvp(function, channels, tuple(tangent))[1])
        return tuple(found)

    # ---- Rows of the system ----

    def residual(self, window: Window, unknowns: Float[Array, "..."]) -> Float[Array, "..."]:
        """As many numbers as unknowns."""
        channels = self.channel_values(self.grid, window, unknowns)
        on_grid = self.equation(self.grid, window, channels)
        whole = self.whole(window, unknowns)
        fields = [
            self.with_conditions(field, self.projected(on_grid[field]), whole[field], window)
            for field in range(self.num_fields)
        ]
        return jnp.stack(fields)

    def projected(self, values: Float[Array, "..."]) -> Float[Array, "..."]:
        """From values on the grid, axes of space first, to coefficients in space."""
        for projection in self.projections:
            values = jnp.tensordot(values, projection, axes=(0, 1))
        return jnp.moveaxis(values, 0, -1) if self.projections else values

    def with_conditions(
        self, field: int, projected: Float[Array, "..."], whole: Float[Array, "..."], window: Window
    ) -> Float[Array, "..."]:
        """Conditions in place of the highest functions; the first axis has the corners."""
        for axis in reversed(range(len(self.rows))):
            rows, given = self.rows[axis][field], window.row_values[axis][field]
            count, size = rows.forms.shape[0], projected.shape[axis]
            if count:
                found = jnp.moveaxis(self._condition(axis, rows, given, whole), 0, axis)
                kept = jax.lax.slice_in_dim(projected, 0, size - count, axis=axis)
                projected = jnp.concatenate([kept, found], axis=axis)
        return projected

    def _condition(
        self, axis: int, rows: Rows, given: RowValues, whole: Float[Array, "..."]
    ) -> Float[Array, "rows ..."]:
        """sum_k weight_k form_k(u) - value, projected along the other axes."""
        others = [number for number in range(len(self.rows)) if number != axis]
        forms = jnp.tensordot(rows.forms, whole, axes=(2, axis))
        for other in others:
            forms = jnp.tensordot(forms, self.grid.tables[other][0], axes=(2, 1))
        forms = jnp.tensordot(forms, self.grid.time_tables[0], axes=(2, 1))
        found = jnp.sum(given.weights * forms, axis=1) - given.values
        for other in others:
            found = jnp.tensordot(found, self.projections[other], axes=(1, 1))
        return jnp.moveaxis(found, 1, -1)
