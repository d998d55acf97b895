"""Least squares, Gauss-Newton, Levenberg-Marquardt and GMRES alone, against NumPy and SciPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize

from pann.numerics import gauss_newton, levenberg_marquardt
from pann.numerics.gmres import gmres
from pann.numerics.least_squares import (
    factorize,
    least_squares,
    orthonormalize,
    solve,
    triangle_of,
)


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


# ---- Least squares ----


def dependent_matrix(rng, position, noise=0.0):
    """Seven columns, one of which is a combination of three others but for noise."""
    matrix = rng.normal(size=(40, 7)) * 10.0 ** np.arange(-3, 4)
    others = np.delete(np.arange(7), position)
    column = matrix[:, others[:3]] @ [1.0, -2.0, 0.5]
    matrix[:, position] = column + noise * np.linalg.norm(column) * rng.normal(size=40)
    return matrix


@pytest.mark.parametrize("position", [0, 1, 3, 6])
def test_all_forms_solve_with_a_dependent_column_anywhere(position, rng):
    matrix, right = dependent_matrix(rng, position), rng.normal(size=(40, 2))
    unit = matrix / np.linalg.norm(matrix, axis=0)
    expected = unit @ np.linalg.lstsq(unit, right, rcond=1e-12)[0]
    table = jnp.asarray(matrix)
    factors = factorize(table, jnp.ones(40), jnp.ones(7, bool))
    by_columns = [least_squares(table, jnp.asarray(each))[0] for each in right.T]
    both = [np.asfortranarray(np.column_stack([matrix, each])) for each in right.T]
    by_numpy = [triangle_of(each)[0] for each in both]
    solved, is_dependent = solve(matrix.copy(order="F"), right)
    projected = orthonormalize(matrix).q
    for found in (
        matrix @ np.asarray(factors.solve(jnp.asarray(right))),
        matrix @ np.stack(by_columns, axis=1),
        matrix @ np.stack(by_numpy, axis=1),
        matrix @ solved,
        projected @ (projected.T @ right),
    ):
        np.testing.assert_allclose(found, expected, atol=1e-10)
    assert is_dependent
    # What JAX leaves out is exactly zero, what NumPy finds has the least norm in unit columns.
    assert np.count_nonzero(factors.solve(jnp.asarray(right))[:, 0]) == 6
    least = np.linalg.lstsq(unit, right, rcond=1e-12)[0]
    np.testing.assert_allclose(solved * np.linalg.norm(matrix, axis=0)[:, None], least, atol=1e-9)


@pytest.mark.parametrize("noise, expected", [(1e-15, True), (1e-10, False)])
def test_all_forms_agree_on_what_depends(noise, expected, rng):
    matrix = dependent_matrix(rng, 4, noise)
    table = jnp.asarray(matrix)
    _, triangle = least_squares(table, jnp.ones(40))
    factors = factorize(table, jnp.ones(40), jnp.ones(7, bool))
    found = [
        bool(np.any(triangle.is_left_out)),
        bool(np.any(np.linalg.norm(factors.q, axis=0) == 0)),
        len(orthonormalize(matrix).used) < 7,
        solve(matrix.copy(order="F"), np.ones((40, 1)))[1],
    ]
    assert found == [expected] * 4


def test_columns_that_are_not_kept_do_not_count(rng):
    matrix, right, weights = (
        rng.normal(size=(30, 6)),
        rng.normal(size=(30, 1)),
        rng.uniform(1, 2, 30),
    )
    kept = np.array([1, 0, 1, 1, 0, 0], bool)
    factors = factorize(*map(jnp.asarray, (matrix, weights, kept)), 4)
    assert factors.q.shape == (30, 4)
    found = np.asarray(factors.solve(jnp.asarray(weights[:, None] * right)))
    roots = weights[:, None]
    expected = np.linalg.lstsq(roots * matrix[:, kept], roots * right, rcond=None)[0]
    np.testing.assert_allclose(found[kept], expected, atol=1e-12)
    np.testing.assert_array_equal(found[~kept], 0)


def test_orthonormal_combinations_are_the_same_at_other_rows(rng):
    matrix = np.column_stack([dependent_matrix(rng, 2), np.zeros(40)])
    factors = orthonormalize(matrix)
    np.testing.assert_allclose(factors.q.T @ factors.q, np.eye(6), atol=1e-13)
    np.testing.assert_allclose(factors.at(matrix[:10]), factors.q[:10], atol=1e-11)


# ---- Levenberg-Marquardt ----


@pytest.mark.parametrize("num_rows, num_columns", [(50, 8), (12, 20)])
@pytest.mark.parametrize("num_free", [0, 5])
def test_a_damped_step_is_that_of_the_stacked_problem(num_rows, num_columns, num_free, rng):
    """With fewer rows than columns as well; the free columns are not damped."""
    jacobian = rng.normal(size=(num_rows, num_columns)) * 10.0 ** rng.uniform(-4, 0, num_columns)
    free, residual = rng.normal(size=(num_rows, num_free)), rng.normal(size=num_rows)
    problem = levenberg_marquardt.damped_problem(*map(jnp.asarray, (jacobian, residual, free)))
    left = jacobian - free @ np.linalg.lstsq(free, jacobian, rcond=None)[0]
    lengths = np.linalg.norm(left, axis=0)
    lengths = np.maximum(lengths, 0.1 * np.sqrt(np.mean(lengths**2)))
    np.testing.assert_allclose(problem.lengths, lengths, rtol=1e-10)
    damping = 0.02
    below = np.hstack([np.sqrt(damping) * np.diag(lengths), np.zeros((num_columns, num_free))])
    stacked = np.vstack([np.hstack([jacobian, free]), below])
    expected = np.linalg.lstsq(stacked, np.r_[residual, np.zeros(num_columns)], rcond=None)[0]
    step, free_step, predicted = problem.step(jnp.asarray(damping))
    np.testing.assert_allclose(np.r_[step, free_step], expected, rtol=1e-7, atol=1e-10)
    after = residual - np.hstack([jacobian, free]) @ expected
    np.testing.assert_allclose(predicted, residual @ residual - after @ after, rtol=1e-9)


@pytest.mark.parametrize(
    "ratio, factor", [(1.0, 1 / 3), (0.75, 0.875), (0.5, 1.0), (0.25, 1.125), (-1.0, 2.0)]
)
def test_damping_follows_the_ratio_by_nielsens_rule(ratio, factor):
    before = levenberg_marquardt.first_damping(0.5)
    after = levenberg_marquardt.nielsen(before, jnp.array(True), jnp.array(ratio))
    np.testing.assert_allclose([after.value, after.growth], [0.5 * factor, 2.0])
    once = levenberg_marquardt.nielsen(before, jnp.array(False), jnp.array(ratio))
    twice = levenberg_marquardt.nielsen(once, jnp.array(False), jnp.array(ratio))
    np.testing.assert_allclose([once.value, twice.value], [1.0, 4.0])


@pytest.mark.parametrize("shorten, lengths", [(False, [1.0] * 10), (True, [1.0] * 6)])
def test_steps_are_tried_with_more_damping_and_then_shortened(shorten, lengths):
    """A step is accepted when it is a sixteenth as long, or never."""

    def propose(damping, length):
        return length, jnp.where(length <= 1 / 16, 0.5, 2.0), jnp.array(1.0)

    first = levenberg_marquardt.first_damping(1e-3)
    tried = levenberg_marquardt.try_steps(
        propose, jnp.array(0.0), jnp.array(1.0), first, shorten=shorten
    )
    assert bool(tried.accepted) is shorten
    assert float(tried.point) == (1 / 16 if shorten else 1.0)
    np.testing.assert_allclose(tried.damping.value, 1e-3 * 4.0 ** len(lengths))


def test_minimizing_by_normal_equations_finds_what_scipy_finds(rng):
    t = np.linspace(0, 4, 60)
    values = 2.0 * np.exp(-1.3 * t) + 0.3 * np.sin(2.5 * t) + 0.01 * rng.normal(size=60)
    residual = lambda x: x[0] * np.exp(-x[1] * t) + x[2] * np.sin(x[3] * t) - values

    def jacobian(x):
        decay, phase = np.exp(-x[1] * t), x[3] * t
        columns = [decay, -x[0] * t * decay, np.sin(phase), x[2] * t * np.cos(phase)]
        return np.stack(columns, axis=1)

    normal_equations = lambda x, r: (jacobian(x).T @ jacobian(x), jacobian(x).T @ r)
    start = np.array([1.0, 0.5, 1.0, 2.2])
    found, left = levenberg_marquardt.minimize(
        residual, normal_equations, start, damping=1e-2, iterations=100, tolerance=1e-14
    )
    theirs = scipy.optimize.least_squares(residual, start, jacobian, method="lm", xtol=1e-14)
    np.testing.assert_allclose(found, theirs.x, rtol=1e-6)
    np.testing.assert_array_equal(left, residual(found))


def test_minimizing_stops_where_no_step_is_lower():
    start = np.array([3.0])
    flat = lambda x, r: (np.zeros((1, 1)), np.zeros(1))
    options = {"damping": 1e-2, "iterations": 5, "tolerance": 0.0}
    found, _ = levenberg_marquardt.minimize(lambda x: np.ones(2), flat, start, **options)
    np.testing.assert_array_equal(found, start)


# ---- Gauss-Newton ----


class Curve(gauss_newton.Problem):
    """A residual of one vector, linearized by JAX."""

    def residual(self, x):
        return jnp.stack([jnp.arctan(x[0]), x[1] - x[0] ** 2, jnp.exp(x[1]) - 1.0])

    def linearize(self, unknowns):
        return self.residual(unknowns), jax.jacfwd(self.residual)(unknowns)

    def gradient(self, unknowns, moved):
        return self.residual(moved) @ jax.jacfwd(self.residual)(unknowns)

    def sum_of_squares(self, unknowns):
        return jnp.sum(self.residual(unknowns) ** 2)

    def tree(self, columns, like):
        return columns


class Line(Curve):
    """A x - y, badly conditioned."""

    def residual(self, x):
        table = np.vander(np.linspace(0, 1, 30), 9)
        return table @ x - np.sin(3 * np.linspace(0, 1, 30))


def minimized(problem, start, **options):
    def shortened(unknowns, step, fraction):
        moved = gauss_newton.minus(unknowns, step, fraction)
        return moved, float(problem.sum_of_squares(moved))

    settings = {"max_steps": 40, "min_steps": 1, "tolerance": 1e-13} | options
    return gauss_newton.minimize(
        jax.jit(lambda x: gauss_newton.full_step(problem, x)),
        shortened,
        jnp.asarray(start),
        **settings,
    )


def test_steps_are_halved_where_newtons_method_overshoots_and_then_converge_quadratically():
    """Newton's method on arctan diverges from 2."""
    found = minimized(Curve(), [2.0, 1.0])
    np.testing.assert_allclose(found.unknowns, 0.0, atol=1e-12)
    norms = np.sqrt(found.sums)
    late = norms[(norms < 0.1) & (norms > 1e-14)]
    assert len(late) >= 2
    # The correction makes the order of a step at least two.
    assert np.all(late[1:] < 10 * late[:-1] ** 2)


