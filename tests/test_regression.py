"""`fit` from end to end: refusals before compilation, shared programs, known answers."""

import math

import jax
import numpy as np
import pandas as pd
import pytest
from oracles import count_compilations

from pann import baselines
from pann import points as samplers
from pann.basis import christoffel_weights, make_basis
from pann.domain import Box
from pann.network import AxisUnits
from pann.problems import functions
from pann.regression.fit import fit, relative_l2
from pann.runtime import memory
from pann.training import (
    LBFGS,
    Adam,
    Constant,
    Cosine,
    KeepIfBetter,
    LeastSquares,
    Prune,
    Race,
    recipes,
)

SQUARE = Box.cube(2)
# Of the constants below; tests draw from the fixture `rng`.
DRAWN = np.random.default_rng(0)
NEW = DRAWN.uniform(-1, 1, (500, 2))
X = DRAWN.uniform(-1, 1, (100, 2))
Y = np.sin(3 * X[:, 0]) * np.exp(X[:, 1])
# A recipe without iterations: one program for the network, one for the polynomial.
SOLVE = (LeastSquares("both"),)


def polynomial_fit(x, y, weights=None, at=NEW):
    """Degree 3 by NumPy's least squares, at new points; weights multiply the squares."""
    basis = make_basis(SQUARE, 3)
    roots = np.sqrt(np.ones(len(x)) if weights is None else weights)[:, None]
    values = y[:, None] if y.ndim == 1 else y
    coefficients = np.linalg.lstsq(roots * basis.table(x), roots * values, rcond=None)[0]
    return (basis.table(at) @ coefficients).reshape(len(at), *y.shape[1:])


# ---- Refusals ----

WITH_NAN = X.copy()
WITH_NAN[7, 1] = np.nan
ALL_NAN = np.full((100, 2), np.nan)
VALUES_WITH_NAN = Y.copy()
VALUES_WITH_NAN[3] = np.inf


