"""In which chunks a problem's points fit a budget of memory, and in which parts a cache.

Without a budget, and on one device, there are no chunks at all: tables are made once and kept.
"""

import math
import os

import jax
import numpy as np

from pann import devices
from pann.architecture import Architecture
from pann.basis import Basis
from pann.basis.in_program import check_in_program, is_in_program
from pann.chunks import Chunking, chunking
from pann.network.jets import propagated
from pann.pde.blocks import Placed

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
    is_spread = devices.several() and is_in_program(basis)
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
