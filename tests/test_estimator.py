"""The estimator: scikit-learn's own checks, and what it adds to a regressor."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.polynomial.legendre import legval
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

import pann
from pann import points

# Of the constants below; tests draw from the fixture `rng`.
DRAWN = np.random.default_rng(0)
X = DRAWN.uniform(-1, 1, (150, 3))
Y = X[:, 0] ** 2 + X[:, 1] * X[:, 2]
FRAME = pd.DataFrame(X, columns=["income", "house age", "x"])

# A network whose training takes no time.
SMALL = {"width": 4, "depth": 1, "recipe": (pann.Adam(20),)}

# As scikit-learn marks its own estimators that split rows at random.
SHORT = (pann.Adam(5), pann.LeastSquares())
NOT_EQUIVALENT = {
    "check_sample_weight_equivalence_on_dense_data": (
        "rows are held out at random: a row of weight 2 is held out or not, two copies may part"
    )
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "options, expected_failures",
    [({}, {}), ({"width": 4, "depth": 1, "recipe": SHORT}, NOT_EQUIVALENT)],
    ids=["default", "with a network"],
)
def test_scikit_learn_is_content(options, expected_failures):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(
            pann.PANNRegressor(**options),
            expected_failed_checks=expected_failures,
            on_skip=None,
            on_fail=None,
        )
    failed = {r["check_name"]: r["exception"] for r in results if r["status"] == "failed"}
    assert failed == {}
    assert sum(r["status"] == "passed" for r in results) > 40


def test_it_takes_its_place_in_pipelines_and_grid_searches():
    pipeline = make_pipeline(StandardScaler(), pann.PANNRegressor(width=0))
    search = GridSearchCV(pipeline, {"pannregressor__degree": [0, 1, 2]}, cv=3).fit(X, Y)
    assert search.best_params_ == {"pannregressor__degree": 2}
    assert search.best_score_ > 0.999
    fitted = search.best_estimator_[-1]
    assert clone(fitted).get_params() == fitted.get_params()
    assert not hasattr(clone(fitted), "fit_")


@pytest.mark.parametrize("options", [{}, SMALL], ids=["polynomial", "network"])
def test_a_pickled_model_predicts_the_same_and_holds_numpy_arrays(options):
    model = pann.PANNRegressor(random_state=0, **options).fit(X[:90], Y[:90])
    blob = pickle.dumps(model)
    np.testing.assert_array_equal(pickle.loads(blob).predict(X), model.predict(X))
    assert b"jaxlib" not in blob


def test_the_same_seed_gives_the_same_bits():
    first, second = (
        pann.PANNRegressor(random_state=3, **SMALL).fit(X, Y).predict(X) for _ in range(2)
    )
    np.testing.assert_array_equal(first, second)
    other = pann.PANNRegressor(random_state=4, **SMALL).fit(X, Y).predict(X)
    assert not np.array_equal(first, other)


def test_names_of_a_frame_are_kept_and_asked_for():
    model = pann.PANNRegressor().fit(FRAME, Y)
    assert model.feature_names_in_.tolist() == ["income", "house age", "x"]
    names = {term.name: float(term.coefficients[0]) for term in model.terms_}
    low, high = X.min(axis=0), X.max(axis=0)
    half = (high - low) / 2
    # x^2 = h^2 (t + m)^2 in the scaled t: its P2 part is 2/3 of h^2.
    assert names["P2(income)"] == pytest.approx(2 / 3 * half[0] ** 2, rel=1e-9)
    assert names["P1(house age) P1(x)"] == pytest.approx(half[1] * half[2], rel=1e-9)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(FRAME.rename(columns={"x": "y"}))


def test_several_outputs_have_a_column_each():
    both = np.stack([Y, -3 * X[:, 0]], axis=1)
    model = pann.PANNRegressor().fit(X, both)
    np.testing.assert_allclose(model.predict(X), both, atol=1e-9)
    assert model.parts(X).network.shape == (150, 2)
    assert model.terms_[0].coefficients.shape == (2,)


def test_rows_of_little_weight_have_little_say(rng):
    half_wrong = np.where(np.arange(150) < 75, Y, rng.normal(size=150))
    weights = np.where(np.arange(150) < 75, 1.0, 1e-12)
    errors = [
        np.abs(pann.PANNRegressor(degree=2, width=0).fit(X, half_wrong, w).predict(X) - Y).max()
        for w in (weights, None)
    ]
    assert errors[0] < 1e-6
    assert errors[1] > 0.1


def test_halves_add_up_to_the_prediction():
    model = pann.PANNRegressor(random_state=0, **SMALL).fit(X, Y)
    network, polynomial = model.parts(X)
    np.testing.assert_array_equal(network + polynomial, model.predict(X))
    assert np.std(network) > 0


def test_an_ensemble_predicts_its_mean_and_deviation():
    model = pann.PANNRegressor(trials=3, random_state=0, **SMALL).fit(X, Y)
    trials = model.fit_(X)[:, :, 0]
    mean, deviation = model.predict(X, return_std=True)
    np.testing.assert_allclose(mean, trials.mean(axis=0))
    np.testing.assert_allclose(deviation, trials.std(axis=0, ddof=1))
    assert np.all(deviation > 0)
    with pytest.raises(ValueError, match="this model has 1 trial; fit with trials=5"):
        pann.PANNRegressor(**SMALL).fit(X, Y).predict(X, return_std=True)


def test_early_stopping_restores_the_best_state(rng):
    """Noise alone: the longer the training the worse the held-out error."""
    noise = rng.normal(size=150)
    adam = pann.Adam(400, pann.Constant(0.03), patience=400, record_every=5)
    model = pann.PANNRegressor(degree=0, width=20, depth=2, recipe=(adam,), random_state=0)
    model.fit(X, noise)
    errors = model.fit_.outcomes["as asked"][0].history["held_out"][0]
    assert np.argmin(errors) < len(errors) - 1
    # The history is relative to the size of the held-out values, the attribute is in units of y.
    held_out = model.held_out_error_ / model.fit_.targets.deviation[0]
    ratio = held_out / errors.min()
    last = pann.PANNRegressor(
        degree=0,
        width=20,
        depth=2,
        recipe=(pann.Adam(400, pann.Constant(0.03), record_every=5),),
        random_state=0,
    ).fit(X, noise)
    assert last.held_out_error_ / last.fit_.targets.deviation[0] == pytest.approx(
        ratio * errors[-1], rel=1e-6
    )


def test_beyond_the_margin_predictions_stay_with_a_warning():
    model = pann.PANNRegressor().fit(FRAME, Y)
    margin = model.fit_.margins * np.ptp(X, axis=0)
    edge = np.clip([[2.5, 0.0, 0.0]], X.min(axis=0) - margin, X.max(axis=0) + margin)
    far = pd.DataFrame([[2.5, 0.0, 0.0]], columns=FRAME.columns)
    with pytest.warns(UserWarning, match="1 of 1 rows lie outside .* most of all in income"):
        beyond = model.predict(far)
    np.testing.assert_allclose(beyond, model.predict(pd.DataFrame(edge, columns=FRAME.columns)))


@pytest.mark.parametrize(
    "options, message",
    [
        ({"trials": 0}, "trials must be a whole number of at least 1, got 0"),
        ({"degree": 2.5}, "degree must be a whole number of at least 0, .*, got 2.5"),
        ({"degree": -1}, "degree must be a whole number of at least 0, .*, got -1"),
        ({"validation_fraction": 1.5}, "validation_fraction is between 0 and 1, got 1.5"),
        ({"memory": "much"}, "memory is a size such as '2GB' or a number of bytes, got 'much'"),
        ({"degree": 40, "memory": "1MB"}, "use a degree of at most"),
        ({"activation": "swish"}, "there is no activation 'swish'; choose from auto, tanh"),
        ({"degree": None, "width": 0}, "degree=None and width=0 leave nothing to fit"),
        ({"constraint": "Z"}, "there is no constraint 'Z'"),
        ({"recipe": "fast"}, "there is no recipe 'fast'; choose from auto, default, paper"),
        (
            {"precision": "float16"},
            "there is no precision 'float16' .*; choose from auto, float64",
        ),
        ({"index_set": "sphere"}, "there is no index_set 'sphere'; choose from auto, total_degree"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_bad_options_are_refused_in_a_sentence(options, message):
    with pytest.raises(ValueError, match=message):
        pann.PANNRegressor(**options).fit(X, Y)


def test_none_leaves_a_choice_open_where_it_has_no_other_meaning():
    chosen = {"random_state": 0}
    none = dict.fromkeys(("width", "activation", "recipe", "precision", "preconditioner"))
    options = lambda **given: pann.PANNRegressor(**chosen, **given).options()
    assert options(**none) == options()
    assert options(degree=None) != options() != options(embedding=None)


def test_the_halves_can_be_seen():
    figure = pann.PANNRegressor().fit(FRAME, Y).plot_parts(["income", 2])
    panels = [axes for axes in figure.axes if axes.get_visible()]
    assert [axes.get_xlabel() for axes in panels] == ["income", "x"]
    prediction, polynomial, network = panels[0].lines
    np.testing.assert_allclose(
        polynomial.get_ydata() + network.get_ydata(), prediction.get_ydata(), atol=1e-12
    )
    # Averaged over the other features what is left of x^2 is a parabola.
    curvature = np.polyfit(prediction.get_xdata(), prediction.get_ydata(), 2)[0]
    assert curvature == pytest.approx(1.0, rel=1e-6)
    with pytest.raises(ValueError, match="there is no feature 'age'; choose from income"):
        pann.PANNRegressor().fit(FRAME, Y).plot_parts(["age"])


# ---- Sobol indices ----


def ishigami(rows):
    """On [-pi, pi]^3, with a = 7 and b = 0.1: its indices are known in closed form."""
    return (
        np.sin(rows[:, 0])
        + 7 * np.sin(rows[:, 1]) ** 2
        + 0.1 * rows[:, 2] ** 4 * np.sin(rows[:, 0])
    )


@pytest.mark.slow
def test_sobol_indices_are_those_of_the_closed_form_and_of_monte_carlo(rng):
    rows = rng.uniform(-np.pi, np.pi, (1500, 3))
    model = pann.PANNRegressor(width=0).fit(rows, ishigami(rows))
    indices = model.sobol_indices()
    variance = 7**2 / 8 + 0.1 * np.pi**4 / 5 + 0.1**2 * np.pi**8 / 18 + 0.5
    first = np.array([0.5 * (1 + 0.1 * np.pi**4 / 5) ** 2, 7**2 / 8, 0.0]) / variance
    both = 0.1**2 * np.pi**8 * (1 / 18 - 1 / 50) / variance
    np.testing.assert_allclose(indices.first, first, atol=0.01)
    np.testing.assert_allclose(indices.total, first + np.array([both, 0, both]), atol=0.01)
    assert indices.unexplained < 0.01
    # Of the model itself, kinks and all: Jansen's estimator on independent samples.
    kinked = pann.PANNRegressor(random_state=0, **SMALL | {"recipe": (pann.Adam(300),)})
    kinked.fit(rows, np.abs(rows[:, 0]) + rows[:, 1] * rows[:, 2])
    indices = kinked.sobol_indices()
    low, high = rows.min(axis=0), rows.max(axis=0)
    one, other = (rng.uniform(low, high, (40_000, 3)) for _ in range(2))
    values = kinked.predict(one)
    for axis in range(3):
        mixed = one.copy()
        mixed[:, axis] = other[:, axis]
        total = np.mean((values - kinked.predict(mixed)) ** 2) / 2 / np.var(values)
        assert indices.total[axis] == pytest.approx(total, abs=0.02 + indices.unexplained)


def test_sobol_indices_read_as_a_table_and_leave_constants_at_zero():
    frame = FRAME.assign(constant=1.0)
    indices = pann.PANNRegressor().fit(frame, Y).sobol_indices(2**10)
    assert indices.total[3] == 0
    assert str(indices).splitlines()[0].split() == ["feature", "first", "total"]


# ---- Files ----


@pytest.mark.parametrize(
    "options",
    [{}, SMALL | {"trials": 2}, {"width": 4, "depth": 1, "early_stopping": False}],
    ids=["polynomial", "ensemble", "ranks"],
)
def test_a_saved_model_comes_back_whole(tmp_path, options):
    model = pann.PANNRegressor(random_state=0, **options).fit(FRAME, Y)
    model.save(tmp_path / "model.pann")
    loaded = pann.load(tmp_path / "model.pann")
    np.testing.assert_array_equal(loaded.predict(FRAME), model.predict(FRAME))
    assert loaded.feature_names_in_.tolist() == list(FRAME.columns)
    assert loaded.how_ == model.how_
    assert loaded.held_out_error_ == model.held_out_error_
    assert [term.name for term in loaded.terms_] == [term.name for term in model.terms_]
    np.testing.assert_array_equal(loaded.sobol_indices(256).total, model.sobol_indices(256).total)


def test_an_unfitted_model_is_not_saved(tmp_path):
    with pytest.raises(ValueError, match="not fitted"):
        pann.PANNRegressor().save(tmp_path / "model.pann")


def test_a_broken_regressor_file_is_refused(tmp_path):
    """Every entry of the header and every array, taken out or replaced, gives a FileError."""
    from pann.io import read, write

    model = pann.PANNRegressor(random_state=0, **SMALL).fit(FRAME, Y)
    model.save(tmp_path / "good.pann")
    kind, header, arrays, *_ = read(tmp_path / "good.pann")
    path = tmp_path / "bad.pann"
    refused = 0
    for name in header:
        without = {key: value for key, value in header.items() if key != name}
        for bad in (without, {**header, name: {"x": 1}}, {**header, name: [3, "a"]}):
            write(path, kind, bad, arrays)
            try:
                pann.load(path)
            except pann.FileError:
                refused += 1
    for name, array in arrays.items():
        others = {key: value for key, value in arrays.items() if key != name}
        for bad in (others, {**others, name: np.zeros((2, 2, 2))}, {**others, name: array[:0]}):
            write(path, kind, header, bad)
            with pytest.raises(pann.FileError):
                pann.load(path)
            refused += 1
    # What stays loadable are words that mean nothing to the program, such as how it was trained.
    assert refused >= 3 * (len(header) + len(arrays)) - 3


def test_a_smooth_function_is_followed_a_little_outside():
    """P10(x1) P10(x2) on Sobol points, which end before the square does."""
    p10 = np.eye(11)[10]
    product = lambda x: legval(x[:, 0], p10) * legval(x[:, 1], p10)
    train = points.sobol(pann.Box.cube(2), 1024).coordinates
    test = points.uniform(pann.Box.cube(2), 2000).coordinates
    assert (np.abs(test) > np.abs(train).max(axis=0)).any()
    model = pann.PANNRegressor(width=0).fit(train, product(train))
    assert pann.relative_l2(model.predict(test), product(test)) < 1e-12


@pytest.mark.parametrize("num_columns", [1, 3])
def test_noise_is_not_followed_outside(num_columns):
    """Where noise makes up the error, predictions are not worse than those clipped at the range."""
    random = np.random.default_rng(2)
    train, test = (random.normal(size=(count, num_columns)) for count in (200, 4000))
    model = pann.PANNRegressor(width=0).fit(train, np.sin(train[:, 0]) + random.normal(size=200))
    true = np.sin(test[:, 0])
    at_range = np.clip(test, train.min(axis=0), train.max(axis=0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        here, there = (np.sqrt(np.mean((model.predict(x) - true) ** 2)) for x in (test, at_range))
    assert here <= there
