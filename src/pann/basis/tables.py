"""Products of one-dimensional factors: tabulated, or summed up without a table.

A term such as P2(x) P1(y) P3(z) is its prefix P2(x) P1(y) times one more factor. The prefixes of
all terms form a tree; for a downward closed index set its nodes are the terms themselves, so a
table costs one multiplication per entry in any dimension, with NumPy (`multiply_out`) as inside a
compiled program (`multiply_traced`). Factors that are 1 never take part.

Where nearly all products of the functions of the axes are terms, a sum over them contracts one axis
after the other (`evaluate_by_axis`), and there is no table at all.
"""

import dataclasses
import math
from collections.abc import Callable, Sequence

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from pann.basis.families import Family, Legendre
from pann.basis.piecewise import PiecewiseLegendre

# Blocks of about 1 MiB stay in a core's cache between the gathers.
_BLOCK_BYTES = 2**20
_ONE, _ZERO = 0, 1


@dataclasses.dataclass(frozen=True)
class Depth:
    """All prefixes of one length: node `first + i` is node `parents[i]` times a factor."""

    first: int
    parents: Int[np.ndarray, " nodes"]
    factors: Int[np.ndarray, " nodes"]


@dataclasses.dataclass(frozen=True)
class ProductTree:
    """The prefixes of all terms by length, and the node at which each term ends."""

    depths: tuple[Depth, ...]
    term_nodes: Int[np.ndarray, " terms"]
    num_nodes: int


