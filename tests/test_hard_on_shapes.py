"""Hard conditions on shapes: u = lift + bump v meets them to rounding, whatever v is."""

import jax.numpy as jnp
import numpy as np
import pytest

import pann
from pann.pde.hard_on_shapes import series_on_shape
from pann.shapes import Curve, Disk, Ellipse, Polygon, Rectangle

RING = Disk((1.0, 2.0), 1.0) - Disk((1.0, 2.0), 0.3).renamed(disk="hole")
TRIANGLE = Polygon([(0, 0), (2, 0), (0.5, 1)])
PLATE = Rectangle(x=(-1, 1), y=(-1, 1)) - Disk(radius=0.3).renamed(disk="hole")
L_SHAPE = Polygon([(0, 0), (2, 0), (2, 1), (1, 1), (1, 2), (0, 2)])


def poisson(shape, exact, hard_on=None, soft_on=None, **options):
    source = lambda u: u.laplacian
    conditions = [pann.Dirichlet(hard_on or shape.boundary, exact, hard=True)]
    if soft_on is not None:
        conditions.append(pann.Dirichlet(soft_on, exact))
    made = pann.Problem.manufactured(shape, source, exact)
    return pann.Problem(shape, made.residual, conditions, exact=exact, **options)


@pytest.mark.parametrize(
    "shape",
    [Disk((0.5, 0.2), 2.0), Ellipse((1.0, 0.0), (1.0, 0.4), 0.7), RING, TRIANGLE, PLATE],
    ids=["disk", "ellipse", "ring", "triangle", "plate"],
)
def test_hard_values_are_met_by_any_coefficients(shape, tmp_path):
    exact = lambda x, y: jnp.exp(0.5 * x) * jnp.cos(y)
    solution = pann.solve(poisson(shape, exact), pann.Polynomial(degree=14))
    assert solution.rel_l2 < 1e-8
    points = shape.boundary.points(400)[0]
    at = {"x": points[:, 0], "y": points[:, 1]}
    values = np.exp(0.5 * points[:, 0]) * np.cos(points[:, 1])
    # Of coefficients that solve nothing, too.
    wrong = pann.solve(poisson(shape, exact), pann.Polynomial(degree=0))
    for each in (solution, wrong):
        np.testing.assert_allclose(each(**at), values, rtol=0, atol=1e-11)
    assert wrong.rel_l2 > 100 * solution.rel_l2
    solution.save(tmp_path / "hard.pann")
    stored = pann.load(tmp_path / "hard.pann")
    assert np.array_equal(stored(**at), solution(**at))


def test_the_bump_grows_like_the_distance_from_hard_parts():
    problem = poisson(
        PLATE, lambda x, y: x, hard_on=PLATE.boundary["left"] + PLATE.boundary["hole"]
    )
    basis, lift, weights = series_on_shape(problem)
    x = np.array([-1.0, -0.999, -0.3, -0.301, 0.9])
    points = np.column_stack([x, np.zeros(5)])
    bump = basis.evaluate(points, weights)[:, 0]
    formula = (1 + x) * (x**2 - 0.09)
    np.testing.assert_allclose(bump / bump[-1], formula / formula[-1], rtol=0, atol=1e-13)
    np.testing.assert_allclose(basis.evaluate(points, lift)[[0, 2], 0], x[[0, 2]], atol=1e-13)


def test_one_part_is_hard_and_the_others_are_not():
    exact = lambda x, y: jnp.sin(x + 2 * y)
    soft = RING.boundary["disk"]
    problem = poisson(RING, exact, hard_on=RING.boundary["hole"], soft_on=soft)
    solution = pann.solve(problem)
    assert solution.report.resolved
    assert solution.rel_l2 < 1e-9
    x, y = RING.boundary["hole"].points(200)[0].T
    np.testing.assert_allclose(solution(x, y), np.sin(x + 2 * y), rtol=0, atol=1e-11)


@pytest.mark.slow
def test_a_network_meets_hard_values_next_to_a_polynomial():
    exact = lambda x, y: jnp.cos(x - y)
    method = pann.Hybrid(degree=3, network=pann.MLP(width=4), iterations=3)
    solution = pann.solve(poisson(TRIANGLE, exact), method)
    x, y = TRIANGLE.boundary.points(200)[0].T
    np.testing.assert_allclose(solution(x, y), np.cos(x - y), rtol=0, atol=1e-11)


STAR = Curve(lambda t: ((2 + np.cos(3 * t)) * np.cos(t), (2 + np.cos(3 * t)) * np.sin(t)))


@pytest.mark.parametrize(
    "shape, exact, message",
    [
        (L_SHAPE, lambda x, y: x, "part 'e2', where 'u' has a hard condition, goes on into the"),
        (STAR, lambda x, y: x, "is no line and no arc of a circle .* use hard=False"),
        (Disk(), lambda x, y: jnp.abs(x), "not those of a polynomial: .* at .*: use hard=False"),
        (Disk().in_time(t=(0.0, 1.0)), lambda x, y, t: x, "without time; use hard=False"),
    ],
    ids=["corner", "star", "kink", "time"],
)
def test_what_cannot_be_hard_says_so(shape, exact, message):
    with pytest.raises(ValueError, match=message):
        pann.solve(poisson(shape, exact))


def test_other_sides_on_the_line_of_a_hard_part_are_left_free():
    """The line of one foot of a table is that of the other one."""
    table = Rectangle(x=(0, 3), y=(0, 1)) - Rectangle(x=(1, 2), y=(-1, 0.5))
    feet = table.boundary["bottom"]
    one, exact = feet.where(lambda x: x < 1.5), lambda x, y: x * y
    with pytest.raises(ValueError, match="goes on into the shape or along another part"):
        pann.solve(poisson(table, exact, hard_on=one))
    rest = table.boundary["left"] + table.boundary["top"] + table.boundary["right"]
    problem = poisson(table, exact, hard_on=feet, soft_on=rest)
    solution = pann.solve(problem, pann.Polynomial(degree=4))
    assert abs(solution(x=0.4, y=0.0)) < 1e-15
