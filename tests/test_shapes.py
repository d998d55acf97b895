"""Shapes: areas and lengths by formulas, the divergence theorem, names, corners, errors."""

import json
import math
import re
import sys

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize
import scipy.special
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import qmc

from pann.errors import FileError
from pann.shapes import (
    Ball,
    Boundary,
    Cuboid,
    Curve,
    Cylinder,
    Disk,
    Ellipse,
    Implicit,
    Mesh,
    Polygon,
    Rectangle,
    Shape,
)

SQUARE = Rectangle(x=(-1, 1), y=(-1, 1))
L_SHAPE = Polygon([(-1, -1), (0, -1), (0, 0), (1, 0), (1, 1), (-1, 1)])
STAR = Curve(
    lambda t: (
        (1 + 0.3 * jnp.cos(5 * t)) * jnp.cos(t),
        (1 + 0.3 * jnp.cos(5 * t)) * jnp.sin(t),
    )
)
HOLES = [Disk(center=(x, y), radius=0.2) for x, y in ((-0.5, -0.5), (0.5, -0.4), (0.1, 0.5))]
PIERCED = SQUARE - HOLES[0] - HOLES[1] - HOLES[2]
FOIL = [
    (x, side * 0.6 * (0.2969 * x**0.5 - 0.126 * x - 0.3516 * x**2 + 0.2843 * x**3 - 0.1036 * x**4))
    for side, angles in ((1, range(41)), (-1, range(39, 0, -1)))
    for x in [(1 + math.cos(math.pi * angle / 40)) / 2 for angle in angles]
]


def squircle(x, y):
    return x**4 + y**4 - 1


def lens_area(distance: float) -> float:
    """Of two unit disks."""
    return 2 * math.acos(distance / 2) - distance / 2 * math.sqrt(4 - distance**2)


PLANE: dict[str, tuple[Shape, float]] = {
    "rectangle": (Rectangle(x=(-2, 2), y=(-1, 0.5)), 6.0),
    "disk": (Disk(center=(0.3, -1), radius=2), 4 * math.pi),
    "ellipse": (Ellipse(center=(1, 0), radii=(2, 0.5), angle=0.7), math.pi),
    "L-shape": (L_SHAPE, 3.0),
    "clockwise": (Polygon([(0, 0), (0, 1), (2, 0)]), 1.0),
    "star": (STAR, math.pi * 1.045),
    "squircle": (
        Implicit(squircle, x=(-2, 2), y=(-2, 2)),
        math.gamma(0.25) ** 2 / (2 * math.sqrt(math.pi)),
    ),
    "annulus": (
        Implicit(lambda x, y: (x**2 + y**2 - 1) * (x**2 + y**2 - 4), x=(-3, 3), y=(-3, 3)),
        3 * math.pi,
    ),
    "two pieces": (
        Implicit(lambda x, y: ((x - 1) ** 2 + y**2 - 0.25) * (x + 1.5), x=(-1.4, 2), y=(-1, 1)),
        math.pi / 4,
    ),
    "pierced": (PIERCED, 4 - 3 * math.pi * 0.04),
    "lens": (Disk() & Disk(center=(1.2, 0)), lens_area(1.2)),
    "two disks": (Disk() | Disk(center=(0, 1.2)), 2 * math.pi - lens_area(1.2)),
    "crescent": (Disk() - Disk(center=(0.5, 0)), math.pi - lens_area(0.5)),
    "half disk": (Disk() - Rectangle(x=(-2, 2), y=(-2, 0)), math.pi / 2),
    "seam": (Rectangle(x=(0, 1), y=(0, 1)) | Rectangle(x=(1, 2), y=(0, 2)), 3.0),
    "stadium": (Rectangle(x=(0, 2), y=(-1, 1)) | Disk() | Disk(center=(2, 0)), 4 + math.pi),
    "touching": (SQUARE - Disk(), 4 - math.pi),
    "notch": (SQUARE - Disk(center=(0.3, -1), radius=1e-4), 4 - math.pi * 0.5e-8),
    "moved": (PIERCED.rotated(0.4).scaled(2, about=(1, 1)).moved(y=3), 16 - 12 * math.pi * 0.04),
    "foil": (Rectangle(x=(-1, 2), y=(-1, 1)) - Curve.through(FOIL, corners=(0,)), math.nan),
    "through": (
        Curve.through([(math.cos(k / 5), math.sin(k / 5) / 2) for k in range(31)]),
        math.nan,
    ),
}


