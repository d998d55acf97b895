"""Equations on shapes, each with its true solution or with a solver of a page."""

from benchmarks.shape_problems import bodies, plane
from benchmarks.sharp_problems.case import named

PROBLEMS = named([*plane.CASES, *bodies.CASES])