def test_a_linear_problem_is_solved_at_once_and_to_rounding():
    found = minimized(Line(), np.zeros(9))
    table = np.vander(np.linspace(0, 1, 30), 9)
    target = np.sin(3 * np.linspace(0, 1, 30))
    expected = table @ np.linalg.lstsq(table, target, rcond=None)[0]
    np.testing.assert_allclose(table @ np.asarray(found.unknowns), expected, atol=1e-13)
    # More steps change what rounding leaves, which is not the same on all machines.
    np.testing.assert_allclose(found.sums[1:], found.sums[-1], rtol=1e-6)
    assert found.reason in ("the last step is at round-off", "the residual no longer falls")


def test_the_steps_end_at_their_limit_and_no_step_goes_up():
    found = minimized(Curve(), [2.0, 1.0], max_steps=2)
    assert found.reason == "all steps done"
    assert len(found.sums) == 3
    assert np.all(np.diff(found.sums) < 0)


@pytest.mark.parametrize(
    "bound, fraction, is_lower", [(9.0, 1.0, True), (0.6, 0.5, True), (0.1, 0.25, False)]
)
def test_a_step_is_halved_until_it_is_lower(bound, fraction, is_lower):
    found = gauss_newton.halve(lambda f: f, lambda point: point < bound, 3)
    assert found == (fraction, fraction, is_lower)


