"""Problems that a stranger would invent: systems, oblique flows, polygons, degenerate equations."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import mpmath
import numpy as np
import scipy.integrate
import scipy.interpolate
import scipy.special

from benchmarks.sharp_problems.case import Case, Function
from benchmarks.sharp_problems.layers import INTERVAL, LINE, SQUARE, UNIT, front_case
from pann import Box, Dirichlet, Initial, Neumann, Problem, Robin

UNIT_TIME = Box(x=(0, 1), t=(0, 1), time="t")


# ---- On a line ----


def two_widths(first: float, second: float) -> Case:
    """A constant and exponentials of the matrix diag(1 / eps) [[2, -1], [-1, 2]]."""
    matrix = np.array([[2.0, -1.0], [-1.0, 2.0]])
    rates, vectors = np.linalg.eig(matrix / np.array([[first], [second]]))
    rates = np.sqrt(rates)
    constants = np.linalg.solve(vectors, [-1.0, -1.0])

    def exact(x: np.ndarray) -> tuple[np.ndarray, ...]:
        low, high = np.exp(-np.outer(rates, x)), np.exp(-np.outer(rates, 1 - x))
        modes = constants[:, None] * (low + high) / (1 + np.exp(-rates))[:, None]
        return tuple(1.0 + vectors @ modes)

    return Case(
        f"two widths {first:g}, {second:g}",
        f"-{first:g} u'' + 2 u - v = 1, -{second:g} v'' + 2 v - u = 1, zero at both ends",
        lambda: Problem(
            INTERVAL,
            lambda u, v: (-first * u.xx + 2 * u - v - 1, -second * v.xx + 2 * v - u - 1),
            [Dirichlet(INTERVAL.boundary, 0.0, field=name) for name in ("u", "v")],
            fields=("u", "v"),
        ),
        exact,
        goal=1e-8,
        seconds=10,
        inside=lambda random: 20 * np.sqrt(first) * random,
    )


def robin_layer(diffusion: float = 1e-5) -> Case:
    """u = x - (1 + eps) exp((x - 1) / eps) / 2."""

    def make() -> Problem:
        lower, upper = INTERVAL.face("x", "lower"), INTERVAL.face("x", "upper")
        return Problem(
            INTERVAL,
            lambda u: -diffusion * u.xx + u.x - 1,
            [Dirichlet(lower, 0.0), Robin(upper, 1.0, diffusion, 0.0)],
        )

    return Case(
        "robin layer",
        f"-{diffusion:g} u'' + u' = 1, u(0) = 0, u(1) + eps u'(1) = 0",
        make,
        lambda x: x - (1 + diffusion) * np.exp((x - 1) / diffusion) / 2,
        goal=1e-8,
        seconds=10,
        inside=lambda random: 1 - 20 * diffusion * random,
    )


def poisson_boltzmann(thickness: float = 0.01, value: float = 10.0) -> Case:
    """Gouy and Chapman: tanh(u / 4) = tanh(u(0) / 4) exp(-x / eps)."""

    def exact(x: Any) -> Any:
        return 4 * np.arctanh(np.tanh(value / 4) * np.exp(-x / thickness))

    return Case(
        "poisson-boltzmann",
        f"{thickness:g}^2 u'' = sinh u, u(0) = {value:g}, u(1) = 0",
        lambda: Problem(
            INTERVAL,
            lambda u: thickness**2 * u.xx - jnp.sinh(u.value),
            [
                Dirichlet(INTERVAL.face("x", "lower"), value),
                Dirichlet(INTERVAL.face("x", "upper"), 0.0),
            ],
        ),
        exact,
        goal=1e-8,
        seconds=10,
        inside=lambda random: 5 * thickness * np.exp(-value / 2) * random,
    )


def bratu(factor: float = 3.5) -> Case:
    """u = -2 log(cosh((x - 1/2) theta / 2) / cosh(theta / 4)), on either branch."""
    fold = lambda theta: theta - mpmath.sqrt(2 * factor) * mpmath.cosh(theta / 4)
    thetas = [float(mpmath.findroot(fold, guess)) for guess in (3.5, 6.0)]

    def branch(theta: float, x: Any) -> Any:
        return -2 * np.log(np.cosh((x - 0.5) * theta / 2) / np.cosh(theta / 4))

    def measure(function: Function) -> dict[str, float]:
        x = np.linspace(0, 1, 401)
        found = np.ravel(function(x))
        errors = [np.max(np.abs(found - branch(theta, x))) for theta in thetas]
        return {"error": float(min(errors) / np.max(np.abs(branch(thetas[0], x))))}

    return Case(
        "bratu",
        f"u'' + {factor:g} exp u = 0, u(0) = u(1) = 0",
        lambda: Problem(
            INTERVAL, lambda u: u.xx + factor * jnp.exp(u.value), [Dirichlet(INTERVAL.boundary, 0)]
        ),
        functools.partial(branch, thetas[0]),
        goal=1e-10,
        seconds=10,
        measure=measure,
    )


def clamped_beam(stiffness: float = 1e-4) -> Case:
    """eps^2 w'''' - w'' = 1: w = (x - x^2) / 2 + c (exp(-x / eps) + exp((x - 1) / eps) - ...)."""
    eps = stiffness
    edge = np.exp(-1 / eps)
    c = -0.5 * eps / (edge - 1)  # the slope is zero at both ends

    def exact(x: Any) -> Any:
        return (x - x**2) / 2 + c * (np.exp(-x / eps) + np.exp((x - 1) / eps) - 1 - edge)

    return Case(
        "clamped beam",
        f"{eps:g}^2 w'''' - w'' = 1, w = w' = 0 at both ends",
        lambda: Problem(
            INTERVAL,
            lambda u: eps**2 * u.d(x=4) - u.xx - 1,
            [Dirichlet(INTERVAL.boundary, 0.0), Neumann(INTERVAL.boundary, 0.0)],
        ),
        exact,
        goal=1e-8,
        seconds=10,
        inside=lambda random: 20 * eps * random,
    )


