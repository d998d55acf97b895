"""A model and its halves, drawn: lines of one variable, maps of two; its leading terms."""

from collections.abc import Mapping, Sequence

import numpy as np

from pann.model.pann import Term
from pann.plot.values import NETWORK, POLYNOMIAL, SOLUTION
from pann.report.page import Panels, Plot
from pann.report.plots import (
    BLUE,
    GREEN,
    ORANGE,
    VERMILION,
    Axis,
    Line,
    line_plot,
    map_plot,
    sideways_bars,
)

LINE_PLACES, MAP_PLACES, MOST_TERMS = 201, 81, 15
LOOKS = {
    SOLUTION: (BLUE, "solid", "circle"),
    POLYNOMIAL: (VERMILION, "dash", "square"),
    NETWORK: (GREEN, "dot", "triangle-up"),
}


def both_halves(network: np.ndarray, polynomial: np.ndarray) -> dict[str, np.ndarray]:
    """The sum, and the halves where there are two."""
    whole = {SOLUTION: network + polynomial}
    if not (np.any(network) and np.any(polynomial)):
        return whole
    return whole | {POLYNOMIAL: polynomial, NETWORK: network}


def curves(values: Mapping[str, np.ndarray], ticks: Mapping[str, np.ndarray]) -> list[Plot]:
    """All in one plot, along the only axis."""
    ((axis, at),) = ticks.items()
    lines = [Line(name, at, curve, *LOOKS[name]) for name, curve in values.items()]
    return [line_plot("values", lines, Axis(axis), Axis(), 320)]


def maps(
    values: Mapping[str, np.ndarray], ticks: Mapping[str, np.ndarray], space: Sequence[str]
) -> list[Plot]:
    """A map each; at every moment, if time comes before two axes of space."""
    *moments, first, second = ticks.items()
    axes, places = (Axis(first[0]), Axis(second[0])), (first[1], second[1])
    is_square = first[0] in space
    plots = []
    for name, array in values.items():
        if not moments:
            plots.append(map_plot(name, array, axes, places, is_square=is_square))
            continue
        (time, at) = moments[0]
        for moment, each in zip(at, array, strict=True):
            title = f"{name}, {time} = {moment:.3g}"
            plots.append(map_plot(title, each, axes, places, is_square=True))
    return plots


def leading_terms(terms: Sequence[Term]) -> Panels:
    """The leading coefficients of the polynomial half, of its first output."""
    leading = {term.name: float(term.coefficients[0]) for term in terms[:MOST_TERMS]}
    colors = [BLUE if value > 0 else ORANGE for value in leading.values()]
    plot = sideways_bars("coefficient", leading, colors, Axis())
    return Panels("Leading polynomial terms", (plot,), note="In features scaled to [-1, 1].")
