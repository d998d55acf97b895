"""The model a person holds: predictions, parts, terms and compaction, against NumPy."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles import count_compilations, forward, output, random_parameters, replace

from pann.basis import make_basis
from pann.domain import Box
from pann.model.architecture import Architecture
from pann.model.pann import BLOCK, PANN
from pann.network import AxisUnits, Circles, ModifiedMLP, RandomFourier, activation_named

DOMAIN = Box(x=(0.0, 3.0), y=(-2.0, -1.0))
BASIS = make_basis(DOMAIN, 3)


def random_points(count):
    return DOMAIN.from_reference(np.random.default_rng(0).uniform(-1, 1, (count, 2)))


def random_model(seed=0, *, num_outputs=None, precision="float64", **options):
    """A model with an overlap between its halves, as the exact constraint leaves it."""
    outputs = num_outputs or 1
    with jax.enable_x64(True):
        parameters = random_parameters(
            seed, num_terms=len(BASIS), num_outputs=outputs, dtype=precision, **options
        )
        overlap = np.random.default_rng(seed).normal(size=(len(BASIS), outputs))
        parameters = replace(parameters, overlap=jnp.asarray(overlap, precision))
    return PANN(DOMAIN, BASIS, parameters, precision, num_outputs)


def masked(model, keep_a, keep_b):
    with jax.enable_x64(True):
        parameters = replace(
            model.parameters, keep_a=jnp.asarray(keep_a), keep_b=jnp.asarray(keep_b)
        )
    return PANN(model.domain, model.basis, parameters, model.precision, model.num_outputs)


def expected_output(model, points):
    reference = DOMAIN.to_reference(points)
    return output(model.parameters, reference, BASIS.table(points))


# ---- Predictions ----


@pytest.mark.parametrize("bias", [False, True])
def test_predictions_equal_numpy(bias):
    points, model = random_points(40), random_model(bias=bias)
    predicted = model(points)
    assert isinstance(predicted, np.ndarray)
    assert predicted.shape == (40,)
    assert predicted.dtype == np.float64
    np.testing.assert_allclose(predicted, expected_output(model, points)[:, 0], atol=1e-13)


def test_without_a_network_a_prediction_compiles_nothing():
    points, model = random_points(700), random_model(widths=(), bias=True)
    with count_compilations() as compiled:
        predicted = model(points)
    assert compiled == []
    np.testing.assert_allclose(predicted, expected_output(model, points)[:, 0], atol=1e-13)


def test_several_outputs_are_columns():
    points, model = random_points(40), random_model(num_outputs=3, bias=True)
    assert model(points).shape == (40, 3)
    np.testing.assert_allclose(model(points), expected_output(model, points), atol=1e-13)


def test_a_single_column_stays_a_column():
    points = random_points(5)
    column = random_model(num_outputs=1)(points)
    np.testing.assert_array_equal(column, random_model()(points)[:, None])


def test_parts_are_the_halves_with_the_overlap_moved_and_sum_to_the_prediction():
    points, model = random_points(40), random_model(num_outputs=2, bias=True)
    parts, p = model.parts(points), model.parameters
    table, overlap = BASIS.table(points), np.asarray(p.overlap)
    psi = forward(p.network, DOMAIN.to_reference(points))
    network = psi @ np.asarray(p.a) + np.asarray(p.bias) - table @ overlap
    np.testing.assert_allclose(parts.network, network, atol=1e-13)
    np.testing.assert_allclose(parts.polynomial, table @ (np.asarray(p.b) + overlap), atol=1e-13)
    np.testing.assert_array_equal(parts.network + parts.polynomial, model(points))


@pytest.mark.parametrize("count", [1, 63, 65, BLOCK // 2 + 1, 9000])
def test_any_number_of_points_gives_the_direct_computation(count):
    points, model = random_points(count), random_model()
    np.testing.assert_allclose(model(points), expected_output(model, points)[:, 0], atol=1e-13)


def test_precisions_agree_to_single_precision_and_no_further():
    points = random_points(40)
    double, single = random_model(), random_model(precision="float32")
    assert single(points).dtype == np.float32
    error = np.max(np.abs(double(points) - single(points))) / np.max(np.abs(double(points)))
    assert 1e-9 < error < 1e-5


def test_the_global_configuration_is_not_touched():
    before = jax.config.jax_enable_x64
    random_model()(random_points(5))
    random_model().compact().terms()
    assert jax.config.jax_enable_x64 is before is False


def test_a_fit_is_followed_to_its_margin_and_clipped_with_a_warning():
    model = dataclasses.replace(random_model(), relative_error=1e-4)
    box, margin = model.domain, model.margins
    assert np.all((margin > 0) & (margin <= 0.05))
    upper, middle = np.asarray(box.upper), (np.asarray(box.lower) + np.asarray(box.upper)) / 2
    inside, edge, far = (
        np.array([[upper[0] + share * box.widths[0], middle[1]]]) for share in (0, margin[0], 2)
    )
    assert np.all(model(inside) != model(edge))
    with pytest.warns(UserWarning, match=r"1 of 1 points .* x = .* 200% of the width .* train on"):
        np.testing.assert_allclose(model(far), model(edge), rtol=1e-12)
    with pytest.raises(ValueError, match="NaN"):
        model([[np.nan, 0.0]])


def test_points_outside_of_the_box_are_refused():
    model = random_model()
    with pytest.raises(ValueError, match=r"1 of 2 points lie outside .* point 1 with x = 3.5"):
        model(np.array([[1.0, -1.5], [3.5, -1.5]]))
    with pytest.raises(
        ValueError, match=r"shape \(points, 2\), a column for each of the axes x, y"
    ):
        model(np.zeros((4, 3)))


# ---- Architecture ----


@pytest.mark.parametrize(
    "embedding, first_layer, own",
    [(None, 2 * 6, 0), (RandomFourier(4), 8 * 6, 0), (AxisUnits(9), 9 * 6, 18)],
    ids=["coordinates", "fixed waves", "axis units"],
)
def test_an_architecture_counts_what_training_moves_besides_the_polynomial(
    embedding, first_layer, own
):
    architecture = Architecture(
        (6, 5), activation_named("tanh"), embedding, 0.0, None, True, "float64"
    )
    with jax.enable_x64(True), count_compilations() as compiled:
        count = architecture.num_network_parameters(2, 3)
    # Layers with their biases, a, the output bias, and what of the embedding is trained.
    assert count == (first_layer + 6) + (6 * 5 + 5) + 5 * 3 + 3 + own
    assert compiled == []


def test_an_architecture_counts_the_encoders_of_a_modified_network():
    architecture = Architecture(
        (6,) * 3, activation_named("tanh"), Circles((1,), 4), 0.0, None, True, "float64", gated=True
    )
    with jax.enable_x64(True):
        count = architecture.num_network_parameters(2, 3)
        network = architecture.start(2, 0, 3, key=jax.random.key(0)).network
    assert isinstance(network, ModifiedMLP)
    # Two encoders and the first layer, two gates, a, the output bias; the waves are fixed.
    assert count == 3 * (8 * 6 + 6) + 2 * (6 * 6 + 6) + 6 * 3 + 3


@pytest.mark.parametrize(
    "widths, dropout, message",
    [
        ((6, 5), 0.0, r"hidden layers of equal width, got \(6, 5\); give one width"),
        ((6,), 0.0, r"two or more hidden layers .* got \(6,\)"),
        ((6, 6), 0.1, "no dropout, got 0.1; use 0, or gated=False"),
    ],
)
def test_an_architecture_refuses_what_it_cannot_make(widths, dropout, message):
    tanh = activation_named("tanh")
    with pytest.raises(ValueError, match=message):
        Architecture(widths, tanh, None, dropout, None, False, "float64", gated=True)


def test_a_modified_network_is_compacted_exactly():
    model = random_model(widths=(5, 5, 5), kind="modified")
    model = masked(model, np.array([True, False, True, True, False]), np.ones(len(BASIS), bool))
    points = random_points(30)
    compact = model.compact()
    assert compact.parameters.network.width == 3
    np.testing.assert_allclose(compact(points), model(points), rtol=1e-12)


# ---- Terms ----


def test_terms_are_those_kept_by_falling_coefficient():
    model = random_model(num_outputs=2)
    keep_b = np.arange(len(BASIS)) % 3 != 1
    model = masked(model, np.ones(5, bool), keep_b)
    coefficients = np.asarray(model.parameters.b) + np.asarray(model.parameters.overlap)
    terms = model.terms()
    assert len(terms) == model.num_terms == keep_b.sum()
    sizes = [np.max(np.abs(term.coefficients)) for term in terms]
    assert sizes == sorted(sizes, reverse=True)
    by_name = dict(zip(BASIS.term_names(), coefficients, strict=True))
    assert {term.name for term in terms} == set(np.array(BASIS.term_names())[keep_b])
    for term in terms:
        np.testing.assert_array_equal(term.coefficients, by_name[term.name])


# ---- Compaction ----

MASKS = {
    "random": lambda size: np.random.default_rng(size).random(size) < 0.5,
    "other": lambda size: np.random.default_rng(size + 7).random(size) < 0.7,
    "all": lambda size: np.ones(size, bool),
    "none": lambda size: np.zeros(size, bool),
}


@pytest.mark.parametrize(
    "units, terms",
    [
        ("random", "random"),
        ("other", "other"),
        ("all", "all"),
        ("none", "random"),
        ("random", "none"),
        ("none", "none"),
    ],
)
@pytest.mark.parametrize("num_outputs", [None, 2])
def test_a_compact_model_predicts_the_same(units, terms, num_outputs):
    keep_a, keep_b = MASKS[units](5), MASKS[terms](len(BASIS))
    model = masked(random_model(num_outputs=num_outputs, bias=True), keep_a, keep_b)
    points = random_points(50)
    compact = model.compact()
    whole = expected_output(model, points)
    expected = whole[:, 0] if num_outputs is None else whole
    # To the last digits although JAX, outside of the library, is in single precision.
    np.testing.assert_allclose(model(points), expected, atol=1e-13)
    np.testing.assert_allclose(compact(points), expected, atol=1e-13)
    for half, compact_half in zip(model.parts(points), compact.parts(points), strict=True):
        np.testing.assert_allclose(compact_half, half, atol=1e-13)
    assert (compact.num_units, compact.num_terms) == (keep_a.sum(), keep_b.sum())
    assert (model.num_units, model.num_terms) == (keep_a.sum(), keep_b.sum())
    assert len(compact.basis) == keep_b.sum()
    assert compact.parameters.a.shape[0] == keep_a.sum()


def test_a_model_without_a_network_predicts_its_polynomial():
    model, points = random_model(widths=()), random_points(10)
    network, polynomial = model.parts(points)
    p = model.parameters
    shared = BASIS.table(points) @ np.asarray(p.overlap)[:, 0]
    np.testing.assert_allclose(network, -shared, atol=1e-13)
    np.testing.assert_allclose(
        network + polynomial, expected_output(model, points)[:, 0], atol=1e-13
    )


def test_the_representation_counts_what_is_left():
    model = masked(random_model(), np.arange(5) < 2, np.arange(len(BASIS)) < 4)
    assert repr(model.compact()) == (
        "PANN(x, y: 2 hidden layers, 2 last units, Tanh(); 4 polynomial terms; float64)"
    )
    assert "no network" in repr(masked(model, np.zeros(5, bool), np.ones(10, bool)).compact())
