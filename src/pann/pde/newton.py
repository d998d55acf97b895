"""Gauss-Newton on b, and on the unknown parameters of the equation: one step if all is linear.

Each step solves the linearized collocation system by QR after scaling its columns to unit length,
and is halved until the sum of squares falls. From the second step on the same solve refines what
rounding left of the first.
"""

import dataclasses
from collections.abc import Callable, Mapping

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from pann.checkpoints import NOWHERE, Checkpoint, Saved, packed, unpacked
from pann.pde.blocks import Block

MAX_HALVINGS = 12


class Unknowns(eqx.Module):
    """What the polynomial half and the equation leave open."""

    b: Float[Array, "terms fields"]
    parameters: dict[str, Float[Array, ""]]


@dataclasses.dataclass(frozen=True)
class NewtonOutcome:
    """The sum of squares at every step, and why there were no more."""

    sums: list[float]
    reason: str


def newton(
    blocks: tuple[Block, ...],
    unknowns: Unknowns,
    background: tuple[Array, ...] | None = None,
    *,
    max_steps: int = 40,
    tolerance: float = 1e-13,
    report: Callable[[int, float], None] = lambda step, value: None,
    checkpoint: Checkpoint = NOWHERE,
) -> tuple[Unknowns, NewtonOutcome]:
    """Steps until the residual or the step is at round-off; what is done before is not repeated.

    `background` adds fixed channels to each block, those of a network held as it is.
    """
    done = checkpoint.done()
    if done is not None:
        sums = done.arrays["sums"].tolist()
        return unpacked("unknowns", done.arrays, unknowns), NewtonOutcome(
            sums, done.notes["reason"]
        )
    value = float(_moved(blocks, unknowns, unknowns, np.zeros(()), background)[1])
    sums, reason = [value], "all steps done"
    for count in range(max_steps):
        step, size = _step(blocks, unknowns, background)
        share, moved = 1.0, unknowns
        for _ in range(MAX_HALVINGS):
            moved, total = _moved(blocks, unknowns, step, np.asarray(share), background)
            new = float(total)
            if new < value or new == 0:
                break
            share /= 2
        else:
            reason = "converged: no step lowers the residual any more"
            break
        unknowns, previous, value = moved, value, new
        sums.append(value)
        report(count + 1, value)
        if float(size) <= tolerance:
            reason = "converged: the step is at round-off"
            break
        if previous - value <= 1e-3 * previous and share == 1.0:
            reason = "converged: the residual no longer falls"
            break
    arrays = {"sums": np.asarray(sums)}
    checkpoint.finish(lambda: Saved(arrays | packed("unknowns", unknowns), {"reason": reason}))
    return unknowns, NewtonOutcome(sums, reason)


def channels_of(
    block: Block, b: Float[Array, "terms fields"], background: Array | None
) -> Float[Array, "orders points fields"]:
    channels = block.polynomial_channels(b)
    return channels if background is None else channels + background


def residual_and_jacobian(
    blocks: tuple[Block, ...], unknowns: Unknowns, background: tuple[Array, ...] | None
) -> tuple[Float[Array, " rows"], Float[Array, "rows columns"]]:
    """All rows, with columns for b (field by field) and for the parameters in their order."""
    residuals, jacobians = [], []
    for number, block in enumerate(blocks):
        own = None if background is None else background[number]
        channels = channels_of(block, unknowns.b, own)
        residual, slopes = block.linearize(channels, unknowns.parameters)
        columns = [block.polynomial_jacobian(slopes)]
        if unknowns.parameters:
            by_parameter = jax.jacfwd(block.residual, 1)(channels, unknowns.parameters)
            columns += [by_parameter[name].reshape(-1, 1) for name in unknowns.parameters]
        residuals.append(residual.ravel())
        jacobians.append(jnp.concatenate(columns, axis=1))
    return jnp.concatenate(residuals), jnp.concatenate(jacobians)


def least_squares(
    matrix: Float[Array, "rows columns"], right: Float[Array, " rows"]
) -> Float[Array, " columns"]:
    """By QR of the columns scaled to unit length; columns that depend on others get zero."""
    lengths = jnp.linalg.norm(matrix, axis=0)
    scale = jnp.where(lengths > 0, lengths, 1.0)
    # The last column of R is Q^T b: Q itself, which costs as much as R, is never made.
    whole = jnp.linalg.qr(jnp.column_stack([matrix / scale, right]), mode="r")
    count = matrix.shape[1]
    r, projected = whole[:count, :count], whole[:count, -1]
    diagonal = jnp.abs(jnp.diagonal(r))
    small = diagonal <= 1e3 * jnp.finfo(matrix.dtype).eps
    r = jnp.where(small[:, None] | small[None, :], jnp.eye(count, dtype=r.dtype), r)
    return jax.scipy.linalg.solve_triangular(r, jnp.where(small, 0.0, projected)) / scale


@eqx.filter_jit
def _step(
    blocks: tuple[Block, ...], unknowns: Unknowns, background: tuple[Array, ...] | None
) -> tuple[Unknowns, Float[Array, ""]]:
    """The full step, and its size relative to the unknowns."""
    residual, jacobian = residual_and_jacobian(blocks, unknowns, background)
    flat = least_squares(jacobian, residual)
    num_terms, num_fields = unknowns.b.shape
    b = flat[: num_terms * num_fields].reshape(num_fields, num_terms).T
    rest = flat[num_terms * num_fields :]
    step = Unknowns(b, {name: rest[i] for i, name in enumerate(unknowns.parameters)})
    size = jnp.linalg.norm(b) / jnp.maximum(jnp.linalg.norm(unknowns.b - b), 1e-300)
    return step, jnp.maximum(size, jnp.max(jnp.abs(rest), initial=0.0))


@eqx.filter_jit
def _moved(
    blocks: tuple[Block, ...],
    unknowns: Unknowns,
    step: Unknowns,
    share: Float[np.ndarray | Array, ""],
    background: tuple[Array, ...] | None,
) -> tuple[Unknowns, Float[Array, ""]]:
    """The unknowns after a share of the step, and the sum of squares there."""
    moved = jax.tree.map(lambda u, s: u - (share * s).astype(u.dtype), unknowns, step)
    total = jnp.zeros((), moved.b.dtype)
    for number, block in enumerate(blocks):
        own = None if background is None else background[number]
        channels = channels_of(block, moved.b, own)
        total = total + jnp.sum(block.residual(channels, moved.parameters) ** 2)
    return moved, total


def start(
    num_terms: int, num_fields: int, parameters: Mapping[str, float], precision: str
) -> Unknowns:
    """Zero b, and the first guesses of the parameters."""
    return Unknowns(
        jax.device_put(np.zeros((num_terms, num_fields), precision)),
        {name: jax.device_put(np.asarray(value, precision)) for name, value in parameters.items()},
    )
