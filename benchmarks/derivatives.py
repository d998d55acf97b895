"""One gradient step of losses with derivatives: Taylor mode against nested differentiation.

Steps run inside one compiled scan. Every method is timed in turns, several rounds; the least time
of each is compared, so that other work on the machine weighs on none of them.
"""

import dataclasses
import time
from collections.abc import Callable, Iterator

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.jet import jet

from benchmarks.harness import Row
from pann.network import MLP, activation_named, draw_network
from pann.network.taylor import Order, feature_derivatives

STEPS, ROUNDS = 20, 3
CPU_POINTS = 4096  # two cores take minutes for more
Fields = dict[Order, jax.Array]
Head = tuple[MLP, jax.Array]


@dataclasses.dataclass(frozen=True)
class Equation:
    name: str
    num_points: int
    orders: tuple[Order, ...]
    residual: Callable[[Fields], jax.Array]


EQUATIONS = (
    Equation("u_xx + u_yy", 4096, ((2, 0), (0, 2)), lambda u: u[2, 0] + u[0, 2]),
    Equation(
        "u_t + u u_x + u_xxx",
        16_384,
        ((0, 0), (0, 1), (1, 0), (3, 0)),
        lambda u: u[0, 1] + u[0, 0] * u[1, 0] + u[3, 0],
    ),
    Equation("u_xxxx", 16_384, ((4, 0),), lambda u: u[4, 0]),
)


def rows() -> Iterator[Row]:
    for precision in ("float32", "float64"):
        for equation in EQUATIONS:
            on_cpu = jax.default_backend() == "cpu"
            num_points = min(equation.num_points, CPU_POINTS) if on_cpu else equation.num_points
            with jax.enable_x64(True), jax.default_matmul_precision("highest"):
                seconds = _measure(equation, num_points, precision)
            base = min(seconds["nested, forward"], seconds["nested, reverse"])
            for name, least in seconds.items():
                yield {
                    "equation": equation.name,
                    "points": num_points,
                    "precision": precision,
                    "method": name,
                    "milliseconds": 1e3 * least,
                    "ratio to the faster nested": least / base,
                }


def _measure(equation: Equation, num_points: int, precision: str) -> dict[str, float]:
    key = jax.random.key(0)
    network = draw_network(2, (100, 100, 100), activation_named("tanh"), key=key, dtype=precision)
    a = jax.random.normal(key, (100,), precision) / 10
    x = jax.random.uniform(key, (num_points, 2), precision, minval=-1)
    steps = {name: _steps(equation, method) for name, method in METHODS.items()}
    if sum(equation.orders[-1]) == 2:
        steps["jax.hessian"] = _steps(equation, _hessian)
    seconds = dict.fromkeys(steps, np.inf)
    losses = {name: step((network, a), x) for name, step in steps.items()}
    # All methods must agree, or the comparison means nothing.
    np.testing.assert_allclose(list(losses.values()), losses["Taylor"], rtol=1e-3)
    for _ in range(ROUNDS):
        for name, step in steps.items():
            start = time.perf_counter()
            jax.block_until_ready(step((network, a), x))
            seconds[name] = min(seconds[name], (time.perf_counter() - start) / STEPS)
    return seconds


def _steps(
    equation: Equation, method: Callable[[Head, jax.Array, tuple[Order, ...]], Fields]
) -> Callable[[Head, jax.Array], jax.Array]:
    def loss(head: Head, x: jax.Array) -> jax.Array:
        return jnp.mean(jnp.square(equation.residual(method(head, x, equation.orders)) - 1))

    @eqx.filter_jit
    def run(head: Head, x: jax.Array) -> jax.Array:
        moving, fixed = eqx.partition(head, eqx.is_array)

        def step(moving: Head, _: None) -> tuple[Head, jax.Array]:
            value, gradient = jax.value_and_grad(lambda m: loss(eqx.combine(m, fixed), x))(moving)
            return jax.tree.map(lambda leaf, slope: leaf - 1e-6 * slope, moving, gradient), value

        return jax.lax.scan(step, moving, None, length=STEPS)[1][-1]

    return run


def _taylor(head: Head, x: jax.Array, orders: tuple[Order, ...]) -> Fields:
    network, a = head
    return {order: psi @ a for order, psi in feature_derivatives(network, x, orders).items()}


def _chain(transform: Callable) -> Callable[[Head, jax.Array, tuple[Order, ...]], Fields]:
    """u as a function of scalars, differentiated along one of them at a time."""

    def derivatives(head: Head, x: jax.Array, orders: tuple[Order, ...]) -> Fields:
        network, a = head
        fields = {}
        for order in orders:
            u = lambda *point: network.features(jnp.stack(point)) @ a
            for axis, count in enumerate(order):
                for _ in range(count):
                    u = transform(u, axis)
            fields[order] = jax.vmap(u)(*x.T)
        return fields

    return derivatives


def _jet(head: Head, x: jax.Array, orders: tuple[Order, ...]) -> Fields:
    """JAX's own Taylor mode, along each axis as far as that axis needs."""
    network, a = head
    u = lambda point: network.features(point) @ a
    fields = {}
    for axis in range(x.shape[1]):
        highest = max(order[axis] for order in orders)
        if highest > 0:
            unit = jnp.eye(x.shape[1], dtype=x.dtype)[axis]
            series = [unit] + [jnp.zeros_like(unit)] * (highest - 1)
            value, terms = jax.vmap(lambda point, series=series: jet(u, (point,), (series,)))(x)
            for count, term in enumerate([value, *terms]):
                fields[tuple(count * int(k == axis) for k in range(x.shape[1]))] = term
    return fields


def _hessian(head: Head, x: jax.Array, orders: tuple[Order, ...]) -> Fields:
    network, a = head
    hessian = jax.vmap(jax.hessian(lambda point: network.features(point) @ a))(x)
    return {(2, 0): hessian[:, 0, 0], (0, 2): hessian[:, 1, 1]}


METHODS = {
    "Taylor": _taylor,
    "jax.experimental.jet": _jet,
    "nested, forward": _chain(jax.jacfwd),
    "nested, reverse": _chain(jax.grad),
}
