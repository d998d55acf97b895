"""Shapes on which a function is negative.

A grid shows where its zeros are. A smooth loop close to them, projected onto them by Newton's
method, is a smooth function of its parameter; the boundary is the Fourier series of that.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, final

import contourpy
import numpy as np
from jaxtyping import Float

from pann.domain import Box
from pann.shapes.arcs import Parameters, Part, Path, Plane
from pann.shapes.checks import axes_of, keep
from pann.shapes.curves import Fourier, evaluate, fourier
from pann.shapes.outline import Outline
from pann.shapes.shape import Shape

CELLS = 300  # of the grid, along each axis


@final
@dataclasses.dataclass(frozen=True, init=False, repr=False)
class Implicit(Shape):
    """Where f(x, y) < 0: `Implicit(lambda x, y: x**4 + y**4 - 1, x=(-2, 2), y=(-2, 2))`.

    The intervals bound the shape, whose pieces are looked for on a grid of 300 cells along each.
    The zeros of f are smooth curves, without corners.
    """

    function: Callable[..., Any]
    domain: Box
    name: str

    def __init__(
        self,
        function: Callable[..., Any],
        name: str = "implicit",
        **axes: tuple[float | int, float | int],
    ):
        if len(axes) != 2:
            raise ValueError(
                "an implicit shape has two intervals that bound it, Implicit(f, x=(-2, 2), "
                f"y=(-2, 2)), got {len(axes)}"
            )
        keep(self, function=function, domain=Box(**axes), name=name)  # type: ignore[arg-type]
        self._check()

    @property
    def names(self) -> tuple[str, ...]:
        return self.domain.names

    @functools.cached_property
    def parts(self) -> tuple[Part, ...]:
        parts = [Part(self.name, path) for path in _loops(self.function, self.domain)]
        turns = [outward(self.function, self.domain, part) for part in parts]
        return tuple(
            part if turn > 0 else part.turned() for part, turn in zip(parts, turns, strict=True)
        )

    @functools.cached_property
    def _outline(self) -> Outline:
        return Outline(self.parts)

    def level(self, points: Plane) -> Float[np.ndarray, " points"]:
        return self._outline.level(points)

    def _check(self) -> None:
        """Refuse loops that are not the zeros of the function."""
        points, values = _grid(self.function, self.domain)
        wrong = (self.level(points) < 0) != (values < 0)
        far = np.flatnonzero(wrong & (abs(self.level(points)) > 1e-9 * self.size))
        if far.size:
            raise ValueError(_not_smooth(points[far[0]]))

    def __repr__(self) -> str:
        return f"Implicit({self.function}, {axes_of(self.domain)})"


def slopes(
    function: Callable[..., Any], domain: Box, points: Plane
) -> tuple[Float[np.ndarray, " points"], Plane]:
    """Values and gradients, these by differences."""
    step = 1e-5 * domain.widths.max()
    moved = points + step * np.array([[[0, 0]], [[1, 0]], [[-1, 0]], [[0, 1]], [[0, -1]]])
    values = evaluate(function, *moved.reshape(-1, 2).T)[:, 0].reshape(5, -1)
    gradient = np.stack([values[1] - values[2], values[3] - values[4]], axis=1) / (2 * step)
    return values[0], gradient


def outward(function: Callable[..., Any], domain: Box, part: Part) -> float:
    """Positive where the function grows along the normals of an arc."""
    t = np.arange(64) / 64
    return float(np.sum(slopes(function, domain, part.point(t))[1] * part.normal(t)))


def _grid(function: Callable[..., Any], domain: Box) -> tuple[Plane, Float[np.ndarray, " points"]]:
    """The points of a grid, and the values there."""
    axes = [np.linspace(*ends, CELLS + 1) for ends in zip(domain.lower, domain.upper, strict=True)]
    points = np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, 2)
    values = evaluate(function, *points.T)
    if values.shape[1] != 1 or not np.isfinite(values).all():
        raise ValueError(
            "the function of an implicit shape returns a finite number at each point, got "
            f"{values[~np.isfinite(values).all(axis=1)][:1].tolist() or values[:1].tolist()}"
        )
    return points, values[:, 0]


@functools.lru_cache(maxsize=256)
def _loops(function: Callable[..., Any], domain: Box) -> tuple[Path, ...]:
    points, values = _grid(function, domain)
    shape = (CELLS + 1, CELLS + 1)
    x, y, grid = points[:, 0].reshape(shape), points[:, 1].reshape(shape), values.reshape(shape)
    if not (grid < 0).any():
        raise ValueError(
            f"f is nowhere negative on a grid of {CELLS} cells along each of {axes_of(domain)}; an "
            "implicit shape is where f < 0: change the sign of f, or narrow the intervals"
        )
    edge = np.ones(grid.shape, bool)
    edge[1:-1, 1:-1] = False
    if (grid[edge] <= 0).any():
        place = np.flatnonzero(edge.ravel() & (grid.ravel() <= 0))[0]
        raise ValueError(
            f"f is negative at ({x.flat[place]:g}, {y.flat[place]:g}), on the edge of "
            f"{axes_of(domain)}; the intervals should reach beyond the shape on all sides"
        )
    lines = contourpy.contour_generator(x, y, grid).lines(0.0)
    return tuple(_loop(function, domain, np.asarray(line)) for line in lines)


def _loop(function: Callable[..., Any], domain: Box, line: Plane) -> Path:
    """The loop of zeros next to a polygon."""
    lengths = np.linalg.norm(np.diff(line, axis=0), axis=1)
    along = np.append(0, np.cumsum(lengths)) / lengths.sum()
    even = np.arange(2048) / 2048
    x, y = (np.interp(even, along, column) for column in line.T)
    series = np.fft.fftshift(np.fft.fft(x + 1j * y)) / 2048
    for modes in (24, 96, 384):
        near = Fourier(series[1024 - modes : 1024 + modes + 1])
        found = fourier(functools.partial(_projected, function, domain, near))
        if found is not None:
            length = Part("", found).length
            if abs(length / lengths.sum() - 1) < 1e-2:
                return found
    raise ValueError(_not_smooth(line[0]))


def _not_smooth(point: Float[np.ndarray, " 2"]) -> str:
    return (
        f"the curve f = 0 near ({point[0]:.4g}, {point[1]:.4g}) is not smooth, or f has no slope "
        "there; make a shape with corners from smooth ones by -, | and &"
    )


def _projected(function: Callable[..., Any], domain: Box, near: Fourier, t: Parameters) -> Plane:
    """Points of a curve moved along the gradient until the function is zero there, or NaN."""
    points, size = near.points(t), domain.widths.max()
    for _ in range(12):
        values, gradient = slopes(function, domain, points)
        with np.errstate(divide="ignore", invalid="ignore"):
            steps = (values / np.sum(gradient**2, axis=1))[:, None] * gradient
        points = points - np.clip(steps, -size / 50, size / 50)
        if not abs(steps).max() > 1e-15 * size:
            break
    return np.where(abs(steps) <= 1e-12 * size, points, np.nan)
