"""The neural half against NumPy: activations, initializations, networks, embeddings, dropout."""

import functools
import itertools
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.jet import jet
from oracles import forward, random_parameters, replace
from scipy import stats

import pann
from pann.model.pann import trainable
from pann.network import (
    AxisEmbedding,
    AxisUnits,
    CircleEmbedding,
    Circles,
    Complementary,
    Glorot,
    PeriodicEmbedding,
    PeriodicFeatures,
    PolynomialEmbedding,
    PolynomialFeatures,
    Power,
    RandomFourier,
    RandomFourierFeatures,
    RePU,
    activation_named,
    draw_network,
)

TOLERANCES = {"float64": 1e-13, "float32": 1e-5}
PRECISIONS = list(TOLERANCES)


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True), jax.default_matmul_precision("highest"):
        yield


# ---- Activations ----


@pytest.mark.parametrize(
    "name, formula",
    [
        ("tanh", np.tanh),
        ("sin", np.sin),
        ("relu", lambda x: np.where(x > 0, x, 0)),
        ("repu", lambda x: np.where(x > 0, x * x, 0)),
        (RePU(3), lambda x: np.where(x > 0, x * x * x, 0)),
        (Power(2.5), lambda x: np.maximum(x, 0) ** 2.5),
    ],
)
def test_activations_match_numpy(name, formula):
    x = np.linspace(-3, 3, 61)
    np.testing.assert_allclose(activation_named(name)(jnp.asarray(x)), formula(x), atol=1e-15)


def derivative(function, order):
    for _ in range(order):
        function = jax.grad(function)
    return jax.jit(function)


@pytest.mark.parametrize("name, power", [("relu", 1), ("repu", 2), (RePU(4), 4)])
def test_smoothness_of_powers_is_the_last_derivative_that_is_not_zero(name, power):
    activation = activation_named(name)
    assert activation.smoothness == power
    assert derivative(activation, power)(0.7) == pytest.approx(math.factorial(power))
    assert derivative(activation, power + 1)(0.7) == 0


@pytest.mark.parametrize(
    "name, fourth",
    [
        ("tanh", lambda x: 8 * np.tanh(x) / np.cosh(x) ** 2 * (2 - 3 * np.tanh(x) ** 2)),
        ("sin", np.sin),
        (Power(2.5), lambda x: 2.5 * 1.5 * 0.5 * -0.5 * x**-1.5),
    ],
)
def test_smooth_activations_have_a_fourth_derivative_too(name, fourth):
    activation = activation_named(name)
    assert activation.smoothness == math.inf
    assert derivative(activation, 4)(0.3) == pytest.approx(fourth(0.3), rel=1e-12)


def test_an_activation_passes_through_and_an_unknown_name_is_refused():
    assert activation_named(RePU(3)) == RePU(3)
    assert activation_named("repu") == RePU(2) != RePU(3)
    with pytest.raises(ValueError, match="no activation 'swish'; choose from tanh, relu"):
        pann.MLP(activation="swish")
    with pytest.raises(ValueError, match="power of RePU must be at least 1, got 0; use 2"):
        RePU(0)


@pytest.mark.parametrize("name", ["tanh", "sin", "relu", "repu"])
def test_taylor_mode_gives_the_second_derivative_of_the_features(name):
    network = replace(random_parameters(3).network, activation=activation_named(name))
    x, direction = jnp.array([0.3, -0.4]), jnp.array([1.0, 2.0])

    @jax.jit
    def nested_and_taylor(x):
        along = lambda point: jax.jvp(network.features, (point,), (direction,))[1]
        second = jax.jvp(along, (x,), (direction,))[1]
        _, (_, taylor) = jet(network.features, (x,), ((direction, jnp.zeros(2)),))
        return second, taylor

    second, taylor = nested_and_taylor(x)
    np.testing.assert_allclose(taylor, second, atol=1e-13)
    assert name == "relu" or np.any(np.abs(second) > 1e-3)


# ---- Initializations ----


def draw(function):
    """One program for all draws of a function of a key: compiling each alone takes longer."""
    return eqx.filter_jit(function)(jax.random.key(0))


