"""What a network sees of its inputs: coordinates, polynomials or sines of them, or axis units.

An embedding is built from its arrays, and maps the derivatives of its inputs to those of its
outputs; its value is the derivative of order zero. The options `RandomFourier`, `PeriodicFeatures`,
`AxisUnits`, `Circles` and `PolynomialFeatures` say which one to make; `build` draws its arrays for
a number of inputs.
"""

import abc
import dataclasses
import functools
import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from pann.network.activations import Activation, ReLU, Sin
from pann.network.initialization import draw_slopes
from pann.network.jets import (
    Derivatives,
    Jet,
    Order,
    Orders,
    PointFunction,
    activate,
    compose,
    degree,
    gathered,
    identity,
    in_terms,
    linear,
    nested,
    value_of,
)

# From powers, Legendre polynomials lose a digit every three degrees.
MAX_POLYNOMIAL_DEGREE = 12


class Embedding(eqx.Module):
    """A function of the inputs; subclasses are final."""

    @property
    @abc.abstractmethod
    def num_outputs(self) -> int: ...

    @abc.abstractmethod
    def derivatives(self, inputs: Jet, wanted: Orders) -> Jet:
        """The wanted derivatives of the outputs, from those of the inputs."""

    def __call__(self, x: Float[Array, " inputs"]) -> Float[Array, " outputs"]:
        value = (0,) * x.shape[0]
        return self.derivatives({value: x[None]}, (value,))[value][0]


def embed(
    embedding: Embedding | PointFunction | None, x: Float[Array, "points d"], wanted: Derivatives
) -> Jet:
    """Derivatives of what a network sees at the points: of the coordinates without an embedding."""
    orders = in_terms(wanted)
    jet = identity(x, orders)
    if isinstance(embedding, Embedding):
        jet = embedding.derivatives(jet, orders)
    elif embedding is not None:
        jet = nested(embedding, x, orders)
    return gathered(jet, wanted)


def _pure(orders: Orders) -> Orders:
    """Those that are not mixed: units of a single input have no others."""
    return tuple(order for order in orders if np.count_nonzero(order) <= 1)


def _waves(phase: Jet, wanted: Orders) -> Jet:
    """cos and sin of the phase, side by side."""
    sine = Sin().derivatives(value_of(phase), max(map(sum, wanted)) + 1)
    pair = (compose(sine[1:], phase, wanted), compose(sine[:-1], phase, wanted))
    return {order: jnp.concatenate([wave[order] for wave in pair], axis=1) for order in wanted}


class RandomFourierFeatures(Embedding):
    """cos(B x) and sin(B x) with frequencies B drawn once from a normal law and never trained."""

    frequencies: Float[Array, "frequencies inputs"]

    @property
    def num_outputs(self) -> int:
        return 2 * self.frequencies.shape[0]

    def derivatives(self, inputs: Jet, wanted: Orders) -> Jet:
        return _waves(linear(jax.lax.stop_gradient(self.frequencies), 0.0, inputs), wanted)


class PeriodicEmbedding(Embedding):
    """Each feature through its own trained sines and a small linear map, for tabular data.

    e_i = A_i [cos(2 pi c_i x_i), sin(2 pi c_i x_i)] + d_i, `rectified` or not (Gorishniy et al.
    2022, "On embeddings for numerical features in tabular deep learning": PLR and PL); the feature
    itself is kept as well.
    """

    frequencies: Float[Array, "inputs frequencies"]
    weights: Float[Array, "inputs size sines"]
    biases: Float[Array, "inputs size"]
    rectified: bool = eqx.field(static=True)

    @property
    def num_outputs(self) -> int:
        return self.biases.size + self.biases.shape[0]

    def derivatives(self, inputs: Jet, wanted: Orders) -> Jet:
        pure, x = _pure(wanted), value_of(inputs)
        num_inputs, num_frequencies = self.frequencies.shape
        phase = {
            order: (2 * jnp.pi * self.frequencies * array[:, :, None]).reshape(len(array), -1)
            for order, array in inputs.items()
        }
        embedded: Jet = {}
        for order, waves in _waves(phase, pure).items():
            split = waves.reshape(-1, 2, num_inputs, num_frequencies)
            split = jnp.moveaxis(split, 1, 2).reshape(-1, num_inputs, 2 * num_frequencies)
            units = jnp.einsum("isw,niw->nis", self.weights, split)
            units = units if degree(order) else units + self.biases
            embedded[order] = units.reshape(len(x), -1)
        if self.rectified:
            embedded = activate(ReLU(), embedded, pure)
        kept = {order: jnp.broadcast_to(array, x.shape) for order, array in inputs.items()}
        return {
            order: jnp.concatenate([kept.get(order, jnp.zeros_like(x)), array], axis=1)
            for order, array in embedded.items()
        }


