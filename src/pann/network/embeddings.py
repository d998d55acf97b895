"""What a network sees of its inputs: the coordinates themselves, or waves of them."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray


class RandomFourierFeatures(eqx.Module):
    """cos(B x) and sin(B x) with frequencies B drawn once from a normal law and never trained."""

    frequencies: Float[Array, "frequencies inputs"]

    def __init__(
        self,
        num_inputs: int,
        num_frequencies: int = 100,
        scale: float = 1.0,
        *,
        key: PRNGKeyArray,
        dtype: str = "float64",
    ):
        self.frequencies = scale * jax.random.normal(key, (num_frequencies, num_inputs), dtype)

    @property
    def num_outputs(self) -> int:
        return 2 * self.frequencies.shape[0]

    def __call__(self, x: Float[Array, " inputs"]) -> Float[Array, " outputs"]:
        phase = jax.lax.stop_gradient(self.frequencies) @ x
        return jnp.concatenate([jnp.cos(phase), jnp.sin(phase)])


class PeriodicEmbedding(eqx.Module):
    """Each feature through its own trained waves and a small linear map, for tabular data.

    e_i = A_i [cos(2 pi c_i x_i), sin(2 pi c_i x_i)] + d_i (Gorishniy et al. 2022, "On embeddings
    for numerical features in tabular deep learning"); the feature itself is kept beside it.
    """

    frequencies: Float[Array, "inputs frequencies"]
    weights: Float[Array, "inputs size waves"]
    biases: Float[Array, "inputs size"]

    def __init__(
        self,
        num_inputs: int,
        num_frequencies: int = 24,
        size: int = 8,
        scale: float = 1.0,
        *,
        key: PRNGKeyArray,
        dtype: str = "float64",
    ):
        frequency_key, weight_key = jax.random.split(key)
        self.frequencies = scale * jax.random.normal(
            frequency_key, (num_inputs, num_frequencies), dtype
        )
        shape = (num_inputs, size, 2 * num_frequencies)
        self.weights = jax.random.normal(weight_key, shape, dtype) / jnp.sqrt(num_frequencies)
        self.biases = jnp.zeros((num_inputs, size), dtype)

    @property
    def num_outputs(self) -> int:
        return self.biases.size + self.biases.shape[0]

    def __call__(self, x: Float[Array, " inputs"]) -> Float[Array, " outputs"]:
        phase = 2 * jnp.pi * self.frequencies * x[:, None]
        waves = jnp.concatenate([jnp.cos(phase), jnp.sin(phase)], axis=1)
        embedded = jnp.einsum("isw,iw->is", self.weights, waves) + self.biases
        return jnp.concatenate([x, embedded.ravel()])


Embedding = RandomFourierFeatures | PeriodicEmbedding
