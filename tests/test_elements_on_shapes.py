"""Elements in shapes: geometry against the shape itself, solutions against formulas."""

import jax.numpy as jnp
import numpy as np
import pytest

import pann
from benchmarks.shape_problems import flows
from benchmarks.shape_problems.galerkin import Flow
from benchmarks.sharp import WithDerivative
from pann import Dirichlet, Elements, Neumann, Problem
from pann.basis import ElementBasis, Tree
from pann.basis.cells import Cells, in_shape
from pann.shapes import Curve, Disk, Polygon, Rectangle

LSHAPE = Polygon([(0, 0), (2, 0), (2, 1), (1, 1), (1, 2), (0, 2)])
HOLE = Rectangle(x=(-1, 1), y=(-1, 1)) - Disk(center=(0.2, 0.1), radius=0.3)
STAR = Curve(
    lambda t: (
        (0.7 + 0.2 * jnp.cos(10 * jnp.pi * t)) * jnp.cos(2 * jnp.pi * t),
        (0.7 + 0.2 * jnp.cos(10 * jnp.pi * t)) * jnp.sin(2 * jnp.pi * t),
    ),
    name="star",
)
TRIANGLE = Polygon([(0, 0), (1.3, 0.2), (0.4, 1.1)])
# A small hole next to a side, and a disk that leaves slivers of 1e-7.
SMALL = Rectangle(x=(-1, 1), y=(-1, 1)) - Disk(center=(-0.97, 0.9), radius=0.012)
SLIVER = Rectangle(x=(-1, 1), y=(-1, 1)) - Disk(radius=1 - 1e-7)
SHAPES = {
    "small": SMALL,
    "sliver": SLIVER,
    "L": LSHAPE,
    "hole": HOLE,
    "disk": Disk(radius=1),
    "star": STAR,
    "triangle": TRIANGLE,
}


def smooth(x, y):
    library = np if isinstance(x, np.ndarray) else jnp
    return library.sin(3 * x + 1) * library.exp(y) * library.cos(2 * x * y)


def points_in(shape, count=2_000):
    drawn = np.random.default_rng(0).uniform(shape.lower, shape.upper, (count, 2))
    return drawn[shape.inside(drawn)]


def tree_in(shape):
    return in_shape(shape, Tree.whole(shape.lower, shape.upper, [4, 4]))


@pytest.mark.parametrize("name", SHAPES)
def test_elements_cover_the_shape_and_nothing_else(name, rng):
    shape = SHAPES[name]
    tree = tree_in(shape)
    cells = Cells(shape, tree)
    points = rng.uniform(shape.lower, shape.upper, (20_000, 2))
    elements = tree.locate(points)
    inside = shape.inside(points)
    assert not np.any(tree.is_void[elements[inside]])
    outside_of_none = tree.is_void | cells.is_cut
    assert np.all(outside_of_none[elements[~inside]])


@pytest.mark.parametrize("name", SHAPES)
def test_pieces_of_the_boundary_are_all_of_it_and_lie_in_their_elements(name):
    shape = SHAPES[name]
    tree = tree_in(shape)
    pieces = Cells(shape, tree).pieces
    length = sum(piece.part.cut(piece.start, piece.stop).measure for piece in pieces)
    assert length == pytest.approx(shape.boundary.length, rel=1e-10)
    for piece in pieces:
        low, high = tree.corners[piece.element]
        points = piece.part.point(piece.parameters)
        assert np.all((low - 1e-9 <= points) & (points <= high + 1e-9))
        assert not tree.is_void[piece.element]


def test_an_l_consists_of_three_boxes_with_the_corner_at_theirs():
    tree = tree_in(LSHAPE)
    boxes = tree.corners[~tree.is_void]
    assert len(boxes) == 3
    assert np.allclose(sorted(np.prod(boxes[:, 1] - boxes[:, 0], axis=1)), 1.0)
    assert not np.any(Cells(LSHAPE, tree).is_cut)


@pytest.mark.parametrize("name", SHAPES)
def test_smooth_solutions_on_shapes(name):
    shape = SHAPES[name]
    problem = Problem.manufactured(shape.box, lambda u: u.laplacian, smooth)
    solution = pann.solve(problem, Elements(), progress=False)
    points = points_in(shape)
    error = np.max(np.abs(solution(*points.T) - smooth(*points.T)))
    assert error < 2e-8
    assert solution.report.resolved
    assert error < solution.report.error_estimate * 10


