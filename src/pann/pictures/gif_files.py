"""A figure in which something moves, as a GIF.

Not by matplotlib's writer: it draws every axis twice a frame, and lets each frame choose its own
colors, which then flicker.
"""

import dataclasses
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float, UInt8

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.figure import Figure
    from matplotlib.text import Text

DOTS_PER_INCH = 100
# A GIF has 256 colors; so many are grays, for letters and lines.
NUM_COLORS, NUM_GRAYS = 256, 32


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


def write_gif(scene: Scene, seconds: float | int, path: str) -> None:
    """All frames, in equal times up to the hundredths that a GIF counts in."""
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
    """Every frame; what does not move is drawn once."""
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
