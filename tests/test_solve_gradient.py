"""Equations by gradients: the loss against automatic differentiation, recipes, trials, options."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles import count_compilations, random_parameters

import pann
from pann import baselines
from pann.basis import make_basis, orthonormal_scales
from pann.domain import Box
from pann.model.architecture import Architecture
from pann.model.pann import PANN, trainable
from pann.network import ModifiedMLP, activation_named
from pann.pde import Data, Dirichlet, Initial, Neumann, Problem
from pann.pde.placing import place_conditions, place_inside
from pann.pde.rows import Causal, equation_rows
from pann.problems import poisson
from pann.training import LBFGS, Adam, Constant, GradNorm, LeastSquares, Prune, Task
from pann.training.loss import Loss

SQUARE = Box(x=(-1, 1), y=(0, 3))
LINE = Box(x=(0, 5))


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


def near(value, expected, tolerance):
    np.testing.assert_allclose(float(value), float(expected), rtol=tolerance)


def problem_with_everything():
    """Nonlinear, two fields, a parameter, a normal derivative."""
    return Problem(
        SQUARE,
        residual=lambda u, v, x, y, k: (u.xx + k * u * v.y + x, v.xy - u.x**2 + k**2 * v),
        conditions=[
            Dirichlet(SQUARE.boundary, lambda x, y: x + y, field="u"),
            Neumann(SQUARE.face("y", "upper"), lambda x, y: x, field="v", weight=2.0),
        ],
        fields=("u", "v"),
        parameters={"k": 0.7},
    )


@pytest.fixture(scope="module")
def posed():
    with jax.enable_x64(True):
        problem = problem_with_everything()
        basis = make_basis(SQUARE, 3)
        inside = SQUARE.from_reference(np.random.default_rng(5).uniform(-1, 1, (40, 2)))
        placed = [
            place_inside(problem, inside, problem.asked.orders),
            *place_conditions(problem, 5),
        ]
        rows = equation_rows(placed, problem, basis, "float64")
        parameters = random_parameters(
            3, dimension=2, widths=(5, 4), num_terms=basis.num_terms, num_outputs=2
        )
        parameters = dataclasses.replace(parameters, equation={"k": jnp.asarray(0.7)})
        return basis, inside, placed, rows, parameters


def test_all_blocks_in_one_propagation_give_the_same_loss(posed, monkeypatch, rng):
    """Which of two ways is taken depends on the device."""
    _, _, _, rows, parameters = posed
    pairs = pann.problems.kdv(faithful=True)
    basis = make_basis(pairs.domain, 3, axes=("x",))
    inside = pairs.domain.from_reference(rng.uniform(-1, 1, (20, 2)))
    placed = [place_inside(pairs, inside, pairs.asked.orders), *place_conditions(pairs, 4)]
    own = random_parameters(4, dimension=2, widths=(5, 4), num_terms=basis.num_terms)
    for each, state in ((rows, parameters), (equation_rows(placed, pairs, basis, "float64"), own)):
        moving, fixed = eqx.partition(state, trainable(state))
        loss = lambda moving: Loss().total(eqx.combine(moving, fixed), each)  # noqa: B023
        by_block = jax.jit(jax.value_and_grad(loss))(moving)
        with monkeypatch.context() as elsewhere:
            elsewhere.setattr(jax, "default_backend", lambda: "gpu")
            together = jax.jit(jax.value_and_grad(loss))(moving)
        for one, other in zip(jax.tree.leaves(by_block), jax.tree.leaves(together), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)


def fields_at(basis, parameters, points):
    """u and v with all derivatives up to the second, by nested automatic differentiation."""
    indices = basis.indices
    lower, widths = jnp.asarray(SQUARE.lower), jnp.asarray(SQUARE.widths)

    def legendre(n, s):
        before, now = jnp.ones_like(s), s
        for k in range(1, n):
            before, now = now, ((2 * k + 1) * s * now - k * before) / (k + 1)
        return before if n == 0 else now

    def both(point):
        s = 2 * (point - lower) / widths - 1
        terms = [legendre(int(i), s[0]) * legendre(int(j), s[1]) for i, j in indices]
        psi = parameters.network.features(s) * parameters.keep_a
        return psi @ parameters.a + jnp.stack(terms) @ (parameters.b * parameters.keep_b[:, None])

    every = lambda point: (both(point), jax.jacfwd(both)(point), jax.hessian(both)(point))
    return jax.jit(jax.vmap(every))(jnp.asarray(points))


def test_the_terms_are_those_of_nested_differentiation(posed):
    basis, inside, placed, rows, parameters = posed
    terms = Loss(constraint="none").terms(parameters, rows)
    value, slope, second = fields_at(basis, parameters, inside)
    u, v, k, x = value[:, 0], value[:, 1], 0.7, inside[:, 0]
    first = second[:, 0, 0, 0] + k * u * slope[:, 1, 1] + x
    other = second[:, 1, 0, 1] - slope[:, 0, 0] ** 2 + k**2 * v
    near(terms["residual"], np.mean(first**2 + other**2), 1e-12)
    value, _, _ = fields_at(basis, parameters, placed[1].points)
    boundary = np.mean((value[:, 0] - np.sum(placed[1].points, axis=1)) ** 2)
    near(terms["dirichlet 1"], boundary, 1e-12)
    _, slope, _ = fields_at(basis, parameters, placed[2].points)
    normal = np.mean((2 * (slope[:, 1, 1] - placed[2].points[:, 0])) ** 2)
    near(terms["neumann 2"], normal, 1e-12)
    summed = Loss(constraint="none", reduction="sum").terms(parameters, rows)
    near(summed["residual"], 40 * terms["residual"], 1e-12)


def test_the_constraint_sees_the_points_of_the_equation(posed):
    basis, inside, _, rows, parameters = posed
    terms = Loss(constraint="E", constraint_weight=1.0).terms(parameters, rows)
    psi = jax.vmap(parameters.network.features)(jnp.asarray(SQUARE.to_reference(inside)))
    psi = psi * parameters.keep_a
    phi = basis.table(inside) * np.asarray(parameters.keep_b)
    # C_E of the paper, entry by entry: a row for each point, a column for each unit.
    kept_a, kept_b = np.asarray(parameters.kept_a), np.asarray(parameters.kept_b)
    entries = [(phi @ kept_b[:, field])[:, None] * (psi * kept_a[:, field]) for field in range(2)]
    total = sum(np.sum(np.asarray(entry) ** 2) for entry in entries)
    near(terms["constraint"], np.sqrt(total), 1e-10)


def test_every_point_is_weighed_by_the_preconditioner(posed):
    basis, _, placed, rows, parameters = posed
    stacked = jax.tree.map(lambda leaf: leaf[None], parameters)
    scales = jnp.asarray(orthonormal_scales(basis))
    task = Task(rows, Loss(), jax.random.key(0), term_scales=scales)
    (weights,) = np.asarray(task.weights(stacked))
    points = np.concatenate([each.points for each in placed])
    orthonormal = dataclasses.replace(basis, scaling="orthonormal").table(points)
    kept = np.asarray(parameters.keep_b)
    expected = np.sqrt(kept.sum() / np.sum(orthonormal[:, kept] ** 2, axis=1))
    np.testing.assert_allclose(weights, expected, rtol=1e-12)


def test_a_minibatch_has_the_same_mean(posed):
    _, _, _, rows, parameters = posed
    loss = Loss(constraint="none")
    whole = loss.terms(parameters, rows)
    parts = [loss.terms(parameters, rows.take(jnp.arange(s, s + 10))) for s in range(0, 40, 10)]
    mean = np.mean([part["residual"] for part in parts])
    near(mean, whole["residual"], 1e-12)
    near(parts[0]["dirichlet 1"], whole["dirichlet 1"], 1e-12)


QUICK = (Adam(300, Constant(5e-3)), Prune(1e-4), LBFGS(200), Prune(1e-4))


def oscillation():
    """u'' + k^2 u = 0 on [0, 2] with u = sin(2 x)."""
    line = Box(x=(0, 2))
    exact = lambda x: jnp.sin(2 * x)
    return Problem(
        line,
        residual=lambda u, x: u.xx + 4 * u,
        conditions=[
            Dirichlet(line.face("x", "lower"), 0.0),
            Neumann(line.face("x", "lower"), -2.0),
        ],
        exact=exact,
    )


def quick(stages):
    return pann.Training(
        stages=stages,
        degree=8,
        network=pann.MLP(width=6, depth=2),
        constraint="E",
        collocation=pann.Collocation(points=60, sampling="uniform"),
    )


@pytest.fixture(scope="module")
def trained():
    return pann.solve(oscillation(), quick(QUICK), trials=2)


def test_gradients_solve_an_easy_equation(trained):
    assert trained.rel_l2 < 1e-3
    assert [figures["seed"] for figures in trained.report.trials] == [0, 1]
    errors = [figures["rel_l2"] for figures in trained.report.trials]
    residuals = [figures["residual"] for figures in trained.report.trials]
    assert trained.rel_l2 in errors
    assert len(set(residuals)) == 2
    history = trained.report.history
    terms = {"residual", "dirichlet 1", "neumann 2", "constraint"}
    assert terms | {"step", "fresh residual", "error"} == set(history)
    assert len({len(values) for values in history.values()}) == 1
    assert history["step"] == sorted(history["step"])
    assert history["error"][-1] == pytest.approx(trained.rel_l2, rel=0.1)
    assert history["residual"][-1] < 1e-2 * history["residual"][0]


def test_trials_are_those_of_single_runs(trained):
    alone = pann.solve(oscillation(), quick(QUICK[:1]))
    both = pann.solve(oscillation(), quick(QUICK[:1]), trials=2)
    first = both.report.trials[0]
    assert alone.report.trials[0]["rel_l2"] == pytest.approx(first["rel_l2"], rel=1e-6)


def test_the_polynomial_alone_by_gradients():
    solution = pann.solve(
        oscillation(),
        pann.Training(
            stages=(LBFGS(200),), degree=10, network=None, collocation=pann.Collocation(points=60)
        ),
    )
    assert solution.model.parameters.network is None
    assert solution.rel_l2 < 1e-3


def test_an_unknown_parameter_is_trained_with_the_rest():
    line = Box(x=(0, 2))
    points = np.linspace(0, 2, 30)[:, None]
    problem = Problem(
        line,
        residual=lambda u, x, k: u.xx + k * u,
        conditions=[Data(points, np.sin(2 * points[:, 0]), weight=10.0)],
        parameters={"k": 2.5},
    )
    recipe = (Adam(500, Constant(2e-2)), LBFGS(200))
    solution = pann.solve(
        problem,
        pann.Training(
            stages=recipe, degree=10, network=None, collocation=pann.Collocation(points=60)
        ),
    )
    assert solution.parameters["k"] == pytest.approx(4.0, abs=1e-3)


def test_a_pinn_has_a_network_and_a_bias_alone():
    solution = baselines.pinn(
        oscillation(),
        pann.Training(
            stages=QUICK,
            network=pann.MLP(width=5, depth=1),
            collocation=pann.Collocation(points=40),
        ),
    )
    assert solution.model.num_terms == 1
    assert solution.model.num_units == 5
    assert "Prune" not in solution.report.how


def test_minibatches_and_single_precision():
    recipe = (Adam(400, Constant(1e-2), batch_size=16),)
    solution = pann.solve(
        oscillation(),
        pann.Training(
            stages=recipe, degree=6, network=None, collocation=pann.Collocation(points=64)
        ),
        precision="float32",
    )
    assert solution.model.precision == "float32"
    assert solution.rel_l2 < 0.5


def test_the_papers_rule_gives_the_degree():
    def degree(num_points, **rule):
        where = pann.Collocation(points=num_points, sampling="sobol")
        method = pann.Training(stages=(Adam(1),), network=None, collocation=where, **rule)
        return pann.solve(poisson(), method).report.degree

    assert degree(1024, c=0.003) == 12
    assert degree(512) == 10
    assert (
        pann.solve(
            poisson(), pann.Polynomial(c=0.01, collocation=pann.Collocation(points=100))
        ).report.degree
        == 9
    )


@pytest.mark.parametrize(
    "method, message",
    [
        (pann.Hybrid(constraint="none"), "constraint='none' is an option for data"),
        (pann.Hybrid(preconditioner=True), "preconditioner=True is an option for data"),
        (pann.Training.paper(constraint="exact"), r"belongs to pann.Hybrid\(...\)"),
        (pann.Training(stages=(LeastSquares(),)), "LeastSquares fits data; an equation is trained"),
        (pann.Polynomial(c=0.01), r"give points=N"),
        (pann.Hybrid(degree=None), "degree=0 is a constant, the output bias"),
    ],
)
def test_options_that_do_not_go_together_are_refused(method, message):
    with pytest.raises(ValueError, match=message):
        pann.solve(oscillation(), method)
    with pytest.raises(ValueError, match="trials must be a whole number of at least 1, got 0"):
        pann.solve(oscillation(), trials=0)


# ---- Folders, and going on ----


def test_a_folder_gets_the_solution(tmp_path):
    solution = pann.solve(oscillation(), pann.Hybrid(degree=16), out=tmp_path / "new" / "folder")
    loaded = pann.load(tmp_path / "new" / "folder" / "solution.pann")
    assert loaded(x=0.3) == solution(x=0.3)
    assert loaded.report.trials == solution.report.trials
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="is a file, not a folder; name another folder"):
        pann.solve(oscillation(), out=tmp_path / "file")


def test_a_loaded_solution_is_refined_with_its_network(trained, tmp_path):
    trained.save(tmp_path / "a.pann")
    loaded = pann.load(tmp_path / "a.pann")
    better = loaded.refine(oscillation(), pann.Hybrid(iterations=30))
    assert better.rel_l2 < 0.1 * trained.rel_l2
    by_gradient = loaded.refine(
        oscillation(), pann.Training(stages=(LBFGS(50),), collocation=pann.Collocation(points=60))
    )
    terms = [by_gradient.report.history[name] for name in ("residual", "dirichlet 1", "neumann 2")]
    losses = [sum(values) for values in zip(*terms, strict=True)]
    assert losses[-1] < losses[0]
    assert by_gradient.model.num_units == loaded.model.num_units


# ---- Networks on periodic axes ----


def test_a_network_repeats_along_a_periodic_axis(tmp_path):
    box = Box(x=(0, 2), t=(0, 1), time="t", periodic="x")
    wave = lambda x, t: jnp.exp(jnp.sin(jnp.pi * (x - t)))
    problem = Problem(
        box,
        residual=lambda u, x, t: u.t + u.x,
        conditions=[Initial(lambda x, t: wave(x, 0.0))],
        exact=wave,
    )
    without = pann.solve(problem, pann.Polynomial(degree=3))
    solution = pann.solve(
        problem, pann.Hybrid(degree=3, network=pann.MLP(width=10, activation="tanh"), iterations=60)
    )
    assert solution.model.num_units == 10
    assert solution.rel_l2 < 0.5 * without.rel_l2
    for order in range(3):
        ends = [solution.derivative({"x": order}, x=x, t=0.4) for x in (0.0, 2.0)]
        assert ends[0] == pytest.approx(ends[1], rel=1e-12)
    solution.save(tmp_path / "wave.pann")
    assert pann.load(tmp_path / "wave.pann")(x=0.3, t=0.2) == solution(x=0.3, t=0.2)


# ---- Weights of the terms ----


def test_gradnorm_makes_gradients_equally_long(posed):
    _, _, _, rows, parameters = posed
    loss = Loss(constraint="E")
    ones = {name: jnp.ones(()) for name in rows.names}
    start = dataclasses.replace(parameters, balance=ones)
    task = Task(rows, loss, jax.random.key(0))
    stacked = jax.tree.map(lambda leaf: leaf[None], start)
    stage = Adam(2, Constant(0.0), record_every=2, balance=GradNorm(every=10, memory=0.0))
    trained, _ = stage.run(task, stacked)

    def length(name):
        moving, fixed = eqx.partition(parameters, trainable(parameters))
        term = lambda moving: loss.terms(eqx.combine(moving, fixed), rows)[name]
        slopes = jax.tree.leaves(jax.jit(jax.grad(term))(moving))
        return float(np.sqrt(sum(np.sum(np.asarray(slope) ** 2) for slope in slopes)))

    lengths = {name: length(name) for name in rows.names}
    weighted = [float(trained.balance[name][0]) * lengths[name] for name in rows.names]
    np.testing.assert_allclose(weighted, np.mean(list(lengths.values())), rtol=1e-10)
    assert "constraint" not in trained.balance
    # Stages that do not balance keep the weights, and follow them.
    kept, _ = LBFGS(1).run(task, trained)
    assert kept.balance == trained.balance


def test_the_weights_are_a_moving_average(posed):
    _, _, _, rows, parameters = posed
    task = Task(rows, Loss(constraint="none"), jax.random.key(0))
    ones = {name: jnp.ones(()) for name in rows.names}
    stacked = jax.tree.map(lambda leaf: leaf[None], dataclasses.replace(parameters, balance=ones))
    after = {}
    for memory in (0.0, 0.9):
        stage = Adam(3, Constant(0.0), record_every=1, balance=GradNorm(2, memory))
        trained, _ = stage.run(task, stacked)
        after[memory] = np.array([float(trained.balance[name][0]) for name in rows.names])
    # Updates before the first and the third step, with the same gradients.
    np.testing.assert_allclose(after[0.9], 0.81 + 0.19 * after[0.0], rtol=1e-10)


def test_causal_weights_wait_for_the_moments_before(rng):
    causal = Causal(4, 0.5)
    squares = np.abs(rng.normal(size=40))
    moments = rng.uniform(-1, 1, 40)
    chunks = causal.chunks(moments)
    np.testing.assert_array_equal(chunks, np.floor((moments + 1) * 2).astype(int))
    total, before = 0.0, 0.0
    for chunk in range(4):
        mean = np.mean(squares[chunks == chunk])
        total += np.exp(-0.5 * before) * mean / 4
        before += mean
    sums = lambda array: causal.sums(jnp.asarray(array), jnp.asarray(chunks))
    mean = lambda array: causal.mean(sums(array), sums(np.ones(40)))
    near(mean(squares), total, 1e-12)
    # The weights are numbers: no gradient goes through them.
    slope = jax.grad(mean)(jnp.asarray(squares))
    first = chunks == 0
    np.testing.assert_allclose(slope[first], 1 / (4 * np.sum(first)), rtol=1e-12)


def test_both_weightings_train_a_problem_in_time():
    box = Box(x=(-1, 1), t=(0, 1), time="t")
    exact = lambda x, t: jnp.exp(-2 * t) * jnp.sin(2 * x)
    problem = Problem(
        box,
        residual=lambda u, x, t: u.t - u.xx / 4 + exact(x, t),
        conditions=[Initial(lambda x, t: exact(x, 0.0)), Dirichlet(box.boundary, exact)],
        exact=exact,
    )
    recipe = (Adam(400, Constant(1e-2), record_every=50), LBFGS(150))
    where = pann.Collocation(points=256)
    method = pann.Training(stages=recipe, degree=8, network=None, collocation=where)
    both = dataclasses.replace(method, weighting=(GradNorm(every=100), "causal"))
    assert pann.solve(problem, both).rel_l2 < 1e-2
    with pytest.raises(ValueError, match="causal weighting needs a time axis"):
        pann.solve(oscillation(), dataclasses.replace(method, weighting="causal"))
    with pytest.raises(ValueError, match=r"there is no weighting 'gradnrom'.* mean gradnorm"):
        pann.Training(weighting="gradnrom")


def test_the_polynomial_may_see_some_axes_alone():
    """As in the paper's evolution problems: constant in time, a network for the rest."""
    box = Box(x=(-1, 1), t=(0, 1), time="t")
    problem = Problem(
        box,
        residual=lambda u, x, t: u.t + u.x,
        conditions=[Initial(lambda x, t: jnp.sin(x)), Dirichlet(box.face("x", "lower"), 0.0)],
    )
    recipe = (Adam(5),)
    method = pann.Training(
        stages=recipe,
        degree=7,
        axes=("x",),
        network=pann.MLP(width=4, depth=1),
        collocation=pann.Collocation(points=64),
    )
    solution = pann.solve(problem, method)
    assert solution.model.basis.num_terms == 8
    early, late = (solution.parts(x=0.3, t=t).polynomial for t in (0.1, 0.9))
    assert early == late
    with pytest.raises(ValueError, match="'y' is not an axis"):
        pann.solve(problem, dataclasses.replace(method, axes=("y",)))


