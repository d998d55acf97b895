"""Jets: a function's value and derivatives at points, one array for each multi-index.

A linear map acts on each of them alone, an activation by Faa di Bruno's formula, a product by
Leibniz' rule. So does the Laplacian: where no other second derivative is needed, it is one array
for all axes,

    lap f(z) = f'(z) lap z + f''(z) |grad z|^2,  lap(f g) = f lap g + 2 grad f . grad g + g lap f.
"""

import dataclasses
import functools
import itertools
import math
import operator
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from pann.network.activations import Activation, directional
from pann.runtime.matmul import product
from pann.runtime.platform import on_cpu

Order = tuple[int, ...]
Orders = tuple[Order, ...]
PointFunction = Callable[[Float[Array, " d"]], Float[Array, " width"]]


@dataclasses.dataclass(frozen=True)
class Laplacian:
    """sum_i weights[i] d^2/dx_i^2, a derivative like others."""

    weights: tuple[float, ...]

    @property
    def axes(self) -> tuple[tuple[float, Order], ...]:
        """The axes that it has, as weights and first derivatives."""
        unit = lambda axis: tuple(int(axis == other) for other in range(len(self.weights)))
        return tuple((weight, unit(axis)) for axis, weight in enumerate(self.weights) if weight)

    @property
    def terms(self) -> tuple[tuple[float, Order], ...]:
        """The weights and second derivatives that it is the sum of."""
        return tuple((weight, tuple(2 * n for n in first)) for weight, first in self.axes)

    def total(self, of: Callable[[Order], Any]) -> Any:
        """The sum, from its terms."""
        return functools.reduce(operator.add, (weight * of(order) for weight, order in self.terms))

    # JAX sorts the keys of jets: multi-indices first.
    def __lt__(self, other: object) -> bool:
        return isinstance(other, Laplacian) and self.weights < other.weights

    def __gt__(self, other: object) -> bool:
        return not isinstance(other, Laplacian) or self.weights > other.weights


Derivative = Order | Laplacian
Derivatives = tuple[Derivative, ...]
# A derivative that is absent is zero; one that is the same at all points has a single row.
Jet = dict[Derivative, Float[Array, "_ _"]]


def degree(derivative: Derivative) -> int:
    """The order of differentiation."""
    return 2 if isinstance(derivative, Laplacian) else sum(derivative)


def in_terms(derivatives: Iterable[Derivative]) -> Orders:
    """The multi-indices, and those that Laplacians are sums of."""
    each = (
        [second for _, second in derivative.terms]
        if isinstance(derivative, Laplacian)
        else [derivative]
        for derivative in derivatives
    )
    return tuple(dict.fromkeys(itertools.chain(*each)))


def gathered(jet: Jet, wanted: Iterable[Derivative]) -> Jet:
    """The wanted derivatives, Laplacians from their terms."""
    found: Jet = {}
    for derivative in wanted:
        if derivative in jet:
            found[derivative] = jet[derivative]
        elif isinstance(derivative, Laplacian):
            parts = [weight * jet[second] for weight, second in derivative.terms if second in jet]
            if parts:
                found[derivative] = functools.reduce(jnp.add, parts)
    return found


def lower_set(orders: Iterable[Order]) -> Orders:
    """All multi-indices at or below one of the orders."""
    below = (itertools.product(*(range(n + 1) for n in order)) for order in orders)
    return tuple(sorted(set(itertools.chain(*below)), key=lambda order: (sum(order), order)))


def propagated(derivatives: Iterable[Derivative]) -> Derivatives:
    """The derivatives to propagate for those wanted: all below them, Laplacians last."""
    orders: list[Order] = []
    laplacians: dict[Laplacian, None] = {}
    for derivative in derivatives:
        if isinstance(derivative, Laplacian):
            laplacians[derivative] = None
            orders += [first for _, first in derivative.axes]
        else:
            orders.append(derivative)
    return (*lower_set(orders), *laplacians)


@functools.cache
def partitions(order: Derivative) -> tuple[tuple[int | float, Derivatives], ...]:
    """The terms of Faa di Bruno's formula: (3, ((1,), (2,))) stands for 3 f''(z) z_xx z_x."""
    if isinstance(order, Laplacian):
        return ((1, (order,)), *((weight, (first, first)) for weight, first in order.axes))
    single = tuple(axis for axis, count in enumerate(order) for _ in range(count))
    counts = Counter(
        tuple(sorted(tuple(block.count(axis) for axis in range(len(order))) for block in blocks))
        for blocks in _set_partitions(single)
    )
    return tuple((count, blocks) for blocks, count in counts.items())


