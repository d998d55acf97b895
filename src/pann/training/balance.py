"""GradNorm: weights that make the gradients of all terms of a loss equally long.

    w_i <- memory w_i + (1 - memory) mean_k |grad L_k| / |grad L_i|

(Wang, Teng and Perdikaris 2021; the mean as the paper has it). The constraint between the halves is
left out. The weights are part of a trial's parameters: stages that follow keep them.
"""

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

Terms = dict[str, Float[Array, ""]]
# Of the mean length: gradients count as at least that long.
SMALLEST_SHARE = 1e-3


@dataclasses.dataclass(frozen=True)
class GradNorm:
    """New weights every so many steps, as a moving average with this `memory`."""

    every: int = 1_000
    memory: float = 0.9

    def __post_init__(self) -> None:
        if self.every < 1:
            raise ValueError(f"every must be at least 1, got {self.every} in {self}")
        if not 0 <= self.memory < 1:
            raise ValueError(f"memory is a share in [0, 1), got {self.memory} in {self}")

    def update(self, weights: Terms, terms: Callable[[PyTree], Terms], moving: PyTree) -> Terms:
        """The weights after one look at the gradients of the terms by what moves."""
        norms = {
            name: _length(jax.grad(lambda tree, name=name: terms(tree)[name])(moving))
            for name in weights
        }
        mean = jnp.mean(jnp.stack(list(norms.values())))
        # A term that happens to be satisfied, as zero satisfies many equations, has no gradient.
        floor = jnp.maximum(SMALLEST_SHARE * mean, jnp.finfo(mean.dtype).tiny)
        return {
            name: self.memory * weight + (1 - self.memory) * mean / jnp.maximum(norms[name], floor)
            for name, weight in weights.items()
        }


def _length(tree: PyTree) -> Float[Array, ""]:
    return jnp.sqrt(jnp.sum(jnp.stack([jnp.sum(leaf**2) for leaf in jax.tree.leaves(tree)])))
