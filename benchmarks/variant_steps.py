"""One Adam step of the paper's variants against the plain network: KdV as in the paper, 3x100.

Random Fourier features, the modified MLP, GradNorm and causal weighting, each without and with the
polynomial half (constraint E, K), timed in turns with the plain one; the least time of several
rounds counts. GradNorm looks at the gradients of every term once in 1,000 steps: its figure is a
step with its share of that.
"""

import dataclasses
from collections.abc import Iterator
from typing import Any

from benchmarks.harness import Row
from benchmarks.steps import Step, seconds_a_step
from pann.network import RandomFourier
from pann.pde.rows import Causal
from pann.problems import kdv
from pann.training import GradNorm

NUM_POINTS, DEGREE = 16_384, 12
STEPS, ROUNDS = 10, 3
BALANCE = GradNorm()
VARIANTS: dict[str, dict[str, Any]] = {
    "RFF": {"embedding": RandomFourier(100)},
    "ModMLP": {"kind": "modified"},
    "GradNorm": {"balance": dataclasses.replace(BALANCE, every=STEPS)},
    "Causal": {"causal": Causal()},
}


def rows() -> Iterator[Row]:
    for model, degree in (("PINN", 0), ("PANN", DEGREE)):
        plain = Step(kdv(faithful=True), NUM_POINTS, degree, axes=("x",))
        for name, change in VARIANTS.items():
            cases = {"plain": plain, name: dataclasses.replace(plain, **change)}
            seconds = seconds_a_step(cases, STEPS, ROUNDS)
            own = seconds[name]
            if name == "GradNorm":
                own = seconds["plain"] + (own - seconds["plain"]) * STEPS / BALANCE.every
            yield {
                "model": model,
                "variant": name,
                "points": NUM_POINTS,
                "precision": plain.precision,
                "plain ms": 1e3 * seconds["plain"],
                "variant ms": 1e3 * own,
                "ratio": own / seconds["plain"],
            }
