"""Gradient training: Adam and L-BFGS."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, PyTree

from pann.model import Parameters
from pann.training import quasi_newton
from pann.training.balance import GradNorm
from pann.training.descent import GradientStage, descend
from pann.training.line_search import Evaluate, Evaluated
from pann.training.rates import Cosine, Rate
from pann.training.stage import Outcome, Stage, Task


@dataclasses.dataclass(frozen=True)
class Adam(GradientStage):
    """Adam (Kingma and Ba 2015), full batch or minibatch; with `weight_decay`, AdamW.

    With `patience`, training stops when the held-out error has not improved for that many steps,
    and the best state is restored. `balance` keeps the terms of an equation's loss in balance.
    """

    steps: int = 20_000
    rate: Rate = dataclasses.field(default_factory=Cosine)
    batch_size: int | None = None
    weight_decay: float = 0.0
    patience: int | None = None
    record_every: int = 100
    balance: GradNorm | None = None

    def __post_init__(self) -> None:
        _check_counts(self, "steps", "batch_size", "patience", "record_every")
        if self.balance is not None and self.balance.every % self.record_every:
            raise ValueError(
                f"the weights are balanced every {self.balance.every} steps, but only between "
                f"records: use a record_every that divides it, got {self.record_every}"
            )

    @property
    def num_steps(self) -> int:
        return self.steps

    @property
    def minibatch(self) -> int | None:
        return self.batch_size

    @property
    def patience_steps(self) -> int | None:
        return self.patience

    @property
    def gradient_tolerance(self) -> float:
        return 0.0

    @property
    def balancing(self) -> GradNorm | None:
        return self.balance

    def memory_of(self, vector: Float[Array, " size"]) -> PyTree:
        return self._optimizer().init(vector)

    def begin(self, evaluate: Evaluate, vector: Float[Array, " size"]) -> Evaluated:
        shapes = jax.eval_shape(evaluate, vector)
        nothing = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
        return eqx.tree_at(lambda place: place.vector, nothing, vector)

    def step(
        self, evaluate: Evaluate, place: Evaluated, memory: PyTree
    ) -> tuple[Evaluated, PyTree, Bool[Array, ""]]:
        before = evaluate(place.vector)
        updates, memory = self._optimizer().update(before.gradient, memory, before.vector)
        after = eqx.tree_at(lambda place: place.vector, before, before.vector + updates)
        return after, memory, jnp.array(False)

    def _optimizer(self) -> optax.GradientTransformation:
        rate = self.rate.schedule(self.steps)
        if self.weight_decay:
            return optax.adamw(rate, weight_decay=self.weight_decay)
        return optax.adam(rate)

    def run(self, task: Task, trials: Parameters) -> tuple[Parameters, Outcome]:
        return descend(self, task, trials)


@dataclasses.dataclass(frozen=True)
class LBFGS(GradientStage):
    """L-BFGS (Liu and Nocedal 1989) with a line search for the strong Wolfe conditions.

    `tolerance` stops a trial once the largest entry of the gradient is below it.
    """

    iterations: int = 400
    memory: int = 50
    tolerance: float = 0.0
    record_every: int = 20

    def __post_init__(self) -> None:
        _check_counts(self, "iterations", "memory", "record_every")

    @property
    def num_steps(self) -> int:
        return self.iterations

    @property
    def minibatch(self) -> int | None:
        return None

    @property
    def patience_steps(self) -> int | None:
        return None

    @property
    def gradient_tolerance(self) -> float:
        return self.tolerance

    @property
    def balancing(self) -> GradNorm | None:
        return None

    def memory_of(self, vector: Float[Array, " size"]) -> PyTree:
        return quasi_newton.empty_memory(self.memory, vector)

    def begin(self, evaluate: Evaluate, vector: Float[Array, " size"]) -> Evaluated:
        return evaluate(vector)

    def step(
        self, evaluate: Evaluate, place: Evaluated, memory: PyTree
    ) -> tuple[Evaluated, PyTree, Bool[Array, ""]]:
        after, memory, is_stuck, _ = quasi_newton.iterate(evaluate, place, memory)
        return after, memory, is_stuck

    def run(self, task: Task, trials: Parameters) -> tuple[Parameters, Outcome]:
        return descend(self, task, trials)


def _check_counts(stage: Stage, *names: str) -> None:
    for name in names:
        value = getattr(stage, name)
        if value is not None and value < 1:
            raise ValueError(f"{name} must be at least 1, got {value} in {stage}")
