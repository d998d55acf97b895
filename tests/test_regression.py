"""`fit` from end to end: refusals before compilation, shared programs, known answers."""

import dataclasses
import math

import jax
import numpy as np
import pandas as pd
import pytest
from oracles import count_compilations

import pann
from pann import baselines
from pann import points as samplers
from pann.basis import christoffel_weights, make_basis
from pann.domain import Box
from pann.methods import method_named
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
SMALL = pann.MLP(width=6, depth=2)
# Parameters of `fit` that are no options of a method.
OF_RUN = ("domain", "precision", "trials", "held_out", "sample_weight")
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
        (X, Y[:-1], {}, "100 points but 99 values; give one value per point"),
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
        (X[:20], Y[:20], {"method": "paper", "degree": 9, "constraint": "exact"},
         "55 terms but there are only 20 points.* at most 4"),
        (X, Y, {"degree": -1}, "degree must be a whole number of at least 0.* got -1"),
        (X, Y, {"activation": "swish"}, "no activation 'swish'; choose from tanh"),
        (X, Y, {"method": "paper", "constraint": "Q"}, "no constraint 'Q'; choose from none, A"),
        (X, Y, {"method": "paper", "constraint_weight": -1.0}, "a number of at least 0, got -1"),
        (X, Y, {"method": "paper", "norm": "nuclear"}, "no norm 'nuclear'; choose from frobenius"),
        (X, Y, {"method": "paper", "reduction": "max"}, "no reduction 'max'; choose from mean"),
        (X, Y, {"method": "fast"}, "no method 'fast'; choose from polynomial, hybrid, paper"),
        (X, Y, {"precision": "float16"}, "no precision 'float16'.* choose from float64, float32"),
        (X, Y, {"method": "polynomial", "degree": None}, "a polynomial has a degree; give one"),
        (X, Y, {"width": -3}, "width must be a whole number of at least 0.* got -3"),
        (X, Y, {"width": (5, 0)}, r"at least 1 for each layer, got \(5, 0\)"),
        (X, Y, {"depth": 0}, "depth must be a whole number of at least 1, got 0"),
        (X, Y, {"trials": 0}, "trials must be a whole number of at least 1, got 0"),
        (X, Y, {"dropout": 1.0}, "dropout must be a number of at least 0 below 1, got 1"),
        (X, Y, {"held_out": 1.0}, r"held_out is a share of the rows in \[0, 1\), got 1"),
        (X, Y, {"held_out": -0.1}, "held_out is a share of the rows"),
        (X, Y, {"sample_weight": np.ones(99)}, r"100 finite numbers of at least 0.* \(99,\)"),
        (X, Y, {"sample_weight": -np.ones(100)}, "100 finite numbers of at least 0"),
        (X, Y, {"sample_weight": ["a"] * 100}, "sample_weight needs 100 finite numbers"),
        (X, Y, {"sample_weight": np.zeros(100)}, "sample_weight .* not all of them 0"),
        (X, Y, {"basis": make_basis(Box.cube(2), 2), "degree": "auto"},
         "the basis lives on .* the same domain"),
        (X, Y, {"degree": "high"}, "at least 0, or 'auto', or None, got 'high'"),
        # Options that have no effect with the others.
        (X, Y, {"basis": make_basis(Box.cube(2), 2)}, "no effect with a basis of your own"),
        (X, Y, {"width": (9, 9), "depth": 2}, r"depth=2 has no effect with a width .*\(9, 9\)"),
        (X, Y, {"width": 0}, r"width=0 is no network; use pann.Polynomial\(...\)"),
        (X, Y, {"method": "polynomial", "activation": "sin"}, "no option of Polynomial 'activat"),
        (X, Y, {"constraint_weight": 1e-2}, "no option of Hybrid 'constraint_weight'.*mean con"),
        (X, Y, {"method": "paper", "constraint": "exact", "norm": "spectral"},
         "norm has no effect with the constraint 'exact'"),
        (X, Y, {"method": "paper", "constraint": "l1", "norm": "spectral"},
         "norm has no effect with the constraint 'l1'"),
        (X, Y, {"method": "paper", "constraint": "none", "constraint_weight": 1e-2},
         "no effect with the constraint 'none'.* of A, B"),
    ],
)  # fmt: skip
def test_bad_input_is_refused_in_a_sentence_and_nothing_is_compiled(
    points, values, options, message
):
    # Sizes that no other test has: whatever were compiled would be compiled anew.
    of_run = {key: value for key, value in options.items() if key in OF_RUN}
    given = {key: value for key, value in options.items() if key not in (*OF_RUN, "method")}
    name = options.get("method", "hybrid")
    sizes = {"degree": 4} if name == "polynomial" else {"degree": 4, "width": 17}
    with count_compilations() as compiled, pytest.raises(ValueError, match=message):
        fit(points, values, method_named(name, {**sizes, **given}, "fit"), **of_run)
    assert compiled == []


