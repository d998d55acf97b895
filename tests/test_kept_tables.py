"""What one solve leaves for the next: the same arrays where they are equal, never a stale one."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pann
from pann import Box, Dirichlet, Problem, make_basis, solve
from pann.basis import PiecewiseLegendre
from pann.pde.collocation import make_block
from pann.pde.placing import place_conditions, place_inside, points_inside
from pann.runtime.cache import BoundedCache

SQUARE = Box(x=(-1, 1), y=(0, 2))
ORDERS = ((2, 0), (0, 2))


def waves(x, y):
    return jnp.sin(2 * x + y)


def slope(x, y):
    return jnp.exp(x / 2) * jnp.cos(y)


def poisson(exact):
    return Problem.manufactured(SQUARE, lambda u: u.xx + u.yy, exact)


def bratu(exact):
    return Problem.manufactured(SQUARE, lambda u: u.xx + u.yy + jnp.exp(u.value), exact)


def inside(problem, degree=5, orders=ORDERS, precision="float64", num_points=8, weight=1.0):
    placed = place_inside(problem, points_inside(problem, num_points), orders)
    placed = dataclasses.replace(placed, weight=weight)
    with jax.enable_x64(True):
        return make_block(placed, problem, make_basis(problem.domain, degree), precision)


# ---- The cache ----


def test_what_is_equal_is_made_once():
    cache, made = BoundedCache(100), []
    for _ in range(3):
        assert cache.get(lambda: "key", 10, lambda: made.append(1) or "value") == "value"
    assert len(made) == 1


def test_those_not_asked_for_the_longest_time_go_first():
    cache, made = BoundedCache(30), []
    for key in "abcadab":
        cache.get(lambda key=key: key, 10, lambda key=key: made.append(key))
    # d takes the place of b, for a had been asked for again; then b that of c.
    assert "".join(made) == "abcdb"
    assert len(cache) == 3


def test_what_is_larger_than_the_bound_is_made_each_time_and_needs_no_key():
    cache, made = BoundedCache(30), []
    for _ in range(2):
        cache.get(lambda: pytest.fail("no key is needed"), 31, lambda: made.append(1))
    assert len(made) == 2
    assert len(cache) == 0


def test_the_bytes_of_keys_count():
    cache, made = BoundedCache(30), []
    for key in (b"a" * 15, b"b" * 15, b"a" * 15):
        cache.get(lambda key=key: ("points", (key, 2)), 10, lambda: made.append(1))
    assert len(made) == 3
    assert len(cache) == 1


# ---- Blocks ----


def test_another_equation_at_the_same_points_has_the_same_tables():
    first, second = inside(poisson(waves)), inside(bratu(slope))
    assert all(a is b for a, b in zip(first.tables, second.tables, strict=True))
    assert first.operator != second.operator


def test_the_values_of_a_condition_are_its_own():
    placed = [place_conditions(poisson(exact), 6)[0] for exact in (waves, slope)]
    basis = make_basis(SQUARE, 5)
    with jax.enable_x64(True):
        blocks = [make_block(each, poisson(waves), basis, "float64") for each in placed]
    assert blocks[0].tables[0] is blocks[1].tables[0]
    for block, exact in zip(blocks, (waves, slope), strict=True):
        expected = exact(*np.asarray(block.coordinates).T)
        np.testing.assert_allclose(block.target[:, 0], expected, rtol=1e-6)


@pytest.mark.parametrize(
    "other",
    [
        {"degree": 6},
        {"orders": ((2, 0), (1, 1))},
        {"num_points": 9},
        {"weight": 3.0},
        {"precision": "float32"},
    ],
    ids=lambda other: next(iter(other)),
)
def test_other_tables_points_or_weights_are_made_anew(other):
    problem = poisson(waves)
    inside(problem)
    block, basis = inside(problem, **other), make_basis(SQUARE, other.get("degree", 5))
    dtype, points = other.get("precision", "float64"), np.asarray(block.coordinates, float)
    assert block.tables[0].dtype == block.weights.dtype == dtype
    for table, order in zip(block.tables, other.get("orders", ORDERS), strict=True):
        # Of polynomials, by NumPy: P_j(x) P_k(y - 1) on this square.
        expected = [
            np.polynomial.legendre.Legendre.basis(j).deriv(order[0])(points[:, 0])
            * np.polynomial.legendre.Legendre.basis(k).deriv(order[1])(points[:, 1] - 1)
            for j, k in basis.indices
        ]
        tolerance = 1e-12 if dtype == "float64" else 1e-4
        np.testing.assert_allclose(table.T, expected, rtol=tolerance, atol=tolerance)
    expected = other.get("weight", 1.0) / np.sqrt(other.get("num_points", 8) ** 2)
    np.testing.assert_allclose(block.weights, expected, rtol=1e-6)


# ---- Programs ----


def test_other_conditions_with_the_same_equation_need_no_other_program():
    residual = lambda u, x, y: u.xx + u.yy - x
    first, second = (
        Problem(SQUARE, residual, [Dirichlet(SQUARE.boundary, value)]) for value in (0.0, 1.0)
    )
    same = Problem(SQUARE, lambda u, x, y: u.xx + u.yy - x, first.conditions)
    other = Problem(SQUARE, lambda u, x, y: u.xx + u.yy - y, first.conditions)
    structures = [jax.tree.structure(inside(each)) for each in (first, second, same, other)]
    assert structures[0] == structures[1] == structures[2] != structures[3]


def test_a_residual_need_not_be_hashable():
    class Equation(list):
        def __call__(self, u, x, y):
            return u.xx + u.yy

    problem = Problem(SQUARE, Equation(), [Dirichlet(SQUARE.boundary, lambda x, y: x * (y - 1))])
    solution = solve(problem, pann.Polynomial(degree=3))
    assert solution(x=0.5, y=2.0) == pytest.approx(0.5, abs=1e-12)


# ---- Solutions ----


@pytest.mark.parametrize("make", [poisson, bratu])
def test_a_second_right_hand_side_gets_its_own_solution(make):
    for exact in (waves, slope, waves):
        assert solve(make(exact), pann.Polynomial(degree=18)).rel_l2 < 1e-11


def test_each_seed_has_its_own_fresh_points_and_the_same_solution():
    problem = poisson(slope)
    first, other, again = (
        solve(problem, pann.Polynomial(degree=8), seed=seed) for seed in (0, 1, 0)
    )
    assert first.residual == again.residual != other.residual
    at = np.linspace(-1, 1, 7)
    np.testing.assert_array_equal(first(x=at, y=at + 1), other(x=at, y=at + 1))


# ---- Several derivatives at once ----


@pytest.mark.parametrize("families", [{}, {"x": PiecewiseLegendre((-0.3, 0.4))}])
@pytest.mark.parametrize("axes", [("x", "y"), ("x",)])
@pytest.mark.parametrize("degree", [3, 90])
def test_derivatives_together_are_those_by_tables(families, axes, degree):
    degree = degree if len(axes) == 1 else min(degree, 14)
    basis = make_basis(SQUARE, degree, families=families, axes=axes)
    rng = np.random.default_rng(0)
    points = SQUARE.from_reference(rng.uniform(-1, 1, (50, 2)))
    b = rng.normal(size=(len(basis), 2)) / (1 + basis.degrees[:, None]) ** 4
    orders = [(0, 0), (1, 0), (0, 1), (2, 0)]
    found = basis.evaluate_each(points, b, orders)
    for values, order in zip(found, orders, strict=True):
        np.testing.assert_allclose(values, basis.table(points, order) @ b, rtol=1e-9, atol=1e-9)
