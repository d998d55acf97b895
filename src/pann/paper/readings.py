"""Which reading of the paper fits its figures: cells run with one decision changed at a time.

What the paper leaves open is decided once for the faithful mode; here some of its cells are run as
decided, and with each other reading. `condition_weight` is the factor of the conditions' residuals:
10 and 100 are weights of the equation, lambda, of 0.01 and 0.0001.
"""

import itertools
from typing import Any

from pann.paper.equations import REVISION, SIZES
from pann.runs import Row

READINGS: dict[str, dict[str, Any]] = {
    "as decided": {},
    "float64": {"precision": "float64"},
    "8,000 L-BFGS iterations": {"lbfgs_iterations": 8_000},
    "signed pruning": {"signed": True},
    "sum over the points": {"reduction": "sum"},
    "lambda = 0.01": {"condition_weight": 10.0},
    "lambda = 0.0001": {"condition_weight": 100.0},
    "T = 0.5": {"until": 0.5},
    "v(0) as printed": {"printed": True},
}
ONLY_FOR: dict[str, tuple[str, ...]] = {
    "T = 0.5": ("kdv", "ks"),
    "v(0) as printed": ("grey_scott",),
}
# By problem: sampling, number of points, width and c of the cells.
CELLS = {
    "poisson": ("poisson_disk", 1024, 50, 0.003),
    "allen_cahn": ("poisson_disk", 1024, 50, 0.003),
    "kdv": ("equispaced", 16_384, 100, 0.0002),
    "ks": ("equispaced", 16_384, 100, 0.0002),
    "grey_scott": ("poisson_disk", 8_192, 100, 0.001),
}


def rows(size: str, mode: str, trials: int | None = None) -> list[Row]:
    """PINN and PANN by every reading that makes a difference for them."""
    if mode == "default":
        return []
    chosen = SIZES[size]
    made = []
    for problem, (sampling, num_points, width, c) in CELLS.items():
        if size != "full" and problem != "poisson":
            continue
        shape = chosen.shape or (width, 3)
        for model, (reading, change) in itertools.product(("PINN", "PANN"), READINGS.items()):
            if problem not in ONLY_FOR.get(reading, (problem,)):
                continue
            if model == "PINN" and "signed" in change:
                continue
            cell = {
                "mode": mode,
                "problem": problem,
                "reading": reading,
                "sampling": sampling,
                "model": model,
                "base": "plain",
                "width": shape[0],
                "depth": shape[1],
                "num_points": chosen.num_points or num_points,
                "trials": trials or chosen.trials,
                "adam_steps": chosen.adam_steps,
                "lbfgs_iterations": chosen.lbfgs_iterations,
                "precision": "float32",
                "seed": 0,
                "revision": REVISION,
            }
            cell |= {"c": c} if model == "PANN" else {}
            made.append(Row("readings", cell | _shortened(change, chosen.lbfgs_iterations)))
    return made[-3:] if size == "smoke" else made


def _shortened(change: dict[str, Any], lbfgs_iterations: int) -> dict[str, Any]:
    """Twenty times the L-BFGS iterations of the size, whatever they are."""
    if "lbfgs_iterations" not in change:
        return change
    return {"lbfgs_iterations": 20 * lbfgs_iterations}
