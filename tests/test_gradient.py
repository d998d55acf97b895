"""The loss, and the stages that follow its gradient: Adam against Optax, L-BFGS on a quadratic."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from oracles import (
    SCALES,
    count_compilations,
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

from pann.training import LBFGS, Adam, Constant, Cosine
from pann.training.loss import Loss
from pann.training.task import CONVERGED, HELD_OUT, NOT_FINITE, REASONS, RUNNING


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True), jax.default_matmul_precision("highest"):
        yield


@pytest.fixture
def rows():
    return random_rows(0, 120)


# ---- The loss ----


def masked_parameters():
    parameters = random_parameters(0, num_outputs=2)
    keep_a = np.array([1, 0, 1, 1, 1], bool)
    keep_b = np.arange(10) % 4 != 2
    return replace(parameters, keep_a=jnp.asarray(keep_a), keep_b=jnp.asarray(keep_b))


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_the_terms_of_the_loss_are_those_of_the_paper(rows, reduction):
    p = masked_parameters()
    residual = output(p, np.asarray(rows.x), np.asarray(rows.table)) - np.asarray(rows.target)
    squares = np.sum((np.asarray(rows.weights)[:, None] * residual) ** 2)
    terms = Loss("l1", 0.3, reduction=reduction).terms(p, rows)
    assert float(terms["data"]) == pytest.approx(squares / (120 if reduction == "mean" else 1))
    kept = [np.asarray(c)[np.asarray(k)] for c, k in ((p.a, p.keep_a), (p.b, p.keep_b))]
    assert float(terms["l1"]) == pytest.approx(0.3 * sum(np.abs(c).sum() for c in kept))
    constraint = Loss("E", 0.3, reduction=reduction).terms(p, rows)["constraint"]
    psi = forward(p.network, np.asarray(rows.x))[:, np.asarray(p.keep_a)]
    polynomial = np.asarray(rows.table)[:, np.asarray(p.keep_b)] @ kept[1]
    matrix = np.einsum("ij,jo,io->ijo", psi, kept[0], polynomial)
    assert float(constraint) == pytest.approx(0.3 * np.linalg.norm(matrix))
    total = Loss("E", 0.3, reduction=reduction).total(p, rows)
    assert float(total) == pytest.approx(float(terms["data"] + constraint))


@pytest.mark.parametrize("constraint", ["none", "exact"])
def test_without_a_weak_constraint_the_loss_is_the_data(rows, constraint):
    assert list(Loss(constraint).terms(masked_parameters(), rows)) == ["data"]


def test_the_relative_error_is_weighted_and_absolute_where_the_values_are_zero(rows):
    p = masked_parameters()
    predicted = output(p, np.asarray(rows.x), np.asarray(rows.table))
    target, weights = np.asarray(rows.target), np.asarray(rows.weights)[:, None]
    norm = lambda array: np.linalg.norm(weights * array)
    expected = norm(predicted - target) / norm(target)
    assert float(rows.error(p)) == pytest.approx(expected)
    zero = dataclasses.replace(rows, target=jnp.zeros_like(rows.target))
    assert float(zero.error(p)) == pytest.approx(norm(predicted))


@pytest.mark.parametrize(
    "options, message",
    [
        ({"constraint": "Z"}, "no constraint 'Z'; choose one of none, A, B,"),
        ({"norm": "nuclear"}, "no norm 'nuclear'; choose one of frobenius, spectral"),
        ({"reduction": "max"}, "no reduction 'max'; choose one of mean, sum"),
        ({"constraint_weight": -1.0}, r"constraint_weight must not be negative, got -1\.0"),
    ],
)
def test_bad_losses_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        Loss(**options)


# ---- Adam ----


def reference_adam(parameters, rows, weights, optimizer, num_steps):
    """Adam on mean |W (u - y)|^2 + 0.1 |C_E| by a plain loop over Optax."""
    p = parameters

    def total(moving):
        layers_weights, layers_biases, a, b = moving
        hidden = rows.x
        for weight, bias in zip(layers_weights, layers_biases, strict=True):
            hidden = jnp.tanh(hidden @ weight.T + bias)
        polynomial = rows.table @ b
        residual = weights[:, None] * (hidden @ a + polynomial - rows.target)
        matrix = hidden[:, :, None] * a[None] * polynomial[:, None, :]
        return jnp.sum(residual**2) / len(weights) + 0.1 * jnp.sqrt(jnp.sum(matrix**2))

    @jax.jit
    def step(moving, state):
        updates, state = optimizer.update(jax.grad(total)(moving), state, moving)
        return optax.apply_updates(moving, updates), state

    moving = (p.network.weights, p.network.biases, p.a, p.b)
    state = optimizer.init(moving)
    for _ in range(num_steps):
        moving, state = step(moving, state)
    return moving


RATE = lambda step: 0.01 * (1 + jnp.cos(jnp.pi * step / 10)) / 2


@pytest.mark.parametrize(
    "stage, optimizer",
    [
        (Adam(10, Cosine(0.01), record_every=4), optax.adam(RATE)),
        (Adam(10, Cosine(0.01), weight_decay=0.3), optax.adamw(RATE, weight_decay=0.3)),
        # A batch larger than the data is all of the data.
        (Adam(10, Cosine(0.01), batch_size=500), optax.adam(RATE)),
    ],
    ids=["adam", "weight decay", "one batch"],
)
def test_adam_equals_a_loop_over_optax_and_a_broken_neighbor_does_not_matter(
    rows, stage, optimizer
):
    task = make_task(rows, "E", term_scales=jnp.asarray(SCALES))
    sound = random_parameters(0, num_outputs=2)
    broken = replace(random_parameters(1, num_outputs=2), a=jnp.full((5, 2), 1e200))
    trained, outcome = stage.run(task, stack(sound, broken))
    expected = reference_adam(sound, rows, total_weights(task, sound), optimizer, 10)
    after = trial(trained, 0)
    actual = (after.network.weights, after.network.biases, after.a, after.b)
    for left, right in zip(jax.tree.leaves(actual), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-10, atol=1e-12)
    assert outcome.reasons == (REASONS[RUNNING], REASONS[NOT_FINITE])
    for left, right in zip(
        jax.tree.leaves(trial(trained, 1)), jax.tree.leaves(broken), strict=True
    ):
        np.testing.assert_array_equal(left, right)


def test_a_loss_that_blows_up_stops_with_the_reason_at_the_last_finite_record(rows):
    trials = stack(random_parameters(0, num_outputs=2, widths=()))
    stage = Adam(40, Constant(1e200), record_every=10)
    trained, outcome = stage.run(make_task(rows), trials)
    assert outcome.reasons == (REASONS[NOT_FINITE],)
    assert outcome.history["step"].tolist() == [10]
    for left, right in zip(jax.tree.leaves(trained), jax.tree.leaves(trials), strict=True):
        np.testing.assert_array_equal(left, right)


def one_hot_task(num_rows):
    """A term for each row, so that a coefficient moves when its row has been seen."""
    made = random_rows(0, num_rows, num_outputs=1)
    return make_task(
        dataclasses.replace(made, table=jnp.eye(num_rows), target=jnp.ones((num_rows, 1)))
    )


def test_minibatches_cover_all_rows_within_an_epoch():
    """60 rows by 10 at a time: six steps see each row once, if a permutation serves them all."""
    trials = stack(*(random_parameters(s, widths=(), num_terms=60) for s in range(2)))
    trials = replace(trials, b=jnp.zeros((2, 60, 1)))
    stage = Adam(6, Constant(0.1), batch_size=10, record_every=6)
    trained, _ = stage.run(one_hot_task(60), trials)
    assert np.all(np.asarray(trained.b) != 0)
    # Rows seen early have been carried on by the momentum: each trial has an order of its own.
    assert not np.array_equal(np.argsort(trained.b[0, :, 0]), np.argsort(trained.b[1, :, 0]))


def test_batches_of_the_next_record_are_drawn_again():
    trials = stack(random_parameters(0, widths=(), num_terms=60))
    trials = replace(trials, b=jnp.zeros((1, 60, 1)))
    stage = Adam(2, Constant(0.1), batch_size=30, record_every=1)
    trained, _ = stage.run(one_hot_task(60), trials)
    # Two halves drawn apart overlap, but for a chance of 1 in 60! / (30! 30!).
    assert 30 < np.count_nonzero(trained.b) < 60


def test_patience_stops_and_restores_the_best_state():
    rows, held_out = random_rows(0, 60, noise=0.5), random_rows(1, 60, noise=0.5)
    stage = Adam(2000, Constant(0.03), patience=60, record_every=20)
    task = make_task(rows, held_out=held_out)
    trained, outcome = stage.run(task, stack(random_parameters(0, num_outputs=2)))
    errors, steps = outcome.history["held_out"][0], outcome.history["step"]
    assert outcome.reasons == (REASONS[HELD_OUT],)
    assert steps[-1] - steps[errors.argmin()] == 60
    best = float(held_out.error(trial(trained, 0)))
    assert best == pytest.approx(errors.min(), rel=1e-10)
    assert best < errors[-1]


def test_dropout_trains_each_trial_with_draws_of_its_own(rows):
    parameters = random_parameters(0, num_outputs=2)
    network = replace(parameters.network, dropout=0.5)
    twins = stack(*[replace(parameters, network=network)] * 2)
    trained, _ = Adam(3, Constant(0.01)).run(make_task(rows), twins)
    moved = np.abs(trained.a - twins.a)
    assert np.all(np.max(moved, axis=(1, 2)) > 0.01)
    assert not np.allclose(moved[0], moved[1], rtol=1e-3)


def test_chunks_of_any_length_share_a_program():
    trials = stack(random_parameters(0, widths=(), num_terms=60))
    counts = []
    for steps in (20, 25):
        with count_compilations() as compiled:
            Adam(steps, Constant(0.1), record_every=10).run(one_hot_task(60), trials)
        counts.append(len(compiled))
    assert 0 < counts[1] <= counts[0]


# ---- L-BFGS ----


def test_lbfgs_finds_the_least_squares_solution_of_a_polynomial(rows):
    task = make_task(rows, term_scales=jnp.asarray(SCALES))
    trials = stack(random_parameters(0, num_outputs=2, widths=()))
    trained, outcome = LBFGS(200, memory=10, tolerance=1e-10).run(task, trials)
    assert outcome.reasons == (REASONS[CONVERGED],)
    table, target = np.asarray(rows.table), np.asarray(rows.target)
    weights = total_weights(task, trial(trials, 0))
    expected = weighted_fit(table, target, weights)
    np.testing.assert_allclose(table @ np.asarray(trained.b[0]), expected, atol=1e-9)
    residual = weights[:, None] * (table @ np.asarray(trained.b[0]) - target)
    gradient = 2 / len(table) * (weights[:, None] * table).T @ residual
    assert np.max(np.abs(gradient)) < 1e-10


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: Adam(0), "steps must be at least 1, got 0 in Adam"),
        (lambda: Adam(5, batch_size=0), "batch_size must be at least 1, got 0"),
        (lambda: Adam(5, patience=-1), "patience must be at least 1, got -1"),
        (lambda: LBFGS(0), "iterations must be at least 1, got 0 in LBFGS"),
        (lambda: LBFGS(5, memory=0), "memory must be at least 1, got 0"),
    ],
)
def test_bad_settings_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
