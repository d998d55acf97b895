"""Blocks of rows linearized at some b and parameters, with NumPy's arrays.

Only what the operators do at their points is compiled, for no basis in particular: a larger basis
on the same points compiles nothing.
"""

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Mapping, Sequence

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg
from jaxtyping import Array, Float

from pann.basis import Basis
from pann.pde.collocation import Block
from pann.runtime.compile import for_few_runs
from pann.solvers.newton import Unknowns

# Slopes that agree to this, relatively, are the same: the rows are linear in b.
SAME = 1e-12

Vector = Float[np.ndarray, " _"]
Matrix = Float[np.ndarray, "_ _"]


@dataclasses.dataclass(frozen=True, eq=False)
class RowsAt:
    """The residual at some b and parameters, its slopes by channel, its Jacobian in theta."""

    residual: Vector
    slopes: tuple[np.ndarray, ...]
    by_parameter: Matrix

    @property
    def square(self) -> float:
        """The sum of squares, infinite where it is not a number."""
        total = float(self.residual @ self.residual)
        return total if np.isfinite(total) else np.inf

    def is_same_operator(self, other: "RowsAt") -> bool:
        """Whether a step between the two changed nothing but the residual."""
        return all(
            np.max(np.abs(a - b), initial=0.0) <= SAME * np.max(np.abs(a), initial=0.0)
            for a, b in zip(self.slopes, other.slopes, strict=True)
        )


@dataclasses.dataclass(frozen=True, eq=False)
class Rows:
    """Blocks as functions of b (flat, field by field) and the parameters in the order of names."""

    blocks: tuple[Block, ...]
    names: tuple[str, ...]

    @functools.cached_property
    def tables(self) -> tuple[tuple[np.ndarray, ...], ...]:
        return tuple(tuple(map(np.asarray, block.tables)) for block in self.blocks)

    @functools.cached_property
    def pointwise(self) -> tuple[Block, ...]:
        """The blocks without tables: what is compiled does not know the basis."""
        return tuple(dataclasses.replace(block, tables=()) for block in self.blocks)

    def linearize(self, b: Vector, theta: Vector) -> RowsAt:
        residuals, slopes, by_parameter = [], [], []
        for block, tables in zip(self.pointwise, self.tables, strict=True):
            fields = b.reshape(block.num_fields, -1).T
            channels = np.stack([table @ fields for table in tables])
            found = _linearize(block, channels, theta, names=self.names)
            residual, own, moved = (np.asarray(each) for each in found)
            residuals.append(residual.ravel())
            slopes.append(own)
            by_parameter.append(moved.reshape(-1, len(self.names)))
        return RowsAt(np.concatenate(residuals), tuple(slopes), np.concatenate(by_parameter))

    def jacobian(self, slopes: Sequence[np.ndarray]) -> Matrix:
        """d residual / d b; columns are terms of the first field, of the second, ..."""
        each = []
        for tables, own in zip(self.tables, slopes, strict=True):
            _, num_fields, num_points, num_residuals = own.shape
            rows = np.zeros((num_points, num_residuals, num_fields, tables[0].shape[1]))
            for table, of_fields in zip(tables, own, strict=True):
                for field, slope in enumerate(of_fields):
                    rows[:, :, field] += slope[:, :, None] * table[:, None, :]
            each.append(rows.reshape(num_points * num_residuals, -1))
        return np.concatenate(each)


def rows_at(blocks: tuple[Block, ...], unknowns: Unknowns) -> tuple[Vector, Matrix]:
    """The residual, and its Jacobian with columns for b and for the parameters in their order."""
    rows = Rows(blocks, tuple(unknowns.parameters))
    here = rows.linearize(flat(unknowns), theta_of(unknowns))
    return here.residual, np.column_stack([rows.jacobian(here.slopes), here.by_parameter])


def residual_at(blocks: tuple[Block, ...], unknowns: Unknowns) -> Vector:
    rows = Rows(blocks, tuple(unknowns.parameters))
    return rows.linearize(flat(unknowns), theta_of(unknowns)).residual


def flat(unknowns: Unknowns) -> Vector:
    """The coefficients of the first field, of the second, ..."""
    return np.asarray(unknowns.b).T.ravel()


