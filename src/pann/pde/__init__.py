"""Differential equations: fields, conditions, problems, and the collocation systems they make."""

from pann.pde.conditions import (
    Break,
    Condition,
    Data,
    Dirichlet,
    Initial,
    Integral,
    Interface,
    Neumann,
    Periodic,
    Robin,
)
from pann.pde.problem import Problem
from pann.pde.rows import equation_rows

__all__ = [
    "Break",
    "Condition",
    "Data",
    "Dirichlet",
    "Initial",
    "Integral",
    "Interface",
    "Neumann",
    "Periodic",
    "Problem",
    "Robin",
    "equation_rows",
]
