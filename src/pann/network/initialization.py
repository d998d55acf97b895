"""Initial weights of a network: Glorot's law, or features that a polynomial does not have.

A Glorot network is smooth, and its features lie almost in the span of a basis of moderate degree:
added to a solved polynomial they change nothing. Complementary initialization gives the first
layer steep units: scales drawn log-uniformly between the one that the basis resolves and the one
that the points can resolve, each unit's hyperplane through a point of the domain, a fraction of the
units along single axes.
"""

import abc
import dataclasses

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

Layers = list[tuple[Float[Array, "outputs inputs"], Float[Array, " outputs"]]]


class Initialization(abc.ABC):
    """Weights and biases for layers of the given sizes."""

    @abc.abstractmethod
    def layers(self, sizes: list[int], *, key: PRNGKeyArray, dtype: str) -> Layers: ...


@dataclasses.dataclass(frozen=True)
class Glorot(Initialization):
    """Normal weights of variance 2 / (inputs + outputs), zero biases (Glorot and Bengio 2010)."""

    def layers(self, sizes: list[int], *, key: PRNGKeyArray, dtype: str) -> Layers:
        keys = jax.random.split(key, len(sizes) - 1)
        return [
            (
                jnp.sqrt(2.0 / (inputs + outputs))
                * jax.random.normal(layer_key, (outputs, inputs), dtype),
                jnp.zeros(outputs, dtype),
            )
            for layer_key, inputs, outputs in zip(keys, sizes[:-1], sizes[1:], strict=True)
        ]


@dataclasses.dataclass(frozen=True)
class Complementary(Initialization):
    """First layer s_j n_j . (x - c_j): slopes s_j log-uniform in `scales`, c_j in the domain.

    The direction n_j is a coordinate axis for the fraction `aligned` of the units, otherwise
    uniform on the sphere. The layers after the first are Glorot's.
    """

    scales: tuple[float, float] = (2.0, 20.0)
    aligned: float = 0.5

    def __post_init__(self) -> None:
        low, high = self.scales
        if not 0 < low <= high:
            raise ValueError(f"scales must be 0 < low <= high, got ({low:g}, {high:g})")
        if not 0 <= self.aligned <= 1:
            raise ValueError(f"aligned is a fraction between 0 and 1, got {self.aligned:g}")

    def layers(self, sizes: list[int], *, key: PRNGKeyArray, dtype: str) -> Layers:
        first_key, rest_key = jax.random.split(key)
        inputs, units = sizes[0], sizes[1]
        return [
            self.first_layer(inputs, units, key=first_key, dtype=dtype),
            *Glorot().layers(sizes[1:], key=rest_key, dtype=dtype),
        ]

    def first_layer(
        self,
        inputs: int,
        units: int,
        *,
        key: PRNGKeyArray,
        dtype: str,
        centers: Float[Array, "units inputs"] | None = None,
    ) -> tuple[Float[Array, "units inputs"], Float[Array, " units"]]:
        """Weights and biases; the centers are uniform in [-1, 1]^inputs unless given."""
        scale_key, normal_key, center_key = jax.random.split(key, 3)
        slopes = draw_slopes(self.scales, units, key=scale_key, dtype=dtype)
        normals = jax.random.normal(normal_key, (units, inputs), dtype)
        normals = normals / jnp.linalg.norm(normals, axis=1, keepdims=True)
        axes = jax.nn.one_hot(jnp.arange(units) % inputs, inputs, dtype=dtype)
        is_aligned = jnp.arange(units) < round(self.aligned * units)
        normals = jnp.where(is_aligned[:, None], axes, normals)
        weights = slopes[:, None] * normals
        if centers is None:
            centers = jax.random.uniform(
                center_key, (units, inputs), dtype, minval=-1.0, maxval=1.0
            )
        return weights, -jnp.sum(weights * centers, axis=1)


def draw_slopes(
    scales: tuple[float, float], units: int, *, key: PRNGKeyArray, dtype: str
) -> Float[Array, " units"]:
    """Slopes with magnitudes log-uniform in `scales` and random signs."""
    size_key, sign_key = jax.random.split(key)
    low, high = scales
    logarithms = jax.random.uniform(
        size_key, (units,), dtype, minval=jnp.log(low), maxval=jnp.log(high)
    )
    return jnp.exp(logarithms) * jax.random.rademacher(sign_key, (units,), dtype)
