"""A reference solution: values on a grid at stored times, and at any points between them."""

import dataclasses

import numpy as np
from jaxtyping import Float, Int

from pann.reference.grid import PeriodicGrid

# Points of a polynomial between stored times and between refined grid points.
TIME_STENCIL = 10
SPACE_STENCIL = 10
# With the 2/3 rule the shortest wave has 3 points, and 6 or 12 once refined.
REFINEMENT = {1: 4, 2: 2}
CHUNK = 131_072


@dataclasses.dataclass(frozen=True, eq=False)
class Reference:
    """Fields on a periodic grid at increasing times.

    Between the grid points the trigonometric interpolant is meant: it is evaluated on a refined
    grid by FFT, and from there by polynomials of degree 9 through the nearest points. Polynomials
    of that degree lead from the stored times to any other.
    """

    grid: PeriodicGrid
    times: Float[np.ndarray, " times"]
    values: Float[np.ndarray, "fields times ..."]

    def __post_init__(self) -> None:
        expected = (len(self.times), *self.grid.shape)
        if self.values.shape[1:] != expected:
            raise ValueError(
                f"values must have the shape (fields, {', '.join(map(str, expected))}) of times "
                f"and grid, got {self.values.shape}"
            )
        if len(self.times) < TIME_STENCIL or not np.all(np.diff(self.times) > 0):
            raise ValueError(
                f"a reference needs at least {TIME_STENCIL} increasing times, got {self.times}"
            )

    def at(
        self, space: Float[np.ndarray, "points d"], time: Float[np.ndarray, " points"]
    ) -> Float[np.ndarray, "fields points"]:
        """All fields at points, which repeat periodically; times must lie within those stored."""
        first, last = self.times[0], self.times[-1]
        margin = 1e-9 * (last - first)
        if len(time) and not (time.min() >= first - margin and time.max() <= last + margin):
            raise ValueError(
                f"the reference is known from t = {first:g} to {last:g}, asked for from "
                f"{time.min():g} to {time.max():g}"
            )
        result = np.empty((len(self.values), len(time)))
        # In order of time a chunk needs few of the stored times.
        order = np.argsort(time, kind="stable")
        for begin in range(0, len(order), CHUNK):
            chunk = order[begin : begin + CHUNK]
            result[:, chunk] = self._at_sorted(space[chunk], time[chunk])
        return result

    def _at_sorted(
        self, space: Float[np.ndarray, "points d"], time: Float[np.ndarray, " points"]
    ) -> Float[np.ndarray, "fields points"]:
        """One stored time after the other: only one refined grid is in memory."""
        starts, time_weights = _time_stencils(self.times, time)
        factor = REFINEMENT[self.grid.dimension]
        fine_grid = self.grid.finer(factor)
        axes = zip(space.T, fine_grid.lower, fine_grid.widths, fine_grid.shape, strict=True)
        stencils, weights = zip(*(_space_stencils(*axis) for axis in axes), strict=True)
        # Each along an axis of its own: together they index a block of the grid at each point.
        shapes = np.where(np.eye(len(stencils)), SPACE_STENCIL, 1)
        indices = [each.reshape(-1, *shape) for each, shape in zip(stencils, shapes, strict=True)]
        result = np.zeros((len(self.values), len(time)))
        for stored in range(starts[0], starts[-1] + TIME_STENCIL):
            begin = np.searchsorted(starts, stored - TIME_STENCIL + 1, "left")
            end = np.searchsorted(starts, stored, "right")
            if begin == end:
                continue
            here = slice(begin, end)
            in_time = time_weights[np.arange(begin, end), stored - starts[here]]
            for field, values in enumerate(self.values[:, stored]):
                fine = self.grid.refined(values, factor)
                near = fine[tuple(index[here] for index in indices)]
                for along in reversed(weights):
                    near = np.einsum("n...i,ni->n...", near, along[here])
                result[field, here] += in_time * near
        return result


def _time_stencils(
    stored: Float[np.ndarray, " times"], time: Float[np.ndarray, " points"]
) -> tuple[Int[np.ndarray, " points"], Float[np.ndarray, "points stencil"]]:
    """The first of the stored times around each time, and Lagrange's weights on them."""
    nearest = np.searchsorted(stored, time, "right")
    starts = np.clip(nearest - TIME_STENCIL // 2, 0, len(stored) - TIME_STENCIL)
    nodes = stored[starts[:, None] + np.arange(TIME_STENCIL)]
    span = (nodes[:, -1:] - nodes[:, :1]) / TIME_STENCIL
    return starts, _lagrange(nodes / span, time[:, None] / span)


def _space_stencils(
    position: Float[np.ndarray, " points"], lower: float, width: float, count: int
) -> tuple[Int[np.ndarray, "points stencil"], Float[np.ndarray, "points stencil"]]:
    """The grid points around each position, periodically, and Lagrange's weights on them."""
    cell = (position - lower) / width * count
    first = np.floor(cell).astype(int) - (SPACE_STENCIL // 2 - 1)
    indices = (first[:, None] + np.arange(SPACE_STENCIL)) % count
    nodes = np.arange(SPACE_STENCIL, dtype=float)[None, :]
    return indices, _lagrange(nodes, (cell - first)[:, None])


def _lagrange(
    nodes: Float[np.ndarray, "#points stencil"], at: Float[np.ndarray, "points 1"]
) -> Float[np.ndarray, "points stencil"]:
    """prod_{j != i} (x - x_j) / (x_i - x_j) for each i."""
    count = nodes.shape[1]
    differences = at - nodes
    weights = np.ones((len(at), count))
    for i in range(count):
        for j in range(count):
            if i != j:
                weights[:, i] *= differences[:, j] / (nodes[:, i] - nodes[:, j])
    return weights
