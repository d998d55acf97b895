"""The demonstration of `pann demo`: the paper's non-smooth function five ways, and Poisson."""

import dataclasses
import pathlib
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from pann import baselines, problems
from pann.basis import make_basis
from pann.domain import Box
from pann.methods import MLP, FitMethod, Hybrid, Polynomial, Training
from pann.model import PANN
from pann.network import AxisUnits
from pann.plot import write_picture
from pann.plot.solution import add_bar, colors_of, draw_map
from pann.plot.values import ERROR, NETWORK, POLYNOMIAL, grid_points, ticks_along
from pann.points import poisson_disk, uniform
from pann.problems import functions
from pann.regression.fit import fit, relative_l2
from pann.runtime.progress import progress_bar
from pann.solvers.solve import solve
from pann.training import LBFGS, Adam, Cosine, Prune

NUM_POINTS = 4096
DEGREE = EQUATION_DEGREE = 21
RESOLUTION = 301  # of the picture, along each axis
BOTH: Hybrid | Training = Hybrid(degree=DEGREE, network=MLP(embedding=AxisUnits(64), width=(8, 8)))
# The paper's recipe, with a fifth of its steps.
GRADIENT = (Adam(4_000, Cosine(1e-2)), Prune(1e-4), LBFGS(200), Prune(1e-4))


@dataclasses.dataclass(frozen=True)
class Result:
    """One row of the table."""

    method: str
    error: float
    seconds: float


def run(out: pathlib.Path, console: Console) -> list[Result]:
    """Fit x1^2 x2^2 sin(1/x1) sin(1/x2) with each method, print the table, draw the PANN."""
    domain = Box.cube(2)
    target = functions.non_smooth(2.0)
    points = poisson_disk(domain, NUM_POINTS)
    values = target(points.coordinates)
    test = uniform(domain, 100_000, seed=1).coordinates
    truth = target(test)
    console.print(
        "Fitting x1² x2² sin(1/x1) sin(1/x2) on [-1, 1]² from "
        f"{NUM_POINTS:,} Poisson-disk points; errors on {len(test):,} random points."
    )
    by_gradient = Training(stages=GRADIENT, degree=DEGREE, network=None, preconditioner=True)
    methods: dict[str, FitMethod | None] = {
        "PL: polynomial by gradient descent": by_gradient,
        "L2 projection (own sample points)": None,
        "polynomial by least squares": Polynomial(degree=DEGREE),
        "DNN: network alone": baselines.network_alone(BOTH),
        "PANN: both": BOTH,
    }
    results = []
    for name, method in methods.items():
        with progress_bar(name, console) as report:
            start = time.perf_counter()
            fitted: Any = (
                baselines.l2_projection(make_basis(domain, DEGREE), target, NUM_POINTS)
                if method is None
                else fit(points, values, method, domain=domain, progress=report)
            )
            seconds = time.perf_counter() - start
        results.append(Result(name, relative_l2(fitted(test), truth), seconds))
    console.print(_table(results))
    console.print(str(fitted), highlight=False)
    path = out / "demo.png"
    _draw(fitted.model, target, path)
    console.print(f"figure: {path}", highlight=False, soft_wrap=True)
    solution = solve(problems.poisson(), Hybrid(degree=EQUATION_DEGREE))
    console.print(
        f"Poisson's equation, degree {EQUATION_DEGREE}: relative l2 error {solution.rel_l2:.1e} "
        f"in {solution.report.seconds:.1f} s (pann solve poisson)",
        highlight=False,
        soft_wrap=True,
    )
    return results


def _draw(model: PANN, target: Callable[[np.ndarray], np.ndarray], path: pathlib.Path) -> None:
    """Heat maps; target, prediction and polynomial half share one color scale."""
    from matplotlib.figure import Figure

    across, up = model.domain.names
    ticks = {axis: ticks_along(model.domain, axis, RESOLUTION) for axis in (across, up)}
    points = grid_points(model.domain, ticks)
    network, polynomial = model.parts(points)
    true = target(points)
    panels = {
        "target": true,
        "prediction": network + polynomial,
        POLYNOMIAL: polynomial,
        NETWORK: network,
        ERROR: np.abs(network + polynomial - true),
    }
    figure = Figure(figsize=(17.0, 3.4), layout="constrained")
    figure.suptitle("PANN on the paper's non-smooth function")
    for panel, (name, values) in zip(figure.subplots(1, len(panels)), panels.items(), strict=True):
        colors = colors_of(model.domain, name, values if name in (NETWORK, ERROR) else true)
        square = values.reshape(RESOLUTION, RESOLUTION)
        image = draw_map(panel, model.domain, (across, up), square, colors)
        add_bar([panel], image, colors.extend)
        panel.set_title(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_picture(figure, path)


def _table(results: list[Result]) -> Table:
    table = Table(title="relative l2 error, smaller is better")
    table.add_column("method")
    table.add_column("error", justify="right")
    table.add_column("seconds", justify="right")
    best = min(result.error for result in results)
    for result in results:
        style = "bold" if result.error == best else None
        table.add_row(result.method, f"{result.error:.5f}", f"{result.seconds:.1f}", style=style)
    return table
