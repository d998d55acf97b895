"""PINA (pina-mathlab): Adam, then L-BFGS where training goes on for long."""

import contextlib
import functools
import logging
import warnings

import equations
import lightning
import numpy as np
import protocol
import torch
from pina import Condition, LabelTensor, Trainer
from pina.domain import CartesianDomain
from pina.equation import Equation
from pina.model import FeedForward
from pina.operator import fast_grad
from pina.optim import TorchOptimizer
from pina.problem import SpatialProblem
from pina.solver import PhysicsInformedSingleModelSolver as PINN
from pina.weighting import ScalarWeighting

logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
warnings.filterwarnings("ignore")


class TimeIsUp(Exception):
    pass


def work(job: dict) -> dict:
    torch.set_default_dtype(getattr(torch, job["precision"]))
    return _steps(job) if job["work"] == "steps" else _train(job)


def _problem(job: dict, watch=lambda: None) -> SpatialProblem:
    residual = equations.RESIDUALS[job["equation"]]

    def equation(inputs, outputs):
        watch()

        @functools.cache
        def d(i, j):
            if i + j == 0:
                return outputs
            below, axis = (d(i - 1, j), "x") if i else (d(i, j - 1), "y")
            return fast_grad(below, inputs, below.labels, [axis])

        plain = lambda tensor: tensor.as_subclass(torch.Tensor)
        x, y = plain(inputs.extract(["x"])), plain(inputs.extract(["y"]))
        return residual(plain(outputs), lambda i, j: plain(d(i, j)), x, y, torch)

    labeled = lambda array, names: LabelTensor(torch.as_tensor(array), names)
    inside = labeled(protocol.inside(job["points"], job["precision"]), ["x", "y"])
    conditions = {"inside": Condition(input=inside, equation=Equation(equation))}
    if not job.get("exact boundary"):
        on_boundary = protocol.boundary(job["precision"])
        values = equations.boundary_values(job["equation"], on_boundary)[:, None]
        conditions["boundary"] = Condition(
            input=labeled(on_boundary, ["x", "y"]), target=labeled(values, ["u"])
        )
    described = {
        "output_variables": ["u"],
        "spatial_domain": CartesianDomain({"x": [-1, 1], "y": [-1, 1]}),
        "conditions": conditions,
    }
    return type("Square", (SpatialProblem,), described)()


class _ExactOnBoundary(torch.nn.Module):
    def __init__(self, network: torch.nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, inputs):
        output = self.network(inputs).as_subclass(torch.Tensor)
        points = inputs.as_subclass(torch.Tensor)
        value = equations.allen_cahn_exactly_on_boundary(
            output, points[:, 0:1], points[:, 1:2], torch
        )
        return LabelTensor(value, ["u"])


def _network(job: dict) -> torch.nn.Module:
    network = FeedForward(2, 1, inner_size=job["width"], n_layers=3, func=torch.nn.Tanh)
    return _ExactOnBoundary(network) if job.get("exact boundary") else network


def _trainer(solver: PINN, epochs: int, callbacks: list) -> Trainer:
    return Trainer(
        solver,
        max_epochs=epochs,
        accelerator="cpu",
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        enable_checkpointing=False,
        callbacks=callbacks,
    )


class _Moments(lightning.pytorch.Callback):
    def __init__(self):
        self.moments = []

    def on_train_batch_start(self, *_):
        if not self.moments:
            self.moments.append(protocol.now())

    def on_train_batch_end(self, *_):
        self.moments.append(protocol.now())


def _steps(job: dict) -> dict:
    adam = TorchOptimizer(torch.optim.Adam, lr=1e-3)
    solver = PINN(_problem(job), _network(job), optimizer=adam)

    def advance(count: int) -> np.ndarray:
        note = _Moments()
        _trainer(solver, count, [note]).train()
        return note.moments[-1] - note.moments[0]

    return protocol.time_steps(advance, job["seconds"])


def _train(job: dict) -> dict:
    points = protocol.watched_points().astype(job["precision"])
    network = _network(job)
    inputs = LabelTensor(torch.as_tensor(points), ["x", "y"])

    def found() -> np.ndarray:
        with torch.no_grad():
            return network(inputs).detach().numpy()

    clock = protocol.Clock(job, found)

    def stop_at(until: float) -> None:
        if clock.look() or clock.seconds > until:
            raise TimeIsUp

    weights = {"inside": 1.0}
    if not job["exact boundary"]:
        weights["boundary"] = protocol.BOUNDARY_WEIGHT
    weighting = ScalarWeighting(weights)
    adam = TorchOptimizer(torch.optim.Adam, lr=1e-3)
    lbfgs = TorchOptimizer(
        torch.optim.LBFGS,
        max_iter=10**6,
        history_size=100,
        line_search_fn="strong_wolfe",
        tolerance_change=0,
        tolerance_grad=0,
    )
    for optimizer, until in ((adam, clock.limit / 4), (lbfgs, clock.limit)):
        problem = _problem(job, functools.partial(stop_at, until))
        solver = PINN(problem, network, optimizer=optimizer, weighting=weighting)
        with contextlib.suppress(TimeIsUp):
            _trainer(solver, 10**6, []).train()
        if clock.is_reached:
            break
    return clock.outcome()


protocol.answer(work)
