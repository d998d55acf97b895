"""Equations in the plane: smooth solutions, holes, corners, nonlinear terms, systems."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

from benchmarks.shape_problems.harmonic import Laplace, Yukawa
from benchmarks.sharp_problems.case import Case, Function
from pann import Data, Dirichlet, Neumann, Problem
from pann.shapes import Curve, Disk, Polygon, Rectangle, Shape


def radius(t: Any) -> Any:
    return 0.7 + 0.2 * jnp.cos(10 * jnp.pi * t)


STAR = Curve(
    lambda t: (radius(t) * jnp.cos(2 * jnp.pi * t), radius(t) * jnp.sin(2 * jnp.pi * t)),
    name="star",
)
RING = Disk(radius=1) - Disk(radius=0.3)
HOLES = (
    Rectangle(x=(-1, 1), y=(-1, 1))
    - Disk(center=(0.4, 0.4), radius=0.2)
    - Disk(center=(-0.5, 0.3), radius=0.15)
    - Disk(center=(0.0, -0.5), radius=0.25)
)


def airfoil(t: Any) -> Any:
    """A Joukowski map of a circle whose singular point lies inside: a tail that is round."""
    center, r = -0.08 + 0.08j, 1.05
    x, y = center.real + r * jnp.cos(2 * jnp.pi * t), center.imag + r * jnp.sin(2 * jnp.pi * t)
    square = x * x + y * y
    return 0.5 * (x + 0.8 * x / square), 0.5 * (y - 0.8 * y / square)


AIRFOIL = Curve(airfoil, name="airfoil")
LSHAPE = Polygon([(0, 0), (2, 0), (2, 1), (1, 1), (1, 2), (0, 2)])


def smooth(library: Any, x: Any, y: Any) -> Any:
    return library.sin(3 * x + 1) * library.exp(y) * library.cos(4 * x * y)


def manufactured(
    name: str, words: str, shape: Shape, operator: Callable, exact: Function, *rest: float
) -> Case:
    """`exact` takes a library, NumPy or JAX, and coordinates."""
    return Case(
        name,
        words,
        lambda: Problem.manufactured(shape.box, operator, functools.partial(exact, jnp)),
        functools.partial(exact, np),
        *rest,
    )


def poisson(name: str, shape: Shape) -> Case:
    words = "lap u = f, u = sin(3x + 1) exp(y) cos(4xy)"
    return manufactured(f"Poisson, {name}", words, shape, lambda u: u.laplacian, smooth, 1e-11, 5)


def logarithm(library: Any, x: Any, y: Any) -> Any:
    return 0.5 * library.log(x * x + y * y)


def square_with_disks(
    lower: float, upper: float, disks: tuple[tuple[float, float, float], ...]
) -> Shape:
    shape: Any = Rectangle(x=(lower, upper), y=(lower, upper))
    for x, y, r in disks:
        shape = shape - Disk(center=(x, y), radius=r)
    return shape


FOUR = tuple((x, y, 0.1) for x in (0.3, -0.3) for y in (0.3, -0.3))


def poisson_2d_c() -> Problem:
    """PINNacle's Poisson2d-C: Laplace's equation, 1 on the square, 0 on the disks."""
    shape = square_with_disks(-0.5, 0.5, FOUR)
    sides = shape.boundary["left", "right", "bottom", "top"]
    return Problem(
        shape.box,
        lambda u: u.laplacian,
        [Dirichlet(sides, 1.0), Dirichlet(shape.boundary - sides, 0.0)],
    )


def solved_2d_c() -> Function:
    vertices = [-0.5 - 0.5j, 0.5 - 0.5j, 0.5 + 0.5j, -0.5 + 0.5j]
    circles = [(complex(x, y), r) for x, y, r in FOUR]
    values = lambda z, number: np.full(len(z), 1.0 if number < 4 else 0.0)
    return Laplace(vertices, circles, values).solve()


CG_DISKS = ((0.5, 0.5, 0.2), (0.4, -0.4, 0.4), (-0.2, -0.7, 0.1), (-0.6, 0.5, 0.3))


def source_2d_cg(library: Any, x: Any, y: Any) -> Any:
    return 10 * (17 + x * x + y * y) * library.sin(np.pi * x) * library.sin(4 * np.pi * y)


def particular_2d_cg(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Of -lap u + 64 u = the source, by comparing coefficients."""
    k = 17 * np.pi**2 + 64
    square = 10 / k
    along, up = 4 * np.pi * square / k, 16 * np.pi * square / k
    plain = (170 + 4 * square - 2 * np.pi * along - 8 * np.pi * up) / k
    sin_x, sin_y = np.sin(np.pi * x), np.sin(4 * np.pi * y)
    found = (plain + square * (x * x + y * y)) * sin_x * sin_y
    return found + along * x * np.cos(np.pi * x) * sin_y + up * y * sin_x * np.cos(4 * np.pi * y)


