"""b and the unknown parameters of an equation from data, which may be noisy.

Where equation and conditions determine u for given parameters, u is a function of these alone, and
the misfit of the data is minimized over them (`fit_reduced`). Where the data stand in for missing
conditions, b and the parameters are fitted together, the data weighed against the equation by
cross-validation (`fit_with_data`).

Rows are linearized in NumPy. Only what the operators do at their points is compiled, for no basis
in particular: a larger basis on the same points compiles nothing.
"""

import dataclasses
import functools
import itertools
import math
from collections.abc import Mapping, Sequence

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg
from jaxtyping import Array, Float

from pann.basis import ShapeBasis, WholeBasis
from pann.numerics import least_squares
from pann.numerics.gauss_newton import halve
from pann.pde.collocation import Block
from pann.runtime.compile import for_few_runs
from pann.solvers.newton import Unknowns

# Slopes that agree to this, relatively, are the same: the rows are linear in b.
SAME = 1e-12
# Gauss-Newton steps, and halvings of each.
MAX_STEPS, MAX_HALVINGS = 40, 10

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

    def jacobian(self, here: RowsAt) -> Matrix:
        """d residual / d b; columns are terms of the first field, of the second, ..."""
        each = []
        for tables, slopes in zip(self.tables, here.slopes, strict=True):
            _, num_fields, num_points, num_residuals = slopes.shape
            rows = np.zeros((num_points, num_residuals, num_fields, tables[0].shape[1]))
            for table, of_fields in zip(tables, slopes, strict=True):
                for field, slope in enumerate(of_fields):
                    rows[:, :, field] += slope[:, :, None] * table[:, None, :]
            each.append(rows.reshape(num_points * num_residuals, -1))
        return np.concatenate(each)

    def at(self, x: Vector) -> RowsAt:
        """At b and theta, one after the other in one vector."""
        size = len(x) - len(self.names)
        return self.linearize(x[:size], x[size:])

    def linearized(self, x: Vector) -> tuple[Vector, Matrix]:
        """The residual, and its Jacobian with columns for b and for the parameters."""
        here = self.at(x)
        return here.residual, np.column_stack([self.jacobian(here), here.by_parameter])


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


def equation_and_data(blocks: tuple[Block, ...], unknowns: Unknowns) -> tuple[Rows, Rows]:
    """The rows of the equation with its conditions, and those of the data."""
    names = tuple(unknowns.parameters)
    equation = tuple(block for block in blocks if not block.is_data)
    data = tuple(block for block in blocks if block.is_data)
    return Rows(equation, names), Rows(data, names)


def arrays_of(unknowns: Unknowns) -> tuple[Vector, Vector]:
    """b, with the coefficients of the first field, of the second, ..., and the parameters."""
    return np.asarray(unknowns.b).T.ravel(), np.array(list(unknowns.numbers.values()))


def unknowns_of(b: Vector, theta: Vector, like: Unknowns) -> Unknowns:
    """The inverse of `arrays_of`."""
    num_terms, num_fields = like.b.shape
    parameters = dict(zip(like.parameters, jax.device_put(list(theta)), strict=True))
    return Unknowns(jax.device_put(b.reshape(num_fields, num_terms).T), parameters)


def levels(basis: WholeBasis) -> Float[np.ndarray, "terms axes"]:
    """Degree or frequency of each term along each axis."""
    if isinstance(basis, ShapeBasis):
        return basis.degrees[:, None] * 1.0
    sizes = zip(basis.families, basis.num_functions, basis.indices.T, strict=True)
    return np.stack([family.levels(size)[column] for family, size, column in sizes], axis=1) * 1.0


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


# ---- Normal equations for a weight of the data ----

# Cross-validation says nothing where the data are all but interpolated.
MAX_INFLUENCE = 0.9
# What keeps the normal equations positive, relative to their diagonal.
FLOOR = 1e-13


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

    def first(self, size: int) -> "Linearized":
        """The problem in the first unknowns alone."""
        first = slice(size)
        return dataclasses.replace(
            self,
            normal=self.normal[first, first],
            gradient=self.gradient[first],
            data=self.data[:, first],
            data_normal=self.data_normal[first, first],
        )

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
        """trace H / N: how much a datum moves the solution at its own point, on average."""
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


# ---- A start from the data alone ----

PENALTIES = 10.0 ** np.arange(2, -15, -1)
# The fall of the sum of squares in a step, relative to it, at which steps end.
CONVERGED = 1e-4


