"""Eigenvalues and eigenfunctions of linear problems, A u + lambda B u = 0 with conditions.

With a shift sigma, near to which eigenvalues are looked for, an eigenfunction solves

    (A + sigma B) u = -(lambda - sigma) B u.

M are the rows of the left side and of the conditions, as those of any linear equation. With M = Q R
and coordinates z = R c, in which the sum of squares of the rows is |z|^2, this is

    T z = z / (lambda - sigma),    T = -Q^T B R^-1,

the solution operator and then the projection that least squares are. In the norm of the rows this
operator is compact and the projection tends to the identity, so that T converges in norm: the
eigenvalues nearest to sigma converge, and no others come between them (Osborn, 1975).
"""

import dataclasses
import functools
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg
from jaxtyping import Complex, Float, Inexact

from pann.basis import WholeBasis, make_basis
from pann.network.jets import in_terms
from pann.numerics.least_squares import orthonormalize
from pann.pde.checks import checked
from pann.pde.collocation import Block, make_block
from pann.pde.conditions import Condition, Dirichlet
from pann.pde.interfaces import with_breaks
from pann.pde.operators import Equation
from pann.pde.placing import OnFaces, place_conditions
from pann.pde.problem import Problem
from pann.solvers.assessment import RESOLVED
from pann.solvers.polynomial import polynomial_model
from pann.solvers.setup import Setup, blas_threads
from pann.solvers.shapes import basis_of_eigenfunctions
from pann.solvers.solution import Report, Solution

# Degrees by dimension, and in more of them; those with more coefficients are left out.
LADDERS = {
    1: (16, 32, 64, 128, 256, 512),
    2: (10, 14, 18, 24, 32, 42, 54),
    3: (5, 7, 9, 12, 15),
}
HIGH_DIMENSIONAL = (3, 5, 7)
MOST_COLUMNS = 1_600
# Fewer functions than so many times the eigenvalues asked for do not hold them.
COLUMNS_PER_VALUE = 4
# The guess may be an eigenvalue: the shift lies so far from it, on the scale of A over B.
OFFSET = 1e-3
# What is no nearer to satisfying the equation than this is no eigenfunction.
SPURIOUS = 0.1
# Relative to an eigenvalue: imaginary parts, and differences between equal ones, by rounding.
ROUNDING = 1e-8
# Relative to the mean of all of them, below which an eigenvalue counts as zero.
ZERO = 1e-2
LINEAR = 1e-9
POINTS_ON_FACES = 100

Slopes = Float[np.ndarray, "orders fields points residuals"]


@dataclasses.dataclass(frozen=True)
class Eigenpairs:
    """Eigenvalues, those nearest to the first guess first, and their eigenfunctions.

    `residuals` are relative, of the equation or of a condition if that is larger, at points used
    for nothing else; `estimates` are the changes of the values from a lower degree. Functions have
    mean square one; those of a complex pair are its real and its imaginary part. `resolved` says
    whether all estimates are below `tolerance`, relative to the values, and all residuals small.
    """

    values: Inexact[np.ndarray, " pairs"]
    residuals: Float[np.ndarray, " pairs"]
    estimates: Float[np.ndarray, " pairs"]
    functions: tuple[Solution, ...]
    resolved: bool
    tolerance: float
    degree: int
    seconds: float
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.values)

    def __str__(self) -> str:
        outcome = "resolved" if self.resolved else "NOT RESOLVED"
        lines = [
            f"{outcome} to {self.tolerance:g}: {len(self)} eigenvalues at degree {self.degree} "
            f"({self.seconds:.1f} s)",
            f"{'':4}{'eigenvalue':>26}{'estimate':>12}{'residual':>12}",
        ]
        columns = zip(self.values.tolist(), self.estimates, self.residuals, strict=True)
        for number, (value, estimate, residual) in enumerate(columns):
            is_real = isinstance(value, float) or value.imag == 0
            shown = f"{value.real:.14g}" if is_real else f"{value:.10g}"
            lines.append(f"{number + 1:<4}{shown:>26}{estimate:>12.1e}{residual:>12.1e}")
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes)])