def test_a_constraint_that_no_stage_reads_is_refused():
    with pytest.raises(ValueError, match=r"'E' has no effect: no stage .* Training.paper\(\)"):
        fit(X, Y, pann.Training(stages=SOLVE, degree=2, constraint="E"))
    stages = (KeepIfBetter((Race(((Adam(1),),)),)),)
    fit(X, Y, pann.Training(stages=stages, degree=2, network=pann.MLP(width=4), constraint="E"))


def test_a_table_beyond_memory_is_refused_before_compilation(monkeypatch):
    monkeypatch.setattr(memory, "available_memory", lambda: 10_000)
    monkeypatch.setattr(memory, "ALWAYS_AVAILABLE", 0)
    with count_compilations() as compiled, pytest.raises(MemoryError) as refusal:
        fit(X, Y, pann.Hybrid(degree=8, network=pann.MLP(width=19)))
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
    "method",
    [
        pytest.param(pann.Hybrid(degree=3, network=SMALL), marks=pytest.mark.slow),
        pann.Training(
            stages=(Adam(6, Cosine(0.01), record_every=4), LBFGS(3, memory=3), Prune(0.05)),
            degree=3,
            network=SMALL,
        ),
    ],
    ids=["default", "gradient"],
)
def test_a_second_fit_of_the_same_shapes_compiles_nothing(method):
    def run(seed):
        generator = np.random.default_rng(seed)
        x = generator.uniform(-1, 1, (100, 2))
        y = generator.normal() + np.sin((3 + seed) * x[:, 0]) * x[:, 1]
        return fit(x, y, method, seed=seed, domain=SQUARE).model

    first = run(0)
    with count_compilations() as compiled:
        others = [run(seed) for seed in (1, 2, 3)]
    assert compiled == []
    if isinstance(
        method, pann.Training
    ):  # what is left differs, and still no program was needed for it
        assert len({model.num_terms for model in (first, *others)}) > 1


@pytest.fixture(scope="module")
def seeds():
    """Predictions of the default recipe with the same seed, and with another one."""
    method = pann.Hybrid(degree=3, network=SMALL)
    before = jax.config.jax_enable_x64, jax.config.jax_default_matmul_precision
    predictions = [fit(X, Y, method, domain=SQUARE, seed=seed)(NEW) for seed in (4, 4, 5)]
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
        pann.Hybrid(degree=20, constraint=constraint, network=pann.MLP(width=8, depth=2)),
        domain=SQUARE,
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
    method = pann.Hybrid(degree=15, network=pann.MLP(width=12, depth=1))
    both = fit(x, y, method, domain=SQUARE, trials=2)
    network = baselines.dnn(x, y, method, domain=SQUARE, trials=2)
    polynomial = baselines.least_squares(x, y, pann.Polynomial(degree=15), domain=SQUARE)
    # The trial that the held-out rows chose, not the one that these points would choose.
    error = lambda made: relative_l2(made(NEW), true)
    assert error(both) < min(error(network), error(polynomial))


def test_several_outputs_are_fitted_as_each_alone():
    both = np.stack([Y, np.cos(X[:, 0] * X[:, 1])], axis=1)
    made = fit(X, both, pann.Polynomial(degree=3), domain=SQUARE)
    assert made(NEW).shape == (500, 2)
    np.testing.assert_allclose(made(NEW), polynomial_fit(X, both), atol=1e-12)
    network = fit(
        X,
        both,
        pann.Training(stages=SOLVE, degree=3, network=SMALL),
        domain=SQUARE,
    )
    single = fit(
        X,
        both[:, 0],
        pann.Training(stages=SOLVE, degree=3, network=SMALL),
        domain=SQUARE,
    )
    # The same features, so the first output is fitted the same whatever is beside it.
    np.testing.assert_allclose(network(NEW)[:, 0], single(NEW), atol=1e-9)
    column = fit(X, both[:, :1], pann.Polynomial(degree=3), domain=SQUARE)(NEW)
    np.testing.assert_allclose(column, polynomial_fit(X, both[:, :1]), atol=1e-12)


