"""The spectral reference solver: orders, exact solutions, SciPy as an oracle, the cache."""

import dataclasses
import math
import pathlib
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import pann
from pann.errors import NotConverged
from pann.pde import Dirichlet, Initial, Periodic
from pann.pde.checks import checked
from pann.pde.conditions import values_at
from pann.problems import PROBLEMS, burgers, equation_of, gray_scott, problem_named
from pann.reference import Evolution, PeriodicGrid, Reference, etdrk4, stored_times
from pann.reference import evolution as evolution_module

NAMES = ("kdv", "ks", "ks_printed", "gray_scott", "burgers", "allen_cahn_time")


def evolution_of(problem: pann.Problem) -> Evolution:
    assert problem.exact is not None
    return problem.exact.__self__  # type: ignore[attr-defined]


def shortened(name: str, shape: tuple[int, ...], last: float, step: float) -> Evolution:
    """A named problem on another grid, up to another time, under a name of its own."""
    return dataclasses.replace(
        evolution_of(problem_named(name)),
        name=f"test_{name}",
        grid=dataclasses.replace(evolution_of(problem_named(name)).grid, shape=shape),
        times=np.linspace(0, last, 11),
        largest_step=step,
    )


def final(evolution: Evolution) -> np.ndarray:
    return evolution.reference.values[:, -1]


# ---- The grid ----


@pytest.mark.parametrize("shape, factor", [((16,), 4), ((12, 16), 2)])
def test_refinement_is_the_trigonometric_interpolant(shape: tuple[int, ...], factor: int) -> None:
    ends = (-1.0, 0.0)[: len(shape)], (1.0, 2 * np.pi)[: len(shape)]
    wave = lambda x, y=0.3: np.cos(3 * np.pi * x - 1) * (2 + np.sin(5 * y)) + np.sin(2 * np.pi * x)
    coarse = PeriodicGrid(*ends, shape)
    fine = PeriodicGrid(*ends, tuple(factor * n for n in shape))
    values = np.stack([wave(*coarse.coordinates()), np.ones(shape)])
    expected = np.stack([wave(*fine.coordinates()), np.ones(fine.shape)])
    np.testing.assert_allclose(coarse.refined(values, factor), expected, atol=1e-13)


def test_wavenumbers_differentiate_and_the_mask_keeps_two_thirds() -> None:
    grid = PeriodicGrid((-1.0, 0.0), (1.0, 3.0), (24, 30))
    x, y = grid.coordinates()
    k, m = grid.wavenumbers()
    modes = grid.to_modes(np.sin(2 * np.pi * x) * np.cos(2 * np.pi * y / 3))
    in_x = 2 * np.pi * np.cos(2 * np.pi * x) * np.cos(2 * np.pi * y / 3)
    np.testing.assert_allclose(grid.to_values(1j * k * modes), in_x, atol=1e-12)
    in_y = -2 * np.pi / 3 * np.sin(2 * np.pi * x) * np.sin(2 * np.pi * y / 3)
    np.testing.assert_allclose(grid.to_values(1j * m * modes), in_y, atol=1e-12)
    assert grid.resolved().shape == modes.shape
    assert grid.resolved().sum() == 15 * 10  # |j| <= 7 along x, 0 <= j <= 9 along y


