"""The excerpt of a solution or a fit that a run keeps: figures, values on a coarse grid, curves.

Arrays are called u, u_network, u_polynomial per field, and axis_1_x, axis_2_y have the coordinates
along their first and second axis.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from pann.domain import Box
from pann.model.pann import PANN
from pann.plot.values import NETWORK, POLYNOMIAL, SOLUTION, space_axes, ticks_along, values_on_grid
from pann.regression.fit import Fit
from pann.solvers.solution import Solution
from pann.training import Prune

POINTS = 49  # per axis
NUM_RECORDS = 120  # of a curve
ENDINGS = {SOLUTION: "", NETWORK: "_network", POLYNOMIAL: "_polynomial"}
Arrays = dict[str, np.ndarray]


def figures_of(solution: Solution) -> dict[str, Any]:
    """What a solution is and how good."""
    report, model = solution.report, solution.model
    return dict(
        rel_l2=report.rel_l2,
        residual=report.residual,
        error_estimate=report.error_estimate,
        met=report.met,
        resolved=report.resolved,
        notes=report.notes,
        method=repr(solution.method),
        how=report.how,
        degree=report.degree,
        terms=model.num_terms,
        units=model.num_units,
        points=report.num_points,
        parameters=dict(solution.parameters),
    )


def fields_of(solution: Solution) -> Arrays:
    """Over two axes, time to the right; of time and more axes of space, the end."""
    domain = solution.model.domain
    space, time = space_axes(domain), domain.time
    shown = space[:2] if time is None or len(space) > 1 else (time, *space)
    if len(shown) < 2:
        return {}
    axes = {axis: ticks_along(domain, axis, POINTS) for axis in shown}
    end = {} if time is None or time in shown else {time: ticks_along(domain, time, 2)[1:]}
    # The exact solution takes its time, and is the same for all runs.
    fields = values_on_grid(dataclasses.replace(solution, problem=None), end | axes)
    arrays = _named(axes)
    for field, values in fields.items():
        for name, ending in ENDINGS.items():
            if name in values:
                arrays[f"{field}{ending}"] = _short(values[name].reshape(POINTS, POINTS))
    return arrays


def halves_of(model: PANN, domain: Box) -> Arrays:
    """Those of a fit of two variables; of others there is no map."""
    if domain.dimension != 2:
        return {}
    axes = {axis: ticks_along(domain, axis, POINTS) for axis in domain.names}
    grid = np.stack(np.meshgrid(*axes.values(), indexing="ij"), axis=-1).reshape(-1, 2)
    halves = model.parts(grid)
    values = {SOLUTION: halves.network + halves.polynomial}
    if model.num_units and model.num_terms:
        values |= {NETWORK: halves.network, POLYNOMIAL: halves.polynomial}
    shaped = {f"u{ENDINGS[name]}": _short(v.reshape(POINTS, POINTS)) for name, v in values.items()}
    return _named(axes) | shaped


def history_of(fitted: Fit) -> dict[str, list[float | None]]:
    """The curves of the chosen trial through all stages, in as many records as a picture shows."""
    # Pruning is no step.
    stages = [each.history for each in fitted.outcomes if not isinstance(each.stage, Prune)]
    trial = next(k for k, model in enumerate(fitted.models) if model is fitted.model)
    names = [n for each in stages for n in each if n not in ("step", "seconds")]
    curves: dict[str, list[float | None]] = {name: [] for name in ("step", *names)}
    before = 0.0
    for history in stages:
        steps = before + np.asarray(history["step"], float)
        before = float(steps[-1]) if len(steps) else before
        curves["step"] += steps.tolist()
        for name in dict.fromkeys(names):
            values = history.get(name)
            curves[name] += [None] * len(steps) if values is None else values[trial].tolist()
    length = len(curves["step"])
    chosen = np.unique(np.linspace(0, length - 1, min(length, NUM_RECORDS)).astype(int))
    return {name: [curve[k] for k in chosen] for name, curve in curves.items()}


def _named(axes: Mapping[str, np.ndarray]) -> Arrays:
    return {f"axis_{k + 1}_{name}": ticks for k, (name, ticks) in enumerate(axes.items())}


def _short(values: np.ndarray) -> np.ndarray:
    return np.asarray(values, np.float32)
