"""Equations: fields, checks, collocation systems, and solutions against closed forms."""

import dataclasses
import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles import count_compilations

import pann
from pann.basis import make_basis
from pann.domain import Box
from pann.numerics.least_squares import least_squares
from pann.pde import Data, Dirichlet, Initial, Neumann, Periodic, Problem, Robin
from pann.pde.checks import checked
from pann.pde.collocation import make_block
from pann.pde.conditions import values_at
from pann.pde.fields import Field
from pann.pde.placing import OnFaces, face_points, place_conditions, place_inside
from pann.points import from_array
from pann.solvers.newton import System, newton, start

SQUARE = Box(x=(-1, 1), y=(0, 3))
LINE = Box(x=(0, 2))


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


# ---- Domain ----


def test_faces_have_names_ends_and_normals():
    assert str(SQUARE.boundary) == "x=-1, x=1, y=0, y=3"
    points, normals = face_points(SQUARE.face("y", "upper"), 4)
    np.testing.assert_array_equal(points[:, 1], 3.0)
    np.testing.assert_array_equal(normals, np.tile([0.0, 1.0], (4, 1)))
    joined = SQUARE.face("x", "lower") + SQUARE.face("x", "lower") + SQUARE.face("y", "lower")
    assert len(joined) == 2


def test_periodic_and_time_axes_are_no_boundary():
    box = Box(x=(0, 1), y=(0, 1), t=(0, 2), periodic="x", time="t")
    assert str(box.boundary) == "y=0, y=1"
    assert str(box.initial) == "t=0"
    with pytest.raises(ValueError, match="axis 'x' is periodic and has no faces"):
        box.face("x", "lower")
    with pytest.raises(ValueError, match="'z' is not an axis of this box; its axes are x, y, t"):
        box.face("z", "lower")
    with pytest.raises(ValueError, match="this box has no time"):
        _ = SQUARE.initial


# ---- Fields ----


def test_a_field_names_derivatives_by_axes_and_counts_as_its_value():
    asked = []

    def get(order):
        asked.append(order)
        return jnp.asarray(2.0)

    u = Field("u", Box(x=(0, 1), t=(0, 1)), get)
    assert [u.x, u.xxt, u.d(x=2, t=1)] == [2.0, 2.0, 2.0]
    assert asked == [(1, 0), (2, 1), (2, 1)]
    results = [u + 1, 1 + u, u - 1, 1 - u, u * u, 3 * u, u / 4, 4 / u, u**3, 2**u, -u]
    assert [float(r) for r in results] == [3, 3, 1, -1, 4, 6, 0.5, 2, 8, 4, -2]
    with pytest.raises(AttributeError, match=r"u\.xz: 'z' is not an axis .* longer names go as"):
        _ = u.xz
    with pytest.raises(AttributeError, match="'y' is not an axis; the axes are x, t"):
        u.d(y=1)


# ---- Checks ----


def poisson(**changes):
    good = {
        "domain": SQUARE,
        "residual": lambda u, x, y: u.xx + u.yy - x * y,
        "conditions": [Dirichlet(SQUARE.boundary, 0.0)],
    }
    return Problem(**(good | changes))