@pytest.mark.parametrize(
    "points, values, options, message",
    [
        (WITH_NAN, Y, {}, "1 of 100 points have a NaN .* first is point 7; remove them"),
        (ALL_NAN, Y, {}, "100 of 100 points have a NaN .* first is point 0; remove them"),
        (np.where(X > 0.9, np.inf, X), Y, {}, "points have a NaN or infinite coordinate"),
        (X, VALUES_WITH_NAN, {}, "1 of 100 values are NaN or infinite.* value 3; remove them"),
        (X, Y[:-1], {}, "100 points but 99 values; give one a point"),
        (X[None], Y, {}, r"shape \(points, d\), got float64 of \(1, 100, 2\)"),
        (X, Y[:, None, None], {}, r"shape \(points,\) or \(points, outputs\), got .*\(100, 1, 1\)"),
        (X, np.zeros((100, 0)), {}, r"got float64 of shape \(100, 0\)"),
        (X, 0 * Y, {}, "all values are zero"),
        (X.astype(str), Y, {}, "points must be numbers .* got <U"),
        (X, Y.astype(str), {}, "values must be numbers .* got <U"),
        (X.astype(object), Y, {}, "points must be numbers .* got object"),
        (np.zeros((0, 2)), np.zeros(0), {}, r"points must be numbers .*\(0, 2\)"),
        (X, Y, {"domain": Box.cube(3)}, r"shape \(points, 3\).* got \(100, 2\)"),
        (X, Y, {"domain": Box.cube(2, 0, 1)}, "points lie outside of the box; the worst"),
        (X[:20], Y[:20], {"degree": 9}, "55 terms but there are only 18 points.* at most 4,"),
        (X[:20], Y[:20], {"degree": 9, "recipe": "paper", "constraint": "exact"},
         "55 terms but there are only 20 points.* at most 4"),
        (X, Y, {"degree": -1}, "degree must be at least 0, got -1"),
        (X, Y, {"activation": "swish"}, "no activation 'swish'; choose one of tanh"),
        (X, Y, {"constraint": "Q"}, "no constraint 'Q'; choose one of none, A"),
        (X, Y, {"constraint_weight": -1.0}, "constraint_weight must not be negative, got -1"),
        (X, Y, {"norm": "nuclear"}, "no norm 'nuclear'; choose one of frobenius"),
        (X, Y, {"reduction": "max"}, "no reduction 'max'; choose one of mean"),
        (X, Y, {"recipe": "fast"}, "no recipe 'fast'; choose one of default, paper"),
        (X, Y, {"precision": "float16"}, "precision must be .* float64, float32, got 'float16'"),
        (X, Y, {"width": 0, "degree": None, "depth": None}, "leave nothing to fit; give"),
        (X, Y, {"width": -3}, "width must be at least 0, got -3; 0 leaves the network out"),
        (X, Y, {"width": (5, 0), "depth": None}, r"at least 1 a layer, got \(5, 0\)"),
        (X, Y, {"depth": 0}, "depth must be an integer of at least 1, got 0"),
        (X, Y, {"trials": 0}, "trials must be an integer of at least 1, got 0"),
        (X, Y, {"dropout": 1.0}, r"dropout is a rate in \[0, 1\), got 1"),
        (X, Y, {"held_out": 1.0}, r"held_out is a share of the rows in \[0, 1\), got 1"),
        (X, Y, {"held_out": -0.1}, "held_out is a share of the rows"),
        (X, Y, {"sample_weight": np.ones(99)}, r"100 finite numbers of at least 0.* \(99,\)"),
        (X, Y, {"sample_weight": -np.ones(100)}, "100 finite numbers of at least 0"),
        (X, Y, {"sample_weight": ["a"] * 100}, "sample_weight needs 100 finite numbers"),
        (X, Y, {"sample_weight": np.zeros(100)}, "sample_weight .* not all of them 0"),
        (X, Y, {"basis": make_basis(Box.cube(2), 2), "degree": "auto"},
         "the basis lives on .* the same domain"),
        (X, Y, {"degree": "high"}, "degree must be an integer, \"auto\" or None, got 'high'"),
        # Options that have no effect with the others.
        (X, Y, {"basis": make_basis(Box.cube(2), 2)}, "degree=4 has no effect with a basis"),
        (X, Y, {"width": (9, 9)}, r"depth has no effect with a width for each .* \(9, 9\)"),
        (X, Y, {"width": 0}, "depth has no effect without a network.* or give a width"),
        (X, Y, {"width": 0, "depth": None, "activation": "sin"}, "activation has no effect"),
        (X, Y, {"width": 0, "depth": None, "dropout": 0.1}, "dropout has no effect without"),
        (X, Y, {"constraint_weight": 1e-2}, "no effect with the constraint 'exact'.* of A, B"),
        (X, Y, {"norm": "spectral"}, "norm has no effect with the constraint 'exact'"),
        (X, Y, {"recipe": "paper", "constraint": "l1", "norm": "spectral"},
         "norm has no effect with the constraint 'l1'"),
        (X, Y, {"recipe": (Adam(5),), "constraint_weight": 1e-2}, "with the constraint 'none'"),
    ],
)  # fmt: skip
def test_bad_input_is_refused_in_a_sentence_and_nothing_is_compiled(
    points, values, options, message
):
    # Sizes that no other test has: whatever were compiled would be compiled anew.
    sizes = {"degree": 4, "width": 17, "depth": 2}
    with count_compilations() as compiled, pytest.raises(ValueError, match=message):
        fit(points, values, **{**sizes, **options})
    assert compiled == []


def test_a_constraint_that_no_stage_reads_is_refused():
    with pytest.raises(ValueError, match=r"'E' has no effect: no stage .* recipe='paper'"):
        fit(X, Y, degree=2, width=4, constraint="E")
    stages = (KeepIfBetter((Race(((Adam(1),),)),)),)
    fit(X, Y, degree=2, width=4, constraint="E", recipe=stages)


def test_a_table_beyond_memory_is_refused_before_compilation(monkeypatch):
    monkeypatch.setattr(memory, "available_memory", lambda: 10_000)
    monkeypatch.setattr(memory, "ALWAYS_THERE", 0)
    with count_compilations() as compiled, pytest.raises(MemoryError) as refusal:
        fit(X, Y, degree=8, width=19)
    assert "90 points and 45 terms" in str(refusal.value)
    assert "lower the degree" in str(refusal.value)
    assert compiled == []


