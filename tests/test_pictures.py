"""Pictures of solutions in time show what they say: where, when, of what, and in which colors."""

import dataclasses
import pathlib
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import matplotlib.style
import numpy as np
import pytest
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from PIL import Image

import pann
from pann.plot import animation
from pann.plot import solution as pictures
from pann.plot import values as solution_values
from pann.training import Adam, Prune


def solved(domain: pann.Box, exact: Callable[..., Any], degree: int = 2) -> pann.Solution:
    """A solution that a polynomial of low degree has exactly."""
    problem = pann.Problem.manufactured(domain, lambda u: u.d(**{domain.time: 1}), exact)
    return pann.solve(problem, pann.Polynomial(degree=degree))


@pytest.fixture(scope="module")
def rising() -> pann.Solution:
    """u = t on a domain whose first axis is space."""
    return solved(pann.Box(x=(-1, 3), t=(0, 2), time="t"), lambda x, t: t + 0 * x)


@pytest.fixture(scope="module")
def heat() -> pann.Solution:
    box = pann.Box(x=(0, 1), t=(0, 0.1), time="t")
    exact = lambda x, t: jnp.exp(-(jnp.pi**2) * t) * jnp.sin(jnp.pi * x)
    problem = pann.Problem(
        box,
        residual=lambda u: u.t - u.xx,
        conditions=[pann.Dirichlet(box.boundary, 0.0), pann.Initial(lambda x, t: exact(x, 0.0))],
        exact=exact,
        name="heat",
    )
    return pann.solve(problem, pann.Polynomial(degree=6))


@pytest.fixture(scope="module")
def plane() -> pann.Solution:
    """u = t + 2 x + 10 y with time between the axes of space."""
    box = pann.Box(x=(0, 1), t=(0, 3), y=(0, 2), time="t")
    return solved(box, lambda x, t, y: t + 2 * x + 10 * y)


@pytest.fixture(scope="module")
def trained() -> pann.Solution:
    """Both halves, after a few steps only."""
    box = pann.Box(x=(0, 1), t=(0, 1), time="t")
    problem = pann.Problem.manufactured(
        box, lambda u: u.t + u.x, lambda x, t: jnp.sin(3 * (x - t)), name="advection"
    )
    return pann.solve(
        problem,
        pann.Training(
            stages=(Adam(6, record_every=2), Prune(1e-9)),
            degree=3,
            network=pann.MLP(width=4, depth=1),
            collocation=pann.Collocation(points=100, condition_points=20),
        ),
    )


@pytest.fixture(scope="module")
def waves() -> pann.Solution:
    box = pann.Box(x=(0, 1), t=(0, 1), time="t")
    problem = pann.Problem(
        box,
        residual=lambda u, v: (u.t - v.x, v.t - u.x),
        conditions=[
            pann.Dirichlet(box.face("x", "lower"), lambda x, t: t, field="u"),
            pann.Dirichlet(box.face("x", "upper"), lambda x, t: 1 + t, field="u"),
            pann.Initial(lambda x, t: x, field="u"),
            pann.Initial(lambda x, t: x, field="v"),
        ],
        exact=lambda x, t: (x + t, x + t),
        fields=("u", "v"),
    )
    return pann.solve(problem, pann.Polynomial(degree=2))


def panels(figure: Figure) -> dict[str, Any]:
    return {panel.get_title(): panel for panel in figure.axes if panel.get_title()}


def shown(panel: Any) -> np.ndarray:
    (image,) = panel.images
    return np.asarray(image.get_array())


# ---- Over time and space ----


def test_time_goes_from_left_to_right_wherever_it_stands(rising: pann.Solution) -> None:
    other = solved(pann.Box(t=(0, 2), x=(-1, 3), time="t"), lambda x, t: t + 0 * x)
    for solution in (rising, other):
        panel = panels(solution.plot())["solution"]
        assert (panel.get_xlabel(), panel.get_ylabel()) == ("t", "x")
        assert panel.images[0].get_extent() == [0, 2, -1, 3]
        values = shown(panel)
        times = np.linspace(0, 2, values.shape[1])
        np.testing.assert_allclose(values, np.broadcast_to(times, values.shape), atol=1e-12)


def test_space_goes_upward() -> None:
    solution = solved(pann.Box(x=(-1, 3), t=(0, 2), time="t"), lambda x, t: x + 0 * t)
    panel = panels(solution.plot())["solution"]
    values = shown(panel)
    assert panel.images[0].origin == "lower"
    np.testing.assert_allclose([values[0, -1], values[-1, 0]], [-1, 3], atol=1e-12)


