"""Fit a table of data without a knob to turn: scale, choose a degree, train, keep what helps.

Three models of growing cost are tried on the same training rows: the polynomial alone by ridge
regression; a small tanh PANN by Levenberg-Marquardt, where that is affordable, for smooth
functions with little noise; and a PANN with embedded features by minibatch Adam, for the rest. The
next one is kept if it predicts the held-out rows better by more than a standard error.
"""

import dataclasses
import math
from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from pann.basis import Basis, make_basis, ridge
from pann.domain import Box
from pann.model import PANN
from pann.network import EmbeddingOptions, Periodic
from pann.regression import Fit, fit, padded_size
from pann.scaling import FeatureScaling, TargetScaling, scale_features, scale_targets
from pann.training import Adam, Cosine, Recipe, Ridge, Sizes
from pann.training.stage import Report

# Log-uniform frequencies: the low ones for trends, the high ones for what a tree would split.
EMBEDDING = Periodic(24, 8, (0.5, 30.0))
DEGREE_ROWS = 20_000
FEWEST_ROWS_FOR_NETWORK = 100
FEWEST_ROWS_FOR_EMBEDDING = 2_000
# A Levenberg-Marquardt fit of some 500 iterations in about a minute on two cores.
SECOND_ORDER_OPERATIONS = 8e9


@dataclasses.dataclass(frozen=True)
class Options:
    """What the user asked for; None means: choose.

    `polynomial=False` leaves the polynomial out, `plain` gives the network the features as they
    are.
    """

    degree: int | None = None
    polynomial: bool = True
    index_set: str | None = None
    width: int | tuple[int, ...] | None = None
    depth: int = 3
    activation: str | None = None
    embedding: EmbeddingOptions | None = None
    plain: bool = False
    dropout: float | None = None
    constraint: str | None = None
    preconditioner: bool = False
    recipe: str | Recipe | None = None
    trials: int = 1
    validation_fraction: float = 0.1
    early_stopping: bool = True
    precision: str | None = None
    memory: int = 2 * 2**30
    seed: int = 0


@dataclasses.dataclass(frozen=True)
class TableFit:
    """Models of scaled features and targets, with the scalings and how they came about."""

    models: tuple[PANN, ...]
    features: FeatureScaling
    targets: TargetScaling
    active: np.ndarray
    degree: int
    how: str
    held_out_error: float | None
    fits: dict[str, Fit]

    def __call__(self, rows: Float[np.ndarray, "rows columns"]) -> Float[np.ndarray, "trials rows outputs"]:
        """The prediction of every trial."""
        return sum(self.parts(rows))

    def parts(
        self, rows: Float[np.ndarray, "rows columns"]
    ) -> tuple[Float[np.ndarray, "trials rows outputs"], Float[np.ndarray, "trials rows outputs"]]:
        """The network's and the polynomial's share of the prediction of every trial."""
        scaled = self.features(rows)[:, self.active]
        halves = [model.parts(scaled) for model in self.models]
        network = np.stack([half.network for half in halves]) * self.targets.deviation
        return network, self.targets.undo(np.stack([half.polynomial for half in halves]))


def fit_table(
    rows: Float[np.ndarray, "rows columns"],
    values: Float[np.ndarray, "rows outputs"],
    weights: Float[np.ndarray, " rows"],
    options: Options,
    report: Report | None = None,
) -> TableFit:
    """Fit rows of features to values; rows of weight zero are left out."""
    used = weights > 0
    rows, values, weights = rows[used], values[used], weights[used]
    features, targets = scale_features(rows), scale_targets(values, weights)
    # A table of constants still needs an axis to live on.
    active = np.flatnonzero(~features.is_constant)
    active = active if len(active) else np.arange(1)
    scaled, target = features(rows)[:, active], targets(values)
    basis, degree = choose_basis(scaled, target, weights, options)
    shared = _Shared(
        scaled, target, weights, basis, _hold_out(len(rows), options), options, report
    )
    fits: dict[str, Fit] = {}
    for name, candidate in _candidates(shared).items():
        fits[name] = candidate(shared)
    chosen, error = _choose(shared, fits)
    if chosen == "polynomial":
        fits[chosen] = _polynomial(dataclasses.replace(shared, held_out=np.zeros(len(rows), bool)))
    models = tuple(_in_numpy(model) for model in fits[chosen].models)
    return TableFit(models, features, targets, active, degree, chosen, error, fits)


