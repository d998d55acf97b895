"""Random problems whose solutions are known, or which have none or many: is a solver right?

`random_problem(seed)` is the same for the same seed: an equation, a solution that is smooth,
oscillates, or has a layer, front, peak or kink, and conditions of all kinds. Right-hand side and
data follow from the solution by automatic differentiation; the problem itself does not hold it.
"""

import numpy as np

from benchmarks.random_problems.case import Case
from benchmarks.random_problems.equations import IN_TIME, STATIONARY
from benchmarks.random_problems.ill_posed import ILL_POSED
from benchmarks.random_problems.well_posed import interface, source_jump, well_posed

ILL_POSED_PER_ROUND = 6
ROUND = len(STATIONARY) + len(IN_TIME) + 1 + ILL_POSED_PER_ROUND


def random_problem(seed: int) -> Case:
    """The problem with this number; rounds of thirty have every equation and six ill-posed ones."""
    rng = np.random.default_rng(seed)
    past, number = divmod(seed, ROUND)
    if number < len(STATIONARY):
        return well_posed(seed, rng, *STATIONARY[number], in_time=False)
    number -= len(STATIONARY)
    if number < len(IN_TIME):
        return well_posed(seed, rng, *IN_TIME[number], in_time=True)
    number -= len(IN_TIME)
    if number == 0:
        return (interface if past % 2 else source_jump)(seed, rng)
    make = ILL_POSED[(number - 1 + ILL_POSED_PER_ROUND * past) % len(ILL_POSED)]
    return make(seed, rng)


__all__ = ["ILL_POSED_PER_ROUND", "ROUND", "Case", "random_problem"]
