"""fit(points, values, method): make the tables, train the trials, give back a `Fit`."""

import dataclasses
import math
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jaxtyping import Float

from pann.basis import Basis, ShapeBasis, WholeBasis, make_basis, orthonormal_scales
from pann.domain import Box
from pann.methods import (
    MLP,
    FitMethod,
    Hybrid,
    Polynomial,
    Products,
    RunOptions,
    Training,
    check_verb,
)
from pann.model.architecture import Architecture
from pann.model.pann import MAX_ROWS, PANN, Parameters
from pann.points import Points
from pann.regression.samples import Data, Samples, check_samples
from pann.runtime import chunks
from pann.runtime.chunks import chunking, parse_bytes
from pann.runtime.limits import Report
from pann.runtime.memory import require_memory
from pann.runtime.progress import supervised
from pann.shapes import Shape
from pann.training import Outcome, Recipe, Ridge, Sizes, Task, recipe_named, run_recipe
from pann.training.chunked_rows import ChunkedData
from pann.training.constraints import CONSTRAINTS
from pann.training.guard import stop_reason
from pann.training.loss import CONSTRAINT_NAMES, Loss, Rows, TrainingRows
from pann.training.recipes import can_chunk, check_chunks, follows_gradients
from pann.training.task import FIGURE_ROWS, unstack

# The default degree: the largest, up to this one, with so many training rows for each term. With
# fewer rows per term least squares amplifies noise, and between the points it may be wild.
MAX_DEFAULT_DEGREE = 8
ROWS_PER_TERM = 3
# A table is held this often while it is fitted.
TABLE_COPIES = 4
BLOCK = 65_536  # rows scaled at a time
DEFAULT_WIDTH, DEFAULT_DEPTH = 32, 3
# Constraints that add a weighted term to the loss; those of a matrix have a norm.
WEAK = tuple(name for name in CONSTRAINT_NAMES if name in CONSTRAINTS)
WEIGHTED = (*WEAK, "l1")


@dataclasses.dataclass(frozen=True, eq=False)
class Prepared:
    """A fit before its training; `num_outputs` is None for values without an axis of outputs.

    `mean_square` and `variance` are those of the values; `has_own_domain` says that the user gave
    none, and it is the points' bounding box.
    """

    method: FitMethod
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
    data: Data, method: FitMethod, run: RunOptions, report: Report | None = None
) -> Prepared:
    """Check a method against the data, make the rows, and draw the trials."""
    recipe, loss = recipe_and_loss(method)
    samples = check_samples(data)
    domain, num_outputs = samples.domain, samples.target.shape[1]
    is_paper = recipe == "paper"
    held_out = data.held_out
    if held_out is None:
        is_guarded = _network_of(method) is not None or recipe == "products"
        held_out = 0.1 if is_guarded and not is_paper else 0.0
    train, validation = _split(len(samples.coordinates), held_out, run.seed)
    basis, chosen = _basis(domain, method.degree, method.basis, len(train))
    architecture = architecture_of(method, basis, run.precision)
    if not architecture.widths and basis.num_terms == 0:
        raise ValueError("without a network and without a degree there is nothing to fit")

    with jax.enable_x64(True), jax.default_matmul_precision("highest"):
        sizes = sizes_of(architecture, basis, len(train), num_outputs)
        stages, why = recipe_named(recipe, sizes)
        _check_constraint(method, loss, stages)
        # A penalty holds a plane with more columns than rows in check.
        penalized = np.max(basis.degrees, initial=0) <= 1 and any(
            isinstance(stage, Ridge) for stage in stages
        )
        _check_enough_points(
            basis, len(train), may_be_fewer=penalized or (is_paper and loss.constraint != "exact")
        )
        largest = _rows_per_chunk(len(train), architecture, basis, run)
        in_chunks = largest < len(train) or (chunks.several() and can_chunk(stages, loss, basis))
        if in_chunks:
            check_chunks(stages, loss, basis)
        make_rows = lambda chosen: _training_rows(
            samples,
            basis,
            chosen,
            run.precision,
            pad=data.pad,
            largest=largest if in_chunks else None,
        )
        key, init_key = jax.random.split(jax.random.key(run.seed))
        scales = None
        if not isinstance(method, Products) and method.preconditioner:
            scales = jnp.asarray(orthonormal_scales(basis), run.precision)
        task = Task(
            rows=make_rows(train),
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
            for trial in range(run.trials)
        ]
        stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *starts)
    return Prepared(
        method=_filled(method, basis, architecture),
        domain=domain,
        basis=basis,
        architecture=architecture,
        num_outputs=samples.num_outputs,
        trials=run.trials,
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
        has_own_domain=data.domain is None,
    )


