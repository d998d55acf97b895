"""Unknown parameters from noisy data: what they are, how sure they are, and from what start."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pann
from pann.basis import make_basis
from pann.pde import Data, Dirichlet, Problem
from pann.pde.blocks import make_block
from pann.pde.data_fit import Linearized, fit_with_data, start_from_data
from pann.pde.newton import start
from pann.pde.placing import place_conditions, place_inside
from pann.points import sample
from pann.problems import kdv_inverse

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
        parameters={"c": 3.0, "k": 1.0},
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
        pann.solve(advection_diffusion(noise), degree=12).parameter_deviations["c"]
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
    solved = [pann.solve(measured_rod(seed), degree=10) for seed in range(12)]
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
    assert pann.solve(problem, degree=24).parameters["p"] == pytest.approx(0.4, abs=1e-6)


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
        begun = start_from_data(blocks, basis, zero)
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
        fit = fit_with_data(blocks, start_from_data(blocks, basis, zero), first)
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
        pann.solve(problem, degree=6)


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


def test_a_network_that_is_asked_for_is_trained_beside() -> None:
    solution = pann.solve(measured_rod(0), degree=8, width=4, depth=1, iterations=5)
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
    """Up to t = 0.35, after 1 / pi; up to t = 1, which takes minutes: benchmarks/inverse.py."""
    solution = pann.solve(kdv_inverse(last=0.35))
    assert solution.parameters["l1"] == pytest.approx(1.0, rel=0.01)
    assert solution.parameters["l2"] == pytest.approx(0.022**2, rel=0.01)