def test_a_compilation_is_counted():
    """Otherwise the counts here could not fail."""
    with count_compilations() as compiled:
        jax.jit(lambda x: x + 1)(X)
    assert len(compiled) == 1


# ---- Programs and bits ----


@pytest.mark.parametrize(
    "recipe",
    [
        pytest.param("default", marks=pytest.mark.slow),
        (Adam(6, Cosine(0.01), record_every=4), LBFGS(3, memory=3), Prune(0.05)),
    ],
    ids=["default", "gradient"],
)
def test_a_second_fit_of_the_same_shapes_compiles_nothing(recipe):
    def run(seed):
        generator = np.random.default_rng(seed)
        x = generator.uniform(-1, 1, (100, 2))
        y = generator.normal() + np.sin((3 + seed) * x[:, 0]) * x[:, 1]
        made = fit(x, y, degree=3, width=6, depth=2, recipe=recipe, seed=seed, domain=SQUARE)
        return made.model

    first = run(0)
    with count_compilations() as compiled:
        others = [run(seed) for seed in (1, 2, 3)]
    assert compiled == []
    if recipe != "default":  # what is left differs, and still no program was needed for it
        assert len({model.num_terms for model in (first, *others)}) > 1


@pytest.fixture(scope="module")
def seeds():
    """Predictions of the default recipe with the same seed, and with another one."""
    options = {"degree": 3, "width": 6, "depth": 2, "domain": SQUARE}
    before = jax.config.jax_enable_x64, jax.config.jax_default_matmul_precision
    predictions = [fit(X, Y, **options, seed=seed)(NEW) for seed in (4, 4, 5)]
    assert (jax.config.jax_enable_x64, jax.config.jax_default_matmul_precision) == before
    assert before[0] is False
    return predictions


def test_the_same_seed_gives_the_same_bits_and_another_does_not(seeds):
    same, again, other = seeds
    np.testing.assert_array_equal(same, again)
    assert not np.allclose(same, other, rtol=1e-6)


def test_predictions_are_double_precision_arrays_of_numpy(seeds):
    assert type(seeds[0]) is np.ndarray
    assert seeds[0].dtype == np.float64
    assert seeds[0].shape == (500,)


# ---- Known answers ----


@pytest.mark.parametrize("constraint", ["none", "exact"])
def test_a_product_of_legendre_polynomials_is_found_as_one_term(constraint):
    x = samplers.sobol(SQUARE, 1024).coordinates
    made = fit(
        x,
        functions.legendre_product(x),
        domain=SQUARE,
        degree=20,
        width=8,
        depth=2,
        constraint=constraint,
    )
    assert made.errors(NEW, functions.legendre_product(NEW))[0] < 1e-11
    (term,) = made.model.terms()
    assert term.name == "P10(x1) P10(x2)"
    assert float(term.coefficients[0]) == pytest.approx(1, abs=1e-12)
    assert made.model.num_units == 0


@pytest.mark.slow
def test_on_a_function_with_kinks_and_waves_both_halves_beat_either():
    """The paper's non-smooth function (section 4.2), with a network of one hidden layer."""
    x = samplers.poisson_disk(SQUARE, 1024).coordinates
    function = functions.non_smooth(2.0)
    y, true = function(x), function(NEW)
    options = {"domain": SQUARE, "width": 12, "depth": 1, "trials": 2}
    both = fit(x, y, degree=15, **options)
    network = baselines.dnn(x, y, **options)
    polynomial = baselines.least_squares(x, y, domain=SQUARE, degree=15)
    # The trial that the held-out rows chose, not the one that these points would choose.
    error = lambda made: relative_l2(made(NEW), true)
    assert error(both) < min(error(network), error(polynomial))


def test_several_outputs_are_fitted_as_each_alone():
    both = np.stack([Y, np.cos(X[:, 0] * X[:, 1])], axis=1)
    made = fit(X, both, degree=3, width=0, domain=SQUARE)
    assert made(NEW).shape == (500, 2)
    np.testing.assert_allclose(made(NEW), polynomial_fit(X, both), atol=1e-12)
    network = fit(X, both, degree=3, width=6, depth=2, recipe=SOLVE, domain=SQUARE)
    single = fit(X, both[:, 0], degree=3, width=6, depth=2, recipe=SOLVE, domain=SQUARE)
    # The same features, so the first output is fitted the same whatever is beside it.
    np.testing.assert_allclose(network(NEW)[:, 0], single(NEW), atol=1e-9)
    column = fit(X, both[:, :1], degree=3, width=0, domain=SQUARE)(NEW)
    np.testing.assert_allclose(column, polynomial_fit(X, both[:, :1]), atol=1e-12)


