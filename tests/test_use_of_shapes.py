"""What users do with a solution on a shape: values, pictures, files, integrals, other programs."""

import base64
import xml.etree.ElementTree

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special

import pann
from pann.basis import ShapeBasis
from pann.io import FileError, load, model_from_state, model_state, save
from pann.plot.solution import field_colors, ticks_of
from pann.plot.values import values_on_grid
from pann.shapes import (
    Ball,
    Cuboid,
    Curve,
    Cylinder,
    Disk,
    Ellipse,
    Implicit,
    Mesh,
    Polygon,
    Rectangle,
)
from pann.solvers.polynomial import polynomial_model

PLATE = Rectangle(x=(-1, 1), y=(-1, 1)) - Disk((0.2, 0.1), 0.4)


def poisson(shape, degree=10, exact=None, **options):
    """u_xx + u_yy = -1 with u = 0, or with the values of a harmonic function."""
    value, source = (0.0, 1.0) if exact is None else (exact, 0.0)
    problem = pann.Problem(
        shape,
        lambda u: u.xx + u.yy + source,
        [pann.Dirichlet(shape.boundary, value)],
        exact=exact,
        **options,
    )
    return pann.solve(problem, pann.Polynomial(degree=degree))


@pytest.fixture(scope="module")
def plate():
    return poisson(PLATE, name="plate")


# ---- Values ----


def test_values_outside_are_nan_and_those_on_the_boundary_are_not(plate):
    x, y = np.array([0.2, 0.9, 5.0, -1.0]), np.array([0.1, 0.9, 0.0, 1.0])
    outside = [True, False, True, False]
    assert np.isnan(plate(x, y)).tolist() == outside
    assert np.isnan(plate.derivative({"x": 1}, x=x, y=y)).tolist() == outside
    assert np.isnan(plate.parts(x=x, y=y).network).tolist() == outside
    assert np.isnan(plate.model(np.stack([x, y], axis=1))).tolist() == outside
    points = PLATE.boundary.points(300)[0]
    assert np.max(np.abs(plate(*points.T))) < 1e-6
    grid = plate.to_xarray(21)["u"]
    assert np.array_equal(
        np.isnan(grid.values.ravel()),
        ~PLATE.inside(np.stack(np.meshgrid(grid.x, grid.y, indexing="ij"), -1).reshape(-1, 2)),
    )


def test_all_points_may_be_outside(plate):
    assert np.isnan(plate(np.array([3.0, 0.2]), np.array([0.0, 0.1]))).all()
    assert np.isnan(plate(3.0, 0.0))


def test_times_outside_are_refused_and_places_are_nan():
    disk = Disk()
    problem = pann.Problem(
        disk.in_time(t=(0.0, 0.1)),
        lambda u: u.t - u.xx - u.yy,
        [pann.Dirichlet(disk.boundary, 1.0), pann.Initial(1.0)],
    )
    solution = pann.solve(problem, pann.Polynomial(degree=2))
    assert np.isnan(solution(2.0, 0.0, 0.05))
    assert solution(0.5, 0.0, 0.05) == pytest.approx(1.0)
    with pytest.raises(ValueError, match=r"t = 7\.0, which must be in"):
        solution(0.5, 0.0, 7.0)


@pytest.mark.parametrize(
    "point, how_far", [((0.2, 0.1), r"0\.4 away"), ((0.5, 1.000001), "1e-06 away")]
)
def test_data_outside_are_named_with_their_distance(point, how_far):
    data = pann.Data([(0.9, 0.9), point], [0.0, 1.0])
    problem = pann.Problem(
        PLATE, lambda u: u.xx + u.yy, [pann.Dirichlet(PLATE.boundary, 0.0), data]
    )
    with pytest.raises(ValueError, match=rf"1 of 2 points of Data .* point 1 at .*{how_far}"):
        pann.solve(problem)


# ---- Pictures ----


def test_colors_are_those_of_values_inside():
    inside = np.linspace(1, 2, 50)
    values = np.append(inside, np.nan)
    assert field_colors(values).options == field_colors(inside).options


def test_the_known_solution_is_not_asked_outside_for_a_picture():
    with np.errstate(all="ignore"):
        solution = poisson(Disk(), 4, lambda x, y: x + 0 * np.sqrt(1.01 - x**2 - y**2))
    values = values_on_grid(solution, ticks_of(solution))["u"]
    assert np.array_equal(np.isnan(values["|error|"]), np.isnan(values["solution"]))
    assert np.nanmax(values["|error|"]) < 1e-9


