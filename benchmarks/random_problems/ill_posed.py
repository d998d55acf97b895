"""Problems with many solutions, of which two are known, with none, or with an unstable one.

Each function takes the seed and a generator; its docstring says why the problem is ill-posed.
"""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.scipy.special import erfc

from benchmarks.random_problems.case import (
    Case,
    manufactured,
    outward_slope,
    random_box,
    together,
    value_of,
    words_of,
)
from benchmarks.random_problems.equations import Operator, laplacian
from benchmarks.random_problems.solutions import Function, random_shape
from pann import Box, Data, Dirichlet, Initial, Neumann
from pann.pde import Condition

SHAPES = ("smooth", "exponential", "runge")


def no_initial_state(seed: int, rng: np.random.Generator) -> Case:
    """Heat between fixed ends: a decaying mode may be added."""
    domain, diffusion = random_box(rng, 1, True, may_repeat=0.0), 0.2
    exact, name = _solution(rng, domain)
    operator = lambda unknowns, at: unknowns[0].t - diffusion * unknowns[0].xx
    wave, number = _mode(domain, "x")
    more = lambda **at: jnp.exp(-diffusion * number**2 * at["t"]) * wave(at["x"])
    conditions = [Dirichlet(domain.boundary, exact)]
    return _undetermined(seed, domain, operator, exact, conditions, more, "no initial state", name)


def no_end(seed: int, rng: np.random.Generator) -> Case:
    """-u'' with one end given: a line through that end may be added."""
    domain = random_box(rng, 1, False, may_repeat=0.0)
    exact, name = _solution(rng, domain)
    operator = lambda unknowns, at: -unknowns[0].xx
    conditions = [Dirichlet(domain.face("x", "lower"), exact)]
    more = lambda **at: at["x"] - domain.lower[0]
    return _undetermined(seed, domain, operator, exact, conditions, more, "one end missing", name)


def no_face(seed: int, rng: np.random.Generator) -> Case:
    """Poisson's equation with one face free: sin(kx) sinh(ky) may be added."""
    domain = random_box(rng, 2, False, may_repeat=0.0)
    exact, name = _solution(rng, domain)
    operator = lambda unknowns, at: laplacian(unknowns[0], domain)
    faces = domain.face("x", "lower") + domain.face("x", "upper") + domain.face("y", "lower")
    wave, number = _mode(domain, "x")
    more = lambda **at: wave(at["x"]) * jnp.sinh(number * (at["y"] - domain.lower[1]))
    conditions = [Dirichlet(faces, exact)]
    return _undetermined(seed, domain, operator, exact, conditions, more, "one face missing", name)


def three_of_four(seed: int, rng: np.random.Generator) -> Case:
    """u'''' with three conditions: a cubic polynomial may be added."""
    domain = random_box(rng, 1, False, may_repeat=0.0)
    exact, name = _solution(rng, domain)
    operator = lambda unknowns, at: unknowns[0].xxxx
    side = ("x", "lower")
    conditions = [
        Dirichlet(domain.boundary, exact),
        Neumann(domain.face(*side), outward_slope(domain, exact, side)),
    ]
    more = lambda **at: (at["x"] - domain.lower[0]) ** 2 * (at["x"] - domain.upper[0])
    return _undetermined(
        seed, domain, operator, exact, conditions, more, "three conditions of four", name
    )


def heat_without_an_end(seed: int, rng: np.random.Generator) -> Case:
    """Heat with one end free: it may come in from beyond that end, and out at its mirror image."""
    domain, diffusion = random_box(rng, 1, True, may_repeat=0.0), 0.5
    exact, name = _solution(rng, domain)
    operator = lambda unknowns, at: unknowns[0].t - diffusion * unknowns[0].xx
    conditions = [Initial(exact), Dirichlet(domain.face("x", "lower"), exact)]

    def more(**at: Any) -> Any:
        along, source = at["x"] - domain.lower[0], 1.2 * domain.widths[0]
        spread = 2 * jnp.sqrt(diffusion * at["t"]) + 1e-300
        return erfc((source - along) / spread) - erfc((source + along) / spread)

    return _undetermined(
        seed, domain, operator, exact, conditions, more, "heat without one end", name
    )


def only_slopes(seed: int, rng: np.random.Generator) -> Case:
    """Poisson's equation with Neumann conditions everywhere: a constant may be added."""
    domain = random_box(rng, int(rng.integers(1, 3)), False, may_repeat=0.0)
    exact, name = _solution(rng, domain)
    operator = lambda unknowns, at: laplacian(unknowns[0], domain)
    conditions = _slopes(domain, exact)
    return _undetermined(
        seed, domain, operator, exact, conditions, _one, "Neumann everywhere", name
    )


