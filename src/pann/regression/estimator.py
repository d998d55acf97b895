"""A PANN as a scikit-learn estimator."""

import dataclasses
import os
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from pann.io import Contents, FileError
from pann.methods.options import Flag, Real, option, own_options, parameters_section
from pann.model.extrapolation import warn_outside
from pann.model.pann import Parts, Term
from pann.points import subsample
from pann.regression.candidates import TableFit, fit_table
from pann.regression.files import TableRecord
from pann.regression.files import load as load_table
from pann.regression.files import save as save_table
from pann.regression.options import AUTO, Options, TableOptions
from pann.regression.scaling import distance_outside
from pann.regression.sensitivity import SobolIndices, sobol_indices
from pann.runtime.progress import progress_bar

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SAMPLE_ROWS = 256


@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class PANNRegressor(MultiOutputMixin, RegressorMixin, BaseEstimator, TableOptions):
    """Polynomial plus network, u(x) = sum_j a_j psi_j(x) + sum_k b_k phi_k(x), fitted to a table.

    By default features are scaled (see `pann.regression.scaling`), the degree is chosen by the
    leave-one-out error, and the simplest good one of three ways to train is kept (see
    `pann.regression.candidates`). A little beyond the range of the training rows predictions follow
    the model (see `pann.model.extrapolation`). Farther outside a feature counts as the end of that,
    and `predict` warns.

    Parameters are listed below; where the default is "auto", None means it, too, except for the
    degree and the embedding.

    Attributes
    ----------
    degree_, how_, held_out_error_ : what was chosen, and its root mean square error on the rows
        held out (None without)
    terms_ : the polynomial half, the largest coefficient first
    fit_ : `pann.regression.candidates.TableFit`, with models and histories
    """

    # Fields make scikit-learn's `__init__`; nothing is checked before `fit`.
    validation_fraction: Any = option(
        0.1,
        "fraction of the rows held out, to choose a model and to stop its training",
        Real(above=0.0, below=1.0),
    )
    early_stopping: Any = option(
        True,
        "whether to hold rows out; the best state on them is restored. Without, models cannot be "
        "compared, and the last candidate is trained",
        Flag(),
    )
    random_state: Any = option(None, "for all random choices: a number, a RandomState or None")
    verbose: Any = option(False, "a progress bar on a terminal", Flag())

    def fit(self, X: Any, y: Any, sample_weight: npt.ArrayLike | None = None) -> "PANNRegressor":
        """Fit to rows X (rows, features) and values y (rows,) or (rows, outputs)."""
        rows, y = validate_data(
            self, X, y, multi_output=True, y_numeric=True, dtype=float, ensure_min_samples=2
        )
        y = np.asarray(y, float)
        weights = _check_sample_weight(sample_weight, rows, dtype=float, ensure_non_negative=True)
        if not np.any(weights):
            raise ValueError("all sample weights are zero: no rows are left to fit")
        options = self.options()
        self._single_output = y.ndim == 1
        with progress_bar("fit", disable=not self.verbose) as report:
            fitted = fit_table(rows, y.reshape(len(y), -1), weights, options, report)
        # Some rows, for plots of the halves.
        self._set_fit(fitted, rows[subsample(len(rows), SAMPLE_ROWS)])
        return self

    def _set_fit(self, fitted: TableFit, sample: np.ndarray) -> None:
        self.fit_, self._sample = fitted, sample
        self.degree_, self.how_ = fitted.degree, fitted.how
        error, unit = fitted.held_out_error, np.sqrt(np.mean(fitted.targets.deviation**2))
        self.held_out_error_ = None if error is None else error * float(unit)

    def predict(
        self, X: Any, return_std: bool = False
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """The mean of the trials; with `return_std`, their standard deviation as well."""
        check_is_fitted(self)
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
        """The network's and the polynomial's part of the prediction, which is their sum."""
        check_is_fitted(self)
        return self.halves(self._check(X))

    def halves(self, rows: np.ndarray) -> Parts:
        network, polynomial = self.fit_.parts(rows)
        return Parts(self._shape(network.mean(axis=0)), self._shape(polynomial.mean(axis=0)))

    @property
    def terms_(self) -> list[Term]:
        """The polynomial half in scaled features, averaged over the trials, the largest first."""
        if not hasattr(self, "fit_"):
            raise AttributeError("terms_ exists after fit")
        names = self.feature_names_
        sums: dict[str, np.ndarray] = {"1": self.fit_.targets.mean}
        for model in self.fit_.models:
            for term in model.terms():
                scaled = term.coefficients * self.fit_.targets.deviation / len(self.fit_.models)
                sums[term.name] = sums.get(term.name, 0.0) + scaled
        axes = {f"x{i + 1}": names[column] for i, column in enumerate(self.fit_.active)}
        spelled = lambda name: re.sub(r"\((x\d+)\)", lambda m: f"({axes[m[1]]})", name)
        order = sorted(sums, key=lambda name: -np.max(np.abs(sums[name])))
        return [Term(spelled(name), sums[name]) for name in order]

    def sobol_indices(self, num_points: int = 2**14) -> SobolIndices:
        """First-order and total Sobol indices of the whole model, by projection.

        Inputs are independent and uniform in the scaled features (see `pann.regression.scaling`).
        """
        check_is_fitted(self)
        return sobol_indices(self.fit_, self.feature_names_, num_points)

    def plot_parts(self, features: Sequence[int | str] | None = None) -> "Figure":
        """Partial dependence of the prediction and its halves on single features."""
        from pann.plot import model

        check_is_fitted(self)
        names = self.feature_names_
        if features is None:
            order = np.argsort(-self.sobol_indices(2**11).total, kind="stable")
            chosen = [int(index) for index in order[:6]]
        else:
            chosen = [self._position(feature, names) for feature in features]
        return model.plot_dependence(self.halves, self._sample, chosen, names)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a `.pann` file; `pann.load` opens it, and runs no code doing so."""
        check_is_fitted(self)
        record = TableRecord(
            fit=self.fit_,
            sample=self._sample,
            features=self.feature_names_,
            features_are_named=hasattr(self, "feature_names_in_"),
            targets=getattr(self, "target_names_", None),
            single_output=self._single_output,
            options=self.get_params(),
        )
        save_table(path, record)

    def _check(self, X: Any) -> np.ndarray:
        rows = validate_data(self, X, dtype=float, reset=False)
        outside = distance_outside(self.fit_.features, rows)
        far = outside > self.fit_.tolerated + 1e-9
        if far.any():
            names = self.feature_names_
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

    @property
    def feature_names_(self) -> list[str]:
        """The features' names, or x0, x1, ... where the table had none."""
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

    def options(self) -> Options:
        """The parameters, checked, as the candidates need them."""
        fraction = self.validation_fraction
        if not isinstance(fraction, float | np.floating) or not 0 < fraction < 1:
            raise ValueError(f"validation_fraction is between 0 and 1, got {fraction!r}")
        given = {each.name: getattr(self, each.name) for each in own_options(TableOptions)}
        for name in given.keys() - {"degree", "embedding"}:  # for these None has a meaning
            given[name] = AUTO if given[name] is None else given[name]
        given |= {
            "preconditioner": bool(self.preconditioner),
            "held_out": float(fraction) if self.early_stopping else 0.0,
            "seed": int(check_random_state(self.random_state).randint(2**31 - 1)),
        }
        return Options(**given)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "fit_")


PANNRegressor.__doc__ = f"{PANNRegressor.__doc__}{parameters_section(own_options(PANNRegressor))}"


def load(contents: Contents) -> PANNRegressor:
    """A fitted regressor from a file."""
    record = load_table(contents)
    unknown = set(record.options) - set(PANNRegressor().get_params())
    if unknown:
        raise FileError(f"the file has an option '{unknown.pop()}' that this pann does not know")
    regressor = PANNRegressor(**record.options)
    regressor.n_features_in_ = len(record.features)
    if record.features_are_named:
        regressor.feature_names_in_ = np.array(record.features, dtype=object)
    if record.targets is not None:
        regressor.target_names_ = list(record.targets)
    regressor._single_output = record.single_output
    regressor._set_fit(record.fit, record.sample)
    return regressor
