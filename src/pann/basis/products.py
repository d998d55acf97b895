"""Products of one-dimensional factors, each prefix multiplied once.

A term such as P2(x) P1(y) P3(z) is its prefix P2(x) P1(y) times one more factor. The prefixes of
all terms form a tree; for a downward closed index set its nodes are the terms themselves, so a
table costs one multiplication per entry in any dimension. Factors that are 1 never take part.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float, Int

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

    @property
    def block_rows(self) -> int:
        """How many points to treat at a time."""
        return max(1, _BLOCK_BYTES // (8 * self.num_nodes))


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
    num_rows = min(tree.block_rows, len(factors))
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
