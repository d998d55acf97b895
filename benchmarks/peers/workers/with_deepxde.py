"""DeepXDE on PyTorch or JAX (DDE_BACKEND says which), by the recipes of its documentation.

Derivatives in reverse or forward mode, as the job says. Training is Adam, and on PyTorch then
L-BFGS in float64; on JAX there is no L-BFGS.
"""

import functools

import deepxde as dde
import equations
import numpy as np
import protocol

JAX = dde.backend.backend_name == "jax"


class TimeIsUp(Exception):
    pass


def work(job: dict) -> dict:
    if JAX:
        import jax

        # DeepXDE leaves this to the user: without it, float64 is silently float32.
        jax.config.update("jax_enable_x64", job["precision"] == "float64")
    dde.config.set_default_float(job["precision"])
    dde.config.set_default_autodiff(job["mode"])
    return _steps(job) if job["work"] == "steps" else _train(job)


def _model(job: dict, watch=lambda: None) -> dde.Model:
    residual, forward = equations.RESIDUALS[job["equation"]], job["mode"] == "forward"
    pairs = JAX or forward
    first = (lambda pair: pair[0]) if pairs else (lambda array: array)
    math = _math()

    def pde(x, y):
        watch()

        @functools.cache
        def pair(i, j):
            if i + j == 0:
                return y
            below, axis = (pair(i - 1, j), 0) if i else (pair(i, j - 1), 1)
            return dde.grad.jacobian(below, x, i=0, j=axis)

        d = lambda i, j: first(pair(i, j))
        return residual(first(y), d, x[:, 0:1], x[:, 1:2], math)

    square = dde.geometry.Rectangle([-1, -1], [1, 1])
    net = dde.nn.FNN([2, *[job["width"]] * 3, 1], "tanh", "Glorot normal")
    if job.get("exact boundary"):
        conditions = []
        net.apply_output_transform(
            lambda x, y: equations.allen_cahn_exactly_on_boundary(y, x[..., 0:1], x[..., 1:2], math)
        )
    else:
        on_boundary = protocol.boundary(job["precision"])
        values = equations.boundary_values(job["equation"], on_boundary)[:, None]
        conditions = [dde.icbc.PointSetBC(on_boundary, values)]
    inside = protocol.inside(job["points"], job["precision"])
    data = dde.data.PDE(square, pde, conditions, num_domain=0, anchors=inside)
    return dde.Model(data, net)


def _math():
    if JAX:
        import jax.numpy

        return jax.numpy
    import torch

    return torch


class _Moments(dde.callbacks.Callback):
    """When each step ended, and the last one finished."""

    def __init__(self):
        super().__init__()
        self.moments = []

    def on_batch_begin(self):
        if not self.moments:
            self.moments.append(protocol.now())

    def on_batch_end(self):
        self.moments.append(protocol.now())


def _steps(job: dict) -> dict:
    model = _model(job)
    model.compile("adam", lr=1e-3)

    def advance(count: int) -> np.ndarray:
        note = _Moments()
        model.train(iterations=count, display_every=10**9, callbacks=[note], verbose=0)
        return note.moments[-1] - note.moments[0]

    return protocol.time_steps(advance, job["seconds"])


def _train(job: dict) -> dict:
    points = protocol.watched_points().astype(job["precision"])
    weights = [1.0] if job["exact boundary"] else [1.0, protocol.BOUNDARY_WEIGHT]
    model = _model(job)
    clock = protocol.Clock(job, lambda: model.predict(points))

    class Watch(dde.callbacks.Callback):
        def on_epoch_end(self):
            if clock.look() or (not JAX and clock.seconds > clock.limit / 4):
                self.model.stop_training = True

    model.compile("adam", lr=1e-3, loss_weights=weights)
    model.train(iterations=10**7, display_every=10**9, callbacks=[Watch()], verbose=0)
    if not JAX and clock.seconds < clock.limit:
        _lbfgs(model, clock, weights)
    return clock.outcome()


def _lbfgs(model: dde.Model, clock: protocol.Clock, weights: list[float]) -> None:
    """Its callbacks hear nothing of single iterations: the network tells when it is evaluated."""

    def watch(*_):
        if not model.net.training:
            return
        model.net.train(False)
        if clock.look():
            raise TimeIsUp
        model.net.train(True)

    model.net.register_forward_pre_hook(watch)
    dde.optimizers.set_LBFGS_options(maxiter=10**6, gtol=0)
    model.compile("L-BFGS", loss_weights=weights)
    try:
        model.train(display_every=10**9, verbose=0)
    except TimeIsUp:
        model.net.train(False)


protocol.answer(work)