@pytest.mark.parametrize("name", PLANE)
def test_divergence_theorem_holds_for_polynomials(name):
    """The fluxes of (x^2 y, 0) and (0, x y^2) agree, and that of (x, 0) is the area."""
    shape, area = PLANE[name]
    drawn = [Boundary(shape, (part,)).points(600) for part in shape.boundary]
    points, normals, weights = (np.concatenate(each) for each in zip(*drawn, strict=True))
    x, y = points.T
    flux = lambda u, v: weights @ (u * normals[:, 0] + v * normals[:, 1])
    # Splines have four derivatives only.
    tolerance = 1e-12 if math.isfinite(area) else 1e-8
    scale = max(1.0, shape.area) * shape.size**2
    for pair in ((x, 0 * x), (0 * x, y)):
        assert flux(*pair) == pytest.approx(shape.area, abs=tolerance * scale)
    assert flux(x**2 * y, 0 * x) == pytest.approx(flux(0 * x, x * y**2), abs=tolerance * scale)
    assert flux(1 + 0 * x, 2 + 0 * x) == pytest.approx(0, abs=tolerance * scale)
    if math.isfinite(area):
        assert shape.area == pytest.approx(area, rel=1e-13)
    assert weights.sum() == pytest.approx(shape.boundary.length, rel=1e-13)
    assert abs(np.linalg.norm(normals, axis=1) - 1).max() < 1e-14


@pytest.mark.parametrize("name", PLANE)
def test_inside_changes_at_the_boundary(name):
    shape, _ = PLANE[name]
    points, normals, _ = shape.boundary.points(2000, "uniform", seed=3)
    step = 1e-9 * shape.size
    assert shape.inside(points).all()
    if name != "touching":  # between two curves that touch there is no room for a step
        assert shape.inside(points - step * normals).all()
        assert not shape.inside(points + step * normals).any()


@pytest.mark.parametrize("far, scale", [(1e6, 1.0), (0.0, 1e-7), (0.0, 1e7)])
def test_shapes_far_from_the_origin_and_of_any_size(far, scale):
    """As in files with coordinates of a country, or of a chip."""
    at = lambda *ends: tuple(far + scale * end for end in ends)
    seam = Rectangle(x=at(0, 1), y=at(0, 1)) | Rectangle(x=at(1, 2), y=at(0, 2))
    shape = seam - Disk(center=at(0.5, 0.5), radius=0.3 * scale)
    assert shape.area == pytest.approx((3 - 0.09 * math.pi) * scale**2, rel=1e-9)
    assert (len(shape.corners), len(shape.holes)) == (6, 1)
    points, normals, _ = shape.boundary.points(500)
    assert shape.inside(points).all()
    assert shape.inside(points - 1e-7 * scale * normals).all()
    assert not shape.inside(points + 1e-7 * scale * normals).any()


@pytest.mark.parametrize("name", PLANE)
def test_inside_has_the_area(name):
    shape, _ = PLANE[name]
    widths = np.subtract(shape.upper, shape.lower)
    points = np.asarray(shape.lower) + widths * qmc.Sobol(2, rng=0).random_base2(14)
    found = shape.inside(points).mean() * widths.prod()
    assert found == pytest.approx(shape.area, abs=2e-3 * widths.prod())


@pytest.mark.parametrize("name", ["rectangle", "ellipse", "L-shape", "star", "squircle", "pierced"])
def test_level_is_no_larger_than_the_distance_to_the_boundary(name, rng):
    shape, _ = PLANE[name]
    boundary = shape.boundary.points(4000)[0]
    points = rng.uniform(np.subtract(shape.lower, 1), np.add(shape.upper, 1), (300, 2))
    nearest = np.linalg.norm(points[:, None] - boundary, axis=2).min(axis=1)
    assert (abs(shape.level(points)) <= nearest + 1e-12).all()


def test_bounding_boxes_are_tight():
    shape = Ellipse(center=(1, 2), radii=(2, 0.5), angle=0.7)
    half = [math.hypot(2 * math.cos(0.7), 0.5 * math.sin(0.7))]
    half.append(math.hypot(2 * math.sin(0.7), 0.5 * math.cos(0.7)))
    assert np.allclose(shape.lower, np.subtract((1, 2), half), rtol=0, atol=1e-15)
    assert np.allclose(shape.upper, np.add((1, 2), half), rtol=0, atol=1e-15)
    crescent = Disk() - Disk(center=(1, 0))
    assert crescent.upper == pytest.approx((0.5, 1.0), abs=1e-15)
    assert L_SHAPE.lower == (-1.0, -1.0)
    assert Disk().upper == (1.0, 1.0)


def test_perimeter_of_an_ellipse():
    shape = Ellipse(radii=(3, 1))
    assert shape.boundary.length == pytest.approx(12 * scipy.special.ellipe(8 / 9), rel=1e-14)


def test_points_of_an_implicit_curve_and_their_normals():
    shape, _ = PLANE["squircle"]
    points, normals, _ = shape.boundary.points(500)
    assert abs(squircle(*points.T)).max() < 1e-13
    gradient = points**3
    gradient /= np.linalg.norm(gradient, axis=1, keepdims=True)
    assert abs(gradient - normals).max() < 1e-12


def test_a_narrow_piece_that_is_cut_out_of_a_long_edge_is_found():
    shape, _ = PLANE["notch"]
    assert shape.boundary["bottom"].length == pytest.approx(2 - 2e-4, rel=1e-12)
    assert len(shape.corners) == 6