def periodic(seed: int, rng: np.random.Generator) -> Case:
    """Poisson's equation on a ring or a cylinder with slopes at its ends: a constant is free."""
    count = int(rng.integers(1, 3))
    drawn = random_box(rng, count, False, may_repeat=0.0)
    ends = zip(drawn.lower, drawn.upper, strict=True)
    bounds: dict[str, Any] = dict(zip(drawn.names, ends, strict=True))
    domain = Box(periodic="x", **bounds)
    exact, name = _solution(rng, domain)
    operator = lambda unknowns, at: laplacian(unknowns[0], domain)
    conditions = _slopes(domain, exact)
    return _undetermined(
        seed, domain, operator, exact, conditions, _one, "periodic, constant free", name
    )


def one_equation(seed: int, rng: np.random.Generator) -> Case:
    """-u'' + u + v for two fields: a mode of u with its own source -k^2 - 1 of v may be added."""
    domain = random_box(rng, 1, False, may_repeat=0.0)
    fields = ("u", "v")
    exact = together([random_shape(rng, domain, 2, "smooth") for _ in fields])
    operator = lambda unknowns, at: -unknowns[0].xx + unknowns[0] + unknowns[1]
    conditions = [
        Dirichlet(domain.boundary, value_of(exact, number), field)
        for number, field in enumerate(fields)
    ]
    wave, number = _mode(domain, "x")
    more = lambda **at: (wave(at["x"]), -(number**2 + 1) * wave(at["x"]))
    return _undetermined(
        seed,
        domain,
        operator,
        exact,
        conditions,
        more,
        "one equation for two fields",
        "smooth",
        fields,
    )


def pressure(seed: int, rng: np.random.Generator) -> Case:
    """Stokes flow with the velocity given on the boundary: a constant of p is free."""
    domain = random_box(rng, 2, False, may_repeat=0.0)
    fields = ("u", "v", "p")
    exact = together([random_shape(rng, domain, 2, "smooth") for _ in fields])

    def operator(unknowns: Sequence[Any], at: Any) -> Any:
        u, v, p = unknowns
        return -u.laplacian + p.x, -v.laplacian + p.y, u.x + v.y

    conditions = [
        Dirichlet(domain.boundary, value_of(exact, number), field)
        for number, field in enumerate(fields[:2])
    ]
    more = lambda **at: (0.0 * at["x"], 0.0 * at["x"], _one(**at))
    return _undetermined(
        seed,
        domain,
        operator,
        exact,
        conditions,
        more,
        "pressure by its gradient",
        "smooth",
        fields,
    )


def at_an_eigenvalue(seed: int, rng: np.random.Generator) -> Case:
    """u'' + k^2 u between fixed ends with k = pi / length: that mode may be added."""
    domain = random_box(rng, 1, False, may_repeat=0.0)
    exact, name = _solution(rng, domain)
    wave, number = _mode(domain, "x")
    operator = lambda unknowns, at: unknowns[0].xx + number**2 * unknowns[0]
    conditions = [Dirichlet(domain.boundary, exact)]
    more = lambda **at: wave(at["x"])
    return _undetermined(
        seed, domain, operator, exact, conditions, more, "Helmholtz at an eigenvalue", name
    )


def wrong_flux(seed: int, rng: np.random.Generator) -> Case:
    """Poisson's equation whose total flux through the boundary is not that of its source."""
    domain = random_box(rng, int(rng.integers(1, 3)), False, may_repeat=0.0)
    exact, name = _solution(rng, domain)
    operator = lambda unknowns, at: laplacian(unknowns[0], domain)
    side = ("x", "upper")
    slope = outward_slope(domain, exact, side)
    wrong = Neumann(domain.face(*side), lambda **at: slope(**at) + 1.0)
    conditions = [wrong, *_slopes(domain, exact, leave_out=side)]
    return _inconsistent(seed, domain, operator, exact, conditions, "flux against source", name)


def two_values(seed: int, rng: np.random.Generator) -> Case:
    """An elliptic problem with two different values on the same face."""
    domain = random_box(rng, int(rng.integers(1, 3)), False, may_repeat=0.0)
    exact, name = _solution(rng, domain)
    operator = lambda unknowns, at: -laplacian(unknowns[0], domain) + unknowns[0]
    again = Dirichlet(domain.face("x", "lower"), lambda **at: exact(**at) + 0.5)
    conditions = [Dirichlet(domain.boundary, exact), again]
    return _inconsistent(seed, domain, operator, exact, conditions, "two values on a face", name)


