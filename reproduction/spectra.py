"""What the halves of a PANN learn: their Fourier spectra, and their energy by Legendre degree.

The function is r^2 + 0.35 r^2 sin(10 (x1 + x2)) (paper, section 4.3), on 4096 points, degree 21,
three layers of 100 with ReLU.
"""

import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Float

from pann import Box, points, relative_l2
from pann.basis import make_basis, project
from pann.problems import functions
from pann.runs import Result, Row
from reproduction import methods
from reproduction.regressions import NUM_TEST, SIZES

NUM_POINTS, DEGREE = 4096, 21
GRID, SPECTRUM_DEGREE = 128, 40
REVISION = 1


def rows(size: str, mode: str, trials: int | None = None) -> list[Row]:
    """One row: the fit whose halves are looked at."""
    chosen = SIZES[size]
    configuration: dict[str, Any] = {
        "mode": mode,
        "num_points": min(NUM_POINTS, chosen.num_points or NUM_POINTS),
        "degree": DEGREE if chosen.num_points is None else 8,
        "activation": "relu",
        "width": 100 if mode == "faithful" else 16,
        "depth": 3,
        "trials": trials or 1,
        "seed": 0,
        "revision": REVISION,
    }
    if mode == "faithful":
        steps = {"adam_steps": chosen.adam_steps, "lbfgs_iterations": chosen.lbfgs_iterations}
        configuration |= steps | {"precision": "float32"}
    return [Row("frequency", configuration)]


def run(configuration: Mapping[str, Any], scratch: pathlib.Path) -> Result:
    """Fit, and keep both halves on a grid, their spectra, and their energies by total degree."""
    domain, target = Box.cube(2), functions.frequency_mix
    places = points.poisson_disk(domain, configuration["num_points"]).coordinates
    fitted = methods.fit_row(configuration, domain, places, target(places))
    test = points.uniform(domain, NUM_TEST, seed=1).coordinates
    axis = np.linspace(-1, 1, GRID, endpoint=False)
    grid = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    halves = fitted.model.parts(grid)
    arrays: dict[str, np.ndarray] = {"truth": target(grid).reshape(GRID, GRID)}
    for name, half in (("network", halves.network), ("polynomial", halves.polynomial)):
        arrays[name] = half.reshape(GRID, GRID)
        arrays[f"{name}_spectrum"] = spectrum(arrays[name])
    arrays["energies"] = legendre_energies(lambda x: np.stack(fitted.model.parts(x), axis=-1))
    errors = [relative_l2(model(test), target(test)) for model in fitted.models]
    fractions = energy_fractions(arrays["energies"])
    return Result(
        {
            "errors": errors,
            "network_energy_below_degree_4": fractions[:4, 0].sum(),
            "polynomial_energy_below_degree_4": fractions[:4, 1].sum(),
            "fit_seconds": fitted.seconds,
        },
        arrays,
    )


def spectrum(values: Float[np.ndarray, "n n"]) -> Float[np.ndarray, "n n"]:
    """The magnitudes of the Fourier coefficients, zero in the middle."""
    return np.abs(np.fft.fftshift(np.fft.fft2(values))) / values.size


def energy_fractions(
    energies: Float[np.ndarray, "degrees functions"],
) -> Float[np.ndarray, "degrees functions"]:
    """The fraction of each degree in the energy of a function; zero if the function is zero."""
    total = np.sum(energies, axis=0, keepdims=True)
    return energies / np.where(total > 0, total, 1.0)


def legendre_energies(functions: Any) -> Float[np.ndarray, "degrees functions"]:
    """The squared coefficients of each total degree in the orthonormal Legendre basis."""
    basis = make_basis(Box.cube(2), SPECTRUM_DEGREE, scaling="orthonormal")
    by_axis = lambda *axes: functions(np.stack([a.ravel() for a in axes], axis=-1))
    count = functions(np.zeros((1, 2))).shape[-1]
    columns = [
        project(
            basis,
            lambda *axes, k=k: by_axis(*axes)[:, k].reshape(axes[0].shape),
            2 * SPECTRUM_DEGREE,
        )
        for k in range(count)
    ]
    squares = np.stack(columns, axis=-1) ** 2
    return np.stack([np.bincount(basis.degrees, squares[:, k]) for k in range(count)], axis=-1)