def theta_of(unknowns: Unknowns) -> Vector:
    return np.array([float(value) for value in unknowns.parameters.values()])


def unknowns_of(b: Vector, theta: Vector, like: Unknowns) -> Unknowns:
    """The other way around."""
    num_terms, num_fields = like.b.shape
    parameters = dict(zip(like.parameters, jax.device_put(list(theta)), strict=True))
    return Unknowns(jax.device_put(b.reshape(num_fields, num_terms).T), parameters)


def _linearize_block(
    block: Block,
    channels: Float[Array | np.ndarray, "orders points fields"],
    theta: Float[Array | np.ndarray, " parameters"],
    names: tuple[str, ...],
) -> tuple[Array, Array, Array]:
    channels = jnp.asarray(channels)
    # A vector, since JAX sorts the names of a dictionary.
    by_name = lambda theta: dict(zip(names, theta, strict=True))
    residual, slopes = block.linearize(channels, by_name(theta))
    moved = jax.jacfwd(lambda theta: block.residual(channels, by_name(theta)))(theta)
    return residual, slopes, moved


_linearize = for_few_runs(_linearize_block, static_argnames="names")


# ---- b and unknown parameters from an equation and data that may be noisy ----


# Between a weight and the next, and where they end.
WEIGHT_STEP, MIN_WEIGHT, MAX_WEIGHT = 10**0.5, 1e-3, 1e4
# Cross-validation says nothing where the data are all but interpolated.
MAX_INFLUENCE = 0.9
MAX_STEPS, MAX_HALVINGS = 40, 10
# The fall of the sum of squares in a step, relative to it, from which on the weight is chosen, and
# at which the steps end.
NEAR, CONVERGED = 1e-2, 1e-4
# Steps end as well when the parameters move by less than this share of their deviations.
WITHIN = 0.1
# Relative steps of the parameters that the rounding of normal equations may leave.
TINY = 1e-6
# What keeps the normal equations positive, relative to their diagonal.
FLOOR = 1e-13
PENALTIES = 10.0 ** np.arange(2, -15, -1)


@dataclasses.dataclass(frozen=True, eq=False)
class DataFit:
    """What was found: unknowns, the weight of the data, and how well they are met.

    `score` is the cross-validated error at a datum, `misfit` the root mean square at those used,
    and `size` that of the data, all times the data's own weights; `deviations` are the parameters'
    standard deviations by the noise of the data, none where the data are too few to tell. `weight`
    is 0 if the data were not weighed against the equation, `sums` are what was made small at each
    step, and `smooth_score` is the cross-validated error of a smooth fit without the equation.
    """

    unknowns: Unknowns
    weight: float
    score: float
    misfit: float
    size: float
    deviations: dict[str, float]
    sums: list[float]
    is_converged: bool
    smooth_score: float = np.inf


@dataclasses.dataclass(frozen=True, eq=False)
class Linearized:
    """Normal equations of the equation and the conditions, and the rows of the data."""

    normal: Float[np.ndarray, "columns columns"]
    gradient: Float[np.ndarray, " columns"]
    square: float
    data: Float[np.ndarray, "data columns"]
    data_normal: Float[np.ndarray, "columns columns"]
    misfit: Float[np.ndarray, " data"]

    def value(self, weight: float) -> float:
        return self.square + weight**2 * float(self.misfit @ self.misfit)

    def weighted(self, weight: float) -> "Weighted":
        """The linearized problem for one weight of the data."""
        matrix = self.normal + weight**2 * self.data_normal
        scales = np.sqrt(np.diagonal(matrix))
        scales = np.where(scales > 0, scales, 1.0)
        matrix /= scales
        matrix /= scales[:, None]
        factor = _cholesky(matrix)
        right = (self.gradient + weight**2 * (self.misfit @ self.data)) / scales
        step = scipy.linalg.cho_solve((factor, True), right, check_finite=False) / scales
        return Weighted(self, weight, step, factor, scales)


