"""A fitted `PANNRegressor` as a `.pann` file: scalings, names, how it was trained, every trial."""

import os
from typing import Any

import numpy as np

from pann.estimator import PANNRegressor
from pann.files import Contents, FileError, model_from_state, model_state, write
from pann.scaling import FeatureScaling, RangeScaling, RankScaling, TargetScaling
from pann.tabular import TableFit

KIND = "regressor"
SCALINGS: dict[str, Any] = {"range": RangeScaling, "rank": RankScaling}


def save(path: str | os.PathLike[str], regressor: PANNRegressor) -> None:
    """Write the fitted regressor; what it was given and how it did stand in the header."""
    fitted = regressor.fit_
    header: dict[str, Any] = {
        "features": regressor._feature_names(),
        "features_are_named": hasattr(regressor, "feature_names_in_"),
        "single_output": regressor._single_output,
        "targets": getattr(regressor, "target_names_", None),
        "options": {name: _plain(value) for name, value in regressor.get_params().items()},
        "degree": fitted.degree,
        "how": fitted.how,
        "held_out_error": fitted.held_out_error,
        "scaling": "range" if isinstance(fitted.features, RangeScaling) else "rank",
        "models": [],
    }
    arrays: dict[str, np.ndarray] = {"sample": regressor._sample, "active": fitted.active}
    for prefix, part in (("features", fitted.features), ("targets", fitted.targets)):
        arrays |= {f"{prefix}_{name}": value for name, value in vars(part).items()}
    for number, model in enumerate(fitted.models):
        state, own = model_state(model)
        header["models"].append(state)
        arrays |= {f"model_{number}_{name}": value for name, value in own.items()}
    write(path, KIND, header, arrays)


def load(contents: Contents) -> PANNRegressor:
    """The regressor as it was; options that were objects are back at their defaults."""
    header, arrays = contents.header, dict(contents.arrays)
    try:
        return _load(header, arrays)
    except (KeyError, TypeError, IndexError, AttributeError) as error:
        raise FileError(f"the file holds no complete regressor: {error}") from error


def _load(header: dict[str, Any], arrays: dict[str, np.ndarray]) -> PANNRegressor:
    names = _strings(header["features"])
    features = _scaling(header["scaling"], arrays, len(names))
    states = header["models"]
    if not isinstance(states, list) or not states:
        raise FileError("the file holds no models")
    models = []
    for number, state in enumerate(states):
        prefix = f"model_{number}_"
        own = {k.removeprefix(prefix): v for k, v in arrays.items() if k.startswith(prefix)}
        models.append(model_from_state(state, own))
    num_outputs = models[0].num_outputs
    targets = TargetScaling(arrays["targets_mean"], arrays["targets_deviation"])
    active, sample = arrays["active"], arrays["sample"]
    _require(active.dtype == np.int64 and active.ndim == 1, "the list of used features is broken")
    _require(bool(np.all((active >= 0) & (active < len(names)))), "a used feature does not exist")
    _require(
        all(m.domain.dimension == len(active) and m.num_outputs == num_outputs for m in models),
        "models and features do not fit together",
    )
    for array in (targets.mean, targets.deviation):
        _require(_is_finite(array, (num_outputs,)), "the scaling of the target is broken")
    _require(
        sample.ndim == 2 and len(sample) > 0 and _is_finite(sample, (len(sample), len(names))),
        "the sample is broken",
    )
    regressor = PANNRegressor(**_options(header["options"]))
    regressor.n_features_in_ = len(names)
    if header["features_are_named"] is True:
        regressor.feature_names_in_ = np.array(names, dtype=object)
    regressor._single_output = header["single_output"] is True
    _require(not regressor._single_output or num_outputs == 1, "one output was promised")
    if header["targets"] is not None:
        regressor.target_names_ = _strings(header["targets"])
        _require(len(regressor.target_names_) == num_outputs, "the names of the targets are others")
    error = header["held_out_error"]
    fitted = TableFit(
        models=tuple(models),
        features=features,
        targets=targets,
        active=active,
        degree=int(header["degree"]),
        how=str(header["how"]),
        held_out_error=None if error is None else float(error),
        outcomes={},
    )
    regressor._keep(fitted, sample)
    return regressor


def _scaling(kind: Any, arrays: dict[str, np.ndarray], num_features: int) -> FeatureScaling:
    _require(isinstance(kind, str) and kind in SCALINGS, f"there is no scaling {kind!r}")
    parts = {k.removeprefix("features_"): v for k, v in arrays.items() if k.startswith("features_")}
    scaling = SCALINGS[kind](**parts)
    for array in parts.values():
        shape = (num_features,) if kind == "range" else (len(array), num_features)
        _require(_is_finite(array, shape), "the scaling of the features is broken")
    if isinstance(scaling, RankScaling):
        _require(scaling.knots.shape == scaling.places.shape, "knots and places do not match")
        _require(len(scaling.knots) > 0, "there are no knots")
    return scaling


def _plain(value: Any) -> Any:
    """Options as JSON; objects, such as stages and embeddings, as text for the reader."""
    if value is None or isinstance(value, str | bool | int | float):
        return value
    return {"described": repr(value)}


def _options(given: Any) -> dict[str, Any]:
    _require(isinstance(given, dict), "the options are no table")
    known = PANNRegressor().get_params()
    _require(set(given) <= set(known), "there are options that this version does not know")
    return {name: value for name, value in given.items() if not isinstance(value, dict | list)}


def _strings(names: Any) -> list[str]:
    _require(
        isinstance(names, list) and bool(names) and all(isinstance(name, str) for name in names),
        "the features have no names",
    )
    return list(names)


def _is_finite(array: np.ndarray, shape: tuple[Any, ...]) -> bool:
    return array.shape == shape and array.dtype == float and bool(np.all(np.isfinite(array)))


def _require(condition: bool, what: str) -> None:
    if not condition:
        raise FileError(f"the file holds no usable regressor: {what}")
