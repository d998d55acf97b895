"""Several tasks of equal shapes as one program: their rows and trials next to each other.

A GPU spends most of a small network's step on calls, not on arithmetic, so that a case more costs
little. The cases must agree in all but the values of their arrays.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from pann.model.pann import Parameters
from pann.training.loss import TrainingRows
from pann.training.task import Outcome, Task


class Trained(NamedTuple):
    """What training made of one case: its trials, what the stages did, and a score per trial."""

    trials: Parameters
    outcomes: tuple[Outcome, ...]
    scores: Float[np.ndarray, " trials"]


def one_task(tasks: Sequence[Task]) -> Task:
    """One task for all; loss, factors of K and watch are those of the first.

    Rows get a leading axis, of length one where all cases have the same: a table of the basis is
    then held once, and multiplied once.
    """
    first = tasks[0]
    held_out = [task.held_out for task in tasks if task.held_out is not None]
    return dataclasses.replace(
        first,
        rows=jax.tree.map(_once_or_each, *(task.rows for task in tasks)),
        held_out=jax.tree.map(_once_or_each, *held_out) if held_out else None,
        key=jnp.stack([task.key for task in tasks]),
        cases=len(tasks),
    )


def side_by_side(starts: Sequence[Parameters]) -> Parameters:
    """The trials of all cases before training, those of the first case first."""
    return jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *starts)


def by_case(
    task: Task, trained: Parameters, outcomes: tuple[Outcome, ...], scores: np.ndarray
) -> list[Trained]:
    """What the program of all cases found, for each of them."""
    count = task.cases or 1
    own_scores = np.asarray(scores).reshape(count, -1)
    return [
        Trained(trials, of_case(outcomes, number, count), own_scores[number])
        for number, trials in enumerate(task.by_case(trained))
    ]


def of_case(outcomes: tuple[Outcome, ...], number: int, num_cases: int) -> tuple[Outcome, ...]:
    """The outcomes of one case: they have entries for its trials, and a note for it."""
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


def check_shared(cases: Sequence[Mapping[str, Any]], verb: str) -> None:
    """Refuse cases whose named options differ; `verb` is what is done with them together."""
    for number, case in enumerate(cases[1:], 2):
        for name, value in case.items():
            first = cases[0][name]
            if value != first:
                raise ValueError(
                    f"case {number} has another {name} than the first, {value} and {first}; {verb} "
                    "those together that share it"
                )


def check_shapes(rows: Sequence[TrainingRows], describe: Callable[[Any], str]) -> None:
    """Refuse rows that are not one program; `describe` says how many there are of them."""
    for number, each in enumerate(rows[1:], 2):
        if _shape(each) != _shape(rows[0]):
            raise ValueError(
                f"case {number} has other numbers of points than the first, {describe(each)} and "
                f"{describe(rows[0])}; take those together that have equal ones"
            )


def _shape(rows: TrainingRows) -> Any:
    leaves, structure = jax.tree.flatten(rows)
    return structure, [leaf.shape for leaf in leaves]


def _once_or_each(*leaves: Array) -> Array:
    """An array that is the same in all cases once, others one after another."""
    first, *others = leaves
    if all(other is first or bool(jnp.array_equal(first, other)) for other in others):
        return first[None]
    return jnp.stack(leaves)
