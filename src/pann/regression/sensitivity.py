"""Which variables matter: Sobol indices of a whole model by projection onto polynomials.

With independent inputs, uniform in [-1, 1], and an orthonormal basis the variance of a function is
the sum of its squared coefficients (Sudret 2008, "Global sensitivity analysis using polynomial
chaos expansions"). The terms in x_i alone have the fraction of it that is the first-order index of
x_i; all terms with x_i have its total index. The coefficients are fitted at Sobol points, a quarter
of which is left out to estimate the variance that the projection misses.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from pann.basis import make_basis, ridge
from pann.domain import Box
from pann.points import sobol
from pann.regression.candidates import TableFit


class SobolIndices(NamedTuple):
    """Indices per feature; `unexplained` is the fraction of the variance in none of them."""

    names: list[str]
    first: Float[np.ndarray, " features"]
    total: Float[np.ndarray, " features"]
    unexplained: float

    def __str__(self) -> str:
        order = np.argsort(-self.total, kind="stable")
        width = max(len(name) for name in self.names)
        lines = [f"{'feature':{width}}  first  total"]
        lines += [
            f"{self.names[i]:{width}}  {self.first[i]:5.3f}  {self.total[i]:5.3f}" for i in order
        ]
        return "\n".join([*lines, f"not explained by the projection: {self.unexplained:.3f}"])


def sobol_indices(fitted: TableFit, names: list[str], num_points: int) -> SobolIndices:
    """Indices of the mean of the trials; variances are summed over the outputs."""
    dimension = len(fitted.active)
    domain = Box.cube(dimension)
    points = sobol(domain, num_points).coordinates
    values = np.mean([model(points) for model in fitted.models], axis=0) * fitted.targets.deviation
    values = values.reshape(num_points, -1)
    train = num_points * 3 // 4
    indices, coefficients, missed = _project(domain, points, values, train)
    variances = np.sum(coefficients**2, axis=1)
    variance = np.sum(variances[1:]) + missed
    first, total = np.zeros(len(names)), np.zeros(len(names))
    if variance > 0:
        uses = indices > 0
        for axis, column in enumerate(fitted.active):
            alone = uses[:, axis] & (uses.sum(axis=1) == 1)
            first[column] = np.sum(variances[alone]) / variance
            total[column] = np.sum(variances[uses[:, axis]]) / variance
    return SobolIndices(names, first, total, float(missed / variance) if variance > 0 else 0.0)


def _project(
    domain: Box, points: np.ndarray, values: np.ndarray, train: int
) -> tuple[np.ndarray, np.ndarray, float]:
    """Multi-indices, coefficients, and the variance missed at the points left out.

    The basis has at most a sixth as many terms as points; it is the one that misses least.
    """
    tried: list[tuple[np.ndarray, np.ndarray, float]] = []
    for index_set in ("total_degree", "hyperbolic_cross"):
        for degree in (1, 2, 3, 4, 6, 8, 12, 16, 24, 32):
            try:
                basis = make_basis(
                    domain,
                    degree,
                    index_set=index_set,
                    scaling="orthonormal",
                    max_terms=min(train // 6, 600),
                )
            except ValueError:
                break
            table = basis.table(points)
            solved = ridge(table[:train], values[:train], np.ones(train), (0.0,))
            rest = values[train:] - table[train:] @ solved.coefficients
            missed = float(np.sum(np.mean(rest**2, axis=0)))
            tried.append((basis.indices, solved.coefficients, missed))
    return min(tried, key=lambda projection: projection[2])
