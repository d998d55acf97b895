"""Whether equation and conditions determine a solution, by the function that they hardly see.

Gauss-Newton finds the function of unit norm that changes the residuals least. If it changes them
by rounding alone, it can be added to any solution: a constant is then chosen (mean zero) and noted,
anything else is refused with a hint at what is missing.
"""

import dataclasses
import functools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from pann.basis import ShapeBasis, WholeBasis, orthonormal_scales
from pann.domain import SIDES, Faces
from pann.pde.conditions import Break, Initial, Neumann, OnBoundary, Periodic
from pann.pde.problem import Problem
from pann.shapes import Boundary
from pann.solvers.newton import NEXT_TO_NOTHING, Unknowns, Weakest

# A message names at most so many terms of a free function.
MOST_TERMS = 3
CURE = "add pann.Integral(...), or a value by pann.Data, to choose another"


def function_norms(basis: WholeBasis, num_fields: int) -> Float[np.ndarray, " columns"]:
    """The root mean square of each term over the domain, for the columns of all fields."""
    return np.tile(1 / orthonormal_scales(basis), num_fields)


def constant_in_space(basis: WholeBasis) -> Bool[np.ndarray, " terms"]:
    """Which terms depend on time at most."""
    if isinstance(basis, ShapeBasis):
        return basis.is_constant
    in_space = [axis for axis, name in enumerate(basis.axes) if name != basis.domain.time]
    return np.all(basis.indices[:, in_space] == 0, axis=1)


@dataclasses.dataclass(frozen=True)
class Free:
    """Functions that can be added to a solution: `note` if one of them is chosen, else `refusal`.

    The solution of smallest mean square is chosen, so that a free constant makes the mean zero.
    """

    note: str | None = None
    refusal: str | None = None


def free_part(problem: Problem, basis: WholeBasis, weakest: Weakest) -> Free | None:
    """What equation and conditions do not determine, None if they determine everything."""
    if not weakest.is_free:
        return None
    squares = weakest.direction**2 / np.sum(weakest.direction**2)
    count = len(squares) - len(problem.parameters)
    if np.sum(squares[count:]) > NEXT_TO_NOTHING:
        names = [name for name, own in zip(problem.parameters, squares[count:], strict=True) if own]
        return Free(
            refusal=f"the conditions do not determine {', '.join(names)}: other values go with "
            "other solutions; add pann.Data(points, values), or another condition"
        )
    squares = squares[:count].reshape(len(problem.fields), -1)
    of_fields = np.sum(squares, axis=1) > NEXT_TO_NOTHING
    names = [name for name, is_free in zip(problem.fields, of_fields, strict=True) if is_free]
    shown = " and ".join(names)
    is_constant = np.asarray(basis.degrees) == 0
    if np.sum(squares[:, ~is_constant]) <= NEXT_TO_NOTHING:
        return Free(constants_are_free(names))
    if np.sum(squares[:, ~constant_in_space(basis)]) <= NEXT_TO_NOTHING:
        return Free(
            f"{shown} is determined up to a function of {problem.domain.time}; the solution with "
            f"mean zero over space at all times is taken: {CURE}"
        )
    field = int(np.argmax(np.sum(squares, axis=1)))
    return Free(
        refusal=f"the conditions do not determine {shown}: {_named(basis, squares[field])} can be "
        f"added to a solution without any change; {_missing(problem, field)}"
    )


def constants_are_free(names: Sequence[str]) -> str:
    """What is said where a constant can be added to some fields."""
    return (
        f"{' and '.join(names)} is determined up to a constant, and only if sources and fluxes "
        f"balance; the solution with mean zero is taken: {CURE}"
    )


def without_values(problem: Problem) -> list[str]:
    """The fields of which equation and conditions see derivatives alone: constants are free."""
    names = []
    for number, name in enumerate(problem.fields):
        has_value = (number, (0,) * problem.domain.dimension) in problem.asked.channels
        own = problem.of_field(number)
        if not has_value and all(isinstance(each, Neumann | Periodic | Break) for each in own):
            names.append(name)
    return names


