"""Problems with sharp features, each with its true solution and a solver of a page beside it."""

from benchmarks.sharp_problems import eikonal, evolutions, layers, peaks
from benchmarks.sharp_problems.case import Built, Case, named

PROBLEMS = named([*layers.CASES, *evolutions.CASES, *peaks.CASES, *eikonal.CASES])

__all__ = ["PROBLEMS", "Built", "Case"]
