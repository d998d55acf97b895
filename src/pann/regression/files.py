"""A fitted table as a `.pann` file: scalings, names, how it was trained, every trial."""

import os
from typing import Any, NamedTuple

import numpy as np

from pann.io import Contents, FileError, model_from_state, model_state, write
from pann.regression.candidates import TableFit
from pann.regression.scaling import FeatureScaling, RangeScaling, RankScaling, TargetScaling

KIND = "regressor"
SCALINGS: dict[str, Any] = {"range": RangeScaling, "rank": RankScaling}


class TableRecord(NamedTuple):
    """What a file holds: the fit, some rows for pictures, names, and the options as text."""

    fit: TableFit
    sample: np.ndarray
    features: list[str]
    features_are_named: bool
    targets: list[str] | None
    single_output: bool
    options: dict[str, Any]


def save(path: str | os.PathLike[str], record: TableRecord) -> None:
    """Write the record; what it was given and how it did stand in the header."""
    fitted = record.fit
    header: dict[str, Any] = {
        "features": record.features,
        "features_are_named": record.features_are_named,
        "single_output": record.single_output,
        "targets": record.targets,
        "options": {name: _plain(value) for name, value in record.options.items()},
        "degree": fitted.degree,
        "how": fitted.how,
        "held_out_error": fitted.held_out_error,
        "scaling": "range" if isinstance(fitted.features, RangeScaling) else "rank",
        "models": [],
    }
    arrays: dict[str, np.ndarray] = {"sample": record.sample, "active": fitted.active}
    for prefix, part in (("features", fitted.features), ("targets", fitted.targets)):
        arrays |= {f"{prefix}_{name}": value for name, value in vars(part).items()}
    for number, model in enumerate(fitted.models):
        state, own = model_state(model)
        header["models"].append(state)
        arrays |= {f"model_{number}_{name}": value for name, value in own.items()}
    write(path, KIND, header, arrays)


def load(contents: Contents) -> TableRecord:
    """The record as it was; options that were objects, such as stages, are left out."""
    try:
        return _load(contents.header, dict(contents.arrays))
    except (KeyError, TypeError, IndexError, AttributeError) as error:
        raise FileError(f"the file holds no complete regressor: {error}") from error


def _load(header: dict[str, Any], arrays: dict[str, np.ndarray]) -> TableRecord:
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
        len(sample) > 0 and _is_finite(sample, (len(sample), len(names))), "the sample is broken"
    )
    single, named = header["single_output"], header["features_are_named"]
    _require(isinstance(single, bool) and isinstance(named, bool), "a flag is neither yes nor no")
    _require(not single or num_outputs == 1, "one output was promised")
    target_names = None if header["targets"] is None else _strings(header["targets"])
    _require(
        target_names is None or len(target_names) == num_outputs, "the targets' names do not fit"
    )
    error, options = header["held_out_error"], header["options"]
    _require(isinstance(options, dict), "the options are no table")
    _require(isinstance(header["degree"], int) and isinstance(header["how"], str), "no report")
    _require(error is None or isinstance(error, float), "the held-out error is no number")
    fitted = TableFit(
        models=tuple(models),
        features=features,
        targets=targets,
        active=active,
        degree=header["degree"],
        how=header["how"],
        held_out_error=error,
        outcomes={},
    )
    plain = {key: value for key, value in options.items() if not isinstance(value, dict | list)}
    return TableRecord(fitted, sample, names, named, target_names, single, plain)


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
