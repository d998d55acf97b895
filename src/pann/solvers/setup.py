"""In which chunks a problem's points fit a budget of memory, and in which parts a cache.

Without a budget, and on one device, there are no chunks at all: tables are made once and kept.
"""

import dataclasses
import functools
import math
import os
from collections.abc import Sequence

import jax
import numpy as np
from jaxtyping import Float

from pann.basis import Basis
from pann.basis.in_program import check_in_program, is_in_program
from pann.domain import Box
from pann.io.checkpoint import NOWHERE, Checkpoint
from pann.model.architecture import Architecture
from pann.network.jets import propagated
from pann.pde.collocation import Block, Placed, make_block, make_chunked_block
from pann.pde.conditions import Break, Data, Dirichlet, Neumann, Robin
from pann.pde.fields import Order
from pann.pde.hard_conditions import Ansatz
from pann.pde.placing import (
    OnFaces,
    place_conditions,
    place_inside,
    points_inside,
    points_per_axis_of,
)
from pann.pde.problem import Problem
from pann.points import Points, sample, uniform
from pann.runtime import chunks
from pann.runtime.chunks import Chunking, chunking
from pann.runtime.limits import Report
from pann.solvers.newton import Blocks

# Arrays of the size of a layer's derivatives, of a table and of a Jacobian that a program holds at
# once, backward pass included.
LAYER_COPIES, TABLE_COPIES, JACOBIAN_COPIES = 4.0, 3.0, 3.0
# Of the budget, what chunks may take: the rest is the compiler's, and the sampling's.
SHARE = 0.8
# Chunks smaller than this are bound by calls.
FEWEST_POINTS = 100
# What a core has at hand of each derivative of a layer: 512 points of 100 units measured best, in
# either precision; twice that where work is handed out to several cores, which takes time. Parts of
# fewer points than the third number are bound by calls.
CACHED_NUMBERS, CACHED_NUMBERS_SHARED, FEWEST_CACHED_POINTS = 51_200, 102_400, 128


def gradient_chunking(
    inside: Placed, basis: Basis, architecture: Architecture, trials: int, memory: int | None
) -> Chunking | None:
    """Chunks for the loss of all trials and its gradient."""
    item = np.dtype(architecture.precision).itemsize
    units = sum(architecture.widths) * trials
    layers = units * len(propagated(inside.orders)) * LAYER_COPIES
    stored = _stored(inside, item) + 2 * item * trials
    return _chunking(inside, basis, item, layers, stored, memory)


def cached_points(architecture: Architecture, trials: int) -> int | None:
    """How many points gradients take at once: those of the cache; on a GPU, all there are."""
    if jax.default_backend() != "cpu" or not architecture.widths:
        return None
    cores, units = _num_cores(), max(architecture.widths) * trials
    numbers = CACHED_NUMBERS if cores == 1 else CACHED_NUMBERS_SHARED
    return cores * max(FEWEST_CACHED_POINTS, numbers // units)


def _num_cores() -> int:
    """Cores that this process may use, where the system tells."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def system_chunking(
    inside: Placed, basis: Basis, precision: str, num_network_parameters: int, memory: int | None
) -> Chunking | None:
    """Chunks for the rows of a least-squares problem in all parameters."""
    item, residuals = np.dtype(precision).itemsize, inside.target.reshape(len(inside.points), -1)
    columns = basis.num_terms * residuals.shape[1] + num_network_parameters
    rows = residuals.shape[1] * columns * JACOBIAN_COPIES
    return _chunking(inside, basis, item, rows, _stored(inside, item), memory, 4.0 * columns**2)


def _stored(inside: Placed, item: int) -> float:
    """Bytes of a point that are there all the time: coordinates, twice, and what it is given."""
    arrays = [inside.points, inside.points, inside.target, *inside.extra.values()]
    numbers = sum(array.size for array in arrays) / len(inside.points)
    return item * (numbers + 1)


def _chunking(
    inside: Placed,
    basis: Basis,
    item: int,
    numbers: float,
    stored: float,
    memory: int | None,
    fixed: float = 0.0,
) -> Chunking | None:
    """`numbers` are those a point takes in a chunk beside its tables, `fixed` those of no point."""
    count = len(inside.points)
    tables = basis.num_terms * (len(inside.orders) + 1)
    whole = count * (stored + item * (tables + numbers)) + item * fixed
    is_spread = chunks.several() and is_in_program(basis)
    if not is_spread and (memory is None or whole <= memory):
        return None
    check_in_program(basis)
    a_point = item * (TABLE_COPIES * tables + numbers)
    budget = math.inf if memory is None else SHARE * memory - count * stored - item * fixed
    num_devices = jax.device_count()
    if budget * num_devices < a_point * min(count, FEWEST_POINTS):
        needed = (count * stored + item * fixed + a_point * FEWEST_POINTS) / SHARE
        raise ValueError(
            f"{count:,} points do not fit in memory={memory:,} bytes, in whatever chunks; give at "
            f"least {math.ceil(needed / 1e6):,}MB, fewer points, or a smaller model"
        )
    return chunking(count, min(count, budget * num_devices / a_point))


# ---- A problem with the points where its equation and conditions are asked to hold ----


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
