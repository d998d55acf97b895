"""Several cases of one problem as one compiled program: their rows and trials side by side.

A GPU spends most of a small network's step on calls, not on arithmetic, so that a case more costs
little. The cases must agree in all but the values of their arrays: points of equal number, one
basis, one network's shape, the same stages.
"""

import dataclasses
import time
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from pann.checkpoints import Checkpoint
from pann.loss import TrainingRows
from pann.model import Parameters
from pann.solution import Solution
from pann.solving.gradient import Case, Prepared, best_solution, prepare
from pann.training import Outcome, Task, run_recipe
from pann.training.stage import Report

SHARED = ("basis", "architecture", "recipe", "loss", "preconditioner", "causal", "trials")


def check_shared(cases: Sequence[Case]) -> None:
    """Refuse cases that cannot be one program, before anything is made of them."""
    first = cases[0]
    for number, case in enumerate(cases[1:], 2):
        if case.setup.problem is not first.setup.problem:
            raise ValueError("cases are solved together where they are of one and the same Problem")
        for name in SHARED:
            here, there = getattr(case, name), getattr(first, name)
            if here != there:
                raise ValueError(
                    f"case {number} has another {name} than the first, {here} and {there}; solve "
                    "those together that share it"
                )


def solve_group(
    cases: Sequence[Case], checkpoint: Checkpoint, report: Report, begin: float
) -> list[Solution]:
    """Train the trials of all cases in one program; a solution each, with its share of the time."""
    own = [
        dataclasses.replace(
            case, setup=dataclasses.replace(case.setup, checkpoint=checkpoint, report=report)
        )
        for case in cases
    ]
    prepared = [prepare(case) for case in own]
    task = one_task([each.task for each in prepared])
    starts = start_together(prepared)
    # The rows of each case are in the task now; a second copy would be half of the memory.
    prepared = [dataclasses.replace(each, task=task) for each in prepared]
    trained, outcomes = run_recipe(cases[0].recipe, task, starts)
    errors = np.asarray(task.figures(trained)["held_out"]).reshape(len(cases), -1)
    seconds = (time.perf_counter() - begin) / len(cases)
    return [
        best_solution(case, trials, _of_case(outcomes, number, len(cases)), own_errors, seconds)
        for number, (case, trials, own_errors) in enumerate(
            zip(prepared, task.by_case(trained), errors, strict=True)
        )
    ]


def start_together(prepared: Sequence[Prepared]) -> Parameters:
    """The trials of all cases before training, those of the first case first."""
    return jax.tree.map(
        lambda *leaves: jnp.concatenate(leaves), *(each.starts for each in prepared)
    )


def one_task(tasks: Sequence[Task]) -> Task:
    """One task for all, whose rows have a leading axis; loss, factors of K and watch are shared."""
    first = tasks[0]
    held_out = [task.held_out for task in tasks if task.held_out is not None]
    return dataclasses.replace(
        first,
        rows=_stacked([task.rows for task in tasks]),
        held_out=_stacked(held_out),
        key=jnp.stack([task.key for task in tasks]),
        cases=len(tasks),
    )


def _stacked(rows: Sequence[TrainingRows]) -> TrainingRows:
    for number, each in enumerate(rows[1:], 2):
        if _shape(each) != _shape(rows[0]):
            raise ValueError(
                f"case {number} has other numbers of points than the first, {_counts(each)} and "
                f"{_counts(rows[0])}; solve those together that have equal ones"
            )
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *rows)


def _shape(rows: TrainingRows) -> Any:
    leaves, structure = jax.tree.flatten(rows)
    return structure, [leaf.shape for leaf in leaves]


def _counts(rows: Any) -> str:
    return ", ".join(f"{block.x.shape[0]} in {block.name}" for block in rows.blocks)


def _of_case(outcomes: tuple[Outcome, ...], number: int, num_cases: int) -> tuple[Outcome, ...]:
    """What the stages tell of one case: they have entries for its trials, and a note for it."""
    own = []
    for outcome in outcomes:
        each = len(outcome.reasons) // num_cases
        trials = slice(number * each, (number + 1) * each)
        history = {
            name: values if values.ndim == 1 else values[trials]
            for name, values in outcome.history.items()
        }
        notes = outcome.notes[number : number + 1]
        own.append(
            dataclasses.replace(
                outcome, reasons=outcome.reasons[trials], history=history, notes=notes
            )
        )
    return tuple(own)
