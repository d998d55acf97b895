"""The references of the sharp problems solve the problems that are posed.

A reference is interpolated at Chebyshev points of a small box about a point, and differentiated
there; of boxes of many sizes the one counts in which the residual is smallest. Where a reference is
not smooth, what holds across is tested for itself.
"""

import jax
import mpmath
import numpy as np
import pytest

from benchmarks import sharp
from benchmarks.sharp_problems import PROBLEMS, Case, cavity, chebyshev, circles, evolutions, layers
from benchmarks.sharp_problems.eikonal import logarithm_on_square
from pann import Dirichlet, Initial
from pann.pde.conditions import values_at

NUM_NODES = 9
SIZES = 10.0 ** -np.array([0.7, 1.3, 1.9, 2.5, 3.1, 3.8, 4.5, 6.0, 7.0])
# Several fields; a wave that is constant but for its jumps.
OTHERS = {"coefficient on a disk", "square wave once around", "fitzhugh-nagumo"}
COSTLY = {"eikonal on a square", "layers on four sides", "burgers moving sine"}
FORMULAS = [
    case
    for name, case in PROBLEMS.items()
    if case.reference is not None
    and name not in OTHERS
    and not {"cavity", "widths"} & set(name.split())
]
name_of = lambda case: case.name


def chosen(case, count=4):
    """Some uniform points, and some in the feature; not at the start, where some have jumps."""
    problem = case.make()
    points = case.points(problem)
    if problem.domain.time is not None:
        points = points[points[:, -1] > 0.02 * problem.domain.upper[-1]]
    return problem, np.concatenate([points[:count], points[-count:]])


def patches(domain, points):
    """For each point and size a small grid within the domain, and what interpolates on it."""
    found = []
    low, high = np.asarray(domain.lower), np.asarray(domain.upper)
    for point in points:
        for size in SIZES:
            half = size * domain.widths / 2
            middle = np.clip(point, low + half, high - half)
            ends = zip(middle - half, middle + half, strict=True)
            lines = [chebyshev.line(NUM_NODES - 1, *each) for each in ends]
            grid = np.meshgrid(*(line.points for line in lines), indexing="ij")
            found.append((point, lines, np.stack([part.ravel() for part in grid], axis=1)))
    return found


def residuals(case, reference, count):
    """Of each point in its best patch, over the sum of what each derivative contributes."""
    problem, points = chosen(case, count)
    all_patches = patches(problem.domain, points)
    nodes = np.concatenate([grid for _, _, grid in all_patches])
    values = np.asarray(reference(*nodes.T)).reshape(len(all_patches), -1)
    at = np.repeat(points, len(SIZES), axis=0)
    known = {}

    def derivative(order):
        if order not in known:
            found = []
            for (point, lines, _), each in zip(all_patches, values, strict=True):
                part = each.reshape([NUM_NODES] * len(point))
                for line, times, x in zip(lines, order, point, strict=True):
                    row = line.shares(np.array([x])) @ np.linalg.matrix_power(line.first, times)
                    part = np.tensordot(row[0], part, axes=(0, 0))
                found.append(float(part))
            known[order] = np.array(found)
        return known[order]

    def residual(without=()):
        get = lambda _, order: derivative(order) * (order not in without)
        with jax.enable_x64(True):
            return np.asarray(problem.evaluate(get, at, {})[0])

    whole = residual()
    scale = np.abs(residual(tuple(known)))
    for order in tuple(known):
        scale = scale + np.abs(residual((order,)) - whole)
    whole, scale = (each.reshape(len(points), -1) for each in (np.abs(whole), scale))
    best = np.arange(len(points)), np.argmin(whole, axis=1)
    # Where the solution is constant nothing but rounding is there to compare with.
    return whole[best] / np.maximum(scale[best], 1e-4 * np.max(scale[best]))


@pytest.mark.parametrize("case", FORMULAS, ids=name_of)
def test_references_solve_the_equations(case):
    # In three dimensions and of long sums fewer points do.
    is_costly = len(case.make().domain.names) == 3 or case.name in COSTLY
    found = residuals(case, case.reference, 1 if is_costly else 3)
    assert np.max(found) < 1e-6