def test_sample_weights_weigh_the_squares_and_rows_of_weight_zero_are_ignored(rng):
    weights = rng.uniform(0.1, 3, 100)
    weights[20:50] = 0
    made = fit(X, Y, pann.Polynomial(degree=3), sample_weight=weights, domain=SQUARE)
    np.testing.assert_allclose(made(NEW), polynomial_fit(X, Y, weights), atol=1e-12)
    kept = weights > 0
    without = fit(
        X[kept], Y[kept], pann.Polynomial(degree=3), sample_weight=weights[kept], domain=SQUARE
    )
    np.testing.assert_allclose(made(NEW), without(NEW), atol=1e-12)


def test_values_at_rows_of_weight_zero_do_not_even_choose_the_best_state():
    weights = np.where(np.arange(100) % 5 == 0, 0.0, 1.0)
    garbage = Y + 100 * (weights == 0) * np.cos(np.arange(100))
    method = pann.Hybrid(degree=3, network=SMALL)
    first, second = (
        fit(X, values, method, sample_weight=weights, domain=SQUARE) for values in (Y, garbage)
    )
    np.testing.assert_array_equal(first(NEW), second(NEW))


def test_the_preconditioner_is_least_squares_with_christoffel_weights():
    made = fit(X, Y, pann.Polynomial(degree=3, preconditioner=True), domain=SQUARE)
    squares = christoffel_weights(make_basis(SQUARE, 3), X) ** 2
    np.testing.assert_allclose(made(NEW), polynomial_fit(X, Y, squares), atol=1e-11)
    assert not np.allclose(made(NEW), polynomial_fit(X, Y), atol=1e-4)


def test_the_paper_means_its_preconditioner_and_all_rows(monkeypatch):
    stages = (LeastSquares("polynomial", alone=True),)
    monkeypatch.setitem(recipes.NAMED, "paper", (stages, "as in the paper"))
    made = fit(X, Y, pann.Training.paper(degree=3, network=SMALL), domain=SQUARE)
    squares = christoffel_weights(make_basis(SQUARE, 3), X) ** 2
    np.testing.assert_allclose(made(NEW), polynomial_fit(X, Y, squares), atol=1e-11)
    # Constraint E is in the loss: it is reported, and zero while the network is off.
    assert made.outcomes[0].history["constraint"].tolist() == [[0.0]]


@pytest.mark.parametrize("values", [(0.3,), (-1.0, 1.0)], ids=["one value", "two values"])
def test_an_axis_with_few_values_is_no_trouble(values):
    """There P2 is a multiple of 1, and least squares has many solutions."""
    x = np.column_stack([np.resize(values, 100), X[:, 1]])
    y = np.exp(x[:, 1]) + 0.1 * x[:, 0]
    for network in (None, SMALL):
        made = fit(x, y, pann.Training(stages=SOLVE, degree=3, network=network))
        assert made.errors(x, y)[0] < 1e-2
        # A network may lean on large coefficients, a polynomial alone has no need to.
        assert network is not None or np.max(np.abs(made.model.parameters.b)) < 10


def test_the_basis_may_be_given():
    basis = make_basis(SQUARE, 3, families="chebyshev")
    made = fit(X, Y, pann.Polynomial(basis=basis), domain=SQUARE)
    # Another basis of the same polynomials.
    np.testing.assert_allclose(made(NEW), polynomial_fit(X, Y), atol=1e-12)
    assert made.model.terms()[0].name.startswith(("T", "1"))


def test_the_domain_is_the_bounding_box_unless_given():
    made = fit(X, Y, pann.Polynomial(degree=3))
    assert made.model.domain.lower == tuple(X.min(axis=0))
    assert made.model.domain.upper == tuple(X.max(axis=0))
    np.testing.assert_allclose(made(X), polynomial_fit(X, Y, at=X), atol=1e-12)
    line = fit(X[:, 0], Y, pann.Polynomial(degree=3))
    np.testing.assert_allclose(line(X[:, 0]), np.polyval(np.polyfit(X[:, 0], Y, 3), X[:, 0]))


