"""Bases to try on a shape: polynomials, and functions of its holes and corners.

A polynomial of degree n has what is smooth beyond the shape. It has not

- what is smooth around a hole but not inside: w^-m and log r, w from a center in the hole;
- r^lambda at a corner of angle omega, lambda = k pi / omega, or (k - 1/2) pi / omega between a
  value and a flux; where that is a whole number, also r^lambda log r (Grisvard, 1985). Equations
  with other terms than the Laplacian multiply these, and those of holes, by polynomials, nonlinear
  ones by each other;
- corners of systems, whose exponents are another matter for each system: poles that cluster at the
  corner from outside have any of them (Gopal and Trefethen, 2019).
"""

import functools
import itertools
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import jax
import numpy as np

from pann.basis import ShapeBasis, Singular
from pann.basis.on_shapes import orthonormal
from pann.basis.singular import (
    CUT_SHORT,
    CUT_SHORT_LOGARITHM,
    LOG_RADIUS,
    LOGARITHM,
    PLAIN,
)
from pann.pde.conditions import Dirichlet, Neumann, Robin
from pann.pde.fields import Order
from pann.pde.problem import Problem
from pann.shapes import Boundary, Part, Shape, junctions
from pann.shapes.arcs import Circle
from pann.solvers.determinacy import is_linear

# Singular exponents up to this one at corners; a polynomial has the others to about n^(-2 lambda).
HIGHEST_EXPONENT = 6.0
# Where their series is known.
HIGHEST_IN_SERIES = 12.0
# Polynomials that singular functions of a hole are multiplied by have at most this degree.
MOST_FACTORS = 6
# Next to polynomials of degree n, harmonic ones up to so many times that.
HARMONIC = 3
# Poles at a corner of a system, and how fast they cluster.
FEWEST_POLES, MOST_POLES, POLES_PER_DEGREE, CLUSTERING = 20, 60, 2.0, 4.0
# Up to this angle corners of systems are left to polynomials.
SMOOTH_ENOUGH = 1.05 * math.pi
# Points of a cut at which it is seen whether it comes back.
NUM_ON_CUT = 400
WHOLE = 1e-6  # exponents nearer than this to a whole number are one

Row = tuple[float | int, ...]


def bases_of_shape(problem: Problem, degrees: Sequence[int]) -> list[ShapeBasis]:
    """A basis for each degree, with as many other functions as suit it."""
    return [ShapeBasis(problem.domain, n, singular_functions(problem, n)) for n in degrees]


def basis_of_eigenfunctions(problem: Problem, degree: int) -> ShapeBasis:
    """The same for a homogeneous equation, of which the series at most corners are known.

    Singular functions stay as they are: less all polynomials they are small, and yet their
    derivatives at a corner are not.
    """
    singular = singular_functions(problem, degree, homogeneous=True)
    if not len(singular):
        return ShapeBasis(problem.domain, degree)
    made = orthonormal(problem.domain, degree, len(singular)).next_to(singular)
    return ShapeBasis(problem.domain, degree, singular, made)


@functools.lru_cache(maxsize=64)
def singular_functions(problem: Problem, degree: int, *, homogeneous: bool = False) -> Singular:
    """Those of all holes and corners that suit polynomials of a degree.

    Equation and conditions may be `homogeneous`: without sources.
    """
    shape = problem.domain.shape
    assert isinstance(shape, Shape)
    is_hard = any(isinstance(each, Dirichlet) and each.hard for each in problem.conditions)
    if shape.dimension != 2 or (is_hard and not homogeneous):
        # They belong to the solution, not to what hard conditions leave of it.
        return Singular.of(())
    rows: list[Row] = []
    alone = is_laplacian(problem)
    for center, radius in _centers(shape):
        rows += _of_hole(center, radius, degree, alone=alone)
    is_series = homogeneous and is_helmholtz(problem)
    for corner in corners_of(problem):
        if is_series and corner.is_plain:
            rows += _series(shape, corner)
        else:
            rows += _of_corner(problem, shape, corner, degree, alone=alone)
    if alone:
        middle = 0.5 * (np.asarray(shape.lower) + np.asarray(shape.upper))
        radius = 0.5 * math.hypot(*(np.asarray(shape.upper) - np.asarray(shape.lower)))
        for m in range(degree + 1, HARMONIC * degree + 1):
            rows += _both(*middle, 0.0, 2.0 * math.pi, radius, float(m), 0.0, PLAIN)
    return Singular.of(list(dict.fromkeys(rows)))


def _centers(shape: Shape) -> list[tuple[Sequence[float], float]]:
    """Those of holes, and of circles that bite into the shape."""
    found: list[tuple[Sequence[float], float]]
    found = [(hole.center, hole.radius) for hole in shape.holes]
    for part in shape.arcs:
        if part.is_closed or not isinstance(part.path, Circle):
            continue
        center, radius = part.map(np.zeros((1, 2)))[0], part.map.factor
        middle = np.array([0.5])
        is_concave = (center - part.point(middle)[0]) @ part.normal(middle)[0] > 0.0
        gaps = [math.dist(center, known) for known, _ in found]
        if is_concave and not shape.inside(center[None])[0] and min(gaps, default=1.0) > WHOLE:
            found.append((tuple(center.tolist()), float(radius)))
    return found


