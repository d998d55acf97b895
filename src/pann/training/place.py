"""Where the network is needed: complementary units, placed where the residual is large.

A unit s n . (x - c) of the first layer gets its center c at a training point drawn with
probability proportional to the squared residual of what the model can already fit (or, for a
share of the units, uniformly from all points), and a slope s between the scale that the basis
resolves and the scale that the points resolve.
"""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from pann.loss import Rows
from pann.model import Parameters
from pann.network import Complementary
from pann.training.stage import CONVERGED, Outcome, Recorder, Stage, Task


@dataclasses.dataclass(frozen=True)
class Place(Stage):
    """Give the network's first layer complementary units where the residual is large.

    `scales` is the range of slopes, by default 2 to 3 N^(1/d). a becomes zero: LeastSquares or
    GaussNewton after this stage gives it values.
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
        elif trials.network.embedding is not None:
            notes = ("the network sees embedded inputs; its units were left as they are",)
        else:
            scales = self.scales or default_scales(*task.rows.x.shape)
            keys = jax.random.split(jax.random.fold_in(task.key, 1), num_trials)
            initialization = Complementary(scales, self.aligned)
            trials = _place(initialization, self.uniform, trials, task.rows, keys)
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
    keys: PRNGKeyArray,
) -> Parameters:
    def one(parameters: Parameters, key: PRNGKeyArray) -> Parameters:
        assert parameters.network is not None
        layer_key, center_key, share_key, uniform_key = jax.random.split(key, 4)
        units, inputs = parameters.network.weights[0].shape
        residual = parameters.polynomial_output(rows.table) - rows.target
        squared = jnp.sum((rows.weights[:, None] * residual) ** 2, axis=1)
        placed = jax.random.categorical(center_key, jnp.log(squared), shape=(units,))
        anywhere = jax.random.randint(uniform_key, (units,), 0, rows.x.shape[0])
        chosen = jnp.where(jax.random.uniform(share_key, (units,)) < uniform, anywhere, placed)
        weight, bias = initialization.first_layer(
            inputs, units, key=layer_key, dtype=str(parameters.b.dtype), centers=rows.x[chosen]
        )
        return eqx.tree_at(
            lambda p: (p.network.weights[0], p.network.biases[0], p.a),
            parameters,
            (weight, bias, jnp.zeros_like(parameters.a)),
        )

    return eqx.filter_vmap(one)(trials, keys)