@dataclasses.dataclass(frozen=True, eq=False)
class Weighted:
    """The step to the minimum for one weight, and what the data say there."""

    system: Linearized
    weight: float
    step: Float[np.ndarray, " columns"]
    factor: Float[np.ndarray, "columns columns"]
    scales: Float[np.ndarray, " columns"]

    @functools.cached_property
    def misfit(self) -> float:
        return float(np.linalg.norm(self.system.misfit - self.system.data @ self.step))

    @functools.cached_property
    def influence(self) -> float:
        """trace H / N: how much a datum moves the solution at its own place, in the mean."""
        spread = self._solved((self.system.data / self.scales).T)
        return self.weight**2 * float(np.sum(spread**2)) / len(self.system.misfit)

    @property
    def score(self) -> float:
        """The cross-validated error, infinite where it says nothing."""
        if self.influence > MAX_INFLUENCE:
            return np.inf
        return self.misfit / (1 - self.influence)

    def deviations(self, num_last: int) -> Float[np.ndarray, " last"]:
        """Standard deviations of the last unknowns, from the noise that the misfit shows."""
        unit = np.eye(len(self.scales), num_last, num_last - len(self.scales))
        lengths = np.linalg.norm(self._solved(unit), axis=0) / self.scales[-num_last:]
        freedom = len(self.system.misfit) * (1 - self.influence)
        return self.weight * self.misfit / np.sqrt(freedom) * lengths

    def _solved(self, right: Float[np.ndarray, "columns k"]) -> Float[np.ndarray, "columns k"]:
        return scipy.linalg.solve_triangular(self.factor, right, lower=True, check_finite=False)


def is_data(block: Block) -> bool:
    return block.name.startswith("data")


@dataclasses.dataclass(frozen=True, eq=False)
class SmoothFit:
    """A smooth b from the data alone, its cross-validated error, and whether all fields have data.

    The error is the root mean square at a datum, infinite where the data are too few to tell.
    """

    unknowns: Unknowns
    score: float = np.inf
    is_complete: bool = False


def smooth_fit(blocks: tuple[Block, ...], basis: Basis, unknowns: Unknowns) -> SmoothFit:
    """Data without the equation: the parameters stay as they are.

    The penalty on a coefficient grows with the fourth power of its degrees, and is chosen by
    cross-validation.
    """
    data = tuple(block for block in blocks if is_data(block))
    zero = Unknowns(jnp.zeros_like(unknowns.b), unknowns.parameters)
    misfit, jacobian = rows_at(data, zero)
    num_terms, num_fields = unknowns.b.shape
    jacobian = jacobian[:, : num_terms * num_fields]
    roughness = np.tile((1.0 + np.sum(levels(basis) ** 2, axis=1)) ** 2, num_fields)
    system = Linearized(
        np.diag(roughness), np.zeros(len(roughness)), 0.0, jacobian, _gram(jacobian), misfit
    )
    candidates = [system.weighted(penalty**-0.5) for penalty in PENALTIES]
    best = min(candidates, key=lambda each: each.score)
    b = -best.step.reshape(num_fields, num_terms).T
    fitted = Unknowns(jnp.asarray(b, unknowns.b.dtype), unknowns.parameters)
    measured = np.any(jacobian.reshape(-1, num_fields, num_terms) != 0, axis=(0, 2))
    return SmoothFit(fitted, best.score / math.sqrt(len(data)), bool(np.all(measured)))


def fit_parameters(blocks: tuple[Block, ...], smooth: SmoothFit) -> Unknowns:
    """The parameters for which the equation fits b best, by Gauss-Newton on them alone.

    They stay as they are if a field has no data.
    """
    unknowns = smooth.unknowns
    if not smooth.is_complete:
        return unknowns
    rest = tuple(block for block in blocks if not is_data(block))
    rows, b = Rows(rest, tuple(unknowns.parameters)), flat(unknowns)
    theta = theta_of(unknowns)
    here = rows.linearize(b, theta)
    for _ in range(MAX_STEPS):
        if not (np.isfinite(here.square) and np.all(np.isfinite(here.by_parameter))):
            break
        step = np.linalg.lstsq(here.by_parameter, here.residual, rcond=None)[0]
        for share in 0.5 ** np.arange(MAX_HALVINGS):
            moved = theta - share * step
            there = rows.linearize(b, moved)
            if there.square < (1 - CONVERGED) * here.square:
                break
        else:
            break
        theta, here = moved, there
    return unknowns_of(b, theta, unknowns)


