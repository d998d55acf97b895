"""Bases to try on a shape: polynomials, and functions of its holes and corners."""

from collections.abc import Sequence

from pann.basis import ShapeBasis, Singular
from pann.pde.problem import Problem


def bases_of_shape(problem: Problem, degrees: Sequence[int]) -> list[ShapeBasis]:
    """A basis for each degree, with as many other functions as suit it."""
    return [ShapeBasis(problem.domain, degree, Singular.of(())) for degree in degrees]
