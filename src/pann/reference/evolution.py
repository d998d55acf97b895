"""A periodic evolution equation and its reference solution, computed on first use."""

import dataclasses
import functools
import hashlib
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Inexact

from pann.reference.etdrk4 import Modes, Nonlinear, etdrk4
from pann.reference.grid import PeriodicGrid
from pann.reference.solution import Reference
from pann.runtime.cache import kept_array

# To be raised with every change of the method, so that no old file is read.
_VERSION = 3
# Points for the modes of the initial state, which may have kinks where the ends of an axis meet.
_MOST_POINTS, _LARGEST_FACTOR = 2**22, 256

Equation = Callable[[PeriodicGrid], tuple[Inexact[np.ndarray, "..."], Nonlinear]]


@dataclasses.dataclass(frozen=True, eq=False)
class Evolution:
    """u_t = L u + N(u) on a periodic grid, from `initial` at the first of the times.

    `equation(grid)` gives what L multiplies each mode by, of shape (fields, *modes), and N as a
    function from modes to modes, of which the unresolved ones are dropped (the 2/3 rule, which
    removes the aliasing of quadratic terms only: cubic ones need a grid on which the highest modes
    are negligible). `initial` is a function of the coordinates with values of shape
    (fields, *space). The axes of space come first, then time. `stored_name` is the name of its
    file, if it is not `name`.
    """

    name: str
    axes: tuple[str, ...]
    grid: PeriodicGrid
    times: Float[np.ndarray, " times"]
    largest_step: float
    equation: Equation
    initial: Callable[..., Float[np.ndarray, "fields ..."]]
    stored_name: str | None = None

    @functools.cached_property
    def reference(self) -> Reference:
        """Read from disk if it was computed before."""
        resolved = self._initial_modes()
        first = self.grid.to_values(resolved)
        shape = (len(first), len(self.times), *self.grid.shape)

        def is_plausible(values: Float[np.ndarray, "..."]) -> bool:
            return bool(np.isfinite(values).all() and np.allclose(values[:, 0], first, atol=1e-10))

        values = kept_array(
            self._file_name(resolved), shape, lambda: self._solve(resolved, shape), is_plausible
        )
        return Reference(self.grid, self.times, values)

    def exact(self, **coordinates: Any) -> Any:
        """The solution at coordinates by name; for several fields a tuple."""
        arrays = np.broadcast_arrays(*(np.asarray(coordinates[axis], float) for axis in self.axes))
        *space, time = (array.ravel() for array in arrays)
        fields = self.reference.at(np.stack(space, axis=1), time)
        parts = tuple(field.reshape(arrays[0].shape) for field in fields)
        return parts if len(parts) > 1 else parts[0]

    def _initial_modes(self) -> Modes:
        ratio = (_MOST_POINTS / math.prod(self.grid.shape)) ** (1 / self.grid.dimension)
        factor = max(1, min(int(ratio), _LARGEST_FACTOR))
        values = np.asarray(self.initial(*self.grid.finer(factor).coordinates()), float)
        return self.grid.projected(values, factor) * self.grid.resolved()

    def _solve(self, initial: Modes, shape: tuple[int, ...]) -> Float[np.ndarray, "..."]:
        linear, nonlinear = self.equation(self.grid)
        resolved = self.grid.resolved()
        # What is dropped stays zero: no need for exponentials of the highest modes.
        states = etdrk4(
            linear * resolved,
            lambda modes: nonlinear(modes) * resolved,
            initial,
            self.times,
            self.largest_step,
        )
        values = np.empty(shape)
        for number, modes in enumerate(states):
            values[:, number] = self.grid.to_values(modes)
        return values

    def _file_name(self, initial: Modes) -> str:
        """By all that the solution depends on: settings, initial state, L, and N at two states."""
        linear, nonlinear = self.equation(self.grid)
        # In the initial state a term of N may vanish, in random numbers none does.
        random = np.random.default_rng(0).normal(size=(len(initial), *self.grid.shape))
        states = [initial, self.grid.to_modes(random)]
        settings = repr((self.grid, self.times.tolist(), self.largest_step))
        digest = hashlib.sha256(settings.encode())
        with np.errstate(all="ignore"):
            changes = [nonlinear(state) for state in states]
        for array in (initial, linear, *changes):
            digest.update(np.ascontiguousarray(array).tobytes())
        name = self.stored_name or self.name
        return f"reference-v{_VERSION}-{name}-{digest.hexdigest()[:16]}.npy"


def stored_times(ends: Sequence[float | int], counts: Sequence[int]) -> Float[np.ndarray, " times"]:
    """From the first end to the last, with that many equal gaps from each end to the next."""
    parts = [
        np.linspace(begin, end, count + 1)[1:]
        for begin, end, count in zip(ends[:-1], ends[1:], counts, strict=True)
    ]
    return np.concatenate([[float(ends[0])], *parts])
