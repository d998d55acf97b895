"""Hard conditions: u = lift + bump * v satisfies them exactly, whatever v is."""

import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pann
from pann.basis import make_basis
from pann.domain import Box, Faces
from pann.io import read, write
from pann.pde import Data, Dirichlet, Initial, Interface, Neumann, Periodic, Problem
from pann.pde.checks import checked
from pann.pde.collocation import make_block
from pann.pde.hard_conditions import Ansatz, make_ansatz
from pann.pde.placing import place_conditions, place_inside

LINE = Box(x=(0, 2))
SQUARE = Box(x=(-1, 1), y=(0, 3))
CUBE = Box(x=(0, 1), y=(0, 2), z=(-1, 1))
TIME = Box(x=(0, 1), t=(0, 0.5), time="t")
RING = Box(x=(0, 2), t=(0, 1), time="t", periodic="x")


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


def laplace(u):
    return u.xx + u.yy


def harmonic(x, y):
    return jnp.sin(2 * x) * jnp.exp(2 * y) / 100 + x * y


def poisson(**changes):
    given = {
        "domain": SQUARE,
        "residual": laplace,
        "conditions": [Dirichlet(SQUARE.boundary, harmonic, hard=True)],
        "exact": harmonic,
    }
    return Problem(**(given | changes))


def on_faces(domain, num_points=50):
    """Random points on every face in space, with the corners, by names of axes."""
    rng = np.random.default_rng(0)
    for axis, side in domain.boundary.sides:
        reference = rng.uniform(-1, 1, (num_points, domain.dimension))
        reference[:8] = np.sign(reference[:8])
        reference[:, domain.names.index(axis)] = -1 if side == "lower" else 1
        points = domain.from_reference(reference)
        yield dict(zip(domain.names, points.T, strict=True))


def assert_exact_on_faces(solution, exact):
    for at in on_faces(solution.model.domain):
        expected = np.asarray(exact(**at))
        np.testing.assert_allclose(solution(**at), expected, rtol=0, atol=1e-13)


# ---- Lift and bump ----


def random_solution(problem, degree=3):
    """A solution with random coefficients: conditions must hold for any."""
    solution = pann.solve(problem, pann.Polynomial(degree=degree))
    parameters = solution.model.parameters
    b = jnp.asarray(np.random.default_rng(0).normal(size=parameters.b.shape))
    model = dataclasses.replace(solution.model, parameters=dataclasses.replace(parameters, b=b))
    return dataclasses.replace(solution, model=model)


@pytest.mark.parametrize(
    "domain, exact",
    [
        (LINE, lambda x: jnp.exp(x)),
        (SQUARE, lambda x, y: jnp.sin(2 * x) * jnp.exp(y / 2) + jnp.cos(2 * x * y)),
        (CUBE, lambda x, y, z: jnp.exp(x - y) * jnp.cos(3 * z + x)),
        (
            Box(x=(0, 1), y=(0, 2), z=(-1, 1), w=(0, 1)),
            lambda x, y, z, w: jnp.exp((x - y) / 2) * z * w + x * jnp.cos(w),
        ),
    ],
    ids=["1", "2", "3", "4"],
)
def test_the_lift_has_the_values_and_the_bump_vanishes_on_every_face(domain, exact, rng):
    residual = lambda u: u.xx
    ansatz = make_ansatz(Problem(domain, residual, [Dirichlet(domain.boundary, exact, hard=True)]))
    zero = (0,) * domain.dimension
    for at in on_faces(domain):
        points = np.stack([at[name] for name in domain.names], axis=1)
        np.testing.assert_allclose(ansatz.lift(points, zero)[:, 0], exact(**at), rtol=0, atol=2e-13)
        np.testing.assert_array_equal(ansatz.bump(points, zero), 0.0)
    inside = domain.from_reference(rng.uniform(-0.9, 0.9, (50, domain.dimension)))
    assert np.min(ansatz.bump(inside, zero)) > 0