@pytest.mark.parametrize("shape, message", [((5,), "even numbers"), ((8, 8), "as many lower")])
def test_a_grid_that_cannot_be_is_refused(shape: tuple[int, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PeriodicGrid((0.0,), (1.0,), shape)


# ---- The method in time ----


def test_linear_equations_are_exact_with_any_step() -> None:
    """Advection and diffusion in the plane: waves that move and fade."""
    grid = PeriodicGrid((0.0, 0.0), (1.0, 2.0), (16, 16))
    x, y = grid.coordinates()
    k, m = grid.wavenumbers()
    linear = -1j * (2 * k - m) - 0.01 * (k**2 + m**2)
    wave = lambda t: (
        np.sin(2 * np.pi * (x - 2 * t) + np.pi * (y + t)) * np.exp(-0.05 * np.pi**2 * t)
    )
    states = etdrk4(linear, np.zeros_like, grid.to_modes(wave(0)), np.array([0, 0.3, 1.7]), 1.0)
    for t, modes in zip((0, 0.3, 1.7), states, strict=True):
        np.testing.assert_allclose(grid.to_values(modes), wave(t), atol=1e-12)


@pytest.mark.parametrize("rate", [0.0, -1e-6, -1.0, -1e4, 3.0j])
def test_the_order_is_four_however_stiff(rate: complex) -> None:
    """u' = L u + (g' - L g + sin(u - g) + u^2 - g^2) has the solution u = g = cos(2 t)."""
    linear = np.array([rate])

    def error(step: float) -> float:
        # A second mode with u' = 1 is the time.
        def nonlinear(modes: Any) -> Any:
            u, t = modes
            g, slope = np.cos(2 * t), -2 * np.sin(2 * t)
            return np.array([slope - rate * g + np.sin(u - g) + u**2 - g**2, 1.0])

        both = np.array([linear[0], 0.0])
        start = np.array([1.0, 0.0], complex)
        *_, end = etdrk4(both, nonlinear, start, np.array([0.0, 1.0]), step)
        return abs(end[0] - np.cos(2))

    coarse, fine = error(1 / 32), error(1 / 64)
    if abs(rate) > 100:
        # Kassam and Trefethen's scheme keeps its accuracy, though not the full order, if stiff.
        assert fine < 1e-7
    else:
        assert 12 < coarse / fine < 24


@pytest.mark.parametrize(
    "name, shape, last, step",
    [
        ("kdv", (256,), 0.5, 1e-3),
        ("ks", (128,), 0.2, 5e-4),
        ("burgers", (512,), 0.25, 1e-3),
        ("gray_scott", (32, 32), 0.01, 1e-3),
        ("allen_cahn_time", (256,), 0.5, 0.025),
    ],
)
def test_halving_the_step_gains_four_orders_of_two(
    name: str, shape: tuple[int, ...], last: float, step: float
) -> None:
    exact, coarse, fine = (
        final(shortened(name, shape, last, length)) for length in (step / 8, step, step / 2)
    )
    gain = np.linalg.norm(coarse - exact) / np.linalg.norm(fine - exact)
    assert 11 < gain < 24


def test_more_modes_converge_faster_than_any_power() -> None:
    last, step = 0.3, 5e-4
    exact = final(shortened("kdv", (512,), last, step))[0]
    errors = [
        np.abs(final(shortened("kdv", (count,), last, step))[0] - exact[:: 512 // count]).max()
        for count in (64, 128, 256)
    ]
    assert errors[1] < errors[0] / 100, errors
    assert errors[2] < errors[1] / 1000, errors


def test_a_soliton_of_kdv_moves_unchanged() -> None:
    """u = 3 c sech(sqrt(c) (x - c t) / (2 delta))^2 solves u_t + u u_x + delta^2 u_xxx = 0."""
    speed, delta = 0.5, 0.022
    shape = lambda x: 3 * speed / np.cosh(np.sqrt(speed) * x / (2 * delta)) ** 2
    soliton = dataclasses.replace(
        shortened("kdv", (512,), 0.4, 1e-4), name="soliton", initial=lambda x: shape(x)[None]
    )
    (x,) = soliton.grid.coordinates()
    np.testing.assert_allclose(final(soliton)[0], shape(x - 0.4 * speed), atol=2e-8)


def test_kdv_keeps_mean_and_energy() -> None:
    values = shortened("kdv", (512,), 1.0, 2.5e-4).reference.values[0]
    np.testing.assert_allclose(values.mean(axis=1), 0, atol=1e-14)
    np.testing.assert_allclose((values**2).mean(axis=1), 0.5, rtol=1e-8)


# ---- SciPy as an oracle: the equations once more, in real space, without any of pann ----


def derivative(u: np.ndarray, width: float, order: int, axis: int = -1) -> np.ndarray:
    k = 2 * np.pi / width * np.fft.fftfreq(u.shape[axis], 1 / u.shape[axis])
    factor = (1j * k) ** order
    if axis == 0:
        factor = factor[:, None]
    return np.fft.ifft(factor * np.fft.fft(u, axis=axis), axis=axis).real


def _gray_scott_rate(fields: np.ndarray) -> np.ndarray:
    u, v = fields.reshape(2, 64, 64)
    laplacian = lambda w: derivative(w, 2, 2, 0) + derivative(w, 2, 2, 1)
    reaction = 1000 * u * v * v
    rate_of_u = 0.2 * laplacian(u) + 40 * (1 - u) - reaction
    rate_of_v = 0.1 * laplacian(v) - 100 * v + reaction
    return np.stack([rate_of_u, rate_of_v]).ravel()


ORACLES: dict[str, tuple[tuple[int, ...], float, float, str, Callable[[Any], Any], float]] = {
    # points, last time, step, SciPy's method, u_t, tolerance
    "kdv": (
        (128,),
        0.2,
        2e-4,
        "DOP853",
        lambda u: -u * derivative(u, 2, 1) - 0.022**2 * derivative(u, 2, 3),
        1e-7,
    ),
    "ks": (
        (128,),
        0.05,
        5e-5,
        "DOP853",
        lambda u: (
            -100 / 16 * u * derivative(u, 2 * np.pi, 1)
            - 100 / 16**2 * derivative(u, 2 * np.pi, 2)
            - 100 / 16**4 * derivative(u, 2 * np.pi, 4)
        ),
        2e-6,
    ),
    "ks_printed": (
        (16,),
        1.0,
        2e-3,
        "BDF",
        lambda u: (
            -u * derivative(u, 2 * np.pi, 1)
            - derivative(u, 2 * np.pi, 2)
            - derivative(u, 2 * np.pi, 4)
        ),
        1e-6,
    ),
    "burgers": (
        (256,),
        0.2,
        5e-4,
        "DOP853",
        lambda u: -u * derivative(u, 2, 1) + 0.01 / np.pi * derivative(u, 2, 2),
        1e-7,
    ),
    "allen_cahn_time": (
        (2048,),
        1.0,
        5e-3,
        "DOP853",
        lambda u: 1e-4 * derivative(u, 2, 2) - 5 * u**3 + 5 * u,
        1e-6,
    ),
    "gray_scott": ((64, 64), 0.005, 1e-4, "DOP853", _gray_scott_rate, 2e-3),
}


@pytest.mark.parametrize("name", ORACLES)
def test_scipy_finds_the_same(name: str) -> None:
    shape, last, step, method, rate, tolerance = ORACLES[name]
    evolution = shortened(name, shape, last, step)
    start = evolution.reference.values[:, 0].ravel()
    found = solve_ivp(lambda t, u: rate(u), (0, last), start, method=method, rtol=1e-9, atol=1e-10)
    assert found.success
    expected = found.y[:, -1]
    assert np.abs(expected - start).max() > 100 * tolerance
    np.testing.assert_allclose(final(evolution).ravel(), expected, atol=tolerance)


# ---- Between grid points and times ----


def test_interpolation_in_one_dimension() -> None:
    grid = PeriodicGrid((-1.0,), (1.0,), (64,))
    times = stored_times((0, 0.1, 1), (20, 30))
    wave = lambda x, t: np.exp(np.sin(np.pi * (x - t))) * np.cos(3 * t)
    (x,) = grid.coordinates()
    reference = Reference(grid, times, wave(x, times[:, None])[None])
    rng = np.random.default_rng(0)
    points, moments = rng.uniform(-3, 3, 5000), rng.uniform(0, 1, 5000)
    found = reference.at(points[:, None], moments)
    np.testing.assert_allclose(found[0], wave(points, moments), atol=1e-9)
    on_grid = reference.at(x[:, None], np.full(64, times[7]))
    np.testing.assert_allclose(on_grid[0], reference.values[0, 7], atol=1e-13)
    assert reference.at(np.zeros((0, 1)), np.zeros(0)).shape == (1, 0)
    with pytest.raises(ValueError, match=r"known from t = 0 to 1, asked for from -0.5 to 2"):
        reference.at(np.zeros((2, 1)), np.array([-0.5, 2.0]))


def test_interpolation_in_two_dimensions_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pann.reference.solution.CHUNK", 300)
    grid = PeriodicGrid((-1.0, 0.0), (1.0, 3.0), (48, 64))
    times = np.linspace(0, 1, 21)
    waves = lambda x, y, t: np.stack(
        [
            np.exp(np.sin(np.pi * (x - t)) + np.cos(2 * np.pi * y / 3)),
            np.cos(np.pi * x + t) * np.sin(4 * np.pi * y / 3),
        ]
    )
    x, y = grid.coordinates()
    values = np.stack([waves(x, y, t) for t in times], axis=1)
    reference = Reference(grid, times, values)
    rng = np.random.default_rng(0)
    space, moments = rng.uniform((-1, 0), (1, 3), (1000, 2)), rng.uniform(0, 1, 1000)
    found = reference.at(space, moments)
    np.testing.assert_allclose(found, waves(*space.T, moments), atol=5e-6)


def test_gray_scott_is_stored_often_enough() -> None:
    """Between stored times the fields are those that the method finds there."""
    evolution = evolution_of(gray_scott())
    between = (evolution.times[1:] + evolution.times[:-1]) / 2
    both = np.sort(np.concatenate([evolution.times, between]))
    coarse = {"grid": PeriodicGrid((-1.0, -1.0), (1.0, 1.0), (24, 24)), "largest_step": 1e-3}
    computed = dataclasses.replace(evolution, times=both, **coarse).reference
    stored = Reference(computed.grid, evolution.times, computed.values[:, ::2])
    space = np.stack([axis.ravel() for axis in computed.grid.coordinates()], axis=1)
    gaps, errors, sizes = np.diff(evolution.times), 0.0, 0.0
    for moment, values, gap in zip(
        between, computed.values[:, 1::2].swapaxes(0, 1), gaps, strict=True
    ):
        expected = values.reshape(2, -1)
        found = stored.at(space, np.full(len(space), moment))
        errors += gap * np.sum((found - expected) ** 2, axis=1)
        sizes += gap * np.sum(expected**2, axis=1)
    assert np.all(np.sqrt(errors / sizes) < 1e-7)


def test_values_that_do_not_fit_are_refused() -> None:
    grid = PeriodicGrid((0.0,), (1.0,), (8,))
    with pytest.raises(ValueError, match=r"shape \(fields, 12, 8\) of times and grid, got"):
        Reference(grid, np.linspace(0, 1, 12), np.zeros((1, 12, 10)))
    with pytest.raises(ValueError, match="at least 10 increasing times"):
        Reference(grid, np.linspace(0, 1, 9), np.zeros((1, 9, 8)))


def test_bad_times_and_steps_are_refused() -> None:
    modes = np.ones(3, complex)
    for times, step, message in (
        ([0.0, 0.0], 0.1, "times must increase"),
        ([0.0, 1.0], 0.0, "largest_step must be positive"),
    ):
        with pytest.raises(ValueError, match=message):
            list(etdrk4(np.zeros(3), np.zeros_like, modes, np.array(times), step))
    explodes = etdrk4(np.zeros(3), lambda u: u**2 * 1e200, modes, np.array([0.0, 1.0]), 0.1)
    with (
        pytest.raises(NotConverged, match="use a smaller largest_step"),
        np.errstate(all="ignore"),
    ):
        list(explodes)


# ---- The problems ----


def test_all_are_made_at_no_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: Any) -> None:
        raise AssertionError("a reference was computed")

    monkeypatch.setattr(evolution_module, "etdrk4", refuse)
    begin = time.perf_counter()
    for name in (*NAMES, "kdv_inverse"):
        problem = PROBLEMS[name]()
        assert problem.name == name
        assert equation_of(name)
    assert time.perf_counter() - begin < 0.5


@pytest.mark.parametrize("name, order", [*zip(NAMES, (3, 4, 4, 2, 2, 2), strict=True)])
def test_periodic_exactly_or_as_in_the_paper(name: str, order: int) -> None:
    exact, faithful = PROBLEMS[name](), PROBLEMS[name](faithful=True)  # type: ignore[call-arg]
    for problem in (exact, faithful):
        checked(problem)
        assert problem.domain.time == "t"
        assert problem.highest_order(0, "x") == order
        initial = [c for c in problem.conditions if isinstance(c, Initial)]
        assert [c.field for c in initial] == list(problem.fields)
        # No series in waves has the values of a state with a kink or a jump at its ends.
        is_smooth = name not in ("gray_scott", "allen_cahn_time")
        assert all(c.hard == (problem is exact and is_smooth) for c in initial)
    space = exact.domain.names[:-1]
    assert exact.domain.periodic == space
    assert faithful.domain.periodic == ()
    ties = [c for c in faithful.conditions if isinstance(c, Periodic)]
    assert {(c.axis, c.field, c.order) for c in ties} == {
        (axis, field, order - 1) for axis in space for field in exact.fields
    }
    assert not any(isinstance(c, Periodic) for c in exact.conditions)


def test_burgers_with_zeros_on_the_boundary() -> None:
    problem = burgers(dirichlet=True)
    checked(problem)
    assert problem.domain.periodic == ()
    assert sum(isinstance(c, Dirichlet) for c in problem.conditions) == 1
    assert problem.exact is not None
    t = np.linspace(0, 1, 40)
    np.testing.assert_allclose(problem.exact(x=-1.0, t=t), 0, atol=1e-9)
    np.testing.assert_allclose(problem.exact(x=1.0, t=t), 0, atol=1e-9)
    with pytest.raises(ValueError, match="choose one of them"):
        burgers(dirichlet=True, faithful=True)


@pytest.mark.parametrize("printed", [False, True])
def test_gray_scott_starts_from_either_state(printed: bool) -> None:
    evolution = evolution_of(gray_scott(printed=printed))
    x, y = np.array([0.3, -0.6]), np.array([0.1, 0.7])
    u, v = evolution.initial(x, y)
    bump = np.exp(-10 * ((x - 0.05) ** 2 + (y - 0.02) ** 2))
    np.testing.assert_allclose(v, 1 - bump if printed else bump)
    np.testing.assert_allclose(u, 1 - np.exp(-10 * ((x + 0.05) ** 2 + (y + 0.02) ** 2)))


RESOLVED = {
    # points, last time, step, residual relative to u_t
    "kdv": ((256,), 0.4, 5e-4, 1e-4),
    "ks": ((256,), 0.05, 5e-5, 1e-4),
    "ks_printed": ((64,), 0.5, 2e-3, 1e-5),
    "burgers": ((512,), 0.2, 5e-4, 1e-6),
    "allen_cahn_time": ((512,), 1.0, 5e-3, 1e-2),
    "gray_scott": ((128, 128), 0.005, 1e-4, 1e-2),
}


@pytest.mark.parametrize("name", RESOLVED)
def test_the_reference_satisfies_the_residual_of_the_problem(name: str) -> None:
    """The two forms of an equation, in `equation` and in `residual`, are written separately."""
    shape, last, step, tolerance = RESOLVED[name]
    evolution = dataclasses.replace(
        shortened(name, shape, last, step), times=np.linspace(0, last, 41)
    )
    problem = problem_named(name)
    dimension = problem.domain.dimension
    points = np.random.default_rng(0).uniform(-0.7, 0.7, (200, dimension))
    points = problem.domain.from_reference(points)
    points[:, -1] *= last / problem.domain.upper[-1]
    steps = np.array([*(0.002 * problem.domain.widths[:-1]), 0.02 * last])
    offsets = np.arange(-4, 5)
    powers = np.vander(offsets.astype(float), increasing=True).T

    def get(field: int, order: tuple[int, ...]) -> jax.Array:
        """Derivatives by differences over nine points."""
        axis = int(np.argmax(order))
        weights = np.linalg.solve(powers, math.factorial(order[axis]) * np.eye(9)[order[axis]])
        moved = points[:, None] + offsets[:, None] * (np.eye(dimension) * steps)[axis]
        parts = evolution.exact(**dict(zip(evolution.axes, np.moveaxis(moved, -1, 0), strict=True)))
        values = parts[field] if isinstance(parts, tuple) else parts
        return jnp.asarray(values @ weights / steps[axis] ** order[axis])

    with jax.enable_x64(True):
        for field, residual in enumerate(problem.evaluate(get, jnp.asarray(points), {})):
            rate = np.abs(get(field, (0,) * (dimension - 1) + (1,))).max()
            assert np.abs(residual).max() < tolerance * rate, (np.abs(residual).max(), rate)


@pytest.mark.parametrize("name", NAMES)
def test_problem_and_reference_begin_with_the_same_state(name: str) -> None:
    problem = problem_named(name)
    points = np.random.default_rng(0).uniform(-1, 1, (20, problem.domain.dimension))
    points = problem.domain.from_reference(points)
    expected = evolution_of(problem).initial(*points[:, :-1].T)
    initial = [c for c in problem.conditions if isinstance(c, Initial)]
    for condition, values in zip(initial, expected, strict=True):
        found = values_at(condition.value, problem.domain, points)
        np.testing.assert_allclose(found, values, atol=1e-14)


def test_the_solution_takes_coordinates_of_any_shape() -> None:
    evolution = shortened("kdv", (64,), 0.1, 1e-3)
    x = np.linspace(-1, 1, 12).reshape(3, 4)
    np.testing.assert_allclose(evolution.exact(x=x, t=0.0), np.cos(np.pi * x), atol=1e-12)
    assert evolution.exact(x=0.1, t=0.05).shape == ()
    left, right = evolution.exact(x=np.array([-1.0, 1.0]), t=0.07)
    assert left == pytest.approx(right, abs=1e-12)
    u, v = shortened("gray_scott", (16, 16), 1e-3, 1e-4).exact(x=x, y=x, t=5e-4)
    assert u.shape == v.shape == x.shape
    assert np.abs(u - v).max() > 0.1


# ---- The cache ----


@pytest.fixture
def small() -> Evolution:
    return shortened("ks_printed", (16,), 0.1, 0.01)


def test_the_cache_is_read_and_broken_files_are_not(
    small: Evolution, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PANN_CACHE", str(tmp_path / "new"))
    values = small.reference.values
    (file,) = (tmp_path / "new").iterdir()
    assert file.name.startswith("reference-v")
    marked = values.copy()
    marked[0, 5] += 1.0
    np.save(file, marked)
    again = dataclasses.replace(small)
    np.testing.assert_array_equal(again.reference.values, marked)
    other_start = values.copy()
    other_start[0, 0] += 1.0
    not_finite = values.copy()
    not_finite[0, 3, 2] = np.nan
    for wrong in (other_start, not_finite, values[:, :5], values.astype(np.float32)):
        np.save(file, wrong)
        np.testing.assert_array_equal(dataclasses.replace(small).reference.values, values)
    for text in (b"", b"nonsense", file.read_bytes()[:200]):
        file.write_bytes(text)
        np.testing.assert_array_equal(dataclasses.replace(small).reference.values, values)
    np.testing.assert_array_equal(np.load(file), values)
    assert [path.name for path in (tmp_path / "new").iterdir()] == [file.name]


def test_other_steps_are_another_file(
    small: Evolution, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PANN_CACHE", str(tmp_path))
    for evolution in (small, dataclasses.replace(small, largest_step=0.005)):
        assert evolution.reference.values.shape == (1, 11, 16)
    assert len(list(tmp_path.iterdir())) == 2


def test_another_equation_or_initial_state_is_another_file(
    small: Evolution, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under the same name; N differs where it vanishes in the initial state, too."""
    monkeypatch.setenv("PANN_CACHE", str(tmp_path))
    zero = dataclasses.replace(small, initial=lambda x: np.zeros((1, *x.shape)))

    def scaled(linear_factor: float, factor: float) -> Evolution:
        def equation(grid: PeriodicGrid) -> Any:
            linear, nonlinear = small.equation(grid)
            return linear_factor * linear, lambda modes: factor * nonlinear(modes)

        return dataclasses.replace(zero, equation=equation)

    for evolution in (small, zero, scaled(2.0, 1.0), scaled(1.0, 2.0)):
        assert evolution.reference.values.shape == (1, 11, 16)
    assert len(list(tmp_path.iterdir())) == 4


def test_references_of_gray_scott_are_found_under_the_name_they_were_stored_by(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PANN_CACHE", str(tmp_path))
    grid = PeriodicGrid((-1.0, -1.0), (1.0, 1.0), (8, 8))
    times = np.linspace(0, 1e-3, 11)
    evolution = dataclasses.replace(evolution_of(gray_scott()), grid=grid, times=times)
    assert evolution.reference.values.shape == (2, 11, 8, 8)
    (file,) = tmp_path.iterdir()
    assert file.name.startswith("reference-v3-grey_scott-")


def test_both_initial_states_of_gray_scott_are_kept(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PANN_CACHE", str(tmp_path))
    coarse = [
        dataclasses.replace(
            evolution_of(gray_scott(printed=printed)),
            grid=PeriodicGrid((-1.0, -1.0), (1.0, 1.0), (8, 8)),
            times=np.linspace(0, 1e-3, 11),
        )
        for printed in (False, True)
    ]
    values = [evolution.reference.values for evolution in coarse]

    def refuse(*arguments: Any) -> None:
        raise AssertionError("a reference was computed again")

    monkeypatch.setattr(evolution_module, "etdrk4", refuse)
    for evolution, known in zip(coarse, values, strict=True):
        np.testing.assert_array_equal(dataclasses.replace(evolution).reference.values, known)


def test_a_folder_that_cannot_be_written_is_no_reason_to_fail(
    small: Evolution, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("PANN_CACHE", str(tmp_path / "file"))
    assert np.all(np.isfinite(small.reference.values))
