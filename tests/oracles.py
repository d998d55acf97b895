"""What several test modules need: NumPy twins of the model, a small task, a compile counter."""

from collections.abc import Iterator
from contextlib import contextmanager

import jax
import jax.numpy as jnp
import numpy as np

from pann.basis import make_basis
from pann.domain import Box
from pann.model.pann import Parameters
from pann.network import MLP, ModifiedMLP, Network, activation_named
from pann.training import Task
from pann.training.loss import Loss, Rows


def forward(network: Network, points: np.ndarray) -> np.ndarray:
    """The last hidden layer of a tanh network without embedding, layer by layer."""

    def layer(weight: jax.Array, bias: jax.Array, hidden: np.ndarray) -> np.ndarray:
        return np.tanh(hidden @ np.asarray(weight).T + np.asarray(bias))

    hidden = np.asarray(points)
    if isinstance(network, ModifiedMLP):
        encoders = zip(network.encoder_weights, network.encoder_biases, strict=True)
        u, v = (layer(weight, bias, hidden) for weight, bias in encoders)
    for index, (weight, bias) in enumerate(zip(network.weights, network.biases, strict=True)):
        hidden = layer(weight, bias, hidden)
        if isinstance(network, ModifiedMLP) and index > 0:
            hidden = (1 - hidden) * u + hidden * v
    return hidden


def output(parameters: Parameters, points: np.ndarray, table: np.ndarray) -> np.ndarray:
    """u = Psi a + bias + Phi b over the kept units and terms, at reference points."""
    a, b = np.asarray(parameters.a), np.asarray(parameters.b)
    total = table @ np.where(np.asarray(parameters.keep_b)[:, None], b, 0.0)
    if parameters.network is not None:
        psi = forward(parameters.network, points)
        total = total + psi @ np.where(np.asarray(parameters.keep_a)[:, None], a, 0.0)
    return total if parameters.bias is None else total + np.asarray(parameters.bias)


def random_parameters(
    seed: int,
    *,
    dimension: int = 2,
    widths: tuple[int, ...] = (6, 5),
    num_terms: int = 10,
    num_outputs: int = 1,
    bias: bool = False,
    dtype: str = "float64",
    embedding: object = None,
    kind: str = "mlp",
) -> Parameters:
    """A model with all of its numbers at random, those too that start at zero in training."""
    generator = np.random.default_rng(seed)
    normal = lambda *shape: jnp.asarray(generator.normal(size=shape), dtype)
    network = None
    if widths:
        sizes = (dimension if embedding is None else embedding.num_outputs, *widths)
        network = build(
            MLP,
            embedding=embedding,
            weights=[
                normal(outputs, inputs) for inputs, outputs in zip(sizes, widths, strict=False)
            ],
            biases=[normal(width) for width in widths],
            activation=activation_named("tanh"),
            dropout=0.0,
        )
        if kind == "modified":
            network = build(
                ModifiedMLP,
                **{name: getattr(network, name) for name in MLP.__dataclass_fields__},
                encoder_weights=[normal(widths[0], sizes[0]) for _ in range(2)],
                encoder_biases=[normal(widths[0]) for _ in range(2)],
                kept=None,
            )
    width = widths[-1] if widths else 0
    return Parameters(
        network=network,
        a=normal(width, num_outputs),
        b=normal(num_terms, num_outputs),
        bias=normal(num_outputs) if bias else None,
        keep_a=jax.device_put(np.ones(width, bool)),
        keep_b=jax.device_put(np.ones(num_terms, bool)),
        overlap=jnp.asarray(np.zeros((num_terms, num_outputs)), dtype),
    )


def build(kind: type, **fields: object) -> object:
    """An Equinox module from its fields, without the draws and compilations of its `__init__`."""
    module = object.__new__(kind)
    for name in kind.__dataclass_fields__:
        object.__setattr__(module, name, fields[name])
    return module


def replace(module: object, **fields: object) -> object:
    """The same Equinox module with other values of these fields."""
    old = {name: getattr(module, name) for name in module.__dataclass_fields__}
    return build(type(module), **(old | fields))


def stack(*trials: Parameters) -> Parameters:
    """Trials as training sees them, with a leading axis."""
    return jax.tree.map(lambda *leaves: jax.device_put(np.stack(leaves)), *trials)


def trial(trials: Parameters, index: int) -> Parameters:
    return jax.tree.map(lambda leaf: jax.device_put(np.asarray(leaf)[index]), trials)


@contextmanager
def count_compilations() -> Iterator[list[str]]:
    """The list grows by an entry for every program that XLA compiles within the block."""
    compiled: list[str] = []

    def listen(event: str, seconds: float, **_: object) -> None:
        if event == "/jax/core/compile/backend_compile_duration":
            compiled.append(f"{event}: {seconds:.3f} s")

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        yield compiled
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)


# ---- A small regression task ----

DOMAIN = Box.cube(2)
BASIS = make_basis(DOMAIN, 3)
SCALES = np.prod(np.sqrt(2 * BASIS.indices + 1), axis=1)  # 1 / norm of a product of Legendres


def random_rows(seed: int, num_points: int, num_outputs: int = 2, noise: float = 0.1) -> Rows:
    """Noisy waves at random points with random weights; seed 0 and 1 share the waves."""
    generator = np.random.default_rng(seed)
    x = generator.uniform(-1, 1, (num_points, 2))
    waves = [np.sin((3 + k) * x[:, 0] + (2 - k) * x[:, 1] ** 2) for k in range(num_outputs)]
    target = np.stack(waves, axis=1) + noise * generator.normal(size=(num_points, num_outputs))
    weights = generator.uniform(0.5, 2.0, num_points)
    return Rows(*(jax.device_put(array) for array in (x, BASIS.table(x), target, weights)))


def make_task(rows: Rows, constraint: str = "none", **options: object) -> Task:
    loss = Loss(constraint=constraint, constraint_weight=options.pop("constraint_weight", 0.1))
    return Task(rows=rows, loss=loss, key=jax.random.key(3), **options)


def total_weights(task: Task, parameters: Parameters) -> np.ndarray:
    """The weights of the rows with the preconditioner sqrt(m / sum_k phi_k^2), if it is on."""
    weights = np.asarray(task.rows.weights)
    if task.term_scales is None:
        return weights
    kept = np.asarray(parameters.keep_b)
    orthonormal = (np.asarray(task.rows.table) * SCALES)[:, kept]
    return weights * np.sqrt(kept.sum() / np.sum(orthonormal**2, axis=1))


def weighted_fit(matrix: np.ndarray, target: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """matrix @ c with the coefficients c that fit the target best, by NumPy's SVD."""
    column = weights[:, None]
    return matrix @ np.linalg.lstsq(column * matrix, column * target, rcond=1e-11)[0]