def test_corners_of_a_polygon():
    corners = L_SHAPE.corners
    assert sum(corner.angle for corner in corners) == pytest.approx(4 * math.pi, rel=1e-15)
    (reentrant,) = [corner for corner in corners if corner.angle > math.pi]
    assert (reentrant.point, reentrant.before, reentrant.after) == ((0.0, 0.0), "e1", "e2")
    assert reentrant.direction == pytest.approx(0.0, abs=1e-15)
    assert reentrant.is_straight
    turned = Polygon([(0, 0), (0, 1), (2, 0)])
    first = min(turned.corners, key=lambda corner: abs(complex(*corner.point)))
    assert (first.before, first.after) == ("e0", "e2")


def test_corners_of_cut_disks():
    corners = PLANE["half disk"][0].corners
    assert [corner.angle for corner in corners] == pytest.approx([math.pi / 2] * 2, abs=1e-14)
    assert {corner.point for corner in corners} == {(1.0, 0.0), (-1.0, 0.0)} or all(
        abs(abs(corner.point[0]) - 1) < 1e-15 for corner in corners
    )
    crescent = Disk() - Disk(center=(1, 0))
    for corner in crescent.corners:
        assert corner.angle == pytest.approx(math.pi / 3, abs=1e-14)
        assert corner.point == pytest.approx((0.5, math.copysign(3**0.5 / 2, corner.point[1])))
        inside = corner.direction + np.array([0.01, 0.5, 0.99]) * corner.angle
        outside = corner.direction + np.array([-0.01, 1.01]) * corner.angle
        for angles, expected in ((inside, True), (outside, False)):
            points = corner.point + 1e-4 * np.stack([np.cos(angles), np.sin(angles)], axis=1)
            assert (crescent.inside(points) == expected).all()


def test_smooth_joints_are_no_corners():
    assert PLANE["stadium"][0].corners == ()
    assert PLANE["stadium"][0].boundary["top"].length == pytest.approx(2, abs=1e-7)


@pytest.mark.parametrize("outer, angle", [(False, 0.0), (True, 2 * math.pi)])
def test_a_cusp_is_a_corner(outer, angle):
    """Joukowski's profile ends in a cusp, where the tangent of the curve vanishes."""

    def profile(t):
        z = -0.1 + 1.1 * np.exp(1j * t)
        return (z + 1 / z).real, (z + 1 / z).imag

    shape = Curve(profile, corners=(0,))
    if outer:
        shape = Rectangle(x=(-4, 4), y=(-2, 2)) - shape
    (cusp,) = [corner for corner in shape.corners if corner.before == "curve"]
    assert cusp.point == pytest.approx((2.0, 0.0), abs=1e-15)
    assert cusp.angle == angle


def test_holes():
    assert [hole.names for hole in PIERCED.holes] == [("disk",), ("disk 2",), ("disk 3",)]
    for hole, disk in zip(PIERCED.holes, HOLES, strict=True):
        assert hole.center == pytest.approx(disk.center, abs=1e-15)
        assert hole.radius == pytest.approx(0.2, abs=1e-15)
    (hole,) = (SQUARE - L_SHAPE.scaled(0.4)).holes
    assert set(hole.names) == {"e0", "e1", "e2", "e3", "e4", "e5"}
    # The largest disk in the letter touches two sides and the corner.
    assert hole.radius == pytest.approx(0.4 * (2 - math.sqrt(2)), rel=1e-3)
    assert (Disk() - Rectangle(x=(0, 2), y=(-2, 2))).holes == ()
    assert (Disk(radius=2) - STAR).holes[0].radius == pytest.approx(0.7, abs=1e-12)


def test_names_go_through_operators():
    assert PIERCED.boundary.names == ("left", "right", "bottom", "top", "disk", "disk 2", "disk 3")
    assert PLANE["seam"][0].boundary.names[:3] == ("left", "bottom", "top")
    channel = (SQUARE - Disk(radius=0.3)).renamed(left="inlet", right="outlet", disk="cylinder")
    moved = channel.moved(1, 0).scaled(2)
    assert moved.boundary.names == ("inlet", "outlet", "bottom", "top", "cylinder")
    assert moved.boundary["cylinder"].length == pytest.approx(1.2 * math.pi)
    slit = SQUARE - Rectangle(x=(-0.1, 0.1), y=(-2, 2))
    assert len(slit.boundary["bottom"]) == 2
    assert (Disk(names=("r", "z")) - Rectangle(r=(-2, 2), z=(0, 2))).names == ("r", "z")


def test_parts_of_a_boundary_are_joined_and_taken_away():
    boundary = PIERCED.boundary
    assert str(boundary["left", "disk"]) == "left, disk"
    assert str(boundary - boundary["left", "top"]) == "right, bottom, disk, disk 2, disk 3"
    assert boundary["left"] + boundary == boundary["left"] | (boundary - boundary["left"])
    assert (boundary["left"] + boundary["left"]).length == 2
    assert len(boundary - boundary) == 0
    assert hash(PIERCED.boundary["disk"]) == hash(
        (SQUARE - HOLES[0] - HOLES[1] - HOLES[2]).boundary["disk"]
    )


