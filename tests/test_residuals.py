"""Residuals as users write them: globals that change, NumPy, arguments by name, integrals."""

import functools
import math

import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest

import pann
from pann.basis import Chebyshev, Fourier, Legendre, PiecewiseLegendre, make_basis
from pann.basis.basis import tabulate
from pann.domain import Box
from pann.methods import method_named
from pann.pde import Data, Dirichlet, Initial, Integral, Neumann, Periodic, Problem
from pann.pde.checks import checked
from pann.pde.operators import Equation

LINE = Box(x=(0.0, 1.0))
SQUARE = Box(x=(0.0, 1.0), y=(-1.0, 1.0))
ZERO = [Dirichlet(LINE.boundary, 0.0)]
NU = 1.0


def solved(residual, conditions=ZERO, domain=LINE, fields=("u",), degree=10, **where):
    problem = Problem(domain, residual, conditions, fields=fields)
    method = pann.Polynomial(degree=degree, collocation=pann.Collocation(**where))
    return pann.solve(problem, method, progress=False)


# ---- Stale equations ----


class Material:
    nu = 1.0

    def residual(self, u, x):
        return u.xx + self.nu


def by_global():
    def change(value):
        global NU
        NU = value

    return lambda u, x: u.xx + NU, change


def by_closure():
    nu = 1.0

    def residual(u, x):
        return u.xx + nu

    def change(value):
        nonlocal nu
        nu = value

    return residual, change


def by_attribute():
    material = Material()
    return material.residual, functools.partial(setattr, material, "nu")


def by_array():
    table = np.ones(3)
    return lambda u, x: u.xx + jnp.interp(x, np.linspace(0, 1, 3), table), table.__imul__


@pytest.mark.parametrize("way", [by_global, by_closure, by_attribute, by_array])
@pytest.mark.parametrize("is_new", [True, False])
def test_an_equation_that_changed_is_solved_as_it_is_now(way, is_new):
    """-u'' = nu has u(1/2) = nu / 8."""
    residual, change = way()
    change(1.0)
    problem = Problem(LINE, residual, ZERO)
    for value in (1.0, 2.0) if way is by_array else (1.0, 2.0, 1.0):
        change(value)
        problem = Problem(LINE, residual, ZERO) if is_new else problem
        solution = pann.solve(problem, pann.Polynomial(degree=4), progress=False)
        np.testing.assert_allclose(solution(x=0.5), value / 8, rtol=1e-12)


def test_windows_see_the_equation_as_it_is_now():
    box = Box(x=(0.0, 2 * np.pi), t=(0.0, 0.1), periodic="x", time="t")
    speed = 1.0
    problem = Problem(box, lambda u: u.t + speed * u.x, [Initial(np.sin)])
    for speed in (1.0, 3.0):
        solution = pann.solve(problem, progress=False)
        np.testing.assert_allclose(solution(x=1.0, t=0.1), np.sin(1 - 0.1 * speed), rtol=1e-9)


def test_programs_are_shared_by_what_equations_compute():
    one, same = (Problem(LINE, lambda u, x: u.xx + 2.0 * x, ZERO) for _ in range(2))
    other = Problem(LINE, lambda u, x: u.xx + 2.5 * x, ZERO)
    scaled = Problem(LINE, lambda u, x, k=2.0: u.xx + k * x, ZERO)
    equations = [Equation(each.traced()) for each in (one, same, other, scaled)]
    assert equations[0] == equations[1] == equations[3] != equations[2]
    assert len({*equations}) == 2


def test_what_python_computes_while_a_program_runs_is_never_shared():
    def residual(u, x):
        called = jax.pure_callback(np.sin, jax.ShapeDtypeStruct(x.shape, x.dtype), x)
        return u.xx + called

    one, other = (Equation(Problem(LINE, residual, ZERO).traced()) for _ in range(2))
    assert one != other


# ---- Arguments by name ----