def _set_partitions(items: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], ...]]:
    if not items:
        yield ()
        return
    first = items[:1]
    for rest in _set_partitions(items[1:]):
        yield (first, *rest)
        for k, block in enumerate(rest):
            yield (*rest[:k], first + block, *rest[k + 1 :])


@functools.cache
def splits(order: Derivative) -> tuple[tuple[int | float, Derivative, Derivative], ...]:
    """The terms of Leibniz' rule: (2, (1,), (1,)) stands for 2 f_x g_x."""
    if isinstance(order, Laplacian):
        value = (0,) * len(order.weights)
        crossed = ((2 * weight, first, first) for weight, first in order.axes)
        return ((1, value, order), *crossed, (1, order, value))
    return tuple(
        (
            math.prod(map(math.comb, order, part)),
            part,
            tuple(n - k for n, k in zip(order, part, strict=True)),
        )
        for part in lower_set([order])
    )


# ---- Jets ----


def identity(x: Float[Array, "points d"], wanted: Orders) -> Jet:
    """The points themselves and their first derivatives."""
    num_inputs = x.shape[1]
    jet: Jet = {(0,) * num_inputs: x}
    for axis, row in enumerate(jnp.eye(num_inputs, dtype=x.dtype)):
        unit = tuple(int(k == axis) for k in range(num_inputs))
        if unit in wanted:
            jet[unit] = row[None]
    return jet


def nested(function: PointFunction, x: Float[Array, "points d"], orders: Orders) -> Jet:
    """Derivatives of any function of a point, by forward mode within forward mode."""
    jet: Jet = {}
    for order in orders:
        derivative: Callable[[Array], Array] = jax.vmap(function)
        for axis, count in enumerate(order):
            along = jnp.zeros_like(x).at[:, axis].set(1)
            for _ in range(count):
                derivative = directional(derivative, along)
        jet[order] = derivative(x)
    return jet


def activate(activation: Activation, jet: Jet, wanted: Derivatives) -> Jet:
    highest = max(map(degree, wanted))
    return compose(activation.derivatives(value_of(jet), highest), jet, wanted)


def value_of(jet: Jet) -> Float[Array, "points width"]:
    return next(array for order, array in jet.items() if not degree(order))


def compose(f: list[Float[Array, "points width"]], z: Jet, wanted: Derivatives) -> Jet:
    """Faa di Bruno's formula for f(z), from the derivatives of f at z and those of z."""
    jet: Jet = {}
    for order in wanted:
        if not degree(order):
            jet[order] = f[0]
            continue
        products = defaultdict(list)
        for count, blocks in partitions(order):
            if all(block in z for block in blocks):
                term = math.prod((z[block] for block in blocks[1:]), start=z[blocks[0]])
                products[len(blocks)].append(term if count == 1 else count * term)
        if products:
            terms = [f[m] * functools.reduce(jnp.add, same) for m, same in products.items()]
            jet[order] = functools.reduce(jnp.add, terms)
    return jet


def multiply(f: Jet, g: Jet, wanted: Derivatives) -> Jet:
    """Leibniz' rule for f g, unit by unit."""
    jet: Jet = {}
    for order in wanted:
        terms = [
            f[part] * g[rest] if count == 1 else count * (f[part] * g[rest])
            for count, part, rest in splits(order)
            if part in f and rest in g
        ]
        if terms:
            jet[order] = functools.reduce(jnp.add, terms)
    return jet


def linear(
    weight: Float[Array, "outputs inputs"], bias: Float[Array, " outputs"] | float, jet: Jet
) -> Jet:
    """weight @ z + bias, the bias on the value alone."""
    if on_cpu():
        # One product of all is no faster on a CPU, and stacking its rows takes time.
        mapped = {order: array @ weight.T for order, array in jet.items()}
    else:
        mapped = _stacked(weight, jet)
    return {order: array if degree(order) else array + bias for order, array in mapped.items()}


def _stacked(weight: Float[Array, "outputs inputs"], jet: Jet) -> Jet:
    """weight @ z: one matrix product for all derivatives with the same number of rows."""
    groups = defaultdict(list)
    for order, array in jet.items():
        groups[array.shape[0]].append(order)
    mapped: Jet = {}
    for rows, orders in groups.items():
        stacked = product(jnp.concatenate([jet[order] for order in orders]), weight.T)
        mapped |= zip(orders, jax.lax.split(stacked, [rows] * len(orders)), strict=True)
    return mapped