class AxisEmbedding(Embedding):
    """Units s_j (x_i - c_j) along single axes i = j mod d, through the activation; all trained.

    A first layer that stays aligned with the axes: it resolves one coordinate as finely as all
    points together sample it, which is what trees do, and leaves mixing to narrow layers after it.
    """

    slopes: Float[Array, " units"]
    centers: Float[Array, " units"]
    num_inputs: int = eqx.field(static=True)
    activation: Activation = eqx.field(static=True)

    @property
    def num_outputs(self) -> int:
        return self.slopes.shape[0]

    @property
    def axes(self) -> Int[Array, " units"]:
        """The axis of each unit."""
        return jnp.arange(self.num_outputs) % self.num_inputs

    def derivatives(self, inputs: Jet, wanted: Orders) -> Jet:
        units = {
            order: self.slopes * (array[:, self.axes] - (0 if degree(order) else self.centers))
            for order, array in inputs.items()
        }
        return activate(self.activation, units, _pure(wanted))


class CircleEmbedding(Embedding):
    """cos(pi x_i) and sin(pi x_i) instead of x_i along periodic axes: period 2 in each, exactly.

    `waves`, where there are any, take all of these as inputs and are periodic as well.
    """

    axes: tuple[int, ...] = eqx.field(static=True)
    num_inputs: int = eqx.field(static=True)
    waves: RandomFourierFeatures | None = None

    @property
    def others(self) -> tuple[int, ...]:
        """The axes that stay as they are."""
        return tuple(axis for axis in range(self.num_inputs) if axis not in self.axes)

    @property
    def num_outputs(self) -> int:
        if self.waves is not None:
            return self.waves.num_outputs
        return self.num_inputs + len(self.axes)

    def derivatives(self, inputs: Jet, wanted: Orders) -> Jet:
        axes, others = np.asarray(self.axes), np.asarray(self.others, int)
        phase = {order: jnp.pi * array[:, axes] for order, array in inputs.items()}
        embedded: Jet = {}
        for order, wave in _waves(phase, _pure(wanted)).items():
            rows = len(value_of(inputs))
            kept = jnp.zeros((1, len(others)), wave.dtype)
            kept = inputs[order][:, others] if order in inputs else kept
            each = [jnp.broadcast_to(part, (rows, part.shape[1])) for part in (kept, wave)]
            embedded[order] = jnp.concatenate(each, axis=1)
        return embedded if self.waves is None else self.waves.derivatives(embedded, wanted)


class PolynomialEmbedding(Embedding):
    """prod_i P_{k_i}(x_i) for all |k| <= degree, Legendre polynomials, by increasing |k|.

    A unit f(w . P(x) + b) of the first layer then lies along a curve, the zeros of a polynomial.
    """

    num_inputs: int = eqx.field(static=True)
    degree: int = eqx.field(static=True)

    @property
    def indices(self) -> Int[np.ndarray, "terms inputs"]:
        """The k of each output: the constant, the coordinates, then products."""
        return total_degree_indices(self.num_inputs, self.degree)

    @property
    def num_outputs(self) -> int:
        return len(self.indices)

    def derivatives(self, inputs: Jet, wanted: Orders) -> Jet:
        """`inputs` are coordinates: of these only the values are read."""
        return {order: self._derivative(value_of(inputs), order) for order in wanted}

    def _derivative(self, x: Float[Array, "points d"], order: Order) -> Float[Array, "points _"]:
        factors = [
            _legendre(x[:, axis], self.degree, count)[:, self.indices[:, axis]]
            for axis, count in enumerate(order)
        ]
        return functools.reduce(jnp.multiply, factors)


@functools.cache
def total_degree_indices(num_inputs: int, degree: int) -> Int[np.ndarray, "terms inputs"]:
    """All multi-indices of this total degree or less, by total degree."""
    every = itertools.product(range(degree + 1), repeat=num_inputs)
    kept = sorted((k for k in every if sum(k) <= degree), key=lambda k: (sum(k), k[::-1]))
    return np.array(kept, int).reshape(-1, num_inputs)


def _legendre(x: Float[Array, " points"], degree: int, count: int) -> Float[Array, "points terms"]:
    """The derivatives of P_0, ..., P_degree of this order, from powers: degrees are low."""
    coefficients = np.zeros((degree + 1, degree + 1))
    for k in range(degree + 1):
        polynomial = np.polynomial.Legendre.basis(k).convert(kind=np.polynomial.Polynomial)
        found = polynomial.deriv(count).coef if count else polynomial.coef
        coefficients[: len(found), k] = found
    powers = jnp.stack([x**k for k in range(degree + 1)], axis=1)
    return powers @ jnp.asarray(coefficients, x.dtype)