def resonance(diffusion: float = 0.04) -> Case:
    """Ackerberg and O'Malley: u = x + an even function that lives next to both ends."""

    def even(x: Any) -> Any:
        # M(-1/2, 1/2, z) over its value at x = 1: large numbers divided before they overflow.
        z = np.asarray(x) ** 2 / (2 * diffusion)
        top = float(scipy.special.hyp1f1(-0.5, 0.5, 0.5 / diffusion))
        return scipy.special.hyp1f1(-0.5, 0.5, z) / top

    return Case(
        "resonance",
        f"{diffusion:g} u'' - x u' + u = 0, u(-1) = 1, u(1) = 2",
        lambda: Problem(
            LINE,
            lambda u, x: diffusion * u.xx - x * u.x + u,
            [Dirichlet(LINE.face("x", "lower"), 1.0), Dirichlet(LINE.face("x", "upper"), 2.0)],
        ),
        lambda x: 0.5 * x + 1.5 * even(x),
        goal=1e-8,
        seconds=10,
    )


def p_laplacian() -> Case:
    """(|u'|^2 u')' = 1: u = 3/4 |x|^(4/3)."""
    return Case(
        "p-laplacian",
        "3 u'^2 u'' = 1, u(-1) = u(1) = 3/4",
        lambda: Problem(LINE, lambda u: 3 * u.x**2 * u.xx - 1, [Dirichlet(LINE.boundary, 0.75)]),
        lambda x: 0.75 * np.abs(x) ** (4 / 3),
        goal=1e-6,
        seconds=30,
    )


def short_waves(number: float = 1_000.5) -> Case:
    """u = sin k x / sin k."""
    return Case(
        "short waves",
        f"u'' + {number:g}^2 u = 0, u(0) = 0, u(1) = 1",
        lambda: Problem(
            INTERVAL,
            lambda u: u.xx + number**2 * u,
            [
                Dirichlet(INTERVAL.face("x", "lower"), 0.0),
                Dirichlet(INTERVAL.face("x", "upper"), 1.0),
            ],
        ),
        lambda x: np.sin(number * x) / np.sin(number),
        goal=1e-8,
        seconds=20,
    )


# ---- In the plane ----


