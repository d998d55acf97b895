"""Fit values at points: `fit` builds the tables, trains the trials, and gives back a `Fit`."""

import dataclasses
import functools
import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jaxtyping import Float

from pann import devices
from pann.architecture import Architecture, check_widths
from pann.basis import Basis, make_basis, orthonormal_scales
from pann.basis.memory import require_memory
from pann.chunked_data import ChunkedData
from pann.chunks import chunking, parse_bytes
from pann.domain import Box
from pann.loss import Loss, Rows, TrainingRows
from pann.model import MAX_ROWS, PANN, Parameters
from pann.network import Activation, EmbeddingOptions, Initialization, activation_named
from pann.points import Points
from pann.samples import Samples, check_samples
from pann.training import (
    Outcome,
    Recipe,
    Ridge,
    Sizes,
    Task,
    recipe_named,
    run_recipe,
)
from pann.training.chunkable import can_chunk, check_chunks
from pann.training.stage import Report, unstack

# A table is held this often while it is fitted.
TABLE_COPIES = 4
BLOCK = 65_536  # rows scaled at a time


@dataclasses.dataclass(frozen=True)
class Fit:
    """What `fit` gives back: the chosen model, all trials, and how they were trained.

    `model` is the trial with the lowest held-out error, or the lowest training loss where no rows
    were held out.
    """

    model: PANN
    models: tuple[PANN, ...]
    outcomes: tuple[Outcome, ...]
    recipe: Recipe
    why: str
    scores: Float[np.ndarray, " trials"]
    seconds: float

    def __call__(self, points: npt.ArrayLike) -> Float[np.ndarray, "points *outputs"]:
        return self.model(points)

    def errors(self, points: npt.ArrayLike, values: npt.ArrayLike) -> Float[np.ndarray, " trials"]:
        """The relative l2 error |u - y| / |y| of every trial."""
        return np.array([relative_l2(model(points), np.asarray(values)) for model in self.models])

    def __str__(self) -> str:
        lines = [f"{self.model!r}", f"recipe: {self.why}"]
        lines += _summary(self.outcomes, "  ")
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
    degree: int | None = 8,
    basis: Basis | None = None,
    width: int | tuple[int, ...] = 32,
    depth: int = 3,
    activation: str | Activation = "tanh",
    embedding: EmbeddingOptions | None = None,
    dropout: float = 0.0,
    initialization: Initialization | None = None,
    bias: bool | None = None,
    constraint: str | None = None,
    constraint_weight: float = 1e-3,
    norm: str = "frobenius",
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
) -> Fit:
    """Fit u(x) = sum_j a_j psi_j(x) + sum_k b_k phi_k(x) to values at points.

    `degree=None` leaves the polynomial out, `width=0` the network; a tuple of widths gives each
    hidden layer its own, and `depth` is then not used. `values` has shape (N,) or
    (N, outputs). The domain is the points' bounding box unless given. Options that are None follow
    the recipe: `paper` uses constraint E, the preconditioner and no held-out rows; `default` the
    exact constraint, which costs nothing there; a recipe of your own, none. Without `paper` there
    is no preconditioner, and 10% of the rows are held out if there is a network, or recipe
    `products`, which fits products of splines instead of one. The output bias is on exactly where
    there is no polynomial. `held_out` is a share of the rows, or a mask of those to hold out; `pad`
    fills up to few numbers of rows, with rows of weight zero, so that fits of many small tables
    share compiled programs. `memory` is a budget such as "8GB", or a number of bytes: a table that
    takes more is made a chunk, or a minibatch, of rows at a time.
    """
    start = time.perf_counter()
    paper = recipe == "paper"
    samples = check_samples(points, values, sample_weight, domain)
    domain, num_outputs = samples.domain, samples.target.shape[1]
    if not isinstance(trials, int | np.integer) or trials < 1:
        raise ValueError(f"trials must be an integer of at least 1, got {trials!r}")
    basis = _basis(domain, degree, basis)
    architecture = Architecture(
        widths=check_widths(width, depth),
        activation=activation_named(activation),
        embedding=embedding,
        dropout=dropout,
        initialization=initialization,
        bias=basis.num_terms == 0 if bias is None else bias,
        precision=precision,
    )
    if not architecture.widths and basis.num_terms == 0:
        raise ValueError("width=0 and degree=None leave nothing to fit; give one of them")
    if held_out is None:
        is_guarded = bool(architecture.widths) or recipe == "products"
        held_out = 0.1 if is_guarded and not paper else 0.0
    train, validation = _split(len(samples.coordinates), held_out, seed)
    loss = Loss(
        constraint=constraint or {"paper": "E", "default": "exact"}.get(str(recipe), "none"),
        constraint_weight=constraint_weight,
        norm=norm,
        reduction=reduction,
    )

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
        if largest < len(train) or (devices.several() and can_chunk(stages, loss, basis)):
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
        trained, outcomes = run_recipe(stages, task, stacked)
        scores = _scores(task, trained)
        models = tuple(
            PANN(domain, basis, parameters, precision, samples.num_outputs).compact()
            for parameters in unstack(trained, trials)
        )
    best = int(np.nanargmin(scores)) if np.any(np.isfinite(scores)) else 0
    return Fit(
        model=models[best],
        models=models,
        outcomes=outcomes,
        recipe=stages,
        why=why,
        scores=scores,
        seconds=time.perf_counter() - start,
    )


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


def _basis(domain: Box, degree: int | None, basis: Basis | None) -> Basis:
    if basis is not None:
        if basis.domain != domain:
            raise ValueError(
                f"the basis lives on {basis.domain}, the points on {domain}; make both with the "
                "same domain"
            )
        return basis
    if degree is not None and not isinstance(degree, int | np.integer):
        raise ValueError(f"degree must be an integer or None, got {degree!r}")
    whole = make_basis(domain, 0 if degree is None else int(degree))
    return whole.subset(np.arange(0)) if degree is None else whole


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


def _scores(task: Task, trained: Parameters) -> np.ndarray:
    return np.asarray(task.figures(trained)["data" if task.held_out is None else "held_out"])


def _summary(outcomes: tuple[Outcome, ...], indent: str) -> list[str]:
    """A line a stage: why it stopped and how long it took; inner stages below it, indented."""
    lines = []
    for outcome in outcomes:
        remark = "; ".join((*dict.fromkeys(outcome.reasons), *outcome.notes))
        lines.append(f"{indent}{type(outcome.stage).__name__}: {remark} ({outcome.seconds:.1f} s)")
        lines += _summary(outcome.inner, indent + "  ")
    return lines
