"""Hard conditions by the form of the solution: u = lift + bump * v, for whatever v.

The bump vanishes on the hard faces and the lift has the given values there, so that every v
satisfies the conditions; v = network + polynomial is what is trained. The derivatives that an
equation asks for follow by Leibniz' rule,

    D^n u = D^n lift + sum_(k <= n) binom(n, k) D^(n-k) bump D^k v,

so a block of rows for u becomes one for v by a change of its operator alone.
"""

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.polynomial import Polynomial

from pann.basis import Basis
from pann.io.codec import basis_from, basis_sizes, basis_state, check_arrays
from pann.io.container import FileError, check_list, check_object, shown
from pann.model.pann import PANN
from pann.network.jets import in_terms, lower_set
from pann.pde.collocation import Block, Get, Operator, Placed
from pann.pde.fields import Order

# How often the bump vanishes at the lower and at the upper face of an axis.
Powers = tuple[int, int]
ALLOWED_POWERS: tuple[Powers, ...] = ((0, 0), (1, 0), (0, 1), (1, 1), (2, 0))


@dataclasses.dataclass(frozen=True, eq=False)
class Ansatz:
    """The lift as a series in `basis`, the bump by its powers for each field and axis.

    With (p, q) the factor along an axis is (1 + s)^p (1 - s)^q / 2^|p - q| for s in [-1, 1].
    """

    basis: Basis
    coefficients: Float[np.ndarray, "terms fields"]
    powers: tuple[tuple[Powers, ...], ...]

    @property
    def hard_fields(self) -> tuple[int, ...]:
        """The fields that have a hard condition."""
        return tuple(field for field, axes in enumerate(self.powers) if any(map(any, axes)))

    def lift(
        self, points: Float[np.ndarray, "points d"], order: Order
    ) -> Float[np.ndarray, "points fields"]:
        """D^order lift at points of the domain."""
        return self.basis.evaluate(points, self.coefficients, order)

    def bump(
        self, points: Float[np.ndarray, "points d"], order: Order
    ) -> Float[np.ndarray, "points fields"]:
        """D^order bump at points of the domain; the value is exactly 0 on the hard faces."""
        domain = self.basis.domain
        reference, slopes = domain.to_reference(points), 2.0 / domain.widths
        product = np.ones((len(points), len(self.powers)))
        for field, axes in enumerate(self.powers):
            for axis, (powers, times) in enumerate(zip(axes, order, strict=True)):
                factor = _factor(powers).deriv(times) * slopes[axis] ** times
                product[:, field] *= factor(reference[:, axis])
        return product

    def combine(
        self,
        points: Float[np.ndarray, "points d"],
        order: Order,
        v: Mapping[Order, Float[np.ndarray, "points fields"]],
    ) -> Float[np.ndarray, "points fields"]:
        """D^order u from the derivatives of v at and below that order."""
        total = self.lift(points, order)
        for lower, rest, count in _leibniz(order):
            total = total + count * self.bump(points, rest) * v[lower]
        return total

    def wrap(self, placed: Placed) -> Placed:
        """The rows of a block for u as rows for v."""
        hard, orders = self.hard_fields, lower_set(in_terms(placed.orders))
        extra = dict(placed.extra)
        for order in orders:
            lift, bump = self.lift(placed.points, order), self.bump(placed.points, order)
            if placed.minus is not None:
                # The bump is the same at both points: `Problem.check` sees to it.
                of_upper, of_lower = placed.pair_factors
                lift = of_upper * lift - of_lower * self.lift(placed.minus, order)
            for field in hard:
                extra[_name("lift", field, order)] = lift[:, field]
                extra[_name("bump", field, order)] = bump[:, field]
        operator = OfV(placed.operator, hard)
        return dataclasses.replace(placed, orders=orders, operator=operator, extra=extra)


def check_alike(before: Ansatz | None, now: Ansatz | None) -> None:
    """Refuse to carry the coefficients of v to a problem where v means something else."""
    if (before and before.powers) != (now and now.powers):
        raise ValueError(
            "start_from was solved with other hard conditions than this problem has, so that its "
            "coefficients mean something else; make the same conditions hard, or leave it out"
        )


def in_terms_of_u(
    block: Block, channels: Float[Array, "orders points fields"]
) -> tuple[Block, Float[Array, "orders points fields"]]:
    """A block and the channels of v as they were before `wrap`: for u."""
    operator = block.operator
    if not isinstance(operator, OfV):
        return block, channels
    of_v = lambda field, order: channels[block.orders.index(order), :, field]
    of_u = functools.partial(_channel_of_u, operator.hard, of_v, block.extra)
    fields = range(block.num_fields)
    orders = in_terms(block.orders)
    each = [jnp.stack([of_u(field, order) for field in fields], axis=1) for order in orders]
    return dataclasses.replace(block, operator=operator.of_u), jnp.stack(each)


