"""Bases of shapes, functions of holes and corners, and solutions against formulas."""

import itertools
import logging
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pann
from benchmarks.shape_problems import PROBLEMS
from benchmarks.shape_problems.harmonic import Laplace
from pann.basis import ShapeBasis, Singular
from pann.basis.singular import (
    CUT_SHORT,
    CUT_SHORT_LOGARITHM,
    LOG_RADIUS,
    LOGARITHM,
    PLAIN,
)
from pann.pde.checks import checked
from pann.points import graded, sobol, uniform
from pann.shapes import Ball, Disk, Ellipse, Polygon, Rectangle
from pann.solvers.newton import Unknowns, full_step
from pann.solvers.setup import Setup
from pann.solvers.shape_rows import ShapeRows
from pann.solvers.shapes import corners_of, is_laplacian

RING = Disk(radius=1) - Disk(radius=0.3)
LSHAPE = Polygon([(0, 0), (2, 0), (2, 1), (1, 1), (1, 2), (0, 2)])


# ---- Bases ----


@pytest.mark.parametrize("shape", [RING, LSHAPE, Ball(radius=1)])
def test_polynomials_of_a_shape_are_all_polynomials_of_their_degree(shape, rng):
    """Every monomial, and its derivatives, from coefficients found by values alone."""
    degree, dimension = 5, shape.dimension
    basis = ShapeBasis(shape.box, degree)
    points = sobol(shape.box, 400).coordinates
    table = basis.table(points)
    assert np.linalg.cond(table) < 20  # products of Legendre polynomials in the box: 1e3 and more
    powers = [k for k in np.ndindex((degree + 1,) * dimension) if sum(k) <= degree]
    assert len(basis) == len(powers)
    power = np.asarray(powers[rng.integers(len(powers))])
    b = np.linalg.lstsq(table, np.prod(points**power, axis=1), rcond=None)[0]
    for order in [(2,) + (0,) * (dimension - 1), (1,) * dimension]:
        true = np.ones(len(points))
        for x, p, times in zip(points.T, power, order, strict=True):
            factor = np.prod(np.arange(p, p - times, -1)) if times <= p else 0.0
            true *= factor * x ** max(p - times, 0)
        np.testing.assert_allclose(basis.table(points, order) @ b, true, atol=1e-11)


@pytest.mark.parametrize("kind", [PLAIN, LOGARITHM, LOG_RADIUS, CUT_SHORT, CUT_SHORT_LOGARITHM])
@pytest.mark.parametrize("order", [(1, 0), (0, 2), (1, 1), (2, 1)])
def test_derivatives_of_singular_functions(kind, order):
    """By nested automatic differentiation of r^a exp(i b theta) times logarithms."""
    center, direction, scale, p, q = (0.2, -0.1), 0.4, 0.7, 2 / 3, 1.0

    def function(x, y):
        w = (x - center[0] + 1j * (y - center[1])) * np.exp(-1j * direction) / scale
        w = w / (w - 1) if kind >= CUT_SHORT else w
        r, theta = jnp.abs(w), jnp.angle(w)
        log = jnp.log(r) + 1j * theta if kind in (LOGARITHM, CUT_SHORT_LOGARITHM) else jnp.log(r)
        log = 1.0 if kind in (PLAIN, CUT_SHORT) else log
        value = r ** (p + q) * jnp.exp(1j * (p - q) * theta) * log
        return jnp.stack([value.real, value.imag])

    derivative = function
    for axis, times in enumerate(order):
        for _ in range(times):
            derivative = jax.jacfwd(derivative, axis)
    singular = Singular.of(
        [(*center, direction, 1.5 * np.pi, scale, p, q, kind, part) for part in (0.0, 1.0)]
    )
    with jax.enable_x64(True):
        true = np.asarray(derivative(0.6, 0.5))
    np.testing.assert_allclose(singular.table(np.array([[0.6, 0.5]]), order)[0], true, rtol=1e-12)


def test_points_of_a_shape_lie_in_it():
    for sampler, count in itertools.product((uniform, sobol, graded), (1, 7, 500)):
        points = sampler(RING.box, count).coordinates
        assert len(points) == count
        assert np.all(RING.inside(points))
    distances = 1 - np.linalg.norm(graded(RING.box, 2_000).coordinates, axis=1)
    assert np.sum(distances < 0.01) > 60  # of uniform ones about 40
    for name in ("equispaced", "poisson_disk"):
        assert len(pann.points.sample(name, RING.box, 100)) == 100
    with pytest.raises(ValueError, match="use sobol"):
        pann.points.sample("gauss", RING.box, 100)