def test_fluxes_and_values_on_parts_by_name():
    shape = HOLE
    given = {"left": smooth, "right": smooth, "bottom": smooth, "top": smooth}
    x0, y0 = 0.2, 0.1

    def flux(x, y):
        r = jnp.hypot(x - x0, y - y0)
        # d/dn of x^2 y with the normal into the hole.
        return -(2 * x * y * (x - x0) + x**2 * (y - y0)) / r

    sides = shape.boundary[tuple(given)]
    problem = Problem(
        shape.box,
        lambda u, x, y: u.laplacian - u - 2 * y + x**2 * y,
        [Dirichlet(sides, lambda x, y: x**2 * y), Neumann(shape.boundary["disk"], flux)],
    )
    solution = pann.solve(problem, Elements(degree=6), progress=False)
    x, y = points_in(shape).T
    assert np.max(np.abs(solution(x, y) - x**2 * y)) < 1e-10


def test_a_missing_condition_is_no_solution():
    problem = Problem(
        HOLE.box, lambda u: u.laplacian, [Dirichlet(HOLE.boundary["left"], lambda x, y: y)]
    )
    solution = pann.solve(problem, Elements(), progress=False)
    assert not solution.report.resolved
    assert any("conditions are missing" in note for note in solution.report.notes)


def test_outside_is_nan_and_the_boundary_is_not(tmp_path):
    problem = Problem.manufactured(HOLE.box, lambda u: u.laplacian, smooth)
    solution = pann.solve(problem, Elements(degree=8), progress=False)
    points, _, _ = HOLE.boundary.points(400)
    assert np.max(np.abs(solution(*points.T) - smooth(*points.T))) < 1e-4
    assert np.isnan(solution(np.array([0.2]), np.array([0.1])))
    solution.save(tmp_path / "hole.pann")
    again = pann.load(tmp_path / "hole.pann")
    assert isinstance(again.model.basis, ElementBasis)
    x, y = points_in(HOLE).T
    assert np.array_equal(again(x, y), solution(x, y))


def test_elements_grade_toward_a_corner_whose_functions_are_not_known():
    def singular(x, y):
        library = np if isinstance(x, np.ndarray) else jnp
        theta = library.arctan2(y - 1, x - 1)
        theta = library.where(theta > 0.25 * np.pi, theta - 2 * np.pi, theta) + 2 * np.pi
        r = library.hypot(x - 1, y - 1)
        return r ** (2 / 3) * library.sin(2 / 3 * (theta - 0.5 * np.pi))

    problem = Problem(LSHAPE.box, lambda u: u.laplacian, [Dirichlet(LSHAPE.boundary, singular)])
    solution = pann.solve(problem, Elements(tail=1e-5), progress=False)
    x, y = points_in(LSHAPE).T
    error = solution(x, y) - singular(x, y)
    assert np.linalg.norm(error) / np.linalg.norm(singular(x, y)) < 1e-5
    tree = solution.model.basis.tree
    low, high = tree.corners[~tree.is_void].transpose(1, 0, 2)
    at_corner = np.all((low <= 1) & (high >= 1), axis=1)
    assert np.max((high - low)[at_corner]) < 1e-3


@pytest.mark.parametrize(
    ("shape", "says"),
    [(Disk(radius=1).in_time(t=(0.0, 1.0)), "pann.Windows()"), (pann.Ball(radius=1).box, "plane")],
)
def test_what_elements_on_shapes_do_not_have_is_said(shape, says):
    conditions = [Dirichlet(shape.boundary, 0.0)]
    if shape.time is not None:
        conditions.append(pann.Initial(0.0))
    problem = Problem(shape, lambda u: u.laplacian, conditions)
    with pytest.raises(ValueError, match=says):
        pann.solve(problem, Elements(), progress=False)


def test_a_free_constant_is_refused_with_what_to_do():
    problem = Problem(HOLE.box, lambda u: u.laplacian, [Neumann(HOLE.boundary, 0.0)])
    with pytest.raises(ValueError, match=r"a constant is free in u.*pann\.Data"):
        pann.solve(problem, Elements(), progress=False)


# ---- Flows ----