@dataclasses.dataclass(frozen=True)
class OfV:
    """An operator on u as one on v; the derivatives of lift and bump are in `extra`."""

    of_u: Operator
    hard: tuple[int, ...]

    def __call__(
        self, get: Get, coordinates: Any, extra: Mapping[str, Array], parameters: Any
    ) -> tuple:
        of_u = functools.partial(_channel_of_u, self.hard, get, extra)
        return self.of_u(of_u, coordinates, extra, parameters)


def _channel_of_u(
    hard: tuple[int, ...],
    get: Callable[[int, Order], Array],
    extra: Mapping[str, Array],
    field: int,
    order: Order,
) -> Array:
    if field not in hard:
        return get(field, order)
    total = extra[_name("lift", field, order)]
    for lower, rest, count in _leibniz(order):
        total = total + count * extra[_name("bump", field, rest)] * get(field, lower)
    return total


def _name(what: str, field: int, order: Order) -> str:
    return f"{what} {field} {order}"


@functools.cache
def _factor(powers: Powers) -> Polynomial:
    low, high = powers
    return Polynomial([1, 1]) ** low * Polynomial([1, -1]) ** high / 2.0 ** abs(low - high)


@functools.cache
def _leibniz(order: Order) -> tuple[tuple[Order, Order, int], ...]:
    """The terms (k, order - k, binom(order, k)) of the derivative of a product."""
    below = itertools.product(*(range(n + 1) for n in order))
    return tuple(
        (
            lower,
            tuple(n - k for n, k in zip(order, lower, strict=True)),
            math.prod(math.comb(n, k) for n, k in zip(order, lower, strict=True)),
        )
        for lower in below
    )


# ---- An ansatz as plain values and arrays, and back, with the same suspicion as a model's ----


_PREFIX = "lift."
_INDICES, _COEFFICIENTS = f"{_PREFIX}indices", f"{_PREFIX}coefficients"

Arrays = dict[str, np.ndarray]


def split_arrays(arrays: Mapping[str, np.ndarray]) -> tuple[Arrays, Arrays]:
    """The arrays of an ansatz, and the others."""
    own = {name: array for name, array in arrays.items() if name.startswith(_PREFIX)}
    return own, {name: array for name, array in arrays.items() if name not in own}


def ansatz_state(ansatz: Ansatz | None) -> tuple[dict[str, Any] | None, Arrays]:
    """A header of JSON's types and plain arrays; None and nothing where no condition is hard."""
    if ansatz is None:
        return None, {}
    header = {
        "basis": basis_state(ansatz.basis),
        "powers": [[list(powers) for powers in axes] for axes in ansatz.powers],
    }
    return header, {_INDICES: ansatz.basis.indices, _COEFFICIENTS: ansatz.coefficients}


def ansatz_from_state(header: Any, arrays: Arrays, model: PANN) -> Ansatz | None:
    """The ansatz that belongs to a model, or a `FileError` that says what does not fit."""
    if header is None:
        check_arrays(arrays, "float64", {}, {}, {})
        return None
    check_object(header, "the ansatz", ("basis", "powers"))
    num_terms, num_axes = basis_sizes(header["basis"])
    fields = check_list(header["powers"], "the powers of the ansatz")
    num_fields = model.num_outputs or 1
    if len(fields) != num_fields:
        raise FileError(f"the ansatz has powers for {len(fields)} fields, the model {num_fields}")
    check_arrays(
        arrays,
        "float64",
        {_COEFFICIENTS: (num_terms, num_fields)},
        {},
        {_INDICES: (num_terms, num_axes)},
    )
    return Ansatz(
        basis_from(header["basis"], model.domain, arrays[_INDICES]),
        arrays[_COEFFICIENTS],
        tuple(_powers_from(axes, model.domain.dimension) for axes in fields),
    )


def _powers_from(axes: Any, dimension: int) -> tuple[Powers, ...]:
    if len(check_list(axes, "the powers of a field")) != dimension:
        raise FileError(f"a field of the ansatz has powers for {len(axes)} axes, not {dimension}")
    for powers in axes:
        pair = check_list(powers, "the powers along an axis")
        if not all(type(power) is int for power in pair) or tuple(pair) not in ALLOWED_POWERS:
            raise FileError(
                f"the powers along an axis must be one of {', '.join(map(str, ALLOWED_POWERS))}, "
                f"but are {shown(powers)}"
            )
    return tuple((low, high) for low, high in axes)
