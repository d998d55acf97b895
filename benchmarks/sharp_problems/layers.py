"""Boundary and interior layers, fronts: advection, reaction and diffusion without time."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
import scipy.special

from benchmarks.sharp_problems import chebyshev
from benchmarks.sharp_problems.case import Case, Function
from pann import Box, Dirichlet, Problem

INTERVAL, LINE, SQUARE = Box(x=(0, 1)), Box(x=(-1, 1)), Box(x=(-1, 1), y=(-1, 1))
UNIT = Box(x=(0, 1), y=(0, 1))


def near(center: float, width: float) -> Callable[[np.ndarray], np.ndarray]:
    """Points about a point of the line, within twenty widths."""
    return lambda random: center + width * 20 * (2 * random - 1)


# ---- Advection and diffusion ----


def exponential_layer(library: Any, x: Any, diffusion: float) -> Any:
    """-eps g'' + g' = 1, g(0) = g(1) = 0."""
    none = np.exp(-1 / diffusion)
    return x - (library.exp((x - 1) / diffusion) - none) / (1 - none)


def advection(diffusion: float) -> Case:
    def make() -> Problem:
        return Problem(
            INTERVAL,
            lambda u: -diffusion * u.xx + u.x - 1,
            [Dirichlet(INTERVAL.boundary, 0.0)],
        )

    def dedicated() -> Function:
        grid = chebyshev.line(160, 0, 1, 1.0, diffusion)
        return chebyshev.solve_on_line(
            grid,
            lambda u, v, w: -diffusion * w + v - 1,
            lambda u, v, w: (0.0, 1.0, -diffusion),
            np.zeros(161),
        )

    return Case(
        f"advection {diffusion:g}",
        f"-{diffusion:g} u'' + u' = 1, u(0) = u(1) = 0",
        make,
        lambda x: exponential_layer(np, x, diffusion),
        goal=1e-10 if diffusion == 1e-4 else 1e-8,
        seconds=10,
        inside=lambda random: 1 - 20 * diffusion * random,
        dedicated=dedicated,
        dedicated_name="160 mapped Chebyshev points",
    )


