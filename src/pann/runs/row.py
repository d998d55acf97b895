"""A row says what to run, and a result says what the run gave; both hold plain data only.

A row is known by a hash of everything that determines it, so that equal rows are run once.
"""

import dataclasses
import functools
import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from pann.io.checks import check_plain, plain, shown
from pann.io.container import declare

IDENTITY_DIGITS = 16
_EXPERIMENT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")


@dataclasses.dataclass(frozen=True, eq=False)
class Row:
    """What to run: the experiment's name, which is a folder's too, and a configuration in JSON.

    Two rows are equal if their identities are. The order of keys does not matter and a tuple is a
    list, but 1, 1.0 and true are three values, as they are three texts in JSON: running a row twice
    is better than confusing two rows.
    """

    experiment: str
    configuration: Mapping[str, Any]

    def __post_init__(self) -> None:
        if not _EXPERIMENT.fullmatch(self.experiment):
            raise ValueError(
                f"{shown(self.experiment)} cannot name an experiment, for it names a folder; use "
                "letters, digits, underscores, dots and hyphens"
            )
        # A copy, as the record will return it: later changes by the caller do not reach it.
        own = json.loads(canonical(dict(self.configuration)))
        object.__setattr__(self, "configuration", own)

    @functools.cached_property
    def identity(self) -> str:
        """The first 16 hexadecimal digits of the SHA-256 of experiment and configuration."""
        whole = {"experiment": self.experiment, "configuration": self.configuration}
        return hashlib.sha256(canonical(whole).encode("ascii")).hexdigest()[:IDENTITY_DIGITS]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Row) and self.identity == other.identity

    def __hash__(self) -> int:
        return hash(self.identity)


@dataclasses.dataclass(frozen=True)
class Result:
    """What a run gives: figures by name, plain or nested, for its record, and arrays by name.

    Scalars of NumPy and JAX become numbers; a figure that is not finite becomes null in JSON.
    """

    figures: Mapping[str, Any]
    arrays: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        figures = plain(dict(self.figures))
        check_plain(figures, "the figures")
        object.__setattr__(self, "figures", figures)
        arrays = {name: np.asarray(array) for name, array in self.arrays.items()}
        for name, array in arrays.items():
            declare(name, array)  # refuses what a file could not hold
        object.__setattr__(self, "arrays", arrays)


def canonical(value: dict[str, Any]) -> str:
    """The canonical JSON text: keys sorted, no blanks, floats by `repr`, no NaN."""
    check_plain(value, "the configuration")
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