def eigen(
    problem: Problem, number: int = 10, *, tolerance: float = 1e-9, seed: int = 0
) -> Eigenpairs:
    """The eigenvalues nearest to the first guess of the parameter, and their eigenfunctions.

    Parameters
    ----------
    problem
        Its residual is linear in the fields and in its one parameter, the eigenvalue; conditions
        are homogeneous: `pann.Problem(disk, lambda u, lam: u.laplacian + lam * u.value,
        [pann.Dirichlet(disk.boundary)], parameters={"lam": 0.0})`.
    number
        How many.
    tolerance
        Degrees are raised until the values change by less than this, relative to themselves.
    seed
        For all random choices.
    """
    begin = time.perf_counter()
    problem = checked(problem)
    name = _eigenvalue_of(problem, number)
    with (
        jax.enable_x64(True),
        jax.default_matmul_precision("highest"),
        blas_threads(problem.domain),
    ):
        setup, ladder = _prepared(problem, name, number, seed)
        found = _pairs(setup, next(ladder), name, number)
        estimates, resolved = np.full(len(found.values), np.inf), False
        for basis in ladder:
            before, found = found, _pairs(setup, basis, name, number)
            estimates = _estimates(before, found)
            resolved = _is_resolved(found, estimates, tolerance)
            if resolved:
                break
    seconds = time.perf_counter() - begin
    numbers = range(len(found.values))
    functions = tuple(_function(setup.problem, name, found, k, seconds) for k in numbers)
    is_real = not np.any(found.values.imag)
    return Eigenpairs(
        values=found.values.real if is_real else found.values,
        residuals=found.residuals,
        estimates=estimates,
        functions=functions,
        resolved=resolved,
        tolerance=tolerance,
        degree=int(np.max(found.basis.degrees)),
        seconds=seconds,
        notes=(found.note,) if found.note else (),
    )


def _eigenvalue_of(problem: Problem, number: int) -> str:
    """The name of the eigenvalue, if the problem has one."""
    if number < 1:
        raise ValueError(f"number is how many eigenvalues are looked for, at least 1, got {number}")
    if problem.domain.time is not None:
        raise ValueError("an eigenvalue problem has no axis of time; leave it out of the domain")
    if len(problem.parameters) != 1:
        raise ValueError(
            "an eigenvalue problem has one parameter, with a guess near to which eigenvalues are "
            "looked for: pann.Problem(domain, lambda u, lam: u.laplacian + lam * u.value, "
            "conditions, parameters={'lam': 0.0}); given are "
            f"{', '.join(problem.parameters) or 'none'}"
        )
    return next(iter(problem.parameters))


def _prepared(
    problem: Problem, name: str, number: int, seed: int
) -> tuple[Setup, Iterator[WholeBasis]]:
    """The problem with its points, and bases that hold so many eigenfunctions."""
    # For a given eigenvalue it is a linear equation like others, whose bases suit it.
    fixed = functools.partial(problem.residual, **{name: problem.parameters[name]})
    conditions = [_soft(each) for each in problem.conditions]
    linear = dataclasses.replace(
        problem, residual=fixed, parameters={}, conditions=conditions, trace=None
    ).traced()
    if problem.domain.shape is None:
        linear = with_breaks(linear)
        make: Callable[[int], WholeBasis] = functools.partial(
            make_basis, problem.domain, families=linear.pieces
        )
    else:
        make = functools.partial(basis_of_eigenfunctions, linear)
    fewest = COLUMNS_PER_VALUE * number / len(problem.fields)
    whole = dataclasses.replace(problem, conditions=linear.conditions)
    return Setup(whole, seed=seed), _ladder(make, whole, fewest)


