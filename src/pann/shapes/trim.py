"""What an operator of shapes leaves of the boundary of one shape, by the other one."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, final

import numpy as np
from jaxtyping import Float, Int

RULES: dict[str, Callable[[Any, Any], Any]] = {
    "-": lambda first, second: first & ~second,
    "|": lambda first, second: first | second,
    "&": lambda first, second: first & second,
}


@final
@dataclasses.dataclass(frozen=True)
class Trim:
    """An operator with one shape, for the parts of another."""

    operation: str
    other: Any  # a shape
    of_second: bool  # whether the parts are those of the second operand
    size: float  # of both

    def sides(
        self, points: Float[np.ndarray, "points d"], normals: Float[np.ndarray, "points d"]
    ) -> Int[np.ndarray, " points"]:
        """Of points of the parts: 0, or 1 or -1 where they are on the boundary of the result.

        There the inside is behind the normal (1) or in front of it (-1). What both shapes have in
        common counts once, for the first.
        """
        step = self.tolerance * normals
        behind, before = (self.other.level(points + move) < 0 for move in (-step, step))
        rule = RULES[self.operation]
        if self.of_second:
            is_behind, is_before = rule(behind, np.True_), rule(before, np.False_)
        else:
            is_behind, is_before = rule(np.True_, behind), rule(np.False_, before)
        counts = (is_behind != is_before) & ~(self.of_second & (behind != before))
        return np.where(counts, np.where(is_behind, 1, -1), 0)

    def is_apart(self, part: Any) -> bool:
        """Whether a part is out of the bounding box of the other shape."""
        (low, high), room = part.bounds, 1e-6 * self.size
        below, above = (
            high < np.subtract(self.other.lower, room),
            low > np.add(self.other.upper, room),
        )
        return bool((below | above).any())

    @property
    def tolerance(self) -> float:
        """Boundaries that are closer than that are one."""
        return 1e-11 * self.size + 4 * float(self.other.rounding)

    @functools.cached_property
    def corners(self) -> Float[np.ndarray, "corners 2"]:
        """Where arcs of the other shape end."""
        ends = [part.ends for part in self.other.parts if not part.is_closed]
        return np.concatenate([*ends, np.zeros((0, 2))])