def build_tree(indices: Int[np.ndarray, "terms axes"], num_functions: Sequence[int]) -> ProductTree:
    """The tree of a set of function indices; factors are numbered through all axes in turn."""
    num_factors = int(sum(num_functions))
    offsets = np.cumsum([0, *num_functions])[:-1]
    # Each term's factors in the order of the axes, the constants pushed to the end.
    axis_order = np.argsort(indices == 0, axis=1, kind="stable")
    factors = np.take_along_axis(indices, axis_order, axis=1) + offsets[axis_order]
    lengths = np.count_nonzero(indices, axis=1)

    nodes = np.full(len(indices), _ONE)
    num_nodes = 2
    depths = []
    for depth in range(lengths.max(initial=0)):
        longer = np.flatnonzero(lengths > depth)
        keys, inverse = np.unique(
            nodes[longer] * num_factors + factors[longer, depth], return_inverse=True
        )
        depths.append(Depth(num_nodes, keys // num_factors, keys % num_factors))
        nodes[longer] = num_nodes + inverse
        num_nodes += len(keys)
    return ProductTree(tuple(depths), nodes, num_nodes)


def multiply_out(
    tree: ProductTree,
    factors: Float[np.ndarray, "points factors"],
    is_zero: Bool[np.ndarray, " terms"],
    out: Float[np.ndarray, "points terms"],
) -> None:
    """Fill `out` with each term's product of factor columns; terms marked `is_zero` get 0."""
    term_nodes = np.where(is_zero, _ZERO, tree.term_nodes)
    num_rows = max(1, min(_BLOCK_BYTES // (8 * tree.num_nodes), len(factors)))
    products = np.empty((num_rows, tree.num_nodes))
    products[:, _ONE], products[:, _ZERO] = 1.0, 0.0
    widest = max((len(depth.parents) for depth in tree.depths), default=0)
    left, right = np.empty(num_rows * widest), np.empty(num_rows * widest)
    for start in range(0, len(factors), num_rows):
        block = factors[start : start + num_rows]
        known = products[: len(block)]
        for depth in tree.depths:
            shape = (len(block), len(depth.parents))
            size = shape[0] * shape[1]
            # mode="clip" writes straight into `out`; the default would fill a copy first.
            parents = np.take(
                known, depth.parents, axis=1, out=left[:size].reshape(shape), mode="clip"
            )
            last = np.take(
                block, depth.factors, axis=1, out=right[:size].reshape(shape), mode="clip"
            )
            np.multiply(parents, last, out=known[:, depth.first : depth.first + shape[1]])
        np.take(known, term_nodes, axis=1, out=out[start : start + num_rows], mode="clip")


def multiply_traced(
    tree: ProductTree, factors: Float[Array, "factors points"], is_zero: Bool[np.ndarray, " terms"]
) -> Float[Array, "terms points"]:
    """The same in JAX, with a row instead of a column for each factor and term."""
    one = jnp.ones_like(factors, shape=(1, factors.shape[1]))
    known = jnp.concatenate([one, 0 * one])
    for depth in tree.depths:
        known = jnp.concatenate([known, known[depth.parents] * factors[depth.factors]])
    return known[np.where(is_zero, _ZERO, tree.term_nodes)]


# ---- Sums without a table ----


_SUM_BLOCK_BYTES = 32 * 2**20


def evaluate_by_axis(
    families: Sequence[Family],
    indices: Int[np.ndarray, "terms axes"],
    num_functions: Sequence[int],
    coefficients: Float[np.ndarray, "terms outputs"],
    reference: Float[np.ndarray, "points axes"],
    factors: Callable[[int, Int[np.ndarray, " rows"]], Float[np.ndarray, "rows functions"]],
    local_factors: Callable[[int], "LocalFactors | None"] = lambda axis: None,
) -> Float[np.ndarray, "points outputs"]:
    """sum_k b_k prod_i f_{k_i}(x_i), for points of one piece of an axis at a time.

    `factors` are the functions of an axis, by its number, at some of the points: the values or any
    derivative. `local_factors` are those of an axis with pieces, of which few are not zero.
    """
    tensor = np.zeros((*num_functions, coefficients.shape[1]))
    tensor[tuple(indices.T)] = coefficients
    counts = [
        family.num_pieces if isinstance(family, PiecewiseLegendre) else 1 for family in families
    ]
    cut = int(np.argmax(counts))
    # The longest of the other axes goes first, as one product of matrices.
    others = sorted((i for i in range(len(families)) if i != cut), key=lambda i: -num_functions[i])
    tensor = np.transpose(tensor, (cut, *others, len(families)))
    local_ones = {i: found for i in others if (found := local_factors(i)) is not None}
    for i, found in local_ones.items():
        tensor = found.to_pieces(tensor, 1 + others.index(i))
    out = np.empty((len(reference), coefficients.shape[1]))
    family, count = families[cut], counts[cut]
    pieces = np.zeros(len(reference), int)
    if isinstance(family, PiecewiseLegendre):
        pieces = family.piece_of(reference[:, cut])
    order = np.argsort(pieces, kind="stable")
    starts = np.searchsorted(pieces[order], np.arange(1, count))
    for piece, members in enumerate(np.split(order, starts)):
        # The functions that vary on the piece, and how many points to take at a time.
        own = np.arange(count + piece, len(tensor), count)
        seen = [
            size // (local_ones[i].num_pieces if i in local_ones else 1)
            for i, size in zip(others, tensor.shape[1:-1], strict=True)
        ]
        seen = seen if local_ones else seen[1:]
        widest = max((len(own) + 1) * math.prod((*seen, tensor.shape[-1])), len(tensor))
        size = max(1, _SUM_BLOCK_BYTES // (8 * widest))
        for first in range(0, len(members), size):
            rows = members[first : first + size]
            along = factors(cut, rows)
            # The functions of level 0 are constant on the piece: together they make one.
            level_0 = np.tensordot(along[0, :count], tensor[:count], axes=1)
            local = np.concatenate([level_0[None], tensor[own]])
            along = np.concatenate([np.ones((len(along), 1)), along[:, own]], axis=1)
            if not local_ones:
                out[rows] = _contracted(local, along, [factors(i, rows) for i in others])
                continue
            each = [local_ones[i].at(rows) if i in local_ones else factors(i, rows) for i in others]
            out[rows] = _gathered(local, along, each)
    return out


@dataclasses.dataclass(frozen=True)
class LocalFactors:
    """The functions of an axis with pieces, as multiples of Legendre polynomials on each piece.

    `scales` multiply the functions, `table` has a derivative of the polynomials at the points.
    """

    family: PiecewiseLegendre
    scales: Float[np.ndarray, " functions"]
    pieces: Int[np.ndarray, " points"]
    table: Float[np.ndarray, "points levels"]

    @property
    def num_pieces(self) -> int:
        return self.family.num_pieces

    def to_pieces(self, tensor: np.ndarray, axis: int) -> np.ndarray:
        """Coefficients of the polynomials: level by level those of all pieces."""
        moved = np.moveaxis(tensor, axis, -1) * self.scales
        whole = np.zeros((*moved.shape[:-1], self.table.shape[1] * self.num_pieces))
        whole[..., : moved.shape[-1]] = moved
        steps = self.family.steps
        whole[..., : self.num_pieces] = whole[..., : self.num_pieces] @ steps.T
        return np.moveaxis(whole, -1, axis)

    def at(self, rows: Int[np.ndarray, " rows"]) -> tuple[np.ndarray, np.ndarray, int]:
        return self.pieces[rows], self.table[rows], self.num_pieces


def local_factors(
    family: PiecewiseLegendre,
    scales: Float[np.ndarray, " functions"],
    reference: Float[np.ndarray, " points"],
    order: int,
) -> LocalFactors:
    """Factors of a derivative by the reference coordinate; `scales` multiply the functions."""
    pieces, local, stretch = family.local(reference)
    num_levels = -(-len(scales) // family.num_pieces)
    table = Legendre().table(local, num_levels, order) * stretch[:, None] ** order
    return LocalFactors(family, scales, pieces, table)


def _gathered(
    tensor: Float[np.ndarray, "functions ..."],
    along: Float[np.ndarray, "rows functions"],
    others: list[np.ndarray | tuple[np.ndarray, np.ndarray, int]],
) -> Float[np.ndarray, "rows outputs"]:
    """As `_contracted`, where some axes have for each point only the functions of its piece."""
    shape, factors = [len(tensor)], [along]
    index: list[slice | np.ndarray] = [slice(None)]
    for size, other in zip(tensor.shape[1:-1], others, strict=True):
        if isinstance(other, tuple):
            pieces, table, count = other
            shape, index = [*shape, size // count, count], [*index, slice(None), pieces]
            factors.append(table)
        else:
            shape, index = [*shape, size], [*index, slice(None)]
            factors.append(other)
    # The points come first only where pieces are not next to each other: put them there.
    gathered = tensor.reshape(*shape, tensor.shape[-1])[tuple(index)]
    tuples = [number for number, other in enumerate(others) if isinstance(other, tuple)]
    if len(tuples) == 1:
        gathered = np.moveaxis(gathered, 2 + tuples[0], 0)
    for factor in factors:
        gathered = np.einsum("ra...,ra->r...", gathered, factor)
    return gathered


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
