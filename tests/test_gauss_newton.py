"""Levenberg-Marquardt against NumPy on the full problem: b eliminated is b without damping."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from oracles import (
    SCALES,
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

from pann.training import GaussNewton
from pann.training.gauss_newton import ProjectedResidual
from pann.training.task import CONVERGED, HELD_OUT, REASONS, ROUND_OFF

STAGE = GaussNewton(60, damping=1e-3, record_every=1)


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True), jax.default_matmul_precision("highest"):
        yield


# ---- The full problem ----


def flatten(parameters):
    """The parameters of the network as one vector, and back."""
    p = parameters
    flat, unravel = ravel_pytree((p.network.weights, p.network.biases, p.a, p.bias))

    def rebuild(vector):
        weights, biases, a, bias = unravel(vector)
        network = replace(p.network, weights=weights, biases=biases)
        return replace(p, network=network, a=a, bias=bias)

    return flat, rebuild


def network_residual(parameters, rows, weights):
    """theta -> W (Psi a + bias - y), row by row; written out, and not projected."""
    flat, rebuild = flatten(parameters)

    def residual(vector):
        p = rebuild(vector)
        hidden = rows.x
        for weight, bias in zip(p.network.weights, p.network.biases, strict=True):
            hidden = jnp.tanh(hidden @ weight.T + bias)
        values = (hidden * p.keep_a) @ p.a + (0.0 if p.bias is None else p.bias)
        return (weights[:, None] * (values - rows.target)).ravel()

    return flat, jax.jit(residual), jax.jit(jax.jacfwd(residual))


def polynomial_columns(rows, weights):
    """W Phi for all outputs, with rows in the order of the residual."""
    return np.kron(weights[:, None] * np.asarray(rows.table), np.eye(rows.target.shape[1]))


def without_polynomials(columns, array):
    return array - columns @ np.linalg.lstsq(columns, array, rcond=None)[0]


def reference_steps(parameters, rows, weights, damping, num_steps):
    """The rule of the module's docstring on (theta, b) together, damping on theta alone."""
    flat, residual, jacobian = network_residual(parameters, rows, weights)
    phi = polynomial_columns(rows, weights)
    size = lambda theta: np.sum(without_polynomials(phi, np.asarray(residual(theta))) ** 2)
    theta, num_rejected = np.asarray(flat), 0
    for _ in range(num_steps):
        full = np.asarray(jacobian(theta))
        lengths = np.linalg.norm(without_polynomials(phi, full), axis=0)
        lengths = np.maximum(lengths, 0.1 * np.sqrt(np.mean(lengths**2)))
        while True:
            # The program adds ten roundings to the damping.
            root = np.sqrt(damping + 10 * np.finfo(float).eps)
            matrix = np.block(
                [[full, phi], [np.diag(root * lengths), np.zeros((len(theta), phi.shape[1]))]]
            )
            right = np.concatenate([-np.asarray(residual(theta)), np.zeros(len(theta))])
            step = np.linalg.lstsq(matrix, right, rcond=None)[0][: len(theta)]
            if size(theta + step) < size(theta):
                break
            damping, num_rejected = 4 * damping, num_rejected + 1
        theta, damping = theta + step, damping / 3
    return theta, num_rejected


# Twenty points with two outputs are fewer residuals than the 63 parameters of the network.
@pytest.mark.parametrize("num_points, damping", [(120, 1e-5), (20, 1e-2)])
def test_steps_solve_the_full_problem_with_b_undamped(num_points, damping):
    rows = random_rows(0, num_points)
    task = make_task(rows, term_scales=jnp.asarray(SCALES))
    parameters = random_parameters(0, num_outputs=2)
    # No decrease is fast enough: the stage stops after three steps.
    stage = GaussNewton(50, damping=damping, tolerance=1.0, patience=3, record_every=1)
    trained, outcome = stage.run(task, stack(parameters))
    weights = total_weights(task, parameters)
    theta, num_rejected = reference_steps(parameters, rows, weights, damping, 3)
    assert num_rejected > 0
    assert outcome.reasons == (REASONS[CONVERGED],)
    assert len(outcome.history["step"]) == 3
    after = trial(trained, 0)
    np.testing.assert_allclose(flatten(after)[0], theta, rtol=1e-6, atol=1e-7)
    # And b is the best for the new network.
    network = output(replace(after, b=jnp.zeros((10, 2))), np.asarray(rows.x), np.zeros((1, 10)))
    polynomial = weighted_fit(np.asarray(rows.table), np.asarray(rows.target) - network, weights)
    np.testing.assert_allclose(np.asarray(rows.table @ after.b), polynomial, atol=1e-10)


