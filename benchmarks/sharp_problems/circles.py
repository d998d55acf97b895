"""A source, and a coefficient, that jump on a circle."""

from typing import Any

import jax.numpy as jnp
import numpy as np
import scipy.fft
import scipy.interpolate
import scipy.sparse
import scipy.sparse.linalg

from benchmarks.sharp_problems.case import Case, Function
from benchmarks.sharp_problems.layers import SQUARE
from pann import Dirichlet, Problem

CENTER, RADIUS = (0.1, -0.2), 0.5
INNER, OUTER = 1.0, 10.0


def distance(library: Any, x: Any, y: Any) -> Any:
    return library.sqrt((x - CENTER[0]) ** 2 + (y - CENTER[1]) ** 2)


def inside(random: np.ndarray) -> np.ndarray:
    """About the circle."""
    r, angle = RADIUS + (2 * random[:, 0] - 1) / 20, 2 * np.pi * random[:, 1]
    return np.asarray(CENTER) + np.stack([r * np.cos(angle), r * np.sin(angle)], axis=1)


def source_on_disk() -> Case:
    """lap u = 1 within the circle, 0 outside: u = r^2 / 4, R^2 / 4 + R^2 / 2 ln(r / R)."""

    def exact(library: Any, x: Any, y: Any) -> Any:
        r = distance(library, x, y)
        outer = RADIUS**2 / 4 + RADIUS**2 / 2 * library.log(library.maximum(r, RADIUS) / RADIUS)
        return library.where(r < RADIUS, r**2 / 4, outer)

    def dedicated(count: int = 1_024) -> Function:
        """Differences, corrected where they cross the circle (LeVeque and Li, 1994)."""
        line = np.linspace(-1, 1, count + 1)
        h = line[1] - line[0]
        x, y = np.meshgrid(line, line, indexing="ij")
        side = distance(np, x, y) - RADIUS
        is_in = side < 0
        right = np.where(is_in, 1.0, 0.0)
        # What is continued from inside is larger by side^2 / 2 than what there is outside.
        more = side**2 / 2
        u = exact(np, x, y)
        u[1:-1, 1:-1] = 0
        total = np.zeros_like(u)
        for axis in (0, 1):
            for shift in (-1, 1):
                other, beyond = np.roll(is_in, shift, axis), np.roll(more, shift, axis)
                total += np.where(is_in & ~other, -beyond, 0) + np.where(~is_in & other, beyond, 0)
                right = right - np.roll(u, shift, axis) / h**2
        inner = np.s_[1:-1, 1:-1]
        # The unknown neighbors are those of the other side's branch less its difference.
        modes = scipy.fft.dstn((right + total / h**2)[inner], type=1)
        k = np.arange(1, count)
        rates = -4 / h**2 * np.sin(np.pi * k / (2 * count)) ** 2
        u[inner] = scipy.fft.idstn(modes / (rates[:, None] + rates), type=1)
        spline = scipy.interpolate.RectBivariateSpline(line, line, u, kx=3, ky=3)
        return lambda x, y: spline(x, y, grid=False)

    return Case(
        "source on a disk",
        source_on_disk.__doc__ or "",
        lambda: Problem(
            SQUARE,
            lambda u, x, y: u.laplacian - jnp.where(distance(jnp, x, y) < RADIUS, 1.0, 0.0),
            [Dirichlet(SQUARE.boundary, lambda x, y: exact(jnp, x, y))],
        ),
        lambda x, y: exact(np, x, y),
        goal=1e-5,
        seconds=60,
        inside=inside,
        dedicated=dedicated,
        dedicated_name="1,024 x 1,024 differences with immersed interface",
    )


def coefficient_on_disk() -> Case:
    """div(k grad u) = 4, k = 1 within the circle and 10 outside, as p = k u_x, q = k u_y.

    u is the sum of a radial solution and of that of a disk in a uniform field.
    """
    contrast = (OUTER - INNER) / (OUTER + INNER)

    def exact(library: Any, x: Any, y: Any) -> Any:
        along, r2 = x - CENTER[0], distance(library, x, y) ** 2
        outer = r2 / OUTER + RADIUS**2 * (1 / INNER - 1 / OUTER)
        outer = outer + along * (1 + contrast * RADIUS**2 / library.maximum(r2, RADIUS**2))
        return library.where(r2 < RADIUS**2, r2 / INNER + (1 + contrast) * along, outer)

    def coefficient(library: Any, x: Any, y: Any) -> Any:
        return library.where(distance(library, x, y) < RADIUS, INNER, OUTER)

    def residual(u: Any, p: Any, q: Any, x: Any, y: Any) -> tuple[Any, Any, Any]:
        k = coefficient(jnp, x, y)
        return p - k * u.x, q - k * u.y, p.x + q.y - 4

    def dedicated(count: int = 300) -> Function:
        """Finite volumes, the coefficient of a face the harmonic mean along the line across it."""
        line = np.linspace(-1, 1, count + 1)
        h = line[1] - line[0]
        numbers = np.arange((count + 1) ** 2).reshape(count + 1, count + 1)
        rows, columns, entries = [], [], []
        nodes = (np.arange(20) + 0.5) / 20
        for axis in (0, 1):
            a, b = (numbers[:-1], numbers[1:]) if axis == 0 else (numbers[:, :-1], numbers[:, 1:])
            start = np.stack([line[a // (count + 1)], line[a % (count + 1)]])
            step = np.zeros((2, 1, 1))
            step[axis] = h
            resistance = np.mean([1 / coefficient(np, *(start + s * step)) for s in nodes], axis=0)
            shares = 1 / resistance.ravel() / h**2
            for one, two, sign in ((a, b, 1), (b, a, 1), (a, a, -1), (b, b, -1)):
                rows.append(one.ravel())
                columns.append(two.ravel())
                entries.append(sign * shares)
        matrix = scipy.sparse.csr_array(
            (np.concatenate(entries), (np.concatenate(rows), np.concatenate(columns)))
        )
        x, y = np.meshgrid(line, line, indexing="ij")
        u, inner = exact(np, x, y).ravel(), numbers[1:-1, 1:-1].ravel()
        u[inner] = 0
        right = 4 - (matrix @ u)[inner]
        u[inner] = scipy.sparse.linalg.spsolve(matrix[inner][:, inner].tocsc(), right)
        values = scipy.interpolate.RegularGridInterpolator((line, line), u.reshape(x.shape))
        return lambda x, y: values(np.stack([x, y], axis=1))

    return Case(
        "coefficient on a disk",
        (coefficient_on_disk.__doc__ or "").splitlines()[0],
        lambda: Problem(
            SQUARE,
            residual,
            [Dirichlet(SQUARE.boundary, lambda x, y: exact(jnp, x, y), field="u")],
            fields=("u", "p", "q"),
        ),
        lambda x, y: exact(np, x, y),
        goal=1e-5,
        seconds=60,
        inside=inside,
        dedicated=dedicated,
        dedicated_name="300 x 300 finite volumes with harmonic means",
    )


CASES = (source_on_disk(), coefficient_on_disk())