@pytest.mark.parametrize(
    "changes, message",
    [
        (
            {"residual": lambda u, x, z: u.xx},
            "the residual asks for 'z', which is not among u, x, y; name",
        ),
        ({"residual": lambda u: u.xx + jnp.sin(u)}, r"give it the value, for instance jnp\.sin\(u"),
        ({"residual": lambda u, x: (x * u.x).x}, "only fields have derivatives; write it out"),
        ({"residual": lambda u: u.zz}, "'z' is not an axis of one letter; the axes are x, y"),
        ({"residual": lambda u: jnp.sum(u.xx)}, r"residual 1 has shape \(\) at 16 points"),
        ({"residual": lambda u, x: u.xx / (0 * x)}, "residual 1 is not finite at"),
        ({"residual": lambda u, x: u - x}, "asks for no derivative"),
        ({"conditions": []}, "has no conditions: infinitely many solutions; add for instance"),
        ({"conditions": [Dirichlet(LINE.boundary, 0.0)]}, "Dirichlet is on faces of another box"),
        ({"conditions": [Initial(0.0)]}, "Initial needs a time axis"),
        ({"conditions": [Dirichlet(SQUARE.boundary, field="v")]}, "names field 'v'; there are u"),
        ({"fields": ("x",)}, "'x' is both a field and an axis"),
        ({"conditions": [Periodic("z")]}, "Periodic names axis 'z'"),
        ({"conditions": [Data(np.zeros((3, 1)), np.zeros(3))]}, r"points of shape \(N, 2\)"),
        ({"conditions": [Data(np.zeros((3, 2)), np.full(3, np.nan))]}, "needs 3 finite values"),
        (
            {"conditions": [Data(np.full((3, 2), 9.0), np.zeros(3))]},
            "points of Data lie outside of the box",
        ),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else "",
)
def test_mistakes_are_found_before_anything_is_compiled(changes, message):
    with pytest.raises(ValueError, match=message):
        checked(poisson(**changes))


def test_the_check_gives_the_derivatives_asked_for():
    assert checked(poisson()).asked.orders == ((2, 0), (0, 2))


def test_given_values_that_are_not_finite_are_refused():
    bad = poisson(conditions=[Dirichlet(SQUARE.boundary, lambda x, y: jnp.log(-1.0 - x))])
    with pytest.raises(ValueError, match="a given value is not finite at"):
        pann.solve(bad, pann.Hybrid(degree=3))


def test_an_activation_that_is_not_smooth_enough_is_refused():
    with pytest.raises(ValueError, match=r"derivatives of order 2, but ReLU.* has only 1"):
        pann.solve(poisson(), pann.Hybrid(degree=3, network=pann.MLP(width=4, activation="relu")))


def test_an_embedding_on_a_periodic_axis_is_refused():
    method = pann.Hybrid(degree=4, network=pann.MLP(width=8, embedding=pann.AxisUnits()))
    with pytest.raises(ValueError, match="the axes x are periodic, where the network sees cos"):
        pann.solve(PROBLEMS["a periodic axis"], method)


# ---- Collocation systems ----


def system_problem():
    """Nonlinear, coupled, with an unknown parameter: everything that a Jacobian can get wrong."""
    return Problem(
        SQUARE,
        residual=lambda u, v, x, y, k: (u.xx + k * u * v.y + x, v.xy - u.x**2 + k**2 * v),
        conditions=[
            Dirichlet(SQUARE.boundary, lambda x, y: x + y, field="u"),
            Robin(SQUARE.face("x", "upper"), lambda x, y: y, 2.0, 1.0, field="v"),
            Periodic("y", 1, field="u"),
            Data(np.array([[0.1, 0.2], [0.3, 0.4]]), np.array([1.0, 2.0]), field="v"),
        ],
        fields=("u", "v"),
        parameters={"k": 0.7},
    )


def blocks_of(problem, basis, points):
    placed = [place_inside(problem, points, problem.asked.orders), *place_conditions(problem, 5)]
    return tuple(make_block(each, problem, basis, "float64") for each in placed)


def test_the_jacobian_is_that_of_automatic_differentiation(rng):
    problem, basis = system_problem(), make_basis(SQUARE, 4)
    blocks = blocks_of(problem, basis, pann.points.uniform(SQUARE, 30).coordinates)
    unknowns = start(basis.num_terms, 2, problem.parameters, "float64")
    unknowns = dataclasses.replace(unknowns, b=jnp.asarray(rng.normal(size=unknowns.b.shape)))

    def residual(flat):
        b = flat[:-1].reshape(2, -1).T
        each = [block.residual(block.polynomial_channels(b), {"k": flat[-1]}) for block in blocks]
        return jnp.concatenate([one.ravel() for one in each])

    flat = jnp.concatenate([unknowns.b.T.ravel(), jnp.array([0.7])])
    value, jacobian = jax.jit(lambda unknowns: System(blocks).linearize(unknowns))(unknowns)
    expected, slopes = jax.jit(lambda flat: (residual(flat), jax.jacfwd(residual)(flat)))(flat)
    np.testing.assert_allclose(value, expected, atol=1e-12)
    np.testing.assert_allclose(jacobian, slopes, atol=1e-10)


def test_the_channels_of_a_block_are_derivatives_of_the_polynomial(rng):
    """Against numpy's own differentiation of the same Legendre series, in its own coordinates."""
    problem, basis = poisson(), make_basis(SQUARE, 4)
    points = pann.points.uniform(SQUARE, 20).coordinates
    block = make_block(place_inside(problem, points, ((2, 0), (0, 1))), problem, basis, "float64")
    b = rng.normal(size=(basis.num_terms, 1))
    matrix = np.zeros((5, 5))
    matrix[tuple(basis.indices.T)] = b[:, 0]
    legendre = np.polynomial.legendre
    s, t = points[:, 0], 2 * points[:, 1] / 3 - 1
    xx = legendre.legval2d(s, t, legendre.legder(matrix, 2, axis=0))
    y = legendre.legval2d(s, t, legendre.legder(matrix, 1, axis=1)) * 2 / 3
    channels = block.polynomial_channels(jnp.asarray(b))
    np.testing.assert_allclose(channels[:, :, 0], [xx, y], atol=1e-10)


def test_a_linear_problem_takes_one_step_and_a_refinement():
    problem = Problem.manufactured(
        SQUARE, lambda u, x: u.xx + x * u.yy + u, lambda x, y: x**3 * y - y**2
    )
    basis = make_basis(SQUARE, 4)
    blocks = blocks_of(problem, basis, pann.points.gauss_grid(SQUARE, (8, 8)).coordinates)
    unknowns, outcome = newton(blocks, start(basis.num_terms, 1, {}, "float64"))
    assert outcome.sums[1] < 1e-24 * outcome.sums[0]
    assert len(outcome.sums) <= 4
    test = pann.points.uniform(SQUARE, 100, seed=3).coordinates
    expected = test[:, 0] ** 3 * test[:, 1] - test[:, 1] ** 2
    np.testing.assert_allclose(basis.table(test) @ unknowns.b[:, 0], expected, atol=1e-11)


@pytest.mark.parametrize("dependent", [False, True])
def test_least_squares_and_its_correction_agree_with_an_orthogonal_basis(dependent, rng):
    matrix = rng.standard_normal((40, 6)) * 10.0 ** np.arange(6)
    if dependent:
        matrix = np.column_stack([matrix, matrix[:, 2]])
    right = rng.standard_normal(40)
    found, factor = least_squares(jnp.asarray(matrix), jnp.asarray(right))
    expected = matrix @ np.linalg.lstsq(matrix, right)[0]
    np.testing.assert_allclose(matrix @ found, expected, atol=1e-12)
    # From a solution that is wrong, the correction leads to the same one.
    wrong = found + 1e-3 / 10.0 ** np.minimum(np.arange(matrix.shape[1]), 5)
    better = wrong + factor.corrected(jnp.asarray((right - matrix @ wrong) @ matrix))
    np.testing.assert_allclose(matrix @ better, expected, atol=1e-12)


def test_functions_see_few_numbers_of_points(rng):
    seen = set()

    def value(x, y):
        seen.add(len(x))
        return x - 2 * y

    for count in (1, 3, 50, 1_000, 1_025, 2_000):
        points = rng.uniform(0, 1, (count, 2))
        np.testing.assert_array_equal(
            values_at(value, SQUARE, points), points[:, 0] - 2 * points[:, 1]
        )
    assert len(seen) == 2


# ---- Solutions ----

TIME = Box(x=(0, 1), t=(0, 0.5), time="t")
HEAT = lambda x, t: jnp.exp(-(jnp.pi**2) * t) * jnp.cos(jnp.pi * x)
PROBLEMS = {
    "dirichlet": Problem.manufactured(
        SQUARE, lambda u: u.xx + u.yy, lambda x, y: jnp.sin(2 * x) * jnp.exp(y / 2)
    ),
    "nonlinear": Problem.manufactured(
        SQUARE, lambda u: u.xx + u.yy - jnp.exp(u.value), lambda x, y: jnp.cos(x) * y / 3
    ),
    "neumann and time": Problem(
        TIME,
        lambda u: u.t - u.xx,
        [Neumann(TIME.boundary, 0.0), Initial(lambda x, t: jnp.cos(jnp.pi * x))],
        HEAT,
    ),
    "robin": Problem(
        LINE,
        lambda u: u.xx + u,
        [
            Robin(LINE.face("x", "lower"), 1.0, 1.0, -1.0),
            Dirichlet(LINE.face("x", "upper"), float(np.sin(2.0))),
        ],
        lambda x: jnp.sin(x),
    ),
    "second order in time": Problem(
        TIME,
        lambda u: u.tt - u.xx,
        [
            Dirichlet(TIME.boundary, 0.0),
            Initial(lambda x, t: jnp.sin(jnp.pi * x)),
            Initial(0.0, order=1),
        ],
        lambda x, t: jnp.sin(jnp.pi * x) * jnp.cos(jnp.pi * t),
    ),
    "soft periodicity": Problem(
        LINE,
        lambda u, x: u.xx - 4 * u + (jnp.pi**2 + 4) * jnp.sin(jnp.pi * x),
        [Periodic("x", 1)],
        lambda x: jnp.sin(jnp.pi * x),
    ),
    "a periodic axis": Problem(
        Box(x=(0, 2), periodic="x"),
        lambda u, x: u.xx - 4 * u + (jnp.pi**2 + 4) * jnp.sin(jnp.pi * x),
        [Data(np.array([[0.5]]), np.array([1.0]))],
        lambda x: jnp.sin(jnp.pi * x),
    ),
    "a system": Problem(
        Box(t=(0, 3), time="t"),
        lambda u, v: (u.t - v, v.t + u),
        [Initial(0.0, field="u"), Initial(1.0, field="v")],
        lambda t: (jnp.sin(t), jnp.cos(t)),
        fields=("u", "v"),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PROBLEMS)
def test_smooth_problems_are_solved_to_round_off_without_options(name):
    solution = pann.solve(PROBLEMS[name])
    assert solution.rel_l2 < 1e-9
    assert solution.residual < 1e-9


def test_an_unknown_parameter_is_found_from_data(rng):
    where = rng.uniform(0, np.pi, (60, 1))
    line = Box(x=(0, np.pi))
    problem = Problem(
        line,
        lambda u, x, k: k * u.xx + jnp.sin(x),
        [Dirichlet(line.boundary, 0.0), Data(where, np.sin(where[:, 0]) / 0.3)],
        parameters={"k": 1.0},
    )
    solution = pann.solve(problem, pann.Polynomial(degree=16))
    assert solution.parameters["k"] == pytest.approx(0.3, abs=1e-9)
    assert "k = 0.3" in str(solution)


@pytest.fixture(scope="module")
def solved():
    return pann.solve(PROBLEMS["dirichlet"], pann.Polynomial(degree=10))


def test_a_solution_is_a_function_of_named_coordinates(solved):
    exact = lambda x, y: np.sin(2 * x) * np.exp(y / 2)
    assert solved(x=0.3, y=1.0) == pytest.approx(exact(0.3, 1.0), abs=1e-5)
    x, y = np.meshgrid([0.1, 0.2, 0.3], [0.5, 1.5])
    np.testing.assert_allclose(solved(x=x, y=y), exact(x, y), atol=1e-5)
    np.testing.assert_allclose(
        solved.derivative({"x": 2, "y": 1}, x=x, y=y), -2 * exact(x, y), atol=1e-2
    )
    network, polynomial = solved.parts(x=x, y=y)
    np.testing.assert_array_equal(network, 0.0)
    np.testing.assert_array_equal(polynomial, solved(x=x, y=y))
    with pytest.raises(ValueError, match="give every axis, x, y; given were x"):
        solved(x=1.0)
    with pytest.raises(ValueError, match="'z' is not an axis"):
        solved.derivative({"z": 1}, x=0.0, y=0.0)


def test_a_solution_becomes_a_dataset(solved):
    data = solved.to_xarray(resolution=5)
    assert data.u.dims == ("x", "y")
    np.testing.assert_allclose(data.u.sel(x=0.5, y=1.5), solved(x=0.5, y=1.5))


def test_a_saved_solution_is_evaluated_without_the_users_code(solved, tmp_path):
    solved.save(tmp_path / "u.pann")
    loaded = pann.load(tmp_path / "u.pann")
    assert loaded(x=0.3, y=1.0) == solved(x=0.3, y=1.0)
    assert loaded.report == solved.report
    assert loaded.problem is None


def test_a_broken_solution_file_is_refused(solved, tmp_path):
    from pann.io import read, write

    solved.save(tmp_path / "u.pann")
    kind, header, arrays, *_ = read(tmp_path / "u.pann")
    for name in ("model", "fields", "parameters", "report"):
        for bad in ({}, [1], "x"):
            write(tmp_path / "bad.pann", kind, {**header, name: bad}, arrays)
            if (name, bad) == ("parameters", {}):
                continue  # no unknown parameters is what this one has
            with pytest.raises(pann.FileError):
                pann.load(tmp_path / "bad.pann")


def test_a_solution_can_be_gone_on_with(solved):
    better = pann.solve(PROBLEMS["dirichlet"], pann.Polynomial(degree=14), start_from=solved)
    assert better.rel_l2 < 1e-2 * solved.rel_l2


# ---- A network beside the polynomial ----


def kinked():
    """u'' with a steep front at 0.1, which degree 12 does not resolve."""
    return Problem.manufactured(
        Box(x=(-1, 1)), lambda u: u.xx, lambda x: jnp.tanh(12 * (x - 0.1)) + x**2
    )


@pytest.mark.slow
def test_the_network_takes_over_where_the_polynomial_fails():
    where = pann.Collocation(points=200, sampling="equispaced")
    alone = pann.solve(kinked(), pann.Polynomial(degree=12, collocation=where))
    network = pann.MLP(width=8, depth=1)
    both = pann.solve(
        kinked(), pann.Hybrid(degree=12, network=network, iterations=60, collocation=where)
    )
    assert both.rel_l2 < 1e-3 * alone.rel_l2
    assert both.residual < 1e-3 * alone.residual
    network, polynomial = both.parts(x=np.linspace(-1, 1, 50))
    assert np.std(network) > 0.1
    np.testing.assert_allclose(network + polynomial, both(x=np.linspace(-1, 1, 50)))
    step = 1e-4
    slope = (both(x=0.2 + step) - both(x=0.2 - step)) / (2 * step)
    assert both.derivative({"x": 1}, x=0.2) == pytest.approx(slope, rel=1e-5)


@pytest.mark.slow
def test_a_network_that_does_not_help_is_not_kept():
    solution = pann.solve(
        PROBLEMS["robin"], pann.Hybrid(degree=20, network=pann.MLP(width=4, depth=1), iterations=5)
    )
    assert solution.rel_l2 < 1e-12
    if solution.model.parameters.network is None:
        assert "did not lower the residual" in solution.report.stop


@pytest.mark.parametrize("widths, gated", [((4, 3), False), ((3, 3), True)])
def test_the_networks_jacobian_is_that_of_automatic_differentiation(widths, gated, rng):
    from jax.flatten_util import ravel_pytree

    from pann.model.architecture import Architecture
    from pann.model.pann import trainable
    from pann.network import activation_named
    from pann.pde.evaluation import block_channels, network_channels
    from pann.solvers.levenberg import State, network_jacobian
    from pann.training.gauss_newton import network_only

    problem, basis = system_problem(), make_basis(SQUARE, 3)
    blocks = blocks_of(problem, basis, pann.points.uniform(SQUARE, 12).coordinates)
    tanh = activation_named("tanh")
    architecture = Architecture(widths, tanh, None, 0.0, None, False, "float64", gated)
    parameters = architecture.start(2, 0, 2, key=jax.random.key(0))
    unknowns = start(basis.num_terms, 2, problem.parameters, "float64")
    unknowns = dataclasses.replace(unknowns, b=jnp.asarray(rng.normal(size=unknowns.b.shape)))
    moving, fixed = eqx.partition(network_only(parameters), trainable(parameters))
    flat, unravel = ravel_pytree(moving)
    for block in blocks:

        def residual(flat, block=block):
            whole = eqx.combine(unravel(flat), fixed)
            channels = network_channels(whole, block.x, block.orders, SQUARE)
            if block.x_minus is not None:
                minus = network_channels(whole, block.x_minus, block.orders, SQUARE)
                channels = channels - minus
            total = channels + block.polynomial_channels(unknowns.b)
            return block.residual(total, unknowns.parameters).ravel()

        @eqx.filter_jit
        def both_jacobians(state, block=block, residual=residual):
            channels = block_channels(block, state.parameters, SQUARE)
            channels = channels + block.polynomial_channels(unknowns.b)
            return network_jacobian(block, channels, state, SQUARE), jax.jacfwd(residual)(flat)

        jacobian, expected = both_jacobians(State(parameters, unknowns))
        np.testing.assert_allclose(jacobian, expected, atol=1e-9)


@pytest.mark.parametrize("make", [functools.cache(poisson), pann.problems.poisson])
def test_a_second_solve_compiles_nothing(make):
    network = pann.MLP(width=4, depth=1, activation="tanh")
    method = pann.Hybrid(degree=5, network=network, iterations=3)
    # One of them keeps the polynomial alone, the other the network, too.
    units = [pann.solve(make(), method, seed=seed).model.num_units for seed in (3, 2)]
    assert units == [0, 4]
    with count_compilations() as compiled:
        pann.solve(make(), method, seed=5)
    assert compiled == []


def test_of_two_activations_the_better_is_kept():
    line = Box(x=(-1, 1))
    wave = lambda x: jnp.sin(40 * x)
    problem = Problem(
        line, lambda u, x: u.xx + 1600 * wave(x), [Dirichlet(line.boundary, wave)], exact=wave
    )

    def solved_with(activation):
        network = pann.MLP(width=12, depth=1, activation=activation)
        return pann.solve(problem, pann.Hybrid(degree=10, network=network, iterations=40))

    raced, *each = (solved_with(activation) for activation in (None, "tanh", "sin"))
    assert raced.residual <= 1.001 * min(solution.residual for solution in each)


def test_trials_of_a_hybrid_have_seeds_of_their_own():
    problem = poisson()
    network = pann.MLP(width=4, depth=1, activation="tanh")
    method = pann.Hybrid(degree=4, network=network, iterations=4)
    solution = pann.solve(problem, method, trials=2)
    second = pann.solve(problem, method, seed=1)
    figures = solution.report.trials
    assert [each["seed"] for each in figures] == [0, 1]
    alone = second.report.trials[0]["residual"]
    assert figures[1]["residual"] == pytest.approx(alone, rel=1e-6)
    # Measured at points that did not choose.
    assert solution.residual not in [each["residual"] for each in figures]
    assert solution.residual == pytest.approx(min(each["residual"] for each in figures), rel=0.3)


# ---- Points ----


def test_points_of_the_user_have_tags(rng):
    inside = SQUARE.from_reference(rng.uniform(-0.99, 0.99, (150, 2)))
    edge, _ = face_points(SQUARE.boundary, 12)
    tags = ["inside"] * len(inside) + ["boundary"] * len(edge)
    points = from_array(SQUARE, np.concatenate([inside, edge]), tags)
    wave = lambda x, y: jnp.sin(x) * jnp.cos(y)
    problem = poisson(
        residual=lambda u, x, y: u.xx + u.yy + 2 * wave(x, y),
        conditions=[Dirichlet(SQUARE.boundary, wave)],
        exact=wave,
    )
    solution = pann.solve(
        problem, pann.Polynomial(degree=9, collocation=pann.Collocation(points=points))
    )
    assert solution.report.num_points == len(points)
    assert solution.rel_l2 < 1e-4
    some = from_array(SQUARE, points.coordinates[:160], tags[:160])
    with pytest.raises(ValueError, match="tag 'boundary' lies on x=1, where there is a condition"):
        pann.solve(problem, pann.Polynomial(degree=5, collocation=pann.Collocation(points=some)))


@pytest.mark.parametrize(
    "tags, message",
    [(["inside"], "each of 2 points needs a tag, got 1"), (["inside", "edge"], "got 'edge'")],
)
def test_wrong_tags_are_refused(tags, message):
    with pytest.raises(ValueError, match=message):
        from_array(SQUARE, [[0.0, 1.0], [0.5, 2.0]], tags)


def test_faces_are_sampled_by_name():
    points, normals = face_points(SQUARE.boundary, 6, on_faces=OnFaces("uniform", seed=3))
    assert len(points) == 24
    np.testing.assert_array_equal(points[:6, 0], -1.0)
    np.testing.assert_array_equal(normals[18:], np.tile([0.0, 1.0], (6, 1)))
    assert len(np.unique(points[:6, 1])) == 6
    solution = pann.solve(
        PROBLEMS["dirichlet"],
        pann.Polynomial(
            degree=12, collocation=pann.Collocation(condition_points=80, condition_sampling="sobol")
        ),
    )
    assert solution.rel_l2 < 1e-5


@pytest.mark.parametrize("dimension", [4, 6])
def test_many_dimensions(dimension):
    box = Box(**{name: (-1, 1) for name in "pqrstu"[:dimension]})
    exact = lambda **point: jnp.exp(0.3 * sum(point.values()))
    source = " + ".join(f"f.{name}{name}" for name in box.names)
    total = " + ".join(box.names)
    residual = eval(
        f"lambda f, {', '.join(box.names)}: "
        f"{source} - {dimension} * 0.09 * jnp.exp(0.3 * ({total}))",
        {"jnp": jnp},
    )
    problem = Problem(box, residual, [Dirichlet(box.boundary, exact)], exact=exact, fields=("f",))
    solution = pann.solve(problem, pann.Polynomial(degree=4))
    assert solution.rel_l2 < 2e-3


def test_a_condition_that_is_missed_shows_in_the_indicator():
    problem = poisson(
        residual=lambda u, x, y: u.xx + u.yy,
        conditions=[Dirichlet(SQUARE.boundary, lambda x, y: jnp.sin(3 * x) * jnp.exp(3 * y))],
    )
    # A constant satisfies the equation, and nothing else.
    assert pann.solve(problem, pann.Polynomial(degree=0)).residual > 0.1


def test_a_second_solution_of_the_same_shape_compiles_nothing():
    problem = pann.problems.poisson()
    pann.solve(problem, pann.Polynomial(degree=6))
    with count_compilations() as compiled:
        pann.solve(problem, pann.Polynomial(degree=6), seed=1)
    assert compiled == []
