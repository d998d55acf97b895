"""Time windows: exact solutions, orders of convergence, and the parts they are made of."""

import dataclasses
import re

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles import count_compilations

import pann
from pann import Box, Data, Dirichlet, Initial, Neumann, Problem, Robin
from pann.basis import PiecewiseLegendre, make_basis
from pann.numerics.gmres import gmres
from pann.pde import Periodic
from pann.pde.checks import checked
from pann.problems.kdv import DISPERSION, EVOLUTION
from pann.problems.periodic import periodic_problem
from pann.solvers.windows import preconditioners
from pann.solvers.windows.axes import (
    SpaceAxis,
    decouple,
    joining_losses,
    node_tables,
    radau_nodes,
    time_table,
    to_legendre,
)
from pann.solvers.windows.conditions import initial_values
from pann.solvers.windows.operators import at_random, on_grid
from pann.solvers.windows.resolution import refined
from pann.solvers.windows.system import make_system, make_window

RING = Box(x=(0, 2 * np.pi), t=(0, 1), periodic="x", time="t")
LINE = Box(x=(0, 1), t=(0, 0.4), time="t")
TORUS = Box(x=(0, 1), y=(0, 2), t=(0, 0.1), periodic=("x", "y"), time="t")
SQUARE_IN_TIME = Box(x=(0, 1), y=(0, 1), t=(0, 0.4), time="t")
MOMENT = Box(t=(0, 2), time="t")
SINE = lambda x, t: jnp.exp(-(jnp.pi**2) * t) * jnp.sin(jnp.pi * x)
WAVES = lambda x, t: jnp.exp(-t) * jnp.cos(x) + jnp.exp(-4 * t) * jnp.sin(2 * x)
POLE = lambda x, t: 1 / (1.25 + jnp.cos(x - t))  # coefficients fall as 2^-k


def problem_of(domain, residual, exact, *conditions, **options):
    return Problem(domain, residual, [*conditions, Initial(exact)], exact, **options)


heat_on_a_ring = problem_of(RING, lambda u: u.t - u.xx, WAVES)
advection = problem_of(RING, lambda u: u.t + u.x, POLE)
oscillation = Problem(
    MOMENT,
    lambda u, v: (u.t - v, v.t + u),
    [Initial(0.0, field="u"), Initial(1.0, field="v")],
    lambda t: (jnp.sin(t), jnp.cos(t)),
    fields=("u", "v"),
)
EXACT = {
    "heat on a ring": heat_on_a_ring,
    "advection on a ring": advection,
    "dirichlet": problem_of(LINE, lambda u: u.t - u.xx, SINE, Dirichlet(LINE.boundary, 0.0)),
    "values on the boundary that change in time": problem_of(
        LINE,
        lambda u: u.t - u.xx,
        lambda x, t: jnp.exp(x + t),
        Dirichlet(LINE.boundary, lambda x, t: np.exp(x + t)),
    ),
    "robin and neumann": problem_of(
        LINE,
        lambda u: u.t - u.xx,
        lambda x, t: jnp.exp(x + t),
        Robin(LINE.face("x", "lower"), 2.0, 1.0, lambda x, t: jnp.exp(t)),
        Neumann(LINE.face("x", "upper"), lambda x, t: 3 * jnp.exp(1 + t), 3.0),
    ),
    "inflow": problem_of(
        LINE,
        lambda u: u.t + u.x,
        lambda x, t: jnp.sin(3 * (x - t)),
        Dirichlet(LINE.face("x", "lower"), lambda x, t: jnp.sin(-3 * t)),
    ),
    "ends that meet by a condition": problem_of(
        LINE,
        lambda u: u.t - 0.1 * u.xx,
        lambda x, t: jnp.exp(-0.4 * jnp.pi**2 * t) * jnp.sin(2 * jnp.pi * x),
        Periodic("x", 1),
    ),
    "second order in time": Problem(
        LINE,
        lambda u: u.tt - u.xx,
        [
            Dirichlet(LINE.boundary, 0.0),
            Initial(0.0),
            Initial(lambda x, t: np.pi * np.sin(np.pi * x), order=1),
        ],
        lambda x, t: jnp.sin(jnp.pi * x) * jnp.sin(jnp.pi * t),
    ),
    "two axes of space": problem_of(
        TORUS,
        lambda u: u.t - u.xx - u.yy,
        lambda x, y, t: jnp.exp(-5 * jnp.pi**2 * t) * jnp.sin(2 * jnp.pi * x) * jnp.cos(jnp.pi * y),
    ),
    "a square": Problem.manufactured(
        Box(x=(0, 1), t=(0, 0.2), y=(0, 1), time="t"),
        lambda u: u.t - u.xx - u.yy + u * u.x,
        lambda x, y, t: jnp.sin(x + 2 * y + t),
    ),
    "no axis of space": oscillation,
    "nonlinear on a ring": Problem.manufactured(
        RING, lambda u: u.t - 0.1 * u.xx + u**3 - u, lambda x, t: jnp.sin(x + t) + 0.2 * t
    ),
    "nonlinear on a line": Problem.manufactured(
        LINE, lambda u: u.t - u.xx + u * u.x, lambda x, t: jnp.cos(2 * x - t) + x * t
    ),
    "two fields": Problem(
        RING,
        lambda u, v: (u.t - v.x, v.t - u.x),
        [
            Initial(lambda x, t: jnp.sin(x), field="u"),
            Initial(lambda x, t: -jnp.sin(x), field="v"),
        ],
        lambda x, t: (jnp.sin(x - t), -jnp.sin(x - t)),
        fields=("u", "v"),
    ),
}
A_WAVE = Problem.manufactured(
    SQUARE_IN_TIME,
    lambda u: u.tt + u.t - u.xx - u.yy + u**2,
    lambda x, y, t: x * y * (1 + t**3),
)
# Modes and, where it is not round-off, the error.
SIZES = {
    "advection on a ring": (30, 1e-7),
    "two axes of space": (3, 1e-10),
    "ends that meet by a condition": (20, 1e-10),
    "a square": (9, 1e-7),
}