@pytest.mark.parametrize("case", FORMULAS, ids=name_of)
def test_references_have_the_values_on_faces_and_at_the_start(case):
    problem = case.make()
    domain, rng = problem.domain, np.random.default_rng(2)
    for condition in problem.conditions:
        if isinstance(condition, Dirichlet):
            sides = condition.faces.sides
        elif isinstance(condition, Initial):
            sides = ((domain.time, "lower"),)
        else:
            continue
        for axis, side in sides:
            points = domain.from_reference(rng.uniform(-1, 1, (20, domain.dimension)))
            number = domain.names.index(axis)
            points[:, number] = (domain.lower if side == "lower" else domain.upper)[number]
            asked = values_at(condition.value, domain, points)
            true = case.true(points)[:, 0]
            np.testing.assert_allclose(true, asked, rtol=0, atol=2e-11 * max(1, np.max(abs(true))))


# ---- By other means ----


def test_layers_of_two_widths_solve_their_system():
    first, second = 1e-6, 1e-3
    grid = chebyshev.line(30, 0, 0.01)
    u, v = PROBLEMS[f"two widths {first:g}, {second:g}"].reference(grid.points)
    for own, eps, other in ((u, first, v), (v, second, u)):
        residual = -eps * grid.second @ own + 2 * own - other - 1
        assert np.max(np.abs(residual)) < 1e-8
        assert abs(own[0]) < 1e-14


def test_cole_hopf_by_more_digits():
    nu = evolutions.VISCOSITY
    for x, t in ((0.5005, 0.7), (0.4, 0.1)):
        potential = lambda z, x=x, t=t: (
            z**2 / (2 * t) + (1 - mpmath.cos(2 * mpmath.pi * (x - z))) / (2 * mpmath.pi)
        )
        weight = lambda z, potential=potential: mpmath.exp(-potential(z) / (2 * nu))
        z = mpmath.linspace(-1.5, 1.5, 2_001)
        weights = [weight(each) for each in z]
        true = mpmath.fdot(z, weights) / t / mpmath.fsum(weights)
        assert abs(evolutions.cole_hopf(np.array([x]), np.array([t]))[0] - float(true)) < 1e-12


def test_interior_shock_by_two_resolutions():
    x = np.r_[np.linspace(0, 1, 500), 0.25 + np.linspace(-0.02, 0.02, 500)]
    coarse, fine = (layers.shock_on_line(1e-3, count)(x) for count in (140, 200))
    assert np.max(np.abs(coarse - fine)) < 1e-9


