"""Bases: tables and their derivatives, blocks, pruning, names, memory and refusals."""

import pickle
import tracemalloc

import numpy as np
import pytest
from numpy.polynomial import legendre

from pann.basis import Basis, Legendre, make_basis, tables
from pann.basis import basis as basis_module
from pann.domain import Box
from pann.runtime import memory

BOX = Box(x=(0.0, 3.0), y=(-2.0, -1.0))


def random_points(domain: Box, num_points: int) -> np.ndarray:
    return domain.from_reference(
        np.random.default_rng(0).uniform(-1, 1, (num_points, domain.dimension))
    )


def product_of_columns(basis: Basis, points: np.ndarray, orders: tuple[int, ...]) -> np.ndarray:
    """The table by its definition, one factor after another."""
    reference = basis.domain.to_reference(points)
    out = np.ones((len(points), len(basis)))
    for axis, family in enumerate(basis.families):
        size = int(basis.indices[:, axis].max()) + 1
        columns = family.table(reference[:, axis], size, orders[axis])
        out *= columns[:, basis.indices[:, axis]]
        out *= (2 / basis.domain.widths[axis]) ** orders[axis]
    return out


@pytest.mark.parametrize("orders", [(0, 0), (1, 0), (0, 2), (2, 1), (3, 3)])
def test_mixed_derivatives_match_numpy_polynomial_on_a_shifted_box(orders, rng):
    basis = make_basis(BOX, 6)
    coefficients = rng.normal(size=len(basis))
    dense = np.zeros((7, 7))
    dense[tuple(basis.indices.T)] = coefficients
    for axis, order in enumerate(orders):
        dense = legendre.legder(dense, order, scl=2 / BOX.widths[axis], axis=axis)
    points = random_points(BOX, 50)
    expected = legendre.legval2d(*BOX.to_reference(points).T, dense)
    actual = basis.table(points, orders) @ coefficients
    np.testing.assert_allclose(actual, expected, atol=1e-11 * np.abs(expected).max())


def test_derivatives_of_mixed_families_match_finite_differences():
    domain = Box(x=(0.0, 2 * np.pi), y=(1.0, 4.0), t=(0.0, 2.0), periodic="x")
    basis = make_basis(domain, 4, families={"y": "chebyshev"}, scaling="orthonormal")
    points = random_points(domain, 20)
    for axis in range(3):
        step = np.zeros(3)
        step[axis] = 1e-5
        orders = tuple(int(i == axis) for i in range(3))
        expected = (basis.table(points + step) - basis.table(points - step)) / 2e-5
        np.testing.assert_allclose(basis.table(points, orders), expected, atol=1e-7)