def test_glorot_has_the_variance_of_its_law():
    sizes = [30, 200, 50]
    layers = draw(lambda key: Glorot().layers(sizes, key=key, dtype="float64"))
    for (weight, bias), inputs, outputs in zip(layers, sizes[:-1], sizes[1:], strict=True):
        assert weight.shape == (outputs, inputs)
        # The square of a normal number has a relative deviation of sqrt(2).
        variance, deviation = 2 / (inputs + outputs), math.sqrt(2 / weight.size)
        assert np.mean(np.square(weight)) == pytest.approx(variance, rel=5 * deviation)
        assert stats.kstest(np.ravel(weight) / math.sqrt(variance), "norm").pvalue > 1e-4
        np.testing.assert_array_equal(bias, 0)
    first, second = (np.ravel(weight) / np.std(weight) for weight, _ in layers)
    assert abs(np.mean(first[:6000] * second[:6000])) < 0.1


@functools.cache
def first_layer(initialization, dtype="float64"):
    weights, biases = draw(lambda key: initialization.first_layer(3, 400, key=key, dtype=dtype))
    assert weights.dtype == biases.dtype == dtype
    return np.asarray(weights), np.asarray(biases)


@pytest.mark.parametrize("dtype", PRECISIONS)
def test_slopes_are_log_uniform_between_the_scales(dtype):
    weights, _ = first_layer(Complementary(aligned=0.3), dtype)
    slopes = np.linalg.norm(weights, axis=1)
    rounding = 1 + TOLERANCES[dtype]
    assert 2 / rounding <= slopes.min() < slopes.max() <= 20 * rounding
    place = np.log(slopes / 2) / np.log(10)
    assert stats.kstest(place, "uniform").pvalue > 1e-4


def test_each_hyperplane_passes_through_its_center(rng):
    centers = jnp.asarray(rng.uniform(-1, 1, (400, 3)))
    weights, biases = draw(
        lambda key: Complementary().first_layer(3, 400, key=key, dtype="float64", centers=centers)
    )
    np.testing.assert_allclose(np.sum(np.asarray(weights) * centers, axis=1), -biases, atol=1e-13)


def test_hyperplanes_without_given_centers_cut_the_cube():
    weights, biases = first_layer(Complementary(aligned=0.3))
    assert np.all(np.abs(biases) < np.abs(weights).sum(axis=1))
    assert np.ptp(biases / np.linalg.norm(weights, axis=1)) > 1


@pytest.mark.parametrize("aligned", [0.0, 0.3])
def test_the_share_of_units_along_an_axis(aligned):
    weights, _ = first_layer(Complementary(aligned=aligned))
    along = np.count_nonzero(weights, axis=1) == 1
    assert along.sum() == round(aligned * 400)
    assert np.all(np.count_nonzero(weights[~along], axis=1) == 3)
    if aligned > 0:
        axes = np.abs(weights[along]).argmax(axis=1)
        assert np.ptp(np.bincount(axes, minlength=3)) <= 1
        upwards = weights[along].sum(axis=1) > 0
        assert 0.3 < upwards.mean() < 0.7


def test_directions_off_the_axes_are_uniform_on_the_sphere():
    # A coordinate of a uniform direction in three dimensions is uniform on [-1, 1] (Archimedes).
    weights, _ = first_layer(Complementary(aligned=0.0))
    normals = weights / np.linalg.norm(weights, axis=1, keepdims=True)
    for column in normals.T:
        assert stats.kstest(column, "uniform", args=(-1, 2)).pvalue > 1e-4


@pytest.mark.parametrize("sizes", [[2, 9], [2, 9, 120, 80]])
def test_complementary_layers_after_the_first_are_glorots(sizes):
    layers = draw(lambda key: Complementary().layers(sizes, key=key, dtype="float64"))
    assert [weight.shape for weight, _ in layers] == list(zip(sizes[1:], sizes[:-1], strict=True))
    assert np.all(np.linalg.norm(layers[0][0], axis=1) >= 2)
    for weight, bias in layers[1:]:
        deviation = math.sqrt(2 / weight.size)
        assert np.mean(np.square(weight)) == pytest.approx(2 / sum(weight.shape), rel=5 * deviation)
        np.testing.assert_array_equal(bias, 0)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"scales": (0.0, 1.0)}, r"0 < low <= high, got \(0, 1\)"),
        ({"scales": (3.0, 2.0)}, r"0 < low <= high, got \(3, 2\)"),
        ({"aligned": 1.5}, "a fraction between 0 and 1, got 1.5"),
    ],
)
def test_bad_initializations_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        Complementary(**options)


# ---- Networks ----


