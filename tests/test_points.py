"""Samplers give exactly the points asked for, inside the box, with the properties they promise."""

import dataclasses
import os
import pathlib
import warnings

import jaxtyping
import mpmath
import numpy as np
import pytest
from scipy.spatial import cKDTree

from pann import points
from pann.domain import Box
from pann.points import Points

LINE = Box(x=(-2.0, 5.0))
PLANE = Box(x=(-1.0, 1.0), t=(0.1, 0.7), time="t")
SPACE = Box(x=(0.0, 1.0), y=(-3.0, 3.0), z=(10.0, 10.5))


@pytest.fixture(autouse=True)
def cache_folder(tmp_path, monkeypatch):
    """No test reads or writes the user's own cache."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("PANN_CACHE", str(folder))
    return folder


@pytest.fixture
def unchecked():
    """Turn off the checks of types that only the tests have: users meet the errors behind them."""
    before = jaxtyping.config.jaxtyping_disable
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", before)


def unit_coordinates(domain: Box, drawn: Points) -> np.ndarray:
    return 0.5 * (domain.to_reference(drawn.coordinates) + 1.0)


def packing_distance(dimension: int, num_points: int) -> float:
    """Neighbors' distance in the densest packing of a unit volume: line, hexagonal, cubic."""
    return {
        1: 1.0 / num_points,
        2: np.sqrt(2.0 / (np.sqrt(3.0) * num_points)),
        3: np.cbrt(np.sqrt(2.0) / num_points),
    }[dimension]


def smallest_distance(unit: np.ndarray) -> float:
    return cKDTree(unit).query(unit, k=2)[0][:, 1].min()


def largest_hole(unit: np.ndarray, probes_per_axis: int) -> float:
    """The farthest that a point of the closed cube is from the points, by brute force."""
    probes = np.linspace(0.0, 1.0, probes_per_axis)
    return cKDTree(unit).query(points.tensor_grid(*[probes] * unit.shape[1]))[0].max()


# ---- Truths of all samplers ----


@pytest.mark.parametrize("domain", [LINE, PLANE, SPACE])
@pytest.mark.parametrize("name", points.SAMPLERS)
def test_exactly_as_many_points_as_asked_for_lie_in_the_closed_box(name, domain):
    num_points = 4**domain.dimension
    drawn = points.sample(name, domain, num_points)
    assert len(drawn) == num_points
    assert drawn.dimension == domain.dimension
    assert drawn.coordinates.shape == (num_points, domain.dimension)
    assert np.all(drawn.coordinates >= domain.lower)
    assert np.all(drawn.coordinates <= domain.upper)


@pytest.mark.parametrize("name", points.SAMPLERS)
def test_the_points_of_a_seed_are_the_same_every_time(name):
    first, second = (points.sample(name, PLANE, 81, seed=3) for _ in range(2))
    assert np.array_equal(first.coordinates, second.coordinates)


@pytest.mark.parametrize("name", ["poisson_disk", "sobol", "uniform"])
@pytest.mark.parametrize("domain", [LINE, PLANE, SPACE])
def test_other_seeds_give_other_points(name, domain):
    first, second = (points.sample(name, domain, 50, seed=seed) for seed in (0, 1))
    assert not np.any(first.coordinates == second.coordinates[:1])


@pytest.mark.parametrize("name", points.SAMPLERS)
@pytest.mark.parametrize("num_points", [0, -4, 2.5, 16.0, "16", None])
@pytest.mark.usefixtures("unchecked")
def test_counts_that_are_none_are_refused(name, num_points):
    with pytest.raises(ValueError, match="num_points must be an integer of at least 1, got"):
        points.sample(name, PLANE, num_points)


@pytest.mark.parametrize("name", ["poisson_disk", "sobol", "uniform"])
@pytest.mark.parametrize("seed", [-1, 0.5, None])
@pytest.mark.usefixtures("unchecked")
def test_seeds_that_are_none_are_refused(name, seed):
    with pytest.raises(ValueError, match="seed must be an integer of at least 0, got"):
        points.sample(name, PLANE, 16, seed=seed)


def test_an_unknown_sampler_is_answered_with_the_known_ones():
    with pytest.raises(ValueError, match="no sampler is called 'halton'; choose one of") as error:
        points.sample("halton", PLANE, 16)
    assert all(name in str(error.value) for name in points.SAMPLERS)


