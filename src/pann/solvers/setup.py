"""A problem with its points: where equation and conditions are to hold, and in which chunks.

`Setup` is the discretization: problem, points, weights, and the memory that they may take. Its
`Run` says how the work goes on: who gets reports, where checkpoints are written, when time is up.
Without a memory budget, and on one device, there are no chunks: tables are made once and kept.
"""

import dataclasses
import functools
import math
import os
import time
from collections.abc import Iterable, Sequence
from typing import Any

import jax
import numpy as np
from jaxtyping import Float
from threadpoolctl import threadpool_limits

from pann.basis import Basis, ShapeBasis, WholeBasis
from pann.basis.basis import check_in_program, is_in_program
from pann.domain import Box
from pann.io.checkpoint import NOWHERE, Checkpoint
from pann.model.architecture import Architecture
from pann.network.jets import Derivative, propagated
from pann.pde.collocation import Block, Placed, make_block, make_chunked_block
from pann.pde.conditions import Break, Data, OnBoundary
from pann.pde.fields import Order
from pann.pde.hard_conditions import Ansatz
from pann.pde.placing import (
    OnFaces,
    place_conditions,
    place_inside,
    points_inside,
    points_per_axis_of,
)
from pann.pde.pointwise import peak_points
from pann.pde.problem import Problem
from pann.points import Points, sample, uniform
from pann.runtime import chunks
from pann.runtime.chunks import Chunking, chunking
from pann.runtime.limits import Report, Stopped
from pann.runtime.memory import COPIES
from pann.runtime.platform import on_cpu
from pann.solvers.newton import Blocks

# Conditions count more than the equation, whose residual is large where u is not yet resolved.
CONDITION_WEIGHT = 100.0
# Random points that are not trained on.
NUM_FRESH = 2_000
# A tensor grid in more dimensions has too many points; random points are as many per term.
MAX_GRID_DIMENSION = 3
POINTS_PER_TERM, POINTS_PER_TERM_OF_SHAPES = 6, 5
# On the boundary, for each function of a hole or a corner.
POINTS_PER_SINGULAR = 3


@dataclasses.dataclass(frozen=True)
class Run:
    """How the work goes on, whatever is solved: reports, checkpoints and the time there is."""

    report: Report = lambda progress: None
    checkpoint: Checkpoint = NOWHERE
    time_limit: float | None = None  # seconds
    deadline: float = math.inf  # of time.monotonic(), where the time limit ends
    begin: float = 0.0  # of time.perf_counter()

    @property
    def seconds(self) -> float:
        """How long the work has taken."""
        return time.perf_counter() - self.begin

    def check_time(self, seconds: float) -> None:
        """Raise `Stopped` if work that takes so many seconds would end after the deadline."""
        if time.monotonic() + seconds > self.deadline:
            raise Stopped(f"the time limit of {self.time_limit:g} s")


def blas_threads(domain: Box) -> threadpool_limits:
    """One thread of BLAS on shapes, whose systems are small and solved by NumPy.

    Its threads wait for each other spinning: where another program had one of two cores, Poisson's
    equation on a disk took 22 CPU seconds with two threads, 4 with one (by hand).
    """
    return threadpool_limits(None if domain.shape is None else 1, "blas")


