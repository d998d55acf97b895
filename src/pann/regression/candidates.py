"""Fit a table of data without options to choose: scale, choose a degree, train, keep what helps.

Three models of growing cost are tried on the same training rows: the polynomial alone by ridge
regression; a small tanh PANN by Levenberg-Marquardt, where that is affordable, for smooth
functions with little noise; and a PANN on ranks, embedded, by minibatch Adam, for the rest. The
next one is kept if it predicts the held-out rows better by more than two standard errors. Without
held-out rows nothing can be compared: the last one is used.

`plan` decides what is tried, `fit_table` trains it.
"""

import dataclasses
import math

import jax
import numpy as np
from jaxtyping import Bool, Float

from pann.basis import Basis, make_basis
from pann.domain import Box
from pann.methods import MLP, FitMethod, Hybrid, Products, RunOptions, Training
from pann.model.architecture import Architecture, layer_widths
from pann.model.extrapolation import tolerated
from pann.model.pann import PANN
from pann.network import EmbeddingOptions, PeriodicFeatures
from pann.regression.degree import choose_basis
from pann.regression.fit import (
    ROWS_PER_TERM,
    Fit,
    architecture_of,
    fit_run,
    padded_size,
    sizes_of,
)
from pann.regression.options import AUTO, Options
from pann.regression.samples import Data as FitData
from pann.regression.scaling import (
    FeatureScaling,
    RangeScaling,
    TargetScaling,
    scale_by_range,
    scale_by_rank,
    scale_targets,
)
from pann.runtime.chunks import parse_bytes
from pann.runtime.limits import Report
from pann.training import Adam, Cosine, Outcome, Ridge, Sizes
from pann.training.linear import RIDGE_ROWS
from pann.training.recipes import needs_whole_table

Table = Float[np.ndarray, "rows columns"]

EMBEDDING = PeriodicFeatures(24, 16, 4.0, rectified=True)
# Next to a large network the polynomial is for trends: so many rows for each of its terms.
ROWS_PER_TREND = 100
FEWEST_ROWS_FOR_EMBEDDING = 2_000
# A Levenberg-Marquardt fit of some 500 iterations in about a minute on two cores.
SECOND_ORDER_OPERATIONS = 8e9


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

    def __call__(self, rows: Table) -> Float[np.ndarray, "trials rows outputs"]:
        """The prediction of every trial."""
        network, polynomial = self.parts(rows)
        return network + polynomial

    def parts(
        self, rows: Table
    ) -> tuple[Float[np.ndarray, "trials rows outputs"], Float[np.ndarray, "trials rows outputs"]]:
        """The network's and the polynomial's part of the prediction of every trial."""
        scaled = self.features(rows, self.margins)[:, self.active]
        halves = [model.parts(scaled) for model in self.models]
        network = np.stack([half.network for half in halves]) * self.targets.deviation
        return network, self.targets.undo(np.stack([half.polynomial for half in halves]))

    @property
    def margins(self) -> Float[np.ndarray, " columns"]:
        """Fractions of the columns' ranges by which predictions follow the models beyond them."""
        margins = np.zeros(len(self.features.low))
        if isinstance(self.features, RangeScaling):  # ranks end with the range
            margins[self.active] = np.min([model.margins for model in self.models], axis=0)
        return margins

    @property
    def tolerated(self) -> Float[np.ndarray, " columns"]:
        """How far outside of the columns' ranges, in fractions of them, needs no warning."""
        # Files of earlier versions do not have the error: it counts as large.
        errors = [1.0 if m.relative_error is None else m.relative_error for m in self.models]
        return tolerated(self.margins, min(errors))


@dataclasses.dataclass(frozen=True)
class Data:
    """Rows with their scaled targets and weights, and a mask of those held out."""

    rows: Table
    target: Float[np.ndarray, "rows outputs"]
    weights: Float[np.ndarray, " rows"]
    held_out: Bool[np.ndarray, " rows"]

    @property
    def num_train(self) -> int:
        return int(np.sum(~self.held_out))