@pytest.mark.parametrize("name", EXACT)
def test_exact_solutions_are_met(name):
    modes, error = SIZES.get(name, (6 if EXACT[name].domain.periodic else 14, 1e-10))
    solution = pann.solve(EXACT[name], pann.Windows(windows=2, modes=modes, degree=11))
    assert solution.rel_l2 < error
    assert solution.residual < 100 * max(error, 1e-8)
    assert "2 windows" in solution.report.how


def test_without_options_modes_and_windows_are_found():
    solution = pann.solve(advection, pann.Windows())
    assert solution.rel_l2 < 1e-9
    assert "all tails below 1e-10" in solution.report.stop
    assert "frequencies in x" in solution.report.how
    assert solution.report.seconds > 0


def test_solve_takes_windows_for_an_evolution_problem():
    alone = pann.solve(oscillation)
    assert "windows" in alone.report.how
    assert alone.rel_l2 < 1e-12
    assert "3 windows" in pann.solve(oscillation, pann.Windows(windows=3, degree=8)).report.how
    assert "windows" not in pann.solve(oscillation, pann.Hybrid()).report.how
    assert "windows" not in pann.solve(oscillation, pann.Polynomial(degree=12)).report.how


# ---- Convergence ----


def test_the_error_falls_as_the_first_frequency_left_out():
    errors = [
        pann.solve(advection, pann.Windows(windows=1, modes=modes, degree=14)).rel_l2
        for modes in (6, 12)
    ]
    np.testing.assert_allclose(errors, [2.0**-6, 2.0**-12], rtol=1.0)


def test_the_error_falls_geometrically_with_the_degree_in_time():
    errors = [
        pann.solve(heat_on_a_ring, pann.Windows(windows=1, modes=4, degree=degree)).rel_l2
        for degree in (2, 5, 8)
    ]
    assert np.all(np.diff(np.log(errors)) < np.log(0.02))


@pytest.mark.parametrize("degree", [2, 3])
def test_the_end_has_the_order_of_radau_IIA(degree):
    """2 p - 1 with p nodes; their number is the degree."""
    errors = []
    for windows in (4, 8):
        solution = pann.solve(oscillation, pann.Windows(windows=windows, degree=degree))
        errors.append(np.hypot(*(np.subtract(solution(t=2.0), (np.sin(2.0), np.cos(2.0))))))
    assert np.log2(errors[0] / errors[1]) == pytest.approx(2 * degree - 1, abs=0.3)