def without_free_part(
    unknowns: Unknowns, weakest: Weakest, norms: Float[np.ndarray, " columns"]
) -> Unknowns:
    """The unknowns of smallest mean square among those that differ by the free direction."""
    count, num_fields = unknowns.b.size, unknowns.b.shape[1]
    size = norms[:count].reshape(num_fields, -1).T
    direction = weakest.direction[:count].reshape(num_fields, -1).T
    b = np.asarray(unknowns.b)
    b = b - np.sum(b * size * direction) * direction / size
    return Unknowns(jnp.asarray(b, unknowns.b.dtype), unknowns.parameters)


# Found once for a problem with its trace, which does not change.
@functools.lru_cache(maxsize=32)
def is_linear(problem: Problem) -> bool:
    """Whether the residual is affine in the fields: N(2v + 3w) + 4 N(0) = 2 N(v) + 3 N(w).

    Random v and w show it.
    """
    if problem.parameters:
        return False
    channels, rng = problem.asked.channels, np.random.default_rng(2)
    v, w = (dict(zip(channels, rng.normal(size=len(channels)), strict=True)) for _ in range(2))
    domain = problem.domain
    points = domain.filled(lambda count: rng.random((count, domain.dimension)), 8)

    @jax.jit
    def computed(of_v: jax.Array, of_w: jax.Array) -> jax.Array:
        mixed = {channel: of_v * v[channel] + of_w * w[channel] for channel in channels}
        parts = problem.evaluate_at(jnp.asarray(points), mixed)
        return jnp.stack([jnp.broadcast_to(part, len(points)) for part in parts])

    def residual(of_v: float, of_w: float) -> np.ndarray:
        return np.asarray(computed(np.float64(of_v), np.float64(of_w)))

    with jax.enable_x64(True):
        linear = 2 * residual(1.0, 0.0) + 3 * residual(0.0, 1.0) - 4 * residual(0.0, 0.0)
        difference = np.max(np.abs(residual(2.0, 3.0) - linear))
        return bool(difference <= 1e-9 * np.max(np.abs(residual(1.0, 1.0))))


def _named(basis: WholeBasis, squares: Float[np.ndarray, " terms"]) -> str:
    """The largest terms of a function, with dots where there are more."""
    names, order = basis.term_names(), np.argsort(squares)[::-1]
    largest = [names[term] for term in order[:MOST_TERMS]]
    is_all = np.sum(squares[order[MOST_TERMS:]]) <= NEXT_TO_NOTHING * np.sum(squares)
    return f"a combination of {', '.join(largest)}" + ("" if is_all else ", ...")


def _missing(problem: Problem, field: int) -> str:
    """What a user may have forgotten."""
    name, domain, own = problem.fields[field], problem.domain, problem.of_field(field)
    if domain.time is not None and not any(isinstance(each, Initial) for each in own):
        return f"there is no initial state of {name}: add pann.Initial(...)"
    faces = [each.faces for each in own if isinstance(each, OnBoundary)]
    if domain.shape is not None:
        parts = {part for each in faces if isinstance(each, Boundary) for part in each.names}
        if free := [part for part in domain.boundary.names if part not in parts]:
            return f"there is no condition for {name} on {', '.join(free)}: add one"
    held = {side for each in faces if isinstance(each, Faces) for side in each.sides}
    bare = [
        f"{axis} = {bound:g}"
        for axis, low, high in zip(domain.names, domain.lower, domain.upper, strict=True)
        if axis not in domain.periodic and axis != domain.time and domain.shape is None
        for side, bound in zip(SIDES, (low, high), strict=True)
        if (axis, side) not in held
    ]
    if bare:
        return f"there is no condition for {name} at {', '.join(bare)}: add one"
    return f"add a condition for {name}, or check whether the equation is the one that is meant"
