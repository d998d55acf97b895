"""Which reading of the paper fits its figures: cells run with one decision changed at a time.

What the paper leaves open is decided once for the faithful mode; here some of its cells are run
with other readings. Each changes one thing of a base whose L-BFGS has 400 iterations and a history
of 50; tables for which more fits better have more (`equations.AT_FULL_SIZE`). For KdV and
Kuramoto-Sivashinsky, where no single change is enough, there are pairs, all with 8,000 iterations;
for the steady equations weights, for their largest cells, with 8,000 iterations and the index set
that fits the published polynomials.

`condition_weight` is the factor of the conditions' residuals: 3, 10 and 100 are weights of the
equation, lambda, of 1/9, 0.01 and 0.0001. "To convergence" is L-BFGS as PyTorch has it by default,
400 calls of at most 20 iterations, a history of 100, and an end where no entry of the gradient is
above 1e-7, in double precision. Tensor products are tried where the paper prints errors below those
of any polynomial of its degree (`python -m benchmarks best_polynomials`).
"""

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

from pann.runs import Row
from reproduction.equations import SIZES
from reproduction.published import stored_name

# The identities of rows have these words; `shown_reading` has the numbers of the size.
BASE, LONG = "as decided", "8,000 L-BFGS iterations"
# Pairs: up to which order both ends of an axis are tied, and the factor of the conditions. The last
# order with the first factor is a reading by itself: KdV has it by default.
TIED = {"value": 0, "value and slope": 1, "value, slope and curvature": 2}
WEIGHTS = {"lambda = 1": None, "lambda = 1/9": 3.0, "lambda = 0.01": 10.0}
PAIRS: dict[str, dict[str, Any]] = {
    f"{tied} tied, {weight}, {LONG}": {
        "lbfgs_iterations": 8_000,
        "lbfgs_memory": 100,
        "periodic_order": order,
    }
    | ({} if factor is None else {"condition_weight": factor})
    for (tied, order), (weight, factor) in itertools.product(TIED.items(), WEIGHTS.items())
    if (order, factor) != (2, None)
}
# Weights of steady equations, for cells of their tables with the most points.
STEADY_POINTS = 4096
STEADY_WEIGHTS = {"lambda = 1": None, "lambda = 0.1": 10.0**0.5, "lambda = 0.01": 10.0} | {
    "lambda = 0.001": 1000.0**0.5,
    "lambda = 0.0001": 100.0,
}
STEADY: dict[str, dict[str, Any]] = {
    f"{weight}, {LONG}, history 100": {"lbfgs_iterations": 8_000, "lbfgs_memory": 100}
    | ({} if factor is None else {"condition_weight": factor})
    for weight, factor in STEADY_WEIGHTS.items()
}
READINGS: dict[str, dict[str, Any]] = {
    BASE: {},
    "float64": {"precision": "float64"},
    LONG: {"lbfgs_iterations": 8_000},
    f"{LONG}, history 100": {"lbfgs_iterations": 8_000, "lbfgs_memory": 100},
    "L-BFGS to convergence": {
        "precision": "float64",
        "lbfgs_iterations": 8_000,
        "lbfgs_memory": 100,
        "lbfgs_tolerance": 1e-7,
    },
    "signed pruning": {"signed": True},
    "sum over the points": {"reduction": "sum"},
    "lambda = 0.01": {"condition_weight": 10.0},
    "lambda = 0.0001": {"condition_weight": 100.0},
    "tensor product": {"index_set": "tensor_product"},
    "tensor product, lambda = 0.0001": {
        "index_set": "tensor_product",
        "condition_weight": 100.0,
    },
    "T = 0.5": {"until": 0.5},
    "v(0) as printed": {"printed": True},
    **PAIRS,
}
ONLY_FOR: dict[str, tuple[str, ...]] = {
    "tensor product": ("allen_cahn",),
    "tensor product, lambda = 0.0001": ("allen_cahn",),
    "T = 0.5": ("kdv", "ks"),
    "v(0) as printed": ("gray_scott",),
    **dict.fromkeys(PAIRS, ("kdv", "ks")),
}
# By problem: sampling, number of points, width and c of the cells with a network.
CELLS = {
    "poisson": ("poisson_disk", 1024, 50, 0.003),
    "allen_cahn": ("poisson_disk", 1024, 50, 0.003),
    "kdv": ("equispaced", 16_384, 100, 0.0002),
    "ks": ("equispaced", 16_384, 100, 0.0002),
    "gray_scott": ("poisson_disk", 8_192, 100, 0.001),
}
# The polynomial alone, which takes little time, with this number of points, both samplings.
POLYNOMIALS = {"poisson": 4096, "allen_cahn": 1024}
# Of no concern to a network alone.
OF_POLYNOMIALS = {"signed", "index_set"}