CHANNEL = Rectangle(x=(-0.5, 1), y=(-0.5, 0.5)) - Disk(center=(0.1, 0.05), radius=0.15)


def point_force(x, y):
    """Stokes flow about a force within the hole, and its pressure."""
    x, y = x - 0.1, y - 0.05
    square = x * x + y * y
    return -0.5 * jnp.log(square) + x * x / square, x * y / square, 2 * x / square


def kovasznay(x, y):
    """Kovasznay's flow behind a grid at a Reynolds number of 40 (Proc. Camb. Phil. Soc. 44)."""
    rate = 20 - np.sqrt(400 + 4 * np.pi**2)
    wake = jnp.exp(rate * x)
    u = 1 - wake * jnp.cos(2 * np.pi * y)
    return u, rate / (2 * np.pi) * wake * jnp.sin(2 * np.pi * y), 0.5 * (1 - wake**2)


def flow(exact, nu, convection, at_outflow):
    """Velocities are given but at the outflow; there two fields, as at a wall, or fewer."""
    outflow = CHANNEL.boundary["right"]
    parts = {name: lambda x, y, k=k: exact(x, y)[k] for k, name in enumerate("uvp")}
    given = [(CHANNEL.boundary - outflow, "u"), (CHANNEL.boundary - outflow, "v")]
    given += [(outflow, name) for name in at_outflow]
    return Problem(
        CHANNEL,
        lambda u, v, p: (
            convection * (u * u.x + v * u.y) + p.x - nu * u.laplacian,
            convection * (u * v.x + v * v.y) + p.y - nu * v.laplacian,
            u.x + v.y,
        ),
        [Dirichlet(where, parts[name], name) for where, name in given],
        fields=("u", "v", "p"),
    )


@pytest.mark.parametrize(
    ("exact", "nu", "convection"), [(point_force, 1.0, 0.0), (kovasznay, 1 / 40, 1.0)]
)
def test_flows_around_a_hole(exact, nu, convection):
    solution = pann.solve(
        flow(exact, nu, convection, "vp"), Elements(degree=8, tail=1e-6), progress=False
    )
    points = points_in(CHANNEL)
    for found, true in zip(solution(*points.T), exact(*points.T), strict=True):
        assert np.max(np.abs(found - true)) < 1e-4 * np.max(np.abs(true))
    assert solution.report.resolved


def test_outflow_at_a_pressure_alone_is_no_solution_and_asks_for_conditions():
    """Any velocity along the outflow is a solution of Stokes' equations."""
    solution = pann.solve(
        flow(point_force, 1.0, 0.0, "p"), Elements(degree=8, tail=1e-4), progress=False
    )
    assert not solution.report.resolved
    assert any("conditions are missing" in note for note in solution.report.notes)


def test_the_reference_has_poiseuilles_flow():
    def given(x, y):
        is_wall = (y == 0) | (y == 1)
        return [(is_wall | (x == 0), 4 * y * (1 - y)), (is_wall | (x == 0) | (x == 2), 0 * y)]

    grid = np.array([0.0, 0.5, 2.0]), np.array([0.0, 0.3, 1.0])
    reference = Flow(*grid, lambda x, y: True, 4, 0.1, given).solve()
    x, y = np.random.default_rng(0).uniform((0, 0), (2, 1), (100, 2)).T
    for found, true in zip(reference(x, y), (4 * y * (1 - y), 0 * y, 0.8 * (2 - x)), strict=True):
        np.testing.assert_allclose(found, true, atol=1e-11)


def test_a_flow_past_a_step_is_that_of_spectral_elements():
    solution = pann.solve(flows.backward_step(), Elements(degree=8, tail=1e-4), progress=False)
    points = points_in(flows.STEP)
    reference = flows.solved_step(degree=5, levels=4)
    for found, true in zip(solution(*points.T), reference(*points.T), strict=True):
        error = np.linalg.norm(found - true) / np.linalg.norm(true)
        assert error < solution.report.error_estimate < 0.02


@pytest.mark.slow
def test_forces_on_a_cylinder_are_the_published_ones():
    """DFG benchmark 2D-1 has ten digits of drag, lift and the pressures before and behind."""
    solution = pann.solve(flows.cylinder(), Elements(degree=10, tail=1e-6), progress=False)
    assert flows.forces(WithDerivative(solution))["error"] < 1e-4
    assert solution.report.resolved
