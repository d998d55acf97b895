"""fit_together(cases): several fits of equal shapes, trained as one program."""

import dataclasses
import time
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from pann.io.checkpoint import NOWHERE, Checkpoint
from pann.methods import FitMethod, RunOptions, Training
from pann.model.pann import Parameters
from pann.regression.fit import TABLE_COPIES, Fit, Prepared, fitted, prepare, train
from pann.regression.samples import Data
from pann.runtime import chunks
from pann.runtime.limits import Report
from pann.runtime.memory import COPIES, device_memory
from pann.runtime.platform import on_cpu
from pann.training import LBFGS, Adam, Outcome, Prune, Task
from pann.training.batch import by_case, check_shapes, check_shared, one_task, side_by_side
from pann.training.loss import Loss, Rows

SHARED = ("architecture", "recipe", "trials")
# Points seen in training, up to which a CPU gains by one program for several constraints: it runs
# the fits one after another, and what it saves is compilations; a step takes up to a quarter more.
SHORT = 1e7


def fit_together(
    cases: Sequence[Mapping[str, Any]], *, checkpoint: Checkpoint = NOWHERE, **shared: Any
) -> list[Fit]:
    """The fits that `fit(**shared, **case)` gives for each case, to rounding.

    It is gradient training, `Training.paper()` if no other method is named, of all cases in one
    compiled program. They may differ in whatever leaves shapes and stages alone: points of equal
    number, values, seed, the method's constraint and its weight. `seconds` are the share of each.
    What a checkpoint holds is not done again.
    """
    begin = time.perf_counter()
    if not cases:
        raise ValueError("there are no cases to fit; give options for each, [{'seed': 0}, ...]")
    prepared = [prepared_case(**{**shared, **case}) for case in cases]
    if len(prepared) > 1:
        check_together(prepared)
    losses = [each.task.loss for each in prepared]
    with jax.enable_x64(True):
        task, starts = together(prepared)
    # The rows of each case are in the task now; a second copy would be half of the memory.
    prepared = [dataclasses.replace(each, task=task) for each in prepared]
    task = dataclasses.replace(task, checkpoint=checkpoint)
    trained, outcomes, scores = train(prepared[0].recipe, task, starts)
    with jax.enable_x64(True):
        found = by_case(task, trained, outcomes, scores)
    # The stages know of the time before an interruption.
    seconds = max(time.perf_counter() - begin, sum(outcome.seconds for outcome in outcomes))
    return [
        fitted(
            case,
            own.trials,
            _own_terms(own.outcomes, task, loss),
            own.scores,
            seconds / len(cases),
        )
        for case, own, loss in zip(prepared, found, losses, strict=True)
    ]


def num_fits_that_fit(
    *,
    num_points: int,
    num_terms: int,
    num_units: int,
    trials: int,
    precision: str,
    num_seen: int,
    by_constraint: bool,
) -> int:
    """How many fits of these sizes to train as one program: as many as memory has room for.

    Where points are spread over several devices, one. On a CPU, too, unless training is short
    (`num_seen` points in all of its steps) and the fits would be a program each because they differ
    `by_constraint`.
    """
    gains = not on_cpu() or (by_constraint and num_seen <= SHORT)
    if chunks.several() or not gains:
        return 1
    item = np.dtype(precision).itemsize
    a_fit = item * num_points * (TABLE_COPIES * num_terms + COPIES * trials * num_units)
    return max(1, int(device_memory() // a_fit))


def prepared_case(
    method: FitMethod | None = None, progress: Report | None = None, **given: Any
) -> Prepared:
    """A case from parameters of `fit`."""
    of_data = {each.name for each in dataclasses.fields(Data)} & given.keys()
    data = Data(**{name: given.pop(name) for name in of_data})
    return prepare(data, method or Training.paper(), RunOptions(**given), progress)


def check_together(cases: Sequence[Prepared]) -> None:
    """Refuse cases that cannot be one program, before anything is trained."""
    first = cases[0]
    by_gradient = all(isinstance(stage, Adam | LBFGS | Prune) for stage in first.recipe)
    if not by_gradient or any(case.task.loss.constraint == "exact" for case in cases):
        raise ValueError(
            "cases are fitted together by gradients: give Training.paper(), or stages Adam, LBFGS "
            "and Prune, and a constraint other than exact"
        )
    if not all(isinstance(case.task.rows, Rows) for case in cases):
        raise ValueError("cases are fitted together with tables of all rows; leave memory out")
    check_shared([_shared(case) for case in cases], "fit")
    scales = [case.task.term_scales for case in cases if case.task.term_scales is not None]
    if not all(np.array_equal(each, scales[0]) for each in scales):
        raise ValueError("cases are fitted together where K has the same polynomials in all")
    check_shapes([case.task.rows for case in cases], lambda rows: str(rows.num_points))


def _shared(case: Prepared) -> dict[str, Any]:
    """What cases that are one program have in common, besides shapes."""
    task = case.task
    return {name: getattr(case, name) for name in SHARED} | {
        "norm": task.loss.norm,
        "reduction": task.loss.reduction,
        "preconditioner": task.term_scales is not None,
        "number of terms": case.basis.num_terms,
        "number of points held out": 0 if task.held_out is None else task.held_out.num_points,
    }


def together(cases: Sequence[Prepared]) -> tuple[Task, Parameters]:
    """All cases as one task, and their trials; a case that is alone as it is."""
    if len(cases) == 1:
        return cases[0].task, cases[0].starts
    loss = _loss_of_all([case.task.loss for case in cases])
    task = dataclasses.replace(one_task([case.task for case in cases]), loss=loss)
    return task, side_by_side([_weighed(case, loss) for case in cases])


def _loss_of_all(losses: Sequence[Loss]) -> Loss:
    """The loss that they share, or one with the constraints of all."""
    names = sorted({loss.constraint for loss in losses} - {"none"})
    if not names or len(set(losses)) == 1:
        return losses[0]
    return dataclasses.replace(losses[0], mixed=tuple(names))


def _weighed(case: Prepared, loss: Loss) -> Parameters:
    """The trials of a case with the weight of its own constraint, and zero for those of others."""
    if not loss.mixed:
        return case.starts
    own, shape = case.task.loss, (case.trials,)
    weights = {name: own.constraint_weight * (name == own.constraint) for name in loss.mixed}
    precision = case.architecture.precision
    penalties = {name: jnp.full(shape, weight, precision) for name, weight in weights.items()}
    return dataclasses.replace(case.starts, penalties=penalties)


def _own_terms(outcomes: tuple[Outcome, ...], task: Task, own: Loss) -> tuple[Outcome, ...]:
    """Without the records of terms that the loss of the case does not have."""
    others = set(task.loss.names(task.rows)) - set(own.names(task.rows))
    return tuple(
        dataclasses.replace(
            outcome, history={name: v for name, v in outcome.history.items() if name not in others}
        )
        for outcome in outcomes
    )
