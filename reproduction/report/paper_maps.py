"""The paper's maps: halves of a fit in space and in frequency, and the loss around a minimum."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from pann.report.page import Key, Panels, Plot
from pann.report.plots import BLUE, VERMILION, Axis, Line, coarser, line_plot, map_plot
from pann.report.texts import number
from reproduction.drawings import maps
from reproduction.drawings.finished import Finished
from reproduction.spectra import energy_shares

Runs = Sequence[Finished]
Arrays = Mapping[str, np.ndarray]
MAP_PLACES = 64


def frequency(runs: Runs, size: str) -> list[Panels]:
    found = []
    for run in sorted(runs, key=lambda run: run.mode, reverse=True):
        error = run.error()
        told = "" if error is None else f", relative l2 error {number(error)}"
        found += halves(run.arrays(), f"{run.mode}{told}")
    return found


def halves(arrays: Arrays, what: str = "the run") -> list[Panels]:
    """Prediction and halves in space and in frequency."""
    keys = (
        Key("network", VERMILION, "solid", "square"),
        Key("polynomial", BLUE, "solid", "circle"),
    )
    return [
        Panels(f"In space: {what}", tuple(_in_space(arrays))),
        Panels(f"In frequency: {what}", tuple(_in_frequency(arrays)), keys),
    ]


def _fields(arrays: Arrays) -> dict[str, np.ndarray]:
    return {
        "reference": arrays["truth"],
        "prediction": arrays["network"] + arrays["polynomial"],
        "polynomial half": arrays["polynomial"],
        "network half": arrays["network"],
    }


def _in_space(arrays: Arrays) -> list[Plot]:
    fields = _fields(arrays)
    limit = float(np.max(np.abs(arrays["truth"])))
    axes = (Axis("x1"), Axis("x2"))
    at = np.linspace(-1, 1, len(arrays["truth"]), endpoint=False)
    ticks = (coarser(at, MAP_PLACES), coarser(at, MAP_PLACES))
    plots = []
    for name, values in fields.items():
        own = limit if name in ("reference", "prediction") else None
        plots.append(
            map_plot(name, coarser(values, MAP_PLACES), axes, ticks, limit=own, is_square=True)
        )
    error = coarser(np.abs(fields["prediction"] - arrays["truth"]), MAP_PLACES)
    plots.append(map_plot("|error|", error, axes, ticks, scale="error", is_square=True))
    return plots


def _in_frequency(arrays: Arrays) -> list[Plot]:
    modes = np.arange(-maps.MODES, maps.MODES + 1)
    axes = (Axis("k1"), Axis("k2"))
    plots = []
    for name, values in _fields(arrays).items():
        spectrum = maps.spectrum(values)
        middle = len(spectrum) // 2
        low, high = middle - maps.MODES, middle + maps.MODES + 1
        shown_part = spectrum[low:high, low:high]
        title = f"|FFT| of the {name}"
        plots.append(map_plot(title, shown_part, axes, (modes, modes), scale="log", is_square=True))
    shares = energy_shares(arrays["energies"])
    degrees = np.arange(len(shares))
    shares = np.where(shares > maps.TINY, shares, np.nan)
    drawn = [
        Line("network", degrees, shares[:, 0], VERMILION, "solid", "square"),
        Line("polynomial", degrees, shares[:, 1], BLUE, "solid", "circle"),
    ]
    title = "share of the Legendre energy"
    plots.append(line_plot(title, drawn, Axis("total degree"), Axis(is_log=True), 300))
    return plots


def landscape(runs: Runs, size: str) -> list[Panels]:
    ordered = sorted(runs, key=lambda run: run.told("model"))
    return [_losses([(f"{run.told('model')}: ", run.arrays()) for run in ordered])]


def _losses(found: Sequence[tuple[str, Arrays]]) -> Panels:
    plots = []
    for name, arrays in found:
        first, second = (number(float(each)) for each in arrays["eigenvalues"])
        ticks = (arrays["alphas"], arrays["alphas"])
        axes = (Axis("alpha"), Axis("beta"))
        title = f"{name}eigenvalues {first}, {second}"
        plots.append(map_plot(title, arrays["loss"], axes, ticks, scale="log", is_square=True))
    note = "In the plane of the two leading eigenvectors of its Hessian; training ended at 0, 0."
    return Panels("The training loss", tuple(plots), note=note)


# What draws the arrays of a single run.
OF_ARRAYS: dict[str, Callable[[Arrays], list[Panels]]] = {
    "frequency": halves,
    "landscape": lambda arrays: [_losses([("", arrays)])],
}
