"""Levenberg-Marquardt on a network beside the polynomial, which is not damped.

The steps are those of `pann.pde.levenberg_step`; the state with the smallest residual at fresh
points is kept.
"""

import dataclasses
import functools
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from threadpoolctl import threadpool_limits

from pann.checkpoints import NOWHERE, Checkpoint, Saved, packed, unpacked
from pann.domain import Box
from pann.model import Parameters
from pann.pde.blocks import Block
from pann.pde.chunked_block import ChunkedBlock
from pann.pde.evaluation import block_channels
from pann.pde.levenberg_step import GROWTH, Damping, State, residual_norm, try_steps
from pann.pde.newton import Blocks, Unknowns
from pann.runtime_limits import Stopped


@dataclasses.dataclass(frozen=True)
class LevenbergOutcome:
    """The residual's norm at the training and at fresh points after every step, and the reason.

    `is_stopped` where a time limit, or Ctrl-C, ended the steps.
    """

    training: list[float]
    fresh: list[float]
    reason: str
    is_stopped: bool = False

    @property
    def num_steps(self) -> int:
        return len(self.fresh) - 1


def levenberg_marquardt(
    blocks: Blocks,
    fresh: tuple[Block, ...],
    parameters: Parameters,
    unknowns: Unknowns,
    domain: Box,
    *,
    iterations: int = 200,
    damping: float = 1e-2,
    patience: int = 40,
    report: Callable[[int, float], None] = lambda step, value: None,
    checkpoint: Checkpoint = NOWHERE,
) -> tuple[Parameters, Unknowns, LevenbergOutcome]:
    """Train the network and b together; the state best at fresh points comes back."""
    state = best = State(parameters, unknowns)
    done, saved = checkpoint.done(), checkpoint.under_way()
    if done is not None:
        best = unpacked("best", done.arrays, best)
        return best.parameters, best.unknowns, _restored_outcome(done)
    damped = Damping(jnp.asarray(damping), jnp.asarray(GROWTH))
    if saved is not None:
        state, best = (unpacked(name, saved.arrays, state) for name in ("state", "best"))
        damped = unpacked("damping", saved.arrays, damped)
        training, at_fresh, *_ = dataclasses.astuple(_restored_outcome(saved))
        best_fresh, lowered = float(saved.arrays["best_fresh"]), int(saved.notes["lowered"])
    else:
        training = [float(_norm(blocks, state, domain))]
        best_fresh = float(_norm(fresh, state, domain))
        at_fresh, lowered = [best_fresh], 0
    reason = "all steps done"
    with threadpool_limits(1):
        for step in range(len(training) - 1, iterations):
            norm = jnp.asarray(training[-1])
            tried = try_steps(blocks, fresh, state, norm, damped, domain)
            accepted, value, now = jax.device_get((tried.accepted, tried.norm, tried.at_fresh))
            if not accepted:
                reason = "no step lowers the residual any more"
                break
            state, damped = tried.state, tried.damping
            training.append(float(value))
            at_fresh.append(float(now))
            if now < (1 - 1e-4) * best_fresh:
                best, best_fresh, lowered = state, float(now), step
            numbers = {"best_fresh": np.asarray(best_fresh)}
            outcome = LevenbergOutcome([*training], [*at_fresh], "")
            trees = {"state": state, "best": best, "damping": damped}
            checkpoint.keep(functools.partial(_saved, outcome, trees, numbers, lowered))
            try:
                report(step + 1, at_fresh[-1])
            except Stopped as stopped:
                outcome = LevenbergOutcome(training, at_fresh, f"stopped by {stopped}", True)
                return best.parameters, best.unknowns, outcome
            if step - lowered >= patience:
                reason = "the residual at fresh points stopped falling"
                break
    outcome = LevenbergOutcome(training, at_fresh, reason)
    checkpoint.finish(functools.partial(_saved, outcome, {"best": best}, {}, lowered))
    return best.parameters, best.unknowns, outcome


def _saved(
    outcome: LevenbergOutcome,
    trees: dict[str, eqx.Module],
    numbers: dict[str, np.ndarray],
    lowered: int,
) -> Saved:
    arrays = {"training": np.asarray(outcome.training), "fresh": np.asarray(outcome.fresh)}
    for name, tree in trees.items():
        arrays |= packed(name, tree)
    return Saved(arrays | numbers, {"reason": outcome.reason, "lowered": lowered})


def _restored_outcome(saved: Saved) -> LevenbergOutcome:
    training, fresh = (saved.arrays[name].tolist() for name in ("training", "fresh"))
    return LevenbergOutcome(training, fresh, saved.notes["reason"])


def backgrounds(
    blocks: tuple[Block, ...], parameters: Parameters, domain: Box
) -> tuple[Float[Array, "orders points fields"], ...]:
    """The network's channels at the points of each block."""
    return tuple(block_channels(block, parameters, domain) for block in blocks)


@eqx.filter_jit
def _norm(blocks: Blocks, state: State, domain: Box) -> Float[Array, ""]:
    return residual_norm(blocks, state, domain)


def residual_sizes(block: Block | ChunkedBlock, unknowns: Unknowns) -> Float[np.ndarray, " points"]:
    """The size of the polynomial's residual at each point of a block."""

    def sizes(part: Block) -> Float[Array, " points"]:
        residual = part.residual(part.polynomial_channels(unknowns.b), unknowns.parameters)
        return jnp.linalg.norm(residual, axis=1)

    return np.asarray(block.at_points(sizes))