@pytest.mark.parametrize("bias", [False, True])
def test_the_jacobian_is_that_of_the_residual_projected(bias):
    rows = random_rows(0, 30)
    keep_a = np.array([1, 1, 0, 1, 1], bool)
    parameters = random_parameters(0, num_outputs=2, bias=bias)
    parameters = replace(parameters, keep_a=jnp.asarray(keep_a))
    weights = np.asarray(rows.weights)
    q, _ = np.linalg.qr(weights[:, None] * np.asarray(rows.table))
    problem = ProjectedResidual(rows, rows.weights, jnp.asarray(q))
    flat, residual, jacobian = network_residual(parameters, rows, weights)
    phi = polynomial_columns(rows, weights)
    expected = without_polynomials(phi, np.asarray(jacobian(flat)))
    np.testing.assert_allclose(
        jax.jit(lambda: problem.jacobian(parameters))(), expected, atol=1e-12
    )
    np.testing.assert_allclose(
        np.ravel(problem.residual(parameters)),
        without_polynomials(phi, np.asarray(residual(flat))),
        atol=1e-12,
    )
    assert np.any(np.all(np.abs(expected) < 1e-12, axis=0))  # the columns of the pruned unit


# ---- Where it goes, and when it stops ----


def test_the_sum_of_squares_falls_at_every_step():
    rows = random_rows(0, 120)
    _, outcome = STAGE.run(make_task(rows), stack(random_parameters(0, num_outputs=2)))
    data = outcome.history["data"][0]
    assert len(data) >= 20
    assert np.all(np.diff(data) <= 0)
    assert data[-1] < 0.5 * data[0]


def test_a_network_started_near_the_target_is_found_to_round_off():
    rows, truth = random_rows(0, 120), random_parameters(1, num_outputs=2)
    target = output(truth, np.asarray(rows.x), np.asarray(rows.table))
    rows = dataclasses.replace(rows, target=jnp.asarray(target))
    flat, rebuild = flatten(truth)
    near = rebuild(flat + 0.005 * np.random.default_rng(1).normal(size=flat.shape))
    near = replace(near, b=jnp.zeros((10, 2)))
    trained, outcome = STAGE.run(make_task(rows), stack(near))
    assert outcome.reasons == (REASONS[ROUND_OFF],)
    # Steps that square the error at the end: Gauss-Newton's order at a zero residual.
    errors = np.sqrt(outcome.history["data"][0])
    falls = np.diff(np.log(errors[errors > 1e-12]))
    assert falls.min() < -2
    new = random_rows(5, 50)
    predicted = output(trial(trained, 0), np.asarray(new.x), np.asarray(new.table))
    expected = output(truth, np.asarray(new.x), np.asarray(new.table))
    np.testing.assert_allclose(predicted, expected, atol=1e-10)


def test_a_start_at_round_off_still_gets_its_polynomial():
    rows = random_rows(0, 120)
    b = np.random.default_rng(0).normal(size=(10, 2))
    rows = dataclasses.replace(rows, target=rows.table @ b)
    parameters = replace(random_parameters(0, num_outputs=2), a=jnp.zeros((5, 2)))
    trained, outcome = STAGE.run(make_task(rows), stack(parameters))
    assert outcome.reasons == (REASONS[ROUND_OFF],)
    np.testing.assert_allclose(trained.b[0], b, atol=1e-12)


def test_the_state_with_the_lowest_held_out_error_is_restored():
    rows, held_out = random_rows(0, 60, noise=0.5), random_rows(1, 60, noise=0.5)
    stage = GaussNewton(60, patience=8, record_every=1)
    task = make_task(rows, held_out=held_out)
    trained, outcome = stage.run(task, stack(random_parameters(0, num_outputs=2)))
    errors = outcome.history["held_out"][0]
    assert outcome.reasons == (REASONS[HELD_OUT],)
    assert len(errors) < 60
    best = float(held_out.error(trial(trained, 0)))
    assert best == pytest.approx(errors.min(), rel=1e-10)
    assert best < errors[-1]
    # It stopped because the error had not fallen below the best by the tolerance.
    assert len(errors) - 1 - errors.argmin() >= 1


def test_what_cannot_be_trained_is_noted():
    rows = random_rows(0, 120)
    trials = stack(random_parameters(0, num_outputs=2, widths=()))
    unchanged, outcome = STAGE.run(make_task(rows, "l1"), trials)
    assert unchanged is trials
    assert outcome.notes[0].startswith("the constraint l1 is not a sum of squares")
    assert "use LeastSquares" in outcome.notes[1]


@pytest.mark.parametrize(
    "options, message",
    [
        ({"iterations": 0}, "iterations must be at least 1, got 0"),
        ({"patience": -1}, "patience must be at least 1, got -1"),
        ({"record_every": 0}, "record_every must be at least 1, got 0"),
        ({"damping": 0.0}, r"damping must be positive, got 0\.0"),
    ],
)
def test_bad_settings_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        GaussNewton(**options)
