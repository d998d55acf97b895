"""Fit a table of data without a knob to turn: scale, choose a degree, train, keep what helps.

Three models of growing cost are tried on the same training rows: the polynomial alone by ridge
regression; a small tanh PANN by Levenberg-Marquardt, where that is affordable, for smooth
functions with little noise; and a PANN on ranks, embedded, by minibatch Adam, for the rest. The
next one is kept if it predicts the held-out rows better by more than two standard errors.
"""

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from pann.basis import Basis, make_basis
from pann.domain import Box
from pann.model.extrapolation import tolerated
from pann.model.pann import PANN
from pann.network import EmbeddingOptions, Periodic
from pann.regression.degree import choose_basis
from pann.regression.fit import ROWS_PER_TERM, Fit, fit, padded_size
from pann.regression.scaling import (
    FeatureScaling,
    RangeScaling,
    TargetScaling,
    scale_by_range,
    scale_by_rank,
    scale_targets,
)
from pann.runtime.limits import Report
from pann.training import Adam, Cosine, Outcome, Recipe, Ridge, Sizes
from pann.training.recipes import needs_whole_table
from pann.training.ridge import MAX_ROWS as RIDGE_ROWS

EMBEDDING = Periodic(24, 16, 4.0, rectified=True)
# Beside a large network the polynomial is for trends: so many rows for each of its terms.
ROWS_A_TERM = 100
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
    """Models of scaled features and targets, with the scalings and how they came about.

    `outcomes` has the stages of every candidate that was tried.
    """

    models: tuple[PANN, ...]
    features: FeatureScaling
    targets: TargetScaling
    active: np.ndarray
    degree: int
    how: str
    held_out_error: float | None
    outcomes: dict[str, tuple[Outcome, ...]]

    def __call__(
        self, rows: Float[np.ndarray, "rows columns"]
    ) -> Float[np.ndarray, "trials rows outputs"]:
        """The prediction of every trial."""
        network, polynomial = self.parts(rows)
        return network + polynomial

    def parts(
        self, rows: Float[np.ndarray, "rows columns"]
    ) -> tuple[Float[np.ndarray, "trials rows outputs"], Float[np.ndarray, "trials rows outputs"]]:
        """The network's and the polynomial's share of the prediction of every trial."""
        scaled = self.features(rows, self.margins)[:, self.active]
        halves = [model.parts(scaled) for model in self.models]
        network = np.stack([half.network for half in halves]) * self.targets.deviation
        return network, self.targets.undo(np.stack([half.polynomial for half in halves]))

    @property
    def margins(self) -> Float[np.ndarray, " columns"]:
        """Shares of the columns' ranges by which predictions follow the models beyond them."""
        margins = np.zeros(len(self.features.low))
        if isinstance(self.features, RangeScaling):  # ranks end with the range
            margins[self.active] = np.min([model.margins for model in self.models], axis=0)
        return margins

    @property
    def tolerated(self) -> Float[np.ndarray, " columns"]:
        """How far outside of the columns' ranges, as shares of them, is not worth a warning."""
        # Files of earlier versions do not know the error: it counts as large.
        errors = [1.0 if m.relative_error is None else m.relative_error for m in self.models]
        return tolerated(self.margins, min(errors))


def fit_table(
    rows: Float[np.ndarray, "rows columns"],
    values: Float[np.ndarray, "rows outputs"],
    weights: Float[np.ndarray, " rows"],
    options: Options,
    report: Report = lambda progress: None,
) -> TableFit:
    """Fit rows of features to values; rows of weight zero are left out."""
    used = weights > 0
    rows, values, weights = rows[used], values[used], weights[used]
    held_out = _hold_out(rows, options)
    # All that is learned comes from the training rows: the held-out ones judge it.
    targets = scale_targets(values[~held_out], weights[~held_out])
    task = _Task(rows, targets(values), weights, held_out, options, report)
    tried = {name: candidate(task) for name, candidate in _candidates(task).items()}
    chosen, error = _choose(task, tried)
    if chosen == "polynomial":
        # Chosen without the held-out rows, fitted with them.
        tried[chosen] = _polynomial(dataclasses.replace(task, held_out=np.zeros(len(rows), bool)))
    view, fitted = tried[chosen]
    return TableFit(
        models=tuple(
            dataclasses.replace(_in_numpy(model), relative_error=float(error))
            for model, error in zip(fitted.models, fitted.relative_errors, strict=True)
        ),
        features=view.scaling,
        targets=targets,
        active=view.active,
        degree=view.degree,
        how=chosen,
        held_out_error=error,
        outcomes={name: fit_.outcomes for name, (_, fit_) in tried.items()},
    )


