"""Time on a window, s in [0, 1]: u = sum_(j < m) s^j u_j / j! + s^m v(s), v of degree p - 1.

The first m functions carry the state that the window starts from, so that it is met exactly for
whatever v; m is the order of the equation in time. The equation holds at the p Radau nodes, which
contain the window's end: that is the Radau IIA method, of order 2p - 1 at the end and stiffly
stable.
"""

import dataclasses
import math

import numpy as np
import scipy.special
from jaxtyping import Complex, Float

from pann.basis import Legendre


def radau_nodes(count: int) -> Float[np.ndarray, " nodes"]:
    """Nodes in (0, 1], the last of them 1: the zeros of P_(p-1)^(1, 0), and the end."""
    if count == 1:
        return np.ones(1)
    inner, _ = scipy.special.roots_jacobi(count - 1, 1.0, 0.0)
    return np.append(0.5 * (inner + 1.0), 1.0)


def time_table(
    s: Float[np.ndarray, " times"], order: int, count: int, derivative: int
) -> Float[np.ndarray, "times functions"]:
    """d^k/ds^k of the functions s^j / j! (j < order) and s^order P_i(2s - 1) (i < count)."""
    starts = np.stack([_power(s, j, derivative) / math.factorial(j) for j in range(order)], axis=1)
    rest = np.zeros((len(s), count))
    for k in range(derivative + 1):
        polynomials = Legendre().table(2.0 * s - 1.0, count, derivative - k)
        scale = math.comb(derivative, k) * 2.0 ** (derivative - k)
        rest += scale * _power(s, order, k)[:, None] * polynomials
    return np.concatenate([starts, rest], axis=1)


def _power(s: Float[np.ndarray, " times"], power: int, derivative: int) -> np.ndarray:
    """d^k/ds^k s^power."""
    if derivative > power:
        return np.zeros_like(s)
    return float(math.perm(power, derivative)) * s ** (power - derivative)


def to_legendre(order: int, count: int) -> Float[np.ndarray, "functions functions"]:
    """Coefficients of P_l(2s - 1), l < order + count, of the window's functions (a column each)."""
    nodes, _ = Legendre().quadrature(order + count)
    values = time_table(0.5 * (nodes + 1.0), order, count, 0)
    return np.linalg.solve(Legendre().table(nodes, order + count), values)


@dataclasses.dataclass(frozen=True)
class Decoupled:
    """The p equations of a window made independent: d^k/ds^k becomes a number for each.

    With V_k the values of D^k (s^m P_i) at the nodes, V_m V_0^-1 = Q diag(lambda) Q^-1; for other k
    the diagonal of Q^-1 V_k V_0^-1 Q stands for the whole, which is exact where only D^m occurs.
    Of conjugate pairs one is kept, and counts twice.
    """

    numbers: Complex[np.ndarray, "derivatives kept"]
    into: Complex[np.ndarray, "kept nodes"]
    back: Complex[np.ndarray, "functions kept"]


def decouple(order: int, count: int) -> Decoupled:
    """From values at the nodes to independent unknowns, and from them to coefficients."""
    nodes = radau_nodes(count)
    tables = [time_table(nodes, order, count, k)[:, order:] for k in range(order + 1)]
    inverse = np.linalg.inv(tables[0])
    values, vectors = np.linalg.eig(tables[order] @ inverse)
    left = np.linalg.inv(vectors)
    numbers = np.stack([np.diagonal(left @ table @ inverse @ vectors) for table in tables])
    numbers[order] = values
    real = np.abs(values.imag) <= 1e-12 * np.abs(values)
    kept = real | (values.imag > 0)
    weight = np.where(real, 1.0, 2.0)
    return Decoupled(
        numbers=numbers[:, kept].astype(complex),
        into=left[kept].astype(complex),
        back=(inverse @ (vectors * weight))[:, kept].astype(complex),
    )
