"""Gauss-Newton on b, and on the unknown parameters of the equation: one step if all is linear.

Each step solves the linearized collocation system by QR after scaling its columns to unit length,
and is halved until the sum of squares falls. A full step is followed by a correction with the same
factor R, from the residual that it leaves: what rounding left of it, if all is linear.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg
from jaxtyping import Array, Bool, Float, Int

from pann.io.checkpoint import NOWHERE, Checkpoint, Saved, packed, unpacked
from pann.pde.collocation import Block, ChunkedBlock, Columns
from pann.runtime.compile import for_few_runs

Blocks = tuple[Block | ChunkedBlock, ...]

MAX_HALVINGS = 12
INVERSE_ITERATIONS = 4
# Changes of the rows are rounding up to so many units in the last place of all columns together.
FREE = 10.0
# What a function has besides some of its terms, in mean square, if they are all of it.
NEXT_TO_NOTHING = 1e-6
# A correction of this size, relative to the unknowns, is rounding: the work ends if it lowers the
# sum no more. A larger one may be wrong itself, where columns nearly depend on one another.
SMALL = 1e-12


class Unknowns(eqx.Module):
    """What the polynomial half and the equation leave open."""

    b: Float[Array, "terms fields"]
    parameters: dict[str, Float[Array, ""]]


@dataclasses.dataclass(frozen=True, eq=False)
class NewtonOutcome:
    """The sum of squares at every step, why there were no more, and what the rows hardly see."""

    sums: list[float]
    reason: str
    weakest: "Weakest"


@dataclasses.dataclass(frozen=True, eq=False)
class Weakest:
    """The function of unit norm that changes the rows least, and by how much.

    The distance from the solution is at most that of the rows from zero over `stability`. A
    direction that changes them by no more than rounding does is free. If a free one consists of
    constants, which stand for a choice and no error, `stability` is that of the other functions.
    """

    direction: Float[np.ndarray, " columns"]
    stability: float
    is_free: bool


def newton(
    blocks: Blocks,
    unknowns: Unknowns,
    background: tuple[Array, ...] | None = None,
    *,
    max_steps: int = 40,
    tolerance: float = 1e-13,
    is_rung: bool = False,
    norms: Float[np.ndarray, " columns"] | None = None,
    constants: Bool[np.ndarray, " columns"] | None = None,
    report: Callable[[int, float], None] = lambda step, value: None,
    checkpoint: Checkpoint = NOWHERE,
) -> tuple[Unknowns, NewtonOutcome]:
    """Steps until the residual or the step is at round-off; what is done before is not repeated.

    `background` adds fixed channels to each block, those of a network held as it is. A rung of a
    ladder, of which the next has another size, is compiled in less time. `norms` are those of the
    functions that the columns stand for, 1 if left out, and `constants` says which are constant.
    """
    full_step = _step_once if is_rung else _step_often
    done = checkpoint.done()
    if done is not None:
        weakest = Weakest(done.arrays["weakest"], done.notes["stability"], done.notes["is_free"])
        outcome = NewtonOutcome(done.arrays["sums"].tolist(), done.notes["reason"], weakest)
        return unpacked("unknowns", done.arrays, unknowns), outcome
    sums: list[float] = []
    reason = "all steps done"
    for count in range(max_steps):
        full = full_step(blocks, unknowns, background)
        before, new, size, is_last = np.asarray(full.figures).tolist()
        sums = sums or [before]
        value, share, moved = sums[-1], 1.0, full.moved
        for _ in range(MAX_HALVINGS - 1):
            if new < value or new == 0:
                break
            share /= 2
            moved = _moved(unknowns, full.step, share)
            new = float(_sum_of_squares(blocks, moved, background))
        if not (new < value or new == 0):
            reason = "no step lowers the residual any more"
            break
        unknowns = moved
        sums.append(new)
        report(count + 1, new)
        if size <= tolerance and (count > 0 or not unknowns.parameters):
            reason = "the last step is at round-off"
            break
        # From zero the first step does not see parameters that multiply the fields.
        is_last = is_last and (count > 0 or not unknowns.parameters)
        no_longer_falls = value - new <= 1e-3 * value or is_last
        if no_longer_falls and share == 1.0:
            reason = "the residual no longer falls"
            break
    weakest = weakest_direction(full.factor, norms, constants)
    arrays = {"sums": np.asarray(sums), "weakest": weakest.direction}
    notes = {"reason": reason, "stability": weakest.stability, "is_free": weakest.is_free}
    checkpoint.finish(lambda: Saved(arrays | packed("unknowns", unknowns), notes))
    return unknowns, NewtonOutcome(sums, reason, weakest)


def channels_of(
    block: Block, b: Float[Array, "terms fields"], background: Array | None
) -> Float[Array, "orders points fields"]:
    channels = block.polynomial_channels(b)
    return channels if background is None else channels + background


def residual_and_jacobian(
    blocks: Blocks, unknowns: Unknowns, background: tuple[Array, ...] | None
) -> tuple[Float[Array, " rows"], Float[Array, "rows columns"]]:
    """All rows, with columns for b (field by field) and for the parameters in their order.

    Of a block in chunks there are few rows, with the same inner products of all columns.
    """
    found = [
        block.columns(columns_by_b, (unknowns, own))
        for block, own in _with_background(blocks, background)
    ]
    residuals, jacobians = zip(*found, strict=True)
    return jnp.concatenate(residuals)[:, 0], jnp.concatenate(jacobians)


def columns_by_b(block: Block, given: tuple[Unknowns, Array | None]) -> Columns:
    """The residual as one column, and its Jacobian."""
    unknowns, background = given
    channels = channels_of(block, unknowns.b, background)
    residual, slopes = block.linearize(channels, unknowns.parameters)
    columns = [block.polynomial_jacobian(slopes)]
    if unknowns.parameters:
        by_parameter = jax.jacfwd(block.residual, 1)(channels, unknowns.parameters)
        columns += [by_parameter[name].reshape(-1, 1) for name in unknowns.parameters]
    return residual.reshape(-1, 1), jnp.concatenate(columns, axis=1)


class Factor(NamedTuple):
    """R of the columns divided by `scale`, in an order that has those that depend on others last.

    These are left out: `is_left_out` says which, in that order. `whole` is R of all columns in
    their own order.
    """

    r: Float[Array, "columns columns"]
    scale: Float[Array, " columns"]
    order: Int[Array, " columns"]
    is_left_out: Bool[Array, " columns"]
    whole: Float[Array, "columns columns"]

    def corrected(self, gradient: Float[Array, " columns"]) -> Float[Array, " columns"]:
        """The least-squares solution by R^T R, as good as the residual is small (Bjorck, 1987)."""
        scaled = jnp.where(self.is_left_out, 0.0, (gradient / self.scale)[self.order])
        half = jax.scipy.linalg.solve_triangular(self.r, scaled, trans=1)
        return self.solved(half)

    def solved(self, projected: Float[Array, " columns"]) -> Float[Array, " columns"]:
        """The unknowns with R times them, in their order, as given; zero where left out."""
        right = jnp.where(self.is_left_out, 0.0, projected)
        ordered = jax.scipy.linalg.solve_triangular(self.r, right)
        return jnp.zeros_like(ordered).at[self.order].set(ordered) / self.scale


def least_squares(
    matrix: Float[Array, "rows columns"], right: Float[Array, " rows"]
) -> tuple[Float[Array, " columns"], Factor]:
    """By QR of the columns scaled to unit length; columns that depend on others get zero."""
    # Transposed, the matrix lies in memory as LAPACK wants it, which saves two copies.
    columns = matrix.T
    lengths = jnp.linalg.norm(columns, axis=1)
    scale = jnp.where(lengths > 0, lengths, 1.0)
    # The last column of R is Q^T b: Q itself, which costs as much as R, is never made.
    both = jnp.concatenate([columns / scale[:, None], right[None]]).T
    count = matrix.shape[1]
    missing = max(count + 1 - matrix.shape[0], 0)
    whole = jnp.linalg.qr(jnp.pad(both, ((0, missing), (0, 0))) if missing else both, mode="r")
    r, projected = whole[:count, :count], whole[:count, -1]
    is_small = jnp.abs(jnp.diagonal(r)) <= 1e3 * jnp.finfo(matrix.dtype).eps
    order = jnp.argsort(is_small, stable=True)
    last = is_small[order]

    def without_small() -> tuple[Array, Array]:
        # The row of a small pivot is a direction that later columns have a share in: only a second
        # factorization, without that column, gives it to them.
        kept = jnp.where(last, 0.0, r[:, order])
        again = jnp.linalg.qr(jnp.concatenate([kept, projected[:, None]], axis=1), mode="r")
        return again[:, :count], again[:, -1]

    kept, projected = jax.lax.cond(jnp.any(is_small), without_small, lambda: (r, projected))
    kept = jnp.where(last[:, None] | last[None, :], jnp.eye(count, dtype=r.dtype), kept)
    factor = Factor(kept, scale, order, last, r)
    return factor.solved(projected), factor


def weakest_direction(
    factor: Factor,
    norms: Float[np.ndarray, " columns"] | None = None,
    constants: Bool[np.ndarray, " columns"] | None = None,
) -> Weakest:
    """By inverse iteration with R; `norms` are those of the columns' functions, orthogonal ones."""
    scale = np.asarray(factor.scale) / (1.0 if norms is None else norms)
    r = np.array(factor.whole) * scale
    found = _weakest(r)
    if constants is None or not found.is_free:
        return found
    if np.sum(found.direction[~constants] ** 2) > NEXT_TO_NOTHING:
        return found
    rest = _weakest(np.asarray(np.linalg.qr(r[:, ~constants], mode="r")))
    return dataclasses.replace(found, stability=rest.stability)


