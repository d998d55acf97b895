"""Functions of a shape times Legendre polynomials in windows of time."""

import dataclasses
import functools
from collections.abc import Sequence
from typing import TypeAlias, final

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from pann.basis.basis import check_derivative
from pann.basis.elements import ElementBasis
from pann.basis.families import Legendre
from pann.basis.on_shapes import ShapeBasis, WholeBasis
from pann.domain import Box
from pann.points import check_points
from pann.runtime.memory import require_memory


@final
@dataclasses.dataclass(frozen=True)
class EvolvingBasis:
    """Terms are numbered by functions of space, then by windows, then by degrees in time.

    `edges` are the times at which windows begin and the last one ends.
    """

    domain: Box
    space: ShapeBasis
    edges: tuple[float, ...]
    degree_in_time: int

    def __len__(self) -> int:
        return len(self.space) * self.num_windows * (self.degree_in_time + 1)

    def __repr__(self) -> str:
        return f"EvolvingBasis({self.space!r}, {self.num_windows} windows)"

    @property
    def num_windows(self) -> int:
        return len(self.edges) - 1

    @property
    def num_terms(self) -> int:
        return len(self)

    @property
    def axes(self) -> tuple[str, ...]:
        return self.domain.names

    @functools.cached_property
    def degrees(self) -> Int[np.ndarray, " terms"]:
        """Those in space."""
        return np.repeat(self.space.degrees, self.num_windows * (self.degree_in_time + 1))

    def term_names(self) -> list[str]:
        windows, powers = range(self.num_windows), range(self.degree_in_time + 1)
        return [
            f"{name} P{k}[{number + 1}]({self.domain.time})"
            for name in self.space.term_names()
            for number in windows
            for k in powers
        ]

    def window_of(self, points: Float[np.ndarray, "points d"]) -> Int[np.ndarray, " points"]:
        times = points[:, self.domain.time_number]
        return np.searchsorted(self.edges[1:-1], times, side="right")

    def subset(self, kept: Bool[np.ndarray, " terms"] | Sequence[int]) -> "EvolvingBasis":
        """All terms: windows keep theirs."""
        chosen = np.flatnonzero(kept) if np.asarray(kept).dtype == bool else np.asarray(kept)
        if len(chosen) != len(self):
            raise ValueError("the terms of windows on a shape cannot be left out; give a basis")
        return self

    def table(
        self, points: Shaped[np.ndarray, "points d"], derivative: Sequence[int] | None = None
    ) -> Float[np.ndarray, "points terms"]:
        """Values of D^derivative of every term; those of other windows are zero."""
        require_memory(
            8 * len(points) * len(self),
            f"a table of {len(points):,} points and {len(self):,} terms",
            "evaluate the solution instead, or give fewer points",
        )
        return self.evaluate(points, np.eye(len(self)), derivative)

    def evaluate(
        self,
        points: Shaped[np.ndarray, "points d"],
        coefficients: Float[np.ndarray, " terms *outputs"],
        derivative: Sequence[int] | None = None,
    ) -> Float[np.ndarray, " points *outputs"]:
        """sum_k b_k D^derivative phi_k(x_i)."""
        return self.evaluate_each(points, coefficients, [derivative])[0]

    def evaluate_each(
        self,
        points: Shaped[np.ndarray, "points d"],
        coefficients: Float[np.ndarray, " terms *outputs"],
        derivatives: Sequence[Sequence[int] | None],
    ) -> Float[np.ndarray, " derivatives points *outputs"]:
        """`evaluate` for several derivatives at the same points."""
        points = check_points(self.domain, points)
        orders = [check_derivative(self.domain, each) for each in derivatives]
        outputs = np.shape(coefficients)[1:]
        size, time = self.degree_in_time + 1, self.domain.time_number
        each = np.asarray(coefficients, float).reshape(len(self.space), self.num_windows, size, -1)
        in_space = [tuple(order[axis] for axis in self.domain.space) for order in orders]
        distinct = list(dict.fromkeys(in_space))
        found = np.zeros((len(orders), len(points), each.shape[-1]))
        windows = self.window_of(points)
        for window in np.unique(windows):
            rows = np.flatnonzero(windows == window)
            begin, end = self.edges[window], self.edges[window + 1]
            local = 2.0 * (points[rows, time] - begin) / (end - begin) - 1.0
            own = each[:, window].reshape(len(self.space), -1)
            values = self.space.evaluate_each(points[rows][:, self.domain.space], own, distinct)
            values = values.reshape(len(distinct), len(rows), size, -1)
            for number, order in enumerate(orders):
                table = Legendre().table(local, size, order[time])
                table = table * (2.0 / (end - begin)) ** order[time]
                of = values[distinct.index(in_space[number])]
                found[number, rows] = np.einsum("pk,pkf->pf", table, of)
        return found.reshape(len(orders), len(points), *outputs)


AnyBasis: TypeAlias = WholeBasis | ElementBasis | EvolvingBasis