class Junction(NamedTuple):
    """Where boundary conditions meet; the angle may be pi."""

    point: tuple[float, float]
    angle: float
    direction: float
    is_mixed: bool
    is_new: bool  # other conditions before and after
    is_fixed: bool  # a value on the side that the angle counts from
    is_plain: bool  # between straight sides with values or fluxes


def corners_of(problem: Problem) -> list[Junction]:
    """Corners of the shape, and points of its boundary at which conditions change."""
    shape = problem.domain.shape
    assert isinstance(shape, Shape)
    found: dict[tuple[float, ...], Junction] = {}
    for field in range(len(problem.fields)):
        owners: dict[Part, int] = {}
        fixed: dict[int, bool] = {}
        robin: set[int] = set()
        for number, condition in enumerate(problem.conditions):
            if not isinstance(condition, Dirichlet | Neumann | Robin):
                continue
            if problem.field_number(condition) == field and isinstance(condition.faces, Boundary):
                owners |= {part: number for part in condition.faces if isinstance(part, Part)}
                fixed[number] = isinstance(condition, Dirichlet)
                if isinstance(condition, Robin):
                    robin.add(number)
        try:
            meetings = junctions(tuple(owners), shape.inside, shape.size)
        except ValueError:
            # Without a condition on some part there is no way around the boundary.
            owners, meetings = {}, shape.corners
        for meeting in meetings:
            before, after = (owners.get(part, -1) for part in (meeting.arriving, meeting.leaving))
            is_mixed = fixed.get(before) != fixed.get(after)
            is_turn = abs(meeting.angle - math.pi) > WHOLE
            if not is_turn and before == after:
                continue
            key = (*np.round(meeting.point, 12), is_mixed)
            known = found.get(key)
            is_new = before != after or (known is not None and known.is_new)
            is_plain = meeting.is_straight and {before, after} <= set(fixed) - robin
            place = meeting.point, meeting.angle, meeting.direction
            found[key] = Junction(*place, is_mixed, is_new, fixed.get(after, False), is_plain)
    return list(found.values())


def is_laplacian(problem: Problem) -> bool:
    """Whether the equation asks for the Laplacian of a single field, and for nothing else of it."""
    found = _coefficients(problem)
    return found is not None and len(found) == 2


def is_helmholtz(problem: Problem) -> bool:
    """Whether it asks for that and the field itself, both times numbers."""
    found = _coefficients(problem)
    return found is not None and all(np.ptp(e) <= 1e-12 * np.max(abs(e)) for e in found.values())


@functools.lru_cache(maxsize=32)
def _coefficients(problem: Problem) -> dict[Order, np.ndarray] | None:
    """Those of a single field and of its second derivatives, if these are a Laplacian's."""
    orders = problem.asked.orders
    if len(problem.fields) > 1 or not {(0, 2), (2, 0)} <= set(orders) <= {(0, 0), (0, 2), (2, 0)}:
        return None
    if not is_linear(problem):
        return None
    rng = np.random.default_rng(4)
    points = problem.domain.filled(lambda count: rng.random((count, 2)), 8)

    def at(*values: float) -> np.ndarray:
        channels = {(0, order): value for order, value in zip(orders, values, strict=True)}
        return np.stack([np.broadcast_to(e, 8) for e in problem.evaluate_at(points, channels)])

    with jax.enable_x64(True):
        zero, units = at(*(0.0 for _ in orders)), np.eye(len(orders))
        found = {o: at(*unit) - zero for o, unit in zip(orders, units.tolist(), strict=True)}
    is_sum = np.allclose(found[0, 2], found[2, 0], rtol=1e-12, atol=0.0)
    return found if is_sum else None


def _both(*row: float | int) -> list[Row]:
    """Real and imaginary part."""
    return [(*row, 0.0), (*row, 1.0)]


