"""What every worker does alike: a job comes as JSON in the first argument, the answer leaves as a
line of JSON, the last that is printed.

A worker runs in its library's own environment, so there is nothing here but Python and NumPy.
"""

import json
import math
import resource
import sys
import time
from collections.abc import Callable

import equations
import nearest
import numpy as np

# Boundary of the square, and points where an error is measured.
NUM_BOUNDARY, NUM_TEST = 400, 10_000
# What an error on the boundary counts against one of the equation, for those who add them up.
BOUNDARY_WEIGHT = 100.0
ROUNDS = 3


def answer(work: Callable[[dict], dict]) -> None:
    """Do the job; what cannot be done answers with its reason."""
    try:
        result = work(json.loads(sys.argv[1]))
    except Exception as problem:
        result = {"reason": f"{type(problem).__name__}: {problem}".splitlines()[0][:160]}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print("\n" + json.dumps({**result, "peak MB": peak}), flush=True)


def now() -> np.ndarray:
    """Seconds on the clock, and of this process's work on all its threads."""
    return np.array([time.perf_counter(), time.process_time()])


def time_steps(advance: Callable[[int], np.ndarray], seconds: float) -> dict[str, float]:
    """The least time of a step over some rounds; `advance(n)` takes n steps and tells how long.

    The first call compiles, where something is compiled.
    """
    begin = time.perf_counter()
    advance(1)
    first = time.perf_counter() - begin
    count = num_steps(advance(1)[0], seconds)
    return least([advance(count) / count for _ in range(ROUNDS)]) | {"first seconds": first}


def num_steps(once: float, seconds: float) -> int:
    """How many steps a round has."""
    return max(1, min(50, math.floor(seconds / ROUNDS / once)))


def least(rounds: list[np.ndarray]) -> dict[str, float]:
    wall, work = np.min(rounds, axis=0)
    return {"seconds a step": float(wall), "CPU seconds a step": float(work)}


class Clock:
    """Notes what is found at `watched_points` as training goes on; says when to stop."""

    def __init__(self, job: dict, found: Callable[[], np.ndarray], every: float = 2.0) -> None:
        self.limit, self.target = job["seconds"], job["target"]
        self.found, self.every = found, every
        points = test_points()
        self.true = equations.allen_cahn_exact(points[:, 0], points[:, 1], np)
        self.begin = self.last = time.perf_counter()
        self.moments: list[float] = []
        self.errors: list[float] = []
        self.on_grid: list[np.ndarray] = []

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self.begin

    @property
    def is_reached(self) -> bool:
        return bool(self.errors) and self.errors[-1] <= self.target

    def look(self) -> bool:
        """Whether time is up or the target reached; the error is looked at now and then."""
        if self.seconds < self.limit and time.perf_counter() - self.last < self.every:
            return False
        self._note()
        self.last = time.perf_counter()
        return self.seconds >= self.limit or self.is_reached

    def outcome(self) -> dict:
        """The least error, and when the target was reached, if it was.

        To the solution that the equation was made from, and to the one that is nearest at the end.
        """
        self._note()
        histories, near = [self.errors], nearest.solution_near(self.on_grid[-1])
        if near is not None:
            histories.append([nearest.relative_l2(each, near) for each in self.on_grid])
        least = [min(filter(math.isfinite, errors), default=math.inf) for errors in histories]
        reached = [
            moment
            for errors in histories
            for moment, error in zip(self.moments, errors, strict=True)
            if error <= self.target
        ]
        return {
            "error": least[0],
            "error to nearest solution": min(least),
            "seconds": self.moments[-1],
            "seconds to target": min(reached, default=None),
        }

    def _note(self) -> None:
        found = np.ravel(self.found())
        self.moments.append(self.seconds)
        self.errors.append(relative_l2(found[:NUM_TEST], self.true))
        self.on_grid.append(found[NUM_TEST:])


def inside(count: int, precision: str) -> np.ndarray:
    """Sobol-like points of the square [-1, 1]^2 (a Kronecker sequence of two roots)."""
    steps = np.array([0.7548776662466927, 0.5698402909980532])
    shares = np.mod(0.5 + np.arange(1, count + 1)[:, None] * steps, 1.0)
    return (2 * shares - 1).astype(precision)


def boundary(precision: str) -> np.ndarray:
    """As many equispaced points on each of the four edges."""
    along = np.linspace(-1, 1, NUM_BOUNDARY // 4)
    edges = [np.stack([along, np.full_like(along, end)], axis=1) for end in (-1.0, 1.0)]
    return np.concatenate([*edges, *(edge[:, ::-1] for edge in edges)]).astype(precision)


def test_points() -> np.ndarray:
    return np.random.default_rng(1).uniform(-1, 1, (NUM_TEST, 2))


def watched_points() -> np.ndarray:
    """Where a training worker tells its clock what it found."""
    return np.concatenate([test_points(), nearest.points()])


def relative_l2(found: np.ndarray, true: np.ndarray) -> float:
    return float(np.linalg.norm(np.ravel(found) - true) / np.linalg.norm(true))