def test_rows_by_numpy_are_those_of_a_compiled_step():
    """Two fields, nonlinear terms, an unknown parameter, values and fluxes."""
    boundary = RING.boundary
    problem = checked(
        pann.Problem(
            RING,
            lambda u, v, k, x: (u.laplacian + k * u.value * v.x - x, v.laplacian + u.y**2),
            [
                pann.Dirichlet(boundary["disk"], lambda x, y: x + y, "u"),
                pann.Robin(boundary["disk 2"], 1.0, 2.0, 0.5, field="u"),
                pann.Neumann(boundary["disk"], 0.3, field="v"),
                pann.Dirichlet(boundary["disk 2"], 1.0, "v"),
                pann.Data(np.array([[0.5, 0.1], [-0.6, 0.2]]), np.array([0.1, 0.2]), "u"),
            ],
            fields=("u", "v"),
            parameters={"k": 0.7},
        )
    )
    with jax.enable_x64(True):
        basis, setup = ShapeBasis(RING.box, 4), Setup(problem)
        placed = setup.placed(basis)
        draw = np.random.default_rng(0).normal(size=(len(basis), 2))
        unknowns = Unknowns(draw, {"k": np.asarray(0.7)})
        found = ShapeRows(problem, placed, basis).full_step(unknowns)
        true = full_step(setup.blocks(placed, basis), jax.device_put(unknowns))
    np.testing.assert_allclose(found.figures[:2], true.figures[:2], rtol=1e-10)
    np.testing.assert_allclose(found.moved.b, true.moved.b, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(found.moved.parameters["k"], true.moved.parameters["k"], rtol=1e-8)


def test_degrees_of_a_shape_share_their_programs():
    """Compiling a step for each degree took longer than all factorizations."""
    disk = Disk(radius=1)
    problem = pann.Problem(
        disk, lambda u, x: u.laplacian + u.value - x, [pann.Dirichlet(disk.boundary, 0.0)]
    )
    at = lambda degree: pann.solve(problem, pann.Polynomial(degree=degree), progress=False)
    at(4)
    with jax.log_compiles(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        handler = Compilations()
        logging.getLogger("jax").addHandler(handler)
        try:
            at(5)
        finally:
            logging.getLogger("jax").removeHandler(handler)
    assert handler.names == []


class Compilations(logging.Handler):
    """What JAX compiles."""

    def __init__(self):
        super().__init__()
        self.names = []

    def emit(self, record):
        message = record.getMessage()
        if message.startswith("Finished XLA compilation"):
            self.names.append(message)


# ---- Corners ----


def test_corners_are_where_the_boundary_turns_or_conditions_change():
    disk = Disk(radius=1)
    upper = disk.boundary.where(lambda y: y > 0)
    problem = pann.Problem(
        disk,
        lambda u: u.laplacian,
        [pann.Dirichlet(upper, 0.0), pann.Neumann(disk.boundary - upper, 0.0)],
    )
    found = corners_of(problem)
    assert sorted(round(each.point[0]) for each in found) == [-1, 1]
    assert all(each.is_mixed and abs(each.angle - np.pi) < 1e-9 for each in found)
    whole = pann.Problem(LSHAPE, lambda u: u.xx, [pann.Dirichlet(LSHAPE.boundary, 0.0)])
    angles = np.sort([each.angle for each in corners_of(whole)])
    np.testing.assert_allclose(angles, np.pi * np.array([0.5] * 5 + [1.5]), atol=1e-12)


def test_laplacian_that_stands_alone():
    at = lambda residual: is_laplacian(pann.Problem(RING, residual).traced())
    assert at(lambda u, x: u.laplacian - x)
    assert at(lambda u, x: (2 + x) * (u.xx + u.yy))
    assert not at(lambda u: u.xx + 2 * u.yy)
    assert not at(lambda u: u.laplacian + u.value)
    assert not at(lambda u: u.laplacian * u.laplacian)


# ---- Solutions ----


def solved(name, degree):
    case = PROBLEMS[name]
    problem = case.make()
    solution = pann.solve(problem, pann.Polynomial(degree=degree), progress=False)
    return case.errors(solution, problem)["error"], solution


@pytest.mark.parametrize(
    "name, degree, error",
    [
        ("Poisson, ring", 20, 1e-5),
        ("Poisson, airfoil", 16, 1e-6),
        ("Laplace, ring", 8, 1e-13),
        ("re-entrant corner of 225 degrees", 8, 1e-10),
        ("re-entrant corner of 315 degrees, a flux and a value", 8, 1e-10),
        ("L-shape, x^2 on the boundary", 14, 1e-8),
        ("Allen-Cahn, star", 14, 1e-8),
        ("elasticity, plate with a hole", 8, 1e-12),
        ("Poisson, cube less four balls", 7, 1e-3),
    ],
)
def test_solutions_on_shapes(name, degree, error):
    """Against formulas, and boundary least squares in NumPy for the L."""
    found, solution = solved(name, degree)
    assert found < error
    estimate = solution.report.error_estimate
    assert estimate is not None
    assert found < 10 * estimate  # one is a largest error, the other of mean squares
    assert solution.report.resolved == (solution.residual <= 1e-5 and estimate <= 1e-2)


def smooth(x, y):
    return jnp.sin(2 * x + 1) * jnp.exp(y)


@pytest.mark.parametrize(
    "shape, degree",
    [
        # Cuts from the corners of a hole end within it, and its short sides have enough points.
        (Ellipse(radii=(2, 1)) - Rectangle(x=(-0.4, 0.4), y=(-0.3, 0.3)).rotated(0.5), 14),
        (Disk(radius=1) - Disk(center=(0.6, 0), radius=0.8), 12),
    ],
)
def test_corners_do_not_spoil_what_is_smooth(shape, degree):
    problem = pann.Problem.manufactured(shape.box, lambda u: u.laplacian, smooth)
    solution = pann.solve(problem, pann.Polynomial(degree=degree), progress=False)
    assert solution.rel_l2 < 1e-6
    assert solution.report.stability > 0.1
    assert solution.report.error_estimate < 1e-4


def test_a_concave_arc_has_functions_about_its_center():
    """log r in half a ring, which goes around no hole: polynomials alone need degree 42."""
    half = (Disk(radius=1) - Disk(radius=0.4)) & Rectangle(x=(-2, 2), y=(0, 2))
    exact = lambda x, y: x**2 - y**2 + 0.5 * jnp.log(x**2 + y**2)
    boundary, line = half.boundary, half.boundary["bottom"]
    problem = pann.Problem(
        half,
        lambda u: u.laplacian,
        [pann.Dirichlet(boundary - line, exact), pann.Neumann(line, 0.0)],
        exact=exact,
    )
    solution = pann.solve(problem, pann.Polynomial(degree=6), progress=False)
    assert solution.rel_l2 < 1e-9
    assert solution.report.resolved


@pytest.mark.parametrize("size", [1e-3, 1e6])
def test_units_of_length_do_not_matter(size):
    plate = (Rectangle(x=(-1, 1), y=(-1, 1)) - Disk(radius=0.3)).scaled(size)
    problem = pann.Problem.manufactured(
        plate.box, lambda u: u.laplacian, lambda x, y: smooth(x / size, y / size)
    )
    solution = pann.solve(problem, pann.Polynomial(degree=12), progress=False)
    assert solution.rel_l2 < 1e-7
    assert solution.report.resolved


def test_values_that_jump_on_the_boundary():
    """Harmonic measure of a half circle: theta at both points where the values change."""
    disk = Disk(radius=1)
    upper = disk.boundary.where(lambda y: y > 0)
    problem = pann.Problem(
        disk,
        lambda u: u.laplacian,
        [pann.Dirichlet(upper, 1.0), pann.Dirichlet(disk.boundary - upper, 0.0)],
        exact=lambda x, y: 0.5 + jnp.arctan2(2 * y, 1 - x**2 - y**2) / jnp.pi,
    )
    solution = pann.solve(problem, pann.Polynomial(degree=6), progress=False)
    assert solution.rel_l2 < 1e-12


def test_oracle_by_the_boundary_alone_knows_the_l_shape():
    """Ten digits of Gopal and Trefethen (2019)."""
    square = lambda z, _: z.real**2
    solution = Laplace([0, 2, 2 + 1j, 1 + 1j, 1 + 2j, 2j], [], square).solve()
    value = solution(np.array([0.99]), np.array([0.99]))[0]
    assert value == pytest.approx(1.02679192612, abs=1e-10)


def test_a_solution_with_a_corner_that_nothing_fits_is_not_resolved():
    """Two fields at a corner whose exponents are not those of the Laplacian."""
    boundary = LSHAPE.boundary
    problem = pann.Problem(
        LSHAPE,
        lambda u, v: (u.xx + 3 * u.yy + v.xy + 1, v.yy + 2 * v.xx + u.xy),
        [pann.Dirichlet(boundary, 0.0, "u"), pann.Dirichlet(boundary, 0.0, "v")],
        fields=("u", "v"),
    )
    solution = pann.solve(problem, pann.Polynomial(degree=6), progress=False)
    assert solution.report.resolved is False


def test_a_part_without_a_condition_is_named():
    problem = pann.Problem(
        RING, lambda u: u.laplacian, [pann.Dirichlet(RING.boundary["disk"], 0.0)]
    )
    with pytest.raises(ValueError, match="no condition for u on disk 2: add one"):
        pann.solve(problem, pann.Polynomial(degree=6), progress=False)


def test_conditions_belong_to_the_shape():
    other = Rectangle(x=(0, 1), y=(0, 1))
    problem = pann.Problem(RING, lambda u: u.laplacian, [pann.Dirichlet(other.boundary, 0.0)])
    with pytest.raises(ValueError, match="take the parts of that one's boundary"):
        pann.solve(problem, progress=False)
