"""One-dimensional orthogonal families on [-1, 1]: values and derivatives of any order.

Differentiating a Legendre or Chebyshev polynomial gives an ultraspherical one, so a derivative
costs one three-term recurrence, the same as the value. Differences of values would lose a factor
of degree^2 in accuracy with every order; this loses next to nothing. The tables of Legendre,
Chebyshev and Fourier are made of NumPy's arrays as of JAX's, inside compiled programs too.
"""

import abc
import dataclasses
import math
from typing import Any, NamedTuple, TypeAlias, final

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from pann.numerics.quadrature import gauss_legendre

# Of NumPy or of JAX: a table is of the kind of its points.
Coordinates: TypeAlias = Float[Any, " points"]
Table: TypeAlias = Float[Any, "points functions"]
# Nodes in increasing order, and weights of sum 1.
Rule: TypeAlias = tuple[Float[np.ndarray, " _nodes"], Float[np.ndarray, " _nodes"]]


class Family(abc.ABC):
    """Functions phi_0 = 1, phi_1, ... orthogonal under a probability measure on [-1, 1]."""

    @abc.abstractmethod
    def table(self, x: Coordinates, num_functions: int, derivative: int = 0) -> Table:
        """Values of d^derivative/dx^derivative phi_n(x_i) for n < num_functions."""

    @abc.abstractmethod
    def levels(self, num_functions: int) -> Int[np.ndarray, " functions"]:
        """The polynomial degree of each function, or its frequency: never decreasing."""

    @abc.abstractmethod
    def num_functions(self, level: int) -> int:
        """How many functions have at most this level."""

    @abc.abstractmethod
    def norms(self, num_functions: int) -> Float[np.ndarray, " functions"]:
        """L2 norms under the family's own probability measure."""

    @abc.abstractmethod
    def quadrature(self, num_nodes: int) -> Rule:
        """Nodes in increasing order and weights of sum 1 for the family's measure.

        The rule integrates phi_i phi_j exactly for i, j < num_nodes (Fourier: num_nodes odd).
        """

    @abc.abstractmethod
    def name(self, index: int, axis_name: str) -> str:
        """The function in terms of the axis, such as `P2(x)`; empty for the constant."""


@final
@dataclasses.dataclass(frozen=True)
class Legendre(Family):
    """Legendre polynomials with P_n(1) = 1, orthogonal under the uniform measure dx/2.

    P_n^(k) = (2k-1)!! C_{n-k}^{(k+1/2)} (DLMF 18.7.9 and 18.9.19).
    """

    def table(self, x: Coordinates, num_functions: int, derivative: int = 0) -> Table:
        check_table(num_functions, derivative)
        start = float(math.prod(range(1, 2 * derivative, 2)))
        recurrence = _ultraspherical(num_functions - derivative, derivative + 0.5, start)
        return _polynomials(x, num_functions, derivative, recurrence)

    def levels(self, num_functions: int) -> Int[np.ndarray, " functions"]:
        return np.arange(num_functions)

    def num_functions(self, level: int) -> int:
        return level + 1

    def norms(self, num_functions: int) -> Float[np.ndarray, " functions"]:
        return 1.0 / np.sqrt(2.0 * np.arange(num_functions) + 1.0)

    def quadrature(self, num_nodes: int) -> Rule:
        check_nodes(num_nodes)
        nodes, weights = gauss_legendre(num_nodes)
        return nodes.copy(), weights.copy()

    def name(self, index: int, axis_name: str) -> str:
        return f"P{index}({axis_name})" if index else ""


@final
@dataclasses.dataclass(frozen=True)
class Chebyshev(Family):
    """Chebyshev polynomials T_n = cos(n arccos x), under the measure dx / (pi sqrt(1-x^2)).

    T_n^(k) = 2^(k-1) (k-1)! n C_{n-k}^{(k)} for k >= 1 (DLMF 18.9.21 and 18.9.19). The recurrence
    T_n = 2 x T_{n-1} - T_{n-2}, unlike arccos, also serves points just outside of [-1, 1].
    """

    def table(self, x: Coordinates, num_functions: int, derivative: int = 0) -> Table:
        check_table(num_functions, derivative)
        if derivative == 0:
            ones = np.ones(max(num_functions - 2, 0))
            return _polynomials(x, num_functions, 0, Recurrence(1.0, 1.0, 2.0 * ones, ones))
        start = float(2 ** (derivative - 1) * math.factorial(derivative - 1))
        recurrence = _ultraspherical(num_functions - derivative, float(derivative), start)
        table = _polynomials(x, num_functions, derivative, recurrence)
        return table * np.arange(num_functions)

    def levels(self, num_functions: int) -> Int[np.ndarray, " functions"]:
        return np.arange(num_functions)

    def num_functions(self, level: int) -> int:
        return level + 1

    def norms(self, num_functions: int) -> Float[np.ndarray, " functions"]:
        return np.where(np.arange(num_functions) == 0, 1.0, np.sqrt(0.5))

    def quadrature(self, num_nodes: int) -> Rule:
        check_nodes(num_nodes)
        # The sine form gives nodes that are exactly symmetric, with an exact 0 in the middle.
        nodes = np.sin(np.pi * np.arange(1 - num_nodes, num_nodes, 2) / (2 * num_nodes))
        return nodes, np.full(num_nodes, 1.0 / num_nodes)

    def name(self, index: int, axis_name: str) -> str:
        return f"T{index}({axis_name})" if index else ""


