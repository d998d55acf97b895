"""What a run gives: figures for its record, and arrays for a file beside it."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from pann.io.container import declare, shown


@dataclasses.dataclass(frozen=True)
class Result:
    """Figures by name, plain or nested, and arrays by name.

    Scalars of NumPy and JAX become numbers; a figure that is not finite becomes null, for JSON
    has no other word for it.
    """

    figures: Mapping[str, Any]
    arrays: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "figures", _plain(dict(self.figures), "the figures"))
        arrays = {name: np.asarray(array) for name, array in self.arrays.items()}
        for name, array in arrays.items():
            declare(name, array)  # refuses what a file could not hold
        object.__setattr__(self, "arrays", arrays)


def _plain(value: Any, where: str) -> Any:
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                raise ValueError(f"{where} have the key {shown(key)}; keys must be text")
        return {str(key): _plain(inner, f"{where} in '{key}'") for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner, where) for inner in value]
    if getattr(value, "ndim", None) == 0:
        value = value.item()
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if value is None or isinstance(value, bool | int | str):
        return value
    raise ValueError(
        f"{where} hold {shown(value)} of type {type(value).__name__}; use numbers, text, booleans, "
        "lists and dictionaries, and put arrays among the arrays"
    )