@pytest.mark.parametrize("degree", [3, 4])
def test_a_second_order_in_time_has_the_order_of_radau_IIA_too(degree):
    """The number of nodes is the degree less one."""
    problem = Problem(MOMENT, lambda u: u.tt + u.value, [Initial(0.0), Initial(1.0, order=1)])
    errors = []
    for windows in (4, 8):
        solution = pann.solve(problem, pann.Windows(windows=windows, degree=degree))
        errors.append(abs(solution(t=2.0) - np.sin(2.0)))
    assert np.log2(errors[0] / errors[1]) == pytest.approx(2 * degree - 3, abs=0.5)


@pytest.mark.parametrize("frequency", [1.0, 30.0, 1e3, 1e6])
def test_fast_oscillations_do_not_grow_from_window_to_window(frequency):
    """u'' = -w^2 u at the nodes: no state (u, u' / w) at the start is larger at the end."""
    count = 11
    (u, _, second), end = node_tables(2, count), np.ones(1)
    rows = second + frequency**2 * u
    moved = -np.linalg.solve(rows[:, 2:], rows[:, :2])
    functions = np.concatenate([time_table(end, 2, count, k) for k in (0, 1)])
    amplification = functions[:, :2] + functions[:, 2:] @ moved
    assert np.max(np.abs(np.linalg.eigvals(amplification))) <= 1 + 1e-9


# ---- From window to window ----


def test_a_string_between_fixed_ends_swings_through_many_windows():
    line = Box(x=(0, 1), t=(0, 10), time="t")
    exact = lambda x, t: jnp.sin(2 * jnp.pi * x) * jnp.sin(2 * jnp.pi * t)
    start = [Initial(exact), Initial(lambda x, t: 2 * np.pi * np.sin(2 * np.pi * x), order=1)]
    problem = Problem(line, lambda u: u.tt - u.xx, [Dirichlet(line.boundary, 0.0), *start], exact)
    solution = pann.solve(problem)
    assert len(solution.report.history["tail in time"]) > 30
    assert solution.rel_l2 < 1e-11
    assert (
        np.max(np.abs(solution.derivative({"t": 1}, x=np.zeros(9), t=np.linspace(0, 10, 9)))) < 1e-9
    )


def test_windows_join_without_a_gap():
    solution = pann.solve(advection, pann.Windows(windows=3, modes=24, degree=8))
    (family,) = (f for f in solution.model.basis.families if isinstance(f, PiecewiseLegendre))
    x = np.linspace(0, 2 * np.pi, 17)
    for place in family.breaks:
        after, before = 0.5 * (place + 1), np.nextafter(0.5 * (place + 1), -1) - 1e-15
        np.testing.assert_allclose(solution(x=x, t=after), solution(x=x, t=before), atol=1e-13)


def test_one_window_and_three_agree(rng):
    one = pann.solve(EXACT["nonlinear on a line"], pann.Windows(windows=1, modes=14, degree=16))
    three = pann.solve(EXACT["nonlinear on a line"], pann.Windows(windows=3, modes=14, degree=12))
    x, t = rng.uniform(0, 1, 50), rng.uniform(0, 0.4, 50)
    np.testing.assert_allclose(one(x=x, t=t), three(x=x, t=t), atol=1e-11)


def test_a_second_window_compiles_nothing():
    options = {"modes": 7, "degree": 6}
    pann.solve(advection, pann.Windows(windows=1, **options))
    with count_compilations() as compiled:
        pann.solve(advection, pann.Windows(windows=3, **options))
    assert compiled == []


def test_a_resolution_is_one_program_and_the_rest_few():
    """Each takes seconds to compile on a GPU: no operation of the set-up is one by itself."""
    nonlinear = problem_of(RING, lambda u: u.t + u * u.x - 0.3 * u.xx, lambda x, t: jnp.cos(x))
    programs = []
    for modes in (30, 31):
        with count_compilations() as compiled:
            pann.solve(nonlinear, pann.Windows(windows=2, modes=modes, degree=6))
        programs.append(len(compiled))
    # The second has the first's programs for all but the equations of its windows.
    assert programs[1] == 1
    # Nor is it many: the residual and the state run once, operation by operation, to be checked.
    assert programs[0] <= 16


