"""Equispaced points of a periodic box, and the Fourier modes of real fields on them."""

import dataclasses
import itertools
from typing import Any

import numpy as np
from jaxtyping import Bool, Complex, Float


@dataclasses.dataclass(frozen=True)
class PeriodicGrid:
    """Points lower + (upper - lower) j / n along each axis; the upper end is the lower one again.

    Modes are those of `numpy.fft.rfftn`: the last axis has only wavenumbers that are not negative.
    """

    lower: tuple[float, ...]
    upper: tuple[float, ...]
    shape: tuple[int, ...]

    def __post_init__(self) -> None:
        if not len(self.lower) == len(self.upper) == len(self.shape):
            raise ValueError(
                f"a grid needs as many lower and upper ends as numbers of points, got {self.lower},"
                f" {self.upper} and {self.shape}"
            )
        if any(count < 4 or count % 2 for count in self.shape):
            raise ValueError(f"a grid needs even numbers of points from 4 on, got {self.shape}")

    @property
    def dimension(self) -> int:
        return len(self.shape)

    @property
    def widths(self) -> tuple[float, ...]:
        return tuple(high - low for low, high in zip(self.lower, self.upper, strict=True))

    def coordinates(self) -> list[Float[np.ndarray, "..."]]:
        """The coordinates of all points, an array of the grid's shape for each axis."""
        axes = [
            low + width * np.arange(count) / count
            for low, width, count in zip(self.lower, self.widths, self.shape, strict=True)
        ]
        return list(np.meshgrid(*axes, indexing="ij"))

    def wavenumbers(self) -> list[Float[np.ndarray, "..."]]:
        """k of the modes exp(i k x), for each axis an array that broadcasts to all modes."""
        return [
            2 * np.pi / width * number
            for width, number in zip(self.widths, self._mode_numbers(), strict=True)
        ]

    def resolved(self) -> Bool[np.ndarray, "..."]:
        """The modes that the 2/3 rule keeps: products of two of them alias onto none of them.

        Products of three do, unless the highest of them are negligible.
        """
        kept = [
            3 * np.abs(number) < count
            for number, count in zip(self._mode_numbers(), self.shape, strict=True)
        ]
        return np.logical_and.reduce(np.broadcast_arrays(*kept))

    def to_modes(self, values: Float[np.ndarray, "..."]) -> Complex[np.ndarray, "..."]:
        """Fourier coefficients over the last axes; further axes may stand before them."""
        return np.fft.rfftn(values, axes=self._last_axes)

    def to_values(self, modes: Complex[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
        return np.fft.irfftn(modes, s=self.shape, axes=self._last_axes)

    def refined(self, values: Float[np.ndarray, "..."], factor: int) -> Float[np.ndarray, "..."]:
        """The trigonometric interpolant on a grid with `factor` times the points along each axis.

        The highest mode, n / 2, has no partner of the other sign and is left out.
        """
        fine = self.finer(factor)
        return fine.to_values(self._common(self.to_modes(values), fine)) * factor**self.dimension

    def projected(
        self, values: Float[np.ndarray, "..."], factor: int
    ) -> Complex[np.ndarray, "..."]:
        """The modes of values on a grid with `factor` times the points, without the higher ones.

        Of what is not smooth, as a periodic function, they are nearer to the true ones than those
        of values on this grid.
        """
        modes = self.finer(factor).to_modes(values) / factor**self.dimension
        return self._common(modes, self)

    def finer(self, factor: int) -> "PeriodicGrid":
        return PeriodicGrid(self.lower, self.upper, tuple(factor * n for n in self.shape))

    def _common(
        self, modes: Complex[np.ndarray, "..."], target: "PeriodicGrid"
    ) -> Complex[np.ndarray, "..."]:
        """Of modes on this grid or a finer one, those below the highest of this one, on another."""
        leading = modes.shape[: modes.ndim - self.dimension]
        kept = np.zeros((*leading, *target.shape[:-1], target.shape[-1] // 2 + 1), complex)
        halves = [[slice(0, n // 2), slice(1 - n // 2, None)] for n in self.shape[:-1]]
        for signs in itertools.product(*halves):
            corner: tuple[Any, ...] = (..., *signs, slice(0, self.shape[-1] // 2))
            kept[corner] = modes[corner]
        return kept

    @property
    def _last_axes(self) -> tuple[int, ...]:
        return tuple(range(-self.dimension, 0))

    def _mode_numbers(self) -> list[Float[np.ndarray, "..."]]:
        numbers = [np.fft.fftfreq(n, 1 / n) for n in self.shape[:-1]]
        numbers.append(np.fft.rfftfreq(self.shape[-1], 1 / self.shape[-1]))
        return list(np.meshgrid(*numbers, indexing="ij", sparse=True))
