"""Derivatives of the features against nested differentiation, high precision and the paper."""

import functools
import itertools
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from oracles import BASIS, count_compilations, random_parameters, replace

from pann.network import (
    Activation,
    AxisEmbedding,
    CircleEmbedding,
    PeriodicEmbedding,
    PolynomialEmbedding,
    RandomFourierFeatures,
    RePU,
    activation_named,
)
from pann.network.jets import Laplacian, lower_set, partitions, splits
from pann.network.taylor import check_orders, feature_derivatives, smoothness

CIRCLES = ("circles", "circles and waves")


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True), jax.default_matmul_precision("highest"):
        yield


class Softplus(Activation):
    """A user's activation: nothing is known of it but its values."""

    smoothness = math.inf

    def __call__(self, x):
        return jnp.logaddexp(x, 0)


class Square(eqx.Module):
    """A user's embedding, with mixed derivatives."""

    num_outputs = 2

    def __call__(self, x):
        return jnp.stack([x[0] * x[1], x[0] ** 3])


class Quadratic(eqx.Module):
    """A user's network."""

    scale: jax.Array

    def features(self, x):
        return jnp.stack([self.scale * x[0] ** 2 * x[1], jnp.sin(x[1])])


def all_orders(dimension, highest=4):
    every = itertools.product(range(highest + 1), repeat=dimension)
    return tuple(order for order in every if sum(order) <= highest)


def make_network(
    dimension=2, activation="tanh", embedding=None, dtype="float64", seed=0, kind="mlp"
):
    """Two layers of units, or two gates: an embedding counts as one."""
    generator = np.random.default_rng(100 + seed)
    normal = lambda *shape: jnp.asarray(generator.normal(size=shape) / 2, dtype)
    activation = activation_named(activation)
    axes = {"num_inputs": dimension, "activation": activation}
    waves = {"weights": normal(dimension, 3, 4), "biases": normal(dimension, 3)}
    embeddings = {
        None: None,
        "user": Square(),
        "fourier": RandomFourierFeatures(normal(2, dimension)),
        "axes": AxisEmbedding(normal(5), normal(5), **axes),
        "circles": CircleEmbedding((dimension - 1,), dimension),
        "circles and waves": CircleEmbedding(
            (dimension - 1,),
            dimension,
            RandomFourierFeatures(normal(2, dimension + 1)),
        ),
        "periodic": PeriodicEmbedding(normal(dimension, 2), rectified=False, **waves),
        "polynomial": PolynomialEmbedding(dimension, 3),
    }
    options = {"dimension": dimension, "dtype": dtype, "embedding": embeddings[embedding]}
    widths = (3,) if embedding else (5, 3)
    if kind == "modified":
        widths = (3, 3) if embedding else (3, 3, 3)
    network = random_parameters(seed, widths=widths, kind=kind, **options).network
    return replace(network, activation=activation)


def make_points(dimension=2, num_points=3, dtype="float64"):
    return jnp.asarray(np.random.default_rng(7).uniform(-1, 1, (num_points, dimension)), dtype)


def nested(network, x, orders):
    """Entries of the full tensors of derivatives, by `jax.jacfwd` of `jax.jacfwd`."""
    tensors, function = [], network.features
    for _ in range(max(map(sum, orders)) + 1):
        tensors.append(jax.vmap(function)(x))
        function = jax.jacfwd(function)
    axes = {order: np.repeat(np.arange(len(order)), order) for order in orders}
    return {order: tensors[sum(order)][(..., *axes[order])] for order in orders}


def compare(network, x, orders, tolerance=1e-10):
    both = lambda network, x: [m(network, x, orders) for m in (feature_derivatives, nested)]
    taylor, expected = eqx.filter_jit(both)(network, x)
    assert taylor.keys() == set(orders)
    for order, array in taylor.items():
        assert array.shape == (len(x), len(expected[order][0]))
        assert array.dtype == x.dtype
        agree(array, expected[order], tolerance)


def agree(actual, expected, tolerance=1e-10):
    """Equal to this share of the largest entry."""
    scale = max(np.abs(expected).max(), 1e-3)
    np.testing.assert_allclose(actual, expected, rtol=0, atol=tolerance * scale)


# ---- Multi-indices and Faa di Bruno's formula ----