@dataclasses.dataclass(frozen=True)
class _Shared:
    """What all candidates are trained on."""

    scaled: np.ndarray
    target: np.ndarray
    weights: np.ndarray
    basis: Basis
    held_out: np.ndarray
    options: Options
    report: Report | None

    @property
    def test_weights(self) -> np.ndarray:
        return self.weights[self.held_out]

    @property
    def num_train(self) -> int:
        return int(np.sum(~self.held_out))

    def squares(self, fitted: Fit) -> Float[np.ndarray, " rows"]:
        """Squared errors of the mean of the trials at the held-out rows, over the outputs."""
        test = self.scaled[self.held_out]
        mean = np.mean([model(test) for model in fitted.models], axis=0)
        return np.mean((mean - self.target[self.held_out]) ** 2, axis=1)

    def fit(self, recipe: str | Recipe, precision: str, **sizes: Any) -> Fit:
        return fit(
            self.scaled,
            self.target,
            domain=self.basis.domain,
            basis=self.basis,
            recipe=recipe,
            trials=self.options.trials,
            held_out=self.held_out,
            pad=True,
            sample_weight=self.weights,
            precision=self.options.precision or precision,
            preconditioner=self.options.preconditioner,
            seed=self.options.seed,
            report=self.report,
            **sizes,
        )


def _hold_out(num_rows: int, options: Options) -> np.ndarray:
    """A mask of the rows held out; none where no network is trained or none are wanted."""
    held_out = np.zeros(num_rows, bool)
    wanted = options.early_stopping and _wants_network(num_rows, options)
    if wanted and num_rows >= 4:
        count = max(1, round(options.validation_fraction * num_rows))
        held_out[np.random.default_rng(options.seed).permutation(num_rows)[:count]] = True
    return held_out


def _wants_network(num_rows: int, options: Options) -> bool:
    if options.width is not None:
        return options.width != 0
    return not options.polynomial or num_rows >= FEWEST_ROWS_FOR_NETWORK


def _candidates(shared: _Shared) -> dict[str, Any]:
    """The models to try, by name, the cheapest first."""
    options = shared.options
    if not options.polynomial:
        return {"network": _gradient if options.recipe is None else _as_asked}
    if not _wants_network(len(shared.scaled), options):
        return {"polynomial": _polynomial}
    if options.recipe is not None:
        return {"as asked": _as_asked}
    candidates = {"polynomial": _polynomial}
    by_user = (options.embedding, options.dropout, options.width, options.activation)
    # What only gradients can train, or networks of the user's own, are not replaced by others.
    free = not options.plain and all(option is None for option in by_user)
    if free and options.constraint in (None, "exact", "none") and shared.held_out.any():
        width = _small_width(shared)
        sizes = Sizes(
            shared.num_train,
            shared.basis.num_terms,
            _num_parameters(width, shared),
            shared.target.shape[1],
        )
        if width and sizes.newton_operations <= SECOND_ORDER_OPERATIONS:
            candidates["second order"] = _second_order
    if not free or shared.num_train >= FEWEST_ROWS_FOR_EMBEDDING:
        candidates["gradient"] = _gradient
    return candidates


def _num_parameters(width: int, shared: _Shared) -> int:
    """Numbers in three hidden layers of this width and their outputs."""
    return width * (shared.scaled.shape[1] + 2 * width + 3 + shared.target.shape[1])


def _small_width(shared: _Shared) -> int:
    """The largest width from 4 to 16 that leaves 2.5 rows for every parameter; 0 if none does."""
    widths = [w for w in range(4, 17, 2) if 2.5 * _num_parameters(w, shared) <= shared.num_train]
    return max(widths, default=0)


def _polynomial(shared: _Shared) -> Fit:
    """Ridge regression, no network."""
    return shared.fit((Ridge(),), "float64", width=0, constraint="none")


def _second_order(shared: _Shared) -> Fit:
    """The default recipe on a small tanh network."""
    return shared.fit(
        "default",
        "float64",
        width=_small_width(shared),
        depth=3,
        constraint=shared.options.constraint,
    )