def test_predicates_cut_arcs():
    boundary = (SQUARE - Disk(radius=0.5)).boundary
    # Where the normal of the disk, inward to it, points right by more than 60 degrees.
    right = boundary["disk"].where(lambda nx: nx > 0.5)
    assert right.length == pytest.approx(math.pi / 3, abs=1e-15)
    assert (boundary["disk"] - right).length == pytest.approx(2 * math.pi / 3, abs=1e-14)
    assert (right + (boundary["disk"] - right)).length == pytest.approx(math.pi, abs=1e-14)
    half = boundary.where(lambda x, ny, limit=0: (x < limit) & (ny < 0.5))
    assert half["bottom"].length == pytest.approx(1, abs=1e-15)
    assert half.names == ("left", "bottom", "disk")
    first = boundary.where(lambda x: x < 0)["disk"]
    assert len(first) == 1
    points, normals, _ = first.points(50)
    assert (points[:, 0] <= 0).all()
    assert np.allclose(points, -0.5 * normals, rtol=0, atol=1e-15)


def test_points_are_shared_by_length():
    points, _, _ = PIERCED.boundary.points(400)
    assert 380 < len(points) < 420
    few = PIERCED.boundary["left", "disk"].points(1)[0]
    assert len(few) == 8
    one, same = (PIERCED.boundary.points(100, "uniform", seed=2)[0] for _ in range(2))
    assert np.array_equal(one, same)
    assert not np.array_equal(one, PIERCED.boundary.points(100, "uniform", seed=3)[0])


def test_random_points_follow_arc_length():
    points = Ellipse(radii=(5, 1)).boundary.points(20000, "uniform")[0]
    share = np.mean(abs(points[:, 0]) < 2.5)
    exact = scipy.special.ellipeinc(math.pi / 6, 24 / 25) / scipy.special.ellipe(24 / 25)
    assert share == pytest.approx(1 - exact, abs=0.02) or share == pytest.approx(exact, abs=0.02)


def test_shapes_are_compared_by_value():
    assert Disk(center=(0, 1)) == Disk(center=(0.0, 1.0))
    assert hash(SQUARE - Disk()) == hash(SQUARE - Disk())
    assert SQUARE - Disk() != SQUARE - Disk(radius=0.5)
    assert Polygon([(0, 0), (1, 0), (0, 1), (0, 0)]) == Polygon([(0, 0), (1, 0), (0, 1)])
    assert eval(repr(Disk(radius=0.5) - SQUARE.moved(0, 1))) == Disk(radius=0.5) - SQUARE.moved(
        0, 1
    )


def test_shapes_are_readable():
    assert repr((SQUARE - Disk(radius=0.5).moved(x=1)).renamed(disk="inner")) == (
        "(Rectangle(x=(-1, 1), y=(-1, 1)) - Disk(radius=0.5).moved(1, 0)).renamed(disk='inner')"
    )
    assert (
        repr(SQUARE.boundary["left", "top"])
        == "Boundary(left, top of Rectangle(x=(-1, 1), y=(-1, 1)))"
    )


def test_a_curve_closes_after_1_or_after_2_pi():
    once = Curve(lambda t: (np.cos(2 * np.pi * t), np.sin(2 * np.pi * t)))
    backward = Curve(lambda t: (math.cos(t), -math.sin(t)))
    for shape in (once, backward):
        assert shape.area == pytest.approx(math.pi, rel=1e-14)
        points, normals, _ = shape.boundary.points(40)
        assert np.allclose(points, normals, rtol=0, atol=1e-14)


@pytest.mark.parametrize("waves", [31, 64, 200])
def test_short_waves_on_a_curve_are_seen(waves):
    """As many as a coarse rule has points, so that all of these have the same radius."""
    radius = lambda t: 1 + 0.01 * np.cos(waves * t)
    shape = Curve(lambda t: (radius(t) * np.cos(t), radius(t) * np.sin(t)))
    assert shape.area == pytest.approx(math.pi * (1 + 0.5e-4), rel=1e-13)
    top = scipy.optimize.minimize_scalar(
        lambda t: -radius(t) * np.sin(t), (math.pi / 2 - 1 / waves, math.pi / 2 + 1 / waves)
    )
    assert shape.upper[0] == pytest.approx(1.01, abs=1e-14)
    assert shape.upper[1] >= -top.fun - 1e-12
    points, normals, _ = shape.boundary.points(300)
    assert shape.inside(points).all()
    assert not shape.inside(points + 1e-9 * normals).any()
    cut = shape - Rectangle(x=(-2, 2), y=(-2, 0))
    assert cut.boundary["bottom" if "bottom" in cut.boundary.names else "top"].length == (
        pytest.approx(radius(0) + radius(math.pi), abs=1e-12)
    )


def test_a_curve_through_points_meets_them():
    given = [(math.cos(k / 5), math.sin(k / 5) / 2) for k in range(31)]
    level = PLANE["through"][0].level(np.array(given))
    assert abs(level).max() < 1e-14


