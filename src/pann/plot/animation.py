"""A solution over time as an animated GIF.

Not by `matplotlib.animation.PillowWriter`: it draws every axis again in every frame, rounds all
durations to the same hundredth of a second, and lets each frame choose its own palette, so that
colors flicker. For 30 frames in one second it took two to four times as long, wrote files 1.5 to
1.8 times as large, and they lasted 0.9 s.
"""

import dataclasses
import math
import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float, UInt8

from pann.domain import Box
from pann.plot.files import check_name
from pann.plot.outline import filled
from pann.plot.solution import add_bar, colors_of, draw_map
from pann.plot.values import (
    EXACT,
    NETWORK,
    POLYNOMIAL,
    SOLUTION,
    Values,
    name_of,
    space_axes,
    ticks_along,
    values_on_grid,
)
from pann.runtime.atomic import write_atomically

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Text

    from pann.solvers.solution import Solution

DOTS_PER_INCH = 100
# A GIF has 256 colors, of which these are grays, for letters and lines.
NUM_COLORS, NUM_GRAYS = 256, 32
CURVE_POINTS, MAP_POINTS = 401, 81
CURVE_PANEL, MAP_PANEL = (6.4, 3.4), (3.2, 2.6)  # inches
# Browsers show a frame of a GIF for a tenth of a second if its duration is less than this.
SHORTEST = 0.02
MARGIN = 0.05
NUM_BLENDS = 24  # of a curve's color with white; more would be too near to white itself
# The exact solution is dashed and on top: where it agrees, both are seen.
CURVES: dict[str, dict[str, Any]] = {
    SOLUTION: {"color": "#3b7dd8", "linewidth": 2.4},
    POLYNOMIAL: {"color": "#c8553d", "linewidth": 0.9},
    NETWORK: {"color": "#2a8c6a", "linewidth": 0.9},
    EXACT: {"color": "black", "linewidth": 1.1, "linestyle": (0, (5, 5))},
}


@dataclasses.dataclass(frozen=True, eq=False)
class Moving:
    """A curve or a map, how its data are set, and its values by frame."""

    artist: "Artist"
    set_data: Callable[[np.ndarray], Any]
    values: Float[np.ndarray, "frames ..."]


@dataclasses.dataclass(frozen=True, eq=False)
class Scene:
    """A figure, what in it changes from frame to frame, and the color maps that it needs."""

    figure: "Figure"
    title: "Text"
    titles: tuple[str, ...]
    moving: tuple[Moving, ...]
    color_maps: tuple[Any, ...]

    def show(self, frame: int) -> None:
        for each in self.moving:
            each.set_data(each.values[frame])
        # Another call of `suptitle` would move it from its place in the layout.
        self.title.set_text(self.titles[frame])


def animate(
    solution: "Solution", path: str | os.PathLike[str], frames: int = 60, seconds: float | int = 6.0
) -> None:
    """Write a .gif of the solution from the first time to the last."""
    from matplotlib import style

    _check_domain(solution.model.domain)
    _check_length(frames, seconds)
    check_name(path, ["gif"], what="a moving picture")
    # The palette is made for a white page, whatever style a user has set.
    with style.context("default"):
        scene = make_scene(solution, frames)
        write_atomically(path, lambda temporary: write_gif(scene, seconds, temporary))


def make_scene(solution: "Solution", frames: int) -> Scene:
    """The figure with its first frame."""
    domain = solution.model.domain
    time, space = str(domain.time), space_axes(domain)
    times = ticks_along(domain, time, frames)
    count = CURVE_POINTS if len(space) == 1 else MAP_POINTS
    ticks = {time: times} | {axis: ticks_along(domain, axis, count) for axis in space}
    draw = _curves if len(space) == 1 else _maps
    figure, moving, color_maps = draw(domain, values_on_grid(solution, ticks))
    # Frames with equal titles and values would become one.
    digits = max(0, math.ceil(-math.log10(times[1] - times[0])) + 1)
    titles = tuple(f"{name_of(solution)}, {time} = {at:.{digits}f}" for at in times)
    scene = Scene(figure, figure.suptitle(titles[0]), titles, tuple(moving), tuple(color_maps))
    # The layout of the first frame stays: panels must not move with the width of a number.
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    return scene


def write_gif(scene: Scene, seconds: float | int, path: str) -> None:
    """All frames, of equal durations up to the hundredths of a second that a GIF counts in."""
    from PIL import Image

    palette = Image.new("P", (1, 1))
    palette.putpalette(_palette(scene).tobytes())
    first, *others = (
        Image.fromarray(pixels).quantize(palette=palette, dither=Image.Dither.NONE)
        for pixels in _drawn(scene)
    )
    ends = np.round(np.linspace(0, 100 * seconds, len(scene.titles) + 1)).astype(int)
    durations = [int(10 * hundredths) for hundredths in np.diff(ends)]
    first.save(path, "GIF", save_all=True, append_images=others, duration=durations, loop=0)


