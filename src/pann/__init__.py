"""Polynomial-augmented neural networks: u(x) = sum_j a_j psi_j(x) + sum_k b_k phi_k(x)."""

from typing import TYPE_CHECKING, Any

from pann import baselines, methods, points, problems, runs, shapes
from pann.basis import Basis, make_basis
from pann.domain import Box
from pann.io import FileError
from pann.methods import (
    MLP,
    Collocation,
    Elements,
    Hybrid,
    Polynomial,
    Products,
    Training,
    Windows,
)
from pann.model.pann import PANN
from pann.network import (
    AxisUnits,
    Complementary,
    Glorot,
    PeriodicFeatures,
    PolynomialFeatures,
    RandomFourier,
    RePU,
)
from pann.pde import Data, Dirichlet, Initial, Integral, Interface, Neumann, Problem, Robin
from pann.reader import load
from pann.regression.batch import fit_together
from pann.regression.fit import Fit, fit, relative_l2
from pann.runs import sweep
from pann.shapes import (
    Ball,
    Cuboid,
    Curve,
    Cylinder,
    Disk,
    Ellipse,
    Implicit,
    Mesh,
    Polygon,
    Rectangle,
)
from pann.solvers.batch import solve_together
from pann.solvers.eigen import Eigenpairs, eigen
from pann.solvers.folder import Folder
from pann.solvers.solution import Solution
from pann.solvers.solve import solve
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

__version__ = "0.2.0"

# Loaded when first asked for: scikit-learn takes a second to import.
_LAZY = {"PANNRegressor": "pann.regression.estimator"}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'pann' has no attribute '{name}'")
    import importlib

    return getattr(importlib.import_module(_LAZY[name]), name)


__all__ = [
    "LBFGS",
    "MLP",
    "PANN",
    "Adam",
    "AxisUnits",
    "Ball",
    "Basis",
    "Box",
    "Collocation",
    "Complementary",
    "Constant",
    "Cosine",
    "Cuboid",
    "Curve",
    "Cylinder",
    "Data",
    "Dirichlet",
    "Disk",
    "DropPolynomial",
    "Eigenpairs",
    "Elements",
    "Ellipse",
    "FileError",
    "Fit",
    "Folder",
    "GaussNewton",
    "Glorot",
    "Hybrid",
    "Implicit",
    "Initial",
    "Integral",
    "Interface",
    "KeepIfBetter",
    "LeastSquares",
    "Mesh",
    "Neumann",
    "PANNRegressor",
    "PeriodicFeatures",
    "Place",
    "Polygon",
    "Polynomial",
    "PolynomialFeatures",
    "Problem",
    "Products",
    "Prune",
    "Race",
    "RandomFourier",
    "RePU",
    "Rectangle",
    "Ridge",
    "Robin",
    "Solution",
    "Stepwise",
    "Training",
    "Windows",
    "baselines",
    "eigen",
    "fit",
    "fit_together",
    "load",
    "make_basis",
    "methods",
    "points",
    "problems",
    "relative_l2",
    "runs",
    "shapes",
    "solve",
    "solve_together",
    "sweep",
]