def recipe_and_loss(method: FitMethod) -> tuple[str | Recipe, Loss]:
    """The stages of a method, or the name of those that depend on the data, and their loss."""
    if isinstance(method, FitMethod):
        check_verb(method, "fit")
    match method:
        case Polynomial():
            return "default", Loss("exact")
        case Products():
            return "products", Loss("none")
        case Hybrid():
            if method.network is not None and method.network.gated:
                raise ValueError(
                    "gated layers are fitted to data by gradients; use pann.Training(...), or "
                    "gated=False"
                )
            return "default", Loss(method.constraint)
        case Training():
            for name, goes_with in {"constraint_weight": WEIGHTED, "norm": WEAK}.items():
                if getattr(method, name) is not None and method.constraint not in goes_with:
                    raise ValueError(
                        f"{name} has no effect with the constraint '{method.constraint}'; leave it "
                        f"out, or give a constraint of {', '.join(goes_with)}"
                    )
            return "paper" if method.stages is None else method.stages, Loss(
                method.constraint,
                1e-3 if method.constraint_weight is None else method.constraint_weight,
                norm=method.norm or "frobenius",
                reduction=method.reduction,
            )
    raise ValueError(
        "the method of a fit is Polynomial(...), Hybrid(...), Training(...) or Products(...) of "
        f"pann, got {method!r}"
    )


def _check_constraint(method: FitMethod, loss: Loss, stages: Recipe) -> None:
    """Refuse a constraint that no stage reads."""
    own = isinstance(method, Training) and method.stages is not None
    if own and loss.constraint in WEIGHTED and not follows_gradients(stages):
        raise ValueError(
            f"the constraint '{loss.constraint}' has no effect: no stage follows gradients of the "
            "loss; give Training.paper(), stages Adam and LBFGS, or constraint='exact'"
        )


def _network_of(method: FitMethod) -> MLP | None:
    """The network that a method trains, if it does."""
    if isinstance(method, Hybrid | Training):
        return MLP() if method.network is None and isinstance(method, Hybrid) else method.network
    return None


def architecture_of(method: FitMethod, basis: Basis, precision: str) -> Architecture:
    """The network of a method with every size; it has no layers where there is none."""
    network, bias = _network_of(method), basis.num_terms == 0
    width = 0 if network is None else DEFAULT_WIDTH
    return (network or MLP()).architecture(
        width, DEFAULT_DEPTH, "tanh", bias=bias, precision=precision
    )


def sizes_of(architecture: Architecture, basis: Basis, num_points: int, num_outputs: int) -> Sizes:
    """How much there is to train on that many points."""
    with jax.enable_x64(True):
        count = architecture.num_network_parameters(basis.domain.dimension, num_outputs)
    return Sizes(
        num_points=num_points,
        num_terms=basis.num_terms,
        num_network_parameters=count,
        num_outputs=num_outputs,
        dropout=architecture.dropout > 0,
        precision=architecture.precision,
    )


def _filled(method: FitMethod, basis: Basis, architecture: Architecture) -> FitMethod:
    """The method with the sizes that were chosen for it."""
    own: dict[str, Any] = {}
    if method.degree == "auto" and method.basis is None:
        own["degree"] = int(np.max(basis.degrees, initial=0))
    if network := _network_of(method):
        if network.width is None:
            network = dataclasses.replace(network, width=architecture.widths, depth=None)
        own["network"] = network
    return dataclasses.replace(method, **own)