@dataclasses.dataclass(frozen=True)
class _View:
    """The features as a candidate sees them, with its basis."""

    scaling: FeatureScaling
    active: np.ndarray
    scaled: np.ndarray
    basis: Basis
    degree: int


class _Tried(NamedTuple):
    view: _View
    fit: Fit


@dataclasses.dataclass(frozen=True)
class _Task:
    """What all candidates are trained on."""

    rows: np.ndarray
    target: np.ndarray
    weights: np.ndarray
    held_out: np.ndarray
    options: Options
    report: Report

    @property
    def num_train(self) -> int:
        return int(np.sum(~self.held_out))

    @functools.cached_property
    def by_range(self) -> _View:
        # Ridge regression holds more columns than rows in check; a recipe of the user's may not.
        plane = self.options.recipe is None or self.options.width == 0
        scaling = scale_by_range(self.rows[~self.held_out])
        return self._view(scaling, rows_a_term=ROWS_PER_TERM, always_plane=plane)

    @functools.cached_property
    def by_rank(self) -> _View:
        scaling = scale_by_rank(self.rows[~self.held_out])
        return self._view(scaling, rows_a_term=ROWS_A_TERM, always_plane=False)

    def _view(self, scaling: FeatureScaling, *, rows_a_term: int, always_plane: bool) -> _View:
        active = np.flatnonzero(~scaling.is_constant)
        # A table of constants still needs an axis to live on.
        active = active if len(active) else np.arange(1)
        scaled = scaling(self.rows)
        scaled = scaled if len(active) == scaled.shape[1] else scaled[:, active]
        if not self.options.polynomial:
            nothing = make_basis(Box.cube(len(active)), 0).subset(np.arange(0))
            return _View(scaling, active, scaled, nothing, 0)
        whole, train = needs_whole_table(self.options.recipe), ~self.held_out
        basis, degree = choose_basis(
            scaled[train],
            self.target[train],
            self.weights[train],
            degree=self.options.degree,
            index_set=self.options.index_set,
            memory=self.options.memory,
            # Ridge regression sees some of the rows, minibatches make tables of their own.
            held_rows=len(scaled) if whole else min(len(scaled), RIDGE_ROWS),
            rows_a_term=rows_a_term,
            always_plane=always_plane,
        )
        return _View(scaling, active, scaled, basis, degree)

    def squares(self, tried: _Tried) -> Float[np.ndarray, " rows"]:
        """Weighted squared errors of the mean of the trials at the held-out rows."""
        test, weights = tried.view.scaled[self.held_out], self.weights[self.held_out]
        mean = np.mean([model(test) for model in tried.fit.models], axis=0)
        squares = np.mean((mean - self.target[self.held_out]) ** 2, axis=1)
        return squares * weights / np.mean(weights)

    def fit(self, view: _View, recipe: str | Recipe, precision: str, **sizes: Any) -> _Tried:
        fitted = fit(
            view.scaled,
            self.target,
            domain=view.basis.domain,
            basis=view.basis,
            recipe=recipe,
            trials=self.options.trials,
            held_out=self.held_out,
            pad=True,
            memory=self.options.memory,
            sample_weight=self.weights,
            precision=self.options.precision or precision,
            preconditioner=self.options.preconditioner,
            seed=self.options.seed,
            report=self.report,
            **sizes,
        )
        return _Tried(view, fitted)


def _hold_out(rows: Float[np.ndarray, "rows columns"], options: Options) -> np.ndarray:
    """A mask of the rows held out; none where no network is trained or none are wanted.

    Rows at the ends of a column's range are trained on as long as there are others: held out, they
    would judge extrapolation.
    """
    num_rows = len(rows)
    held_out = np.zeros(num_rows, bool)
    wanted = options.early_stopping and _wants_network(num_rows, options)
    if wanted and num_rows >= 4:
        count = max(1, round(options.validation_fraction * num_rows))
        order = np.random.default_rng(options.seed).permutation(num_rows)
        ends = np.concatenate([rows.argmin(axis=0), rows.argmax(axis=0)])
        order = np.concatenate([order[~np.isin(order, ends)], order[np.isin(order, ends)]])
        held_out[order[:count]] = True
    return held_out


def _wants_network(num_rows: int, options: Options) -> bool:
    if options.width is not None:
        return options.width != 0
    return not options.polynomial or num_rows >= FEWEST_ROWS_FOR_NETWORK


