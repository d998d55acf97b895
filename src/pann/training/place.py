"""Where the network is needed: complementary units, placed where the residual is large.

A unit s n . (x - c) of the first layer, or s (x_i - c_i) of an `AxisEmbedding`, gets its center at
a training point drawn with probability proportional to the squared residual of what the model can
already fit (or, for a fraction of the units, uniformly from all points), and a slope s between the
scale that the basis resolves and the scale that the points resolve.
"""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key, PRNGKeyArray

from pann.model.pann import Parameters
from pann.network import (
    AxisEmbedding,
    CircleEmbedding,
    Complementary,
    ModifiedMLP,
    PeriodicEmbedding,
    RandomFourierFeatures,
    draw_slopes,
)
from pann.training.loss import Rows
from pann.training.task import CONVERGED, Outcome, Recorder, Stage, Task

FOURIER = (RandomFourierFeatures, PeriodicEmbedding, CircleEmbedding)


@dataclasses.dataclass(frozen=True)
class Place(Stage):
    """Give the network's first layer complementary units where the residual is large.

    `scales` is the range of slopes, by default 2 to 3 N^(1/d); `aligned` and `uniform` are the
    fractions of units along an axis, and at points drawn uniformly. a becomes zero: LeastSquares
    or GaussNewton after this stage gives it values.
    """

    scales: tuple[float, float] | None = None
    aligned: float = 1.0
    uniform: float = 0.3

    def run(self, task: Task, trials: Parameters) -> tuple[Parameters, Outcome]:
        recorder = Recorder(self, task, 1)
        num_trials = trials.keep_b.shape[0]
        notes: tuple[str, ...] = ()
        if trials.network is None:
            notes = ("there is no network to place",)
        elif isinstance(trials.network, ModifiedMLP):
            raise ValueError(
                "Place works for plain networks, got a gated one; leave Place out of the "
                "recipe, or use gated=False"
            )
        elif isinstance(trials.network.embedding, FOURIER):
            notes = ("the network sees Fourier features; its units stay as they are",)
        else:
            scales = self.scales or default_scales(*task.data.x.shape)
            keys = jax.random.split(jax.random.fold_in(task.key, 1), num_trials)
            initialization = Complementary(scales, self.aligned)
            trials = _place(initialization, self.uniform, trials, task.data, keys)
            notes = (f"slopes from {scales[0]:.3g} to {scales[1]:.3g}",)
        return trials, recorder.outcome(np.full(num_trials, CONVERGED), notes)


def default_scales(num_points: int, dimension: int) -> tuple[float, float]:
    """From 2 to three times the number of points along an axis."""
    return 2.0, max(4.0, 3.0 * num_points ** (1 / dimension))


@eqx.filter_jit
def _place(
    initialization: Complementary,
    uniform: float,
    trials: Parameters,
    rows: Rows,
    keys: Key[Array, " trials"],
) -> Parameters:
    def one(parameters: Parameters, key: PRNGKeyArray) -> Parameters:
        assert parameters.network is not None
        layer_key, center_key, fraction_key, uniform_key = jax.random.split(key, 4)
        embedding = parameters.network.embedding
        axis_units = embedding if isinstance(embedding, AxisEmbedding) else None
        units = axis_units.num_outputs if axis_units else parameters.network.weights[0].shape[0]
        residual = parameters.settled_output(rows.x, rows.table) - rows.target
        squared = jnp.sum((rows.weights[:, None] * residual) ** 2, axis=1)
        placed = jax.random.categorical(center_key, jnp.log(squared), shape=(units,))
        anywhere = jax.random.randint(uniform_key, (units,), 0, rows.x.shape[0])
        chosen = jnp.where(jax.random.uniform(fraction_key, (units,)) < uniform, anywhere, placed)
        dtype = str(parameters.b.dtype)
        parameters = eqx.tree_at(lambda p: p.a, parameters, jnp.zeros_like(parameters.a))
        if axis_units is not None:
            slopes = draw_slopes(initialization.scales, units, key=layer_key, dtype=dtype)
            return eqx.tree_at(
                lambda p: (p.network.embedding.slopes, p.network.embedding.centers),
                parameters,
                (slopes, rows.x[chosen, axis_units.axes]),
            )
        layer = initialization.first_layer(
            rows.x.shape[1], units, key=layer_key, dtype=dtype, centers=rows.x[chosen]
        )
        return eqx.tree_at(lambda p: (p.network.weights[0], p.network.biases[0]), parameters, layer)

    return eqx.filter_vmap(one)(trials, keys)
