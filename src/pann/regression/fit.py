"""What `fit` makes of points, values and options before training: a task, and its trials."""

import dataclasses
import functools
import math
import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jaxtyping import Float

from pann.basis import Basis, make_basis, orthonormal_scales
from pann.domain import Box
from pann.model.architecture import Architecture, check_widths
from pann.model.pann import MAX_ROWS, PANN, Parameters
from pann.network import Activation, EmbeddingOptions, Initialization, activation_named
from pann.points import Points
from pann.regression.samples import Samples, check_samples
from pann.regression.unused_options import (
    check_constraint,
    check_constraint_options,
    check_degree,
    check_network_options,
)
from pann.runtime import chunks
from pann.runtime.chunks import chunking, parse_bytes
from pann.runtime.limits import Report
from pann.runtime.memory import require_memory
from pann.runtime.progress import supervised
from pann.training import Outcome, Recipe, Ridge, Sizes, Task, recipe_named, run_recipe
from pann.training.chunked_rows import ChunkedData
from pann.training.guard import stop_reason
from pann.training.loss import Loss, Rows, TrainingRows
from pann.training.recipes import can_chunk, check_chunks
from pann.training.task import FIGURE_ROWS, unstack

# The default degree: the largest, up to this one, with so many training rows for each term. With
# fewer rows per term least squares amplifies noise, and between the points it may be wild.
MAX_DEFAULT_DEGREE = 8
ROWS_PER_TERM = 3
# A table is held this often while it is fitted.
TABLE_COPIES = 4
BLOCK = 65_536  # rows scaled at a time


@dataclasses.dataclass(frozen=True, eq=False)
class Prepared:
    """A fit before its training; `num_outputs` is None for values without an axis of outputs.

    `mean_square` and `variance` are those of the values; `has_own_domain` says that the user gave
    none, and it is the points' bounding box.
    """

    domain: Box
    basis: Basis
    architecture: Architecture
    num_outputs: int | None
    trials: int
    recipe: Recipe
    why: str
    task: Task
    starts: Parameters
    sizes: Sizes
    mean_square: float
    variance: float
    has_own_domain: bool


def prepare(
    points: npt.ArrayLike | Points,
    values: npt.ArrayLike,
    *,
    domain: Box | None,
    degree: int | str | None,
    basis: Basis | None,
    width: int | tuple[int, ...],
    depth: int | None,
    activation: str | Activation | None,
    embedding: EmbeddingOptions | None,
    dropout: float | None,
    initialization: Initialization | None,
    bias: bool | None,
    constraint: str | None,
    constraint_weight: float | None,
    norm: str | None,
    reduction: str,
    preconditioner: bool | None,
    recipe: str | Recipe,
    trials: int,
    held_out: float | np.ndarray | None,
    pad: bool,
    sample_weight: npt.ArrayLike | None,
    precision: str,
    memory: int | float | str | None,
    seed: int,
    report: Report | None,
) -> Prepared:
    """Check the options, which are those of `fit`, make the rows, and draw the trials."""
    paper = recipe == "paper"
    has_own_domain = domain is None
    samples = check_samples(points, values, sample_weight, domain)
    domain, num_outputs = samples.domain, samples.target.shape[1]
    if not isinstance(trials, int | np.integer) or trials < 1:
        raise ValueError(f"trials must be an integer of at least 1, got {trials!r}")
    widths = check_widths(width, 3 if depth is None else depth)
    if held_out is None:
        is_guarded = bool(widths) or recipe == "products"
        held_out = 0.1 if is_guarded and not paper else 0.0
    train, validation = _split(len(samples.coordinates), held_out, seed)
    basis, chosen = _basis(domain, degree, basis, len(train))
    dropout = 0.0 if dropout is None else dropout
    architecture = Architecture(
        widths=widths,
        activation=activation_named("tanh" if activation is None else activation),
        embedding=embedding,
        dropout=dropout,
        initialization=initialization,
        bias=basis.num_terms == 0 if bias is None else bias,
        precision=precision,
    )
    if not architecture.widths and basis.num_terms == 0:
        raise ValueError("width=0 and degree=None leave nothing to fit; give one of them")
    loss = make_loss(recipe, constraint, constraint_weight, norm, reduction)

    with jax.enable_x64(True), jax.default_matmul_precision("highest"):
        sizes = Sizes(
            num_points=len(train),
            num_terms=basis.num_terms,
            num_network_parameters=architecture.num_network_parameters(
                domain.dimension, num_outputs
            ),
            num_outputs=num_outputs,
            dropout=dropout > 0,
            precision=precision,
        )
        stages, why = recipe_named(recipe, sizes)
        # A penalty holds a plane with more columns than rows in check.
        penalized = np.max(basis.degrees, initial=0) <= 1 and any(
            isinstance(stage, Ridge) for stage in stages
        )
        _check_enough_points(
            basis, len(train), may_be_fewer=penalized or (paper and loss.constraint != "exact")
        )
        make_rows: Callable[[np.ndarray], TrainingRows] = functools.partial(
            _rows, samples, basis, precision=precision, pad=pad
        )
        budget = None if memory is None else parse_bytes(memory)
        largest = _rows_a_chunk(len(train), architecture, basis, trials, budget)
        if largest < len(train) or (chunks.several() and can_chunk(stages, loss, basis)):
            check_chunks(stages, loss, basis)
            make_rows = functools.partial(
                _chunked, samples, basis, precision=precision, largest=largest
            )
        train_rows = make_rows(train)
        key, init_key = jax.random.split(jax.random.key(seed))
        scales = None
        if preconditioner or (preconditioner is None and paper):
            scales = jnp.asarray(orthonormal_scales(basis), precision)
        task = Task(
            rows=train_rows,
            held_out=make_rows(validation) if len(validation) else None,
            loss=loss,
            key=key,
            term_scales=scales,
            report=report or (lambda progress: None),
        )
        starts = [
            architecture.start(
                domain.dimension,
                basis.num_terms,
                num_outputs,
                key=jax.random.fold_in(init_key, trial),
            )
            for trial in range(trials)
        ]
        stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *starts)
    return Prepared(
        domain=domain,
        basis=basis,
        architecture=architecture,
        num_outputs=samples.num_outputs,
        trials=trials,
        recipe=stages,
        why=why + chosen,
        task=task,
        starts=stacked,
        sizes=sizes,
        mean_square=_mean_square(samples.target, samples.weights),
        variance=_mean_square(
            samples.target - np.average(samples.target, axis=0, weights=samples.weights),
            samples.weights,
        ),
        has_own_domain=has_own_domain,
    )


