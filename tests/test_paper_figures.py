"""The paper's figures: what is drawn is what the runs say; landscapes, housing, cost of a step."""

import json
import pathlib
import zlib
from typing import Any, Never

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from typer.testing import CliRunner

from pann import Box
from pann.basis import make_basis
from pann.report.charts import Bars, Chart, Lines, Map
from pann.report.plots import figure_of
from pann.runs import Result, Store, sweep
from pann.training import LBFGS, Adam, Prune
from reproduction import housing, landscape, methods, published, step_cost
from reproduction.cli import app
from reproduction.comparison import compare
from reproduction.experiments import EXPERIMENTS, MODES, experiment_named
from reproduction.figures import FIGURES, Run, label, panels_of, runs_of
from reproduction.pictures import draw
from reproduction.spectra import spectrum

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
    adam, first, lbfgs, second = methods.regression_recipe(rows[0].configuration)
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


def test_steps_are_timed_and_their_ratio_is_recorded(tmp_path: pathlib.Path) -> None:
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


# ---- Figures ----

STEPS = [500.0, 1000.0, 1500.0]


def made_up(configuration: dict, scratch: pathlib.Path) -> Result:
    """Figures that are a function of the row, so that a test can say what must be drawn of it."""
    text = json.dumps(dict(configuration), sort_keys=True)
    random = np.random.default_rng(zlib.crc32(text.encode()))
    first, second = random.uniform(0.1, 1, 2)
    if "extent" in configuration:
        alphas = np.linspace(-0.5, 0.5, configuration["resolution"])
        loss = 1e-3 + first * alphas[:, None] ** 2 + second * alphas**4
        arrays = {"loss": loss, "alphas": alphas, "eigenvalues": np.array([2 * first, -0.01])}
        return Result({"errors": {"u": [first]}}, arrays)
    if "problem" in configuration:
        names = ("residual", "dirichlet 1", "error")
        history = {"step": STEPS} | {name: [first, second, 0.0] for name in names}
        fields = ("u", "v") if configuration["problem"] == "grey_scott" else ("u",)
        errors = {field: [first, second, float("nan")] for field in fields}
        return Result({"errors": errors, "history": history, "solve_seconds": 10 * first})
    if "index_set" in configuration:
        return Result({"num_terms": configuration["dimension"] ** 2})
    if "rounds" in configuration:
        return Result({"seconds_with_tables": first, "seconds_without_tables": second, "ratio": 1})
    if "method" in configuration:
        pruned = {"pruned_network": 100 * first, "pruned_polynomial": 100 * second}
        return Result({"errors": [first, second], "fit_seconds": 60 * first, **pruned})
    fields = {name: random.normal(size=(64, 64)) for name in ("truth", "network", "polynomial")}
    energies = random.uniform(size=(41, 2))
    return Result({"errors": [first]}, fields | {"energies": energies})


def store_of(name: str, size: str, folder: pathlib.Path) -> Store:
    experiment, store = experiment_named(name), Store(folder)
    rows = [row for mode in MODES for row in experiment.rows(size, mode, None)]
    assert sweep(rows, made_up, store).done == len(rows)
    return store


def drawn_lines(panel: Any) -> dict[str, list[tuple[float, float]]]:
    return {
        line.get_label(): list(zip(*map(list, line.get_data()), strict=True))
        for line in panel.get_lines()
    }


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_is_drawn_at_the_smallest_size(name: str, tmp_path: pathlib.Path) -> None:
    figure = draw(experiment_named(name), store_of(name, "smoke", tmp_path), "smoke")
    assert figure.get_suptitle().endswith("(size smoke)")
    figure.canvas.draw()


def numbers_in_plotly(chart: Chart) -> list[float]:
    """Heights, lines and values as Plotly is given them; gaps left out."""
    traces = [each for each in figure_of(chart)["data"] if each.get("hoverinfo") != "skip"]
    axis = "z" if isinstance(chart, Map) else "x" if getattr(chart, "is_sideways", False) else "y"
    found = np.concatenate([np.ravel(np.array(each[axis], float)) for each in traces])
    return sorted(found[np.isfinite(found)])


def numbers_in_matplotlib(chart: Chart, panel: Any) -> list[float]:
    """The same as Matplotlib has drawn them."""
    if isinstance(chart, Map):
        (image,) = panel.get_images()
        found = np.ravel(image.get_array())
        found = np.log10(found) if chart.scale == "log" else found
    elif isinstance(chart, Bars):
        sideways = chart.is_sideways
        found = np.array([b.get_width() if sideways else b.get_height() for b in panel.patches])
    else:
        found = np.concatenate([np.asarray(line.get_ydata(), float) for line in panel.get_lines()])
    return sorted(found[np.isfinite(found)])


