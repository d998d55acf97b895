"""|grad u|^2 - eps lap u = 1, u = 0 on the boundary; its layers linearized; their closed forms.

u = -eps ln w (Hopf and Cole) has eps^2 lap w = w, w = 1 on the boundary, and 1 - w solves the
equation of reaction and diffusion with layers on all sides.
"""

from typing import Any

import numpy as np

from benchmarks.sharp_problems.case import Case
from benchmarks.sharp_problems.layers import LINE, SQUARE
from pann import Dirichlet, Problem

NUM_TERMS = 20_000


def distance_on_line(x: np.ndarray, viscosity: float) -> np.ndarray:
    """-eps ln(cosh(x / eps) / cosh(1 / eps))."""
    s = np.abs(x)
    rest = np.log1p(np.exp(-2 * s / viscosity)) - np.log1p(np.exp(-2 / viscosity))
    return 1 - s - viscosity * rest


def logarithm_on_square(x: np.ndarray, y: np.ndarray, viscosity: float) -> np.ndarray:
    """ln w with eps^2 lap w = w on [-1, 1]^2, w = 1 on the boundary, however small w is.

    w = cosh(y / eps) / cosh(1 / eps) + sum of b_k cos(k pi y / 2) cosh(m_k x) / cosh(m_k) over odd
    k, m_k^2 = 1 / eps^2 + (k pi / 2)^2. With |x| <= |y| the first part is the largest of all terms.
    """
    near, far = np.minimum(np.abs(x), np.abs(y)), np.maximum(np.abs(x), np.abs(y))
    waves = np.arange(1, 2 * NUM_TERMS, 2) * np.pi / 2
    rates = np.hypot(1 / viscosity, waves)
    signs = (-1.0) ** np.arange(NUM_TERMS)
    factors = 2 * signs / viscosity**2 / (waves * rates**2)
    first = -distance_on_line(far, viscosity) / viscosity
    sums = np.empty_like(near)
    for number, (s, t, log) in enumerate(zip(near, far, first, strict=True)):
        # exp(-80) of the first part is below rounding.
        keep = rates * (1 - s) < -log + 80
        rate = rates[keep]
        size = (1 + np.exp(-2 * rate * s)) / (1 + np.exp(-2 * rate))
        terms = factors[keep] * np.cos(waves[keep] * t) * size
        sums[number] = terms @ np.exp(-rate * (1 - s) - log)
    return first + np.log1p(sums)


def residual_of(viscosity: float) -> Any:
    return lambda u: u.x**2 - viscosity * u.xx - 1


def on_line(viscosity: float = 0.01) -> Case:
    return Case(
        "eikonal on a line",
        f"u_x^2 - {viscosity:g} u_xx = 1, u(-1) = u(1) = 0",
        lambda: Problem(LINE, residual_of(viscosity), [Dirichlet(LINE.boundary, 0.0)]),
        lambda x: distance_on_line(x, viscosity),
        goal=1e-8,
        seconds=10,
        inside=lambda random: 10 * viscosity * (2 * random - 1),
        dedicated=lambda: lambda x: distance_on_line(x, viscosity),
        dedicated_name="closed form",
    )


def on_square(viscosity: float = 0.01) -> Case:
    def inside(random: np.ndarray) -> np.ndarray:
        # About both diagonals.
        s, side = 2 * random[:, 0] - 1, 5 * viscosity * (2 * random[:, 1] - 1)
        sign = np.where(np.arange(len(s)) % 2, 1, -1)
        return np.stack([s + side, sign * (s - side)], axis=1)

    return Case(
        "eikonal on a square",
        f"|grad u|^2 - {viscosity:g} lap u = 1, u = 0 on the boundary",
        lambda: Problem(
            SQUARE,
            lambda u: u.x**2 + u.y**2 - viscosity * u.laplacian - 1,
            [Dirichlet(SQUARE.boundary, 0.0)],
        ),
        lambda x, y: -viscosity * logarithm_on_square(x, y, viscosity),
        goal=1e-6,
        seconds=60,
        inside=inside,
        dedicated=lambda: lambda x, y: -viscosity * logarithm_on_square(x, y, viscosity),
        dedicated_name="series",
    )


def reaction(thickness: float = 0.01) -> Case:
    def inside(random: np.ndarray) -> np.ndarray:
        points = 2 * random - 1
        quarter = len(points) // 4
        for number in range(4):
            part = slice(number * quarter, (number + 1) * quarter)
            end = 1 - 10 * thickness * random[part, number // 2]
            points[part, number // 2] = end if number % 2 else -end
        return points

    def exact(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return -np.expm1(logarithm_on_square(x, y, thickness))

    return Case(
        "layers on four sides",
        f"{thickness:g}^2 lap u = u - 1, u = 0 on the boundary",
        lambda: Problem(
            SQUARE,
            lambda u: thickness**2 * u.laplacian - u + 1,
            [Dirichlet(SQUARE.boundary, 0.0)],
        ),
        exact,
        goal=1e-6,
        seconds=60,
        inside=inside,
        dedicated=lambda: exact,
        dedicated_name="series",
    )


CASES = (on_line(), on_square(), reaction())
