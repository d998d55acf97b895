"""Sparse least squares on a tree: parts with rows of their own, and links that tie a few of them.

Minimizes sum_e |A_e c_e - r_e|^2 + sum_l |sum_e B_le c_e - s_l|^2. Each part e has columns and rows
A_e; a link l has rows in which two or more parts appear. Going up a tree of parts, columns are
eliminated by QR where the last link that sees them closes. For elements of a mesh what remains lies
on the border of a node, so that this is nested dissection, with the accuracy of QR.

Columns are sorted by where they are eliminated. What is left of two nodes is then one triangle, and
to merge them takes no more than the rows of the links that close.
"""

import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import scipy.linalg
from jaxtyping import Float, Int
from threadpoolctl import threadpool_limits

# A pivot below this fraction of the largest one stands for a direction that is free.
FREE = 1e-14
# Columns that LAPACK takes at a time.
PANEL = 32

Matrix = Float[np.ndarray, "_rows _columns"]
Merge = tuple[int, int, int]


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
    """A node with a triangle for its columns and the right-hand side.

    `order` sorts its variables by `times`, the merges that eliminate them; the first `num_gone` are
    eliminated here. `links` are the columns of those that are open, sorted as well.
    """

    order: Int[np.ndarray, " variables"]
    times: Int[np.ndarray, " variables"]
    num_gone: int
    triangle: Matrix
    links: dict[int, Matrix]

    @property
    def num_remaining(self) -> int:
        return len(self.order) - self.num_gone

    def variables(
        self,
        remaining: Float[np.ndarray, " remaining"],
        right: Float[np.ndarray, " gone"] | None = None,
    ) -> Float[np.ndarray, " variables"]:
        r, gone = self.triangle, self.num_gone
        right = (r[:gone, -1] if right is None else right) - r[:gone, gone:-1] @ remaining
        values = np.empty(len(self.order))
        values[self.order] = np.concatenate([_solved(r[:gone, :gone], right), remaining])
        return values


@dataclasses.dataclass(frozen=True, eq=False)
class Solved:
    """The columns of each part, and the factors for further questions.

    `residual` is the root of the sum of squares that is left, `smallest_pivot` that over the
    largest one.
    """

    columns: list[Float[np.ndarray, " _columns"]]
    residual: float
    smallest_pivot: float
    names: list[int] = dataclasses.field(repr=False)
    merges: Sequence[Merge] = dataclasses.field(repr=False)
    nodes: dict[int, _Node] = dataclasses.field(repr=False)

    def inverse(
        self, columns: Sequence[Float[np.ndarray, " _columns"]]
    ) -> list[Float[np.ndarray, " _columns"]]:
        """(A^T A)^-1 of some columns of each part, A being the matrix of all rows."""
        left, right = dict(zip(self.names, columns, strict=True)), dict[int, np.ndarray]()
        merged = {name: (low, high) for low, high, name in self.merges}
        for name in [*self.names, *merged]:
            node = self.nodes[name]
            own = (
                left.pop(name)
                if name in left
                else np.concatenate([left.pop(child) for child in merged[name]])
            )
            r, gone, own = node.triangle, node.num_gone, own[node.order]
            right[name] = _solved(r[:gone, :gone], own[:gone], trans=1)
            left[name] = own[gone:] - r[:gone, gone:-1].T @ right[name]
        return _back(self.nodes, self.names, self.merges, right)


def solve(
    parts: Mapping[int, Part],
    links: Mapping[int, Link],
    merges: Sequence[Merge],
    check: Callable[[], None] = lambda: None,
) -> Solved:
    """The least-squares solution; `merges` are pairs of nodes that become a third, in order.

    Parts are numbered as nodes; the last merge has the root. What `check` raises before a node is
    eliminated ends the work.
    """
    closing = _closing(parts, links, merges)
    nodes: dict[int, _Node] = {}

    def leaf(name: int) -> None:
        check()
        nodes[name] = _leaf(parts[name], links, closing)

    def merge(time: int) -> None:
        check()
        low, high, name = merges[time]
        nodes[name] = _merged(nodes[low], nodes[high], time, links, closing)

    # Threads of BLAS wait for each other, for long where other work has the processors.
    with threadpool_limits(1, "blas"), ThreadPoolExecutor(_num_threads()) as pool:
        for work, each in [(leaf, list(parts)), *((merge, own) for own in _levels(merges))]:
            list(pool.map(work, each))
    root = merges[-1][2] if merges else next(iter(parts))
    columns = _back(nodes, list(parts), merges)
    pivots = np.concatenate([np.abs(np.diag(n.triangle)[: n.num_gone]) for n in nodes.values()])
    return Solved(
        columns,
        float(np.linalg.norm(nodes[root].triangle[nodes[root].num_gone :, -1])),
        float(np.min(pivots) / max(np.max(pivots), 1e-300)),
        list(parts),
        merges,
        nodes,
    )


def _back(
    nodes: Mapping[int, _Node],
    names: Sequence[int],
    merges: Sequence[Merge],
    right: Mapping[int, Float[np.ndarray, " _gone"]] | None = None,
) -> list[Float[np.ndarray, " _columns"]]:
    """The columns of each part, for the right-hand side of the nodes or another one."""
    values = {(merges[-1][2] if merges else names[0]): np.zeros(0)}
    for low, high, name in [*reversed(merges), *((-1, -1, each) for each in names)]:
        own = nodes[name].variables(values.pop(name), None if right is None else right[name])
        if low < 0:
            values[name] = own
        else:
            split = nodes[low].num_remaining
            values[low], values[high] = own[:split], own[split:]
    return [values[name] for name in names]


