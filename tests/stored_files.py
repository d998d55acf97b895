"""Write the files of this version that all later ones must read: python tests/stored_files.py.

They go to tests/files/VERSION, with points and the values there in values.json. The values are not
those of pann: they come from NumPy or from a closed form. Files that are there stay: those of 0.1.0
have format version 1, those of 0.2.0 format version 2. Another version may be named as argument.
"""

import json
import pathlib
import sys
from typing import Any

import jax
import numpy as np
from oracles import output, random_parameters

import pann
from pann.io import save
from pann.io.checkpoint import FILE_NAME, Saved, open_checkpoint

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
    pann.solve(problem, pann.Polynomial(degree=6)).save(path)
    return exact(*POINTS.T), 1e-9


def regressor(path: pathlib.Path) -> tuple[np.ndarray, float]:
    """Fitted to values of a polynomial without noise."""
    function = lambda x: 1 + x[:, 0] ** 2 * x[:, 1] - x[:, 1] / 2
    rows = np.concatenate([POINTS, np.random.default_rng(1).uniform([0, -1], [2, 3], (120, 2))])
    pann.PANNRegressor(degree=3, width=0).fit(rows, function(rows)).save(path)
    return function(POINTS), 1e-6


CONFIGURATION = {"problem": "none"}


def checkpoint(path: pathlib.Path) -> tuple[np.ndarray, float]:
    """A unit of work that was interrupted, with an array of sines and a note."""
    assert path.name == FILE_NAME
    opened, _ = open_checkpoint(path.parent, CONFIGURATION, resume=False, interval=0.0)
    values = np.sin(np.arange(8.0))
    opened.within("trial 0").keep(lambda: Saved({"values": values}, {"step": 7}))
    return values, 0.0


def main(version: str = pann.__version__) -> None:
    folder = FOLDER / version
    folder.mkdir(parents=True)
    stored: dict[str, Any] = {"points": POINTS.tolist()}
    for write in (model, solution, regressor, checkpoint):
        values, tolerance = write(folder / f"{write.__name__}.pann")
        stored[write.__name__] = {"values": values.tolist(), "tolerance": tolerance}
    (folder / "values.json").write_text(json.dumps(stored, indent=1) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
