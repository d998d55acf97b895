"""Learning rates as a function of the step."""

import abc
import dataclasses

import optax


class Rate(abc.ABC):
    """A schedule over a given number of steps."""

    @abc.abstractmethod
    def schedule(self, num_steps: int) -> optax.Schedule: ...


@dataclasses.dataclass(frozen=True)
class Constant(Rate):
    value: float = 1e-3

    def schedule(self, num_steps: int) -> optax.Schedule:
        return optax.constant_schedule(self.value)


@dataclasses.dataclass(frozen=True)
class Cosine(Rate):
    """From `value` to zero along half a cosine (the paper's regression experiments)."""

    value: float = 1e-3

    def schedule(self, num_steps: int) -> optax.Schedule:
        return optax.cosine_decay_schedule(self.value, num_steps)


@dataclasses.dataclass(frozen=True)
class Stepwise(Rate):
    """`value` times `factor` after every `every` steps (the paper's PDE experiments)."""

    value: float = 1e-3
    factor: float = 0.9
    every: int = 2_000

    def schedule(self, num_steps: int) -> optax.Schedule:
        return optax.exponential_decay(self.value, self.every, self.factor, staircase=True)