def test_polygons_of_files(tmp_path):
    rings = [[[0, 0], [4, 0], [4, 4], [0, 4], [0, 0]], [[1, 1], [1, 2], [2, 2], [2, 1], [1, 1]]]
    feature = {"type": "Feature", "geometry": {"type": "Polygon", "coordinates": rings}}
    (tmp_path / "a.json").write_text(
        json.dumps({"type": "FeatureCollection", "features": [feature]})
    )
    shape = Polygon.read(tmp_path / "a.json")
    assert shape.area == 15
    assert shape.boundary.names == ("e0", "e1", "e2", "e3", "hole 1")
    (tmp_path / "a.csv").write_text("x;y\n0;0\n1;0\n0;1\n")
    assert Polygon.read(tmp_path / "a.csv") == Polygon([(0, 0), (1, 0), (0, 1)])
    with pytest.raises(FileError, match=r"cannot be opened"):
        Polygon.read(tmp_path / "b.csv")
    (tmp_path / "c.json").write_text("{}")
    with pytest.raises(FileError, match="has no polygon; it should be GeoJSON, or CSV"):
        Polygon.read(tmp_path / "c.json")


# ---- Bodies ----

CUBE = Cuboid(x=(-1, 1), y=(-1, 1), z=(-1, 1))
CORNERS = np.array([(x, y, z) for x in (0, 1) for y in (0, 1) for z in (0, 1)], float)
SIDES = [(0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3)]
FACES = [face for a, b, c, d in SIDES for face in ((a, b, c), (a, c, d))]

BODIES: dict[str, tuple[Shape, float, float]] = {  # volume, area
    "ball": (Ball(center=(1, 0, 2), radius=2), 32 / 3 * math.pi, 16 * math.pi),
    "ball in five dimensions": (
        Ball(center=(0, 0, 0, 0, 1)),
        8 / 15 * math.pi**2,
        8 / 3 * math.pi**2,
    ),
    "cuboid": (Cuboid(x=(0, 1), y=(0, 2), z=(0, 3)).rotated(0.4, axis="x"), 6, 22),
    "cylinder": (Cylinder(radius=0.5, height=2, axis="y"), math.pi / 2, 2.5 * math.pi),
    "four balls": (
        CUBE
        - Ball(center=(0.5, 0.5, 0.5), radius=0.3)
        - Ball(center=(-0.5, -0.5, 0.5), radius=0.3)
        - Ball(center=(-0.5, 0.5, -0.5), radius=0.3)
        - Ball(center=(0.5, -0.5, -0.5), radius=0.3),
        8 - 16 / 3 * math.pi * 0.027,
        24 + 16 * math.pi * 0.09,
    ),
    "without a corner": (
        CUBE - Ball(center=(1, 1, 1)),
        8 - math.pi / 6,
        24 - math.pi / 4,
    ),
    "lens": (Ball() & Ball(center=(1, 0, 0)), 5 / 12 * math.pi, 2 * math.pi),
    "half ball": (Ball() - Cuboid(x=(-2, 2), y=(-2, 2), z=(0, 2)), 2 / 3 * math.pi, 3 * math.pi),
    "seam": (
        Cuboid(x=(0, 1), y=(0, 1), z=(0, 1)) | Cuboid(x=(1, 2), y=(0, 1), z=(0, 1)),
        2,
        10,
    ),
    "torus": (Disk(center=(2, 0), radius=0.5).revolved("y"), math.pi**2, 4 * math.pi**2),
    "cone": (
        Polygon([(0, 0), (2, 0), (0, 1)]).revolved("x"),
        2 / 3 * math.pi,
        math.pi * (1 + math.sqrt(5)),
    ),
    "prism": (
        (SQUARE - Disk(radius=0.3)).extruded(z=(0, 1)),
        4 - 0.09 * math.pi,
        8 - 0.18 * math.pi + 8 + 0.6 * math.pi,
    ),
    "mesh": (Mesh(CORNERS, FACES).scaled(2).rotated(0.3, axis="z"), 8, 24),
    "mesh without a ball": (
        Mesh(CORNERS, FACES) - Ball(center=(0.5, 0.5, 0.5), radius=0.25),
        1 - math.pi / 48,
        6 + math.pi / 4,
    ),
}


@pytest.mark.parametrize("name", BODIES)
def test_volume_area_and_flux_of_bodies(name):
    shape, volume, area = BODIES[name]
    assert shape.volume == pytest.approx(volume, rel=4e-3)
    assert shape.boundary.length == pytest.approx(area, rel=1e-3)
    points, normals, weights = shape.boundary.points(2**13)
    assert weights.sum() == pytest.approx(shape.boundary.length, rel=1e-12)
    flux = np.sum(weights[:, None] * normals * points, axis=0)
    assert flux == pytest.approx(np.full(shape.dimension, volume), rel=1e-2)
    assert abs(np.linalg.norm(normals, axis=1) - 1).max() < 1e-14
    assert shape.inside(points).all()
    step = 1e-8 * shape.size
    assert shape.inside(points - step * normals).all()
    assert not shape.inside(points + step * normals).any()
    assert (points >= np.asarray(shape.lower) - 1e-12).all()
    assert (points <= np.asarray(shape.upper) + 1e-12).all()