def test_gated_layers_and_random_waves_train_and_are_refined():
    box = Box(x=(0, 2), t=(0, 1), time="t", periodic="x")
    problem = Problem(
        box,
        residual=lambda u, x, t: u.t + u.x,
        conditions=[Initial(lambda x, t: jnp.sin(jnp.pi * x))],
    )
    where = pann.Collocation(points=64)
    gated = pann.MLP(width=6, depth=2, gated=True)
    embedded = dataclasses.replace(gated, embedding=pann.RandomFourier(5))
    method = pann.Training(stages=(Adam(20),), degree=2, network=embedded, collocation=where)
    solution = pann.solve(problem, method)
    network = solution.model.parameters.network
    assert isinstance(network, ModifiedMLP)
    assert network.embedding.num_outputs == 10
    before, after = (solution(x=x, t=0.3) for x in (0.0, 2.0))
    assert before == pytest.approx(after, rel=1e-12)
    further = solution.refine(
        problem, pann.Training(stages=(Adam(20),), collocation=pann.Collocation(points=64))
    )
    history = further.report.history["residual"]
    assert isinstance(further.model.parameters.network, ModifiedMLP)
    assert history[-1] < solution.report.history["residual"][-1]
    alone = pann.solve(problem, pann.Polynomial(degree=2, collocation=pann.Collocation(points=64)))
    tanh = dataclasses.replace(gated, activation="tanh")
    both = pann.Hybrid(degree=2, network=tanh, iterations=10, collocation=where)
    second_order = pann.solve(problem, both)
    assert second_order.model.num_units == 6
    assert second_order.residual < alone.residual


