"""Both coefficients of the KdV equation from 2,000 values with 1% noise, without options.

The truth is l1 = 1, l2 = 0.022^2; the first guesses are 0.5 and 0.001. Deviations are those that
the solution reports, relative to the truth, as the errors are. `cpu_seconds` adds up all
cores.
"""

import time
from collections.abc import Iterator

from benchmarks.harness import Row
from pann import problems, solve
from pann.problems.kdv import DISPERSION

SEEDS = (0, 1, 2)
TRUE = {"l1": 1.0, "l2": DISPERSION}


def rows() -> Iterator[Row]:
    for seed in SEEDS:
        begin = time.process_time()
        solution = solve(problems.kdv_inverse(seed=seed))
        row: dict[str, object] = {"seed": seed}
        for name, true in TRUE.items():
            row[f"{name}_error"] = abs(solution.parameters[name] / true - 1)
            row[f"{name}_deviation"] = solution.parameter_deviations[name] / true
        yield row | {
            "error": solution.rel_l2,
            "residual": solution.residual,
            "terms": solution.model.num_terms,
            "stop": solution.report.stop,
            "seconds": solution.report.seconds,
            "cpu_seconds": time.process_time() - begin,
        }