def make_loss(
    recipe: str | Recipe,
    constraint: str | None,
    constraint_weight: float | None,
    norm: str | None,
    reduction: str,
) -> Loss:
    """The loss, with the recipe's constraint where none is given."""
    return Loss(
        constraint=constraint or {"paper": "E", "default": "exact"}.get(str(recipe), "none"),
        constraint_weight=1e-3 if constraint_weight is None else constraint_weight,
        norm="frobenius" if norm is None else norm,
        reduction=reduction,
    )


def _mean_square(
    values: Float[np.ndarray, "points outputs"], weights: Float[np.ndarray, " points"]
) -> float:
    """The weighted mean over the points of the sum of squares of the outputs."""
    return float(np.mean(weights * np.sum(values**2, axis=1)))


def _rows(samples: Samples, basis: Basis, chosen: np.ndarray, *, precision: str, pad: bool) -> Rows:
    count = len(chosen)
    if pad:
        chosen = np.resize(chosen, padded_size(count))
    coordinates = samples.coordinates[chosen]
    require_memory(
        np.dtype(precision).itemsize * len(chosen) * basis.num_terms,
        f"a table of {len(chosen):,} points and {basis.num_terms:,} terms",
        "lower the degree, use index_set='hyperbolic_cross', or give fewer points",
    )
    # In blocks: the table is never held in a wider format than asked for.
    table = np.empty((len(chosen), basis.num_terms), precision)
    for rows, block in basis.table_blocks(coordinates):
        table[rows] = block
    weights = np.sqrt(samples.weights[chosen])
    # The mean over the rows counts the padding as well.
    weights[:count] *= np.sqrt(len(chosen) / count)
    weights[count:] = 0.0
    return Rows(
        x=jnp.asarray(samples.domain.to_reference(coordinates), precision),
        table=jnp.asarray(table),
        target=jnp.asarray(samples.target[chosen], precision),
        weights=jnp.asarray(weights, precision),
    )