@dataclasses.dataclass(frozen=True)
class View:
    """The features as a candidate sees them, without constant columns, and its basis."""

    scaling: FeatureScaling
    active: np.ndarray
    scaled: Float[np.ndarray, "rows active"]
    basis: Basis
    degree: int


@dataclasses.dataclass(frozen=True)
class Candidate:
    """A model to try: its features and basis, and the method that fits it."""

    name: str
    view: View
    method: FitMethod
    precision: str

    @property
    def architecture(self) -> Architecture:
        return architecture_of(self.method, self.view.basis, self.precision)

    def sizes(self, data: Data) -> Sizes:
        """How much there is to train."""
        return sizes_of(self.architecture, self.view.basis, data.num_train, data.target.shape[1])


@dataclasses.dataclass(frozen=True)
class Plan:
    """What is tried on which rows, the cheapest candidate first."""

    data: Data
    targets: TargetScaling
    candidates: tuple[Candidate, ...]


def plan(
    rows: Table,
    values: Float[np.ndarray, "rows outputs"],
    weights: Float[np.ndarray, " rows"],
    options: Options,
) -> Plan:
    """Choose rows to hold out, scalings, bases and candidates; rows of weight zero are left out."""
    used = weights > 0
    rows, values, weights = rows[used], values[used], weights[used]
    held_out = _hold_out(rows, options)
    # All that is learned comes from the training rows: the held-out ones judge it.
    targets = scale_targets(values[~held_out], weights[~held_out])
    data = Data(rows, targets(values), weights, held_out)
    return Plan(data, targets, tuple(_candidates(data, options)))


def fit_table(
    rows: Table,
    values: Float[np.ndarray, "rows outputs"],
    weights: Float[np.ndarray, " rows"],
    options: Options,
    report: Report = lambda progress: None,
) -> TableFit:
    """Fit rows of features to values; rows of weight zero are left out."""
    planned = plan(rows, values, weights, options)
    data = planned.data
    fits = [_fit(data, candidate, options, report) for candidate in planned.candidates]
    best, error = _choose(data, planned.candidates, fits)
    candidate = planned.candidates[best]
    if candidate.name == "polynomial" and data.held_out.any():
        # Chosen without the held-out rows, fitted with them.
        data = dataclasses.replace(data, held_out=np.zeros(len(data.rows), bool))
        candidate = _polynomial(_by_range(data, options), options)
        fits[best] = _fit(data, candidate, options, report)
    return TableFit(
        models=tuple(
            dataclasses.replace(_in_numpy(model), relative_error=float(relative_error))
            for model, relative_error in zip(
                fits[best].models, fits[best].relative_errors, strict=True
            )
        ),
        features=candidate.view.scaling,
        targets=planned.targets,
        active=candidate.view.active,
        degree=candidate.view.degree,
        how=candidate.name,
        held_out_error=error,
        outcomes={
            tried.name: fitted.outcomes
            for tried, fitted in zip(planned.candidates, fits, strict=True)
        },
    )


def _fit(data: Data, candidate: Candidate, options: Options, report: Report) -> Fit:
    return fit_run(
        FitData(
            candidate.view.scaled,
            data.target,
            domain=candidate.view.basis.domain,
            sample_weight=data.weights,
            held_out=data.held_out,
            pad=True,
        ),
        candidate.method,
        RunOptions(
            trials=options.trials,
            seed=options.seed,
            precision=candidate.precision,
            memory=options.memory,
        ),
        report,
        ctrl_c=False,
    )