def test_sample_weights_weigh_the_squares_and_rows_of_weight_zero_are_ignored(rng):
    weights = rng.uniform(0.1, 3, 100)
    weights[20:50] = 0
    made = fit(X, Y, degree=3, width=0, sample_weight=weights, domain=SQUARE)
    np.testing.assert_allclose(made(NEW), polynomial_fit(X, Y, weights), atol=1e-12)
    kept = weights > 0
    without = fit(X[kept], Y[kept], degree=3, width=0, sample_weight=weights[kept], domain=SQUARE)
    np.testing.assert_allclose(made(NEW), without(NEW), atol=1e-12)


def test_values_at_rows_of_weight_zero_do_not_even_choose_the_best_state():
    weights = np.where(np.arange(100) % 5 == 0, 0.0, 1.0)
    garbage = Y + 100 * (weights == 0) * np.cos(np.arange(100))
    options = {"degree": 3, "width": 6, "depth": 2, "sample_weight": weights, "domain": SQUARE}
    np.testing.assert_array_equal(fit(X, Y, **options)(NEW), fit(X, garbage, **options)(NEW))


def test_the_preconditioner_is_least_squares_with_christoffel_weights():
    made = fit(X, Y, degree=3, width=0, preconditioner=True, domain=SQUARE)
    squares = christoffel_weights(make_basis(SQUARE, 3), X) ** 2
    np.testing.assert_allclose(made(NEW), polynomial_fit(X, Y, squares), atol=1e-11)
    assert not np.allclose(made(NEW), polynomial_fit(X, Y), atol=1e-4)


def test_the_paper_means_its_preconditioner_and_all_rows(monkeypatch):
    monkeypatch.setattr(recipes, "PAPER", (LeastSquares("polynomial", alone=True),))
    made = fit(X, Y, degree=3, width=6, depth=2, recipe="paper", domain=SQUARE)
    squares = christoffel_weights(make_basis(SQUARE, 3), X) ** 2
    np.testing.assert_allclose(made(NEW), polynomial_fit(X, Y, squares), atol=1e-11)
    # Constraint E is in the loss: it is reported, and zero while the network is off.
    assert made.outcomes[0].history["constraint"].tolist() == [[0.0]]


@pytest.mark.parametrize("values", [(0.3,), (-1.0, 1.0)], ids=["one value", "two values"])
def test_an_axis_with_few_values_is_no_trouble(values):
    """There P2 is a multiple of 1, and least squares has many solutions."""
    x = np.column_stack([np.resize(values, 100), X[:, 1]])
    y = np.exp(x[:, 1]) + 0.1 * x[:, 0]
    for width in (0, 6):
        made = fit(x, y, degree=3, width=width, depth=2 if width else None, recipe=SOLVE)
        assert made.errors(x, y)[0] < 1e-2
        # A network may lean on large coefficients, a polynomial alone has no need to.
        assert width > 0 or np.max(np.abs(made.model.parameters.b)) < 10


def test_the_basis_may_be_given():
    basis = make_basis(SQUARE, 3, families="chebyshev")
    made = fit(X, Y, basis=basis, width=0, domain=SQUARE)
    # Another basis of the same polynomials.
    np.testing.assert_allclose(made(NEW), polynomial_fit(X, Y), atol=1e-12)
    assert made.model.terms()[0].name.startswith(("T", "1"))


def test_the_domain_is_the_bounding_box_unless_given():
    made = fit(X, Y, degree=3, width=0)
    assert made.model.domain.lower == tuple(X.min(axis=0))
    assert made.model.domain.upper == tuple(X.max(axis=0))
    np.testing.assert_allclose(made(X), polynomial_fit(X, Y, at=X), atol=1e-12)
    line = fit(X[:, 0], Y, degree=3, width=0)
    np.testing.assert_allclose(line(X[:, 0]), np.polyval(np.polyfit(X[:, 0], Y, 3), X[:, 0]))