def _rows_a_chunk(
    count: int, architecture: Architecture, basis: Basis, trials: int, memory: int | None
) -> int:
    """How many rows may be held at once with their table, features and gradients: all, if so."""
    item = np.dtype(architecture.precision).itemsize
    whole = TABLE_COPIES * item * basis.num_terms * count
    if memory is None or whole <= memory:
        return count
    a_row = item * (TABLE_COPIES * basis.num_terms + 4 * trials * sum(architecture.widths))
    return max(1, min(count - 1, MAX_ROWS * jax.device_count(), int(memory // a_row)))


def _chunked(
    samples: Samples, basis: Basis, chosen: np.ndarray, *, precision: str, largest: int
) -> ChunkedData:
    parts = chunking(len(chosen), largest)
    x = np.empty((len(chosen), samples.domain.dimension), precision)
    for start in range(0, len(chosen), BLOCK):
        some = slice(start, start + BLOCK)
        x[some] = samples.domain.to_reference(samples.coordinates[chosen[some]])
    weights = np.sqrt(samples.weights[chosen]).astype(precision)
    return ChunkedData(
        x=parts.split(x),
        target=parts.split(samples.target[chosen].astype(precision)),
        weights=jnp.asarray(parts.pad(weights)),
        basis=basis,
        chunking=parts,
    )


def padded_size(count: int) -> int:
    """The next power of two from 64 to 4096; above, the number itself."""
    return max(64, 1 << (count - 1).bit_length()) if count <= 4096 else count


def _basis(
    domain: Box, degree: int | str | None, basis: Basis | None, num_rows: int
) -> tuple[Basis, str]:
    """The basis, and what there is to say about its degree."""
    if basis is not None:
        if basis.domain != domain:
            raise ValueError(
                f"the basis lives on {basis.domain}, the points on {domain}; make both with the "
                "same domain"
            )
        return basis, ""
    if degree == "auto":
        return _default_basis(domain, num_rows)
    if degree is not None and not isinstance(degree, int | np.integer):
        raise ValueError(f'degree must be an integer, "auto" or None, got {degree!r}')
    whole = make_basis(domain, 0 if degree is None else int(degree))
    return (whole.subset(np.arange(0)) if degree is None else whole), ""


def _default_basis(domain: Box, num_rows: int) -> tuple[Basis, str]:
    num_terms = lambda degree: math.comb(domain.dimension + degree, degree)
    degree = MAX_DEFAULT_DEGREE
    while degree > 0 and ROWS_PER_TERM * num_terms(degree) > num_rows:
        degree -= 1
    basis = make_basis(domain, degree)
    if degree == MAX_DEFAULT_DEGREE:
        return basis, ""
    return basis, (
        f"; degree {degree}, the largest with {ROWS_PER_TERM} of the {num_rows:,} rows for each of "
        f"its {basis.num_terms:,} terms"
    )


def _check_enough_points(basis: Basis, num_points: int, *, may_be_fewer: bool) -> None:
    if may_be_fewer or num_points >= basis.num_terms:
        return
    allowed = int(np.max(basis.degrees))
    while allowed > 0 and np.sum(basis.degrees <= allowed) > num_points:
        allowed -= 1
    raise ValueError(
        f"the basis has {basis.num_terms} terms but there are only {num_points} points to fit "
        f"them to; use a degree of at most {allowed}, more points, or recipe='paper'"
    )


def _split(
    num_points: int, held_out: float | np.ndarray, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """The rows to train on and those to hold out."""
    if isinstance(held_out, np.ndarray):
        if held_out.shape != (num_points,) or held_out.dtype != bool or held_out.all():
            raise ValueError(
                f"held_out needs a boolean for each of {num_points} points, not all of them True, "
                f"got {held_out.dtype} of shape {held_out.shape}"
            )
        return np.flatnonzero(~held_out), np.flatnonzero(held_out)
    if not 0 <= held_out < 1:
        raise ValueError(f"held_out is a share of the rows in [0, 1), got {held_out}")
    order = np.random.default_rng(seed).permutation(num_points)
    count = round(held_out * num_points)
    return np.sort(order[count:]), np.sort(order[:count])


# ---- Fit values at points ----


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
    a little outside of it (see `pann.model.extrapolation`), and farther off what it does at the
    edge, with a warning. Outside of a domain that was given it refuses to. Options that are None
    follow the recipe: `paper` uses constraint E, the preconditioner and no held-out rows; `default`
    the exact constraint, which costs nothing there; a recipe of your own, none. Without `paper`
    there is no preconditioner, and 10% of the rows are held out if there is a network, or recipe
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