def test_names_and_holes_of_bodies():
    shape = BODIES["four balls"][0]
    sides = ("left", "right", "front", "back", "bottom", "top")
    assert shape.boundary.names == (*sides, "ball", "ball 2", "ball 3", "ball 4")
    assert shape.holes[1].center == (-0.5, -0.5, 0.5)
    assert shape.holes[1].radius == pytest.approx(0.3, abs=1e-15)
    assert shape.corners == ()
    assert Cylinder().boundary.names == ("side", "bottom", "top")
    prism = BODIES["prism"][0].boundary
    assert prism.names[-3:] == ("disk", "bottom 2", "top 2")
    assert set(prism["top 2"].points(100)[0][:, 2]) == {1.0}
    assert (CUBE & Ball(radius=1.2)).upper == (1.0, 1.0, 1.0)


def test_predicates_choose_pieces_of_patches():
    ball = Ball().boundary
    cap = ball.where(lambda nz: nz > 0.5)
    assert cap.length == pytest.approx(math.pi, rel=2e-3)
    assert (cap.points(500)[0][:, 2] > 0.5).all()
    assert ((ball - cap).points(500)[0][:, 2] <= 0.5).all()


def test_uniform_points_of_a_patch_are_as_many_as_asked():
    boundary = BODIES["half ball"][0].boundary
    points, _, weights = boundary.points(1000, "uniform", seed=1)
    assert 998 <= len(points) <= 1002
    assert weights.sum() == pytest.approx(boundary.length)


def test_other_meshes_need_a_package(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "trimesh", None)
    (tmp_path / "cube.ply").write_bytes(b"ply")
    with pytest.raises(FileError, match=r"not installed: pip install pann\[mesh\]"):
        Mesh(tmp_path / "cube.ply")
    (tmp_path / "cube.stl").write_text("solid cube vertex 1 2")
    with pytest.raises(FileError, match="is no STL file"):
        Mesh(tmp_path / "cube.stl")


@pytest.mark.parametrize("kind", ["binary", "text"])
def test_stl_files(tmp_path, kind):
    corners = CORNERS[np.array(FACES)]
    if kind == "binary":
        record = np.zeros(12, [("n", "<f4", 3), ("c", "<f4", (3, 3)), ("r", "<u2")])
        record["c"] = corners
        content = bytes(80) + (12).to_bytes(4, "little") + record.tobytes()
    else:
        lines = [f"vertex {x} {y} {z}" for x, y, z in corners.reshape(-1, 3)]
        content = "\n".join(["solid cube", *lines, "endsolid"]).encode()
    (tmp_path / "cube.stl").write_bytes(content)
    mesh = Mesh(tmp_path / "cube.stl")
    assert (mesh.lower, mesh.upper) == ((0.0, 0.0, 0.0), (1.0, 1.0, 1.0))
    inward = Mesh(CORNERS, np.array(FACES)[:, ::-1])
    for shape in (mesh, inward):
        points, normals, _ = shape.boundary.points(60)
        assert np.all(np.sum((points - 0.5) * normals, axis=1) > 0)


# ---- Any combination ----

# On a grid, so that boundaries touch and run along each other as they do in drawings.
numbers, lengths = (st.integers(*ends).map(lambda k: k / 20) for ends in ((-20, 20), (6, 30)))
leaves = st.tuples(numbers, numbers, lengths) | st.tuples(numbers, numbers, lengths, lengths)


def combined(children):
    return st.tuples(children, st.sampled_from("-|&"), children)


def shape_of(tree):
    match tree:
        case (first, "-" | "|" | "&" as operation, second):
            first, second = shape_of(first), shape_of(second)
            return {"-": first.__sub__, "|": first.__or__, "&": first.__and__}[operation](second)
        case (x, y, radius):
            return Disk(center=(x, y), radius=radius)
        case (x, y, width, height):
            return Rectangle(x=(x, x + width), y=(y, y + height))


def rule_of(tree, points):
    """Membership by nothing but disks, rectangles and the operators of booleans."""
    match tree:
        case (first, "-" | "|" | "&" as operation, second):
            first, second = rule_of(first, points), rule_of(second, points)
            return {"-": first & ~second, "|": first | second, "&": first & second}[operation]
        case (x, y, radius):
            return np.linalg.norm(points - np.array([x, y]), axis=1) < radius
        case (x, y, *widths):
            offset = points - np.array([x, y])
            return ((offset > 0) & (offset < widths)).all(axis=1)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.recursive(leaves, combined, max_leaves=5))
