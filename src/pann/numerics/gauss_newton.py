"""Gauss-Newton with steps halved until the sum of squares falls, and one correction per step.

A full step solves the linearized problem by QR. The correction uses the same factor R with the
residual that the step leaves: it removes the rounding of the step if the problem is linear.
"""

import abc
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from pann.numerics.least_squares import Triangle, least_squares

MAX_HALVINGS = 12
# A correction of this size, relative to the unknowns, is rounding: the work ends if it lowers the
# sum no more. A larger one may be wrong itself, where columns nearly depend on one another.
SMALL = 1e-12
# A fall of the sum of squares, relative to it, that is none.
NO_FALL = 1e-3

Point = TypeVar("Point")


class Problem(eqx.Module):
    """A nonlinear least-squares problem in a tree of unknowns."""

    @abc.abstractmethod
    def linearize(
        self, unknowns: Any
    ) -> tuple[Float[Array, " rows"], Float[Array, "rows columns"]]:
        """The residual and its Jacobian."""

    @abc.abstractmethod
    def gradient(self, unknowns: Any, moved: Any) -> Float[Array, " columns"]:
        """J^T r with the Jacobian at the unknowns, and the residual where they moved to."""

    @abc.abstractmethod
    def sum_of_squares(self, unknowns: Any) -> Float[Array, ""]: ...

    @abc.abstractmethod
    def tree(self, columns: Float[Array, " columns"], like: Any) -> Any:
        """A vector with an entry per column as a tree like the unknowns."""


class FullStep(NamedTuple):
    """A step to subtract, the unknowns after it and its correction, and four figures.

    These are fetched at once: the sums of squares before and after; the size of the correction,
    relative to the unknowns, or of the step where the correction did not lower the sum; and 1 if
    the correction is small and lowers the sum by next to nothing, so that no step follows.
    """

    step: PyTree
    moved: PyTree
    figures: Float[Any, "4"]
    factor: Triangle


def full_step(problem: Problem, unknowns: PyTree) -> FullStep:
    """One step and its correction, for compiled programs."""
    residual, jacobian = problem.linearize(unknowns)
    columns, factor = least_squares(jacobian, residual)
    step = problem.tree(columns, unknowns)
    once = minus(unknowns, step)
    correction = problem.tree(factor.corrected(problem.gradient(unknowns, once)), unknowns)
    twice = minus(once, correction)
    first, second = problem.sum_of_squares(once), problem.sum_of_squares(twice)
    is_better = second < first
    small = relative_size(correction, twice)
    is_last = (small <= SMALL) & (first - second <= NO_FALL * first)
    value = jnp.where(is_better, second, first)
    size = jnp.where(is_better, small, relative_size(step, once))
    return FullStep(
        step=step,
        moved=jax.tree.map(lambda a, b: jnp.where(is_better, a, b), twice, once),
        figures=jnp.stack([jnp.sum(residual**2), value, size, is_last.astype(value.dtype)]),
        factor=factor,
    )


def minus(unknowns: PyTree, step: PyTree, fraction: Float[Array, ""] | float = 1.0) -> PyTree:
    return jax.tree.map(lambda u, s: u - fraction * s, unknowns, step)


def relative_size(step: PyTree, unknowns: PyTree) -> Float[Array, ""]:
    """The largest step of an array in the tree, relative to the array's size."""
    both = zip(jax.tree.leaves(step), jax.tree.leaves(unknowns), strict=True)
    relative = [jnp.linalg.norm(a) / jnp.maximum(jnp.linalg.norm(b), 1e-300) for a, b in both]
    return jnp.max(jnp.stack(relative))


class Halved(NamedTuple):
    """The last point tried, the fraction of the step to it, and whether it is lower."""

    point: Any
    fraction: float
    is_lower: bool


def halve(
    at: Callable[[float], Point], is_lower: Callable[[Point], bool], max_halvings: int
) -> Halved:
    """Take the step, or a half of it, a quarter, ..., until a point is lower."""
    for fraction in 0.5 ** np.arange(max_halvings):
        point = at(float(fraction))
        if is_lower(point):
            return Halved(point, float(fraction), True)
    return Halved(point, float(fraction), False)


class Minimum(NamedTuple):
    """The unknowns, the sum of squares at every step, why there were no more, the last factor."""

    unknowns: Any
    sums: list[float]
    reason: str
    factor: Triangle


def minimize(
    full_step: Callable[[Point], FullStep],
    shortened: Callable[[Point, PyTree, float], tuple[Point, float]],
    unknowns: Point,
    *,
    max_steps: int,
    min_steps: int,
    tolerance: float,
) -> Minimum:
    """Steps until the sum of squares, or the step, is at round-off.

    `shortened(unknowns, step, fraction)` is a point along a step, and the sum of squares there.
    """

    def lower(unknowns: Point, full: FullStep, value: float, after: float) -> Halved:
        return halve(
            lambda f: (full.moved, after) if f == 1.0 else shortened(unknowns, full.step, f),
            lambda point: point[1] < value or point[1] == 0,
            MAX_HALVINGS,
        )

    sums: list[float] = []
    reason = "all steps done"
    for count in range(1, max_steps + 1):
        full = full_step(unknowns)
        before, after, size, is_last = np.asarray(full.figures).tolist()
        sums = sums or [before]
        value = sums[-1]
        (moved, new), fraction, is_lower = lower(unknowns, full, value, after)
        if not is_lower:
            reason = "no step lowers the residual any more"
            break
        unknowns = moved
        sums.append(new)
        may_end = count >= min_steps
        if size <= tolerance and may_end:
            reason = "the last step is at round-off"
            break
        if fraction == 1.0 and (value - new <= NO_FALL * value or (is_last and may_end)):
            reason = "the residual no longer falls"
            break
    return Minimum(unknowns, sums, reason, full.factor)
