"""Functions of the plane that polynomials converge to slowly: of holes, corners and poles.

With w = (z - c) exp(-i direction) / scale, about a center c outside of the domain or on its
boundary, all of them are real or imaginary parts of

    w^p conj(w)^q l(w),    l = 1, log w or log |w|,

that is r^(p+q) exp(i (p-q) theta) times l: (R/r)^m cos(k theta) and log r about a hole,
r^(k pi/omega) sin(k pi theta/omega) at a corner of angle omega, r^2 (log r sin(2 theta) + theta
cos(2 theta)) where data do not match at a right angle, and 1/(z - c) with c outside (Gopal and
Trefethen, 2019). Derivatives stay in the family, for d/dx and d/dy are sums of d/dw and d/dconj(w).

A cut from the corner of a hole would come out of the hole on its other side. There w / (w - 1)
takes the place of w, with w = 1 at a point in the hole: the cut ends there.
"""

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import final

import numpy as np
from jaxtyping import Complex, Float

# Kinds of the factor l.
PLAIN, LOGARITHM, LOG_RADIUS = 0.0, 1.0, 2.0
# The first two with w / (w - 1) in place of w; `direction` and `scale` are those of the other end.
CUT_SHORT, CUT_SHORT_LOGARITHM = 3.0, 4.0
FIELDS = ("center_x", "center_y", "direction", "opening", "scale", "p", "q", "kind", "is_imaginary")


@final
@dataclasses.dataclass(frozen=True, eq=False)
class Singular:
    """Functions of the plane, a row of `numbers` each, with the columns FIELDS.

    Angles theta count from `direction` on, counterclockwise; the cut lies opposite to the middle of
    the sector 0 < theta < opening.
    """

    numbers: Float[np.ndarray, "functions 9"]

    @staticmethod
    def of(rows: Sequence[Sequence[float | int]]) -> "Singular":
        return Singular(np.asarray(rows, float).reshape(-1, len(FIELDS)))

    def __len__(self) -> int:
        return len(self.numbers)

    def table(
        self, points: Float[np.ndarray, "points 2"], order: tuple[int, int]
    ) -> Float[np.ndarray, "points functions"]:
        """Derivatives at points: `order` times by x and by y."""
        out = np.empty((len(points), len(self)))
        z = points[:, 0] + 1j * points[:, 1]
        # Functions about the same center share distances and angles.
        keys = self.numbers[:, :5]
        centers, which = np.unique(keys, axis=0, return_inverse=True)
        for number, (x, y, direction, opening, scale) in enumerate(centers):
            turn = np.exp(-1j * direction) / scale
            w = (z - (x + 1j * y)) * turn
            # At the center itself positive powers are zero.
            radius = np.maximum(np.abs(w), 1e-200)
            behind = 0.5 * (2.0 * np.pi - opening)
            theta = np.mod(np.angle(w) + behind, 2.0 * np.pi) - behind
            columns = np.flatnonzero(which.ravel() == number)
            with np.errstate(divide="ignore", invalid="ignore"):
                log = np.log(radius) + 1j * theta
                # Real and imaginary parts come in pairs.
                both, of = np.unique(self.numbers[columns, 5:8], axis=0, return_inverse=True)
                found = np.empty((len(z), len(both)), complex)
                is_short = both[:, 2] >= CUT_SHORT
                found[:, ~is_short] = _derivatives(both[~is_short], log, turn, order)
                if np.any(is_short):
                    found[:, is_short] = _cut_short(both[is_short], w, turn, order)
                found = found[:, of.ravel()]
                is_imaginary = self.numbers[columns, 8] > 0
                out[:, columns] = np.where(is_imaginary, found.imag, found.real)
        return out

    def names(self) -> list[str]:
        """Each function in words."""
        names = []
        for x, y, _, _, _, p, q, kind, is_imaginary in self.numbers:
            part = "sin" if is_imaginary else "cos"
            log = "" if kind in (PLAIN, CUT_SHORT) else " log r"
            names.append(f"r^{p + q:.3g} {part}({p - q:.3g} theta){log} about ({x:.3g}, {y:.3g})")
        return names