def _weakest(r: Float[np.ndarray, "columns columns"]) -> Weakest:
    # Rounding of each column; for derivatives of high order the columns differ by many powers.
    lengths = np.linalg.norm(r, axis=0)
    rounding = np.finfo(r.dtype).eps * np.maximum(
        lengths, np.min(lengths[lengths > 0], initial=1.0)
    )
    # A pivot of zero stands for a direction that is free: any small number finds it.
    pivots = np.einsum("ii->i", r)
    small = np.abs(pivots) < rounding
    pivots[small] = rounding[small]
    direction = np.random.default_rng(0).normal(size=len(r)).astype(r.dtype)
    for _ in range(INVERSE_ITERATIONS):
        half = scipy.linalg.solve_triangular(r, direction, trans=1, check_finite=False)
        direction = scipy.linalg.solve_triangular(r, half, check_finite=False)
        direction /= np.linalg.norm(direction)
    pivots[small] = 0.0
    stability = float(np.linalg.norm(r @ direction))
    return Weakest(direction, stability, stability <= FREE * float(rounding @ np.abs(direction)))


class FullStep(NamedTuple):
    """A step, the unknowns after it and its correction, and four figures, fetched at once.

    These are the sums of squares before and there; the size of the correction, relative to the
    unknowns, or of the step where that did not lower the sum; and 1 if the correction is small and
    lowers the sum by next to nothing, so that no step follows.
    """

    step: Unknowns
    moved: Unknowns
    figures: Float[Array, "4"]
    factor: Factor


