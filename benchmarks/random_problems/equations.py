"""Random equations with at most one solution, given the conditions that they ask for.

An operator takes the unknowns and the coordinates: operator((u,), {"x": x}), and is written for any
number of axes. What makes each unique is in its docstring.
"""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from pann import Box

Operator = Callable[[Sequence[Any], Mapping[str, Any]], Any]
# Distance of a Helmholtz equation from its eigenvalues, relative to their size.
FROM_EIGENVALUES = 0.05


@dataclasses.dataclass(frozen=True)
class Equation:
    """An operator and the conditions that make its solution unique.

    `order` is that in space. `ends` are the conditions along an axis that is not periodic: "any"
    (Dirichlet, Neumann or Robin at each end; without time Dirichlet at one), "coercive" (any at
    each end), "dirichlet", "clamped" (value and slope), "inflow" (the value at the lower end),
    "one value" (that, or the value at a point), "first" (the first field only), or "periodic" (such
    axes only). `flux` is the coefficient of the flux through the boundary, if it is not one.
    """

    name: str
    operator: Operator
    ends: str
    order: int = 2
    time_order: int = 0
    fields: tuple[str, ...] = ("u",)
    flux: Callable[..., Any] | None = None


Maker = Callable[[np.random.Generator, Box], Equation]


def in_space(domain: Box) -> list[str]:
    """The axes of a box but time."""
    return [axis for axis in domain.names if axis != domain.time]


def laplacian(u: Any, domain: Box) -> Any:
    """The sum of second derivatives in space, written out where `u.laplacian` could stand."""
    return sum(u.d(**{axis: 2}) for axis in in_space(domain))


def log_uniform(rng: np.random.Generator, low: float, high: float) -> float:
    return float(math.exp(rng.uniform(math.log(low), math.log(high))))


# ---- Stationary equations ----


def elliptic(rng: np.random.Generator, domain: Box) -> Equation:
    """-div(a grad u) + c u with a > 0 and c >= 0: coercive if c > 0."""
    axis, frequency, shift = in_space(domain)[0], rng.uniform(1, 4), rng.uniform(-3, 3)
    c = float(rng.choice([0.0, rng.uniform(0.5, 5)]))
    # Along a periodic axis a sine of the position would not repeat.
    size = 0.0 if axis in domain.periodic else 0.5
    flux = lambda **at: 1 + size * jnp.sin(frequency * at[axis] + shift)
    slope = lambda at: size * frequency * jnp.cos(frequency * at[axis] + shift)

    def operator(unknowns: Sequence[Any], at: Mapping[str, Any]) -> Any:
        (u,) = unknowns
        return -flux(**at) * u.laplacian - slope(at) * u.d(**{axis: 1}) + c * u

    return Equation("elliptic", operator, "coercive" if c else "any", flux=flux)


def advection_diffusion(rng: np.random.Generator, domain: Box) -> Equation:
    """-e lap u + b . grad u: the maximum principle makes Dirichlet problems unique."""
    diffusion, velocity = log_uniform(rng, 0.01, 1), rng.uniform(0.3, 1, domain.dimension)

    def operator(unknowns: Sequence[Any], at: Mapping[str, Any]) -> Any:
        (u,) = unknowns
        carried = sum(
            speed * u.d(**{axis: 1}) for axis, speed in zip(domain.names, velocity, strict=True)
        )
        return -diffusion * laplacian(u, domain) + carried

    return Equation("advection-diffusion", operator, "dirichlet")


def helmholtz_definite(rng: np.random.Generator, domain: Box) -> Equation:
    """-lap u + k^2 u: coercive."""
    square = rng.uniform(1, 10) ** 2
    operator = lambda unknowns, at: -laplacian(unknowns[0], domain) + square * unknowns[0]
    return Equation("Helmholtz, definite", operator, "coercive")


def helmholtz_indefinite(rng: np.random.Generator, domain: Box) -> Equation:
    """lap u + k^2 u with Dirichlet or periodic ends, and k^2 between the eigenvalues."""
    eigenvalues = dirichlet_eigenvalues(domain)
    while True:
        square = rng.uniform(2, 12 / domain.dimension) ** 2
        if np.min(np.abs(eigenvalues - square)) > FROM_EIGENVALUES * square:
            break
    operator = lambda unknowns, at: laplacian(unknowns[0], domain) + square * unknowns[0]
    return Equation("Helmholtz, indefinite", operator, "dirichlet")


def dirichlet_eigenvalues(domain: Box) -> np.ndarray:
    """Of -lap with zero ends along axes that are not periodic."""
    total = np.zeros(1)
    for axis, length in zip(domain.names, domain.widths, strict=True):
        turns = 2 * np.arange(40) if axis in domain.periodic else np.arange(1, 40)
        total = np.add.outer(total, (np.pi * turns / length) ** 2).ravel()
    return total