@pytest.mark.parametrize("name", points.SAMPLERS)
def test_every_sampler_is_found_under_its_own_name(name):
    assert points.SAMPLERS[name] is getattr(points, name)


# ---- The value ----


def test_points_are_read_only_copies():
    coordinates, weights = np.zeros((3, 2)), np.ones(3) / 3
    held = Points(coordinates, weights)
    for array in (held.coordinates, held.weights):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 7.0
    with pytest.raises(dataclasses.FrozenInstanceError):
        held.coordinates = coordinates
    coordinates[0], weights[0] = 7.0, 7.0
    assert not np.any(held.coordinates == 7.0)
    assert not np.any(held.weights == 7.0)


@pytest.mark.usefixtures("unchecked")
def test_points_refuse_weights_that_do_not_match():
    with pytest.raises(ValueError, match="needs a weight, got 2 weights for 3 points"):
        Points(np.zeros((3, 2)), np.ones(2))


# ---- Tensor grids ----


def test_a_tensor_grid_has_every_combination_once_and_the_last_axis_varies_fastest():
    grid = points.tensor_grid(np.array([0.0, 1.0]), np.array([5.0, 6.0, 7.0]))
    assert grid.tolist() == [[0, 5], [0, 6], [0, 7], [1, 5], [1, 6], [1, 7]]


@pytest.mark.parametrize("name", ["equispaced", "chebyshev"])
@pytest.mark.parametrize("domain", [LINE, PLANE, SPACE])
def test_grids_with_ends_meet_them_exactly(name, domain):
    drawn = points.sample(name, domain, 5**domain.dimension)
    assert tuple(drawn.coordinates.min(axis=0)) == domain.lower
    assert tuple(drawn.coordinates.max(axis=0)) == domain.upper
    assert len(np.unique(drawn.coordinates, axis=0)) == 5**domain.dimension


def test_equispaced_neighbors_are_equally_far_apart():
    nodes = points.equispaced(LINE, 29).coordinates[:, 0]
    assert np.allclose(np.diff(nodes), 0.25, rtol=0, atol=1e-14)


def test_no_point_is_rounded_out_of_a_box_however_thin():
    # Ends a few roundings apart, for which the map from the unit cube alone falls below the lower.
    thin = Box(x=(6.586092840451463, 6.586092840451464))
    nodes = points.equispaced(thin, 101).coordinates
    assert nodes.min() == thin.lower[0]
    assert nodes.max() == thin.upper[0]


@pytest.mark.parametrize("name", ["equispaced", "chebyshev"])
def test_grids_leave_out_the_right_end_of_periodic_axes_only(name):
    domain = Box(x=(0.0, 2 * np.pi), y=(-1.0, 1.0), periodic="x")
    drawn = points.sample(name, domain, 64)
    x, y = (np.unique(column) for column in drawn.coordinates.T)
    assert np.allclose(x, 2 * np.pi * np.arange(8) / 8, rtol=0, atol=1e-14)
    assert (y.min(), y.max(), len(y)) == (-1.0, 1.0, 8)


@pytest.mark.parametrize("num_nodes", [2, 3, 8, 65])
def test_chebyshev_nodes_are_the_extrema_of_a_chebyshev_polynomial(num_nodes):
    nodes = points.chebyshev(Box.cube(1), num_nodes).coordinates[:, 0]
    polynomial = np.polynomial.chebyshev.Chebyshev.basis(num_nodes - 1)
    assert np.allclose(polynomial(nodes), (-1.0) ** np.arange(num_nodes)[::-1], atol=1e-12)
    assert np.allclose(nodes, -nodes[::-1], rtol=0, atol=1e-15)


@pytest.mark.parametrize(
    ("name", "domain", "num_points", "below", "above"),
    [
        ("equispaced", PLANE, 1000, 961, 1024),
        ("chebyshev", SPACE, 1001, 1000, 1331),
        ("gauss", SPACE, 2, 1, 8),
        ("equispaced", SPACE, 1, 8, 27),
        ("chebyshev", LINE, 1, 2, 3),
        ("equispaced", PLANE, 3, 4, 9),
    ],
)
def test_grids_name_the_nearest_counts_they_can_give(name, domain, num_points, below, above):
    cure = rf"got num_points={num_points}\b.*; use num_points={below} or num_points={above}$"
    with pytest.raises(ValueError, match=cure):
        points.sample(name, domain, num_points)
    for count in (below, above):
        assert len(points.sample(name, domain, count)) == count


