"""Polynomial-augmented neural networks: u(x) = sum_j a_j psi_j(x) + sum_k b_k phi_k(x)."""

from typing import TYPE_CHECKING, Any

from pann import points, problems, runs
from pann.basis import Basis, make_basis
from pann.domain import Box
from pann.io import FileError
from pann.model.pann import PANN
from pann.network import AxisUnits, Complementary, Glorot, Periodic, RandomFourier, RePU
from pann.pde import Data, Dirichlet, Initial, Integral, Interface, Neumann, Problem, Robin
from pann.reader import load
from pann.regression.batch import fit_together
from pann.regression.fit import Fit, fit, relative_l2
from pann.runs import sweep
from pann.solvers.batch import solve_together
from pann.solvers.solution import Solution
from pann.solvers.solve import solve
from pann.solvers.windows.method import solve_in_windows
from pann.training import (
    LBFGS,
    Adam,
    Constant,
    Cosine,
    DropPolynomial,
    GaussNewton,
    KeepIfBetter,
    LeastSquares,
    Place,
    Prune,
    Race,
    Ridge,
    Stepwise,
)

if TYPE_CHECKING:
    from pann.regression.estimator import PANNRegressor

__version__ = "0.1.0"

# Loaded when first asked for: scikit-learn takes a second to import.
_LAZY = {"PANNRegressor": "pann.regression.estimator"}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'pann' has no attribute '{name}'")
    import importlib

    return getattr(importlib.import_module(_LAZY[name]), name)


__all__ = [
    "LBFGS",
    "PANN",
    "Adam",
    "AxisUnits",
    "Basis",
    "Box",
    "Complementary",
    "Constant",
    "Cosine",
    "Data",
    "Dirichlet",
    "DropPolynomial",
    "FileError",
    "Fit",
    "GaussNewton",
    "Glorot",
    "Initial",
    "Integral",
    "Interface",
    "KeepIfBetter",
    "LeastSquares",
    "Neumann",
    "PANNRegressor",
    "Periodic",
    "Place",
    "Problem",
    "Prune",
    "Race",
    "RandomFourier",
    "RePU",
    "Ridge",
    "Robin",
    "Solution",
    "Stepwise",
    "fit",
    "fit_together",
    "load",
    "make_basis",
    "points",
    "problems",
    "relative_l2",
    "runs",
    "solve",
    "solve_in_windows",
    "solve_together",
    "sweep",
]
