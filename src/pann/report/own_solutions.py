"""Sections of a user's own solutions of equations."""

import pathlib

from pann.io import read
from pann.plot.values import NETWORK, middle_of, space_axes, ticks_along, values_on_grid
from pann.report.halves import LINE_PLACES, LOOKS, MAP_PLACES, curves, maps
from pann.report.page import Block, Column, Facts, Folded, Key, Panels, Table, Value
from pann.report.plots import MAX_POINTS
from pann.report.run_details import history_panels
from pann.report.texts import duration, number, shown
from pann.solvers.folder import FILE_NAME as LOG
from pann.solvers.solution import Solution

NUM_MOMENTS, LOG_LINES = 3, 200


def solution_parts(path: pathlib.Path, solution: Solution) -> tuple[str, list[Block]]:
    """What leads the section of a solution, and what is in it."""
    report, model = solution.report, solution.model
    problem = read(path).header.get("problem") or "an equation"
    pairs = [
        ("problem", str(problem)),
        ("relative l2 error", shown(report.rel_l2)),
        ("relative residual", number(report.residual)),
        ("degree", shown(report.degree)),
        ("polynomial terms", shown(model.num_terms)),
        ("network units", shown(model.num_units)),
        ("points", shown(report.num_points)),
        ("precision", model.precision),
        ("time", duration(report.seconds)),
        ("solved by", report.how),
        ("stopped", report.stop),
    ]
    if report.tolerance is not None:
        outcome = "met" if report.met else "not met"
        pairs.append(("tolerance", f"{number(report.tolerance)}, {outcome}"))
        pairs.append(("estimated error", shown(report.error_estimate)))
    for name, value in solution.parameters.items():
        deviation = solution.parameter_deviations.get(name)
        spread = "" if deviation is None else f" ± {number(deviation, 2)}"
        pairs.append((name, f"{value:.6g}{spread}"))
    blocks: list[Block] = [Facts("", tuple(pairs)), *solution_panels(solution)]
    if any(len(values) > 1 for values in report.history.values()):
        blocks.append(history_panels(report.history, MAX_POINTS))
    if len(report.trials) > 1:
        blocks.append(_trials(solution))
    log = path.parent / LOG
    if log.is_file():
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
        count = f"the last {LOG_LINES} of " if len(lines) > LOG_LINES else ""
        title = f"The log ({count}{len(lines)} lines)"
        blocks.append(Folded(title, tuple(lines[-LOG_LINES:]), is_code=True))
    best = report.rel_l2 if report.rel_l2 is not None else report.residual
    measure = "relative l2 error" if report.rel_l2 is not None else "relative residual"
    lead = f"The solution of {problem}: {measure} {number(best)}."
    return lead, blocks


def solution_panels(solution: Solution) -> list[Panels]:
    """Every field and its halves: lines in one dimension, maps in two, moments of more in time."""
    domain = solution.model.domain
    space, time = space_axes(domain), domain.time
    if domain.dimension == 1:
        ticks = {domain.names[0]: ticks_along(domain, domain.names[0], LINE_PLACES)}
    elif time is not None and len(space) == 1:
        ticks = {axis: ticks_along(domain, axis, MAP_PLACES) for axis in (time, *space)}
    else:
        ticks = {} if time is None else {time: ticks_along(domain, time, NUM_MOMENTS)}
        ticks |= {axis: ticks_along(domain, axis, MAP_PLACES) for axis in space[:2]}
    cut = [axis for axis in domain.names if axis not in ticks]
    note = ""
    if cut:
        note = "At " + ", ".join(f"{axis} = {middle_of(domain, axis):g}" for axis in cut) + "."
    panels = []
    for field, values in values_on_grid(solution, ticks).items():
        plots = curves(values, ticks) if len(ticks) == 1 else maps(values, ticks, space)
        keys = [Key(name, *LOOKS[name]) for name in values] if len(ticks) == 1 else []
        title = f"{field} and its halves" if NETWORK in values else field
        panels.append(Panels(title, tuple(plots), tuple(keys), note))
    return panels


def _trials(solution: Solution) -> Table:
    names = ("rel_l2", "residual", "terms", "units", "stop")
    lines = tuple(
        (
            Value(str(index), index),
            *(
                Value(shown(trial.get(name)), trial[name] if _is_number(trial.get(name)) else None)
                for name in names
            ),
        )
        for index, trial in enumerate(solution.report.trials)
    )
    titles = ("trial", "relative l2 error", "residual", "terms", "units", "stopped")
    columns = tuple(
        Column(title, is_number=title != "stopped", is_wide=title == "stopped") for title in titles
    )
    return Table("The trial that is shown has the lowest residual.", columns, lines)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