def wrong_outflow(seed: int, rng: np.random.Generator) -> Case:
    """u' + u with values at both ends, of which one is enough."""
    domain = random_box(rng, 1, False, may_repeat=0.0)
    exact, name = _solution(rng, domain)
    operator = lambda unknowns, at: unknowns[0].x + unknowns[0]
    conditions = [
        Dirichlet(domain.face("x", "lower"), exact),
        Dirichlet(domain.face("x", "upper"), lambda **at: exact(**at) + 0.5),
    ]
    return _inconsistent(seed, domain, operator, exact, conditions, "a value at the outflow", name)


def wrong_data(seed: int, rng: np.random.Generator) -> Case:
    """An elliptic problem with data inside that belong to another solution."""
    domain = random_box(rng, 1, False, may_repeat=0.0)
    exact, name = _solution(rng, domain)
    operator = lambda unknowns, at: -unknowns[0].xx + unknowns[0]
    points = domain.from_reference(np.linspace(-0.5, 0.5, 9)[:, None])
    conditions = [
        Dirichlet(domain.boundary, exact),
        Data(points, lambda **at: exact(**at) + 0.5),
    ]
    return _inconsistent(seed, domain, operator, exact, conditions, "data against equation", name)


def backward_heat(seed: int, rng: np.random.Generator) -> Case:
    """Heat from its last state: rounding grows by exp(k^2 t) for every wave number k."""
    domain = random_box(rng, 1, True, may_repeat=0.0)
    exact, name = _solution(rng, domain)
    operator = lambda unknowns, at: unknowns[0].t - unknowns[0].xx
    conditions = [
        Dirichlet(domain.boundary, exact),
        Dirichlet(domain.face("t", "upper"), exact),
    ]
    return _case(
        seed, domain, operator, exact, conditions, "backward heat", name, expected="unstable"
    )


ILL_POSED = (
    no_initial_state,
    only_slopes,
    one_equation,
    wrong_flux,
    no_end,
    at_an_eigenvalue,
    no_face,
    periodic,
    pressure,
    two_values,
    three_of_four,
    wrong_outflow,
    heat_without_an_end,
    wrong_data,
    backward_heat,
)


# ---- What they share ----


def _solution(rng: np.random.Generator, domain: Box) -> tuple[Function, str]:
    shape = random_shape(rng, domain, 4, str(rng.choice(SHAPES)))
    return shape.function, shape.name


def _one(**at: Any) -> Any:
    return jnp.ones_like(at["x"])


def _mode(domain: Box, axis: str) -> tuple[Any, float]:
    """The lowest sine that is zero at both ends of an axis, and its wave number."""
    index = domain.names.index(axis)
    number, low = float(np.pi / domain.widths[index]), domain.lower[index]
    return lambda position: jnp.sin(number * (position - low)), number


def _slopes(domain: Box, exact: Function, leave_out: tuple[str, str] = ("", "")) -> list[Condition]:
    return [
        Neumann(domain.face(*side), outward_slope(domain, exact, side))
        for side in domain.boundary.sides
        if side != leave_out
    ]


def _undetermined(
    seed: int,
    domain: Box,
    operator: Operator,
    exact: Function,
    conditions: Sequence[Condition],
    more: Function,
    equation: str,
    solution: str,
    fields: tuple[str, ...] = ("u",),
) -> Case:
    """A problem to whose solution `more` may be added."""

    def other(**at: Any) -> Any:
        first, second = exact(**at), more(**at)
        if len(fields) == 1:
            return first + second
        return tuple(one + two for one, two in zip(first, second, strict=True))

    return _case(
        seed,
        domain,
        operator,
        exact,
        conditions,
        equation,
        solution,
        expected="undetermined",
        other=other,
        fields=fields,
    )


def _inconsistent(
    seed: int,
    domain: Box,
    operator: Operator,
    exact: Function,
    conditions: Sequence[Condition],
    equation: str,
    solution: str,
) -> Case:
    return _case(
        seed, domain, operator, exact, conditions, equation, solution, expected="inconsistent"
    )


def _case(
    seed: int,
    domain: Box,
    operator: Operator,
    exact: Function,
    conditions: Sequence[Condition],
    equation: str,
    solution: str,
    *,
    expected: str,
    other: Function | None = None,
    fields: tuple[str, ...] = ("u",),
) -> Case:
    problem = manufactured(domain, operator, exact, conditions, fields)
    words = words_of(problem)
    return Case(seed, problem, exact, equation, solution, words, expected, 0.1, other=other)
