"""Exponential time differencing of fourth order for stiff equations u_t = L u + N(u).

Kassam and Trefethen, Fourth-order time-stepping for stiff PDEs, SIAM J. Sci. Comput. 26 (2005).
"""

import functools
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
    # Steps of one length share their coefficients.
    step_of = functools.cache(lambda length: _step(length, linear, nonlinear))
    modes = initial
    yield modes
    for time, gap in zip(times[1:], gaps, strict=True):
        num_steps = max(1, int(np.ceil(gap / largest_step - 1e-6)))
        # Lengths that differ by rounding are one.
        length = float(f"{gap / num_steps:.9e}")
        for _ in range(num_steps):
            modes = step_of(length)(modes)
        if not np.all(np.isfinite(modes)):
            raise NotConverged(
                f"the reference solution is not finite at t = {time:g} with steps of {length:g}; "
                "use a smaller largest_step or more modes"
            )
        yield modes


def _step(
    length: float, linear: Inexact[np.ndarray, "..."], nonlinear: Nonlinear
) -> Callable[[Modes], Modes]:
    """A step of this length; names as in the paper's listing.

    The weights are means over a circle around h L: the formulas cancel where h L is small.
    """
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
    half_weight, f1, f2, f3 = weights
    exponential, half_exponential = np.exp(length * linear), np.exp(length * linear / 2)

    def advance(modes: Modes) -> Modes:
        half = half_exponential * modes
        at_start = nonlinear(modes)
        a = half + half_weight * at_start
        at_a = nonlinear(a)
        b = half + half_weight * at_a
        at_b = nonlinear(b)
        c = half_exponential * a + half_weight * (2 * at_b - at_start)
        at_c = nonlinear(c)
        return exponential * modes + f1 * at_start + 2 * f2 * (at_a + at_b) + f3 * at_c

    return advance
