"""How good a solution is: the residual at points not trained on, and the error where known."""

import functools
from collections.abc import Mapping, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from pann.basis import Basis
from pann.model.pann import PANN, Parameters
from pann.network.jets import in_terms
from pann.pde.collocation import Block, Placed, make_block
from pann.pde.evaluation import evaluate_solution
from pann.pde.hard_conditions import Ansatz, in_terms_of_u
from pann.pde.interfaces import piece_numbers
from pann.pde.problem import Problem
from pann.points import uniform
from pann.regression.fit import relative_l2
from pann.solvers.levenberg import backgrounds
from pann.solvers.newton import Unknowns, channels_of
from pann.training.task import Watch

NUM_TEST = 100_000
NUM_WATCHED = 2_000


def polynomial_indicator(
    fresh: Placed,
    conditions: Sequence[Block],
    unknowns: Unknowns,
    model: PANN,
    problem: Problem,
    ansatz: Ansatz | None = None,
) -> float:
    """`indicator` of a polynomial by itself, which needs no tables at the fresh points."""
    zero = (0,) * model.domain.dimension
    orders = (zero, *in_terms(fresh.orders))
    values = model.basis.evaluate_each(fresh.points, np.asarray(unknowns.b), orders)
    v, channels = values[0], values[1:]
    u = v if ansatz is None else ansatz.combine(fresh.points, zero, {zero: v})
    sizes = _root_mean_squares(u)
    of_equation = _residual_of_channels(problem, model, fresh, channels, sizes, unknowns.parameters)
    of_others = [
        relative_residual(block, unknowns, model, None, sizes) for block in without_data(conditions)
    ]
    return max([of_equation, *of_others])


def indicator(
    fresh: Block,
    conditions: Sequence[Block],
    unknowns: Unknowns,
    model: PANN,
    ansatz: Ansatz | None = None,
) -> float:
    """The largest relative residual: of the equation at fresh points, of each condition at its own.

    Data may be noisy, and tell nothing of how well the equation is solved.
    """
    blocks = [fresh, *without_data(conditions)]
    own = backgrounds(tuple(blocks), model.parameters, model.domain)
    sizes = field_sizes(model, ansatz, np.asarray(fresh.coordinates))
    residuals = [
        relative_residual(block, unknowns, model, background, sizes)
        for block, background in zip(blocks, own, strict=True)
    ]
    return max(residuals)


def without_data(blocks: Sequence[Block]) -> list[Block]:
    return [block for block in blocks if not block.name.startswith("data")]


def field_sizes(
    model: PANN, ansatz: Ansatz | None, points: Float[np.ndarray, "points d"]
) -> Float[np.ndarray, " fields"]:
    """The fields' root mean squares."""
    return _root_mean_squares(evaluate_solution(model, ansatz, points))


def _root_mean_squares(
    values: Float[np.ndarray, "points fields"],
) -> Float[np.ndarray, " fields"]:
    return np.sqrt(np.mean(values**2, axis=0))


def residual_of(
    problem: Problem, model: PANN, placed: Placed, sizes: Float[np.ndarray, " fields"]
) -> float:
    """`relative_residual` of a model without a network, its channels summed without tables."""
    b, orders = np.asarray(model.parameters.b), in_terms(placed.orders)
    channels = model.basis.evaluate_each(placed.points, b, orders)
    if placed.minus is not None:
        upper, lower = placed.pair_factors
        channels = upper * channels - lower * model.basis.evaluate_each(placed.minus, b, orders)
    return _residual_of_channels(problem, model, placed, channels, sizes, {})


def _residual_of_channels(
    problem: Problem,
    model: PANN,
    placed: Placed,
    channels: Float[np.ndarray, "orders points fields"],
    sizes: Float[np.ndarray, " fields"],
    parameters: Mapping[str, float | Array],
) -> float:
    """`relative_residual` by a basis without terms, which leaves the channels to the background."""
    squares, totals = squares_of_channels(problem, model, placed, channels, sizes, parameters)
    return worst_piece(model.basis, placed.points, squares, totals)


def squares_of_channels(
    problem: Problem,
    model: PANN,
    placed: Placed,
    channels: Float[np.ndarray, "orders points fields"],
    sizes: Float[np.ndarray, " fields"],
    parameters: Mapping[str, float | Array],
) -> tuple[Float[np.ndarray, " points"], Float[np.ndarray, " points"]]:
    """The square of the residual at each point, and of the terms that it consists of."""
    block = make_block(placed, problem, model.basis.subset([]), "float64")
    no_terms, background = jax.device_put((np.zeros((0, len(problem.fields))), channels))
    known = {name: jnp.asarray(value) for name, value in parameters.items()}
    widths = tuple(model.domain.widths.tolist())
    squares, totals = _squares(block, Unknowns(no_terms, known), background, sizes, widths)
    # A block counts each of its points by the root of their number.
    return len(placed.points) * np.asarray(squares), len(placed.points) * np.asarray(totals)