@dataclasses.dataclass(frozen=True, eq=False)
class SmoothFit:
    """A smooth b from the data alone, its cross-validated error, and whether all fields have data.

    The error is the root mean square at a datum, infinite where the data are too few to tell.
    """

    unknowns: Unknowns
    score: float = np.inf
    is_complete: bool = False


def smooth_fit(blocks: tuple[Block, ...], basis: WholeBasis, unknowns: Unknowns) -> SmoothFit:
    """Data without the equation: the parameters stay as they are.

    The penalty on a coefficient grows with the fourth power of its degrees, and is chosen by
    cross-validation.
    """
    _, data = equation_and_data(blocks, unknowns)
    here = data.linearize(np.zeros(unknowns.b.size), arrays_of(unknowns)[1])
    jacobian = data.jacobian(here)
    num_terms, num_fields = unknowns.b.shape
    roughness = np.tile((1.0 + np.sum(levels(basis) ** 2, axis=1)) ** 2, num_fields)
    nothing, gram = np.zeros(len(roughness)), jacobian.T @ jacobian
    system = Linearized(np.diag(roughness), nothing, 0.0, jacobian, gram, here.residual)
    candidates = [system.weighted(penalty**-0.5) for penalty in PENALTIES]
    best = min(candidates, key=lambda each: each.score)
    b = -best.step.reshape(num_fields, num_terms).T
    fitted = Unknowns(jnp.asarray(b, unknowns.b.dtype), unknowns.parameters)
    measured = np.any(jacobian.reshape(-1, num_fields, num_terms) != 0, axis=(0, 2))
    return SmoothFit(fitted, best.score / math.sqrt(len(data.blocks)), bool(np.all(measured)))


def fit_parameters(blocks: tuple[Block, ...], smooth: SmoothFit) -> Unknowns:
    """The parameters for which the equation fits b best, by Gauss-Newton on them alone.

    They stay as they are if a field has no data.
    """
    unknowns = smooth.unknowns
    if not smooth.is_complete:
        return unknowns
    equation, _ = equation_and_data(blocks, unknowns)
    b, theta = arrays_of(unknowns)

    def lower(theta: Vector, here: RowsAt) -> tuple[Vector, RowsAt] | None:
        if not (np.isfinite(here.square) and np.all(np.isfinite(here.by_parameter))):
            return None
        solution, _ = least_squares.solve(here.by_parameter.copy(), here.residual[:, None])
        moved = lambda fraction: theta - fraction * solution[:, 0]
        found = halve(
            lambda fraction: (moved(fraction), equation.linearize(b, moved(fraction))),
            lambda point: point[1].square < (1 - CONVERGED) * here.square,
            MAX_HALVINGS,
        )
        return found.point if found.is_lower else None

    here = equation.linearize(b, theta)
    for _ in range(MAX_STEPS):
        found = lower(theta, here)
        if found is None:
            break
        theta, here = found
    return unknowns_of(b, theta, unknowns)


# ---- b and parameters together, the data weighed against the equation ----

# Between a weight and the next, and where they end.
WEIGHT_STEP, MIN_WEIGHT, MAX_WEIGHT = 10**0.5, 1e-3, 1e4
# The relative fall of the sum of squares in a step from which on the weight is chosen.
NEAR = 1e-2
# Steps end as well when the parameters move by less than this fraction of their deviations.
WITHIN = 0.1
# Relative steps of the parameters that the rounding of normal equations may leave.
TINY = 1e-6


@dataclasses.dataclass(frozen=True, eq=False)
class WeighedProblem:
    """Equation with conditions, and data, which are linear in b: their Jacobian is constant.

    Unknowns are b and theta in one vector.
    """

    equation: Rows
    data: Rows
    data_jacobian: Float[np.ndarray, "data columns"]
    data_normal: Float[np.ndarray, "columns columns"]

    def linearized(self, x: Vector) -> Linearized:
        residual, jacobian = self.equation.linearized(x)
        return Linearized(
            # NumPy sees the symmetry: half the work of a product in JAX.
            jacobian.T @ jacobian,
            residual @ jacobian,
            float(residual @ residual),
            self.data_jacobian,
            self.data_normal,
            self.data.at(x).residual,
        )

    def value(self, x: Vector, weight: float) -> float:
        return self.equation.at(x).square + weight**2 * self.data.at(x).square

    def lowered(
        self, x: Vector, solved: Weighted, value: float
    ) -> tuple[Vector, float, float] | None:
        """Unknowns with a smaller sum of squares, the sum, and the fraction of the step; or None.

        Where data count little, a whole step leaves the solutions of the equation. Before it is
        halved, b is solved for with the parameters after it.
        """
        count = len(self.equation.names)

        def at(fraction: float) -> tuple[Vector, float]:
            moved = x - fraction * solved.step
            new = self.value(moved, solved.weight)
            if fraction == 1.0 and value <= new < np.inf:
                of_b = self.linearized(moved).first(len(x) - count).weighted(solved.weight)
                moved = moved - np.pad(of_b.step, (0, count))
                new = self.value(moved, solved.weight)
            return moved, new

        found = halve(at, lambda point: point[1] < value, MAX_HALVINGS)
        return (*found.point, found.fraction) if found.is_lower else None