# ---- Trials and what is reported ----


@pytest.fixture(scope="module")
def three():
    reports = []
    recipe = (Adam(6, Constant(0.01), record_every=4), Prune(0.01))
    options = {"degree": 3, "width": 6, "depth": 2, "recipe": recipe, "domain": SQUARE}
    made = fit(X, Y, **options, trials=3, held_out=0.0, seed=2, report=reports.append)
    return made, reports, options


def test_the_model_is_the_trial_of_the_lowest_score(three):
    made, _, _ = three
    errors = [np.mean((model(X) - Y) ** 2) for model in made.models]
    np.testing.assert_allclose(made.scores, errors, rtol=1e-10)
    assert len(np.unique(made.scores)) == 3
    assert made.model is made.models[int(np.argmin(errors))]
    expected = [relative_l2(model(NEW), NEW[:, 0]) for model in made.models]
    np.testing.assert_array_equal(made.errors(NEW, NEW[:, 0]), expected)


def test_a_trial_is_the_same_alone(three):
    made, _, options = three
    alone = fit(X, Y, **options, held_out=0.0, seed=2)
    np.testing.assert_allclose(alone(NEW), made.models[0](NEW), rtol=1e-9, atol=1e-12)


def test_progress_and_outcomes_are_reported(three):
    made, reports, options = three
    steps = [(each.what, each.step, each.num_steps) for each in reports]
    assert steps == [("Adam", 4, 6), ("Adam", 6, 6), ("Prune", 1, 1)]
    assert made.recipe == options["recipe"]
    assert made.outcomes[0].history["data"].shape == (3, 2)
    last = made.outcomes[0].history["data"][:, -1]
    assert reports[1].figures["data"] == pytest.approx(np.mean(last))
    assert "Adam: all steps done" in str(made)
    assert "leading terms" in str(made)


def test_embeddings_are_fitted_through():
    options = {"degree": 3, "width": 6, "depth": 2, "recipe": SOLVE, "domain": SQUARE}
    made = fit(X, Y, **options, embedding=AxisUnits(12))
    assert made.errors(X, Y)[0] < relative_l2(polynomial_fit(X, Y, at=X), Y)
    assert made.model.parameters.network.embedding.slopes.shape == (12,)


# ---- Baselines ----


def test_relative_l2():
    assert relative_l2([1.0, 5.0], [1.0, 2.0]) == pytest.approx(3 / np.sqrt(5))
    with pytest.raises(ValueError, match=r"shape \(2,\) against values of \(2, 1\)"):
        relative_l2(np.zeros(2), np.ones((2, 1)))


@pytest.mark.parametrize("preconditioner", [False, True])
def test_l2_projection_reproduces_polynomials(preconditioner, rng):
    basis = make_basis(SQUARE, 5)
    coefficients = rng.normal(size=len(basis))
    function = lambda points: basis.evaluate(points, coefficients)
    made = baselines.l2_projection(basis, function, 64, preconditioner=preconditioner)
    np.testing.assert_allclose(made.coefficients, coefficients, atol=1e-12)
    np.testing.assert_allclose(made(NEW), function(NEW), atol=1e-12)


def test_least_squares_and_the_polynomial_by_gradient_agree():
    solved = baselines.least_squares(X, Y, degree=3, width=9, domain=SQUARE)
    np.testing.assert_allclose(solved(NEW), polynomial_fit(X, Y), atol=1e-12)
    recipe = (Adam(600, Cosine(0.1), record_every=600),)
    crawled = baselines.polynomial_by_gradient(X, Y, degree=3, recipe=recipe, domain=SQUARE)
    assert relative_l2(crawled(NEW), solved(NEW)) < 1e-3


def test_the_network_alone_has_a_bias_and_no_terms():
    made = baselines.dnn(X, Y, degree=3, width=6, depth=2, recipe=SOLVE, domain=SQUARE)
    assert made.model.num_terms == 0
    assert made.model.parameters.bias.shape == (1,)
    assert np.all(np.asarray(made.model.parameters.bias) != 0)