def test_what_lies_below_the_orders_is_propagated_and_nothing_else():
    assert lower_set([(3, 0), (0, 1)]) == ((0, 0), (0, 1), (1, 0), (2, 0), (3, 0))
    assert set(lower_set([(1, 1, 0)])) == {(0, 0, 0), (1, 0, 0), (0, 1, 0), (1, 1, 0)}
    assert len(lower_set([(2, 2)])) == 9
    assert lower_set([]) == ()


def test_terms_of_the_formula_of_faa_di_bruno():
    terms = {tuple(n for (n,) in blocks): count for count, blocks in partitions((4,))}
    assert terms == {(4,): 1, (1, 3): 4, (2, 2): 3, (1, 1, 2): 6, (1, 1, 1, 1): 1}


@pytest.mark.parametrize("order, bell", [((1, 1), 2), ((2, 1), 5), ((1, 1, 1, 1), 15), ((5,), 52)])
def test_there_are_as_many_terms_as_partitions_of_a_set(order, bell):
    assert sum(count for count, _ in partitions(order)) == bell
    for _, blocks in partitions(order):
        assert tuple(np.sum(blocks, axis=0)) == order


def test_terms_of_the_rule_of_leibniz():
    assert set(splits((2,))) == {(1, (0,), (2,)), (2, (1,), (1,)), (1, (2,), (0,))}
    assert sum(count for count, _, _ in splits((2, 1, 3))) == 2**6
    for _, part, rest in splits((2, 1, 3)):
        assert tuple(np.add(part, rest)) == (2, 1, 3)


# ---- Activations ----


@pytest.mark.parametrize(
    "activation, highest",
    [("tanh", 6), ("sin", 6), ("relu", 1), ("repu", 2), (RePU(5), 5), (Softplus(), 4)],
)
def test_derivatives_of_activations_are_those_of_automatic_differentiation(activation, highest):
    activation = activation_named(activation)
    z = jnp.asarray(np.linspace(-2.1, 2.4, 11))
    functions = [activation]
    for _ in range(highest):
        functions.append(jax.grad(functions[-1]))
    values = jax.jit(lambda z: activation.derivatives(z, highest))(z)
    expected = jax.jit(lambda z: [jax.vmap(function)(z) for function in functions])(z)
    assert len(values) == highest + 1
    for actual, wanted in zip(values, expected, strict=True):
        agree(actual, wanted, 1e-13)


@pytest.mark.parametrize("power", [1, 3])
def test_the_jump_of_the_last_derivative_takes_the_convention_of_jax(power):
    last = RePU(power).derivatives(jnp.zeros(1), power)[-1]
    assert last == math.factorial(power) / 2
    slope = activation_named("relu").derivatives(jnp.zeros(1), 1)[-1]
    assert slope == jax.grad(activation_named("relu"))(0.0)


def test_smoothness_counts_derivatives():
    names = ("tanh", "sin", "relu", "repu", RePU(5))
    assert [smoothness(activation_named(name)) for name in names] == [None, None, 1, 2, 5]


# ---- Networks ----


@pytest.mark.parametrize("dimension", [1, 2, 3])
@pytest.mark.parametrize(
    "activation, embedding",
    [("tanh", name) for name in (None, "fourier", "periodic", "axes", "polynomial", *CIRCLES)]
    + [("sin", None), (RePU(4), None)],
)
def test_every_derivative_up_to_the_fourth_equals_a_nested_one(activation, embedding, dimension):
    network = make_network(dimension, activation, embedding)
    compare(network, make_points(dimension), all_orders(dimension))


@pytest.mark.parametrize(
    "activation, embedding, dimension",
    [
        ("tanh", None, 1),
        ("tanh", None, 2),
        ("tanh", None, 3),
        ("sin", "fourier", 2),
        (RePU(4), None, 2),
        ("tanh", "circles", 2),
        ("tanh", "circles and waves", 1),
        ("tanh", "circles and waves", 2),
    ],
)
def test_every_derivative_of_a_modified_network_too(activation, embedding, dimension):
    network = make_network(dimension, activation, embedding, kind="modified")
    compare(network, make_points(dimension), all_orders(dimension))


def test_a_modified_network_without_some_of_its_units():
    network = make_network(kind="modified").select(np.array([2, 0]))
    compare(network, make_points(), ((0, 0), (1, 0), (1, 2), (4, 0)))


def shapes_of_products(jaxpr):
    """The shapes of all matrix products, those of functions with derivatives of their own too."""
    shapes = []
    for step in jaxpr.eqns:
        if step.primitive.name == "dot_general":
            shapes.append(step.outvars[0].aval.shape)
        elif "call_jaxpr" in step.params:
            shapes += shapes_of_products(step.params["call_jaxpr"].jaxpr)
    return shapes


