"""Time on a window, s in [0, 1]: u = sum_(j < m) s^j u_j / j! + s^m v(s), v of degree p - 1.

The first m functions carry the state that the window starts from, so that it is met exactly for
whatever v; m is the order of the equation in time. The equation holds at the p Radau nodes, which
contain the window's end: that is the Radau IIA method, of order 2p - 1 at the end and stiffly
stable. Of second order in time it is so only as a system of first order: u in the equation is what
the method makes of u', not u itself, from which it differs by no more than the highest degree does
(`node_tables`).
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


def node_tables(order: int, count: int) -> list[Float[np.ndarray, "nodes functions"]]:
    """Derivatives 0, ..., m at the nodes, as Radau IIA has them for a system of first order.

    D^k u for k < m - 1 is its start plus the integral of the polynomial of degree p - 1 through the
    node values of D^(k+1) u. With u itself the method would be another one, which makes what is
    stiff p times larger in each window: errors of the velocity at a fixed end, and fast waves.
    """
    nodes, starts = radau_nodes(count), np.eye(order + count)
    tables = [time_table(nodes, order, count, k) for k in (order - 1, order)]
    for k in reversed(range(order - 1)):
        tables.insert(0, starts[k] + integration(nodes) @ tables[0])
    return tables


def integration(nodes: Float[np.ndarray, " nodes"]) -> Float[np.ndarray, "nodes nodes"]:
    """From values at the nodes to integrals from 0 to each of them (Butcher's matrix A)."""
    count, at = len(nodes), 2.0 * nodes - 1.0
    antiderivatives = np.polynomial.legendre.legint(np.eye(count), lbnd=-1, scl=0.5)
    integrals = np.polynomial.legendre.legval(at, antiderivatives).T
    return integrals @ np.linalg.inv(Legendre().table(at, count))


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

    With V_k the values of D^k (s^m P_i) at the nodes and A the matrix of `integration`,
    V_k V_0^-1 = A^-k = Q diag(lambda^k) Q^-1. Of conjugate pairs one is kept, and counts twice.
    """

    numbers: Complex[np.ndarray, "derivatives kept"]
    into: Complex[np.ndarray, "kept nodes"]
    back: Complex[np.ndarray, "functions kept"]


def decouple(order: int, count: int) -> Decoupled:
    """From values at the nodes to independent unknowns, and from them to coefficients."""
    inverse = np.linalg.inv(node_tables(order, count)[0][:, order:])
    values, vectors = np.linalg.eig(np.linalg.inv(integration(radau_nodes(count))))
    left = np.linalg.inv(vectors)
    numbers = values ** np.arange(order + 1)[:, None]
    real = np.abs(values.imag) <= 1e-12 * np.abs(values)
    kept = real | (values.imag > 0)
    weight = np.where(real, 1.0, 2.0)
    return Decoupled(
        numbers=numbers[:, kept].astype(complex),
        into=left[kept].astype(complex),
        back=(inverse @ (vectors * weight))[:, kept].astype(complex),
    )
