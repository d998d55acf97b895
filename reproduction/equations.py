"""The paper's five tables of equations: a row of ours for every cell, and how one is run.

`faithful` does what the paper did; a row says everything that determines it, the steps included, so
that smaller sizes are other rows. `default` is `pann.solve` without options, once for a table.
"""

import dataclasses
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from pann import baselines
from pann.basis import make_basis
from pann.domain import Box
from pann.network import RandomFourier
from pann.pde import Problem
from pann.problems import PROBLEMS
from pann.runs import Result, Row
from pann.runs.kept import fields_of
from pann.runs.row import canonical
from pann.solvers.batch import num_cases_that_fit, solve_together
from pann.solvers.gradient import PAPER
from pann.solvers.solution import Solution
from pann.solvers.solve import solve
from pann.training import LBFGS, Adam, Prune, Recipe, Stepwise
from reproduction import published
from reproduction.degrees import degree_of

NAMES = ("poisson", "allen_cahn", "kdv", "ks", "grey_scott")
# In time the paper's polynomial is constant.
SPACE = {"kdv": ("x",), "ks": ("x",), "grey_scott": ("x", "y")}
NUM_FREQUENCIES, CONSTRAINT_WEIGHT = 100, 1e-3
CELL = ("sampling", "model", "base", "width", "depth", "c", "num_points")
# What rows that are trained as one program may differ in: shapes and stages do not depend on it.
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
        """What all rows of the faithful mode say; so many trials if a number is given."""
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
# equation are those of the long one (`readings`); in time nothing measured speaks for it yet.
LONG: Settings = {"lbfgs_iterations": 8_000, "lbfgs_memory": 100}
SHORT: Settings = {"lbfgs_iterations": 400}
LBFGS_AT_FULL_SIZE = {
    "poisson": LONG,
    "allen_cahn": LONG,
    "darcy": LONG,
    "kdv": SHORT,
    "ks": SHORT,
    "grey_scott": SHORT,
}


# Cells that no table has: equal cost (paper, figure of Poisson's equation), and Darcy's flow.
OTHER_CELLS: dict[str, tuple[str, tuple[dict[str, Any], ...]]] = {
    "equal_cost": (
        "poisson",
        (
            {"model": "PANN", "base": "plain", "width": 50, "depth": 3, "c": 0.003},
            *(
                {"model": "PINN", "base": "plain", "width": 200, "depth": depth}
                for depth in (3, 5, 7)
            ),
        ),
    ),
    "darcy": (
        "darcy",
        (
            {"model": "PINN", "base": "plain", "width": 100, "depth": 3},
            *(
                {
                    "model": "PANN",
                    "base": "plain",
                    "width": 100,
                    "depth": 3,
                    "c": 0.0001,
                    "constraint_weight": weight,
                }
                for weight in (1e-3, 1e-5)
            ),
        ),
    ),
}


def _cells(name: str) -> tuple[str, list[dict[str, Any]]]:
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
    """The rows of one table, at smaller sizes of equal ones one; at the smallest one a model."""
    problem, cells = _cells(name)
    if mode == "default":
        small = {"degree": 4, "width": 0} if size == "smoke" else {}
        return [Row(name, {"mode": mode, "problem": problem, "revision": REVISION, **small})]
    chosen = SIZES[size]
    common = settings(size, problem, trials)
    made = []
    for cell in cells:
        if chosen.num_points is not None:
            cell["num_points"] = chosen.num_points
        if chosen.shape is not None and "width" in cell:
            cell["width"], cell["depth"] = chosen.shape
        made.append(Row(name, common | cell))
    unique = list(dict.fromkeys(made))
    if size == "full":
        return unique
    if size == "smoke":
        return list({row.configuration["model"]: row for row in reversed(unique)}.values())
    # With few points several c are the same degree: the same run, which one row is enough for.
    runs: dict[str, Row] = {}
    for row in unique:
        runs.setdefault(_but_c(row.configuration), row)
    return list(runs.values())


def _but_c(configuration: Mapping[str, Any]) -> str:
    """What determines a run: of c, the degree that it gives."""
    told = dict(configuration)
    if (c := told.pop("c", None)) is not None:
        told["degree"] = degree_of(told["problem"], c, told["num_points"])
    return canonical(told)


def settings(size: str, problem: str, trials: int | None = None) -> Settings:
    """What all rows on a problem say in the faithful mode."""
    own = LBFGS_AT_FULL_SIZE[problem] if size == "full" else {}
    return SIZES[size].settings(trials) | own | {"problem": problem}


def run(configuration: Mapping[str, Any], scratch: pathlib.Path) -> Result:
    """Run one row; what was killed goes on from its checkpoint."""
    if configuration["mode"] == "default":
        make = PROBLEMS[configuration["problem"]]
        options = {key: configuration[key] for key in ("degree", "width") if key in configuration}
        return result_of(solve(make(), out=scratch, resume=True, **options))
    problem = problem_of(configuration)
    return result_of(faithful_solution(problem, configuration, scratch))


def alike(row: Row) -> str | None:
    """What rows that are trained as one program have in common."""
    if row.configuration["mode"] != "faithful":
        return None
    return canonical({key: row.configuration[key] for key in set(row.configuration) - OWN})


