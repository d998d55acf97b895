"""Fits of tables without options: the degree, the candidates, and which of them is kept."""

import numpy as np
import pytest
from numpy.polynomial.legendre import legval

from pann.basis import make_basis
from pann.domain import Box
from pann.methods import MLP, Training
from pann.regression import degree
from pann.regression.candidates import EMBEDDING, Options, fit_table, plan
from pann.regression.degree import choose_basis
from pann.training import Adam


def basis_for(rows, values, degree=None, index_set=None, memory=2**30, always_linear=False):
    return choose_basis(
        rows,
        values.reshape(len(rows), -1),
        np.ones(len(rows)),
        degree=degree,
        index_set=index_set,
        memory=memory,
        rows_at_once=len(rows),
        rows_per_term=3,
        always_linear=always_linear,
    )


@pytest.mark.parametrize("degree", [0, 1, 3, 6])
def test_the_degree_of_a_polynomial_with_noise_is_found(degree, rng):
    rows = rng.uniform(-1, 1, (400, 1))
    values = legval(rows[:, 0], np.eye(degree + 1)[degree]) + 0.05 * rng.normal(size=400)
    assert basis_for(rows, values)[1] == degree


def test_gaps_in_the_degrees_are_overcome(rng):
    """P10(x1) P10(x2) has nothing at degrees below 20."""
    rows = rng.uniform(-1, 1, (1500, 2))
    p10 = np.eye(11)[10]
    values = legval(rows[:, 0], p10) * legval(rows[:, 1], p10)
    basis, degree = basis_for(rows, values)
    assert degree >= 20
    assert [10, 10] in basis.indices.tolist()


def test_the_degree_does_not_depend_on_the_order_of_the_rows(monkeypatch):
    """Every 20th row of this grid has the same x2: the degree along it was not seen."""
    monkeypatch.setattr(degree, "MAX_ROWS", 200)
    random = np.random.default_rng(3)
    axes = np.meshgrid(np.linspace(-1, 1, 200), np.linspace(-1, 1, 20), indexing="ij")
    rows = np.stack(axes, axis=-1).reshape(-1, 2)
    values = rows[:, 1] ** 2 + 0.1 * rows[:, 0] + 1e-3 * random.normal(size=len(rows))
    shuffled = random.permutation(len(rows))
    in_order, in_disorder = basis_for(rows, values), basis_for(rows[shuffled], values[shuffled])
    assert in_order[1] == in_disorder[1] == 2


@pytest.mark.parametrize("num_rows, num_columns", [(30, 1), (60, 5), (300, 60), (40, 100)])
def test_the_terms_are_bounded_by_the_rows(num_rows, num_columns, rng):
    rows = rng.uniform(-1, 1, (num_rows, num_columns))
    assert 1 <= len(basis_for(rows, rows[:, 0] ** 2)[0]) <= num_rows / 3
    linear, _ = basis_for(rows, rows[:, 0] ** 2, always_linear=True)
    assert 1 <= len(linear) <= max(num_rows / 3, num_columns + 1)


def test_more_columns_than_rows_get_a_penalized_plane(rng):
    rows, test = (rng.normal(size=(count, 80)) for count in (60, 500))
    slopes = np.linspace(1, 0, 80) ** 4
    table_fit = fitted(rows, rows @ slopes)
    assert table_fit.degree == 1
    error = np.std(table_fit(test)[0, :, 0] - test @ slopes)
    assert error < 0.7 * np.std(test @ slopes)


def test_networks_and_degrees_asked_for_get_no_more_terms_than_rows(rng):
    rows = rng.normal(size=(9, 10))
    with_network = fitted(rows, rows[:, 0], recipe=(Adam(2),), width=4)
    assert with_network.models[0].num_terms <= 9
    with pytest.raises(ValueError, match="only 9 points"):
        fitted(rows, rows[:, 0], degree=2)


def test_memory_bounds_the_basis_and_a_degree_beyond_it_is_refused_with_one_that_fits(rng):
    rows = rng.uniform(-1, 1, (1000, 3))
    memory = 32 * 1000 * 20  # ten terms of degree 2, twenty of degree 3
    basis, _ = basis_for(rows, np.exp(rows.sum(axis=1)), memory=memory)
    assert len(basis) <= 20
    with pytest.raises(ValueError, match="use a degree of at most 3, or give more memory"):
        basis_for(rows, rows[:, 0], degree=9, memory=memory)


