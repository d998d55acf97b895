"""Jets: a function's value and derivatives at points, one array for each multi-index.

A linear map acts on each of them alone, an activation by Faa di Bruno's formula, a product by
Leibniz' rule.
"""

import functools
import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from pann.network.activation_derivatives import derivatives
from pann.network.activations import Activation

Order = tuple[int, ...]
# A derivative that is absent is zero; one that is the same at all points has a single row.
Jet = dict[Order, Float[Array, "_ _"]]

# ---- Multi-indices ----


def lower_set(orders: Iterable[Order]) -> tuple[Order, ...]:
    """All multi-indices at or below one of the orders: what must be propagated to get them."""
    below = (itertools.product(*(range(n + 1) for n in order)) for order in orders)
    return tuple(sorted(set(itertools.chain(*below)), key=lambda order: (sum(order), order)))


@functools.cache
def partitions(order: Order) -> tuple[tuple[int, tuple[Order, ...]], ...]:
    """The terms of Faa di Bruno's formula: (3, ((1,), (2,))) stands for 3 f''(z) z_xx z_x."""
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
def splits(order: Order) -> tuple[tuple[int, Order, Order], ...]:
    """The terms of Leibniz' rule: (2, (1,), (1,)) stands for 2 f_x g_x."""
    return tuple(
        (
            math.prod(map(math.comb, order, part)),
            part,
            tuple(n - k for n, k in zip(order, part, strict=True)),
        )
        for part in lower_set([order])
    )


# ---- Jets ----


def activate(activation: Activation, jet: Jet, wanted: tuple[Order, ...]) -> Jet:
    highest = max(map(sum, wanted))
    return compose(derivatives(activation, value_of(jet), highest), jet, wanted)


def value_of(jet: Jet) -> Float[Array, "points width"]:
    return next(array for order, array in jet.items() if not any(order))


def compose(f: list[Float[Array, "points width"]], z: Jet, wanted: tuple[Order, ...]) -> Jet:
    """Faa di Bruno's formula for f(z), from the derivatives of f at z and those of z."""
    jet: Jet = {}
    for order in wanted:
        if not any(order):
            jet[order] = f[0]
            continue
        products = defaultdict(list)
        for count, blocks in partitions(order):
            if all(block in z for block in blocks):
                product = math.prod((z[block] for block in blocks[1:]), start=z[blocks[0]])
                products[len(blocks)].append(product if count == 1 else count * product)
        if products:
            terms = [f[m] * functools.reduce(jnp.add, same) for m, same in products.items()]
            jet[order] = functools.reduce(jnp.add, terms)
    return jet


def multiply(f: Jet, g: Jet, wanted: tuple[Order, ...]) -> Jet:
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
    if jax.default_backend() == "cpu":
        # A single product is no faster here, and collecting its rows takes time.
        mapped = {order: array @ weight.T for order, array in jet.items()}
    else:
        mapped = _stacked(weight, jet)
    return {order: array if any(order) else array + bias for order, array in mapped.items()}


def _stacked(weight: Float[Array, "outputs inputs"], jet: Jet) -> Jet:
    """weight @ z: one matrix product for all derivatives with the same number of rows."""
    groups = defaultdict(list)
    for order, array in jet.items():
        groups[array.shape[0]].append(order)
    mapped: Jet = {}
    for rows, orders in groups.items():
        product = jnp.concatenate([jet[order] for order in orders]) @ weight.T
        mapped |= zip(orders, jax.lax.split(product, [rows] * len(orders)), strict=True)
    return mapped
