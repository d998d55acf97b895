"""What the polynomial half and the constraint add to an Adam step, and what tables save.

Steps are timed inside the training program (a chunk of steps is one compiled call). Every variant
is timed in turns, several rounds, and the median of its rounds is compared.
"""

import statistics
from collections.abc import Iterator

import jax

from benchmarks.harness import Row
from benchmarks.problems import square
from pann.basis import make_basis
from pann.problems import functions
from pann.training.loss import Loss
from reproduction.step_cost import rows_of, start, timed_adam, timed_evaluating

STEPS, ROUNDS = 20, 7
WIDTHS = (100, 100, 100)


def rows() -> Iterator[Row]:
    problem = square(functions.non_smooth(2.0), 16_384)
    basis = make_basis(problem.domain, 25)
    table = basis.table(problem.points)
    for precision in ("float64", "float32"):
        with jax.enable_x64(True):
            with_table = rows_of(problem.points, problem.values, table, precision)
            without = rows_of(problem.points, problem.values, table[:, :0], precision)
            alone, both = start(WIDTHS, 0, precision), start(WIDTHS, len(basis), precision)
            variants = {
                "DNN": timed_adam(without, Loss("none"), alone, STEPS),
                "PANN, no constraint": timed_adam(with_table, Loss("none"), both, STEPS),
                "PANN with C_E": timed_adam(with_table, Loss("E"), both, STEPS),
                "PANN with C_H": timed_adam(with_table, Loss("H"), both, STEPS),
                "PANN, exact": timed_adam(with_table, Loss("exact"), both, STEPS),
                "PANN with C_E, polynomials each step": timed_evaluating(
                    with_table, both, basis, STEPS
                ),
            }
            seconds = {name: [] for name in variants}
            for step in variants.values():
                step()
            for _ in range(ROUNDS):
                for name, step in variants.items():
                    seconds[name].append(step() / STEPS)
        base = statistics.median(seconds["DNN"])
        for name, times in seconds.items():
            median = statistics.median(times)
            yield {
                "precision": precision,
                "step": name,
                "milliseconds": 1e3 * median,
                "ratio to DNN": median / base,
            }
