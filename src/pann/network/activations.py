"""Activation functions: each class has the function, its derivatives in closed form, and how many.

A new activation is a class and a line in `ACTIVATIONS`. Functions are written with primitives that
Taylor mode can propagate (`jnp.maximum`, not `jax.nn.relu`).
"""

import abc
import dataclasses
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float


class Activation(abc.ABC):
    """A scalar function applied to every unit; `smoothness` counts its useful derivatives."""

    @property
    @abc.abstractmethod
    def smoothness(self) -> float: ...

    @abc.abstractmethod
    def __call__(self, x: Float[Array, "..."]) -> Float[Array, "..."]: ...

    def derivatives(self, z: Float[Array, "*shape"], order: int) -> list[Float[Array, "*shape"]]:
        """[f(z), f'(z), ..., f^(order)(z)].

        By nested differentiation, for a user's activation; pann's own have closed forms.
        """
        functions: list[Callable[[Array], Array]] = [self]
        for _ in range(order):
            functions.append(directional(functions[-1], jnp.ones_like(z)))
        return [function(z) for function in functions]


def directional(
    function: Callable[[Array], Array], along: Float[Array, "*shape"]
) -> Callable[[Array], Array]:
    """The derivative of the function in this direction."""
    return lambda x: jax.jvp(function, (x,), (along,))[1]


@dataclasses.dataclass(frozen=True)
class Tanh(Activation):
    """f^(k) = (1 - t^2) q_k(t) with t = tanh z, q_1 = 1, q_{k+1} = (1 - t^2) q_k' - 2 t q_k."""

    smoothness = math.inf

    def __call__(self, x: Float[Array, "..."]) -> Float[Array, "..."]:
        return jnp.tanh(x)

    def derivatives(self, z: Float[Array, "*shape"], order: int) -> list[Float[Array, "*shape"]]:
        t = jnp.tanh(z)
        slope = 1 - t * t
        values = [t]
        polynomial = np.polynomial.Polynomial
        q = polynomial([1])
        for _ in range(order):
            # Each q is even or odd: Horner's rule in t^2.
            odd = (len(q) + 1) % 2
            value: Array | float = float(q.coef[-1])
            for coefficient in q.coef[-3::-2]:
                value = value * (t * t) + float(coefficient)
            values.append(slope * (value * t if odd else value))
            q = polynomial([1, 0, -1]) * q.deriv() - polynomial([0, 2]) * q
        return values


@dataclasses.dataclass(frozen=True)
class Sin(Activation):
    """sin(x), whose derivatives are +-sin and +-cos in turn."""

    smoothness = math.inf

    def __call__(self, x: Float[Array, "..."]) -> Float[Array, "..."]:
        return jnp.sin(x)

    def derivatives(self, z: Float[Array, "*shape"], order: int) -> list[Float[Array, "*shape"]]:
        sine = jnp.sin(z)
        if order == 0:
            return [sine]
        cosine = jnp.cos(z)
        return [(sine, cosine, -sine, -cosine)[k % 4] for k in range(order + 1)]


@dataclasses.dataclass(frozen=True)
class Arctan(Activation):
    """f^(k) = (k - 1)! cos^k t sin k (t + pi / 2) with t = arctan z: fronts with long tails."""

    smoothness = math.inf

    def __call__(self, x: Float[Array, "..."]) -> Float[Array, "..."]:
        return jnp.arctan(x)

    def derivatives(self, z: Float[Array, "*shape"], order: int) -> list[Float[Array, "*shape"]]:
        t = jnp.arctan(z)
        cosine = 1 / jnp.sqrt(1 + z * z)
        return [t] + [
            math.factorial(k - 1) * cosine**k * jnp.sin(k * (t + math.pi / 2))
            for k in range(1, order + 1)
        ]


@dataclasses.dataclass(frozen=True)
class ReLU(Activation):
    """max(0, x)."""

    smoothness = 1.0

    def __call__(self, x: Float[Array, "..."]) -> Float[Array, "..."]:
        return jnp.maximum(x, 0)

    def derivatives(self, z: Float[Array, "*shape"], order: int) -> list[Float[Array, "*shape"]]:
        return RePU(1).derivatives(z, order)


@dataclasses.dataclass(frozen=True)
class RePU(Activation):
    """The rectified power unit max(0, x)^power (paper, table of baselines; power 2 by default)."""

    power: int = 2

    def __post_init__(self) -> None:
        if self.power < 1:
            raise ValueError(
                f"the power of RePU must be at least 1, got {self.power}; use 2, or ReLU for 1"
            )

    @property
    def smoothness(self) -> float:
        return float(self.power)

    def __call__(self, x: Float[Array, "..."]) -> Float[Array, "..."]:
        return jnp.maximum(x, 0) ** self.power

    def derivatives(self, z: Float[Array, "*shape"], order: int) -> list[Float[Array, "*shape"]]:
        """The last one jumps at 0, where it takes the mean of both sides, as in JAX."""
        power, positive = self.power, jnp.maximum(z, 0)
        values = [
            math.perm(power, k) * positive ** (power - k) for k in range(min(power, order + 1))
        ]
        if order >= power:
            values.append(math.factorial(power) * (jnp.sign(z) + 1) / 2)
        return values


@dataclasses.dataclass(frozen=True)
class Power(Activation):
    """max(0, x)^power for any power above 0: its derivatives are those away from x = 0."""

    power: float
    smoothness = math.inf

    def __call__(self, x: Float[Array, "..."]) -> Float[Array, "..."]:
        return self.derivatives(x, 0)[0]

    def derivatives(self, z: Float[Array, "*shape"], order: int) -> list[Float[Array, "*shape"]]:
        is_positive = z > 0
        positive = jnp.where(is_positive, z, 1)
        factors = np.cumprod([1.0, *(self.power - k for k in range(order))]).tolist()
        return [
            jnp.where(is_positive, factor * positive ** (self.power - k), 0)
            for k, factor in enumerate(factors)
        ]


ACTIVATIONS: dict[str, Activation] = {
    "tanh": Tanh(),
    "relu": ReLU(),
    "repu": RePU(),
    "sin": Sin(),
    "arctan": Arctan(),
}


def activation_named(name: str | Activation) -> Activation:
    """Look an activation up by name; an `Activation` passes through, as `RePU(3)` does."""
    return name if isinstance(name, Activation) else ACTIVATIONS[name]