@final
@dataclasses.dataclass(frozen=True)
class Fourier(Family):
    """1, cos(pi x), sin(pi x), cos(2 pi x), ...: period 2, orthogonal under the uniform measure."""

    def table(self, x: Coordinates, num_functions: int, derivative: int = 0) -> Table:
        check_table(num_functions, derivative)
        frequencies, numbers = self.levels(num_functions), np.arange(num_functions)
        is_sine = (numbers > 0) & (numbers % 2 == 0)
        # sin(z) = cos(z - pi/2), and each derivative adds pi/2: count quarter turns.
        quarter_turns = (derivative - is_sine) % 4
        library = np if isinstance(x, np.ndarray) else jnp
        # The argument is reduced before pi comes in: the ends x = -1 and x = 1 give the same bits,
        # and zeros of the sine are exactly zero.
        half_turns = frequencies * x[:, None]
        reduced = half_turns - 2.0 * library.round(0.5 * half_turns)
        turn = library.remainder(reduced + (0.5 * quarter_turns).astype(x.dtype), 2.0)
        table = library.sin(np.pi * (0.5 - library.minimum(turn, 2.0 - turn)))
        return table * ((np.pi * frequencies) ** derivative).astype(x.dtype)

    def levels(self, num_functions: int) -> Int[np.ndarray, " functions"]:
        return (np.arange(num_functions) + 1) // 2

    def num_functions(self, level: int) -> int:
        return 2 * level + 1

    def norms(self, num_functions: int) -> Float[np.ndarray, " functions"]:
        return np.where(np.arange(num_functions) == 0, 1.0, np.sqrt(0.5))

    def quadrature(self, num_nodes: int) -> Rule:
        check_nodes(num_nodes)
        nodes = -1.0 + 2.0 * np.arange(num_nodes) / num_nodes
        return nodes, np.full(num_nodes, 1.0 / num_nodes)

    def name(self, index: int, axis_name: str) -> str:
        if index == 0:
            return ""
        return f"{'cos' if index % 2 else 'sin'}{(index + 1) // 2}({axis_name})"


FAMILIES: dict[str, Family] = {
    "legendre": Legendre(),
    "chebyshev": Chebyshev(),
    "fourier": Fourier(),
}
# Families with tables of JAX's arrays.
TRACEABLE = (Legendre, Chebyshev, Fourier)


def family_by_name(name: str) -> Family:
    """The family called `legendre`, `chebyshev` or `fourier`."""
    if name not in FAMILIES:
        raise ValueError(f"'{name}' is not a family; use one of {', '.join(FAMILIES)}")
    return FAMILIES[name]


def check_table(num_functions: int, derivative: int) -> None:
    if num_functions < 0:
        raise ValueError(f"num_functions must be at least 0, got {num_functions}")
    if derivative < 0:
        raise ValueError(f"derivative must be at least 0, got {derivative}; use 0 for the values")


def check_nodes(num_nodes: int) -> None:
    if num_nodes < 1:
        raise ValueError(f"a quadrature rule needs at least 1 node, got {num_nodes}")


# ---- Three-term recurrences ----


class Recurrence(NamedTuple):
    """p_0 = start, p_1 = slope x, and p_j = up_j x p_{j-1} - down_j p_{j-2} from j = 2 on."""

    start: float
    slope: float
    up: Float[np.ndarray, " rest"]
    down: Float[np.ndarray, " rest"]


def _ultraspherical(size: int, a: float, start: float) -> Recurrence:
    """start * C_j: j C_j = 2 (j+a-1) x C_{j-1} - (j+2a-2) C_{j-2} (DLMF table 18.9.1)."""
    j = np.arange(2, max(size, 2), dtype=float)
    return Recurrence(start, 2.0 * a * start, 2.0 * (j + a - 1.0) / j, (j + 2.0 * a - 2.0) / j)


def _polynomials(x: Coordinates, size: int, derivative: int, recurrence: Recurrence) -> Table:
    """A column for each function; those of lower degree than the derivative are zero."""
    start, slope, up, down = recurrence
    if isinstance(x, np.ndarray):
        rows = np.zeros((size, len(x)))
        filled = rows[derivative:]
        filled[:1], filled[1:2] = start, slope * x
        for j in range(2, len(filled)):
            np.multiply(x, filled[j - 1], out=filled[j])
            filled[j] *= up[j - 2]
            filled[j] -= down[j - 2] * filled[j - 2]
        return rows.T

    def step(carry: tuple[Array, Array], factors: Array) -> tuple[tuple[Array, Array], Array]:
        before, last = carry
        new = factors[0] * (x * last) - factors[1] * before
        return (last, new), new

    first, second = jnp.full_like(x, start), slope * x
    _, rest = jax.lax.scan(step, (first, second), jnp.asarray(np.stack([up, down], 1), x.dtype))
    zeros = jnp.zeros((min(derivative, size), x.shape[0]), x.dtype)
    return jnp.concatenate([zeros, first[None], second[None], rest])[:size].T