def _ladder(
    make: Callable[[int], WholeBasis], problem: Problem, fewest: float
) -> Iterator[WholeBasis]:
    """Bases of at least so many terms, as long as there are not too many coefficients."""
    is_empty = True
    for degree in LADDERS.get(problem.domain.dimension, HIGH_DIMENSIONAL):
        basis = make(degree)
        if basis.num_terms * len(problem.fields) > MOST_COLUMNS and not is_empty:
            return
        if basis.num_terms >= fewest:
            is_empty = False
            yield basis
    if is_empty:
        raise ValueError(
            "so many eigenvalues take more functions than there are up to degree "
            f"{degree}; ask for fewer, near to several guesses"
        )


def _soft(condition: Condition) -> Condition:
    """What is zero needs no form of the solution by which it holds."""
    if isinstance(condition, Dirichlet):
        return dataclasses.replace(condition, hard=False)
    return condition


# ---- Rows ----


class _Rows(NamedTuple):
    """A block and its derivatives by the channels, those without the eigenvalue and by it."""

    block: Block
    plain: Slopes
    times: Slopes

    @property
    def tables(self) -> Float[np.ndarray, "orders points terms"]:
        return np.stack([np.asarray(table) for table in self.block.tables])

    def matrix(self, slopes: Slopes) -> Float[np.ndarray, "rows columns"]:
        """Columns are terms of the first field, of the second, ..."""
        each = [np.einsum("opr,opt->prt", of, self.tables) for of in np.moveaxis(slopes, 1, 0)]
        found = np.concatenate(each, axis=2)
        return found.reshape(-1, found.shape[2])


def _rows(block: Block, name: str) -> _Rows:
    """Of a block that is homogeneous, and linear in the channels and in the eigenvalue."""
    # One program for all bases: tables have no part in it, and numbers of points are few.
    count, more = block.num_points, (1 << (block.num_points - 1).bit_length()) - block.num_points
    bare = jax.tree.map(
        lambda leaf: np.pad(leaf, [(0, more), *[(0, 0)] * (leaf.ndim - 1)], mode="edge"),
        dataclasses.replace(block, tables=()),
    )
    shape = (len(block.orders), count + more, block.num_fields)
    zero, somewhere = jnp.zeros(shape), jnp.asarray(np.random.default_rng(3).normal(size=shape))

    def at(channels: jax.Array, value: float) -> tuple[np.ndarray, np.ndarray]:
        residual, slopes = _linearized(bare, channels, {name: jnp.asarray(value)})
        return np.asarray(residual)[:count], np.asarray(slopes)[:, :, :count]

    (source, plain), (_, one), (_, three) = (at(zero, value) for value in (0.0, 1.0, 3.0))
    _, elsewhere = at(somewhere, 1.0)
    rounding = LINEAR * max(float(np.max(np.abs(one))), float(np.max(np.abs(plain))))
    is_equation = isinstance(block.operator, Equation)
    what = "the equation" if is_equation else f"the condition {block.name}"
    if np.any(source):
        raise ValueError(
            f"{what} does not hold for u = 0, and multiples of eigenfunctions are eigenfunctions; "
            f"leave its {'source' if is_equation else 'value'} out"
        )
    if np.max(np.abs(elsewhere - one)) > rounding:
        raise ValueError(
            f"{what} is not linear in the fields; linearize it about a solution by hand"
        )
    if np.max(np.abs(three - 3.0 * one + 2.0 * plain)) > rounding:
        raise ValueError(
            f"{what} is not linear in {name}; with {name} times a field as one more field it is"
        )
    if is_equation and np.max(np.abs(one - plain)) <= rounding:
        raise ValueError(f"the equation does not depend on {name}; add {name} * u.value")
    return _Rows(block, plain, one - plain)


_linearized = jax.jit(lambda block, channels, parameters: block.linearize(channels, parameters))


# ---- The pairs of one basis ----