def test_the_error_is_that_of_the_exact_solution_on_a_scale_of_decades(heat: pann.Solution) -> None:
    figure = heat.plot()
    assert list(panels(figure)) == ["solution", "|error|", "convergence"]
    panel = panels(figure)["|error|"]
    values = shown(panel)
    x, t = (np.linspace(0, end, size) for end, size in zip((1, 0.1), values.shape, strict=True))
    x, t = np.meshgrid(x, t, indexing="ij")
    expected = np.abs(heat(x=x, t=t) - np.exp(-(np.pi**2) * t) * np.sin(np.pi * x))
    np.testing.assert_allclose(values, expected, atol=1e-14)
    norm = panel.images[0].norm
    assert isinstance(norm, LogNorm)
    assert norm.vmax == np.max(values)
    assert 1e-4 * norm.vmax <= norm.vmin <= 1e-2 * norm.vmax


def test_every_map_has_a_bar(trained: pann.Solution) -> None:
    figure = trained.plot()
    titles = ["solution", "polynomial half", "network half", "|error|", "convergence"]
    assert list(panels(figure)) == titles
    maps = [panel for panel in figure.axes if panel.images]
    assert [panel.get_title() for panel in maps] == titles[:4]
    assert all(panel.images[0].colorbar is not None for panel in maps)
    halves = shown(panels(figure)["polynomial half"]) + shown(panels(figure)["network half"])
    np.testing.assert_allclose(halves, shown(panels(figure)["solution"]), atol=1e-12)


def test_a_network_alone_has_no_halves(trained: pann.Solution) -> None:
    parameters = dataclasses.replace(
        trained.model.parameters, keep_b=jnp.zeros_like(trained.model.parameters.keep_b)
    )
    alone = dataclasses.replace(
        trained, model=dataclasses.replace(trained.model, parameters=parameters), problem=None
    )
    assert list(panels(alone.plot())) == ["solution", "convergence"]


def test_each_field_has_its_row(waves: pann.Solution) -> None:
    figure = waves.plot()
    titles = ["u: solution", "u: |error|", "v: solution", "v: |error|"]
    assert [title for title in panels(figure) if title != "convergence"] == titles
    values = shown(panels(figure)["v: solution"])
    np.testing.assert_allclose([values[0, 0], values[-1, -1]], [0, 2], atol=1e-12)


def test_only_a_field_of_both_signs_is_white_at_zero() -> None:
    wave = np.sin(np.linspace(0, 20, 2001))
    signed = pictures.field_colors(wave - 0.5).options
    assert signed["cmap"] == "RdBu_r"
    assert -signed["vmin"] == signed["vmax"] == pytest.approx(1.5, rel=1e-4)
    # A solution that is not negative may be below zero by its error.
    plain = pictures.field_colors(1 + 1.001 * wave).options
    assert plain["cmap"] == "viridis"
    assert plain["vmin"] == pytest.approx(-0.001, abs=1e-4)


def test_errors_of_zero_have_a_color() -> None:
    assert pictures.error_decades(np.zeros(5)).options["vmax"] > 0
    colors = pictures.error_decades(np.array([0.0, 1e-9, 1e-3, 1.0]))
    assert colors.extend == "min"
    assert colors.options["norm"](0.0) == 0.0
    assert colors.options["norm"](1.0) == 1.0
    assert pictures.error_decades(np.array([0.02, 1.0])).extend == "neither"


# ---- Snapshots ----


def test_snapshots_are_the_solution_at_their_times(plane: pann.Solution) -> None:
    figure = plane.plot()
    snapshots = [panel for panel in figure.axes if panel.images]
    top, bottom = snapshots[:4], snapshots[4:]
    assert [panel.get_title() for panel in top] == ["t = 0", "t = 1", "t = 2", "t = 3"]
    for time, panel in enumerate(top):
        assert panel.images[0].get_extent() == [0, 1, 0, 2]
        values = shown(panel)
        corners = [values[0, 0], values[0, -1], values[-1, 0], values[-1, -1]]
        np.testing.assert_allclose(corners, time + np.array([0, 2, 20, 22]), atol=1e-11)
    assert len({panel.images[0].get_clim() for panel in top}) == 1
    assert [panel.get_ylabel() for panel in top] == ["solution\ny", "", "", ""]
    assert [panel.get_xlabel() for panel in top] == [""] * 4
    assert [panel.get_ylabel() for panel in bottom] == ["|error|\ny", "", "", ""]
    assert [panel.get_xlabel() for panel in bottom] == ["x"] * 4
    assert "slice" not in figure.get_suptitle()


