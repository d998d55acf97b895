"""Fit values at points: `fit` builds the tables, trains the trials, and gives back a `Fit`."""

import dataclasses
import time

import jax
import numpy as np
import numpy.typing as npt
from jaxtyping import Float

from pann.basis import Basis
from pann.domain import Box
from pann.fitting import Prepared, make_loss, prepare
from pann.model import PANN, Parameters
from pann.network import Activation, EmbeddingOptions, Initialization
from pann.points import Points
from pann.progress import supervised
from pann.runtime_limits import Report
from pann.training import Outcome, Recipe, Task, run_recipe
from pann.training.guard import stop_reason
from pann.training.stage import FIGURE_ROWS, unstack
from pann.unused_options import (
    check_constraint,
    check_constraint_options,
    check_degree,
    check_network_options,
)

ALL_DONE = "all stages done"


@dataclasses.dataclass(frozen=True)
class Fit:
    """What `fit` gives back: the chosen model, all trials, and how they were trained.

    `model` is the trial with the lowest held-out error, or the lowest training loss where no rows
    were held out. `stop` says how training ended: with all stages done, or by the time limit or
    Ctrl-C, and then what would have come next.
    """

    model: PANN
    models: tuple[PANN, ...]
    outcomes: tuple[Outcome, ...]
    recipe: Recipe
    why: str
    scores: Float[np.ndarray, " trials"]
    seconds: float
    relative_errors: Float[np.ndarray, " trials"]

    @property
    def stop(self) -> str:
        return stop_reason(self.outcomes) or ALL_DONE

    def __call__(self, points: npt.ArrayLike) -> Float[np.ndarray, "points *outputs"]:
        return self.model(points)

    def errors(self, points: npt.ArrayLike, values: npt.ArrayLike) -> Float[np.ndarray, " trials"]:
        """The relative l2 error |u - y| / |y| of every trial."""
        return np.array([relative_l2(model(points), np.asarray(values)) for model in self.models])

    def __str__(self) -> str:
        lines = [f"{self.model!r}", f"recipe: {self.why}"]
        lines += _summary(self.outcomes, "  ")
        if self.stop != ALL_DONE:
            lines.append(f"stopped: {self.stop}")
        terms = ", ".join(
            f"{float(term.coefficients[0]):+.3g} {term.name}" for term in self.model.terms()[:3]
        )
        if terms:
            lines.append(f"leading terms: {terms}")
        return "\n".join(lines)


def relative_l2(predicted: npt.ArrayLike, true: npt.ArrayLike) -> float:
    """|predicted - true| / |true| (the paper's measure of error)."""
    predicted, true = np.asarray(predicted, float), np.asarray(true, float)
    if predicted.shape != true.shape:
        raise ValueError(f"predictions of shape {predicted.shape} against values of {true.shape}")
    return float(np.linalg.norm(predicted - true) / np.linalg.norm(true))


def fit(
    points: npt.ArrayLike | Points,
    values: npt.ArrayLike,
    *,
    domain: Box | None = None,
    degree: int | str | None = "auto",
    basis: Basis | None = None,
    width: int | tuple[int, ...] = 32,
    depth: int | None = None,
    activation: str | Activation | None = None,
    embedding: EmbeddingOptions | None = None,
    dropout: float | None = None,
    initialization: Initialization | None = None,
    bias: bool | None = None,
    constraint: str | None = None,
    constraint_weight: float | None = None,
    norm: str | None = None,
    reduction: str = "mean",
    preconditioner: bool | None = None,
    recipe: str | Recipe = "default",
    trials: int = 1,
    held_out: float | np.ndarray | None = None,
    pad: bool = False,
    sample_weight: npt.ArrayLike | None = None,
    precision: str = "float64",
    memory: int | float | str | None = None,
    seed: int = 0,
    report: Report | None = None,
    progress: bool | Report | None = None,
    time_limit: float | int | None = None,
) -> Fit:
    """Fit u(x) = sum_j a_j psi_j(x) + sum_k b_k phi_k(x) to values at points.

    `degree=None` leaves the polynomial out, `width=0` the network; a tuple of widths gives each
    hidden layer its own, in place of `depth`. The default degree is the largest up to 8 with three
    training rows for each of its terms; `Fit.why` says which. A network has depth 3, activation
    "tanh" and dropout 0 unless given, a constraint the weight 1e-3 and norm "frobenius"; an option
    that has no effect with the others is refused. `values` has shape (N,) or
    (N, outputs). The domain is the points' bounding box unless given; the model then also predicts
    a little outside of it (see `pann.extrapolation`), and farther off what it does at the edge,
    with a warning. Outside of a domain that was given it refuses to. Options that are None follow
    the recipe: `paper` uses constraint E, the preconditioner and no held-out rows; `default` the
    exact constraint, which costs nothing there; a recipe of your own, none. Without `paper` there
    is no preconditioner, and 10% of the rows are held out if there is a network, or recipe
    `products`, which fits products of splines instead of one. The output bias is on exactly where
    there is no polynomial. `held_out` is a share of the rows, or a mask of those to hold out; `pad`
    fills up to few numbers of rows, with rows of weight zero, so that fits of many small tables
    share compiled programs. `memory` is a budget such as "8GB", or a number of bytes: a table that
    takes more is made a chunk, or a minibatch, of rows at a time.

    `progress` shows a line of progress: None on a terminal or in a notebook only, True always,
    False never; a function gets every `Progress` instead, as does that of `report`. After
    `time_limit` seconds, or at Ctrl-C, training ends where it next reports, with the best model so
    far, and `Fit.stop` says so. With progress=False or `report`, which are for programs that make
    many fits, Ctrl-C is a KeyboardInterrupt.
    """
    start = time.perf_counter()
    if report is not None and progress is not None:
        raise ValueError("progress and report are the same option; give one of them")
    given = {
        "depth": depth,
        "activation": activation,
        "embedding": embedding,
        "dropout": dropout,
        "initialization": initialization,
        "constraint_weight": constraint_weight,
        "norm": norm,
    }
    check_network_options(width, given)
    check_degree(degree, basis)
    loss = make_loss(recipe, constraint, constraint_weight, norm, reduction)
    check_constraint_options(loss, given)
    by_program = report is not None or progress is False
    shown = progress if report is None else report
    with supervised("fit", shown, time_limit, ctrl_c=not by_program) as watched:
        prepared = prepare(
            points,
            values,
            domain=domain,
            degree=degree,
            basis=basis,
            width=width,
            depth=depth,
            activation=activation,
            embedding=embedding,
            dropout=dropout,
            initialization=initialization,
            bias=bias,
            constraint=constraint,
            constraint_weight=constraint_weight,
            norm=norm,
            reduction=reduction,
            preconditioner=preconditioner,
            recipe=recipe,
            trials=trials,
            held_out=held_out,
            pad=pad,
            sample_weight=sample_weight,
            precision=precision,
            memory=memory,
            seed=seed,
            report=watched,
        )
        check_constraint(constraint, prepared.recipe)
        trained, outcomes, scores = train(prepared.recipe, prepared.task, prepared.starts)
    return fitted(prepared, trained, outcomes, scores, time.perf_counter() - start)