def test_short_kdv_agrees_with_the_reference():
    evolution = dataclasses.replace(
        EVOLUTION, name="short_kdv", times=np.linspace(0, 0.1, 21), largest_step=2.5e-4
    )
    problem = periodic_problem(
        evolution,
        lambda u: u.t + u * u.x + DISPERSION * u.xxx,
        {"u": lambda x, t: jnp.cos(jnp.pi * x)},
        order=3,
        faithful=False,
    )
    solution = pann.solve(problem, pann.Windows(windows=2, modes=20, degree=10))
    assert solution.rel_l2 < 1e-9


# ---- Ways to solve the equations ----


@pytest.mark.parametrize("name", ["nonlinear on a ring", "two fields", "two axes of space"])
def test_the_preconditioned_solvers_agree_with_the_dense_one(name):
    problem = dataclasses.replace(EXACT[name], exact=None)
    dense, *others = (
        pann.solve(problem, pann.Windows(windows=1, modes=3, degree=5, solver=solver))
        for solver in ("dense", "frozen", "constant")
    )
    b = np.asarray(dense.model.parameters.b)
    for other in others:
        np.testing.assert_allclose(np.asarray(other.model.parameters.b), b, atol=1e-12)


# Fields of second and first order with a reaction, of third order, and of none along the axis.
ON_PIECES = {
    "burgers, robin": Problem(
        LINE,
        lambda u: u.t + u * u.x - 0.01 * u.xx,
        [
            Dirichlet(LINE.face("x", "lower"), 0.0),
            Robin(LINE.face("x", "upper"), 2.0, 1.0, lambda x, t: jnp.exp(t)),
            Initial(lambda x, t: jnp.sin(3 * x)),
        ],
    ),
    "third order on a ring": Problem(
        RING, lambda u: u.t + u * u.x + 0.01 * u.xxx, [Initial(lambda x, t: jnp.sin(x))]
    ),
    "diffusion and advection": Problem(
        LINE,
        lambda u, v: (u.t - 0.1 * u.xx + u * v, v.t + v.x + u * v),
        [
            Initial(lambda x, t: x, field="u"),
            Initial(1.0, field="v"),
            Dirichlet(LINE.boundary, 0.0, field="u"),
            Dirichlet(LINE.face("x", "lower"), 1.0, field="v"),
        ],
        fields=("u", "v"),
    ),
    "a string on oscillators": Problem(
        LINE,
        lambda u, v: (u.tt - u.xx + v, v.tt + u),
        [
            *(Initial(0.5, order, field) for order in (0, 1) for field in ("u", "v")),
            Dirichlet(LINE.boundary, 0.0, field="u"),
        ],
        fields=("u", "v"),
    ),
}
SLAB = Box(x=(0, 1), y=(0, 2), t=(0, 1), time="t")
CONSTANT_IN_A_SLAB = Problem(
    SLAB,
    lambda u: u.t - 0.3 * u.xx - 0.1 * u.yy + 2 * u.value,
    [
        Dirichlet(SLAB.face("x", "lower"), 0.0),
        Robin(SLAB.face("x", "upper"), 2.0, 1.0, 0.0),
        Dirichlet(SLAB.face("y", "lower"), 0.0),
        Neumann(SLAB.face("y", "upper"), 0.0),
        Initial(0.0),
    ],
)


@eqx.filter_jit
def answer(system, window, right, solver):
    """One program: operation by operation each would be compiled by itself."""
    factors = preconditioners.factorize(system, window, jnp.zeros(system.shape), solver)
    return preconditioners.apply(system, factors, right, solver)


def applied(problem, axes, solver, rng):
    """A solver's answer to a random right-hand side."""
    with jax.enable_x64(True):
        problem = checked(problem)
        start = initial_values(problem, axes)
        system = make_system(problem, axes, len(start), 6, 0)
        window = make_window(system, axes, 0.0, 0.1, start)
        right = jnp.asarray(rng.standard_normal(system.shape))
        return np.asarray(answer(system, window, right, solver))


@pytest.mark.parametrize("name", ON_PIECES)
def test_pieces_solve_what_the_dense_systems_in_space_solve(name):
    problem = ON_PIECES[name]
    lower, upper = problem.domain.lower[0], problem.domain.upper[0]
    axes = (SpaceAxis("x", lower, upper, PiecewiseLegendre((-0.5, 0.2, 0.3)), 9),)
    each = [applied(problem, axes, name, np.random.default_rng(1)) for name in ("frozen", "pieces")]
    np.testing.assert_allclose(*each, atol=1e-11 * np.max(np.abs(each[0])))