def _mean_square(
    values: Float[np.ndarray, "points outputs"], weights: Float[np.ndarray, " points"]
) -> float:
    """The weighted mean over the points of the sum of squares of the outputs."""
    return float(np.mean(weights * np.sum(values**2, axis=1)))


def _training_rows(
    samples: Samples,
    basis: Basis,
    chosen: np.ndarray,
    precision: str,
    *,
    pad: bool,
    largest: int | None,
) -> TrainingRows:
    """The chosen rows: with their table, or, without it, in chunks of at most so many."""
    count = len(chosen)
    if pad and largest is None:
        chosen = np.resize(chosen, padded_size(count))
    # In blocks: neither rows nor table are ever held in a wider format than asked for.
    x = np.empty((len(chosen), samples.domain.dimension), precision)
    for start in range(0, len(chosen), BLOCK):
        some = slice(start, start + BLOCK)
        x[some] = samples.domain.to_reference(samples.coordinates[chosen[some]])
    target = samples.target[chosen].astype(precision)
    weights = np.sqrt(samples.weights[chosen])
    # The mean over the rows counts the padding as well.
    weights[:count] *= np.sqrt(len(chosen) / count)
    weights[count:] = 0.0
    weights = weights.astype(precision)
    if largest is not None:
        parts = chunking(count, largest)
        padded = jnp.asarray(parts.pad(weights))
        return ChunkedData(parts.split(x), parts.split(target), padded, basis, parts)
    require_memory(
        x.itemsize * len(chosen) * basis.num_terms,
        f"a table of {len(chosen):,} points and {basis.num_terms:,} terms",
        "lower the degree, use index_set='hyperbolic_cross', or give fewer points",
    )
    table = np.empty((len(chosen), basis.num_terms), precision)
    for rows, block in basis.table_blocks(samples.coordinates[chosen]):
        table[rows] = block
    return Rows(*map(jnp.asarray, (x, table, target, weights)))