def test_square_of_layers_by_more_digits():
    """The series with 50 digits in the plain form, of x and y in either role."""
    x, y, eps = 0.31, 0.47, 0.01
    with mpmath.workdps(80):
        total = mpmath.cosh(mpmath.mpf(x) / eps) / mpmath.cosh(mpmath.mpf(1) / eps)
        for k in range(1, 400, 2):
            wave = k * mpmath.pi / 2
            rate = mpmath.sqrt(1 / mpmath.mpf(eps) ** 2 + wave**2)
            factor = 2 * (-1) ** ((k - 1) // 2) / (mpmath.mpf(eps) ** 2 * wave * rate**2)
            total += factor * mpmath.cos(wave * x) * mpmath.cosh(rate * y) / mpmath.cosh(rate)
        true = float(mpmath.log(total))
    for at in ((x, y), (y, x), (-x, y)):
        found = logarithm_on_square(np.array([at[0]]), np.array([at[1]]), eps)[0]
        assert abs(found - true) < 1e-12 * abs(true)


def test_disk_of_another_coefficient():
    """The equation on both sides; value and flux across the circle."""
    case = PROBLEMS["coefficient on a disk"]
    (x0, y0), angle, h = circles.CENTER, np.linspace(0, 6, 7), 1e-4
    at = lambda r: case.reference(x0 + r * np.cos(angle), y0 + r * np.sin(angle))
    r = circles.RADIUS
    np.testing.assert_allclose(at(r - 1e-13), at(r + 1e-13), atol=1e-12)
    inner = (3 * at(r - 1e-12) - 4 * at(r - h) + at(r - 2 * h)) / (2 * h)
    outer = (-3 * at(r + 1e-12) + 4 * at(r + h) - at(r + 2 * h)) / (2 * h)
    np.testing.assert_allclose(circles.INNER * inner, circles.OUTER * outer, atol=1e-5)
    for coefficient, radius in ((circles.INNER, 0.3), (circles.OUTER, 0.7)):
        x, y = x0 + radius * np.cos(angle), y0 + radius * np.sin(angle)
        sides = [case.reference(x + dx, y + dy) for dx, dy in ((h, 0), (-h, 0), (0, h), (0, -h))]
        laplacian = (sum(sides) - 4 * case.reference(x, y)) / h**2
        np.testing.assert_allclose(coefficient * laplacian, 4, atol=1e-5)


def test_intersecting_interfaces_have_a_continuous_flux():
    case = PROBLEMS["nist intersecting interfaces"]
    ratio, s, h = 161.4476387975881, np.array([-0.7, -0.2, 0.3, 0.9]), 1e-5
    for u in (case.reference, lambda x, y: case.reference(y, x)):
        np.testing.assert_allclose(u(1e-14, s), u(-1e-14, s), rtol=1e-9)
        upper = (-3 * u(1e-13, s) + 4 * u(h, s) - u(2 * h, s)) / (2 * h)
        lower = (3 * u(-1e-13, s) - 4 * u(-h, s) + u(-2 * h, s)) / (2 * h)
        of_upper, of_lower = np.where(s > 0, ratio, 1.0), np.where(s > 0, 1.0, ratio)
        np.testing.assert_allclose(of_upper * upper, of_lower * lower, rtol=1e-5)


def test_cavity_by_two_resolutions():
    """What is stored, by fewer points, and by published values of more digits than Ghia's."""
    smooth = cavity.Flow(100.0, cavity.smooth_lid, 24)
    assert PROBLEMS["cavity 100, smooth lid"].errors(smooth)["error"] < 1e-4
    classical = cavity.Flow(100.0, cavity.constant_lid, 24)
    errors = PROBLEMS["cavity 100, constant lid"].errors(classical)
    assert errors["error"] < 5e-4
    assert errors["off Ghia's table"] < 1e-2
    (u,), (v,) = cavity.stored_lines(100.0, np.array([0.5]))
    # Botella and Peyret, Computers and Fluids 27 (1998), table for Re = 100.
    assert abs(u + 0.2091491) < 1e-6
    assert abs(v - 0.0575365) < 2e-6


@pytest.mark.parametrize("reynolds", (100, 3200))
def test_cavity_near_the_table_of_ghia(reynolds):
    """Entries near the walls are off by up to a hundredth (100), or by five (3200)."""
    lines = [np.array(each) for each in (cavity.GHIA_Y, cavity.GHIA_X)]
    for number, (at, table) in enumerate(zip(lines, cavity.GHIA[reynolds], strict=True)):
        off = np.abs(cavity.stored_lines(reynolds, at)[number] - np.array(table))
        assert np.median(off) < 1e-2
        assert np.max(off) < (1e-2 if reynolds == 100 else 5e-2)


def test_weno_is_of_fifth_order_in_space():
    wave = lambda x: np.sin(2 * np.pi * x)
    means = lambda n: np.sin(np.pi / n) / (np.pi / n) * wave((np.arange(n) + 0.5) / n)
    errors = [np.max(np.abs(evolutions.weno(n, wave, 0.1) - means(n))) for n in (20, 40)]
    assert errors[0] / errors[1] > 2**4


# ---- Dedicated solvers, those that take little time ----

QUICK = {
    "advection 0.0001": 1e-11,
    "advection 1e-06": 1e-11,
    "advection on a square 0.01": 1e-9,
    "turning point": 1e-8,
    "layers at both ends": 1e-11,
    "allen-cahn interface": 1e-10,
    "steep coefficient": 1e-10,
    "source jump": 1e-13,
    "nist analytic": 1e-11,
    "nist boundary layer 0.1": 1e-9,
    "nist boundary line": 1e-12,
}


@pytest.mark.parametrize("name", QUICK)
def test_dedicated_solvers_agree_with_the_references(name):
    case = PROBLEMS[name]
    assert case.errors(case.dedicated())["error"] < QUICK[name]


# ---- The benchmark ----


def test_rows_that_a_box_cannot_hold_say_so():
    (row,) = sharp.rows({"nist reentrant corner"})
    assert "corner" in row["said"]
    assert sharp.names() == list(PROBLEMS)


def test_the_error_is_that_of_the_worst_point():
    case = PROBLEMS["advection 0.0001"]
    assert isinstance(case, Case)
    wrong = lambda x: case.reference(x) + 0.01 * (np.abs(x - 0.9999) < 1e-4)
    assert case.errors(wrong)["error"] == pytest.approx(0.01, rel=1e-2)
    built = case.build()
    assert built.values.shape == (len(built.points), 1)
    assert built.goal == 1e-10
