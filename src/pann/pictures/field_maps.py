"""Heat maps: colors that fit a field, and a panel with named axes and a bar."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Float

from pann.domain import Box

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.image import AxesImage

# A few extreme values, as of polynomials in the corners, would leave the rest without color.
SHOWN = 0.995
# A field is signed if both signs reach this share of its largest value: undershoots do not count.
SIGNED = 0.05
# On a logarithmic scale this share of an error is as good as zero: along lines where it changes its
# sign there would be beads. The decades below its largest value are at most and at least so many.
AS_ZERO = 0.03
DECADES = (4, 2)


class Colors(NamedTuple):
    """What `imshow` needs to color values, and which ends of them lie beyond the scale."""

    options: dict[str, Any]
    extend: str


def field_colors(values: Float[np.ndarray, "..."]) -> Colors:
    """White at zero and the same scale to both sides if signed, else from lowest to highest."""
    low, high = float(np.min(values)), float(np.max(values))
    limit, is_cut = _limit(values)
    if min(-low, high) > SIGNED * limit:
        options = {"cmap": "RdBu_r", "vmin": -limit, "vmax": limit}
        return Colors(options, "both" if is_cut else "neither")
    # A constant field is one color: without room around it, its rounding would be drawn.
    room = max(0.0, 1e-6 * limit - (high - low))
    return Colors({"cmap": "viridis", "vmin": low - room, "vmax": high + room}, "neither")


def error_colors(values: Float[np.ndarray, "..."]) -> Colors:
    """From zero to the largest error."""
    limit, is_cut = _limit(values)
    return Colors({"cmap": "magma", "vmin": 0.0, "vmax": limit}, "max" if is_cut else "neither")


def error_decades(values: Float[np.ndarray, "..."]) -> Colors:
    """Logarithmic: errors that grow in time are of different orders at different times."""
    from matplotlib.colors import LogNorm

    largest = float(np.max(values))
    if largest == 0:
        return error_colors(values)
    low = float(np.quantile(values, AS_ZERO))
    low = float(np.clip(low, largest * 10.0 ** -DECADES[0], largest * 10.0 ** -DECADES[1]))
    # What is zero has no logarithm: it is drawn as the least.
    options = {"cmap": "magma", "norm": LogNorm(low, largest, clip=True)}
    return Colors(options, "min" if np.min(values) < low else "neither")


def _limit(values: Float[np.ndarray, "..."]) -> tuple[float, bool]:
    """The size up to which values are told apart, and whether some are much larger."""
    largest = float(np.max(np.abs(values)))
    limit = float(np.quantile(np.abs(values), SHOWN)) or largest or 1.0
    is_cut = largest > 1.5 * limit
    return limit if is_cut else largest or 1.0, is_cut


def draw_map(
    panel: "Axes",
    domain: Box,
    axes: tuple[str, str],
    values: Float[np.ndarray, "across up"],
    colors: Colors,
) -> "AxesImage":
    """Values over two axes of the domain, the first from left to right."""
    across, up = (domain.names.index(axis) for axis in axes)
    widths = domain.widths
    # Lengths along both axes compare only where neither is time.
    alike = domain.time not in axes and 0.5 <= widths[across] / widths[up] <= 2
    panel.set_xlabel(axes[0])
    panel.set_ylabel(axes[1])
    return panel.imshow(
        values.T,
        origin="lower",
        extent=(domain.lower[across], domain.upper[across], domain.lower[up], domain.upper[up]),
        aspect="equal" if alike else "auto",
        interpolation="bilinear",
        **colors.options,
    )


def add_bar(panels: Sequence["Axes"], image: "AxesImage", extend: str) -> None:
    """A color bar to the right of a row of panels."""
    figure = panels[0].figure
    # Where lengths compare, the image is lower than the place that it has.
    shrink = 1.0 if image.axes.get_aspect() == "auto" else 0.82
    bar = figure.colorbar(image, ax=panels, shrink=shrink, pad=0.02, extend=extend)
    bar.ax.tick_params(labelsize="small")
    bar.outline.set_visible(False)