def room(configuration: Mapping[str, Any]) -> int:
    """For how many rows such as this one the memory has room."""
    return num_cases_that_fit(problem_of(configuration), **faithful_options(configuration))


def run_together(
    configurations: Sequence[Mapping[str, Any]], scratch: pathlib.Path
) -> list[Result]:
    """Run rows that are alike; what was killed goes on from its checkpoint."""
    solutions = solve_together(
        problem_of(configurations[0]),
        [faithful_options(each) for each in configurations],
        out=scratch,
        resume=True,
    )
    return [result_of(solution) for solution in solutions]


def problem_of(configuration: Mapping[str, Any]) -> Problem:
    """The problem of a row of the faithful mode."""
    problem = PROBLEMS[configuration["problem"]](**_problem_options(configuration))
    if "until" in configuration:
        return shortened(problem, configuration["until"])
    return problem


def _problem_options(configuration: Mapping[str, Any]) -> dict[str, bool]:
    faithful = {"faithful": True} if configuration["problem"] in SPACE else {}
    return faithful | ({"printed": True} if configuration.get("printed") else {})


def shortened(problem: Problem, until: float) -> Problem:
    """The same problem up to an earlier time."""
    domain = problem.domain
    ends = dict(zip(domain.names, zip(domain.lower, domain.upper, strict=True), strict=True))
    assert domain.time is not None
    ends[domain.time] = (ends[domain.time][0], until)
    return dataclasses.replace(
        problem, domain=Box(periodic=domain.periodic, time=domain.time, **ends)
    )


def faithful_solution(
    problem: Problem, configuration: Mapping[str, Any], scratch: pathlib.Path
) -> Solution:
    """Solve by the paper's recipe, as the row says."""
    return solve(problem, **faithful_options(configuration), out=scratch, resume=True)


def faithful_options(configuration: Mapping[str, Any]) -> dict[str, Any]:
    """The options of `solve` that make the paper's recipe, as the row says."""
    name, model = configuration["problem"], configuration["model"]
    base = configuration.get("base", "plain")
    options: dict[str, Any] = {
        "points": configuration["num_points"],
        "sampling": configuration["sampling"],
        "precision": configuration["precision"],
        "seed": configuration["seed"],
        "trials": configuration["trials"],
        "recipe": recipe(
            configuration["adam_steps"],
            configuration["lbfgs_iterations"],
            signed=configuration.get("signed", False),
            prune=configuration.get("prune", True),
            memory=configuration.get("lbfgs_memory", LBFGS.memory),
            tolerance=configuration.get("lbfgs_tolerance", LBFGS.tolerance),
        ),
        "condition_weight": configuration.get("condition_weight"),
        "reduction": configuration.get("reduction"),
        "axes": SPACE.get(name),
        "embedding": RandomFourier(NUM_FREQUENCIES) if base == "rff" else None,
        "network": "modified" if base == "modmlp" else "mlp",
        "weighting": base if base in ("gradnorm", "causal") else None,
    }
    if model == "PINN":
        size = {"width": configuration["width"], "depth": configuration["depth"]}
        return baselines.pinn_options(**options, **size)
    degree = degree_of(name, configuration["c"], configuration["num_points"])
    options |= {"degree": degree, "preconditioner": True}
    if "index_set" in configuration:
        kind = {"index_set": configuration["index_set"]}
        basis = make_basis(PROBLEMS[name]().domain, degree, axes=SPACE.get(name), **kind)
        options |= {"degree": None, "axes": None, "basis": basis}
    if model == "PL":
        return options | {"width": 0, "constraint": "none"}
    size = {"width": configuration["width"], "depth": configuration["depth"]}
    weight = configuration.get("constraint_weight", CONSTRAINT_WEIGHT)
    return options | size | {"constraint": "E", "constraint_weight": weight}


def recipe(
    adam_steps: int,
    lbfgs_iterations: int,
    *,
    signed: bool = False,
    prune: bool = True,
    memory: int = LBFGS.memory,
    tolerance: float = LBFGS.tolerance,
) -> Recipe:
    """The paper's recipe for equations with these numbers of steps."""
    decay = max(1, adam_steps // 50)
    stages = PAPER if lbfgs_iterations else PAPER[:2]
    if not prune:
        stages = tuple(stage for stage in stages if not isinstance(stage, Prune))
    return tuple(
        dataclasses.replace(
            stage,
            steps=adam_steps,
            rate=Stepwise(1e-3, 0.9, decay),
            record_every=_divisor(adam_steps),
        )
        if isinstance(stage, Adam)
        else dataclasses.replace(
            stage,
            iterations=lbfgs_iterations,
            memory=memory,
            tolerance=tolerance,
            record_every=max(1, lbfgs_iterations // 20),
        )
        if isinstance(stage, LBFGS)
        else dataclasses.replace(stage, signed=signed)
        if isinstance(stage, Prune)
        else stage
        for stage in stages
    )


def _divisor(adam_steps: int) -> int:
    """How often to record: a divisor of the 1,000 steps after which GradNorm looks."""
    return next(each for each in (500, 250, 100, 50, 10, 1) if each <= max(1, adam_steps // 4))


def result_of(solution: Solution) -> Result:
    """What is kept of a solution."""
    return Result(figures_of(solution), fields_of(solution))


def figures_of(solution: Solution) -> dict[str, Any]:
    """What a record tells of a solution."""
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
