"""Points in chunks: the same losses, gradients and steps as without, in the memory given."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import pann
from pann.basis import PiecewiseLegendre, make_basis
from pann.basis.basis import check_in_program, tabulate
from pann.domain import Box
from pann.methods import RunOptions
from pann.model.architecture import Architecture
from pann.model.pann import trainable
from pann.network import activation_named
from pann.pde.collocation import make_chunked_block
from pann.pde.rows import Causal, equation_rows
from pann.problems import allen_cahn, burgers, poisson
from pann.regression.fit import fit
from pann.runtime.chunks import Chunking, chunking, compressed, parse_bytes
from pann.solvers.gradient import make_case, prepare
from pann.solvers.levenberg import State, linearized, residual_norm, residual_sizes
from pann.solvers.newton import full_step, start
from pann.solvers.plan import make_plan
from pann.training import LBFGS, Adam, GaussNewton, LeastSquares, Prune
from pann.training.chunked_rows import ChunkedData
from pann.training.constraints import CONSTRAINTS
from pann.training.loss import Loss, Rows

SQUARE = Box(x=(-1, 3), y=(0, 2))


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True):
        yield


def network(dimension, num_terms, precision="float64"):
    architecture = Architecture((7, 6), activation_named("tanh"), None, 0.0, None, False, precision)
    parameters = architecture.start(dimension, num_terms, 1, key=jax.random.key(2))
    b = jax.random.normal(jax.random.key(3), parameters.b.shape, precision)
    return dataclasses.replace(parameters, b=0.1 * b)


def value_and_gradient(loss, rows, parameters):
    moving, fixed = eqx.partition(parameters, trainable(parameters))
    vector, tree_of = ravel_pytree(moving)
    total = lambda vector: loss.total(eqx.combine(tree_of(vector), fixed), rows)
    return jax.jit(jax.value_and_grad(total))(vector)


def assert_same(found, expected, tolerance=1e-12):
    size = float(np.max(np.abs(expected), initial=0.0)) or 1.0
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * size)


# ---- Sizes ----


def test_sizes_are_read():
    assert parse_bytes("1.5 GiB") == 3 * 2**29
    assert parse_bytes("20MB") == 20_000_000
    assert parse_bytes(77) == parse_bytes("77") == parse_bytes(77.0) == 77
    assert parse_bytes(8e9) == parse_bytes("8gb") == 8 * 10**9


@pytest.mark.parametrize("size", ["much", "8 GX", "", "-1GB", "1.2.3MB", 0, -5, True, float("nan")])
def test_nonsense_is_no_size(size):
    with pytest.raises(ValueError, match="memory is a size such as '2GB' or a number of bytes"):
        parse_bytes(size)
    with pytest.raises(ValueError, match="memory is a size"):
        pann.solve(poisson(), memory=size)


def test_chunks_are_even_and_hold_every_point_once(rng):
    parts = chunking(1001, largest=400)
    assert (parts.num_chunks, parts.size) == (3, 334)
    points = rng.normal(size=(1001, 2))
    split = np.asarray(parts.split(points)).reshape(-1, 2)
    np.testing.assert_array_equal(split[:1001], points)
    np.testing.assert_array_equal(split[1001:], points[-1:])
    real = np.concatenate([np.asarray(parts.is_point(number)) for number in jnp.arange(3)])
    np.testing.assert_array_equal(real, np.arange(1002) < 1001)


# ---- Tables ----


@pytest.mark.parametrize("family", ["legendre", "chebyshev", "fourier"])
@pytest.mark.parametrize("scaling", ["plain", "orthonormal"])
def test_tables_in_a_program_are_those_of_the_basis(family, scaling, rng):
    basis = dataclasses.replace(make_basis(SQUARE, 9, families={"x": family}), scaling=scaling)
    points = rng.uniform([-1, 0], [3, 2], (40, 2))
    x = jnp.asarray(SQUARE.to_reference(points))
    for order in ((0, 0), (1, 0), (0, 1), (2, 1), (4, 0), (11, 0)):
        assert_same(tabulate(basis, x, order), basis.table(points, order), 1e-13)


def test_tables_in_a_program_of_a_basis_that_sees_one_axis(rng):
    basis = make_basis(SQUARE, 5, axes=("y",))
    points = rng.uniform([-1, 0], [3, 2], (10, 2))
    x = jnp.asarray(SQUARE.to_reference(points))
    assert_same(tabulate(basis, x, (0, 1)), basis.table(points, (0, 1)))
    assert not np.any(tabulate(basis, x, (1, 0)))


def test_a_family_without_a_recurrence_is_refused():
    basis = make_basis(SQUARE, 3, families={"x": PiecewiseLegendre((0.0,))})
    with pytest.raises(ValueError, match="PiecewiseLegendre along x; leave memory out"):
        check_in_program(basis)


# ---- Data ----


def data_rows(size, count=53):
    basis = make_basis(SQUARE, 4)
    rng = np.random.default_rng(5)
    points = rng.uniform([-1, 0], [3, 2], (count, 2))
    x, target = SQUARE.to_reference(points), np.sin(points.sum(axis=1, keepdims=True))
    weights, parts = rng.uniform(0.5, 2, count), Chunking(count, size)
    plain = Rows(*(jnp.asarray(each) for each in (x, basis.table(points), target, weights)))
    chunked = ChunkedData(
        parts.split(x), parts.split(target), jnp.asarray(parts.pad(weights)), basis, parts
    )
    return plain, chunked


@pytest.mark.parametrize(
    "size, constraint",
    [(20, name) for name in ("none", *CONSTRAINTS)] + [(53, "E"), (7, "E"), (1, "E")],
)
def test_loss_and_gradient_on_data_are_those_without_chunks(size, constraint):
    plain, chunked = data_rows(size)
    parameters = network(2, plain.table.shape[1])
    loss = Loss(constraint=constraint, constraint_weight=0.3)
    for found, expected in zip(
        value_and_gradient(loss, chunked, parameters),
        value_and_gradient(loss, plain, parameters),
        strict=True,
    ):
        assert_same(found, expected)


def test_errors_densities_and_minibatches_are_those_without_chunks(rng):
    plain, chunked = data_rows(20)
    parameters = network(2, plain.table.shape[1])
    assert_same(eqx.filter_jit(chunked.error)(parameters), plain.error(parameters))
    squares = jnp.asarray(rng.uniform(size=plain.table.shape[1]))
    assert_same(eqx.filter_jit(chunked.density)(squares)[:53], plain.density(squares))
    for chosen in (jnp.asarray([52, 0, 20, 19]), slice(None, None, 10), slice(30)):
        found, expected = chunked.take(chosen), plain.take(chosen)
        for name in ("x", "table", "target", "weights"):
            assert_same(getattr(found, name), getattr(expected, name))


# ---- Equations ----


def equation(problem, size, causal=None, degree=5):
    where = pann.Collocation(points=150, sampling="sobol")
    plan = make_plan(problem, pann.Training(degree=degree, collocation=where))
    placed = plan.setup.placed(plan.ladder[0])
    arguments = placed, plan.setup.problem, plan.ladder[0], "float64"
    parts = Chunking(len(placed[0].points), size)
    return (
        equation_rows(*arguments, causal),
        equation_rows(*arguments, causal, chunking=parts),
        placed,
        plan,
    )


@pytest.mark.parametrize(
    "problem, causal, reduction",
    [
        (allen_cahn, None, "sum"),
        (burgers, Causal(num_chunks=5), "mean"),
    ],
    ids=["allen_cahn", "burgers"],
)
def test_loss_and_gradient_on_an_equation_are_those_without_chunks(problem, causal, reduction):
    plain, chunked, placed, plan = equation(problem(), 40, causal)
    assert chunked.names == plain.names
    parameters = network(placed[0].points.shape[1], plan.ladder[0].num_terms)
    loss = Loss(constraint="E", reduction=reduction)
    found = jax.jit(loss.terms)(parameters, chunked)
    expected = jax.jit(loss.terms)(parameters, plain)
    assert found.keys() == expected.keys()
    for name in expected:
        assert_same(found[name], expected[name])
    _, gradient = value_and_gradient(loss, chunked, parameters)
    assert_same(gradient, value_and_gradient(loss, plain, parameters)[1])
    some = jnp.asarray([3, 149, 80])
    assert_same(
        loss.total(parameters, chunked.take(some)), loss.total(parameters, plain.take(some))
    )


def test_gauss_newton_steps_are_those_without_chunks():
    size = 40
    plain, _, placed, plan = equation(allen_cahn(), size)
    basis, problem = plan.ladder[0], plan.setup.problem
    inside = make_chunked_block(placed[0], problem, basis, "float64", Chunking(150, size))
    blocks, chunked = plain.blocks, (inside, *plain.blocks[1:])
    unknowns = start(basis.num_terms, 1, {}, "float64")
    for found, expected in zip(
        jax.tree.leaves(full_step(chunked, unknowns).step),
        jax.tree.leaves(full_step(blocks, unknowns).step),
        strict=True,
    ):
        assert_same(found, expected, 1e-11)
    state = State(network(2, 0), unknowns)
    assert_same(residual_norm(chunked, state, SQUARE), residual_norm(blocks, state, SQUARE))
    assert_same(residual_sizes(inside, unknowns), residual_sizes(blocks[0], unknowns))
    step = eqx.filter_jit(lambda each: linearized(each, state, SQUARE).step(jnp.asarray(0.1)))
    steps = step(chunked), step(blocks)
    for found, expected in zip(*steps, strict=True):
        assert_same(found, expected, 1e-10)


def test_compressed_rows_have_the_inner_products_of_all_rows(rng):
    rows = rng.normal(size=(9, 20, 5)) * np.logspace(0, -7, 5)
    few = compressed(lambda chunk, scale: scale * chunk, jnp.asarray(rows), jnp.asarray(2.0))
    assert few.shape == (5, 5)
    whole = 2 * rows.reshape(-1, 5)
    lengths = np.linalg.norm(whole, axis=0)
    assert_same((few / lengths).T @ (few / lengths), (whole / lengths).T @ (whole / lengths), 1e-14)


# ---- In the memory given ----


def temporary_bytes(rows, parameters):
    moving, fixed = eqx.partition(parameters, trainable(parameters))
    total = lambda moving, rows: Loss("E").total(eqx.combine(moving, fixed), rows)
    compiled = jax.jit(jax.grad(total)).lower(moving, rows).compile()
    return compiled.memory_analysis().temp_size_in_bytes


def test_a_gradient_takes_no_more_than_the_memory_given():
    memory = 20_000_000
    where = pann.Collocation(points=40_000, sampling="sobol")
    method, run = pann.Training.paper(degree=12, collocation=where), RunOptions(memory=memory)
    plan = make_plan(poisson(), method, run)
    case = make_case(plan, method, run)
    prepared = prepare(case)
    parameters = jax.tree.map(lambda leaf: leaf[0], prepared.starts)
    held = sum(leaf.nbytes for leaf in jax.tree.leaves(prepared.task.rows))
    assert held + temporary_bytes(prepared.task.rows, parameters) < memory
    free = dataclasses.replace(case, setup=dataclasses.replace(plan.setup, memory=None))
    assert temporary_bytes(prepare(free).task.rows, parameters) > 3 * memory


def test_solutions_are_those_without_chunks():
    where = pann.Collocation(points=900, sampling="sobol")
    training = pann.Training(
        stages=(Adam(20), Prune(1e-4)),
        degree=6,
        network=pann.MLP(width=8, depth=2),
        constraint="E",
        preconditioner=True,
        collocation=where,
    )
    plain = pann.solve(poisson(), training)
    chunked = pann.solve(poisson(), training, memory="1MB")
    for name, values in plain.report.history.items():
        np.testing.assert_allclose(chunked.report.history[name], values, rtol=1e-9)
    polynomial = pann.Polynomial(degree=6, collocation=where)
    plain = pann.solve(poisson(), polynomial)
    chunked = pann.solve(poisson(), polynomial, memory="1MB")
    assert chunked.report.num_points == plain.report.num_points
    np.testing.assert_allclose(chunked(x=0.3, y=-0.7), plain(x=0.3, y=-0.7), rtol=1e-10)


def test_points_that_do_not_fit_are_refused_with_what_would():
    with pytest.raises(ValueError, match="100,000 points do not fit in memory=1,000,000 bytes"):
        pann.solve(
            poisson(),
            pann.Training(
                stages=(Adam(1),), collocation=pann.Collocation(points=100000, sampling="sobol")
            ),
            memory="1MB",
        )


def test_fits_are_those_without_chunks(rng):
    x = rng.uniform(-1, 1, (1001, 2))
    y = np.sin(3 * x[:, 0]) * x[:, 1]
    for recipe in ((LBFGS(3), Prune(1e-5)), (Adam(12, batch_size=100, record_every=4),)):
        network = pann.MLP(width=6, depth=2)
        method = pann.Training(stages=recipe, degree=5, network=network, constraint="E")
        plain, chunked = (fit(x, y, method, trials=2, memory=memory) for memory in (None, "100KB"))
        np.testing.assert_allclose(chunked.scores, plain.scores, rtol=1e-10)
        np.testing.assert_allclose(chunked(x), plain(x), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize(
    "options, message",
    [
        (
            {"stages": (LeastSquares("polynomial"),)},
            "LeastSquares needs all of it; train with Adam",
        ),
        ({"stages": (Adam(1), GaussNewton(1))}, "GaussNewton needs all of it"),
        ({"stages": (Adam(1),), "constraint": "exact"}, "the exact constraint needs all of it"),
        (
            {"stages": (Adam(1),), "constraint": "E", "norm": "spectral"},
            "the spectral norm needs all of it",
        ),
    ],
)
def test_what_needs_the_whole_table_says_so(options, message, rng):
    x = rng.uniform(-1, 1, (500, 2))
    with pytest.raises(ValueError, match=message):
        fit(x, x[:, 0], pann.Training(degree=8, **options), memory="20KB")


def test_the_estimator_fits_a_table_larger_than_its_memory(rng):
    x = rng.uniform(-1, 1, (4000, 2))
    y = np.sin(3 * x[:, 0]) * x[:, 1] + 0.1 * rng.standard_normal(4000)
    options = dict(degree=3, width=8, depth=1, embedding=None, dropout=0.0, random_state=0)
    options |= dict(recipe=(Adam(200, batch_size=128, record_every=50),), precision="float64")
    plain = pann.PANNRegressor(**options).fit(x, y)
    chunked = pann.PANNRegressor(memory="1.3MB", **options).fit(x, y)
    np.testing.assert_allclose(chunked.predict(x), plain.predict(x), rtol=1e-7, atol=1e-9)