@pytest.mark.parametrize("order", ["polynomial first", "network first"])
def test_sequential_fits_the_second_half_to_what_the_first_left(order):
    options = {"width": 6, "depth": 2, "degree": 3, "recipe": SOLVE, "held_out": 0.0}
    made = baselines.sequential(X, Y, order=order, domain=SQUARE, **options)
    first, second = made.first(X), made.second(X)
    polynomial, network = (first, second) if order == "polynomial first" else (second, first)
    parts = made.parts(X)
    np.testing.assert_allclose(parts.polynomial, polynomial, atol=1e-12)
    np.testing.assert_allclose(parts.network, network, atol=1e-12)
    np.testing.assert_allclose(made(X), first + second, atol=1e-12)
    rest = Y if order == "polynomial first" else Y - first
    np.testing.assert_allclose(polynomial, polynomial_fit(X, rest, at=X), atol=1e-11)
    assert np.linalg.norm(Y - first - second) < np.linalg.norm(Y - first)
    assert made.seconds == made.first.seconds + made.second.seconds


def test_an_unknown_order_is_refused():
    with pytest.raises(ValueError, match="no order 'both'; choose one of polynomial first"):
        baselines.sequential(X, Y, order="both", domain=SQUARE)


def test_minibatches_under_the_exact_constraint_end_with_orthogonal_halves():
    """b moves freely with minibatches and is solved for at the end: no polynomial is left over."""
    rng = np.random.default_rng(3)
    train = rng.uniform(-1, 1, (200, 2))
    values = np.abs(train[:, 0]) * train[:, 1] + 0.3
    fitted = fit(
        train,
        values,
        domain=Box.cube(2),
        degree=4,
        width=6,
        depth=1,
        constraint="exact",
        recipe=(Adam(20, batch_size=32, record_every=10),),
        held_out=0.0,
    )
    network, polynomial = fitted.model.parts(train)
    table = fitted.model.basis.table(train)
    assert np.linalg.norm(network) > 1e-3
    np.testing.assert_allclose(table.T @ network, 0.0, atol=1e-10)
    best = np.linalg.lstsq(table, values, rcond=None)[0]
    np.testing.assert_allclose(polynomial, table @ best, atol=1e-10)


# ---- The default degree, and data as users have it ----


@pytest.mark.parametrize("num_points", [100, 500])
@pytest.mark.parametrize("dimension", [1, 2, 6, 8, 10, 20, 60])
def test_the_default_degree_leaves_three_rows_for_each_term(dimension, num_points):
    random = np.random.default_rng(dimension)
    x = random.uniform(-1, 1, (num_points, dimension))
    made = fit(x, x[:, 0] + 0.1 * random.normal(size=num_points), width=0)
    largest = max(
        degree for degree in range(9) if 3 * math.comb(dimension + degree, degree) <= num_points
    )
    assert made.why.endswith("solved for") == (largest == 8)
    if largest < 8:
        terms = math.comb(dimension + largest, largest)
        assert f"degree {largest}, the largest with 3 of the {num_points} rows" in made.why
        assert f"its {terms} terms" in made.why
    assert made.model.num_terms <= num_points / 3


SLOPE = X[:, 0] + 2 * X[:, 1]
AS_GIVEN = {
    "lists": (X.tolist(), SLOPE.tolist()),
    "a column of values": (X, SLOPE[:, None]),
    "single precision": (X.astype(np.float32), SLOPE.astype(np.float32)),
    "integers": (np.round(9 * X).astype(int), np.round(9 * X) @ [1, 2] / 9),
    "a frame": (pd.DataFrame(X, columns=["a", "b"]), pd.Series(SLOPE)),
    "repeated rows": (np.repeat(X, 3, axis=0), np.repeat(SLOPE, 3)),
    "a constant column": (np.hstack([X, np.full((100, 1), 7.0)]), SLOPE),
    "constant values": (X, np.full(100, 3.0)),
}


@pytest.mark.parametrize("name", AS_GIVEN)
def test_data_as_users_have_them(name):
    points, values = AS_GIVEN[name]
    made = fit(points, values, degree=2, width=0)
    assert np.shape(made(points)) == np.shape(values)
    np.testing.assert_allclose(made(points), values, atol=1e-5)


def test_one_row_gives_a_constant():
    made = fit([[1.0, 2.0]], [3.0], width=0)
    np.testing.assert_allclose(made([[1.0, 2.0]]), 3.0)