def train(
    recipe: Recipe, task: Task, starts: Parameters
) -> tuple[Parameters, tuple[Outcome, ...], Float[np.ndarray, " trials"]]:
    """Run the stages; the trained trials, what the stages did, and the errors that choose."""
    with jax.enable_x64(True), jax.default_matmul_precision("highest"):
        trained, outcomes = run_recipe(recipe, task, starts)
        name = "data" if task.held_out is None else "held_out"
        return trained, outcomes, np.asarray(task.figures(trained)[name])


def fitted(
    prepared: Prepared,
    trained: Parameters,
    outcomes: tuple[Outcome, ...],
    scores: Float[np.ndarray, " trials"],
    seconds: float,
) -> Fit:
    """The fit of trials that were trained."""
    precision, num_outputs = prepared.architecture.precision, prepared.num_outputs
    errors = _relative_errors(prepared, scores)
    # A box that was asked for is where the model lives; that of the points is where they happen
    # to end, and new points may lie a little outside.
    allowed = errors.tolist() if prepared.has_own_domain else [None] * prepared.trials
    with jax.enable_x64(True):
        models = tuple(
            PANN(
                prepared.domain, prepared.basis, parameters, precision, num_outputs, error
            ).compact()
            for parameters, error in zip(unstack(trained, prepared.trials), allowed, strict=True)
        )
    best = int(np.nanargmin(scores)) if np.any(np.isfinite(scores)) else 0
    return Fit(
        model=models[best],
        models=models,
        outcomes=outcomes,
        recipe=prepared.recipe,
        why=prepared.why,
        scores=scores,
        seconds=seconds,
        relative_errors=errors,
    )


def _relative_errors(
    prepared: Prepared, scores: Float[np.ndarray, " trials"]
) -> Float[np.ndarray, " trials"]:
    """The error of each trial relative to the deviation of the values, estimated; at most 1.

    From held-out rows, or from the residual at N rows by N / (N - parameters) where there are none.
    """
    if prepared.task.held_out is not None:
        squares = scores**2 * prepared.mean_square
    else:
        sizes = prepared.sizes
        num_fitted = sizes.num_terms + sizes.num_network_parameters / sizes.num_outputs
        left = max(sizes.num_points - num_fitted, 0.0)
        judged = min(sizes.num_points, FIGURE_ROWS)
        total = scores if prepared.task.loss.reduction == "sum" else scores * judged
        squares = total / judged * sizes.num_points / left if left else np.full_like(scores, np.inf)
    with np.errstate(divide="ignore", invalid="ignore"):
        errors = np.sqrt(squares / prepared.variance)
    return np.where(errors < 1, errors, 1.0)


def _summary(outcomes: tuple[Outcome, ...], indent: str) -> list[str]:
    """A line a stage: why it stopped and how long it took; inner stages below it, indented."""
    lines = []
    for outcome in outcomes:
        remark = "; ".join((*dict.fromkeys(outcome.reasons), *outcome.notes))
        lines.append(f"{indent}{type(outcome.stage).__name__}: {remark} ({outcome.seconds:.1f} s)")
        lines += _summary(outcome.inner, indent + "  ")
    return lines
