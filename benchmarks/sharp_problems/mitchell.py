"""The twelve problems of NISTIR 7668 (Mitchell, 2010), but for a slit and a battery."""

import functools
from typing import Any

import jax.numpy as jnp
import numpy as np

from benchmarks.sharp_problems import chebyshev
from benchmarks.sharp_problems.case import Case, Function
from benchmarks.sharp_problems.layers import SQUARE, UNIT, front_case
from pann import Dirichlet, Interface, Polygon, Problem

GOAL, SECONDS = 1e-6, 60.0
# The larger exponent of the intersecting interfaces, and what goes with it (Kellogg, 1975).
KELLOGG_EXPONENT, KELLOGG_RATIO, KELLOGG_PHASE = 0.1, 161.4476387975881, -14.92256510455152


def analytic() -> Case:
    """u = (16 x (1 - x) y (1 - y))^10."""
    power = 10

    def bump(x: Any) -> Any:
        return (4 * x * (1 - x)) ** power

    def bend(x: Any) -> Any:
        base, slope = 4 * x * (1 - x), 4 - 8 * x
        return power * ((power - 1) * base ** (power - 2) * slope**2 - 8 * base ** (power - 1))

    return front_case(
        "nist analytic",
        analytic.__doc__ or "",
        lambda library, x, y: bump(x) * bump(y),
        lambda library, x, y: bend(x) * bump(y) + bump(x) * bend(y),
        None,
        30,
        UNIT,
    )


def peak(steepness: float, center: tuple[float, float]) -> Case:
    def exponential(library: Any, x: Any, y: Any) -> Any:
        return library.exp(-steepness * ((x - center[0]) ** 2 + (y - center[1]) ** 2))

    def source(library: Any, x: Any, y: Any) -> Any:
        r2 = (x - center[0]) ** 2 + (y - center[1]) ** 2
        return (4 * steepness**2 * r2 - 4 * steepness) * exponential(library, x, y)

    width = steepness**-0.5
    return front_case(
        f"nist peak {steepness:g}",
        f"u = exp(-{steepness:g} r^2) about {center}",
        exponential,
        source,
        lambda random: np.asarray(center) + 3 * width * (2 * random - 1),
        120,
        UNIT,
        lines=[(each, 4 * width) for each in center],
    )


