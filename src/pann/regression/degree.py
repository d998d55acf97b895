"""Which polynomials a table of data supports: the degree with the least leave-one-out error."""

import math

import numpy as np
from jaxtyping import Float

from pann.basis import Basis, make_basis, ridge
from pann.domain import Box
from pann.points import subsample

MAX_ROWS = 20_000
# A bound on N m^2: one fit takes about 2 N m^2 operations, a fraction of a second.
MAX_COST = 5e9
# Four copies of a table of doubles exist while it is fitted.
BYTES_PER_ENTRY = 4 * 8


def choose_basis(
    scaled: Float[np.ndarray, "rows columns"],
    target: Float[np.ndarray, "rows outputs"],
    weights: Float[np.ndarray, " rows"],
    *,
    degree: int | None,
    index_set: str | None,
    memory: int,
    rows_at_once: int,
    rows_per_term: int,
    always_linear: bool,
) -> tuple[Basis, int]:
    """The basis of the given degree, or of the degree with the least leave-one-out error.

    The number of terms is bounded by the rows, `rows_per_term` for each, and by the memory for a
    table of `rows_at_once`. `always_linear` lets degree 1 be tried however few the rows are, where
    a penalty makes up for that. Total degree and hyperbolic cross are both tried unless one is
    given. With a degree but no set, the set is total degree, or the hyperbolic cross where total
    degree 2 is beyond these bounds.
    """
    domain = Box.cube(scaled.shape[1])
    chosen = subsample(len(scaled), MAX_ROWS)
    affordable = min(memory / (BYTES_PER_ENTRY * rows_at_once), math.sqrt(MAX_COST / len(chosen)))
    supported = max(len(chosen) / rows_per_term, scaled.shape[1] + 1 if always_linear else 1)
    largest = int(min(affordable, supported))
    if degree is not None:
        degree_2 = math.comb(domain.dimension + 2, 2)
        affordable_set = "total_degree" if degree_2 <= max(largest, 21) else "hyperbolic_cross"
        given_set = index_set or affordable_set
        return _given_basis(domain, degree, given_set, rows_at_once, memory), degree
    rows, values, row_weights = scaled[chosen], target[chosen], weights[chosen]
    index_sets = (index_set,) if index_set else ("total_degree", "hyperbolic_cross")
    best, best_degree, best_error = make_basis(domain, 0, index_set=index_sets[0]), 0, math.inf
    for kind in index_sets:
        for level in _degrees():
            basis = _basis_within(domain, level, kind, largest)
            if basis is None:
                break
            error = ridge(basis.table(rows), values, row_weights).error
            # Errors from N rows are not known better than to about 1 / sqrt(N).
            if error < (1 - 1 / math.sqrt(len(chosen))) * best_error:
                best, best_degree, best_error = basis, level, error
    return best, best_degree


def _given_basis(domain: Box, degree: int, index_set: str, num_rows: int, memory: int) -> Basis:
    """The basis of the user's degree, or an error that says which degree would fit."""
    largest = memory // (BYTES_PER_ENTRY * num_rows)
    basis = _basis_within(domain, degree, index_set, largest)
    if basis is not None:
        return basis
    allowed = 0
    while _basis_within(domain, allowed + 1, index_set, largest) is not None:
        allowed += 1
    raise ValueError(
        f"degree {degree} in {domain.dimension} features gives a table of {num_rows:,} rows whose "
        f"fit needs more than {memory / 2**30:.1g} GiB; use a degree of at most {allowed}, or give "
        "more memory"
    )


def _degrees() -> list[int]:
    """0, 1, 2, ... 8, then steps that grow: 10, 12, 15, 18, 22, ..."""
    degrees = list(range(9))
    while degrees[-1] < 500:
        degrees.append(math.ceil(1.2 * degrees[-1]))
    return degrees


def _basis_within(domain: Box, degree: int, index_set: str, largest: int) -> Basis | None:
    """The basis, or None if it has more terms than allowed; a constant is always allowed."""
    try:
        return make_basis(domain, degree, index_set=index_set, max_terms=max(largest, 1))
    except (ValueError, MemoryError):
        return None