def _derivatives(
    powers: Float[np.ndarray, "functions 3"],
    log: Complex[np.ndarray, " points"],
    turn: complex,
    order: tuple[int, int],
) -> Complex[np.ndarray, "points functions"]:
    """By x and y from those by w and its conjugate."""
    p, q, kind = powers.T
    total = np.zeros((len(log), len(p)), complex)
    for (a, b), factor in _by_w(turn, order).items():
        of_p, of_q = _falling(p, a), _falling(q, b)
        # The derivative of w^p by p is w^p log w.
        rest = np.where(kind == PLAIN, 0.0, _slope(p, a) * of_q)
        both = 0.5 * (_slope(p, a) * of_q + of_p * _slope(q, b))
        rest = np.where(kind == LOG_RADIUS, both, rest)
        whole = of_p * of_q
        # Most are functions of w alone, which has no derivative by its conjugate.
        some = (whole != 0.0) | (rest != 0.0)
        if not np.any(some):
            continue
        power = np.exp((p[some] - a) * log[:, None] + (q[some] - b) * log.conj()[:, None])
        times = np.where(kind[some] == LOGARITHM, log[:, None], log.real[:, None])
        times = np.where(kind[some] == PLAIN, 1.0, times)
        total[:, some] += factor * power * (whole[some] * times + rest[some])
    return total


def _by_w(turn: complex, order: tuple[int, int]) -> dict[tuple[int, int], complex]:
    """Derivatives by x and y as combinations of those by w and its conjugate."""
    along_x, along_y = order
    factors: dict[tuple[int, int], complex] = {}
    for j in range(along_x + 1):
        for k in range(along_y + 1):
            a, b = along_x - j + along_y - k, j + k
            sign = (-1.0) ** k * math.comb(along_x, j) * math.comb(along_y, k)
            factors[a, b] = factors.get((a, b), 0.0) + sign * 1j**along_y
    return {(a, b): f * turn**a * np.conj(turn) ** b for (a, b), f in factors.items()}


def _cut_short(
    powers: Float[np.ndarray, "functions 3"],
    w: Complex[np.ndarray, " points"],
    turn: complex,
    order: tuple[int, int],
) -> Complex[np.ndarray, "points functions"]:
    """Those of v^p conj(v)^q, and of these times log v, with v = w / (w - 1)."""
    p, q, kind = powers.T
    w = np.where(np.abs(w) < 1e-200, 1e-200, w)[:, None]
    log = np.log(w / (w - 1.0))
    total = np.zeros((len(w), len(p)), complex)
    for (a, b), factor in _by_w(turn, order).items():
        of_p, by_p = _power_and_slope(p, a, w, log)
        of_q, _ = _power_and_slope(q, b, w, log)
        total += factor * np.where(kind == CUT_SHORT, of_p, by_p) * of_q.conj()
    return total


def _power_and_slope(
    p: Float[np.ndarray, " functions"],
    times: int,
    w: Complex[np.ndarray, "points 1"],
    log: Complex[np.ndarray, "points 1"],
) -> tuple[Complex[np.ndarray, "points functions"], Complex[np.ndarray, "points functions"]]:
    """So many derivatives by w of (w / (w - 1))^p, and their own by p."""
    value, slope = np.zeros((2, len(w), len(p)), complex)
    for j in range(times + 1):
        rest = times - j
        shared = math.comb(times, j) * w**-j * (w - 1.0) ** -rest
        value += shared * _falling(p, j) * _falling(-p, rest)
        slope += shared * (_slope(p, j) * _falling(-p, rest) - _falling(p, j) * _slope(-p, rest))
    power = np.exp(p * log)
    return power * value, power * (slope + log * value)


def _falling(power: Float[np.ndarray, " functions"], times: int) -> Float[np.ndarray, " functions"]:
    """power (power - 1) ... (power - times + 1)."""
    return functools.reduce(np.multiply, (power - k for k in range(times)), np.ones_like(power))


def _slope(power: Float[np.ndarray, " functions"], times: int) -> Float[np.ndarray, " functions"]:
    """The derivative of that by the power."""
    total = np.zeros_like(power)
    for left_out in range(times):
        others = (power - k for k in range(times) if k != left_out)
        total = total + functools.reduce(np.multiply, others, np.ones_like(power))
    return total