@pytest.mark.parametrize("index_set", ["total_degree", "tensor_product", "hyperbolic_cross"])
@pytest.mark.parametrize("orders", [(0, 0, 0, 0), (1, 0, 0, 2)])
def test_the_product_tree_equals_the_definition(index_set, orders, rng):
    domain = Box(a=(0.0, 1.0), b=(-1.0, 1.0), c=(2.0, 5.0), d=(0.0, 1.0), periodic=("b",))
    basis = make_basis(domain, 4, index_set=index_set)
    pruned = basis.subset(rng.permutation(len(basis))[: len(basis) // 3])
    points = random_points(domain, 40)
    for each in (basis, pruned):
        expected = product_of_columns(each, points, orders)
        np.testing.assert_allclose(each.table(points, orders), expected, rtol=1e-12, atol=1e-12)


def test_blocks_of_any_size_give_the_same_bits(monkeypatch, rng):
    basis = make_basis(BOX, 9)
    points, coefficients = random_points(BOX, 1001), rng.normal(size=(len(basis), 2))
    whole, values = basis.table(points, (1, 0)), basis.evaluate(points, coefficients)
    monkeypatch.setattr(basis_module, "_BLOCK_BYTES", 8 * len(basis) * 77)
    monkeypatch.setattr(tables, "_BLOCK_BYTES", 8 * len(basis) * 5)
    np.testing.assert_array_equal(basis.table(points, (1, 0)), whole)
    np.testing.assert_allclose(basis.evaluate(points, coefficients), values, rtol=1e-13)
    assert len(list(basis.table_blocks(points))) == 14


def test_evaluate_is_table_times_coefficients(rng):
    basis = make_basis(BOX, 7)
    points, coefficients = random_points(BOX, 30), rng.normal(size=len(basis))
    expected = basis.table(points, (0, 2)) @ coefficients
    np.testing.assert_allclose(basis.evaluate(points, coefficients, (0, 2)), expected, rtol=1e-12)


def test_a_basis_that_sees_some_axes_is_constant_along_the_others():
    domain = Box(x=(-1.0, 1.0), t=(0.0, 1.0), time="t")
    basis = make_basis(domain, 5, axes=("x",))
    assert len(basis) == 6
    assert basis.axes == ("x",)
    points = random_points(domain, 10)
    np.testing.assert_array_equal(basis.table(points, (0, 1)), 0.0)
    np.testing.assert_allclose(
        basis.table(points, (1, 0)), Legendre().table(points[:, 0], 6, 1), rtol=1e-12, atol=1e-12
    )


def test_axes_may_be_in_another_order_than_the_domain():
    basis = make_basis(BOX, 3, axes=("y", "x"), weights={"x": 2.0})
    points = random_points(BOX, 5)
    column = basis.term_names().index("P1(y) P4(x)")
    x, y = BOX.to_reference(points).T
    expected = y * Legendre().table(x, 5)[:, 4]
    np.testing.assert_allclose(basis.table(points)[:, column], expected, rtol=1e-12)


def test_periodic_axes_get_fourier_unless_told_otherwise():
    domain = Box(x=(0.0, 1.0), t=(0.0, 1.0), periodic="x")
    assert make_basis(domain, 1).term_names() == ["1", "P1(t)", "cos1(x)", "sin1(x)"]
    assert make_basis(domain, 1, families="chebyshev").term_names() == ["1", "T1(t)", "T1(x)"]
    ends = make_basis(domain, 20).table(np.array([[0.0, 0.3], [1.0, 0.3]]))
    np.testing.assert_array_equal(ends[0], ends[1])


def test_orthonormal_scaling_has_unit_gram_matrix():
    basis = make_basis(BOX, 5, scaling="orthonormal")
    nodes, weights = Legendre().quadrature(6)
    x, y = (grid.ravel() for grid in np.meshgrid(nodes, nodes, indexing="ij"))
    table = basis.table(BOX.from_reference(np.column_stack([x, y])))
    gram = table.T * np.outer(weights, weights).ravel() @ table
    np.testing.assert_allclose(gram, np.eye(len(basis)), atol=1e-12)


def test_subset_names_and_degrees():
    basis = make_basis(BOX, 2)
    assert basis.term_names() == ["1", "P1(y)", "P1(x)", "P2(y)", "P1(x) P1(y)", "P2(x)"]
    np.testing.assert_array_equal(basis.degrees, [0, 1, 1, 2, 2, 2])
    assert basis.subset(basis.degrees == 2).term_names() == ["P2(y)", "P1(x) P1(y)", "P2(x)"]
    assert basis.subset([5, 0]).term_names() == ["P2(x)", "1"]
    empty = basis.subset(np.zeros(6, dtype=bool))
    assert empty.num_terms == 0
    assert empty.table(random_points(BOX, 3)).shape == (3, 0)
    np.testing.assert_array_equal(empty.evaluate(random_points(BOX, 3), np.zeros(0)), np.zeros(3))
    with pytest.raises(ValueError, match="a mask of 5 entries for 6 terms"):
        basis.subset(np.ones(5, dtype=bool))


def test_equality_and_hash_go_by_content():
    first, second = make_basis(BOX, 4), make_basis(Box(x=(0.0, 3.0), y=(-2.0, -1.0)), 4)
    first.table(random_points(BOX, 2))
    assert first == second
    assert hash(first) == hash(second)
    assert pickle.loads(pickle.dumps(first)) == first
    assert first != make_basis(BOX, 3)
    assert first != make_basis(BOX, 4, scaling="orthonormal")
    assert first != make_basis(BOX, 4, families={"x": "chebyshev"})
    with pytest.raises(ValueError, match="read-only"):
        first.indices[0, 0] = 1


def test_peak_memory_is_the_result_and_little_more():
    domain = Box(x=(-1.0, 1.0), y=(-1.0, 1.0))
    basis, points = make_basis(domain, 50), random_points(domain, 16_384)
    tracemalloc.start()
    table = basis.table(points)
    table_peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.reset_peak()
    held = tracemalloc.get_traced_memory()[0]
    basis.evaluate(points, np.ones(len(basis)))
    evaluate_peak = tracemalloc.get_traced_memory()[1] - held
    tracemalloc.stop()
    assert table_peak - table.nbytes < 60e6
    assert evaluate_peak < 60e6 < table.nbytes


def test_a_table_beyond_memory_is_refused(monkeypatch):
    monkeypatch.setattr(memory, "available_memory", lambda: 10_000)
    with pytest.raises(MemoryError, match=r"40,000 points and 66 terms needs .* lower the degree"):
        make_basis(BOX, 10).table(np.zeros((40_000, 2)))


def test_available_memory_is_plausible_or_unknown():
    available = memory.available_memory()
    assert available is None or 2**20 < available < 2**50


@pytest.mark.parametrize(
    ("points", "message"),
    [
        (np.zeros((4, 3)), r"a column for each of the axes x, y; got \(4, 3\)"),
        (
            np.array([[0.0, 0.0], [np.nan, 0.0]]),
            "1 of 2 points have a NaN or infinite coordinate, the first is point 1; remove them",
        ),
        (np.array([[np.inf, 0.0]]), "NaN or infinite coordinate"),
    ],
)
def test_bad_points_are_refused_in_one_sentence(points, message):
    with pytest.raises(ValueError, match=message):
        make_basis(BOX, 2).table(points)


@pytest.mark.parametrize("derivative", [(1,), (1, -2), (1, 0, 0)])
def test_bad_derivatives_are_refused_in_one_sentence(derivative):
    with pytest.raises(ValueError, match="derivative must be 2 whole numbers from 0"):
        make_basis(BOX, 2).table(np.zeros((1, 2)), derivative)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"index_set": "smolyak"}, "'smolyak' is not an index set; use one of total_degree"),
        ({"families": "hermite"}, "'hermite' is not a family"),
        ({"families": {"z": "legendre"}}, "families names 'z', which the basis does not see"),
        ({"weights": {"z": 1.0}}, "weights names 'z'"),
        ({"axes": ("x", "z")}, "'z' is not an axis of this domain; its axes are x, y"),
        ({"axes": ("x", "x")}, "each axis may be named once"),
        ({"axes": ()}, "at least one axis of x, y"),
        ({"scaling": "unit"}, "scaling must be 'plain' or 'orthonormal', got 'unit'"),
    ],
)
def test_bad_options_are_refused_in_one_sentence(options, message):
    with pytest.raises(ValueError, match=message):
        make_basis(BOX, 2, **options)


def test_coefficients_must_match_the_terms():
    with pytest.raises(ValueError, match="5 coefficients for 6 terms"):
        make_basis(BOX, 2).evaluate(np.zeros((1, 2)), np.zeros(5))