def poisson_2d_cg() -> Problem:
    """PINNacle's Poisson2d-CG: -lap u + 64 u = f, 0.2 on the square, 1 on the disks."""
    shape = square_with_disks(-1, 1, CG_DISKS)
    sides = shape.boundary["left", "right", "bottom", "top"]
    return Problem(
        shape,
        lambda u, x, y: -u.laplacian + 64 * u - source_2d_cg(jnp, x, y),
        [Dirichlet(sides, 0.2), Dirichlet(shape.boundary - sides, 1.0)],
    )


def solved_2d_cg() -> Function:
    values = lambda x, y, number: (0.2 if number < 4 else 1.0) - particular_2d_cg(x, y)
    rest = Yukawa(8.0, 1.0, CG_DISKS, values).solve()
    return lambda x, y: rest(x, y) + particular_2d_cg(x, y)


L_VERTICES = [0, 2, 2 + 1j, 1 + 1j, 1 + 2j, 2j]


def on_l(source: float, name: str, goal: float, value: Callable[[Any, Any], Any] | float) -> Case:
    """lap u + source = 0; the oracle has a particular solution and a harmonic one."""
    particular = lambda x, y: -0.25 * source * (x * x + y * y)
    given = lambda x, y: value(x, y) if callable(value) else value + 0 * x

    def solved() -> Function:
        on_edges = lambda z, _: given(z.real, z.imag) - particular(z.real, z.imag)
        harmonic = Laplace(L_VERTICES, [], on_edges).solve()
        return lambda x, y: harmonic(x, y) + particular(x, y)

    return Case(
        name,
        f"lap u + {source:g} = 0 on an L",
        lambda: Problem(
            LSHAPE.box, lambda u: u.laplacian + source, [Dirichlet(LSHAPE.boundary, value)]
        ),
        lambda x, y: solved()(x, y),
        goal,
        10,
    )


def with_value(case: Case) -> Case:
    """Also the error of u(0.99, 0.99) = 1.02679192612 (Gopal and Trefethen, 2019)."""

    def measure(function: Function) -> dict[str, float]:
        value = float(np.ravel(function(np.array([0.99]), np.array([0.99])))[0])
        return {**case.errors(function), "at (0.99, 0.99)": abs(value - 1.02679192612)}

    return dataclasses.replace(case, measure=measure)


