"""Index sets: the paper's counts, brute force, downward closedness, order and refusal."""

import itertools
import math

import numpy as np
import pytest

from pann.basis import Chebyshev, Fourier, Legendre, hyperbolic_cross, tensor_product, total_degree

SETS = [total_degree, tensor_product, hyperbolic_cross]
COSTS = {
    total_degree: (sum, 0),
    tensor_product: (max, 0),
    hyperbolic_cross: (lambda quotients: math.prod(q + 1 for q in quotients), 1),
}


@pytest.mark.parametrize(
    ("index_set", "counts"),
    [
        (tensor_product, (9, 81, 729, 6561, 59049)),
        (total_degree, (9, 45, 165, 495, 1287)),
        (hyperbolic_cross, (9, 23, 44, 73, 111)),
    ],
)
def test_counts_of_the_paper_at_degree_8(index_set, counts):
    """Paper, figure of the index sets; 729 where it misprints 792."""
    sizes = tuple(len(index_set([Legendre()] * d, 8)) for d in range(1, 6))
    assert sizes == counts


@pytest.mark.parametrize("index_set", SETS)
@pytest.mark.parametrize("weights", [None, (1.0, 2.0, 0.5), (0.3, 1.0, 1.7)])
@pytest.mark.parametrize("degree", [0, 1, 5, 10])
def test_brute_force_finds_the_same_set(index_set, weights, degree):
    families = [Legendre(), Fourier(), Chebyshev()]
    cost, offset = COSTS[index_set]
    expected = set()
    for row in itertools.product(range(18), range(41), range(18)):
        levels = (row[0], (row[1] + 1) // 2, row[2])
        quotients = [q / w for q, w in zip(levels, weights or (1, 1, 1), strict=True)]
        if cost(quotients) <= degree + offset + 1e-6:
            expected.add(row)
    rows = index_set(families, degree, weights=weights)
    assert {tuple(row) for row in rows.tolist()} == expected
    assert len(rows) == len(expected)


@pytest.mark.parametrize("index_set", SETS)
@pytest.mark.parametrize("weights", [None, (1.0, 0.4, 2.5)])
def test_sets_are_downward_closed(index_set, weights):
    rows = {tuple(row) for row in index_set([Legendre()] * 3, 7, weights=weights).tolist()}
    for row in rows:
        for axis in range(3):
            below = list(row)
            below[axis] = max(below[axis] - 1, 0)
            assert tuple(below) in rows


@pytest.mark.parametrize("weight, degree, last", [(1.4, 15, 21), (1.16, 25, 29)])
@pytest.mark.parametrize("index_set", SETS)
def test_rounding_does_not_lose_the_last_level(index_set, weight, degree, last):
    """21/1.4 is 15.000000000000002 in floating point, and 25*1.16 is 28.999999999999996."""
    assert index_set([Legendre()], degree, weights=[weight]).max() == last


def test_order_is_by_total_level_then_lexicographic():
    rows = total_degree([Legendre(), Legendre()], 2).tolist()
    assert rows == [[0, 0], [0, 1], [1, 0], [0, 2], [1, 1], [2, 0]]
    rows = total_degree([Fourier(), Legendre()], 2)
    keys = [((row[0] + 1) // 2 + row[1], *row) for row in rows.tolist()]
    assert keys == sorted(keys)


def test_fourier_axes_hold_cosine_and_sine_of_each_frequency():
    rows = total_degree([Fourier(), Legendre()], 1).tolist()
    assert rows == [[0, 0], [0, 1], [1, 0], [2, 0]]
    assert len(tensor_product([Fourier()] * 2, 3)) == 49


@pytest.mark.parametrize("index_set", [total_degree, tensor_product])
def test_a_huge_set_is_refused_at_once(index_set):
    with pytest.raises(ValueError, match=r"degree 8 in 100 dimensions has more than 200,000 terms"):
        index_set([Legendre()] * 100, 8)
    with pytest.raises(ValueError, match="use index_set='hyperbolic_cross', or raise max_terms"):
        index_set([Legendre()], 10**12)


def test_the_limit_counts_exactly():
    assert len(total_degree([Legendre()] * 3, 8, max_terms=165)) == 165
    with pytest.raises(ValueError, match="more than 164 terms"):
        total_degree([Legendre()] * 3, 8, max_terms=164)


def test_bad_arguments_are_refused_in_one_sentence():
    with pytest.raises(ValueError, match="degree must be at least 0, got -1"):
        total_degree([Legendre()], -1)
    with pytest.raises(ValueError, match="1 weights for 2 axes"):
        total_degree([Legendre()] * 2, 3, weights=[1.0])
    with pytest.raises(ValueError, match="weights must be positive"):
        total_degree([Legendre()] * 2, 3, weights=[1.0, 0.0])
    with pytest.raises(ValueError, match="at least one family"):
        total_degree([], 3)


def test_degree_zero_is_the_constant():
    for index_set in SETS:
        np.testing.assert_array_equal(index_set([Legendre(), Fourier()], 0), [[0, 0]])