def levels(basis: Basis) -> Float[np.ndarray, "terms axes"]:
    """Degree or frequency of each term along each axis."""
    sizes = zip(basis.families, basis.num_functions, basis.indices.T, strict=True)
    return np.stack([family.levels(size)[column] for family, size, column in sizes], axis=1) * 1.0


@dataclasses.dataclass(frozen=True, eq=False)
class WeighedProblem:
    """Equation and conditions in `rest`, and data, which are linear in b: with constant rows."""

    rest: tuple[Block, ...]
    data: tuple[Block, ...]
    rows: Float[np.ndarray, "data columns"]
    rows_normal: Float[np.ndarray, "columns columns"]

    def linearized(self, unknowns: Unknowns) -> Linearized:
        residual, jacobian = rows_at(self.rest, unknowns)
        square, gradient = float(residual @ residual), residual @ jacobian
        misfit = residual_at(self.data, unknowns)
        return Linearized(_gram(jacobian), gradient, square, self.rows, self.rows_normal, misfit)

    def value(self, unknowns: Unknowns, weight: float) -> float:
        of_rest, of_data = (residual_at(blocks, unknowns) for blocks in (self.rest, self.data))
        total = float(of_rest @ of_rest + weight**2 * (of_data @ of_data))
        return total if np.isfinite(total) else np.inf

    def lowered(
        self, unknowns: Unknowns, solved: Weighted, value: float
    ) -> tuple[Unknowns, float, float] | None:
        """Unknowns with a smaller sum of squares, the sum, and the share of the step; or None.

        Where data count little, a whole step leaves the solutions of the equation. Before it is
        halved, b is solved for with the parameters after it.
        """
        for share in 0.5 ** np.arange(MAX_HALVINGS):
            moved = _moved(unknowns, solved.step, share)
            new = self.value(moved, solved.weight)
            if share == 1.0 and value <= new < np.inf:
                moved = _moved(moved, self._step_of_b(moved, solved.weight), 1.0)
                new = self.value(moved, solved.weight)
            if new < value:
                return moved, new, share
        return None

    def _step_of_b(self, unknowns: Unknowns, weight: float) -> Float[np.ndarray, " columns"]:
        whole, size = self.linearized(unknowns), unknowns.b.size
        of_b = Linearized(
            whole.normal[:size, :size],
            whole.gradient[:size],
            whole.square,
            whole.data[:, :size],
            whole.data_normal[:size, :size],
            whole.misfit,
        )
        return np.pad(of_b.weighted(weight).step, (0, len(unknowns.parameters)))


def fit_with_data(
    blocks: tuple[Block, ...], unknowns: Unknowns, weight: float, *, is_near: bool = False
) -> DataFit:
    """Gauss-Newton on all unknowns; near the minimum the weight of the data is chosen.

    The blocks of the data come with their own weights, which `weight` multiplies. Steps end when
    the sum of squares no longer falls, or the parameters move by less than the noise leaves open.
    """
    data = tuple(block for block in blocks if is_data(block))
    rows = rows_at(data, unknowns)[1]
    rest = tuple(block for block in blocks if not is_data(block))
    problem = WeighedProblem(rest, data, rows, _gram(rows))
    if not np.isfinite(problem.value(unknowns, weight)):
        raise ValueError(
            "the residual is not finite for a fit of the data with the parameters "
            + ", ".join(f"{name} = {value:.4g}" for name, value in unknowns.parameters.items())
            + "; look for roots and logarithms in it, or give other first guesses"
        )
    sums: list[float] = []
    count = len(unknowns.parameters)
    is_chosen, lowest, is_converged = False, np.inf, False
    for _ in range(MAX_STEPS):
        system = problem.linearized(unknowns)
        solved = system.weighted(weight)
        if is_near and not is_chosen:
            solved, lowest = _best(system, solved, lowest)
            is_chosen, weight = solved.weight == weight, solved.weight
        value = system.value(weight)
        sums += [value] if not sums else []
        found = problem.lowered(unknowns, solved, value)
        if found is None:
            if is_chosen:
                is_converged = _is_within_noise(solved, count) or _is_tiny(solved, unknowns)
                break
            is_near = True
            continue
        unknowns, new, share = found
        fall = value - new
        sums.append(new)
        is_near = is_near or (share == 1.0 and fall <= NEAR * value)
        has_ended = fall <= CONVERGED * value or _is_within_noise(solved, count)
        if is_chosen and share == 1.0 and has_ended:
            is_converged = True
            break
    deviations = [] if np.isinf(solved.score) else solved.deviations(count).tolist()
    named = dict(zip(unknowns.parameters, deviations, strict=False))
    size = math.sqrt(sum(float(jnp.sum((b.weights[:, None] * b.target) ** 2)) for b in data))
    return DataFit(unknowns, weight, solved.score, solved.misfit, size, named, sums, is_converged)