@pytest.mark.parametrize("dtype", PRECISIONS)
@pytest.mark.parametrize(
    "kind, widths",
    [("mlp", (7,)), ("mlp", (5, 7, 4)), ("modified", (5, 5)), ("modified", (6,) * 4)],
)
def test_features_equal_a_forward_pass_in_numpy(kind, widths, dtype, rng):
    network = random_parameters(0, widths=widths, dtype=dtype, kind=kind).network
    points = rng.uniform(-1, 1, (20, 2)).astype(dtype)
    features = jax.jit(jax.vmap(network.features))(jnp.asarray(points))
    assert network.width == widths[-1]
    assert features.dtype == dtype
    np.testing.assert_allclose(features, forward(network, points), atol=TOLERANCES[dtype])


def test_a_network_gets_its_layers_from_its_arguments():
    embedding = RandomFourierFeatures(jnp.ones((4, 2)))
    network = draw(
        lambda key: draw_network(
            2,
            (400, 5),
            activation_named("sin"),
            key=key,
            initialization=Complementary((3.0, 4.0)),
            embedding=embedding,
            dropout=0.1,
            dtype="float32",
        )
    )
    assert [weight.shape for weight in network.weights] == [(400, 8), (5, 400)]
    assert [bias.shape for bias in network.biases] == [(400,), (5,)]
    assert {array.dtype.name for array in (*network.weights, *network.biases)} == {"float32"}
    slopes = np.linalg.norm(network.weights[0], axis=1)
    assert 2.999 < slopes.min() < 3.1 < 3.9 < slopes.max() < 4.001
    assert (network.dropout, network.activation) == (0.1, activation_named("sin"))


def test_a_modified_network_gets_its_layers_from_its_arguments():
    embedding = CircleEmbedding((1,), 2)
    network = draw(
        lambda key: draw_network(
            2,
            (400, 400),
            activation_named("sin"),
            key=key,
            gated=True,
            initialization=Complementary((3.0, 4.0)),
            embedding=embedding,
            dtype="float32",
        )
    )
    first = [network.weights[0], *network.encoder_weights]
    assert [weight.shape for weight in first] == [(400, 3)] * 3
    assert network.weights[1].shape == (400, 400)
    assert {leaf.dtype.name for leaf in jax.tree.leaves(network)} == {"float32"}
    for weight in first:
        slopes = np.linalg.norm(weight, axis=1)
        assert 2.999 < slopes.min() < 3.1 < 3.9 < slopes.max() < 4.001
    # Encoders that are equal would make every gate idle.
    assert all(np.any(one != other) for one, other in itertools.combinations(first, 2))
    assert network.dropout == 0


@pytest.mark.parametrize("widths", [(5,), (5, 4), (5, 5, 4)])
def test_gates_need_layers_of_equal_width(widths):
    with pytest.raises(ValueError, match=r"two or more hidden layers of equal width, got \(5,"):
        draw_network(2, widths, activation_named("tanh"), key=jax.random.key(0), gated=True)


@pytest.mark.parametrize("widths", [(5, 5), (5, 5, 5)])
def test_select_keeps_units_of_a_modified_network(widths, rng):
    network = random_parameters(0, widths=widths, kind="modified").network
    points = rng.uniform(-1, 1, (20, 2))
    expected = forward(network, points)
    once = network.select(np.array([4, 0, 3]))
    twice = once.select(np.array([2, 0]))
    for selected, kept in ((once, [4, 0, 3]), (twice, [3, 4])):
        assert selected.width == len(kept)
        features = jax.jit(jax.vmap(selected.features))(jnp.asarray(points))
        np.testing.assert_allclose(features, expected[:, kept], rtol=1e-12)


def test_select_keeps_units_of_the_last_layer():
    network = random_parameters(0).network
    x = jnp.array([0.2, -0.7])
    kept = np.array([3, 0])
    selected = network.select(kept)
    assert selected.width == 2
    expected = forward(network, x[None])[0, kept]
    np.testing.assert_allclose(eqx.filter_jit(selected.features)(x), expected, rtol=1e-13)


# ---- Dropout ----


def dropped(network, x, num_keys=4000):
    keys = jax.random.split(jax.random.key(7), num_keys)
    return np.asarray(jax.jit(jax.vmap(lambda key: network.features(x, key)))(keys))