def test_a_degree_asked_for_is_used_with_a_sparser_set_where_total_degree_explodes(rng):
    few, many = rng.uniform(-1, 1, (500, 2)), rng.uniform(-1, 1, (500, 80))
    assert basis_for(few, few[:, 0], degree=4)[0] == make_basis(Box.cube(2), 4)
    expected = make_basis(Box.cube(80), 2, index_set="hyperbolic_cross")
    assert basis_for(many, many[:, 0], degree=2)[0] == expected


# ---- Candidates ----


def fitted(rows, values, **options):
    return fit_table(rows, values.reshape(len(rows), -1), np.ones(len(rows)), Options(**options))


def test_few_rows_get_a_polynomial_and_no_network(rng):
    rows = rng.uniform(-1, 1, (60, 2))
    table_fit = fitted(rows, rows[:, 0] ** 2 - rows[:, 1])
    assert list(table_fit.outcomes) == ["polynomial"]
    np.testing.assert_allclose(table_fit(rows)[0, :, 0], rows[:, 0] ** 2 - rows[:, 1], atol=1e-10)


@pytest.mark.slow
def test_noise_around_a_line_is_left_to_the_polynomial_and_a_kink_to_the_network(rng):
    rows = rng.uniform(-1, 1, (400, 2))
    test = rng.uniform(-1, 1, (2000, 2))
    line = fitted(rows, rows[:, 0] + rng.normal(size=400))
    assert line.how == "polynomial"
    assert line.degree == 1
    kink = lambda x: np.abs(x[:, 0] + x[:, 1]) + 0.3 * np.sin(9 * x[:, 1])
    bent = fitted(rows, kink(rows))
    assert bent.how == "second order"
    alone = fitted(rows, kink(rows), width=0)
    error = lambda fit: np.sqrt(np.mean((fit(test)[0, :, 0] - kink(test)) ** 2))
    assert error(bent) < 0.5 * error(alone)


@pytest.mark.slow
def test_the_gradient_candidate_learns_steps_that_polynomials_cannot(rng):
    rows = rng.uniform(-1, 1, (1500, 3))
    steps = lambda x: np.sign(x[:, 0] - 0.3) * np.sign(np.sin(5 * x[:, 1])) + 0.1 * x[:, 2]
    table_fit = fitted(rows, steps(rows) + 0.1 * rng.normal(size=1500), width=24, depth=2)
    assert table_fit.how == "gradient"
    test = rng.uniform(-1, 1, (2000, 3))
    polynomial = fitted(rows, steps(rows), width=0)
    error = lambda fit: np.sqrt(np.mean((fit(test)[0, :, 0] - steps(test)) ** 2))
    assert error(table_fit) < 0.5 * error(polynomial)


def test_rows_of_weight_zero_do_not_matter(rng):
    rows = rng.uniform(-1, 1, (80, 2))
    values = np.exp(rows[:, :1])
    weights = (np.arange(80) < 60) * 1.0
    values[60:] = 1e6
    weighted = fit_table(rows, values, weights, Options())
    fewer = fit_table(rows[:60], values[:60], np.ones(60), Options())
    np.testing.assert_array_equal(weighted(rows), fewer(rows))


def test_constant_and_repeated_columns_change_nothing(rng):
    rows = rng.uniform(-1, 1, (80, 2))
    values = rows[:, 0] * rows[:, 1] + 0.1 * rng.normal(size=80)
    plain = fitted(rows, values)(rows)
    constant = np.concatenate([rows, np.full((80, 1), 7.0)], axis=1)
    np.testing.assert_array_equal(fitted(constant, values)(constant), plain)
    repeated = np.concatenate([rows, rows[:, :1]], axis=1)
    assert np.all(np.isfinite(fitted(repeated, values)(repeated)))


def test_a_table_of_constants_gives_the_mean():
    rows = np.ones((10, 3))
    values = np.arange(10.0)
    np.testing.assert_allclose(fitted(rows, values)(rows)[0, :, 0], 4.5)


