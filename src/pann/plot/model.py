"""Pictures of a fit: partial dependence of the prediction and its halves."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from pann.model.pann import Parts
from pann.plot.values import NETWORK, POLYNOMIAL

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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