def test_the_lift_is_the_transfinite_interpolant(rng):
    """Against the formula of Gordon and Hall written out on the unit square."""
    box = Box(x=(0, 1), y=(0, 1))
    g = lambda x, y: np.exp(x) * np.cos(3 * y) + x**2
    conditions = [Dirichlet(box.boundary, g, hard=True)]
    x, y = rng.uniform(0, 1, (2, 40))
    along_x = (1 - x) * g(0, y) + x * g(1, y)
    along_y = (1 - y) * g(x, 0) + y * g(x, 1)
    corners = (1 - x) * ((1 - y) * g(0, 0) + y * g(0, 1)) + x * ((1 - y) * g(1, 0) + y * g(1, 1))
    ansatz = make_ansatz(Problem(box, laplace, conditions))
    lift = ansatz.lift(np.stack([x, y], axis=1), (0, 0))[:, 0]
    np.testing.assert_allclose(lift, along_x + along_y - corners, atol=1e-13)


def test_a_face_alone_is_extended_as_it_is_and_no_terms_are_left_of_zero(rng):
    face = SQUARE.face("y", "upper")
    ansatz = make_ansatz(poisson(conditions=[Dirichlet(face, lambda x, y: x**3, hard=True)]))
    points = SQUARE.from_reference(rng.uniform(-1, 1, (30, 2)))
    np.testing.assert_allclose(ansatz.lift(points, (0, 0))[:, 0], points[:, 0] ** 3, atol=1e-14)
    assert ansatz.powers == (((0, 0), (0, 1)),)
    nothing = make_ansatz(poisson(conditions=[Dirichlet(SQUARE.boundary, 0.0, hard=True)]))
    assert nothing.basis.num_terms == 0
    np.testing.assert_array_equal(nothing.lift(points, (1, 0)), 0.0)


@pytest.mark.parametrize("scale", [1.0, 1e-20, 1e20])
def test_values_that_are_zero_up_to_rounding_need_no_lift_whatever_their_scale(scale, rng):
    wave = lambda x, y: scale * np.sin(np.pi * x) * np.sin(np.pi * y)
    ansatz = make_ansatz(poisson(conditions=[Dirichlet(SQUARE.boundary, wave, hard=True)]))
    points = SQUARE.from_reference(rng.uniform(-1, 1, (30, 2)))
    np.testing.assert_allclose(ansatz.lift(points, (0, 0)), 0.0, atol=1e-14 * scale)


def test_small_values_count_as_much_as_large_ones():
    tiny = lambda x, y: 1e-20 * np.exp(x + y)
    ansatz = make_ansatz(poisson(conditions=[Dirichlet(SQUARE.boundary, tiny, hard=True)]))
    corner = ansatz.lift(np.array([[1.0, 3.0]]), (0, 0))
    np.testing.assert_allclose(corner, 1e-20 * np.exp(4), rtol=1e-13)


def test_values_need_not_be_defined_inside():
    root = lambda x, y: np.sqrt(x**2 - 1) + y  # NaN wherever |x| < 1
    faces = SQUARE.face("x", "lower") + SQUARE.face("x", "upper")
    ansatz = make_ansatz(poisson(conditions=[Dirichlet(faces, root, hard=True)]))
    np.testing.assert_allclose(ansatz.lift(np.array([[0.3, 2.0]]), (0, 0)), 2.0, atol=1e-13)


def test_derivatives_of_lift_and_bump_are_those_of_automatic_differentiation(rng):
    """The bump's formula is written out again in jnp, on a box that is not [-1, 1]."""
    wave = lambda x, t: jnp.sin(3 * x) * jnp.cos(3 * t)
    conditions = [
        Dirichlet(TIME.boundary, wave, hard=True),
        Initial(wave, hard=True),
        Initial(0.0, order=1, hard=True),
    ]
    ansatz = make_ansatz(Problem(TIME, lambda u: u.tt - 9 * u.xx, conditions))
    bump = lambda x, t: (1 - (2 * x - 1) ** 2) * (t / 0.5) ** 2
    # Of the Boolean sum; L_t wave = sin(3 x), and L_x is linear in x.
    edge = lambda t: jnp.sin(3.0) * jnp.cos(3 * t)
    lift = lambda x, t: jnp.sin(3 * x) + x * edge(t) - x * jnp.sin(3.0)
    points = TIME.from_reference(rng.uniform(-1, 1, (20, 2)))
    orders = [(0, 0), (1, 0), (0, 1), (1, 1), (2, 0), (0, 2), (2, 2), (3, 0)]

    @jax.jit
    def differentiated(x, t):
        found = []
        for function, order in itertools.product((bump, lift), orders):
            for axis, times in enumerate(order):
                for _ in range(times):
                    function = jax.grad(function, axis)
            found.append(jax.vmap(function)(x, t))
        return found

    expected = differentiated(*points.T)
    for order, bumped, lifted in zip(orders, expected[:8], expected[8:], strict=True):
        np.testing.assert_allclose(ansatz.bump(points, order)[:, 0], bumped, atol=1e-11)
        np.testing.assert_allclose(ansatz.lift(points, order)[:, 0], lifted, atol=1e-10)


