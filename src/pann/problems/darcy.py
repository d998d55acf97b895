"""Darcy flow through five strips of different permeability, along the strips and across them."""

import functools
from typing import Any

import jax.numpy as jnp
import numpy as np

from pann.domain import Box
from pann.pde import Condition, Data, Dirichlet, Interface, Neumann, Problem

PERMEABILITIES = (16.0, 6.0, 1.0, 10.0, 2.0)
NUM_STRIPS = len(PERMEABILITIES)
# The flux between pressures 1 and 0 across strips in series, 2.7335.
FLUX_ACROSS = 1 / sum(1 / NUM_STRIPS / kappa for kappa in PERMEABILITIES)


@functools.cache
def darcy() -> Problem:
    """-div(kappa grad p) = 0, kappa = 16, 6, 1, 10, 2 in five strips along the flow, p = 1 - y.

    The flux kappa dp/dn is given on the boundary, where it jumps from strip to strip, and p in one
    corner. p is smooth, and p_x = 0 where kappa jumps: the equation holds
    point by point as kappa lap p = 0, with nothing lost at the interfaces.
    """
    square = Box(x=(0, 1), y=(0, 1))
    return Problem(
        square,
        residual=lambda p, x, y: -permeability(x) * p.laplacian,
        conditions=[
            Neumann(square.face("x", "lower") + square.face("x", "upper"), 0.0, field="p"),
            Neumann(square.face("y", "lower"), _kappa_at, coefficient=_kappa_at, field="p"),
            Neumann(
                square.face("y", "upper"),
                lambda x, y: -permeability(x),
                coefficient=_kappa_at,
                field="p",
            ),
            Data(np.array([[0.0, 0.0]]), np.array([1.0]), field="p"),
        ],
        exact=lambda x, y: 1 - y + 0 * x,
        fields=("p",),
        name="darcy",
    )


@functools.cache
def darcy_across() -> Problem:
    """-div(kappa grad p) = 0, kappa as in darcy, flow across the strips with kinks.

    Within a strip the equation is kappa lap p = 0. Where kappa jumps, p and kappa p_x do not:
    without that p = 1 - x would solve it, too.
    """
    square = Box(x=(0, 1), y=(0, 1))
    interfaces = [
        Interface("x", strip / NUM_STRIPS, coefficient=_kappa_at, field="p")
        for strip in range(1, NUM_STRIPS)
    ]
    return Problem(
        square,
        residual=lambda p, x, y: -permeability(x) * p.laplacian,
        conditions=[*_ends_and_walls(square), *interfaces],
        exact=lambda x, y: pressure_across(x) + 0 * y,
        fields=("p",),
        name="darcy_across",
    )


@functools.cache
def darcy_across_mixed() -> Problem:
    """p_x = -q / kappa, q_x = kappa p_yy, the same with the flux unknown and no interfaces.

    That kappa p_x is continuous where kappa jumps is kept by the unknown q = -kappa p_x. The flux
    along the strips is no unknown: it jumps in general, and p_yy does not.
    """
    square = Box(x=(0, 1), y=(0, 1))

    def residual(p: Any, q: Any, x: Any) -> tuple[Any, Any]:
        kappa = permeability(x)
        return p.x + q / kappa, q.x - kappa * p.yy

    return Problem(
        square,
        residual=residual,
        conditions=_ends_and_walls(square),
        exact=lambda x, y: (pressure_across(x) + 0 * y, FLUX_ACROSS + 0 * x),
        fields=("p", "q"),
        name="darcy_across_mixed",
    )


def _ends_and_walls(square: Box) -> list[Condition]:
    """Pressures 1 and 0 at the ends, no flow through the walls."""
    return [
        Dirichlet(square.face("x", "lower"), 1.0, field="p"),
        Dirichlet(square.face("x", "upper"), 0.0, field="p"),
        Neumann(square.face("y", "lower") + square.face("y", "upper"), 0.0, field="p"),
    ]


def permeability(x: Any) -> Any:
    """kappa at x in [0, 1]: constant on five strips, at a jump that of the strip to the right."""
    strip = jnp.clip(jnp.floor(NUM_STRIPS * jnp.asarray(x)), 0, NUM_STRIPS - 1)
    return jnp.asarray(PERMEABILITIES)[strip.astype(int)]


def pressure_across(x: Any) -> Any:
    """The pressure that falls from 1 to 0 with slope -flux / kappa."""
    drops = [FLUX_ACROSS / kappa / NUM_STRIPS for kappa in PERMEABILITIES]
    ends = np.concatenate([[1.0], 1.0 - np.cumsum(drops)])
    return jnp.interp(jnp.asarray(x), jnp.linspace(0, 1, NUM_STRIPS + 1), jnp.asarray(ends))


def _kappa_at(x: Any, y: Any) -> Any:
    return permeability(x)