class EmbeddingOptions(abc.ABC):
    """Which embedding to make, before the number of inputs is known."""

    @abc.abstractmethod
    def build(
        self, num_inputs: int, activation: Activation, *, key: PRNGKeyArray, dtype: str
    ) -> Embedding: ...


@dataclasses.dataclass(frozen=True)
class RandomFourier(EmbeddingOptions):
    """`RandomFourierFeatures`; the paper's are 100 frequencies of scale 1."""

    num_frequencies: int = 100
    scale: float = 1.0

    def build(
        self, num_inputs: int, activation: Activation, *, key: PRNGKeyArray, dtype: str
    ) -> RandomFourierFeatures:
        normal = jax.random.normal(key, (self.num_frequencies, num_inputs), dtype)
        return RandomFourierFeatures(self.scale * normal)


@dataclasses.dataclass(frozen=True)
class PeriodicFeatures(EmbeddingOptions):
    """`PeriodicEmbedding`, for tabular data; no boundary condition (`pann.pde.Periodic` is one).

    The first frequencies are normal with deviation `scale`, or, for a pair, log-uniform between.
    """

    num_frequencies: int = 24
    size: int = 8
    scale: float | tuple[float, float] = 1.0
    rectified: bool = False

    def build(
        self, num_inputs: int, activation: Activation, *, key: PRNGKeyArray, dtype: str
    ) -> PeriodicEmbedding:
        frequency_key, weight_key = jax.random.split(key)
        shape = (num_inputs, self.num_frequencies)
        if isinstance(self.scale, tuple):
            count = num_inputs * self.num_frequencies
            slopes = draw_slopes(self.scale, count, key=frequency_key, dtype=dtype)
            frequencies = slopes.reshape(shape)
        else:
            frequencies = self.scale * jax.random.normal(frequency_key, shape, dtype)
        weights = jax.random.normal(
            weight_key, (num_inputs, self.size, 2 * self.num_frequencies), dtype
        )
        return PeriodicEmbedding(
            frequencies,
            weights / jnp.sqrt(self.num_frequencies),
            jnp.zeros((num_inputs, self.size), dtype),
            self.rectified,
        )


@dataclasses.dataclass(frozen=True)
class AxisUnits(EmbeddingOptions):
    """`AxisEmbedding` with this many units over all axes."""

    num_units: int = 128

    def build(
        self, num_inputs: int, activation: Activation, *, key: PRNGKeyArray, dtype: str
    ) -> AxisEmbedding:
        slope_key, center_key = jax.random.split(key)
        shape = (self.num_units,)
        return AxisEmbedding(
            draw_slopes((2.0, 20.0), self.num_units, key=slope_key, dtype=dtype),
            jax.random.uniform(center_key, shape, dtype, minval=-1.0, maxval=1.0),
            num_inputs,
            activation,
        )


@dataclasses.dataclass(frozen=True)
class Circles(EmbeddingOptions):
    """`CircleEmbedding` along these axes, the periodic ones.

    With `frequencies` above 0, as many `RandomFourierFeatures` of this scale follow.
    """

    axes: tuple[int, ...]
    frequencies: int = 0
    scale: float = 1.0

    def __post_init__(self) -> None:
        if self.frequencies < 0:
            raise ValueError(
                f"frequencies must be at least 0, got {self.frequencies}; 0 leaves the waves out"
            )

    def build(
        self, num_inputs: int, activation: Activation, *, key: PRNGKeyArray, dtype: str
    ) -> Embedding:
        waves = None
        if self.frequencies > 0:
            options = RandomFourier(self.frequencies, self.scale)
            waves = options.build(num_inputs + len(self.axes), activation, key=key, dtype=dtype)
        return CircleEmbedding(self.axes, num_inputs, waves)


@dataclasses.dataclass(frozen=True)
class PolynomialFeatures(EmbeddingOptions):
    """`PolynomialEmbedding`: products of the coordinates up to this total degree."""

    degree: int = 2

    def __post_init__(self) -> None:
        if not 1 <= self.degree <= MAX_POLYNOMIAL_DEGREE:
            raise ValueError(
                f"degree must be between 1 and {MAX_POLYNOMIAL_DEGREE}, got {self.degree}; "
                "polynomials of higher degrees are the model's other half"
            )

    def build(
        self, num_inputs: int, activation: Activation, *, key: PRNGKeyArray, dtype: str
    ) -> PolynomialEmbedding:
        return PolynomialEmbedding(num_inputs, self.degree)