def _gradient(shared: _Shared) -> Fit:
    """Embedded features, dropout, minibatch AdamW, and the state with the best held-out error."""
    options, num_rows = shared.options, padded_size(shared.num_train)
    batch = min(256, 2 ** max(4, int(math.log2(num_rows / 8)))) if num_rows < 100_000 else 1024
    steps_an_epoch = num_rows // batch
    # Up to 80 passes over small tables, at least 8 over large ones.
    epochs = int(np.clip(4e6 / num_rows, 8, 80 if num_rows > 4000 else 200))
    adam = Adam(
        epochs * steps_an_epoch,
        Cosine(2e-3),
        batch_size=batch,
        weight_decay=1e-3,
        patience=max(epochs // 5, 4) * steps_an_epoch if shared.held_out.any() else None,
        record_every=steps_an_epoch,
    )
    # b starts at zero: from the ridge solution the two halves end up worse together.
    return shared.fit(
        (adam,),
        "float32",
        width=options.width or 128,
        depth=options.depth,
        activation=options.activation or "relu",
        embedding=None if options.plain else options.embedding or EMBEDDING,
        dropout=0.2 if options.dropout is None else options.dropout,
        constraint=options.constraint or "none",
    )


def _as_asked(shared: _Shared) -> Fit:
    """The user's recipe, on a plain network unless more was said."""
    options = shared.options
    assert options.recipe is not None
    return shared.fit(
        options.recipe,
        "float64",
        width=32 if options.width is None else options.width,
        depth=options.depth,
        activation=options.activation or "tanh",
        embedding=options.embedding,
        dropout=options.dropout or 0.0,
        constraint=options.constraint,
    )


def _choose(shared: _Shared, fits: dict[str, Fit]) -> tuple[str, float | None]:
    """The candidate kept, and its root mean square error on the held-out rows.

    One after the other replaces the best before it if it is better by a standard error.
    """
    names = list(fits)
    if not shared.held_out.any():
        return names[-1], None
    weights = shared.test_weights / np.mean(shared.test_weights)
    best, lowest = names[0], weights * shared.squares(fits[names[0]])
    for name in names[1:]:
        squares = weights * shared.squares(fits[name])
        gain = lowest - squares
        if np.mean(gain) > np.std(gain) / math.sqrt(len(gain)):
            best, lowest = name, squares
    return best, float(np.sqrt(np.mean(lowest)))


def choose_basis(
    scaled: Float[np.ndarray, "rows columns"],
    target: Float[np.ndarray, "rows outputs"],
    weights: Float[np.ndarray, " rows"],
    options: Options,
) -> tuple[Basis, int]:
    """The basis of the degree asked for, or of that with the lowest left-out error.

    The terms are bounded by a third of the rows and the memory for the table. Total degree and
    hyperbolic cross are both tried unless one is asked for; with a degree but no set given, total
    degree, or the hyperbolic cross where total degree 2 is beyond these bounds.
    """
    domain = Box.cube(scaled.shape[1])
    num_rows = len(scaled)
    if not options.polynomial:
        return make_basis(domain, 0).subset(np.arange(0)), 0
    largest = int(min(num_rows / 3, options.memory / (8 * num_rows), 2000))
    if options.degree is not None:
        index_set = options.index_set or _affordable_set(scaled.shape[1], largest)
        return _basis_asked_for(domain, options, index_set, num_rows), options.degree
    chosen = _evenly(np.arange(num_rows), DEGREE_ROWS)
    rows, values, row_weights = scaled[chosen], target[chosen], weights[chosen]
    best, best_degree, best_error = make_basis(domain, 0), 0, math.inf
    index_sets = (options.index_set,) if options.index_set else ("total_degree", "hyperbolic_cross")
    for index_set in index_sets:
        for degree in _degrees():
            basis = _basis_within(domain, degree, index_set, min(largest, len(chosen) // 3))
            if basis is None:
                break
            error = ridge(basis.table(rows), values, row_weights).error
            # Errors from N rows are not known better than to about 1 / sqrt(N).
            if error < (1 - 1 / math.sqrt(len(chosen))) * best_error:
                best, best_degree, best_error = basis, degree, error
    return best, best_degree


def _affordable_set(dimension: int, largest: int) -> str:
    total = (dimension + 1) * (dimension + 2) // 2
    return "total_degree" if total <= max(largest, 21) else "hyperbolic_cross"


def _basis_asked_for(domain: Box, options: Options, index_set: str, num_rows: int) -> Basis:
    """The basis of the user's degree, or a sentence that says what degree would do."""
    assert options.degree is not None
    largest = options.memory // (8 * num_rows)
    basis = _basis_within(domain, options.degree, index_set, largest)
    if basis is not None:
        return basis
    allowed = options.degree
    while allowed > 0 and _basis_within(domain, allowed, index_set, largest) is None:
        allowed -= 1
    raise ValueError(
        f"degree {options.degree} in {domain.dimension} features gives a table of {num_rows:,} "
        f"rows that does not fit in {options.memory / 2**30:.1f} GiB; use a degree of at most "
        f"{allowed}, or more memory"
    )


def _degrees() -> list[int]:
    """0, 1, 2, ... 8, then steps that grow: 10, 12, 15, 18, 22, ..."""
    degrees = list(range(9))
    while degrees[-1] < 500:
        degrees.append(math.ceil(1.2 * degrees[-1]))
    return degrees


def _basis_within(domain: Box, degree: int, index_set: str, largest: int) -> Basis | None:
    """The basis, or None if it has more terms than allowed; a constant is always allowed."""
    try:
        return make_basis(domain, degree, index_set=index_set, max_terms=max(largest, 1))
    except (ValueError, MemoryError):
        return None


def _evenly(rows: np.ndarray, count: int) -> np.ndarray:
    return rows[:: -(-len(rows) // count)]


def _in_numpy(model: PANN) -> PANN:
    """The model in double precision with NumPy's arrays: it pickles, and rows do not mix."""
    convert = lambda leaf: (
        np.asarray(leaf, float) if np.issubdtype(np.asarray(leaf).dtype, np.floating) else np.asarray(leaf)
    )
    return dataclasses.replace(
        model, parameters=jax.tree.map(convert, model.parameters), precision="float64"
    )
