"""Shapes in pictures: their outline, with the names of its parts or around a map of values."""

import os
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy  # its submodules are loaded when first used
from jaxtyping import Float

from pann.domain import Box
from pann.plot.files import check_picture, write_picture
from pann.plot.values import middle_of
from pann.points import tensor_grid
from pann.shapes import Boundary, Part, Shape
from pann.shapes.loops import loops_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.path import Path

# Points along a curve, and along each axis of a slice through a solid.
ALONG, SLICE = 361, 401
INK, FACE = "0.15", "#e8eef7"
LINE: dict[str, Any] = {"facecolor": "none", "edgecolor": INK, "linewidth": 1.1}
# More names than these would cover each other: those of the longest parts are written.
MOST_NAMES = 40
POINTS_ON_SOLID = 4_000


def outline_of(domain: Box, axes: tuple[str, str]) -> "Path | None":
    """The boundary over two axes of space, the others cut in the middle; None of a box."""
    shape = domain.shape
    if not isinstance(shape, Shape) or not set(axes) <= set(shape.names):
        return None
    if shape.dimension > 2:
        return _slice(shape, domain, axes)
    loops = [_vertices(loop) for loop in loops_of(shape.arcs, shape.size)]
    if axes != shape.names:
        loops = [loop[:, ::-1] for loop in loops]
    return _path(loops)


def _vertices(loop: tuple[Part, ...]) -> Float[np.ndarray, "points 2"]:
    each = [part.point(np.linspace(0, 1, 2 if part.is_straight else ALONG)) for part in loop]
    return np.concatenate(each)


def _path(loops: list[Float[np.ndarray, "_ 2"]]) -> "Path":
    from matplotlib.path import Path

    closed = [Path(np.concatenate([loop, loop[:1]]), closed=True) for loop in loops]
    return Path.make_compound_path(*closed)


def _slice(shape: Shape, domain: Box, axes: tuple[str, str]) -> "Path":
    """Where the level is zero."""
    import contourpy

    ends = [
        (domain.lower[number], domain.upper[number])
        for number in (domain.names.index(axis) for axis in axes)
    ]
    # Beyond the box, or lines on its faces would not close.
    wider = [(low - 0.01 * (high - low), high + 0.01 * (high - low)) for low, high in ends]
    ticks = [np.linspace(*each, SLICE) for each in wider]
    points = np.empty((SLICE**2, shape.dimension))
    for column, name in enumerate(shape.names):
        points[:, column] = middle_of(domain, name)
    points[:, [shape.names.index(axis) for axis in axes]] = tensor_grid(*ticks)
    level = shape.level(points).reshape(SLICE, SLICE).T
    lines: Any = contourpy.contour_generator(x=ticks[0], y=ticks[1], z=level).lines(0.0)
    return _path(lines)


def draw_outline(panel: "Axes", outline: "Path") -> None:
    from matplotlib.patches import PathPatch

    panel.add_patch(PathPatch(outline, zorder=3, clip_on=False, **LINE))


def filled(values: Float[np.ndarray, "*times across up"]) -> Float[np.ndarray, "*times across up"]:
    """Values on a grid, each NaN that of the nearest point with a value: outlines cut cells."""
    flat = values.reshape(-1, *values.shape[-2:])
    missing = np.isnan(flat[0])
    if not missing.any() or missing.all():
        return values
    across, up = scipy.ndimage.distance_transform_edt(
        missing, return_distances=False, return_indices=True
    )
    return flat[:, across, up].reshape(values.shape)


def plot_shape(shape: Shape, path: str | os.PathLike[str] | None = None) -> "Figure":
    """The shape with the names of the parts of its boundary, and its corners."""
    from matplotlib.figure import Figure

    if path is not None:
        check_picture(path)
    widths = np.subtract(shape.upper, shape.lower)
    size = 4.0 * widths[:2] / max(widths[:2]) + (1.8, 1.6)
    figure = Figure(figsize=(6.6, 5.4) if shape.dimension == 3 else size, layout="constrained")
    if shape.dimension == 2:
        _draw_plane(figure.add_subplot(), shape)
    elif shape.dimension == 3:
        _draw_solid(figure.add_subplot(projection="3d"), shape)
    else:
        raise ValueError(f"shapes in 2 and 3 dimensions are drawn, got one in {shape.dimension}")
    if path is not None:
        write_picture(figure, path)
    return figure


def _draw_plane(panel: "Axes", shape: Shape) -> None:
    from matplotlib.patches import PathPatch

    outline = outline_of(shape.box, (shape.names[0], shape.names[1]))
    panel.add_patch(PathPatch(outline, **LINE | {"facecolor": FACE}))  # type: ignore[arg-type]
    if shape.corners:
        panel.plot(*np.array([each.point for each in shape.corners]).T, "o", color=INK, ms=4)
    panel.set_aspect("equal")
    room = 0.12 * shape.size
    panel.set_xlim(shape.lower[0] - room, shape.upper[0] + room)
    panel.set_ylim(shape.lower[1] - room, shape.upper[1] + room)
    panel.set_xlabel(shape.names[0])
    panel.set_ylabel(shape.names[1])
    panel.spines[["top", "right"]].set_visible(False)
    _write_names(panel, shape)


def _write_names(panel: "Axes", shape: Shape) -> None:
    """In the middle of holes that have room, else next to a part: outside, or inside if it must."""
    roomy = [each for each in shape.holes if each.radius > 0.06 * shape.size]
    centers = {each.names[0]: each.center for each in roomy if len(each.names) == 1}
    longest: dict[str, Part] = {}
    for part in shape.arcs:
        if part.name not in longest or part.measure > longest[part.name].measure:
            longest[part.name] = part
    figure: Any = panel.figure
    figure.draw_without_rendering()
    taken: list[Any] = []
    for part in sorted(longest.values(), key=lambda part: -part.measure)[:MOST_NAMES]:
        at = np.array([0.125 if part.is_closed else 0.5])
        (point,), (normal,) = part.point(at), part.normal(at)
        tries = [(point, normal), (point, -normal)]
        if part.name in centers:
            tries = [(np.asarray(centers[part.name]), np.zeros(2))]
        elif any(part.name in each.names for each in shape.holes):
            tries.reverse()
        for number, (place, side) in enumerate(tries):
            text = panel.annotate(
                part.name,
                place,
                6 * side,
                textcoords="offset points",
                color="#1f4e9c",
                ha="left" if side[0] > 0.4 else "right" if side[0] < -0.4 else "center",
                va="bottom" if side[1] > 0.4 else "top" if side[1] < -0.4 else "center",
            )
            extent = text.get_window_extent()
            if number == len(tries) - 1 or not any(map(extent.overlaps, taken)):
                taken.append(extent)
                break
            text.remove()


def _draw_solid(panel: Any, shape: Shape) -> None:
    """Points of its surface, in a color for each name."""
    for name in shape.boundary.names[:MOST_NAMES]:
        part = shape.boundary[name]
        count = max(200, round(POINTS_ON_SOLID * part.length / shape.boundary.length))
        points = Boundary(shape, part.parts).points(count)[0]
        panel.scatter(*points.T, s=2, label=name)
    panel.set_aspect("equal")
    panel.set(xlabel=shape.names[0], ylabel=shape.names[1], zlabel=shape.names[2])
    panel.legend(loc="center left", bbox_to_anchor=(1.05, 0.5), markerscale=4, frameon=False)