@dataclasses.dataclass(frozen=True)
class Setup:
    """A problem with its points.

    `points` and `sampling` are those inside, `condition_points` the number on all faces together;
    None chooses them by the basis. `data_weight` is that of data, if not as of other conditions.
    What would take more than `memory` bytes is made in chunks.
    """

    problem: Problem
    points: Points | int | None = None
    sampling: str | None = None
    seed: int = 0
    condition_points: int | None = None
    condition_sampling: str | None = None
    condition_weight: float = CONDITION_WEIGHT
    data_weight: float | None = None
    ansatz: Ansatz | None = None
    memory: int | None = None
    precision: str = "float64"  # of the model
    run: Run = Run()

    @property
    def orders(self) -> tuple[Order, ...]:
        """The derivatives that the equation asks for."""
        return self.problem.asked.orders

    @property
    def report(self) -> Report:
        return self.run.report

    @property
    def checkpoint(self) -> Checkpoint:
        return self.run.checkpoint

    def with_run(self, **changes: Any) -> "Setup":
        """The same discretization in a run with another report, checkpoint or time limit."""
        return dataclasses.replace(self, run=dataclasses.replace(self.run, **changes))

    def within(self, name: str) -> "Setup":
        """The same with checkpoints under a name of their own."""
        return self.with_run(checkpoint=self.checkpoint.within(name))

    def placed(self, basis: WholeBasis, at_least: int = 0) -> list[Placed]:
        """Points that fit the basis, and at least so many inside unless the user chose them."""
        problem, shape = self.problem, self.problem.domain.shape
        is_grid = problem.domain.dimension <= MAX_GRID_DIMENSION and shape is None
        per_axis = points_per_axis_of(problem, basis, at_least)
        on_faces = OnFaces(self.condition_sampling, seed=self.seed)
        if isinstance(self.points, Points):
            inside = self.points.tagged("inside")
            if self.points.tags is not None:
                on_faces = OnFaces(given=self.points.tagged("boundary"))
        elif self.points is not None:
            sampler = self.sampling or ("gauss" if shape is None else "graded")
            inside = sample(sampler, problem.domain, self.points, self.seed).coordinates
            per_axis = max(per_axis, points_per_axis_of(problem, basis, len(inside)))
        elif is_grid:
            inside = points_inside(problem, per_axis)
        else:
            per_term = POINTS_PER_TERM if shape is None else POINTS_PER_TERM_OF_SHAPES
            count = max(at_least, per_term * basis.num_terms)
            inside = sample("graded", problem.domain, count, self.seed).coordinates
        if not is_grid and shape is None and on_faces.given is None:
            count = math.ceil(POINTS_PER_TERM * basis.num_terms / _num_faces(problem))
            on_faces = OnFaces(self.condition_sampling or "sobol", count, self.seed)
        if self.condition_points is not None:
            along = problem.domain.dimension - 1
            on_each_face = self.condition_points / _num_faces(problem)
            per_axis = max(1, round(on_each_face ** (1 / along))) if along else 1
        if isinstance(basis, ShapeBasis) and len(basis.singular):
            # Many of these satisfy the equation: only the boundary tells them apart.
            share = math.ceil(
                POINTS_PER_SINGULAR * len(basis.singular) / len(problem.domain.boundary)
            )
            on_faces = dataclasses.replace(on_faces, per_part=max(share, on_faces.per_part))
        placed = [place_inside(problem, inside, self.orders)]
        for each in place_conditions(problem, per_axis, on_faces):
            of_data = self.data_weight if each.is_data else None
            weight = self.condition_weight if of_data is None else of_data
            placed.append(dataclasses.replace(each, weight=weight * each.weight))
        return placed if self.ansatz is None else [self.ansatz.wrap(each) for each in placed]

    def blocks(
        self, placed: Sequence[Placed], basis: WholeBasis, precision: str = "float64"
    ) -> tuple[Block, ...]:
        return tuple(make_block(each, self.problem, basis, precision) for each in placed)

    def system(
        self,
        placed: Sequence[Placed],
        basis: WholeBasis,
        precision: str,
        num_network_parameters: int = 0,
    ) -> Blocks:
        """The blocks of a least-squares problem, the equation's in chunks if it is too large."""
        inside, *conditions = placed
        item, num_residuals = np.dtype(precision).itemsize, inside.target[0].size
        columns = basis.num_terms * num_residuals + num_network_parameters
        rows = num_residuals * columns * JACOBIAN_COPIES
        parts = _chunking(inside, basis, item, rows, 0.0, self.memory, 4.0 * columns**2)
        if parts is None:
            return self.blocks(placed, basis, precision)
        first = make_chunked_block(inside, self.problem, basis, precision, parts)
        return first, *self.blocks(conditions, basis, precision)

    def fresh_placed(self) -> Placed:
        """The equation at random points that are not trained on."""
        points = _fresh_points(self.problem.domain, self.seed)
        points = with_peaks(self.problem, points)
        placed = place_inside(self.problem, points, self.orders)
        return placed if self.ansatz is None else self.ansatz.wrap(placed)

    def fresh(self, basis: WholeBasis) -> Block:
        return make_block(self.fresh_placed(), self.problem, basis, "float64")


@functools.lru_cache(maxsize=16)
def _fresh_points(domain: Box, seed: int) -> Float[np.ndarray, "points d"]:
    return uniform(domain, NUM_FRESH, seed=seed + 7).coordinates