def boundary_layer(diffusion: float) -> Case:
    """u = (1 - exp((x - 1) / eps)) (1 - exp((y - 1) / eps)) cos(pi (x + y))."""

    def parts(library: Any, x: Any) -> tuple[Any, Any, Any]:
        layer = library.exp((x - 1) / diffusion)
        return 1 - layer, -layer / diffusion, -layer / diffusion**2

    def exact(library: Any, x: Any, y: Any) -> Any:
        return parts(library, x)[0] * parts(library, y)[0] * library.cos(np.pi * (x + y))

    def source(library: Any, x: Any, y: Any) -> Any:
        """-eps lap u + 2 u_x + u_y, in which the largest terms, 1 / eps, cancel."""
        (a, a_x, _), (b, b_y, _) = parts(library, x), parts(library, y)
        cosine, sine = library.cos(np.pi * (x + y)), library.sin(np.pi * (x + y))
        bend = 2 * np.pi**2 * diffusion * a * b * cosine
        # -eps a'' + 2 a' = a' and -eps b'' + b' = 0.
        slope = a_x * b * cosine - 3 * np.pi * a * b * sine
        return bend + slope + 2 * np.pi * diffusion * sine * (a_x * b + a * b_y)

    def inside(random: np.ndarray) -> np.ndarray:
        points = 2 * random - 1
        half = len(points) // 2
        points[:half, 0] = 1 - 20 * diffusion * random[:half, 0]
        points[half // 2 :, 1] = 1 - 20 * diffusion * random[half // 2 :, 1]
        return points

    def dedicated() -> Function:
        grid = chebyshev.line(96, -1, 1, 1.0, diffusion)
        x, y = np.meshgrid(grid.points, grid.points, indexing="ij")
        bend = -diffusion * grid.second
        operators = bend + 2 * grid.first, bend + grid.first
        return chebyshev.solve_on_square((grid, grid), operators, source(np, x, y), exact(np, x, y))

    return Case(
        f"nist boundary layer {diffusion:g}",
        f"-{diffusion:g} lap u + 2 u_x + u_y = f, {boundary_layer.__doc__}",
        lambda: Problem(
            SQUARE,
            lambda u, x, y: -diffusion * u.laplacian + 2 * u.x + u.y - source(jnp, x, y),
            [Dirichlet(SQUARE.boundary, functools.partial(exact, jnp))],
        ),
        functools.partial(exact, np),
        GOAL,
        SECONDS,
        inside=inside,
        dedicated=dedicated,
        dedicated_name="96 x 96 mapped Chebyshev points",
    )


def boundary_line(power: float = 0.6) -> Case:
    """u = x^0.6, the source of which is infinite at x = 0."""

    def dedicated() -> Function:
        # x = s^5 makes a polynomial of u; the equation of the variable s, along x alone.
        grid = chebyshev.line(10, 0, 1)
        s = grid.points
        inner = slice(1, -1)
        scale = 5 * s[inner] ** 4

        second = grid.first @ grid.first
        second = (second[inner] - (20 * s[inner] ** 3 / scale)[:, None] * grid.first[inner]) / (
            scale[:, None] ** 2
        )

        right = power * (power - 1) * s[inner] ** (5 * (power - 2)) - second[:, -1]
        values = np.r_[0.0, np.linalg.solve(second[:, inner], right), 1.0]
        return lambda x, y: grid.shares(x**0.2) @ values

    return Case(
        "nist boundary line",
        "lap u = f, u = x^0.6",
        lambda: Problem(
            UNIT,
            lambda u, x, y: u.laplacian - power * (power - 1) * x ** (power - 2),
            [Dirichlet(UNIT.boundary, lambda x, y: x**power + 0 * y)],
        ),
        lambda x, y: x**power,
        GOAL,
        SECONDS,
        inside=lambda random: random * np.array([1e-2, 1.0]),
        dedicated=dedicated,
        dedicated_name="10 Chebyshev points of x^(1/5), constant along y",
    )


def oscillatory(number: int) -> Case:
    """-lap u - u / (a + r)^4 = f, u = sin(1 / (a + r))."""
    a = 1 / (number * np.pi)

    def exact(library: Any, x: Any, y: Any) -> Any:
        return library.sin(1 / (a + library.sqrt(x**2 + y**2)))

    def source(library: Any, x: Any, y: Any) -> Any:
        """u_rr + u_r / r + u / (a + r)^4: of u_rr, -u / (a + r)^4 drops out."""
        r = library.sqrt(x**2 + y**2)
        return library.cos(1 / (a + r)) / (a + r) ** 2 * (2 / (a + r) - 1 / r)

    def dedicated() -> Function:
        count = 48
        grid = chebyshev.line(count, 0, 1, 0.0, 2 * a)
        x, y = np.meshgrid(grid.points, grid.points, indexing="ij")
        with np.errstate(divide="ignore"):
            right = source(np, x, y).ravel()
        second = grid.second
        eye, inner = np.eye(count + 1), np.zeros((count + 1, count + 1), bool)
        inner[1:-1, 1:-1] = True
        inner = inner.ravel()
        u = np.where(inner, 0.0, exact(np, x, y).ravel())
        operator = np.kron(second, eye)[inner] + np.kron(eye, second)[inner]
        operator[:, inner] += np.diag(((a + np.hypot(x, y)) ** -4).ravel()[inner])
        u[inner] = np.linalg.solve(operator[:, inner], right[inner] - operator @ u)
        values = u.reshape(count + 1, count + 1)
        return lambda x, y: chebyshev.on_grid((grid, grid), values, x, y)

    def inside(random: np.ndarray) -> np.ndarray:
        r, angle = 10 * a * random[:, 0], np.pi / 2 * random[:, 1]
        return np.stack([r * np.cos(angle), r * np.sin(angle)], axis=1)

    return Case(
        f"nist oscillatory {number}",
        f"-lap u - u / (a + r)^4 = f, u = sin(1 / (a + r)), a = 1 / ({number} pi)",
        lambda: Problem(
            UNIT,
            lambda u, x, y: u.laplacian + u / (a + jnp.sqrt(x**2 + y**2)) ** 4 - source(jnp, x, y),
            [Dirichlet(UNIT.boundary, functools.partial(exact, jnp))],
        ),
        functools.partial(exact, np),
        GOAL,
        SECONDS,
        inside=inside,
        dedicated=dedicated,
        dedicated_name="48 x 48 mapped Chebyshev points",
    )


def wave_front(
    name: str, steepness: float, center: tuple[float, float], radius: float, count: int
) -> Case:
    """u = atan(a (r - r0))."""

    def distance(library: Any, x: Any, y: Any) -> Any:
        return library.sqrt((x - center[0]) ** 2 + (y - center[1]) ** 2)

    def exact(library: Any, x: Any, y: Any) -> Any:
        return library.arctan(steepness * (distance(library, x, y) - radius))

    def source(library: Any, x: Any, y: Any) -> Any:
        r = distance(library, x, y)
        s = steepness * (r - radius)
        return steepness / (1 + s**2) / r - 2 * steepness**2 * s / (1 + s**2) ** 2

    def inside(random: np.ndarray) -> np.ndarray:
        r, angle = radius + 5 / steepness * (2 * random[:, 0] - 1), 2 * np.pi * random[:, 1]
        points = np.asarray(center) + np.stack([r * np.cos(angle), r * np.sin(angle)], axis=1)
        return np.mod(points, 1)

    words = f"u = atan({steepness:g} (r - {radius:g})) about {center}"
    return front_case(
        f"nist wave front {name}", words, exact, source, inside, count, UNIT, GOAL, SECONDS
    )


def interior_line(power: float, slope: float) -> Case:
    """u = cos y, and (x - b (y + 1))^a more where that is positive."""

    def exact(library: Any, x: Any, y: Any) -> Any:
        s = library.maximum(x - slope * (y + 1), 0.0)
        return library.cos(y) + s**power

    def source(library: Any, x: Any, y: Any) -> Any:
        s = x - slope * (y + 1)
        positive = library.where(s > 0, s, 1.0)
        bend = power * (power - 1) * (1 + slope**2) * positive ** (power - 2)
        return -library.cos(y) + library.where(s > 0, bend, 0.0)

    def inside(random: np.ndarray) -> np.ndarray:
        y = 2 * random[:, 1] - 1
        return np.stack([slope * (y + 1) + (2 * random[:, 0] - 1) / 50, y], axis=1)

    return front_case(
        f"nist interior line {power:g}, {slope:g}",
        f"u = cos y + max(x - {slope:g} (y + 1), 0)^{power:g}",
        exact,
        source,
        inside,
        201,
    )


def kellogg() -> Case:
    """div(p grad u) = 0, p = 161.4 in two opposite quadrants and 1 in the others."""
    a, ratio, phase = KELLOGG_EXPONENT, KELLOGG_RATIO, KELLOGG_PHASE
    rho = np.pi / 4

    def coefficient(x: Any, y: Any) -> Any:
        return jnp.where(x * y > 0, ratio, 1.0)

    def exact(library: Any, x: Any, y: Any) -> Any:
        """r^a m(theta), m cosines of a theta in each quadrant (Morin, Nochetto, Siebert, 2000)."""
        r, angle = library.hypot(x, y), library.arctan2(y, x)
        angle = library.where(angle < 0, angle + 2 * np.pi, angle)
        half, cos = np.pi / 2, library.cos
        parts = (
            np.cos((half - phase) * a) * cos((angle - half + rho) * a),
            np.cos(rho * a) * cos((angle - np.pi + phase) * a),
            np.cos(phase * a) * cos((angle - np.pi - rho) * a),
            np.cos((half - rho) * a) * cos((angle - 3 * half - phase) * a),
        )
        lower = library.where(angle < 3 * half, parts[2], parts[3])
        upper = library.where(angle < half, parts[0], parts[1])
        return r**a * library.where(angle < np.pi, upper, lower)

    return Case(
        "nist intersecting interfaces",
        kellogg.__doc__ or "",
        lambda: Problem(
            SQUARE,
            lambda u, x, y: coefficient(x, y) * u.laplacian,
            [
                Dirichlet(SQUARE.boundary, functools.partial(exact, jnp)),
                Interface("x", 0.0, coefficient=coefficient),
                Interface("y", 0.0, coefficient=coefficient),
            ],
        ),
        functools.partial(exact, np),
        GOAL,
        SECONDS,
        inside=lambda random: (2 * random - 1) / 100,
        dedicated=lambda: functools.partial(exact, np),
        dedicated_name="closed form",
    )


def multiple_difficulties() -> Case:
    """lap u = f: a re-entrant corner, a front through it, a peak on the front, and a layer."""
    shape = Polygon([(-1, -1), (0, -1), (0, 0), (1, 0), (1, 1), (-1, 1)])
    power, slope, steepness, thickness = 2 / 3, 200.0, 1000.0, 0.01
    front, radius, top = (0.0, -0.75), 0.75, (-np.sqrt(5) / 4, -0.25)

    def parts(library: Any, x: Any, y: Any) -> tuple[Any, Any, Any]:
        r = library.sqrt((x - front[0]) ** 2 + (y - front[1]) ** 2)
        r2 = (x - top[0]) ** 2 + (y - top[1]) ** 2
        return r, r2, library.exp(-steepness * r2)

    def exact(library: Any, x: Any, y: Any) -> Any:
        r, _, bump = parts(library, x, y)
        # From 0 on the edge to the right; rounding below that edge is no turn.
        theta = library.mod(library.arctan2(y, x) + 1e-9, 2 * np.pi) - 1e-9
        corner = (x * x + y * y) ** (power / 2) * library.sin(power * theta)
        layer = library.exp(-(1 + y) / thickness)
        return corner + library.arctan(slope * (r - radius)) + bump + layer

    def source(library: Any, x: Any, y: Any) -> Any:
        r, r2, bump = parts(library, x, y)
        s = slope * (r - radius)
        bend = slope / (r * (1 + s * s)) - 2 * slope**2 * s / (1 + s * s) ** 2
        layer = library.exp(-(1 + y) / thickness) / thickness**2
        return bend + (4 * steepness**2 * r2 - 4 * steepness) * bump + layer

    def inside(random: np.ndarray) -> np.ndarray:
        angle = np.pi * (0.5 + 0.9 * random[:, 0])
        near = radius + (2 * random[:, 1] - 1) * 3 / slope
        points = np.stack([near * np.cos(angle), near * np.sin(angle)], axis=1) + front
        third = len(points) // 3
        points[:third] = top + 3 * steepness**-0.5 * (2 * random[:third] - 1)
        x, y = random[third : 2 * third].T
        points[third : 2 * third] = np.stack([-x, 5 * thickness * y - 1], axis=1)
        x, y = points.T
        return points[(np.abs(points) < 1).all(axis=1) & ((x < 0) | (y > 0))]

    return Case(
        "nist multiple difficulties",
        multiple_difficulties.__doc__ or "",
        lambda: Problem(
            shape.box,
            lambda u, x, y: u.laplacian - source(jnp, x, y),
            [Dirichlet(shape.boundary, functools.partial(exact, jnp))],
        ),
        functools.partial(exact, np),
        GOAL,
        SECONDS,
        inside=inside,
    )


def absent(name: str, words: str, why: str) -> Case:
    def make() -> Problem:
        raise ValueError(f"{name} needs {why}")

    return Case(f"nist {name}", words, make, None, GOAL, SECONDS, needs=why)


WAVE_FRONTS: tuple[tuple[str, float, tuple[float, float], float, int], ...] = (
    ("mild", 20, (-0.05, -0.05), 0.7, 120),
    ("steep", 1000, (-0.05, -0.05), 0.7, 500),
    ("asymmetric", 1000, (1.5, 0.25), 0.92, 500),
    ("well", 50, (0.5, 0.5), 0.25, 201),
)


CASES = (
    analytic(),
    absent(
        "reentrant corner",
        "lap u = 0, r^a sin(a theta)",
        "a corner cut out: in the benchmark of shapes",
    ),
    absent("linear elasticity", "a crack, modes 1 and 2", "a domain with a slit"),
    peak(1e3, (0.5, 0.5)),
    peak(1e5, (0.51, 0.117)),
    boundary_layer(1e-1),
    boundary_layer(1e-2),
    boundary_layer(1e-3),
    boundary_line(),
    oscillatory(10),
    oscillatory(50),
    *(wave_front(*each) for each in WAVE_FRONTS),
    interior_line(2.5, 0.0),
    interior_line(1.1, 0.0),
    interior_line(1.5, 0.6),
    kellogg(),
    absent("battery", "heat in five materials", "a reference: its solution is not known"),
    multiple_difficulties(),
)