@pytest.mark.parametrize("name", FIGURES)
def test_both_renderers_show_the_same_numbers(name: str, tmp_path: pathlib.Path) -> None:
    """One description, drawn by Matplotlib and by Plotly."""
    size = "quick" if name in ("reproduction", "poisson", "constraints") else "smoke"
    experiment, store = experiment_named(name), store_of(name, size, tmp_path)
    charts = [
        chart
        for panels in panels_of(name, runs_of(experiment, store, size), size)
        for chart in panels.charts
    ]
    assert charts
    drawn = [panel for panel in draw(experiment, store, size).axes if panel.get_title()]
    assert [panel.get_title() for panel in drawn] == [chart.title for chart in charts]
    for chart, panel in zip(charts, drawn, strict=True):
        if isinstance(chart, Map) and chart.levels:  # a contour has no numbers to ask for
            found = np.log10(np.ravel(chart.values))
            found = sorted(found)
        else:
            found = numbers_in_matplotlib(chart, panel)
        steps = np.ptp(found) / 2_000 if isinstance(chart, Map) else 0.0
        np.testing.assert_allclose(numbers_in_plotly(chart), found, rtol=1e-6, atol=steps)
        if isinstance(chart, Lines):
            names = [each["name"] for each in figure_of(chart)["data"]]
            assert names == [line.get_label() for line in panel.get_lines()]


def test_lines_are_the_means_and_seconds_of_the_runs(tmp_path: pathlib.Path) -> None:
    store, experiment = store_of("reproduction", "full", tmp_path), experiment_named("reproduction")
    figure = draw(experiment, store)
    # By activation: errors of both modes, then seconds of both.
    panels = np.array(figure.axes).reshape(3, 4)
    assert [panel.get_title() for panel in panels[0]] == [
        "relative l2 error, faithful, tanh",
        "relative l2 error, default, tanh",
        "seconds, faithful, tanh",
        "seconds, default, tanh",
    ]
    names = {"tanh": "tanh", "relu": "ReLU", "repu": "RePU"}
    expected: dict[tuple[str, str, str], list[tuple[float, float, float]]] = {}
    for record in store.records("reproduction"):
        row, figures = record["configuration"], record["figures"]
        words = [row["method"], *([names[row["activation"]]] if "activation" in row else [])]
        name = " ".join(words) + (f", c = {row['c']:g}" if "c" in row else "")
        for activation in names:
            if row.get("activation") in (None, activation):
                entry = (row["num_points"], np.mean(figures["errors"]), figures["fit_seconds"])
                expected.setdefault((activation, row["mode"], name), []).append(entry)
    count = 0
    for row, activation in zip(panels, names, strict=True):
        for number, mode in enumerate(MODES):
            errors, seconds = drawn_lines(row[number]), drawn_lines(row[2 + number])
            assert set(errors) == set(seconds)
            for name, points in errors.items():
                wanted = sorted(expected[activation, mode, name])
                assert len(wanted) == 4
                np.testing.assert_allclose(points, [each[:2] for each in wanted])
                np.testing.assert_allclose(seconds[name], [(n, t) for n, _, t in wanted])
                count += 1
    assert count == len(expected)


def test_bars_of_constraints_are_the_runs_and_the_published_percentages(
    tmp_path: pathlib.Path,
) -> None:
    experiment, store = experiment_named("constraints"), store_of("constraints", "quick", tmp_path)
    (panels,) = panels_of("constraints", runs_of(experiment, store, "quick"), "quick")
    assert panels.title == "By constraint, tanh"
    errors, seconds, network, polynomial = (chart.heights for chart in panels.charts)
    assert network["E", "published"] == 97.6
    assert polynomial["E", "published"] == 99.7
    kinds = {"faithful": ("faithful", False), "faithful, signed test": ("faithful", True)}
    for kind, (mode, signed) in kinds.items():
        (record,) = (
            record
            for record in store.records()
            if (record["configuration"]["mode"], record["configuration"]["signed"])
            == (mode, signed)
            and record["configuration"]["constraint"] == "G"
        )
        figures = record["figures"]
        assert errors["G", kind] == pytest.approx(np.mean(figures["errors"]))
        assert seconds["G", kind] == figures["fit_seconds"]
        assert network["G", kind] == figures["pruned_network"]
        assert polynomial["G", kind] == figures["pruned_polynomial"]