def _hold_out(rows: Table, options: Options) -> Bool[np.ndarray, " rows"]:
    """A mask of the rows held out; none where no network is trained or none are wanted.

    Rows at the ends of a column's range are trained on as long as there are others: held out, they
    would judge extrapolation.
    """
    num_rows = len(rows)
    held_out = np.zeros(num_rows, bool)
    if options.held_out and options.wants_network(num_rows) and num_rows >= 4:
        count = max(1, round(options.held_out * num_rows))
        order = np.random.default_rng(options.seed).permutation(num_rows)
        ends = np.concatenate([rows.argmin(axis=0), rows.argmax(axis=0)])
        order = np.concatenate([order[~np.isin(order, ends)], order[np.isin(order, ends)]])
        held_out[order[:count]] = True
    return held_out


def _choose(
    data: Data, candidates: tuple[Candidate, ...], fits: list[Fit]
) -> tuple[int, float | None]:
    """Which candidate is kept, and its root mean square error on the held-out rows.

    One after the other replaces the best before it if it is better by two standard errors.
    """
    if not data.held_out.any():
        return len(fits) - 1, None
    weights = data.weights[data.held_out]

    def squares(number: int) -> Float[np.ndarray, " held_out"]:
        """Weighted squared errors of the mean of the trials."""
        test = candidates[number].view.scaled[data.held_out]
        mean = np.mean([model(test) for model in fits[number].models], axis=0)
        errors = np.mean((mean - data.target[data.held_out]) ** 2, axis=1)
        return errors * weights / np.mean(weights)

    best, lowest = 0, squares(0)
    for number in range(1, len(fits)):
        errors = squares(number)
        gain = lowest - errors
        if np.mean(gain) > 2 * np.std(gain) / math.sqrt(len(gain)):
            best, lowest = number, errors
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


# ---- Candidates ----


def _candidates(data: Data, options: Options) -> list[Candidate]:
    """The models to try, the cheapest first."""
    if options.recipe != AUTO and options.width != 0:
        return [_as_asked(data, options)]
    # What only gradients can train, or networks of the user's own, are not replaced by others.
    by_user = ("embedding", "dropout", "width", "activation")
    free = all(getattr(options, name) == AUTO for name in by_user)
    by_gradient = options.wants_network(len(data.rows)) and (
        not free or data.num_train >= FEWEST_ROWS_FOR_EMBEDDING
    )
    judged = bool(data.held_out.any())
    if options.degree is None or (by_gradient and not judged):
        return [_gradient(data, options)]
    view = _by_range(data, options)
    candidates = [_polynomial(view, options)]
    if judged and free and options.constraint in (AUTO, "exact", "none"):
        small = _second_order(data, view, options)
        candidates += [] if small is None else [small]
    if by_gradient:
        candidates.append(_gradient(data, options))
    return candidates


def _polynomial(view: View, options: Options) -> Candidate:
    """Ridge regression, no network."""
    method = Training(
        stages=(Ridge(),),
        basis=view.basis,
        network=None,
        preconditioner=options.preconditioner,
    )
    return Candidate("polynomial", view, method, options.get("precision", "float64"))


def _second_order(data: Data, view: View, options: Options) -> Candidate | None:
    """The default recipe on a small tanh network, if that is affordable.

    Its three layers have the largest width from 4 to 16 that leaves 2.5 rows for every parameter.
    """
    for width in range(16, 3, -2):
        method = _hybrid(view.basis, MLP(width=(width,) * 3, activation="tanh"), options)
        candidate = Candidate("second order", view, method, options.get("precision", "float64"))
        sizes = candidate.sizes(data)
        if 2.5 * sizes.num_network_parameters <= data.num_train:
            return candidate if sizes.newton_operations <= SECOND_ORDER_OPERATIONS else None
    return None


