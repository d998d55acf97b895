"""Steps on a GPU beside the least time that its arithmetic and its memory would allow.

Adam on Poisson's equation: a PANN with constraint E and K, N = 4096, float32, 40 trials as one
program. The floors of a step: two operations for each weight, derivative and point forward and
four backward, at the rate of a large matrix product in the same precision; and each layer's
derivatives written and read once forward, and read twice and written once backward, at the speed
of a copy, all measured here first. Levenberg-Marquardt: one iteration in float64 (Jacobian, normal
matrix, factorization, step, two evaluations).
"""

import time
from collections.abc import Callable, Iterator

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.harness import Row
from benchmarks.steps import Step, seconds_a_step
from pann.basis import make_basis
from pann.model.architecture import Architecture
from pann.network import activation_named
from pann.pde.collocation import make_block
from pann.problems import poisson
from pann.solvers.levenberg import State, levenberg_marquardt
from pann.solvers.newton import Unknowns
from pann.solvers.setup import Setup

# The value, two slopes and the Laplacian.
TRIALS, NUM_POINTS, DERIVATIVES = 40, 4096, 4
STEPS, ROUNDS = 200, 2
DEGREE = 21
LARGE = 8192


def rows() -> Iterator[Row]:
    rate, bandwidth = _product_rate("float32"), _copy_bandwidth()
    yield {"work": "matrix product, float32", "measured": f"{rate / 1e12:.1f} TFLOP/s"}
    yield {"work": "copy", "measured": f"{bandwidth / 1e12:.2f} TB/s"}
    for width in (50, 100):
        step = Step(poisson(), NUM_POINTS, DEGREE, (width,) * 3, trials=TRIALS)
        seconds = seconds_a_step({"step": step}, STEPS, ROUNDS)["step"] / TRIALS
        weights = 2 * width + 2 * width * width
        by_arithmetic = 6 * DERIVATIVES * NUM_POINTS * weights / rate
        by_memory = 5 * 4 * DERIVATIVES * NUM_POINTS * 3 * width / bandwidth
        yield {
            "work": f"Adam, 3x{width}, {TRIALS} trials",
            "measured": f"{1e6 * seconds:.0f} us a trial",
            "floor by arithmetic": f"{1e6 * by_arithmetic:.0f} us",
            "floor by memory": f"{1e6 * by_memory:.0f} us",
        }
    yield from _levenberg()


def _levenberg() -> Iterator[Row]:
    problem = poisson()
    basis = make_basis(problem.domain, DEGREE)
    with jax.enable_x64(True):
        rate = _product_rate("float64")
        yield {"work": "matrix product, float64", "measured": f"{rate / 1e12:.1f} TFLOP/s"}
        setup = Setup(problem, 4096, "sobol", condition_points=400, condition_weight=1.0)
        blocks = tuple(make_block(each, problem, basis, "float64") for each in setup.placed(basis))
        architecture = Architecture(
            (50, 50, 50), activation_named("tanh"), None, 0.0, None, False, "float64"
        )
        parameters = architecture.start(2, basis.num_terms, 1, key=jax.random.key(0))
        num_residuals = sum(block.x.shape[0] for block in blocks)
        num_parameters = sum(
            np.size(leaf) for leaf in jax.tree.leaves(parameters.network) if np.ndim(leaf)
        )
        unknowns = Unknowns(jnp.zeros((basis.num_terms, 1)), {})
        moments: list[float] = []

        def note(step: int, value: float) -> None:
            moments.append(time.perf_counter())

        start = State(parameters, unknowns)
        levenberg_marquardt(blocks, blocks, start, problem.domain, iterations=30, report=note)
    normal = 2 * num_residuals * num_parameters**2 + num_parameters**3 / 3
    yield {
        "work": f"Levenberg-Marquardt, {num_parameters} parameters, {num_residuals} residuals",
        "measured": f"{1e3 * float(np.median(np.diff(moments[2:]))):.1f} ms an iteration",
        "floor by arithmetic": f"{1e3 * normal / rate:.1f} ms",
    }


def _product_rate(precision: str) -> float:
    """Operations a second."""
    matrix = jnp.ones((LARGE, LARGE), precision)
    with jax.default_matmul_precision("highest"):
        product = jax.jit(lambda a: a @ a)
        return 2 * LARGE**3 / _least(lambda: product(matrix))


def _copy_bandwidth() -> float:
    """Bytes a second, read and written."""
    array = jnp.ones(2**28, "float32")
    copy = jax.jit(lambda a: a + 1)
    return 2 * array.nbytes / _least(lambda: copy(array))


def _least(work: Callable[[], jax.Array]) -> float:
    work().block_until_ready()
    seconds = []
    for _ in range(5):
        start = time.perf_counter()
        work().block_until_ready()
        seconds.append(time.perf_counter() - start)
    return min(seconds)
