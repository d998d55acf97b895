"""Polynomial-augmented neural networks: u(x) = sum_j a_j psi_j(x) + sum_k b_k phi_k(x)."""

from pann import points, targets
from pann.basis import Basis, make_basis
from pann.domain import Box
from pann.model import PANN
from pann.network import AxisUnits, Complementary, Glorot, Periodic, RandomFourier, RePU
from pann.regression import Fit, fit, relative_l2
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
    Stepwise,
)

__version__ = "0.1.0"

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
    "DropPolynomial",
    "Fit",
    "GaussNewton",
    "Glorot",
    "KeepIfBetter",
    "LeastSquares",
    "Periodic",
    "Place",
    "Prune",
    "Race",
    "RandomFourier",
    "RePU",
    "Stepwise",
    "fit",
    "make_basis",
    "points",
    "relative_l2",
    "targets",
]
