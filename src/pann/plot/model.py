"""Pictures of a fit: target, prediction, its two halves and the error; partial dependence."""

import pathlib
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from pann.domain import Box
from pann.model.pann import PANN, Parts
from pann.plot.files import write_at_once
from pann.plot.solution import Colors, add_bar, draw_map, error_colors
from pann.plot.values import ERROR, NETWORK, POLYNOMIAL
from pann.points import tensor_grid

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Function = Callable[[Float[np.ndarray, "points 2"]], Float[np.ndarray, " points"]]


def plot_halves(
    model: PANN, target: Function, path: pathlib.Path, *, title: str, resolution: int = 301
) -> pathlib.Path:
    """Heat maps over a two-dimensional domain, written to `path`.

    Target, prediction and polynomial half share one color scale; the network's half and the error
    have their own.
    """
    from matplotlib.figure import Figure

    points = grid_2d(model.domain, resolution)
    network, polynomial = model.parts(points)
    true = target(points)
    panels = {
        "target": true,
        "prediction": network + polynomial,
        POLYNOMIAL: polynomial,
        NETWORK: network,
        ERROR: np.abs(network + polynomial - true),
    }
    shared = float(np.max(np.abs(true)))
    limits = {NETWORK: float(np.max(np.abs(network))) or 1.0}
    figure = Figure(figsize=(17.0, 3.4), layout="constrained")
    axes = figure.subplots(1, len(panels))
    across, up = model.domain.names
    for panel, (name, values) in zip(axes, panels.items(), strict=True):
        limit = limits.get(name, shared)
        signed = Colors({"cmap": "RdBu_r", "vmin": -limit, "vmax": limit}, "neither")
        colors = error_colors(values) if name == ERROR else signed
        square = values.reshape(resolution, resolution)
        add_bar([panel], draw_map(panel, model.domain, (across, up), square, colors), colors.extend)
        panel.set_title(name)
    figure.suptitle(title)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_at_once(path, lambda temporary: figure.savefig(temporary, dpi=110))
    return path


def grid_2d(domain: Box, resolution: int) -> Float[np.ndarray, "points 2"]:
    """A tensor grid over a two-dimensional box, the second axis running fastest."""
    if domain.dimension != 2:
        raise ValueError(f"a heat map needs two axes; this domain has {domain.dimension}")
    return domain.from_reference(tensor_grid(*[np.linspace(-1.0, 1.0, resolution)] * 2))


def plot_dependence(
    parts: Callable[[np.ndarray], Parts],
    sample: Float[np.ndarray, "rows features"],
    features: list[int],
    names: list[str],
    resolution: int = 41,
) -> "Figure":
    """Partial dependence on single features: prediction and halves averaged over sample rows.

    Each curve is shown without its mean, so that the halves are compared by what they vary.
    """
    from matplotlib.figure import Figure

    columns = min(3, len(features))
    rows = -(-len(features) // columns)
    figure = Figure(figsize=(4.2 * columns, 3.0 * rows), layout="constrained")
    panels = np.ravel(figure.subplots(rows, columns, squeeze=False, sharey=True))
    for panel in panels[len(features) :]:
        panel.set_visible(False)
    for panel, feature in zip(panels, features, strict=False):
        low, high = np.quantile(sample[:, feature], [0.01, 0.99])
        at = np.linspace(low, high, resolution)
        rows_there = np.repeat(sample[None], resolution, axis=0)
        rows_there[:, :, feature] = at[:, None]
        halves = parts(rows_there.reshape(-1, sample.shape[1]))
        network, polynomial = (
            half.reshape(resolution, len(sample), -1).mean(axis=(1, 2)) for half in halves
        )
        curves = {
            "prediction": network + polynomial,
            POLYNOMIAL: polynomial,
            NETWORK: network,
        }
        for (name, curve), style in zip(curves.items(), ("-", "--", ":"), strict=True):
            panel.plot(at, curve - curve.mean(), style, label=name)
        panel.set_xlabel(names[feature])
    panels[0].legend()
    figure.suptitle("partial dependence of the prediction and its halves")
    return figure