def _full_step(
    blocks: Blocks, unknowns: Unknowns, background: tuple[Array, ...] | None
) -> FullStep:
    residual, jacobian = residual_and_jacobian(blocks, unknowns, background)
    flat, factor = least_squares(jacobian, residual)
    step = _in_parts(flat, unknowns)
    once = _less(unknowns, step)
    gradient = _gradient(blocks, unknowns, once, background)
    correction = _in_parts(factor.corrected(gradient), unknowns)
    twice = _less(once, correction)
    first, second = (_sum_of_squares(blocks, each, background) for each in (once, twice))
    is_better = second < first
    small = _size(correction, twice)
    is_last = (small <= SMALL) & (first - second <= 1e-3 * first)
    value = jnp.where(is_better, second, first)
    size = jnp.where(is_better, small, _size(step, once))
    return FullStep(
        step=step,
        moved=jax.tree.map(lambda a, b: jnp.where(is_better, a, b), twice, once),
        figures=jnp.stack([jnp.sum(residual**2), value, size, is_last.astype(value.dtype)]),
        factor=factor,
    )


_step_often = jax.jit(_full_step)
_step_once = for_few_runs(_full_step)


def _in_parts(flat: Float[Array, " columns"], like: Unknowns) -> Unknowns:
    num_terms, num_fields = like.b.shape
    b = flat[: num_terms * num_fields].reshape(num_fields, num_terms).T
    rest = flat[num_terms * num_fields :]
    return Unknowns(b, {name: rest[i] for i, name in enumerate(like.parameters)})


