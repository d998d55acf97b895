"""One step of Levenberg-Marquardt on a network beside a polynomial, as one compiled program.

The columns of b (and of the equation's unknown parameters) are eliminated by a QR factorization of
their part of the Jacobian; the network's parameters are damped after scaling, as in
`pann.training.gauss_newton`, in the space of residuals where these are fewer. The damping follows
the ratio of the decrease to the one foretold (Nielsen 1999): what just worked is not made so small
that the next step is tried in vain.
"""

import dataclasses
import functools
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Bool, Float, Int
from threadpoolctl import threadpool_limits

from pann.domain import Box
from pann.io.checkpoint import NOWHERE, Checkpoint, Saved, packed, unpacked
from pann.model.pann import Parameters, trainable
from pann.pde.collocation import Block, ChunkedBlock, Columns
from pann.pde.evaluation import block_channels, network_channels
from pann.runtime.limits import Stopped
from pann.runtime.matmul import lower_gram
from pann.solvers.newton import Blocks, Unknowns, columns_by_b
from pann.training.gauss_newton import LENGTH_FLOOR, MAX_TRIES, network_only

GROWTH = 2.0
LEAST_FACTOR, LARGEST_FACTOR = 1 / 3, 2.0


class State(eqx.Module):
    parameters: Parameters
    unknowns: Unknowns


class Damping(eqx.Module):
    """What is added to the diagonal, and by how much it grows when the next step is rejected."""

    value: Float[Array, ""]
    growth: Float[Array, ""]


class Tried(eqx.Module):
    """A state with a smaller residual, if one was found; its norm there and at fresh points."""

    state: State
    damping: Damping
    norm: Float[Array, ""]
    at_fresh: Float[Array, ""]
    accepted: Bool[Array, ""]