def monotone(rng: np.random.Generator, domain: Box) -> Equation:
    """-lap u + g(u) with g strictly increasing."""
    name, increasing = (
        ("u + u^3", lambda u: u + u**3),
        ("exp(u)", lambda u: jnp.exp(u.value)),
        ("u + sin(u)/2", lambda u: u + 0.5 * jnp.sin(u.value)),
    )[rng.integers(3)]
    operator = lambda unknowns, at: -laplacian(unknowns[0], domain) + increasing(unknowns[0])
    return Equation(f"reaction {name}", operator, "coercive")


def steady_burgers(rng: np.random.Generator, domain: Box) -> Equation:
    """-e u'' + u u' in one dimension: two solutions with the same ends differ by e w' = m w + C
    with w = 0 at both, hence by nothing."""
    diffusion = log_uniform(rng, 0.05, 1)
    operator = lambda unknowns, at: -diffusion * unknowns[0].xx + unknowns[0] * unknowns[0].x
    return Equation("steady Burgers", operator, "dirichlet")


def biharmonic(rng: np.random.Generator, domain: Box) -> Equation:
    """u'''' + c u with c >= 0, clamped: coercive."""
    c = float(rng.choice([0.0, rng.uniform(1, 50)]))
    operator = lambda unknowns, at: unknowns[0].xxxx + c * unknowns[0]
    return Equation("biharmonic", operator, "clamped", order=4)


def anisotropic(rng: np.random.Generator, domain: Box) -> Equation:
    """-u_xx - 2 b u_xy - c u_yy with b^2 < c: elliptic."""
    across = log_uniform(rng, 0.1, 2)
    mixed = rng.uniform(-0.9, 0.9) * math.sqrt(across)
    operator = lambda unknowns, at: (
        -unknowns[0].xx - 2 * mixed * unknowns[0].xy - across * unknowns[0].yy
    )
    return Equation("anisotropic", operator, "dirichlet")


def transport(rng: np.random.Generator, domain: Box) -> Equation:
    """u' + a(x) u: determined by one value anywhere."""
    frequency = rng.uniform(1, 4)
    operator = lambda unknowns, at: unknowns[0].x + jnp.cos(frequency * at["x"]) * unknowns[0]
    return Equation("transport", operator, "one value", order=1)


def coupled(rng: np.random.Generator, domain: Box) -> Equation:
    """-lap u + u + c v and -lap v + v - c u: the coupling drops out of the energy."""
    c = rng.uniform(0.5, 5)

    def operator(unknowns: Sequence[Any], at: Mapping[str, Any]) -> Any:
        u, v = unknowns
        return -laplacian(u, domain) + u + c * v, -laplacian(v, domain) + v - c * u

    return Equation("two fields coupled", operator, "coercive", fields=("u", "v"))


def mixed(rng: np.random.Generator, domain: Box) -> Equation:
    """v = u' and -v' + c u with c >= 0: the ends of u determine both."""
    c = rng.uniform(0, 5)
    operator = lambda unknowns, at: (
        unknowns[1].value - unknowns[0].x,
        -unknowns[1].x + c * unknowns[0],
    )
    return Equation("mixed first order", operator, "first", order=1, fields=("u", "v"))


# ---- Equations in time: the state at the beginning determines what follows ----


def ordinary(rng: np.random.Generator, domain: Box) -> Equation:
    """u' + a u + g(u), of one variable."""
    rate = rng.uniform(-2, 5)
    name, term = (
        ("u^2", lambda u: u**2),
        ("u^3", lambda u: u**3),
        ("sin(u)", lambda u: jnp.sin(u.value)),
    )[rng.integers(3)]
    operator = lambda unknowns, at: unknowns[0].t + rate * unknowns[0] + term(unknowns[0])
    return Equation(f"ODE with {name}", operator, "any", time_order=1)


def oscillator(rng: np.random.Generator, domain: Box) -> Equation:
    """u' = v, v' = -k^2 u - c u^3."""
    square, c = rng.uniform(1, 8) ** 2, rng.uniform(0, 1)

    def operator(unknowns: Sequence[Any], at: Mapping[str, Any]) -> Any:
        u, v = unknowns
        return u.t - v.value, v.t + square * u + c * u**3

    return Equation("oscillator", operator, "any", time_order=1, fields=("u", "v"))


def heat(rng: np.random.Generator, domain: Box) -> Equation:
    diffusion = log_uniform(rng, 0.02, 1)
    operator = lambda unknowns, at: unknowns[0].t - diffusion * unknowns[0].laplacian
    return Equation("heat", operator, "any", time_order=1)


def advection(rng: np.random.Generator, domain: Box) -> Equation:
    """u_t + b . grad u with b > 0 and values where it enters the box."""
    velocity = rng.uniform(0.3, 1.5, len(in_space(domain)))

    def operator(unknowns: Sequence[Any], at: Mapping[str, Any]) -> Any:
        (u,) = unknowns
        return u.t + sum(
            speed * u.d(**{axis: 1}) for axis, speed in zip(in_space(domain), velocity, strict=True)
        )

    return Equation("advection", operator, "inflow", order=1, time_order=1)