def with_peaks(
    problem: Problem, points: Float[np.ndarray, "points d"]
) -> Float[np.ndarray, "points d"]:
    """Random points, some of them on peaks of sources and coefficients that the others miss."""
    peaks = peak_points(problem, problem.domain, len(points))
    return points if not len(peaks) else np.concatenate([points[: -len(peaks)], peaks])


def _num_faces(problem: Problem) -> int:
    """How many faces have conditions, at least one; a face counts as often as it has them."""
    each = [
        len(condition.faces) if isinstance(condition, OnBoundary) else 1
        for condition in problem.conditions
        if not isinstance(condition, Break | Data)
    ]
    return max(sum(each), 1)


# ---- Memory ----

# Arrays of the size of a table and of a Jacobian that a program holds at once.
TABLE_COPIES, JACOBIAN_COPIES = 3.0, 3.0
# The fraction of the budget that chunks may take: the rest is for the compiler and for sampling.
CHUNK_FRACTION = 0.8
# Smaller chunks are bound by the overhead of calls.
FEWEST_POINTS = 100
# Numbers of each derivative of a layer that fit in a core's cache: 512 points of 100 units measured
# best, in either precision; twice that where several cores share the work, which takes time.
CACHED_NUMBERS, CACHED_NUMBERS_SHARED = 51_200, 102_400
# Fewer points at once are bound by the overhead of calls.
FEWEST_CACHED_POINTS = 128


def gradient_chunking(
    inside: Placed, basis: WholeBasis, architecture: Architecture, trials: int, memory: int | None
) -> Chunking | None:
    """Chunks for the loss of all trials and its gradient."""
    item = np.dtype(architecture.precision).itemsize
    layers = layer_numbers(inside.orders, architecture, trials)
    return _chunking(inside, basis, item, layers, 2.0 * item * trials, memory)


def layer_numbers(orders: Iterable[Derivative], architecture: Architecture, trials: int) -> float:
    """Numbers of each point that the derivatives of all layers take, backward pass included."""
    return sum(architecture.widths) * trials * len(propagated(orders)) * COPIES


def cached_points(architecture: Architecture, trials: int) -> int | None:
    """How many points a gradient takes at once: those that fit in the cache; on a GPU, all."""
    if not on_cpu() or not architecture.widths:
        return None
    cores, units = _num_cores(), max(architecture.widths) * trials
    numbers = CACHED_NUMBERS if cores == 1 else CACHED_NUMBERS_SHARED
    return cores * max(FEWEST_CACHED_POINTS, numbers // units)


def _num_cores() -> int:
    """Cores that this process may use, where the system says."""
    has_affinity = hasattr(os, "sched_getaffinity")
    return len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count() or 1


def _chunking(
    inside: Placed,
    basis: WholeBasis,
    item: int,
    numbers: float,
    stored: float,
    memory: int | None,
    fixed: float = 0.0,
) -> Chunking | None:
    """Chunks where all points take more than `memory`, or where several devices share them.

    A point takes `numbers` in its chunk, without its tables; `stored` are the bytes that it takes
    all the time, without its coordinates and targets; `fixed` numbers belong to no point.
    """
    count = len(inside.points)
    arrays = [inside.points, inside.points, inside.target, *jax.tree.leaves(inside.operator)]
    stored += item * (sum(array.size for array in arrays) / count + 1)
    tables = basis.num_terms * (len(inside.orders) + 1)
    whole = count * (stored + item * (tables + numbers)) + item * fixed
    is_spread = chunks.several() and isinstance(basis, Basis) and is_in_program(basis)
    if not is_spread and (memory is None or whole <= memory):
        return None
    if not isinstance(basis, Basis):
        raise ValueError(
            f"tables of {count:,} points and {basis.num_terms:,} terms take more than "
            f"memory={memory:,} bytes, and are not made in chunks on a shape; give more memory, or "
            "a lower degree"
        )
    check_in_program(basis)
    per_point = item * (TABLE_COPIES * tables + numbers)
    base = count * stored + item * fixed
    budget = math.inf if memory is None else (CHUNK_FRACTION * memory - base) * jax.device_count()
    if budget < per_point * min(count, FEWEST_POINTS):
        needed = (base + per_point * FEWEST_POINTS) / CHUNK_FRACTION
        raise ValueError(
            f"{count:,} points do not fit in memory={memory:,} bytes, in whatever chunks; give at "
            f"least {math.ceil(needed / 1e6):,}MB, fewer points, or a smaller model"
        )
    return chunking(count, min(count, budget / per_point))
