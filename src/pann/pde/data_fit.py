"""b and unknown parameters from an equation and data that may be noisy.

The start is a smooth fit of the data alone, with the parameters for which the equation fits it
best: from zero Gauss-Newton would end in a trivial solution of the equation. Then all are solved
for together, and how much the data count against the equation is chosen by generalized
cross-validation (Golub, Heath and Wahba, 1979): with N data and the influence matrix H(w) of the
linearized problem,

    |misfit(w)| / (1 - trace H(w) / N)

estimates the error at data left out, and the smallest weight w is taken for which it is within one
standard error of the best: a larger one follows the noise, a smaller one asks of the basis what
it cannot do. By normal equations, which are enough where data are noisy; where
they are exact, `pann.pde.newton` goes on from here. Where equation and conditions determine u for
given parameters, nothing needs to be weighed: `pann.pde.reduced_fit`.
"""

import dataclasses
import functools
import math

import jax.numpy as jnp
import numpy as np
import scipy.linalg
from jaxtyping import Float

from pann.basis import Basis
from pann.pde.blocks import Block
from pann.pde.linearization import Rows, flat, residual_at, rows_at, theta_of, unknowns_of
from pann.pde.newton import Unknowns

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