# ---- GMRES ----


@pytest.mark.parametrize("preconditioned", [False, True])
def test_gmres_solves_what_numpy_solves(preconditioned, rng):
    matrix = np.eye(30) + 0.3 * rng.normal(size=(30, 30)) / np.sqrt(30)
    matrix *= 10.0 ** rng.uniform(-2, 2, (30, 1)) if preconditioned else 1.0
    inverse = np.diag(1 / np.diagonal(matrix)) if preconditioned else np.eye(30)
    right = rng.normal(size=(5, 6))
    found, norm = gmres(
        lambda x: (matrix @ x.ravel()).reshape(5, 6),
        lambda x: (inverse @ x.ravel()).reshape(5, 6),
        jnp.asarray(right),
        tolerance=1e-13,
        iterations=30,
    )
    expected = np.linalg.solve(matrix, right.ravel()).reshape(5, 6)
    np.testing.assert_allclose(found, expected, rtol=1e-10)
    assert norm <= 1e-13


def test_gmres_ends_after_as_many_iterations_as_there_are_eigenvalues():
    values = np.repeat([1.0, 3.0, 10.0], 7)
    solved = lambda iterations: gmres(
        lambda x: values * x, lambda x: x, jnp.ones(21), tolerance=1e-14, iterations=iterations
    )
    assert solved(2)[1] > 1e-3
    np.testing.assert_allclose(solved(3)[0], 1 / values, rtol=1e-12)
