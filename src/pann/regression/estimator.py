"""A PANN as a scikit-learn estimator."""

import numbers
import os
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from pann.basis.index_sets import INDEX_SETS
from pann.io import Contents, FileError
from pann.model.architecture import PRECISIONS
from pann.model.extrapolation import warn_outside
from pann.model.pann import Parts, Term
from pann.network.activations import ACTIVATIONS
from pann.points import subsample
from pann.regression.candidates import Options, TableFit, fit_table
from pann.regression.files import TableRecord
from pann.regression.files import load as load_table
from pann.regression.files import save as save_table
from pann.regression.scaling import distance_outside
from pann.regression.sensitivity import SobolIndices, sobol_indices
from pann.runtime.chunks import parse_bytes
from pann.runtime.progress import progress_bar
from pann.training.loss import CONSTRAINT_NAMES
from pann.training.recipes import NAMES as RECIPE_NAMES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CHOICES = {
    "index_set": tuple(INDEX_SETS),
    "activation": tuple(ACTIVATIONS),
    "constraint": CONSTRAINT_NAMES,
    "recipe": RECIPE_NAMES,
    "precision": PRECISIONS,
}
SAMPLE_ROWS = 256


class PANNRegressor(MultiOutputMixin, RegressorMixin, BaseEstimator):
    """Polynomial plus network, u(x) = sum_j a_j psi_j(x) + sum_k b_k phi_k(x), fitted to a table.

    With nothing said, features are scaled (see `pann.regression.scaling`), the degree is
    chosen by the error at left-out rows, and of three ways to train the simplest good one is kept
    (see `pann.regression.candidates`). Beyond the range of the training rows the model is followed
    a little (see `pann.model.extrapolation`); farther off a feature counts as the
    end of that, and `predict` warns.

    Parameters
    ----------
    degree : int, None or "auto"
        Degree of the polynomial half; None leaves it out.
    index_set : "auto", "total_degree", "hyperbolic_cross" or "tensor_product"
    width : int, tuple of int or "auto"
        Units of the hidden layers; 0 leaves the network out.
    depth : int
        Number of hidden layers where `width` is one number.
    activation : "auto", "tanh", "relu", "repu" or "sin"
    embedding : "auto", None, or `Periodic`, `RandomFourier`, `AxisUnits`
        What the network sees of the features.
    dropout : float or "auto"
    constraint : "auto", "none", "A" to "H", "l1" or "exact"
        Weak orthogonality between the halves, or the exact one.
    preconditioner : bool
        The Christoffel preconditioner K.
    recipe : "auto", "default", "paper", "products" or a tuple of stages
    trials : int
        Networks trained from different starts; the prediction is their mean.
    validation_fraction : float
        Share of the rows held out to choose and to stop by.
    early_stopping : bool
        Whether to hold rows out; the best state on them is restored.
    precision : "auto", "float64" or "float32"
        Of the training; predictions are always in double precision.
    memory : int or str
        Bytes for the table of the polynomial half and its copies, also as "2GB". A larger one is
        made a chunk or a minibatch of rows at a time; the degree is bounded where a recipe, or
        ridge regression on 50,000 rows, needs more.
    random_state : int, RandomState or None
    verbose : bool
        A progress bar on a terminal.

    Attributes
    ----------
    degree_, how_, held_out_error_ : what was chosen, and its root mean square error on the rows
        held out (None without)
    terms_ : the polynomial half, the largest coefficient first
    fit_ : `pann.regression.candidates.TableFit`, with models and histories
    """

    def __init__(
        self,
        *,
        degree: Any = "auto",
        index_set: Any = "auto",
        width: Any = "auto",
        depth: Any = 3,
        activation: Any = "auto",
        embedding: Any = "auto",
        dropout: Any = "auto",
        constraint: Any = "auto",
        preconditioner: Any = False,
        recipe: Any = "auto",
        trials: Any = 1,
        validation_fraction: Any = 0.1,
        early_stopping: Any = True,
        precision: Any = "auto",
        memory: Any = "2GB",
        random_state: Any = None,
        verbose: Any = False,
    ):
        # As scikit-learn has it: nothing is checked before `fit`.
        self.degree = degree
        self.index_set = index_set
        self.width = width
        self.depth = depth
        self.activation = activation
        self.embedding = embedding
        self.dropout = dropout
        self.constraint = constraint
        self.preconditioner = preconditioner
        self.recipe = recipe
        self.trials = trials
        self.validation_fraction = validation_fraction
        self.early_stopping = early_stopping
        self.precision = precision
        self.memory = memory
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any, sample_weight: npt.ArrayLike | None = None) -> "PANNRegressor":
        """Fit to rows X (rows, features) and values y (rows,) or (rows, outputs)."""
        rows, y = validate_data(
            self, X, y, multi_output=True, y_numeric=True, dtype=float, ensure_min_samples=2
        )
        y = np.asarray(y, float)
        weights = _check_sample_weight(sample_weight, rows, dtype=float, ensure_non_negative=True)
        if not np.any(weights):
            raise ValueError("all sample weights are zero: no rows are left to fit")
        options = self._options()
        self._single_output = y.ndim == 1
        with progress_bar("fit", disable=not self.verbose) as report:
            fitted = fit_table(rows, y.reshape(len(y), -1), weights, options, report)
        self._keep(fitted, rows)
        return self

    def _keep(self, fitted: TableFit, rows: np.ndarray) -> None:
        self.fit_ = fitted
        self.degree_, self.how_ = fitted.degree, fitted.how
        self.held_out_error_ = None
        if fitted.held_out_error is not None:
            self.held_out_error_ = fitted.held_out_error * float(
                np.sqrt(np.mean(fitted.targets.deviation**2))
            )
        # Some rows, for pictures of the halves.
        self._sample = rows[subsample(len(rows), SAMPLE_ROWS)]

    def predict(
        self, X: Any, return_std: bool = False
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """The mean of the trials; with `return_std`, their standard deviation as well."""
        self._is_ready()
        trials = self.fit_(self._check(X))
        mean = self._shape(trials.mean(axis=0))
        if not return_std:
            return mean
        if len(trials) < 2:
            raise ValueError(
                f"return_std needs an ensemble, but this model has {len(trials)} trial; fit with "
                "trials=5, for instance"
            )
        return mean, self._shape(trials.std(axis=0, ddof=1))

    def parts(self, X: Any) -> Parts:
        """The network's and the polynomial's share of the prediction; they add up to it."""
        self._is_ready()
        return self._parts(self._check(X))

    def _parts(self, rows: np.ndarray) -> Parts:
        network, polynomial = self.fit_.parts(rows)
        return Parts(self._shape(network.mean(axis=0)), self._shape(polynomial.mean(axis=0)))

    @property
    def terms_(self) -> list[Term]:
        """The polynomial half in scaled features, averaged over the trials, the largest first."""
        if not hasattr(self, "fit_"):
            raise AttributeError("terms_ is there after fit")
        names = self._feature_names()
        sums: dict[str, np.ndarray] = {}
        for model in self.fit_.models:
            for term in model.terms():
                share = term.coefficients * self.fit_.targets.deviation / len(self.fit_.models)
                sums[term.name] = sums.get(term.name, 0.0) + share
        sums["1"] = sums.get("1", 0.0) + self.fit_.targets.mean
        axes = {f"x{i + 1}": names[column] for i, column in enumerate(self.fit_.active)}
        spelled = lambda name: re.sub(r"\((x\d+)\)", lambda m: f"({axes[m[1]]})", name)
        order = sorted(sums, key=lambda name: -np.max(np.abs(sums[name])))
        return [Term(spelled(name), sums[name]) for name in order]

    def sobol_indices(self, num_points: int = 2**14) -> SobolIndices:
        """First-order and total Sobol indices of the whole model, by projection.

        Inputs are independent and uniform in the scaled features (see `pann.regression.scaling`).
        """
        self._is_ready()
        return sobol_indices(self.fit_, self._feature_names(), num_points)

    def plot_parts(self, features: Sequence[int | str] | None = None) -> "Figure":
        """Partial dependence of the prediction and its halves on single features."""
        from pann.plot import model

        self._is_ready()
        names = self._feature_names()
        if features is None:
            order = np.argsort(-self.sobol_indices(2**11).total, kind="stable")
            chosen = [int(index) for index in order[:6]]
        else:
            chosen = [self._position(feature, names) for feature in features]
        return model.plot_dependence(self._parts, self._sample, chosen, names)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a `.pann` file; `pann.load` opens it, and runs no code doing so."""
        self._is_ready()
        record = TableRecord(
            fit=self.fit_,
            sample=self._sample,
            features=self._feature_names(),
            features_are_named=hasattr(self, "feature_names_in_"),
            targets=getattr(self, "target_names_", None),
            single_output=self._single_output,
            options=self.get_params(),
        )
        save_table(path, record)

    # ---- Inside ----

    def _is_ready(self) -> None:
        check_is_fitted(self, "fit_")

    def _check(self, X: Any) -> np.ndarray:
        rows = validate_data(self, X, dtype=float, reset=False)
        outside = distance_outside(self.fit_.features, rows)
        far = outside > self.fit_.tolerated + 1e-9
        if far.any():
            names = self._feature_names()
            worst = int(np.argmax(np.where(far, outside, 0.0).max(axis=0)))
            warn_outside(
                f"{int(far.any(axis=1).sum())} of {len(rows)} rows lie outside of the range of the "
                f"training rows, most of all in {names[worst]}, by up to "
                f"{100 * outside[:, worst].max():.3g}% of the range",
                stacklevel=4,
            )
        return rows

    def _shape(self, values: np.ndarray) -> np.ndarray:
        return values[:, 0] if self._single_output else values

    def _feature_names(self) -> list[str]:
        names = getattr(self, "feature_names_in_", None)
        return [f"x{i}" for i in range(self.n_features_in_)] if names is None else list(names)

    @staticmethod
    def _position(feature: int | str, names: list[str]) -> int:
        if isinstance(feature, str):
            if feature not in names:
                raise ValueError(f"there is no feature '{feature}'; choose from {', '.join(names)}")
            return names.index(feature)
        if not 0 <= feature < len(names):
            raise ValueError(f"feature {feature} is not one of 0 to {len(names) - 1}")
        return int(feature)

    def _options(self) -> Options:
        """The parameters, checked; "auto" becomes None."""
        automatic = lambda value: None if isinstance(value, str) and value == "auto" else value
        _check_number("trials", self.trials, 1, None)
        _check_number("depth", self.depth, 1, None)
        share = self.validation_fraction
        if not isinstance(share, float | np.floating) or not 0 < share < 1:
            raise ValueError(
                f"validation_fraction is a share between 0 and 1, got {self.validation_fraction!r}"
            )
        for name, choices in CHOICES.items():
            value = getattr(self, name)
            if isinstance(value, str) and value not in ("auto", *choices):
                raise ValueError(
                    f"there is no {name} '{value}'; choose auto or one of {', '.join(choices)}"
                )
        no_polynomial = self.degree is None
        if no_polynomial and self.width == 0:
            raise ValueError("degree=None and width=0 leave nothing to fit; give one of them")
        degree = automatic(self.degree)
        if degree is not None:
            _check_number("degree", degree, 0, None)
        random = check_random_state(self.random_state)
        return Options(
            degree=None if degree is None else int(degree),
            polynomial=not no_polynomial,
            index_set=automatic(self.index_set),
            width=automatic(self.width),
            depth=self.depth,
            activation=automatic(self.activation),
            embedding=automatic(self.embedding),
            plain=self.embedding is None,
            dropout=automatic(self.dropout),
            constraint=automatic(self.constraint),
            preconditioner=bool(self.preconditioner),
            recipe=automatic(self.recipe),
            trials=int(self.trials),
            validation_fraction=float(self.validation_fraction),
            early_stopping=bool(self.early_stopping),
            precision=automatic(self.precision),
            memory=parse_bytes(self.memory),
            seed=int(random.randint(2**31 - 1)),
        )

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "fit_")


def _check_number(name: str, value: Any, low: int, high: int | None) -> None:
    is_number = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if not is_number or value < low or (high is not None and value > high):
        raise ValueError(f"{name} must be an integer of at least {low}, got {value!r}")


def load(contents: Contents) -> PANNRegressor:
    """A fitted regressor from a file."""
    record = load_table(contents)
    known = PANNRegressor().get_params()
    unknown = set(record.options) - set(known)
    if unknown:
        raise FileError(f"the file has an option '{unknown.pop()}' that this pann does not know")
    regressor = PANNRegressor(**record.options)
    regressor.n_features_in_ = len(record.features)
    if record.features_are_named:
        regressor.feature_names_in_ = np.array(record.features, dtype=object)
    if record.targets is not None:
        regressor.target_names_ = record.targets
    regressor._single_output = record.single_output
    regressor._keep(record.fit, record.sample)
    return regressor
