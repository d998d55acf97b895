"""A problem with a sharp feature: how a user poses it, what is true, and what is asked for."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from pann import Problem

# A function of the coordinates, in the order of the axes; a tuple of values for several fields.
Function = Callable[..., Any]

NUM_UNIFORM, NUM_INSIDE = 3_000, 2_000


class Built(NamedTuple):
    """The problem as it is given to `pann.solve`, without its solution, and true values."""

    problem: Problem
    points: np.ndarray
    values: np.ndarray  # a row for each point, a column for each field
    goal: float


@dataclasses.dataclass(frozen=True)
class Case:
    """One row.

    The error is the largest at `NUM_UNIFORM` random points and `NUM_INSIDE` points within the
    feature, over the largest true value; of the fields that the reference gives, which are the
    first ones, the worst counts. `measure` replaces this by errors of another sort, the first of
    which is compared with the goal. `needs` says why a row is not run.
    """

    name: str
    equation: str
    make: Callable[[], Problem]
    reference: Function | None
    goal: float
    seconds: float
    # Points in the feature from uniform numbers in [0, 1), a row for each point.
    inside: Callable[[np.ndarray], np.ndarray] | None = None
    # Written for this problem alone: it gives the solution as a function.
    dedicated: Callable[[], Function] | None = None
    dedicated_name: str = ""
    measure: Callable[[Function], dict[str, float]] | None = None
    needs: str = ""

    def build(self) -> Built:
        """The problem, test points and true values there, and the error asked for."""
        problem = self.make()
        points = self.points(problem)
        return Built(problem, points, self.true(points), self.goal)

    def points(self, problem: Problem) -> np.ndarray:
        """Test points: uniform ones first."""
        domain, rng = problem.domain, np.random.default_rng(0)
        uniform = domain.filled(lambda count: rng.random((count, domain.dimension)), NUM_UNIFORM)
        if self.inside is None:
            return uniform
        narrow = np.asarray(self.inside(rng.uniform(0, 1, (NUM_INSIDE, domain.dimension))))
        narrow = np.clip(narrow, domain.lower, domain.upper)
        return np.concatenate([uniform, narrow])

    def true(self, points: np.ndarray) -> np.ndarray:
        assert self.reference is not None
        return columns(self.reference(*points.T), len(points))

    def errors(self, function: Function, problem: Problem | None = None) -> dict[str, float]:
        """Of a solution, given as a function of the coordinates: the first is that of the goal."""
        if self.measure is not None:
            return self.measure(function)
        points = self.points(self.make() if problem is None else problem)
        true = self.true(points)
        found = columns(function(*points.T), len(points))[:, : true.shape[1]]
        largest = np.max(np.abs(found - true), axis=0) / np.max(np.abs(true), axis=0)
        l2 = np.linalg.norm(found - true) / np.linalg.norm(true)
        return {"error": float(np.max(largest)), "l2": float(l2)}


def columns(values: Any, count: int) -> np.ndarray:
    """The fields as columns."""
    parts = values if isinstance(values, tuple) else (values,)
    return np.stack([np.broadcast_to(np.asarray(part, float), (count,)) for part in parts], axis=1)


def named(cases: Sequence[Case]) -> dict[str, Case]:
    found = {case.name: case for case in cases}
    if len(found) != len(cases):
        raise ValueError("two sharp problems have the same name")
    return found
