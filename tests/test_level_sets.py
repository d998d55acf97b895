"""Units along fronts: their derivatives and files, where they are found, what they solve."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special

import pann
from pann import Box, Dirichlet, Problem
from pann.basis import make_basis
from pann.io import FileError, load, model_from_state, model_state, save
from pann.model.pann import PANN, initial_parameters
from pann.network import LevelSets, PolynomialEmbedding, RePU, activation_named
from pann.network.embeddings import embed
from pann.network.jets import Laplacian
from pann.network.taylor import check_orders, feature_derivatives
from pann.pde.checks import checked
from pann.solvers.front_units import may_have_fronts
from pann.solvers.fronts import OnFaces, found_fronts, inside
from pann.solvers.levenberg import State, free_columns, jacobians, linearized
from pann.solvers.line_powers import powers_of
from pann.solvers.newton import Unknowns
from pann.solvers.setup import Setup

SQUARE = Box(x=(-1, 1), y=(-1, 1))


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True), jax.default_matmul_precision("highest"):
        yield


def units(activation="tanh", derivatives=2, count=2, kept=None):
    weights = np.random.default_rng(3).normal(size=(count, 10))
    activation = activation_named(activation)
    return LevelSets(jnp.asarray(weights), kept, activation, 2, 3, 2, derivatives)


def points(count=4):
    return np.random.default_rng(4).uniform(-1, 1, (count, 2))


# ---- The network ----


@pytest.mark.parametrize("order", [(0, 0), (1, 0), (2, 3), (0, 5)])
def test_the_embedding_has_products_of_legendre_polynomials(order):
    embedding, x = PolynomialEmbedding(2, 5), points()
    found = embed(embedding, jnp.asarray(x), (order,))[order]
    for column, degrees in enumerate(embedding.indices):
        expected = np.ones(len(x))
        for axis, count in enumerate(order):
            factor = np.poly1d(scipy.special.legendre(degrees[axis]).coefficients).deriv(count)
            expected = expected * factor(x[:, axis])
        np.testing.assert_allclose(found[:, column], expected, rtol=1e-11, atol=1e-10)


@pytest.mark.parametrize("activation", ["tanh", "arctan", "sin"])
def test_derivatives_agree_with_nested_differentiation(activation):
    network, x = units(activation), jnp.asarray(points())
    orders = ((0, 0), (1, 0), (1, 1), (0, 2), Laplacian((1.0, 2.0)))

    @eqx.filter_jit
    def both(network, x):
        gradient = jax.jacfwd(network.features)
        first, second = jax.vmap(gradient)(x), jax.vmap(jax.jacfwd(gradient))(x)
        return feature_derivatives(network, x, orders), {
            (0, 0): jax.vmap(network.features)(x),
            (1, 0): first[..., 0],
            (1, 1): second[..., 0, 1],
            (0, 2): second[..., 1, 1],
            orders[-1]: second[..., 0, 0] + 2 * second[..., 1, 1],
        }

    found, expected = both(network, x)
    assert found.keys() == expected.keys()
    for order, values in expected.items():
        np.testing.assert_allclose(found[order], values, rtol=1e-10, atol=1e-9)


def test_units_that_are_kept_are_those_of_the_whole():
    whole, kept = units(), np.array([5, 0, 17])
    some = whole.select(kept).select(np.array([2, 0]))
    x = jnp.asarray(points())
    assert some.width == 2
    for order, values in feature_derivatives(some, x, ((0, 0), (0, 2))).items():
        of_whole = feature_derivatives(whole, x, (order,))[order]
        np.testing.assert_array_equal(values, of_whole[:, [17, 5]])


def test_derivatives_of_the_profile_count_for_its_smoothness():
    check_orders(units(RePU(4), derivatives=2), 2, ((2, 0),))
    with pytest.raises(ValueError, match="up to order 1"):
        check_orders(units(RePU(3), derivatives=2), 2, ((2, 0),))


@pytest.mark.parametrize("kept", [None, np.array([7, 1])])
def test_a_file_brings_it_back(kept, tmp_path):
    network, domain = units("arctan", derivatives=1), Box(x=(-1, 1), y=(0, 2))
    network = network if kept is None else network.select(kept)
    basis = make_basis(domain, 2)
    key = jax.random.key(0)
    parameters = initial_parameters(network, 6, 1, bias=False, key=key, dtype="float64")
    model = PANN(domain, basis, parameters, "float64", None)
    save(tmp_path / "model.pann", model)
    again, shifted = load(tmp_path / "model.pann"), points() + np.array([0, 1])
    np.testing.assert_array_equal(model(shifted), again(shifted))
    assert isinstance(again.parameters.network, LevelSets)
    assert again.parameters.network.width == network.width


def test_a_file_cannot_ask_for_products_of_many_inputs():
    network, basis, key = units("tanh"), make_basis(SQUARE, 2), jax.random.key(0)
    parameters = initial_parameters(network, 6, 1, bias=False, key=key, dtype="float64")
    description, arrays = model_state(PANN(SQUARE, basis, parameters, "float64", None))
    more = [{"name": f"z{k}", "lower": 0.0, "upper": 1.0} for k in range(10)]
    description["domain"]["axes"] += more
    description["network"] |= {"num_inputs": 12, "amplitude_degree": 12, "kept": [0]}
    with pytest.raises(FileError, match="level sets have at most 6 inputs"):
        model_from_state(description, arrays)


# ---- Its coefficients are eliminated ----


def test_a_is_eliminated_with_b():
    """A linear equation is solved for a and b by a step of any damping, the curves held."""
    exact = lambda x, y: jnp.tanh(3 * x + y) * (1 + x) + x * y
    problem = Problem.manufactured(SQUARE, lambda u: u.laplacian, exact)
    network = LevelSets(jnp.asarray([[0.0, 3.0, 1.0]]), None, activation_named("tanh"), 2, 1, 1, 0)
    key, basis = jax.random.key(0), make_basis(SQUARE, 2)
    parameters = initial_parameters(network, 0, 1, bias=False, key=key, dtype="float64")
    state = State(parameters, Unknowns(jnp.zeros((basis.num_terms, 1)), {}))
    setup = Setup(problem)
    blocks = setup.system(setup.placed(basis, 400), basis, "float64")
    is_free = free_columns(state)
    assert np.sum(is_free) == network.width == 3

    @eqx.filter_jit
    def stepped(blocks, state):
        _, free, _ = linearized(blocks, state, SQUARE).step(jnp.asarray(1e6))
        return jacobians(blocks, state, SQUARE), free

    (residual, by_b, by_network), free = stepped(blocks, state)
    assert by_network.shape[1] == len(is_free) == 6
    columns = np.concatenate([by_b, by_network[:, is_free]], axis=1)
    left = residual - columns @ np.linalg.lstsq(columns, residual)[0]
    assert np.linalg.norm(left) < 1e-10 * np.linalg.norm(residual)
    np.testing.assert_allclose(residual - columns @ free, 0, atol=1e-8)


# ---- Where fronts are found ----


def on_square(exact):
    views = inside(2)
    return views, exact(*views[1].points.T)[:, None]


def test_a_straight_front_is_found_to_the_last_digits():
    exact = lambda x, y: np.tanh(60 * (x + y / 2 - 0.2)) + 0.3 * np.sin(2 * x * y)
    fronts, left = found_fronts(*on_square(exact))
    assert left < 1e-3
    expected = np.array([-12, 60, 30])
    np.testing.assert_allclose(fronts * np.sign(fronts[:, 1:2]), expected[None], atol=0.05)


def test_two_fronts_that_cross_are_found():
    exact = lambda x, y: np.tanh(40 * (x + y / 2 - 0.2)) + np.tanh(50 * (x / 3 - y + 0.1))
    fronts, left = found_fronts(*on_square(exact))
    assert fronts.shape == (2, 3)
    assert left < 1e-2
    slopes = np.sort(np.abs(fronts[:, 1]))
    np.testing.assert_allclose(slopes, [50 / 3, 40], rtol=0.02)


def test_a_circle_is_found():
    fronts, left = found_fronts(*on_square(lambda x, y: np.tanh(50 * (np.hypot(x, y) - 0.5))))
    assert left < 0.05
    angle = np.linspace(0, 2 * np.pi, 50)
    circle = 0.5 * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    curve = jax.vmap(PolynomialEmbedding(2, 2))(jnp.asarray(circle)) @ fronts[0]
    assert np.max(np.abs(curve)) < 0.5  # of a p that is 50 away from the circle by 1


def test_what_is_smooth_has_no_front():
    views = inside(2)
    values = np.exp(views[1].points.sum(axis=1))[:, None]
    fronts, left = found_fronts(
        views, values + 1e-3 * np.random.default_rng(0).normal(size=values.shape)
    )
    assert not len(fronts) or left > 0.5


def test_faces_show_where_a_front_ends():
    line = np.linspace(-1, 1, 101)
    ends = [np.stack([line, np.full(101, at)], axis=1) for at in (-1.0, 1.0)]
    faces = np.concatenate([*ends, *(each[:, ::-1] for each in ends)])
    views = OnFaces.of(faces, 14, 3), OnFaces.of(faces, 30, 3)
    values = np.tanh(20 * (faces @ [0.8, 0.6] - 0.1))[:, None] + faces[:, :1] ** 2
    fronts, left = found_fronts(views, values, degrees=(1, 2))
    assert left < 1e-3
    front = fronts[0] * np.sign(fronts[0, 1])
    np.testing.assert_allclose(front[:3], [-2, 16, 12], atol=0.1)


def test_only_where_units_of_coordinates_may_be():
    problem = Problem.manufactured(SQUARE, lambda u: u.laplacian, lambda x, y: x * y)
    assert may_have_fronts(problem, "float64")
    assert not may_have_fronts(problem, "float32")
    circle = Box(x=(-1, 1), y=(-1, 1), periodic="x")
    assert not may_have_fronts(dataclasses.replace(problem, domain=circle), "float64")


# ---- Equations ----


def test_an_oblique_front_is_solved_and_the_halves_do_worse():
    exact = lambda x, y: jnp.tanh(60 * (x + y / 2 - 0.2)) + 0.3 * jnp.sin(2 * x * y)
    problem = Problem.manufactured(SQUARE, lambda u: u.laplacian, exact)
    both = pann.solve(problem, pann.Hybrid(degree=18, network=pann.MLP(width=24)))
    polynomial = pann.solve(problem, pann.Polynomial(degree=18))
    assert isinstance(both.model.parameters.network, LevelSets)
    assert both.rel_l2 < 1e-6
    assert both.rel_l2 < 1e-3 * polynomial.rel_l2
    assert both.residual < polynomial.residual


@pytest.mark.slow
def test_a_nonlinear_layer_is_begun_at_its_ends_on_the_faces():
    """0.0009 lap u + u - u^3 = 0, of which Newton's method from zero finds another solution."""
    exact = lambda x, y: jnp.tanh((0.8 * x + 0.6 * y - 0.1) / (np.sqrt(2) * 0.03))
    problem = Problem(
        SQUARE,
        lambda u: 0.0009 * u.laplacian + u - u**3,
        [Dirichlet(SQUARE.boundary, exact)],
        exact,
    )
    both = pann.solve(problem, pann.Hybrid(degree=10, network=pann.MLP(width=24)))
    assert both.rel_l2 < 1e-9