def test_a_third_dimension_of_space_is_cut() -> None:
    box = pann.Box(x=(0, 1), y=(0, 1), z=(0, 8), t=(0, 3), time="t")
    figure = solved(box, lambda x, y, z, t: t + z + 0 * x + 0 * y, degree=1).plot()
    assert "slice at z = 4" in figure.get_suptitle()
    means = [float(np.mean(shown(panel))) for panel in figure.axes if panel.images][:4]
    np.testing.assert_allclose(means, [4, 5, 6, 7], atol=1e-11)


# ---- History ----


def with_history(solution: pann.Solution, **history: list[float]) -> pann.Solution:
    return dataclasses.replace(
        solution, report=dataclasses.replace(solution.report, history=history)
    )


def test_a_history_has_every_term_by_its_name(trained: pann.Solution, tmp_path) -> None:
    figure = trained.plot_history(tmp_path / "history.png")
    (panel,) = figure.axes
    curves = {line.get_label(): line for line in panel.lines}
    history = trained.report.history
    assert set(curves) == set(history) - {"step"}
    assert {"residual", "initial 2", "fresh residual"} <= set(curves)
    for name, line in curves.items():
        np.testing.assert_allclose(line.get_ydata(), history[name])
        np.testing.assert_array_equal(line.get_xdata(), history["step"])
    strokes = {name: line.get_linestyle() for name, line in curves.items()}
    assert (strokes.pop("fresh residual"), strokes.pop("error", ":")) == ("--", ":")
    assert not {"--", ":"} & set(strokes.values())
    assert {text.get_text() for text in panel.get_legend().get_texts()} == set(curves)
    assert (panel.get_xlabel(), panel.get_ylabel()) == ("step", "value")
    assert panel.get_yscale() == "log"
    assert (tmp_path / "history.png").read_bytes().startswith(b"\x89PNG")


def test_what_has_no_logarithm_is_a_gap(heat: pann.Solution) -> None:
    odd = with_history(heat, some=[1.0, 0.0, np.inf, np.nan, 2.0], none=[0.0, 0.0])
    panel = odd.plot_history().axes[0]
    curves = {line.get_label(): line.get_ydata() for line in panel.lines}
    np.testing.assert_array_equal(curves["some"], [1.0, np.nan, np.nan, np.nan, 2.0])
    assert np.all(np.isnan(curves["none (never above 0)"]))


def test_many_terms_are_told_apart(heat: pann.Solution) -> None:
    many = with_history(heat, **{f"term {number}": [1.0, 2.0] for number in range(14)})
    styles = {
        (line.get_color(), line.get_linestyle()) for line in many.plot_history().axes[0].lines
    }
    assert len(styles) == 14


def test_no_history_is_said(heat: pann.Solution) -> None:
    message = "this solution has no history: its report holds no records; plot one that pann.solve"
    for empty in (with_history(heat), with_history(heat, term=[])):
        with pytest.raises(ValueError, match=message):
            empty.plot_history()


# ---- Moving pictures ----


def test_curves_are_the_solution_at_their_times(trained: pann.Solution) -> None:
    scene = animation.make_scene(trained, 5)
    (panel,) = scene.figure.axes
    assert (panel.get_xlabel(), panel.get_ylabel()) == ("x", "u")
    limits, low, high = panel.get_ylim(), np.inf, -np.inf
    for frame, t in enumerate(np.linspace(0, 1, 5)):
        scene.show(frame)
        curves = {line.get_label(): line.get_ydata() for line in panel.lines}
        x = panel.lines[0].get_xdata()
        network, polynomial = trained.parts(x=x, t=t)
        np.testing.assert_allclose(curves["solution"], trained(x=x, t=t), atol=1e-13)
        np.testing.assert_allclose(curves["network half"], network, atol=1e-13)
        np.testing.assert_allclose(curves["polynomial half"], polynomial, atol=1e-13)
        np.testing.assert_allclose(curves["exact"], np.sin(3 * (x - t)), atol=1e-13)
        assert scene.figure.get_suptitle() == f"advection, t = {t:.2f}"
        low = min(low, *(np.min(curve) for curve in curves.values()))
        high = max(high, *(np.max(curve) for curve in curves.values()))
        assert panel.get_ylim() == limits
    assert limits[0] < low < high < limits[1]
    styles = {line.get_label(): line.get_linestyle() for line in panel.lines}
    assert {name for name, style in styles.items() if style != "-"} == {"exact"}


