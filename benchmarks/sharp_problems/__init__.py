"""Problems with sharp features, each with its true solution and a solver of a page beside it."""

from benchmarks.sharp_problems import (
    cavity,
    circles,
    eikonal,
    evolutions,
    invented,
    layers,
    mitchell,
    peaks,
)
from benchmarks.sharp_problems.case import Built, Case, named

PROBLEMS = named(
    [
        *layers.CASES,
        *evolutions.CASES,
        *peaks.CASES,
        *cavity.CASES,
        *circles.CASES,
        *eikonal.CASES,
        *mitchell.CASES,
        *invented.CASES,
    ]
)

__all__ = ["PROBLEMS", "Built", "Case"]
