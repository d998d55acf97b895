"""A gradient step on an equation, as the paper's recipe takes it, ready to be timed."""

import contextlib
import dataclasses
from collections.abc import Hashable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from pann.basis import make_basis, orthonormal_scales
from pann.model.architecture import Architecture
from pann.model.pann import Parameters
from pann.network import RandomFourier, activation_named
from pann.pde import Problem
from pann.pde.rows import Causal, equation_rows
from pann.solvers.setup import Setup, cached_points
from pann.training import Adam, Constant, GradNorm, Task
from pann.training.loss import Loss

Name = TypeVar("Name", bound=Hashable)


@dataclasses.dataclass(frozen=True)
class Step:
    """A PANN with constraint E and K, or at degree 0 a PINN; `axes` are the polynomial's."""

    problem: Problem
    num_points: int
    degree: int
    widths: tuple[int, ...] = (100, 100, 100)
    precision: str = "float32"
    axes: Sequence[str] | None = None
    embedding: RandomFourier | None = None
    kind: str = "mlp"
    causal: Causal | None = None
    balance: GradNorm | None = None
    trials: int = 1

    def task(self) -> tuple[Task, Parameters]:
        problem, precision = self.problem, self.precision
        basis = make_basis(problem.domain, self.degree, axes=self.axes)
        setup = Setup(problem, self.num_points, "sobol", condition_points=400, condition_weight=1.0)
        architecture = Architecture(
            self.widths,
            activation_named("tanh"),
            self.embedding,
            0.0,
            None,
            False,
            precision,
            gated=self.kind == "modified",
        )
        key = jax.random.key(0)
        at_once = cached_points(architecture, self.trials)
        rows = equation_rows(setup.placed(basis), problem, basis, precision, self.causal, at_once)
        sizes = (problem.domain.dimension, basis.num_terms, len(problem.fields))
        starts = [
            architecture.start(*sizes, key=jax.random.fold_in(key, trial))
            for trial in range(self.trials)
        ]
        if self.balance is not None:
            ones = {name: jnp.ones((), precision) for name in rows.names}
            starts = [dataclasses.replace(start, balance=ones) for start in starts]
        scales = jnp.asarray(orthonormal_scales(basis), precision) if self.degree else None
        loss = Loss(constraint="E" if self.degree else "none")
        task = Task(rows=rows, loss=loss, key=key, term_scales=scales)
        return task, jax.tree.map(lambda *leaves: jnp.stack(leaves), *starts)


def seconds_a_step(
    cases: Mapping[Name, Step], num_steps: int, rounds: int, compilers: int = 1
) -> dict[Name, float]:
    """The least time of a step of each case, taken in turns; all of its trials together.

    `compilers` of them are compiled at a time, before any is timed.
    """
    with _precisely():
        made = {name: case.task() for name, case in cases.items()}
    stages = {
        # The first of the records has the compilation in it, where it was not compiled before.
        name: Adam(
            3 * num_steps, Constant(1e-4), record_every=num_steps, balance=cases[name].balance
        )
        for name in cases
    }

    def run(name: Name) -> float:
        with _precisely():
            _, outcome = stages[name].run(*made[name])
        return float(np.min(np.diff(outcome.history["seconds"]))) / num_steps

    if compilers > 1:
        with ThreadPoolExecutor(compilers) as pool:
            list(pool.map(run, cases))
    seconds = dict.fromkeys(cases, np.inf)
    for _ in range(rounds):
        for name in cases:
            seconds[name] = min(seconds[name], run(name))
    return seconds


@contextlib.contextmanager
def _precisely() -> Iterator[None]:
    """Every thread has its own settings of JAX."""
    with jax.enable_x64(True), jax.default_matmul_precision("highest"):
        yield
