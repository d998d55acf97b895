"""Shapes bounded by a curve that a function describes, or that goes through points.

The function is asked once: at as many points as its Fourier series, or between corners its
Chebyshev series, needs to have it to rounding. Points and tangents are those of the series.
"""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, final

import jax
import numpy as np
import numpy.typing as npt
import scipy  # its submodules are loaded when first used
from jaxtyping import Complex, Float

from pann.shapes.arcs import Parameters, Part, Path, Plane
from pann.shapes.checks import axis_names, keep, table
from pann.shapes.loops import area_of
from pann.shapes.outline import Outline
from pann.shapes.plane import NAMES, Point, crossings
from pann.shapes.shape import Shape

LARGEST = 4096  # modes of a curve


# Compared by identity: those of one function are made once.
@final
@dataclasses.dataclass(frozen=True, eq=False)
class Fourier(Path):
    """A closed curve x + iy = sum_k c_k exp(2 pi i k t)."""

    # An odd number, from the lowest frequency on.
    coefficients: Complex[np.ndarray, " modes"] = dataclasses.field(repr=False)
    is_closed = True

    @property
    def samples(self) -> int:
        return max(256, 4 * len(self.coefficients))

    def points(self, t: Parameters) -> Plane:
        return self._sum(t, self.coefficients)

    def tangents(self, t: Parameters) -> Plane:
        frequencies = np.arange(len(self.coefficients)) - len(self.coefficients) // 2
        return self._sum(t, 2j * np.pi * frequencies * self.coefficients)

    def _sum(self, t: Parameters, coefficients: Complex[np.ndarray, " modes"]) -> Plane:
        # Of exponentials there are those of frequencies near 0, and of multiples of 32.
        highest = len(coefficients) // 2
        blocks = (highest + 16) // 32  # from -32 blocks - 16 up to 32 blocks + 15
        ends = (32 * blocks + 16 - highest, 32 * blocks + 15 - highest)
        table = np.pad(coefficients, ends).reshape(-1, 32)
        angles = 2j * np.pi * (t % 1.0)[:, None]
        coarse = np.exp(angles * (32 * np.arange(-blocks, blocks + 1)))
        value = np.sum(coarse * (np.exp(angles * np.arange(-16, 16)) @ table.T), axis=1)
        return np.column_stack([value.real, value.imag])


@final
@dataclasses.dataclass(frozen=True, eq=False)
class Chebyshev(Path):
    """An arc x + iy = sum_k c_k T_k(2t - 1)."""

    coefficients: Complex[np.ndarray, " modes"] = dataclasses.field(repr=False)

    @property
    def samples(self) -> int:
        return max(256, 4 * len(self.coefficients))

    def points(self, t: Parameters) -> Plane:
        return self._sum(t, self.coefficients)

    def tangents(self, t: Parameters) -> Plane:
        return self._sum(t, 2 * np.polynomial.chebyshev.chebder(self.coefficients))

    def _sum(self, t: Parameters, coefficients: Complex[np.ndarray, " modes"]) -> Plane:
        value = np.polynomial.chebyshev.chebval(2 * t - 1, coefficients)
        return np.column_stack([value.real, value.imag])


@final
@dataclasses.dataclass(frozen=True, eq=False)
class Spline(Path):
    """A piecewise polynomial of degree 5."""

    spline: "scipy.interpolate.BSpline"
    is_closed: bool

    @property
    def samples(self) -> int:
        return max(256, 8 * len(self.spline.c))

    def points(self, t: Parameters) -> Plane:
        return np.asarray(self.spline(self._in_period(t)))

    def tangents(self, t: Parameters) -> Plane:
        return np.asarray(self.spline(self._in_period(t), 1))

    def _in_period(self, t: Parameters) -> Parameters:
        return t % 1.0 if self.is_closed else t


@final
@dataclasses.dataclass(frozen=True)
class Through:
    """A curve through points."""

    points: tuple[Point, ...]

    def __repr__(self) -> str:
        return f"through {len(self.points)} points"


