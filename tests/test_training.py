"""Stages that solve, prune, place and guard; rates and recipes; trials side by side."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles import (
    BASIS,
    DOMAIN,
    SCALES,
    build,
    forward,
    make_task,
    output,
    random_parameters,
    random_rows,
    replace,
    stack,
    total_weights,
    trial,
    weighted_fit,
)

import pann.training
from pann.model.pann import PANN, Parameters
from pann.network import AxisEmbedding, CircleEmbedding, RandomFourierFeatures, activation_named
from pann.training import (
    LBFGS,
    PAPER,
    Adam,
    Constant,
    Cosine,
    DropPolynomial,
    GaussNewton,
    KeepIfBetter,
    LeastSquares,
    Place,
    Prune,
    Race,
    Ridge,
    Sizes,
    Stage,
    Stepwise,
    Task,
    default_recipe,
    describe,
    recipe_named,
    run_recipe,
)
from pann.training.loss import Loss, Rows
from pann.training.place import default_scales
from pann.training.recipes import NEWTON_BYTES, NEWTON_OPERATIONS
from pann.training.task import REASONS, ROUND_OFF, Recorder


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True), jax.default_matmul_precision("highest"):
        yield


@pytest.fixture
def rows():
    return random_rows(0, 120)


def start(num_trials=2, **options):
    return stack(*(random_parameters(seed, num_outputs=2, **options) for seed in range(num_trials)))


def with_masks(trials, keep_a, keep_b):
    """Trials with pruned functions, their coefficients zero as Prune leaves them."""
    keep_a, keep_b = np.asarray(keep_a), np.asarray(keep_b)
    return replace(
        trials,
        keep_a=jnp.asarray(keep_a),
        keep_b=jnp.asarray(keep_b),
        a=trials.a * keep_a[..., None],
        b=trials.b * keep_b[..., None],
    )


ALL_A, ALL_B = np.ones((2, 5), bool), np.ones((2, 10), bool)
SOME_A = np.array([[1, 0, 1, 1, 0], [1, 1, 1, 1, 1]], bool)
SOME_B = np.array([[1, 1, 0, 1, 0, 1, 1, 0, 1, 1], [1, 1, 1, 1, 1, 1, 1, 1, 1, 0]], bool)
MASKS = {
    "nothing pruned": (ALL_A, ALL_B),
    "the same pruned": (SOME_A[:1].repeat(2, axis=0), SOME_B[:1].repeat(2, axis=0)),
    "each its own pruned": (SOME_A, SOME_B),
    "one term left": (ALL_A, np.eye(10, dtype=bool)[[3, 3]]),
}


def halves(parameters, rows):
    """Psi and Phi of the kept functions as NumPy arrays."""
    psi = forward(parameters.network, np.asarray(rows.x))[:, np.asarray(parameters.keep_a)]
    return psi, np.asarray(rows.table)[:, np.asarray(parameters.keep_b)]


def prediction(parameters, rows):
    return output(parameters, np.asarray(rows.x), np.asarray(rows.table))


# ---- LeastSquares ----


@pytest.mark.parametrize("masks", MASKS)
@pytest.mark.parametrize("part", ["both", "polynomial", "network"])
def test_least_squares_predicts_what_numpy_does(rows, part, masks):
    trials = with_masks(start(), *MASKS[masks])
    task = make_task(rows, term_scales=jnp.asarray(SCALES))
    solved, _ = LeastSquares(part).run(task, trials)
    for index in range(2):
        before, after = trial(trials, index), trial(solved, index)
        (psi, phi), weights = halves(before, rows), total_weights(task, before)
        a, b = (np.asarray(array) for array in (before.a, before.b))
        fixed = {
            "both": 0.0,
            "polynomial": forward(before.network, np.asarray(rows.x)) @ a,
            "network": np.asarray(rows.table) @ b,
        }[part]
        matrix = {"both": np.hstack([psi, phi]), "polynomial": phi, "network": psi}[part]
        expected = fixed + weighted_fit(matrix, np.asarray(rows.target) - fixed, weights)
        np.testing.assert_allclose(prediction(after, rows), expected, atol=1e-10)


def test_alone_switches_the_network_off_first(rows):
    task, trials = make_task(rows), start()
    solved, _ = LeastSquares("polynomial", alone=True).run(task, trials)
    np.testing.assert_array_equal(solved.a, 0)
    expected = weighted_fit(
        np.asarray(rows.table), np.asarray(rows.target), np.asarray(rows.weights)
    )
    np.testing.assert_allclose(prediction(trial(solved, 1), rows), expected, atol=1e-12)


def test_without_terms_the_bias_is_solved_for_too(rows):
    rows = dataclasses.replace(rows, table=rows.table[:, :0])
    trials = start(num_terms=0, bias=True)
    solved, _ = LeastSquares("both").run(make_task(rows), trials)
    for index in range(2):
        psi, _ = halves(trial(trials, index), rows)
        matrix = np.hstack([psi, np.ones((len(psi), 1))])
        expected = weighted_fit(matrix, np.asarray(rows.target), np.asarray(rows.weights))
        np.testing.assert_allclose(prediction(trial(solved, index), rows), expected, atol=1e-10)


def test_units_that_repeat_others_are_not_amplified(rows):
    trials = start()
    network = trials.network
    weights, biases = np.array(network.weights[-1]), np.array(network.biases[-1])
    weights[:, 1], biases[:, 1] = weights[:, 0], biases[:, 0]
    network = replace(
        network,
        weights=[network.weights[0], jnp.asarray(weights)],
        biases=[network.biases[0], jnp.asarray(biases)],
    )
    trials = replace(trials, network=network)
    solved, _ = LeastSquares("both").run(make_task(rows), trials)
    matrix = np.hstack(halves(trial(trials, 0), rows))
    expected = weighted_fit(matrix, np.asarray(rows.target), np.asarray(rows.weights))
    np.testing.assert_allclose(prediction(trial(solved, 0), rows), expected, atol=1e-10)
    np.testing.assert_allclose(solved.a[:, 0], solved.a[:, 1], rtol=1e-6)


def test_terms_that_depend_on_others_are_not_amplified(rows):
    """As along an axis with one value: there P1(x) is a multiple of 1."""
    table = np.array(rows.table)
    table[:, 3] = 0.5 * table[:, 0]
    table[:, 7] = table[:, 1] + table[:, 2]
    rows = dataclasses.replace(rows, table=jnp.asarray(table))
    solved, _ = LeastSquares("both").run(make_task(rows), start())
    for index in range(2):
        after = trial(solved, index)
        matrix = np.hstack(halves(after, rows))
        expected = weighted_fit(matrix, np.asarray(rows.target), np.asarray(rows.weights))
        np.testing.assert_allclose(prediction(after, rows), expected, atol=1e-10)
        assert np.max(np.abs(after.b)) < 1e3


def test_a_target_in_the_span_of_the_polynomials_leaves_the_network_off(rows):
    b = np.random.default_rng(0).normal(size=(10, 2))
    rows = dataclasses.replace(rows, target=jnp.asarray(np.asarray(rows.table) @ b))
    solved, outcome = LeastSquares("both").run(make_task(rows), start())
    np.testing.assert_array_equal(solved.a, 0)
    np.testing.assert_allclose(solved.b[0], b, atol=1e-13)
    assert outcome.reasons == (REASONS[ROUND_OFF],) * 2


@pytest.mark.parametrize(
    "arguments, message",
    [
        (("polynomials",), "no part 'polynomials'; choose one of both, polynomial, network"),
        (("both", True), "alone=True goes with part='polynomial', got part='both'"),
    ],
)
def test_bad_parts_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        LeastSquares(*arguments)


# ---- The exact constraint ----


def assert_halves_are_exact(task, parameters):
    """The network half orthogonal to every kept term, the polynomial half plain least squares."""
    rows = task.rows
    weights = total_weights(task, parameters)[:, None]
    kept = np.asarray(parameters.keep_b)
    phi, target = np.asarray(rows.table)[:, kept], np.asarray(rows.target)
    shared = np.asarray(rows.table) @ (np.asarray(parameters.overlap) * kept[:, None])
    network = forward(parameters.network, np.asarray(rows.x)) @ np.asarray(parameters.a) - shared
    polynomial = prediction(parameters, rows) - network
    products = (weights * phi).T @ (weights * network)
    lengths = np.linalg.norm(weights * phi, axis=0)[:, None]
    # Rounding is relative to what the projection removed, too.
    size = np.linalg.norm(weights * network) + np.linalg.norm(weights * shared)
    assert np.max(np.abs(products) / lengths) < 1e-13 * size
    assert np.linalg.norm(network) > 1e-3
    expected = weighted_fit(phi, target, weights[:, 0])
    np.testing.assert_allclose(polynomial, expected, atol=1e-10)
    # The same at points that were not trained on.
    points = np.random.default_rng(9).uniform(-1, 1, (50, 2))
    parts = PANN(DOMAIN, BASIS, parameters, num_outputs=2).parts(points)
    new = output(parameters, points, BASIS.table(points))
    np.testing.assert_allclose(parts.network + parts.polynomial, new, atol=1e-12)
    coefficients = np.linalg.lstsq(weights * phi, weights * target, rcond=None)[0]
    np.testing.assert_allclose(
        parts.polynomial, BASIS.table(points)[:, kept] @ coefficients, atol=1e-10
    )


@pytest.mark.parametrize("preconditioner", [False, True])
@pytest.mark.parametrize(
    "stage",
    [
        LeastSquares("both"),
        LeastSquares("polynomial"),
        LeastSquares("network"),
        Adam(20, Constant(0.01)),
        GaussNewton(3),
        Prune(0.3),
    ],
    ids=lambda stage: type(stage).__name__ + getattr(stage, "part", ""),
)
def test_under_the_exact_constraint_every_stage_leaves_orthogonal_halves(
    rows, stage, preconditioner
):
    scales = jnp.asarray(SCALES) if preconditioner else None
    task = make_task(rows, "exact", term_scales=scales)
    trained, _ = stage.run(task, start())
    for index in range(2):
        assert_halves_are_exact(task, trial(trained, index))


def test_least_squares_under_the_exact_constraint_predicts_the_same(rows):
    trials = start()
    free, _ = LeastSquares("both").run(make_task(rows), trials)
    exact, _ = LeastSquares("both").run(make_task(rows, "exact"), trials)
    assert np.any(np.asarray(exact.overlap) != 0)
    for index in range(2):
        expected = prediction(trial(free, index), rows)
        np.testing.assert_allclose(prediction(trial(exact, index), rows), expected, atol=1e-11)


# ---- Prune ----


def pruned(stage, a, b, rows):
    """Run Prune on one trial with these coefficients (functions, outputs)."""
    trials = start(1)
    trials = replace(trials, a=jnp.asarray(a, float)[None], b=jnp.asarray(b, float)[None])
    trained, outcome = stage.run(make_task(rows), trials)
    return trial(trained, 0), outcome


A = np.array([[2.0, 0.0], [-0.5, 0.1], [0.01, -0.02], [0.0, 0.0], [-3.0, 0.3]])
B = np.array([[40.0, 1.0], [-0.3, -0.4], [0.05, 0.0], [0.0, 0.0], [0.0, -6.0]] + [[0.5, -0.5]] * 5)


@pytest.mark.parametrize(
    "stage, kept_units, kept_terms",
    [
        (Prune(0.1), [0, 1, 4], [0, 1, 4, 5, 6, 7, 8, 9]),
        # A tenth of the largest of each half: 0.3 and 4.
        (Prune(0.1, relative=True), [0, 1, 4], [0, 4]),
        # As printed, a_j < t goes whatever its size: the largest of its signed values counts.
        (Prune(0.1, signed=True), [0, 1, 4], [0, 5, 6, 7, 8, 9]),
        (Prune(0.2, signed=True), [0, 4], [0, 5, 6, 7, 8, 9]),
        (Prune(0.0), [0, 1, 2, 3, 4], list(range(10))),
        (Prune(1e-12, relative=True), [0, 1, 2, 4], [0, 1, 2, 4, 5, 6, 7, 8, 9]),
    ],
    ids=repr,
)
def test_prune_keeps_functions_with_a_coefficient_above_the_threshold(
    rows, stage, kept_units, kept_terms
):
    parameters, outcome = pruned(stage, A, B, rows)
    assert np.flatnonzero(parameters.keep_a).tolist() == kept_units
    assert np.flatnonzero(parameters.keep_b).tolist() == kept_terms
    np.testing.assert_array_equal(parameters.a, A * np.asarray(parameters.keep_a)[:, None])
    np.testing.assert_array_equal(parameters.b, B * np.asarray(parameters.keep_b)[:, None])
    assert f"{100 - 20 * len(kept_units):.1f}% of the network's units" in outcome.notes[0]
    assert f"{100 - 10 * len(kept_terms):.1f}% of the terms" in outcome.notes[0]


def test_what_is_pruned_stays_pruned(rows):
    trials = with_masks(start(), SOME_A, SOME_B)
    trained, _ = Prune(0.0).run(make_task(rows), trials)
    np.testing.assert_array_equal(trained.keep_a, SOME_A)
    np.testing.assert_array_equal(trained.keep_b, SOME_B)


def test_dropping_the_polynomial_leaves_the_network_and_a_constant(rows):
    trials = start()
    dropped, _ = DropPolynomial().run(make_task(rows), trials)
    for index in range(2):
        before, after = trial(trials, index), trial(dropped, index)
        expected = prediction(replace(before, b=jnp.zeros((10, 2))), rows) + np.asarray(before.b)[0]
        np.testing.assert_allclose(prediction(after, rows), expected, atol=1e-13)
        assert np.flatnonzero(after.keep_b).tolist() == [BASIS.term_names().index("1")]


def test_a_negative_threshold_is_refused():
    with pytest.raises(ValueError, match=r"threshold must not be negative, got -0\.5"):
        Prune(-0.5)


# ---- Modified networks ----


@pytest.mark.parametrize(
    "stage", [Adam(30), LBFGS(5), GaussNewton(3)], ids=lambda stage: type(stage).__name__
)
def test_stages_move_every_layer_of_a_modified_network_downhill(rows, stage):
    trials = start(widths=(4, 4), kind="modified")
    trained, _ = stage.run(make_task(rows), trials)
    for index in range(2):
        before, after = trial(trials, index), trial(trained, index)
        misfits = [
            np.linalg.norm(rows.weights[:, None] * (output(p, rows.x, rows.table) - rows.target))
            for p in (before, after)
        ]
        assert misfits[1] < 0.99 * misfits[0]
        moved = jax.tree.map(lambda old, new: np.any(old != new), before.network, after.network)
        assert len(jax.tree.leaves(moved)) == 8
        assert all(jax.tree.leaves(moved))


# ---- Place ----


def residual_at(rows, where):
    """Rows whose target is nonzero at these points alone."""
    target = np.zeros(rows.target.shape)
    target[where] = 1.0
    return dataclasses.replace(rows, target=jnp.asarray(target))


def levels(network, points):
    """How far the points are from the hyperplane of each unit of the first layer."""
    return np.abs(np.asarray(points) @ np.asarray(network.weights[0]).T + network.biases[0])


def test_place_puts_hyperplanes_through_points_with_a_residual(rows):
    trials = replace(start(), b=jnp.zeros((2, 10, 2)))
    task = make_task(residual_at(rows, [5, 17]))
    placed, outcome = Place((3.0, 7.0), aligned=0.5, uniform=0.0).run(task, trials)
    np.testing.assert_array_equal(placed.a, 0)
    np.testing.assert_array_equal(placed.network.weights[1], trials.network.weights[1])
    assert "slopes from 3 to 7" in outcome.notes
    first, second = (trial(placed, index).network for index in range(2))
    for network in (first, second):
        slopes = np.linalg.norm(network.weights[0], axis=1)
        assert np.all((slopes > 3 - 1e-12) & (slopes < 7 + 1e-12))
        assert np.sum(np.count_nonzero(network.weights[0], axis=1) == 1) == 3
    distances = np.hstack(
        [levels(network, rows.x[np.array([5, 17])]) for network in (first, second)]
    )
    assert np.all(distances.min(axis=0) < 1e-13)
    assert set(distances.argmin(axis=0)) == {0, 1}
    assert not np.array_equal(first.weights[0], second.weights[0])


def test_place_puts_the_uniform_share_at_any_point(rows):
    trials = replace(start(), b=jnp.zeros((2, 10, 2)))
    placed, _ = Place(uniform=1.0).run(make_task(residual_at(rows, [5])), trials)
    distances = levels(trial(placed, 0).network, rows.x)
    assert np.all(distances.min(axis=0) < 1e-12)
    assert np.all(distances[5] > 1e-3)


def test_place_moves_axis_units_within_their_axis(rows):
    embedding = build(
        AxisEmbedding,
        slopes=jnp.ones(8),
        centers=jnp.zeros(8),
        num_inputs=2,
        activation=activation_named("tanh"),
    )
    trials = replace(start(embedding=embedding), b=jnp.zeros((2, 10, 2)))
    task = make_task(residual_at(rows, [5, 17]))
    placed, _ = Place((3.0, 7.0), aligned=0.5, uniform=0.0).run(task, trials)
    candidates = np.asarray(rows.x)[[5, 17]]
    for index in range(2):
        after = trial(placed, index).network
        sizes = np.abs(after.embedding.slopes)
        assert np.all((sizes > 3 - 1e-12) & (sizes < 7 + 1e-12))
        for unit, center in enumerate(np.asarray(after.embedding.centers)):
            assert center in candidates[:, unit % 2]
        np.testing.assert_array_equal(after.weights[0], trial(trials, index).network.weights[0])


def test_place_leaves_fourier_features_and_absent_networks_alone(rows):
    fourier = build(RandomFourierFeatures, frequencies=jnp.ones((4, 2)))
    circles = CircleEmbedding((1,), 2)
    for trials in (start(embedding=fourier), start(embedding=circles), start(widths=())):
        placed, outcome = Place().run(make_task(rows), trials)
        assert placed is trials
        assert "no network" in outcome.notes[0] or "Fourier features" in outcome.notes[0]


def test_place_refuses_modified_networks(rows):
    with pytest.raises(ValueError, match="plain networks, got a gated one; leave Place out"):
        Place().run(make_task(rows), start(widths=(4, 4), kind="modified"))


def test_default_slopes_reach_what_the_points_resolve():
    assert default_scales(400, 2) == (2.0, pytest.approx(3 * 20))
    assert default_scales(1, 2) == (2.0, 4.0)


# ---- KeepIfBetter ----


@dataclasses.dataclass(frozen=True)
class SetPolynomial(Stage):
    """A stage for tests: gives each trial these coefficients of the constant term."""

    constants: tuple[float, ...]

    def run(self, task, trials):
        b = np.zeros(trials.b.shape)
        b[:, 0] = np.asarray(self.constants)[:, None]
        return replace(trials, b=jnp.asarray(b)), Recorder(self, task, 1).outcome(
            np.ones(len(b), int)
        )


def constant_rows(value, count):
    made = random_rows(0, count)
    return dataclasses.replace(made, target=jnp.full_like(made.target, value))


@pytest.mark.parametrize("held_out_target, kept", [(None, [False, True]), (8.0, [True, False])])
def test_keep_if_better_judges_each_trial_by_rows_held_out(held_out_target, kept):
    """Training wants the constant 2, held-out rows want 8; the stage goes from 1 to 9 and 3."""
    trials = replace(start(), a=jnp.zeros((2, 5, 2)))
    trials, _ = SetPolynomial((4.0, 4.0)).run(make_task(constant_rows(2.0, 120)), trials)
    held_out = None if held_out_target is None else constant_rows(held_out_target, 30)
    task = make_task(constant_rows(2.0, 120), held_out=held_out)
    trained, outcome = KeepIfBetter((SetPolynomial((9.0, 3.0)),)).run(task, trials)
    expected = np.where(kept, [9.0, 3.0], 4.0)
    np.testing.assert_array_equal(trained.b[:, 0, 0], expected)
    np.testing.assert_array_equal(trained.network.weights[0], trials.network.weights[0])
    assert outcome.notes == ("kept in 1 of 2 trials",)
    assert [inner.stage for inner in outcome.inner] == [SetPolynomial((9.0, 3.0))]


def test_keep_if_better_takes_back_what_is_not_finite():
    trials = replace(start(), a=jnp.zeros((2, 5, 2)))
    task = make_task(constant_rows(2.0, 120))
    trained, _ = KeepIfBetter((SetPolynomial((np.nan, np.inf)),)).run(task, trials)
    np.testing.assert_array_equal(trained.b, trials.b)


def test_keep_if_better_runs_nothing_at_round_off():
    trials = replace(start(), a=jnp.zeros((2, 5, 2)))
    task = make_task(constant_rows(2.0, 120))
    exact, _ = SetPolynomial((2.0, 2.0)).run(task, trials)
    trained, outcome = KeepIfBetter((SetPolynomial((9.0, 9.0)),)).run(task, exact)
    np.testing.assert_array_equal(trained.b, exact.b)
    assert outcome.reasons == (REASONS[ROUND_OFF],) * 2
    assert outcome.inner == ()


# ---- Race ----


def test_a_race_is_won_in_each_trial_by_the_branch_closest_to_the_values():
    """Values are 2: from 4, the first branch is better in trial 0, the second in trial 1."""
    trials = replace(start(), a=jnp.zeros((2, 5, 2)))
    task = make_task(constant_rows(2.0, 120))
    branches = (
        (SetPolynomial((9.0, 9.0)), SetPolynomial((3.0, 7.0))),
        (SetPolynomial((6.0, 5.0)),),
        (SetPolynomial((np.nan, np.nan)),),
    )
    trained, outcome = Race(branches).run(task, trials)
    np.testing.assert_array_equal(trained.b[:, 0, 0], [3.0, 5.0])
    assert outcome.notes == ("won by branch 1, 2",)
    assert len(outcome.inner) == 4


def test_a_race_without_a_finite_branch_stays_where_it_was():
    trials = replace(start(), a=jnp.zeros((2, 5, 2)))
    branches = ((SetPolynomial((np.nan, np.inf)),),)
    trained, _ = Race(branches).run(make_task(constant_rows(2.0, 120)), trials)
    np.testing.assert_array_equal(trained.b, trials.b)
    with pytest.raises(ValueError, match="a race needs at least one branch"):
        Race(())


# ---- Rates ----


@pytest.mark.parametrize(
    "rate, formula",
    [
        (Constant(0.3), lambda step: 0.3),
        (Cosine(0.3), lambda step: 0.3 * (1 + math.cos(math.pi * step / 1000)) / 2),
        (Stepwise(0.3, 0.5, 200), lambda step: 0.3 * 0.5 ** (step // 200)),
    ],
    ids=["constant", "cosine", "stepwise"],
)
def test_rates(rate, formula):
    schedule = rate.schedule(1000)
    for step in (0, 1, 199, 200, 500, 999, 1000):
        assert float(schedule(step)) == pytest.approx(formula(step), rel=1e-12, abs=1e-15)


# ---- Recipes ----


def flatten(recipe):
    """The stages that do the work, in their order."""
    for stage in recipe:
        if isinstance(stage, KeepIfBetter):
            yield from flatten(stage.stages)
        elif isinstance(stage, Race):
            yield from flatten(sum(stage.branches, ()))
        else:
            yield stage


def find(kind, recipe):
    return [stage for stage in flatten(recipe) if isinstance(stage, kind)]


SMALL = Sizes(num_points=1000, num_terms=100, num_network_parameters=500)
# More than the operations of a CPU, and more than its memory with few operations.
LARGE = Sizes(num_points=200_000, num_terms=100, num_network_parameters=10_000)
TALL = Sizes(num_points=1_000_000, num_terms=0, num_network_parameters=300)


def test_the_default_recipe_goes_by_size():
    assert jax.default_backend() == "cpu"
    assert TALL.newton_operations < NEWTON_OPERATIONS["cpu"] < LARGE.newton_operations
    assert TALL.newton_bytes > NEWTON_BYTES["cpu"]
    small, why_small = default_recipe(SMALL)
    assert small[0] == LeastSquares("polynomial", alone=True)
    assert find(GaussNewton, small)
    assert not find(Adam, small)
    assert "second order" in why_small
    for sizes in (LARGE, TALL):
        recipe, why = default_recipe(sizes)
        assert not find(GaussNewton, recipe)
        assert find(Adam, recipe)[0].batch_size == sizes.batch_limit
        assert "gradient" in why
        assert f"{sizes.num_points:,} points" in why
    assert LeastSquares("polynomial", alone=True) not in default_recipe(TALL)[0]


@pytest.mark.parametrize("sizes", [SMALL, LARGE], ids=["small", "large"])
def test_the_default_recipe_takes_the_network_only_where_it_helps(sizes):
    recipe, _ = default_recipe(sizes)
    (guarded,) = [stage for stage in recipe if isinstance(stage, KeepIfBetter)]
    outside = [stage for stage in recipe if stage is not guarded]
    assert [type(stage) for stage in outside] == [LeastSquares, Prune]
    # What comes out of iterations is solved for once more.
    assert list(flatten(guarded.stages))[-1] == LeastSquares("both")


def test_the_default_recipe_races_the_model_against_its_network():
    """The network alone, as a half of the model, is trained as it would be by itself."""
    guard = default_recipe(SMALL)[0][-2]
    ((with_polynomial, without),) = [race.branches for race in guard.stages]
    assert without == (DropPolynomial(), *with_polynomial)
    by_itself = default_recipe(dataclasses.replace(SMALL, num_terms=0))[0][-2]
    assert by_itself == KeepIfBetter((Race((with_polynomial,)),))


def test_stages_in_front_do_not_change_the_draws_of_the_others(rows):
    """With nothing left to drop, the units are placed as they are without the stage in front."""
    trials, _ = DropPolynomial().run(make_task(rows), start())
    recipe = (Place(), LeastSquares("both"))
    plain, _ = run_recipe(recipe, make_task(rows), trials)
    after, _ = run_recipe((DropPolynomial(), *recipe), make_task(rows), trials)
    assert_same(after, plain, 0.0)


def test_the_default_recipe_without_a_network_only_solves():
    recipe, why = default_recipe(dataclasses.replace(SMALL, num_network_parameters=0))
    assert [type(stage) for stage in recipe] == [LeastSquares, Prune]
    assert "no network" in why


def test_minibatches_are_for_many_rows_and_dropout_for_gradients():
    dropout = dataclasses.replace(SMALL, dropout=True)
    many = dataclasses.replace(dropout, num_points=2 * SMALL.batch_limit + 1)
    for sizes, batch in ((dropout, None), (many, SMALL.batch_limit)):
        recipe, why = default_recipe(sizes)
        assert [adam.batch_size for adam in find(Adam, recipe)] == [batch]
        assert not find(GaussNewton, recipe)
        assert "dropout" in why


def test_rounding_is_pruned_by_the_precision():
    double, _ = default_recipe(SMALL)
    single, _ = default_recipe(dataclasses.replace(SMALL, precision="float32"))
    assert np.finfo(np.float64).eps < double[-1].threshold < 1e-10
    assert np.finfo(np.float32).eps < single[-1].threshold < 1e-4


def test_recipes_have_names_and_what_is_no_stage_is_refused():
    assert recipe_named("paper", SMALL)[0] == PAPER
    assert [type(stage) for stage in PAPER] == [Adam, Prune, LBFGS, Prune]
    assert recipe_named("default", SMALL) == default_recipe(SMALL)
    assert recipe_named((Adam(5),), SMALL)[0] == (Adam(5),)
    with pytest.raises(ValueError, match=r"a tuple of stages, but it contains 'adam'"):
        pann.Training(stages=(Adam(5), "adam"))


@pytest.mark.parametrize(
    "recipe",
    [
        PAPER,
        default_recipe(SMALL)[0],
        default_recipe(LARGE)[0],
        (Adam(7, Stepwise(0.1, 0.5, 3), 5, 0.1, 9, 2), Place((1.0, 2.0)), Prune(0.1, True, True)),
    ],
    ids=["paper", "small", "large", "other"],
)
def test_a_described_recipe_can_be_typed_in(recipe):
    assert eval(describe(recipe), vars(pann.training)) == recipe


# ---- Trials ----


def assert_same(actual, expected, tolerance):
    for left, right in zip(jax.tree.leaves(actual), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(left, right, rtol=tolerance, atol=tolerance)


def test_trials_together_equal_trials_alone_and_prune_on_their_own(rows):
    """With full batches only the start of a trial matters, not the others next to it."""
    trials = start()
    recipe = (Adam(50, Cosine(0.02)), Prune(0.4), LeastSquares("both"), GaussNewton(2))
    task = make_task(rows, term_scales=jnp.asarray(SCALES))
    together, _ = run_recipe(recipe, task, trials)
    assert not np.array_equal(together.keep_b[0], together.keep_b[1])
    for index in range(2):
        twice = stack(trial(trials, index), trial(trials, index))
        alone, _ = run_recipe(recipe, task, twice)
        assert_same(trial(together, index), trial(alone, 1), 1e-8)


# ---- Some of many rows ----


def sorted_task(count):
    """Rows in the order of their one coordinate, with the values x^2 + x^3 and terms to x^3."""
    x = jnp.linspace(-1.0, 1.0, count)[:, None]
    rows = Rows(x, x ** jnp.arange(4), x**2 + x**3, jnp.ones(count))
    return Task(rows, Loss(constraint="none"), jax.random.key(0))


def polynomial_trials(b):
    b = jnp.asarray(b, float)[None, :, None]
    keep = jnp.ones((1, 4), bool)
    nothing = jnp.zeros((1, 0, 1))
    return Parameters(None, nothing, b, None, jnp.zeros((1, 0), bool), keep, jnp.zeros_like(b))


def test_figures_of_many_rows_are_not_those_of_the_first(monkeypatch):
    monkeypatch.setattr("pann.training.task.FIGURE_ROWS", 400)
    with jax.enable_x64(True):
        task = sorted_task(10_007)
        data = float(task.figures(polynomial_trials([0, 0, 0, 0]))["data"][0])
    # The mean of (x^2 + x^3)^2 is 1/5 + 1/7; that of x^4 (1 + x)^2 at the first rows is 0.002.
    deviation = np.std((task.rows.target[:, 0]) ** 2) / np.sqrt(400)
    assert abs(data - (1 / 5 + 1 / 7)) < 4 * deviation


def test_ridge_on_some_of_many_rows_does_not_alias_with_their_order(monkeypatch):
    monkeypatch.setattr("pann.training.linear.RIDGE_ROWS", 300)
    x1, x2 = np.meshgrid(np.linspace(-1, 1, 300), np.linspace(-1, 1, 20), indexing="ij")
    x1, x2 = x1.ravel(), x2.ravel()
    with jax.enable_x64(True):
        table = jnp.asarray(np.stack([np.ones_like(x1), x1, x2, x2**2], axis=1))
        target = jnp.asarray((x2**2 + 0.1 * x1)[:, None])
        rows = Rows(jnp.asarray(np.stack([x1, x2], axis=1)), table, target, jnp.ones(len(x1)))
        task = Task(rows, Loss(constraint="none"), jax.random.key(0))
        trained, _ = Ridge().run(task, polynomial_trials([0, 0, 0, 0]))
    # Every 20th row has the same x2, which leaves its coefficients undetermined.
    np.testing.assert_allclose(trained.b[0, :, 0], [0, 0.1, 0, 1], atol=1e-9)