@pytest.mark.parametrize(
    "residual",
    [
        lambda u, x, nu=3.0: u.xx + nu,
        lambda x, u, *, nu=3.0: u.xx + nu,
        functools.partial(lambda u, x, nu: u.xx + nu, nu=3.0),
        lambda **given: given["u"].xx + 3.0,
    ],
)
def test_default_arguments_and_partial_functions(residual):
    np.testing.assert_allclose(solved(residual)(x=0.5), 3 / 8, rtol=1e-12)


def test_functions_of_conditions_name_the_coordinates_that_they_need():
    faces = SQUARE.face("x", "lower"), SQUARE.face("x", "upper"), SQUARE.face("y", "lower")
    conditions = [
        Dirichlet(faces[0], lambda y: y),
        Dirichlet(faces[1], lambda y: 1 + y),
        Dirichlet(faces[2], lambda x: x - 1),
        Neumann(SQUARE.face("y", "upper"), lambda x, scale=1.0: scale * np.ones_like(x)),
    ]
    solution = solved(lambda u: u.xx + u.yy, conditions, SQUARE, degree=5)
    np.testing.assert_allclose(solution(0.3, 0.4), 0.7, rtol=1e-12)


def test_functions_of_other_arguments_are_refused():
    with pytest.raises(ValueError, match=r"value of Dirichlet asks for 'z', which is not among x;"):
        solved(lambda u: u.xx, [Dirichlet(LINE.boundary, lambda z: z)])


def test_solutions_are_called_in_the_order_of_the_axes():
    solution = solved(
        lambda u: u.xx + u.yy, [Dirichlet(SQUARE.boundary, lambda x, y: x * y)], SQUARE
    )
    grid = np.linspace(0, 1, 4)
    np.testing.assert_allclose(solution(grid, 0.5), grid / 2, atol=1e-12)
    np.testing.assert_allclose(solution(grid, y=0.5), grid / 2, atol=1e-12)
    with pytest.raises(ValueError, match="give each of x, y once"):
        solution(0.1, x=0.2)
    with pytest.raises(ValueError, match="give each of x, y once"):
        solution(0.1, 0.2, 0.3)
    with pytest.raises(ValueError, match="give every axis, x, y"):
        solution(0.1)


# ---- Arrays and fields ----


@pytest.mark.parametrize(
    "residual",
    [
        lambda u, x: u.xx + x * u - x * np.sin(x) + np.sin(x),
        lambda u, x: u.xx + u * x - jnp.asarray(x) * jnp.sin(x) + jnp.sin(x),
        lambda u, x: u.xx + np.asarray(1.0) * u,
        lambda u, x: -(-u.xx - np.float64(1.0) * u),
        lambda u, x: u.xx + np.add(u, 0.0),
        lambda u, x: u.xx + np.multiply(2.0, u) - u,
        lambda u, x: u.xx + np.sqrt(u**2 + 1e-300),
        lambda u, x: u.xx + np.where(x > 2, 0.0, u.value),
        lambda u, x: np.exp(x) * (u.xx + u),
    ],
)
def test_arrays_and_functions_of_numpy_beside_fields(residual):
    """u = sin x solves all of them."""
    conditions = [Dirichlet(LINE.boundary, lambda x: np.sin(x))]
    solution = solved(residual, conditions, degree=14)
    np.testing.assert_allclose(solution(x=0.4), np.sin(0.4), rtol=1e-9)


def test_a_field_given_to_a_function_of_jax_is_refused_with_the_cure():
    with pytest.raises(ValueError, match=r"give it the value, for instance jnp.sin\(u.value\)"):
        solved(lambda u: u.xx + jnp.sin(u))


@pytest.mark.parametrize("faces", ["circle", np.zeros((4, 1)), 0.0])
def test_conditions_on_something_else_than_faces_are_refused(faces):
    condition = Dirichlet(LINE.boundary, 0.0)
    # Past the check of types that tests have, and users do not.
    object.__setattr__(condition, "faces", faces)
    with pytest.raises(TypeError, match=r"needs faces of the domain, got .*; write domain\.bound"):
        solved(lambda u: u.xx, [condition])


