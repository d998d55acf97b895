"""jinns: its compiled loop, with Adam, or natural gradients where training goes on for long."""

import contextlib
import io
from collections.abc import Callable

import equations
import equinox as eqx
import jax
import jax.experimental
import jax.numpy as jnp
import jinns
import jinns.validation
import numpy as np
import optax
import protocol


def work(job: dict) -> dict:
    jax.config.update("jax_enable_x64", job["precision"] == "float64")
    return _steps(job) if job["work"] == "steps" else _train(job)


def _equation(job: dict) -> jinns.loss.PDEStatio:
    residual, along = equations.RESIDUALS[job["equation"]], jnp.eye(2, dtype=job["precision"])

    class OnSquare(jinns.loss.PDEStatio):
        def equation(self, x, u, params):
            function = lambda x: u(x, params)[0]

            def d(i, j):
                derivative = function
                for axis in (0,) * i + (1,) * j:
                    derivative = _directional(derivative, along[axis])
                return derivative(x)

            return residual(function(x), d, x[0], x[1], jnp)[None]

    return OnSquare()


def _directional(function, along):
    return lambda x: jax.jvp(function, (x,), (along,))[1]


class _Boundary(jinns.loss.BoundaryConditionAbstract):
    """u as the equation's exact solution has it; zero where there is none."""

    name: str = eqx.field(static=True)

    @jinns.loss.equation_on_all_facets_equal
    def equation_u(self, inputs, u, params):
        return u(inputs, params)

    @jinns.loss.equation_on_all_facets_equal
    def equation_f(self, inputs, params, gridify=False):
        if self.name != "allen_cahn":
            return jnp.zeros((1,), inputs.dtype)
        return equations.allen_cahn_exact(inputs[0], inputs[1], jnp)[None]


def _exact_on_boundary(inputs, output, params):
    return equations.allen_cahn_exactly_on_boundary(output, inputs[0], inputs[1], jnp)


def _made(job: dict, boundary_weight: float):
    key = jax.random.PRNGKey(0)
    layers = [(eqx.nn.Linear, 2, job["width"]), (jax.nn.tanh,)]
    for _ in range(2):
        layers += [(eqx.nn.Linear, job["width"], job["width"]), (jax.nn.tanh,)]
    layers.append((eqx.nn.Linear, job["width"], 1))
    exact = bool(job.get("exact boundary"))
    network, start = jinns.nn.PINN_MLP.create(
        key=key,
        eqx_list=tuple(layers),
        eq_type="PDEStatio",
        output_transform=_exact_on_boundary if exact else None,
    )
    parameters = jinns.parameters.Params(nn_params=start, eq_params={})
    points = jinns.data.CubicMeshPDEStatio(
        key=key,
        n=job["points"],
        nb=protocol.NUM_BOUNDARY,
        dim=2,
        min_pts=(-1.0, -1.0),
        max_pts=(1.0, 1.0),
        method="sobol",
    )
    weights = {"dyn_loss": 1.0} | ({} if exact else {"boundary_loss": boundary_weight})
    loss = jinns.loss.LossPDEStatio(
        u=network,
        dynamic_loss=_equation(job),
        boundary_condition=None if exact else _Boundary(job["equation"]),
        loss_weights=jinns.loss.LossWeightsPDEStatio(**weights),
        params=parameters,
    )
    return network, parameters, points, loss


class _Told(io.StringIO):
    """What `jinns.solve` prints, and when: it says so after compiling and after training."""

    def __init__(self):
        super().__init__()
        self.moments = {}

    def write(self, text: str) -> int:
        if text.strip():
            self.moments[text.split()[0]] = protocol.now()
        return super().write(text)


def _solve(parameters, points, loss, optimizer, count: int):
    """How long `jinns.solve` compiled, and how long it trained."""
    begin, told = protocol.now(), _Told()
    with contextlib.redirect_stdout(told):
        jinns.solve(
            n_iter=count,
            init_params=parameters,
            data=points,
            loss=loss,
            optimizer=optimizer,
            print_loss_every=10**9,
        )
    compiled, trained = told.moments["Compilation"], told.moments["Training"]
    return compiled - begin, trained - compiled


def _steps(job: dict) -> dict:
    _, parameters, points, loss = _made(job, 1.0)
    compilations = []

    def advance(count: int) -> np.ndarray:
        compiling, training = _solve(parameters, points, loss, optax.adam(1e-3), count)
        compilations.append(compiling[0])
        return training

    return protocol.time_steps(advance, job["seconds"]) | {"first seconds": compilations[0]}


class _Watch(jinns.validation.AbstractValidationModule):
    """Values of the network leave the compiled loop now and then; the clock may stop it."""

    network: eqx.Module
    points: jax.Array
    look: Callable[[np.ndarray], bool] = eqx.field(static=True)
    call_every: int = eqx.field(kw_only=True, default=5, static=True)

    def __call__(self, params):
        values = jax.vmap(lambda x: self.network(x, params))(self.points)
        stop = jax.experimental.io_callback(self.look, jax.ShapeDtypeStruct((), bool), values)
        return self, stop, jnp.zeros(()), False


def _train(job: dict) -> dict:
    """Natural gradients in one compiled loop, with a line search that can shorten a step enough.

    optax's default shortens by a fifth, so that the 15 attempts of jinns' default end at 0.035: the
    first step from here multiplies the loss by 1e8 and does not come back.
    """
    network, parameters, points, loss = _made(job, protocol.BOUNDARY_WEIGHT)
    watched, found = jnp.asarray(protocol.watched_points()), [np.nan]

    def look(values: np.ndarray) -> np.ndarray:
        found[0] = np.asarray(values)
        return np.asarray(clock.look())

    search = optax.scale_by_backtracking_linesearch(
        max_backtracking_steps=30, decrease_factor=0.5, max_learning_rate=1.0
    )
    clock = protocol.Clock(job, lambda: found[0])
    with contextlib.redirect_stdout(io.StringIO()):
        jinns.solve(
            n_iter=100_000,
            init_params=parameters,
            data=points,
            loss=loss,
            optimizer=jinns.optimizers.vanilla_ngd(gram_reg=job["gram_reg"], linesearch=search),
            validation=_Watch(network, watched, look),
            print_loss_every=10**9,
        )
    return clock.outcome()


protocol.answer(work)