@pytest.mark.parametrize("nodes_per_axis", [10, 48, 100])
def test_cubes_of_integers_are_recognized_whatever_the_cube_root_rounds_to(nodes_per_axis):
    assert len(points.equispaced(SPACE, nodes_per_axis**3)) == nodes_per_axis**3


# ---- Gauss rules ----


@pytest.mark.parametrize("num_nodes", [1, 2, 5, 16, 200])
def test_gauss_means_of_powers_are_exact_up_to_degree_two_n_minus_one(num_nodes):
    rule = points.gauss(Box(x=(0.0, 1.0)), num_nodes)
    assert rule.weights is not None
    for degree in {0, 1, num_nodes, 2 * num_nodes - 1}:
        mean = rule.weights @ rule.coordinates[:, 0] ** degree
        assert mean == pytest.approx(1.0 / (degree + 1), rel=1e-12)


@pytest.mark.parametrize("num_nodes", [5, 200, 1000])
def test_gauss_weights_are_those_of_extended_precision(num_nodes):
    """w = (1 - x^2) / (n P_{n-1}(x))^2 at roots of P_n, by mpmath; the ends are the hardest.

    A node there, rounded, moves its weight by n^2 times the rounding.
    """
    rule = points.gauss(Box.cube(1), num_nodes)
    with mpmath.workdps(40):
        for node, weight in list(zip(rule.coordinates[:, 0], rule.weights, strict=True))[:3]:
            root = mpmath.findroot(lambda x: mpmath.legendre(num_nodes, x), mpmath.mpf(node))
            known = (1 - root**2) / (num_nodes * mpmath.legendre(num_nodes - 1, root)) ** 2
            assert weight == pytest.approx(float(known), rel=1e-13 + 3e-17 * num_nodes**2)


def test_gauss_is_not_exact_for_degree_two_n():
    rule = points.gauss(Box.cube(1), 3)
    assert abs(rule.weights @ rule.coordinates[:, 0] ** 6 - 1.0 / 7.0) > 1e-3


def test_gauss_grids_take_a_count_for_each_axis_and_integrate_products():
    rule = points.gauss_grid(Box(x=(0.0, 1.0), y=(0.0, 2.0), z=(-1.0, 1.0)), [2, 3, 4])
    x, y, z = rule.coordinates.T
    assert [len(np.unique(column)) for column in (x, y, z)] == [2, 3, 4]
    assert rule.weights.sum() == pytest.approx(1.0, abs=1e-14)
    assert np.all(rule.weights > 0.0)
    mean = (1 / 4) * (2**5 / 6) * (1 / 7)
    assert rule.weights @ (x**3 * y**5 * z**6) == pytest.approx(mean, rel=1e-13)


def test_gauss_grids_are_exact_for_trigonometric_polynomials_along_periodic_axes():
    domain = Box(x=(1.0, 1 + 2 * np.pi), y=(0.0, 1.0), periodic="x")
    rule = points.gauss_grid(domain, [9, 2])
    x, y = rule.coordinates.T
    for frequency in range(1, 9):
        assert abs(rule.weights @ (np.cos(frequency * x) * y)) < 1e-14
        assert abs(rule.weights @ (np.sin(frequency * x) * y)) < 1e-14
    assert rule.weights @ (np.cos(4 * x) ** 2 * y**3) == pytest.approx(1 / 8, rel=1e-13)


def test_gauss_weights_of_the_samplers_sum_to_one_and_others_have_none():
    for name in points.SAMPLERS:
        weights = points.sample(name, PLANE, 25).weights
        assert (weights is not None) == (name == "gauss")
    assert points.gauss(PLANE, 25).weights.sum() == pytest.approx(1.0, abs=1e-14)


def test_gauss_grids_refuse_counts_that_do_not_fit_the_axes():
    with pytest.raises(ValueError, match="one count for each of the axes x, t, got 3 counts"):
        points.gauss_grid(PLANE, [2, 2, 2])
    with pytest.raises(ValueError, match="nodes along 't' must be an integer of at least 1, got 0"):
        points.gauss_grid(PLANE, [2, 0])


# ---- Random points ----


def test_uniform_points_have_the_moments_of_the_uniform_distribution():
    unit = unit_coordinates(SPACE, points.uniform(SPACE, 40_000))
    # Five standard errors of the mean and of the second moment.
    assert np.allclose(unit.mean(axis=0), 1 / 2, rtol=0, atol=5 * np.sqrt(1 / 12 / 40_000))
    second = np.sqrt((1 / 5 - 1 / 9) / 40_000)
    assert np.allclose((unit**2).mean(axis=0), 1 / 3, rtol=0, atol=5 * second)


