"""Gauss-Newton on b, and on the unknown parameters of the equation: one step if all is linear.

The rows of a collocation system as a least-squares problem for `pann.numerics.gauss_newton`, and
the function that these rows determine least.
"""

import abc
import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg
from jaxtyping import Array, Bool, Float

from pann.io.checkpoint import NOWHERE, Checkpoint, Saved, packed, unpacked
from pann.numerics import gauss_newton
from pann.numerics.gauss_newton import FullStep
from pann.numerics.least_squares import Triangle
from pann.pde.collocation import Block, ChunkedBlock, Columns
from pann.runtime.compile import for_few_runs

Blocks = tuple[Block | ChunkedBlock, ...]

# Steps, and the relative size at which they end.
MAX_STEPS, TOLERANCE = 40, 1e-13
INVERSE_ITERATIONS = 4
# Changes of the rows are rounding up to so many units in the last place of all columns together.
FREE = 10.0
# What a function has besides some of its terms, in mean square, if they are all of it.
NEXT_TO_NOTHING = 1e-6


class Unknowns(eqx.Module):
    """What the polynomial half and the equation leave open."""

    b: Float[Any, "terms fields"]  # of JAX or NumPy
    parameters: dict[str, Float[Any, ""]]

    @property
    def numbers(self) -> dict[str, float]:
        """The parameters, fetched."""
        return {name: float(value) for name, value in self.parameters.items()}


def start(
    num_terms: int, num_fields: int, parameters: Mapping[str, float], precision: str
) -> Unknowns:
    """Zero b, and the first guesses of the parameters."""
    return Unknowns(
        jax.device_put(np.zeros((num_terms, num_fields), precision)),
        {name: jax.device_put(np.asarray(value, precision)) for name, value in parameters.items()},
    )


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


@dataclasses.dataclass(frozen=True, eq=False)
class NewtonOutcome:
    """The sum of squares at every step, why there were no more, and what the rows hardly see."""

    sums: list[float]
    reason: str
    weakest: Weakest


class Rows(abc.ABC):
    """A least-squares problem that makes its steps by itself."""

    @abc.abstractmethod
    def full_step(self, unknowns: Unknowns) -> FullStep: ...

    @abc.abstractmethod
    def shortened(
        self, unknowns: Unknowns, step: Unknowns, fraction: float
    ) -> tuple[Unknowns, float]: ...


def newton(
    rows: Blocks | Rows,
    unknowns: Unknowns,
    *,
    is_rung: bool = False,
    norms: Float[np.ndarray, " columns"] | None = None,
    constants: Bool[np.ndarray, " columns"] | None = None,
    checkpoint: Checkpoint = NOWHERE,
) -> tuple[Unknowns, NewtonOutcome]:
    """Steps until the residual or the step is at round-off; a checkpoint that is done is read.

    With `is_rung` the next call has another size, and the program is compiled in less time. `norms`
    are those of the functions that the columns stand for, 1 if left out, and `constants` says which
    are constant.
    """
    done = checkpoint.done()
    if done is not None:
        weakest = Weakest(done.arrays["weakest"], done.notes["stability"], done.notes["is_free"])
        outcome = NewtonOutcome(done.arrays["sums"].tolist(), done.notes["reason"], weakest)
        return unpacked("unknowns", done.arrays, unknowns), outcome
    step: Callable[[Unknowns], FullStep]
    shortened: Callable[[Unknowns, Any, float], tuple[Unknowns, float]]
    if isinstance(rows, tuple):
        step = functools.partial(_full_step_once if is_rung else full_step, rows)
        shortened = functools.partial(_shortened, System(rows))
    else:
        step, shortened = rows.full_step, rows.shortened
    found = gauss_newton.minimize(
        step,
        shortened,
        unknowns,
        max_steps=MAX_STEPS,
        # From zero the first step does not see parameters that multiply the fields.
        min_steps=2 if unknowns.parameters else 1,
        tolerance=TOLERANCE,
    )
    weakest = weakest_direction(found.factor, norms, constants)
    arrays = {"sums": np.asarray(found.sums), "weakest": weakest.direction}
    notes = {"reason": found.reason, "stability": weakest.stability, "is_free": weakest.is_free}
    checkpoint.finish(lambda: Saved(arrays | packed("unknowns", found.unknowns), notes))
    return found.unknowns, NewtonOutcome(found.sums, found.reason, weakest)


