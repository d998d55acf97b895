"""Points in parts that fit the cache: the same losses, gradients and training as all at once."""

import dataclasses
import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from oracles import random_parameters

import pann
from pann.basis import make_basis
from pann.io.checkpoint import open_checkpoint
from pann.model.architecture import Architecture
from pann.model.pann import trainable
from pann.network import activation_named
from pann.pde import Dirichlet, Periodic, Problem
from pann.pde.placing import place_conditions, place_inside
from pann.pde.rows import Causal, equation_rows
from pann.solvers import setup
from pann.solvers.batch import one_case
from pann.solvers.gradient import prepare
from pann.training import Adam, GradNorm, Task
from pann.training.loss import Loss

STRIP = pann.Box(x=(-1, 1), t=(0, 3), time="t")
NUM_POINTS = 60
LOSS = Loss("none")


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True):
        yield


@functools.cache
def posed(precision="float64"):
    """Two fields, a parameter, a nonlinear equation, conditions at points and at pairs."""
    problem = Problem(
        STRIP,
        residual=lambda u, v, x, t, k: (u.t + k * u * v.x + x, v.xx - u.x**2 + k**2 * v),
        conditions=[
            Dirichlet(STRIP.boundary, lambda x, t: x + t, field="u"),
            Periodic("x", 1, field="v"),
        ],
        fields=("u", "v"),
        parameters={"k": 0.7},
    )
    basis = make_basis(STRIP, 3)
    points = STRIP.from_reference(np.random.default_rng(5).uniform(-1, 1, (NUM_POINTS, 2)))
    placed = [place_inside(problem, points, problem.asked.orders), *place_conditions(problem, 5)]
    rows = equation_rows(placed, problem, basis, precision)
    weights = jnp.linspace(0.5, 2.0, len(rows.weights), dtype=precision)
    parameters = random_parameters(
        3,
        dimension=2,
        widths=(5, 4),
        num_terms=basis.num_terms,
        num_outputs=2,
        dtype=precision,
    )
    parameters = dataclasses.replace(parameters, equation={"k": jnp.asarray(0.7, precision)})
    return eqx.tree_at(lambda each: each.weights, rows, weights), parameters


def in_parts(rows, size):
    return dataclasses.replace(rows, part_size=size)


def terms_and_gradient(loss, rows, parameters):
    moving, fixed = eqx.partition(parameters, trainable(parameters))
    vector, tree_of = ravel_pytree(moving)
    whole = lambda vector: eqx.combine(tree_of(vector), fixed)
    gradient = jax.grad(lambda vector: loss.total(whole(vector), rows))
    return jax.jit(lambda vector: (loss.terms(whole(vector), rows), gradient(vector)))(vector)


def assert_same(found, expected, tolerance):
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        size = float(np.max(np.abs(other))) or 1.0
        np.testing.assert_allclose(one, other, rtol=0, atol=tolerance * size)


@pytest.mark.parametrize(
    "size, constraint, reduction", [(20, "none", "mean"), (17, "l1", "sum"), (59, "none", "mean")]
)
def test_loss_and_gradient_are_those_of_all_points_at_once(size, constraint, reduction):
    rows, parameters = posed()
    loss = Loss(constraint=constraint, constraint_weight=0.3, reduction=reduction)
    found = terms_and_gradient(loss, in_parts(rows, size), parameters)
    assert found[0].keys() == set(loss.names(rows))
    assert_same(found, terms_and_gradient(loss, rows, parameters), 1e-13)


def test_single_precision_stays_single():
    rows, parameters = posed("float32")
    found = terms_and_gradient(LOSS, in_parts(rows, 17), parameters)
    assert {leaf.dtype for leaf in jax.tree.leaves(found)} == {jnp.dtype("float32")}
    assert_same(found, terms_and_gradient(LOSS, rows, parameters), 3e-6)


def test_causal_weights_and_constraints_see_all_points_at_once():
    rows, parameters = posed()
    intervals = jnp.arange(NUM_POINTS) % 3
    timed = dataclasses.replace(rows, causal=Causal(num_chunks=3), intervals=intervals)
    for loss, whole in ((LOSS, timed), (Loss("E"), rows)):
        found = terms_and_gradient(loss, in_parts(whole, 17), parameters)
        assert_same(found, terms_and_gradient(loss, whole, parameters), 0)


def trained(rows, parameters, **options):
    """Two trials after some steps, with weights that were balanced before the first."""
    ones = {name: jnp.ones(()) for name in rows.names}
    parameters = dataclasses.replace(parameters, balance=ones)
    double = lambda leaf: jnp.stack([leaf, leaf if leaf.dtype == bool else 0.9 * leaf])
    task = Task(rows, LOSS, jax.random.key(0), **options)
    stage = Adam(4, record_every=2, balance=GradNorm(every=100))
    return stage.run(task, jax.tree.map(double, parameters))[0]


def test_mapped_trials_are_trained_and_balanced_alike():
    rows, parameters = posed()
    assert_same(trained(in_parts(rows, 17), parameters), trained(rows, parameters), 1e-9)


def test_interrupted_training_ends_in_the_same_bits(tmp_path):
    rows, parameters = posed()
    rows = in_parts(rows, 17)

    def stop(progress):
        if progress.step == 4:
            raise KeyboardInterrupt

    place, _ = open_checkpoint(tmp_path, {}, resume=False, interval=0.0)
    with pytest.raises(KeyboardInterrupt):
        trained(rows, parameters, checkpoint=place, report=stop)
    place, _ = open_checkpoint(tmp_path, {}, resume=True, interval=0.0)
    assert place.under_way().notes["step"] == 2
    assert_same(trained(rows, parameters, checkpoint=place), trained(rows, parameters), 0)


# ---- The rule ----


def architecture(*widths):
    return Architecture(widths, activation_named("tanh"), None, 0.0, None, False, "float64")


def test_a_part_has_fewer_points_the_more_a_point_takes(monkeypatch):
    monkeypatch.setattr(setup, "_num_cores", lambda: 1)
    assert setup.cached_points(architecture(100, 50), 1) == 512
    assert setup.cached_points(architecture(100, 50), 2) == 256
    assert setup.cached_points(architecture(100, 50), 1000) == setup.FEWEST_CACHED_POINTS
    assert setup.cached_points(architecture(), 1) is None
    monkeypatch.setattr(setup, "_num_cores", lambda: 3)
    assert setup.cached_points(architecture(100, 50), 1) == 3 * 1024
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert setup.cached_points(architecture(100, 50), 1) is None


def test_a_gradient_keeps_nothing_of_the_other_parts(monkeypatch):
    monkeypatch.setattr(setup, "_num_cores", lambda: 1)
    method = pann.Training.paper(
        degree=3,
        network=pann.MLP(width=100),
        constraint="none",
        collocation=pann.Collocation(points=8192, sampling="sobol"),
    )
    case = one_case(pann.problems.poisson(), method)
    prepared = prepare(case)
    parameters = jax.tree.map(lambda leaf: leaf[0], prepared.starts)
    moving, fixed = eqx.partition(parameters, trainable(parameters))

    def temporary_bytes(rows):
        total = lambda moving, rows: case.loss.total(eqx.combine(moving, fixed), rows)
        program = jax.jit(jax.grad(total)).lower(moving, rows).compile()
        return program.memory_analysis().temp_size_in_bytes

    rows = prepared.task.rows
    assert rows.part_size == 512
    assert temporary_bytes(rows) < temporary_bytes(in_parts(rows, None)) / 4
