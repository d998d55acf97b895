"""A row: one run of an experiment, known by a hash of everything that determines it."""

import dataclasses
import functools
import hashlib
import json
import math
import re
from collections.abc import Mapping
from typing import Any

from pann.io.container import MAX_DEPTH, MAX_INTEGER, shown

IDENTITY_DIGITS = 16
_EXPERIMENT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")


@dataclasses.dataclass(frozen=True, eq=False)
class Row:
    """What to run: the experiment's name, which is a folder's too, and a configuration in JSON.

    Two rows are equal if their identities are. The order of keys does not matter and a tuple is a
    list, but 1, 1.0 and true are three values, as they are three texts in JSON: to run a row twice
    is a lesser evil than to take one row for another.
    """

    experiment: str
    configuration: Mapping[str, Any]

    def __post_init__(self) -> None:
        if not _EXPERIMENT.fullmatch(self.experiment):
            raise ValueError(
                f"{shown(self.experiment)} cannot name an experiment, for it names a folder; use "
                "letters, digits, underscores, dots and hyphens"
            )
        # A copy, as the record will give it back: no later change of the caller's reaches it.
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


def canonical(value: dict[str, Any]) -> str:
    """The one text in JSON: keys sorted, no blanks, floats by `repr`, no NaN."""
    _check(value, ())
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _check(value: Any, keys: tuple[str, ...]) -> None:
    """Refuse what JSON cannot give back as it was, and say where it stands."""
    where = f"'{'.'.join(keys)}' of the configuration" if keys else "the configuration"
    if len(keys) > MAX_DEPTH:
        raise ValueError(f"{where} is nested deeper than {MAX_DEPTH} levels; flatten it")
    if isinstance(value, dict):
        for key, inner in value.items():
            if not isinstance(key, str):
                raise ValueError(f"{where} has the key {shown(key)}; keys must be text")
            _check(inner, (*keys, key))
    elif isinstance(value, list | tuple):
        for number, inner in enumerate(value):
            _check(inner, (*keys, str(number)))
    elif isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{where} is {value}, which JSON does not have; use null or text")
    elif isinstance(value, int) and abs(value) > MAX_INTEGER:
        raise ValueError(f"{where} is an integer beyond 64 bits; write it as text")
    elif value is not None and not isinstance(value, bool | int | float | str):
        raise ValueError(
            f"{where} is {shown(value)} of type {type(value).__name__}; use text, numbers, "
            "booleans, null, lists and dictionaries"
        )