def test_points_may_be_an_array(rng):
    points = rng.uniform(0, 1, (40, 1))
    solution = solved(lambda u: u.xx + 2.0, points=points, degree=4)
    np.testing.assert_allclose(solution(0.5), 0.25, rtol=1e-10)
    for bad in (points[:, 0], np.full((3, 1), 7.0), np.zeros((0, 1)), "gauss"):
        with pytest.raises(ValueError, match="point"):
            solved(lambda u: u.xx + 2.0, points=bad, degree=4)
    with pytest.raises(ValueError, match="5 values at points are too few for 11 coefficients"):
        solved(lambda u: u.xx + 2.0, points=3, sampling="uniform")


def test_fewer_equations_than_fields_are_refused():
    both = ("u", "v")
    conditions = [Dirichlet(LINE.boundary, 0.0, field) for field in both]
    with pytest.raises(ValueError, match="2 fields, u, v, but the residual has 1 equation;"):
        solved(lambda u, v: u.xx + v, conditions, fields=both)
    with pytest.raises(ValueError, match="does not depend on v; add an equation for it"):
        solved(lambda u, v: (u.xx, u.xx + 1), conditions, fields=both)


# ---- What is not pointwise ----


@pytest.mark.parametrize(
    "residual",
    [
        lambda u, x: u.xx + jnp.mean(u.value),
        lambda u, x: u.xx - u.value / jnp.max(jnp.abs(u.x)),
        lambda u, x: u.xx + jnp.cumsum(u.value),
        lambda u, x: u.xx + x / jnp.max(x),
        lambda u, x: u.xx + u.value[0],
    ],
)
def test_residuals_that_are_not_pointwise_are_refused_with_the_cure(residual):
    with pytest.raises(ValueError, match=r"depends on the other points .*u.integral\('x'\)"):
        checked(Problem(LINE, residual, ZERO))


def test_values_that_depend_on_all_points_are_refused_but_for_data(rng):
    with pytest.raises(ValueError, match="value of Dirichlet at a point depends on the other"):
        solved(lambda u: u.xx, [Dirichlet(LINE.boundary, lambda x: rng.normal(size=len(x)))])
    points = np.linspace(0.1, 0.9, 5)[:, None]
    data = Data(points, lambda x: 0 * x + np.std(x))
    solution = solved(lambda u: u.xx, [*ZERO, data])
    assert solution.residual < 1  # the data themselves are left to least squares


# ---- Integrals ----


@pytest.mark.parametrize(
    "family", [Legendre(), Chebyshev(), Fourier(), PiecewiseLegendre((-0.3, 0.5))]
)
@pytest.mark.parametrize("scaling", ["plain", "orthonormal"])
def test_integrals_of_a_basis_are_those_of_quadrature(family, scaling, rng):
    domain = Box(x=(0.0, 3.0), y=(-1.0, 1.0))
    basis = make_basis(domain, 4, families={"x": family}, scaling=scaling)
    nodes, weights = PiecewiseLegendre((-0.3, 0.5)).quadrature(60)
    y, b = rng.uniform(-1, 1, 5), rng.normal(size=(len(basis), 2))
    x = 1.5 * (nodes + 1)
    grid = np.stack([np.tile(x, 5), np.repeat(y, len(x))], axis=1)
    expected = 3.0 * np.einsum("yxk,x->yk", basis.table(grid).reshape(5, len(x), -1), weights)
    points = np.stack([rng.uniform(0, 3, 5), y], axis=1)
    np.testing.assert_allclose(basis.table(points, (-1, 0)), expected, atol=1e-13)
    values = basis.evaluate_each(points, b, [(-1, 0), (0, 0)])
    np.testing.assert_allclose(values[0], expected @ b, atol=1e-12)
    if not isinstance(family, PiecewiseLegendre):
        with jax.enable_x64(True):
            inside = tabulate(basis, jnp.asarray(domain.to_reference(points)), (-1, 0))
        np.testing.assert_allclose(inside, expected, atol=1e-13)