def _gradient(data: Data, options: Options) -> Candidate:
    """Ranks, embedded features, dropout, minibatch AdamW, the state best on the held-out rows."""
    num_rows = padded_size(data.num_train)
    batch = min(256, 2 ** max(4, int(math.log2(num_rows / 8)))) if num_rows < 100_000 else 1024
    steps_per_epoch = num_rows // batch
    # Up to 160 passes over small tables, at least 8 over large ones.
    epochs = int(np.clip(4e6 / num_rows, 8, 160))
    adam = Adam(
        epochs * steps_per_epoch,
        Cosine(2e-3),
        batch_size=batch,
        weight_decay=1e-3,
        patience=max(epochs // 8, 4) * steps_per_epoch if data.held_out.any() else None,
        record_every=steps_per_epoch,
    )
    scaling = scale_by_rank(data.rows[~data.held_out])
    view = _view(data, scaling, options, rows_per_term=ROWS_PER_TREND, always_linear=False)
    # b starts at zero: from the ridge solution the two halves end up worse together.
    method = Training(
        stages=(adam,),
        basis=view.basis,
        network=_network(options, width=128, embedding=EMBEDDING, dropout=0.2),
        constraint=options.get("constraint", "none"),
        preconditioner=options.preconditioner,
    )
    return Candidate("gradient", view, method, options.get("precision", "float32"))


def _as_asked(data: Data, options: Options) -> Candidate:
    """The user's recipe, on a plain network unless more was asked for."""
    view, network, recipe = _by_range(data, options), _network(options, width=32), options.recipe
    method: FitMethod
    if recipe == "products":
        method = Products(basis=view.basis)
    elif recipe == "default":
        method = _hybrid(view.basis, network, options)
    else:
        method = Training(
            stages=None if isinstance(recipe, str) else recipe,
            basis=view.basis,
            network=network,
            constraint=options.get("constraint", "E" if recipe == "paper" else "none"),
            preconditioner=options.preconditioner,
        )
    return Candidate("as asked", view, method, options.get("precision", "float64"))


def _hybrid(basis: Basis, network: MLP, options: Options) -> Hybrid:
    return Hybrid(
        basis=basis,
        network=network,
        constraint=options.get("constraint", "exact"),
        preconditioner=options.preconditioner,
    )


def _network(
    options: Options, *, width: int, embedding: EmbeddingOptions | None = None, dropout: float = 0.0
) -> MLP:
    """The network that was asked for; these sizes where the user left the choice."""
    return MLP(
        width=layer_widths(options.get("width", width), options.depth),
        activation=options.get("activation", "tanh"),
        embedding=options.get("embedding", embedding),
        dropout=options.get("dropout", dropout),
    )


def _by_range(data: Data, options: Options) -> View:
    # Ridge regression works with more columns than rows; a recipe of the user's may not.
    by_ridge = options.recipe == AUTO or options.width == 0
    scaling = scale_by_range(data.rows[~data.held_out])
    return _view(data, scaling, options, rows_per_term=ROWS_PER_TERM, always_linear=by_ridge)


def _view(
    data: Data,
    scaling: FeatureScaling,
    options: Options,
    *,
    rows_per_term: int,
    always_linear: bool,
) -> View:
    active = np.flatnonzero(~scaling.is_constant)
    # A table of constants still needs one axis.
    active = active if len(active) else np.arange(1)
    scaled = scaling(data.rows)
    scaled = scaled if len(active) == scaled.shape[1] else scaled[:, active]
    if options.degree is None:
        nothing = make_basis(Box.cube(len(active)), 0).subset(np.arange(0))
        return View(scaling, active, scaled, nothing, 0)
    recipe, train = options.get("recipe", None), ~data.held_out
    basis, degree = choose_basis(
        scaled[train],
        data.target[train],
        data.weights[train],
        degree=options.get("degree", None),
        index_set=options.get("index_set", None),
        memory=parse_bytes(options.memory),
        # Ridge regression sees some of the rows, minibatches make tables of their own.
        rows_at_once=len(scaled) if needs_whole_table(recipe) else min(len(scaled), RIDGE_ROWS),
        rows_per_term=rows_per_term,
        always_linear=always_linear,
    )
    return View(scaling, active, scaled, basis, int(degree))