def test_a_wrapped_block_has_the_residuals_of_u(rng):
    """Every kind of rows, against polynomials u = lift + bump v multiplied out by hand."""
    line = Box(x=(0, 2), y=(0, 1))
    problem = Problem(
        line,
        lambda u, v, x: (u.xxy + u * v + x, v.yy + u.x**2),
        [
            Dirichlet(line.face("x", "lower"), lambda x, y: 1 + y, field="u", hard=True),
            Neumann(line.face("x", "upper"), 0.5, lambda x, y: y, field="u"),
            Periodic("y", 1, field="u"),
            Data(np.array([[0.3, 0.4]]), np.array([2.0]), field="u"),
            Dirichlet(line.face("y", "lower"), 1.0, field="v"),
        ],
        fields=("u", "v"),
    )
    orders = problem.asked.orders
    ansatz = make_ansatz(problem)
    assert ansatz.hard_fields == (0,)
    basis = make_basis(line, 3)
    b = rng.normal(size=(basis.num_terms, 2))
    # bump = x / 2 in the domain's coordinates, lift = 1 + y: u in a basis of one degree more.
    larger = make_basis(line, 4)
    nodes = line.from_reference(rng.uniform(-1, 1, (60, 2)))
    v = basis.table(nodes) @ b
    u = 1 + nodes[:, 1] + nodes[:, 0] / 2 * v[:, 0]
    of_u = np.linalg.lstsq(larger.table(nodes), np.stack([u, v[:, 1]], axis=1), rcond=None)[0]
    inside = line.from_reference(rng.uniform(-1, 1, (20, 2)))
    placed = [place_inside(problem, inside, orders), *place_conditions(problem, 4)]
    assert [each.name.split()[0] for each in placed] == [
        "residual",
        "neumann",
        "periodic",
        "data",
        "dirichlet",
    ]
    for each in placed:
        wrapped = make_block(ansatz.wrap(each), problem, basis, "float64")
        plain = make_block(each, problem, larger, "float64")
        found = wrapped.residual(wrapped.polynomial_channels(jnp.asarray(b)), {})
        expected = plain.residual(plain.polynomial_channels(jnp.asarray(of_u)), {})
        np.testing.assert_allclose(found, expected, atol=1e-9)


# ---- Solutions ----


@pytest.mark.slow
def test_poisson_without_options_is_solved_to_round_off_with_exact_boundary_values():
    solution = pann.solve(poisson())
    assert solution.rel_l2 <= 1e-11
    assert solution.residual <= 1e-10
    assert_exact_on_faces(solution, harmonic)


def test_boundary_values_are_exact_even_where_the_degree_is_too_low():
    solution = pann.solve(poisson(), pann.Polynomial(degree=3))
    assert solution.rel_l2 > 1e-6
    assert_exact_on_faces(solution, harmonic)
    assert_exact_on_faces(random_solution(poisson()), harmonic)


def test_in_single_precision_boundary_values_are_exact_as_well():
    solution = pann.solve(poisson(), pann.Polynomial(degree=6), precision="float32")
    assert solution.rel_l2 < 1e-2
    assert_exact_on_faces(solution, harmonic)


def test_an_ordinary_equation():
    exact = lambda x: jnp.sin(x) + jnp.cos(x)
    problem = Problem(LINE, lambda u: u.xx + u, [Dirichlet(LINE.boundary, exact, hard=True)], exact)
    solution = pann.solve(problem, pann.Polynomial(degree=16))
    assert solution.rel_l2 <= 1e-13
    assert solution(x=0.0) == pytest.approx(1.0, abs=1e-15)
    assert solution(x=2.0) == pytest.approx(np.sin(2) + np.cos(2), abs=1e-15)


