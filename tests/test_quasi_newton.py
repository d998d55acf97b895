"""L-BFGS against a dense BFGS matrix, scipy, and the conditions that its line search must meet."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize

from pann.numerics.lbfgs import (
    CURVATURE,
    DECREASE,
    MAX_STEPS,
    Evaluated,
    empty_memory,
    iterate,
    search,
)


def evaluation(function):
    def evaluate(vector):
        value, gradient = jax.value_and_grad(function)(vector)
        return Evaluated(vector, value, gradient, ())

    return evaluate


def minimized(function, start, iterations, num_pairs=8):
    """The last place, the evaluations of each iteration, and whether the last one was stuck."""
    evaluate = evaluation(function)

    @jax.jit
    def run(vector):
        def body(carry, _):
            found, memory, stuck, count = iterate(evaluate, *carry)
            return (found, memory), (count, stuck)

        first = (evaluate(vector), empty_memory(num_pairs, vector))
        return jax.lax.scan(body, first, length=iterations)

    (place, _), (counts, stuck) = run(jnp.asarray(start))
    return place, np.asarray(counts), np.asarray(stuck)


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


# ---- Direction ----


@pytest.mark.parametrize("num_steps, num_pairs", [(1, 4), (4, 4), (7, 4)])
def test_the_direction_is_that_of_the_dense_bfgs_matrix(num_steps, num_pairs):
    rng = np.random.default_rng(3)
    root = rng.normal(size=(6, 6))
    hessian = root @ root.T + 0.1 * np.eye(6)
    memory, pairs = empty_memory(num_pairs, jnp.zeros(6)), []
    for _ in range(num_steps):
        step = rng.normal(size=6)
        memory = memory.after(jnp.asarray(step), jnp.asarray(hessian @ step))
        pairs.append((step, hessian @ step))
    step, change = pairs[-1]
    inverse = (step @ change) / (change @ change) * np.eye(6)
    for step, change in pairs[-num_pairs:]:
        projector = np.eye(6) - np.outer(change, step) / (step @ change)
        inverse = projector.T @ inverse @ projector + np.outer(step, step) / (step @ change)
    gradient = rng.normal(size=6)
    np.testing.assert_allclose(memory.direction(jnp.asarray(gradient)), -inverse @ gradient)


def test_without_pairs_the_direction_is_down_the_gradient():
    gradient = jnp.array([1.0, -2.0])
    np.testing.assert_array_equal(empty_memory(3, gradient).direction(gradient), -gradient)


def test_a_pair_along_which_the_function_is_not_convex_is_left_out():
    memory = empty_memory(2, jnp.zeros(2)).after(jnp.array([1.0, 0.0]), jnp.array([2.0, 0.0]))
    after = memory.after(jnp.array([0.0, 1.0]), jnp.array([1.0, -1.0]))
    np.testing.assert_array_equal(after.steps, memory.steps)
    assert after.gamma == memory.gamma == 0.5


# ---- Line search ----


def wave(t):
    return -(t[0] / (t[0] ** 2 + 2.0)) + 0.1 * jnp.sin(9.0 * t[0])


@pytest.mark.parametrize("first", [1e-3, 0.1, 1.0, 30.0])
@pytest.mark.parametrize(
    "function",
    [
        wave,
        lambda t: (t[0] - 2.0) ** 4,
        lambda t: 1e4 * (t[0] - 1e-3) ** 2,
        lambda t: jnp.exp(-t[0]) + 1e-3 * t[0] ** 2,
    ],
    ids=["waves", "quartic", "steep", "far away"],
)
def test_the_step_found_meets_both_conditions(function, first):
    evaluate, direction = evaluation(function), jnp.array([1.0])
    start = evaluate(jnp.zeros(1))
    sign = -jnp.sign(start.gradient[0])
    found, count = search(evaluate, start, sign * direction, jnp.asarray(first), 0.0)
    step, slope = abs(float(found.vector[0])), float(sign * start.gradient[0])
    assert 0 < count < MAX_STEPS
    assert found.value <= start.value + DECREASE * step * slope
    assert abs(float(found.gradient[0])) <= CURVATURE * abs(slope)
    np.testing.assert_allclose(found.value, function(found.vector), rtol=1e-13)


def test_a_step_that_is_fine_is_the_only_one():
    evaluate = evaluation(lambda x: jnp.sum(x**2))
    start = evaluate(jnp.array([3.0, -4.0]))
    found, count = search(evaluate, start, -0.5 * start.gradient, jnp.array(1.0), 0.0)
    assert count == 1
    np.testing.assert_array_equal(found.vector, 0)


def test_values_that_are_not_finite_are_backed_away_from():
    evaluate = evaluation(lambda x: x[0] - jnp.log(1.0 - x[0] ** 2) * 0.1)
    start = evaluate(jnp.array([0.5]))
    found, count = search(evaluate, start, jnp.array([-1.0]), jnp.array(100.0), 0.0)
    assert count < MAX_STEPS
    assert found.value < start.value
    assert np.isfinite(found.value)


def test_uphill_nothing_is_evaluated():
    evaluate = evaluation(lambda x: jnp.sum(x**2))
    start = evaluate(jnp.array([1.0]))
    found, count = search(evaluate, start, start.gradient, jnp.array(1.0), 0.0)
    assert count == 0
    np.testing.assert_array_equal(found.vector, start.vector)


# ---- Iterations ----


def test_it_finds_the_minimum_that_scipy_finds():
    start = np.array([-1.2, 1.0, -0.7, 1.4, 0.3])
    theirs = scipy.optimize.minimize(
        scipy.optimize.rosen, start, jac=scipy.optimize.rosen_der, method="L-BFGS-B"
    )
    rosen = lambda x: jnp.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)
    place, counts, _ = minimized(rosen, start, iterations=60)
    np.testing.assert_allclose(place.vector, theirs.x, atol=1e-4)
    np.testing.assert_allclose(place.vector, 1.0, atol=1e-8)
    assert counts.sum() < 2 * theirs.nfev


def test_on_a_quadratic_function_it_ends_after_as_many_iterations_as_there_are_eigenvalues():
    eigenvalues = np.repeat([1.0, 5.0, 30.0], 4)
    place, counts, _ = minimized(
        lambda x: 0.5 * jnp.sum(eigenvalues * x**2), np.ones(12), iterations=25
    )
    assert np.max(np.abs(place.vector)) < 1e-10
    assert counts.mean() < 2


def test_where_nothing_is_lower_it_is_stuck_and_stays():
    rough = lambda x: jnp.sum(jnp.abs(x)) + 1e-12 * x[0]
    place, _, stuck = minimized(rough, np.zeros(3), iterations=4)
    np.testing.assert_array_equal(place.vector, 0)
    assert stuck[-1]


def test_slopes_lead_where_rounding_hides_the_decrease():
    scales = jnp.array([1.0, 30.0, 900.0], "float32")
    hidden = lambda x: 1.0 + 0.5 * jnp.sum(scales * x**2)
    start = np.array([1e-4, -2e-5, 1e-6], "float32")
    assert hidden(start) == 1.0
    place, _, _ = minimized(hidden, start, iterations=20)
    assert np.max(np.abs(place.vector)) < 1e-3 * np.max(np.abs(start))


def test_a_search_in_vain_makes_the_loss_noisier_and_then_the_memory_empty():
    memory = empty_memory(2, jnp.zeros(2)).after(jnp.array([1.0, 0.0]), jnp.array([2.0, 0.0]))
    noises = [float(memory.noise)]
    for _ in range(4):
        memory = memory.noisier()
        assert not memory.is_empty
        noises.append(float(memory.noise))
    np.testing.assert_allclose(noises, [1e-6, 1e-5, 1e-4, 1e-3, 1e-2])
    assert memory.noisier().is_empty