def test_halves_add_up_and_a_recipe_is_followed(rng):
    rows = rng.uniform(-1, 1, (150, 2))
    values = np.stack([rows[:, 0] ** 3, np.abs(rows[:, 1])], axis=1)
    table_fit = fitted(rows, values, recipe=(Adam(30),), width=6, depth=1, trials=2)
    assert list(table_fit.outcomes) == ["as asked"]
    assert table_fit.outcomes["as asked"][0].stage == Adam(30)
    network, polynomial = table_fit.parts(rows)
    assert network.shape == (2, 150, 2)
    np.testing.assert_array_equal(network + polynomial, table_fit(rows))
    assert not np.array_equal(network[0], network[1])


def test_padding_rows_does_not_change_what_is_fitted(rng):
    """150 rows are padded to 256 of which 106 weigh nothing: the same least squares."""
    from pann.regression.fit import fit

    rows = rng.uniform(-1, 1, (150, 2))
    values = np.exp(rows[:, 0]) * rows[:, 1]
    method = Training(stages=(Adam(40),), degree=3, network=MLP(width=4, depth=1))
    plain, padded = (
        fit(rows, values, method, domain=Box.cube(2), held_out=0.0, pad=pad)
        for pad in (False, True)
    )
    np.testing.assert_allclose(padded(rows), plain(rows), rtol=1e-9, atol=1e-12)


def test_without_held_out_rows_only_the_last_candidate_is_trained(rng):
    rows = rng.uniform(-1, 1, (150, 2))
    options = {"width": 4, "depth": 1}
    names = lambda **more: [
        candidate.name
        for candidate in plan(rows, rows[:, :1], np.ones(150), Options(**more)).candidates
    ]
    assert names(**options) == ["polynomial", "gradient"]
    assert names(**options, held_out=0.0) == ["gradient"]
    assert names(held_out=0.0) == ["polynomial"]
    table_fit = fitted(rows, rows[:, 0], **options, held_out=0.0)
    assert list(table_fit.outcomes) == ["gradient"]
    assert table_fit.held_out_error is None


@pytest.mark.parametrize("num_outputs", [1, 2])
def test_a_plan_has_the_sizes_of_the_models_that_are_trained(num_outputs, rng):
    """With an embedding, which keeps the features themselves, and a constant column."""
    rows = np.concatenate([rng.uniform(-1, 1, (150, 2)), np.ones((150, 1))], axis=1)
    values = rng.normal(size=(150, num_outputs))
    planned = plan(rows, values, np.ones(150), Options(width=(4, 3), held_out=0.0))
    [candidate] = planned.candidates
    sizes = candidate.sizes(planned.data)
    embedded = 2 * (1 + EMBEDDING.size)
    layers = embedded * 4 + 4 + 4 * 3 + 3 + 3 * num_outputs
    embedding = 2 * (EMBEDDING.num_frequencies * (1 + 2 * EMBEDDING.size) + EMBEDDING.size)
    assert sizes.num_network_parameters == embedding + layers
    assert (sizes.num_points, sizes.num_outputs) == (150, num_outputs)


# ---- What is held out ----


def test_nothing_is_learned_from_held_out_rows():
    random = np.random.default_rng(5)
    rows = random.uniform(-1, 1, (300, 2))
    values = rows[:, 0] ** 3 + 0.1 * random.normal(size=300)
    options = Options(recipe=(Adam(2),), width=4, trials=1)
    held_out = plan(rows, values[:, None], np.ones(300), options).data.held_out
    assert held_out.sum() == 30
    other_rows, other_values = rows.copy(), values.copy()
    other_rows[held_out], other_values[held_out] = 0.3, 50.0
    one, two = (
        fit_table(x, y[:, None], np.ones(300), options)
        for x, y in ((rows, values), (other_rows, other_values))
    )
    assert one.degree == two.degree
    for scaling in ("features", "targets"):
        for name, learned in vars(getattr(one, scaling)).items():
            np.testing.assert_array_equal(learned, getattr(getattr(two, scaling), name))


@pytest.mark.parametrize("num_columns", [1, 5, 200])
def test_ends_of_ranges_are_held_out_last(num_columns):
    rows = np.random.default_rng(1).normal(size=(100, num_columns))
    held_out = plan(rows, rows[:, :1], np.ones(100), Options()).data.held_out
    assert held_out.sum() == 10
    within = rows[~held_out]
    if num_columns < 200:  # where every row is the end of some range, some must be held out
        np.testing.assert_array_equal(within.min(axis=0), rows.min(axis=0))
        np.testing.assert_array_equal(within.max(axis=0), rows.max(axis=0))