def test_hard_dirichlet_beside_soft_neumann_conditions():
    hard = SQUARE.face("x", "lower") + SQUARE.face("y", "lower")
    conditions = [
        Dirichlet(hard, harmonic, hard=True),
        Neumann(SQUARE.face("x", "upper"), lambda x, y: jnp.cos(2 * x) * jnp.exp(2 * y) / 50 + y),
        Neumann(SQUARE.face("y", "upper"), lambda x, y: jnp.sin(2 * x) * jnp.exp(2 * y) / 50 + x),
    ]
    solution = pann.solve(poisson(conditions=conditions), pann.Polynomial(degree=18))
    assert solution.rel_l2 <= 1e-11
    y = np.linspace(0, 3, 20)
    np.testing.assert_allclose(solution(x=-1.0, y=y), harmonic(-1.0, y), rtol=0, atol=1e-13)
    x = np.linspace(-1, 1, 20)
    np.testing.assert_allclose(solution(x=x, y=0.0), harmonic(x, 0.0), rtol=0, atol=1e-13)


def heat():
    start = lambda x, t: jnp.sin(jnp.pi * x) + 1 + 2 * x
    return Problem(
        TIME,
        lambda u: u.t - u.xx,
        [Dirichlet(TIME.boundary, lambda x, t: 1 + 2 * x, hard=True), Initial(start, hard=True)],
        lambda x, t: jnp.exp(-(jnp.pi**2) * t) * jnp.sin(jnp.pi * x) + 1 + 2 * x,
    )


def test_the_heat_equation_with_hard_boundary_and_initial_values():
    solution = pann.solve(heat(), pann.Polynomial(degree=20))
    assert solution.rel_l2 <= 1e-11
    rough = pann.solve(heat(), pann.Polynomial(degree=3))
    x, t = np.linspace(0, 1, 30), np.linspace(0, 0.5, 30)
    for each in (solution, rough):
        np.testing.assert_allclose(
            each(x=x, t=0.0), np.sin(np.pi * x) + 1 + 2 * x, rtol=0, atol=1e-13
        )
        np.testing.assert_allclose(each(x=0.0, t=t), 1.0, rtol=0, atol=1e-13)
        np.testing.assert_allclose(each(x=1.0, t=t), 3.0, rtol=0, atol=1e-13)


def wave_equation(velocity=lambda x, t: 2 * jnp.cos(2 * x), **changes):
    exact = lambda x, t: jnp.sin(jnp.pi * x) * jnp.cos(jnp.pi * t) + jnp.sin(2 * (x + t))
    conditions = [
        Dirichlet(TIME.boundary, exact, hard=True),
        Initial(exact, hard=True),
        Initial(velocity, order=1, hard=True),
    ]
    return Problem(TIME, lambda u: u.tt - u.xx, conditions, exact, **changes)


def test_the_wave_equation_with_hard_value_and_velocity():
    solution = pann.solve(wave_equation(), pann.Polynomial(degree=16))
    assert solution.rel_l2 <= 1e-11
    x = np.linspace(0, 1, 30)
    for each in (solution, random_solution(wave_equation())):
        np.testing.assert_allclose(
            each(x=x, t=0.0), np.sin(np.pi * x) + np.sin(2 * x), rtol=0, atol=1e-13
        )
        velocity = each.derivative({"t": 1}, x=x, t=0.0)
        np.testing.assert_allclose(velocity, 2 * np.cos(2 * x), rtol=0, atol=1e-11)


def test_advection_around_a_ring_with_hard_initial_values():
    exact = lambda x, t: jnp.sin(jnp.pi * (x - t)) + jnp.cos(2 * jnp.pi * (x - t))
    problem = Problem(RING, lambda u: u.t + u.x, [Initial(exact, hard=True)], exact)
    solution = pann.solve(problem, pann.Hybrid(degree=22))
    assert solution.rel_l2 <= 1e-11
    x = np.linspace(0, 2, 30)
    np.testing.assert_allclose(solution(x=x, t=0.0), exact(x, 0.0), rtol=0, atol=1e-13)
    np.testing.assert_allclose(solution(x=0.0, t=0.7), solution(x=2.0, t=0.7), atol=1e-12)


def test_a_nonlinear_equation():
    exact = lambda x, y: jnp.cos(x) * y / 3 + 0.2 * x
    soft = Problem.manufactured(SQUARE, lambda u: 0.1 * laplace(u) - u**3 + u, exact)
    hard = dataclasses.replace(soft, conditions=[Dirichlet(SQUARE.boundary, exact, hard=True)])
    solution = pann.solve(hard, pann.Polynomial(degree=10))
    assert solution.rel_l2 <= 1e-11
    assert_exact_on_faces(solution, exact)


