"""Equations that jump, or have a kink, on curves: where that is, and solutions on either side."""

import jax.numpy as jnp
import numpy as np
import pytest

import pann
from pann.basis import ElementBasis, Tree
from pann.pde.checks import checked
from pann.pde.jumps import jump_curves
from pann.solvers.elements.curves import Curves, bounds_of_side, points_on

SQUARE = pann.Box(x=(-1.0, 1.0), y=(-1.0, 1.0))
CENTER, RADIUS = (0.1, -0.2), 0.5


def circle(x, y):
    return (x - CENTER[0]) ** 2 + (y - CENTER[1]) ** 2 - RADIUS**2


def posed(residual, domain=SQUARE, **options):
    return checked(pann.Problem(domain, residual, [pann.Dirichlet(domain.boundary)], **options))


SOURCES = {
    "where": lambda x, y: jnp.where(circle(x, y) < 0, 1.0, 2.0),
    "the other way round": lambda x, y: jnp.where(circle(x, y) >= 0, 1.0, 2.0),
    "sign": lambda x, y: jnp.sign(circle(x, y)),
    "maximum": lambda x, y: jnp.maximum(circle(x, y), 0.0),
    "minimum": lambda x, y: jnp.minimum(x**2, x**2 + circle(x, y)),
    "absolute value": lambda x, y: x * jnp.abs(circle(x, y)),
    "heaviside": lambda x, y: jnp.heaviside(circle(x, y), 0.5),
    "in NumPy": lambda x, y: np.where(circle(x, y) < 0, 1.0, 2.0),
    "twice": lambda x, y: jnp.sign(circle(x, y)) + jnp.where(-3 * circle(x, y) > 0, 1.0, 0.0),
}


@pytest.mark.parametrize("name", SOURCES)
def test_a_curve_is_found_however_it_is_written(name):
    source = SOURCES[name]
    problem = posed(lambda u, x, y: u.laplacian - source(x, y))
    found = jump_curves(problem, SQUARE)
    assert not found.planes
    (level,) = found.functions
    points = np.random.default_rng(0).uniform(-1, 1, (500, 2))
    values, true = level(points), circle(*points.T)
    assert np.all(np.sign(values) == np.sign(true)) or np.all(np.sign(values) == -np.sign(true))


WITHOUT = {
    "smooth": lambda u, x, y: u.laplacian - jnp.tanh(50 * circle(x, y)),
    "compared, but alike on both sides": lambda u, x, y: (
        u.laplacian - jnp.where(circle(x, y) < 0, x, x)
    ),
    "of the solution": lambda u, x, y: u.laplacian - jnp.maximum(u.value, 0.0),
    "outside": lambda u, x, y: u.laplacian - jnp.where(x + y > 5, 1.0, 0.0),
}


@pytest.mark.parametrize("name", WITHOUT)
def test_no_curve_is_found_where_nothing_jumps(name):
    assert not jump_curves(posed(WITHOUT[name]), SQUARE).functions


def test_planes_across_axes_are_cuts():
    problem = posed(lambda u, x, y: u.laplacian - jnp.abs(x - 0.3) - jnp.where(y > 0.1, 1.0, 0.0))
    found = jump_curves(problem, SQUARE)
    assert not found.functions
    assert sorted(found.planes) == [(0, pytest.approx(0.3)), (1, pytest.approx(0.1))]


def divided_square():
    problem = posed(lambda u, x, y: u.laplacian - jnp.where(circle(x, y) < 0, 1.0, 2.0))
    curves = Curves.of(problem, SQUARE)
    tree = Tree.whole(SQUARE.lower, SQUARE.upper, (6, 6)).cut({0: (0, 0.0)})
    return curves.divide(curves.resolving(tree))


def test_each_point_belongs_to_the_element_on_its_side():
    tree = divided_square().tree
    assert len(tree.elements) == 4
    points = np.random.default_rng(1).uniform(-1, 1, (2_000, 2))
    own = tree.locate(points)
    inside = circle(*points.T) < 0
    for element in range(4):
        here = own == element
        assert np.all(tree.is_inside(element, points[here]))
        assert len(np.unique(inside[here])) == 1
        low, high = bounds_of_side(tree, element)
        corner = tree.corners[element]
        reference = 2 * (points[here] - corner[0]) / (corner[1] - corner[0]) - 1
        assert np.all((low <= reference) & (reference <= high))


def test_points_of_a_circle_lie_on_it_with_its_normals():
    tree = divided_square().tree
    for node in np.flatnonzero(tree.axis == 2):
        points, normals, weights = points_on(tree, int(node), 12)
        assert np.allclose(circle(*points.T), 0.0, atol=1e-12)
        outward = (points - CENTER) / RADIUS
        assert np.allclose(np.abs(np.sum(outward * normals, axis=1)), 1.0, atol=1e-10)
        assert np.sum(weights) == pytest.approx(1.0)
        # Of each half of the circle on either side of x = 0, weighted by length.
        angle = np.linspace(0, 2 * np.pi, 20_001)
        arc = np.stack([np.cos(angle), np.sin(angle)], axis=1) * RADIUS + CENTER
        low, high = tree.bounds[node]
        middle = np.mean(arc[np.all((low <= arc) & (arc <= high), axis=1)], axis=0)
        assert np.allclose(weights @ points, middle, atol=0.03)


def solved(problem, exact, count=1, **options):
    solution = pann.solve(problem, pann.Elements(**options), progress=False)
    domain = problem.domain
    points = np.random.default_rng(2).uniform(domain.lower, domain.upper, (2_000, domain.dimension))
    found = solution(*points.T)
    found = found[0] if isinstance(found, tuple) else found
    return solution, np.max(np.abs(found - exact(*points.T)))


