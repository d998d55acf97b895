"""Unknown parameters where equation and conditions determine u: least squares on the data alone.

For parameters theta the coefficients b(theta) minimize |F(b, theta)|, the residual of the equation
and the conditions. What is left is a small nonlinear least-squares problem,

    min over theta of |D b(theta) - y|,    db/dtheta = -J_b^+ J_theta,

solved by Levenberg-Marquardt (variable projection: Golub and Pereyra, 1973). The data do not bend
the equation, and the standard deviations are those of any nonlinear regression. Linear algebra is
NumPy's: only the equation at its points is compiled, for no basis in particular.
"""

import dataclasses
import itertools
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import scipy.linalg

from pann.basis import Basis
from pann.pde.blocks import Block
from pann.pde.data_fit import DataFit, is_data, levels, smooth_fit
from pann.pde.linearization import Matrix, Rows, RowsAt, Vector, flat, theta_of, unknowns_of
from pann.pde.newton import Unknowns

# Equation and conditions determine b if the condition number of their columns, scaled to unit
# length, is below this: measured are 1e2 to 1e4, and 1e10 to infinity where a condition is missing.
MAX_CONDITION = 1e7
# Linearized at a field of at most these levels: the null space of a smooth operator is smooth.
SMOOTH_LEVEL = 2
# Newton steps for b at given parameters, halvings of each, and the relative size at which they end.
MAX_FORWARD_STEPS = 25
MAX_HALVINGS = 8
FORWARD_TOLERANCE = 1e-9
# Pivots below this, relative to the largest, make a matrix singular.
SINGULAR = 1e-13
# Levenberg-Marquardt: its steps, the first damping, and where damping ends.
MAX_STEPS = 60
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
            for share in 0.5 ** np.arange(MAX_HALVINGS):
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
        for _ in range(MAX_STEPS):
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