def test_one_of_two_fields_is_hard():
    line = Box(t=(0, 3), time="t")
    problem = Problem(
        line,
        lambda u, v: (u.t - v, v.t + u),
        [Initial(0.5, field="u", hard=True), Initial(1.0, field="v")],
        lambda t: (jnp.sin(t) + 0.5 * jnp.cos(t), jnp.cos(t) - 0.5 * jnp.sin(t)),
        fields=("u", "v"),
    )
    solution = pann.solve(problem, pann.Polynomial(degree=20))
    assert solution.rel_l2 <= 1e-13
    assert solution(t=0.0)[0] == 0.5
    rough = random_solution(problem)
    assert rough(t=0.0)[0] == 0.5
    assert abs(rough(t=0.0)[1] - 1.0) > 1e-3
    assert solution.ansatz.powers == (((1, 0),), ((0, 0),))


def test_a_box_in_space():
    exact = lambda x, y, z: jnp.exp(x - y) * jnp.cos(jnp.sqrt(2.0) * z)
    problem = Problem(
        CUBE,
        lambda u: u.xx + u.yy + u.zz,
        [Dirichlet(CUBE.boundary, exact, hard=True)],
        exact,
    )
    solution = pann.solve(problem, pann.Polynomial(degree=9))
    assert solution.rel_l2 <= 1e-9
    assert_exact_on_faces(solution, exact)


def test_an_unknown_parameter_is_found_beside_hard_conditions(rng):
    where = rng.uniform(0, np.pi, (30, 1))
    line = Box(x=(0, np.pi))
    problem = Problem(
        line,
        lambda u, x, k: k * u.xx + jnp.sin(x),
        [Dirichlet(line.boundary, 2.0, hard=True), Data(where, 2 + np.sin(where[:, 0]) / 0.3)],
        parameters={"k": 1.0},
    )
    solution = pann.solve(problem, pann.Polynomial(degree=16))
    assert solution.parameters["k"] == pytest.approx(0.3, abs=1e-9)


def test_the_residual_is_measured_as_without_the_ansatz():
    """The same u, once as v under an ansatz, once in the basis itself."""
    exact = lambda x: jnp.exp(x) * jnp.cos(4 * x)
    known = Problem.manufactured(LINE, lambda u: u.xx + u, exact)
    conditions = [Dirichlet(LINE.boundary, exact, hard=True)]
    hard = pann.solve(dataclasses.replace(known, conditions=conditions), pann.Polynomial(degree=8))
    values = hard(x=np.linspace(0, 2, 40))
    same = Data(np.linspace(0, 2, 40)[:, None], values, weight=1e6)
    soft = pann.solve(dataclasses.replace(known, conditions=[same]), pann.Polynomial(degree=10))
    np.testing.assert_allclose(soft(x=np.linspace(0, 2, 40)), values, atol=1e-6)
    assert hard.residual == pytest.approx(soft.residual, rel=1e-3)


# ---- A network beside the polynomial ----


@pytest.fixture(scope="module")
def with_network():
    exact = lambda x, y: jnp.tanh(8 * (x - 0.1)) * jnp.sin(y)
    problem = Problem.manufactured(SQUARE, laplace, exact)
    conditions = [Dirichlet(SQUARE.boundary, exact, hard=True)]
    problem = dataclasses.replace(problem, conditions=conditions)
    where = pann.Collocation(points=900)
    alone = pann.solve(problem, pann.Polynomial(degree=6, collocation=where))
    network = pann.MLP(width=8, depth=1, activation="tanh")
    both = pann.solve(
        problem, pann.Hybrid(degree=6, network=network, iterations=15, collocation=where)
    )
    return exact, alone, both


@pytest.mark.slow
def test_a_network_is_trained_under_the_ansatz(with_network):
    exact, alone, both = with_network
    assert both.model.parameters.network is not None
    assert both.residual < 0.5 * alone.residual
    assert both.rel_l2 < 0.5 * alone.rel_l2
    assert_exact_on_faces(both, exact)


@pytest.mark.slow
def test_the_halves_add_up_and_the_networks_vanishes_on_the_faces(with_network, rng):
    _, _, both = with_network
    x, y = rng.uniform(-1, 1, 30), rng.uniform(0, 3, 30)
    network, polynomial = both.parts(x=x, y=y)
    assert np.std(network) > 1e-3
    np.testing.assert_array_equal(network + polynomial, both(x=x, y=y))
    np.testing.assert_array_equal(both.parts(x=x, y=3.0).network, 0.0)


