"""The solution that a trained network and its polynomial make, with its report."""

import dataclasses
import time
from collections.abc import Sequence

import jax.numpy as jnp

from pann.basis import WholeBasis
from pann.pde.collocation import Placed
from pann.solvers.assessment import indicator, relative_errors
from pann.solvers.levenberg import LevenbergOutcome, State
from pann.solvers.setup import Setup
from pann.solvers.solution import Solution, with_report


def with_network(
    setup: Setup,
    before: Solution,
    basis: WholeBasis,
    placed: Sequence[Placed],
    trained: State,
    outcome: LevenbergOutcome,
    how: str,
    begin: float,
) -> Solution:
    """The solution before with both halves as they were trained; `placed` are their points."""
    solved = trained.unknowns
    whole = dataclasses.replace(
        trained.parameters,
        b=solved.b,
        keep_b=jnp.ones(basis.num_terms, bool),
        overlap=jnp.zeros_like(solved.b),
    )
    model = dataclasses.replace(before.model, basis=basis, parameters=whole)
    rel_l2, field_errors = relative_errors(setup.problem, model, setup.ansatz)
    found = dataclasses.replace(before, model=model, parameters=solved.numbers)
    return with_report(
        found,
        error_estimate=None,
        how=how,
        residual=indicator(setup, placed[1:], model, solved.numbers),
        rel_l2=rel_l2,
        stop=outcome.reason,
        stopped=outcome.stopped,
        seconds=time.perf_counter() - begin,
        field_errors=field_errors,
        history=before.report.history
        | {"training residual": outcome.training, "fresh residual": outcome.fresh},
    )
