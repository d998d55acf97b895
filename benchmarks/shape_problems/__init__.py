"""Equations on shapes, each with its true solution or with a solver of a page."""

from benchmarks.shape_problems import bodies, flows, plane
from benchmarks.sharp_problems.case import named

PROBLEMS = named([*plane.CASES, *flows.CASES, *bodies.CASES])
