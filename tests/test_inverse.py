"""Unknown parameters from noisy data: what they are, how sure they are, and from what start."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import curve_fit
from scipy.special import erf

import pann
from pann.basis import make_basis
from pann.numerics.gauss_newton import relative_size
from pann.pde import Data, Dirichlet, Initial, Problem
from pann.pde.collocation import make_block
from pann.pde.placing import place_conditions, place_inside
from pann.points import sample
from pann.problems import kdv_inverse
from pann.solvers.data_fit import (
    Forward,
    Linearized,
    Rows,
    arrays_of,
    fit_parameters,
    fit_with_data,
    is_determined,
    other_guesses,
    smooth_fit,
)
from pann.solvers.newton import System, Unknowns, start

# ---- The linear algebra ----


def random_system(num_data: int = 30, columns: int = 8) -> Linearized:
    rng = np.random.default_rng(5)
    rows = rng.normal(size=(20, columns))
    data = rng.normal(size=(num_data, columns))
    residual, misfit = rng.normal(size=20), rng.normal(size=num_data)
    square = float(residual @ residual)
    return Linearized(rows.T @ rows, rows.T @ residual, square, data, data.T @ data, misfit)


@pytest.mark.parametrize("weight", [0.1, 1.0, 30.0])
def test_the_influence_is_how_much_a_datum_moves_its_own_prediction(weight: float) -> None:
    system = random_system()
    moved = []
    for number in range(len(system.misfit)):
        # Raising a datum lowers its residual.
        other = dataclasses.replace(system, misfit=system.misfit - np.eye(30)[number])
        steps = system.weighted(weight).step, other.weighted(weight).step
        moved.append(system.data[number] @ (steps[0] - steps[1]))
    assert system.weighted(weight).influence == pytest.approx(np.mean(moved), rel=1e-6)


def test_the_score_is_near_the_error_at_data_left_out_one_by_one() -> None:
    system, weight = random_system(num_data=400), 0.5
    errors = []
    for number in range(400):
        kept = np.arange(400) != number
        data, misfit = system.data[kept], system.misfit[kept]
        without = dataclasses.replace(
            system, data=data, data_normal=data.T @ data, misfit=misfit
        ).weighted(weight)
        errors.append(system.misfit[number] - system.data[number] @ without.step)
    assert system.weighted(weight).score == pytest.approx(np.linalg.norm(errors), rel=1e-3)


def test_deviations_are_those_of_the_inverse_normal_matrix() -> None:
    system = random_system()
    solved = system.weighted(3.0)
    inverse = np.linalg.inv(system.normal + 9 * system.data.T @ system.data)
    noise = 3 * solved.misfit / np.sqrt(30 * (1 - solved.influence))
    expected = noise * np.sqrt(np.diagonal(inverse)[-2:])
    np.testing.assert_allclose(solved.deviations(2), expected, rtol=1e-6)


def forward_with(sensitivity: np.ndarray, misfit: np.ndarray) -> Forward:
    count = sensitivity.shape[1]
    return Forward(np.ones(count), np.ones(1), np.ones((1, count)), misfit, sensitivity)


def test_deviations_of_reduced_fits_are_those_of_linear_regression() -> None:
    rng = np.random.default_rng(0)
    sensitivity, misfit = rng.normal(size=(30, 3)) * [1e-4, 1.0, 1e3], rng.normal(size=30)
    variance = misfit @ misfit / (30 - 3)
    expected = np.sqrt(np.diagonal(variance * np.linalg.inv(sensitivity.T @ sensitivity)))
    found = forward_with(sensitivity, misfit).deviations()
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_deviations_are_infinite_where_the_data_leave_a_direction_free() -> None:
    rng = np.random.default_rng(0)
    first, second = rng.normal(size=(2, 30))
    sensitivity = np.stack([first, 3 * first, second, np.zeros(30)], axis=1)
    found = forward_with(sensitivity, rng.normal(size=30)).deviations()
    np.testing.assert_array_equal(np.isinf(found), [True, True, False, True])


def test_rows_in_numpy_are_those_of_newton_in_the_order_of_the_parameters() -> None:
    """JAX sorts the names of parameters: columns for z and a would change places."""
    problem = Problem(
        pann.Box(x=(0, 1)),
        lambda u, v, x, z, a: (u.xx * v + z * u, v.x - jnp.sin(a * x) * u),
        [Data(np.full((3, 1), 0.5), np.ones(3), field="v")],
        fields=("u", "v"),
        parameters={"z": 2.0, "a": 0.7},
    )
    with jax.enable_x64(True):
        blocks, basis = blocks_of(problem, 5)
        unknowns = start(basis.num_terms, 2, problem.parameters, "float64")
        b = np.random.default_rng(0).normal(size=unknowns.b.shape)
        unknowns = dataclasses.replace(unknowns, b=jnp.asarray(b))
        residual, jacobian = System(blocks).linearize(unknowns)
        rows = Rows(blocks, tuple(unknowns.parameters))
        found, columns = rows.linearized(np.concatenate(arrays_of(unknowns)))
    np.testing.assert_allclose(found, residual, atol=1e-12)
    np.testing.assert_allclose(columns, jacobian, atol=1e-10)


# ---- Small problems ----

SPEED, DIFFUSION = 0.8, 0.05
RING = pann.Box(x=(-1, 1), t=(0, 1), periodic="x", time="t")


def drifting(x: Any, t: Any, library: Any = jnp) -> Any:
    decays = [library.exp(-DIFFUSION * (k * np.pi) ** 2 * t) for k in (1, 2)]
    waves = [library.sin(k * np.pi * (x - SPEED * t)) for k in (1, 2)]
    return decays[0] * waves[0] + 0.5 * decays[1] * waves[1]


def advection_diffusion(noise: float, num_data: int = 400, seed: int = 0) -> Problem:
    rng = np.random.default_rng(seed)
    points = RING.from_reference(rng.uniform(-1, 1, (num_data, 2)))
    values = drifting(points[:, 0], points[:, 1], np)
    return Problem(
        RING,
        lambda u, c, k: u.t + c * u.x - k * u.xx,
        [Data(points, values + noise * np.std(values) * rng.normal(size=num_data))],
        drifting,
        # Not in the order of the alphabet, to which JAX sorts names.
        parameters={"k": 1.0, "c": 3.0},
    )


@pytest.fixture(scope="module")
def from_noise() -> pann.Solution:
    return pann.solve(advection_diffusion(0.05))


def test_speed_and_diffusion_are_found_from_data_with_noise(from_noise: pann.Solution) -> None:
    """Without conditions: from the data alone."""
    assert from_noise.parameters["c"] == pytest.approx(SPEED, rel=0.02)
    assert from_noise.parameters["k"] == pytest.approx(DIFFUSION, rel=0.05)
    for name, true in (("c", SPEED), ("k", DIFFUSION)):
        deviation = from_noise.parameter_deviations[name]
        assert 0 < deviation < 0.05 * true
        assert abs(from_noise.parameters[name] - true) < 4 * deviation
    # Better than the data by far, and no network was trained.
    assert from_noise.rel_l2 is not None
    assert from_noise.rel_l2 < 0.02
    assert from_noise.model.num_units == 0
    assert "c = 0.8" in str(from_noise)
    assert "+-" in str(from_noise)


def test_a_file_keeps_the_deviations(from_noise: pann.Solution, tmp_path: Any) -> None:
    from_noise.save(tmp_path / "found.pann")
    loaded = pann.load(tmp_path / "found.pann")
    assert loaded.parameters == from_noise.parameters
    assert loaded.parameter_deviations == from_noise.parameter_deviations


def test_without_noise_the_parameters_are_exact() -> None:
    solution = pann.solve(advection_diffusion(0.0))
    assert solution.parameters["c"] == pytest.approx(SPEED, rel=1e-7)
    assert solution.parameters["k"] == pytest.approx(DIFFUSION, rel=1e-7)


def test_twice_the_noise_gives_twice_the_deviation() -> None:
    once, twice = (
        pann.solve(advection_diffusion(noise), pann.Hybrid(degree=12)).parameter_deviations["c"]
        for noise in (0.02, 0.04)
    )
    assert twice == pytest.approx(2 * once, rel=0.3)


def measured_rod(seed: int, noise: float = 0.02) -> Problem:
    rng = np.random.default_rng(seed)
    line = pann.Box(x=(0, np.pi))
    where = rng.uniform(0, np.pi, (100, 1))
    values = np.sin(where[:, 0]) / 0.7 + noise * rng.normal(size=100)
    return Problem(
        line,
        lambda u, x, k: -k * u.xx - jnp.sin(x),
        [Dirichlet(line.boundary, 0.0), Data(where, values)],
        parameters={"k": 5.0},
    )


def test_errors_are_as_large_as_the_deviations_say() -> None:
    solved = [pann.solve(measured_rod(seed), pann.Hybrid(degree=10)) for seed in range(12)]
    errors = [(s.parameters["k"] - 0.7) / s.parameter_deviations["k"] for s in solved]
    # The mean of 12 squares of standard normal numbers is in this range in 99.9% of all cases.
    assert 0.15 < np.mean(np.square(errors)) < 2.8


HEIGHT, DISPERSION = 1.0, 0.01
CIRCLE = pann.Box(x=(-3, 3), t=(0, 1), periodic="x", time="t")


def soliton(x: Any, t: Any) -> Any:
    """Of u_t + u u_x + DISPERSION u_xxx = 0."""
    return HEIGHT / np.cosh((x - HEIGHT * t / 3) / np.sqrt(12 * DISPERSION / HEIGHT)) ** 2


def test_both_coefficients_of_a_nonlinear_equation_are_found() -> None:
    """u = 0 solves it with any coefficients: the residual alone tells nothing."""
    rng = np.random.default_rng(2)
    points = CIRCLE.from_reference(rng.uniform(-1, 1, (500, 2)))
    values = soliton(*points.T)
    problem = Problem(
        CIRCLE,
        lambda u, a, b: u.t + a * u * u.x + b * u.xxx,
        [Data(points, values + 0.01 * np.std(values) * rng.normal(size=500))],
        parameters={"a": 0.3, "b": 0.05},
    )
    solution = pann.solve(problem)
    assert solution.parameters["a"] == pytest.approx(1.0, rel=0.02)
    assert solution.parameters["b"] == pytest.approx(DISPERSION, rel=0.02)
    assert solution.report.stop.startswith("converged")


def test_a_parameter_that_enters_nonlinearly_is_found() -> None:
    line = pann.Box(x=(0, 2))
    where = np.linspace(0, 2, 50)[:, None]
    problem = Problem(
        line,
        lambda u, x, p: u.x + jnp.exp(p) * u**2,
        [Data(where, 1 / (1 + np.exp(0.4) * where[:, 0]))],
        parameters={"p": -1.0},
    )
    assert pann.solve(problem, pann.Hybrid(degree=24)).parameters["p"] == pytest.approx(
        0.4, abs=1e-6
    )


def test_a_field_without_data_is_found_as_well() -> None:
    """u'' = -w^2 u as a system of which only u is measured."""
    time = pann.Box(t=(0, 4), time="t")
    where = np.linspace(0, 4, 80)[:, None]
    values = np.sin(1.3 * where[:, 0]) + 0.01 * np.random.default_rng(1).normal(size=80)
    problem = Problem(
        time,
        lambda u, v, w: (u.t - v, v.t + w**2 * u),
        [Data(where, values, field="u")],
        fields=("u", "v"),
        parameters={"w": 1.0},
    )
    solution = pann.solve(problem)
    assert solution.parameters["w"] == pytest.approx(1.3, rel=0.01)
    _, velocity = solution(t=2.0)
    assert velocity == pytest.approx(1.3 * np.cos(2.6), abs=0.05)


# ---- Where equation and conditions determine the solution ----

UNIT = pann.Box(x=(0, 1))
HEIGHT_OF_SOURCE, WIDTH_OF_SOURCE = 5.0, 0.15


def from_source(x: Any, height: float, width: float) -> Any:
    """-u'' = height exp(-(x - 0.4)^2 / width^2), zero at 0 and 1."""

    def particular(x: Any) -> Any:
        z = (x - 0.4) / width
        return -height * width**2 * (z * np.sqrt(np.pi) / 2 * erf(z) + np.exp(-(z**2)) / 2)

    return particular(x) - (1 - x) * particular(0.0) - x * particular(1.0)


def source_data(seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.uniform(0, 1, 50)
    return x, from_source(x, HEIGHT_OF_SOURCE, WIDTH_OF_SOURCE) + 0.005 * rng.normal(size=50)


def gaussian_source(u: Any, x: Any, height: Any, width: Any) -> Any:
    return -u.xx - height * jnp.exp(-((x - 0.4) ** 2) / width**2)


def unknown_source(seed: int, height: float = 1.0, width: float = 0.3) -> Problem:
    x, values = source_data(seed)
    conditions = [Dirichlet(UNIT.boundary, 0.0), Data(x[:, None], values)]
    return Problem(UNIT, gaussian_source, conditions, parameters={"width": width, "height": height})


def by_regression(seed: int) -> dict[str, tuple[float, float]]:
    """Parameters and deviations by SciPy on the closed form."""
    x, values = source_data(seed)
    found, covariance = curve_fit(from_source, x, values, [HEIGHT_OF_SOURCE, WIDTH_OF_SOURCE])
    pairs = zip(found.tolist(), np.sqrt(np.diagonal(covariance)).tolist(), strict=True)
    return dict(zip(("height", "width"), pairs, strict=True))


@pytest.mark.parametrize("seed", range(4))
def test_a_source_is_that_of_nonlinear_regression(seed: int) -> None:
    solution, expected = pann.solve(unknown_source(seed)), by_regression(seed)
    assert solution.report.stop.startswith("converged")
    for name, (value, deviation) in expected.items():
        assert solution.parameters[name] == pytest.approx(value, abs=0.05 * deviation)
        assert solution.parameter_deviations[name] == pytest.approx(deviation, rel=0.02)


@pytest.mark.parametrize(("height", "width"), [(50.0, 1.5), (0.5, 0.03), (-5.0, 0.3), (0.5, 1.5)])
def test_poor_first_guesses_lead_to_the_same_source(height: float, width: float) -> None:
    solution, expected = pann.solve(unknown_source(0, height, width)), by_regression(0)
    for name, (value, deviation) in expected.items():
        assert solution.parameters[name] == pytest.approx(value, abs=0.05 * deviation)


def test_the_sign_of_a_first_guess_stays_where_it_does_not_matter() -> None:
    value, deviation = by_regression(0)["width"]
    solution = pann.solve(unknown_source(0, width=-1.5))
    assert solution.parameters["width"] == pytest.approx(-value, abs=0.05 * deviation)


def test_a_degree_that_does_not_resolve_the_solution_is_said_to_be_too_low() -> None:
    solution = pann.solve(unknown_source(0), pann.Polynomial(degree=8))
    assert solution.report.stop.startswith("not resolved: the relative residual is ")
    assert "raise the degree, or leave it out" in str(solution)


def parabola(residual: Any, **guesses: float) -> Problem:
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 1, (50, 1))
    values = 0.5 * x[:, 0] * (1 - x[:, 0]) + 0.002 * rng.normal(size=50)
    conditions = [Dirichlet(UNIT.boundary, 0.0), Data(x, values)]
    return Problem(UNIT, residual, conditions, parameters=guesses)


def test_parameters_that_trade_off_are_not_determined() -> None:
    solution = pann.solve(parabola(lambda u, a, b, c: -c * u.xx - a * b, a=1.0, b=2.0, c=3.0))
    assert solution.report.stop.startswith("not determined by the data: a, b, c;")
    product = solution.parameters["a"] * solution.parameters["b"] / solution.parameters["c"]
    assert product == pytest.approx(1.0, rel=0.02)


def test_a_tolerance_is_not_met_by_parameters_that_are_not_determined() -> None:
    """Though two bases agree on one of the many that fit."""
    x = np.linspace(0, 1, 9)
    conditions = [Dirichlet(UNIT.boundary, 0.0), Data(x[:, None], x * (1 - x))]
    residual = lambda u, a, b: -u.xx - a * b
    problem = Problem(UNIT, residual, conditions, parameters={"a": 1.0, "b": 1.0})
    report = pann.solve(problem, tolerance=1e-6).report
    assert report.stop.startswith("not determined by the data: a, b;")
    assert report.met is False


def test_a_parameter_that_diverges_is_not_determined() -> None:
    """The best Gaussian for a constant source is infinitely wide."""
    solution = pann.solve(parabola(gaussian_source, height=1.0, width=0.3))
    assert solution.report.stop.startswith("not determined by the data: width;")
    assert "converged" not in str(solution)
    assert solution.parameters["height"] == pytest.approx(1.0, rel=0.05)


def test_an_equation_that_does_not_explain_the_data_is_said_not_to() -> None:
    solution = pann.solve(parabola(lambda u, x, a: -u.xx - a * jnp.sin(6 * x) - a, a=1.0))
    assert solution.report.stop.startswith("not explained: the misfit of the data is")


def test_a_parameter_may_be_zero_and_so_may_its_guess() -> None:
    solution = pann.solve(parabola(lambda u, x, a, b: -a * u.xx - 1 - b * u.x, a=0.0, b=1.0))
    assert solution.report.stop.startswith("converged")
    for name, true in (("a", 1.0), ("b", 0.0)):
        assert abs(solution.parameters[name] - true) < 3 * solution.parameter_deviations[name]


def drifting_from_state(seed: int) -> Problem:
    """As above, with the initial state known; names in the other order."""
    problem = advection_diffusion(0.05, 150, seed)
    state = Initial(lambda x, t: drifting(x, 0.0))
    guesses = {"k": -0.5, "c": 3.0}
    return dataclasses.replace(
        problem, conditions=[*problem.conditions, state], parameters=guesses, exact=None
    )


def test_speed_and_diffusion_with_a_known_state_are_those_of_regression() -> None:
    """From diffusion backward in time as a first guess."""
    solution = pann.solve(drifting_from_state(1))
    (data,) = (each for each in solution.problem.conditions if isinstance(each, Data))
    x, t = np.asarray(data.points).T

    def model(points: np.ndarray, c: float, k: float) -> np.ndarray:
        waves = [
            np.exp(-k * (n * np.pi) ** 2 * t) * np.sin(n * np.pi * (x - c * t)) for n in (1, 2)
        ]
        return waves[0] + 0.5 * waves[1]

    found, covariance = curve_fit(model, x, data.values, [SPEED, DIFFUSION])
    for name, value, variance in zip("ck", found, np.diagonal(covariance), strict=True):
        assert solution.parameters[name] == pytest.approx(value, abs=0.1 * np.sqrt(variance))
        assert solution.parameter_deviations[name] == pytest.approx(np.sqrt(variance), rel=0.05)


def test_two_sets_of_data_count_datum_by_datum() -> None:
    """As one set of both would, however many each of them has."""
    x, values = source_data(0)
    split = [Data(x[:40, None], values[:40]), Data(x[40:, None], values[40:])]
    problem = dataclasses.replace(
        unknown_source(0), conditions=[Dirichlet(UNIT.boundary, 0.0), *split]
    )
    once, twice = pann.solve(unknown_source(0)), pann.solve(problem)
    for name, deviation in once.parameter_deviations.items():
        allowed = 0.01 * deviation
        assert twice.parameters[name] == pytest.approx(once.parameters[name], abs=allowed)


@pytest.mark.parametrize(("has_state", "expected"), [(True, True), (False, False)])
def test_a_missing_condition_is_seen(has_state: bool, expected: bool) -> None:
    problem = drifting_from_state(0) if has_state else advection_diffusion(0.05)
    with jax.enable_x64(True):
        blocks, basis = blocks_of(problem, 9)
        unknowns = start(basis.num_terms, 1, problem.parameters, "float64")
        assert is_determined(blocks, basis, unknowns) == expected


def test_other_guesses_are_larger_smaller_and_of_the_other_sign() -> None:
    found = other_guesses({"a": 2.0, "b": 3.0})
    assert {"a": 0.2, "b": 30.0} in found
    assert {"a": -2.0, "b": 3.0} in found
    assert {"a": 2.0, "b": 3.0} not in found
    assert len(other_guesses(dict.fromkeys("abcd", 1.0))) == 4 * 3


@pytest.mark.parametrize("scale", [1e-20, 1.0, 1e20])
def test_a_step_of_a_parameter_is_judged_relative_to_its_size(scale: float) -> None:
    with jax.enable_x64(True):
        moved = Unknowns(jnp.ones((3, 1)), {"p": jnp.asarray(4 * scale)})
        step = Unknowns(1e-3 * jnp.ones((3, 1)), {"p": jnp.asarray(-scale)})
        assert float(relative_size(step, moved)) == pytest.approx(0.25)


# ---- The start, and the weight of the data ----


def blocks_of(problem: Problem, degree: int) -> tuple[Any, Any]:
    basis = make_basis(problem.domain, degree)
    inside = sample("gauss", problem.domain, 400).coordinates
    placed = [place_inside(problem, inside, problem.asked.orders), *place_conditions(problem, 12)]
    return tuple(make_block(each, problem, basis, "float64") for each in placed), basis


def test_the_start_fits_the_data_and_the_parameters_follow(rng: np.random.Generator) -> None:
    problem = advection_diffusion(0.01)
    with jax.enable_x64(True):
        blocks, basis = blocks_of(problem, 10)
        zero = start(basis.num_terms, 1, problem.parameters, "float64")
        begun = fit_parameters(blocks, smooth_fit(blocks, basis, zero))
        points = RING.from_reference(rng.uniform(-1, 1, (1000, 2)))
        error = basis.table(points) @ np.asarray(begun.b)[:, 0] - drifting(*points.T, np)
    assert np.sqrt(np.mean(error**2)) < 0.02
    assert float(begun.parameters["c"]) == pytest.approx(SPEED, rel=0.05)
    assert float(begun.parameters["k"]) == pytest.approx(DIFFUSION, rel=0.5)


@pytest.mark.parametrize("first", [1e-2, 1e4])
def test_the_weight_does_not_depend_on_the_first_one(first: float) -> None:
    problem = advection_diffusion(0.05)
    with jax.enable_x64(True):
        blocks, basis = blocks_of(problem, 12)
        zero = start(basis.num_terms, 1, problem.parameters, "float64")
        begun = fit_parameters(blocks, smooth_fit(blocks, basis, zero))
        fit = fit_with_data(blocks, begun, first)
    # The data have noise of this size, and are met to that: neither followed nor passed by.
    values = drifting(*np.asarray(problem.conditions[0].points).T, np)
    assert fit.score == pytest.approx(0.05 * np.std(values), rel=0.1)
    assert float(fit.unknowns.parameters["c"]) == pytest.approx(SPEED, rel=0.02)


def test_a_residual_that_is_not_finite_is_refused_with_the_parameters() -> None:
    line = pann.Box(x=(0, 2))
    where = np.linspace(0, 2, 50)[:, None]
    problem = Problem(
        line,
        lambda u, x, p: p * u.x + jnp.log(u.value),
        [Data(where, -np.ones(50))],
        parameters={"p": 1.0},
    )
    with pytest.raises(ValueError, match=r"not finite for a fit of the data with the parameters p"):
        pann.solve(problem, pann.Hybrid(degree=6))


def test_one_datum_is_enough_for_one_parameter() -> None:
    line = pann.Box(x=(0, np.pi))
    problem = Problem(
        line,
        lambda u, x, k: k * u.xx + jnp.sin(x),
        [Dirichlet(line.boundary, 0.0), Data(np.array([[np.pi / 2]]), np.array([2.0]))],
        parameters={"k": 1.0},
    )
    solution = pann.solve(problem)
    assert solution.parameters["k"] == pytest.approx(0.5, abs=1e-8)
    assert solution.parameter_deviations == {}


def test_a_network_that_is_asked_for_is_trained_as_well() -> None:
    solution = pann.solve(
        measured_rod(0), pann.Hybrid(degree=8, network=pann.MLP(width=4, depth=1), iterations=5)
    )
    assert solution.parameters["k"] == pytest.approx(0.7, rel=0.02)


# ---- Korteweg and de Vries ----


def test_the_data_of_kdv_are_noisy_values_of_its_solution() -> None:
    exact, noisy = kdv_inverse(noise=0.0, seed=3), kdv_inverse(noise=0.01, seed=3)
    (true,), (measured,) = exact.conditions, noisy.conditions
    assert isinstance(true, Data)
    assert isinstance(measured, Data)
    np.testing.assert_array_equal(true.points, measured.points)
    assert true.points.shape == (2000, 2)
    assert exact.exact is not None
    where = {"x": true.points[:, 0], "t": true.points[:, 1]}
    values = exact.exact(**where)
    np.testing.assert_array_equal(true.values(**where), values)
    errors = measured.values(**where) - values
    np.testing.assert_array_equal(measured.values(**where) - values, errors)
    assert np.std(errors) / np.std(values) == pytest.approx(0.01, rel=0.1)
    assert noisy.parameters == {"l1": 0.5, "l2": 1e-3}
    with pytest.raises(ValueError, match="last must be in"):
        kdv_inverse(last=2.0)


@pytest.mark.slow
def test_both_coefficients_of_kdv_are_found_where_the_wave_steepens() -> None:
    """Up to t = 0.3, where the slope is 17 times the first; up to t = 1: benchmarks/inverse.py.

    The first guesses are wrong by half and by twice.
    """
    solution = pann.solve(kdv_inverse(last=0.3))
    for name, true in (("l1", 1.0), ("l2", 0.022**2)):
        deviation = solution.parameter_deviations[name]
        assert deviation < 0.02 * true
        assert abs(solution.parameters[name] - true) < 3 * deviation