@pytest.mark.parametrize(
    "backend, products",
    [
        # Encoders and first layer map the points and a unit vector; the gates, four derivatives.
        ("cpu", [*[(10, 3), (1, 3)] * 3, *[(10, 3)] * 8]),
        ("gpu", [*[(10, 3), (1, 3)] * 3, *[(40, 3)] * 2]),
    ],
)
def test_just_the_rows_needed_are_multiplied_in_gates(backend, products, monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: backend)
    network, x = make_network(kind="modified"), make_points(num_points=10)
    compare(network, x, ((3, 0),))
    jaxpr = jax.make_jaxpr(lambda x: feature_derivatives(network, x, ((3, 0),)))(x)
    assert shapes_of_products(jaxpr.jaxpr) == products


@pytest.mark.parametrize(
    "activation, embedding, highest",
    [(Softplus(), None, 3), ("tanh", "user", 4), (RePU(3), "axes", 3), ("relu", "periodic", 1)],
)
def test_other_networks_as_far_as_they_are_smooth(activation, embedding, highest):
    compare(make_network(2, activation, embedding), make_points(), all_orders(2, highest))


def test_a_rectified_embedding_has_first_derivatives():
    network = make_network(2, "tanh", "periodic")
    rectified = replace(network, embedding=replace(network.embedding, rectified=True))
    compare(rectified, make_points(), ((0, 0), (1, 0), (0, 1)))


def test_a_network_of_the_user_is_differentiated_too():
    compare(Quadratic(jnp.asarray(1.5)), make_points(), ((0, 0), (2, 1), (0, 4)))


@pytest.mark.parametrize(
    "activation, embedding, highest",
    [("tanh", None, 4), ("sin", "fourier", 2), ("repu", "periodic", 2), ("tanh", "axes", 2)],
)
def test_single_precision(activation, embedding, highest):
    network = make_network(2, activation, embedding, dtype="float32")
    compare(network, make_points(dtype="float32"), all_orders(2, highest), tolerance=1e-4)


@pytest.mark.parametrize("embedding", [None, "circles and waves"])
def test_single_precision_of_modified_networks(embedding):
    network = make_network(2, "tanh", embedding, dtype="float32", kind="modified")
    compare(network, make_points(dtype="float32"), all_orders(2, 4), tolerance=1e-4)


@pytest.mark.parametrize(
    "orders",
    [
        ((0, 0, 0, 0), (1, 1, 1, 1), (2, 0, 1, 1)),
        ((0,) * 6 + (2,), (1,) + (0,) * 5 + (3,), (0, 1, 0, 1, 0, 0, 0)),
    ],
)
def test_few_derivatives_in_many_dimensions(orders):
    dimension = len(orders[0])
    compare(make_network(dimension), make_points(dimension, 2), orders)


def test_values_alone_are_the_features_and_nothing_asked_is_nothing_given():
    compare(make_network(), make_points(), ((0, 0),))
    assert feature_derivatives(make_network(), make_points(), ()) == {}


@pytest.mark.parametrize("activation", ["tanh", "sin"])
def test_a_tiny_network_in_high_precision(activation):
    network = make_network(2, activation)
    orders = ((1, 0), (0, 2), (1, 1), (2, 1), (4, 0), (2, 2), (1, 3))
    point = (0.3, -0.4)
    actual = eqx.filter_jit(feature_derivatives)(network, jnp.asarray([point]), orders)
    f = getattr(mpmath, activation)

    def unit(*x):
        hidden = list(x)
        for weight, bias in zip(network.weights, network.biases, strict=True):
            rows = zip(np.asarray(weight).tolist(), np.asarray(bias).tolist(), strict=True)
            hidden = [f(mpmath.fdot(row, hidden) + shift) for row, shift in rows]
        return hidden[1]

    with mpmath.workdps(40):
        for order in orders:
            expected = float(mpmath.diff(unit, point, order))
            assert float(actual[order][0, 1]) == pytest.approx(expected, rel=1e-11)


# ---- Under JAX's transformations ----

ORDERS = ((0, 0), (1, 0), (0, 1), (3, 0), (1, 1), (1, 2))


def residual(method, network, x):
    u = {order: psi.sum(axis=1) for order, psi in method(network, x, ORDERS).items()}
    return u[0, 1] + u[0, 0] * u[1, 0] + u[3, 0] * u[1, 1] + u[1, 2]


