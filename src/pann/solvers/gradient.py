"""Both halves by gradients, as in the paper: the stages of regression on an equation's rows."""

import dataclasses
import time
from collections.abc import Sequence
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from pann.basis import Basis, orthonormal_scales
from pann.model.architecture import Architecture
from pann.model.pann import PANN, Parameters
from pann.pde.collocation import Block, Placed, make_block
from pann.pde.rows import Causal, chunked_equation, equation_rows
from pann.runtime.limits import Progress
from pann.solvers.newton import Unknowns, start
from pann.solvers.polynomial import carried
from pann.solvers.quality import error_under_way, indicator, relative_errors
from pann.solvers.setup import Setup, cached_points, gradient_chunking
from pann.solvers.solution import Report, Solution, trial_figures
from pann.training import LBFGS, Adam, GradNorm, Outcome, Prune, Recipe, Stage, Task, run_recipe
from pann.training.gradient import Stepwise
from pann.training.loss import Loss, TrainingRows
from pann.training.task import unstack

# What the stages of regression call the error at rows held out.
HELD_OUT = {"held_out": "fresh residual"}

# The paper does not say how many iterations of L-BFGS. With 400 calls of at most 20 each and a
# history of 100, which the usual library makes by default, polynomials have its errors.
PAPER: Recipe = (
    Adam(100_000, Stepwise(1e-3, 0.9, 2_000), record_every=500),
    Prune(1e-4),
    LBFGS(8_000, memory=100, record_every=100),
    Prune(1e-4),
)


Weighting = str | GradNorm | Causal
WEIGHTINGS: dict[str, GradNorm | Causal] = {"gradnorm": GradNorm(), "causal": Causal()}


def weightings(given: Weighting | Sequence[Weighting] | None) -> tuple[GradNorm | Causal, ...]:
    """What was named or given, at most one of each kind."""
    if given is None:
        return ()
    chosen = (given,) if isinstance(given, str | GradNorm | Causal) else given
    found: list[GradNorm | Causal] = []
    for each in chosen:
        if isinstance(each, str) and each not in WEIGHTINGS:
            raise ValueError(
                f"there is no weighting '{each}'; choose from {', '.join(WEIGHTINGS)}, or leave it "
                "out for fixed weights"
            )
        found.append(WEIGHTINGS[each] if isinstance(each, str) else each)
    if len({type(each) for each in found}) < len(found):
        raise ValueError(f"the same weighting is given twice: {found}")
    return tuple(found)


def balanced(recipe: Recipe, balance: GradNorm | None) -> Recipe:
    """The recipe with GradNorm in its Adam stages."""
    if balance is None:
        return recipe
    return tuple(
        dataclasses.replace(stage, balance=balance) if isinstance(stage, Adam) else stage
        for stage in recipe
    )


def recipe_for(recipe: str | Recipe) -> Recipe:
    """The paper's recipe for equations, or stages that can train one."""
    if recipe == "paper":
        return PAPER
    if isinstance(recipe, str):
        raise ValueError(
            f"there is no recipe '{recipe}'; choose default or paper, or give a tuple of stages "
            "such as (Adam(1000), LBFGS(100))"
        )
    for stage in recipe:
        if not isinstance(stage, Stage):
            raise ValueError(f"a recipe is a tuple of stages, but it contains {stage!r}")
        if not isinstance(stage, Adam | LBFGS | Prune):
            raise ValueError(
                f"{type(stage).__name__} fits data; an equation is trained by Adam, LBFGS and "
                "Prune, or by recipe='default'"
            )
    return tuple(recipe)


def training_options(
    *,
    recipe: str | Recipe = "paper",
    constraint: str | None = None,
    constraint_weight: float = 1e-3,
    reduction: str | None = None,
    preconditioner: bool | None = None,
    weighting: Weighting | Sequence[Weighting] | None = None,
    trials: int = 1,
) -> dict[str, Any]:
    """What these options of `solve` mean for training, checked."""
    check_trials(trials)
    if constraint == "exact":
        raise ValueError(
            "the exact constraint belongs to recipe='default', which solves for b at each step"
        )
    is_paper, chosen = recipe == "paper", weightings(weighting)
    return dict(
        recipe=balanced(recipe_for(recipe), _only(GradNorm, chosen)),
        loss=Loss(
            constraint=constraint or ("E" if is_paper else "none"),
            constraint_weight=constraint_weight,
            reduction=reduction or "mean",
        ),
        preconditioner=is_paper if preconditioner is None else preconditioner,
        causal=_only(Causal, chosen),
        trials=trials,
    )