def test_any_combination_of_disks_and_rectangles(tree):
    try:
        shape = shape_of(tree)
    except ValueError as error:
        if "is empty" not in str(error):
            raise
        return
    points = -2.6 + 5.3 * qmc.Sobol(2, rng=1).random_base2(12)
    assert np.array_equal(shape.inside(points), rule_of(tree, points))
    points, normals, weights = shape.boundary.points(1500)
    x, y = points.T
    for one, other in (((x, 0), (0, y)), ((x * y**2, 0), (0, x**0 * y**3 / 3))):
        flux = [weights @ (u * normals[:, 0] + v * normals[:, 1]) for u, v in (one, other)]
        assert flux[0] == pytest.approx(flux[1], abs=1e-10)
    assert weights @ (x * normals[:, 0]) == pytest.approx(shape.area, abs=1e-10)
    for corner in shape.corners:
        assert 0 <= corner.angle <= 2 * math.pi
    for hole in shape.holes:
        assert not shape.inside(np.array([hole.center])).any()


# ---- Errors ----

ERRORS = {
    "no name": (lambda: SQUARE.boundary["lefft"], "no part 'lefft'; .* did you mean 'left'"),
    "radius": (lambda: Disk(radius=-1), "a radius is positive, got -1"),
    "center": (lambda: Disk(center=(0.0, math.nan)), "center is 2 finite numbers"),
    "radii": (lambda: Ellipse(radii=(1, 0)), "a radius is positive, got 0"),
    "three axes": (lambda: Rectangle(x=(0, 1)), "a rectangle has two axes"),
    "interval": (lambda: Rectangle(x=(1, 0), y=(0, 1)), "finite low < high"),
    "two vertices": (lambda: Polygon([(0, 0), (1, 1)]), "at least three vertices, got 2"),
    "repeated": (
        lambda: Polygon([(0, 0), (1, 0), (1, 0), (0, 1)]),
        r"vertex 1 of the polygon, \(1, 0\), is repeated",
    ),
    "bow tie": (lambda: Polygon([(0, 0), (1, 1), (1, 0), (0, 1)]), "edges e0 and e2 .* meet"),
    "spike": (lambda: Polygon([(0, 0), (1, 0), (2, 0), (1, 0.0), (0, 1)]), "edges .* meet"),
    "on an edge": (
        lambda: Polygon([(0, 0), (2, 0), (2, 1), (1, 0), (0, 1)]),
        "edges e0 and e[23] of the polygon meet",
    ),
    "words": (lambda: Polygon("abc"), "vertices are pairs"),
    "no pair": (lambda: Curve(lambda t: t), "returns a pair"),
    "open": (lambda: Curve(lambda t: (t, t**2)), "does not close"),
    "eight": (lambda: Curve(lambda t: (np.sin(t), np.sin(2 * t))), "meets itself near"),
    "kink": (
        lambda: Curve(lambda t: (np.cos(t), np.abs(np.sin(t)) - 0.5 * np.cos(t) ** 2)),
        "not smooth, least of all near t",
    ),
    "point": (lambda: Curve(lambda t: (1.0, 2.0)), r"the curve stays at \(1.0, 2.0\)"),
    "cusp": (lambda: Curve(lambda t: (np.cos(t) ** 3, np.sin(t) ** 3)), "turns back near"),
    "five points": (lambda: Curve.through([(0, 0), (1, 0), (1, 1)]), "at least six points"),
    "number of a corner": (lambda: Curve.through(FOIL, corners=(99,)), "corners are numbers of"),
    "nowhere negative": (
        lambda: Implicit(lambda x, y: x**2 + y**2, x=(-1, 1), y=(-1, 1)),
        "f is nowhere negative .* change the sign of f",
    ),
    "unbounded": (lambda: Implicit(lambda x, y: x, x=(-1, 1), y=(-1, 1)), "should reach beyond"),
    "not finite": (
        lambda: Implicit(lambda x, y: x / 0.0 + y, x=(1, 2), y=(0, 1)),
        "returns a finite number",
    ),
    "slit of a polygon": (
        lambda: Polygon([(0, 0), (1, 0), (1, 1), (0, 1), (0, 0.5), (0.5, 0.5), (0, 0.5)]),
        r"e4 and e5 .* slit of no width from \(0, 0.5\) to \(0.5, 0.5\);.* open a slit by 1e-05",
    ),
    "slit to a hole": (
        lambda: Polygon(
            [(0, 0), (3, 0), (0, 3), (0, 1), (0.4, 1), (0.6, 1.2), (0.6, 0.8), (0.4, 1), (0, 1)]
        ),
        r"slit of no width from \(0, 1\) to \(0.4, 1\).* take the hole away by -",
    ),
    "slit of a difference": (
        lambda: Disk() - Rectangle(x=(-2, 0), y=(0, 1e-9)),
        r"is about 1e-09 wide on average: a slit .* from \(-2, 0\) to \(0, 1e-09\); make it at",
    ),
    "crack inside": (
        lambda: Disk() - Ellipse(radii=(0.2, 1e-12)),
        "a slit whose sides cannot be told apart",
    ),
    "gap between pieces": (
        lambda: Rectangle(x=(0, 1), y=(0, 1)) | Rectangle(x=(0, 1), y=(1 + 1e-9, 2)),
        r"does not close at .* too narrow to be told from that \(below 2e-07\); move or scale",
    ),
    "corners of an implicit": (
        lambda: Implicit(lambda x, y: np.maximum(abs(x), abs(y)) - 1, x=(-2, 2), y=(-2, 2)),
        "is not smooth, or f has no slope there; make a shape with corners",
    ),
    "empty intersection": (lambda: Disk() & Disk(center=(3, 0)), r"is empty; .* from \(2, -1\)"),
    "empty difference": (lambda: Disk() - SQUARE, "is empty"),
    "touch": (
        lambda: Rectangle(x=(0, 1), y=(0, 1)) & Rectangle(x=(1, 2), y=(0, 1)),
        "is empty",
    ),
    "other axes": (lambda: Disk() - Disk(names=("r", "z")), "shapes that are combined have the"),
    "other dimension": (lambda: Ball() - Disk(), "shapes that are combined have the same ones"),
    "no shape": (lambda: Disk() - 1, "shapes are combined with shapes, got .* - 1"),
    "axis to move along": (lambda: Disk().moved(z=1), "moved by a number for each of x, y"),
    "factor": (lambda: Disk().scaled(0), "scaled by a positive number, got 0"),
    "axis of rotation": (lambda: Ball().rotated(1), "rotated about one of its axes x, y, z"),
    "center of rotation": (lambda: Disk().rotated(1, about=(1,)), "about is a point"),
    "not finite move": (lambda: Disk().moved(x=math.inf), "by finite numbers"),
    "rename": (lambda: Disk().renamed(left="a"), "has no part 'left'; its parts are disk"),
    "predicate": (lambda: Disk().boundary.where(lambda r: r > 0), "asks for 'r'"),
    "nowhere": (lambda: Disk().boundary.where(lambda x: x > 2), "where the predicate holds"),
    "another boundary": (lambda: Disk().boundary + SQUARE.boundary, "boundaries of different"),
    "rule": (lambda: Disk().boundary.points(9, "random"), "rule is gauss or uniform"),
    "count": (lambda: Disk().boundary.points(0), "at least one point"),
    "points": (lambda: Disk().inside(np.zeros((3, 3))), "columns x, y, got .* shape"),
    "ball in the plane": (lambda: Ball(center=(0, 0)), "in the plane there is Disk"),
    "extruded body": (lambda: Ball().extruded(z=(0, 1)), "a shape of the plane is extruded"),
    "extruded twice": (lambda: Disk().extruded(x=(0, 1)), "3 different names of axes"),
    "over the axis": (lambda: Disk().revolved("y"), "on one side of its axis, x >= 0"),
    "axis of revolution": (lambda: Disk().revolved("t"), "about one of its axes x, y"),
    "cuboid": (lambda: Cuboid(x=(0, 1), y=(0, 1)), "a cuboid has three axes"),
    "cylinder": (lambda: Cylinder(axis="t"), "axis is one of x, y, z"),
    "hole in a mesh": (lambda: Mesh(CORNERS, FACES[:-1]), "not watertight: 3 of 33 edges"),
    "flat mesh": (
        lambda: Mesh(CORNERS, [(0, 1, 2), (2, 1, 0)]),
        "has no volume",
    ),
    "no file": (lambda: Mesh("nothing.stl"), "nothing.stl cannot be opened"),
}


