"""What tables save: an Adam step with a table of the polynomials, and one that evaluates them.

The paper evaluates its basis once, before training, which makes the polynomials "about half as
expensive" (on its computational cost). Steps are timed inside one compiled program; both kinds
alternate, and the median counts.
"""

import pathlib
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from pann import Box, points
from pann.basis import Basis, make_basis
from pann.model import Parameters, initial_parameters
from pann.network import activation_named, draw_network
from pann.problems import functions
from pann.runs import Result, Row
from pann.training import Adam, Loss, Rows, Task

PRECISIONS = ("float64", "float32")
SIZES: dict[str, dict[str, int]] = {
    "smoke": {"num_points": 256, "degree": 8, "width": 16, "steps": 2, "rounds": 1},
    "quick": {"num_points": 1024, "degree": 13, "width": 100, "steps": 10, "rounds": 3},
    "full": {"num_points": 16_384, "degree": 25, "width": 100, "steps": 20, "rounds": 7},
}
DEPTH, CONSTRAINT, REVISION = 3, "E", 1


def rows(size: str, mode: str, trials: int | None = None) -> list[Row]:
    """A row for each precision; the default recipe takes no such steps."""
    if mode != "faithful":
        return []
    common = {"mode": mode, "trials": 1, "seed": 0, "revision": REVISION, "depth": DEPTH}
    common |= SIZES[size]
    return [Row("tables", common | {"precision": precision}) for precision in PRECISIONS]


def run(configuration: Mapping[str, Any], scratch: pathlib.Path) -> Result:
    """Time both steps on the non-smooth function, with the constraint E."""
    precision, steps = configuration["precision"], configuration["steps"]
    domain = Box.cube(2)
    places = points.poisson_disk(domain, configuration["num_points"]).coordinates
    basis = make_basis(domain, configuration["degree"])
    with jax.enable_x64(True):
        data = rows_of(places, functions.non_smooth(2.0)(places), basis.table(places), precision)
        widths = (configuration["width"],) * configuration["depth"]
        trials = start(widths, len(basis), precision, configuration["seed"])
        kinds = {
            "with_tables": timed_adam(data, Loss(CONSTRAINT), trials, steps),
            "without_tables": timed_evaluating(data, trials, basis, steps),
        }
        seconds: dict[str, list[float]] = {name: [] for name in kinds}
        for timed in kinds.values():
            timed()  # compiles
        for _ in range(configuration["rounds"]):
            for name, timed in kinds.items():
                seconds[name].append(timed() / steps)
    medians = {name: statistics.median(each) for name, each in seconds.items()}
    ratio = medians["with_tables"] / medians["without_tables"]
    return Result({f"seconds_{name}": each for name, each in medians.items()} | {"ratio": ratio})


def rows_of(
    places: Float[np.ndarray, "points d"],
    values: Float[np.ndarray, " points"],
    table: Float[np.ndarray, "points terms"],
    precision: str,
) -> Rows:
    """Rows to fit, all of the same weight."""
    return Rows(
        jnp.asarray(places, precision),
        jnp.asarray(table, precision),
        jnp.asarray(values[:, None], precision),
        jnp.ones(len(places), precision),
    )


def start(widths: tuple[int, ...], num_terms: int, precision: str, seed: int = 0) -> Parameters:
    """One trial of a tanh network of two inputs with that many polynomial terms."""
    network_key, key = jax.random.key(seed), jax.random.key(seed + 1)
    network = draw_network(2, widths, activation_named("tanh"), key=network_key, dtype=precision)
    parameters = initial_parameters(network, num_terms, 1, bias=False, key=key, dtype=precision)
    return jax.tree.map(lambda leaf: leaf[None], parameters)


def timed_adam(rows: Rows, loss: Loss, trials: Parameters, steps: int) -> Callable[[], float]:
    """The seconds of a run of Adam without its set-up (optimizer state, factors)."""
    task = Task(rows, loss, jax.random.key(0))
    stage = Adam(steps, record_every=steps)
    return lambda: stage.run(task, trials)[1].seconds


def timed_evaluating(
    rows: Rows, trials: Parameters, basis: Basis, steps: int
) -> Callable[[], float]:
    """The seconds of the same with the table computed from the coordinates in every step."""
    import optax

    loss, optimizer = Loss(CONSTRAINT), optax.adam(1e-3)
    moving, fixed = eqx.partition(jax.tree.map(lambda leaf: leaf[0], trials), eqx.is_inexact_array)
    indices = np.asarray(basis.indices)

    def total(moving: Parameters, x: Array, rows: Rows) -> Array:
        fresh = eqx.tree_at(lambda r: r.table, rows, legendre_table(x, indices))
        return loss.total(eqx.combine(moving, fixed), fresh)

    @jax.jit
    def run(moving: Parameters, rows: Rows) -> Parameters:
        def step(index: Array, carry: tuple) -> tuple:
            moving, state = carry
            # The index keeps the compiler from hoisting the table out of the loop.
            x = rows.x + 0 * index.astype(rows.x.dtype) * carry[0].a[0, 0]
            updates, state = optimizer.update(jax.grad(total)(moving, x, rows), state, moving)
            return optax.apply_updates(moving, updates), state

        return jax.lax.fori_loop(0, steps, step, (moving, optimizer.init(moving)))[0]

    def timed() -> float:
        begin = time.perf_counter()
        jax.block_until_ready(run(moving, rows).a)
        return time.perf_counter() - begin

    return timed


def legendre_table(
    x: Float[Array, "points 2"], indices: np.ndarray
) -> Float[Array, "points terms"]:
    """P_j(x1) P_k(x2) for each index (j, k), by the recurrence."""
    first, second = (_legendre(x[:, axis], int(indices.max())) for axis in range(2))
    return (first[indices[:, 0]] * second[indices[:, 1]]).T


def _legendre(x: Float[Array, " points"], degree: int) -> Float[Array, "degrees points"]:
    values = [jnp.ones_like(x), x]
    for n in range(1, degree):
        values.append(((2 * n + 1) * x * values[-1] - n * values[-2]) / (n + 1))
    return jnp.stack(values)
