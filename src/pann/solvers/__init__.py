"""The ways to solve a problem, behind `pann.solve`."""

from pann.solvers.batch import num_cases_that_fit
from pann.solvers.plan import make_plan

__all__ = ["make_plan", "num_cases_that_fit"]
