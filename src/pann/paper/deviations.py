"""Where the paper is silent or contradicts itself: what it says, what is done here, and why."""

import csv
import dataclasses
import functools
from importlib import resources


@dataclasses.dataclass(frozen=True)
class Deviation:
    """One such place; `experiments` names those concerned, none of them if all are."""

    about: str
    experiments: tuple[str, ...]
    paper: str
    here: str
    why: str


@functools.cache
def deviations() -> tuple[Deviation, ...]:
    """All of them, as `deviations.csv` has them."""
    path = resources.files("pann.paper").joinpath("deviations.csv")
    with path.open(encoding="utf-8") as file:
        return tuple(_read(line) for line in csv.DictReader(file))


def _read(line: dict[str, str]) -> Deviation:
    concerned = tuple(line["experiments"].split())
    return Deviation(line["about"], concerned, line["paper"], line["here"], line["why"])
