"""Curves and surfaces on which an equation jumps or has a kink, wherever they lie.

`jnp.where(r < 0.5, 1.0, 10.0)` jumps where r - 0.5 is zero. Such differences are read off the
computation of the residual: what is compared, and what `abs`, `sign`, `minimum` and `maximum` turn
at, as far as it depends on the coordinates alone. They are smooth functions of the coordinates,
whose signs say on which side of the curve a point lies.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core as jax_core
from jaxtyping import Array, Float

from pann.domain import Box
from pann.pde.pointwise import held_anyhow, residuals_at
from pann.pde.problem import Problem

# A level set is looked for at so many random points, and examined at so many points of it.
NUM_SAMPLES, NUM_EXAMINED = 2**13, 64
HALVINGS = 60
# Steps off a level set, relative to the widths of the domain.
STEP = 1e-4
# What differs by more than this, relative to the largest values, jumps; slopes have a kink.
JUMP, KINK = 1e-6, 1e-2
# On this share of a level set it has to jump, or the set is left alone.
MOST = 0.1
# A level set is a plane across an axis if its gradient points along it but for this.
ALONG = 1e-6
MAX_LEVELS = 8

Values = Callable[[Float[np.ndarray, "points d"]], Float[np.ndarray, " points"]]

COMPARISONS = ("lt", "le", "gt", "ge", "max", "min")
TURNS = ("abs", "sign")


@dataclasses.dataclass(frozen=True)
class JumpCurves:
    """Functions whose signs divide the domain; `planes` has the cuts that lie across axes."""

    functions: tuple[Values, ...]
    planes: tuple[tuple[int, float], ...]


def jump_curves(problem: Problem, domain: Box) -> JumpCurves:
    """Where the residual jumps, or has a kink, as a function of the coordinates."""
    problem = problem.traced()
    every = _every_level(problem)
    if every is None:
        return JumpCurves((), ())
    size = NUM_SAMPLES, domain.dimension
    points = np.random.default_rng(11).uniform(domain.lower, domain.upper, size)
    values = every(points)
    functions: list[Values] = []
    signs: list[np.ndarray] = []
    planes: dict[tuple[int, float], None] = {}
    numbers = held_anyhow(problem)
    residual = lambda points: residuals_at(problem, points, numbers)
    for number, own in enumerate(values):
        if not np.all(np.isfinite(own)) or np.all(own >= 0) or np.all(own <= 0):
            continue
        sign = np.sign(own)
        if any(np.array_equal(sign, each) or np.array_equal(sign, -each) for each in signs):
            continue
        level = _one(every, number)
        on, slopes = _points_on(level, points, own, domain)
        if not len(on) or not _is_rough(residual, on, slopes, domain):
            continue
        signs.append(sign)
        if crossed := _planes(on, slopes, domain):
            planes.update(dict.fromkeys(crossed))
        else:
            functions.append(level)
    if len(functions) > MAX_LEVELS:
        functions = []
    return JumpCurves(tuple(functions), tuple(planes))


def _one(every: Callable[[np.ndarray], np.ndarray], number: int) -> Values:
    return lambda points: every(points)[number]


def _every_level(problem: Problem) -> Callable[[np.ndarray], np.ndarray] | None:
    """All level functions at points, a row for each; None if there are none."""
    asked = problem.asked
    dimension = problem.domain.dimension

    def run(points: Array, channels: Sequence[Array]) -> tuple[Any, ...]:
        return problem.evaluate_at(points, dict(zip(asked.channels, channels, strict=True)))

    def levels(points: Array) -> list[Array]:
        count = points.shape[0]
        channels = [jax.ShapeDtypeStruct((count,), float)] * len(asked.channels)
        closed = jax.make_jaxpr(run)(jax.ShapeDtypeStruct(points.shape, float), channels)
        found: list[Array] = []
        known = [points, *[None] * len(channels)]
        _walk(closed.jaxpr, closed.consts, known, found)
        return [each for each in found if each.shape == (count,)]

    with jax.enable_x64(True):
        if not jax.eval_shape(levels, jax.ShapeDtypeStruct((NUM_EXAMINED, dimension), float)):
            return None
        compiled = jax.jit(levels)

    def evaluate(points: Float[np.ndarray, "points d"]) -> Float[np.ndarray, "levels points"]:
        count = len(points)
        # One program for few points, one for many.
        size = NUM_EXAMINED if count <= NUM_EXAMINED else NUM_SAMPLES
        padded = np.pad(points, ((0, -count % size), (0, 0)), mode="edge")
        with jax.enable_x64(True):
            parts = [
                np.stack([np.asarray(each) for each in compiled(part)])
                for part in np.split(padded, len(padded) // size)
            ]
        return np.concatenate(parts, axis=1)[:, :count]

    return evaluate


def _walk(jaxpr: Any, consts: Sequence[Any], known: Sequence[Any], found: list[Array]) -> list[Any]:
    """The results of a computation, None where they depend on fields; its levels go to `found`."""
    values: dict[Any, Any] = dict(zip(jaxpr.constvars, consts, strict=True))
    values |= dict(zip(jaxpr.invars, known, strict=True))
    read = lambda atom: atom.val if isinstance(atom, jax_core.Literal) else values[atom]
    for step in jaxpr.eqns:
        inputs = [read(atom) for atom in step.invars]
        if any(value is None for value in inputs) and _inner(step) is None:
            values.update(dict.fromkeys(step.outvars))
            continue
        inner = _inner(step)
        if inner is not None:
            outputs = _walk(inner.jaxpr, inner.consts, inputs, found)
        else:
            name = step.primitive.name
            if name in COMPARISONS and jnp.issubdtype(jnp.result_type(inputs[0]), jnp.floating):
                found.append(jnp.subtract(*inputs))
            elif name in TURNS and jnp.issubdtype(jnp.result_type(inputs[0]), jnp.floating):
                found.append(jnp.asarray(inputs[0]))
            result = step.primitive.bind(*inputs, **step.params)
            outputs = list(result) if step.primitive.multiple_results else [result]
        values.update(zip(step.outvars, outputs, strict=True))
    return [read(atom) for atom in jaxpr.outvars]


def _inner(step: Any) -> Any:
    """The computation that a step consists of, as for functions that are compiled themselves."""
    if step.primitive.name not in ("pjit", "jit", "closed_call", "custom_jvp_call", "remat"):
        return None
    inner = step.params.get("jaxpr") or step.params.get("call_jaxpr")
    return inner if isinstance(inner, jax_core.ClosedJaxpr) else None


def _points_on(
    level: Values, points: np.ndarray, values: np.ndarray, domain: Box
) -> tuple[Float[np.ndarray, "on d"], Float[np.ndarray, "on d"]]:
    """Points of a level set between samples on either side, and unit normals in widths."""
    rng = np.random.default_rng(13)
    below, above = (rng.permutation(np.flatnonzero(side)) for side in (values < 0, values > 0))
    low = points[np.resize(below, NUM_EXAMINED)]
    high = points[np.resize(above, NUM_EXAMINED)]
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        is_low = (level(middle) < 0)[:, None]
        low, high = np.where(is_low, middle, low), np.where(is_low, high, middle)
    on = 0.5 * (low + high)
    widths = np.asarray(domain.widths)
    slopes = np.stack(
        [
            level(on + STEP * widths * unit) - level(on - STEP * widths * unit)
            for unit in np.eye(domain.dimension)
        ],
        axis=1,
    )
    lengths = np.linalg.norm(slopes, axis=1)
    # A level that jumps itself has no normal, and says nothing of sides.
    jump = np.abs(level(high) - level(low))
    kept = (lengths > 0) & np.isfinite(lengths) & (jump <= JUMP * np.max(np.abs(values)))
    return on[kept], slopes[kept] / lengths[kept, None]


def _is_rough(
    residual: Callable[[np.ndarray], np.ndarray], on: np.ndarray, slopes: np.ndarray, domain: Box
) -> bool:
    """Whether the residual jumps, or its slope does, on a good part of a level set."""
    step = STEP * slopes * np.asarray(domain.widths)
    at = np.stack([residual(on + times * step) for times in (-2, -1, 1, 2)])
    size = np.max(np.abs(at), initial=0.0)
    before, after = 2 * at[1] - at[0], 2 * at[2] - at[3]
    kink = np.abs((at[3] - at[2]) - (at[1] - at[0])) / STEP
    is_rough = np.any((np.abs(after - before) > JUMP * size) | (kink > KINK * size), axis=1)
    return bool(np.mean(is_rough) > MOST)


def _planes(on: np.ndarray, slopes: np.ndarray, domain: Box) -> list[tuple[int, float]]:
    """The planes across axes that a level set consists of, none if it has other parts."""
    axes = np.argmax(np.abs(slopes), axis=1)
    others = np.abs(slopes).copy()
    others[np.arange(len(on)), axes] = 0.0
    if np.any(others > ALONG):
        return []
    widths = np.asarray(domain.widths)
    found: list[tuple[int, float]] = []
    for axis, at in zip(axes, on[np.arange(len(on)), axes], strict=True):
        near = [k for k, place in found if k == axis and abs(place - at) <= 1e-9 * widths[axis]]
        if not near:
            found.append((int(axis), float(at)))
    return found