def test_separate_axes_solve_constant_coefficients():
    axes = (
        SpaceAxis("x", 0.0, 1.0, PiecewiseLegendre((-0.2,)), 5),
        SpaceAxis("y", 0.0, 2.0, PiecewiseLegendre(()), 9),
    )
    each = [
        applied(CONSTANT_IN_A_SLAB, axes, name, np.random.default_rng(1))
        for name in ("frozen", "separable")
    ]
    np.testing.assert_allclose(*each, atol=1e-11 * np.max(np.abs(each[0])))


@pytest.mark.parametrize("name", ["a square", "a wave on a square"])
def test_separate_axes_precondition_what_is_not_constant(name):
    problem = {**EXACT, "a wave on a square": A_WAVE}[name]
    problem = dataclasses.replace(problem, exact=None)
    frozen, separable = (
        pann.solve(problem, pann.Windows(windows=1, modes=6, degree=6, solver=solver))
        for solver in ("frozen", "separable")
    )
    b = np.asarray(frozen.model.parameters.b)
    np.testing.assert_allclose(np.asarray(separable.model.parameters.b), b, atol=1e-10)


@pytest.mark.parametrize("name", ["second order in time", "a square"])
def test_coefficients_frozen_in_time_precondition_conditions_too(name):
    problem = dataclasses.replace(EXACT[name], exact=None)
    dense, frozen = (
        pann.solve(problem, pann.Windows(windows=1, modes=6, degree=6, solver=solver))
        for solver in ("dense", "frozen")
    )
    b = np.asarray(dense.model.parameters.b)
    np.testing.assert_allclose(np.asarray(frozen.model.parameters.b), b, atol=1e-10)


def test_gmres_says_what_it_leaves(rng):
    with jax.enable_x64(True):
        # A cyclic shift: no residual falls before all of its powers are there.
        matrix = jnp.asarray(np.roll(np.eye(8), 1, axis=0) + 2 * np.diag(np.arange(8) % 2))
        right = jnp.asarray(rng.standard_normal(8))
        found, left = gmres(lambda v: matrix @ v, lambda v: v, right, tolerance=0.0, iterations=3)
        krylov = np.stack([np.linalg.matrix_power(matrix, k) @ right for k in (1, 2, 3)], axis=1)
        best = right - krylov @ np.linalg.lstsq(krylov, right)[0]
        np.testing.assert_allclose(left, np.linalg.norm(best) / np.linalg.norm(right), rtol=1e-10)
        np.testing.assert_allclose(right - matrix @ found, best, atol=1e-10)


def test_gmres_solves_what_is_not_symmetric(rng):
    with jax.enable_x64(True):
        matrix = jnp.asarray(np.eye(30) + 0.3 * rng.standard_normal((30, 30)) / np.sqrt(30))
        right = jnp.asarray(rng.standard_normal((5, 6)))
        found, left = gmres(
            lambda v: (matrix @ v.ravel()).reshape(5, 6),
            lambda v: 2.0 * v,
            right,
            tolerance=1e-12,
            iterations=30,
        )
        assert left <= 1e-12
        expected = np.linalg.solve(matrix, np.ravel(right)).reshape(5, 6)
        np.testing.assert_allclose(found, expected, atol=1e-11)


def test_radau_nodes_integrate_polynomials_of_twice_their_number():
    nodes = radau_nodes(4)
    weights = np.linalg.solve(np.vander(nodes, 4, increasing=True).T, 1 / np.arange(1, 5))
    for power in range(7):
        assert weights @ nodes**power == pytest.approx(1 / (power + 1), rel=1e-13)
    assert nodes[-1] == 1.0


@pytest.mark.parametrize("order", [1, 2])
def test_functions_of_time_are_polynomials_that_keep_the_start(order):
    start = time_table(np.zeros(1), order, 5, 0)[0]
    np.testing.assert_array_equal(start, np.eye(order + 5)[0])
    s = np.linspace(0, 1, 9)
    legendre = np.polynomial.legendre.legvander(2 * s - 1, order + 4)
    np.testing.assert_allclose(
        legendre @ to_legendre(order, 5), time_table(s, order, 5, 0), atol=1e-13
    )


