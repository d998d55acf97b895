"""What the polynomial half and the constraint add to an Adam step, and what tables save.

Steps are timed inside the training program (a chunk of steps is one compiled call). Every variant
is timed in turns, several rounds, and the median of its rounds is compared.
"""

import statistics
import time
from collections.abc import Callable, Iterator

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.harness import Row
from benchmarks.problems import square
from pann import targets
from pann.basis import make_basis
from pann.loss import Loss, Rows
from pann.model import Parameters, initial_parameters
from pann.network import MLP, activation_named
from pann.training import Adam, Task

STEPS, ROUNDS = 20, 7


def rows() -> Iterator[Row]:
    problem = square(targets.non_smooth(2.0), 16_384)
    basis = make_basis(problem.domain, 25)
    for precision in ("float64", "float32"):
        with jax.enable_x64(True):
            network = MLP(
                2, (100, 100, 100), activation_named("tanh"), key=jax.random.key(0), dtype=precision
            )
            make = lambda terms, network=network, precision=precision: jax.tree.map(
                lambda leaf: leaf[None],
                initial_parameters(
                    network, terms, 1, bias=False, key=jax.random.key(1), dtype=precision
                ),
            )
            data = lambda table, precision=precision: Rows(
                jnp.asarray(problem.points, precision),
                jnp.asarray(table, precision),
                jnp.asarray(problem.values[:, None], precision),
                jnp.ones(len(problem.points), precision),
            )
            with_table = data(basis.table(problem.points))
            without = data(np.zeros((len(problem.points), 0)))
            variants = {
                "DNN": _adam(without, Loss("none"), make(0)),
                "PANN, no constraint": _adam(with_table, Loss("none"), make(len(basis))),
                "PANN with C_E": _adam(with_table, Loss("E"), make(len(basis))),
                "PANN with C_H": _adam(with_table, Loss("H"), make(len(basis))),
                "PANN, exact": _adam(with_table, Loss("exact"), make(len(basis))),
                "PANN with C_E, polynomials each step": _evaluating(
                    with_table, make(len(basis)), np.asarray(basis.indices)
                ),
            }
            seconds = {name: [] for name in variants}
            for step in variants.values():
                step()
            for _ in range(ROUNDS):
                for name, step in variants.items():
                    seconds[name].append(step() / STEPS)
        base = statistics.median(seconds["DNN"])
        for name, times in seconds.items():
            median = statistics.median(times)
            yield {
                "precision": precision,
                "step": name,
                "milliseconds": 1e3 * median,
                "ratio to DNN": median / base,
            }


def _adam(rows: Rows, loss: Loss, trials: Parameters) -> Callable[[], float]:
    """The seconds of a run of Adam, its set-up (optimizer state, factors) apart."""
    task = Task(rows, loss, jax.random.key(0))
    stage = Adam(STEPS, record_every=STEPS)
    return lambda: stage.run(task, trials)[1].seconds


def _evaluating(rows: Rows, trials: Parameters, indices: np.ndarray) -> Callable[[], float]:
    """The C_E step with the table built anew from the coordinates inside every step."""
    import optax

    loss, optimizer = Loss("E"), optax.adam(1e-3)
    parameters = jax.tree.map(lambda leaf: leaf[0], trials)
    moving, fixed = eqx.partition(parameters, eqx.is_inexact_array)
    columns = jnp.asarray(indices)

    def total(moving: Parameters, x: jax.Array, rows: Rows) -> jax.Array:
        tables = [_legendre(x[:, axis], int(indices.max())) for axis in range(x.shape[1])]
        table = tables[0][columns[:, 0]] * tables[1][columns[:, 1]]
        fresh = eqx.tree_at(lambda r: r.table, rows, table.T)
        return loss.total(eqx.combine(moving, fixed), fresh)

    @jax.jit
    def run(moving: Parameters, rows: Rows) -> Parameters:
        def step(index: jax.Array, carry: tuple) -> tuple:
            moving, state = carry
            # The index keeps the compiler from hoisting the table out of the loop.
            x = rows.x + 0 * index.astype(rows.x.dtype) * carry[0].a[0, 0]
            updates, state = optimizer.update(jax.grad(total)(moving, x, rows), state, moving)
            return optax.apply_updates(moving, updates), state

        return jax.lax.fori_loop(0, STEPS, step, (moving, optimizer.init(moving)))[0]

    def timed() -> float:
        start = time.perf_counter()
        jax.block_until_ready(run(moving, rows).a)
        return time.perf_counter() - start

    return timed


def _legendre(x: jax.Array, degree: int) -> jax.Array:
    values = [jnp.ones_like(x), x]
    for n in range(1, degree):
        values.append(((2 * n + 1) * x * values[-1] - n * values[-2]) / (n + 1))
    return jnp.stack(values)