def test_a_large_product_basis_integrates_axis_by_axis(rng):
    domain = Box(x=(0.0, 2.0), y=(0.0, 3.0))
    basis = make_basis(domain, 10, index_set="tensor_product")
    assert basis.is_nearly_full
    b, points = rng.normal(size=(len(basis), 1)), rng.uniform(0, 2, (7, 2))
    for order in ((-1, 0), (0, -1), (-1, -1)):
        np.testing.assert_allclose(
            basis.evaluate(points, b, order), basis.table(points, order) @ b, atol=1e-12
        )


def test_a_term_with_an_integral():
    """-u'' + int u = 1: u = (1 - I) x (1 - x) / 2 with I = (1 - I) / 12, so that I = 1/13."""
    solution = solved(lambda u: -u.xx + u.integral("x") - 1.0)
    np.testing.assert_allclose(solution(0.5), (12 / 13) / 8, rtol=1e-12)
    assert solution.report.resolved


def test_a_nonlinear_integral_by_a_second_field():
    """-u'' + int u^2 = 2 through v = u^2; u = c x (1 - x) with 2 c + c^2 / 30 = 2."""
    conditions = [Dirichlet(LINE.boundary, 0.0, "u")]
    residual = lambda u, v: (-u.xx + v.integral() - 2.0, v - u**2)
    solution = solved(residual, conditions, fields=("u", "v"), degree=8)
    c = (-2 + np.sqrt(4 + 8 / 30)) * 15
    np.testing.assert_allclose(solution(0.5)[0], c / 4, rtol=1e-10)


def test_an_integral_fixes_what_neumann_conditions_leave_open():
    conditions = [Neumann(LINE.boundary, 0.0), Integral(2.0)]
    solution = solved(lambda u, x: u.xx - jnp.cos(np.pi * x), conditions, degree=16)
    np.testing.assert_allclose(solution(0.0), 2 - 1 / np.pi**2, rtol=1e-10)
    assert not solution.report.notes


def test_an_integral_over_space_holds_at_all_times():
    """The pressure-like p of p_x = t cos x with mean t^2 over space."""
    box = Box(x=(0.0, np.pi), t=(0.0, 1.0), time="t")
    conditions = [Integral(lambda t: np.pi * t**2, axes="x")]
    solution = solved(lambda u, x, t: u.x - t * jnp.cos(x), conditions, box, degree=16)
    expected = 0.7 * np.sin(1.0) - 0.7 * 2 / np.pi + 0.49
    np.testing.assert_allclose(solution(1.0, 0.7), expected, rtol=1e-8)


def test_networks_do_not_know_integrals():
    problem = Problem(LINE, lambda u: -u.xx + u.integral() - 1.0, ZERO)
    with pytest.raises(ValueError, match=r"polynomials alone; use pann\.Polynomial\(\.\.\.\)"):
        pann.solve(problem, pann.Hybrid(degree=3, network=pann.MLP(width=4)), progress=False)
    with pytest.raises(ValueError, match=r"polynomials alone; use pann\.Polynomial\(\.\.\.\)"):
        pann.solve(problem, pann.Training.paper(), progress=False)
    with pytest.raises(ValueError, match="no such axis; the axes are x"):
        checked(Problem(LINE, lambda u: u.xx + u.integral("y"), ZERO))
    with pytest.raises(ValueError, match="Integral is over 'y', which is no axis; there are x"):
        checked(Problem(LINE, lambda u: u.xx, [Integral(1.0, axes="y")]))


def test_an_eigenvalue_is_a_parameter_with_a_normalization():
    """-u'' = k u with zero ends and the integral of sin pi x: k = pi^2."""
    conditions = [*ZERO, Integral(2 / np.pi)]
    problem = Problem(LINE, lambda u, k: u.xx + k * u, conditions, parameters={"k": 8.0})
    solution = pann.solve(problem, pann.Polynomial(degree=14), progress=False)
    assert solution.report.resolved
    assert solution.parameters["k"] == pytest.approx(np.pi**2, rel=1e-10)
    np.testing.assert_allclose(solution(0.3), np.sin(0.3 * np.pi), rtol=1e-9)
    free = Problem(LINE, lambda u, k: k * u.xx + 1.0, ZERO, parameters={"k": 1.0})
    with pytest.raises(ValueError, match=r"do not determine k: other values .* add pann\.Data"):
        pann.solve(free, pann.Polynomial(degree=6), progress=False)


