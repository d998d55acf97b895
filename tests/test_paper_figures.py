"""The paper's figures: what is drawn is what the runs say; landscapes, housing, cost of a step."""

import pathlib
from typing import Any, Never

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pann.basis import make_basis
from pann.domain import Box
from pann.paper import housing, landscape, published, step_cost
from pann.paper.comparison import compare
from pann.paper.experiments import experiment_named
from pann.runs import Store, sweep
from pann.training import LBFGS, Adam, Prune

# ---- The loss around a trained network ----


def test_leading_eigenvectors_are_those_of_the_dense_hessian() -> None:
    """The sum of squares of a network with one hidden layer, its Hessian by jax.hessian."""
    x = jnp.linspace(-1, 1, 9)

    def loss(flat: jax.Array) -> jax.Array:
        weights, biases, a = flat.reshape(3, 4)
        return jnp.sum((jnp.tanh(x[:, None] * weights + biases) @ a - jnp.sin(3 * x)) ** 2)

    with jax.enable_x64(True):
        place = jnp.asarray(np.random.default_rng(1).standard_normal(12))
        values, vectors = landscape.leading_eigenvectors(loss, place)
        expected, dense = np.linalg.eigh(jax.hessian(loss)(place))
    order = np.argsort(-np.abs(expected))[:2]
    np.testing.assert_allclose(values, expected[order], rtol=1e-10)
    overlaps = np.abs(np.sum(vectors * dense.T[order], axis=1))
    np.testing.assert_allclose(overlaps, 1.0, rtol=1e-10)


def test_the_plane_of_a_quadratic_is_that_of_its_two_largest_eigenvalues() -> None:
    diagonal = np.array([1.0, -7.0, 3.0, 0.5])
    quadratic = lambda flat: 0.5 * jnp.sum(jnp.asarray(diagonal) * flat**2)
    steps = np.linspace(-1, 1, 5)
    with jax.enable_x64(True):
        place = jnp.zeros(4)
        values, directions = landscape.leading_eigenvectors(quadratic, place)
        plane = landscape.on_plane(quadratic, place, directions, steps)
    np.testing.assert_allclose(values, [-7.0, 3.0], rtol=1e-12)
    expected = -3.5 * steps[:, None] ** 2 + 1.5 * steps[None, :] ** 2
    np.testing.assert_allclose(plane, expected, atol=1e-12)
    assert landscape.num_local_minima(plane) == 0
    assert landscape.num_local_minima(np.abs(plane) + (plane != 0)) == 1
    with pytest.raises(ValueError, match="2 eigenvectors need more than 2 parameters, got 2"):
        landscape.leading_eigenvectors(quadratic, jnp.zeros(2))


@pytest.mark.slow
def test_a_landscape_has_the_loss_that_was_trained_in_its_middle(tmp_path: pathlib.Path) -> None:
    experiment, store = experiment_named("landscape"), Store(tmp_path)
    rows = experiment.rows("smoke", "faithful", None)
    assert sweep(rows, experiment.work, store).done == len(rows) == 2
    for row in rows:
        figures, arrays = store.record(row)["figures"], store.arrays(row)
        count = row.configuration["resolution"]
        assert arrays["loss"].shape == (count, count)
        assert arrays["loss"][count // 2, count // 2] == pytest.approx(figures["loss"], rel=1e-12)
        first, second = np.abs(arrays["eigenvalues"])
        assert first >= second > 0
        told = {name: values[-1] for name, values in figures["history"].items()}
        of_loss = set(told) - {"step", "error", "fresh residual"}
        assert len(of_loss) == (3 if row.configuration["model"] == "PANN" else 2)
        total = sum(told[name] for name in of_loss)
        assert figures["loss"] == pytest.approx(total, rel=1e-5)


# ---- California housing ----


def test_every_published_cell_of_the_housing_data_has_its_row() -> None:
    rows = experiment_named("housing").rows("full", "faithful", None)
    printed = published.load("housing")
    assert len(rows) == len(printed) == 37
    cells = {tuple(str(row.configuration.get(key, "")) for key in housing.CELL) for row in rows}
    assert len(cells) == 37
    for record in printed.to_dict("records"):
        told = ["" if published.is_missing(record[k]) else str(record[k]) for k in housing.CELL]
        assert tuple(told) in cells
    adam, first, lbfgs, second = housing.recipe(rows[0].configuration)
    assert isinstance(adam, Adam)
    assert isinstance(lbfgs, LBFGS)
    assert (adam.steps, adam.batch_size, lbfgs.iterations) == (20_000, None, 400)
    assert first == second == Prune(1e-4)
    assert all(row.configuration["num_folds"] == 4 for row in rows)


def test_missing_housing_data_are_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    import sklearn.datasets

    def refuse(**_: Any) -> Never:
        raise OSError("no network")

    monkeypatch.setattr(sklearn.datasets, "fetch_california_housing", refuse)
    (row,) = experiment_named("housing").rows("smoke", "default", None)
    with pytest.raises(
        ValueError, match=r"neither on disk .* \(no network\); set SCIKIT_LEARN_DATA"
    ):
        housing.run(row.configuration, pathlib.Path())


@pytest.mark.slow
def test_housing_runs_at_the_smallest_size(tmp_path: pathlib.Path) -> None:
    from sklearn.datasets import get_data_home

    if not (pathlib.Path(get_data_home()) / "cal_housing_py3.pkz").is_file():
        pytest.skip("California housing is not on disk; set SCIKIT_LEARN_DATA to its folder")
    experiment, store = experiment_named("housing"), Store(tmp_path)
    rows = experiment.rows("smoke", "faithful", None)
    assert {row.configuration["method"] for row in rows} == {"PANN", "PL", "DNN"}
    summary = sweep(rows, experiment.work, store)
    assert summary.done == 3, [record.get("reason") for record in store.records()]
    for row in rows:
        (error,) = store.record(row)["figures"]["errors"]
        # Zero has an error of 1, and what the best regressors reach is 0.2.
        assert 0.2 < error < 3
    assert len(compare(experiment, store, "smoke").lines) == len(rows)


# ---- The cost of a step ----


def test_what_is_evaluated_at_each_step_is_the_table() -> None:
    basis = make_basis(Box.cube(2), 9)
    places = np.random.default_rng(0).uniform(-1, 1, (7, 2))
    with jax.enable_x64(True):
        fresh = step_cost.legendre_table(jnp.asarray(places), np.asarray(basis.indices))
    np.testing.assert_allclose(fresh, basis.table(places), rtol=1e-12, atol=1e-12)


def test_steps_are_timed_and_their_ratio_is_told(tmp_path: pathlib.Path) -> None:
    experiment, store = experiment_named("tables"), Store(tmp_path)
    (row, *_) = experiment.rows("smoke", "faithful", None)
    assert sweep([row], experiment.work, store).done == 1
    figures = store.record(row)["figures"]
    with_tables, without = figures["seconds_with_tables"], figures["seconds_without_tables"]
    assert min(with_tables, without) > 0
    assert figures["ratio"] == pytest.approx(with_tables / without)
    table = compare(experiment, store, "smoke")
    assert {line[table.columns.index("part")] for line in table.lines} == {
        "seconds with tables",
        "seconds without tables",
        "ratio",
    }
