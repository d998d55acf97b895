"""A box maps to the reference box and back, and refuses what is no box."""

import dataclasses
import itertools

import jaxtyping
import numpy as np
import pytest

from pann.domain import Box

PLANE = Box(x=(-3.0, 1.0), t=(0.25, 0.75), periodic="x", time="t")


@pytest.fixture
def unchecked():
    """Turn off the checks of types that only the tests have: users meet the errors behind them."""
    before = jaxtyping.config.jaxtyping_disable
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", before)


def test_axes_keep_the_order_they_were_given_in():
    assert PLANE.names == ("x", "t")
    assert PLANE.lower == (-3.0, 0.25)
    assert PLANE.upper == (1.0, 0.75)
    assert PLANE.dimension == 2
    assert PLANE.widths.tolist() == [4.0, 0.5]


def test_corners_map_to_the_corners_of_the_reference_box_and_back():
    corners = np.array(list(itertools.product((-3.0, 1.0), (0.25, 0.75))))
    reference = np.array(list(itertools.product((-1.0, 1.0), repeat=2)))
    assert np.array_equal(PLANE.to_reference(corners), reference)
    assert np.array_equal(PLANE.from_reference(reference), corners)


def test_the_center_maps_to_the_origin():
    assert np.array_equal(PLANE.to_reference(np.array([[-1.0, 0.5]])), [[0.0, 0.0]])


@pytest.mark.parametrize("domain", [PLANE, Box(x=(1e6, 1e6 + 1), y=(-1e-6, 1e-6))])
def test_the_maps_are_each_other_s_inverse(domain):
    reference = np.random.default_rng(0).uniform(-1.0, 1.0, (100, 2))
    there_and_back = domain.to_reference(domain.from_reference(reference))
    # Far from the origin the coordinates themselves are rounded, to 1e-10 of the first width.
    assert np.allclose(there_and_back, reference, rtol=0, atol=1e-9)


def test_the_maps_are_affine():
    first, second = np.random.default_rng(1).uniform(-1.0, 1.0, (2, 50, 2))
    middle = PLANE.from_reference(0.25 * first + 0.75 * second)
    blend = 0.25 * PLANE.from_reference(first) + 0.75 * PLANE.from_reference(second)
    assert np.allclose(middle, blend, rtol=0, atol=1e-14)


@pytest.mark.usefixtures("unchecked")
def test_integers_are_the_numbers_they_are():
    assert Box(x=(0, 4)) == Box(x=(0.0, 4.0))
    assert Box(x=(0, 4)).to_reference(np.array([[1], [3]])).tolist() == [[-0.5], [0.5]]


def test_the_closed_box_contains_its_corners_and_nothing_beyond():
    assert PLANE.contains(np.array([[-3.0, 0.25], [1.0, 0.75], [0.0, 0.5]]))
    assert not PLANE.contains(np.array([[0.0, 0.5], [1.0 + 1e-9, 0.5]]))
    assert not PLANE.contains(np.array([[0.0, 0.25 - 1e-9]]))
    assert not PLANE.contains(np.array([[np.nan, 0.5]]))


@pytest.mark.parametrize("dimension", [1, 2, 5])
def test_cubes_have_equal_axes(dimension):
    cube = Box.cube(dimension, 0.0, 2.0)
    assert cube.names == tuple(f"x{axis}" for axis in range(1, dimension + 1))
    assert cube.lower == (0.0,) * dimension
    assert cube.upper == (2.0,) * dimension
    assert Box.cube(dimension).widths.tolist() == [2.0] * dimension


def test_periodic_axes_may_be_one_name_or_several():
    assert Box(x=(0.0, 1.0), y=(0.0, 1.0), periodic="x") == Box(
        x=(0.0, 1.0), y=(0.0, 1.0), periodic=["x"]
    )
    assert Box(x=(0.0, 1.0), y=(0.0, 1.0), periodic=("x", "y")).periodic == ("x", "y")
    assert Box(x=(0.0, 1.0)).periodic == ()


def test_time_is_an_axis_or_none():
    assert PLANE.time == "t"
    assert Box(x=(0.0, 1.0)).time is None


def test_boxes_are_values():
    same = Box(x=(-3.0, 1.0), t=(0.25, 0.75), periodic="x", time="t")
    assert same == PLANE
    assert hash(same) == hash(PLANE)
    assert Box(x=(-3.0, 1.0), t=(0.25, 0.75), periodic="x") != PLANE
    with pytest.raises(dataclasses.FrozenInstanceError):
        PLANE.lower = (0.0, 0.0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, r"at least one axis: Box\(x=\(-1, 1\)\)"),
        ({"x": (0, 1), "periodic": "y"}, "'y' is not an axis of this box; its axes are x"),
        ({"x": (0, 1), "time": "t"}, "'t' is not an axis of this box; its axes are x"),
        ({"x": (1, 0)}, r"axis 'x' needs finite low < high, got \(1, 0\)"),
        ({"x": (1, 1)}, "axis 'x' needs finite low < high"),
        ({"x": (0, np.inf)}, "axis 'x' needs finite low < high"),
        ({"x": (np.nan, 1)}, "axis 'x' needs finite low < high"),
        ({"x": 3}, r"axis 'x' needs a pair \(low, high\), got 3"),
        ({"x": (0, 1, 2)}, r"axis 'x' needs a pair \(low, high\)"),
        ({"x": "ab"}, r"axis 'x' needs a pair \(low, high\)"),
        ({"lambda": (0, 1)}, "'lambda' is a word of Python"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_what_is_no_box_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        Box(**arguments)


def test_a_cube_needs_a_dimension():
    with pytest.raises(ValueError, match="dimension must be at least 1, got 0"):
        Box.cube(0)


@pytest.mark.parametrize("word", ["time", "periodic"])
def test_words_of_the_box_cannot_name_axes(word: str, unchecked: None) -> None:
    with pytest.raises(ValueError, match=f"an axis cannot be called '{word}' itself"):
        Box(**{word: (0.0, 1.0)})
