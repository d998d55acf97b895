"""A problem with the points where its equation and conditions are asked to hold."""

import dataclasses
import functools
import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from pann.basis import Basis
from pann.checkpoints import NOWHERE, Checkpoint
from pann.domain import Box
from pann.pde.ansatz import Ansatz
from pann.pde.blocks import Block, Placed, make_block
from pann.pde.chunked_block import make_chunked_block
from pann.pde.conditions import Break, Data, Dirichlet, Neumann, Robin
from pann.pde.fields import Order
from pann.pde.newton import Blocks
from pann.pde.placing import (
    OnFaces,
    place_conditions,
    place_inside,
    points_inside,
    points_per_axis_of,
)
from pann.pde.problem import Problem
from pann.points import Points, sample, uniform
from pann.runtime_limits import Report
from pann.solving.budget import system_chunking

# Conditions count more than the equation, whose residual is large where u is not yet resolved.
CONDITION_WEIGHT = 100.0
NUM_FRESH = 2_000
# A tensor grid in more dimensions has too many points; a random one needs some for each term.
MAX_GRID_DIMENSION = 3
POINTS_A_TERM = 6


@dataclasses.dataclass(frozen=True)
class Setup:
    """A problem with its points."""

    problem: Problem
    orders: tuple[Order, ...]
    points: Points | int | None
    sampling: str | None
    seed: int
    report: Report
    condition_points: int | None = None
    condition_weight: float = CONDITION_WEIGHT
    ansatz: Ansatz | None = None
    condition_sampling: str | None = None
    checkpoint: Checkpoint = NOWHERE
    data_weight: float | None = None  # if not as the conditions
    memory: int | None = None  # bytes; what is larger is made in chunks
    time_limit: float | None = None  # seconds; it ends at `deadline` by time.monotonic()
    deadline: float = math.inf

    def placed(self, basis: Basis, at_least: int = 0) -> list[Placed]:
        """Points that fit the basis, and at least so many inside unless the user chose them."""
        problem = self.problem
        per_axis = points_per_axis_of(problem, basis, at_least)
        on_faces = OnFaces(self.condition_sampling, seed=self.seed)
        if isinstance(self.points, Points):
            inside = self.points.tagged("inside")
            if self.points.tags is not None:
                on_faces = OnFaces(given=self.points.tagged("boundary"))
        elif self.points is not None:
            sampler = self.sampling or "gauss"
            inside = sample(sampler, problem.domain, self.points, self.seed).coordinates
            per_axis = max(per_axis, points_per_axis_of(problem, basis, len(inside)))
        elif problem.domain.dimension > MAX_GRID_DIMENSION:
            count = max(at_least, POINTS_A_TERM * basis.num_terms)
            inside = sample("sobol", problem.domain, count, self.seed).coordinates
        else:
            inside = points_inside(problem, per_axis)
        if problem.domain.dimension > MAX_GRID_DIMENSION and on_faces.given is None:
            count = math.ceil(POINTS_A_TERM * basis.num_terms / num_faces(problem))
            on_faces = OnFaces(self.condition_sampling or "sobol", count, self.seed)
        if self.condition_points is not None:
            per_axis = points_an_axis(problem, self.condition_points)
        conditions = [
            dataclasses.replace(placed, weight=self._weight(placed) * placed.weight)
            for placed in place_conditions(problem, per_axis, on_faces)
        ]
        placed = [place_inside(problem, inside, self.orders), *conditions]
        return placed if self.ansatz is None else [self.ansatz.wrap(each) for each in placed]

    def _weight(self, placed: Placed) -> float:
        if self.data_weight is not None and placed.name.startswith("data"):
            return self.data_weight
        return self.condition_weight

    def blocks(self, basis: Basis, precision: str, at_least: int = 0) -> tuple[Block, ...]:
        return tuple(
            make_block(placed, self.problem, basis, precision)
            for placed in self.placed(basis, at_least)
        )

    def system(
        self,
        basis: Basis,
        precision: str,
        at_least: int = 0,
        num_network_parameters: int = 0,
        placed: Sequence[Placed] | None = None,
    ) -> Blocks:
        """The blocks of a least-squares problem, the equation's in chunks if it is too large."""
        inside, *conditions = self.placed(basis, at_least) if placed is None else placed
        parts = system_chunking(inside, basis, precision, num_network_parameters, self.memory)
        make = functools.partial(make_block, problem=self.problem, basis=basis, precision=precision)
        first = (
            make(inside)
            if parts is None
            else make_chunked_block(inside, self.problem, basis, precision, parts)
        )
        return (first, *(make(each) for each in conditions))

    def fresh_placed(self) -> Placed:
        """The equation at random points that are not trained on."""
        points = _fresh_points(self.problem.domain, self.seed)
        placed = place_inside(self.problem, points, self.orders)
        return placed if self.ansatz is None else self.ansatz.wrap(placed)

    def fresh(self, basis: Basis) -> Block:
        return make_block(self.fresh_placed(), self.problem, basis, "float64")


@functools.lru_cache(maxsize=16)
def _fresh_points(domain: Box, seed: int) -> Float[np.ndarray, "points d"]:
    return uniform(domain, NUM_FRESH, seed=seed + 7).coordinates


def conditions_of(blocks: Blocks) -> tuple[Block, ...]:
    """The blocks of the conditions, which are never in chunks."""
    return tuple(block for block in blocks[1:] if isinstance(block, Block))


def points_an_axis(problem: Problem, condition_points: int) -> int:
    """Points along each axis of a face, so that there are about so many on all faces together."""
    along = problem.domain.dimension - 1
    if along == 0:
        return 1
    return max(1, round((condition_points / num_faces(problem)) ** (1 / along)))


def num_faces(problem: Problem) -> int:
    """How many faces have conditions, at least one; a face counts as often as it has them."""
    count = 0
    for condition in problem.conditions:
        if isinstance(condition, Dirichlet | Neumann | Robin):
            count += len(condition.faces)
        elif not isinstance(condition, Break | Data):
            count += 1
    return max(count, 1)