@pytest.mark.slow
def test_derivatives_with_a_network_are_those_of_differences(with_network):
    _, _, both = with_network
    step, at = 1e-4, {"x": 0.3, "y": 1.2}
    moved = lambda **by: both(**{name: at[name] + by.get(name, 0) for name in at})
    slope = (moved(x=step) - moved(x=-step)) / (2 * step)
    assert both.derivative({"x": 1}, **at) == pytest.approx(slope, rel=1e-6)
    bend = (moved(y=step) - 2 * moved() + moved(y=-step)) / step**2
    assert both.derivative({"y": 2}, **at) == pytest.approx(bend, rel=1e-3, abs=1e-5)
    mixed = (
        moved(x=step, y=step)
        - moved(x=step, y=-step)
        - moved(x=-step, y=step)
        + moved(x=-step, y=-step)
    ) / (4 * step**2)
    assert both.derivative({"x": 1, "y": 1}, **at) == pytest.approx(mixed, rel=1e-4)


# ---- What a solution offers ----


@pytest.fixture(scope="module")
def solved():
    return pann.solve(poisson(), pann.Polynomial(degree=18))


def test_derivatives_are_the_analytic_ones(solved, rng):
    x, y = rng.uniform(-1, 1, 20), rng.uniform(0, 3, 20)
    sine, cosine, growth = np.sin(2 * x), np.cos(2 * x), np.exp(2 * y) / 100
    for orders, expected in [
        ({}, sine * growth + x * y),
        ({"x": 1}, 2 * cosine * growth + y),
        ({"y": 1}, 2 * sine * growth + x),
        ({"x": 2}, -4 * sine * growth),
        ({"x": 1, "y": 1}, 4 * cosine * growth + 1),
        ({"x": 2, "y": 2}, -16 * sine * growth),
    ]:
        found = solved.derivative(orders, x=x, y=y)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)


def test_datasets_and_pictures_show_u(solved):
    from pann.plot.solution import ticks_of
    from pann.plot.values import values_on_grid

    data = solved.to_xarray(resolution=5)
    np.testing.assert_allclose(data.u.sel(x=1.0, y=1.5), harmonic(1.0, 1.5), rtol=0, atol=1e-13)
    values = values_on_grid(solved, ticks_of(solved))["u"]
    assert np.max(values["|error|"]) < 1e-9
    solved.plot()


def test_a_solution_under_an_ansatz_can_be_gone_on_with(solved):
    rough = pann.solve(poisson(), pann.Polynomial(degree=8))
    better = pann.solve(poisson(), pann.Polynomial(degree=18), start_from=rough)
    assert better.rel_l2 == pytest.approx(solved.rel_l2, rel=0.1)
    assert (
        better.report.history["sum of squares"][0]
        < 0.1 * (solved.report.history["sum of squares"][0])
    )
    soft = pann.solve(
        poisson(conditions=[Dirichlet(SQUARE.boundary, harmonic)]), pann.Polynomial(degree=4)
    )
    with pytest.raises(ValueError, match="start_from was solved with other hard conditions"):
        pann.solve(poisson(), pann.Polynomial(degree=8), start_from=soft)


def test_a_saved_solution_is_the_same_without_the_users_code(solved, tmp_path, rng):
    solved.save(tmp_path / "u.pann")
    loaded = pann.load(tmp_path / "u.pann")
    assert loaded.problem is None
    assert loaded.ansatz.powers == solved.ansatz.powers
    assert loaded.ansatz.basis == solved.ansatz.basis
    x, y = rng.uniform(-1, 1, 20), rng.uniform(0, 3, 20)
    np.testing.assert_array_equal(loaded(x=x, y=y), solved(x=x, y=y))
    for orders in ({"x": 1}, {"x": 2, "y": 1}):
        np.testing.assert_array_equal(
            loaded.derivative(orders, x=x, y=y), solved.derivative(orders, x=x, y=y)
        )
    assert_exact_on_faces(loaded, harmonic)


def test_files_from_before_there_were_hard_conditions_still_load(tmp_path):
    soft = pann.solve(
        poisson(conditions=[Dirichlet(SQUARE.boundary, harmonic)]), pann.Polynomial(degree=4)
    )
    soft.save(tmp_path / "u.pann")
    kind, header, arrays, *_ = read(tmp_path / "u.pann")
    assert header.pop("ansatz") is None
    write(tmp_path / "old.pann", kind, header, arrays)
    loaded = pann.load(tmp_path / "old.pann")
    assert loaded.ansatz is None
    assert loaded(x=0.1, y=0.2) == soft(x=0.1, y=0.2)