@pytest.mark.parametrize("order", [1, 2])
def test_decoupled_nodes_are_the_nodes(order, rng):
    """into and back diagonalize d/ds and d2/ds2 between values at the nodes and coefficients."""
    count, parts = 6, decouple(order, 6)
    values, *slopes = (table[:, order:] for table in node_tables(order, count))
    coefficients = rng.standard_normal(count)
    for slope, number in zip(slopes, parts.numbers[1:], strict=True):
        solved = (parts.back @ ((parts.into @ (slope @ coefficients)) / number)).real
        np.testing.assert_allclose(solved, coefficients, atol=1e-10)
    np.testing.assert_allclose((parts.back @ (parts.into @ values)).real, np.eye(count), atol=1e-10)


# ---- Elements in space ----


def test_functions_on_elements_move_to_finer_elements_unchanged(rng):
    coarse = SpaceAxis("x", 0.0, 3.0, PiecewiseLegendre((0.1,)), 4)
    fine = SpaceAxis("x", 0.0, 3.0, PiecewiseLegendre((-0.4, 0.1, 0.7)), 4)
    b, x = rng.standard_normal(coarse.num_functions), rng.uniform(-1, 1, 40)
    moved = fine.moved_from(coarse, b)
    np.testing.assert_allclose(fine.table(x) @ moved, coarse.table(x) @ b, atol=1e-12)


def test_functions_at_random_points_are_those_of_the_family(rng):
    axis = SpaceAxis("x", 0.0, 3.0, PiecewiseLegendre((-0.4, 0.1, 0.7)), 5)
    with jax.enable_x64(True):
        b = jnp.asarray(rng.standard_normal((axis.num_functions, 2)))
        for points, operator in (on_grid(axis, 2), at_random(axis, 2, rng)):
            for derivative in range(3):
                found = operator.values(b, derivative)
                expected = axis.table(points, derivative) @ b
                np.testing.assert_allclose(found, expected.T, atol=1e-12 * np.max(np.abs(expected)))
        _, operator = on_grid(axis, 0)
        np.testing.assert_allclose(operator.projected(operator.values(b, 0).T), b.T, atol=1e-12)


def test_only_halves_of_an_element_are_joined_and_what_is_smooth_loses_nothing():
    axis = SpaceAxis("x", -1.0, 1.0, PiecewiseLegendre((-0.5, 0.0, 0.5)), 8)
    x, _ = axis.grid
    smooth = (axis.projection @ x**5)[None, :, None]
    kink = (axis.projection @ np.abs(x - 0.5))[None, :, None]
    ones = np.ones(1)
    losses = joining_losses(axis, smooth, ones)
    assert losses[1] == np.inf
    assert np.max(losses[[0, 2]]) < 1e-12
    losses = joining_losses(axis, kink, ones)
    assert losses[0] < 1e-12 < 1e-3 < losses[2]


def test_elements_that_are_no_longer_needed_make_room_for_others():
    edges = np.linspace(-1, 1, 9)
    axis = SpaceAxis("x", -1.0, 1.0, PiecewiseLegendre(tuple(edges[1:-1])), 8)
    tail, losses = np.zeros(8), np.full(7, np.inf)
    tail[7], losses[[0, 2]] = 1.0, (1e-9, 1e-12)
    (finer,) = refined((axis,), [tail], 1e-6, losses)
    assert finer.num_pieces == 8
    expected = np.union1d(np.delete(edges, 3), [0.875])
    np.testing.assert_allclose(finer.edges, expected)


def test_smooth_functions_are_continuous_between_elements():
    axis = SpaceAxis("x", -1.0, 1.0, PiecewiseLegendre((-0.5, 0.2)), 6)
    x, _ = axis.grid
    b = axis.projection @ (x**5 - x**3 + x**2)
    rows = axis.continuity_rows(3, at_seam=False)
    np.testing.assert_allclose(rows @ b, 0.0, atol=1e-10)
    value, first, second = axis.continuity_rows(3, at_seam=True)[-3:] @ b
    np.testing.assert_allclose([value, first, second], [0.0, -4.0, -28.0], atol=1e-10)


