"""How long the five tables of equations would take at full size with five trials, on this device.

For every problem and number of points an Adam step of five mapped trials is timed for PINN and
PANN, 3x100 and 5x50, plain; other cells of the tables take the time of the nearest of them, times
the factor of their variant (`python -m benchmarks variant_steps`). A run is 100,000 steps, and 400
iterations of L-BFGS at three evaluations each. The published seconds are those of one trial, which
the paper gives for the largest number of points alone: its sum is over those cells.
"""

import csv
import itertools
import pathlib
from collections.abc import Iterator

from benchmarks.harness import Row
from benchmarks.steps import Step, seconds_a_step
from pann.paper import equations, published
from pann.paper.experiments import experiment_named
from pann.problems import PROBLEMS

TRIALS, EVALUATIONS = 5, 100_000 + 3 * 400
STEPS, ROUNDS = 50, 1
SHAPES = {100: (100, 100, 100), 50: (50, 50, 50, 50, 50)}
VARIANT_NAMES = {"rff": "RFF", "modmlp": "ModMLP", "gradnorm": "GradNorm", "causal": "Causal"}


def rows() -> Iterator[Row]:
    factors = _factors()
    for name in equations.NAMES:
        cells = [row.configuration for row in experiment_named(name).rows("full", "faithful", None)]
        sizes = sorted({cell["num_points"] for cell in cells})
        degree = {num: _degree(name, cells, num) for num in sizes}
        make = PROBLEMS[name]
        problem = make(faithful=True) if name in equations.SPACE else make()
        seconds = {}
        for num_points, (width, widths) in itertools.product(sizes, SHAPES.items()):
            cases = {
                (model, width, num_points): Step(
                    problem,
                    num_points,
                    degree[num_points] if model == "PANN" else 0,
                    widths,
                    axes=equations.SPACE.get(name),
                    trials=TRIALS,
                )
                for model in ("PINN", "PANN")
            }
            seconds |= seconds_a_step(cases, STEPS, ROUNDS)
        total = sum(_seconds(cell, seconds, factors) for cell in cells)
        frame = published.load(name)
        largest = frame[(frame["num_points"] == max(sizes)) & (frame["field"] == "u")]
        yield {
            "table": name,
            "rows": len(cells),
            "ms a step, largest PANN": 1e3 * seconds["PANN", 100, max(sizes)],
            "hours": total / 3600,
            "hours, largest N": sum(
                _seconds(cell, seconds, factors)
                for cell in cells
                if cell["num_points"] == max(sizes)
            )
            / 3600,
            "published hours, largest N": TRIALS * float(largest["seconds"].sum()) / 3600,
        }


def _degree(name: str, cells: list, num_points: int) -> int:
    cs = [cell["c"] for cell in cells if cell["num_points"] == num_points and "c" in cell]
    return max(equations.degree_of(name, c, num_points) for c in cs)


def _seconds(cell: dict, seconds: dict, factors: dict[str, float]) -> float:
    """Of one row: the polynomial alone takes no longer than with the smaller network."""
    model = "PINN" if cell["model"] == "PINN" else "PANN"
    step = seconds[model, cell.get("width", 50), cell["num_points"]]
    return EVALUATIONS * step * factors[cell.get("base", "plain")]


def _factors() -> dict[str, float]:
    """Times of the variants against the plain network, as measured before."""
    with pathlib.Path("results/variant_steps.csv").open() as file:
        found = {
            (row["model"], row["variant"]): float(row["ratio"]) for row in csv.DictReader(file)
        }
    return {"plain": 1.0} | {
        base: max(found["PINN", name], found["PANN", name]) for base, name in VARIANT_NAMES.items()
    }