def test_a_broken_ansatz_in_a_file_is_refused(solved, tmp_path):
    solved.save(tmp_path / "u.pann")
    kind, header, arrays, *_ = read(tmp_path / "u.pann")
    ansatz, count = header["ansatz"], solved.ansatz.basis.num_terms
    coefficients, indices = arrays["lift.coefficients"], arrays["lift.indices"]
    negative, huge = indices.copy(), indices.copy()
    negative[0, 0], huge[0, 0] = -1, 10**9
    basis = ansatz["basis"]
    broken = [
        (None, {}, "no place for an array 'lift.indices'"),
        ({}, {}, "the ansatz has no 'basis'"),
        ([1], {}, "the ansatz must be an object"),
        ({**ansatz, "code": "x"}, {}, "the ansatz has 'code'"),
        ({**ansatz, "powers": 3}, {}, "'powers' of the ansatz must be a list"),
        ({**ansatz, "powers": []}, {}, "powers for 0 fields, the model 1"),
        ({**ansatz, "powers": [[[1, 1]]]}, {}, "powers for 1 axes, not 2"),
        ({**ansatz, "powers": [[[1, 1], 1]]}, {}, "the powers along an axis must be a list"),
        ({**ansatz, "powers": [[[1, 1], [1, True]]]}, {}, "powers along an axis must be one of"),
        ({**ansatz, "powers": [[[1, 1], [9, 0]]]}, {}, "powers along an axis must be one of"),
        ({**ansatz, "powers": [[[1, 1], [1.0, 1]]]}, {}, "powers along an axis must be one of"),
        ({**ansatz, "basis": {**basis, "families": ["x", "y"]}}, {}, "a family of the basis"),
        ({**ansatz, "basis": {**basis, "num_terms": count + 1}}, {}, "of shape"),
        (ansatz, {"lift.coefficients": coefficients[:-1]}, "'lift.coefficients' must be float64"),
        (ansatz, {"lift.coefficients": coefficients * np.nan}, "NaN or infinite"),
        (ansatz, {"lift.coefficients": coefficients.astype("float32")}, "must be float64"),
        (ansatz, {"lift.indices": negative}, "the basis is wrong"),
        (ansatz, {"lift.indices": huge}, "functions of one variable, more than"),
        (ansatz, {"lift.more": coefficients}, "no place for an array 'lift.more'"),
    ]
    for bad, changed, message in broken:
        write(tmp_path / "bad.pann", kind, {**header, "ansatz": bad}, {**arrays, **changed})
        with pytest.raises(pann.FileError, match=message):
            pann.load(tmp_path / "bad.pann")
    missing = {name: array for name, array in arrays.items() if name != "lift.indices"}
    write(tmp_path / "bad.pann", kind, header, missing)
    with pytest.raises(pann.FileError, match=r"'lift\.indices' is missing"):
        pann.load(tmp_path / "bad.pann")


# ---- Mistakes ----


def on(face, value=0.0, **options):
    return Dirichlet(face, value, hard=True, **options)


@pytest.mark.parametrize(
    "domain, conditions, message",
    [
        (
            SQUARE,
            [on(SQUARE.boundary), on(SQUARE.face("x", "upper"))],
            "'u' has two hard conditions on x=1; keep one of them",
        ),
        (
            TIME,
            [Initial(0.0, hard=True), on(TIME.face("t", "lower"))],
            "'u' has two hard conditions on t=0; keep one",
        ),
        (
            TIME,
            [Initial(0.0), Initial(0.0, order=1, hard=True)],
            "a hard Initial of order 1 without one of order 0; add Initial",
        ),
        (
            TIME,
            [Initial(0.0, hard=True), Initial(0.0, order=2, hard=True)],
            "Initial of order 2 cannot be hard, only 0 and 1 can",
        ),
        (
            TIME,
            [
                Initial(0.0, hard=True),
                Initial(0.0, order=1, hard=True),
                on(TIME.face("t", "upper")),
            ],
            "on value and derivative at the initial time and on the value at the final time",
        ),
        (
            RING,
            [on(Faces(RING, (("x", "lower"),)))],
            "a hard condition on a face of 'x', but that axis is periodic and has no faces",
        ),
        (
            Box(x=(0, 1), t=(0, 1), time="t", periodic="t"),
            [Initial(0.0, hard=True)],
            "a hard condition on a face of 't', but that axis is periodic",
        ),
        (
            SQUARE,
            [on(SQUARE.face("x", "lower")), Periodic("x")],
            "'u' is Periodic along 'x' and has a hard condition on a face of that axis",
        ),
    ],
)
def test_hard_conditions_that_make_no_sense_are_refused(domain, conditions, message):
    with pytest.raises(ValueError, match=message):
        checked(Problem(domain, lambda u: u.xx, conditions))


