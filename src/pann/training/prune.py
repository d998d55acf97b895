"""Pruning: coefficients below a threshold go, with their basis functions (paper, section 3.3)."""

import dataclasses

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from pann.model.pann import Parameters
from pann.training.linear import LeastSquares
from pann.training.task import CONVERGED, Outcome, Recorder, Stage, Task


@dataclasses.dataclass(frozen=True)
class Prune(Stage):
    """Drop a_j and b_k with |a_j| or |b_k| below `threshold`.

    `relative` takes the threshold as a fraction of the largest coefficient of the same half;
    `signed` is the test as the paper prints it, a_j < t, which drops every negative coefficient.
    A function that serves several outputs goes when all of its coefficients do.
    """

    threshold: float = 1e-4
    relative: bool = False
    signed: bool = False

    def __post_init__(self) -> None:
        if self.threshold < 0:
            raise ValueError(f"threshold must not be negative, got {self.threshold}")

    def run(self, task: Task, trials: Parameters) -> tuple[Parameters, Outcome]:
        recorder = Recorder(self, task, 1)
        keep_a = trials.keep_a & self._kept(trials.a)
        # Under the exact constraint the polynomial half is Phi (b + overlap).
        keep_b = trials.keep_b & self._kept(trials.b + trials.overlap)
        trials = eqx.tree_at(
            lambda p: (p.a, p.b, p.keep_a, p.keep_b),
            trials,
            (trials.a * keep_a[..., None], trials.b * keep_b[..., None], keep_a, keep_b),
        )
        if task.loss.constraint == "exact":
            # The terms that went no longer cancel the network's part in them: solve for both.
            trials, _ = LeastSquares("both").run(task, trials)
        recorder.record(1, task.figures(trials) | task.watch(trials))
        notes = tuple(_summary(each) for each in task.by_case(trials))
        return trials, recorder.outcome(np.full(keep_b.shape[0], CONVERGED), notes)

    def _kept(
        self, coefficients: Float[Array, "trials functions outputs"]
    ) -> Bool[Array, "trials functions"]:
        sizes = coefficients if self.signed else jnp.abs(coefficients)
        largest = jnp.max(sizes, axis=2, initial=-jnp.inf)
        scale = jnp.max(largest, axis=1, keepdims=True, initial=0.0) if self.relative else 1.0
        # A zero coefficient goes whatever the threshold is relative to.
        return (largest >= self.threshold * scale) & ((largest != 0) | (self.threshold == 0))


@dataclasses.dataclass(frozen=True)
class DropPolynomial(Stage):
    """Drop every polynomial term but the constant: what is left is a network with a bias.

    Where the points are too few for the terms, as happens in many dimensions, this is better.
    """

    def run(self, task: Task, trials: Parameters) -> tuple[Parameters, Outcome]:
        recorder = Recorder(self, task, 1)
        is_constant = jnp.max(task.data.table, axis=0) == jnp.min(task.data.table, axis=0)
        keep_b = trials.keep_b & is_constant
        trials = eqx.tree_at(
            lambda p: (p.b, p.overlap, p.keep_b),
            trials,
            (trials.b * keep_b[..., None], trials.overlap * keep_b[..., None], keep_b),
        )
        return trials, recorder.outcome(np.full(keep_b.shape[0], CONVERGED))


def _summary(trials: Parameters) -> str:
    def pruned(kept: Bool[Array, "trials functions"]) -> str:
        if kept.shape[1] == 0:
            return "none"
        return f"{100 * (1 - float(jnp.mean(kept))):.1f}%"

    units, terms = pruned(trials.keep_a), pruned(trials.keep_b)
    return f"pruned {units} of the network's units, {terms} of the terms"