def pixels(figure):
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[:, :, :3]


def test_a_picture_is_blank_outside_and_full_inside(plate):
    figure = plate.plot()
    panel, picture = figure.axes[0], pixels(figure)

    def color(x, y):
        across, up = panel.transData.transform((x, y))
        return picture[picture.shape[0] - 1 - round(up), round(across)]

    assert panel.get_aspect() == 1.0
    for x, y in [(0.2, 0.1), (0.5, 0.2), (-0.1, 0.0)]:
        assert (color(x, y) == 255).all()
    for x, y in [(0.9, 0.9), (-0.9, -0.9), (0.65, 0.1), (-0.25, 0.1)]:
        assert not (color(x, y) == 255).all()


def test_a_shape_shows_the_names_of_its_parts_and_its_corners(tmp_path):
    shape = PLATE - Disk((-0.7, -0.7), 0.05)
    figure = shape.plot(tmp_path / "shape.png")
    panel = figure.axes[0]
    assert (tmp_path / "shape.png").stat().st_size > 1_000
    assert {text.get_text() for text in panel.texts} == set(shape.boundary.names)
    (corners,) = panel.lines
    assert len(corners.get_xdata()) == 4


def test_a_moving_picture_of_a_shape(tmp_path):
    disk = Disk(radius=0.5)
    problem = pann.Problem(
        disk.in_time(t=(0.0, 0.1)),
        lambda u: u.t - u.xx - u.yy,
        [pann.Dirichlet(disk.boundary, 0.0), pann.Initial(lambda x, y: 0.25 - x**2 - y**2)],
    )
    solution = pann.solve(problem, pann.Polynomial(degree=4))
    solution.animate(tmp_path / "a.gif", frames=2, seconds=0.1)
    from PIL import Image

    with Image.open(tmp_path / "a.gif") as image:
        assert np.asarray(image.convert("RGB")).std() > 5


# ---- Integrals ----


STAR = Curve(
    lambda t: ((1 + 0.3 * np.cos(5 * t)) * np.cos(t), (1 + 0.3 * np.cos(5 * t)) * np.sin(t))
)
L_SHAPE = Polygon([(0, 0), (1, 0), (1, -1), (-1, -1), (-1, 1), (0, 1)])


@pytest.fixture(scope="module")
def ring():
    """u = log r between r = 1/2 and r = 1, v = x + y, moved to (0.3, -0.2)."""
    shape = (Disk() - Disk(radius=0.5).renamed(disk="hole")).moved(0.3, -0.2)
    log = lambda x, y: jnp.log((x - 0.3) ** 2 + (y + 0.2) ** 2) / 2
    return poisson(shape, 8, log)


def constant(domain):
    """The solution u = 1 + x."""
    value = lambda x: 1 + x
    problem = pann.Problem(domain, lambda u: u.xx + u.yy, [pann.Dirichlet(domain.boundary, value)])
    return pann.solve(problem, pann.Polynomial(degree=2))


def test_the_flux_of_log_r_is_two_pi_through_any_loop(ring):
    flux = lambda u, nx, ny: u.x * nx + u.y * ny
    assert ring.integrate(flux, over="disk") == pytest.approx(2 * np.pi, abs=1e-7)
    assert ring.integrate(flux, over="hole") == pytest.approx(-2 * np.pi, abs=1e-7)
    boundary = ring.model.domain.shape.boundary
    assert ring.integrate(flux, over=boundary) == pytest.approx(0, abs=1e-7)
    half = boundary["disk"].where(lambda x: x > 0.3)
    assert ring.integrate(flux, over=half) == pytest.approx(np.pi, abs=1e-7)


def test_the_integral_over_a_ring_is_that_of_the_formula(ring):
    # 2 pi times the integral of r log r from 1/2 to 1.
    exact = 2 * np.pi * (-1 / 4 - (np.log(0.5) / 8 - 1 / 16))
    assert ring.integrate() == pytest.approx(exact, rel=1e-8)


