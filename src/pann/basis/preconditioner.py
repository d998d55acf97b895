"""The diagonal preconditioner K, from the polynomial basis alone."""

import dataclasses

import numpy as np
from jaxtyping import Float, Shaped

from pann.basis.basis import Basis


def christoffel_weights(
    basis: Basis, points: Shaped[np.ndarray, "points d"], scaling: str = "orthonormal"
) -> Float[np.ndarray, " points"]:
    """Christoffel weights: K(x) = sqrt(m / sum_k phi_k(x)^2) (paper, section 3.1).

    The terms are rescaled to `scaling` whatever the basis has; orthonormal is under the uniform
    measure for Legendre and Fourier, under its own for Chebyshev. Where there are no terms, or
    all of them vanish, K is 1.
    """
    scaled = dataclasses.replace(basis, scaling=scaling)
    squares = np.empty(len(points))
    for rows, block in scaled.table_blocks(points):
        np.einsum("ij,ij->i", block, block, out=squares[rows])
    # A pruned basis can lose its constant, and then vanish at a point such as x = 0.
    ratios = np.divide(len(basis), squares, out=np.ones(len(points)), where=squares > 0.0)
    return np.sqrt(ratios)


def orthonormal_scales(basis: Basis) -> Float[np.ndarray, " terms"]:
    """The factor for each term that makes the basis orthonormal: 1 / |phi_k|."""
    if basis.scaling == "orthonormal":
        return np.ones(len(basis))
    scales = np.ones(len(basis))
    for column, (family, size) in enumerate(zip(basis.families, basis.num_functions, strict=True)):
        scales /= family.norms(size)[basis.indices[:, column]]
    return scales