def test_bars_of_an_equation_are_those_of_the_papers_figure(tmp_path: pathlib.Path) -> None:
    """N = 16384, the smaller c, both samplings; with each the one default run."""
    experiment = experiment_named("kdv")
    rows = [
        row
        for row in experiment.rows("full", "faithful", None)
        if row.configuration["sampling"] == "equispaced" and row.configuration["base"] == "plain"
    ]
    store = Store(tmp_path)
    sweep([*rows, *experiment.rows("full", "default", None)], made_up, store)
    runs = runs_of(experiment, store, "full")
    (panels,) = panels_of("kdv", runs, "full")
    charts = {chart.title: chart for chart in panels.charts}
    disk, equispaced = "Poisson disk, N = 16,384", "equispaced, N = 16,384"
    assert list(charts) == [f"relative l2 error, {each}" for each in (disk, equispaced)]
    heights = charts[f"relative l2 error, {equispaced}"].heights
    # Printed: 0.394 (0.18).
    assert heights["PINN 3x100", "published"] == 0.394
    (own,) = (
        run
        for run in runs
        if [run.setting(key) for key in ("model", "width", "depth", "num_points")]
        == ["PANN", 50, 5, 16_384]
        and run.setting("c") == 0.0002
    )
    # What is not finite is left out of the mean, as in the tables.
    assert heights["PANN 5x50", "faithful"] == pytest.approx(
        np.mean(own.figures["errors"]["u"][:2])
    )
    (default,) = (run for run in runs if run.mode == "default")
    of_disk = charts[f"relative l2 error, {disk}"]
    assert {kind for _, kind in of_disk.heights} == {"published", "default"}
    for chart in charts.values():
        assert chart.heights["default", "default"] == pytest.approx(default.error("u"))
        assert chart.level is not None
        assert chart.level[0] == chart.heights["default", "default"]
    left, right = draw(experiment, store).axes
    assert right.get_yscale() == "log"
    drawn = sorted(bar.get_height() for bar in right.patches)
    np.testing.assert_allclose(drawn, sorted(heights.values()))
    assert len(left.patches) == len(of_disk.heights)
    assert left.get_ylim() == right.get_ylim()


def test_a_pinn_stands_next_to_the_pann_with_its_network(tmp_path: pathlib.Path) -> None:
    store = store_of("poisson", "quick", tmp_path)
    figure = draw(experiment_named("poisson"), store, "quick")
    labels = [text.get_text() for text in figure.axes[0].get_xticklabels()]
    assert labels[0] == "PL"
    assert labels[-1] == "default"
    pairs = list(zip(labels[1:-1:2], labels[2:-1:2], strict=True))
    assert len(pairs) == 6
    for pinn, pann in pairs:
        assert pinn.replace("PINN", "PANN") == pann


def test_both_fields_of_gray_scott_have_their_panels(tmp_path: pathlib.Path) -> None:
    store, experiment = store_of("gray_scott", "smoke", tmp_path), experiment_named("gray_scott")
    (panels,) = panels_of("gray_scott", runs_of(experiment, store, "smoke"), "smoke")
    titles = [chart.title for chart in panels.charts]
    assert titles == [f"relative l2 error of {f}, Poisson disk, N = 64" for f in ("u", "v")]


def test_a_spectrum_has_its_peaks_at_the_modes_of_the_function() -> None:
    axis = np.linspace(-1, 1, 64, endpoint=False)
    values = np.cos(3 * np.pi * axis)[:, None] * np.ones(64)
    found = spectrum(values)
    assert found[32 + 3, 32] == pytest.approx(0.5)
    assert found[32 - 3, 32] == pytest.approx(0.5)
    assert found.sum() == pytest.approx(1.0)