# ---- Trials and what is reported ----


@pytest.fixture(scope="module")
def three():
    reports = []
    recipe = (Adam(6, Constant(0.01), record_every=4), Prune(0.01))
    method = pann.Training(stages=recipe, degree=3, network=SMALL)
    run = {"domain": SQUARE, "held_out": 0.0, "seed": 2}
    made = fit(X, Y, method, **run, trials=3, progress=reports.append)
    return made, reports, fit(X, Y, method, **run)


def test_the_model_is_the_trial_of_the_lowest_score(three):
    made, _, _ = three
    errors = [np.mean((model(X) - Y) ** 2) for model in made.models]
    np.testing.assert_allclose(made.scores, errors, rtol=1e-10)
    assert len(np.unique(made.scores)) == 3
    assert made.model is made.models[int(np.argmin(errors))]
    expected = [relative_l2(model(NEW), NEW[:, 0]) for model in made.models]
    np.testing.assert_array_equal(made.errors(NEW, NEW[:, 0]), expected)


def test_a_trial_is_the_same_alone(three):
    made, _, alone = three
    np.testing.assert_allclose(alone(NEW), made.models[0](NEW), rtol=1e-9, atol=1e-12)


def test_progress_and_outcomes_are_reported(three):
    made, reports, _ = three
    steps = [(each.what, each.step, each.num_steps) for each in reports]
    assert steps == [("Adam", 4, 6), ("Adam", 6, 6), ("Prune", 1, 1)]
    assert made.recipe == made.method.stages
    assert made.outcomes[0].history["data"].shape == (3, 2)
    last = made.outcomes[0].history["data"][:, -1]
    assert reports[1].figures["data"] == pytest.approx(np.mean(last))
    assert "Adam: all steps done" in str(made)
    assert "leading terms" in str(made)


def test_embeddings_are_fitted_through():
    network = dataclasses.replace(SMALL, embedding=AxisUnits(12))
    made = fit(X, Y, pann.Training(stages=SOLVE, degree=3, network=network), domain=SQUARE)
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
    solved = baselines.least_squares(
        X, Y, pann.Hybrid(degree=3, network=pann.MLP(width=9)), domain=SQUARE
    )
    np.testing.assert_allclose(solved(NEW), polynomial_fit(X, Y), atol=1e-12)
    recipe = (Adam(600, Cosine(0.1), record_every=600),)
    crawled = baselines.polynomial_by_gradient(
        X, Y, pann.Training(stages=recipe, degree=3), domain=SQUARE
    )
    assert relative_l2(crawled(NEW), solved(NEW)) < 1e-3


def test_the_network_alone_has_a_bias_and_no_terms():
    made = baselines.dnn(
        X,
        Y,
        pann.Training(stages=SOLVE, degree=3, network=SMALL),
        domain=SQUARE,
    )
    assert made.model.num_terms == 0
    assert made.model.parameters.bias.shape == (1,)
    assert np.all(np.asarray(made.model.parameters.bias) != 0)


@pytest.mark.parametrize("order", ["polynomial first", "network first"])
def test_sequential_fits_the_second_half_to_what_the_first_left(order):
    method = pann.Training(stages=SOLVE, degree=3, network=SMALL)
    made = baselines.sequential(X, Y, method, order=order, domain=SQUARE, held_out=0.0)
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
        pann.Training(
            stages=(Adam(20, batch_size=32, record_every=10),),
            degree=4,
            network=pann.MLP(width=6, depth=1),
            constraint="exact",
        ),
        domain=Box.cube(2),
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
    made = fit(x, x[:, 0] + 0.1 * random.normal(size=num_points), pann.Polynomial())
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
    made = fit(points, values, pann.Polynomial(degree=2))
    assert np.shape(made(points)) == np.shape(values)
    np.testing.assert_allclose(made(points), values, atol=1e-5)


def test_one_row_gives_a_constant():
    made = fit([[1.0, 2.0]], [3.0], pann.Polynomial())
    np.testing.assert_allclose(made([[1.0, 2.0]]), 3.0)