def _rows_per_chunk(count: int, architecture: Architecture, basis: Basis, run: RunOptions) -> int:
    """How many rows may be held at once with their table, features and gradients: all, if so."""
    item = np.dtype(run.precision).itemsize
    whole = TABLE_COPIES * item * basis.num_terms * count
    memory = None if run.memory is None else parse_bytes(run.memory)
    if memory is None or whole <= memory:
        return count
    per_row = item * (TABLE_COPIES * basis.num_terms + 4 * run.trials * sum(architecture.widths))
    return max(1, min(count - 1, MAX_ROWS * jax.device_count(), int(memory // per_row)))


def padded_size(count: int) -> int:
    """The next power of two from 64 to 4096; above, the number itself."""
    return max(64, 1 << (count - 1).bit_length()) if count <= 4096 else count


def _basis(
    domain: Box, degree: int | str | None, basis: WholeBasis | None, num_rows: int
) -> tuple[Basis, str]:
    """The basis, and what there is to say about its degree."""
    if isinstance(basis, ShapeBasis):
        raise ValueError("data are fitted in a basis of a box: give pann.make_basis(domain, ...)")
    if basis is not None:
        if basis.domain != domain:
            raise ValueError(
                f"the basis lives on {basis.domain}, the points on {domain}; make both with the "
                "same domain"
            )
        return basis, ""
    if degree == "auto":
        return _default_basis(domain, num_rows)
    # No degree is a basis without terms.
    whole = make_basis(domain, int(degree or 0))
    return (whole.subset(np.arange(0)) if degree is None else whole), ""


def _default_basis(domain: Box, num_rows: int) -> tuple[Basis, str]:
    num_terms = lambda degree: math.comb(domain.dimension + degree, degree)
    affordable = [
        d for d in range(MAX_DEFAULT_DEGREE + 1) if ROWS_PER_TERM * num_terms(d) <= num_rows
    ]
    degree = max(affordable, default=0)
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
    # The degree of the first term that has no point is one too high.
    allowed = max(int(np.sort(basis.degrees)[num_points]) - 1, 0)
    raise ValueError(
        f"the basis has {basis.num_terms} terms but there are only {num_points} points to fit "
        f"them to; use a degree of at most {allowed}, more points, or "
        "pann.Training.paper()"
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
    method: FitMethod
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
        lines = [f"{self.model!r}", f"{self.method!r}: {self.why}"]
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
    method: FitMethod | None = None,
    *,
    domain: Box | Shape | None = None,
    sample_weight: npt.ArrayLike | None = None,
    held_out: float | np.ndarray | None = None,
    pad: bool = False,
    trials: int = 1,
    seed: int = 0,
    precision: str = "float64",
    memory: int | float | str | None = None,
    time_limit: float | int | None = None,
    progress: bool | Report | None = None,
) -> Fit:
    """Fit u(x) = sum_j a_j psi_j(x) + sum_k b_k phi_k(x) to values at points.

    Parameters
    ----------
    points
        Array of shape (N, d), (N,) in one dimension, or `Points`.
    values
        Array of shape (N,) or (N, outputs).
    method
        `pann.Polynomial(...)`, `pann.Hybrid(...)`, `pann.Training(...)` or `pann.Products(...)`;
        None is `pann.Hybrid()`, whose stages depend on the sizes. `Fit.method` has every choice
        filled in, `Fit.why` says why.
    domain
        The points' bounding box unless given; the model then also predicts a little outside of it
        (see `pann.model.extrapolation`), and farther off what it does at the edge, with a warning.
        Outside of a box that was given it refuses to, outside of a shape it is NaN.
    sample_weight
        A number for each row, at least 0.
    held_out
        Fraction of the rows, or a mask of those, that judge the model and stop training; by default
        10% where there is a network or products of splines, none with `Training.paper()`.
    pad
        Fill up to few numbers of rows, with rows of weight zero, so that fits of many small tables
        share compiled programs.
    trials
        Networks from as many seeds; the one with the lowest held-out error is `Fit.model`.
    seed
        For all random choices.
    precision
        "float64" or "float32", of the model.
    memory
        A budget such as "8GB", or a number of bytes: a table that takes more is computed a chunk,
        or a minibatch, of rows at a time.
    time_limit
        Seconds. After these, or at Ctrl-C, training ends where it next reports, with the best model
        so far, and `Fit.stop` says so.
    progress
        A line of progress: None shows it on a terminal or in a notebook, True always, False never;
        a function gets every `Progress`. With progress=False Ctrl-C is a KeyboardInterrupt.
    """
    run = RunOptions(
        trials=trials, seed=seed, precision=precision, memory=memory, time_limit=time_limit
    )
    data = Data(points, values, domain, sample_weight, held_out, pad)
    method = Hybrid() if method is None else method
    return fit_run(data, method, run, progress, ctrl_c=progress is not False)


def fit_run(
    data: Data,
    method: FitMethod,
    run: RunOptions,
    progress: bool | Report | None = None,
    *,
    ctrl_c: bool = True,
) -> Fit:
    """`fit` with data and options as objects; `ctrl_c` ends it with what it has."""
    start = time.perf_counter()
    recipe_and_loss(method)  # refuse options without effect before the work
    with supervised("fit", progress, run.time_limit, ctrl_c=ctrl_c) as report:
        prepared = prepare(data, method, run, report)
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
        method=prepared.method,
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
    """One line per stage: why it stopped and how long it took; inner stages below it, indented."""
    lines = []
    for outcome in outcomes:
        remark = "; ".join((*dict.fromkeys(outcome.reasons), *outcome.notes))
        lines.append(f"{indent}{type(outcome.stage).__name__}: {remark} ({outcome.seconds:.1f} s)")
        lines += _summary(outcome.inner, indent + "  ")
    return lines