def wave(rng: np.random.Generator, domain: Box) -> Equation:
    square = rng.uniform(0.5, 2) ** 2
    operator = lambda unknowns, at: unknowns[0].tt - square * laplacian(unknowns[0], domain)
    return Equation("wave", operator, "any", time_order=2)


def sine_gordon(rng: np.random.Generator, domain: Box) -> Equation:
    operator = lambda unknowns, at: (
        unknowns[0].tt - laplacian(unknowns[0], domain) + jnp.sin(unknowns[0].value)
    )
    return Equation("sine-Gordon", operator, "any", time_order=2)


def burgers(rng: np.random.Generator, domain: Box) -> Equation:
    diffusion = log_uniform(rng, 0.01, 0.5)

    def operator(unknowns: Sequence[Any], at: Mapping[str, Any]) -> Any:
        (u,) = unknowns
        slopes = sum(u.d(**{axis: 1}) for axis in in_space(domain))
        return u.t + u * slopes - diffusion * laplacian(u, domain)

    return Equation("Burgers", operator, "dirichlet", time_order=1)


def allen_cahn(rng: np.random.Generator, domain: Box) -> Equation:
    diffusion, rate = log_uniform(rng, 0.005, 0.5), rng.uniform(1, 5)
    operator = lambda unknowns, at: (
        unknowns[0].t
        - diffusion * laplacian(unknowns[0], domain)
        + rate * (unknowns[0] ** 3 - unknowns[0].value)
    )
    return Equation("Allen-Cahn", operator, "any", time_order=1)


def reaction_diffusion(rng: np.random.Generator, domain: Box) -> Equation:
    """Two fields, u_t - a lap u + u v and v_t - b lap v - u v."""
    first, second = log_uniform(rng, 0.02, 0.5), log_uniform(rng, 0.02, 0.5)

    def operator(unknowns: Sequence[Any], at: Mapping[str, Any]) -> Any:
        u, v = unknowns
        return (
            u.t - first * laplacian(u, domain) + u * v,
            v.t - second * laplacian(v, domain) - u * v,
        )

    return Equation("reaction-diffusion", operator, "any", time_order=1, fields=("u", "v"))


def schroedinger(rng: np.random.Generator, domain: Box) -> Equation:
    """i w_t + lap w = 0 for w = u + i v."""

    def operator(unknowns: Sequence[Any], at: Mapping[str, Any]) -> Any:
        u, v = unknowns
        return u.t + laplacian(v, domain), v.t - laplacian(u, domain)

    return Equation("Schroedinger", operator, "dirichlet", time_order=1, fields=("u", "v"))


def kdv(rng: np.random.Generator, domain: Box) -> Equation:
    dispersion = log_uniform(rng, 1e-3, 0.1)
    operator = lambda unknowns, at: (
        unknowns[0].t + unknowns[0] * unknowns[0].x + dispersion * unknowns[0].xxx
    )
    return Equation("KdV", operator, "periodic", order=3, time_order=1)


def kuramoto_sivashinsky(rng: np.random.Generator, domain: Box) -> Equation:
    # Errors grow by no more than exp(t / (4 stiffness)).
    stiffness = log_uniform(rng, 0.1, 0.5)
    operator = lambda unknowns, at: (
        unknowns[0].t + unknowns[0] * unknowns[0].x + unknowns[0].xx + stiffness * unknowns[0].xxxx
    )
    return Equation("Kuramoto-Sivashinsky", operator, "periodic", order=4, time_order=1)


# With the numbers of axes in space that each may have.
STATIONARY: tuple[tuple[Maker, tuple[int, ...]], ...] = (
    (elliptic, (1, 2, 3)),
    (advection_diffusion, (1, 2)),
    (helmholtz_definite, (1, 2, 3)),
    (helmholtz_indefinite, (1, 2)),
    (monotone, (1, 2, 3)),
    (steady_burgers, (1,)),
    (biharmonic, (1,)),
    (anisotropic, (2,)),
    (transport, (1,)),
    (coupled, (1, 2)),
    (mixed, (1,)),
)
IN_TIME: tuple[tuple[Maker, tuple[int, ...]], ...] = (
    (ordinary, (0,)),
    (oscillator, (0,)),
    (heat, (1, 2)),
    (advection, (1, 2)),
    (wave, (1, 2)),
    (sine_gordon, (1,)),
    (burgers, (1, 2)),
    (allen_cahn, (1, 2)),
    (reaction_diffusion, (1,)),
    (schroedinger, (1,)),
    (kdv, (1,)),
    (kuramoto_sivashinsky, (1,)),
)
