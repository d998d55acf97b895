"""Polynomials alone, the network alone and both: error and seconds under one time limit.

Polynomials alone are `pann.Polynomial()`, whose degree is raised as long as there is time, and
`pann.Elements()`, polynomials in boxes; the network alone has a constant beside it; both are
`pann.Hybrid()`; the default is `pann.solve(problem)`, which chooses among these. All problems of
`pann.problems` without time, and sharp ones: `ratio` is the error of both over the smaller one of
the polynomial and the network, `to elements` over that of polynomials in boxes, `to all` over the
smallest of all three, `default to all` that of the default. Errors below 1e-11 are rounding.
Seconds are those of a process that has compiled nothing before.
"""

import multiprocessing
import time
from collections.abc import Callable, Collection, Iterator
from typing import Any

import jax.numpy as jnp
import numpy as np

import pann
from benchmarks.harness import Row
from pann import Box, Dirichlet, Problem, problems

SECONDS = 30.0
# What has not ended so long after its time limit is ended.
GRACE = 60.0
ROUNDING = 1e-11
SQUARE = Box(x=(-1, 1), y=(-1, 1))


# ---- Sharp problems ----


def thin_layer() -> Problem:
    """0.001 u_xx - u = f, u = tanh(60 (x - 0.3)) + sin(3 x)."""
    return Problem.manufactured(
        Box(x=(-1, 1)),
        lambda u: 1e-3 * u.xx - u.value,
        lambda x: jnp.tanh(60 * (x - 0.3)) + jnp.sin(3 * x),
    )


def oblique_layer() -> Problem:
    """0.0009 lap u + u - u^3 = 0 between two phases, the layer held by the boundary."""
    thickness = 0.03
    exact = lambda x, y: jnp.tanh((0.8 * x + 0.6 * y - 0.1) / (np.sqrt(2) * thickness))
    return Problem(
        SQUARE,
        lambda u: thickness**2 * u.laplacian + u - u**3,
        [Dirichlet(SQUARE.boundary, exact)],
        exact,
    )


def oblique_shock(viscosity: float = 0.02) -> Problem:
    """(u - 0.2) (u_x + u_y) = 0.02 lap u, a shock at an angle."""
    exact = lambda x, y: 0.2 - jnp.tanh((x + y - 0.1) / (2 * viscosity))
    return Problem(
        SQUARE,
        lambda u: (u.value - 0.2) * (u.x + u.y) - viscosity * u.laplacian,
        [Dirichlet(SQUARE.boundary, exact)],
        exact,
    )


def poisson(exact: Callable[..., Any], domain: Box = SQUARE) -> Callable[[], Problem]:
    """lap u = f with a known u."""
    return lambda: Problem.manufactured(domain, lambda u: u.laplacian, exact)


def wave_front(steepness: float, center: tuple[float, float], radius: float) -> Callable:
    """atan(a (r - r0)), problem 12 of NISTIR 7668."""
    return poisson(
        lambda x, y: jnp.arctan(
            steepness * (jnp.sqrt((x - center[0]) ** 2 + (y - center[1]) ** 2) - radius)
        ),
        Box(x=(0, 1), y=(0, 1)),
    )


def advected_front() -> Problem:
    """-0.01 lap u + u_x + u_y / 2 = f with a front along a parabola."""
    return Problem.manufactured(
        SQUARE,
        lambda u: -1e-2 * u.laplacian + u.x + 0.5 * u.y,
        lambda x, y: jnp.tanh(50 * (x - 0.4 * y**2 + 0.1)) * (1 + 0.3 * y) + jnp.cos(2 * y),
    )


SHARP: dict[str, Callable[[], Problem]] = {
    "thin layer": thin_layer,
    "oblique layer": oblique_layer,
    "oblique shock": oblique_shock,
    "oblique front": poisson(
        lambda x, y: jnp.tanh(60 * (x + y / 2 - 0.2)) + 0.3 * jnp.sin(2 * x * y)
    ),
    "crossing fronts": poisson(
        lambda x, y: (
            jnp.tanh(40 * (x + y / 2 - 0.2)) + jnp.tanh(50 * (x / 3 - y + 0.1)) + jnp.cos(x + 2 * y)
        )
    ),
    "circular front": poisson(lambda x, y: jnp.tanh(50 * (jnp.sqrt(x**2 + y**2 + 1e-300) - 0.5))),
    "front along a sine": poisson(
        lambda x, y: jnp.tanh(40 * (y - 0.4 * jnp.sin(2 * x))) * (1 + 0.5 * x) + jnp.sin(x * y)
    ),
    "front along a parabola": poisson(
        lambda x, y: jnp.tanh(40 * (y - 0.6 * x**2 + 0.2)) * jnp.exp(0.5 * x) + jnp.cos(x + y)
    ),
    "advected front": advected_front,
    "wave front mild": wave_front(20, (-0.05, -0.05), 0.7),
    "wave front well": wave_front(50, (0.5, 0.5), 0.25),
}
WITHOUT_TIME = {
    name: make for name, make in problems.PROBLEMS.items() if make().domain.time is None
}
CASES: dict[str, Callable[[], Problem]] = SHARP | WITHOUT_TIME
METHODS: dict[str, Any] = {
    "polynomial": pann.Polynomial(),
    "elements": pann.Elements(),
    "network": pann.Hybrid(degree=0, network=pann.MLP(width=24)),
    "both": pann.Hybrid(),
    "default": None,
}
KEYS = ("problem",)


def names() -> list[str]:
    """Of all rows, for `--resume`."""
    return list(CASES)


def rows(only: Collection[str] = ()) -> Iterator[Row]:
    """All rows, or those of the problems named."""
    for name in CASES:
        if not only or name in only:
            yield _row(name)


def _row(name: str) -> Row:
    found = {method: _solved(name, method) for method in METHODS}
    error = {method: each.get("error", float("nan")) for method, each in found.items()}
    floor = lambda value: max(value, ROUNDING)
    better = np.nanmin([error[method] for method in ("polynomial", "elements", "network")])
    row: dict[str, object] = {"problem": name, "limit": SECONDS}
    for method, each in found.items():
        row[method] = error[method]
        row[f"{method} seconds"] = each["seconds"]
    halves = np.nanmin([error["polynomial"], error["network"]])
    row["ratio"] = float(floor(error["both"]) / floor(halves))
    row["to elements"] = float(floor(error["both"]) / floor(error["elements"]))
    row["to all"] = float(floor(error["both"]) / floor(better))
    row["default to all"] = float(floor(error["default"]) / floor(better))
    return {
        **row,
        "how": found["both"].get("how", ""),
        "default how": found["default"].get("how", ""),
    }


def _solved(name: str, method: str) -> dict[str, Any]:
    """Error and seconds, in a process of its own."""
    context = multiprocessing.get_context("spawn")
    connection, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs, name, method), daemon=True)
    process.start()
    theirs.close()
    try:
        if not connection.poll(SECONDS + GRACE):
            return {"seconds": SECONDS + GRACE}
        return connection.recv()
    except EOFError:
        return {"seconds": float("nan")}
    finally:
        process.kill()
        process.join()


def _serve(connection: Any, name: str, method: str) -> None:
    problem = CASES[name]()
    begin = time.perf_counter()
    try:
        solution = pann.solve(problem, METHODS[method], time_limit=SECONDS, progress=False)
    except ValueError as error:
        connection.send({"seconds": time.perf_counter() - begin, "how": str(error)})
        return
    seconds = time.perf_counter() - begin
    how = solution.report.how
    connection.send({"error": solution.rel_l2, "seconds": seconds, "how": how})