def test_dropout_keeps_the_mean_and_drops_its_share():
    network = replace(random_parameters(0, widths=(6,)).network, dropout=0.25)
    x = jnp.array([0.4, -0.2])
    samples, whole = dropped(network, x), forward(network, x[None])[0]
    deviation = samples.std(axis=0) / math.sqrt(len(samples))
    assert np.all(np.abs(samples.mean(axis=0) - whole) < 5 * deviation)
    share = np.mean(samples == 0)
    assert share == pytest.approx(0.25, abs=5 * math.sqrt(0.25 * 0.75 / samples.size))
    np.testing.assert_allclose(samples, np.where(samples == 0, 0, whole / 0.75), rtol=1e-13)


def test_dropout_reaches_every_hidden_layer_by_draws_of_its_own():
    """A second layer that passes its inputs on: a unit survives both layers at the rate (1-p)^2."""
    network = replace(random_parameters(0, widths=(6, 6)).network, dropout=0.5)
    network = replace(
        network,
        weights=[network.weights[0], jnp.eye(6)],
        biases=[network.biases[0], jnp.zeros(6)],
    )
    survived = dropped(network, jnp.array([0.4, -0.2])) != 0
    deviation = math.sqrt(0.25 * 0.75 / survived.size)
    assert survived.mean() == pytest.approx(0.25, abs=5 * deviation)


def test_dropout_is_off_without_a_key_and_differs_from_point_to_point():
    parameters = random_parameters(0, widths=(6,))
    with_dropout = replace(parameters, network=replace(parameters.network, dropout=0.5))
    points = jnp.asarray(np.full((50, 2), 0.3))
    expected = forward(parameters.network, points)
    np.testing.assert_allclose(eqx.filter_jit(with_dropout.features)(points), expected, rtol=1e-13)
    features = np.asarray(eqx.filter_jit(with_dropout.features)(points, jax.random.key(0)))
    assert len(np.unique(features == 0, axis=0)) > 10


# ---- Embeddings ----


def drawn(options, num_inputs, dtype="float64"):
    tanh = activation_named("tanh")
    return draw(lambda key: options.build(num_inputs, tanh, key=key, dtype=dtype))


@pytest.mark.parametrize("dtype", PRECISIONS)
def test_random_fourier_features_match_numpy(dtype, rng):
    frequencies = jnp.asarray(2 * rng.normal(size=(5, 3)), dtype)
    embedding = RandomFourierFeatures(frequencies)
    x = rng.uniform(-1, 1, 3).astype(dtype)
    phase = np.asarray(embedding.frequencies) @ x
    assert embedding.num_outputs == 10
    actual = eqx.filter_jit(embedding)(jnp.asarray(x))
    assert actual.dtype == dtype
    expected = np.concatenate([np.cos(phase), np.sin(phase)])
    np.testing.assert_allclose(actual, expected, atol=10 * TOLERANCES[dtype])


def test_random_fourier_frequencies_have_their_scale():
    frequencies = drawn(RandomFourier(500, 3.0), 4).frequencies
    assert stats.kstest(np.ravel(frequencies) / 3, "norm").pvalue > 1e-4


@pytest.mark.parametrize("rectified", [False, True])
@pytest.mark.parametrize("dtype", PRECISIONS)
def test_the_periodic_embedding_matches_a_loop_over_features(dtype, rectified, rng):
    normal = lambda *shape: jnp.asarray(rng.normal(size=shape), dtype)
    embedding = PeriodicEmbedding(
        frequencies=normal(3, 5),
        weights=normal(3, 4, 10),
        biases=normal(3, 4),
        rectified=rectified,
    )
    x = rng.uniform(-1, 1, 3).astype(dtype)
    expected = list(x)
    for feature in range(3):
        phase = 2 * np.pi * np.asarray(embedding.frequencies)[feature] * x[feature]
        waves = np.concatenate([np.cos(phase), np.sin(phase)])
        matrix, shift = (
            np.asarray(embedding.weights)[feature],
            np.asarray(embedding.biases)[feature],
        )
        mapped = matrix @ waves + shift
        expected += list(np.maximum(mapped, 0) if rectified else mapped)
    actual = eqx.filter_jit(embedding)(jnp.asarray(x))
    assert actual.dtype == dtype
    assert actual.shape == (embedding.num_outputs,) == (15,)
    np.testing.assert_allclose(actual, expected, atol=10 * TOLERANCES[dtype])