def test_fields_have_panels_of_their_own(waves: pann.Solution) -> None:
    scene = animation.make_scene(waves, 3)
    scene.show(2)
    assert [panel.get_ylabel() for panel in scene.figure.axes] == ["u", "v"]
    for panel in scene.figure.axes:
        np.testing.assert_allclose(panel.lines[0].get_ydata()[[0, -1]], [1, 2], atol=1e-12)


def test_maps_are_the_solution_at_their_times_in_colors_that_stay(plane: pann.Solution) -> None:
    scene = animation.make_scene(plane, 4)
    panel = panels(scene.figure)["solution"]
    for frame in range(4):
        scene.show(frame)
        values = shown(panel)
        corners = [values[0, 0], values[0, -1], values[-1, 0], values[-1, -1]]
        np.testing.assert_allclose(corners, frame + np.array([0, 2, 20, 22]), atol=1e-11)
        np.testing.assert_allclose(panel.images[0].get_clim(), [0, 25], atol=1e-11)
    assert (panel.get_xlabel(), panel.get_ylabel()) == ("x", "y")


@pytest.mark.parametrize("name", ["heat", "plane"])
def test_all_frames_are_evaluated_in_one_call(name, request, monkeypatch) -> None:
    calls: list[Any] = []
    evaluate = solution_values.evaluate_parts
    monkeypatch.setattr(
        solution_values, "evaluate_parts", lambda *given: calls.append(given) or evaluate(*given)
    )
    animation.make_scene(request.getfixturevalue(name), 7)
    assert len(calls) == 1


def test_a_gif_has_all_frames_and_lasts_as_long_as_asked(heat: pann.Solution, tmp_path) -> None:
    heat.animate(tmp_path / "heat.gif", frames=7, seconds=1)
    assert [path.name for path in tmp_path.iterdir()] == ["heat.gif"]
    with Image.open(tmp_path / "heat.gif") as gif:
        assert (gif.n_frames, gif.info["loop"]) == (7, 0)
        durations = []
        for frame in range(gif.n_frames):
            gif.seek(frame)
            durations.append(gif.info["duration"])
    assert sum(durations) == 1000
    assert max(durations) - min(durations) <= 10


def test_a_solution_at_rest_keeps_its_frames(tmp_path) -> None:
    """Equal frames would be joined to one: the time in the title tells them apart."""
    box = pann.Box(x=(0, 1), t=(0, 1e-3), time="t")
    solved(box, lambda x, t: x + 0 * t).animate(tmp_path / "rest.gif", frames=30)
    with Image.open(tmp_path / "rest.gif") as gif:
        assert gif.n_frames == 30


def test_the_pixels_of_a_gif_have_the_colors_of_the_values(plane: pann.Solution, tmp_path) -> None:
    plane.animate(tmp_path / "plane.gif", frames=4)
    scene = animation.make_scene(plane, 4)
    panel = panels(scene.figure)["solution"]
    across, up = panel.transData.transform((0.5, 1.0))
    image = panel.images[0]
    with Image.open(tmp_path / "plane.gif") as gif:
        for frame in range(4):
            gif.seek(frame)
            pixels = np.asarray(gif.convert("RGB"), float)
            found = pixels[pixels.shape[0] - round(up), round(across)]
            expected = 255 * np.asarray(image.cmap(image.norm(frame + 11.0)))[:3]
            np.testing.assert_allclose(found, expected, atol=6)
            assert pixels[0, 0].tolist() == [255, 255, 255]


def test_a_style_of_the_user_changes_no_color(heat: pann.Solution, tmp_path) -> None:
    heat.animate(tmp_path / "white.gif", frames=2)
    with matplotlib.style.context("dark_background"):
        heat.animate(tmp_path / "dark.gif", frames=2)
    assert (tmp_path / "dark.gif").read_bytes() == (tmp_path / "white.gif").read_bytes()


def test_a_solution_from_a_file_moves(heat: pann.Solution, tmp_path) -> None:
    heat.save(tmp_path / "heat.pann")
    loaded = pann.load(tmp_path / "heat.pann")
    loaded.animate(tmp_path / "heat.gif", frames=2)
    assert (tmp_path / "heat.gif").read_bytes().startswith(b"GIF89a")
    (panel,) = animation.make_scene(loaded, 2).figure.axes
    assert [line.get_label() for line in panel.lines] == ["solution"]


# ---- Files ----