def fit_with_data(
    blocks: tuple[Block, ...], unknowns: Unknowns, weight: float, *, is_near: bool = False
) -> DataFit:
    """Gauss-Newton on all unknowns; near the minimum the weight of the data is chosen.

    The blocks of the data come with their own weights, which `weight` multiplies. Steps end when
    the sum of squares no longer falls, or the parameters move by less than the noise leaves open.
    """
    equation, data = equation_and_data(blocks, unknowns)
    x, count = np.concatenate(arrays_of(unknowns)), len(unknowns.parameters)
    _, jacobian = data.linearized(x)
    problem = WeighedProblem(equation, data, jacobian, jacobian.T @ jacobian)
    if not np.isfinite(problem.value(x, weight)):
        raise ValueError(
            "the residual is not finite for a fit of the data with the parameters "
            + ", ".join(f"{name} = {value:.4g}" for name, value in unknowns.parameters.items())
            + "; look for roots and logarithms in it, or give other first guesses"
        )
    sums: list[float] = []
    is_chosen, lowest, is_converged = False, np.inf, False
    for _ in range(MAX_STEPS):
        system = problem.linearized(x)
        solved = system.weighted(weight)
        if is_near and not is_chosen:
            solved, lowest = _best(system, solved, lowest)
            is_chosen, weight = solved.weight == weight, solved.weight
        value = system.value(weight)
        sums += [value] if not sums else []
        found = problem.lowered(x, solved, value)
        if found is None:
            if is_chosen:
                # A step that moves no parameter by more than rounding may is none.
                is_tiny = np.all(np.abs(solved.step[-count:]) <= TINY * np.abs(x[-count:]))
                is_converged = _is_within_noise(solved, count) or bool(is_tiny)
                break
            is_near = True
            continue
        x, new, fraction = found
        fall = value - new
        sums.append(new)
        is_near = is_near or (fraction == 1.0 and fall <= NEAR * value)
        has_ended = fall <= CONVERGED * value or _is_within_noise(solved, count)
        if is_chosen and fraction == 1.0 and has_ended:
            is_converged = True
            break
    deviations = [] if np.isinf(solved.score) else solved.deviations(count).tolist()
    squares = [float(jnp.sum((b.weights[:, None] * b.target) ** 2)) for b in data.blocks]
    return DataFit(
        unknowns_of(x[:-count], x[-count:], unknowns),
        weight,
        solved.score,
        solved.misfit,
        math.sqrt(sum(squares)),
        dict(zip(unknowns.parameters, deviations, strict=False)),
        sums,
        is_converged,
    )


def _is_within_noise(solved: Weighted, count: int) -> bool:
    if np.isinf(solved.score):
        return False
    return bool(np.all(np.abs(solved.step[-count:]) <= WITHIN * solved.deviations(count)))