def relative_residual(
    block: Block,
    unknowns: Unknowns,
    model: PANN,
    background: Array | None,
    sizes: Float[np.ndarray, " fields"],
) -> float:
    """The residual's root mean square over the size of the equation's terms, at the block's points.

    On the worst piece, where the basis has several: a large coefficient on one would hide others.
    A derivative counts at least as much as u over the widths of the domain: where all terms vanish,
    as for a linear solution of Laplace's equation, only rounding would be left to compare with.
    `sizes` are the root mean squares of the fields.
    """
    widths = tuple(model.domain.widths.tolist())
    found = _squares(block, unknowns, background, sizes, widths)
    return worst_piece(model.basis, np.asarray(block.coordinates), *map(np.asarray, found))


def worst_piece(
    basis: Basis,
    points: Float[np.ndarray, "points d"],
    squares: Float[np.ndarray, " points"],
    totals: Float[np.ndarray, " points"],
) -> float:
    """The root of the ratio of two sums of squares, on the piece where it is largest."""
    pieces = piece_numbers(basis, points)
    own, all_terms = np.bincount(pieces, squares), np.bincount(pieces, totals)
    return float(np.sqrt(np.max(own / np.where(all_terms > 0, all_terms, 1.0))))


@functools.partial(jax.jit, static_argnames="widths")
def _squares(
    block: Block,
    unknowns: Unknowns,
    background: Array | None,
    sizes: Float[Array | np.ndarray, " fields"],
    widths: tuple[float, ...],
) -> tuple[Float[Array, " points"], Float[Array, " points"]]:
    """The square of the residual at each point, and of all terms that it consists of."""
    channels = channels_of(block, unknowns.b.astype(block.x.dtype), background)
    block, channels = in_terms_of_u(block, channels)
    parameters = {name: value.astype(block.x.dtype) for name, value in unknowns.parameters.items()}
    residual, slopes = block.linearize(channels, parameters)
    zero = block.residual(jnp.zeros_like(channels), parameters)
    scales = [np.prod((2 / np.asarray(widths)) ** np.asarray(order)) for order in block.orders]
    floor = (np.asarray(scales)[:, None] * sizes)[:, None, :]
    terms = jnp.einsum("opf,ofpr->ofpr", jnp.maximum(jnp.abs(channels), floor), slopes)
    return (
        jnp.sum(residual**2, axis=1),
        jnp.sum(terms**2, axis=(0, 1, 3)) + jnp.sum(zero**2, axis=1),
    )


def relative_errors(
    problem: Problem, model: PANN, ansatz: Ansatz | None = None
) -> tuple[float | None, dict[str, float]]:
    """The relative l2 error of all fields, and of each, at 100,000 random points, if known."""
    if problem.exact is None:
        return None, {}
    points = uniform(problem.domain, NUM_TEST, seed=1).coordinates
    found, true = evaluate_solution(model, ansatz, points), problem.exact_at(points).T
    return relative_l2(found, true), {
        name: relative_l2(found[:, number], true[:, number])
        for number, name in enumerate(problem.fields)
    }


def relative_error(problem: Problem, model: PANN, ansatz: Ansatz | None = None) -> float | None:
    """The relative l2 error of all fields at 100,000 random points, if the solution is known."""
    return relative_errors(problem, model, ansatz)[0]


def error_under_way(problem: Problem, basis: Basis, ansatz: Ansatz | None, precision: str) -> Watch:
    """The relative l2 error of each trial at some random points, nothing if it is not known."""
    if problem.exact is None:
        return lambda trials: {}
    points = uniform(problem.domain, NUM_WATCHED, seed=1).coordinates
    zero = (0,) * problem.domain.dimension
    lift, bump = (
        (0.0, 1.0) if ansatz is None else (ansatz.lift(points, zero), ansatz.bump(points, zero))
    )
    arrays = (
        problem.domain.to_reference(points),
        basis.table(points),
        lift,
        bump,
        problem.exact_at(points).T,
    )
    watched = tuple(jnp.asarray(array, precision) for array in arrays)
    return lambda trials: {"error": _errors(trials, *watched)}


@eqx.filter_jit
def _errors(
    trials: Parameters, x: Array, table: Array, lift: Array, bump: Array, true: Array
) -> Float[Array, " trials"]:
    def one(parameters: Parameters) -> Float[Array, ""]:
        u = lift + bump * parameters.output(x, table)
        return jnp.linalg.norm(u - true) / jnp.linalg.norm(true)

    return jax.vmap(one)(trials)