def failing(error: Exception) -> Callable[..., None]:
    def save(self: Any, path: str, *_: Any, **options: Any) -> None:
        pathlib.Path(path).write_bytes(b"half of it")
        raise error

    return save


@pytest.mark.parametrize("old", [None, b"an older picture"])
def test_a_writer_that_fails_leaves_what_was_there(heat, tmp_path, monkeypatch, old) -> None:
    files = {tmp_path / "heat.gif": heat.animate, tmp_path / "heat.png": heat.plot}
    for path in files:
        if old is not None:
            path.write_bytes(old)
    monkeypatch.setattr(Image.Image, "save", failing(RuntimeError("no more")))
    monkeypatch.setattr(Figure, "savefig", failing(RuntimeError("no more")))
    for path, draw in files.items():
        with pytest.raises(RuntimeError, match="no more"):
            draw(path)
    found = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert found == ({} if old is None else {"heat.gif": old, "heat.png": old})


def test_a_full_disk_is_said(heat, tmp_path, monkeypatch) -> None:
    full = OSError(28, "No space left on device")
    monkeypatch.setattr(Image.Image, "save", failing(full))
    with pytest.raises(ValueError, match=r"cannot write '.*heat.gif': no space left on device; "):
        heat.animate(tmp_path / "heat.gif", frames=2)
    assert list(tmp_path.iterdir()) == []


def test_a_link_stays_a_link(heat: pann.Solution, tmp_path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "link.png").symlink_to(tmp_path / "there" / "picture.png")
    heat.plot(tmp_path / "link.png")
    assert (tmp_path / "link.png").is_symlink()
    assert (tmp_path / "there" / "picture.png").read_bytes().startswith(b"\x89PNG")


NAMES = {
    "ending": ("heat.mp4", r"the name of a moving picture ends in .gif, got '.*heat.mp4'"),
    "no ending": ("heat", r"the name of a moving picture ends in .gif, got '.*heat'"),
    "no folder": ("no/heat.gif", r"there is no folder '.*no' to write to; create it first"),
    "a folder": (".", r"'.*' is a folder; name a file in it"),
}


@pytest.mark.parametrize("name, message", NAMES.values(), ids=NAMES)
def test_a_name_that_cannot_be_written_is_refused(heat, tmp_path, name, message) -> None:
    with pytest.raises(ValueError, match=message):
        heat.animate(tmp_path / name)


def test_names_of_still_pictures_are_checked_as_well(heat: pann.Solution, tmp_path) -> None:
    for draw in (heat.plot, heat.plot_history):
        with pytest.raises(ValueError, match=r"the name of a picture ends in .*\.png.*, got "):
            draw(tmp_path / "heat.doc")
        with pytest.raises(ValueError, match="there is no folder"):
            draw(tmp_path / "no" / "heat.png")


# ---- What cannot move ----


def test_a_moving_picture_needs_time(tmp_path) -> None:
    box = pann.Box(x=(0, 1), y=(0, 1))
    problem = pann.Problem.manufactured(box, lambda u: u.xx + u.yy, lambda x, y: x + y)
    still = pann.solve(problem, pann.Polynomial(degree=2))
    with pytest.raises(ValueError, match="needs a time axis, and the axes x, y have none; make"):
        still.animate(tmp_path / "still.gif")


@pytest.mark.parametrize("space, given", [("xyz", r"3 \(x, y, z\)"), ("", r"0 \(none\)")])
def test_a_moving_picture_needs_one_or_two_dimensions_of_space(space, given, tmp_path) -> None:
    box = pann.Box(**{name: (0, 1) for name in (*space, "t")}, time="t")
    solution = solved(box, lambda **at: at["t"], degree=1)
    with pytest.raises(ValueError, match=f"next to 't', here they are {given}; use plot"):
        solution.animate(tmp_path / "many.gif")


@pytest.mark.parametrize("frames", [1, 0, -3])
def test_a_moving_picture_needs_frames(heat: pann.Solution, tmp_path, frames) -> None:
    with pytest.raises(ValueError, match=f"frames must be an integer of at least 2, got {frames}"):
        animation.animate(heat, tmp_path / "heat.gif", frames)


@pytest.mark.parametrize("seconds", [0.0, 1.0, -1.0, np.inf, np.nan])
def test_a_frame_must_last(heat: pann.Solution, tmp_path, seconds: float) -> None:
    message = "60 frames need at least 1.2 seconds, .*, got seconds=.*; give fewer frames or more"
    with pytest.raises(ValueError, match=message):
        heat.animate(tmp_path / "heat.gif", 60, seconds)