def _best(system: Linearized, now: Weighted, lowest: float) -> tuple[Weighted, float]:
    """The smallest weight near the one now that is hardly worse than the best, and its score.

    `lowest` is the best score so far. The linearization does not reach far: one step up, or two
    steps down, and then again.
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


# ---- Parameters alone, where equation and conditions determine u ----

# Equation and conditions determine b if the condition number of their columns, scaled to unit
# length, is below this: measured are 1e2 to 1e4, and 1e10 to infinity where a condition is missing.
MAX_CONDITION = 1e7
# Linearized at a field of at most these levels: the null space of a smooth operator is smooth.
SMOOTH_LEVEL = 2
# Newton steps for b at given parameters, halvings of each, and the relative size at which they end.
MAX_FORWARD_STEPS, MAX_FORWARD_HALVINGS = 25, 8
FORWARD_TOLERANCE = 1e-9
# Levenberg-Marquardt: its steps, the first damping, and where damping ends.
MAX_DAMPED_STEPS = 60
FIRST_DAMPING, MIN_DAMPING, MAX_DAMPING = 1e-2, 1e-14, 1e8
RAISE, LOWER = 5.0, 10.0
# The steps end where one moves the predictions by this fraction of the noise, or of the data.
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

    equation: Rows
    design: Matrix
    minus_values: Vector

    def forward(self, theta: Vector, b: Vector) -> Forward | None:
        """Newton's method for b from a given one; None where it does not come to an end."""
        here = self.equation.linearize(b, theta)
        for _ in range(MAX_FORWARD_STEPS):
            found = self._stepped(theta, b, here)
            if found is None:
                return None
            b, here, slopes, is_last = found
            if is_last:
                misfit = self.minus_values + self.design @ b
                return Forward(theta, b, slopes, misfit, self.design @ slopes)
        return None

    def _stepped(
        self, theta: Vector, b: Vector, here: RowsAt
    ) -> tuple[Vector, RowsAt, Matrix, bool] | None:
        """b after a Newton step, the rows there, db/dtheta, and whether no step need follow.

        None where the step does not exist, or does not lower the residual.
        """
        jacobian = self.equation.jacobian(here)
        if not (np.isfinite(here.square) and np.all(np.isfinite(jacobian))):
            return None
        scale = _lengths(jacobian)
        right = np.column_stack([here.residual, here.by_parameter])
        solution, is_singular = least_squares.solve(jacobian, right)
        if is_singular or not np.all(np.isfinite(solution)):
            return None
        step, slopes = solution[:, 0], -solution[:, 1:]
        (moved, there), fraction, _ = halve(
            lambda fraction: (
                b - fraction * step,
                self.equation.linearize(b - fraction * step, theta),
            ),
            lambda point: point[1].square < here.square,
            MAX_FORWARD_HALVINGS,
        )
        fall = here.square - there.square
        # At a minimum rounding decides whether the residual falls; elsewhere it has to.
        is_last = _norm(scale * step) <= FORWARD_TOLERANCE * _norm(scale * moved)
        if fraction == 1.0:
            is_last |= here.is_same_operator(there)
            is_last |= 0 <= fall <= FORWARD_TOLERANCE * here.square
        return (moved, there, slopes, is_last) if fall > 0 or is_last else None

    def minimize(self, start: Forward) -> Estimate:
        """Levenberg-Marquardt on the parameters, each scaled by what it does to the data."""
        here, damping, scales = start, FIRST_DAMPING, np.zeros(len(start.theta))
        squares = [start.square]
        for _ in range(MAX_DAMPED_STEPS):
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


def is_determined(blocks: tuple[Block, ...], basis: WholeBasis, unknowns: Unknowns) -> bool:
    """Whether equation and conditions leave no direction of b open.

    For the parameters as given, or with one of the signs changed: diffusion backward in time
    determines nothing.
    """
    equation, _ = equation_and_data(blocks, unknowns)
    b = np.asarray(smooth_fit(blocks, basis, unknowns).unknowns.b)
    b = np.where(np.max(levels(basis), axis=1, keepdims=True) <= SMOOTH_LEVEL, b, 0.0)
    _, theta = arrays_of(unknowns)
    # Zero is a common first guess, for which a coefficient says nothing.
    theta = np.where(theta == 0, 1.0, theta)
    signs = 1 - 2 * np.eye(len(theta) + 1, len(theta), -1)
    return any(_has_full_rank(equation, b.T.ravel(), sign * theta) for sign in signs)


def _has_full_rank(rows: Rows, b: Vector, theta: Vector) -> bool:
    here = rows.linearize(b, theta)
    matrix = rows.jacobian(here)
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
    equation, data = equation_and_data(blocks, unknowns)
    b, theta = arrays_of(unknowns)
    at_zero = data.linearize(np.zeros(len(b)), np.ones(len(theta)))
    counts = [np.full(block.num_points, block.num_points) for block in data.blocks]
    scale = np.sqrt(np.concatenate(counts))
    design = scale[:, None] * data.jacobian(at_zero)
    problem = ReducedProblem(equation, design, scale * at_zero.residual)
    others = [np.array([guess[name] for name in unknowns.parameters]) for guess in guesses]
    solved = [problem.forward(start, b) for start in (theta, *others)]
    found = [each for each in solved if each is not None]
    if not found:
        return None
    # The first is the user's own, or that of the basis before.
    followed = [found[0], *sorted(found[1:], key=lambda each: each.square)[:NUM_FOLLOWED]]
    estimates = [problem.minimize(each) for each in followed]
    least = min(each.forward.square for each in estimates)
    best = next(each for each in estimates if each.forward.square <= (1 + TIE) * least)
    if others:
        best = _with_signs(problem, best, others[0])
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
