"""A window that is done, and all such windows as a checkpoint keeps them."""

import dataclasses
from typing import Any

import numpy as np
from jaxtyping import Float

from pann.basis import Fourier, PiecewiseLegendre
from pann.checkpoints import Saved
from pann.pde.windows.space_axis import SpaceAxis


@dataclasses.dataclass(frozen=True)
class Solved:
    """A window's place, its functions and coefficients, and how well it is solved.

    `coefficients` belong to the axes' functions and Legendre's in time.
    """

    begin: float
    end: float
    axes: tuple[SpaceAxis, ...]
    coefficients: Float[np.ndarray, "fields ... degrees"]
    steps: int
    tail: float
    space_tail: float
    residual: float


def kept(
    done: list[Solved], scales: Float[np.ndarray, " fields"], wanted: float, rejected: int
) -> Saved:
    """All windows so far, the fields' sizes, the length wanted next, and how many were rejected."""
    arrays = {f"window{k}": window.coefficients for k, window in enumerate(done)}
    numbers = [[w.begin, w.end, w.tail, w.space_tail, w.residual] for w in done]
    arrays |= {"numbers": np.array(numbers), "scales": scales, "wanted": np.asarray(wanted)}
    notes = {
        "axes": [[_told(axis) for axis in window.axes] for window in done],
        "steps": [window.steps for window in done],
        "rejected": rejected,
    }
    return Saved(arrays, notes)


def restored(saved: Saved) -> tuple[list[Solved], Float[np.ndarray, " fields"], float, int]:
    """What `kept` was given."""
    arrays, notes = saved.arrays, saved.notes
    done = []
    for k, (begin, end, tail, space_tail, residual) in enumerate(arrays["numbers"].tolist()):
        axes = tuple(_axis(told) for told in notes["axes"][k])
        coefficients = np.array(arrays[f"window{k}"])
        steps = int(notes["steps"][k])
        done.append(Solved(begin, end, axes, coefficients, steps, tail, space_tail, residual))
    return done, np.array(arrays["scales"]), float(arrays["wanted"]), int(notes["rejected"])


def _told(axis: SpaceAxis) -> dict[str, Any]:
    family = axis.family
    breaks = list(family.breaks) if isinstance(family, PiecewiseLegendre) else None
    ends = {"name": axis.name, "lower": float(axis.lower), "upper": float(axis.upper)}
    return {**ends, "level": int(axis.level), "breaks": breaks}


def _axis(told: dict[str, Any]) -> SpaceAxis:
    breaks = told["breaks"]
    family = Fourier() if breaks is None else PiecewiseLegendre(tuple(breaks))
    return SpaceAxis(told["name"], told["lower"], told["upper"], family, told["level"])
