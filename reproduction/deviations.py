"""Where the paper is silent or contradicts itself: what it says, what is done here, and why."""

import dataclasses
import functools
import tomllib
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
    """All of them, as `deviations.toml` has them."""
    path = resources.files("reproduction").joinpath("deviations.toml")
    found = tomllib.loads(path.read_text("utf-8"))["deviation"]
    return tuple(
        Deviation(**{**each, "experiments": tuple(each.get("experiments", ()))}) for each in found
    )
