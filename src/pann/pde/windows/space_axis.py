"""One axis of space: its functions, a finer grid, the projection from it, and rows at its ends.

The residual is evaluated on half as many points again as there are functions, so that products of
two of them alias onto none, and projected back; products of three alias as far as the highest
functions matter, which the tails of the coefficients tell. Along an axis that is not periodic the
projections on the highest functions give way to conditions at the ends and, on several pieces, to
continuity between them (Lanczos' tau method).
"""

import dataclasses
import functools

import numpy as np
from jaxtyping import Float

from pann.basis import Family, Fourier, Legendre, PiecewiseLegendre


@dataclasses.dataclass(frozen=True)
class SpaceAxis:
    """Functions of at most a level, a frequency or the degree on each piece, on [lower, upper]."""

    name: str
    lower: float
    upper: float
    family: Family
    level: int

    @property
    def width(self) -> float:
        return self.upper - self.lower

    @property
    def is_fourier(self) -> bool:
        return isinstance(self.family, Fourier)

    @property
    def num_functions(self) -> int:
        return self.family.num_functions(self.level)

    @property
    def num_pieces(self) -> int:
        return self.family.num_pieces if isinstance(self.family, PiecewiseLegendre) else 1

    @property
    def edges(self) -> Float[np.ndarray, " edges"]:
        """The ends of the pieces on [-1, 1]."""
        breaks = self.family.breaks if isinstance(self.family, PiecewiseLegendre) else ()
        return np.array([-1.0, *breaks, 1.0])

    @functools.cached_property
    def grid(self) -> tuple[Float[np.ndarray, " points"], Float[np.ndarray, " points"]]:
        """Points on [-1, 1] and weights for the projection."""
        if self.is_fourier:
            return self.family.quadrature(3 * self.level + 2)
        return self.family.quadrature(self.num_pieces * (3 * self.level // 2 + 2))

    def table(
        self, reference: Float[np.ndarray, " points"], derivative: int = 0
    ) -> Float[np.ndarray, "points functions"]:
        """Derivatives by the axis's own coordinate, at points on [-1, 1]."""
        table = self.family.table(reference, self.num_functions, derivative)
        return table * (2.0 / self.width) ** derivative

    def coordinates(self, reference: Float[np.ndarray, " points"]) -> Float[np.ndarray, " points"]:
        return self.lower + 0.5 * (reference + 1.0) * self.width

    @functools.cached_property
    def projection(self) -> Float[np.ndarray, "functions points"]:
        """From values on the grid to coefficients: exact for the functions themselves."""
        points, weights = self.grid
        table = self.table(points)
        return (table * weights[:, None]).T / self.family.norms(self.num_functions)[:, None] ** 2

    def transfer_from(self, other: "SpaceAxis") -> Float[np.ndarray, "functions functions2"]:
        """Coefficients of another axis's functions in these."""
        return self.projection @ other.table(self.grid[0])

    def continuity_rows(self, order: int, at_seam: bool) -> Float[np.ndarray, "rows functions"]:
        """Jumps of u, u', ... below the order at each break, and from the end to the beginning."""
        meetings = [(piece, piece + 1) for piece in range(self.num_pieces - 1)]
        if at_seam:
            meetings.append((self.num_pieces - 1, 0))
        rows = [
            self._piece_end(right, -1.0, k) - self._piece_end(left, 1.0, k)
            for left, right in meetings
            for k in range(order)
        ]
        return np.stack(rows) if rows else np.zeros((0, self.num_functions))

    def _piece_end(
        self, piece: int, end: float, derivative: int
    ) -> Float[np.ndarray, " functions"]:
        """Derivatives at an end of a piece, seen from inside it: rounding cannot change sides."""
        left, right = self.edges[piece : piece + 2]
        row = np.zeros(self.num_functions)
        local = Legendre().table(np.array([end]), self.level + 1, derivative)[0]
        row[piece :: self.num_pieces] = local * (4.0 / ((right - left) * self.width)) ** derivative
        # The functions of level 0 are steps, constant on the piece.
        inside = self.table(np.array([0.5 * (left + right)]), derivative)[0]
        row[: self.num_pieces] = inside[: self.num_pieces]
        return row

    def end_rows(self, side: str) -> Float[np.ndarray, "2 functions"]:
        """Value and outward derivative of every function at one end."""
        piece, end = (0, -1.0) if side == "lower" else (self.num_pieces - 1, 1.0)
        return np.stack([self._piece_end(piece, end, 0), end * self._piece_end(piece, end, 1)])