@pytest.mark.parametrize(
    "kind, embedding",
    [("mlp", name) for name in (None, "fourier", "periodic", "axes", "circles")]
    + [("modified", None), ("modified", "circles and waves")],
)
def test_gradients_in_the_parameters_equal_those_through_nested_differentiation(kind, embedding):
    network, x = make_network(2, "tanh", embedding, kind=kind), make_points()
    loss = lambda method, network: jnp.sum(residual(method, network, x) ** 2)
    gradients = eqx.filter_jit(
        lambda network: [
            eqx.filter_grad(functools.partial(loss, method))(network)
            for method in (feature_derivatives, nested)
        ]
    )(network)
    taylor, expected = (jax.tree.leaves(gradient) for gradient in gradients)
    assert len(taylor) == len(jax.tree.leaves(network))
    for actual, wanted in zip(taylor, expected, strict=True):
        agree(actual, wanted)
    if embedding == "fourier":
        np.testing.assert_array_equal(gradients[0].embedding.frequencies, 0)
    if embedding == "circles and waves":
        np.testing.assert_array_equal(gradients[0].embedding.waves.frequencies, 0)


def test_forward_and_reverse_jacobians_agree():
    moving, fixed = eqx.partition(make_network(), eqx.is_array)
    function = lambda m: residual(feature_derivatives, eqx.combine(m, fixed), make_points())
    jacobians = jax.jit(lambda m: [jax.jacfwd(function)(m), jax.jacrev(function)(m)])(moving)
    for ahead, back in zip(*map(jax.tree.leaves, jacobians), strict=True):
        agree(ahead, back)


def test_mapped_over_networks_and_inside_a_scan():
    networks, x = [make_network(seed=seed) for seed in range(3)], make_points()
    one = eqx.filter_jit(lambda network, x: residual(feature_derivatives, network, x))
    expected = [one(network, x) for network in networks]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *networks)

    @jax.jit
    def both(stacked):
        scanned = jax.lax.scan(lambda _, network: (None, one(network, x)), None, stacked)[1]
        return jax.vmap(one, (0, None))(stacked, x), scanned

    for actual in both(stacked):
        np.testing.assert_allclose(actual, expected, rtol=1e-10)


def test_networks_of_one_shape_share_a_program():
    compiled_once = eqx.filter_jit(lambda network, x: residual(feature_derivatives, network, x))
    networks, x = [make_network(seed=seed) for seed in (5, 6)], make_points()
    with count_compilations() as compiled:
        compiled_once(networks[0], x)
        first = len(compiled)
        compiled_once(networks[1], x)
    assert len(compiled) == first >= 1


@pytest.mark.parametrize(
    "backend, products",
    [
        # The first layer maps the points and two unit vectors; the second, five derivatives.
        ("cpu", [(10, 5), (1, 5), (1, 5), *[(10, 3)] * 5]),
        ("gpu", [(10, 5), (2, 5), (50, 3)]),
    ],
)
def test_just_the_rows_needed_are_multiplied(backend, products, monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: backend)
    network, x, orders = make_network(), make_points(num_points=10), ((0, 1), (3, 0))
    jaxpr = jax.make_jaxpr(lambda x: feature_derivatives(network, x, orders))(x)
    assert shapes_of_products(jaxpr.jaxpr) == products
    compare(network, x, orders)


# ---- The Laplacian ----


@pytest.mark.parametrize("kind", ["mlp", "modified"])
@pytest.mark.parametrize("embedding", [None, "fourier", "periodic", "circles and waves", "user"])
def test_the_laplacian_is_the_trace_of_the_second_derivatives(kind, embedding):
    network, x = make_network(2, "tanh", embedding, kind=kind), make_points()
    laplacian, slopes = Laplacian((2.0, 0.5)), ((0, 0), (1, 0))
    found, expected = eqx.filter_jit(
        lambda network, x: (
            feature_derivatives(network, x, (*slopes, laplacian)),
            nested(network, x, (*slopes, (2, 0), (0, 2))),
        )
    )(network, x)
    trace = 2.0 * expected[2, 0] + 0.5 * expected[0, 2]
    np.testing.assert_allclose(found[laplacian], trace, rtol=1e-9, atol=1e-9 * abs(trace).max())
    for order in slopes:
        agree(found[order], expected[order])