def _closing(
    parts: Mapping[int, Part], links: Mapping[int, Link], merges: Sequence[Merge]
) -> dict[int, int]:
    """For each link the number of the merge that brings its last part, -1 if it has only one."""
    closing = {}
    found = {name: dict.fromkeys(part.links, 1) for name, part in parts.items()}
    for own in found.values():
        for link in [each for each in own if links[each].num_parts == 1]:
            closing[link] = -1
            del own[link]
    for time, (low, high, name) in enumerate(merges):
        few, many = sorted((found.pop(low), found.pop(high)), key=len)
        for link, count in few.items():
            many[link] = many.get(link, 0) + count
            if many[link] == links[link].num_parts:
                closing[link] = time
                del many[link]
        found[name] = many
    return closing


def _levels(merges: Sequence[Merge]) -> list[list[int]]:
    """The numbers of merges in groups, of which each needs only those before it."""
    height: dict[int, int] = {}
    levels: list[list[int]] = []
    for time, (low, high, name) in enumerate(merges):
        own = max(height.get(low, 0), height.get(high, 0))
        height[name] = own + 1
        if own == len(levels):
            levels.append([])
        levels[own].append(time)
    return levels


def _num_threads() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1


def _leaf(part: Part, links: Mapping[int, Link], closing: Mapping[int, int]) -> _Node:
    times = np.full(part.rows.shape[1], -1)
    for name, own in part.links.items():
        times[np.any(own != 0, axis=0)] = np.maximum(times[np.any(own != 0, axis=0)], closing[name])
    order = np.argsort(times, kind="stable")
    closed = [name for name in part.links if closing[name] < 0]
    rows = np.concatenate([part.rows, *(part.links[name] for name in closed)])[:, order]
    right = np.concatenate([part.right, *(links[name].right for name in closed)])
    size = rows.shape[1] + 1
    r = np.asarray(np.linalg.qr(np.concatenate([rows, right[:, None]], axis=1), mode="r"))
    r = np.asfortranarray(np.pad(r, ((0, size - len(r)), (0, 0))))
    still_open = {name: own[:, order] for name, own in part.links.items() if closing[name] >= 0}
    return _node(order, times, -1, r, still_open)


def _node(
    order: Int[np.ndarray, " variables"],
    times: Int[np.ndarray, " variables"],
    now: int,
    triangle: Matrix,
    links: dict[int, Matrix],
) -> _Node:
    """A node whose links no longer see what is eliminated now."""
    times = times[order]
    num_gone = int(np.searchsorted(times, now, side="right"))
    return _Node(
        order, times, num_gone, triangle, {name: own[:, num_gone:] for name, own in links.items()}
    )


def _merged(
    low: _Node,
    high: _Node,
    now: int,
    links: Mapping[int, Link],
    closing: Mapping[int, int],
) -> _Node:
    """Two nodes as one: their triangles side by side, and the rows of the links that close."""
    first, second = low.num_remaining, high.num_remaining
    times = np.concatenate([low.times[low.num_gone :], high.times[high.num_gone :]])
    order = np.argsort(times, kind="stable")
    # Both are sorted: their rows in the order of the columns are a triangle again.
    size = first + second
    place = np.empty(size + 1, int)
    place[order], place[size] = np.arange(size), size
    triangle = np.zeros((size + 1, size + 1), order="F")
    for node, at in ((low, place[:first]), (high, place[first:size])):
        at = np.append(at, size)
        own = node.triangle[node.num_gone :, node.num_gone :]
        triangle[np.ix_(at[:-1], at)] = own[:-1]
        triangle[size, size] = np.hypot(triangle[size, size], own[-1, -1])
    open_, rows = dict[int, Matrix](), list[Matrix]()
    for name in dict.fromkeys([*low.links, *high.links]):
        right = links[name].right
        columns = np.zeros((len(right), size + 1))
        for node, at in ((low, place[:first]), (high, place[first:size])):
            if name in node.links:
                columns[:, at] = node.links[name]
        if closing[name] == now:
            columns[:, -1] = right
            rows.append(columns)
        else:
            open_[name] = columns[:, :-1]
    if rows:
        stacked = np.asfortranarray(np.concatenate(rows))
        panel = min(PANEL, size + 1)
        triangle = scipy.linalg.lapack.dtpqrt(0, panel, triangle, stacked, 1, 1)[0]
    return _node(order, times, now, triangle, open_)


def _solved(
    r: Matrix, right: Float[np.ndarray, " columns"], trans: int = 0
) -> Float[np.ndarray, " columns"]:
    """R^-1 right, or that of R transposed, with zero along directions that are free."""
    if not len(r):
        return right
    pivots = np.abs(np.diag(r))
    free = pivots <= FREE * np.max(pivots)
    if np.any(free):
        return np.linalg.lstsq(r.T if trans else r, right, rcond=FREE)[0]
    return scipy.linalg.solve_triangular(r, right, trans=trans, check_finite=False)