@pytest.mark.parametrize(
    "shape, area, moment",
    [
        (Disk((1.0, 2.0), 0.5), np.pi / 4, np.pi / 4 * (1 + 0.25 / 4)),
        (Ellipse((0, 0), (2.0, 0.5), 0.0), np.pi, np.pi * 4 / 4),
        (L_SHAPE, 3.0, 1.0),
        (Rectangle(x=(0, 2), y=(0, 1)) - Disk((1, 0.5), 0.25), 2 - np.pi / 16, None),
        (STAR, np.pi * (1 + 0.3**2 / 2), None),
    ],
    ids=["disk", "ellipse", "L", "plate", "star"],
)
def test_areas_and_moments_are_those_of_formulas(shape, area, moment):
    solution = constant(shape)
    found, second = solution.integrate(lambda u, x: (u - x, x**2))
    assert found == pytest.approx(area, rel=1e-11)
    if moment is not None:
        assert second == pytest.approx(moment, rel=1e-11)
    # The divergence theorem for (x^3 / 3, 0), and once more with derivatives of u.
    around = solution.integrate(lambda x, nx: x**3 / 3 * nx, over=shape.boundary)
    assert around == pytest.approx(second, rel=1e-11)
    assert solution.integrate(lambda u, nx: u.x * nx, over=shape.boundary) == pytest.approx(
        0, abs=1e-10
    )


def test_integrals_on_boxes_and_at_times():
    box = pann.Box(x=(0, 1), y=(0, 2), t=(0, 1), time="t")
    problem = pann.Problem(
        box,
        lambda u: u.t - u.xx - u.yy - 1,
        [pann.Dirichlet(box.boundary, lambda x, y, t: t + x), pann.Initial(lambda x: x)],
    )
    solution = pann.solve(problem, pann.Polynomial(degree=3))
    times = np.array([0.0, 0.25, 1.0])
    assert solution.integrate(t=times) == pytest.approx(1 + 2 * times, abs=1e-10)
    right = box.face("x", "upper") + box.face("x", "lower")
    assert solution.integrate(lambda u, nx: u * nx, right, t=0.5) == pytest.approx(2, abs=1e-10)
    with pytest.raises(ValueError, match=r"integrals are at times: give t"):
        solution.integrate()


def test_integrals_over_elements():
    box = pann.Box(x=(0, 1), y=(0, 1))
    problem = pann.Problem(
        box, lambda u: u.xx + u.yy, [pann.Dirichlet(box.boundary, lambda x, y: x**2 - y**2)]
    )
    solution = pann.solve(problem, pann.Elements(degree=4))
    exact = pytest.approx(4 / 3, rel=1e-8)
    assert solution.integrate(lambda u: u.x**2) == exact
    face = box.face("y", "upper")
    assert solution.integrate(lambda u, ny: u.y * ny, over=face) == pytest.approx(-2, rel=1e-6)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"over": "disc"}, "did you mean 'disk'"),
        ({"over": Disk().boundary}, "take parts of its own boundary"),
        ({"function": lambda u, nx: u}, "asks for 'nx', which is not among u, x, y"),
        ({"t": 3.0}, "'t' cannot be given: integrals are over all axes"),
    ],
)
def test_mistakes_in_integrals_are_explained(ring, arguments, message):
    with pytest.raises(ValueError, match=message):
        ring.integrate(**arguments)


def test_an_integral_that_does_not_settle_says_so(ring):
    with pytest.warns(UserWarning, match="is not smooth"):
        ring.integrate(lambda x, y: np.sin(1e3 * np.sin(50 * x * y)))


# ---- Files ----


def model_on(shape, degree):
    basis = ShapeBasis(shape.box, degree)
    b = np.random.default_rng(3).normal(size=(len(basis), 1))
    with jax.enable_x64(True):
        return polynomial_model(shape.box, basis, b)


AROUND = 2 * np.pi * np.arange(20) / 20
THROUGH = Curve.through(np.stack([2 * np.cos(AROUND), np.sin(AROUND)], axis=1))
LENS = Curve(
    lambda t: (np.cos(t), np.where(t < np.pi, np.sin(t), 0.5 * np.sin(t))), corners=(0.0, np.pi)
)


