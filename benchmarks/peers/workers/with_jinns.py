"""jinns: its compiled loop, with Adam, or natural gradients where training goes on for long."""

import contextlib
import io

import equations
import equinox as eqx
import jax
import jax.numpy as jnp
import jinns
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


def _solve(parameters, points, loss, optimizer, count: int, state=None):
    """What `jinns.solve` returns, how long it compiled, and how long it trained."""
    begin, told = protocol.now(), _Told()
    with contextlib.redirect_stdout(told):
        result = jinns.solve(
            n_iter=count,
            init_params=parameters,
            data=points,
            loss=loss,
            optimizer=optimizer,
            opt_state=state,
            print_loss_every=10**9,
        )
    compiled, trained = told.moments["Compilation"], told.moments["Training"]
    return result, compiled - begin, trained - compiled


def _steps(job: dict) -> dict:
    _, parameters, points, loss = _made(job, 1.0)
    compilations = []

    def advance(count: int) -> np.ndarray:
        _, compiling, training = _solve(parameters, points, loss, optax.adam(1e-3), count)
        compilations.append(compiling[0])
        return training

    return protocol.time_steps(advance, job["seconds"]) | {"first seconds": compilations[0]}


def _train(job: dict) -> dict:
    """Chunks of iterations, the state of the optimizer carried on; each chunk compiles again."""
    network, parameters, points, loss = _made(job, protocol.BOUNDARY_WEIGHT)
    test = protocol.test_points()
    true = equations.allen_cahn_exact(test[:, 0], test[:, 1], np)
    error = lambda: protocol.relative_l2(
        jax.vmap(lambda x: network(x, parameters))(jnp.asarray(test)), true
    )
    clock = protocol.Clock(job, error, every=0.0)
    search = optax.scale_by_backtracking_linesearch(max_backtracking_steps=15)
    optimizer = jinns.optimizers.vanilla_ngd(gram_reg=job.get("gram_reg", 1e-5), linesearch=search)
    state, count = None, 10
    while not clock.look():
        result, compiling, training = _solve(parameters, points, loss, optimizer, count, state)
        parameters, state = result[0], result[5]
        left = clock.limit - clock.seconds - compiling[0]
        count = max(1, int(min(0.25 * clock.limit, left) / (training[0] / count)))
    return clock.outcome()


protocol.answer(work)
