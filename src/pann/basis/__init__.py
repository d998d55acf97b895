"""Spectral bases on a box: families, index sets, tables, projection and the preconditioner."""

from pann.basis.basis import INTEGRAL, Basis, check_in_program, is_in_program, make_basis
from pann.basis.elements import ElementBasis, Tree
from pann.basis.evolving import AnyBasis, EvolvingBasis
from pann.basis.families import Chebyshev, Family, Fourier, Legendre, family_by_name
from pann.basis.index_sets import hyperbolic_cross, tensor_product, total_degree
from pann.basis.least_squares import fit, least_squares
from pann.basis.on_shapes import ShapeBasis, WholeBasis, highest_degree
from pann.basis.piecewise import PiecewiseLegendre
from pann.basis.quadrature import christoffel_weights, orthonormal_scales, project, quadrature
from pann.basis.singular import Singular
from pann.numerics.least_squares import RidgeFit, ridge

__all__ = [
    "INTEGRAL",
    "AnyBasis",
    "Basis",
    "Chebyshev",
    "ElementBasis",
    "EvolvingBasis",
    "Family",
    "Fourier",
    "Legendre",
    "PiecewiseLegendre",
    "RidgeFit",
    "ShapeBasis",
    "Singular",
    "Tree",
    "WholeBasis",
    "check_in_program",
    "christoffel_weights",
    "family_by_name",
    "fit",
    "highest_degree",
    "hyperbolic_cross",
    "is_in_program",
    "least_squares",
    "make_basis",
    "orthonormal_scales",
    "project",
    "quadrature",
    "ridge",
    "tensor_product",
    "total_degree",
]
