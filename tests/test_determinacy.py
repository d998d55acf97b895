"""Whether conditions determine a solution, and how far a residual bounds its error."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pann
from pann.basis import make_basis
from pann.domain import Box
from pann.numerics.least_squares import least_squares
from pann.pde import Data, Dirichlet, Initial, Neumann, Problem, Robin
from pann.solvers import polynomial
from pann.solvers.determinacy import constant_in_space, function_norms, is_linear
from pann.solvers.newton import newton, start, weakest_direction
from pann.solvers.setup import Setup

LINE = Box(x=(0.0, 1.0))
SQUARE = Box(x=(0.0, 1.0), y=(0.0, 1.0))
EVOLUTION = Box(x=(0.0, 1.0), t=(0.0, 1.0), time="t")


def solved(problem, degree="auto", **run):
    return pann.solve(problem, pann.Polynomial(degree=degree), progress=False, **run)


def outcome_of(problem, degree):
    problem = problem.traced()
    setup = Setup(problem)
    with jax.enable_x64(True):
        basis = make_basis(problem.domain, degree)
        first = start(basis.num_terms, len(problem.fields), {}, "float64")
        norms = function_norms(basis, len(problem.fields))
        constants = np.resize(constant_in_space(basis), len(norms))
        blocks = setup.system(setup.placed(basis), basis, "float64")
        return newton(blocks, first, norms=norms, constants=constants)[1]


# ---- Least squares ----


@pytest.mark.parametrize("dependent", [0, 1, 3, 6])
def test_least_squares_with_a_dependent_column_anywhere(dependent, rng):
    matrix = rng.normal(size=(40, 7))
    others = np.delete(np.arange(7), dependent)
    matrix[:, dependent] = matrix[:, others[:3]] @ [1.0, -2.0, 0.5]
    right = rng.normal(size=40)
    expected = np.linalg.lstsq(matrix, right, rcond=None)[0]
    with jax.enable_x64(True):
        found, factor = least_squares(jnp.asarray(matrix), jnp.asarray(right))
        corrected = factor.corrected(jnp.asarray(matrix.T @ right))
    for solution in (found, corrected):
        np.testing.assert_allclose(matrix @ np.asarray(solution), matrix @ expected, atol=1e-10)


def test_least_squares_with_fewer_rows_than_columns(rng):
    matrix, right = rng.normal(size=(3, 7)), rng.normal(size=3)
    with jax.enable_x64(True):
        found, _ = least_squares(jnp.asarray(matrix), jnp.asarray(right))
    np.testing.assert_allclose(matrix @ np.asarray(found), right, atol=1e-12)


def test_the_weakest_direction_is_the_smallest_singular_vector(rng):
    matrix = rng.normal(size=(30, 6)) * 10.0 ** np.arange(6)
    norms = rng.uniform(1, 2, 6)
    with jax.enable_x64(True):
        _, factor = least_squares(jnp.asarray(matrix), jnp.asarray(rng.normal(size=30)))
    weakest = weakest_direction(factor, norms)
    _, values, vectors = np.linalg.svd(matrix / norms)
    np.testing.assert_allclose(weakest.stability, values[-1], rtol=1e-6)
    np.testing.assert_allclose(abs(weakest.direction @ vectors[-1]), 1.0, rtol=1e-6)
    assert not weakest.is_free


# ---- Stability ----


@pytest.mark.parametrize("degree", [8, 16, 32])
def test_the_stability_of_minus_the_second_derivative_is_its_first_eigenvalue(degree):
    """pi^2 for exact conditions; weights of 100 for the ends let it be a little smaller."""
    problem = Problem(LINE, lambda u: -u.xx - 1.0, [Dirichlet(LINE.boundary, 0.0)])
    assert 0.8 * np.pi**2 < outcome_of(problem, degree).weakest.stability < 1.001 * np.pi**2


@pytest.mark.parametrize("degree", [12, 200])
def test_high_orders_and_degrees_do_not_pass_for_free_directions(degree):
    """Columns of the fourth derivative differ by the eighth power of their degree."""
    clamped = [Dirichlet(LINE.boundary, 0.0), Neumann(LINE.boundary, 0.0)]
    problem = Problem(LINE, lambda u: u.xxxx - 1.0, clamped)
    outcome = outcome_of(problem, degree)
    assert not outcome.weakest.is_free
    assert 90 < outcome.weakest.stability < 501  # the first eigenvalue is 500.6
    assert outcome_of(Problem(LINE, problem.residual, clamped[:1]), degree).weakest.is_free


def test_residual_over_stability_bounds_the_error():
    """Degrees that do not resolve sin 12 x, whose error is known."""
    problem = Problem(
        LINE,
        lambda u, x: u.xx + 144.0 * jnp.sin(12 * x),
        [Dirichlet(LINE.boundary, lambda x: jnp.sin(12 * x))],
        exact=lambda x: jnp.sin(12 * x),
    )
    assert solved(problem, degree=6).report.error_estimate == np.inf
    for degree in (15, 18, 21):
        report = solved(problem, degree=degree).report
        assert report.rel_l2 <= report.error_estimate <= 1e3 * report.rel_l2


def test_a_layer_that_no_basis_resolves_is_not_certified(monkeypatch):
    """-eps u'' + u' = 1 with eps = 1e-7: resolutions of these sizes agree, and are wrong by 1."""
    monkeypatch.setitem(polynomial.LADDERS, 1, (20, 40, 80))
    eps = 1e-7
    exact = lambda x: x - jnp.exp((x - 1) / eps)
    zero = [Dirichlet(LINE.boundary, 0.0)]
    problem = Problem(LINE, lambda u: -eps * u.xx + u.x - 1.0, zero, exact)
    for options in ({"degree": 60}, {"tolerance": 1e-4}):
        report = solved(problem, **options).report
        assert report.rel_l2 > 0.1
        assert not report.resolved
        assert not report.met
        assert report.error_estimate >= 0.5 * report.rel_l2


