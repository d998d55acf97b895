"""Identities that hold for any arguments, tried on many by hypothesis, the same ones each time."""

import itertools
import math
import tempfile

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from pann.basis import Chebyshev, Fourier, Legendre
from pann.basis.index_sets import hyperbolic_cross, tensor_product, total_degree
from pann.domain import Box
from pann.io import read, write

few = settings(derandomize=True, database=None, max_examples=25, deadline=None)
reference = st.floats(-1, 1)
degrees, orders = st.integers(0, 30), st.integers(0, 3)
FAMILIES = {"legendre": Legendre(), "chebyshev": Chebyshev(), "fourier": Fourier()}


# ---- Families ----


@few
@given(x=reference, degree=st.integers(1, 40), order=orders)
def test_derivatives_of_legendre_polynomials_satisfy_their_recurrence(x, degree, order):
    """(n + 1) P_{n+1} = (2n + 1) x P_n - n P_{n-1}, differentiated by Leibniz's rule."""
    n = degree
    value = Legendre().table(np.array([x]), n + 2, order)[0]
    lower = Legendre().table(np.array([x]), n + 2, order - 1)[0] if order else np.zeros(n + 2)
    left = (n + 1) * value[n + 1]
    right = (2 * n + 1) * (x * value[n] + order * lower[n]) - n * value[n - 1]
    # A derivative is largest at 1, where it is about n^(2k) / (2^k k!).
    size = (2 * n + 1) * (n + 1.0) ** (2 * order)
    assert left == pytest.approx(right, abs=1e-14 * size)


@few
@given(x=reference, degree=degrees, order=orders)
def test_derivatives_of_legendre_polynomials_are_those_of_mpmath(x, degree, order):
    found = Legendre().table(np.array([x]), degree + 1, order)[0, degree]
    with mpmath.workdps(40):
        coefficients = mpmath.taylor(lambda z: mpmath.legendre(degree, z), x, order)
        known = float(coefficients[order] * math.factorial(order))
    assert found == pytest.approx(known, rel=1e-11, abs=1e-14 * (degree + 1.0) ** (2 * order))


@few
@given(x=reference, degree=degrees)
def test_chebyshev_polynomials_compose(x, degree):
    """T_m(T_n(x)) = T_{mn}(x)."""
    inner = Chebyshev().table(np.array([x]), degree + 1)[:, degree]
    outer = Chebyshev().table(inner, 4)[0, 3]
    whole = Chebyshev().table(np.array([x]), 3 * degree + 1)[0, 3 * degree]
    # A cosine of n times an angle has n^2 times the error of the cosine, near the ends.
    assert outer == pytest.approx(whole, abs=1e-14 * (degree + 1) ** 2)


@few
@given(x=reference, order=st.integers(0, 4), count=st.integers(1, 21))
def test_waves_are_their_own_second_derivatives(x, order, count):
    values = Fourier().table(np.array([x]), count, order)[0]
    twice = Fourier().table(np.array([x]), count, order + 2)[0]
    squares = (np.pi * Fourier().levels(count)) ** 2
    scale = np.max(np.abs(squares)) ** (order / 2 + 1)
    np.testing.assert_allclose(twice, -squares * values, atol=1e-13 * max(scale, 1.0))


@few
@given(name=st.sampled_from([*FAMILIES]), count=st.integers(1, 30))
def test_families_are_orthogonal_by_their_own_quadrature(name, count):
    family = FAMILIES[name]
    nodes, weights = family.quadrature(2 * count)
    table = family.table(nodes, count)
    norms = family.norms(count)
    np.testing.assert_allclose((table.T * weights) @ table, np.diag(norms**2), atol=1e-13)


# ---- Index sets ----

RULES = {
    total_degree: lambda index, level: sum(index) <= level,
    tensor_product: lambda index, level: max(index) <= level,
    hyperbolic_cross: lambda index, level: math.prod(i + 1 for i in index) <= level + 1,
}


@few
@given(make=st.sampled_from([*RULES]), dimension=st.integers(1, 4), level=st.integers(0, 5))
def test_index_sets_hold_what_their_rule_says(make, dimension, level):
    found = [tuple(index) for index in make([Legendre()] * dimension, level).tolist()]
    every = itertools.product(range(level + 1), repeat=dimension)
    assert len(set(found)) == len(found)
    assert set(found) == {index for index in every if RULES[make](index, level)}


# ---- Boxes ----

ends = st.tuples(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6)).map(lambda pair: (pair[0], sum(pair)))


@few
@given(sides=st.lists(ends, min_size=1, max_size=3), seed=st.integers(0, 2**32 - 1))
def test_reference_coordinates_go_there_and_back(sides, seed):
    box = Box(**{f"x{axis}": side for axis, side in enumerate(sides)})
    points = np.random.default_rng(seed).uniform(-1, 1, (20, len(sides)))
    placed = box.from_reference(points)
    largest = np.maximum(np.abs(box.lower), np.abs(box.upper))
    ulp = np.finfo(float).eps * largest
    assert np.all((placed >= box.lower - ulp) & (placed <= box.upper + ulp))
    # What is lost is the rounding of coordinates that are large compared with the width.
    rounding = 4 * (np.finfo(float).eps + 2 * ulp / box.widths)
    assert np.all(np.abs(box.to_reference(placed) - points) <= rounding)
    corners = np.array([box.lower, box.upper])
    np.testing.assert_array_equal(box.to_reference(corners), [[-1] * len(sides), [1] * len(sides)])


# ---- Files ----

stored = st.sampled_from(["float64", "float32", "int64", "int32", "uint8", "bool"]).flatmap(
    lambda dtype: arrays.arrays(dtype, arrays.array_shapes(min_dims=0, max_dims=3, min_side=0))
)
names = st.text("abcdefghijklmnopqrstuvwxyz_", min_size=1, max_size=8)
notes = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | names,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=8,
)


@few
@given(
    given_arrays=st.dictionaries(names, stored, max_size=3), header=st.dictionaries(names, notes)
)
def test_files_give_back_what_was_written(given_arrays, header):
    with tempfile.TemporaryDirectory() as folder:
        write(f"{folder}/any.pann", "numbers", header, given_arrays)
        kind, found_header, found, *_ = read(f"{folder}/any.pann")
    assert (kind, found_header, found.keys()) == ("numbers", header, given_arrays.keys())
    for name, array in given_arrays.items():
        np.testing.assert_array_equal(found[name], array, strict=True)
