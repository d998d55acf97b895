"""Unknown parameters from noisy data, without options, beside nonlinear least squares by SciPy.

Four problems with 20 data sets each, at other points with other noise. The reference is
`scipy.optimize.least_squares`, begun with the truth, on an accurate forward solver of its own: a
closed form, quadrature, or a spectral method. `near_reference` is the share of data sets where all
parameters are within a fifth of a reported deviation of it, `true_within_two` the share of
parameters whose true value is within two reported deviations (95% if these are right),
`converged` the share of data sets with that verdict. `drift` has no initial state, which is fitted
as well, by the reference in 12 Fourier modes: another model, so that the two need not agree.

Then both coefficients of the KdV equation from 2,000 values with 1% noise and nothing else; there
errors and deviations are relative to the truth, l1 = 1 and l2 = 0.022^2. `seconds` are those of a
solution, the median over data sets; `cpu_seconds` adds up all data sets and cores, the reference
too.
"""

import dataclasses
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

import jax.numpy as jnp
import numpy as np
from scipy.integrate import solve_ivp
from scipy.optimize import least_squares
from scipy.special import erf

import pann
from benchmarks.harness import Row
from pann import problems, solve
from pann.pde import Data, Dirichlet, Initial, Problem
from pann.problems.kdv import DISPERSION

KEYS = ("problem", "seeds")
NUM_DATA_SETS = 20
KDV_SEEDS = (0, 1, 2)
LINE = pann.Box(x=(0, 1))
RING = pann.Box(x=(-1, 1), t=(0, 1), periodic="x", time="t")

Values = Callable[..., np.ndarray]


@dataclasses.dataclass(frozen=True)
class Kind:
    """A problem whose parameters are asked for: `forward(points, *parameters)` is its solution.

    `nuisance` are first values of what the reference has to fit besides the parameters.
    """

    residual: Callable
    conditions: tuple
    domain: pann.Box
    forward: Values
    true: Mapping[str, float]
    guess: Mapping[str, float]
    noise: float
    num_data: int
    nuisance: tuple[float, ...] = ()

    def data(self, seed: int) -> tuple[np.ndarray, np.ndarray]:
        rng = np.random.default_rng(seed)
        shape = (self.num_data, self.domain.dimension)
        points = self.domain.from_reference(rng.uniform(-1, 1, shape))
        values = self.forward(points, *self.true.values(), *self.nuisance)
        return points, values + self.noise * rng.normal(size=self.num_data)

    def problem(self, seed: int) -> Problem:
        conditions = [*self.conditions, Data(*self.data(seed))]
        return Problem(self.domain, self.residual, conditions, parameters=dict(self.guess))

    def reference(self, seed: int) -> dict[str, float]:
        points, values = self.data(seed)
        misfit = lambda theta: self.forward(points, *theta) - values
        start = [*self.true.values(), *self.nuisance]
        found = least_squares(misfit, start, x_scale="jac", diff_step=1e-5, method="lm")
        return dict(zip(self.true, found.x.tolist(), strict=False))


# ---- Forward solvers of their own ----


def source(points: np.ndarray, height: float, width: float) -> np.ndarray:
    """-u'' = height exp(-(x - 0.4)^2 / width^2), zero at 0 and 1, in closed form."""

    def particular(x: np.ndarray) -> np.ndarray:
        z = (x - 0.4) / width
        return -height * width**2 * (z * np.sqrt(np.pi) / 2 * erf(z) + np.exp(-(z**2)) / 2)

    x = points[:, 0]
    low, high = particular(np.zeros(1)), particular(np.ones(1))
    return particular(x) - (1 - x) * low - x * high


def step_in_coefficient(x: np.ndarray, low: float, rise: float, library=np) -> np.ndarray:
    return low + rise * (1 + library.tanh((x - 0.5) / 0.1)) / 2


def coefficient(points: np.ndarray, low: float, rise: float) -> np.ndarray:
    """-(k u')' = 10 by quadrature: k u' = c - 10 x, with c so that u vanishes at both ends."""
    nodes, weights = np.polynomial.legendre.leggauss(80)

    def integral(function: Values, end: np.ndarray) -> np.ndarray:
        # Of a function with a layer at 1/2, in two parts that meet there.
        middle = np.minimum(end, 0.5)
        parts = [(np.zeros_like(end), middle), (middle, end)]
        return sum(
            (b - a) / 2 * (function((a + b)[:, None] / 2 + (b - a)[:, None] / 2 * nodes) @ weights)
            for a, b in parts
        )

    conductivity = lambda x: step_in_coefficient(x, low, rise)
    one, first = (lambda x: 1 / conductivity(x)), (lambda x: 10 * x / conductivity(x))
    c = integral(first, np.ones(1)) / integral(one, np.ones(1))
    x = points[:, 0]
    return c * integral(one, x) - integral(first, x)


