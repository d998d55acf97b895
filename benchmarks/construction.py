"""Seconds to make points and tables, each twice: the first call meets cold memory."""

import time
from collections.abc import Callable, Iterator

import numpy as np

from benchmarks.harness import Row
from pann.basis import make_basis
from pann.domain import Box
from pann.points import poisson_disk, uniform


def rows() -> Iterator[Row]:
    plane, space, seven = Box.cube(2), Box.cube(3), Box.cube(7)
    many = uniform(plane, 16_384).coordinates
    high = uniform(seven, 24_576).coordinates
    jobs: dict[str, Callable[[], np.ndarray]] = {
        "Poisson disk, 16,384 in 2D": lambda: poisson_disk(plane, 16_384, cache=False).coordinates,
        "Poisson disk, 131,072 in 3D": lambda: (
            poisson_disk(space, 131_072, cache=False).coordinates
        ),
        "table, degree 116 in 2D, 16,384 points": lambda: make_basis(plane, 116).table(many),
        "table, degree 8 in 7D, 24,576 points": lambda: make_basis(seven, 8).table(high),
    }
    for name, job in jobs.items():
        seconds = []
        for _ in range(2):
            start = time.perf_counter()
            result = job()
            seconds.append(time.perf_counter() - start)
        yield {"job": name, "shape": str(result.shape), "first": seconds[0], "second": seconds[1]}
