"""The loss around a trained PANN and a trained PINN, in the plane where it is most curved.

    L'(alpha, beta) = L(theta + alpha delta + beta nu)

with delta and nu the unit eigenvectors of the Hessian of the training loss L at theta whose
eigenvalues are largest in absolute value (paper, section 3, figure of loss landscapes), for
Poisson's equation. The paper does not say how far alpha and beta go: 0.5 to both sides here.
Nothing is pruned: what training leaves of a PANN there can be a single coefficient.
"""

import pathlib
from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from pann import Problem, Solution
from pann.basis import orthonormal_scales
from pann.methods import Collocation, RunOptions, Training
from pann.model import trainable
from pann.pde import equation_rows
from pann.runs import Result, Row
from pann.solvers import make_plan
from pann.training import Loss, Task
from reproduction import equations, methods

MODELS: tuple[dict[str, Any], ...] = ({"model": "PANN", "c": 0.003}, {"model": "PINN"})
SHAPE, NUM_POINTS = (50, 3), 4096
EXTENT = 0.5
RESOLUTIONS = {"smoke": 7, "quick": 31, "full": 61}
REVISION = 1

Flat = Float[Array, " parameters"]
Function = Callable[[Flat], Float[Array, ""]]


def rows(size: str, mode: str, trials: int | None = None) -> list[Row]:
    """A row for each model; by default b is solved for, and there is no plane to look at."""
    if mode != "faithful":
        return []
    chosen = equations.SIZES[size]
    width, depth = chosen.shape or SHAPE
    common = equations.settings(size, "poisson", trials or 1) | {
        "base": "plain",
        "sampling": "poisson_disk",
        "num_points": chosen.num_points or NUM_POINTS,
        "width": width,
        "depth": depth,
        "prune": False,
        "extent": EXTENT,
        "resolution": RESOLUTIONS[size],
        "revision": REVISION,
    }
    return [Row("landscape", common | model) for model in MODELS]


def run(configuration: Mapping[str, Any], scratch: pathlib.Path) -> Result:
    """Train as the paper does, then look around in float64."""
    problem = methods.make_problem(configuration["problem"])
    solution = methods.solve_row(problem, configuration, scratch)
    extent = configuration["extent"]
    steps = np.linspace(-extent, extent, configuration["resolution"])
    with jax.enable_x64(True), jax.default_matmul_precision("highest"):
        loss, place = training_loss(solution, problem, configuration)
        eigenvalues, directions = leading_eigenvectors(loss, place)
        values = on_plane(loss, place, directions, steps)
        center = float(loss(place))
    return Result(
        equations.figures_of(solution)
        | {
            "loss": center,
            "eigenvalues": list(eigenvalues),
            "local_minima": num_local_minima(values),
            "num_parameters": len(place),
        },
        {"loss": values, "alphas": steps, "eigenvalues": eigenvalues},
    )


def training_loss(
    solution: Solution, problem: Problem, configuration: Mapping[str, Any]
) -> tuple[Function, Flat]:
    """The loss that the solution was trained by, of all that is trained and not pruned."""
    is_pann = configuration["model"] == "PANN"
    model = solution.model
    where = Collocation(points=configuration["num_points"], sampling=configuration["sampling"])
    method = Training(basis=model.basis, collocation=where)
    setup = make_plan(problem, method, RunOptions(seed=configuration["seed"])).setup
    data = equation_rows(setup.placed(model.basis), problem, model.basis, "float64")
    wide = jax.tree.map(
        lambda leaf: leaf.astype("float64") if eqx.is_inexact_array(leaf) else leaf,
        model.parameters,
    )
    term = Loss("E", methods.CONSTRAINT_WEIGHT) if is_pann else Loss("none")
    if is_pann:
        scales = jnp.asarray(orthonormal_scales(model.basis))
        task = Task(data, term, jax.random.key(0), term_scales=scales)
        weights = task.weights(jax.tree.map(lambda leaf: leaf[None], wide))[0]
        data = eqx.tree_at(lambda each: each.weights, data, weights)
    moving, fixed = eqx.partition(wide, trainable(wide))
    place, restored = ravel_pytree(moving)
    return lambda flat: term.total(eqx.combine(restored(flat), fixed), data), place


def leading_eigenvectors(
    function: Function, place: Flat, count: int = 2
) -> tuple[Float[np.ndarray, " count"], Float[np.ndarray, "count parameters"]]:
    """The eigenvalues of the Hessian largest in absolute value, and their unit eigenvectors.

    Lanczos' method on products H v = d/dt grad f(x + t v): the Hessian itself is never formed.
    """
    from scipy.sparse.linalg import LinearOperator, eigsh

    size = len(place)
    if count >= size:
        raise ValueError(f"{count} eigenvectors need more than {count} parameters, got {size}")
    product = jax.jit(lambda v: jax.jvp(jax.grad(function), (place,), (v,))[1])
    operator = LinearOperator(
        (size, size), matvec=lambda v: np.asarray(product(jnp.asarray(v.ravel()))), dtype=np.float64
    )
    # A fixed start: a random one would give other signs in every run.
    start = np.random.default_rng(0).standard_normal(size)
    values, vectors = eigsh(operator, count, which="LM", v0=start)
    order = np.argsort(-np.abs(values))
    return values[order], vectors.T[order]


def on_plane(
    function: Function,
    place: Flat,
    directions: Float[np.ndarray, "2 parameters"],
    steps: Float[np.ndarray, " n"],
) -> Float[np.ndarray, "n n"]:
    """The function at place + alpha delta + beta nu, alpha by row and beta by column."""
    delta, nu = jnp.asarray(directions)
    pairs = jnp.stack(jnp.meshgrid(*2 * [jnp.asarray(steps)], indexing="ij"), axis=-1)
    at = jax.jit(
        lambda pairs: jax.lax.map(lambda p: function(place + p[0] * delta + p[1] * nu), pairs)
    )
    return np.asarray(at(pairs.reshape(-1, 2))).reshape(len(steps), len(steps))


def num_local_minima(values: Float[np.ndarray, "n n"]) -> int:
    """How many points inside the grid are below all their eight neighbors."""
    from scipy.ndimage import minimum_filter

    neighbors = np.array([[1, 1, 1], [1, 0, 1], [1, 1, 1]], bool)
    lowest = minimum_filter(values, footprint=neighbors, mode="nearest")
    return int(np.sum((values < lowest)[1:-1, 1:-1]))