# ---- Mistakes, in a sentence each ----


@pytest.mark.parametrize(
    "residual, message",
    [
        (lambda u, x: u.xx + math.sin(x), "use jnp.where, jnp.minimum, jnp.sin"),
        (lambda u, x: u.xx + (1.0 if x > 0.5 else 0.0), "use jnp.where, jnp.minimum, jnp.sin"),
        (lambda u, x: (x * u.x).x, r"write it out, \(k \* u.x\).x as k_x \* u.x"),
        (lambda u, x: None, "the residual returns a NoneType; return the left-hand side"),
        (lambda u, x: {"u": u.xx}, "the residual returns a dict; return the left-hand side"),
        (lambda u, x: u.xx + 1j * u, "of type complex128, and must be real; write real and"),
        (lambda u, x: u.xx > 0, "of type bool, and must be real"),
        (lambda u, x: u.xx + np.ones((3, 3)) @ x, "the residual failed with TypeError"),
        (lambda u, x: u.xx + missing, "the residual failed with NameError"),
    ],
)
def test_mistakes_in_a_residual_are_one_sentence(residual, message):
    with pytest.raises(ValueError, match=message) as caught:
        checked(Problem(LINE, residual, ZERO))
    assert "\n" not in str(caught.value)


def test_other_things_than_problems_functions_and_numbers_are_refused():
    problem = Problem(LINE, lambda u: u.xx, ZERO)
    object.__setattr__(problem, "residual", "u_xx")  # past the check of types that tests have
    with pytest.raises(TypeError, match="must be a function, got 'u_xx'; write for instance"):
        checked(problem)
    wrong = Problem(LINE, lambda u: u.xx, ZERO, exact=lambda x: math.sin(x))
    with pytest.raises(ValueError, match="exact could not be computed at 100000 points: TypeErr"):
        pann.solve(wrong, pann.Polynomial(degree=3), progress=False)


# ---- Options that would have no effect ----


@pytest.mark.parametrize(
    "name, options, message",
    [
        ("hybrid", {"constraint_weight": 0.1}, "no option of Hybrid 'constraint_weight'.* choose"),
        ("paper", {"iterations": 5}, "no option of Training 'iterations'.* choose from .*stages"),
        ("hybrid", {"basis": make_basis(LINE, 3), "degree": 4}, "no effect with a basis of your"),
        ("hybrid", {"basis": make_basis(LINE, 3), "axes": "x"}, "a basis has its own axes; leave"),
        ("hybrid", {"width": 0, "depth": 3}, r"width=0 is no network; use pann\.Polynomial"),
        ("polynomial", {"depth": 3}, "no option of Polynomial 'depth'; choose from degree"),
        ("hybrid", {"sampling": "sobol"}, "give that number, points=1000"),
    ],
)
def test_options_without_effect_are_refused(name, options, message):
    with pytest.raises(ValueError, match=message):
        pann.solve(Problem(LINE, lambda u: u.xx, ZERO), method_named(name, options, "solve"))


@pytest.fixture
def unchecked():
    """Turn off the checks of types that only the tests have: users meet the errors behind them."""
    before = jaxtyping.config.jaxtyping_disable
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", before)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    "run, message",
    [
        ({"time_limit": -1}, "time_limit must be a positive number, got -1"),
        ({"progress": "yes"}, "progress is True, False, None or a function"),
    ],
)
def test_wrong_options_of_a_run_are_refused(run, message):
    with pytest.raises(ValueError, match=message):
        pann.solve(Problem(LINE, lambda u: u.xx, ZERO), **run)


def test_periodic_conditions_take_part_in_the_count_of_states():
    box = Box(x=(0.0, 1.0), t=(0.0, 1.0), time="t")
    problem = Problem(box, lambda u: u.t + u.x, [Periodic("x"), Dirichlet(box.boundary, 0.0)])
    with pytest.raises(ValueError, match=r"order 1 in t, .* 0 are given; add pann.Initial\(...\)"):
        checked(problem)
