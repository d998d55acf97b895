"""One Adam step of the paper's variants against the plain network: KdV as in the paper, 3x100.

Random Fourier features, the modified MLP, GradNorm and causal weighting, each without and with the
polynomial half (constraint E, K), timed in turns with the plain one; the least time of several
rounds counts. GradNorm looks at the gradients of every term once in 1,000 steps: its figure is a
step with its share of that.
"""

import dataclasses
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.harness import Row
from pann.architecture import Architecture
from pann.basis import make_basis, orthonormal_scales
from pann.loss import Loss
from pann.model import Parameters
from pann.network import RandomFourier, activation_named
from pann.pde.rows import Causal, equation_rows
from pann.problems import kdv
from pann.solving.setup import Setup
from pann.training import Adam, Constant, GradNorm, Task

WIDTHS, NUM_POINTS, DEGREE = (100, 100, 100), 16_384, 12
STEPS, ROUNDS = 10, 3
BALANCE = GradNorm()


@dataclasses.dataclass(frozen=True)
class Variant:
    name: str
    embedding: RandomFourier | None = None
    kind: str = "mlp"
    causal: Causal | None = None
    balance: GradNorm | None = None


PLAIN = Variant("plain")
VARIANTS = (
    Variant("RFF", embedding=RandomFourier(100)),
    Variant("ModMLP", kind="modified"),
    Variant("GradNorm", balance=dataclasses.replace(BALANCE, every=STEPS)),
    Variant("Causal", causal=Causal()),
)


def rows(precision: str = "float32") -> Iterator[Row]:
    for with_polynomial in (False, True):
        for variant in VARIANTS:
            with jax.enable_x64(True), jax.default_matmul_precision("highest"):
                plain, own = _measure((PLAIN, variant), with_polynomial, precision)
            if variant.balance is not None:
                own = plain + (own - plain) * STEPS / BALANCE.every
            yield {
                "model": "PANN" if with_polynomial else "PINN",
                "variant": variant.name,
                "points": NUM_POINTS,
                "precision": precision,
                "plain ms": 1e3 * plain,
                "variant ms": 1e3 * own,
                "ratio": own / plain,
            }


def _measure(
    variants: tuple[Variant, ...], with_polynomial: bool, precision: str
) -> tuple[float, ...]:
    made = [_task(variant, with_polynomial, precision) for variant in variants]
    seconds = [np.inf] * len(variants)
    for _ in range(ROUNDS):
        for number, (variant, (task, trials)) in enumerate(zip(variants, made, strict=True)):
            # The first of the records has the compilation in it.
            stage = Adam(3 * STEPS, Constant(1e-4), record_every=STEPS, balance=variant.balance)
            _, outcome = stage.run(task, trials)
            least = float(np.min(np.diff(outcome.history["seconds"])))
            seconds[number] = min(seconds[number], least / STEPS)
    return tuple(seconds)


def _task(variant: Variant, with_polynomial: bool, precision: str) -> tuple[Task, Parameters]:
    problem = kdv(faithful=True)
    basis = make_basis(problem.domain, DEGREE if with_polynomial else 0, axes=("x",))
    setup = Setup(problem, problem.check(), NUM_POINTS, "sobol", 0, lambda progress: None, 400, 1.0)
    architecture = Architecture(
        WIDTHS,
        activation_named("tanh"),
        variant.embedding,
        0.0,
        None,
        False,
        precision,
        kind=variant.kind,
    )
    key = jax.random.key(0)
    parameters = architecture.start(problem.domain.dimension, basis.num_terms, 1, key=key)
    made = equation_rows(setup.placed(basis), problem, basis, precision, variant.causal)
    if variant.balance is not None:
        ones = {name: jnp.ones((), precision) for name in made.names}
        parameters = dataclasses.replace(parameters, balance=ones)
    task = Task(
        rows=made,
        loss=Loss(constraint="E" if with_polynomial else "none"),
        key=key,
        term_scales=jnp.asarray(orthonormal_scales(basis), precision) if with_polynomial else None,
    )
    return task, jax.tree.map(lambda leaf: leaf[None], parameters)