# ---- The rows as a least-squares problem ----


class System(gauss_newton.Problem):
    """Blocks of rows."""

    blocks: Blocks

    def linearize(
        self, unknowns: Unknowns
    ) -> tuple[Float[Array, " rows"], Float[Array, "rows columns"]]:
        """All rows, with columns for b (field by field) and for the parameters in their order.

        A block in chunks has few rows, with the same inner products of all columns.
        """
        found = [block.columns(_columns, unknowns) for block in self.blocks]
        residuals, jacobians = zip(*found, strict=True)
        return jnp.concatenate(residuals)[:, 0], jnp.concatenate(jacobians)

    def gradient(self, unknowns: Unknowns, moved: Unknowns) -> Float[Array, " columns"]:
        def of_part(part: Block) -> Float[Array, " columns"]:
            return _residual(part, moved).ravel() @ _columns(part, unknowns)[1]

        first, *others = (block.total(of_part) for block in self.blocks)
        return sum(others, first)

    def sum_of_squares(self, unknowns: Unknowns) -> Float[Array, ""]:
        def of_part(part: Block) -> Float[Array, ""]:
            return jnp.sum(_residual(part, unknowns) ** 2)

        squares = [block.total(of_part) for block in self.blocks]
        return sum(squares, jnp.zeros((), unknowns.b.dtype))

    def tree(self, columns: Float[Array, " columns"], like: Unknowns) -> Unknowns:
        return in_parts(columns, like)


def in_parts(columns: Float[Array, " columns"], like: Unknowns) -> Unknowns:
    """A vector with an entry for each column as b and parameters."""
    num_terms, num_fields = like.b.shape
    b = columns[: num_terms * num_fields].reshape(num_fields, num_terms).T
    rest = columns[num_terms * num_fields :]
    return Unknowns(b, {name: rest[i] for i, name in enumerate(like.parameters)})


def _residual(block: Block, unknowns: Unknowns) -> Float[Array, "points residuals"]:
    return block.residual(block.polynomial_channels(unknowns.b), unknowns.parameters)


def _columns(block: Block, unknowns: Unknowns) -> Columns:
    return columns_by_b(block, block.polynomial_channels(unknowns.b), unknowns.parameters)


def columns_by_b(
    block: Block, channels: Float[Array, "orders points fields"], parameters: dict[str, Array]
) -> Columns:
    """The residual as one column, and its Jacobian in b and the parameters."""
    residual, slopes = block.linearize(channels, parameters)
    columns = [block.polynomial_jacobian(slopes)]
    if parameters:
        by_parameter = jax.jacfwd(block.residual, 1)(channels, parameters)
        columns += [by_parameter[name].reshape(-1, 1) for name in parameters]
    return residual.reshape(-1, 1), jnp.concatenate(columns, axis=1)


def _full_step(blocks: Blocks, unknowns: Unknowns) -> FullStep:
    return gauss_newton.full_step(System(blocks), unknowns)


full_step = jax.jit(_full_step)
_full_step_once = for_few_runs(_full_step)


def _shortened(
    system: System, unknowns: Unknowns, step: Unknowns, fraction: float
) -> tuple[Unknowns, float]:
    moved = gauss_newton.minus(unknowns, step, fraction)
    return moved, float(_sum_of_squares(system, moved))


_sum_of_squares = eqx.filter_jit(lambda system, unknowns: system.sum_of_squares(unknowns))


# ---- What the rows hardly see ----


def weakest_direction(
    factor: Triangle,
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
