"""Write the files of this version that all later ones must read: python tests/stored_files.py.

They go to tests/files/VERSION, with points and the values there in values.json. The values are not
those of pann: they come from NumPy or from a closed form.
"""

import json
import pathlib
from typing import Any

import jax
import numpy as np
from oracles import output, random_parameters

import pann
from pann.io import save

FOLDER = pathlib.Path(__file__).parent / "files"
BOX = pann.Box(x=(0.0, 2.0), y=(-1.0, 3.0))
POINTS = BOX.from_reference(np.random.default_rng(0).uniform(-1, 1, (8, 2)))


def model(path: pathlib.Path) -> tuple[np.ndarray, float]:
    """A tanh network beside Legendre polynomials of total degree 3, all numbers at random."""
    basis = pann.make_basis(BOX, 3)
    with jax.enable_x64(True):
        parameters = random_parameters(1, widths=(5, 4), num_terms=len(basis), bias=True)
    save(path, pann.PANN(BOX, basis, parameters, "float64", None))
    reference = (POINTS - [0.0, -1.0]) / [1.0, 2.0] - 1.0
    columns = [np.polynomial.legendre.legvander(reference[:, axis], 3) for axis in range(2)]
    table = np.prod([columns[axis][:, basis.indices[:, axis]] for axis in range(2)], axis=0)
    return output(parameters, reference, table)[:, 0], 1e-12


def solution(path: pathlib.Path) -> tuple[np.ndarray, float]:
    """Of Poisson's equation with hard conditions, a polynomial."""
    exact = lambda x, y: x**3 * y - 2 * x * y**2
    problem = pann.Problem(
        BOX,
        residual=lambda u, x, y: u.xx + u.yy - 6 * x * y + 4 * x,
        conditions=[pann.Dirichlet(BOX.boundary, exact, hard=True)],
        exact=exact,
    )
    pann.solve(problem, degree=6, width=0).save(path)
    return exact(*POINTS.T), 1e-9


def regressor(path: pathlib.Path) -> tuple[np.ndarray, float]:
    """Fitted to values of a polynomial without noise."""
    function = lambda x: 1 + x[:, 0] ** 2 * x[:, 1] - x[:, 1] / 2
    rows = np.concatenate([POINTS, np.random.default_rng(1).uniform([0, -1], [2, 3], (120, 2))])
    pann.PANNRegressor(degree=3, width=0).fit(rows, function(rows)).save(path)
    return function(POINTS), 1e-6


def main() -> None:
    folder = FOLDER / pann.__version__
    folder.mkdir(parents=True, exist_ok=True)
    stored: dict[str, Any] = {"points": POINTS.tolist()}
    for write in (model, solution, regressor):
        values, tolerance = write(folder / f"{write.__name__}.pann")
        stored[write.__name__] = {"values": values.tolist(), "tolerance": tolerance}
    (folder / "values.json").write_text(json.dumps(stored, indent=1) + "\n")


if __name__ == "__main__":
    main()