def _of_hole(center: Sequence[float], radius: float, degree: int, *, alone: bool) -> Iterator[Row]:
    """w^-m and log r, times powers of w and conj(w) unless the Laplacian stands `alone`."""
    place = (*center, 0.0, 2.0 * math.pi, radius)
    most = degree + 4 if alone else degree // 2 + 2
    times = 0 if alone else min(MOST_FACTORS, degree // 6)
    for m, j in itertools.product(range(1, most + 1), range(times + 1)):
        yield from _both(*place, -float(m), float(j), PLAIN)
    for i, j in itertools.product(range(times + 1), repeat=2):
        if j <= i:
            yield from _both(*place, float(i), float(j), LOG_RADIUS)[: 1 if i == j else 2]


def _of_corner(
    problem: Problem, shape: Shape, corner: Junction, degree: int, *, alone: bool
) -> Iterator[Row]:
    if corner.angle < WHOLE:
        return  # a cusp, toward which solutions are flat
    first = math.pi / corner.angle
    if len(problem.fields) > 1:
        is_sharp = corner.is_mixed or corner.angle > SMOOTH_ENOUGH
        if is_sharp and corner.angle < 2.0 * math.pi - 0.1:
            yield from _poles(problem, shape, corner, degree)
        return
    place, power, logarithm = _place(shape, corner)
    step = 0.5 * first if corner.is_mixed else first
    few = 1 if is_linear(problem) else int(HIGHEST_EXPONENT / step)
    most = int(HIGHEST_EXPONENT / step + WHOLE)
    # With (i, 0) the exponents themselves, with others their products.
    powers = [(i, 0) for i in range(1, most + 1) if not corner.is_mixed or few > 1 or i % 2]
    powers += [
        (i, j) for i in range(1, few) for j in range(1, i + 1) if (i + j) * step <= HIGHEST_EXPONENT
    ]
    for i, j in powers:
        p, q = i * step, j * step
        rest = int(HIGHEST_EXPONENT - p - q + WHOLE)
        # Powers of w / (w - 1) are not those of w, but times their powers they are.
        along = range(1 if alone and power == PLAIN else rest + 1)
        across = range(1 if alone else rest + 1)
        is_whole = abs(p - round(p)) < WHOLE and abs(q - round(q)) < WHOLE
        for a, b in itertools.product(along, across):
            if a + b > rest:
                continue
            if is_whole:
                yield from _both(*place, float(round(p) + a), float(round(q) + b), logarithm)
            else:
                yield from _both(*place, p + a, q + b, power)
    if corner.is_new:
        # The values given on both sides may differ: theta, and w log w where slopes do.
        yield (*place, 0.0, 0.0, logarithm, 1.0)
        yield from _both(*place, 1.0, 0.0, logarithm)


def _place(shape: Shape, corner: Junction) -> tuple[Row, float, float]:
    """Where functions of a corner are, and the kinds of powers and logarithms.

    Their cut goes outward. Where it would come back into the shape it ends half-way.
    """
    plain = (*corner.point, corner.direction, corner.angle, shape.size)
    outward = corner.direction + 0.5 * corner.angle + math.pi
    distances = shape.size * np.linspace(0.0, math.sqrt(2.0), NUM_ON_CUT + 1)[1:]
    ray = np.array([math.cos(outward), math.sin(outward)])
    back = np.flatnonzero(shape.inside(np.asarray(corner.point) + distances[:, None] * ray))
    if corner.angle > 2.0 * math.pi - 0.1 or not len(back):
        return plain, PLAIN, LOGARITHM
    end = 0.5 * float(distances[back[0]])
    return (*corner.point, outward, 2.0 * math.pi, end), CUT_SHORT, CUT_SHORT_LOGARITHM


def _series(shape: Shape, corner: Junction) -> Iterator[Row]:
    """r^(nu + 2a) sin(nu theta), or cos: what J_nu(k r) times these consists of, at each corner."""
    place = (*corner.point, corner.direction, corner.angle, shape.size)
    if corner.angle < WHOLE:
        return
    step = math.pi / corner.angle
    for k in range(1, int(HIGHEST_IN_SERIES / step) + 2):
        nu = (k - 0.5 * corner.is_mixed) * step
        if abs(nu - round(nu)) < WHOLE:
            continue
        for a in range(int((HIGHEST_IN_SERIES - nu) / 2.0) + 1):
            yield (*place, nu + a, float(a), PLAIN, float(corner.is_fixed))


def _poles(problem: Problem, shape: Shape, corner: Junction, degree: int) -> Iterator[Row]:
    """Plane elasticity and flow by Goursat's functions phi and psi with poles outside.

    Displacements and velocities are combinations of phi, psi and z conj(phi'), pressures are those
    of phi'; with w = z - z_j these are 1/w, conj(w)/w^2 and 1/w^2.
    """
    outward = corner.direction + 0.5 * corner.angle + math.pi
    count = max(FEWEST_POLES, min(round(POLES_PER_DEGREE * degree), MOST_POLES))
    for number in range(1, count + 1):
        distance = shape.size * math.exp(CLUSTERING * (math.sqrt(number) - math.sqrt(count)))
        x = corner.point[0] + distance * math.cos(outward)
        y = corner.point[1] + distance * math.sin(outward)
        if shape.inside(np.array([[x, y]]))[0]:
            continue
        place = (x, y, 0.0, 2.0 * math.pi, distance)
        yield from _both(*place, -1.0, 0.0, PLAIN)
        yield from _both(*place, -2.0, 1.0, PLAIN)
        if len(problem.fields) > 2:
            yield from _both(*place, -2.0, 0.0, PLAIN)