def _drawn(scene: Scene) -> Iterator[UInt8[np.ndarray, "height width 3"]]:
    """Every frame; artists that do not move are drawn once."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    figure, canvas = scene.figure, FigureCanvasAgg(scene.figure)
    changing = [*(each.artist for each in scene.moving), scene.title]
    # Frames of panels lie above what moves in them.
    above = [spine for panel in figure.axes for spine in panel.spines.values()]
    for artist in changing:
        artist.set_animated(True)
    canvas.draw()
    background = canvas.copy_from_bbox(figure.bbox)
    for frame in range(len(scene.titles)):
        scene.show(frame)
        canvas.restore_region(background)
        for artist in (*changing, *above):
            figure.draw_artist(artist)
        yield np.asarray(canvas.buffer_rgba())[:, :, :3].copy()


def _palette(scene: Scene) -> UInt8[np.ndarray, "colors 3"]:
    """Grays, and the colors of every color map in equal parts."""
    maps = scene.color_maps
    grays = np.linspace(0, 1, NUM_GRAYS)[:, None].repeat(3, axis=1)
    count = (NUM_COLORS - NUM_GRAYS) // len(maps)
    ramps = [each(np.linspace(0, 1, min(count, each.N)))[:, :3] for each in maps]
    return np.round(255 * np.concatenate([grays, *ramps])).astype(np.uint8)


# ---- One dimension of space ----


def _curves(domain: Box, fields: dict[str, Values]) -> tuple["Figure", list[Moving], list[Any]]:
    """A panel for each field, one below the other."""
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.figure import Figure

    (axis,) = space_axes(domain)
    size = (CURVE_PANEL[0], CURVE_PANEL[1] * len(fields) + 0.6)
    figure = Figure(figsize=size, dpi=DOTS_PER_INCH, layout="constrained")
    panels = figure.subplots(len(fields), sharex=True, squeeze=False)[:, 0]
    moving: list[Moving] = []
    for panel, (field, values) in zip(panels, fields.items(), strict=True):
        moving += _draw_curves(panel, ticks_along(domain, axis, CURVE_POINTS), values)
        panel.set_ylabel(field)
        panel.grid(alpha=0.25)
    panels[-1].set_xlabel(axis)
    handles, labels = panels[0].get_legend_handles_labels()
    if len(labels) > 1:
        figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    # The edges of curves are blends with the white below.
    blends = [
        LinearSegmentedColormap.from_list(name, ["white", style["color"]], NUM_BLENDS)
        for name, style in CURVES.items()
    ]
    return figure, moving, blends


def _draw_curves(panel: "Axes", at: Float[np.ndarray, " space"], values: Values) -> list[Moving]:
    shown = {name: values[name] for name in CURVES if name in values}
    low = min(float(np.min(array)) for array in shown.values())
    high = max(float(np.max(array)) for array in shown.values())
    room = MARGIN * (high - low) or 1.0
    panel.set_xlim(at[0], at[-1])
    panel.set_ylim(low - room, high + room)
    moving: list[Moving] = []
    for name, array in shown.items():
        (line,) = panel.plot(at, array[0], label=name, **CURVES[name])
        moving.append(Moving(line, line.set_ydata, array))
    return moving


# ---- Two dimensions of space ----


def _maps(domain: Box, fields: dict[str, Values]) -> tuple["Figure", list[Moving], list[Any]]:
    """A row for each field: the solution, its halves if there are two, the error if known."""
    from matplotlib.figure import Figure

    first, second = space_axes(domain)
    rows = [
        {name: array for name, array in values.items() if name != EXACT}
        for values in fields.values()
    ]
    size = (MAP_PANEL[0] * len(rows[0]), MAP_PANEL[1] * len(rows) + 0.4)
    figure = Figure(figsize=size, dpi=DOTS_PER_INCH, layout="constrained")
    panels = figure.subplots(len(rows), len(rows[0]), squeeze=False)
    moving: list[Moving] = []
    color_maps: dict[str, Any] = {}
    for field, row, row_panels in zip(fields, rows, panels, strict=True):
        for panel, (name, array) in zip(row_panels, row.items(), strict=True):
            colors = colors_of(domain, name, array)
            image = draw_map(panel, domain, (first, second), array[0], colors)
            add_bar([panel], image, colors.extend)
            panel.set_title(f"{field}: {name}" if len(fields) > 1 else name)
            moving.append(Moving(image, image.set_data, np.swapaxes(filled(array), 1, 2)))
            color_maps[image.cmap.name] = image.cmap
    return figure, moving, list(color_maps.values())


# ---- What cannot be animated ----


def _check_domain(domain: Box) -> None:
    if domain.time is None:
        raise ValueError(
            f"a moving picture needs a time axis, and the axes {', '.join(domain.names)} have "
            "none; make the domain with Box(x=..., t=..., time='t'), or use plot"
        )
    space = space_axes(domain)
    if len(space) not in (1, 2):
        given = ", ".join(space) or "none"
        raise ValueError(
            f"a moving picture needs one or two dimensions of space next to '{domain.time}', "
            f"here they are {len(space)} ({given}); use plot, or your own values from "
            "solution(...)"
        )


def _check_length(frames: int, seconds: float | int) -> None:
    if not isinstance(frames, int) or frames < 2:
        raise ValueError(f"frames must be an integer of at least 2, got {frames!r}")
    if not seconds >= SHORTEST * frames or not math.isfinite(seconds):
        raise ValueError(
            f"{frames} frames need at least {SHORTEST * frames:g} seconds, a fiftieth of a second "
            f"each, got seconds={seconds:g}; give fewer frames or more seconds"
        )