@final
@dataclasses.dataclass(frozen=True, repr=False)
class Curve(Shape):
    """The inside of a closed curve t -> (x(t), y(t)), which closes after t = 1 or t = 2 pi.

    `corners` are values of t at which it turns; everywhere else it is smooth. A curve through
    points has numbers of points there.
    """

    function: Callable[..., Any] | Through
    corners_at: tuple[float, ...] = ()
    name: str = "curve"
    names: tuple[str, ...] = NAMES

    def __init__(
        self,
        function: Callable[..., Any] | Through,
        corners: Sequence[float | int] = (),
        name: str = "curve",
        names: Sequence[str] = NAMES,
    ):
        at = tuple(sorted({float(t) for t in corners}))
        keep(self, function=function, corners_at=at, name=name, names=axis_names(names, 2))
        _check_simple(self.parts)

    @staticmethod
    def through(
        points: npt.ArrayLike,
        corners: Sequence[int] = (),
        name: str = "curve",
        names: Sequence[str] = NAMES,
    ) -> "Curve":
        """A smooth closed curve through points in order: a spline with four derivatives.

        `corners` are the numbers of points at which the curve may turn.
        """
        given = table(points, "points")
        if len(given) > 1 and np.array_equal(given[0], given[-1]):
            given = given[:-1]
        if len(given) < 6:
            raise ValueError(f"a curve goes through at least six points, got {len(given)}")
        if (given == np.roll(given, -1, axis=0)).all(axis=1).any():
            raise ValueError("the points of a curve differ from their neighbors; give each once")
        return Curve(Through(tuple(map(tuple, given.tolist()))), corners, name, names)

    @functools.cached_property
    def parts(self) -> tuple[Part, ...]:
        parts = [Part(self.name, path) for path in _paths(self.function, self.corners_at)]
        if area_of(parts) < 0:
            parts = [part.turned() for part in parts]
        return tuple(parts)

    @functools.cached_property
    def _outline(self) -> Outline:
        return Outline(self.parts)

    def level(self, points: Plane) -> Float[np.ndarray, " points"]:
        return self._outline.level(points)


@functools.lru_cache(maxsize=256)
def _paths(function: Callable[..., Any] | Through, corners: tuple[float, ...]) -> tuple[Path, ...]:
    if isinstance(function, Through):
        return _splines(np.asarray(function.points), [round(number) for number in corners])
    period = _period(function)
    values = lambda t: evaluate(function, t)
    if not corners:
        path = fourier(lambda t: values(t * period))
        if path is None:
            raise ValueError(_not_smooth(values, 0.0, period))
        return (path,)
    paths = []
    for start, stop in zip(corners, [*corners[1:], corners[0] + period], strict=True):
        arc = chebyshev(functools.partial(_between, values, start, stop))
        if arc is None:
            raise ValueError(_not_smooth(values, start, stop))
        paths.append(arc)
    return tuple(paths)


