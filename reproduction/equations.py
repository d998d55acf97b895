"""The paper's five tables of equations: a row of ours for every cell, and how one is run.

A row says everything that determines it, the steps included, so that smaller sizes are other rows.
In the default mode there is one row for a table.
"""

import dataclasses
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from pann import Box, Problem, Solution
from pann.pde import Periodic
from pann.runs import Result, Row, fields_of
from reproduction import methods, published
from reproduction.degrees import degree_of
from reproduction.published import shown_name, stored_name

NAMES = ("poisson", "allen_cahn", "kdv", "ks", "gray_scott")
CELL = ("sampling", "model", "base", "width", "depth", "c", "num_points")
# Rows that differ in these alone are trained as one program: shapes and stages are the same.
OWN = {"sampling", "seed", "condition_weight", "reading"}
# Raised when the same row would give other figures.
REVISION = 1
Settings = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Size:
    """How long a cell is trained, with how many points, and in which shape; None as published."""

    trials: int
    adam_steps: int
    lbfgs_iterations: int
    num_points: int | None = None
    shape: tuple[int, int] | None = None

    def settings(self, trials: int | None) -> Settings:
        """What all rows of the faithful mode say."""
        return {
            "mode": "faithful",
            "trials": trials or self.trials,
            "adam_steps": self.adam_steps,
            "lbfgs_iterations": self.lbfgs_iterations,
            "precision": "float32",
            "seed": 0,
            "revision": REVISION,
        }


SIZES = {
    "smoke": Size(1, 4, 0, num_points=64, shape=(6, 1)),
    "quick": Size(1, 1_000, 50, num_points=1024),
    "full": Size(5, 100_000, 400),
}
# How long L-BFGS is at full size, by problem. The published errors of polynomials on Poisson's
# equation are those of the long one (`readings`); nothing measured speaks for it in time. Of five
# weights of Poisson's equation 0.01 is the one with which all of its networks are reached.
LONG: Settings = {"lbfgs_iterations": 8_000, "lbfgs_memory": 100}
SHORT: Settings = {"lbfgs_iterations": 400}
AT_FULL_SIZE = {
    "poisson": LONG | {"condition_weight": 10.0},
    "allen_cahn": LONG,
    "darcy": LONG,
    "kdv": SHORT,
    "ks": SHORT,
    "gray_scott": SHORT,
}


# Cells that no table has: equal cost (paper, figure of Poisson's equation), and Darcy's flow.
_PANN, _PINN = ({"model": model, "base": "plain"} for model in ("PANN", "PINN"))
_STRIPS = {"width": 100, "depth": 3}
OTHER_CELLS: dict[str, tuple[str, list[Settings]]] = {
    "equal_cost": (
        "poisson",
        [
            {**_PANN, "width": 50, "depth": 3, "c": 0.003},
            *({**_PINN, "width": 200, "depth": depth} for depth in (3, 5, 7)),
        ],
    ),
    "darcy": (
        "darcy",
        [
            {**_PINN, **_STRIPS},
            *({**_PANN, **_STRIPS, "c": 1e-4, "constraint_weight": w} for w in (1e-3, 1e-5)),
        ],
    ),
}


def _cells(name: str) -> tuple[str, list[Settings]]:
    """The problem, and what the paper says of each cell, without what it leaves out."""
    if name in OTHER_CELLS:
        problem, cells = OTHER_CELLS[name]
        return problem, [{"sampling": "poisson_disk", "num_points": 4096, **cell} for cell in cells]
    made = []
    for record in published.load(name).to_dict("records"):
        cell = {key: record[key] for key in CELL if not published.is_missing(record[key])}
        for key in {"width", "depth", "num_points"} & set(cell):
            cell[key] = int(cell[key])
        made.append(cell)
    return name, made