@pytest.mark.parametrize(
    "shape",
    [
        PLATE.renamed(disk="hole").rotated(0.3).moved(1.0, 2.0),
        L_SHAPE | Ellipse((0.0, 0.0), (0.3, 0.2), 0.1),
        STAR - Disk(radius=0.2),
        LENS & Rectangle(x=(-0.5, 0.9), y=(-1.0, 1.0)),
        THROUGH,
        STAR.scaled(0.1, about=(1.0, 1.0)) | LENS,
    ],
    ids=["plate", "L", "star", "lens", "through", "pieces"],
)
def test_a_shape_comes_back_from_a_file(shape, tmp_path):
    model = model_on(shape, 3)
    save(tmp_path / "model.pann", model)
    loaded = load(tmp_path / "model.pann")
    low, high = np.asarray(shape.lower), np.asarray(shape.upper)
    points = np.random.default_rng(4).uniform(low - 0.1, high + 0.1, (5_000, 2))
    points = np.concatenate([points, shape.boundary.points(500)[0]])
    assert np.array_equal(loaded(points), model(points), equal_nan=True)
    again = loaded.domain.shape
    assert again.area == pytest.approx(shape.area, rel=1e-13)
    assert again.boundary.names == shape.boundary.names
    assert len(again.corners) == len(shape.corners)
    # What was loaded is saved as it was.
    (description, arrays), (other, same) = model_state(model), model_state(loaded)
    assert description == other
    assert all(np.array_equal(array, same[name]) for name, array in arrays.items())


CORNERS = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
TETRAHEDRON = Mesh(CORNERS, [[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]])
ROUND = Implicit(lambda x, y: x**4 + y**4 - 1, x=(-2, 2), y=(-2, 2))


@pytest.mark.parametrize(
    "shape, volume",
    [
        (Ball((1.0, 2.0, 3.0), 0.5) - Ball((1.0, 2.0, 3.0), 0.2), 4 / 3 * np.pi * 0.117),
        (Cuboid(x=(0, 1), y=(0, 2), z=(0, 1)), 2.0),
        (Cylinder(axis="x", height=3).rotated(0.3, axis="z"), 3 * np.pi),
        (Disk((2.0, 0.0), 0.5).revolved("y"), np.pi**2),
        (TETRAHEDRON.moved(1, 2, 3) - Ball((1.2, 2.2, 3.2), 0.1), 1 / 6 - 4e-3 / 3 * np.pi),
        (ROUND.extruded(z=(0, 1)), scipy.special.gamma(0.25) ** 2 / (2 * np.sqrt(np.pi))),
    ],
    ids=["shell", "cuboid", "cylinder", "ring", "mesh", "implicit"],
)
def test_a_body_comes_back_from_a_file(shape, volume, tmp_path):
    model = model_on(shape, 2)
    save(tmp_path / "model.pann", model)
    loaded = load(tmp_path / "model.pann")
    low, high = np.asarray(shape.lower), np.asarray(shape.upper)
    points = np.random.default_rng(4).uniform(low - 0.1, high + 0.1, (2_000, 3))
    assert np.array_equal(loaded(points), model(points), equal_nan=True)
    again = loaded.domain.shape
    assert again.volume == pytest.approx(volume, rel=3e-3)
    assert again.boundary.names == shape.boundary.names
    (description, arrays), (other, same) = model_state(model), model_state(loaded)
    assert description == other
    assert all(np.array_equal(array, same[name]) for name, array in arrays.items())


def test_an_implicit_shape_comes_back_with_its_hole(tmp_path):
    rings = Implicit(lambda x, y: (x**2 + y**2 - 1) * (x**2 + y**2 - 0.25), x=(-2, 2), y=(-2, 2))
    save(tmp_path / "model.pann", model_on(rings, 2))
    loaded = load(tmp_path / "model.pann").domain.shape
    assert loaded.area == pytest.approx(0.75 * np.pi, rel=1e-13)
    assert loaded.boundary.names == ("implicit",)
    assert len(loaded.holes) == 1


BODY = Disk((2.0, 0.0), 0.5).revolved("y") - TETRAHEDRON.moved(2.0, 0.0, 0.0)
BODY = BODY | Disk().extruded(z=(-4, -3)) | Ball((0.0, 9.0, 0.0))