def _is_tiny(solved: Weighted, unknowns: Unknowns) -> bool:
    """Whether a step moves no parameter by more than rounding may."""
    theta = theta_of(unknowns)
    return bool(np.all(np.abs(solved.step[-len(theta) :]) <= TINY * np.abs(theta)))


def _is_within_noise(solved: Weighted, count: int) -> bool:
    if np.isinf(solved.score):
        return False
    return bool(np.all(np.abs(solved.step[-count:]) <= WITHIN * solved.deviations(count)))


def _best(system: Linearized, now: Weighted, lowest: float) -> tuple[Weighted, float]:
    """The smallest weight near the one now that is hardly worse than the best, and its score.

    `lowest` is the best score so far. The linearization does not reach far: one step up, or two
    steps down, and then anew.
    """
    tried = [now]
    if now.weight * WEIGHT_STEP <= MAX_WEIGHT:
        tried.append(system.weighted(now.weight * WEIGHT_STEP))
    lowest = min(lowest, *(each.score for each in tried))
    # One standard error of a root mean square (Breiman's rule for trees).
    hardly_worse = 1 + (2 * len(system.misfit)) ** -0.5
    while len(tried) < 4 and tried[0].weight / WEIGHT_STEP >= MIN_WEIGHT:
        lower = system.weighted(tried[0].weight / WEIGHT_STEP)
        if lower.score > hardly_worse * lowest:
            break
        tried.insert(0, lower)
        lowest = min(lowest, lower.score)
    good = (each for each in tried if each.score <= hardly_worse * lowest)
    if lowest == np.inf:
        return now, lowest
    return next(good, min(tried, key=lambda each: each.score)), lowest


def _gram(rows: Float[np.ndarray, "rows columns"]) -> Float[np.ndarray, "n n"]:
    # NumPy sees the symmetry: half the work of a product in JAX.
    return rows.T @ rows


def _cholesky(matrix: Float[np.ndarray, "n n"]) -> Float[np.ndarray, "n n"]:
    """The lower factor; the diagonal, all ones, is raised as far as rounding asks for."""
    floor = FLOOR
    while True:
        raised = matrix.copy()
        raised[np.diag_indices_from(raised)] += floor
        try:
            return scipy.linalg.cholesky(raised, lower=True, overwrite_a=True, check_finite=False)
        except np.linalg.LinAlgError:
            floor *= 100
            if not floor < 1:
                raise


def _moved(unknowns: Unknowns, step: Float[np.ndarray, " columns"], share: float) -> Unknowns:
    both = np.concatenate([flat(unknowns), theta_of(unknowns)]) - share * step
    size = unknowns.b.size
    return unknowns_of(both[:size], both[size:], unknowns)


# ---- Unknown parameters where equation and conditions determine u ----