def check_trials(trials: int) -> None:
    if not isinstance(trials, int) or trials < 1:
        raise ValueError(f"trials must be an integer of at least 1, got {trials!r}")


Kind = TypeVar("Kind")


def _only(kind: type[Kind], given: Sequence[object]) -> Kind | None:
    return next((each for each in given if isinstance(each, kind)), None)


@dataclasses.dataclass(frozen=True, eq=False)
class Case:
    """A problem with its points, and how it is trained."""

    setup: Setup
    basis: Basis
    architecture: Architecture
    recipe: Recipe
    loss: Loss
    preconditioner: bool
    causal: Causal | None
    trials: int
    start_from: Solution | None = None


@dataclasses.dataclass(frozen=True, eq=False)
class Prepared:
    """A case with the rows that it is trained on, and its trials before training."""

    case: Case
    conditions: list[Placed]
    num_points: int
    task: Task
    starts: Parameters


def solve_by_gradient(
    setup: Setup,
    *,
    basis: Basis,
    architectures: Sequence[Architecture],
    start_from: Solution | None,
    begin: float,
    **options: Any,
) -> Solution:
    """Train all trials in one compiled program; that of the smallest fresh residual is it."""
    prepared = prepare(Case(setup, basis, architectures[0], start_from=start_from, **options))
    trained, outcomes = run_recipe(prepared.case.recipe, prepared.task, prepared.starts)
    errors = np.asarray(prepared.task.figures(trained)["held_out"])
    return best_solution(prepared, trained, outcomes, errors, time.perf_counter() - begin)


def prepare(case: Case) -> Prepared:
    """Make the rows, and draw the trials."""
    setup, basis, precision = case.setup, case.basis, case.architecture.precision
    problem = setup.problem
    placed = setup.placed(basis)
    parts = gradient_chunking(placed[0], basis, case.architecture, case.trials, setup.memory)
    at_once = cached_points(case.architecture, case.trials)
    rows: TrainingRows = (
        equation_rows(placed, problem, basis, precision, case.causal, at_once)
        if parts is None
        else chunked_equation(placed, problem, basis, precision, parts, case.causal)
    )
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
        watch=error_under_way(problem, basis, setup.ansatz, precision),
        checkpoint=setup.checkpoint,
    )
    if any(isinstance(stage, Adam) and stage.balance is not None for stage in case.recipe):
        ones = {name: jnp.ones((), precision) for name in rows.names}
        starts = [dataclasses.replace(each, balance=ones) for each in starts]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *starts)
    return Prepared(case, placed[1:], sum(len(each.points) for each in placed), task, stacked)


def best_solution(
    prepared: Prepared,
    trained: Parameters,
    outcomes: tuple[Outcome, ...],
    errors: Float[np.ndarray, " trials"],
    seconds: float,
) -> Solution:
    """The trial of the smallest error at fresh points, with the figures of all trials."""
    case, setup = prepared.case, prepared.case.setup
    conditions = [
        make_block(each, setup.problem, case.basis, "float64") for each in prepared.conditions
    ]
    solutions = [
        _solution(prepared, parameters, outcomes, trial, conditions, seconds)
        for trial, parameters in enumerate(unstack(trained, case.trials))
    ]
    best = int(np.nanargmin(errors)) if np.any(np.isfinite(errors)) else 0
    report = dataclasses.replace(
        solutions[best].report,
        trials=[trial_figures(each, setup.seed + trial) for trial, each in enumerate(solutions)],
    )
    return dataclasses.replace(solutions[best], report=report)


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
    conditions: list[Block],
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
    unknowns = Unknowns(wide.kept_b, wide.equation)
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
            num_points=prepared.num_points,
            residual=indicator(setup.fresh(basis), conditions, unknowns, whole, setup.ansatz),
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
                told = HELD_OUT.get(name, name)
                history.setdefault(told, []).extend(float(value) for value in values[trial])
    return history
