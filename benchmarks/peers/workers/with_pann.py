"""pann itself, by its public interface."""

import time

import equations
import jax
import numpy as np
import protocol

import pann


def work(job: dict) -> dict:
    return _steps(job) if job["work"] == "steps" else _train(job)


def _steps(job: dict) -> dict:
    square = pann.Box(x=(-1, 1), y=(-1, 1))
    residual = equations.RESIDUALS[job["equation"]]
    problem = pann.Problem(
        square,
        residual=lambda u, x, y: residual(u, lambda i, j: u.d(x=i, y=j), x, y, jax.numpy),
        conditions=[pann.Dirichlet(square.boundary, 0.0)],
    )
    where = pann.Collocation(
        points=job["points"], sampling="sobol", condition_points=protocol.NUM_BOUNDARY
    )
    network = pann.MLP(width=job["width"], depth=3, activation="tanh")

    def records(count: int, record_every: int) -> list[np.ndarray]:
        """How long each record took; the first has the compilation in it."""
        moments = [protocol.now()]
        stage = pann.Adam(count * record_every, record_every=record_every)
        note = lambda progress: moments.append(protocol.now())
        method = pann.Training(stages=(stage,), degree=0, network=network, collocation=where)
        pann.solve(problem, method, precision=job["precision"], progress=note)
        return list(np.diff(moments, axis=0))

    once = records(3, 1)
    count = protocol.num_steps(once[-1][0], job["seconds"])
    rounds = records(1 + protocol.ROUNDS, count)[1 : 1 + protocol.ROUNDS]
    return protocol.least([each / count for each in rounds]) | {"first seconds": once[0][0]}


def _train(job: dict) -> dict:
    begin = time.perf_counter()
    solution = pann.solve(pann.problems.allen_cahn())
    seconds = time.perf_counter() - begin
    reached = solution.rel_l2 <= job["target"]
    return {
        "error": solution.rel_l2,
        "seconds": seconds,
        "seconds to target": seconds if reached else None,
    }


protocol.answer(work)
