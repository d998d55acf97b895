"""Two drums that sound alike (Gordon, Webb and Wolpert, 1992): other shapes, the same eigenvalues.

Writes a picture, drums.png. The first three eigenvalues are 2.53794399980, 3.65550971352 and
5.17555935622 (Driscoll, 1997).
"""

import numpy as np

import pann
from pann.shapes import Polygon

CORNERS = {
    "one": [(0, 0), (1, 0), (1, 1), (2, 1), (3, 2), (2, 2), (2, 3), (0, 1)],
    "other": [(1, 0), (1, 1), (2, 1), (3, 2), (2, 3), (2, 2), (0, 2), (0, 1)],
}


def drum(corners):
    """Polygons of edge 2 with u = 0 on the boundary."""
    shape = Polygon([(2 * x, 2 * y) for x, y in corners])
    return pann.Problem(
        shape,
        lambda u, lam: u.laplacian + lam * u.value,
        [pann.Dirichlet(shape.boundary)],
        parameters={"lam": 0.0},
    )


def main() -> None:
    drums = {name: drum(corners) for name, corners in CORNERS.items()}
    sounds = {name: pann.eigen(problem, 4, tolerance=1e-8) for name, problem in drums.items()}
    for name, found in sounds.items():
        print(f"{name}: {found}")
    print("differences:", np.abs(np.subtract(*(found.values for found in sounds.values()))))
    draw("drums.png", sounds)


def draw(path: str, sounds: dict[str, pann.Eigenpairs]) -> None:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 4, figsize=(12, 6), layout="constrained")
    grid = np.meshgrid(*[np.linspace(0, 6, 121)] * 2, indexing="ij")
    for row, found in zip(axes, sounds.values(), strict=True):
        shape = found.functions[0].model.domain.shape
        inside = shape.inside(np.stack(grid, axis=-1).reshape(-1, 2)).reshape(grid[0].shape)
        for axis, function, value in zip(row, found.functions, found.values, strict=True):
            u = np.full(inside.shape, np.nan)
            u[inside] = function(x=grid[0][inside], y=grid[1][inside])
            limit = np.nanmax(np.abs(u))
            axis.pcolormesh(*grid, u, cmap="RdBu_r", vmin=-limit, vmax=limit, rasterized=True)
            axis.set_title(f"{value:.8f}")
            axis.set_aspect("equal")
            axis.set_axis_off()
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    main()