# Equation and conditions determine b if the condition number of their columns, scaled to unit
# length, is below this: measured are 1e2 to 1e4, and 1e10 to infinity where a condition is missing.
MAX_CONDITION = 1e7
# Linearized at a field of at most these levels: the null space of a smooth operator is smooth.
SMOOTH_LEVEL = 2
# Newton steps for b at given parameters, halvings of each, and the relative size at which they end.
MAX_FORWARD_STEPS = 25
MAX_HALVINGS_REDUCED_FIT = 8
FORWARD_TOLERANCE = 1e-9
# Pivots below this, relative to the largest, make a matrix singular.
SINGULAR = 1e-13
# Levenberg-Marquardt: its steps, the first damping, and where damping ends.
MAX_STEPS_REDUCED_FIT = 60
FIRST_DAMPING, MIN_DAMPING, MAX_DAMPING = 1e-2, 1e-14, 1e8
RAISE, LOWER = 5.0, 10.0
# The steps end where one moves the predictions by this share of the noise, or of the data.
WITHIN_NOISE = 1e-3
WITHIN_ROUNDING = 1e-12
# Combinations of parameters that move the data by less, relative to the largest, are free.
RANK_TOLERANCE = 1e-9
# First guesses are tried times these factors, and with the other sign.
FACTORS = (1.0, 0.1, 10.0)
# Of all first guesses, so many with the smallest misfit are followed to a minimum.
NUM_FOLLOWED = 3
# Minima whose misfits differ by less than this, relatively, are the same.
TIE = 1e-4


@dataclasses.dataclass(frozen=True, eq=False)
class Forward:
    """The solution b for parameters theta, and what the data say of it.

    `slopes` is db/dtheta, `sensitivity` that of the predicted data.
    """

    theta: Vector
    b: Vector
    slopes: Matrix
    misfit: Vector
    sensitivity: Matrix

    @property
    def square(self) -> float:
        return float(self.misfit @ self.misfit)

    @property
    def noise(self) -> float:
        """The standard deviation of the data that the misfit shows."""
        return float(np.sqrt(self.square / max(len(self.misfit) - len(self.theta), 1)))

    def deviations(self) -> Vector:
        """Standard deviations of the parameters; infinite where the data leave one free."""
        lengths = _lengths(self.sensitivity)
        _, sizes, rows = np.linalg.svd(_unit_columns(self.sensitivity), full_matrices=False)
        kept = sizes > RANK_TOLERANCE * np.max(sizes, initial=0.0)
        # What is left of each unit vector if the determined directions are taken away.
        is_free = np.linalg.norm(np.eye(len(lengths)) - rows[kept].T @ rows[kept], axis=0) > 1e-6
        spread = np.linalg.norm(rows[kept] / sizes[kept, None], axis=0)
        return np.where(is_free, np.inf, self.noise * spread / lengths)


@dataclasses.dataclass(frozen=True, eq=False)
class Estimate:
    """A minimum of the misfit: the solution there, and whether the steps to it came to an end."""

    forward: Forward
    squares: list[float]
    is_converged: bool


@dataclasses.dataclass(frozen=True, eq=False)
class ReducedProblem:
    """The misfit of the data as a function of the parameters alone.

    `design` maps b to predictions. Every datum counts the same, in whichever block it is.
    """

    rows: Rows
    design: Matrix
    minus_values: Vector

    def forward(self, theta: Vector, b: Vector) -> Forward | None:
        """Newton's method for b from a given one; None where it does not come to an end."""
        here = self.rows.linearize(b, theta)
        for _ in range(MAX_FORWARD_STEPS):
            solved = _solve(self.rows.jacobian(here.slopes), here)
            if solved is None:
                return None
            step, slopes, is_small = solved
            for share in 0.5 ** np.arange(MAX_HALVINGS_REDUCED_FIT):
                moved = b - share * step
                there = self.rows.linearize(moved, theta)
                if there.square < here.square:
                    break
            fall = here.square - there.square
            # At a minimum rounding decides whether the residual falls; elsewhere it has to.
            is_last = is_small(moved) or (share == 1 and here.is_same_operator(there))
            is_last = is_last or (share == 1 and 0 <= fall <= FORWARD_TOLERANCE * here.square)
            if not (fall > 0 or is_last):
                return None
            b, here = moved, there
            if is_last:
                misfit = self.minus_values + self.design @ b
                return Forward(theta, b, slopes, misfit, self.design @ slopes)
        return None

    def minimize(self, start: Forward) -> Estimate:
        """Levenberg-Marquardt on the parameters, each scaled by what it does to the data."""
        here, damping, scales = start, FIRST_DAMPING, np.zeros(len(start.theta))
        squares = [start.square]
        for _ in range(MAX_STEPS_REDUCED_FIT):
            if self._is_at_minimum(here):
                return Estimate(here, squares, True)
            scales = np.maximum(scales, np.linalg.norm(here.sensitivity, axis=0))
            there = None
            while damping <= MAX_DAMPING:
                step = _damped_step(here, np.where(scales > 0, scales, 1.0), damping)
                there = self.forward(here.theta + step, here.b + here.slopes @ step)
                if there is not None and there.square < here.square:
                    break
                damping *= RAISE
            else:
                # Where even the smallest step has a solution, rounding is what ends the descent.
                return Estimate(here, squares, there is not None)
            here, damping = there, max(damping / LOWER, MIN_DAMPING)
            squares.append(here.square)
        return Estimate(here, squares, False)

    def _is_at_minimum(self, here: Forward) -> bool:
        """Whether a Gauss-Newton step would move the predictions by next to nothing."""
        columns = _unit_columns(here.sensitivity)
        step = np.linalg.lstsq(columns, here.misfit, RANK_TOLERANCE)[0]
        enough = max(WITHIN_NOISE * here.noise, WITHIN_ROUNDING * _norm(self.minus_values))
        return _norm(columns @ step) <= enough


