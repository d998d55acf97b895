"""Elements that resolve what is given: sources, coefficients, initial states, boundary values.

What is given is known at any point for next to nothing, so that peaks and fronts in it are found by
many samples before anything is solved.
"""

import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from pann.basis import ElementBasis, Legendre, Tree
from pann.domain import Box
from pann.numerics.quadrature import gauss_legendre
from pann.pde.conditions import Condition, Dirichlet, Initial, Neumann, Robin, values_anywhere
from pann.pde.pointwise import held_anyhow, held_at_zero, residuals_at
from pann.pde.problem import Problem
from pann.solvers.elements.curves import Curves
from pann.solvers.elements.refine import Cut, Cuts, cut

# Samples of the equation, by dimension, and on each face.
NUM_SAMPLES = {1: 2**16, 2: 2**19, 3: 2**19}
NUM_ON_FACES = 2**15
# An element is cut where interpolation misses a sample by more than this, relative to the largest.
MISSED = 0.02
# And for the state in which the last window of time ended.
MISSED_BEFORE = 1e-3
# Features are points and short lines; whole curves are left to the rounds, which know what counts.
MOST_AT_ONCE, MOST_LEVELS = 12, 24
# Samples looked at in each element: the largest, and so many others.
NUM_LARGEST, NUM_OTHERS = 64, 256

Values = Callable[[Float[np.ndarray, "points d"]], Float[np.ndarray, " points"]]


def resolving_given(
    problem: Problem,
    domain: Box,
    tree: Tree,
    before: tuple[ElementBasis, np.ndarray] | None,
    curves: Curves,
) -> Tree:
    """The elements, cut where they do not resolve what is given.

    In a window of time that is also the state in which the one `before` ended. Where the equation
    jumps on curves, elements have sides.
    """
    for source in _sources(problem):
        tree = _resolving(tree, source, _samples(domain), None, curves=curves)
    if before is not None:
        basis, b = before
        index = domain.names.index(str(domain.time))
        points = _samples(domain, NUM_ON_FACES)
        points[:, index] = domain.lower[index]
        for field in b.T:
            values = functools.partial(basis.evaluate, coefficients=field)
            tree = _resolving(tree, values, points, index, MISSED_BEFORE, curves)
    for condition in problem.conditions:
        if isinstance(condition, Initial) and before is not None:
            continue
        for value, axis, side in _on_faces(condition, domain):
            index = domain.names.index(axis)
            values = functools.partial(values_anywhere, value, problem.domain)
            points = _samples(domain, NUM_ON_FACES)
            points[:, index] = (domain.lower if side == "lower" else domain.upper)[index]
            tree = _resolving(tree, values, points, index, curves=curves)
    return tree


def _on_faces(condition: Condition, domain: Box) -> Iterator[tuple[Any, str, str]]:
    """A function that a condition gives, with the axis and the side of each face where it holds."""
    if isinstance(condition, Initial):
        if callable(condition.value):
            yield condition.value, str(domain.time), "lower"
    elif isinstance(condition, Dirichlet | Neumann | Robin) and callable(condition.value):
        for axis, side in condition.faces.sides:
            yield condition.value, axis, side


def _samples(domain: Box, count: int | None = None) -> Float[np.ndarray, "points d"]:
    count = NUM_SAMPLES[domain.dimension] if count is None else count
    return np.random.default_rng(7).uniform(domain.lower, domain.upper, (count, domain.dimension))


def _sources(problem: Problem) -> Iterator[Values]:
    """The residuals of zero, and what other derivatives add to them, which shows coefficients."""
    zero, other = held_at_zero(problem), held_anyhow(problem)

    def values(points: np.ndarray, number: int, has_coefficients: bool) -> np.ndarray:
        found = residuals_at(problem, points, zero)[:, number]
        if has_coefficients:
            found = residuals_at(problem, points, other)[:, number] - found
        return np.nan_to_num(found, posinf=0.0, neginf=0.0)

    for has_coefficients in (False, True):
        for number in range(problem.asked.num_residuals):
            yield functools.partial(values, number=number, has_coefficients=has_coefficients)


def _resolving(
    tree: Tree,
    values: Values,
    points: Float[np.ndarray, "points d"],
    on: int | None,
    tolerance: float = MISSED,
    curves: Curves | None = None,
) -> Tree:
    """The elements, cut until their polynomials interpolate samples; `on` is the axis of a face.

    Those that one of the curves crosses are left as they are.
    """
    sampled = values(points)
    largest = float(np.max(np.abs(sampled), initial=0.0))
    varies = float(np.max(sampled, initial=0.0) - np.min(sampled, initial=0.0))
    if not np.isfinite(largest) or varies <= 1e-9 * max(largest, 1e-300):
        return tree
    axes = [axis for axis in range(tree.dimension) if axis != on]
    elements = tree.locate(points)
    waiting = {int(n): np.flatnonzero(elements == n) for n in np.unique(elements)}
    for _ in range(MOST_LEVELS):
        cuts: Cuts = {}
        crossed = set() if curves is None else curves.crossed(tree)
        for element, rows in waiting.items():
            if element in crossed:
                continue
            own = _some(rows, sampled)
            missed = _missed(tree, element, values, points[own], sampled[own], on)
            if missed > tolerance * largest:
                corner = tree.corners[element]
                cuts[element] = [Cut(axis, float(np.mean(corner[:, axis]))) for axis in axes]
        if not cuts or len(cuts) > MOST_AT_ONCE:
            break
        tree = cut(tree, cuts)
        inside = np.concatenate([waiting[element] for element in cuts])
        elements = tree.locate(points[inside])
        waiting = {int(n): inside[elements == n] for n in np.unique(elements)}
    return tree


def _some(rows: Int[np.ndarray, " rows"], sampled: Float[np.ndarray, " points"]) -> np.ndarray:
    """Some of the samples, those of the largest values among them."""
    if len(rows) <= NUM_LARGEST + NUM_OTHERS:
        return rows
    top = np.argpartition(-np.abs(sampled[rows]), NUM_LARGEST)[:NUM_LARGEST]
    return np.concatenate([rows[top], rows[:NUM_OTHERS]])


def _missed(
    tree: Tree,
    element: int,
    values: Values,
    points: Float[np.ndarray, "points d"],
    sampled: Float[np.ndarray, " points"],
    on: int | None,
) -> float:
    """By how much the polynomial through the Gauss points of an element misses samples."""
    low, high = tree.corners[element]
    nodes, factors = [], []
    for axis, degree in enumerate(tree.element_degrees[element]):
        if axis == on:
            nodes.append(points[:1, axis])
            continue
        size = int(degree) + 1
        reference, weights = gauss_legendre(size)
        nodes.append(low[axis] + 0.5 * (reference + 1.0) * (high[axis] - low[axis]))
        table = Legendre().table(reference, size) * (2.0 * np.arange(size) + 1.0)
        at = 2.0 * (points[:, axis] - low[axis]) / (high[axis] - low[axis]) - 1.0
        factors.append(Legendre().table(at, size) @ (weights[:, None] * table).T)
    grid = np.stack(np.meshgrid(*nodes, indexing="ij"), axis=-1).reshape(-1, tree.dimension)
    found = values(grid).reshape([factor.shape[1] for factor in factors])
    if not factors:
        return 0.0
    result = np.tensordot(factors[0], found, axes=(1, 0))
    for factor in factors[1:]:
        result = np.einsum("pk,pk...->p...", factor, result)
    return float(np.max(np.abs(result - sampled)))
