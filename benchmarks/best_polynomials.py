"""The least error that any polynomial of the paper's degrees can have, beside its polynomial layer.

The paper prints relative l2 errors of polynomials alone (PL) that were trained on an equation. None
can be below that of the least-squares fit to the solution itself, here on a grid of 201 x 201
points and by the coefficients of the Legendre series; the latter also for tensor products, where
the degree is that along each axis.
"""

from collections.abc import Iterator

import jax
import numpy as np
from numpy.polynomial import legendre

from benchmarks.harness import Row
from pann.basis import make_basis
from pann.problems import PROBLEMS
from reproduction import published
from reproduction.degrees import degree_of

NUM_GRID, NUM_GAUSS = 201, 80


def rows() -> Iterator[Row]:
    with jax.enable_x64(True):
        yield from _rows()


def _rows() -> Iterator[Row]:
    for name in ("poisson", "allen_cahn"):
        problem = PROBLEMS[name]()
        frame = published.load(name)
        for record in frame[frame["model"] == "PL"].to_dict("records"):
            degree = degree_of(name, record["c"], int(record["num_points"]))
            on_grid = _least_on_grid(problem, degree)
            yield {
                "equation": name,
                "sampling": record["sampling"],
                "c": record["c"],
                "points": int(record["num_points"]),
                "degree": degree,
                "least error on a grid": on_grid,
                "L2": _least(problem, degree, np.add),
                "L2, tensor product": _least(problem, degree, np.maximum),
                "published": record["mean"],
                "published below": "yes" if record["mean"] < on_grid else "",
            }


def _least_on_grid(problem, degree: int) -> float:
    axis = np.linspace(-1, 1, NUM_GRID)
    points = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    values = np.asarray(problem.exact(*points.T))
    table = np.asarray(make_basis(problem.domain, degree).table(points))
    fitted = table @ np.linalg.lstsq(table, values, rcond=None)[0]
    return float(np.linalg.norm(fitted - values) / np.linalg.norm(values))


def _least(problem, degree: int, total: np.ufunc) -> float:
    nodes, weights = legendre.leggauss(NUM_GAUSS)
    x, y = np.meshgrid(nodes, nodes, indexing="ij")
    table = legendre.legvander(nodes, NUM_GAUSS - 1) * np.sqrt(np.arange(NUM_GAUSS) + 0.5)
    half = table.T * weights
    squares = (half @ np.asarray(problem.exact(x, y)) @ half.T) ** 2
    beyond = total.outer(np.arange(NUM_GAUSS), np.arange(NUM_GAUSS)) > degree
    return float(np.sqrt(np.sum(squares[beyond]) / np.sum(squares)))
