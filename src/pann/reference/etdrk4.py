"""Exponential time differencing of fourth order for stiff equations u_t = L u + N(u).

Kassam and Trefethen, Fourth-order time-stepping for stiff PDEs, SIAM J. Sci. Comput. 26 (2005).
"""

import dataclasses
from collections.abc import Callable, Iterator

import numpy as np
from jaxtyping import Complex, Float, Inexact

from pann.errors import NotConverged

NUM_CONTOUR_POINTS = 32

Modes = Complex[np.ndarray, "..."]
Nonlinear = Callable[[Modes], Modes]


def etdrk4(
    linear: Inexact[np.ndarray, "..."],
    nonlinear: Nonlinear,
    initial: Modes,
    times: Float[np.ndarray, " times"],
    largest_step: float,
) -> Iterator[Modes]:
    """The modes at each of the times, of which the first is the initial one.

    `linear` multiplies each mode: the equation is diagonal in Fourier space but for `nonlinear`.
    Between two times the steps are equal and none is longer than `largest_step`.
    """
    gaps = np.diff(times)
    if len(times) < 2 or not np.all(gaps > 0):
        raise ValueError(f"times must increase, and be two at least, got {times}")
    if not largest_step > 0:
        raise ValueError(f"largest_step must be positive, got {largest_step}")
    steps: dict[float, _Step] = {}
    modes = initial
    yield modes
    for time, gap in zip(times[1:], gaps, strict=True):
        # Gaps that differ by rounding share their coefficients.
        num_steps = max(1, int(np.ceil(gap / largest_step - 1e-6)))
        length = float(f"{gap / num_steps:.9e}")
        if length not in steps:
            steps[length] = _Step.of_length(length, linear)
        for _ in range(num_steps):
            modes = steps[length].advance(modes, nonlinear)
        if not np.all(np.isfinite(modes)):
            raise NotConverged(
                f"the reference solution is not finite at t = {time:g} with steps of {length:g}; "
                "use a smaller largest_step or more modes"
            )
        yield modes


@dataclasses.dataclass(frozen=True)
class _Step:
    """What a step of one length multiplies by; names as in the paper's listing."""

    exponential: Inexact[np.ndarray, "..."]
    half_exponential: Inexact[np.ndarray, "..."]
    half_weight: Inexact[np.ndarray, "..."]
    f1: Inexact[np.ndarray, "..."]
    f2: Inexact[np.ndarray, "..."]
    f3: Inexact[np.ndarray, "..."]

    @staticmethod
    def of_length(length: float, linear: Inexact[np.ndarray, "..."]) -> "_Step":
        """Means over a circle around h L: the formulas themselves cancel where h L is small."""
        angles = 2 * np.pi * (np.arange(NUM_CONTOUR_POINTS) + 0.5) / NUM_CONTOUR_POINTS
        sums = [np.zeros(linear.shape, complex) for _ in range(4)]
        for point in np.exp(1j * angles):
            z = length * linear + point
            e = np.exp(z)
            sums[0] += (np.exp(z / 2) - 1) / z
            sums[1] += (-4 - z + e * (4 - 3 * z + z**2)) / z**3
            sums[2] += (2 + z + e * (z - 2)) / z**3
            sums[3] += (-4 - 3 * z - z**2 + e * (4 - z)) / z**3
        weights = [length * total / NUM_CONTOUR_POINTS for total in sums]
        if not np.iscomplexobj(linear):
            weights = [weight.real for weight in weights]
        return _Step(np.exp(length * linear), np.exp(length * linear / 2), *weights)

    def advance(self, modes: Modes, nonlinear: Nonlinear) -> Modes:
        half = self.half_exponential * modes
        at_start = nonlinear(modes)
        a = half + self.half_weight * at_start
        at_a = nonlinear(a)
        b = half + self.half_weight * at_a
        at_b = nonlinear(b)
        c = self.half_exponential * a + self.half_weight * (2 * at_b - at_start)
        at_c = nonlinear(c)
        return (
            self.exponential * modes
            + self.f1 * at_start
            + 2 * self.f2 * (at_a + at_b)
            + self.f3 * at_c
        )