def jump_at_inflow(diffusion: float = 1e-3, angle: float = 1.2) -> Case:
    """Half-plane data [x > 0]: int_0^inf k y exp(k b.(x - s, y)) K_1(k r) / (pi r) ds."""
    box = Box(x=(-1, 1), y=(0, 1))
    along, up = np.cos(angle), np.sin(angle)
    k = 1 / (2 * diffusion)
    nodes, weights = np.polynomial.legendre.leggauss(600)

    def exact(x: Any, y: Any) -> np.ndarray:
        x, y = np.broadcast_arrays(np.asarray(x, float), np.asarray(y, float))
        shape, x, y = x.shape, x.ravel(), y.ravel()
        # s = x - y sinh(q): the exponent is k y cosh q (b.(sinh q, 1) / cosh q - 1).
        peak = np.arcsinh(along / up)
        safe = np.maximum(y, 1e-300)
        reach = np.minimum(12.0 / np.sqrt(k * safe) + 0.5, 40.0)
        top = np.clip(np.arcsinh(x / safe), peak - reach, peak + reach)
        low = peak - reach
        q = low[:, None] + (top - low)[:, None] * (nodes + 1) / 2
        r = safe[:, None] * np.cosh(q)
        phase = k * (safe[:, None] * (along * np.sinh(q) + up) - r)
        kernel = k * safe[:, None] / np.pi * scipy.special.k1e(k * r) * np.exp(phase)
        found = (kernel * weights).sum(axis=1) * (top - low) / 2
        return np.where(y > 0, found, x > 0).reshape(shape)

    def inside(random: np.ndarray) -> np.ndarray:
        y = 0.05 + 0.95 * random[:, 1]
        across = 4 * np.sqrt(2 * diffusion * y) * (2 * random[:, 0] - 1)
        return np.stack([y * along / up + across, y], axis=1)

    return Case(
        "jump at the inflow",
        f"-{diffusion:g} lap u + cos(1.2) u_x + sin(1.2) u_y = 0, u(x, 0) = [x > 0]",
        lambda: Problem(
            box,
            lambda u: -diffusion * u.laplacian + along * u.x + up * u.y,
            [Dirichlet(box.boundary, exact)],
        ),
        exact,
        goal=1e-5,
        seconds=60,
        inside=inside,
    )


