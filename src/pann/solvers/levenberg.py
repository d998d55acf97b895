"""Levenberg-Marquardt on a network together with a polynomial, which is not damped.

The columns of b, and of the equation's unknown parameters, are eliminated from every step
(`pann.numerics.levenberg_marquardt`); so are those of a next to level sets, which have many psi for
few trained numbers. One iteration is one compiled program.
"""

import dataclasses
import functools
from collections.abc import Callable, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Bool, Float, PyTree
from threadpoolctl import threadpool_limits

from pann.basis import WholeBasis
from pann.domain import Box
from pann.io.checkpoint import NOWHERE, Checkpoint, Saved, packed, unpacked
from pann.model.pann import Parameters, trainable
from pann.network import LevelSets
from pann.numerics import levenberg_marquardt as lm
from pann.numerics.levenberg_marquardt import DampedProblem, Damping
from pann.pde.collocation import Block, ChunkedBlock, Columns, Placed
from pann.pde.evaluation import block_channels, network_channels
from pann.runtime.limits import Stopped
from pann.solvers.assessment import indicator, relative_errors
from pann.solvers.newton import Blocks, Unknowns, columns_by_b, in_parts
from pann.solvers.setup import Setup
from pann.solvers.solution import Solution, with_report
from pann.training.gauss_newton import moved_network, network_only

# The first damping, and the steps without a lower residual at fresh points that end the work.
DAMPING, PATIENCE = 1e-2, 40
# Relative to columns of length 1.
RIDGE = 1e-10


class State(eqx.Module):
    """The network, in parameters without a polynomial, and what goes with it."""

    parameters: Parameters
    unknowns: Unknowns


@dataclasses.dataclass(frozen=True)
class LevenbergOutcome:
    """The residual's norm at the training and at fresh points after every step, and the reason.

    `stopped` is the time limit, or Ctrl-C, that ended the steps before.
    """

    training: list[float]
    fresh: list[float]
    reason: str
    stopped: str | None = None

    @property
    def num_steps(self) -> int:
        return len(self.fresh) - 1


def levenberg_marquardt(
    blocks: Blocks,
    fresh: tuple[Block, ...],
    start: State,
    domain: Box,
    *,
    iterations: int,
    report: Callable[[int, float], None] = lambda step, value: None,
    checkpoint: Checkpoint = NOWHERE,
) -> tuple[State, LevenbergOutcome]:
    """Train the network and b together; the state with the least residual at fresh points."""
    state = best = start
    done, saved = checkpoint.done(), checkpoint.under_way()
    if done is not None:
        return unpacked("best", done.arrays, best), _restored_outcome(done)
    damped = lm.first_damping(DAMPING)
    if saved is not None:
        state, best = (unpacked(name, saved.arrays, state) for name in ("state", "best"))
        damped = unpacked("damping", saved.arrays, damped)
        outcome = _restored_outcome(saved)
        training, at_fresh = outcome.training, outcome.fresh
        best_fresh, lowered = float(saved.arrays["best_fresh"]), int(saved.notes["lowered"])
    else:
        training = [float(_norm(blocks, state, domain))]
        best_fresh = float(_norm(fresh, state, domain))
        at_fresh, lowered = [best_fresh], 0
    reason, stopped = "all steps done", None
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
            outcome = LevenbergOutcome([*training], [*at_fresh], "")
            trees = {"state": state, "best": best, "damping": damped}
            checkpoint.keep(functools.partial(_saved, outcome, trees, lowered, best_fresh))
            try:
                report(step + 1, at_fresh[-1])
            except Stopped as end:
                reason, stopped = f"stopped by {end}", str(end)
                break
            if step - lowered >= PATIENCE:
                reason = "the residual at fresh points stopped falling"
                break
    outcome = LevenbergOutcome(training, at_fresh, reason, stopped)
    if stopped is None:
        checkpoint.finish(functools.partial(_saved, outcome, {"best": best}, lowered, best_fresh))
    return best, outcome


def _saved(
    outcome: LevenbergOutcome, trees: dict[str, PyTree], lowered: int, best_fresh: float
) -> Saved:
    arrays = {
        "training": np.asarray(outcome.training),
        "fresh": np.asarray(outcome.fresh),
        "best_fresh": np.asarray(best_fresh),
    }
    for name, tree in trees.items():
        arrays |= packed(name, tree)
    return Saved(arrays, {"reason": outcome.reason, "lowered": lowered})


def _restored_outcome(saved: Saved) -> LevenbergOutcome:
    training, fresh = (saved.arrays[name].tolist() for name in ("training", "fresh"))
    return LevenbergOutcome(training, fresh, saved.notes["reason"])


# ---- The solution ----


def with_network(
    setup: Setup,
    before: Solution,
    basis: WholeBasis,
    placed: Sequence[Placed],
    trained: State,
    outcome: LevenbergOutcome,
    how: str,
) -> Solution:
    """The solution before with both halves as they were trained; `placed` are their points."""
    solved = trained.unknowns
    whole = dataclasses.replace(
        trained.parameters,
        b=solved.b,
        keep_b=jnp.ones(basis.num_terms, bool),
        overlap=jnp.zeros_like(solved.b),
    )
    model = dataclasses.replace(before.model, basis=basis, parameters=whole)
    rel_l2, field_errors = relative_errors(setup.problem, model, setup.ansatz)
    found = dataclasses.replace(before, model=model, parameters=solved.numbers)
    return with_report(
        found,
        error_estimate=None,
        how=how,
        residual=indicator(setup, placed[1:], model, solved.numbers),
        rel_l2=rel_l2,
        stop=outcome.reason,
        stopped=outcome.stopped,
        seconds=setup.run.seconds,
        field_errors=field_errors,
        history=before.report.history
        | {"training residual": outcome.training, "fresh residual": outcome.fresh},
    )


