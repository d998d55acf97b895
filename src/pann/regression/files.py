"""A fitted table as a `.pann` file: scalings, names, how it was trained, every trial."""

import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pann.errors import FileError
from pann.io import Contents, write
from pann.io.checks import MAX_SIZE, check_dict, check_string, integer
from pann.io.codec import (
    Listed,
    OneOf,
    Optional,
    Plain,
    Prefixed,
    Record,
    Values,
    decode,
    encode,
)
from pann.io.models import FLAG, MODEL, NUMBER
from pann.regression.candidates import TableFit
from pann.regression.scaling import RangeScaling, RankScaling, TargetScaling

KIND = "regressor"


class TableRecord(NamedTuple):
    """What a file holds: the fit, some rows for plots, names, and the options as text."""

    fit: TableFit
    sample: np.ndarray
    features: Sequence[str]
    features_are_named: bool
    targets: Sequence[str] | None
    single_output: bool
    options: dict[str, Any]


def save(path: str | os.PathLike[str], record: TableRecord) -> None:
    """Write the record; options that are objects, such as stages, become text for the reader."""
    write(path, KIND, *encode(TABLE, record))


def load(contents: Contents) -> TableRecord:
    """The record as it was; options that were objects are left out."""
    return decode(TABLE, contents.description, contents.arrays)


def _ranks(values: Values) -> RankScaling:
    if values.knots.shape != values.places.shape or not len(values.knots):
        raise FileError("the knots of the scaling and their places do not match")
    return RankScaling(values.knots, values.places)


SCALING = OneOf(
    "the scaling",
    {
        "range": Record(
            RangeScaling,
            "the scaling",
            {},
            {name: "float64 features" for name in ("low", "high", "bulk_low", "bulk_high")},
        ),
        "rank": Record(
            RankScaling,
            "the scaling",
            {},
            {name: "float64 any features" for name in ("knots", "places")},
            build=_ranks,
        ),
    },
    short=True,
)


def _options(options: dict[str, Any]) -> dict[str, Any]:
    is_plain = lambda value: value is None or isinstance(value, str | bool | int | float)
    return {
        name: value if is_plain(value) else {"described": repr(value)}
        for name, value in options.items()
    }


def _plain_options(value: Any, what: str) -> dict[str, Any]:
    options = check_dict(value, what)
    return {key: each for key, each in options.items() if not isinstance(each, dict | list)}


def _split(record: TableRecord) -> dict[str, Any]:
    fitted, values = record.fit, record._asdict()
    del values["fit"]
    return values | {
        "scaling": fitted.features,
        "targets_mean": fitted.targets.mean,
        "targets_deviation": fitted.targets.deviation,
        **{name: getattr(fitted, name) for name in ("models", "active", *_REPORT)},
    }


def _check(values: Values) -> None:
    if not values.features or not values.models:
        raise FileError("the file holds no features, or no models")
    outputs = {model.num_outputs for model in values.models}
    if len(outputs) > 1 or None in outputs:
        raise FileError("the models have different outputs, or one that is not a column")
    count = outputs.pop()
    if values.targets is not None and len(values.targets) != count:
        raise FileError(f"{len(values.targets)} targets are named, but the models have {count}")
    if values.single_output and count != 1:
        raise FileError(f"one output was promised, but the models have {count}")


def _build(values: Values) -> TableRecord:
    if not len(values.sample):
        raise FileError("the sample has no rows")
    if not np.all((values.active >= 0) & (values.active < len(values.features))):
        raise FileError("a feature that the models use does not exist")
    if any(model.domain.dimension != len(values.active) for model in values.models):
        raise FileError(f"the models do not take the {len(values.active)} features in use")
    fitted = TableFit(
        models=values.models,
        features=values.scaling,
        targets=TargetScaling(values.targets_mean, values.targets_deviation),
        active=values.active,
        outcomes={},
        **{name: getattr(values, name) for name in _REPORT},
    )
    return TableRecord(fitted, **{name: getattr(values, name) for name in TableRecord._fields[1:]})


_REPORT = ("degree", "how", "held_out_error")
NAMES = Listed(Plain(check_string))
TABLE = Record(
    TableRecord,
    "the regressor",
    {
        "features": NAMES,
        "features_are_named": FLAG,
        "single_output": FLAG,
        "targets": Optional(NAMES),
        "options": Plain(_plain_options, _options),
        "degree": Plain(integer(-MAX_SIZE), int),
        "how": Plain(check_string),
        "held_out_error": Optional(NUMBER),
        "scaling": Prefixed("features_", SCALING),
        "models": Listed(MODEL, "model_{}_"),
    },
    {
        "sample": "float64 any features",
        "active": "int64 any",
        "targets_mean": "float64 num_targets",
        "targets_deviation": "float64 num_targets",
    },
    _check,
    lambda of: {"num_targets": of.models[0].num_outputs},
    split=_split,
    build=_build,
)