def parabolic_layer(diffusion: float = 1e-4) -> Case:
    """u = g(x) h(y), -eps g'' + g' = 1, -eps h'' + h = 1, zero on the boundary."""
    root = np.sqrt(diffusion)

    def h(library: Any, y: Any) -> Any:
        edge = np.exp(-1 / root)
        return 1 - (library.exp(-y / root) + library.exp((y - 1) / root)) / (1 + edge)

    def g(library: Any, x: Any) -> Any:
        none = np.exp(-1 / diffusion)
        return x - (library.exp((x - 1) / diffusion) - none) / (1 - none)

    def inside(random: np.ndarray) -> np.ndarray:
        points = random.copy()
        half = len(points) // 2
        points[:half, 0] = 1 - 20 * diffusion * random[:half, 0]
        points[half // 2 :, 1] = 20 * root * random[half // 2 :, 1]
        return np.clip(points, 0, 1)

    return Case(
        "parabolic layer",
        f"-{diffusion:g} lap u + u_x = f, {parabolic_layer.__doc__}",
        # -eps g'' h + g' h - eps h'' g = h + (1 - h) g
        lambda: Problem(
            UNIT,
            lambda u, x, y: (
                -diffusion * u.laplacian + u.x - h(jnp, y) - (1 - h(jnp, y)) * g(jnp, x)
            ),
            [Dirichlet(UNIT.boundary, 0.0)],
        ),
        lambda x, y: g(np, x) * h(np, y),
        goal=1e-6,
        seconds=60,
        inside=inside,
    )


def two_widths_in_plane(first: float, second: float) -> Case:
    """u = h(x) h(y) for eps1, v likewise for eps2, -eps h'' + h = 1, zero on the boundary."""

    def h(library: Any, y: Any, eps: float) -> Any:
        root = np.sqrt(eps)
        edge = np.exp(-1 / root)
        return 1 - (library.exp(-y / root) + library.exp((y - 1) / root)) / (1 + edge)

    def product(library: Any, x: Any, y: Any, eps: float) -> Any:
        return h(library, x, eps) * h(library, y, eps)

    def residual(u: Any, v: Any, x: Any, y: Any) -> tuple[Any, Any]:
        sources = []
        for eps, other in ((first, second), (second, first)):
            a, b = h(jnp, x, eps), h(jnp, y, eps)
            bend = (1 - a) * b + a * (1 - b)
            sources.append(bend + 2 * a * b - product(jnp, x, y, other))
        return (
            -first * u.laplacian + 2 * u - v - sources[0],
            -second * v.laplacian + 2 * v - u - sources[1],
        )

    return Case(
        f"two widths in the plane {first:g}, {second:g}",
        f"-{first:g} lap u + 2 u - v = f, -{second:g} lap v + 2 v - u = g",
        lambda: Problem(
            UNIT,
            residual,
            [Dirichlet(UNIT.boundary, 0.0, field=name) for name in ("u", "v")],
            fields=("u", "v"),
        ),
        lambda x, y: (product(np, x, y, first), product(np, x, y, second)),
        goal=1e-6,
        seconds=60,
        inside=lambda random: random * np.array([20 * np.sqrt(first), 1.0]),
    )


def two_peaks() -> Case:
    """u = exp(-50 |x - p|^2) + exp(-40000 |x - q|^2)."""
    peaks = ((-0.5, 0.4, 50.0), (0.6, -0.3, 4e4))

    def exact(library: Any, x: Any, y: Any) -> Any:
        return sum(library.exp(-s * ((x - a) ** 2 + (y - b) ** 2)) for a, b, s in peaks)

    def source(library: Any, x: Any, y: Any) -> Any:
        total = 0.0
        for a, b, s in peaks:
            r2 = (x - a) ** 2 + (y - b) ** 2
            total = total + (4 * s**2 * r2 - 4 * s) * library.exp(-s * r2)
        return total

    def inside(random: np.ndarray) -> np.ndarray:
        centers = np.array([peaks[i % 2][:2] for i in range(len(random))])
        widths = np.array([peaks[i % 2][2] ** -0.5 for i in range(len(random))])
        return centers + 3 * widths[:, None] * (2 * random - 1)

    return front_case("two peaks", two_peaks.__doc__ or "", exact, source, inside, 120)


def charged_rectangle(angle: float = 0.5) -> Case:
    """-lap u = 1 in a turned rectangle: the logarithmic potential in closed form."""
    half = (0.5, 0.3)
    cosine, sine = np.cos(angle), np.sin(angle)

    def turned(x: Any, y: Any) -> tuple[Any, Any]:
        return cosine * x + sine * y, -sine * x + cosine * y

    def exact(library: Any, x: Any, y: Any) -> Any:
        s, t = turned(x, y)
        total = 0.0
        for i, a in ((1, half[0]), (-1, -half[0])):
            for j, b in ((1, half[1]), (-1, -half[1])):
                p, q = a - s, b - t
                r2 = p**2 + q**2
                angles = p**2 * library.arctan2(q * p, p * p) + q**2 * library.arctan2(p * q, q * q)
                term = p * q * (library.log(r2) - 3) + angles
                total = total + i * j * term
        return -total / (4 * np.pi)

    def source(x: Any, y: Any) -> Any:
        s, t = turned(x, y)
        return jnp.where((jnp.abs(s) < half[0]) & (jnp.abs(t) < half[1]), 1.0, 0.0)

    return Case(
        "charged rectangle",
        "-lap u = 1 in a rectangle turned by 1/2, 0 elsewhere",
        lambda: Problem(
            SQUARE,
            lambda u, x, y: u.laplacian + source(x, y),
            [Dirichlet(SQUARE.boundary, functools.partial(exact, jnp))],
        ),
        functools.partial(exact, np),
        goal=1e-6,
        seconds=60,
    )


def source_on_ellipse() -> Case:
    """u = max(q, 0)^2, q = 1 - (x - 0.1)^2 / 0.36 - y^2 / 0.09."""
    a, b, center = 0.36, 0.09, 0.1

    def q(x: Any, y: Any) -> Any:
        return 1 - (x - center) ** 2 / a - y**2 / b

    def source(x: Any, y: Any) -> Any:
        slope2 = 4 * (x - center) ** 2 / a**2 + 4 * y**2 / b**2
        return jnp.where(q(x, y) > 0, 2 * slope2 - 4 * q(x, y) * (1 / a + 1 / b), 0.0)

    return Case(
        "source on an ellipse",
        f"lap u = f, {source_on_ellipse.__doc__}",
        lambda: Problem(
            SQUARE,
            lambda u, x, y: u.laplacian - source(x, y),
            [Dirichlet(SQUARE.boundary, 0.0)],
        ),
        lambda x, y: np.maximum(q(x, y), 0) ** 2,
        goal=1e-6,
        seconds=60,
    )


def crossing_jumps() -> Case:
    """u = s|s| + t|t| + s|s| t / 2, s = x + y / 2 - 0.1, t = x / 3 - y + 0.2."""

    def both(x: Any, y: Any) -> tuple[Any, Any]:
        return x + y / 2 - 0.1, x / 3 - y + 0.2

    def exact(library: Any, x: Any, y: Any) -> Any:
        s, t = both(x, y)
        return s * library.abs(s) * (1 + t / 2) + t * library.abs(t)

    def source(x: Any, y: Any) -> Any:
        s, t = both(x, y)
        s2, t2, st = 1 + 0.25, 1 / 9 + 1, 1 / 3 - 0.5
        sign_s, sign_t = jnp.where(s > 0, 1.0, -1.0), jnp.where(t > 0, 1.0, -1.0)
        return 2 * sign_s * s2 * (1 + t / 2) + 2 * jnp.abs(s) * st + 2 * sign_t * t2

    return Case(
        "crossing jumps",
        f"lap u = f, {crossing_jumps.__doc__}",
        lambda: Problem(
            SQUARE,
            lambda u, x, y: u.laplacian - source(x, y),
            [Dirichlet(SQUARE.boundary, functools.partial(exact, jnp))],
        ),
        functools.partial(exact, np),
        goal=1e-6,
        seconds=60,
    )


def minimal_surface(steepness: float = 1.56) -> Case:
    """Scherk: u = log(cos a y / cos a x) / a, steep at all sides."""
    a = steepness

    def exact(library: Any, x: Any, y: Any) -> Any:
        return library.log(library.cos(a * y) / library.cos(a * x)) / a

    return Case(
        "minimal surface",
        "(1 + u_y^2) u_xx - 2 u_x u_y u_xy + (1 + u_x^2) u_yy = 0, "
        + (minimal_surface.__doc__ or ""),
        lambda: Problem(
            SQUARE,
            lambda u: (1 + u.y**2) * u.xx - 2 * u.x * u.y * u.xy + (1 + u.x**2) * u.yy,
            [Dirichlet(SQUARE.boundary, functools.partial(exact, jnp))],
        ),
        functools.partial(exact, np),
        goal=1e-6,
        seconds=60,
    )


def poisson_boltzmann_in_plane(thickness: float = 0.1, value: float = 4.0) -> Case:
    """Gouy and Chapman along an oblique direction."""

    def exact(library: Any, x: Any, y: Any) -> Any:
        s = (0.8 * x + 0.6 * y + 1.4) / thickness
        return 4 * library.arctanh(np.tanh(value / 4) * library.exp(-s))

    return Case(
        "poisson-boltzmann in the plane",
        f"{thickness:g}^2 lap u = sinh u, a layer at a corner",
        lambda: Problem(
            SQUARE,
            lambda u: thickness**2 * u.laplacian - jnp.sinh(u.value),
            [Dirichlet(SQUARE.boundary, functools.partial(exact, jnp))],
        ),
        functools.partial(exact, np),
        goal=1e-6,
        seconds=60,
    )


# ---- In time ----


def nagumo_front(plane: bool) -> Case:
    """u = 1 / (1 + exp(z)), z = (x - x0 - c t) sqrt(r / 2 D), c = sqrt(r D / 2) (1 - 2 a)."""
    rate, diffusion, a = 400.0, 1e-3, 0.1
    slope, speed = np.sqrt(rate / (2 * diffusion)), np.sqrt(rate * diffusion / 2) * (1 - 2 * a)
    box = Box(x=(0, 1), y=(0, 1), t=(0, 1), time="t") if plane else UNIT_TIME

    def exact(library: Any, x: Any, *rest: Any) -> Any:
        at = 0.8 * x + 0.6 * rest[0] - 0.3 if plane else x - 0.2
        return 0.5 - 0.5 * library.tanh((at - speed * rest[-1]) * slope / 2)

    def inside(random: np.ndarray) -> np.ndarray:
        t = random[:, -1]
        if plane:
            y = random[:, 1]
            x = (0.3 + speed * t - 0.6 * y + 10 / slope * (2 * random[:, 0] - 1)) / 0.8
            return np.stack([x, y, t], axis=1)
        return np.stack([0.2 + speed * t + 10 / slope * (2 * random[:, 0] - 1), t], axis=1)

    known = functools.partial(exact, jnp)
    return Case(
        "nagumo front in the plane" if plane else "nagumo front",
        f"u_t = {diffusion:g} lap u + {rate:g} u (1 - u) (u - {a:g})",
        lambda: Problem(
            box,
            lambda u: (
                u.t - diffusion * (u.xx + u.yy if plane else u.xx) - rate * u * (1 - u) * (u - a)
            ),
            [Dirichlet(box.boundary, known), Initial(known)],
        ),
        functools.partial(exact, np),
        goal=1e-4 if plane else 1e-6,
        seconds=120 if plane else 60,
        inside=inside,
    )


def fisher_front() -> Case:
    """u = (1 + exp(z))^-2, z = sqrt(r / 6 D) x - 5 r t / 6 - z0 (Ablowitz and Zeppetella)."""
    rate, diffusion = 10.0, 1e-3
    slope = np.sqrt(rate / (6 * diffusion))

    def exact(library: Any, x: Any, t: Any) -> Any:
        z = slope * (x - 0.2) - 5 * rate / 6 * t
        return (0.5 - 0.5 * library.tanh(z / 2)) ** 2

    known = functools.partial(exact, jnp)
    return Case(
        "fisher front",
        f"u_t = {diffusion:g} u_xx + {rate:g} u (1 - u)",
        lambda: Problem(
            UNIT_TIME,
            lambda u: u.t - diffusion * u.xx - rate * u * (1 - u),
            [Dirichlet(UNIT_TIME.boundary, known), Initial(known)],
        ),
        functools.partial(exact, np),
        goal=1e-6,
        seconds=60,
    )


def steeper_burgers(viscosity: float = 1e-4) -> Case:
    """u = 1/2 - tanh((x - 1/4 - t/2) / (4 nu)) / 2."""

    def exact(library: Any, x: Any, t: Any) -> Any:
        return 0.5 - 0.5 * library.tanh((x - 0.25 - t / 2) / (4 * viscosity))

    def inside(random: np.ndarray) -> np.ndarray:
        x = 0.25 + random[:, 1] / 2 + 20 * viscosity * (2 * random[:, 0] - 1)
        return np.stack([x, random[:, 1]], axis=1)

    known = functools.partial(exact, jnp)
    return Case(
        f"burgers {viscosity:g}",
        f"u_t + u u_x = {viscosity:g} u_xx, a shock from x = 1/4 to 3/4",
        lambda: Problem(
            UNIT_TIME,
            lambda u: u.t + u * u.x - viscosity * u.xx,
            [Dirichlet(UNIT_TIME.boundary, known), Initial(known)],
        ),
        functools.partial(exact, np),
        goal=1e-6,
        seconds=60,
        inside=inside,
    )


def by_differences(
    change: Callable[..., Sequence[np.ndarray]],
    start: Sequence[Function],
    ends: Sequence[tuple[float, float] | None],
    count: int,
    times: np.ndarray,
) -> Function:
    """Fourth-order differences on [0, 1], LSODA; fields without values at the ends are mirrored."""
    x = np.linspace(0, 1, count + 1)
    h, num = x[1], len(start)

    def derivatives(u: np.ndarray, end: tuple[float, float] | None) -> tuple[np.ndarray, ...]:
        if end is None:
            w = np.concatenate([u[2:0:-1], u, u[-2:-4:-1]])
        else:
            w = np.concatenate([2 * u[0] - u[2:0:-1], u, 2 * u[-1] - u[-2:-4:-1]])
        slope = (w[:-4] - 8 * w[1:-3] + 8 * w[3:-1] - w[4:]) / (12 * h)
        bend = (-w[:-4] + 16 * w[1:-3] - 30 * w[2:-2] + 16 * w[3:-1] - w[4:]) / (12 * h**2)
        return u, slope, bend

    def rate(t: float, flat: np.ndarray) -> np.ndarray:
        fields = flat.reshape(-1, num).T
        found = np.array(
            change(*(derivatives(u, end) for u, end in zip(fields, ends, strict=True)))
        )
        for own, end in zip(found, ends, strict=True):
            if end is not None:
                own[[0, -1]] = 0.0
        return found.T.ravel()

    first = np.stack([each(x) for each in start], axis=1).ravel()
    states = scipy.integrate.odeint(
        rate, first, times, tfirst=True, ml=3 * num, mu=3 * num, rtol=1e-9, atol=1e-11
    ).reshape(len(times), -1, num)
    splines = [
        scipy.interpolate.RectBivariateSpline(times, x, states[:, :, i], kx=5, ky=5)
        for i in range(num)
    ]
    return lambda x, t: tuple(spline(t, x, grid=False) for spline in splines)


def buckley_leverett(diffusion: float = 5e-3) -> Case:
    """f(u) = u^2 / (u^2 + (1 - u)^2 / 2): a shock behind which a wave fans out."""
    # Differences of 3,000 and 5,000 points are 1e-6 apart; with a diffusion of 2e-3, 7e-5.

    def speed(u: Any) -> Any:
        return u * (1 - u) / (u**2 + 0.5 * (1 - u) ** 2) ** 2

    def start(library: Any, x: Any) -> Any:
        return 0.5 - 0.5 * library.tanh((x - 0.15) / 0.01)

    box = Box(x=(0, 1), t=(0, 0.4), time="t")

    @functools.cache
    def reference() -> Function:
        return by_differences(
            lambda u: (diffusion * u[2] - speed(u[0]) * u[1],),
            [functools.partial(start, np)],
            [(1.0, 0.0)],
            3_000,
            np.linspace(0, 0.4, 1_601),
        )

    return Case(
        "buckley-leverett",
        f"u_t + f(u)_x = {diffusion:g} u_xx, {buckley_leverett.__doc__}",
        lambda: Problem(
            box,
            lambda u: u.t + speed(u.value) * u.x - diffusion * u.xx,
            [
                Dirichlet(box.face("x", "lower"), 1.0),
                Dirichlet(box.face("x", "upper"), 0.0),
                Initial(lambda x, t: start(jnp, x)),
            ],
        ),
        lambda x, t: reference()(x, t)[0],
        goal=1e-5,
        seconds=60,
    )


def fitzhugh_nagumo() -> Case:
    """A pulse: u_t = D u_xx + r (u (1 - u) (u - a) - v), v_t = r e (u - g v)."""
    diffusion, rate, a, slow, g = 2e-4, 100.0, 0.1, 0.05, 1.0

    def u0(library: Any, x: Any, t: Any = 0) -> Any:
        return library.exp(-((x / 0.1) ** 4))

    def reaction(u: Any, v: Any) -> tuple[Any, Any]:
        return rate * (u * (1 - u) * (u - a) - v), rate * slow * (u - g * v)

    @functools.cache
    def reference() -> Function:
        def change(u: Any, v: Any) -> tuple[np.ndarray, np.ndarray]:
            first, second = reaction(u[0], v[0])
            return diffusion * u[2] + first, second

        return by_differences(
            change,
            [functools.partial(u0, np), np.zeros_like],
            [None, None],
            2_000,
            np.linspace(0, 1, 801),
        )

    return Case(
        "fitzhugh-nagumo",
        fitzhugh_nagumo.__doc__ or "",
        lambda: Problem(
            UNIT_TIME,
            lambda u, v: (
                u.t - diffusion * u.xx - reaction(u.value, v.value)[0],
                v.t - reaction(u.value, v.value)[1],
            ),
            [
                Neumann(UNIT_TIME.boundary, 0.0, field="u"),
                Initial(functools.partial(u0, jnp), field="u"),
                Initial(0.0, field="v"),
            ],
            fields=("u", "v"),
        ),
        lambda x, t: reference()(x, t),
        goal=1e-5,
        seconds=60,
    )


CASES = (
    two_widths(1e-6, 1e-3),
    two_widths(1e-8, 1e-4),
    robin_layer(),
    poisson_boltzmann(),
    bratu(),
    clamped_beam(),
    resonance(),
    p_laplacian(),
    short_waves(),
    jump_at_inflow(),
    parabolic_layer(),
    two_widths_in_plane(1e-6, 1e-3),
    two_peaks(),
    charged_rectangle(),
    source_on_ellipse(),
    crossing_jumps(),
    minimal_surface(),
    poisson_boltzmann_in_plane(),
    nagumo_front(False),
    nagumo_front(True),
    fisher_front(),
    steeper_burgers(),
    buckley_leverett(),
    fitzhugh_nagumo(),
)