def test_sobol_points_have_one_point_in_each_elementary_interval():
    unit = unit_coordinates(PLANE, points.sobol(PLANE, 256, seed=5))
    for power in range(9):
        rows, columns = 2**power, 2 ** (8 - power)
        cells = np.floor(unit[:, 0] * rows) * columns + np.floor(unit[:, 1] * columns)
        assert len(np.unique(cells)) == 256


@pytest.mark.parametrize("num_points", [1, 2, 3, 100, 1000])
def test_sobol_is_silent_and_leaves_the_warning_filters_alone(num_points):
    before = list(warnings.filters)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        during = list(warnings.filters)
        points.sobol(PLANE, num_points)
        assert warnings.filters == during
    assert caught == []
    assert warnings.filters == before


def test_fewer_sobol_points_are_the_first_of_more():
    few, many = points.sobol(PLANE, 70), points.sobol(PLANE, 100)
    assert np.array_equal(few.coordinates, many.coordinates[:70])


# ---- Poisson disks ----


@pytest.mark.parametrize("dimension", [1, 2, 3])
@pytest.mark.parametrize("num_points", [1, 2, 3, 4, 5, 7, 9, 20, 64, 300, 1000])
def test_poisson_disk_points_keep_their_distance(dimension, num_points):
    domain = [LINE, PLANE, SPACE][dimension - 1]
    for seed in range(4):
        drawn = points.poisson_disk(domain, num_points, seed=seed, cache=False)
        assert len(drawn) == num_points
        assert domain.contains(drawn.coordinates)
        if num_points > 1:
            distance = smallest_distance(unit_coordinates(domain, drawn))
            assert distance >= 0.7 * packing_distance(dimension, num_points)


@pytest.mark.parametrize(
    ("dimension", "num_points", "probes_per_axis"),
    [(1, 1000, 20_000), (2, 1000, 500), (2, 4096, 1000), (3, 1000, 80), (3, 4096, 120)],
)
def test_poisson_disk_points_leave_no_holes(dimension, num_points, probes_per_axis):
    unit = points.poisson_disk(Box.cube(dimension, 0.0, 1.0), num_points).coordinates
    # A hole as wide as the packing's distance would have had room for one more point.
    assert largest_hole(unit, probes_per_axis) <= packing_distance(dimension, num_points)


def test_poisson_disk_points_are_spread_evenly_over_the_box():
    unit = points.poisson_disk(Box.cube(2, 0.0, 1.0), 4096).coordinates
    counts, _, _ = np.histogram2d(*unit.T, bins=8, range=[(0, 1), (0, 1)])
    # Independent points would have a standard deviation of 8 in cells of 64; the outer cells have
    # more than their share, as points lie on the box's ends too.
    assert counts[1:-1, 1:-1].std() < 4.0
    assert counts.min() > 48
    assert counts.max() < 96


def test_candidates_stay_as_if_taken_one_after_another():
    candidates = np.random.default_rng(0).random((300, 2))
    taken: list[int] = []
    for index, candidate in enumerate(candidates):
        if all(np.linalg.norm(candidate - candidates[other]) > 0.1 for other in taken):
            taken.append(index)
    assert np.flatnonzero(points._keep_apart(candidates, 0.1)).tolist() == taken


def test_poisson_disk_names_another_sampler_where_it_has_no_answer():
    with pytest.raises(ValueError, match="needs 1 to 3 dimensions, got 4; use sobol there"):
        points.poisson_disk(Box.cube(4), 100)


def test_many_poisson_disk_points_in_the_plane_keep_their_distance():
    unit = points.poisson_disk(Box.cube(2, 0.0, 1.0), 16_384, cache=False).coordinates
    assert smallest_distance(unit) >= 0.7 * packing_distance(2, 16_384)
    assert largest_hole(unit, 1500) <= packing_distance(2, 16_384)


@pytest.mark.slow
def test_many_poisson_disk_points_in_space_keep_their_distance():
    unit = points.poisson_disk(Box.cube(3, 0.0, 1.0), 16_384, cache=False).coordinates
    assert unit.shape == (16_384, 3)
    assert smallest_distance(unit) >= 0.7 * packing_distance(3, 16_384)
    assert largest_hole(unit, 150) <= packing_distance(3, 16_384)