@pytest.mark.parametrize(
    "kind, change_of, message",
    [
        ("ball", {"center": [0.0, 9.0]}, "a ball has a center in three dimensions or more"),
        ("ball", {"names": ["x", "y", "self"]}, "has axes x, y, z and Ball"),
        ("ball", {"radius": "code()"}, "must be a finite number"),
        ("extruded", {"axis": "self"}, "'self' cannot name an axis"),
        ("extruded", {"axis": "x"}, "names are 3 different names"),
        ("extruded", {"low": 3.0}, "finite low < high"),
        ("extruded", {"of": []}, "made of at least 1 others, but of 0"),
        ("revolved", {"axis": "z"}, "revolved about one of its axes x, y, got 'z'"),
        ("revolved", {"third": "w"}, "x, y, w"),
        ("mesh", {"count": 3}, "integer from 4"),
        ("mesh", {"count": 2_000_000}, "'shape_2_corners' must be float64 of shape"),
    ],
)
def test_hostile_bodies_are_refused(kind, change_of, message):
    description, arrays = model_state(model_on(BODY, 1))
    shapes = description["domain"]["shape"]
    next(each for each in shapes if each["kind"] == kind).update(change_of)
    with pytest.raises(FileError, match=message):
        model_from_state(description, arrays)


def test_meshes_in_files_are_whole_and_turned_outward():
    description, arrays = model_state(model_on(TETRAHEDRON, 1))
    name = next(name for name in arrays if name.endswith("corners"))
    corners = arrays[name]
    assert np.array_equal(corners, TETRAHEDRON.surface.corners)
    inside_out, open_one = corners[:, ::-1], corners.copy()
    open_one[0, 0] += 0.1
    flat = corners * np.array([1.0, 1.0, 0.0])
    for wrong, message in (
        (inside_out, "its inside outside"),
        (open_one, "is not watertight"),
        (flat, "has no volume|is not watertight"),
        (np.zeros_like(corners), "is not watertight|no volume|none"),
        (np.full_like(corners, np.nan), "NaN or infinite"),
        (1e308 * corners, "nearly agree"),
    ):
        with pytest.raises(FileError, match=message):
            model_from_state(description, arrays | {name: wrong})


def test_a_solution_with_functions_of_holes_comes_back(ring, tmp_path):
    ring.save(tmp_path / "ring.pann")
    loaded = pann.load(tmp_path / "ring.pann")
    x, y = np.meshgrid(np.linspace(-1, 2, 60), np.linspace(-2, 1, 60))
    assert np.array_equal(loaded(x, y), ring(x, y), equal_nan=True)
    flux = lambda u, nx, ny: u.x * nx + u.y * ny
    assert loaded.integrate(flux, over="hole") == pytest.approx(-2 * np.pi, abs=1e-7)
    derivative = loaded.derivative({"x": 1}, x=1.0, y=-0.2)
    assert derivative == pytest.approx(1 / 0.7, rel=1e-7)


def change(key, value):
    """A change of the list of shapes of a rectangle less a disk."""
    number, key = key
    return lambda shapes: shapes[number].update({key: value})


@pytest.mark.parametrize(
    "damage, message",
    [
        (change((1, "radius"), -1.0), "a radius is positive, got -1"),
        (change((1, "center"), [0.0] * 3), "3 entries, more than the 2 allowed"),
        (change((1, "kind"), "Path"), "the kind of a shape must be one of rectangle, disk"),
        (change((2, "of"), [0, 0]), "uses a shape twice"),
        (change((2, "of"), [0, 2]), "uses a shape twice, or before it is there"),
        (change((2, "of"), [0]), "made of at least 2 others, but of 1"),
        (change((0, "of"), [0]), "uses a shape twice, or before it is there"),
        (change((1, "of"), [0]), "a shape is made of others that it has no place for"),
        (change((2, "operation"), "+"), "must be one of -, |, &"),
        (change((1, "names"), ["x", "x"]), "names are 2 different names"),
        (lambda shapes: shapes.pop(), "shapes that nothing is made of"),
        (lambda shapes: shapes.clear(), "has 0 entries, fewer than the 1"),
        (lambda shapes: shapes.extend([shapes[1]] * 600), "603 entries, more than the 500"),
        (change((0, "axes"), [{"name": "x", "lower": 0.0, "upper": 1.0}]), "two axes"),
        (change((1, "radius"), 5.0), "is empty"),
        (
            change((0, "axes"), [{"name": n, "lower": -1.0, "upper": 2.0} for n in "xy"]),
            "the domain is not the bounding box of its shape",
        ),
    ],
)
def test_hostile_shapes_are_refused(damage, message):
    description, arrays = model_state(model_on(PLATE, 1))
    damage(description["domain"]["shape"])
    with pytest.raises(FileError, match=message):
        model_from_state(description, arrays)


