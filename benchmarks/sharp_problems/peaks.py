"""Peaks: Gaussian solutions and Gaussian sources."""

import functools
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import scipy.special

from benchmarks.sharp_problems import chebyshev
from benchmarks.sharp_problems.case import Case, Function
from benchmarks.sharp_problems.layers import SQUARE
from pann import Box, Dirichlet, Problem

CENTER = (0.3, -0.4)


def around(center: tuple[float, ...], width: float) -> Callable[[np.ndarray], np.ndarray]:
    """Points within four widths."""
    return lambda random: np.asarray(center) + 4 * width * (2 * random - 1)


def squared(x: Any, y: Any) -> Any:
    return (x - CENTER[0]) ** 2 + (y - CENTER[1]) ** 2


def on_mapped_square(source: Function, exact: Function, width: float) -> Function:
    lines = [chebyshev.line(200, -1, 1, center, 4 * width) for center in CENTER]
    return chebyshev.poisson(source, exact, (lines[0], lines[1]))


def peak(width: float, goal: float, seconds: float) -> Case:
    """u = exp(-r^2 / (2 w^2))."""

    def exact(library: Any, x: Any, y: Any) -> Any:
        return library.exp(-squared(x, y) / (2 * width**2))

    def source(library: Any, x: Any, y: Any) -> Any:
        r2 = squared(x, y) / width**2
        return (r2 - 2) / width**2 * library.exp(-r2 / 2)

    return Case(
        f"peak {width:g}",
        f"lap u = f, u = exp(-r^2 / (2 w^2)) about {CENTER}, w = {width:g}",
        lambda: Problem(
            SQUARE,
            lambda u, x, y: u.laplacian - source(jnp, x, y),
            [Dirichlet(SQUARE.boundary, functools.partial(exact, jnp))],
        ),
        functools.partial(exact, np),
        goal,
        seconds,
        inside=around(CENTER, width),
        dedicated=lambda: on_mapped_square(
            functools.partial(source, np), functools.partial(exact, np), width
        ),
        dedicated_name="200 x 200 mapped Chebyshev points",
    )


def gaussian_source(width: float, goal: float, seconds: float) -> Case:
    """r u' = exp(-r^2 / (2 w^2)) - 1, hence u = -(E1(z) + ln z + gamma) / 2, z = r^2 / (2 w^2)."""

    def exact(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        z = np.maximum(squared(x, y) / (2 * width**2), 1e-300)
        small = np.minimum(z, 0.5)
        series, term = np.zeros_like(z), np.ones_like(z)
        for k in range(1, 20):
            term = term * -small / k
            series = series - term / k
        large = scipy.special.exp1(z) + np.log(z) + np.euler_gamma
        return -np.where(z < 0.5, series, large) / 2

    def on_boundary(x: Any, y: Any) -> Any:
        # E1 is below the smallest number there.
        return -(jnp.log(squared(x, y) / (2 * width**2)) + np.euler_gamma) / 2

    def source(library: Any, x: Any, y: Any) -> Any:
        return -library.exp(-squared(x, y) / (2 * width**2)) / width**2

    return Case(
        f"gaussian source {width:g}",
        f"-lap u = exp(-r^2 / (2 w^2)) / w^2 about {CENTER}, w = {width:g}, u given outside",
        lambda: Problem(
            SQUARE,
            lambda u, x, y: u.laplacian - source(jnp, x, y),
            [Dirichlet(SQUARE.boundary, on_boundary)],
        ),
        exact,
        goal,
        seconds,
        inside=around(CENTER, width),
        dedicated=lambda: on_mapped_square(functools.partial(source, np), exact, width),
        dedicated_name="200 x 200 mapped Chebyshev points",
    )


def peak_in_space(width: float = 0.05) -> Case:
    """u = exp(-r^2 / (2 w^2)) in a cube."""
    cube, center = Box(x=(-1, 1), y=(-1, 1), z=(-1, 1)), (0.3, -0.4, 0.2)

    def exact(library: Any, x: Any, y: Any, z: Any) -> Any:
        r2 = sum((at - c) ** 2 for at, c in zip((x, y, z), center, strict=True))
        return library.exp(-r2 / (2 * width**2))

    def residual(u: Any, x: Any, y: Any, z: Any) -> Any:
        r2 = sum((at - c) ** 2 for at, c in zip((x, y, z), center, strict=True)) / width**2
        return u.laplacian - (r2 - 3) / width**2 * jnp.exp(-r2 / 2)

    def dedicated() -> Function:
        count = 64
        lines = [chebyshev.line(count, -1, 1, c, 4 * width) for c in center]
        grid = np.meshgrid(*(each.points[1:-1] for each in lines), indexing="ij")
        r2 = sum((at - c) ** 2 for at, c in zip(grid, center, strict=True)) / width**2
        modes = (r2 - 3) / width**2 * np.exp(-r2 / 2)
        pairs = [np.linalg.eig(each.second[1:-1, 1:-1]) for each in lines]
        for axis, (_, vectors) in enumerate(pairs):
            modes = along(np.linalg.inv(vectors), modes, axis)
        p, q, r = (values for values, _ in pairs)
        modes = modes / (p[:, None, None] + q[:, None] + r)
        for axis, (_, vectors) in enumerate(pairs):
            modes = along(vectors, modes, axis)
        u = np.pad(modes.real, 1)  # exp(-(0.6 / w)^2 / 2) is 1e-32 on the boundary

        def interpolated(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
            by = [each.shares(at) for each, at in zip(lines, (x, y, z), strict=True)]
            planes = np.einsum("pi,ijk->pjk", by[0], u, optimize=True)
            return np.einsum("pjk,pj,pk->p", planes, by[1], by[2], optimize=True)

        return interpolated

    return Case(
        "peak in space",
        f"lap u = f, u = exp(-r^2 / (2 w^2)) about {center}, w = {width:g}",
        lambda: Problem(cube, residual, [Dirichlet(cube.boundary, functools.partial(exact, jnp))]),
        functools.partial(exact, np),
        goal=1e-5,
        seconds=120,
        inside=around(center, width),
        dedicated=dedicated,
        dedicated_name="64 x 64 x 64 mapped Chebyshev points",
    )


def along(matrix: np.ndarray, values: np.ndarray, axis: int) -> np.ndarray:
    return np.moveaxis(np.tensordot(matrix, values, axes=(1, axis)), 0, axis)


CASES = (
    peak(0.01, 1e-8, 30),
    peak(0.001, 1e-6, 60),
    gaussian_source(0.01, 1e-8, 30),
    gaussian_source(0.001, 1e-6, 60),
    peak_in_space(),
)