def test_the_laplacian_of_a_network_of_the_user():
    network, x, laplacian = Quadratic(jnp.asarray(1.5)), make_points(), Laplacian((1.0, 1.0))
    program = eqx.filter_jit(feature_derivatives)
    found = program(network, x, (laplacian,))[laplacian]
    second = program(network, x, ((2, 0), (0, 2)))
    np.testing.assert_allclose(found, second[2, 0] + second[0, 2], rtol=1e-12)


def test_the_laplacian_takes_one_array_for_all_axes():
    network, x = make_network(3), make_points(3, num_points=10)
    jaxpr = jax.make_jaxpr(lambda x: feature_derivatives(network, x, (Laplacian((1.0,) * 3),)))(x)
    # After the first layer the value, three slopes and the Laplacian, instead of seven arrays.
    deep = [shape for shape in shapes_of_products(jaxpr.jaxpr) if shape[0] == 10]
    assert len(deep) == 1 + 5 * (len(network.weights) - 1)


# ---- What is refused ----


@pytest.mark.parametrize(
    "activation, order, message",
    [
        (
            "relu",
            (1, 1),
            r"\(1, 1\) is of order 2, and the activation ReLU\(\) has .* order 1; use",
        ),
        ("repu", (0, 3), r"\(0, 3\) is of order 3, .* RePU\(power=2\) .* order 2; use .* tanh"),
    ],
)
def test_more_derivatives_than_the_activation_has_are_refused(activation, order, message):
    with pytest.raises(ValueError, match=message):
        feature_derivatives(make_network(2, activation), make_points(), ((0, 0), order))


def test_gates_do_not_raise_the_smoothness_of_the_activation():
    with pytest.raises(ValueError, match=r"\(2, 1\) is of order 3, .* RePU\(power=2\)"):
        feature_derivatives(make_network(2, "repu", kind="modified"), make_points(), ((2, 1),))


def test_the_embedding_bounds_the_derivatives_too():
    network = make_network(2, "tanh", "periodic")
    rectified = replace(network, embedding=replace(network.embedding, rectified=True))
    with pytest.raises(
        ValueError, match=r"rectified embedding .* use PeriodicFeatures\(rectified=False\)"
    ):
        check_orders(rectified, 2, ((2, 0),))
    axes = make_network(2, "relu", "axes")
    with pytest.raises(ValueError, match=r"embedding's ReLU\(\) has derivatives up to order 1"):
        check_orders(replace(axes, activation=activation_named("tanh")), 2, ((2, 0),))


@pytest.mark.parametrize("order", [(1,), (1, 0, 0), (-1, 2)])
def test_orders_have_a_number_for_each_input(order):
    with pytest.raises(ValueError, match=r"function of 2 inputs; give 2 .* such as \(2, 0\)"):
        feature_derivatives(make_network(), make_points(), (order,))


# ---- The paper ----


def test_gradients_of_the_poisson_loss_are_those_of_algorithms_1_and_2():
    """grad b = -Phi_b^T g_b - (Delta Phi_r)^T g_r with g = 2 (data - model), and a alike."""
    generator = np.random.default_rng(3)
    inside, boundary = generator.uniform(-1, 1, (8, 2)), generator.uniform(-1, 1, (5, 2))
    boundary[:, 0] = 1.0
    network, second = make_network(), ((2, 0), (0, 2))
    a, b, u, f = map(generator.normal, [0] * 4, [1] * 4, [network.width, len(BASIS), 5, 8])
    tables = BASIS.table(boundary), sum(BASIS.table(inside, order) for order in second)

    def parts(method):
        laplacian = sum(method(network, jnp.asarray(inside), second).values())
        return jax.vmap(network.features)(jnp.asarray(boundary)), laplacian

    def loss(a, b, tables):
        models = [
            psi @ a + phi @ b for psi, phi in zip(parts(feature_derivatives), tables, strict=True)
        ]
        return sum(jnp.sum((data - model) ** 2) for data, model in zip((u, f), models, strict=True))

    gradient_a, gradient_b = jax.jit(jax.grad(loss, (0, 1)))(a, b, tables)
    (psi, laplacian), (phi, phi_laplacian) = jax.jit(lambda: parts(nested))(), tables
    g_boundary = 2 * (u - (psi @ a + phi @ b))
    g_residual = 2 * (f - (laplacian @ a + phi_laplacian @ b))
    expected_a = -psi.T @ g_boundary - laplacian.T @ g_residual
    expected_b = -phi.T @ g_boundary - phi_laplacian.T @ g_residual
    agree(gradient_a, expected_a)
    agree(gradient_b, expected_b)
