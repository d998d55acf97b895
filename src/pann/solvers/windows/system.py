"""The equations of one window: residual at the nodes in time, projected in space, with conditions.

Unknowns are the coefficients of v in u = start + s^m v, a tensor of all fields and axes. Values and
derivatives come axis by axis from small tables; no table of all points and all terms is made. The
tables, the start, the window's position in time and the conditions' values are arguments of
compiled functions, so that windows of equal sizes share their programs.
"""

import math
from collections.abc import Iterable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from pann.pde.fields import Order
from pann.pde.problem import Problem
from pann.solvers.windows.axes import (
    Axes,
    Decoupled,
    decouple,
    node_tables,
    radau_nodes,
    time_table,
)
from pann.solvers.windows.conditions import RowValues, condition_rows, row_values
from pann.solvers.windows.operators import AxisOperator, at_random, on_grid
from pann.solvers.windows.separable import Diagonals, make_diagonals

# Of one field, or of all: along each axis of space, then in time; coefficients or values.
Tensor = Float[Array, "..."]
Fields = Float[Array, "fields ..."]


class Grid(eqx.Module):
    """Points along each axis of space and times in [0, 1], with the functions' values there."""

    points: tuple[Float[Array, " _"], ...]
    axes: tuple[AxisOperator, ...]
    times: Float[Array, " times"]
    time_tables: tuple[Float[Array, "times functions"], ...]

    def values(self, coefficients: Tensor, orders: tuple[int, ...], in_time: int) -> Tensor:
        """A field's derivative on the grid, by s; axes of space first, then time."""
        for axis, order in zip(self.axes, orders, strict=True):
            coefficients = axis.values(coefficients, order)
        return jnp.tensordot(coefficients, self.time_tables[in_time], axes=(0, 1))


class Window(eqx.Module):
    """Where a window lies in time, the state it starts from, and its conditions.

    `start` has the state and its time derivatives below the order, as coefficients in space.
    """

    begin: Float[Array, ""]
    length: Float[Array, ""]
    start: Float[Array, "order fields ..."]
    row_values: tuple[tuple[RowValues, ...], ...]


class System(eqx.Module):
    """The equations of windows of one resolution.

    `fresh` is a grid of random points and times. `rows` are the linear forms of the conditions for
    each axis and field, `wavenumbers` those of each axis, none where it is not periodic;
    `diagonals` are for constant coefficients along several axes.
    """

    grid: Grid
    fresh: Grid
    rows: tuple[tuple[Float[Array, "_ 2 _"], ...], ...]
    decoupled: Decoupled
    wavenumbers: tuple[Float[Array, " _"], ...]
    diagonals: Diagonals | None
    problem: Problem = eqx.field(static=True)
    time_order: int = eqx.field(static=True)

    @property
    def channels(self) -> tuple[tuple[int, Order], ...]:
        """The derivatives that the equation asks for: of which field, and of which order."""
        return self.problem.asked.channels

    @property
    def time_axis(self) -> int:
        return self.problem.domain.time_number

    @property
    def num_fields(self) -> int:
        return len(self.problem.fields)

    @property
    def num_nodes(self) -> int:
        """In time."""
        return self.decoupled.into.shape[1]

    @property
    def fourier_axes(self) -> tuple[int, ...]:
        return tuple(axis for axis, numbers in enumerate(self.wavenumbers) if numbers.size)

    @property
    def space_shape(self) -> tuple[int, ...]:
        return tuple(axis.num_functions for axis in self.grid.axes)

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the unknowns: fields, functions along each axis of space, functions of time."""
        return (self.num_fields, *self.space_shape, self.num_nodes)

    def in_space(self, order: Order) -> tuple[int, ...]:
        return order[: self.time_axis] + order[self.time_axis + 1 :]

    def in_time(self, order: Order) -> int:
        return order[self.time_axis]

    # ---- The equation on a grid ----

    def whole(self, window: Window, unknowns: Tensor) -> Tensor:
        """Coefficients of u: start and v."""
        powers = window.length ** jnp.arange(self.time_order)
        start = jnp.moveaxis(window.start, 0, -1) * powers
        return jnp.concatenate([start, unknowns], axis=-1)

    def channel_values(self, grid: Grid, window: Window, unknowns: Tensor) -> tuple[Tensor, ...]:
        """Every derivative that the equation asks for, on the grid, by the domain's coordinates."""
        whole = self.whole(window, unknowns)
        return tuple(
            grid.values(whole[field], self.in_space(order), self.in_time(order))
            / window.length ** self.in_time(order)
            for field, order in self.channels
        )

    def equation(self, grid: Grid, window: Window, channels: tuple[Tensor, ...]) -> Fields:
        """The residual as a function of the derivatives, point by point."""
        shape = (*(len(points) for points in grid.points), len(grid.times))
        given = dict(zip(self.channels, channels, strict=True))
        get = lambda field, order: given[field, order].ravel()
        parts = self.problem.evaluate(get, self._coordinates(grid, window), {})
        size = math.prod(shape)
        return jnp.stack([jnp.broadcast_to(part, (size,)).reshape(shape) for part in parts])

    def _coordinates(self, grid: Grid, window: Window) -> Float[Array, "points d"]:
        times = window.begin + window.length * grid.times
        mesh = [axis.ravel() for axis in jnp.meshgrid(*grid.points, times, indexing="ij")]
        mesh.insert(self.time_axis, mesh.pop())
        return jnp.stack(mesh, axis=1)

    def slopes(
        self, grid: Grid, window: Window, channels: tuple[Tensor, ...]
    ) -> tuple[Fields, ...]:
        """The derivative of the residual by each channel."""
        function = lambda *channels: self.equation(grid, window, channels)
        zeros = [jnp.zeros_like(channel) for channel in channels]
        found = []
        for number, channel in enumerate(channels):
            tangent = [*zeros[:number], jnp.ones_like(channel), *zeros[number + 1 :]]
            found.append(jax.jvp(function, channels, tuple(tangent))[1])
        return tuple(found)

    # ---- Rows of the system ----

    def residual(self, window: Window, unknowns: Tensor) -> Tensor:
        """As many numbers as unknowns."""
        channels = self.channel_values(self.grid, window, unknowns)
        on_grid = self.equation(self.grid, window, channels)
        return self.with_conditions(on_grid, self.whole(window, unknowns), window)

    def with_conditions(self, on_grid: Fields, whole: Fields, window: Window) -> Fields:
        """Values on the grid projected in space, conditions in place of the highest functions.

        The corners belong to the first axis.
        """
        fields = []
        for field in range(self.num_fields):
            projected = self._projected(on_grid[field])
            for axis in reversed(range(len(self.rows))):
                rows, given = self.rows[axis][field], window.row_values[axis][field]
                count, size = rows.shape[0], projected.shape[axis]
                if count:
                    found = self._condition(axis, rows, given, whole[field])
                    kept = jax.lax.slice_in_dim(projected, 0, size - count, axis=axis)
                    projected = jnp.concatenate([kept, jnp.moveaxis(found, 0, axis)], axis=axis)
            fields.append(projected)
        return jnp.stack(fields)

    def _projected(self, values: Tensor) -> Tensor:
        """From values on the grid, axes of space first, to coefficients in space."""
        for axis in self.grid.axes:
            values = axis.projected(values)
        return jnp.moveaxis(values, 0, -1) if self.grid.axes else values

    def _condition(
        self,
        axis: int,
        rows: Float[Array, "rows 2 functions"],
        given: RowValues,
        whole: Tensor,
    ) -> Float[Array, "rows ..."]:
        """sum_k weight_k form_k(u) - value, projected along the other axes."""
        others = [each for number, each in enumerate(self.grid.axes) if number != axis]
        # Each axis goes from the front to the end; the rows are in front when all have gone.
        forms = jnp.tensordot(whole, rows, axes=(axis, 2))
        for other in others:
            forms = other.values(forms, 0)
        forms = jnp.tensordot(forms, self.grid.time_tables[0], axes=(0, 1))
        found = jnp.moveaxis(jnp.sum(given.weights * forms, axis=1) - given.values, 0, -1)
        for other in others:
            found = other.projected(found)
        return jnp.moveaxis(found, 0, -1)


