"""What a `.pann` file of a regressor says about itself."""

import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from pann.io import Contents, FileError, read
from pann.model.pann import Term
from pann.regression import estimator
from pann.regression.estimator import PANNRegressor
from pann.regression.files import KIND

NUM_LEADING_TERMS = 10
ROUND_OFF = 1e-12
OTHER_KINDS = {
    "model": "a model of points, not of a table",
    "solution": "the solution of an equation, not a model of a table",
}


def load_regressor(path: pathlib.Path) -> PANNRegressor:
    """The regressor in a file; a FileError says what else the file holds."""
    return _opened(path)[1]


def _opened(path: pathlib.Path) -> tuple[Contents, PANNRegressor]:
    contents = read(path)
    if contents.kind == KIND:
        return contents, estimator.load(contents)
    if contents.kind in OTHER_KINDS:
        what = OTHER_KINDS[contents.kind]
        raise FileError(f"'{path}' holds {what}; use it in Python with pann.load")
    raise FileError(f"'{path}' holds a '{contents.kind}', which this pann does not know")


def describe_file(path: pathlib.Path) -> dict[str, Any]:
    """What a `.pann` file of a regressor says about itself."""
    contents, loaded = _opened(path)
    scaling, defaults = loaded.fit_.features, PANNRegressor().get_params()
    return dict(
        command="info",
        file=str(path),
        kind="regressor",
        pann_version=contents.pann_version,
        format_version=contents.format_version,
        features=[
            {"name": name, "low": float(low), "high": float(high)}
            for name, low, high in zip(
                loaded.feature_names_, scaling.low, scaling.high, strict=True
            )
        ],
        targets=target_names(loaded),
        **what_was_fitted(loaded),
        held_out_error=loaded.held_out_error_,
        options={
            name: value
            for name, value in loaded.get_params().items()
            if value != defaults[name] and name != "verbose"
        },
        leading_terms=leading_terms(loaded.terms_),
    )


def target_names(regressor: PANNRegressor) -> list[str]:
    """The names of the targets; made up for a regressor that does not know them."""
    names = getattr(regressor, "target_names_", None)
    if names is not None:
        return list(names)
    count = len(regressor.fit_.targets.mean)
    return ["prediction"] if count == 1 else [f"prediction_{i + 1}" for i in range(count)]


def what_was_fitted(regressor: PANNRegressor) -> dict[str, Any]:
    models = regressor.fit_.models
    return {
        "how": regressor.how_,
        "degree": regressor.degree_,
        "terms": max(model.num_terms for model in models),
        "units": max(model.num_units for model in models),
        "trials": len(models),
    }


def leading_terms(terms: Sequence[Term]) -> list[dict[str, Any]]:
    """The first terms as JSON, without those that are rounding."""
    size = lambda term: float(np.max(np.abs(term.coefficients)))
    return [
        {"term": term.name, "coefficients": [float(c) for c in term.coefficients]}
        for term in terms[:NUM_LEADING_TERMS]
        if size(term) > ROUND_OFF * size(terms[0])
    ]
