"""The named problems: their solutions satisfy equation and conditions, and are found."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import eval_legendre

import pann
from pann.pde import Dirichlet, Neumann
from pann.pde.checks import checked
from pann.problems import PROBLEMS, darcy, equation_of, problem_named
from pann.problems.darcy import FLUX_ACROSS, permeability

# Those in time are known by a reference in NumPy, not by formulas: tests/test_reference.py.
IN_TIME = {"kdv", "kdv_inverse", "ks", "ks_printed", "gray_scott", "burgers", "allen_cahn_time"}
BY_FORMULA = [name for name in PROBLEMS if name not in IN_TIME]


def exact_parts(problem: pann.Problem) -> list[Any]:
    """The exact solution field by field, as functions of numbers x and y."""
    exact = problem.exact
    assert exact is not None
    if len(problem.fields) == 1:
        return [exact]
    return [lambda x, y, i=i: exact(x, y)[i] for i in range(len(problem.fields))]


def inside(problem: pann.Problem, count: int = 50) -> np.ndarray:
    rng = np.random.default_rng(3)
    return problem.domain.from_reference(rng.uniform(-0.999, 0.999, (count, 2)))


def derivative(function: Any, order: tuple[int, ...], points: Any) -> Any:
    """By automatic differentiation, without any of pann."""
    for axis, times in enumerate(order):
        for _ in range(times):
            function = jax.grad(function, argnums=axis)
    return jax.vmap(function)(points[:, 0], points[:, 1])


@pytest.mark.parametrize("name", BY_FORMULA)
def test_the_exact_solution_satisfies_the_equation(name: str) -> None:
    problem = problem_named(name)
    with jax.enable_x64(True):
        points = jnp.asarray(inside(problem))
        parts = exact_parts(problem)
        get = lambda field, order: derivative(parts[field], order, points)
        for residual in problem.evaluate(get, points, {}):
            np.testing.assert_allclose(residual, 0, atol=1e-9)
        wrong = lambda field, order: get(field, order) + 0.1
        assert any(np.abs(part).max() > 0.1 for part in problem.evaluate(wrong, points, {}))


# The equations once more, written out: right-hand sides from finite differences of the solution.
def _laplacian(function: Any, x: np.ndarray, y: np.ndarray, h: float = 1e-3) -> np.ndarray:
    """Of fourth order."""
    total = np.zeros_like(x)
    for offset, weight in ((-2, -1), (-1, 16), (0, -30), (1, 16), (2, -1)):
        total += weight * (function(x + offset * h, y) + function(x, y + offset * h))
    return total / (12 * h**2)


WRITTEN_OUT = {
    "poisson": (
        lambda x, y: eval_legendre(10, x) * eval_legendre(10, y),
        lambda u, lap: lap,
    ),
    "allen_cahn": (
        lambda x, y: x**3 * y**3 + 5 * x * np.cos(2 * np.pi * x) * np.cos(2 * np.pi * y),
        lambda u, lap: lap + u * (u**2 - 1),
    ),
    "helmholtz": (
        lambda x, y: np.sin(np.pi * x) * np.cos(4 * np.pi * y) + np.exp(x * y),
        lambda u, lap: lap + 16 * np.pi**2 * u,
    ),
}


@pytest.mark.parametrize("name", WRITTEN_OUT)
def test_the_right_hand_side_is_that_of_the_written_equation(name: str) -> None:
    """The residual at u = 0 is -f."""
    solution, operator = WRITTEN_OUT[name]
    problem = problem_named(name)
    points = inside(problem)
    x, y = points.T
    with jax.enable_x64(True):
        zeros = jnp.zeros(len(points))
        (residual,) = problem.evaluate(lambda field, order: zeros, jnp.asarray(points), {})
        np.testing.assert_allclose(problem.exact(jnp.asarray(x), jnp.asarray(y)), solution(x, y))
    expected = operator(solution(x, y), _laplacian(solution, x, y))
    np.testing.assert_allclose(-residual, expected, atol=1e-5 * np.max(np.abs(expected)))


def on_face(problem: pann.Problem, axis: str, side: str) -> tuple[np.ndarray, int, float]:
    """Random points of a face, the axis across it, and which way is out."""
    index = problem.domain.names.index(axis)
    points = inside(problem, 20)
    out = -1.0 if side == "lower" else 1.0
    points[:, index] = (problem.domain.lower if out < 0 else problem.domain.upper)[index]
    return points, index, out


def value_of(given: Any, x: Any, y: Any) -> Any:
    return given(x=x, y=y) if callable(given) else given


@pytest.mark.parametrize("name", BY_FORMULA)
def test_the_exact_solution_meets_the_conditions_on_faces(name: str) -> None:
    problem = problem_named(name)
    met = 0
    with jax.enable_x64(True):
        for condition in problem.conditions:
            if not isinstance(condition, Dirichlet | Neumann):
                continue
            field = 0 if condition.field is None else problem.fields.index(condition.field)
            part = exact_parts(problem)[field]
            for axis, side in condition.faces.sides:
                points, index, out = on_face(problem, axis, side)
                x, y = jnp.asarray(points).T
                if isinstance(condition, Dirichlet):
                    value = jax.vmap(part)(x, y)
                else:
                    slope = jax.vmap(jax.grad(part, argnums=index))(x, y)
                    value = value_of(condition.coefficient, x, y) * out * slope
                given = jnp.broadcast_to(value_of(condition.value, x, y), (20,))
                np.testing.assert_allclose(value, given, atol=1e-12)
                met += 1
    assert met == 4


def test_helmholtz_is_not_at_an_eigenvalue() -> None:
    eigenvalues = {m * m + n * n for m in range(1, 9) for n in range(1, 9)}
    assert 64 not in eigenvalues
    assert {61, 65} <= eigenvalues


def test_the_strips_have_their_permeability_and_the_flux_that_of_the_paper() -> None:
    middles = np.array([0.1, 0.3, 0.5, 0.7, 0.9])
    np.testing.assert_array_equal(permeability(middles), [16, 6, 1, 10, 2])
    np.testing.assert_array_equal(permeability(np.array([0.0, 1.0])), [16, 2])
    assert pytest.approx(2.7335, abs=5e-5) == FLUX_ACROSS
    np.testing.assert_allclose(darcy().exact(np.array([0.3]), np.array([0.25])), 0.75)


@pytest.mark.parametrize(
    "name, degree, error",
    [("poisson", 21, 1e-11), ("helmholtz", 40, 1e-9), ("allen_cahn", 36, 1e-9), ("darcy", 9, 1e-9)],
)
@pytest.mark.slow
def test_solve_finds_the_solution(name: str, degree: int, error: float) -> None:
    solution = pann.solve(problem_named(name), pann.Polynomial(degree=degree))
    assert solution.rel_l2 is not None
    assert solution.rel_l2 <= error


def test_flow_across_the_strips_is_not_the_false_solution() -> None:
    """p = 1 - x, harmonic but with a flux that jumps, would be wrong by 0.32 in the middle."""
    pressure = pann.solve(problem_named("darcy_across"), pann.Polynomial(degree=4))
    assert pressure(x=0.4, y=0.5) == pytest.approx(1 - (0.2 / 16 + 0.2 / 6) * FLUX_ACROSS)
    solution = pann.solve(problem_named("darcy_across_mixed"), pann.Polynomial(degree=14))
    pressure, flux = solution(x=0.4, y=0.5)
    assert pressure == pytest.approx(0.875, abs=0.05)
    assert flux == pytest.approx(FLUX_ACROSS, rel=0.1)


@pytest.mark.parametrize("name", PROBLEMS)
def test_names_and_equations_go_together(name: str) -> None:
    assert problem_named(name.replace("_", "-").upper()).name == name
    assert "=" in equation_of(name)
    assert len(equation_of(name)) < 90
    checked(problem_named(name))


def test_an_unknown_name_is_told_the_nearest() -> None:
    with pytest.raises(ValueError, match=r"no problem 'helmholz' \(did you mean helmholtz\?\)"):
        problem_named("helmholz")
    with pytest.raises(ValueError, match="no problem 'zzz'; there are poisson, allen_cahn"):
        problem_named("zzz")


# ---- Initial states that hold exactly ----

SPACE_TIME = np.random.default_rng(0).uniform(-1, 1, (2, 40))


@pytest.mark.parametrize("name, width", [("kdv", 0), ("ks_printed", 0), ("burgers", 3)])
def test_the_initial_state_is_exact_and_the_solution_periodic(
    name: str, width: int, tmp_path: Any
) -> None:
    """Even where the degree is far too low; so it is in files, parts and pictures."""
    # Its reference takes longer than all else here.
    problem = dataclasses.replace(problem_named(name), exact=None)
    method: pann.Polynomial | pann.Hybrid = pann.Polynomial(degree=3)
    if width:
        network = pann.MLP(width=width, depth=1, activation="tanh")
        method = pann.Hybrid(degree=3, network=network, iterations=2)
    solution = pann.solve(problem, method)
    (initial,) = [c for c in problem.conditions if isinstance(c, pann.Initial)]
    x = problem.domain.from_reference(SPACE_TIME.T)[:, 0]
    t = np.linspace(0.0, 1.0, 40)
    with jax.enable_x64(True):
        state = np.asarray(initial.value(x=x, t=0.0))
    np.testing.assert_allclose(solution(x=x, t=0.0), state, atol=1e-12)
    for order in (0, 1):
        ends = (float(end[0]) for end in (problem.domain.lower, problem.domain.upper))
        lower, upper = (solution.derivative({"x": order}, x=end, t=t) for end in ends)
        np.testing.assert_allclose(lower, upper, atol=1e-11)
    by_network, polynomial = solution.parts(x=x, t=t)
    np.testing.assert_allclose(by_network + polynomial, solution(x=x, t=t), atol=1e-12)
    solution.save(tmp_path / "solution.pann")
    loaded = pann.load(tmp_path / "solution.pann")
    np.testing.assert_array_equal(loaded(x=x, t=t), solution(x=x, t=t))
    solution.plot(tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 1000


def test_zero_boundary_values_of_burgers_are_exact_as_well() -> None:
    problem = pann.problems.burgers(dirichlet=True)
    solution = pann.solve(problem, pann.Polynomial(degree=4))
    t = np.linspace(0, 1, 20)
    np.testing.assert_allclose(solution(x=1.0, t=t), 0.0, atol=1e-12)
    np.testing.assert_allclose(solution(x=0.3, t=0.0), -np.sin(0.3 * np.pi), atol=1e-12)


def test_two_fields_in_the_plane_have_their_initial_states(tmp_path: Any) -> None:
    """Of the kind of gray_scott, with states that are smooth where the ends meet."""
    torus = pann.Box(x=(-1, 1), y=(-1, 1), t=(0, 0.1), periodic=("x", "y"), time="t")
    states = {
        "u": lambda x, y, t: 1 - 0.5 * jnp.cos(jnp.pi * x) * jnp.sin(jnp.pi * y),
        "v": lambda x, y, t: 0.3 + 0.2 * jnp.sin(jnp.pi * x),
    }
    problem = pann.Problem(
        torus,
        lambda u, v: (
            u.t - 0.1 * (u.xx + u.yy) - (1 - u) + u * v**2,
            v.t - 0.1 * (v.xx + v.yy) + v - u * v**2,
        ),
        [pann.Initial(state, field=field, hard=True) for field, state in states.items()],
        fields=("u", "v"),
    )
    solution = pann.solve(problem, pann.Polynomial(degree=6))
    assert solution.residual < 1e-3
    x, y = SPACE_TIME
    for field, value in zip(("u", "v"), solution(x=x, y=y, t=0.0), strict=True):
        with jax.enable_x64(True):
            state = np.asarray(states[field](x, y, 0.0))
        np.testing.assert_allclose(value, state, atol=1e-12)
    solution.save(tmp_path / "solution.pann")
    loaded = pann.load(tmp_path / "solution.pann")
    np.testing.assert_array_equal(loaded(x=x, y=y, t=0.05), solution(x=x, y=y, t=0.05))
    network, _ = solution.parts(x=x, y=y, t=0.05)
    assert len(network) == 2
    solution.plot(tmp_path / "picture.png")


def test_by_gradients_too_the_initial_state_is_exact() -> None:
    problem = dataclasses.replace(problem_named("kdv"), exact=None)
    for weighting in ((), ("gradnorm",), ("causal",)):
        method = pann.Training(
            stages=(pann.Adam(steps=3),),
            degree=3,
            network=pann.MLP(width=4),
            weighting=weighting,
            collocation=pann.Collocation(points=49),
        )
        solution = pann.solve(problem, method)
        np.testing.assert_allclose(solution(x=0.3, t=0.0), np.cos(0.3 * np.pi), atol=1e-6)


def test_gray_scott_is_found_by_the_spelling_of_the_paper():
    problem = problem_named("Grey-Scott")
    assert problem is problem_named("gray_scott") is pann.problems.grey_scott()
    assert problem is PROBLEMS["grey_scott"]()
    assert equation_of("grey_scott") == equation_of("gray_scott")
    assert "grey_scott" not in list(PROBLEMS)
    with pytest.raises(KeyError):
        PROBLEMS["gray_scot"]