class _System(eqx.Module):
    """The linear problem of a step, its network columns scaled and free of b."""

    columns: Float[Array, "rows parameters"]
    residual: Float[Array, " rows"]
    normal: Float[Array, "size size"]
    lengths: Float[Array, " parameters"]
    by_b: Float[Array, "terms terms"]
    lengths_b: Float[Array, " terms"]
    residual_b: Float[Array, " terms"]
    overlap: Float[Array, "terms parameters"]

    def step(
        self, damping: Float[Array, ""]
    ) -> tuple[Float[Array, " parameters"], Float[Array, " terms"], Float[Array, ""]]:
        """In the network's parameters and in b, and the decrease of the square that it foretells.

        Only the lower triangle of the normal matrix is read.
        """
        dtype = self.normal.dtype
        # The damping is of double precision, which must not raise that of the step.
        shift = (damping + 10 * jnp.finfo(dtype).eps).astype(dtype)
        damped = self.normal + shift * jnp.eye(len(self.normal), dtype=dtype)
        factor = jax.scipy.linalg.cho_factor(damped, lower=True)
        gradient = self.columns.T @ self.residual
        if len(self.normal) < len(self.lengths):
            scaled = self.columns.T @ jax.scipy.linalg.cho_solve(factor, self.residual)
        else:
            scaled = jax.scipy.linalg.cho_solve(factor, gradient)
        step = scaled / self.lengths
        right = self.residual_b - self.overlap @ step
        step_b = jax.scipy.linalg.solve_triangular(self.by_b, right) / self.lengths_b
        foretold = scaled @ (gradient + shift * scaled)
        return step, step_b, foretold + jnp.sum(self.residual_b**2)


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
    system = _system(blocks, state, domain)
    static = eqx.filter(state, eqx.is_array, inverse=True)

    def is_open(carry: tuple[Tried, Int[Array, ""]]) -> Bool[Array, ""]:
        tried, tries = carry
        return ~tried.accepted & (tries < MAX_TRIES)

    def attempt(carry: tuple[Tried, Int[Array, ""]]) -> tuple[Tried, Int[Array, ""]]:
        tried, tries = carry
        value, growth = tried.damping.value, tried.damping.growth
        # More damping spares b: where it is no help, all of the step is made shorter.
        shorter = jnp.maximum(0, tries - MAX_TRIES // 2)
        share = 0.5**shorter
        step, step_b, foretold = system.step(value)
        proposal = _moved(state, share * step, share * step_b)
        new = residual_norm(blocks, proposal, domain)
        accepted = new < norm
        ratio = (norm**2 - new**2) / foretold
        factor = jnp.clip(1 - (2 * ratio - 1) ** 3, LEAST_FACTOR, LARGEST_FACTOR)
        after = Damping(value * jnp.where(shorter > 0, 1.0, factor), jnp.asarray(GROWTH))
        grown = Damping(value * growth, 2 * growth)
        rejected = jax.tree.map(lambda a, b: jnp.where(shorter > 0, a, b), tried.damping, grown)
        chosen = jax.tree.map(lambda a, b: jnp.where(accepted, a, b), after, rejected)
        arrays = eqx.filter(proposal, eqx.is_array)
        return Tried(arrays, chosen, new, tried.at_fresh, accepted), tries + 1

    arrays = eqx.filter(state, eqx.is_array)
    start = Tried(arrays, damping, norm, norm, jnp.array(False))
    tried, _ = jax.lax.while_loop(is_open, attempt, (start, jnp.array(0)))
    found = eqx.combine(tried.state, static)
    at_fresh = residual_norm(fresh, found, domain)
    return Tried(found, tried.damping, tried.norm, at_fresh, tried.accepted)


def residual_norm(blocks: Blocks, state: State, domain: Box) -> Float[Array, ""]:
    def square(block: Block) -> Float[Array, ""]:
        channels = block.polynomial_channels(state.unknowns.b)
        channels = channels + block_channels(block, state.parameters, domain)
        return jnp.sum(block.residual(channels, state.unknowns.parameters) ** 2)

    return jnp.sqrt(sum((block.total(square) for block in blocks), jnp.zeros(())))


def jacobians(
    blocks: Blocks, state: State, domain: Box
) -> tuple[Float[Array, " rows"], Float[Array, "rows terms"], Float[Array, "rows parameters"]]:
    """The residual, and its derivatives by b and by the network's parameters."""

    def of_block(block: Block, state: State) -> Columns:
        own = block_channels(block, state.parameters, domain)
        by_network = network_jacobian(block, own, state, domain)
        return *columns_by_b(block, (state.unknowns, own)), by_network

    found = zip(*(block.columns(of_block, state) for block in blocks), strict=True)
    residual, by_b, by_network = (jnp.concatenate(each) for each in found)
    return residual[:, 0], by_b, by_network


def network_jacobian(
    block: Block, channels: Array, state: State, domain: Box
) -> Float[Array, "rows parameters"]:
    """d residual / d network: at each point the slopes times the channels' derivatives."""
    total = block.polynomial_channels(state.unknowns.b) + channels
    _, slopes = block.linearize(total, state.unknowns.parameters)
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


def _system(blocks: Blocks, state: State, domain: Box) -> _System:
    residual, by_b, by_network = jacobians(blocks, state, domain)
    lengths_b = jnp.linalg.norm(by_b, axis=0)
    lengths_b = jnp.where(lengths_b > 0, lengths_b, 1.0)
    q, r = jnp.linalg.qr(by_b / lengths_b)
    residual_b, overlap = q.T @ residual, q.T @ by_network
    columns = by_network - q @ overlap
    lengths = jnp.linalg.norm(columns, axis=0)
    lengths = jnp.maximum(lengths, LENGTH_FLOOR * jnp.sqrt(jnp.mean(lengths**2)))
    lengths = jnp.where(lengths > 0, lengths, 1.0)
    scaled = columns / lengths
    in_residual_space = scaled.shape[0] < scaled.shape[1]
    normal = lower_gram(scaled if in_residual_space else scaled.T)
    free = residual - q @ residual_b
    return _System(scaled, free, normal, lengths, r, lengths_b, residual_b, overlap)


def _moved(
    state: State, step: Float[Array, " parameters"], step_b: Float[Array, " terms"]
) -> State:
    moving, fixed = eqx.partition(state.parameters, trainable(state.parameters))
    flat, unravel = ravel_pytree(network_only(moving))
    moved = eqx.tree_at(lambda p: p.b, unravel(flat - step), moving.b)
    unknowns = state.unknowns
    num_terms, num_fields = unknowns.b.shape
    b = unknowns.b - step_b[: num_terms * num_fields].reshape(num_fields, num_terms).T
    rest = step_b[num_terms * num_fields :]
    values = {name: value - rest[i] for i, (name, value) in enumerate(unknowns.parameters.items())}
    return State(eqx.combine(moved, fixed), Unknowns(b, values))


# ---- Levenberg-Marquardt on a network beside the polynomial, which is not damped ----


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
