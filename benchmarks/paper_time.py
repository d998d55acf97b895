"""How long the five tables of equations would take at full size with five trials, on this device.

For every problem an Adam step of five mapped trials is timed for PINN and PANN, 3x100 and 5x50,
plain, with the fewest and the most points of the table; between them the time is taken as linear.
Other cells take the time of the nearest of these, times the factor of their variant (`python -m
benchmarks variant_steps`). A run is the Adam steps and the L-BFGS iterations of its row, and an
iteration counts as so many steps as it evaluates the loss where five trials are mapped, which was
counted on a small Poisson row (`python -m benchmarks line_searches`). Compiling is not in it. The
published seconds are those of one trial, which the paper gives for the largest number of points
alone: its sum is over those cells.
"""

import csv
import itertools
import pathlib
from collections.abc import Iterator

import numpy as np

from benchmarks.harness import Row
from benchmarks.steps import Step, seconds_a_step
from reproduction import equations, methods, published
from reproduction.degrees import degree_of
from reproduction.experiments import experiment_named

TRIALS = 5
STEPS, ROUNDS = 50, 1
COMPILERS = 8
SHAPES = {100: (100, 100, 100), 50: (50, 50, 50, 50, 50)}
VARIANT_NAMES = {"rff": "RFF", "modmlp": "ModMLP", "gradnorm": "GradNorm", "causal": "Causal"}


def rows() -> Iterator[Row]:
    factors, evaluations = _factors(), _evaluations()
    tables = {
        name: [row.configuration for row in experiment_named(name).rows("full", "faithful", None)]
        for name in equations.NAMES
    }
    cases = {
        (name, *case): step for name, cells in tables.items() for case, step in _cases(name, cells)
    }
    measured = seconds_a_step(cases, STEPS, ROUNDS, COMPILERS)
    for name, cells in tables.items():
        most = max(cell["num_points"] for cell in cells)
        seconds = [
            (cell["num_points"], _num_steps(cell, evaluations) * _seconds(cell, measured, factors))
            for cell in cells
        ]
        frame = published.load(name)
        largest = frame[(frame["num_points"] == most) & (frame["field"] == "u")]
        yield {
            "table": name,
            "rows": len(cells),
            "L-BFGS iterations": cells[0]["lbfgs_iterations"],
            "ms a step, largest PANN": 1e3 * measured[name, "PANN", 100, most],
            "hours": sum(of_row for _, of_row in seconds) / 3600,
            "hours, largest N": sum(of_row for num, of_row in seconds if num == most) / 3600,
            "published hours, largest N": TRIALS * float(largest["seconds"].sum()) / 3600,
        }


def _cases(name: str, cells: list) -> Iterator[tuple[tuple, Step]]:
    """What is timed of a table, by model, width and number of points."""
    problem = equations.problem_of(cells[0])
    sizes = [cell["num_points"] for cell in cells]
    for num_points, (width, widths), model in itertools.product(
        (min(sizes), max(sizes)), SHAPES.items(), ("PINN", "PANN")
    ):
        degree = _degree(name, cells, num_points) if model == "PANN" else 0
        axes = methods.SPACE.get(name)
        step = Step(problem, num_points, degree, widths, axes=axes, trials=TRIALS)
        yield (model, width, num_points), step


def _degree(name: str, cells: list, num_points: int) -> int:
    cs = [cell["c"] for cell in cells if cell["num_points"] == num_points and "c" in cell]
    return max(degree_of(name, c, num_points) for c in cs)


def _num_steps(cell: dict, evaluations: dict[tuple[str, int], float]) -> float:
    """Of Adam, and as many as L-BFGS takes the time of."""
    return cell["adam_steps"] + evaluations[cell["model"], cell["lbfgs_iterations"]]


def _seconds(cell: dict, measured: dict, factors: dict[str, float]) -> float:
    """Of a step of a row: the polynomial alone takes no longer than with the smaller network."""
    model = "PINN" if cell["model"] == "PINN" else "PANN"
    found = {
        num_points: seconds
        for (*which, num_points), seconds in measured.items()
        if which == [cell["problem"], model, cell.get("width", 50)]
    }
    step = float(np.interp(cell["num_points"], sorted(found), [found[n] for n in sorted(found)]))
    return step * factors[cell.get("base", "plain")]


def _evaluations() -> dict[tuple[str, int], float]:
    """How often L-BFGS evaluates the loss, by model and number of iterations."""
    with pathlib.Path("results/line_searches.csv").open() as file:
        return {
            (row["model"], int(row["iterations"])): int(row["until all are stuck"])
            * float(row["mapped"])
            for row in csv.DictReader(file)
        }


def _factors() -> dict[str, float]:
    """Times of the variants against the plain network, as measured before."""
    with pathlib.Path("results/variant_steps.csv").open() as file:
        found = {
            (row["model"], row["variant"]): float(row["ratio"]) for row in csv.DictReader(file)
        }
    return {"plain": 1.0} | {
        base: max(found["PINN", name], found["PANN", name]) for base, name in VARIANT_NAMES.items()
    }