def test_hard_conditions_count_as_conditions():
    assert checked(poisson()).asked.orders == ((2, 0), (0, 2))


def test_values_that_disagree_where_faces_meet_are_refused():
    conditions = [on(SQUARE.face("x", "upper"), 1.0), on(SQUARE.face("y", "lower"), 0.75)]
    message = (
        r"for 'u' on x=1 and y=0 disagree: at x=1, y=0 they are 1 and 0\.75, apart by 2\.5e-01; "
        "make them agree, or use hard=False for one of them"
    )
    with pytest.raises(ValueError, match=message):
        pann.solve(poisson(conditions=conditions))
    start = [on(TIME.boundary, 0.0), Initial(lambda x, t: 1 - x, hard=True)]
    with pytest.raises(ValueError, match="on x=0 and t=0 disagree: at x=0, t=0 they are 0 and 1"):
        pann.solve(Problem(TIME, lambda u: u.t - u.xx, start))


def test_a_velocity_that_disagrees_with_the_boundary_is_refused():
    """The boundary moves with 2 cos(2 x + 2 t) at x = 1, t = 0."""
    wrong = wave_equation(velocity=lambda x, t: 2 * jnp.cos(2 * x) + x)
    given, moving = 2 * np.cos(2) + 1, 2 * np.cos(2)
    message = f"at x=1, t=0 the derivatives by 't' are {given:.6g} and {moving:.6g}, apart by"
    with pytest.raises(ValueError, match=message):
        pann.solve(wrong)


@pytest.mark.parametrize("velocity", [False, True])
def test_values_with_a_kink_are_refused(velocity):
    kink = lambda x, t: x * (1 - x) * np.abs(x - 0.3)
    start = Initial(0.0 if velocity else kink, hard=True)
    conditions = [on(TIME.boundary), start, Initial(kink if velocity else 0.0, 1, hard=True)]
    problem = Problem(TIME, lambda u: u.tt - u.xx, conditions)
    message = "for 'u' on t=0 is not resolved: degree 256 misses it by .* use hard=False for it"
    with pytest.raises(ValueError, match=message):
        pann.solve(problem)


def test_values_that_are_not_finite_are_refused():
    bad = on(SQUARE.face("x", "lower"), lambda x, y: np.where(y > 1, np.nan, 0.0))
    with pytest.raises(ValueError, match="a given value is not finite at"):
        pann.solve(poisson(conditions=[bad]))


def test_too_many_dimensions_are_refused():
    box = Box.cube(7)
    problem = Problem(box, lambda u: u.d(x1=2), [on(box.boundary)])
    with pytest.raises(ValueError, match="hard in up to 6 dimensions, and this domain has 7"):
        pann.solve(problem, pann.Polynomial(degree=1))


def test_an_ansatz_is_only_made_where_something_is_hard():
    assert make_ansatz(poisson(conditions=[Dirichlet(SQUARE.boundary, 0.0)])) is None
    assert isinstance(make_ansatz(poisson()), Ansatz)


def test_hard_conditions_beside_an_interface():
    """Flow through two layers: k = 1 and 4, u = 1 at x = 0 and 0 at x = 2, both hard."""
    line = Box(x=(0, 2))
    exact = lambda x: jnp.where(x < 1, 1 - 0.8 * x, 0.2 * (2 - x))
    k = lambda x: jnp.where(x < 1, 1.0, 4.0)
    problem = Problem(
        line,
        lambda u, x: k(x) * u.xx,
        [
            Dirichlet(line.boundary, exact, hard=True),
            Interface("x", 1.0, coefficient=k),
        ],
        exact=exact,
    )
    solution = pann.solve(problem)
    assert solution.rel_l2 < 1e-12
    assert solution(x=0.0) == pytest.approx(1.0, abs=1e-14)
