"""Levenberg-Marquardt on a network beside the polynomial, which is not damped.

At each step the columns of b (and of the equation's unknown parameters) are eliminated by a QR
factorization of their part of the Jacobian; the network's parameters are damped after scaling, as
in `pann.training.gauss_newton`. The state with the smallest residual at fresh points is kept.
"""

import dataclasses
import functools
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float
from threadpoolctl import threadpool_limits

from pann.checkpoints import NOWHERE, Checkpoint, Saved, packed, unpacked
from pann.domain import Box
from pann.model import Parameters, trainable
from pann.pde.blocks import Block, Columns
from pann.pde.chunked_block import ChunkedBlock
from pann.pde.evaluation import network_channels
from pann.pde.newton import Blocks, Unknowns, columns_by_b
from pann.training.gauss_newton import LENGTH_FLOOR, MAX_TRIES, network_only


@dataclasses.dataclass(frozen=True)
class LevenbergOutcome:
    """The residual's norm at the training and at fresh points after every step, and the reason."""

    training: list[float]
    fresh: list[float]
    reason: str


class _State(eqx.Module):
    parameters: Parameters
    unknowns: Unknowns


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
    state = best = _State(parameters, unknowns)
    done, saved = checkpoint.done(), checkpoint.under_way()
    if done is not None:
        best = unpacked("best", done.arrays, best)
        return best.parameters, best.unknowns, _restored_outcome(done)
    if saved is not None:
        state, best = (unpacked(name, saved.arrays, state) for name in ("state", "best"))
        training, at_fresh, _ = dataclasses.astuple(_restored_outcome(saved))
        damping, lowered = float(saved.arrays["damping"]), int(saved.notes["lowered"])
        value, best_fresh = training[-1], float(saved.arrays["best_fresh"])
    else:
        value = float(_norm(blocks, state, domain))
        best_fresh = float(_norm(fresh, state, domain))
        training, at_fresh, lowered = [value], [best_fresh], 0
    reason = "all steps done"
    with threadpool_limits(1):
        for step in range(len(training) - 1, iterations):
            system = _prepare(blocks, state, domain)
            accepted = False
            for tries in range(MAX_TRIES):
                share = jnp.asarray(0.5 ** max(0, tries - MAX_TRIES // 2))
                proposal = _propose(state, system, jnp.asarray(damping), share)
                new = float(_norm(blocks, proposal, domain))
                accepted = new < value
                damping = damping / 3 if accepted else damping * 4
                if accepted:
                    break
            if not accepted:
                reason = "no step lowers the residual any more"
                break
            state, value = proposal, new
            now = float(_norm(fresh, state, domain))
            training.append(value)
            at_fresh.append(now)
            report(step + 1, now)
            if now < (1 - 1e-4) * best_fresh:
                best, best_fresh, lowered = state, now, step
            if step - lowered >= patience:
                reason = "the residual at fresh points stopped falling"
                break
            numbers = {"damping": np.asarray(damping), "best_fresh": np.asarray(best_fresh)}
            outcome = LevenbergOutcome([*training], [*at_fresh], "")
            trees = {"state": state, "best": best}
            checkpoint.keep(functools.partial(_saved, outcome, trees, numbers, lowered))
    outcome = LevenbergOutcome(training, at_fresh, reason)
    checkpoint.finish(functools.partial(_saved, outcome, {"best": best}, {}, lowered))
    return best.parameters, best.unknowns, outcome


def _saved(
    outcome: LevenbergOutcome,
    trees: dict[str, _State],
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


def block_channels(
    block: Block, parameters: Parameters, domain: Box
) -> Float[Array, "orders points fields"]:
    """The network's channels at the points of one block."""
    channels = network_channels(parameters, block.x, block.orders, domain)
    if block.x_minus is None:
        return channels
    return block.between(
        channels, network_channels(parameters, block.x_minus, block.orders, domain)
    )


@eqx.filter_jit
def _norm(blocks: Blocks, state: _State, domain: Box) -> Float[Array, ""]:
    def square(block: Block) -> Float[Array, ""]:
        channels = block.polynomial_channels(state.unknowns.b)
        channels = channels + block_channels(block, state.parameters, domain)
        return jnp.sum(block.residual(channels, state.unknowns.parameters) ** 2)

    return jnp.sqrt(sum((block.total(square) for block in blocks), jnp.zeros(())))


@eqx.filter_jit
def _prepare(blocks: Blocks, state: _State, domain: Box) -> tuple[Array, ...]:
    """Normal matrix and gradient of the network's parameters, and what gives the step in b."""

    def of_block(block: Block, state: _State) -> Columns:
        own = block_channels(block, state.parameters, domain)
        by_network = _network_jacobian(block, own, state, domain)
        return *columns_by_b(block, (state.unknowns, own)), by_network

    found = zip(*(block.columns(of_block, state) for block in blocks), strict=True)
    residual, by_b, by_network = (jnp.concatenate(each) for each in found)
    residual = residual[:, 0]
    lengths_b = jnp.linalg.norm(by_b, axis=0)
    lengths_b = jnp.where(lengths_b > 0, lengths_b, 1.0)
    q, r = jnp.linalg.qr(by_b / lengths_b)
    project = lambda array: array - q @ (q.T @ array)
    rest, columns = project(residual), project(by_network)
    lengths = jnp.linalg.norm(columns, axis=0)
    lengths = jnp.maximum(lengths, LENGTH_FLOOR * jnp.sqrt(jnp.mean(lengths**2)))
    lengths = jnp.where(lengths > 0, lengths, 1.0)
    scaled = columns / lengths
    return (
        scaled.T @ scaled,
        scaled.T @ rest,
        lengths,
        r,
        lengths_b,
        q.T @ residual,
        q.T @ by_network,
    )


@eqx.filter_jit
def _propose(
    state: _State, system: tuple[Array, ...], damping: Float[Array, ""], share: Float[Array, ""]
) -> _State:
    """A share of the damped step, all of it but where more damping, which spares b, is no help."""
    normal, gradient, lengths, r, lengths_b, right, overlap = system
    floor = 10 * jnp.finfo(normal.dtype).eps
    damped = normal + (damping + floor) * jnp.eye(len(gradient), dtype=normal.dtype)
    step = jax.scipy.linalg.cho_solve(jax.scipy.linalg.cho_factor(damped), gradient) / lengths
    moving, fixed = eqx.partition(state.parameters, trainable(state.parameters))
    flat, unravel = ravel_pytree(network_only(moving))
    moved = eqx.tree_at(lambda p: p.b, unravel(flat - share * step), moving.b)
    linear = share * jax.scipy.linalg.solve_triangular(r, right - overlap @ step) / lengths_b
    unknowns = state.unknowns
    num_terms, num_fields = unknowns.b.shape
    b = unknowns.b - linear[: num_terms * num_fields].reshape(num_fields, num_terms).T
    rest = linear[num_terms * num_fields :]
    values = {name: value - rest[i] for i, (name, value) in enumerate(unknowns.parameters.items())}
    return _State(eqx.combine(moved, fixed), Unknowns(b, values))


def _network_jacobian(
    block: Block, channels: Array, state: _State, domain: Box
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


def residual_sizes(block: Block | ChunkedBlock, unknowns: Unknowns) -> Float[np.ndarray, " points"]:
    """The size of the polynomial's residual at each point of a block."""

    def sizes(part: Block) -> Float[Array, " points"]:
        residual = part.residual(part.polynomial_channels(unknowns.b), unknowns.parameters)
        return jnp.linalg.norm(residual, axis=1)

    return np.asarray(block.at_points(sizes))