def test_a_wedge_in_place_of_a_slit_is_a_shape():
    """What the sentence about slits says to do, and what cuts nothing is no slit."""
    half = 0.5e-5
    edges = [(0, 0), (1, 0), (1, 1), (0, 1), (0, 0.5 + half), (0.5, 0.5), (0, 0.5 - half)]
    slit = Polygon(edges)
    assert slit.area == pytest.approx(1 - 0.5 * half, rel=1e-14)
    assert max(corner.angle for corner in slit.corners) == pytest.approx(2 * np.pi, abs=1e-4)
    beside = Rectangle(x=(0, 1), y=(0, 1)) - Rectangle(x=(2, 3), y=(0, 1e-9))
    assert beside.area == 1.0


@pytest.mark.parametrize("name", ERRORS)
@pytest.mark.filterwarnings("ignore:divide by zero:RuntimeWarning")
def test_errors_say_what_to_do(name):
    make, message = ERRORS[name]
    with pytest.raises(ValueError, match=re.compile(message, re.DOTALL)):
        make()


@pytest.mark.parametrize("highest", [15, 16, 17, 47, 48, 49])
def test_fourier_curves_of_any_number_of_modes(highest):
    """A circle with a wave of the highest frequency on it."""
    from pann.shapes.curves import Fourier

    coefficients = np.zeros(2 * highest + 1, complex)
    coefficients[highest + 1], coefficients[2 * highest] = 1.0, 1e-3
    t = np.linspace(0, 1, 7)
    z = np.exp(2j * np.pi * t) + 1e-3 * np.exp(2j * np.pi * highest * t)
    found = Fourier(coefficients).points(t)
    np.testing.assert_allclose(found, np.stack([z.real, z.imag], axis=1), atol=1e-14)
