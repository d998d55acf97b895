"""How time and memory grow with points, terms, width, trials and dimension.

One size grows at a time, from the same middle: the gradient of Poisson's loss for both halves, a
3-layer network and constraint E, in double precision. Seconds are the least of
several calls of the compiled program, bytes what XLA says it takes beside its arguments (and with
them). The exponents are slopes of straight lines through the logarithms of the larger half of the
sizes; the expected ones count multiplications and numbers held, for sizes that are large against
all others: beside a network of three layers the terms cost next to nothing up to a thousand.
"""

import itertools
import math
import pathlib
import time
from collections.abc import Iterator

import equinox as eqx
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

from benchmarks.harness import Row
from pann.basis import make_basis
from pann.domain import Box
from pann.model.architecture import Architecture
from pann.model.pann import trainable
from pann.network import activation_named
from pann.pde import Dirichlet, Problem
from pann.pde.placing import place_inside
from pann.pde.rows import equation_rows
from pann.points import uniform
from pann.training.loss import Loss

MIDDLE = {"N": 4096, "m": 45, "w": 64, "trials": 1, "d": 2}
SIZES = {
    "N": (1024, 2048, 4096, 8192, 16384, 32768),
    "m": (45, 120, 231, 465, 861, 1596),
    "w": (32, 64, 128, 256, 512),
    "trials": (1, 2, 4, 8, 16),
    "d": (1, 2, 3, 4, 5, 6),
}
# For large sizes. Layers take w^2 multiplications and w numbers a point; the Laplacian in d
# dimensions takes 2 d + 1 derivatives in both halves.
EXPECTED = {
    "N": (1.0, 1.0),
    "m": (1.0, 1.0),
    "w": (2.0, 1.0),
    "trials": (1.0, 1.0),
    "d": (1.0, 1.0),
}
WORDS = {"N": "points N", "m": "terms m", "w": "width w", "trials": "trials", "d": "dimension d"}
CALLS = 5
PICTURE = "scaling.png"


def rows() -> Iterator[Row]:
    measured: dict[str, list[Row]] = {}
    with jax.enable_x64(True):
        for name, sizes in SIZES.items():
            measured[name] = []
            for size in sizes:
                row = {"grows": name, **measure(**(MIDDLE | {name: size}))}
                measured[name].append(row)
                yield row
    for name, of_name in measured.items():
        sizes = [float(row[name]) for row in of_name]
        slopes = [slope(sizes, [float(row[figure]) for row in of_name]) for figure in FIGURES]
        yield {
            "grows": f"exponent of {name}",
            **{figure: value for figure, value in zip(FIGURES, slopes, strict=True)},
            "expected seconds": EXPECTED[name][0],
            "expected bytes": EXPECTED[name][1],
        }
    draw(measured)


FIGURES = ("seconds", "bytes")


def measure(N: int, m: int, w: int, trials: int, d: int) -> dict[str, float]:
    """Seconds and bytes of one gradient; m is that of the first degree with as many terms."""
    box = Box.from_bounds([-1.0] * d, [1.0] * d)
    basis = make_basis(box, next(k for k in itertools.count() if math.comb(k + d, d) >= m))
    basis = basis.subset(np.arange(m))
    laplacian = lambda u: sum(u.d(**{name: 2}) for name in box.names)
    problem = Problem(box, residual=laplacian, conditions=[Dirichlet(box.boundary, 0.0)])
    orders = problem.asked.orders
    points = uniform(box, N, seed=0).coordinates
    data = equation_rows([place_inside(problem, points, orders)], problem, basis, "float64")
    architecture = Architecture(
        (w,) * 3, activation_named("tanh"), None, 0.0, None, False, "float64"
    )
    starts = [
        architecture.start(d, basis.num_terms, 1, key=jax.random.key(trial))
        for trial in range(trials)
    ]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *starts)
    moving, fixed = eqx.partition(stacked, trainable(stacked))
    total = lambda moving, fixed, data: Loss("E").total(eqx.combine(moving, fixed), data)
    gradient = jax.jit(jax.vmap(jax.grad(total), in_axes=(0, 0, None)))
    compiled = gradient.lower(moving, fixed, data).compile()
    memory = compiled.memory_analysis()
    seconds = min(timed(compiled, moving, fixed, data) for _ in range(CALLS))
    return {
        "N": N,
        "m": m,
        "w": w,
        "trials": trials,
        "d": d,
        "seconds": seconds,
        "bytes": float(memory.temp_size_in_bytes + memory.argument_size_in_bytes),
    }


def timed(compiled, *arguments) -> float:
    """CPU seconds of a call: others on the machine do not count."""
    start = time.process_time()
    jax.block_until_ready(compiled(*arguments))
    return time.process_time() - start


def slope(sizes: list[float], figures: list[float]) -> float:
    """The exponent of the larger half of the sizes."""
    half = len(sizes) // 2
    return float(np.polyfit(np.log(sizes[half:]), np.log(figures[half:]), 1)[0])


def draw(measured: dict[str, list[Row]]) -> None:
    figure, panels = plt.subplots(2, len(measured), figsize=(15, 6), sharey="row")
    for column, (name, of_name) in zip(panels.T, measured.items(), strict=True):
        sizes = np.array([float(row[name]) for row in of_name])
        for axes, what, expected in zip(column, FIGURES, EXPECTED[name], strict=True):
            values = np.array([float(row[what]) for row in of_name])
            found = slope(list(sizes), list(values))
            axes.loglog(sizes, values, "o-", label=f"measured: {found:.2f}")
            line = values[-1] * (sizes / sizes[-1]) ** expected
            axes.loglog(sizes, line, "--", color="gray", label=f"expected: {expected:.0f}")
            axes.legend(title="exponent")
            axes.grid(alpha=0.3)
            axes.set_xticks(sizes, [f"{size:g}" for size in sizes], fontsize=8, rotation=45)
            axes.minorticks_off()
        column[1].set_xlabel(WORDS[name])
    panels[0, 0].set_ylabel("CPU seconds a gradient")
    panels[1, 0].set_ylabel("bytes")
    figure.tight_layout()
    figure.savefig(pathlib.Path("results") / PICTURE, dpi=110)