# ---- What is open ----

NEUMANN = [Neumann(LINE.boundary, 0.0)]


def test_a_free_constant_is_noted_and_chosen():
    problem = Problem(LINE, lambda u, x: u.xx - jnp.cos(np.pi * x), NEUMANN)
    solution = solved(problem)
    assert solution.report.resolved
    (note,) = solution.report.notes
    assert "u is determined up to a constant" in note
    assert "note: u is determined" in str(solution)
    x = np.linspace(0, 1, 5)
    np.testing.assert_allclose(solution(x), -np.cos(np.pi * x) / np.pi**2, atol=1e-10)
    fixed = solved(Problem(LINE, problem.residual, [*NEUMANN, Data([[0.0]], [5.0])]), degree=16)
    np.testing.assert_allclose(fixed(0.0), 5.0, atol=1e-9)
    assert not fixed.report.notes


def test_fluxes_that_do_not_balance_leave_a_residual():
    solution = solved(Problem(LINE, lambda u: u.xx - 1.0, NEUMANN), degree=8)
    assert not solution.report.resolved
    assert "only if sources and fluxes balance" in solution.report.notes[0]


def test_a_pressure_is_noted_and_has_mean_zero():
    """Stokes flow of a stream function s, u = s_y and v = -s_x, with p = x^3 + y^3 - 1/2."""

    def exact(x, y):
        bump = lambda z: z**2 * (1 - z) ** 2
        slope = lambda z: 2 * z * (1 - z) * (1 - 2 * z)
        return bump(x) * slope(y), -slope(x) * bump(y), x**3 + y**3 - 0.5

    def operator(u, v, p):
        return -u.laplacian + p.x, -v.laplacian + p.y, u.x + v.y

    posed = Problem.manufactured(SQUARE, operator, exact, fields=("u", "v", "p"))
    conditions = [each for each in posed.conditions if each.field != "p"]
    problem = Problem(SQUARE, posed.residual, conditions, exact, ("u", "v", "p"))
    solution = solved(problem, degree=8)
    assert solution.report.rel_l2 < 1e-10
    assert solution.report.resolved
    assert "p is determined up to a constant" in solution.report.notes[0]


