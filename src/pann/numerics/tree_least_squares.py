"""Sparse least squares on a tree: parts with rows of their own, and links that tie a few of them.

Minimizes sum_e |A_e c_e - r_e|^2 + sum_l |sum_e B_le c_e - s_l|^2. Each part e has columns and rows
A_e; a link l has rows in which two or more parts appear. Going up a tree of parts, the columns of a
node in which its open links are zero are eliminated by QR. For elements of a mesh what remains
lies on the border of a node, so that this is nested dissection, with the accuracy of QR.
"""

import dataclasses
import itertools
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import scipy.linalg
from jaxtyping import Float, Int
from threadpoolctl import threadpool_limits

# A pivot below this fraction of the largest one stands for a direction that is free.
FREE = 1e-14

Matrix = Float[np.ndarray, "_rows _columns"]


@dataclasses.dataclass(frozen=True, eq=False)
class Part:
    """Columns with rows of their own, and their columns of each link that they are in."""

    rows: Matrix
    right: Float[np.ndarray, " _rows"]
    links: Mapping[int, Matrix]


@dataclasses.dataclass(frozen=True, eq=False)
class Link:
    """How many parts appear in a link, and its right-hand side."""

    num_parts: int
    right: Float[np.ndarray, " rows"]


@dataclasses.dataclass(frozen=True, eq=False)
class _Node:
    """What is left of a node after its elimination, and what brings back the rest.

    Of its variables v those at `gone` are r00^-1 (right0 - r01 v[kept]).
    """

    gone: Int[np.ndarray, " eliminated"]
    kept: Int[np.ndarray, " remaining"]
    r00: Matrix
    r01: Matrix
    right0: Float[np.ndarray, " eliminated"]
    rows: Matrix
    right: Float[np.ndarray, " rows"]
    links: dict[int, tuple[int, Matrix]]  # open ones: how many parts have come, and their columns

    @property
    def num_remaining(self) -> int:
        return len(self.kept)

    def variables(
        self, remaining: Float[np.ndarray, " remaining"], right0: Float[np.ndarray, " eliminated"]
    ) -> Float[np.ndarray, " variables"]:
        values = np.empty(len(self.gone) + len(self.kept))
        values[self.gone] = _solved(self.r00, right0 - self.r01 @ remaining)
        values[self.kept] = remaining
        return values


@dataclasses.dataclass(frozen=True, eq=False)
class Solved:
    """The columns of each part, and R of all rows J, with R'R = J'J."""

    columns: list[Float[np.ndarray, " _columns"]]
    residual: float
    smallest_pivot: float
    names: list[int]
    merges: Sequence[tuple[int, int, int]]
    nodes: dict[int, _Node] = dataclasses.field(repr=False)

    def normal(
        self, right: Sequence[Float[np.ndarray, " _columns"]]
    ) -> list[Float[np.ndarray, " _columns"]]:
        """The columns c of R'R c = right, part by part."""
        left, right0 = dict(zip(self.names, right, strict=True)), {}
        for low, high, name in [(-1, -1, name) for name in self.names] + [*self.merges]:
            own = left[name] if low < 0 else np.concatenate([left.pop(low), left.pop(high)])
            node = self.nodes[name]
            right0[name] = _solved(node.r00, own[node.gone], transposed=True)
            left[name] = own[node.kept] - right0[name] @ node.r01
        return _down(self.names, self.merges, self.nodes, right0)


def solve(
    parts: Mapping[int, Part],
    links: Mapping[int, Link],
    merges: Sequence[tuple[int, int, int]],
) -> Solved:
    """The least-squares solution; `merges` are pairs of nodes that become a third, in order.

    Parts are numbered as nodes; the last merge has the root. `residual` is the root of the sum of
    squares that is left, `smallest_pivot` that over the largest one.
    """
    nodes: dict[int, _Node] = {}
    names = list(parts)
    leaf = lambda name: _leaf(parts[name], links)
    merge = lambda each: _merged(nodes[each[0]], nodes[each[1]], links)
    threads = _num_threads()
    with threadpool_limits(1, "blas"), ThreadPoolExecutor(threads) as pool:
        nodes.update(zip(names, pool.map(leaf, names), strict=True))
        levels = _levels(merges)
        many = list(itertools.takewhile(lambda level: len(level) >= threads, levels))
        for level in many:
            nodes.update(zip((each[2] for each in level), pool.map(merge, level), strict=True))
    # The last ones are few and large.
    for level in levels[len(many) :]:
        nodes.update((each[2], merge(each)) for each in level)
    pivots = np.concatenate([np.abs(np.diag(node.r00)) for node in nodes.values()])
    return Solved(
        _down(names, merges, nodes, {name: node.right0 for name, node in nodes.items()}),
        float(np.linalg.norm(nodes[merges[-1][2] if merges else names[0]].right)),
        float(np.min(pivots) / max(np.max(pivots), 1e-300)),
        names,
        merges,
        nodes,
    )


