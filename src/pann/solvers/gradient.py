"""Both halves by gradients, as in the paper: the stages of regression on an equation's rows."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from pann.basis import WholeBasis, orthonormal_scales
from pann.methods import RunOptions, Training
from pann.methods.training import WEIGHTINGS
from pann.model.architecture import Architecture
from pann.model.pann import PANN, Parameters
from pann.pde.collocation import Placed
from pann.pde.rows import Causal, equation_rows
from pann.runtime.limits import Progress
from pann.solvers.assessment import error_during_training, indicator, relative_errors
from pann.solvers.newton import start
from pann.solvers.plan import Plan
from pann.solvers.polynomial import carried
from pann.solvers.setup import Setup, cached_points, gradient_chunking
from pann.solvers.solution import Report, Solution, filled, trial_figures, with_report
from pann.training import (
    LBFGS,
    PAPER_EQUATIONS,
    Adam,
    GradNorm,
    Outcome,
    Prune,
    Recipe,
    Task,
    run_recipe,
)
from pann.training.loss import Loss
from pann.training.task import unstack

# What the stages of regression call the error at rows held out.
HELD_OUT = {"held_out": "fresh residual"}


def stages_of(method: Training) -> Recipe:
    """The stages of a method that can train an equation; the paper's by default."""
    if method.stages is None:
        return PAPER_EQUATIONS
    for stage in method.stages:
        if not isinstance(stage, Adam | LBFGS | Prune):
            raise ValueError(
                f"{type(stage).__name__} fits data; an equation is trained by Adam, LBFGS and "
                "Prune, or by pann.Hybrid(...)"
            )
    return method.stages


def make_case(
    plan: Plan, method: Training, run: RunOptions, start_from: Solution | None = None
) -> "Case":
    """A problem with its points as the method trains it."""
    if method.constraint == "exact":
        raise ValueError(
            "the exact constraint belongs to pann.Hybrid(...), which solves for b at each step"
        )
    if method.constraint_weight is not None and method.constraint == "none":
        raise ValueError(
            f"constraint_weight={method.constraint_weight:g} has no effect without a constraint; "
            "leave it out, or give constraint='E'"
        )
    weight = 1e-3 if method.constraint_weight is None else method.constraint_weight
    recipe, causal = stages_of(method), None
    for each in method.weighting:
        weighting = WEIGHTINGS[each] if isinstance(each, str) else each
        if isinstance(weighting, GradNorm):
            recipe = tuple(
                dataclasses.replace(stage, balance=weighting) if isinstance(stage, Adam) else stage
                for stage in recipe
            )
        else:
            causal = weighting
    return Case(
        plan.setup,
        plan.ladder[0],
        plan.architectures[0],
        recipe=recipe,
        loss=Loss(method.constraint, weight, reduction=method.reduction),
        preconditioner=method.preconditioner,
        causal=causal,
        trials=run.trials,
        start_from=start_from,
        method=method,
    )


@dataclasses.dataclass(frozen=True, eq=False)
class Case:
    """A problem with its points, and how it is trained."""

    setup: Setup
    basis: WholeBasis
    architecture: Architecture
    recipe: Recipe
    loss: Loss
    preconditioner: bool
    causal: Causal | None
    trials: int
    start_from: Solution | None
    method: Training


@dataclasses.dataclass(frozen=True, eq=False)
class Prepared:
    """A case with the rows that it is trained on, and its trials before training."""

    case: Case
    placed: list[Placed]
    task: Task
    starts: Parameters


def solve_by_gradient(case: Case, setup: Setup) -> Solution:
    """Train all trials in one compiled program; that of the smallest fresh residual is it."""
    prepared = prepare(dataclasses.replace(case, setup=setup))
    trained, outcomes = run_recipe(case.recipe, prepared.task, prepared.starts)
    errors = np.asarray(prepared.task.figures(trained)["held_out"])
    return best_solution(prepared, trained, outcomes, errors, setup.run.seconds)


def prepare(case: Case) -> Prepared:
    """Make the rows, and draw the trials."""
    setup, basis, precision = case.setup, case.basis, case.architecture.precision
    problem = setup.problem
    placed = setup.placed(basis)
    parts = gradient_chunking(placed[0], basis, case.architecture, case.trials, setup.memory)
    at_once = cached_points(case.architecture, case.trials)
    rows = equation_rows(placed, problem, basis, precision, case.causal, at_once, parts)
    fresh = equation_rows([setup.fresh_placed(), *placed[1:]], problem, basis, precision)
    key, init_key = jax.random.split(jax.random.key(setup.seed))
    starts = [
        _start(case, case.start_from if trial == 0 else None, trial, init_key)
        for trial in range(case.trials)
    ]
    scales = jnp.asarray(orthonormal_scales(basis), precision) if case.preconditioner else None
    task = Task(
        rows=rows,
        loss=case.loss,
        key=key,
        held_out=fresh,
        term_scales=scales,
        report=lambda progress: setup.report(_told(progress)),
        watch=error_during_training(problem, basis, setup.ansatz, precision),
        checkpoint=setup.checkpoint,
    )
    if any(isinstance(stage, Adam) and stage.balance is not None for stage in case.recipe):
        ones = {name: jnp.ones((), precision) for name in rows.names}
        starts = [dataclasses.replace(each, balance=ones) for each in starts]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *starts)
    return Prepared(case, placed, task, stacked)