def reduced_problem(blocks: tuple[Block, ...], unknowns: Unknowns) -> ReducedProblem:
    names = tuple(unknowns.parameters)
    data = Rows(tuple(block for block in blocks if is_data(block)), names)
    at_zero = data.linearize(np.zeros(unknowns.b.size), np.ones(len(names)))
    counts = [np.full(block.num_points, block.num_points) for block in data.blocks]
    scale = np.sqrt(np.concatenate(counts))
    return ReducedProblem(
        Rows(tuple(block for block in blocks if not is_data(block)), names),
        scale[:, None] * data.jacobian(at_zero.slopes),
        scale * at_zero.residual,
    )


def is_determined(blocks: tuple[Block, ...], basis: Basis, unknowns: Unknowns) -> bool:
    """Whether equation and conditions leave no direction of b open.

    For the parameters as given, or with one of the signs changed: diffusion backward in time
    determines nothing.
    """
    rows = reduced_problem(blocks, unknowns).rows
    b = np.asarray(smooth_fit(blocks, basis, unknowns).unknowns.b)
    b = np.where(np.max(levels(basis), axis=1, keepdims=True) <= SMOOTH_LEVEL, b, 0.0)
    # Zero is a common first guess, for which a coefficient says nothing.
    theta = np.where(theta_of(unknowns) == 0, 1.0, theta_of(unknowns))
    signs = 1 - 2 * np.eye(len(theta) + 1, len(theta), -1)
    return any(_has_full_rank(rows, b.T.ravel(), sign * theta) for sign in signs)


def _has_full_rank(rows: Rows, b: Vector, theta: Vector) -> bool:
    here = rows.linearize(b, theta)
    matrix = rows.jacobian(here.slopes)
    if matrix.shape[0] < matrix.shape[1] or not np.all(np.isfinite(matrix)):
        return False
    (r,) = scipy.linalg.qr(_unit_columns(matrix), mode="r", overwrite_a=True)
    reciprocal, _ = scipy.linalg.lapack.dtrcon(r[: r.shape[1]])
    return bool(reciprocal > 1 / MAX_CONDITION)


def fit_reduced(
    blocks: tuple[Block, ...], unknowns: Unknowns, guesses: Sequence[Mapping[str, float]] = ()
) -> DataFit | None:
    """The parameters of least misfit, begun with the unknowns and with the best of other guesses.

    None if there is no solution for any of them.
    """
    problem, b = reduced_problem(blocks, unknowns), flat(unknowns)
    names = tuple(unknowns.parameters)
    starts = [theta_of(unknowns), *(np.array([guess[name] for name in names]) for guess in guesses)]
    solved = [problem.forward(start, b) for start in starts]
    found = [each for each in solved if each is not None]
    if not found:
        return None
    # The first is the user's own, or that of the basis before.
    followed = [found[0], *sorted(found[1:], key=lambda each: each.square)[:NUM_FOLLOWED]]
    estimates = [problem.minimize(each) for each in followed]
    least = min(each.forward.square for each in estimates)
    best = next(each for each in estimates if each.forward.square <= (1 + TIE) * least)
    if guesses:
        best = _with_signs(problem, best, np.array([guesses[0][name] for name in names]))
    return _data_fit(best, unknowns, _norm(problem.minus_values))


