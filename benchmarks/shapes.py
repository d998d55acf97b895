"""Equations on shapes by `pann.solve` as it is, with true solutions or independent solvers.

Rows are run as those of `benchmarks.sharp`: each in a process of its own, in twice the time that is
asked for. Errors are the largest at random points of the shape over the largest true value.
"""

from collections.abc import Collection, Iterator

from benchmarks.harness import Row
from benchmarks.shape_problems import PROBLEMS
from benchmarks.sharp import rows_of

KEYS = ("problem",)


def names() -> list[str]:
    """Of all rows, for `--resume`."""
    return list(PROBLEMS)


def rows(only: Collection[str] = ()) -> Iterator[Row]:
    """All rows, or those of the problems named."""
    yield from rows_of("benchmarks.shape_problems", only)
