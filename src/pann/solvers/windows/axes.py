"""The functions of a window along each axis: in space, in time, and how well they resolve a state.

In space the residual is evaluated on half as many points again as there are functions, so that
products of two of them do not alias, and projected back; products of three alias as far as the
highest functions matter, which the tails of the coefficients show. Along an axis that is not
periodic the projections on the highest functions give way to conditions at the ends and, on several
elements, to continuity between them (Lanczos' tau method). In time there are Radau's nodes.
"""

import dataclasses
import functools
import math
from collections.abc import Iterable

import equinox as eqx
import numpy as np
import scipy.special
from jaxtyping import Array, Complex, Float

from pann.basis import Family, Fourier, Legendre, PiecewiseLegendre

# The tail of an axis: one of so many parts of its frequencies, or the last degrees.
FREQUENCY_PARTS, LAST_DEGREES = 8, 2

Coefficients = Float[np.ndarray, "fields ... degrees"]


@dataclasses.dataclass(frozen=True)
class SpaceAxis:
    """Functions on [lower, upper] up to a level: a frequency, or the degree on each element."""

    name: str
    lower: float
    upper: float
    family: Family
    level: int

    @property
    def width(self) -> float:
        return self.upper - self.lower

    @property
    def is_fourier(self) -> bool:
        return isinstance(self.family, Fourier)

    @property
    def num_functions(self) -> int:
        return self.family.num_functions(self.level)

    @property
    def num_pieces(self) -> int:
        """The number of elements."""
        return len(self.edges) - 1

    @property
    def edges(self) -> Float[np.ndarray, " edges"]:
        """The ends of the elements on [-1, 1]."""
        breaks = self.family.breaks if isinstance(self.family, PiecewiseLegendre) else ()
        return np.array([-1.0, *breaks, 1.0])

    @functools.cached_property
    def grid(self) -> tuple[Float[np.ndarray, " points"], Float[np.ndarray, " points"]]:
        """Points on [-1, 1] and weights for the projection."""
        if self.is_fourier:
            return self.family.quadrature(3 * self.level + 2)
        return self.family.quadrature(self.num_pieces * (3 * self.level // 2 + 2))

    @property
    def points(self) -> Float[np.ndarray, " points"]:
        """The points of the grid on [lower, upper]."""
        return self.coordinates(self.grid[0])

    @property
    def wavenumbers(self) -> Float[np.ndarray, " functions"]:
        """Of the modes exp(i k x): 0, 1, ..., K, -1, ..., -K in units of the axis, or none."""
        if not self.is_fourier:
            return np.zeros(0)
        numbers = np.arange(1.0, self.level + 1)
        return 2.0 * np.pi / self.width * np.concatenate([[0.0], numbers, -numbers])

    def table(
        self, reference: Float[np.ndarray, " points"], derivative: int = 0
    ) -> Float[np.ndarray, "points functions"]:
        """Derivatives by the coordinate of the axis, at points on [-1, 1]."""
        table = self.family.table(reference, self.num_functions, derivative)
        return table * (2.0 / self.width) ** derivative

    def coordinates(self, reference: Float[np.ndarray, " points"]) -> Float[np.ndarray, " points"]:
        return self.lower + 0.5 * (reference + 1.0) * self.width

    @functools.cached_property
    def projection(self) -> Float[np.ndarray, "functions points"]:
        """From values on the grid to coefficients: exact for the functions themselves."""
        points, weights = self.grid
        table = self.table(points)
        return (table * weights[:, None]).T / self.family.norms(self.num_functions)[:, None] ** 2

    def moved_from(
        self, other: "SpaceAxis", coefficients: Float[np.ndarray, "functions2 ..."]
    ) -> Float[np.ndarray, "functions ..."]:
        """Coefficients of another axis's functions in these."""
        points, _ = self.grid
        found = self._projected(
            other._evaluated(points, coefficients.reshape(len(coefficients), -1))
        )
        return found.reshape(len(found), *coefficients.shape[1:])

    def _evaluated(
        self, points: Float[np.ndarray, " points"], coefficients: Float[np.ndarray, "functions _"]
    ) -> Float[np.ndarray, "points _"]:
        """Values on [-1, 1] by the functions of each point's piece alone."""
        if not isinstance(self.family, PiecewiseLegendre):
            return self.table(points) @ coefficients
        pieces, local, _ = self.family.local(points)
        levels = coefficients.reshape(self.level + 1, self.num_pieces, -1).copy()
        levels[0] = self.family.steps @ levels[0]
        table = Legendre().table(local, self.level + 1)
        return np.einsum("xl,xlr->xr", table, np.moveaxis(levels, 0, 1)[pieces])

    def _projected(self, values: Float[np.ndarray, "points _"]) -> Float[np.ndarray, "functions _"]:
        """Coefficients from values on the grid, piece by piece."""
        if not isinstance(self.family, PiecewiseLegendre):
            return self.projection @ values
        by_piece = values.reshape(self.num_pieces, -1, values.shape[1])
        local, weights = Legendre().quadrature(by_piece.shape[1])
        table = Legendre().table(local, self.level + 1)
        projection = (table * weights[:, None]).T / Legendre().norms(self.level + 1)[:, None] ** 2
        found = np.moveaxis(projection @ by_piece, 1, 0)
        found[0] = np.linalg.solve(self.family.steps, found[0])
        return found.reshape(self.num_functions, -1)

    def continuity_rows(self, order: int, at_seam: bool) -> Float[np.ndarray, "rows functions"]:
        """Jumps of u, u', ... below the order at each break, and from the end to the beginning."""
        pairs = [(left, left + 1) for left in range(self.num_pieces - 1)]
        if at_seam:
            pairs.append((self.num_pieces - 1, 0))
        rows = [
            self._element_end(right, -1.0, k) - self._element_end(left, 1.0, k)
            for left, right in pairs
            for k in range(order)
        ]
        return np.stack(rows) if rows else np.zeros((0, self.num_functions))

    def end_rows(self, side: str) -> Float[np.ndarray, "2 functions"]:
        """Value and outward derivative of every function at one end."""
        element, end = (0, -1.0) if side == "lower" else (self.num_pieces - 1, 1.0)
        rows = [self._element_end(element, end, 0), end * self._element_end(element, end, 1)]
        return np.stack(rows)

    def _element_end(
        self, element: int, end: float, derivative: int
    ) -> Float[np.ndarray, " functions"]:
        """Derivatives at an end of an element, seen from inside: rounding cannot change sides."""
        left, right = self.edges[element : element + 2]
        row = np.zeros(self.num_functions)
        local = _at_end(end, self.level + 1, derivative)
        scale = (4.0 / ((right - left) * self.width)) ** derivative
        row[element :: self.num_pieces] = local * scale
        # The functions of level 0 are steps, constant on the element.
        middle = np.array([0.5 * (left + right)])
        row[: self.num_pieces] = self.family.table(middle, self.num_pieces, derivative)[0]
        return row


@functools.lru_cache(maxsize=64)
def _at_end(end: float, count: int, derivative: int) -> Float[np.ndarray, " functions"]:
    return Legendre().table(np.array([end]), count, derivative)[0]


Axes = tuple[SpaceAxis, ...]


# ---- Time on a window, s in [0, 1] ----


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


def node_tables(order: int, count: int) -> list[Float[np.ndarray, "nodes functions"]]:
    """Derivatives 0, ..., m at the nodes, as Radau IIA has them for a system of first order.

    D^k u for k < m - 1 is its start plus the integral of the polynomial of degree p - 1 through the
    node values of D^(k+1) u. With u itself the method would be another one, which makes what is
    stiff p times larger in each window: errors of the velocity at a fixed end, and fast modes.
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


def to_legendre(order: int, count: int) -> Float[np.ndarray, "functions functions"]:
    """Coefficients of P_l(2s - 1), l < order + count; one column per function of the window."""
    nodes, _ = Legendre().quadrature(order + count)
    values = time_table(0.5 * (nodes + 1.0), order, count, 0)
    return np.linalg.solve(Legendre().table(nodes, order + count), values)


class Decoupled(eqx.Module):
    """The p equations of a window made independent: d^k/ds^k becomes a number for each.

    With V_k the values of D^k (s^m P_i) at the nodes and A the matrix of `integration`,
    V_k V_0^-1 = A^-k = Q diag(lambda^k) Q^-1. Of conjugate pairs one is kept, and counts twice.
    `into` leads from values at the nodes to independent unknowns, `back` on to coefficients.
    """

    numbers: Complex[Array | np.ndarray, "derivatives kept"]
    into: Complex[Array | np.ndarray, "kept nodes"]
    back: Complex[Array | np.ndarray, "functions kept"]


def decouple(order: int, count: int) -> Decoupled:
    """The independent equations of windows with so many nodes."""
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


# ---- Resolution: how much of a state is in the highest functions along each axis ----


def orthonormal(axes: Axes, coefficients: Coefficients) -> Coefficients:
    """Coefficients of orthonormal functions from those of the axes', and of Legendre's in time."""
    norms = [axis.family.norms(axis.num_functions) for axis in axes]
    norms.append(Legendre().norms(coefficients.shape[-1]))
    for number, norm in enumerate(norms, start=1):
        shape = [-1 if axis == number else 1 for axis in range(coefficients.ndim)]
        coefficients = coefficients * norm.reshape(shape)
    return coefficients


def sizes(coefficients: Coefficients) -> Float[np.ndarray, " fields"]:
    """The norms of the fields, by coefficients of orthonormal functions."""
    return np.sqrt(np.sum(coefficients.reshape(len(coefficients), -1) ** 2, axis=1))


def time_tail(coefficients: Coefficients, scales: Float[np.ndarray, " fields"]) -> float:
    """The last two degrees in time, relative to the fields' scales."""
    return float(np.max(sizes(coefficients[..., -LAST_DEGREES:]) / scales))


def space_tails(
    axes: Axes,
    coefficients: Coefficients,
    scales: Float[np.ndarray, " fields"],
) -> list[Float[np.ndarray, " elements"]]:
    """The highest frequencies of each axis, or the last two degrees on each of its elements."""
    tails = []
    for number, axis in enumerate(axes, start=1):
        relative = np.moveaxis(coefficients, number, 1)
        relative = relative.reshape(*relative.shape[:2], -1) / scales[:, None, None]
        squares = np.sum(relative**2, axis=2)
        last = max(LAST_DEGREES, axis.level // FREQUENCY_PARTS if axis.is_fourier else 0)
        highest = squares[:, axis.family.levels(axis.num_functions) > axis.level - last]
        by_element = np.sum(highest.reshape(len(scales), -1, axis.num_pieces), axis=1)
        tails.append(np.sqrt(np.max(by_element, axis=0)))
    return tails


def joining_losses(
    axis: SpaceAxis, coefficients: Coefficients, scales: Float[np.ndarray, " fields"]
) -> Float[np.ndarray, " breaks"]:
    """What the fields lose at each break if the elements beside it become one, relative to scales.

    The last two degrees on the larger element count as lost, too. Only halves of an element that
    was cut are joined: other breaks have infinity. `coefficients` are those of the axis's functions
    and Legendre's in time.
    """
    edges, widths, count = axis.edges, np.diff(axis.edges), axis.level + 1
    losses = np.full(axis.num_pieces - 1, np.inf)
    even = (edges[:-2] + 1.0) / (2.0 * widths[:-1])
    are_halves = np.isclose(widths[:-1], widths[1:], rtol=1e-9) & (
        np.abs(even - np.round(even)) < 1e-6
    )
    at = np.flatnonzero(are_halves)
    if not len(at):
        return losses
    local = coefficients.reshape(len(coefficients), count, axis.num_pieces, -1).copy()
    middles = 0.5 * (edges[:-1] + edges[1:])
    local[:, 0] = axis.family.table(middles, axis.num_pieces) @ local[:, 0]
    norms = Legendre().norms(count)
    nodes, weights = Legendre().quadrature(count)
    own = Legendre().table(nodes, count)
    to_half = [
        (own * weights[:, None]).T
        / norms[:, None] ** 2
        @ Legendre().table(0.5 * (nodes + end), count)
        for end in (-1.0, 1.0)
    ]
    # The projection onto the larger element is the transpose, in orthonormal functions.
    orthonormal_halves = [norms[:, None] * half / norms for half in to_half]
    halves = [norms[:, None, None] * local[:, :, at + side] for side in (0, 1)]
    whole = 0.5 * sum(
        np.einsum("ij,fipt->fjpt", matrix, half)
        for matrix, half in zip(orthonormal_halves, halves, strict=True)
    )
    lost = sum(
        0.5 * (half - np.einsum("ij,fjpt->fipt", matrix, whole)) ** 2
        for matrix, half in zip(orthonormal_halves, halves, strict=True)
    )
    squares = np.sum(lost, axis=1) + np.sum(whole[:, -LAST_DEGREES:] ** 2, axis=1)
    times = Legendre().norms(coefficients.shape[-1]) ** 2
    squares = widths[at] * (squares @ times) / scales[:, None] ** 2
    losses[at] = np.sqrt(np.max(squares, axis=0))
    return losses


def union(all_axes: Iterable[Axes]) -> Axes:
    """The axes that hold the functions of all: of the highest level, with the breaks of all."""
    return tuple(
        functools.reduce(_joint, along) for along in zip(*dict.fromkeys(all_axes), strict=True)
    )


def _joint(one: SpaceAxis, other: SpaceAxis) -> SpaceAxis:
    level = max(one.level, other.level)
    if one.is_fourier:
        return dataclasses.replace(one, level=level)
    breaks = np.union1d(one.edges[1:-1], other.edges[1:-1])
    return dataclasses.replace(one, family=PiecewiseLegendre(tuple(breaks.tolist())), level=level)