@pytest.mark.slow
def test_a_front_gets_small_elements():
    """A wave of Burgers' equation: u = c - tanh((x - c t) / (2 nu)) from one level to another."""
    line, nu = Box(x=(-1, 1), t=(0, 0.2), time="t"), 0.02
    exact = lambda x, t: 0.5 - jnp.tanh((x - 0.5 * t) / (2 * nu))
    problem = problem_of(
        line, lambda u: u.t + u * u.x - nu * u.xx, exact, Dirichlet(line.boundary, exact)
    )
    solution = pann.solve(problem, pann.Windows(tail=1e-07))
    assert "pieces in x" in solution.report.how
    assert solution.rel_l2 < 1e-7


@pytest.mark.slow
def test_a_start_that_violates_the_boundary_values(rng):
    """u = 1 cools from its ends: a sum of sines, of which a few are left after some time."""
    numbers = np.arange(1, 200, 2)[:, None]
    exact = lambda x, t: np.sum(
        4
        / (np.pi * numbers)
        * np.sin(np.pi * numbers * np.asarray(x))
        * np.exp(-((np.pi * numbers) ** 2) * np.asarray(t)),
        axis=0,
    )
    problem = Problem(LINE, lambda u: u.t - u.xx, [Dirichlet(LINE.boundary, 0.0), Initial(1.0)])
    solution = pann.solve(problem, pann.Windows(tail=1e-05))
    x, t = rng.uniform(0, 1, 200), rng.uniform(0.01, 0.4, 200)
    np.testing.assert_allclose(solution(x=x, t=t), exact(x, t), atol=1e-5)


# ---- Solutions ----


def test_a_file_gives_the_same_values(tmp_path, rng):
    solution = pann.solve(EXACT["two fields"], pann.Windows(windows=3, modes=20, degree=9))
    solution.save(tmp_path / "waves.pann")
    loaded = pann.load(tmp_path / "waves.pann")
    x, t = rng.uniform(0, 6, 40), rng.uniform(0, 1, 40)
    np.testing.assert_array_equal(loaded(x=x, t=t), solution(x=x, t=t))
    assert loaded.report == solution.report


def test_derivatives_and_parts(rng):
    solution = pann.solve(EXACT["two fields"], pann.Windows(windows=3, modes=20, degree=9))
    assert solution.model.basis.is_nearly_full
    x, t = rng.uniform(0, 6, 40), rng.uniform(0, 1, 40)
    u_xt, v_xt = solution.derivative({"x": 1, "t": 1}, x=x, t=t)
    np.testing.assert_allclose([u_xt, v_xt], [np.sin(x - t), -np.sin(x - t)], atol=1e-6)
    network, polynomial = solution.parts(x=x, t=t)
    np.testing.assert_array_equal(network, np.zeros((2, 40)))
    np.testing.assert_array_equal(polynomial, solution(x=x, t=t))


PIECES_OF_SPACE = [{}, {"y": PiecewiseLegendre((-0.3, 0.4))}]


@pytest.mark.parametrize("in_space", PIECES_OF_SPACE)
@pytest.mark.parametrize("order", [(0, 0, 0), (1, 0, 2), (0, 2, 1)])
def test_sums_axis_by_axis_are_those_of_the_table(order, in_space, rng):
    box = Box(x=(-1, 2), y=(0, 1), t=(0, 3), periodic="x", time="t")
    basis = make_basis(
        box,
        5,
        index_set="tensor_product",
        families={"t": PiecewiseLegendre((-0.6, -0.5, 0.1, 0.8)), **in_space},
        scaling="orthonormal",
    )
    assert basis.is_nearly_full
    points = box.from_reference(rng.uniform(-1, 1, (100, 3)))
    b = rng.standard_normal((len(basis), 2))
    expected = basis.table(points, order) @ b
    found = basis.evaluate(points, b, order)
    scale = np.max(np.abs(expected))
    np.testing.assert_allclose(found, expected, atol=1e-12 * scale)
    alone = basis.evaluate(points, b[:, 0], order)
    np.testing.assert_allclose(alone, found[:, 0], atol=1e-12 * scale)


# ---- What does not work says so ----


def test_a_tolerance_that_is_missed_is_reported():
    solution = pann.solve(advection, pann.Windows(windows=2, modes=6, degree=4))
    assert re.search("2 of 2 windows miss the tolerance", solution.report.stop)
    assert solution.residual > 1e-4


