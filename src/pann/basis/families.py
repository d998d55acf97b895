"""One-dimensional orthogonal families on [-1, 1]: values and derivatives of any order.

Differentiating a Legendre or Chebyshev polynomial gives an ultraspherical one, so a derivative
costs one three-term recurrence, the same as the value. Differences of values would lose a factor
of degree^2 in accuracy with every order; this loses next to nothing.
"""

import abc
import dataclasses
import math
from typing import final

import numpy as np
from jaxtyping import Float, Int

from pann.basis.recurrences import cosine_of_half_turns, fill_chebyshev, fill_ultraspherical
from pann.numerics.quadrature import gauss_legendre


class Family(abc.ABC):
    """Functions phi_0 = 1, phi_1, ... orthogonal under a probability measure on [-1, 1]."""

    @abc.abstractmethod
    def table(
        self, x: Float[np.ndarray, " points"], num_functions: int, derivative: int = 0
    ) -> Float[np.ndarray, "points functions"]:
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
    def quadrature(
        self, num_nodes: int
    ) -> tuple[Float[np.ndarray, " nodes"], Float[np.ndarray, " nodes"]]:
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

    def table(
        self, x: Float[np.ndarray, " points"], num_functions: int, derivative: int = 0
    ) -> Float[np.ndarray, "points functions"]:
        check_table(num_functions, derivative)
        start = float(math.prod(range(1, 2 * derivative, 2)))
        rows = np.zeros((num_functions, len(x)))
        fill_ultraspherical(rows[derivative:], x, derivative + 0.5, start)
        return rows.T

    def levels(self, num_functions: int) -> Int[np.ndarray, " functions"]:
        return np.arange(num_functions)

    def num_functions(self, level: int) -> int:
        return level + 1

    def norms(self, num_functions: int) -> Float[np.ndarray, " functions"]:
        return 1.0 / np.sqrt(2.0 * np.arange(num_functions) + 1.0)

    def quadrature(
        self, num_nodes: int
    ) -> tuple[Float[np.ndarray, " nodes"], Float[np.ndarray, " nodes"]]:
        check_nodes(num_nodes)
        nodes, weights = gauss_legendre(num_nodes)
        return nodes.copy(), weights.copy()

    def name(self, index: int, axis_name: str) -> str:
        return f"P{index}({axis_name})" if index else ""


@final
@dataclasses.dataclass(frozen=True)
class Chebyshev(Family):
    """Chebyshev polynomials T_n = cos(n arccos x), under the measure dx / (pi sqrt(1-x^2)).

    T_n^(k) = 2^(k-1) (k-1)! n C_{n-k}^{(k)} for k >= 1 (DLMF 18.9.21 and 18.9.19).
    """

    def table(
        self, x: Float[np.ndarray, " points"], num_functions: int, derivative: int = 0
    ) -> Float[np.ndarray, "points functions"]:
        check_table(num_functions, derivative)
        rows = np.zeros((num_functions, len(x)))
        if derivative == 0:
            fill_chebyshev(rows, x)
        else:
            start = float(2 ** (derivative - 1) * math.factorial(derivative - 1))
            fill_ultraspherical(rows[derivative:], x, float(derivative), start)
            rows *= np.arange(num_functions)[:, None]
        return rows.T

    def levels(self, num_functions: int) -> Int[np.ndarray, " functions"]:
        return np.arange(num_functions)

    def num_functions(self, level: int) -> int:
        return level + 1

    def norms(self, num_functions: int) -> Float[np.ndarray, " functions"]:
        return np.where(np.arange(num_functions) == 0, 1.0, np.sqrt(0.5))

    def quadrature(
        self, num_nodes: int
    ) -> tuple[Float[np.ndarray, " nodes"], Float[np.ndarray, " nodes"]]:
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

    def table(
        self, x: Float[np.ndarray, " points"], num_functions: int, derivative: int = 0
    ) -> Float[np.ndarray, "points functions"]:
        check_table(num_functions, derivative)
        frequencies = self.levels(num_functions)
        is_sine = (np.arange(num_functions) + 1) % 2
        # sin(z) = cos(z - pi/2), and each derivative adds pi/2: count quarter turns.
        quarter_turns = derivative - is_sine
        half_turns = frequencies * np.asarray(x, float)[:, None]
        table = cosine_of_half_turns(half_turns, quarter_turns)
        table[:, :1] = float(derivative == 0)
        return table * (np.pi * frequencies.astype(float)) ** derivative

    def levels(self, num_functions: int) -> Int[np.ndarray, " functions"]:
        return (np.arange(num_functions) + 1) // 2

    def num_functions(self, level: int) -> int:
        return 2 * level + 1

    def norms(self, num_functions: int) -> Float[np.ndarray, " functions"]:
        return np.where(np.arange(num_functions) == 0, 1.0, np.sqrt(0.5))

    def quadrature(
        self, num_nodes: int
    ) -> tuple[Float[np.ndarray, " nodes"], Float[np.ndarray, " nodes"]]:
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