def wedge(degrees: int, mixed: bool) -> Case:
    """r^a sin(a theta) or, with a flux on the first side, r^a cos(a theta) (NISTIR 7668, 1)."""
    angle = np.radians(degrees)
    power = np.pi / angle / (2 if mixed else 1)
    ends = {225: (-1, -1), 270: (0, -1), 315: (1, -1)}
    turns = [(1, 0), (1, 1), (-1, 1), (-1, -1), (1, -1)]
    before = {225: 4, 270: 4, 315: 5}[degrees]
    corners = [(0, 0), *turns[:before]]
    if ends[degrees] not in corners:
        corners.append(ends[degrees])
    shape = Polygon(corners)

    def exact(library: Any, x: Any, y: Any) -> Any:
        theta = library.mod(library.arctan2(y, x) + 1e-9, 2 * np.pi) - 1e-9
        trig = library.cos if mixed else library.sin
        return (x * x + y * y) ** (0.5 * power) * trig(power * theta)

    def make() -> Problem:
        boundary, u = shape.boundary, functools.partial(exact, jnp)
        conditions: list[Any] = [Dirichlet(boundary, u)]
        if mixed:
            conditions = [Dirichlet(boundary - boundary["e0"], u), Neumann(boundary["e0"], 0.0)]
        return Problem(shape.box, lambda u: u.laplacian, conditions)

    kind = ", a flux and a value" if mixed else ""
    name = f"re-entrant corner of {degrees} degrees{kind}"
    return Case(name, f"r^{power:.3g}", make, functools.partial(exact, np), 1e-8, 10)


def bratu(library: Any, x: Any, y: Any) -> Any:
    """lap u + exp(u) = 0, u = 0 on the unit circle: the lower of two solutions."""
    b = 3 - 2 * np.sqrt(2)
    return library.log(8 * b / (1 + b * (x * x + y * y)) ** 2)


def stokes(x: Any, y: Any, library: Any) -> Any:
    """A point force in the middle of a hole."""
    square = x * x + y * y
    return -0.5 * library.log(square) + x * x / square, x * y / square, 2 * x / square


THREE = square_with_disks(-1, 1, ((0.0, 0.0, 0.2), (0.5, 0.5, 0.15), (-0.5, 0.4, 0.2)))


def stokes_problem() -> Problem:
    parts = [lambda x, y, n=n: stokes(x, y, jnp)[n] for n in range(3)]
    at = np.array([[-0.8, -0.8]])
    return Problem(
        THREE.box,
        lambda u, v, p: (u.laplacian - p.x, v.laplacian - p.y, u.x + v.y),
        [
            Dirichlet(THREE.boundary, parts[0], "u"),
            Dirichlet(THREE.boundary, parts[1], "v"),
            Data(at, np.asarray(stokes(*at.T, np)[2]), "p"),
        ],
        fields=("u", "v", "p"),
    )


POISSON_RATIO = 0.3
LAME, SHEAR = POISSON_RATIO / (1 - POISSON_RATIO**2), 0.5 / (1 + POISSON_RATIO)


def elasticity(u: Any, v: Any) -> Any:
    """Plane stress, modulus 1."""
    both = LAME + SHEAR
    return (
        (LAME + 2 * SHEAR) * u.xx + SHEAR * u.yy + both * v.xy,
        (LAME + 2 * SHEAR) * v.yy + SHEAR * v.xx + both * u.xy,
    )


def kirsch(library: Any, x: Any, y: Any) -> Any:
    """Displacements of a plate with a hole of radius 1 under tension 1 along x (Kirsch, 1898)."""
    r, theta = library.sqrt(x * x + y * y), library.arctan2(y, x)
    k = (3 - POISSON_RATIO) / (1 + POISSON_RATIO)
    cos, sin = library.cos(2 * theta), library.sin(2 * theta)
    along = r * (k - 1 + 2 * cos) + 2 / r * (1 + (1 + k) * cos) - 2 / r**3 * cos
    across = -2 * r * sin + 2 / r * (1 - k) * sin - 2 / r**3 * sin
    x_part = along * library.cos(theta) - across * library.sin(theta)
    y_part = along * library.sin(theta) + across * library.cos(theta)
    return x_part / (8 * SHEAR), y_part / (8 * SHEAR)


