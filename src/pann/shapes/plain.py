"""Shapes made of numbers alone: what functions describe becomes curves through points."""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np
import scipy  # its submodules are loaded when first used
from jaxtyping import Complex, Float

from pann.shapes.arcs import Parameters, Part, Plane
from pann.shapes.curves import Curve, Through
from pann.shapes.loops import loops_of
from pann.shapes.shape import Shape

MOST_SAMPLES = 8192
CHUNK = 512  # parameters at a time


@final
@dataclasses.dataclass(frozen=True)
class Sampled:
    """A closed curve of period 1 by its values: equispaced ones, or of arcs at Chebyshev points."""

    arcs: tuple[tuple[tuple[float, float], ...], ...]
    is_loop: bool

    @staticmethod
    def of(arcs: Sequence[Plane], *, is_loop: bool) -> "Sampled":
        return Sampled(tuple(tuple(map(tuple, arc.tolist())) for arc in arcs), is_loop)

    def __call__(self, t: Parameters) -> tuple[Parameters, Parameters]:
        if self.is_loop:
            value = self._of_loop(t)
        else:
            number = np.clip(np.floor(t * len(self.arcs)), 0, len(self.arcs) - 1).astype(int)
            along, value = t * len(self.arcs) - number, np.zeros(len(t), complex)
            for arc in np.unique(number):
                own = number == arc
                series = self._series[arc]
                value[own] = np.polynomial.chebyshev.chebval(2 * along[own] - 1, series)
        return value.real, value.imag

    def _of_loop(self, t: Parameters) -> Complex[np.ndarray, " points"]:
        (series,) = self._series
        frequencies = np.fft.fftfreq(len(series), 1 / len(series))
        blocks = [t[start : start + CHUNK] for start in range(0, len(t), CHUNK)]
        waves = (np.exp(2j * np.pi * (each % 1.0)[:, None] * frequencies) for each in blocks)
        return np.concatenate([each @ series for each in waves])

    @functools.cached_property
    def _series(self) -> list[Complex[np.ndarray, " modes"]]:
        values = [np.asarray(arc) @ np.array([1.0, 1.0j]) for arc in self.arcs]
        if self.is_loop:
            return [np.fft.fft(values[0]) / len(values[0])]
        return [_chebyshev(each) for each in values]

    def __repr__(self) -> str:
        return f"of {sum(map(len, self.arcs))} points"


def plain(shape: Shape) -> Shape:
    """The same shape without functions of users, to rounding."""
    values = _fields(shape)
    if not isinstance(values.get("function"), Sampled | Through | None):
        return _of_curves(shape)
    inner = {name: value for name, value in values.items() if isinstance(value, Shape)}
    changes = {name: plain(value) for name, value in inner.items()}
    if all(changes[name] is inner[name] for name in inner):
        return shape
    return dataclasses.replace(shape, **changes)  # type: ignore[type-var]


def inner_shapes(shape: Shape) -> list[Shape]:
    """The shapes that one is made of."""
    return [value for value in _fields(shape).values() if isinstance(value, Shape)]


def _fields(shape: Shape) -> dict[str, Any]:
    return {each.name: getattr(shape, each.name) for each in dataclasses.fields(shape)}  # type: ignore[arg-type]


def _curve(arcs: Sequence[Plane], is_loop: bool, name: str, names: Sequence[str]) -> Curve:
    corners = () if is_loop else (np.arange(len(arcs)) / len(arcs)).tolist()
    return Curve(Sampled.of(arcs, is_loop=is_loop), corners, name, names)


def _of_curves(shape: Shape) -> Shape:
    """Loops of the boundary, the largest first, as shapes that are joined or taken away."""
    loops = loops_of(shape.arcs, shape.size)
    areas = [sum(part.area for part in loop) for loop in loops]
    found: Any = None
    for number in np.argsort(np.negative(np.abs(areas))).tolist():
        curve = _of_loop(loops[number], shape.names)
        is_first, is_hole = found is None, areas[number] < 0
        found = curve if is_first else found - curve if is_hole else found | curve
    name = shape.parts[0].name
    other = {each: name for each in found.boundary.names if each != name}
    shape = found.renamed(**other) if other else found
    return shape


def _of_loop(loop: Sequence[Part], names: Sequence[str]) -> Curve:
    if loop[0].is_closed:
        points = _enough(loop[0].point, lambda count: np.arange(count) / count, np.fft.fft)
        return _curve([points], True, loop[0].name, names)
    nodes = lambda count: (1 - np.cos(np.pi * np.arange(count) / (count - 1))) / 2
    arcs = [_enough(part.point, nodes, _chebyshev) for part in loop]
    return _curve(arcs, False, loop[0].name, names)


def _enough(
    point: Callable[[Parameters], Plane],
    nodes: Callable[[int], Parameters],
    series: Callable[[Complex[np.ndarray, " points"]], Complex[np.ndarray, " points"]],
) -> Plane:
    """Points at so many nodes that the last part of their series is rounding."""
    count = 64
    while True:
        points = point(nodes(count))
        sizes = abs(series(points @ np.array([1.0, 1.0j])))
        # Frequencies of a Fourier series are highest in the middle, degrees at the end.
        tail = sizes[count // 3 : 2 * count // 3] if series is np.fft.fft else sizes[-count // 3 :]
        if tail.max() <= 1e-15 * sizes.max() * (count if series is np.fft.fft else 1) or (
            count >= MOST_SAMPLES
        ):
            return points
        count *= 2


def _chebyshev(values: Complex[np.ndarray, " points"]) -> Complex[np.ndarray, " points"]:
    """The series in T_k(2t - 1) through values at t = (1 - cos(pi k / n)) / 2."""
    count = len(values) - 1
    both = np.stack([values.real, values.imag])[:, ::-1]
    series: Float[np.ndarray, "2 points"] = scipy.fft.dct(both, type=1, axis=1) / count
    series[:, [0, -1]] /= 2
    return series[0] + 1j * series[1]
