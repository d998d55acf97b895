"""Levenberg-Marquardt together with a polynomial: its steps and its damping.

What single precision reaches is in tests/test_optimized.py.
"""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pann
from pann.basis import make_basis
from pann.model.architecture import Architecture
from pann.network import activation_named
from pann.numerics.levenberg_marquardt import first_damping
from pann.pde.collocation import make_block
from pann.problems import allen_cahn
from pann.solvers.levenberg import (
    State,
    jacobians,
    levenberg_marquardt,
    linearized,
    residual_norm,
    try_steps,
)
from pann.solvers.newton import start
from pann.solvers.setup import Setup


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


PROBLEM = allen_cahn()
BASIS = make_basis(PROBLEM.domain, 3)


def blocks_with(num_points: int) -> tuple:
    setup = Setup(PROBLEM, num_points, "sobol", condition_points=20, condition_weight=1.0)
    return tuple(make_block(each, PROBLEM, BASIS, "float64") for each in setup.placed(BASIS))


def state_with(width: int) -> State:
    architecture = Architecture(
        (width, width), activation_named("tanh"), None, 0.0, None, False, "float64"
    )
    parameters = architecture.start(2, 0, 1, key=jax.random.key(0))
    unknowns = start(BASIS.num_terms, 1, PROBLEM.parameters, "float64")
    b = jnp.asarray(np.random.default_rng(0).normal(size=unknowns.b.shape))
    return State(parameters, dataclasses.replace(unknowns, b=b))


@pytest.mark.parametrize("num_points, width", [(120, 4), (30, 12)])
def test_a_step_is_the_damped_least_squares_solution(num_points, width):
    """By numpy, of the residual and the scaled step below it; both forms of the normal matrix."""
    state, blocks = state_with(width), blocks_with(num_points)
    problem = eqx.filter_jit(linearized)(blocks, state, PROBLEM.domain)
    residual, by_b, by_network = (
        np.asarray(each) for each in eqx.filter_jit(jacobians)(blocks, state, PROBLEM.domain)
    )
    count, terms = by_network.shape[1], by_b.shape[1]
    assert (len(residual) < count) == (num_points < 100)
    damping = 0.03
    weights = np.sqrt(damping) * np.diag(problem.lengths)
    stacked = np.block([[by_network, by_b], [weights, np.zeros((count, terms))]])
    right = np.concatenate([residual, np.zeros(count)])
    expected = np.linalg.lstsq(stacked, right, rcond=None)[0]
    step, step_b, predicted = eqx.filter_jit(problem.step)(jnp.asarray(damping))
    np.testing.assert_allclose(np.concatenate([step, step_b]), expected, rtol=1e-6, atol=1e-8)
    left = residual - by_network @ expected[:count] - by_b @ expected[count:]
    assert predicted == pytest.approx(residual @ residual - left @ left, rel=1e-8)


def test_damping_falls_where_the_model_is_right_and_grows_where_it_is_not():
    state, blocks = state_with(4), blocks_with(60)
    norm = eqx.filter_jit(residual_norm)(blocks, state, PROBLEM.domain)
    at = first_damping
    careful = try_steps(blocks, blocks, state, norm, at(1e3), PROBLEM.domain)
    assert careful.accepted
    assert careful.norm < norm
    assert careful.at_fresh == pytest.approx(float(careful.norm), rel=1e-12)
    bold = try_steps(blocks, blocks, state, norm, at(1e-9), PROBLEM.domain)
    assert bold.damping.value > 1e-9
    # Nothing is below a norm of zero: all tries are rejected, and the damping grew in half of them.
    none = try_steps(blocks, blocks, state, jnp.zeros(()), at(1e-2), PROBLEM.domain)
    assert not none.accepted
    assert none.damping.value == pytest.approx(1e-2 * 2.0 ** (1 + 2 + 3 + 4 + 5 + 6), rel=1e-12)


def test_training_finds_what_the_polynomial_cannot():
    domain = PROBLEM.domain
    front = pann.Problem.manufactured(
        domain, lambda u, x, y: u.laplacian, lambda x, y: jnp.tanh(6 * (x + 0.5 * y))
    )
    basis = make_basis(domain, 6)
    setup = Setup(front, 300, "sobol", condition_points=80, condition_weight=1.0)
    blocks = tuple(make_block(each, front, basis, "float64") for each in setup.placed(basis))
    architecture = Architecture((10,), activation_named("tanh"), None, 0.0, None, False, "float64")
    parameters = architecture.start(2, 0, 1, key=jax.random.key(0))
    state = State(parameters, start(basis.num_terms, 1, {}, "float64"))
    _, outcome = levenberg_marquardt(blocks, blocks, state, domain, iterations=60)
    assert np.all(np.diff(outcome.training) < 0)
    assert outcome.training[-1] < 1e-3 * outcome.training[1]
