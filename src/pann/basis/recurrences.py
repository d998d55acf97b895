"""The arithmetic under the families: three-term recurrences and exactly reduced cosines."""

import numpy as np
from jaxtyping import Float, Int


def fill_ultraspherical(
    rows: Float[np.ndarray, "functions points"],
    x: Float[np.ndarray, " points"],
    parameter: float,
    start: float,
) -> None:
    """Rows start * C_j: j C_j = 2 (j+a-1) x C_{j-1} - (j+2a-2) C_{j-2} (DLMF table 18.9.1)."""
    if len(rows) > 0:
        rows[0] = start
    if len(rows) > 1:
        rows[1] = 2.0 * parameter * start * x
    for j in range(2, len(rows)):
        np.multiply(x, rows[j - 1], out=rows[j])
        rows[j] *= 2.0 * (j + parameter - 1.0) / j
        rows[j] -= ((j + 2.0 * parameter - 2.0) / j) * rows[j - 2]


def fill_chebyshev(
    rows: Float[np.ndarray, "functions points"], x: Float[np.ndarray, " points"]
) -> None:
    """Rows T_j = 2 x T_{j-1} - T_{j-2}; unlike arccos it also serves points just outside."""
    if len(rows) > 0:
        rows[0] = 1.0
    if len(rows) > 1:
        rows[1] = x
    for j in range(2, len(rows)):
        np.multiply(x, rows[j - 1], out=rows[j])
        rows[j] *= 2.0
        rows[j] -= rows[j - 2]


def cosine_of_half_turns(
    half_turns: Float[np.ndarray, "points functions"], quarter_turns: Int[np.ndarray, " functions"]
) -> Float[np.ndarray, "points functions"]:
    """cos(pi half_turns + (pi/2) quarter_turns), reduced before pi comes in.

    So the ends x = -1 and x = 1 give the same bits, and zeros of the sine are exactly zero.
    """
    reduced = half_turns - 2.0 * np.round(0.5 * half_turns)
    turn = np.remainder(reduced + 0.5 * (quarter_turns % 4), 2.0)
    return np.sin(np.pi * (0.5 - np.minimum(turn, 2.0 - turn)))