def test_maps_and_energies_are_the_arrays_of_the_run(tmp_path: pathlib.Path) -> None:
    experiment, store = experiment_named("frequency"), store_of("frequency", "quick", tmp_path)
    (row,) = experiment.rows("quick", "faithful", None)
    arrays = store.arrays(row)
    panels = {panel.get_title(): panel for panel in reversed(draw(experiment, store, "quick").axes)}
    for title, values in (
        ("reference", arrays["truth"]),
        ("prediction", arrays["network"] + arrays["polynomial"]),
        ("network half", arrays["network"]),
    ):
        (image,) = panels[title].get_images()
        # The first axis of an array is x1, which goes to the right.
        np.testing.assert_array_equal(image.get_array(), values.T)
    fractions = arrays["energies"] / arrays["energies"].sum(axis=0)
    drawn = drawn_lines(panels["fraction of the Legendre energy"])
    np.testing.assert_allclose([each for _, each in drawn["network"]], fractions[:, 0])
    np.testing.assert_allclose([each for _, each in drawn["polynomial"]], fractions[:, 1])


def test_histories_are_drawn_over_the_steps_with_gaps_at_zero(tmp_path: pathlib.Path) -> None:
    experiment = experiment_named("equal_cost")
    store = store_of("equal_cost", "full", tmp_path / "both")
    figure = draw(experiment, store)
    panels = {panel.get_title(): panel for panel in figure.axes if panel.get_visible()}
    assert list(panels) == ["dirichlet 1", "residual", "relative l2 error", "seconds"]
    runs = {
        label(run.record["configuration"]): run
        for run in runs_of(experiment, store, "full")
        if run.mode == "faithful"
    }
    drawn = drawn_lines(panels["residual"])
    assert set(drawn) == set(runs) == {"PANN 3x50", "PINN 3x200", "PINN 5x200", "PINN 7x200"}
    for name, run in runs.items():
        first, second, _ = run.figures["history"]["residual"]
        expected = list(zip(STEPS, (first, second, np.nan), strict=True))
        np.testing.assert_array_equal(drawn[name], expected)
    widths = [bar.get_width() for bar in panels["seconds"].patches]
    assert widths == [runs[name].figures["solve_seconds"] for name in sorted(runs)]
    only_default = Store(tmp_path / "default")
    sweep(experiment.rows("full", "default", None), made_up, only_default)
    with pytest.raises(ValueError, match="shows gradient training, and the store has none"):
        draw(experiment, only_default)


def test_of_a_cell_with_several_numbers_of_trials_the_most_are_drawn(
    tmp_path: pathlib.Path,
) -> None:
    experiment, store = experiment_named("high_dimensional"), Store(tmp_path)
    rows = [experiment.rows("quick", "faithful", trials)[0] for trials in (3, 1)]
    sweep(rows, made_up, store)
    (run,) = runs_of(experiment, store, "quick")
    assert run.setting("trials") == 3
    (panels,) = panels_of("high_dimensional", [run], "quick")
    errors, seconds = ([*line.x, *line.y] for chart in panels.charts for line in chart.lines)
    assert (errors, seconds) == ([2, run.error()], [2, run.seconds])


def test_errors_that_are_not_finite_are_no_mean() -> None:
    record = {"configuration": {"mode": "faithful"}, "figures": {"errors": {"u": [None, None]}}}
    assert Run(record, Store("nowhere")).error("u") is None


# ---- The command ----


def run(*arguments: object) -> Any:
    return CliRunner().invoke(app, ["figure", *(str(argument) for argument in arguments)])


def test_the_command_writes_a_picture(tmp_path: pathlib.Path) -> None:
    store_of("landscape", "smoke", tmp_path / "store")
    out = tmp_path / "landscape.png"
    result = run(
        "figure-landscape", "--size", "smoke", "--store", tmp_path / "store", "--out", out, "--json"
    )
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout) == {"name": "landscape", "size": "smoke", "picture": str(out)}
    assert out.read_bytes().startswith(b"\x89PNG")
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_what_cannot_be_drawn_is_a_sentence(tmp_path: pathlib.Path) -> None:
    store, out = ("--store", tmp_path / "none"), tmp_path / "picture.png"
    without = next(each.name for each in EXPERIMENTS if each.name not in FIGURES)
    for arguments, message in (
        (("kdv", "--out", out), "no finished row of 'kdv' at size full; run it first"),
        ((without, "--out", out), f"'{without}' has no figure, but a table"),
        (("kdv2", "--out", out), "no experiment 'kdv2' (did you mean kdv?)"),
        (("kdv", "--size", "tiny", "--out", out), "no size 'tiny'"),
        (("kdv", "--out", tmp_path / "picture.doc"), "the name of a picture ends in"),
        (("kdv", "--out", tmp_path / "no" / "a.png"), "no folder"),
    ):
        result = run(*arguments, *store)
        assert result.exit_code == 2, result.output
        assert message in result.stderr
        assert result.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
