"""A finished run as the drawings see it."""

import dataclasses
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pann.runs import Row, Store

# Okabe and Ito's colors, which color-blind people can tell apart.
BLACK, ORANGE, SKY, GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"
BLUE, VERMILION, PURPLE, GRAY = "#0072B2", "#D55E00", "#CC79A7", "#999999"
COLORS = (BLUE, VERMILION, GREEN, ORANGE, PURPLE, SKY, BLACK)
# Of the same things in all figures.
SOURCES = {"published": GRAY, "faithful": BLUE, "default": ORANGE}


@dataclasses.dataclass(frozen=True)
class Finished:
    """One run: what it was, and what it gave."""

    record: Mapping[str, Any]
    store: Store

    @property
    def mode(self) -> str:
        return self.record["configuration"]["mode"]

    def told(self, name: str) -> Any:
        """A setting of the row; None where it has none."""
        return self.record["configuration"].get(name)

    @property
    def figures(self) -> Mapping[str, Any]:
        return self.record["figures"]

    @property
    def seconds(self) -> float:
        """Those of the fit, or of the whole run where nothing else was timed."""
        figures = self.figures
        return figures.get("fit_seconds") or figures.get("solve_seconds") or self.record["seconds"]

    def error(self, field: str | None = None) -> float | None:
        """The mean over the trials; None if none of them is finite."""
        errors = self.figures["errors"]
        of_field = errors[field] if isinstance(errors, dict) and field else errors
        return mean(of_field)

    def arrays(self) -> dict[str, np.ndarray]:
        return self.store.arrays(Row(self.record["experiment"], self.record["configuration"]))


def mean(values: Sequence[float | None]) -> float | None:
    """The mean of what is finite, as in the tables."""
    finite = [value for value in values if value is not None]
    return statistics.mean(finite) if finite else None


def unique(values: Sequence[Any]) -> list[Any]:
    """What there is, without repetition and without None, in order."""
    return sorted({value for value in values if value is not None})
