"""Tables made inside a compiled program, where the points are too many to keep their tables.

The same recurrences and products as in `pann.basis.families` and `pann.basis.tables`, in JAX.
"""

import math
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from pann.basis.basis import INTEGRAL, Basis, integrated_width, means
from pann.basis.families import Chebyshev, Family, Fourier, Legendre

Rows = Float[Array, "_ points"]


def tabulate(
    basis: Basis, x: Float[Array, "points d"], derivative: Sequence[int] | None = None
) -> Float[Array, "points terms"]:
    """`basis.table` at points of the reference cube, traceable."""
    names = basis.domain.names
    orders = dict(zip(names, derivative or (0,) * len(names), strict=True))
    if any(orders[name] > 0 for name in names if name not in basis.axes):
        return jnp.zeros((x.shape[0], len(basis)), x.dtype)
    factors, is_zero = [], np.zeros(len(basis), bool)
    for axis, name in enumerate(basis.axes):
        factors.append(_factor(basis, axis, x[:, names.index(name)], orders[name]))
        if orders[name] > 0:
            is_zero |= basis.indices[:, axis] == 0
    products = _products(basis, jnp.concatenate(factors), is_zero).T
    return products * integrated_width(basis.domain, derivative)


def is_in_program(basis: Basis) -> bool:
    """Whether every family of the basis has a recurrence here."""
    return all(type(family) in _TABLES for family in basis.families)


def check_in_program(basis: Basis) -> None:
    """Refuse a basis with a family that has no recurrence here."""
    for family, axis in zip(basis.families, basis.axes, strict=True):
        if type(family) not in _TABLES:
            raise ValueError(
                f"tables in chunks are made for Legendre, Chebyshev and Fourier, but the basis has "
                f"{type(family).__name__} along {axis}; leave memory out, or give another basis"
            )


def _products(basis: Basis, factors: Rows, is_zero: np.ndarray) -> Float[Array, "terms points"]:
    tree, count = basis.tree, factors.shape[1]
    # Node 0 is the constant 1, node 1 is 0.
    known = jnp.stack([jnp.ones(count, factors.dtype), jnp.zeros(count, factors.dtype)])
    for depth in tree.depths:
        known = jnp.concatenate([known, known[depth.parents] * factors[depth.factors]])
    return known[np.where(is_zero, 1, tree.term_nodes)]


def _factor(basis: Basis, axis: int, x: Float[Array, " points"], order: int) -> Rows:
    """A derivative of the functions of one seen axis, by the domain's coordinate."""
    family, size = basis.families[axis], basis.num_functions[axis]
    width = basis.domain.widths[basis.domain.names.index(basis.axes[axis])]
    scale = np.full(size, (2.0 / width) ** max(order, 0))
    if basis.scaling == "orthonormal":
        scale /= family.norms(size)
    if order == INTEGRAL:
        return jnp.tile(jnp.asarray(means(family, size) * scale, x.dtype)[:, None], x.shape)
    return _TABLES[type(family)](x, size, order) * jnp.asarray(scale, x.dtype)[:, None]


def _legendre(x: Float[Array, " points"], size: int, order: int) -> Rows:
    start = float(math.prod(range(1, 2 * order, 2)))
    return _after_zeros(min(order, size), _ultraspherical(x, size - order, order + 0.5, start))


def _chebyshev(x: Float[Array, " points"], size: int, order: int) -> Rows:
    if order == 0:
        twos = np.full(max(size - 2, 0), 2.0)
        return _recurrence(x, size, 1.0, x, twos, twos / 2)
    start = float(2 ** (order - 1) * math.factorial(order - 1))
    rows = _after_zeros(min(order, size), _ultraspherical(x, size - order, float(order), start))
    return rows * jnp.arange(rows.shape[0], dtype=x.dtype)[:, None]


def _fourier(x: Float[Array, " points"], size: int, order: int) -> Rows:
    numbers = np.arange(size)
    frequencies = Fourier().levels(size)
    half_turns = jnp.asarray(frequencies, x.dtype)[:, None] * x
    reduced = half_turns - 2.0 * jnp.round(0.5 * half_turns)
    quarters = jnp.asarray((order - (numbers + 1) % 2) % 4, x.dtype)[:, None]
    turn = jnp.remainder(reduced + 0.5 * quarters, 2.0)
    rows = jnp.sin(jnp.pi * (0.5 - jnp.minimum(turn, 2.0 - turn)))
    rows = rows.at[:1].set(float(order == 0))
    return rows * jnp.asarray((np.pi * frequencies.astype(float)) ** order, x.dtype)[:, None]


_TABLES: dict[type[Family], Callable[[Float[Array, " points"], int, int], Rows]] = {
    Legendre: _legendre,
    Chebyshev: _chebyshev,
    Fourier: _fourier,
}


def _after_zeros(count: int, rows: Rows) -> Rows:
    """The derivatives of the functions of lower degree than the order are zero."""
    return jnp.concatenate([jnp.zeros((count, rows.shape[1]), rows.dtype), rows])


def _ultraspherical(x: Float[Array, " points"], size: int, parameter: float, start: float) -> Rows:
    j = np.arange(2, max(size, 2), dtype=float)
    second = 2.0 * parameter * start * x
    return _recurrence(
        x, size, start, second, 2.0 * (j + parameter - 1.0) / j, (j + 2.0 * parameter - 2.0) / j
    )


def _recurrence(
    x: Float[Array, " points"],
    size: int,
    start: float,
    second: Float[Array, " points"],
    up: np.ndarray,
    down: np.ndarray,
) -> Rows:
    """p_j = up_j x p_{j-1} - down_j p_{j-2} from two rows on."""
    first = jnp.full_like(x, start)

    def step(carry: tuple[Array, Array], factors: Array) -> tuple[tuple[Array, Array], Array]:
        before, last = carry
        new = factors[0] * (x * last) - factors[1] * before
        return (last, new), new

    factors = jnp.asarray(np.stack([up, down], axis=1), x.dtype)
    _, rest = jax.lax.scan(step, (first, second), factors)
    return jnp.concatenate([first[None], second[None], rest])[: max(size, 0)]