def burgers(points: np.ndarray, speed: float, diffusion: float) -> np.ndarray:
    """u_t + speed u u_x = diffusion u_xx from -sin(pi x), 128 Fourier modes, DOP853 in time."""
    grid = np.linspace(-1, 1, 128, endpoint=False)
    k = np.pi * np.arange(65)

    def rate(t: float, u: np.ndarray) -> np.ndarray:
        flux = np.fft.rfft(u**2 / 2)
        flux[43:] = 0
        return np.fft.irfft(-1j * k * speed * flux - diffusion * k**2 * np.fft.rfft(u))

    order = np.argsort(points[:, 1])
    times = points[order, 1]
    found = solve_ivp(rate, (0, 1), -np.sin(np.pi * grid), "DOP853", times, rtol=1e-9, atol=1e-11)
    modes = np.fft.rfft(found.y, axis=0).T * np.where(np.arange(65) % 64, 2, 1) / 128
    waves = np.exp(1j * k * (points[order, :1] + 1))
    values = np.empty(len(points))
    values[order] = np.sum((modes * waves).real, axis=1)
    return values


def drift(points: np.ndarray, speed: float, diffusion: float, *state: float) -> np.ndarray:
    """u_t + speed u_x = diffusion u_xx from a Fourier series with any coefficients."""
    x, t = points.T
    cosines, sines = np.reshape(state, (2, -1))
    k = np.pi * np.arange(1, len(sines) + 1)
    phases = k * (x - speed * t)[:, None]
    waves = np.cos(phases) * cosines + np.sin(phases) * sines
    return np.sum(np.exp(-diffusion * k**2 * t[:, None]) * waves, axis=1)


KINDS = {
    "source": Kind(
        lambda u, x, height, width: -u.xx - height * jnp.exp(-((x - 0.4) ** 2) / width**2),
        (Dirichlet(LINE.boundary, 0.0),),
        LINE,
        source,
        {"height": 5.0, "width": 0.15},
        {"height": 1.0, "width": 0.3},
        noise=0.005,
        num_data=50,
    ),
    "coefficient": Kind(
        lambda u, x, low, rise: (
            -step_in_coefficient(x, low, rise, jnp) * u.xx
            - rise * u.x / (0.2 * jnp.cosh((x - 0.5) / 0.1) ** 2)
            - 10
        ),
        (Dirichlet(LINE.boundary, 0.0),),
        LINE,
        coefficient,
        {"low": 0.5, "rise": 2.0},
        {"low": 5.0, "rise": 0.2},
        noise=0.03,
        num_data=60,
    ),
    "burgers": Kind(
        lambda u, speed, diffusion: u.t + speed * u * u.x - diffusion * u.xx,
        (Initial(lambda x, t: -jnp.sin(jnp.pi * x)),),
        RING,
        burgers,
        {"speed": 1.0, "diffusion": 0.05},
        {"speed": 0.2, "diffusion": 0.5},
        noise=0.03,
        num_data=200,
    ),
    "drift": Kind(
        lambda u, speed, diffusion: u.t + speed * u.x - diffusion * u.xx,
        (),
        RING,
        drift,
        {"speed": 0.8, "diffusion": 0.05},
        {"speed": 3.0, "diffusion": 1.0},
        noise=0.04,
        num_data=400,
        nuisance=(*np.zeros(12), 1.0, 0.5, *np.zeros(10)),
    ),
}


def rows(only: Sequence[str] | None = None) -> Iterator[Row]:
    for name, kind in KINDS.items():
        if only is None or name in only:
            yield {"problem": name, "seeds": f"0-{NUM_DATA_SETS - 1}", **statistics(kind)}
    for seed in KDV_SEEDS:
        if only is None or "kdv" in only:
            yield {"problem": "kdv", "seeds": seed, **kdv(seed)}


def statistics(kind: Kind) -> dict[str, object]:
    """How the parameters of all data sets compare with the reference and with the truth."""
    begin, seconds = time.process_time(), []
    to_reference, to_true, stops = [], [], []
    for seed in range(NUM_DATA_SETS):
        solution, expected = solve(kind.problem(seed)), kind.reference(seed)
        found, deviations = solution.parameters, solution.parameter_deviations
        to_reference.append([abs(found[n] - expected[n]) / deviations[n] for n in kind.true])
        to_true.append([abs(found[n] - true) / deviations[n] for n, true in kind.true.items()])
        stops.append(solution.report.stop)
        seconds.append(solution.report.seconds)
    return {
        "converged": float(np.mean([stop.startswith("converged") for stop in stops])),
        "near_reference": float(np.mean(np.max(to_reference, axis=1) <= 0.2)),
        "farthest_from_reference": float(np.max(to_reference)),
        "true_within_two": float(np.mean(np.array(to_true) <= 2)),
        "mean_square_to_true": float(np.mean(np.square(to_true))),
        "seconds": float(np.median(seconds)),
        "cpu_seconds": time.process_time() - begin,
    }


def kdv(seed: int) -> dict[str, object]:
    begin = time.process_time()
    solution = solve(problems.kdv_inverse(seed=seed))
    row: dict[str, object] = {}
    for name, true in {"l1": 1.0, "l2": DISPERSION}.items():
        row[f"{name}_error"] = abs(solution.parameters[name] / true - 1)
        row[f"{name}_deviation"] = solution.parameter_deviations[name] / true
    return row | {
        "error": solution.rel_l2,
        "residual": solution.residual,
        "terms": solution.model.num_terms,
        "stop": solution.report.stop,
        "seconds": solution.report.seconds,
        "cpu_seconds": time.process_time() - begin,
    }