def _candidates(task: _Task) -> dict[str, Callable[[_Task], _Tried]]:
    """The models to try, by name, the cheapest first."""
    options = task.options
    if options.recipe is not None and options.width != 0:
        return {"as asked": _as_asked}
    if not options.polynomial:
        return {"gradient": _gradient}
    candidates: dict[str, Callable[[_Task], _Tried]] = {"polynomial": _polynomial}
    if not _wants_network(len(task.rows), options):
        return candidates
    by_user = (options.embedding, options.dropout, options.width, options.activation)
    # What only gradients can train, or networks of the user's own, are not replaced by others.
    free = not options.plain and all(option is None for option in by_user)
    if free and options.constraint in (None, "exact", "none") and task.held_out.any():
        width = _small_width(task)
        num_parameters = _num_parameters(width, task)
        num_outputs = task.target.shape[1]
        sizes = Sizes(task.num_train, task.by_range.basis.num_terms, num_parameters, num_outputs)
        if width and sizes.newton_operations <= SECOND_ORDER_OPERATIONS:
            candidates["second order"] = _second_order
    if not free or task.num_train >= FEWEST_ROWS_FOR_EMBEDDING:
        candidates["gradient"] = _gradient
    return candidates


def _num_parameters(width: int, task: _Task) -> int:
    """Numbers in three hidden layers of this width and their outputs."""
    return width * (task.rows.shape[1] + 2 * width + 3 + task.target.shape[1])


def _small_width(task: _Task) -> int:
    """The largest width from 4 to 16 that leaves 2.5 rows for every parameter; 0 if none does."""
    widths = [w for w in range(4, 17, 2) if 2.5 * _num_parameters(w, task) <= task.num_train]
    return max(widths, default=0)


def _polynomial(task: _Task) -> _Tried:
    """Ridge regression, no network."""
    return task.fit(task.by_range, (Ridge(),), "float64", width=0, constraint="none")


def _second_order(task: _Task) -> _Tried:
    """The default recipe on a small tanh network."""
    constraint = task.options.constraint
    return task.fit(
        task.by_range, "default", "float64", width=_small_width(task), constraint=constraint
    )


def _gradient(task: _Task) -> _Tried:
    """Ranks, embedded features, dropout, minibatch AdamW, the state best on the held-out rows."""
    options, num_rows = task.options, padded_size(task.num_train)
    batch = min(256, 2 ** max(4, int(math.log2(num_rows / 8)))) if num_rows < 100_000 else 1024
    steps_an_epoch = num_rows // batch
    # Up to 160 passes over small tables, at least 8 over large ones.
    epochs = int(np.clip(4e6 / num_rows, 8, 160))
    adam = Adam(
        epochs * steps_an_epoch,
        Cosine(2e-3),
        batch_size=batch,
        weight_decay=1e-3,
        patience=max(epochs // 8, 4) * steps_an_epoch if task.held_out.any() else None,
        record_every=steps_an_epoch,
    )
    # b starts at zero: from the ridge solution the two halves end up worse together.
    return task.fit(
        task.by_rank,
        (adam,),
        "float32",
        width=options.width or 128,
        depth=None if isinstance(options.width, tuple) else options.depth,
        activation=options.activation or "tanh",
        embedding=None if options.plain else options.embedding or EMBEDDING,
        dropout=0.2 if options.dropout is None else options.dropout,
        constraint=options.constraint or "none",
    )


def _as_asked(task: _Task) -> _Tried:
    """The user's recipe, on a plain network unless more was said."""
    options = task.options
    assert options.recipe is not None
    return task.fit(
        task.by_range,
        options.recipe,
        "float64",
        width=32 if options.width is None else options.width,
        depth=None if isinstance(options.width, tuple) else options.depth,
        activation=options.activation or "tanh",
        embedding=options.embedding,
        dropout=options.dropout or 0.0,
        constraint=options.constraint,
    )


def _choose(task: _Task, tried: dict[str, _Tried]) -> tuple[str, float | None]:
    """The candidate kept, and its root mean square error on the held-out rows.

    One after the other replaces the best before it if it is better by two standard errors.
    """
    names = list(tried)
    if not task.held_out.any():
        return names[-1], None
    best, lowest = names[0], task.squares(tried[names[0]])
    for name in names[1:]:
        squares = task.squares(tried[name])
        gain = lowest - squares
        if np.mean(gain) > 2 * np.std(gain) / math.sqrt(len(gain)):
            best, lowest = name, squares
    return best, float(np.sqrt(np.mean(lowest)))


def _in_numpy(model: PANN) -> PANN:
    """The model in double precision with NumPy's arrays: it pickles, and rows do not mix."""
    convert = lambda leaf: (
        np.asarray(leaf, float)
        if np.issubdtype(np.asarray(leaf).dtype, np.floating)
        else np.asarray(leaf)
    )
    return dataclasses.replace(
        model, parameters=jax.tree.map(convert, model.parameters), precision="float64"
    )