def test_a_source_that_jumps_on_an_oblique_line():
    # u = max(s, 0)^2 / 2 with s = x + y / 2 - 0.2.
    exact = lambda x, y: np.maximum(x + y / 2 - 0.2, 0.0) ** 2 / 2
    problem = pann.Problem(
        SQUARE,
        lambda u, x, y: u.laplacian - jnp.where(x + y / 2 > 0.2, 1.25, 0.0),
        [pann.Dirichlet(SQUARE.boundary, exact)],
    )
    solution, error = solved(problem, exact)
    assert error < 1e-11
    assert solution.report.resolved
    assert error <= solution.report.error_estimate
    assert solution.model.num_terms < 1_000


def test_two_curves_that_cross():
    s, r = lambda x, y: x + y / 2 - 0.2, lambda x, y: y - x / 3 + 0.1
    exact = lambda x, y: np.maximum(s(x, y), 0.0) ** 2 + np.maximum(r(x, y), 0.0) ** 2
    problem = pann.Problem(
        SQUARE,
        lambda u, x, y: (
            u.laplacian
            - jnp.where(s(x, y) > 0, 2.5, 0.0)
            - jnp.where(r(x, y) > 0, 2.0 * (1 + 1 / 9), 0.0)
        ),
        [pann.Dirichlet(SQUARE.boundary, exact)],
    )
    solution, error = solved(problem, exact)
    assert error < 1e-8
    assert solution.report.resolved


@pytest.mark.slow
def test_a_coefficient_that_jumps_on_a_circle():
    """div (k grad u) = 4, k = 1 inside and 10 outside: u = r^2 / k, and a constant."""
    k = lambda x, y: jnp.where(circle(x, y) < 0, 1.0, 10.0)
    square = lambda x, y: circle(x, y) + RADIUS**2
    exact = lambda x, y: np.where(
        circle(x, y) < 0, square(x, y), square(x, y) / 10 + RADIUS**2 * 0.9
    )
    problem = pann.Problem(
        SQUARE,
        lambda u, p, q, x, y: (p - k(x, y) * u.x, q - k(x, y) * u.y, p.x + q.y - 4),
        [pann.Dirichlet(SQUARE.boundary, exact, field="u")],
        fields=("u", "p", "q"),
    )
    solution, error = solved(problem, exact, degree=8)
    assert error < 1e-8
    assert solution.report.resolved


def test_a_source_that_moves():
    """u_t - u_xx for u = max(s, 0)^2, s = x - t / 2 + 0.1, on both sides of a line in time."""
    box = pann.Box(x=(-1.0, 1.0), t=(0.0, 1.0), time="t")
    s = lambda x, t: x - t / 2 + 0.1
    exact = lambda x, t: np.maximum(s(x, t), 0.0) ** 2
    problem = pann.Problem(
        box,
        lambda u, x, t: u.t - u.xx + jnp.where(s(x, t) > 0, s(x, t) + 2.0, 0.0),
        [pann.Dirichlet(box.boundary, exact), pann.Initial(lambda x: exact(x, 0.0))],
    )
    solution, error = solved(problem, exact, degree=8)
    assert error < 1e-8
    assert solution.report.resolved


@pytest.mark.slow
def test_a_surface_in_space():
    cube = pann.Box.cube(3)
    s = lambda x, y, z: x + y / 2 - z / 3 - 0.1
    exact = lambda x, y, z: np.maximum(s(x, y, z), 0.0) ** 2
    problem = pann.Problem(
        cube,
        lambda u, x1, x2, x3: (
            u.laplacian - jnp.where(s(x1, x2, x3) > 0, 2 * (1 + 1 / 4 + 1 / 9), 0)
        ),
        [pann.Dirichlet(cube.boundary, lambda x1, x2, x3: exact(x1, x2, x3))],
    )
    solution, error = solved(problem, exact, degree=4)
    assert error < 1e-7
    assert solution.report.resolved


def test_a_file_holds_the_curves(tmp_path):
    tree = divided_square().tree
    basis = ElementBasis(SQUARE, tree)
    exact = lambda x, y: np.maximum(x + y / 2 - 0.2, 0.0) ** 2 / 2
    problem = pann.Problem(
        SQUARE,
        lambda u, x, y: u.laplacian - jnp.where(x + y / 2 > 0.2, 1.25, 0.0),
        [pann.Dirichlet(SQUARE.boundary, exact)],
    )
    solution = pann.solve(problem, pann.Elements(degree=4), progress=False)
    solution.save(tmp_path / "kink.pann")
    loaded = pann.load(tmp_path / "kink.pann")
    x, y = np.random.default_rng(0).uniform(-1, 1, (2, 200))
    assert np.array_equal(loaded(x=x, y=y), solution(x=x, y=y))
    assert basis != ElementBasis(SQUARE, Tree.whole(SQUARE.lower, SQUARE.upper, (6, 6)))


def test_what_conditions_leave_open_next_to_a_curve_is_not_resolved():
    problem = pann.Problem(
        SQUARE,
        lambda u, x, y: u.laplacian - jnp.where(x + y / 2 > 0.2, 1.25, 0.0),
        [pann.Dirichlet(SQUARE.face("x", "lower"))],
    )
    solution = pann.solve(problem, pann.Elements(degree=6), progress=False)
    assert not solution.report.resolved
    assert "conditions are missing" in solution.report.notes[0]
