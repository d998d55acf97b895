"""Which products of one-dimensional functions a basis holds: one enumerator, three costs.

A product is a row of function indices, one per axis. Its cost is built up axis by axis from the
levels (degree or frequency) and never falls, so partial rows that are too expensive are dropped
early, and a set that grows beyond its limit is refused before it is built.
"""

import dataclasses
import functools
from collections.abc import Sequence
from typing import final

import numpy as np
from jaxtyping import Int

from pann.basis.families import Family

MAX_TERMS = 200_000
# 21/1.4 gives 15.000000000000002, and 25*1.16 gives 28.999999999999996.
_ROUNDING = 1e-9


@final
@dataclasses.dataclass(frozen=True)
class IndexSet:
    """Indices whose cost, level_i / w_i + offset joined over the axes, is at most degree + offset.

    Called with the families of the axes, it gives a row for each product, ordered by total level.
    """

    name: str
    join: np.ufunc
    offset: float = 0.0

    def __call__(
        self,
        families: Sequence[Family],
        degree: int,
        *,
        weights: Sequence[float] | None = None,
        max_terms: int = MAX_TERMS,
    ) -> Int[np.ndarray, "terms axes"]:
        _check(families, degree, weights)
        each = (1.0,) * len(families) if weights is None else tuple(weights)
        return _enumerated(self, tuple(families), degree, each, max_terms).copy()


# The three sets of the paper, section 2.2: sum_i level_i / w_i <= degree, max_i level_i / w_i <=
# degree, and prod_i (level_i / w_i + 1) <= degree + 1.
total_degree = IndexSet("total_degree", np.add)
tensor_product = IndexSet("tensor_product", np.maximum)
hyperbolic_cross = IndexSet("hyperbolic_cross", np.multiply, offset=1.0)
INDEX_SETS = {each.name: each for each in (total_degree, tensor_product, hyperbolic_cross)}


@functools.lru_cache(maxsize=8)
def _enumerated(
    index_set: IndexSet,
    families: tuple[Family, ...],
    degree: int,
    weights: tuple[float, ...],
    max_terms: int,
) -> Int[np.ndarray, "terms axes"]:
    """Extend every row by every function that its cost still allows, one axis after another."""
    join, offset = index_set.join, index_set.offset
    limit = (degree + offset) * (1.0 + _ROUNDING) + _ROUNDING
    rows = np.zeros((1, 0), dtype=np.int64)
    costs = np.full(1, offset)
    total_levels = np.zeros(1, dtype=np.int64)
    for family, weight in zip(families, weights, strict=True):
        num_functions = family.num_functions(int(degree * weight * (1.0 + _ROUNDING) + _ROUNDING))
        if num_functions > max_terms:
            raise _too_many(index_set.name, degree, len(families), max_terms)
        levels = family.levels(num_functions)
        # Rows of equal cost allow the same functions: ask once for each distinct cost.
        distinct, which = np.unique(costs, return_inverse=True)
        joined = join(distinct[:, None], levels / weight + offset)
        num_allowed = np.count_nonzero(joined <= limit, axis=1)[which]
        if num_allowed.sum() > max_terms:
            raise _too_many(index_set.name, degree, len(families), max_terms)
        parents = np.repeat(np.arange(len(rows)), num_allowed)
        starts = np.cumsum(num_allowed) - num_allowed
        functions = np.arange(len(parents)) - starts[parents]
        rows = np.column_stack([rows[parents], functions])
        costs = joined[which[parents], functions]
        total_levels = total_levels[parents] + levels[functions]
    order = np.lexsort((*rows.T[::-1], total_levels))
    return rows[order]


def _check(families: Sequence[Family], degree: int, weights: Sequence[float] | None) -> None:
    if not families:
        raise ValueError("an index set needs at least one family; give one for each axis")
    if degree < 0:
        raise ValueError(f"degree must be at least 0, got {degree}; use degree=0 for a constant")
    if weights is None:
        return
    if len(weights) != len(families):
        raise ValueError(f"{len(weights)} weights for {len(families)} axes; give one for each axis")
    if not all(np.isfinite(weight) and weight > 0 for weight in weights):
        raise ValueError(f"weights must be positive and finite, got {list(weights)}")


def _too_many(index_set: str, degree: int, dimension: int, max_terms: int) -> ValueError:
    other = "" if index_set == "hyperbolic_cross" else "use index_set='hyperbolic_cross', "
    return ValueError(
        f"the {index_set} set of degree {degree} in {dimension} dimensions has more than "
        f"{max_terms:,} terms; lower the degree, {other}or raise max_terms"
    )