def _size(step: Unknowns, moved: Unknowns) -> Float[Array, ""]:
    """The largest step, of b or of a parameter, each relative to its size."""
    both = [(step.b, moved.b)]
    both += [(value, moved.parameters[name]) for name, value in step.parameters.items()]
    relative = [jnp.linalg.norm(a) / jnp.maximum(jnp.linalg.norm(b), 1e-300) for a, b in both]
    return jnp.max(jnp.stack(relative))


def _less(unknowns: Unknowns, step: Unknowns, share: float = 1.0) -> Unknowns:
    return jax.tree.map(lambda u, s: u - share * s, unknowns, step)


@eqx.filter_jit
def _moved(unknowns: Unknowns, step: Unknowns, share: float) -> Unknowns:
    return _less(unknowns, step, share)


@eqx.filter_jit
def _sum_of_squares(
    blocks: Blocks, unknowns: Unknowns, background: tuple[Array, ...] | None
) -> Float[Array, ""]:

    def of_part(part: Block, own: Array | None) -> Float[Array, ""]:
        return jnp.sum(_residual(part, unknowns, own) ** 2)

    squares = [
        block.total(functools.partial(of_part, own=own))
        for block, own in _with_background(blocks, background)
    ]
    return sum(squares, jnp.zeros((), unknowns.b.dtype))


def _gradient(
    blocks: Blocks, unknowns: Unknowns, moved: Unknowns, background: tuple[Array, ...] | None
) -> Float[Array, " columns"]:
    """J^T r with the Jacobian at the unknowns, and the residual after a step."""

    def of_part(part: Block, own: Array | None) -> Float[Array, " columns"]:
        _, jacobian = columns_by_b(part, (unknowns, own))
        return _residual(part, moved, own).ravel() @ jacobian

    found = [
        block.total(functools.partial(of_part, own=own))
        for block, own in _with_background(blocks, background)
    ]
    return sum(found[1:], found[0])


def _residual(
    block: Block, unknowns: Unknowns, background: Array | None
) -> Float[Array, "points residuals"]:
    channels = channels_of(block, unknowns.b, background)
    return block.residual(channels, unknowns.parameters)


def _with_background(
    blocks: Blocks, background: tuple[Array, ...] | None
) -> Iterable[tuple[Block | ChunkedBlock, Array | None]]:
    own = (None,) * len(blocks) if background is None else background
    return zip(blocks, own, strict=True)


def start(
    num_terms: int, num_fields: int, parameters: Mapping[str, float], precision: str
) -> Unknowns:
    """Zero b, and the first guesses of the parameters."""
    return Unknowns(
        jax.device_put(np.zeros((num_terms, num_fields), precision)),
        {name: jax.device_put(np.asarray(value, precision)) for name, value in parameters.items()},
    )
