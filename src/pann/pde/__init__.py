"""Differential equations: fields, conditions, problems, and the collocation systems they make."""

from pann.pde.conditions import (
    Condition,
    Data,
    Dirichlet,
    Initial,
    Interface,
    Neumann,
    Periodic,
    Robin,
)
from pann.pde.problem import Problem

__all__ = [
    "Condition",
    "Data",
    "Dirichlet",
    "Initial",
    "Interface",
    "Neumann",
    "Periodic",
    "Problem",
    "Robin",
]