def _with_signs(problem: ReducedProblem, found: Estimate, guess: Vector) -> Estimate:
    """The signs of the first guess, where they do not matter to the data."""
    theta = np.where(guess == 0, found.forward.theta, np.copysign(found.forward.theta, guess))
    if np.array_equal(theta, found.forward.theta):
        return found
    mirrored = problem.forward(theta, found.forward.b)
    if mirrored is None or mirrored.square > (1 + TIE) * found.forward.square:
        return found
    return dataclasses.replace(found, forward=mirrored)


def _data_fit(estimate: Estimate, unknowns: Unknowns, size: float) -> DataFit:
    forward = estimate.forward
    num_data, count = len(forward.misfit), len(forward.theta)
    misfit = float(np.sqrt(forward.square / num_data))
    has_deviations = num_data > count
    deviations = forward.deviations().tolist() if has_deviations else []
    return DataFit(
        unknowns_of(forward.b, forward.theta, unknowns),
        weight=0.0,
        score=misfit / (1 - count / num_data) if has_deviations else np.inf,
        misfit=misfit,
        size=size / float(np.sqrt(num_data)),
        deviations=dict(zip(unknowns.parameters, deviations, strict=False)),
        sums=estimate.squares,
        is_converged=estimate.is_converged,
    )


def other_guesses(guess: Mapping[str, float]) -> list[dict[str, float]]:
    """Each parameter times each factor, all combinations for two; and each with the other sign."""
    names = list(guess)
    if len(names) <= 2:
        tried = [
            dict(zip(names, each, strict=True))
            for each in itertools.product(FACTORS, repeat=len(names))
        ]
    else:
        tried = [{name: factor} for name in names for factor in FACTORS]
    tried += [{name: -1.0} for name in names]
    scaled = [{name: guess[name] * by.get(name, 1.0) for name in names} for by in tried]
    return [each for each in scaled if each != dict(guess)]


def _solve(
    jacobian: Matrix, here: RowsAt
) -> tuple[Vector, Matrix, Callable[[Vector], bool]] | None:
    """J^+ r, -J^+ J_theta, and whether that step is small against some b; None if J is singular."""
    if not (np.isfinite(here.square) and np.all(np.isfinite(jacobian))):
        return None
    scale = _lengths(jacobian)
    right = np.column_stack([here.residual, here.by_parameter])
    projected, r = scipy.linalg.qr_multiply(jacobian / scale, right.T, overwrite_a=True)
    diagonal = np.abs(np.diagonal(r))
    if not np.all(np.isfinite(projected)) or np.min(diagonal) <= SINGULAR * np.max(diagonal):
        return None
    solution = scipy.linalg.solve_triangular(r, projected.T, check_finite=False) / scale[:, None]
    step = solution[:, 0]
    is_small = lambda b: _norm(scale * step) <= FORWARD_TOLERANCE * _norm(scale * b)
    return step, -solution[:, 1:], is_small


def _damped_step(here: Forward, scales: Vector, damping: float) -> Vector:
    count = len(here.theta)
    rows = np.vstack([here.sensitivity / scales, np.sqrt(damping) * np.eye(count)])
    right = np.concatenate([here.misfit, np.zeros(count)])
    return -np.linalg.lstsq(rows, right, rcond=None)[0] / scales


def _unit_columns(matrix: Matrix) -> Matrix:
    return matrix / _lengths(matrix)


def _lengths(matrix: Matrix) -> Vector:
    lengths = np.linalg.norm(matrix, axis=0)
    return np.where(lengths > 0, lengths, 1.0)


def _norm(vector: Vector) -> float:
    return float(np.linalg.norm(vector))