# ---- The cache ----


def cached_file(folder: pathlib.Path) -> pathlib.Path:
    (file,) = folder.iterdir()
    return file


@pytest.fixture
def no_generation(monkeypatch):
    """Call it, and from then on points can come from the cache only."""

    def forbidden(*_):
        raise AssertionError("points were generated in spite of the cache")

    return lambda: monkeypatch.setattr(points, "_poisson_disk", forbidden)


def test_cached_points_are_those_that_were_generated(cache_folder, no_generation):
    generated = points.poisson_disk(PLANE, 50)
    no_generation()
    assert np.array_equal(points.poisson_disk(PLANE, 50).coordinates, generated.coordinates)
    # The cache holds the unit cube's points: any box of the same dimension reads the same file.
    other = Box(x=(0.0, 1.0), y=(0.0, 1.0))
    placed = unit_coordinates(PLANE, generated)
    assert np.allclose(points.poisson_disk(other, 50).coordinates, placed, atol=1e-14)
    assert cached_file(cache_folder).suffix == ".npy"


def test_the_cache_is_not_touched_where_it_is_turned_off(cache_folder):
    points.poisson_disk(PLANE, 50, cache=False)
    assert not cache_folder.exists()


def test_other_dimensions_counts_seeds_and_versions_have_other_files(cache_folder, monkeypatch):
    points.poisson_disk(PLANE, 50)
    points.poisson_disk(SPACE, 50)
    points.poisson_disk(PLANE, 51)
    points.poisson_disk(PLANE, 50, seed=1)
    monkeypatch.setattr(points, "_POISSON_DISK_VERSION", 1_000_000)
    points.poisson_disk(PLANE, 50)
    assert len(list(cache_folder.iterdir())) == 5


def save_bytes(array: np.ndarray, file: pathlib.Path, **options) -> None:
    with file.open("wb") as stream:
        np.save(stream, array, **options)


# A header that promises 10^14 points, in as many bytes.
LONGER = (b"(50, 2), }" + b" " * 13, b"(100000000000000, 2), }")

BROKEN = {
    "empty": lambda file: file.write_bytes(b""),
    "text": lambda file: file.write_text("these are no points"),
    "truncated": lambda file: file.write_bytes(file.read_bytes()[:-8]),
    "archive": lambda file: file.write_bytes(b"PK\x03\x04 broken"),
    "huge": lambda file: file.write_bytes(file.read_bytes().replace(*LONGER)),
    "pickle": lambda file: save_bytes(np.array([[None]]), file, allow_pickle=True),
    "wrong shape": lambda file: save_bytes(np.full((49, 2), 0.5), file),
    "wrong type": lambda file: save_bytes(np.ones((50, 2), np.int64), file),
    "not a number": lambda file: save_bytes(np.full((50, 2), np.nan), file),
    "outside": lambda file: save_bytes(np.full((50, 2), 1.5), file),
}


@pytest.mark.parametrize("how", BROKEN)
def test_a_broken_cached_file_is_regenerated(how, cache_folder, no_generation):
    generated = points.poisson_disk(PLANE, 50)
    file = cached_file(cache_folder)
    stored = file.read_bytes()
    BROKEN[how](file)
    assert file.read_bytes() != stored
    assert np.array_equal(points.poisson_disk(PLANE, 50).coordinates, generated.coordinates)
    assert cached_file(cache_folder).read_bytes() == stored
    no_generation()
    assert np.array_equal(points.poisson_disk(PLANE, 50).coordinates, generated.coordinates)


def test_a_file_appears_under_its_name_only_when_it_is_complete(cache_folder, monkeypatch):
    renamed = []
    replace = os.replace

    def watched(source, target):
        assert not pathlib.Path(target).exists()
        assert pathlib.Path(source).parent == pathlib.Path(target).parent
        assert np.load(source, allow_pickle=False).shape == (50, 2)
        renamed.append(pathlib.Path(target))
        replace(source, target)

    monkeypatch.setattr(os, "replace", watched)
    points.poisson_disk(PLANE, 50)
    assert renamed == [cached_file(cache_folder)]