@pytest.mark.parametrize("dtype", PRECISIONS)
def test_axis_units_match_a_loop_over_units(dtype, rng):
    slopes, centers = (jnp.asarray(rng.normal(size=8), dtype) for _ in range(2))
    activation = activation_named("sin")
    embedding = AxisEmbedding(slopes, centers, num_inputs=3, activation=activation)
    x = rng.uniform(-1, 1, 3).astype(dtype)
    expected = [
        np.sin(float(slope) * (x[unit % 3] - float(center)))
        for unit, (slope, center) in enumerate(zip(slopes, centers, strict=True))
    ]
    actual = eqx.filter_jit(embedding)(jnp.asarray(x))
    assert actual.dtype == dtype
    np.testing.assert_allclose(actual, expected, atol=TOLERANCES[dtype])


@pytest.mark.parametrize(
    "options, kind, num_outputs",
    [
        (RandomFourier(7), RandomFourierFeatures, 14),
        (PeriodicFeatures(5, 4), PeriodicEmbedding, 3 * 4 + 3),
        (AxisUnits(11), AxisEmbedding, 11),
        (Circles((0, 2)), CircleEmbedding, 5),
        (Circles((1,), 6), CircleEmbedding, 12),
        (PolynomialFeatures(3), PolynomialEmbedding, 20),
    ],
)
def test_options_build_their_embedding(options, kind, num_outputs):
    made = drawn(options, 3, "float32")
    assert isinstance(made, kind)
    assert made.num_outputs == num_outputs
    assert {leaf.dtype.name for leaf in jax.tree.leaves(made)} <= {"float32"}
    x = jax.ShapeDtypeStruct((3,), "float32")
    assert jax.eval_shape(made, x).shape == (num_outputs,)


@pytest.mark.parametrize("dtype", PRECISIONS)
def test_random_waves_of_circles_match_numpy_and_are_periodic(dtype, rng):
    embedding = drawn(Circles((1,), 5, 2.0), 2, dtype)
    x = rng.uniform(-1, 1, 2).astype(dtype)
    circles = np.array([x[0], np.cos(np.pi * x[1]), np.sin(np.pi * x[1])])
    phase = np.asarray(embedding.waves.frequencies) @ circles
    expected = np.concatenate([np.cos(phase), np.sin(phase)])
    for shift in (0, 2):
        actual = eqx.filter_jit(embedding)(jnp.asarray(x + np.array([0, shift], dtype)))
        assert actual.dtype == dtype
        np.testing.assert_allclose(actual, expected, atol=100 * TOLERANCES[dtype])


def test_random_waves_of_circles_have_their_scale():
    frequencies = drawn(Circles((1, 2), 500, 3.0), 3).waves.frequencies
    assert frequencies.shape == (500, 5)
    assert stats.kstest(np.ravel(frequencies) / 3, "norm").pvalue > 1e-4


def test_a_negative_number_of_waves_is_refused():
    with pytest.raises(ValueError, match="frequencies must be at least 0, got -1; 0 leaves"):
        Circles((1,), -1)


def test_only_random_fourier_frequencies_are_fixed():
    fourier, periodic, axes, circles = (
        drawn(options, 2)
        for options in (
            RandomFourier(4),
            PeriodicFeatures(4, 3),
            AxisUnits(9),
            Circles((0, 1), 3),
        )
    )
    embeddings = ((fourier, False), (periodic, True), (axes, True), (circles, False))
    for embedding, moves in embeddings:
        parameters = random_parameters(0, embedding=embedding, bias=True)
        assert parameters.network.weights[0].shape == (6, embedding.num_outputs)
        spec = trainable(parameters)
        assert jax.tree.leaves(spec.network.embedding) == [moves] * len(jax.tree.leaves(embedding))
        assert all(jax.tree.leaves((spec.network.weights, spec.network.biases)))
        assert spec.a is spec.b is spec.bias is True
        assert spec.keep_a is spec.keep_b is spec.overlap is False


def test_no_gradient_reaches_fixed_frequencies():
    embedding = RandomFourierFeatures(jnp.ones((4, 2)))
    network = random_parameters(0, embedding=embedding).network
    total = lambda net: jnp.sum(net.features(jnp.array([0.3, 0.1])))
    gradient = eqx.filter_jit(eqx.filter_grad(total))(network)
    np.testing.assert_array_equal(gradient.embedding.frequencies, 0)
    assert np.any(np.asarray(gradient.weights[0]) != 0)