def test_a_solution_that_blows_up_ends_before_it_does():
    problem = problem_of(MOMENT, lambda u: u.t - u**2, lambda t: 1 / (1 - t))
    solution = pann.solve(problem, pann.Windows(tail=1e-08))
    (end,) = solution.model.domain.upper
    assert 0.9 < end <= 1.0
    assert "stopped at t" in solution.report.stop
    t = np.linspace(0, 0.9, 20)
    np.testing.assert_allclose(solution(t=t), 1 / (1 - t), rtol=1e-6)
    assert solution.rel_l2 is not None


SQUARE = Box(x=(0, 1), y=(0, 1))


@pytest.mark.parametrize(
    "problem, options, message",
    [
        (
            Problem(SQUARE, lambda u: u.xx + u.yy, [Dirichlet(SQUARE.boundary, 0.0)]),
            {},
            "windows need a time axis",
        ),
        (
            dataclasses.replace(
                advection, residual=lambda u, c: u.t + c * u.x, parameters={"c": 1.0}
            ),
            {},
            "not for c",
        ),
        (
            dataclasses.replace(
                advection,
                conditions=[*advection.conditions, Data(np.zeros((1, 2)), np.zeros(1))],
            ),
            {},
            "do not take the condition Data",
        ),
        (
            Problem(LINE, lambda u: u.t - u.xx, [Initial(0.0), Dirichlet(LINE.face("x", "lower"))]),
            {},
            "order 2 for 'u' along 'x' .* given are 1",
        ),
        (
            Problem(RING, lambda u: u.tt - u.xx, [Initial(0.0)]),
            {},
            r"1 are given; add pann.Initial\(..., 1\)",
        ),
        (
            Problem(RING, lambda u: u.xx - u, [Initial(0.0)]),
            {},
            "order in time for all fields, 1 or 2; here it is 0 for u",
        ),
        (
            advection,
            {"windows": -2},
            "windows must be a whole number of at least 1, or 'auto', got -2",
        ),
        (
            advection,
            {"windows": "many"},
            "windows must be a whole number of at least 1, .*, got 'many'",
        ),
        (advection, {"solver": "magic"}, "there is no solver 'magic'"),
        (advection, {"degree": 0}, "degree must be a whole number of at least 1, got 0"),
        (advection, {"modes": {"y": 3}}, "modes names 'y'; the axes of space are x"),
        (EXACT["second order in time"], {"degree": 1}, "at least 2, the order in time, got 1"),
        (advection, {"modes": 1}, "modes along 'x' must be an integer above 1, .*, got 1"),
        (advection, {"modes": 0}, "modes must be a whole number of at least 1, .*, got 0"),
        (advection, {"tail": 0.0}, "tail must be a positive number below 1, got 0"),
        (
            EXACT["dirichlet"],
            {"solver": "constant"},
            "solver .constant. needs a periodic axis",
        ),
    ],
)
def test_mistakes_are_sentences(problem, options, message):
    with pytest.raises(ValueError, match=message):
        pann.solve(problem, pann.Windows(**options))


def test_windows_go_without_other_options():
    with pytest.raises(ValueError, match="windows go without trials, memory; leave them out"):
        pann.solve(advection, pann.Windows(windows=2), trials=2, memory="1GB")


@pytest.mark.parametrize("options", [{}, {"tolerance": 1e-6}])
@pytest.mark.parametrize("error", [ZeroDivisionError, OverflowError])
def test_an_error_of_a_users_function_comes_through(error, options):
    """And is not taken for a failure of the windows, after which another method is tried."""
    calls = []

    def fails_at_first(x, t):
        calls.append(x)
        if len(calls) == 1:
            raise error("of the user's")
        return jnp.sin(x)

    problem = Problem(RING, lambda u: u.t - u.xx, [Initial(fails_at_first)])
    with pytest.raises(ValueError, match=f"{error.__name__}: of the user's; it takes arrays"):
        pann.solve(problem, **options)


@pytest.mark.parametrize("options", [{}, {"tolerance": 1e-4}])
def test_windows_too_large_for_memory_give_way_to_another_method(monkeypatch, options):
    """Nobody gave any modes that there could be fewer of."""
    monkeypatch.setattr(preconditioners, "LARGEST", 5)
    solution = pann.solve(EXACT["dirichlet"], **options)
    assert not isinstance(solution.method, pann.Windows)
    assert solution.rel_l2 < 1e-5
    with pytest.raises(ValueError, match=r"more than 5; .* fewer modes"):
        pann.solve(EXACT["dirichlet"], pann.Windows(modes=8))
