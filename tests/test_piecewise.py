"""Legendre polynomials piece by piece against numpy's, and their orthogonality by fine rules."""

import numpy as np
import pytest
from numpy.polynomial import legendre

from pann.basis import Legendre, PiecewiseLegendre, make_basis, project
from pann.domain import Box

BREAKS = (-0.7, -0.1, 0.4)
EDGES = np.array([-1.0, *BREAKS, 1.0])
FAMILY = PiecewiseLegendre(BREAKS)
POINTS = np.random.default_rng(2).uniform(-1, 1, 60)
VARIANTS = [PiecewiseLegendre(()), PiecewiseLegendre((0.0,)), FAMILY]


def fine_rule():
    """Uniform measure, exact on each piece for degree 79: numpy's nodes, and nothing of pann."""
    nodes, weights = legendre.leggauss(40)
    widths = np.diff(EDGES)
    at = EDGES[:-1, None] + 0.5 * widths[:, None] * (nodes + 1)
    return at.ravel(), (0.25 * widths[:, None] * weights).ravel()


@pytest.mark.parametrize("order", range(5))
def test_each_piece_has_its_own_legendre_polynomials(order):
    table = FAMILY.table(POINTS, 4 * 9, order)
    for piece in range(4):
        left, right = EDGES[piece], EDGES[piece + 1]
        inside = (left <= POINTS) & (right > POINTS)
        local = (2 * POINTS - left - right) / (right - left)
        for level in range(1, 9):
            series = legendre.Legendre.basis(level, domain=[left, right])
            expected = np.where(inside, series.deriv(order)(POINTS) if order else series(POINTS), 0)
            scale = np.max(np.abs(expected)) + 1e-300
            error = np.abs(table[:, 4 * level + piece] - expected) / scale
            assert np.max(error) < 1e-12
            if order == 0:  # the series' own coordinate is the local one
                np.testing.assert_allclose(
                    expected[inside], legendre.legval(local[inside], np.eye(9)[level]), atol=1e-12
                )


def test_level_zero_is_the_constant_and_steps_that_rise_by_one_at_their_break():
    table = FAMILY.table(POINTS, 4)
    np.testing.assert_array_equal(table[:, 0], 1.0)
    for number, place in enumerate(BREAKS, 1):
        before, after = FAMILY.table(np.array([np.nextafter(place, -2), place]), 4)[:, number]
        assert after - before == pytest.approx(1.0, abs=1e-15)
    np.testing.assert_array_equal(FAMILY.table(POINTS, 4, 1), 0.0)
    assert np.linalg.matrix_rank(table) == 4


def test_a_break_belongs_to_the_piece_on_its_right():
    at, right = FAMILY.table(np.array([0.4, np.nextafter(0.4, 1)]), 12)
    np.testing.assert_allclose(at, right, atol=1e-14)
    assert at[7] == -1.0  # P1 of the last piece at its left end
    assert at[6] == 0.0


def test_functions_over_their_norms_are_orthonormal():
    nodes, weights = fine_rule()
    functions = FAMILY.table(nodes, 41) / FAMILY.norms(41)
    np.testing.assert_allclose(functions.T * weights @ functions, np.eye(41), atol=1e-12)


@pytest.mark.parametrize("family", VARIANTS)
@pytest.mark.parametrize("num_nodes", [1, 2, 3, 4, 9, 41])
def test_quadrature_integrates_as_many_functions_as_it_has_nodes(family, num_nodes):
    nodes, weights = family.quadrature(num_nodes)
    assert nodes.shape == (num_nodes,)
    assert weights.sum() == pytest.approx(1.0, abs=1e-14)
    assert np.all(np.diff(nodes) > 0)
    functions = family.table(nodes, num_nodes) / family.norms(num_nodes)
    np.testing.assert_allclose(functions.T * weights @ functions, np.eye(num_nodes), atol=1e-12)


def test_levels_counts_and_names_agree():
    levels = FAMILY.levels(30)
    for level in range(7):
        assert FAMILY.num_functions(level) == np.count_nonzero(levels <= level)
    names = [FAMILY.name(index, "x") for index in (0, 1, 3, 4, 10)]
    assert names == ["", "step1(x)", "step3(x)", "P1[1](x)", "P2[3](x)"]
    assert FAMILY.table(POINTS, 0).shape == (60, 0)
    assert FAMILY.norms(2).shape == (2,)


def test_without_breaks_it_is_legendre():
    alone = PiecewiseLegendre(())
    np.testing.assert_array_equal(alone.table(POINTS, 9, 2), Legendre().table(POINTS, 9, 2))
    np.testing.assert_allclose(alone.norms(9), Legendre().norms(9), rtol=1e-15)


def test_families_compare_by_their_breaks():
    assert PiecewiseLegendre((0.0, 0.5)) == PiecewiseLegendre((0.0, 0.5))
    assert PiecewiseLegendre((0.0, 0.5)) != PiecewiseLegendre((0.5,))
    assert hash(PiecewiseLegendre((0.5,))) == hash(PiecewiseLegendre((0.5,)))


@pytest.mark.parametrize(
    "breaks", [(0.5, 0.5), (0.5, 0.1), (-1.0,), (1.0,), (2.0,), (np.nan,), (0.1, 0.1 + 1e-12)]
)
def test_breaks_that_do_not_increase_inside_are_refused(breaks):
    with pytest.raises(ValueError, match="breaks must increase from -1 to 1 by at least 1e-09"):
        PiecewiseLegendre(breaks)


def test_a_negative_derivative_or_no_node_is_refused():
    with pytest.raises(ValueError, match="derivative must be at least 0, got -1"):
        FAMILY.table(POINTS, 3, -1)
    with pytest.raises(ValueError, match="at least 1 node, got 0"):
        FAMILY.quadrature(0)


def test_a_basis_of_pieces_projects_a_function_with_jumps_exactly():
    """Along y it is smooth; x breaks at 0.5 in a box that is not the reference one."""
    domain = Box(x=(0, 2), y=(1, 4))
    basis = make_basis(domain, 5, families={"x": PiecewiseLegendre((-0.5,))})
    assert basis.num_terms == 2 * 21
    function = lambda x, y: np.where(x < 0.5, x**3 * y, 2 - x * y**2)
    coefficients = project(basis, function, (14, 8))
    points = np.random.default_rng(0).uniform([0, 1], [2, 4], (200, 2))
    np.testing.assert_allclose(
        basis.evaluate(points, coefficients), function(*points.T), atol=1e-12
    )
    slope = np.where(points[:, 0] < 0.5, 3 * points[:, 0] ** 2 * points[:, 1], -(points[:, 1] ** 2))
    np.testing.assert_allclose(basis.evaluate(points, coefficients, (1, 0)), slope, atol=1e-11)