def rows(size: str, mode: str, trials: int | None = None) -> list[Row]:
    """PINN, PANN and polynomial by every reading that makes a difference for them."""
    if mode == "default":
        return []
    chosen = SIZES[size]
    common = chosen.settings(trials)
    if chosen.num_points is not None:
        common["num_points"] = chosen.num_points
    made = [
        Row(
            "readings",
            cell
            | common
            | {"reading": reading, "problem": stored_name(cell["problem"])}
            | _shortened(change, chosen.lbfgs_iterations),
        )
        for cell, (reading, change) in itertools.product(_cells(chosen.shape), READINGS.items())
        if _is_of_concern(reading, cell) and (size == "full" or _is_short(reading, cell))
    ]
    if size == "full":
        made += [
            Row("readings", cell | common | {"reading": reading} | change)
            for cell, (reading, change) in itertools.product(_steady_cells(), STEADY.items())
        ]
    return made[-3:] if size == "smoke" else made


def shown_reading(configuration: Mapping[str, Any]) -> str:
    """The name of a row's reading, with the number of L-BFGS iterations that it makes."""
    reading, made = configuration["reading"], f"{configuration['lbfgs_iterations']:,}"
    return f"{made} L-BFGS iterations" if reading == BASE else reading.replace("8,000", made)


def _is_of_concern(reading: str, cell: Mapping[str, Any]) -> bool:
    if cell["model"] == "PINN" and OF_POLYNOMIALS & set(READINGS[reading]):
        return False
    return cell["problem"] in ONLY_FOR.get(reading, CELLS)


def _is_short(reading: str, cell: Mapping[str, Any]) -> bool:
    """Whether a row belongs to the smaller sizes, too, which should not take long."""
    is_converged = "lbfgs_memory" in READINGS[reading]
    return cell["problem"] == "poisson" and cell["model"] != "PL" and not is_converged


def _cells(shape: tuple[int, int] | None) -> Iterator[dict[str, Any]]:
    for problem, (sampling, num_points, width, c) in CELLS.items():
        width, depth = shape or (width, 3)
        plain = {"problem": problem, "sampling": sampling, "num_points": num_points}
        plain |= {"base": "plain", "width": width, "depth": depth}
        yield plain | {"model": "PINN"}
        yield plain | {"model": "PANN", "c": c}
        if problem in POLYNOMIALS:
            alone = {"problem": problem, "model": "PL", "num_points": POLYNOMIALS[problem], "c": c}
            yield from (alone | {"sampling": each} for each in ("equispaced", "poisson_disk"))


def _steady_cells() -> Iterator[dict[str, Any]]:
    """Networks on steady equations, by both samplings; rows that differ in these run as one."""
    for problem, index_set in (("poisson", {}), ("allen_cahn", {"index_set": "tensor_product"})):
        _, _, width, c = CELLS[problem]
        plain = {"problem": problem, "num_points": STEADY_POINTS, "base": "plain"}
        plain |= {"width": width, "depth": 3}
        for sampling in ("equispaced", "poisson_disk"):
            yield plain | {"sampling": sampling, "model": "PINN"}
        for sampling in ("equispaced", "poisson_disk"):
            yield plain | {"sampling": sampling, "model": "PANN", "c": c} | index_set


def _shortened(change: dict[str, Any], lbfgs_iterations: int) -> dict[str, Any]:
    """Twenty times the L-BFGS iterations of the size, whatever they are."""
    if "lbfgs_iterations" not in change:
        return change
    return change | {"lbfgs_iterations": 20 * lbfgs_iterations}