def best_solution(
    prepared: Prepared,
    trained: Parameters,
    outcomes: tuple[Outcome, ...],
    errors: Float[np.ndarray, " trials"],
    seconds: float,
) -> Solution:
    """The trial of the smallest error at fresh points, with the figures of all trials."""
    case, setup = prepared.case, prepared.case.setup
    solutions = [
        _solution(prepared, parameters, outcomes, trial, seconds)
        for trial, parameters in enumerate(unstack(trained, case.trials))
    ]
    best = int(np.nanargmin(errors)) if np.any(np.isfinite(errors)) else 0
    figures = [trial_figures(each, setup.seed + trial) for trial, each in enumerate(solutions)]
    solution = with_report(solutions[best], trials=figures)
    method = filled(case.method, solution, [case.basis], case.architecture)
    return dataclasses.replace(solution, method=method)


def _told(progress: Progress) -> Progress:
    """Progress in the words of an equation."""
    renamed = {HELD_OUT.get(name, name): value for name, value in progress.figures.items()}
    return dataclasses.replace(progress, figures=renamed)


def _start(case: Case, before: Solution | None, trial: int, key: jax.Array) -> Parameters:
    """The parameters of a trial before training: new ones, or those of an earlier solution."""
    problem, basis, precision = case.setup.problem, case.basis, case.architecture.precision
    num_fields = len(problem.fields)
    parameters = case.architecture.start(
        problem.domain.dimension, basis.num_terms, num_fields, key=jax.random.fold_in(key, trial)
    )
    unknowns = start(basis.num_terms, num_fields, problem.parameters, precision)
    if before is not None:
        unknowns = carried(before, basis, unknowns)
        old = before.model.parameters
        if old.network is not None:
            parameters = dataclasses.replace(
                parameters, network=old.network, a=old.a, keep_a=old.keep_a
            )
    return dataclasses.replace(parameters, b=unknowns.b, equation=unknowns.parameters)


def _solution(
    prepared: Prepared,
    trained: Parameters,
    outcomes: tuple[Outcome, ...],
    trial: int,
    seconds: float,
) -> Solution:
    case, setup, basis = prepared.case, prepared.case.setup, prepared.case.basis
    problem, precision = setup.problem, str(trained.b.dtype)
    fields = len(problem.fields)
    model = PANN(problem.domain, basis, trained, precision, None if fields == 1 else fields)
    wide = jax.tree.map(
        lambda leaf: leaf.astype("float64") if jnp.issubdtype(leaf.dtype, jnp.inexact) else leaf,
        trained,
    )
    whole = dataclasses.replace(model, parameters=wide)
    rel_l2, field_errors = relative_errors(problem, model, setup.ansatz)
    stages = ", ".join(type(stage).__name__ for stage in case.recipe)
    last = outcomes[-1]
    return Solution(
        model=model.compact(),
        fields=problem.fields,
        parameters={name: float(value) for name, value in trained.equation.items()},
        report=Report(
            how=f"gradients on both halves: {stages}",
            degree=int(np.max(basis.degrees, initial=0)),
            num_points=sum(len(each.points) for each in prepared.placed),
            residual=indicator(setup, prepared.placed[1:], whole, wide.equation),
            rel_l2=rel_l2,
            stop="; ".join((last.reasons[trial], *last.notes)),
            seconds=seconds,
            history=_history(outcomes, trial),
            field_errors=field_errors,
        ),
        problem=problem,
        ansatz=setup.ansatz,
    )


def _history(outcomes: tuple[Outcome, ...], trial: int) -> dict[str, list[float]]:
    """The steps of all stages, and every term of the loss and the fresh residual after them."""
    history: dict[str, list[float]] = {"step": []}
    before = 0
    for outcome in outcomes:
        steps = before + outcome.history["step"]
        # Pruning is no step, and has one record.
        before = int(steps[-1]) if not isinstance(outcome.stage, Prune) else before
        history["step"].extend(float(min(step, before)) for step in steps)
        for name, values in outcome.history.items():
            if name not in ("step", "seconds"):
                label = HELD_OUT.get(name, name)
                history.setdefault(label, []).extend(float(value) for value in values[trial])
    return history