# ---- One iteration ----


class Tried(eqx.Module):
    """A state with a smaller residual, if one was found; its norm there and at fresh points."""

    state: State
    damping: Damping
    norm: Float[Array, ""]
    at_fresh: Float[Array, ""]
    accepted: Bool[Array, ""]


@eqx.filter_jit
def try_steps(
    blocks: Blocks,
    fresh: Blocks,
    state: State,
    norm: Float[Array, ""],
    damping: Damping,
    domain: Box,
) -> Tried:
    """Steps with more and more damping, then shorter and shorter ones, until one is accepted."""
    problem = linearized(blocks, state, domain)

    is_free = free_columns(state)

    def propose(damping: Array, length: Array) -> tuple[State, Array, Array]:
        step, free, predicted = problem.step(damping)
        step_b, step_a = jnp.split(free, [len(free) - np.sum(is_free)])
        step = jnp.zeros(len(is_free), step.dtype).at[~is_free].set(step).at[is_free].set(step_a)
        proposal = State(
            moved_network(state.parameters, length * step),
            jax.tree.map(jnp.subtract, state.unknowns, in_parts(length * step_b, state.unknowns)),
        )
        return proposal, residual_norm(blocks, proposal, domain) ** 2, predicted

    tried = lm.try_steps(propose, state, norm**2, damping, lm.nielsen, shorten=True)
    at_fresh = residual_norm(fresh, tried.point, domain)
    return Tried(tried.point, tried.damping, jnp.sqrt(tried.value), at_fresh, tried.accepted)


def linearized(blocks: Blocks, state: State, domain: Box) -> DampedProblem:
    """The linear problem of a step: the network's parameters are damped, b is not."""
    residual, by_b, by_network = jacobians(blocks, state, domain)
    is_free = free_columns(state)
    free = jnp.concatenate([by_b, by_network[:, is_free]], axis=1)
    # Products of a polynomial and a profile are nearly sums of others.
    ridge = RIDGE if np.any(is_free) else 0.0
    return lm.damped_problem(by_network[:, ~is_free], residual, free, ridge)


def free_columns(state: State) -> Bool[np.ndarray, " parameters"]:
    """Which of the network's trained numbers are eliminated with b: a of level sets."""
    moving = eqx.filter(network_only(state.parameters), trainable(state.parameters))
    has_free = isinstance(state.parameters.network, LevelSets)
    labels = [np.full(leaf.size, has_free and leaf is moving.a) for leaf in jax.tree.leaves(moving)]
    return np.concatenate(labels)


def residual_norm(blocks: Blocks, state: State, domain: Box) -> Float[Array, ""]:
    def square(block: Block) -> Float[Array, ""]:
        channels = _channels(block, state, domain)
        return jnp.sum(block.residual(channels, state.unknowns.parameters) ** 2)

    return jnp.sqrt(sum((block.total(square) for block in blocks), jnp.zeros(())))


_norm = eqx.filter_jit(residual_norm)


def _channels(block: Block, state: State, domain: Box) -> Float[Array, "orders points fields"]:
    """The channels of both halves."""
    polynomial = block.polynomial_channels(state.unknowns.b)
    return polynomial + block_channels(block, state.parameters, domain)


def jacobians(
    blocks: Blocks, state: State, domain: Box
) -> tuple[Float[Array, " rows"], Float[Array, "rows terms"], Float[Array, "rows parameters"]]:
    """The residual, and its derivatives by b and by the network's parameters."""

    def of_block(block: Block, state: State) -> Columns:
        channels = _channels(block, state, domain)
        by_b = columns_by_b(block, channels, state.unknowns.parameters)
        return *by_b, network_jacobian(block, channels, state, domain)

    found = zip(*(block.columns(of_block, state) for block in blocks), strict=True)
    residual, by_b, by_network = (jnp.concatenate(each) for each in found)
    return residual[:, 0], by_b, by_network


def network_jacobian(
    block: Block, channels: Array, state: State, domain: Box
) -> Float[Array, "rows parameters"]:
    """d residual / d network: at each point the slopes times the channels' derivatives."""
    _, slopes = block.linearize(channels, state.unknowns.parameters)
    moving, fixed = eqx.partition(network_only(state.parameters), trainable(state.parameters))

    def combined(moving: Parameters, ends: tuple[Array, ...], slope: Array) -> Array:
        whole = eqx.combine(moving, fixed)
        own = network_channels(whole, ends[0][None], block.orders, domain)[:, 0]
        if len(ends) > 1:
            _, minus, factors = ends
            other = network_channels(whole, minus[None], block.orders, domain)[:, 0]
            own = factors[0] * own - factors[1] * other
        return jnp.einsum("of,ofr->r", own, slope)

    def row(ends: tuple[Array, ...], slope: Array) -> Float[Array, "residuals parameters"]:
        jacobian = jax.jacrev(combined)(moving, ends, slope)
        return jax.vmap(lambda tree: ravel_pytree(tree)[0])(jacobian)

    ends: tuple[Array, ...] = (block.x,)
    if block.x_minus is not None and block.factors is not None:
        ends = (block.x, block.x_minus, block.factors)
    rows = jax.vmap(row)(ends, jnp.moveaxis(slopes, 2, 0))
    return rows.reshape(-1, rows.shape[2])


def residual_sizes(block: Block | ChunkedBlock, unknowns: Unknowns) -> Float[np.ndarray, " points"]:
    """The size of the polynomial's residual at each point of a block."""

    def sizes(part: Block) -> Float[Array, " points"]:
        residual = part.residual(part.polynomial_channels(unknowns.b), unknowns.parameters)
        return jnp.linalg.norm(residual, axis=1)

    return np.asarray(block.at_points(sizes))