def advection_on_square(diffusion: float, goal: float, seconds: float) -> Case:
    layer = functools.partial(exponential_layer, diffusion=diffusion)

    def make() -> Problem:
        return Problem(
            UNIT,
            lambda u, x, y: -diffusion * u.laplacian + u.x + u.y - layer(jnp, x) - layer(jnp, y),
            [Dirichlet(UNIT.boundary, 0.0)],
        )

    def inside(random: np.ndarray) -> np.ndarray:
        points = random.copy()
        half = len(points) // 2
        points[:half, 0] = 1 - 20 * diffusion * random[:half, 0]
        points[half // 2 :, 1] = 1 - 20 * diffusion * random[half // 2 :, 1]
        return points

    def dedicated() -> Function:
        grid = chebyshev.line(96, 0, 1, 1.0, diffusion)
        operator = -diffusion * grid.second + grid.first
        right = layer(np, grid.points)[:, None] + layer(np, grid.points)
        zero = np.zeros_like(right)
        return chebyshev.solve_on_square((grid, grid), (operator, operator), right, zero)

    return Case(
        f"advection on a square {diffusion:g}",
        f"-{diffusion:g} lap u + u_x + u_y = g(x) + g(y), u = g(x) g(y), -eps g'' + g' = 1",
        make,
        lambda x, y: layer(np, x) * layer(np, y),
        goal,
        seconds,
        inside=inside,
        dedicated=dedicated,
        dedicated_name="96 x 96 mapped Chebyshev points",
    )


# ---- In one dimension ----


def turning_point(diffusion: float = 1e-6) -> Case:
    """Ascher, Mattheij and Russell, Numerical Solution of Boundary Value Problems (1988)."""
    scale = np.sqrt(2 * diffusion)

    def source(library: Any, x: Any) -> Any:
        phase = np.pi * x
        return -diffusion * np.pi**2 * library.cos(phase) - phase * library.sin(phase)

    def make() -> Problem:
        return Problem(
            LINE,
            lambda u, x: diffusion * u.xx + x * u.x - source(jnp, x),
            [
                Dirichlet(LINE.face("x", "lower"), -2.0),
                Dirichlet(LINE.face("x", "upper"), 0.0),
            ],
        )

    def dedicated() -> Function:
        grid = chebyshev.line(160, -1, 1, 0.0, scale)
        return chebyshev.solve_on_line(
            grid,
            lambda u, v, w: diffusion * w + grid.points * v - source(np, grid.points),
            lambda u, v, w: (0.0, grid.points, diffusion),
            grid.points - 1,
        )

    return Case(
        "turning point",
        f"{diffusion:g} u'' + x u' = -eps pi^2 cos pi x - pi x sin pi x, u(-1) = -2, u(1) = 0",
        make,
        lambda x: np.cos(np.pi * x) + scipy.special.erf(x / scale) / scipy.special.erf(1 / scale),
        goal=1e-8,
        seconds=10,
        inside=near(0, scale / 5),
        dedicated=dedicated,
        dedicated_name="160 mapped Chebyshev points",
    )


def two_layers(thickness: float = 1e-4) -> Case:
    """u = 1 - cosh(x / eps) / cosh(1 / eps), without overflow."""

    def exact(x: np.ndarray) -> np.ndarray:
        both = np.exp((x - 1) / thickness) + np.exp((-x - 1) / thickness)
        return 1 - both / (1 + np.exp(-2 / thickness))

    def inside(random: np.ndarray) -> np.ndarray:
        points = 1 - 20 * thickness * random
        points[::2] *= -1
        return points

    def dedicated() -> Function:
        # The left half mirrors the right one: u' = 0 in the middle is u(0) = 1 but for exp(-1/eps).
        grid = chebyshev.line(120, 0, 1, 1.0, thickness)
        right = chebyshev.solve_on_line(
            grid,
            lambda u, v, w: -(thickness**2) * w + u - 1,
            lambda u, v, w: (1.0, 0.0, -(thickness**2)),
            np.r_[np.ones(120), 0.0],
        )
        return lambda x: right(np.abs(x))

    return Case(
        "layers at both ends",
        f"-{thickness:g}^2 u'' + u = 1, u(-1) = u(1) = 0",
        lambda: Problem(
            LINE, lambda u: -(thickness**2) * u.xx + u - 1, [Dirichlet(LINE.boundary, 0.0)]
        ),
        exact,
        goal=1e-8,
        seconds=10,
        inside=inside,
        dedicated=dedicated,
        dedicated_name="120 mapped Chebyshev points",
    )


def allen_cahn(thickness: float = 1e-2, center: float = 0.1) -> Case:
    """Without the wave the place of the interface is held by exp(-2 d / (sqrt 2 eps)) only."""
    front = lambda library, x: library.tanh((x - center) / (np.sqrt(2) * thickness))
    wave = lambda library, x: 0.3 * library.sin(3 * x)

    def exact(library: Any, x: Any) -> Any:
        return front(library, x) + wave(library, x)

    def source(library: Any, x: Any) -> Any:
        q, s = front(library, x), wave(library, x)
        return -9 * thickness**2 * s + s - 3 * q**2 * s - 3 * q * s**2 - s**3

    def dedicated() -> Function:
        grid = chebyshev.line(120, -1, 1, center, thickness)
        start = np.tanh((grid.points - center) / (1.3 * thickness)) + wave(np, grid.points)
        start[[0, -1]] = exact(np, grid.points[[0, -1]])
        return chebyshev.solve_on_line(
            grid,
            lambda u, v, w: thickness**2 * w + u - u**3 - source(np, grid.points),
            lambda u, v, w: (1 - 3 * u**2, 0.0, thickness**2),
            start,
        )

    return Case(
        "allen-cahn interface",
        f"{thickness:g}^2 u'' + u - u^3 = f, u = tanh((x - {center:g}) / (sqrt 2 eps)) "
        "+ 0.3 sin 3x",
        lambda: Problem(
            LINE,
            lambda u, x: thickness**2 * u.xx + u - u**3 - source(jnp, x),
            [Dirichlet(LINE.boundary, functools.partial(exact, jnp))],
        ),
        functools.partial(exact, np),
        goal=1e-8,
        seconds=30,
        inside=near(center, thickness / 4),
        dedicated=dedicated,
        dedicated_name="120 mapped Chebyshev points, start at the front",
    )


def steep_coefficient(width: float = 1e-3) -> Case:
    """(k u')' = 0, 1 / k = a + b tanh((x - 1/2) / width): u = C (a x + b w ln cosh) + D."""
    a, b = (1 + 0.1) / 2, (0.1 - 1) / 2

    def resistance(library: Any, x: Any) -> Any:
        return a + b * library.tanh((x - 0.5) / width)

    def integral(x: Any) -> Any:
        s = np.abs(x - 0.5) / width
        return a * x + b * width * (s + np.log1p(np.exp(-2 * s)) - np.log(2))

    def exact(x: Any) -> Any:
        start, end = integral(0.0), integral(1.0)
        return (integral(x) - start) / (end - start)

    def residual(u: Any, x: Any) -> Any:
        # k' / k = -r' / r for r = 1 / k.
        slope = b / width * (1 - jnp.tanh((x - 0.5) / width) ** 2)
        return u.xx - slope / resistance(jnp, x) * u.x

    def dedicated() -> Function:
        grid = chebyshev.line(160, 0, 1, 0.5, width)
        ratio = b / width / np.cosh(np.clip((grid.points - 0.5) / width, -300, 300)) ** 2
        ratio = ratio / resistance(np, grid.points)
        return chebyshev.solve_on_line(
            grid,
            lambda u, v, w: w - ratio * v,
            lambda u, v, w: (0.0, -ratio, 1.0),
            grid.points.copy(),
        )

    return Case(
        "steep coefficient",
        f"(k u')' = 0, k from 1 to 10 within {width:g}, u(0) = 0, u(1) = 1",
        lambda: Problem(
            INTERVAL,
            residual,
            [
                Dirichlet(INTERVAL.face("x", "lower"), 0.0),
                Dirichlet(INTERVAL.face("x", "upper"), 1.0),
            ],
        ),
        exact,
        goal=1e-8,
        seconds=10,
        inside=near(0.5, width / 4),
        dedicated=dedicated,
        dedicated_name="160 mapped Chebyshev points",
    )


def interior_shock(diffusion: float = 1e-3) -> Case:
    """Kevorkian and Cole: eps u'' + u u' - u = 0, outer solutions x - 1 and x + 1/2."""

    @functools.cache
    def solution(count: int) -> Function:
        return shock_on_line(diffusion, count)

    return Case(
        "interior shock",
        f"{diffusion:g} u'' + u u' - u = 0, u(0) = -1, u(1) = 1.5",
        lambda: Problem(
            INTERVAL,
            lambda u: diffusion * u.xx + u * u.x - u,
            [
                Dirichlet(INTERVAL.face("x", "lower"), -1.0),
                Dirichlet(INTERVAL.face("x", "upper"), 1.5),
            ],
        ),
        lambda x: solution(320)(x),
        goal=1e-8,
        seconds=30,
        inside=near(0.25, diffusion),
        dedicated=lambda: shock_on_line(diffusion, 160),
        dedicated_name="160 mapped Chebyshev points, start at the shock",
    )


def shock_on_line(diffusion: float, count: int) -> Function:
    """From the composite of both outer solutions, with more diffusion at first."""
    grid = chebyshev.line(count, 0, 1, 0.25, diffusion)
    x = grid.points
    found = None
    for current in (8 * diffusion, 4 * diffusion, 2 * diffusion, diffusion):
        if found is None:
            u = x - 0.25 + 0.75 * np.tanh(0.75 * (x - 0.25) / (2 * current))
        else:
            u = found(x)
        u[[0, -1]] = -1.0, 1.5
        found = chebyshev.solve_on_line(
            grid,
            lambda u, v, w, eps=current: eps * w + u * v - u,
            lambda u, v, w, eps=current: (v - 1, u, eps),
            u,
        )
    assert found is not None
    return found


def source_jump(at: float = 1 / 3) -> Case:
    """-u'' = [x > a]: u = s x to the left, s x - (x - a)^2 / 2 to the right."""
    slope = (1 - at) ** 2 / 2

    def dedicated() -> Function:
        # Finite differences are exact on either side; the source at a node on the jump is 1/2.
        x = np.linspace(0, 1, 4)
        values = slope * x - np.maximum(x - at, 0) ** 2 / 2
        parts = [np.polynomial.Polynomial.fit([0, at], values[:2], 1)]
        return lambda x: np.where(x < at, parts[0](x), slope * x - (x - at) ** 2 / 2)

    return Case(
        "source jump",
        "-u'' = 1 for x > 1/3, 0 for x < 1/3, u(0) = u(1) = 0",
        lambda: Problem(
            INTERVAL,
            lambda u, x: u.xx + jnp.where(x > at, 1.0, 0.0),
            [Dirichlet(INTERVAL.boundary, 0.0)],
        ),
        lambda x: slope * x - np.maximum(x - at, 0) ** 2 / 2,
        goal=1e-10,
        seconds=10,
        dedicated=dedicated,
        dedicated_name="closed form",
    )


# ---- Fronts in the plane ----


def oblique_front() -> Case:
    """u = tanh(60 (x + y/2 - 0.2)) + 0.3 sin 2 x y."""

    def exact(library: Any, x: Any, y: Any) -> Any:
        return library.tanh(60 * (x + y / 2 - 0.2)) + 0.3 * library.sin(2 * x * y)

    def source(library: Any, x: Any, y: Any) -> Any:
        front = library.tanh(60 * (x + y / 2 - 0.2))
        waves = 4 * (x**2 + y**2) * 0.3 * library.sin(2 * x * y)
        return -2 * 3600 * 1.25 * front * (1 - front**2) - waves

    def inside(random: np.ndarray) -> np.ndarray:
        y = 2 * random[:, 1] - 1
        return np.stack([0.2 - y / 2 + (2 * random[:, 0] - 1) / 20, y], axis=1)

    return front_case("oblique front", oblique_front.__doc__ or "", exact, source, inside, 400)


def circular_front() -> Case:
    """u = tanh(50 (r - 1/2))."""

    def exact(library: Any, x: Any, y: Any) -> Any:
        return library.tanh(50 * (library.sqrt(x**2 + y**2) - 0.5))

    def source(library: Any, x: Any, y: Any) -> Any:
        r = library.sqrt(x**2 + y**2)
        front = library.tanh(50 * (r - 0.5))
        steep = 1 - front**2
        return 50 * steep / r - 5000 * front * steep

    def inside(random: np.ndarray) -> np.ndarray:
        r, angle = 0.5 + (2 * random[:, 0] - 1) / 20, 2 * np.pi * random[:, 1]
        return np.stack([r * np.cos(angle), r * np.sin(angle)], axis=1)

    return front_case("circular front", circular_front.__doc__ or "", exact, source, inside, 401)


def front_case(
    name: str,
    words: str,
    exact: Function,
    source: Function,
    inside: Callable[[np.ndarray], np.ndarray] | None,
    count: int,
    box: Box = SQUARE,
    goal: float = 1e-6,
    seconds: float = 60,
    lines: Sequence[tuple[float, float]] = (),
    dedicated_name: str = "",
) -> Case:
    """lap u = f with a known u; `lines` are center and width of the maps of both axes."""

    def dedicated() -> Function:
        maps = lines or ((None, 1.0),) * 2
        ends = zip(box.lower, box.upper, maps, strict=True)
        grids = [chebyshev.line(count, low, high, *each) for low, high, each in ends]
        known = functools.partial(exact, np)
        return chebyshev.poisson(functools.partial(source, np), known, (grids[0], grids[1]))

    return Case(
        name,
        f"lap u = f, {words.strip().rstrip('.')}",
        lambda: Problem(
            box,
            lambda u, x, y: u.laplacian - source(jnp, x, y),
            [Dirichlet(box.boundary, functools.partial(exact, jnp))],
        ),
        functools.partial(exact, np),
        goal,
        seconds,
        inside=inside,
        dedicated=dedicated,
        dedicated_name=dedicated_name
        or f"{count} x {count} {'mapped ' if lines else ''}Chebyshev points",
    )


CASES = (
    advection(1e-4),
    advection(1e-6),
    advection_on_square(1e-2, 1e-9, 30),
    advection_on_square(1e-3, 1e-8, 60),
    advection_on_square(1e-4, 1e-6, 120),
    oblique_front(),
    circular_front(),
    turning_point(),
    two_layers(),
    allen_cahn(),
    steep_coefficient(),
    interior_shock(),
    source_jump(),
)