def bracket(library: Any, x: Any, y: Any) -> Any:
    """The first displacements at the corner of an L whose sides are free (Szabo and Babuska)."""
    angle, bisector = 1.5 * np.pi, 1.25 * np.pi
    a = 0.544483736782464  # sin(a angle) + a sin(angle) = 0
    k = (3 - POISSON_RATIO) / (1 + POISSON_RATIO)
    q = (1 - a) / (1 + a) * np.sin(0.5 * (a - 1) * angle) / np.sin(0.5 * (a + 1) * angle)
    r, theta = library.hypot(x - 1, y - 1), library.arctan2(y - 1, x - 1) - bisector
    theta = library.where(theta < -np.pi, theta + 2 * np.pi, theta)
    cos, sin = (k - q * (a + 1)), (k + q * (a + 1))
    along = r**a * (cos * library.cos(a * theta) - a * library.cos((a - 2) * theta))
    across = r**a * (sin * library.sin(a * theta) + a * library.sin((a - 2) * theta))
    c, s = np.cos(bisector), np.sin(bisector)
    return c * along - s * across, s * along + c * across


def elastic_l() -> Problem:
    parts = [lambda x, y, n=n: bracket(jnp, x, y)[n] for n in range(2)]
    conditions = [
        Dirichlet(LSHAPE.boundary, part, name) for part, name in zip(parts, "uv", strict=True)
    ]
    return Problem(LSHAPE, elasticity, conditions, fields=("u", "v"))


PLATE = Rectangle(x=(-3, 3), y=(-3, 3)) - Disk(radius=1)


def plate() -> Problem:
    return Problem.manufactured(
        PLATE.box, elasticity, functools.partial(kirsch, jnp), fields=("u", "v")
    )


CASES = [
    poisson("disk", Disk(radius=1)),
    poisson("star", STAR),
    poisson("ring", RING),
    poisson("square with three holes", HOLES),
    poisson("airfoil", AIRFOIL),
    manufactured("Laplace, ring", "log r", RING, lambda u: u.laplacian, logarithm, 1e-12, 5),
    Case(
        "PINNacle Poisson2d-C",
        "lap u = 0 on a square less four disks",
        poisson_2d_c,
        lambda x, y: solved_2d_c()(x, y),
        1e-8,
        20,
    ),
    Case(
        "PINNacle Poisson2d-CG",
        "-lap u + 64 u = f on a square less four disks",
        poisson_2d_cg,
        lambda x, y: solved_2d_cg()(x, y),
        1e-7,
        20,
    ),
    with_value(on_l(0.0, "L-shape, x^2 on the boundary", 1e-10, lambda x, y: x * x)),
    on_l(1.0, "L-shape, f = 1", 1e-9, 0.0),
    *(wedge(degrees, mixed) for degrees in (225, 270, 315) for mixed in (False, True)),
    manufactured(
        "Allen-Cahn, star",
        "0.1 lap u + u - u^3 = f",
        STAR,
        lambda u: 0.1 * u.laplacian + u - u**3,
        lambda library, x, y: library.sin(3 * x) * library.cos(2 * y + 1),
        1e-10,
        20,
    ),
    Case(
        "Bratu, disk",
        "lap u + exp(u) = 0",
        lambda: Problem(
            Disk(radius=1).box,
            lambda u: u.laplacian + jnp.exp(u.value),
            [Dirichlet(Disk(radius=1).boundary, 0.0)],
        ),
        functools.partial(bratu, np),
        1e-10,
        20,
    ),
    Case(
        "Stokes, three holes",
        "a force within one of them",
        stokes_problem,
        lambda x, y: stokes(x, y, np),
        1e-8,
        60,
    ),
    Case(
        "elasticity, L",
        "r^0.544 at the corner",
        elastic_l,
        functools.partial(bracket, np),
        1e-8,
        60,
    ),
    Case("elasticity, plate with a hole", "Kirsch", plate, functools.partial(kirsch, np), 1e-8, 60),
]