# Arrays of NumPy are only moved: JAX would compile a program to make one of each size.


def make_system(problem: Problem, axes: Axes, time_order: int, count: int, seed: int) -> System:
    """Tables for windows with `count` nodes in time."""
    highest = [problem.asked.highest(problem.domain.names.index(axis.name)) for axis in axes]
    rng = np.random.default_rng(seed + 7)

    def grid(
        along: list[tuple[np.ndarray, AxisOperator]],
        times: np.ndarray,
        time_tables: Iterable[np.ndarray],
    ) -> Grid:
        points = tuple(axis.coordinates(at) for axis, (at, _) in zip(axes, along, strict=True))
        operators = tuple(operator for _, operator in along)
        return Grid(*jax.device_put((points, operators, times, tuple(time_tables))))

    nodes = [on_grid(axis, most) for axis, most in zip(axes, highest, strict=True)]
    random_points = [at_random(axis, most, rng) for axis, most in zip(axes, highest, strict=True)]
    random_times = np.sort(rng.uniform(0, 1, count))
    random_tables = (time_table(random_times, time_order, count, k) for k in range(time_order + 1))
    rows = tuple(
        tuple(condition_rows(problem, axis, field) for field in range(len(problem.fields)))
        for axis in axes
    )
    return System(
        grid=grid(nodes, radau_nodes(count), node_tables(time_order, count)),
        fresh=grid(random_points, random_times, random_tables),
        rows=jax.device_put(rows),
        decoupled=jax.device_put(decouple(time_order, count)),
        wavenumbers=jax.device_put(tuple(axis.wavenumbers for axis in axes)),
        diagonals=jax.device_put(make_diagonals(problem, axes)),
        problem=problem,
        time_order=time_order,
    )


def make_window(
    system: System,
    axes: Axes,
    begin: float,
    length: float,
    start: Float[np.ndarray, "order fields ..."],
) -> Window:
    """A window with the values that its conditions have there."""
    times = begin + length * radau_nodes(system.num_nodes)
    values = tuple(
        tuple(
            row_values(system.problem, axes, number, field, times, len(rows))
            for field, rows in enumerate(of_axis)
        )
        for number, of_axis in enumerate(system.rows)
    )
    first, extent = jax.device_put((np.asarray(begin), np.asarray(length)))
    return Window(first, extent, jax.device_put(start), values)
