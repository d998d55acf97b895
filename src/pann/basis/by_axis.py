"""Sums over products of all functions of the axes, one axis after the other, without a table.

Where nearly all products are there, a point needs sum_i prod_j n_j multiplications over shrinking
numbers of axes j instead of a row of all terms. Along an axis of pieces a point sees the functions
of its own piece alone, so that the number of pieces costs nothing.
"""

import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Float, Int

from pann.basis.families import Family
from pann.basis.piecewise import PiecewiseLegendre

# Below this size a table is as good; above, at most so many products may be missing.
MIN_TERMS = 64
MAX_SIZE_RATIO = 4
_BLOCK_BYTES = 32 * 2**20

# The factors of an axis, by its number, at some of the points.
Factors = Callable[[int, Int[np.ndarray, " rows"]], Float[np.ndarray, "rows functions"]]


def is_nearly_full(num_terms: int, num_functions: Sequence[int]) -> bool:
    """Whether a set of products is large, and not much smaller than all of them."""
    return num_terms >= MIN_TERMS and math.prod(num_functions) <= MAX_SIZE_RATIO * num_terms


def evaluate_by_axis(
    families: Sequence[Family],
    indices: Int[np.ndarray, "terms axes"],
    num_functions: Sequence[int],
    coefficients: Float[np.ndarray, "terms outputs"],
    reference: Float[np.ndarray, "points axes"],
    factors: Factors,
) -> Float[np.ndarray, "points outputs"]:
    """sum_k b_k prod_i phi_{k_i}(x_i); the axis with the most pieces is cut into them."""
    tensor = np.zeros((*num_functions, coefficients.shape[1]))
    tensor[tuple(indices.T)] = coefficients
    counts = [
        family.num_pieces if isinstance(family, PiecewiseLegendre) else 1 for family in families
    ]
    cut = int(np.argmax(counts))
    # The longest of the other axes goes first, as one product of matrices.
    others = sorted((i for i in range(len(families)) if i != cut), key=lambda i: -num_functions[i])
    tensor = np.transpose(tensor, (cut, *others, len(families)))
    family = families[cut]
    if isinstance(family, PiecewiseLegendre):
        pieces = family.piece_of(reference[:, cut])
    else:
        pieces = np.zeros(len(reference), np.int64)
    out = np.empty((len(reference), coefficients.shape[1]))
    order = np.argsort(pieces, kind="stable")
    bounds = np.searchsorted(pieces[order], np.arange(counts[cut] + 1))
    for piece, (begin, end) in enumerate(itertools.pairwise(bounds)):
        own = np.arange(counts[cut] + piece, num_functions[cut], counts[cut])
        width = 8 * (len(own) + 1) * math.prod(tensor.shape[2:])
        size = max(1, _BLOCK_BYTES // max(width, 8 * num_functions[cut]))
        for first in range(begin, end, size):
            rows = order[first : min(first + size, end)]
            along = factors(cut, rows)
            # The functions of level 0 are constant on the piece: together they make one.
            level_0 = np.tensordot(along[0, : counts[cut]], tensor[: counts[cut]], axes=1)
            local = np.concatenate([level_0[None], tensor[own]])
            along = np.concatenate([np.ones((len(rows), 1)), along[:, own]], axis=1)
            out[rows] = _contracted(local, along, [factors(i, rows) for i in others])
    return out


def _contracted(
    tensor: Float[np.ndarray, "functions ..."],
    along: Float[np.ndarray, "rows functions"],
    others: list[Float[np.ndarray, "rows _"]],
) -> Float[np.ndarray, "rows outputs"]:
    """Axis 0 of the tensor with `along`, the next ones with the others, point by point."""
    if not others:
        return along @ tensor
    moved = np.moveaxis(tensor, 0, -2)
    values = (others[0] @ moved.reshape(len(moved), -1)).reshape(len(along), *moved.shape[1:])
    for factor in (*others[1:], along):
        values = np.einsum("ra...,ra->r...", values, factor)
    return values
