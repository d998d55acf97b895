"""Eigenvalues against zeros of Bessel functions, series, and published digits."""

import numpy as np
import pytest
import scipy.special

import pann
from pann.shapes import Disk, Polygon

DISK = Disk()
LINE = pann.Box(x=(0, np.pi))


def helmholtz(u, lam):
    return u.laplacian + lam * u.value


def membrane(domain, residual=helmholtz, guess=0.0):
    conditions = [pann.Dirichlet(domain.boundary)]
    return pann.Problem(domain, residual, conditions, parameters={"lam": guess})


@pytest.fixture(scope="module")
def drum():
    return pann.eigen(membrane(DISK), 8)


def test_drum_sounds_as_zeros_of_bessel_functions(drum):
    zeros = [scipy.special.jn_zeros(m, 3) for m in range(6)]
    twice = [np.repeat(each, 1 if m == 0 else 2) for m, each in enumerate(zeros)]
    np.testing.assert_allclose(drum.values, np.sort(np.concatenate(twice))[:8] ** 2, rtol=1e-12)
    assert drum.resolved
    assert np.all(drum.residuals < 1e-10)
    assert str(drum).startswith("resolved")
    assert "5.78318596" in str(drum)


def test_eigenfunctions_are_orthonormal_and_satisfy_the_equation(drum):
    first = scipy.special.jn_zeros(0, 1)[0]
    r = np.linspace(0, 1, 7)
    exact = scipy.special.j0(first * r) / abs(scipy.special.j1(first))
    # Mean square one over some thousand random points.
    np.testing.assert_allclose(drum.functions[0](x=r, y=0 * r), exact, atol=0.05)
    u, lam = drum.functions[1], drum.functions[1].parameters["lam"]
    at = {"x": np.array([0.3, -0.5]), "y": np.array([0.1, 0.4])}
    laplacian = u.derivative({"x": 2}, **at) + u.derivative({"y": 2}, **at)
    np.testing.assert_allclose(laplacian, -lam * u(**at), atol=1e-9)


def test_corner_has_its_functions():
    l_shape = Polygon([(-1, -1), (0, -1), (0, 0), (1, 0), (1, 1), (-1, 1)])
    found = pann.eigen(membrane(l_shape), 3, tolerance=1e-8)
    # Betcke and Trefethen (2005).
    assert abs(found.values[0] - 9.6397238440219410527) < 1e-8
    assert abs(found.values[2] - 2 * np.pi**2) < 1e-8


def test_zero_is_an_eigenvalue_of_fluxes_alone():
    square = pann.Box(x=(0, 1), y=(0, 1))
    problem = pann.Problem(
        square, helmholtz, [pann.Neumann(square.boundary)], parameters={"lam": 0.0}
    )
    found = pann.eigen(problem, 6)
    np.testing.assert_allclose(found.values, np.pi**2 * np.array([0, 1, 1, 2, 4, 4]), atol=1e-9)


def test_nearest_to_the_guess_come_first():
    found = pann.eigen(membrane(LINE, guess=30.0), 3)
    np.testing.assert_allclose(found.values, [25, 36, 16], rtol=1e-9)


def test_complex_pairs_stay_together():
    ring = pann.Box(x=(0, 2 * np.pi), periodic="x")
    transport = lambda u, lam: 0.1 * u.xx - u.x + lam * u.value
    found = pann.eigen(pann.Problem(ring, transport, [], parameters={"lam": 0.0}), 4)
    np.testing.assert_allclose(found.values, [0, 0.1 - 1j, 0.1 + 1j, 0.4 - 2j, 0.4 + 2j], atol=1e-9)
    assert found.resolved


def test_several_fields_vibrate_together():
    # A wave as two equations of first order: eigenvalues are those of sin(k x), cos(k x).
    problem = pann.Problem(
        LINE,
        lambda u, v, lam: (v.x + lam * u.value, u.x - lam * v.value),
        [pann.Dirichlet(LINE.boundary, field="u")],
        fields=("u", "v"),
        parameters={"lam": 0.9},
    )
    found = pann.eigen(problem, 3)
    np.testing.assert_allclose(sorted(found.values), [0, 1, 2], atol=1e-9)


def test_what_is_not_smooth_is_not_called_resolved():
    step = lambda u, x, lam: u.xx - 1e4 * abs(x - 1.234) * u.value + lam * u.value
    assert not pann.eigen(membrane(LINE, step), 3, tolerance=1e-13).resolved


@pytest.mark.parametrize(
    "problem, number, said",
    [
        (membrane(LINE, lambda u, lam: u.xx + lam * u.value**2), 3, "not linear in the fields"),
        (membrane(LINE, lambda u, lam: u.xx + lam**2 * u.value), 3, "not linear in lam"),
        (membrane(LINE, lambda u, lam: u.xx + lam * u.value - 1), 3, "leave its source out"),
        (membrane(LINE, lambda u, lam: u.xx), 3, "does not depend on lam"),
        (membrane(LINE), 0, "at least 1"),
        (pann.Problem(LINE, lambda u: u.xx, [pann.Dirichlet(LINE.boundary)]), 3, "one parameter"),
        (
            pann.Problem(
                LINE, helmholtz, [pann.Dirichlet(LINE.boundary, 1.0)], parameters={"lam": 0.0}
            ),
            3,
            "leave its value out",
        ),
        (membrane(DISK.in_time(t=(0.0, 1.0))), 3, "no axis of time"),
    ],
)
def test_what_is_no_eigenvalue_problem_is_refused(problem, number, said):
    with pytest.raises(ValueError, match=said):
        pann.eigen(problem, number)