def test_a_free_function_of_time_is_noted():
    problem = Problem(
        EVOLUTION,
        lambda u, x, t: u.x - t * jnp.cos(x),
        [Robin(EVOLUTION.face("x", "lower"), 0.0, 1.0, lambda t: -t)],
    )
    solution = solved(problem, degree=12)
    assert "u is determined up to a function of t" in solution.report.notes[0]
    mean = np.sin(1.0) - (1 - np.cos(1.0))
    np.testing.assert_allclose(solution(1.0, 0.5), 0.5 * mean, atol=1e-8)


@pytest.mark.parametrize(
    "problem, message",
    [
        (
            Problem(LINE, lambda u, x: u.xx + x, [Dirichlet(LINE.face("x", "lower"), 0.0)]),
            "do not determine u: .* no condition for u at x = 1: add one",
        ),
        (
            Problem(
                SQUARE,
                lambda u, x, y: u.laplacian + x * u,
                [Dirichlet(SQUARE.face("x", "lower"), 0.0)],
            ),
            "do not determine u: .* no condition for u at x = 1, y = 0, y = 1: add one",
        ),
        (
            Problem(LINE, lambda u: u.xx + np.pi**2 * u, [Dirichlet(LINE.boundary, 0.0)]),
            "do not determine u: .* check whether the equation is the one that is meant",
        ),
        (
            Problem(EVOLUTION, lambda u: u.t - u.xx, [Dirichlet(EVOLUTION.boundary, 0.0)]),
            r"do not determine u: the equation is of order 1 in t, .* add pann.Initial\(...\)",
        ),
        (
            Problem(
                EVOLUTION,
                lambda u: u.tt - u.xx,
                [Dirichlet(EVOLUTION.boundary, 0.0), Initial(0.0)],
            ),
            r"order 2 in t, and of its states at the start 1 are given; add pann.Initial\(..., 1\)",
        ),
        (
            Problem(EVOLUTION, lambda u: u.t - u.xx, [Initial(lambda x: x)]),
            "do not determine u: .* no condition for u at x = 0, x = 1: add one",
        ),
    ],
)
def test_what_is_not_determined_is_refused_with_what_is_missing(problem, message):
    with pytest.raises(ValueError, match=message) as caught:
        solved(problem)
    assert "\n" not in str(caught.value)


def test_an_equation_on_a_ring_needs_no_conditions():
    ring = Box(x=(0.0, 2 * np.pi), periodic="x")
    solution = solved(Problem(ring, lambda u, x: -u.xx + u - jnp.sin(x)))
    np.testing.assert_allclose(solution(1.0), np.sin(1.0) / 2, rtol=1e-10)
    (note,) = solved(Problem(ring, lambda u, x: u.xx - jnp.sin(x))).report.notes
    assert "u is determined up to a constant" in note


def test_a_trivial_solution_does_not_hide_what_is_open():
    """u = 0 solves it at any degree; the functions that are free show at a higher one."""
    problem = Problem(
        EVOLUTION,
        lambda u: u.t - u.xx,
        [Dirichlet(EVOLUTION.boundary, 0.0), Data([[0.0, 0.5]], [0.0])],
    )
    with pytest.raises(ValueError, match="do not determine u"):
        solved(problem)


@pytest.mark.parametrize(
    "residual, expected",
    [
        (lambda u, x: x * u.xx + u - 3.0, True),
        (lambda u, x: u.xx + u**2, False),
        (lambda u, x: u.xx + u * u.x, False),
        (lambda u, x: u.xx + jnp.sin(u.value), False),
        (lambda u, x: u.xx + u.integral(), True),
    ],
)
def test_linear_equations_are_known_as_such(residual, expected):
    assert is_linear(Problem(LINE, residual, [Dirichlet(LINE.boundary, 0.0)])) is expected