def rows(name: str, size: str, mode: str, trials: int | None = None) -> list[Row]:
    """The rows of one table; smaller sizes have equal ones once, the smallest one per model."""
    problem, cells = _cells(name)
    experiment = stored_name(name)
    common: Settings = {"mode": mode, "problem": stored_name(problem), "revision": REVISION}
    if mode == "default":
        small = {"degree": 4, "width": 0} if size == "smoke" else {}
        return [Row(experiment, common | small)]
    chosen = SIZES[size]
    common = settings(size, problem, trials)
    made = []
    for cell in cells:
        if chosen.num_points is not None:
            cell["num_points"] = chosen.num_points
        if chosen.shape is not None and "width" in cell:
            cell["width"], cell["depth"] = chosen.shape
        made.append(Row(experiment, common | cell))
    unique = list(dict.fromkeys(made))
    if size == "full":
        return unique
    if size == "smoke":
        return list({row.configuration["model"]: row for row in reversed(unique)}.values())
    # With few points several c are the same degree, and thus the same run.
    runs: dict[str, Row] = {}
    for row in unique:
        runs.setdefault(_but_c(row.configuration), row)
    return list(runs.values())


def _but_c(configuration: Mapping[str, Any]) -> str:
    """What determines a run: of c, the degree that it gives."""
    known = dict(configuration)
    if (c := known.pop("c", None)) is not None:
        known["degree"] = degree_of(known["problem"], c, known["num_points"])
    return methods.canonical(known)


def settings(size: str, problem: str, trials: int | None = None) -> Settings:
    """What all rows on a problem say in the faithful mode."""
    own = AT_FULL_SIZE[problem] if size == "full" else {}
    return SIZES[size].settings(trials) | own | {"problem": stored_name(problem)}


def run(configuration: Mapping[str, Any], scratch: pathlib.Path) -> Result:
    """Run one row."""
    return result_of(methods.solve_row(problem_of(configuration), configuration, scratch))


def alike(row: Row) -> str | None:
    """What rows that are trained as one program have in common."""
    return methods.common(row, OWN) if row.configuration["mode"] == "faithful" else None


def room(configuration: Mapping[str, Any]) -> int:
    """The number of rows like this one that memory has room for."""
    return methods.num_equations_that_fit(problem_of(configuration), configuration)


def run_together(
    configurations: Sequence[Mapping[str, Any]], scratch: pathlib.Path
) -> list[Result]:
    """Run rows that are alike as one program."""
    problem = problem_of(configurations[0])
    return [result_of(each) for each in methods.solve_rows(problem, configurations, scratch)]


def problem_of(configuration: Mapping[str, Any]) -> Problem:
    """The problem of a row."""
    name = configuration["problem"]
    if configuration["mode"] == "default":
        return methods.make_problem(name)
    options = {"faithful": True} if shown_name(name) in methods.SPACE else {}
    options |= {"printed": True} if configuration.get("printed") else {}
    problem = methods.make_problem(name, **options)
    if (order := configuration.get("periodic_order")) is not None:
        problem = tied(problem, order)
    until = configuration.get("until")
    return problem if until is None else shortened(problem, until)


def tied(problem: Problem, order: int) -> Problem:
    """The same problem, with value and derivatives up to this order equal at an axis' ends."""
    conditions = [
        dataclasses.replace(each, order=order) if isinstance(each, Periodic) else each
        for each in problem.conditions
    ]
    return dataclasses.replace(problem, conditions=conditions)


def shortened(problem: Problem, until: float) -> Problem:
    """The same problem up to an earlier time."""
    domain = problem.domain
    ends = dict(zip(domain.names, zip(domain.lower, domain.upper, strict=True), strict=True))
    assert domain.time is not None
    ends[domain.time] = (ends[domain.time][0], until)
    box = Box(periodic=domain.periodic, time=domain.time, **ends)
    return dataclasses.replace(problem, domain=box)


def result_of(solution: Solution) -> Result:
    """What a run keeps of a solution."""
    return Result(figures_of(solution), fields_of(solution))


def figures_of(solution: Solution) -> dict[str, Any]:
    """What a record has of a solution."""
    trials = solution.report.trials
    return {
        "errors": {
            field: [trial["field_errors"].get(field) for trial in trials]
            for field in solution.fields
        },
        "residuals": [trial["residual"] for trial in trials],
        "terms": [trial["terms"] for trial in trials],
        "units": [trial["units"] for trial in trials],
        "stop": [trial["stop"] for trial in trials],
        "solve_seconds": solution.report.seconds,
        "degree": solution.report.degree,
        "history": solution.report.history,
    }
