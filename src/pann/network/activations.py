"""Activation functions, each with the number of derivatives that a residual may ask of it.

They are written with primitives that Taylor mode can propagate (`jnp.maximum`, not `jax.nn.relu`).
"""

import abc
import dataclasses
import math

import jax.numpy as jnp
from jaxtyping import Array, Float


class Activation(abc.ABC):
    """A scalar function applied to every unit; `smoothness` counts its useful derivatives."""

    @property
    @abc.abstractmethod
    def smoothness(self) -> float: ...

    @abc.abstractmethod
    def __call__(self, x: Float[Array, "..."]) -> Float[Array, "..."]: ...


@dataclasses.dataclass(frozen=True)
class Tanh(Activation):
    smoothness: float = dataclasses.field(default=math.inf, init=False, repr=False)

    def __call__(self, x: Float[Array, "..."]) -> Float[Array, "..."]:
        return jnp.tanh(x)


@dataclasses.dataclass(frozen=True)
class Sin(Activation):
    smoothness: float = dataclasses.field(default=math.inf, init=False, repr=False)

    def __call__(self, x: Float[Array, "..."]) -> Float[Array, "..."]:
        return jnp.sin(x)


@dataclasses.dataclass(frozen=True)
class ReLU(Activation):
    smoothness: float = dataclasses.field(default=1, init=False, repr=False)

    def __call__(self, x: Float[Array, "..."]) -> Float[Array, "..."]:
        return jnp.maximum(x, 0)


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


ACTIVATIONS: dict[str, Activation] = {
    "tanh": Tanh(),
    "relu": ReLU(),
    "repu": RePU(),
    "sin": Sin(),
}


def activation_named(name: str | Activation) -> Activation:
    """Look an activation up by name; an `Activation` passes through, as `RePU(3)` does."""
    if isinstance(name, Activation):
        return name
    if name not in ACTIVATIONS:
        raise ValueError(
            f"there is no activation '{name}'; choose one of {', '.join(ACTIVATIONS)}, "
            "or pass an Activation such as RePU(3)"
        )
    return ACTIVATIONS[name]