class _Pairs(NamedTuple):
    """Eigenvalues in a basis; the eigenfunction of a complex pair is the same for both."""

    basis: WholeBasis
    values: Complex[np.ndarray, " pairs"]
    vectors: Complex[np.ndarray, "terms fields pairs"]
    residuals: Float[np.ndarray, " pairs"]
    note: str


def _pairs(setup: Setup, basis: WholeBasis, name: str, number: int) -> _Pairs:
    problem = setup.problem
    guess, num_fields = problem.parameters[name], len(problem.fields)
    rows = [_rows(block, name) for block in setup.blocks(setup.placed(basis), basis)]
    plain = np.concatenate([each.matrix(each.plain) for each in rows])
    times = np.concatenate([each.matrix(each.times) for each in rows])
    smooth = np.tile(np.asarray(basis.degrees) <= 2, num_fields)
    scale = np.linalg.norm(plain[:, smooth]) / (np.linalg.norm(times[:, smooth]) or 1.0)
    shift = guess - OFFSET * scale
    left = plain + shift * times
    lengths = np.linalg.norm(left, axis=0)
    lengths[lengths == 0] = 1.0
    factors = orthonormalize(left / lengths)
    small = -factors.q.T @ factors.at(times / lengths)
    inverses, coordinates = scipy.linalg.eig(small, check_finite=False)
    with np.errstate(divide="ignore", invalid="ignore"):
        values = shift + 1.0 / inverses
    order = np.argsort(np.nan_to_num(np.abs(values - guess), nan=np.inf), kind="stable")
    # Some more than asked for: some may be none, and pairs stay together.
    order = order[: 2 * number + 2]
    vectors = np.zeros((len(lengths), len(order)), complex)
    vectors[factors.used] = scipy.linalg.solve_triangular(factors.r, coordinates[:, order])
    vectors /= lengths[:, None]
    return _chosen(setup, basis, name, number, values[order], vectors)


def _chosen(
    setup: Setup,
    basis: WholeBasis,
    name: str,
    number: int,
    values: Complex[np.ndarray, " candidates"],
    vectors: Complex[np.ndarray, "columns candidates"],
) -> _Pairs:
    """The pairs that satisfy the equation at fresh points, of mean square one there."""
    num_fields = len(setup.problem.fields)
    fresh = setup.fresh_placed()
    on_faces = OnFaces("uniform", POINTS_ON_FACES, setup.seed + 1)
    placed = [fresh, *place_conditions(setup.problem, POINTS_ON_FACES, on_faces)]
    is_real = np.abs(values.imag) <= ROUNDING * np.abs(values)
    # Of rounding in equal eigenvalues: both parts of a vector are eigenfunctions.
    vectors = np.where(is_real, np.where(values.imag < 0, vectors.imag, vectors.real), vectors)
    values = np.where(is_real, values.real, values)
    b = np.moveaxis(vectors.reshape(num_fields, -1, len(values)), 0, 1)
    table = basis.table(fresh.points)
    b = _independent(values, b, table)
    sizes = np.sqrt(np.mean(np.abs(np.tensordot(table, b, axes=(1, 0))) ** 2, axis=0))
    blocks = [make_block(each, setup.problem, basis, "float64") for each in placed]
    residuals = np.max([_relative(_rows(e, name), basis, values, b, sizes) for e in blocks], axis=0)
    good = np.flatnonzero(residuals <= SPURIOUS)[:number]
    if len(good) < number:
        good = np.arange(min(number, len(values)))
    last = int(good[-1])
    if values[last].imag and last + 1 < len(values) and values[last + 1] == values[last].conj():
        good = np.append(good, last + 1)
    left_out = values[:last][residuals[:last] > SPURIOUS]
    note = (
        f"{len(left_out)} candidates that do not satisfy the equation were left out, the first "
        f"at {left_out[0]:.6g}"
        if len(left_out)
        else ""
    )
    return _Pairs(basis, values[good], b[:, :, good], residuals[good], note)