def fourier(values: Callable[[Parameters], Plane]) -> Path | None:
    """The series of a function of period 1, if it converges."""

    def series(count: int) -> tuple[Path, float]:
        x, y = values(np.arange(count) / count).T
        coefficients = np.fft.fftshift(np.fft.fft(x + 1j * y)) / count
        frequencies, sizes = abs(np.arange(count) - count // 2), abs(coefficients)
        scale, tail = (sizes[frequencies > lowest].max() for lowest in (0, count // 3))
        highest = frequencies[~(sizes <= 5e-16 * scale)].max(initial=1)
        kept = frequencies <= min(highest, count // 2 - 1)
        return Fourier(coefficients[kept]), tail / scale

    return _converged(values, series, LARGEST)


def chebyshev(values: Callable[[Parameters], Plane]) -> Path | None:
    """The series of a function on [0, 1], if it converges."""

    def series(count: int) -> tuple[Path, float]:
        x, y = values((1 + np.cos(np.pi * np.arange(count + 1) / count)) / 2).T
        parts = scipy.fft.dct(np.stack([x, y]), type=1, axis=1) / count
        parts[:, [0, -1]] /= 2
        coefficients, cut = parts[0] + 1j * parts[1], 2 * count // 3
        sizes = abs(coefficients)
        return Chebyshev(coefficients[:cut]), sizes[cut:].max() / sizes[1:].max()

    return _converged(values, series, LARGEST // 4)


def _converged(
    values: Callable[[Parameters], Plane], series: Callable[[int], tuple[Path, float]], largest: int
) -> Path | None:
    count, elsewhere = 32, 0.618033988749895 * np.arange(1, 102) % 1
    expected = values(elsewhere)
    while count <= largest and np.isfinite(expected).all():
        path, tail = series(count)
        tolerance = 1e-14 if count < largest else 1e-10
        if tail <= tolerance:
            # What repeats as often as the points is no constant.
            error = abs(path.points(elsewhere) - expected).max()
            if error <= 100 * tolerance * np.ptp(expected, axis=0).max():
                return path
        count *= 2
    return None


def evaluate(function: Callable[..., Any], *arguments: Parameters) -> Float[np.ndarray, "points _"]:
    """A user's function of arrays, or else of numbers, as columns in double precision."""
    count = len(arguments[0])
    # JAX compiles each operation for each length: there are few of them this way.
    padding = 4 ** max(5, int(np.ceil(np.log(max(count, 1)) / np.log(4)))) - count
    padded = [np.pad(each, (0, padding), mode="edge") for each in arguments]
    with jax.enable_x64(True):
        try:
            value = function(*padded)
        except (TypeError, ValueError):
            value = np.array([function(*map(float, each)) for each in zip(*padded, strict=True)]).T
            value = list(np.atleast_2d(value))
        columns = value if isinstance(value, tuple | list) else [value]
        arrays = [np.broadcast_to(np.asarray(each, float), count + padding) for each in columns]
    return np.stack(arrays, axis=1)[:count]


def _period(function: Callable[..., Any]) -> float:
    """1 or 2 pi, whichever closes the curve."""
    ends = evaluate(function, np.array([0.0, 0.37, 1.0, 2 * np.pi]))
    if ends.shape[1] != 2 or not np.isfinite(ends).all():
        raise ValueError(
            "a curve is a function of t that returns a pair (x, y) of finite numbers, got "
            f"{ends[:2].tolist()} at t = 0 and 0.37"
        )
    size = np.ptp(ends, axis=0).max()
    if not size:
        raise ValueError(f"the curve stays at {tuple(ends[0].tolist())}; it should go around once")
    for period, end in ((1.0, ends[2]), (2 * np.pi, ends[3])):
        if abs(end - ends[0]).max() <= 1e-10 * size:
            return period
    said = [f"({x:.6g}, {y:.6g})" for x, y in ends[[0, 2, 3]]]
    raise ValueError(
        f"the curve does not close: it is at {said[0]} for t = 0, at {said[1]} for t = 1 and at "
        f"{said[2]} for t = 2 pi; one of the last two should be the first"
    )


def _between(
    values: Callable[[Parameters], Plane], start: float, stop: float, t: Parameters
) -> Plane:
    return values((1 - t) * start + t * stop)


def _not_smooth(values: Callable[[Parameters], Plane], start: float, stop: float) -> str:
    t = np.linspace(start, stop, 4097)
    bend = np.linalg.norm(np.diff(values(t), 2, axis=0), axis=1)
    return (
        f"the curve is not smooth, least of all near t = {t[1 + bend.argmax()]:.4g}; if it has "
        "corners, give the values of t: Curve(..., corners=(0, 0.5))"
    )


def _splines(points: Plane, corners: Sequence[int]) -> tuple[Path, ...]:
    wrong = [number for number in corners if not 0 <= number < len(points)]
    if wrong:
        raise ValueError(f"corners are numbers of points, 0 to {len(points) - 1}, got {wrong[0]}")
    first = corners[0] if corners else 0
    points = np.roll(points, -first, axis=0)
    points = np.concatenate([points, points[:1]])
    limits = [number - first for number in corners] or [0]
    paths = []
    for start, stop in zip(limits, [*limits[1:], len(points) - 1], strict=True):
        arc = points[start : stop + 1]
        # Roots of the lengths bend less where points are unevenly spaced.
        steps = np.sqrt(np.linalg.norm(np.diff(arc, axis=0), axis=1))
        t = np.append(0, np.cumsum(steps)) / steps.sum()
        t[-1] = 1.0
        degree = min(5, 2 * ((len(arc) - 2) // 2) + 1) if corners else 5
        kind = None if corners else "periodic"
        spline = scipy.interpolate.make_interp_spline(t, arc, k=degree, bc_type=kind)
        paths.append(Spline(spline, not corners))
    return tuple(paths)


def _check_simple(parts: Sequence[Part]) -> None:
    """Refuse a curve that turns back or crosses itself."""
    for part in parts:
        count = 8 * part.path.samples
        t = (np.arange(count + part.is_closed) + 0.5) / count
        tangents = part.tangent(t)
        back = np.flatnonzero(np.sum(tangents[1:] * tangents[:-1], axis=1) <= 0)
        if back.size:
            x, y = part.point(t[back[:1]])[0]
            raise ValueError(
                f"the curve turns back near ({x:.4g}, {y:.4g}); if it has a corner there, give its "
                "value of t: Curve(..., corners=(0.5,))"
            )
    points = np.concatenate([part.point(part.fine[:-1]) for part in parts])
    pairs = crossings(points, np.roll(points, -1, axis=0))
    if len(pairs):
        x, y = points[pairs[0, 0]]
        raise ValueError(
            f"the curve meets itself near ({x:.4g}, {y:.4g}); a shape is bounded by curves that do "
            "not: take pieces, and join the shapes"
        )
    if abs(area_of(parts)) <= 1e-12 * np.ptp(points, axis=0).max() ** 2:
        raise ValueError("the curve goes around no area; it should go around the shape once")
