"""Points and values that several benchmarks share."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from pann import points
from pann.domain import Box
from pann.problems import functions

NUM_TEST = 100_000


class Problem(NamedTuple):
    domain: Box
    points: np.ndarray
    values: np.ndarray
    test: np.ndarray
    truth: np.ndarray


def square(target: Callable[[np.ndarray], np.ndarray], num_points: int) -> Problem:
    """A function on [-1, 1]^2 at Poisson-disk points, tested at uniform random points."""
    domain = Box.cube(2)
    train = points.poisson_disk(domain, num_points).coordinates
    test = points.uniform(domain, NUM_TEST, seed=1).coordinates
    return Problem(domain, train, target(train), test, target(test))


def cube(dimension: int, num_points: int) -> Problem:
    """The sine product on [-1, 1]^d at Sobol points (Poisson disks end at three dimensions)."""
    domain = Box.cube(dimension)
    train = points.sobol(domain, num_points).coordinates
    test = points.uniform(domain, NUM_TEST, seed=1).coordinates
    return Problem(domain, train, functions.sine_product(train), test, functions.sine_product(test))