def _independent(
    values: Complex[np.ndarray, " pairs"],
    b: Complex[np.ndarray, "terms fields pairs"],
    table: Float[np.ndarray, "points terms"],
) -> Complex[np.ndarray, "terms fields pairs"]:
    """Eigenfunctions of mean square one, those of equal eigenvalues orthogonal to each other."""
    b, first = b.copy(), 0
    while first < len(values):
        near = np.abs(values[first:] - values[first]) <= ROUNDING * np.abs(values[first])
        count = 1 if values[first].imag else max(int(np.argmin(np.append(near, False))), 1)
        own = slice(first, first + count)
        at_points = np.tensordot(table, b[:, :, own], axes=(1, 0))
        _, r = np.linalg.qr(at_points.reshape(-1, count) / np.sqrt(len(table)))
        b[:, :, own] = b[:, :, own] @ np.linalg.pinv(r)
        # The sign, and of complex ones the phase, is that of a positive maximum.
        at_points = np.tensordot(table, b[:, :, own], axes=(1, 0)).reshape(-1, count)
        largest = at_points[np.argmax(np.abs(at_points), axis=0), np.arange(count)]
        b[:, :, own] *= np.exp(-1j * np.angle(largest))
        first += count
    return b


def _relative(
    rows: _Rows,
    basis: WholeBasis,
    values: Complex[np.ndarray, " pairs"],
    b: Complex[np.ndarray, "terms fields pairs"],
    sizes: Float[np.ndarray, "fields pairs"],
) -> Float[np.ndarray, " pairs"]:
    """The residual of each pair relative to the terms of the equation, or of a condition.

    A derivative counts at least as much as u over the widths of the domain.
    """
    channels = np.einsum("opt,tfk->ofpk", rows.tables, b, optimize=True)
    slopes = 2.0 / basis.domain.widths
    scales = np.array(
        [np.prod(slopes ** np.maximum(order, 0)) for order in in_terms(rows.block.orders)]
    )
    at_least = scales[:, None, None, None] * sizes[None, :, None, :]
    whole = rows.plain[..., None] + rows.times[..., None] * values
    residual = np.einsum("ofprk,ofpk->prk", whole, channels)
    terms = np.abs(whole) * np.maximum(np.abs(channels), at_least)[:, :, :, None, :]
    total = np.sum(terms**2, axis=(0, 1, 2, 3))
    return np.sqrt(np.sum(np.abs(residual) ** 2, axis=(0, 1)) / np.where(total > 0, total, 1.0))


# ---- What is said of them ----


def _estimates(before: _Pairs, now: _Pairs) -> Float[np.ndarray, " pairs"]:
    """How far the nearest values of a lower degree are."""
    return np.min(np.abs(now.values[:, None] - before.values), axis=1)


def _is_resolved(now: _Pairs, estimates: Float[np.ndarray, " pairs"], tolerance: float) -> bool:
    sizes = np.abs(now.values)
    have_settled = estimates <= tolerance * np.maximum(sizes, ZERO * np.mean(sizes))
    return bool(not now.note and np.all(have_settled) and np.all(now.residuals <= RESOLVED))


def _function(problem: Problem, name: str, found: _Pairs, number: int, seconds: float) -> Solution:
    value, vector = found.values[number], found.vectors[:, :, number]
    part = vector.imag if value.imag < 0 else vector.real
    residual = float(found.residuals[number])
    notes = [f"a part of the eigenfunction of {value:.10g}"] if value.imag else []
    return Solution(
        model=polynomial_model(problem.domain, found.basis, part),
        fields=problem.fields,
        parameters={name: float(value.real)},
        report=Report(
            how="an eigenvalue problem of least squares",
            degree=int(np.max(found.basis.degrees)),
            num_points=0,
            residual=residual,
            rel_l2=None,
            stop=f"eigenfunction {number + 1}",
            seconds=seconds,
            history={},
            resolved=residual <= RESOLVED,
            notes=notes,
        ),
        problem=problem,
    )