def test_a_write_that_fails_leaves_nothing_behind_and_still_gives_points(cache_folder, monkeypatch):
    def full(stream, *_, **__):
        stream.write(b"half of a file")
        raise OSError("no space left on device")

    monkeypatch.setattr(np, "save", full)
    assert len(points.poisson_disk(PLANE, 50)) == 50
    assert list(cache_folder.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_not_used(tmp_path, monkeypatch):
    # A file in the way stops every user, root included, which permissions would not.
    blocked = tmp_path / "blocked"
    blocked.write_text("")
    monkeypatch.setenv("PANN_CACHE", str(blocked / "cache"))
    assert len(points.poisson_disk(PLANE, 50)) == 50
    assert blocked.read_text() == ""


def test_the_folder_is_our_own_variable_then_the_system_s_then_home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "shared"))
    monkeypatch.setenv("PANN_CACHE", str(tmp_path / "own"))
    expected = [tmp_path / "own", tmp_path / "shared" / "pann", tmp_path / "home/.cache/pann"]
    for folder, variable in zip(expected, ["PANN_CACHE", "XDG_CACHE_HOME", "HOME"], strict=True):
        assert not folder.exists()
        points.poisson_disk(PLANE, 20)
        assert cached_file(folder).suffix == ".npy"
        monkeypatch.delenv(variable)


def test_without_a_home_folder_there_is_no_cache(monkeypatch):
    def homeless():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("PANN_CACHE")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(pathlib.Path, "home", homeless)
    assert len(points.poisson_disk(PLANE, 20)) == 20


# ---- Points of one's own ----


def test_own_points_are_taken_as_they_are():
    array = np.array([[-1.0, 0.1], [1.0, 0.7], [0.3, 0.4]])
    taken = points.from_array(PLANE, array)
    assert np.array_equal(taken.coordinates, array)
    assert taken.weights is None


def test_own_points_may_be_a_flat_list_on_a_line_only():
    assert points.from_array(LINE, [0, 1, 5]).coordinates.tolist() == [[0.0], [1.0], [5.0]]
    with pytest.raises(ValueError, match=r"need the shape \(points, 2\).* x, t; got \(2,\)"):
        points.from_array(PLANE, [0.5, 0.5])


@pytest.mark.parametrize("shape", [(4, 1), (4, 3), (1, 4, 2), ()])
def test_own_points_with_wrong_columns_are_refused(shape):
    with pytest.raises(ValueError, match="a column for each of the axes x, t; got"):
        points.from_array(PLANE, np.full(shape, 0.5))


@pytest.mark.parametrize("empty", [[], np.empty((0, 2)), np.empty((3, 0))])
def test_no_points_are_refused(empty):
    with pytest.raises(ValueError, match="there must be at least one point, got an array"):
        points.from_array(PLANE, empty)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_own_points_that_are_not_finite_are_refused(bad):
    array = np.full((6, 2), 0.5)
    array[2, 1] = array[4, 0] = bad
    with pytest.raises(
        ValueError, match=r"2 of 6 points have a NaN .* the first is point 2; remove"
    ):
        points.from_array(PLANE, array)


@pytest.mark.parametrize("strange", [[["a", "b"]], [[1j, 0.5]], [[True, False]], [[None, 0.5]]])
def test_own_points_that_are_not_real_numbers_are_refused(strange):
    with pytest.raises(ValueError, match="must be an array of real numbers, got the type"):
        points.from_array(PLANE, strange)


def test_own_points_outside_are_counted_and_the_worst_is_named():
    # By its distance alone the worst would be point 1; measured by the box's width it is point 3.
    array = [[0.0, 0.5], [1.5, 0.5], [0.0, 0.7], [0.0, 1.0]]
    message = (
        r"2 of 4 points lie outside of the box; the worst is point 3 with t = 1.0, "
        r"which must be in \[0.1, 0.7\]; remove them or use a larger box"
    )
    with pytest.raises(ValueError, match=message):
        points.from_array(PLANE, array)


@pytest.mark.parametrize("precision", [np.float32, np.float64])
def test_own_points_may_miss_the_ends_by_the_rounding_they_came_with(precision):
    domain = Box(x=(0.0, 2 * np.pi), t=(1000.1, 1000.3))
    ends = np.array([domain.lower, domain.upper], precision)
    ends = np.nextafter(ends, np.array([[-np.inf], [np.inf]], precision))
    taken = points.from_array(domain, ends).coordinates
    assert np.all(taken >= domain.lower)
    assert np.all(taken <= domain.upper)
    ends[1, 0] += 0.001
    with pytest.raises(ValueError, match="1 of 2 points lie outside of the box"):
        points.from_array(domain, ends)
