"""Maps: the halves of a fit and their spectra, and the loss around a minimum."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from pann.paper.drawings.finished import BLUE, VERMILION, Finished

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

MODES = 24  # Fourier modes to each side of zero that are shown
DECADES = 6  # of a spectrum
NUM_LEVELS = 25


def frequency(runs: Sequence[Finished], size: str) -> "Figure":
    """Reference, prediction and halves, their spectra, and the energy by degree; by mode."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(15.0, 5.9 * len(runs)), layout="constrained")
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
        _map(part, panel, values, name, (-1, 1), cmap="RdBu_r", vmin=-own, vmax=own)
        panel.set_xlabel("x1")
    panels[0, 0].set_ylabel("x2")
    difference = np.abs(fields["prediction"] - arrays["truth"])
    _map(part, panels[0, 4], difference, "|error|", (-1, 1), cmap="magma", vmin=0.0)
    panels[0, 4].set_xlabel("x1")
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
    shares = energies / np.sum(energies, axis=0, keepdims=True)
    degrees = np.arange(len(shares))
    for column, name, color in ((0, "network", VERMILION), (1, "polynomial", BLUE)):
        drawn = np.where(shares[:, column] > 0, shares[:, column], np.nan)
        panel.plot(degrees, drawn, color=color, marker=".", linewidth=1.2, label=name)
    panel.set_yscale("log")
    lowest = np.nanmin(shares[shares > 0], initial=1.0)
    panel.set_ylim(max(lowest / 3, 1e-12), 3.0)
    panel.set_title("Legendre energy")
    panel.set_xlabel("total degree")
    panel.set_ylabel("share")
    panel.grid(alpha=0.25)
    panel.legend(frameon=False)


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
    """The loss in the plane of two eigenvectors; all panels have the same colors."""
    from matplotlib.colors import LogNorm
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator

    ordered = sorted(runs, key=lambda run: run.told("model"))
    arrays = [run.arrays() for run in ordered]
    losses = [np.where(each["loss"] > 0, each["loss"], np.nan) for each in arrays]
    lowest = min(float(np.nanmin(each)) for each in losses)
    highest = max(float(np.nanmax(each)) for each in losses)
    levels = np.geomspace(lowest * 0.999, highest * 1.001, NUM_LEVELS)
    figure = Figure(figsize=(4.6 * len(runs) + 1.0, 4.6), layout="constrained")
    panels = figure.subplots(1, len(runs), squeeze=False, sharey=True)[0]
    for panel, run, each, loss in zip(panels, ordered, arrays, losses, strict=True):
        steps = each["alphas"]
        filled = panel.contourf(
            steps, steps, loss.T, levels, norm=LogNorm(levels[0], levels[-1]), cmap="viridis"
        )
        panel.contour(steps, steps, loss.T, levels, colors="white", linewidths=0.3)
        panel.plot(0, 0, "+", color="white", markersize=10)
        first, second = each["eigenvalues"]
        panel.set_title(f"{run.told('model')}: eigenvalues {first:.2g}, {second:.2g}")
        panel.set_xlabel("alpha")
        panel.set_aspect("equal")
    panels[0].set_ylabel("beta")
    bar = figure.colorbar(filled, ax=panels, label="training loss", shrink=0.9)
    bar.set_ticks(LogLocator().tick_values(levels[0], levels[-1]))
    return figure
