"""Maps: the halves of a fit and their spectra, and the loss around a minimum."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from reproduction.drawings.finished import BLUE, VERMILION, Finished
from reproduction.spectra import energy_shares

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

MODES = 24  # Fourier modes to each side of zero that are shown
DECADES = 6  # of a spectrum
TINY = 1e-14  # shares of energy below are round-off
NUM_LEVELS = 25


def frequency(runs: Sequence[Finished], size: str) -> "Figure":
    """Reference, prediction and halves, their spectra, and the energy by degree; by mode."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(15.0, 0.3 + 5.4 * len(runs)), layout="constrained")
    parts = figure.subfigures(len(runs), 1, squeeze=False)[:, 0]
    for part, run in zip(parts, sorted(runs, key=lambda run: run.mode, reverse=True), strict=True):
        error = run.error()
        told = "" if error is None else f", relative l2 error {error:.2g}"
        part.suptitle(f"{run.mode}{told}")
        _halves(part, run.arrays())
    return figure


def _halves(part: "SubFigure", arrays: dict[str, np.ndarray]) -> None:
    fields = {
        "reference": arrays["truth"],
        "prediction": arrays["network"] + arrays["polynomial"],
        "polynomial": arrays["polynomial"],
        "network": arrays["network"],
    }
    panels = part.subplots(2, 5)
    limit = float(np.max(np.abs(arrays["truth"])))
    for panel, (name, values) in zip(panels[0], fields.items(), strict=False):
        own = limit if name in ("reference", "prediction") else float(np.max(np.abs(values)))
        _map(part, panel, values, name, (-1.0, 1.0), cmap="RdBu_r", vmin=-own, vmax=own)
    for panel in panels[0]:
        panel.set_xticks([-1, 0, 1])
        panel.set_yticks([-1, 0, 1])
        panel.set_xlabel("x1")
    panels[0, 0].set_ylabel("x2")
    difference = np.abs(fields["prediction"] - arrays["truth"])
    _map(part, panels[0, 4], difference, "|error|", (-1.0, 1.0), cmap="magma", vmin=0.0)
    _spectra(part, panels[1, :4], {name: spectrum(each) for name, each in fields.items()})
    draw_energies(panels[1, 4], arrays["energies"])


def spectrum(values: np.ndarray) -> np.ndarray:
    """The magnitudes of the Fourier coefficients, zero in the middle."""
    return np.abs(np.fft.fftshift(np.fft.fft2(values))) / values.size


def _spectra(part: "SubFigure", panels: Sequence["Axes"], spectra: dict[str, np.ndarray]) -> None:
    from matplotlib.colors import LogNorm

    highest = max(float(each.max()) for each in spectra.values())
    scale = LogNorm(highest * 10.0**-DECADES, highest, clip=True)
    for panel, (name, values) in zip(panels, spectra.items(), strict=True):
        middle = len(values) // 2
        shown = values[middle - MODES : middle + MODES + 1, middle - MODES : middle + MODES + 1]
        extent = (-MODES - 0.5, MODES + 0.5)
        _map(part, panel, shown, f"|FFT| of {name}", extent, cmap="viridis", norm=scale)
        panel.set_xlabel("k1")
    panels[0].set_ylabel("k2")


def draw_energies(panel: "Axes", energies: np.ndarray) -> None:
    """The share of each total degree in the energy of either half."""
    shares = energy_shares(energies)
    degrees = np.arange(len(shares))
    for column, name, color in ((0, "network", VERMILION), (1, "polynomial", BLUE)):
        is_drawn = shares[:, column] > TINY
        drawn = (degrees[is_drawn], shares[is_drawn, column])
        panel.plot(*drawn, color=color, marker=".", linewidth=1.2, label=name)
    panel.set_yscale("log")
    panel.set_box_aspect(1)
    panel.set_title("Legendre energy")
    panel.set_xlabel("total degree")
    panel.set_ylabel("share")
    panel.grid(alpha=0.25)
    low, high = panel.get_ylim()
    panel.set_ylim(low, high * (high / low) ** 0.35)  # room for the legend
    panel.legend(loc="upper right", frameon=False)


def _map(
    part: "SubFigure",
    panel: "Axes",
    values: np.ndarray,
    title: str,
    extent: tuple[float, float],
    **colors: object,
) -> None:
    """Values whose first axis goes to the right."""
    image = panel.imshow(values.T, origin="lower", extent=(*extent, *extent), **colors)  # type: ignore[arg-type]
    panel.set_title(title)
    part.colorbar(image, ax=panel, shrink=0.8)


def landscape(runs: Sequence[Finished], size: str) -> "Figure":
    """The loss in the plane of two eigenvectors; every panel has its own scale."""
    from matplotlib.colors import LogNorm
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.4 * len(runs), 4.6), layout="constrained")
    panels = figure.subplots(1, len(runs), squeeze=False)[0]
    for panel, run in zip(panels, sorted(runs, key=lambda run: run.told("model")), strict=True):
        arrays = run.arrays()
        steps, loss = arrays["alphas"], arrays["loss"]
        loss = np.where(loss > 0, loss, np.nan)
        # A little wider than the values, which else would lie on the edge and stay white.
        levels = np.geomspace(0.999 * np.nanmin(loss), 1.001 * np.nanmax(loss), NUM_LEVELS)
        scale = LogNorm(levels[0], levels[-1])
        filled = panel.contourf(steps, steps, loss.T, levels, norm=scale, cmap="viridis")
        panel.contour(steps, steps, loss.T, levels, colors="white", linewidths=0.3)
        panel.plot(0, 0, "+", color="white", markersize=7)
        first, second = arrays["eigenvalues"]
        panel.set_title(f"{run.told('model')}: eigenvalues {first:.3g}, {second:.3g}")
        panel.set_xlabel("alpha")
        panel.set_aspect("equal")
        bar = figure.colorbar(filled, ax=panel, label="training loss", shrink=0.9)
        ticks = levels[:: (NUM_LEVELS - 1) // 6].tolist()
        bar.set_ticks(ticks, labels=[f"{tick:.3g}" for tick in ticks])
        bar.ax.minorticks_off()
    panels[0].set_ylabel("beta")
    return figure
