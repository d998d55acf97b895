"""Sums over products of all functions of the axes, one axis after the other, without a table.

Where nearly all products are there, a point needs sum_i prod_j n_j multiplications over shrinking
numbers of axes j instead of a row of all terms. Along an axis of pieces a point sees the functions
of its own piece alone, so that the number of pieces costs nothing.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from jaxtyping import Float, Int

from pann.basis.families import Family
from pann.basis.piecewise import PiecewiseLegendre

# Below this size a table is as good; above, at most so many products may be missing.
MIN_TERMS = 64
MAX_SIZE_RATIO = 4
_BLOCK_BYTES = 32 * 2**20

# The factors of an axis, by its number, at some of the points, differentiated so often.
Rows = slice | Int[np.ndarray, " rows"]
Factors = Callable[[int, Rows, int], Float[np.ndarray, "rows functions"]]


def is_nearly_full(num_terms: int, num_functions: Sequence[int]) -> bool:
    """Whether a set of products is large, and not much smaller than all of them."""
    return num_terms >= MIN_TERMS and math.prod(num_functions) <= MAX_SIZE_RATIO * num_terms


def evaluate_by_axis(
    families: Sequence[Family],
    indices: Int[np.ndarray, "terms axes"],
    num_functions: Sequence[int],
    coefficients: Float[np.ndarray, "terms outputs"],
    reference: Float[np.ndarray, "points axes"],
    orders: Sequence[tuple[int, ...]],
    factors: Factors,
) -> Float[np.ndarray, "orders points outputs"]:
    """sum_k b_k prod_i D^order_i phi_{k_i}(x_i); the axis with the most pieces is cut into them."""
    tensor = np.zeros((*num_functions, coefficients.shape[1]))
    tensor[tuple(indices.T)] = coefficients
    counts = [
        family.num_pieces if isinstance(family, PiecewiseLegendre) else 1 for family in families
    ]
    cut = int(np.argmax(counts))
    # The longest of the other axes goes first, as one product of matrices.
    others = sorted((i for i in range(len(families)) if i != cut), key=lambda i: -num_functions[i])
    tensor = np.transpose(tensor, (cut, *others, len(families)))
    out = np.empty((len(orders), len(reference), coefficients.shape[1]))
    family = families[cut]
    for rows, own in _parts(family, reference[:, cut], tensor.shape):
        for number, order in enumerate(orders):
            along, local = factors(cut, rows, order[cut]), tensor
            if isinstance(family, PiecewiseLegendre):
                # The functions of level 0 are constant on the piece: together they make one.
                level_0 = np.tensordot(along[0, : counts[cut]], tensor[: counts[cut]], axes=1)
                local = np.concatenate([level_0[None], tensor[own]])
                along = np.concatenate([np.ones((len(along), 1)), along[:, own]], axis=1)
            rest = [factors(i, rows, order[i]) for i in others]
            out[number, rows] = _contracted(local, along, rest)
    return out


def _parts(
    family: Family, x: Float[np.ndarray, " points"], shape: tuple[int, ...]
) -> Iterator[tuple[Rows, Int[np.ndarray, " functions"]]]:
    """Points of one piece each, few at a time, and the functions that vary on it."""
    if not isinstance(family, PiecewiseLegendre):
        size = _block_rows(shape[0], shape)
        for first in range(0, len(x), size):
            yield slice(first, first + size), np.arange(1, shape[0])
        return
    pieces = family.piece_of(x)
    order, count = np.argsort(pieces, kind="stable"), family.num_pieces
    bounds = np.searchsorted(pieces[order], np.arange(count + 1))
    for piece, (begin, end) in enumerate(itertools.pairwise(bounds)):
        own = np.arange(count + piece, shape[0], count)
        size = _block_rows(len(own) + 1, shape)
        for first in range(begin, end, size):
            yield order[first : min(first + size, end)], own


def _block_rows(num_own: int, shape: tuple[int, ...]) -> int:
    """How many points to take at a time, each with its own functions of the cut axis."""
    return max(1, _BLOCK_BYTES // (8 * max(num_own * math.prod(shape[2:]), shape[0])))


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