@pytest.mark.slow
def test_a_circular_front_is_solved():
    exact = lambda x, y: jnp.tanh(50 * (jnp.sqrt(x**2 + y**2 + 1e-300) - 0.5))
    problem = Problem.manufactured(SQUARE, lambda u: u.laplacian, exact)
    assert pann.solve(problem, pann.Hybrid(degree=18)).rel_l2 < 1e-6


def test_a_network_whose_kind_was_asked_for_is_no_level_set():
    exact = lambda x, y: jnp.tanh(5 * (x + y / 2 - 0.2))
    problem = Problem.manufactured(SQUARE, lambda u: u.laplacian, exact)
    method = pann.Hybrid(degree=3, network=pann.MLP(width=3, activation="tanh"), iterations=2)
    network = pann.solve(problem, method).model.parameters.network
    assert network is None or not isinstance(network, LevelSets)


def singular_line(power, slope):
    """lap u = f, u = cos y + max(s, 0)^power, s = x - slope (y + 1); the source is infinite."""
    box = Box(x=(-1, 1), y=(-1, 1))
    exact = lambda x, y: jnp.cos(y) + jnp.maximum(x - slope * (y + 1), 0.0) ** power

    def source(x, y):
        s = x - slope * (y + 1)
        bend = power * (power - 1) * (1 + slope**2) * jnp.where(s > 0, s, 1.0) ** (power - 2)
        return -jnp.cos(y) + jnp.where(s > 0, bend, 0.0)

    residual = lambda u, x, y: u.laplacian - source(x, y)
    return Problem(box, residual, [Dirichlet(box.boundary, exact)]), exact


@pytest.mark.parametrize("power, slope", [(1.1, 0.0), (4 / 3, 0.6), (2.5, -0.2)])
def test_powers_along_lines_are_read_off_the_source(power, slope):
    problem, _ = singular_line(power, slope)
    with jax.enable_x64(True):
        found = powers_of(checked(problem))
    assert found.power == pytest.approx(power, abs=1e-12)
    ((constant, along_x, along_y),) = found.curves
    assert along_x > 0
    assert [constant / along_x, along_y / along_x] == pytest.approx([-slope, -slope], abs=1e-9)


def test_a_source_that_is_infinite_along_an_oblique_line():
    problem, exact = singular_line(1.5, 0.6)
    solution = pann.solve(problem, pann.Hybrid(degree=12), progress=False)
    assert solution.report.resolved
    x, y = np.random.default_rng(0).uniform(-1, 1, (2, 2_000))
    assert np.max(np.abs(solution(x=x, y=y) - exact(x, y))) < 1e-9
