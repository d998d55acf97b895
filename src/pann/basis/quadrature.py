"""Quadrature grids of a basis, the L2 projection onto it, and the Christoffel weights K."""

import dataclasses
import math
import warnings
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
from jaxtyping import Float, Shaped

from pann.basis.basis import Basis, default_families
from pann.basis.families import Rule
from pann.basis.least_squares import least_squares
from pann.basis.on_shapes import ShapeBasis, WholeBasis
from pann.points import tensor_rule
from pann.runtime.memory import require_memory


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


def orthonormal_scales(basis: WholeBasis) -> Float[np.ndarray, " terms"]:
    """The factor for each term that makes the basis orthonormal: 1 / |phi_k|."""
    if isinstance(basis, ShapeBasis) or basis.scaling == "orthonormal":
        return np.ones(len(basis))
    scales = np.ones(len(basis))
    for column, (family, size) in enumerate(zip(basis.families, basis.num_functions, strict=True)):
        scales /= family.norms(size)[basis.indices[:, column]]
    return scales


Function: TypeAlias = Callable[..., Shaped[np.ndarray, " points *outputs"]]


def quadrature(
    basis: Basis, nodes_per_axis: int | Sequence[int]
) -> tuple[Float[np.ndarray, "nodes d"], Float[np.ndarray, " nodes"]]:
    """A tensor grid of Gauss nodes of the families' measures, with weights of sum 1.

    It covers the whole domain, in its own coordinates: axes that the basis does not see get
    Legendre nodes, or Fourier nodes where the domain is periodic. The last axis runs fastest.
    """
    rules = _rules(basis, nodes_per_axis)
    points, weights = tensor_rule(rules)
    return basis.domain.from_reference(points), weights


def project(
    basis: Basis,
    function: Function | Shaped[np.ndarray, " nodes *outputs"],
    nodes_per_axis: int | Sequence[int],
    preconditioner: bool = False,
) -> Float[np.ndarray, " terms *outputs"]:
    """The L2 projection b_k = <f, phi_k> / <phi_k, phi_k> by quadrature (paper, section 4).

    `function` takes one array per axis of the domain, `lambda x, y: np.sin(x) * y`; or give its
    values at the points of `quadrature(basis, nodes_per_axis)`. With `preconditioner` the
    paper's variant: argmin_b sum_i w_i K(x_i)^2 (sum_k b_k phi_k(x_i) - f(x_i))^2.
    """
    rules = _rules(basis, nodes_per_axis)
    _warn_if_inexact(basis, rules)
    points, weights = tensor_rule(rules)
    points = basis.domain.from_reference(points)
    values = np.asarray(function(*points.T) if callable(function) else function, float)
    if values.ndim == 0 or len(values) != len(points):
        raise ValueError(
            f"the function gave an array of shape {values.shape} for {len(points):,} nodes; "
            "give one value (or row of values) for each node of quadrature(basis, nodes_per_axis)"
        )
    if preconditioner:
        row_weights = weights * christoffel_weights(basis, points) ** 2
        return least_squares(basis.table(points), values, row_weights)
    return _contract(basis, values, rules)


def _contract(
    basis: Basis, values: Float[np.ndarray, " points *outputs"], rules: list[Rule]
) -> Float[np.ndarray, " terms *outputs"]:
    """Integrate one axis after another, which needs no table of all nodes and terms."""
    tensor = values.reshape(*(len(nodes) for nodes, _ in rules), -1)
    wanted = []
    for name, (nodes, weights) in zip(basis.domain.names, rules, strict=True):
        if name in basis.axes:
            axis = basis.axes.index(name)
            family, size = basis.families[axis], basis.num_functions[axis]
            power = 1 if basis.scaling == "orthonormal" else 2
            matrix = weights[:, None] * family.table(nodes, size) / family.norms(size) ** power
            wanted.append(basis.indices[:, axis])
        else:
            matrix = weights[:, None]
            wanted.append(np.zeros(len(basis), dtype=np.int64))
        tensor = np.tensordot(tensor, matrix, axes=(0, 0))
    return np.moveaxis(tensor, 0, -1)[tuple(wanted)].reshape(len(basis), *values.shape[1:])


def _rules(basis: Basis, nodes_per_axis: int | Sequence[int]) -> list[Rule]:
    """A rule of its family for each axis of the domain, also for those the basis does not see."""
    names = basis.domain.names
    if not isinstance(nodes_per_axis, Sequence):
        nodes_per_axis = [nodes_per_axis] * len(names)
    counts = list(nodes_per_axis)
    if len(counts) != len(names):
        raise ValueError(
            f"{len(counts)} numbers of nodes for {len(names)} axes; give one, or one for each of "
            f"{', '.join(names)}"
        )
    # The grid in reference and in domain coordinates, and the values on it.
    require_memory(
        8 * math.prod(counts) * (2 * len(counts) + 2),
        f"a grid of {' x '.join(map(str, counts))} nodes",
        "take fewer nodes along each axis, or fit scattered points by least squares",
    )
    families = default_families(basis.domain) | dict(zip(basis.axes, basis.families, strict=True))
    return [families[name].quadrature(count) for name, count in zip(names, counts, strict=True)]


def _warn_if_inexact(basis: Basis, rules: list[Rule]) -> None:
    counts = {name: len(nodes) for name, (nodes, _) in zip(basis.domain.names, rules, strict=True)}
    for axis, family, size in zip(basis.axes, basis.families, basis.num_functions, strict=True):
        needed = family.num_functions(int(family.levels(size)[-1]))
        if counts[axis] < needed:
            warnings.warn(
                f"{counts[axis]} nodes along '{axis}' cannot resolve its {needed} functions; "
                f"use at least {needed}",
                stacklevel=3,
            )
