"""Processes killed by SIGKILL at random moments, a hundred in all, over the tests' small problems.

Each problem is solved in a process that is killed after a random number of steps and a random
delay, and resumed, until it is done; the finished model is compared, bit by bit, with that of a
process that nobody disturbed.
"""

import pathlib
import random
import sys
import tempfile
from collections.abc import Iterator

from benchmarks.harness import Row

KILLS, KILLS_A_RUN = 100, 6


def rows() -> Iterator[Row]:
    sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "tests"))
    import test_checkpoints as cases

    import pann

    rng, total = random.Random(0), 0
    with tempfile.TemporaryDirectory() as place:
        undisturbed = {}
        for name in cases.CASES:
            cases.killed_until_done(name, pathlib.Path(place) / name, rng, kills=0)
            undisturbed[name] = pann.load(pathlib.Path(place) / name / "solution.pann")
        number = 0
        while total < KILLS:
            name = list(cases.CASES)[number % len(cases.CASES)]
            folder = pathlib.Path(place) / f"run{number}"
            kills = cases.killed_until_done(name, folder, rng, kills=KILLS_A_RUN)
            cases.check_same(pann.load(folder / "solution.pann"), undisturbed[name])
            total, number = total + kills, number + 1
            yield {"case": name, "kills": kills, "kills so far": total, "model": "identical"}