def test_a_model_made_beforehand_is_trained():
    problem, basis = oscillation(), make_basis(oscillation().domain, 7)
    architecture = Architecture((5,), activation_named("sin"), None, 0.0, None, False, "float64")
    parameters = architecture.start(1, basis.num_terms, 1, key=jax.random.key(3))
    model = PANN(problem.domain, basis, parameters)
    still = pann.solve(
        problem,
        pann.Training(stages=(Adam(1, Constant(0.0)),), collocation=pann.Collocation(points=30)),
        start_from=model,
    )
    points = np.linspace(0, 2, 9)
    np.testing.assert_allclose(still(x=points), model(points[:, None]), rtol=1e-12)
    solution = pann.solve(problem, pann.Hybrid(iterations=20), start_from=model)
    assert solution.model.basis.num_terms == 8
    assert solution.rel_l2 < 1e-3
    other = Problem(LINE, lambda u, x: u.xx, [Dirichlet(LINE.boundary, 0.0)])
    with pytest.raises(ValueError, match=r"the model has 1 outputs on .* make it for this problem"):
        pann.solve(other, start_from=model)


def test_conditions_count_by_their_weight_and_points_by_the_reduction():
    one_step = (Adam(1, Constant(1e-12), record_every=1),)
    where = pann.Collocation(points=25, sampling="gauss")
    method = pann.Training(
        stages=one_step, degree=3, network=pann.MLP(width=4, depth=1), collocation=where
    )
    heavy = dataclasses.replace(where, condition_weight=10.0)
    terms = {}
    for name, chosen in {
        "as it is": method,
        "weighted": dataclasses.replace(method, collocation=heavy),
        "summed": dataclasses.replace(method, reduction="sum"),
    }.items():
        solution = pann.solve(poisson(), chosen)
        history = solution.report.history
        terms[name] = {key: values[0] for key, values in history.items() if key != "step"}
    plain, weighted, summed = terms.values()
    (condition,) = (name for name in plain if name.startswith("dirichlet"))
    near(weighted[condition], 100 * plain[condition], 1e-9)
    near(weighted["residual"], plain["residual"], 1e-9)
    near(summed["residual"], 25 * plain["residual"], 1e-9)
    with pytest.raises(ValueError, match="condition_weight must be a positive number, got 0"):
        pann.Collocation(condition_weight=0.0)


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_a_stage_is_compiled_once_for_all_of_its_records(precision):
    """Types that changed from the first state to the second would compile all of it again."""
    compiled_at: dict[str, list[int]] = {}
    recipe = (Adam(6, record_every=2), LBFGS(6, record_every=2))
    with count_compilations() as compiled:
        pann.solve(
            pann.problems.poisson(),
            pann.Training(
                stages=recipe,
                degree=3,
                network=pann.MLP(width=4),
                constraint="E",
                collocation=pann.Collocation(points=30, sampling="sobol"),
            ),
            precision=precision,
            progress=lambda p: compiled_at.setdefault(p.what, []).append(len(compiled)),
        )
    assert [len(counts) for counts in compiled_at.values()] == [3, 3]
    for counts in compiled_at.values():
        assert counts[0] == counts[1] == counts[2]