def test_a_basis_of_a_shape_needs_a_shape_and_its_arrays():
    description, arrays = model_state(model_on(PLATE, 3))
    box = {**description, "domain": {**description["domain"]}}
    del box["domain"]["shape"]
    with pytest.raises(FileError, match="one of shapes, but the domain is a box"):
        model_from_state(box, arrays)
    large = {**description, "basis": {**description["basis"], "degree": 300}}
    with pytest.raises(FileError, match=r"array 'mix_3' is missing|must be float64"):
        model_from_state(large, arrays)
    with pytest.raises(FileError, match="'last_1' must be float64 of shape"):
        model_from_state(description, arrays | {"last_1": np.ones((2, 2))})


# ---- Other programs ----


def read_vtu(path):
    """Points, cells and fields of a file, by its description alone."""
    root = xml.etree.ElementTree.parse(path).getroot()
    (piece,) = root.iter("Piece")
    found = {}
    for array in piece.iter("DataArray"):
        content = base64.b64decode(array.text)
        assert int.from_bytes(content[:4], "little") == len(content) - 4
        values = np.frombuffer(content[4:], array.get("type").lower())
        found[array.get("Name")] = values.reshape(-1, int(array.get("NumberOfComponents")))
    assert len(found["points"]) == int(piece.get("NumberOfPoints"))
    assert len(found["types"]) == int(piece.get("NumberOfCells"))
    return found


def test_a_grid_for_paraview_covers_the_shape_with_its_values(plate, tmp_path):
    plate.to_vtk(tmp_path / "u.vtu", resolution=61)
    found = read_vtu(tmp_path / "u.vtu")
    points = found["points"][:, :2]
    assert np.array_equal(found["u"][:, 0], plate(*points.T))
    assert np.all(found["points"][:, 2] == 0)
    assert set(found["types"].ravel()) == {5}
    cells = found["connectivity"].reshape(-1, 3)
    assert np.array_equal(found["offsets"].ravel(), 3 * np.arange(1, len(cells) + 1))
    a, b, c = np.moveaxis(points[cells], 1, 0)
    twice = (b - a)[:, 0] * (c - a)[:, 1] - (b - a)[:, 1] * (c - a)[:, 0]
    assert twice.min() > 0
    assert twice.sum() / 2 == pytest.approx(PLATE.area, rel=2e-3)
    values = found["u"].ravel()[cells].mean(axis=1) @ twice / 2
    assert values == pytest.approx(plate.integrate(), rel=1e-2)


def test_a_grid_of_a_box_at_a_time(tmp_path):
    box = pann.Box(x=(0, 2), y=(0, 1), t=(0, 1), time="t")
    problem = pann.Problem(
        box, lambda u: u.t - 1, [pann.Initial(lambda x, y: x * y)], exact=lambda x, y, t: t + x * y
    )
    solution = pann.solve(problem, pann.Polynomial(degree=2))
    solution.to_vtk(tmp_path / "u.vtu", resolution=11, t=0.5)
    found = read_vtu(tmp_path / "u.vtu")
    x, y, _ = found["points"].T
    assert len(x) == 11 * 6
    assert found["u"].ravel() == pytest.approx(0.5 + x * y)
    with pytest.raises(ValueError, match="at one time: give t"):
        solution.to_vtk(tmp_path / "u.vtu")
    with pytest.raises(ValueError, match=r"ends in \.vtu"):
        solution.to_vtk(tmp_path / "u.vtk", t=0.5)


# ---- Fits ----


def test_a_fit_on_a_shape_knows_where_it_ends(tmp_path):
    half = Disk() & Rectangle(x=(-1, 1), y=(0, 1))
    points = np.random.default_rng(5).uniform((-1, 0), (1, 1), (900, 2))
    inside = np.hypot(*points.T) <= 1
    values = np.exp(points[:, 0]) * np.cos(points[:, 1])
    fit = pann.fit(points[inside], values[inside], pann.Polynomial(degree=12), domain=half)
    save(tmp_path / "fit.pann", fit.model)
    for each in (fit, load(tmp_path / "fit.pann")):
        found = np.ravel(each(points))
        assert np.isnan(found[~inside]).all()
        assert abs(found - values)[inside].max() < 1e-9
    worst = points[~inside][np.hypot(*points[~inside].T).argmax()]
    place = rf"x = {worst[0]:.6}.*, y = {worst[1]:.6}"
    with pytest.raises(ValueError, match=rf"{(~inside).sum()} of 900 points lie outside .*{place}"):
        pann.fit(points, values, pann.Polynomial(degree=4), domain=half)
