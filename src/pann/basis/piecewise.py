"""Legendre polynomials piece by piece, for functions that jump or kink at known points."""

import dataclasses
import functools
from typing import final

import numpy as np
from jaxtyping import Float, Int

from pann.basis.families import (
    Coordinates,
    Family,
    Legendre,
    Rule,
    Table,
    check_nodes,
    check_table,
)

MIN_WIDTH = 1e-9  # of a piece, on the reference interval of length 2


@final
@dataclasses.dataclass(frozen=True)
class PiecewiseLegendre(Family):
    """On each piece between the breaks its own Legendre polynomials, zero on the other pieces.

    Orthogonal under the uniform measure dx/2. Level k has one function for each piece: P_k there
    for k >= 1; level 0 has the constant 1 and steps, of which the j-th rises by 1 at the j-th break
    and is zero left of the piece before it. A point on a break belongs to the piece on its right.
    """

    breaks: tuple[float, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "breaks", tuple(map(float, self.breaks)))
        # NaN fails every comparison, so it is refused, too.
        if not np.all(self._widths >= MIN_WIDTH):
            raise ValueError(
                f"breaks must increase from -1 to 1 by at least {MIN_WIDTH:g} from one to the "
                f"next, both ends left out, got {self.breaks}"
            )

    @property
    def num_pieces(self) -> int:
        return len(self.breaks) + 1

    def piece_of(self, x: Float[np.ndarray, " points"]) -> Int[np.ndarray, " points"]:
        """The number of the piece that each point lies in, from 0."""
        return np.searchsorted(self.breaks, x, side="right")

    def local(
        self, x: Float[np.ndarray, " points"]
    ) -> tuple[
        Int[np.ndarray, " points"], Float[np.ndarray, " points"], Float[np.ndarray, " points"]
    ]:
        """The piece of each point, its coordinate there on [-1, 1], and the slope of that."""
        pieces = self.piece_of(x)
        stretch = 2.0 / self._widths[pieces]
        return pieces, stretch * (x - self._edges[pieces]) - 1.0, stretch

    def table(self, x: Coordinates, num_functions: int, derivative: int = 0) -> Table:
        check_table(num_functions, derivative)
        x = np.asarray(x, float)
        num_levels = -(-num_functions // self.num_pieces)
        pieces, local, stretch = self.local(x)
        polynomials = (
            Legendre().table(local, num_levels, derivative) * stretch[:, None] ** derivative
        )
        table = np.zeros((len(x), num_functions))
        for level in range(1, num_levels):
            columns = level * self.num_pieces + pieces
            rows = np.flatnonzero(columns < num_functions)
            table[rows, columns[rows]] = polynomials[rows, level]
        if derivative == 0:
            table[:, : self.num_pieces] = self.steps[pieces, :num_functions]
        return table

    def levels(self, num_functions: int) -> Int[np.ndarray, " functions"]:
        return np.arange(num_functions) // self.num_pieces

    def num_functions(self, level: int) -> int:
        return self.num_pieces * (level + 1)

    def norms(self, num_functions: int) -> Float[np.ndarray, " functions"]:
        levels = self.levels(num_functions)
        pieces = np.arange(num_functions) % self.num_pieces
        squares = 0.5 * self._widths[pieces] / (2.0 * levels + 1.0)
        of_steps = 0.5 * self._widths @ self.steps**2
        squares[: self.num_pieces] = of_steps[:num_functions]
        return np.sqrt(squares)

    def quadrature(self, num_nodes: int) -> Rule:
        check_nodes(num_nodes)
        if num_nodes < self.num_pieces:
            # The first functions are constant from the break on that the next step rises at.
            return PiecewiseLegendre(self.breaks[: num_nodes - 1]).quadrature(num_nodes)
        nodes, weights = [], []
        for piece, (left, width) in enumerate(zip(self._edges[:-1], self._widths, strict=True)):
            # As many nodes as the piece has functions among the first num_nodes.
            count = -(-(num_nodes - piece) // self.num_pieces)
            local_nodes, local_weights = Legendre().quadrature(count)
            nodes.append(left + 0.5 * width * (local_nodes + 1.0))
            weights.append(0.5 * width * local_weights)
        return np.concatenate(nodes), np.concatenate(weights)

    def name(self, index: int, axis_name: str) -> str:
        level, piece = divmod(index, self.num_pieces)
        if level == 0:
            return f"step{piece}({axis_name})" if piece else ""
        return f"P{level}[{piece + 1}]({axis_name})"

    @functools.cached_property
    def _edges(self) -> Float[np.ndarray, " edges"]:
        return np.array([-1.0, *self.breaks, 1.0])

    @functools.cached_property
    def _widths(self) -> Float[np.ndarray, " pieces"]:
        return np.diff(self._edges)

    @functools.cached_property
    def steps(self) -> Float[np.ndarray, "pieces functions"]:
        """The functions of level 0 on each piece: step j is split off from all right of j - 1."""
        steps = np.zeros((self.num_pieces, self.num_pieces))
        steps[:, 0] = 1.0
        for j in range(1, self.num_pieces):
            fraction = self._widths[j - 1] / (1.0 - self._edges[j - 1])
            steps[j - 1, j] = fraction - 1.0
            steps[j:, j] = fraction
        return steps