def _down(
    names: Sequence[int],
    merges: Sequence[tuple[int, int, int]],
    nodes: Mapping[int, _Node],
    right0: Mapping[int, Float[np.ndarray, " _eliminated"]],
) -> list[Float[np.ndarray, " _columns"]]:
    """The columns of each part, from the root to the parts."""
    root = merges[-1][2] if merges else names[0]
    values = {root: nodes[root].variables(np.zeros(nodes[root].num_remaining), right0[root])}
    for low, high, name in reversed(merges):
        split = nodes[low].num_remaining
        own = values.pop(name)
        values[low] = nodes[low].variables(own[:split], right0[low])
        values[high] = nodes[high].variables(own[split:], right0[high])
    return [values[name] for name in names]


def _levels(merges: Sequence[tuple[int, int, int]]) -> list[list[tuple[int, int, int]]]:
    """The merges in groups, of which each needs only those before it."""
    height: dict[int, int] = {}
    levels: list[list[tuple[int, int, int]]] = []
    for low, high, name in merges:
        own = max(height.get(low, 0), height.get(high, 0))
        height[name] = own + 1
        if own == len(levels):
            levels.append([])
        levels[own].append((low, high, name))
    return levels


def _num_threads() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1


def _leaf(part: Part, links: Mapping[int, Link]) -> _Node:
    return _eliminated(
        part.rows, part.right, {name: (1, own) for name, own in part.links.items()}, links
    )


def _merged(low: _Node, high: _Node, links: Mapping[int, Link]) -> _Node:
    """Two nodes as one: their rows, and the links that both are in."""
    first, second = low.num_remaining, high.num_remaining
    rows = scipy.linalg.block_diag(low.rows, high.rows)
    open_ = {}
    for name in dict.fromkeys([*low.links, *high.links]):
        count, columns = 0, []
        for node, size in ((low, first), (high, second)):
            own, matrix = node.links.get(name, (0, None))
            count += own
            length = len(links[name].right)
            columns.append(np.zeros((length, size)) if matrix is None else matrix)
        open_[name] = count, np.concatenate(columns, axis=1)
    return _eliminated(rows, np.concatenate([low.right, high.right]), open_, links)


def _eliminated(
    rows: Matrix,
    right: Float[np.ndarray, " rows"],
    links: dict[int, tuple[int, Matrix]],
    all_links: Mapping[int, Link],
) -> _Node:
    """Close the links that have all their parts, and eliminate what the others do not see."""
    closed = [name for name, (count, _) in links.items() if count == all_links[name].num_parts]
    if closed:
        rows = np.concatenate([rows, *(links[name][1] for name in closed)])
        right = np.concatenate([right, *(all_links[name].right for name in closed)])
    still_open = {name: each for name, each in links.items() if name not in closed}
    size = rows.shape[1]
    seen = np.zeros(size, bool)
    for _, matrix in still_open.values():
        seen |= np.any(matrix != 0, axis=0)
    gone, kept = np.flatnonzero(~seen), np.flatnonzero(seen)
    count = len(gone)
    r = _triangle(np.concatenate([rows[:, gone], rows[:, kept], right[:, None]], axis=1), count)
    return _Node(
        gone,
        kept,
        r[:count, :count],
        r[:count, count:size],
        r[:count, size],
        r[count:, count:size],
        r[count:, size],
        {name: (parts, matrix[:, kept]) for name, (parts, matrix) in still_open.items()},
    )


def _triangle(matrix: Matrix, at_least: int) -> Matrix:
    """R of a matrix, with so many rows at least."""
    r = np.asarray(np.linalg.qr(matrix, mode="r"))
    missing = at_least - len(r)
    return r if missing <= 0 else np.pad(r, ((0, missing), (0, 0)))


def _solved(
    r: Matrix, right: Float[np.ndarray, " columns"], *, transposed: bool = False
) -> Float[np.ndarray, " columns"]:
    """R^-1 right, or R'^-1 right, with zero along directions that are free."""
    if not len(r):
        return right
    pivots = np.abs(np.diag(r))
    free = pivots <= FREE * np.max(pivots)
    if np.any(free):
        return np.linalg.lstsq(r.T if transposed else r, right, rcond=FREE)[0]
    return scipy.linalg.solve_triangular(r, right, trans=int(transposed), check_finite=False)
