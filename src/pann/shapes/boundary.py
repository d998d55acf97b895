"""Boundaries of shapes, chosen by name or by a predicate, and points on them."""

import dataclasses
import difflib
import functools
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Bool, Float

from pann.arguments import call_by_name, check_arguments
from pann.domain import Region
from pann.shapes.arcs import Part
from pann.shapes.patches import Patch

RULES = ("gauss", "uniform")


@dataclasses.dataclass(frozen=True, repr=False)
class Boundary:
    """Some parts of the boundary of a shape: `+` or `|` joins them, `-` takes some away."""

    shape: Region
    parts: tuple[Part | Patch, ...]

    # Axes and sides, which faces of a box have.
    sides: ClassVar[tuple[tuple[str, str], ...]] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(part.name for part in self.parts))

    def check(self, name: object) -> None:
        """Refuse the name of a part that is not there."""
        if name in self.names:
            return
        close = difflib.get_close_matches(str(name), self.names, 1)
        meant = f"; did you mean '{close[0]}'?" if close else ""
        raise ValueError(
            f"this boundary has no part {name!r}; its parts are {', '.join(self.names)}{meant}"
        )

    def __getitem__(self, names: str | tuple[str, ...]) -> "Boundary":
        chosen = (names,) if isinstance(names, str) else names
        for name in chosen:
            self.check(name)
        return self._of([part for part in self.parts if part.name in chosen])

    def where(self, predicate: Callable[..., Any]) -> "Boundary":
        """The pieces where a predicate of position and outward normal holds: `lambda x, ny: ...`.

        It takes those of the coordinates and of the parts of the normal (nx, ny, ...) that it
        names. Arcs are cut, to rounding, where it changes.
        """
        axes = (*self.shape.names, *(f"n{name}" for name in self.shape.names))
        check_arguments(predicate, dict.fromkeys(axes), "the predicate of a boundary")

        def state(
            points: Float[np.ndarray, "points d"], normals: Float[np.ndarray, "points d"]
        ) -> Bool[np.ndarray, " points"]:
            given = dict(zip(axes, [*points.T, *normals.T], strict=True))
            value = np.asarray(call_by_name(predicate, given))
            return np.broadcast_to(value, len(points)).astype(bool)

        found = [piece for part in self.parts for piece in part.chosen(state)]
        if not found:
            raise ValueError(
                f"no part of {self} is where the predicate holds; its arguments are the "
                f"coordinates and the outward normal ({', '.join(axes)})"
            )
        return self._of(found)

    def __add__(self, other: "Boundary") -> "Boundary":
        self._check_shape(other)
        new = [piece for part in other.parts for piece in part.without(self.parts)]
        return self._of([*self.parts, *new])

    __or__ = __add__

    def __sub__(self, other: "Boundary") -> "Boundary":
        self._check_shape(other)
        return self._of([piece for part in self.parts for piece in part.without(other.parts)])

    def __len__(self) -> int:
        return len(self.parts)

    def __iter__(self) -> Iterator[Part | Patch]:
        return iter(self.parts)

    @functools.cached_property
    def length(self) -> float:
        """The length, or in space the area, of all parts."""
        return float(sum(part.measure for part in self.parts))

    def points(
        self, count: int, rule: str = "gauss", seed: int = 0
    ) -> tuple[
        Float[np.ndarray, "points d"], Float[np.ndarray, "points d"], Float[np.ndarray, " points"]
    ]:
        """About `count` points on the parts, their outward normals, and weights of a quadrature.

        Each part has at least four, and more by its length. The rule is "gauss" (Gauss-Legendre on
        arcs with ends, equispaced on loops; in space low-discrepancy points) or "uniform".
        """
        if rule not in RULES:
            raise ValueError(f"rule is {' or '.join(RULES)}, got {rule!r}")
        if count < 1:
            raise ValueError(f"a boundary has at least one point, got count={count}")
        generator = np.random.default_rng(seed)
        shares = [max(4, round(count * part.measure / self.length)) for part in self.parts]
        drawn = [
            part.sample(share, rule, generator)
            for part, share in zip(self.parts, shares, strict=True)
        ]
        points, normals, weights = (np.concatenate(each) for each in zip(*drawn, strict=True))
        return points, normals, weights

    def __str__(self) -> str:
        return ", ".join(self.names)

    def __repr__(self) -> str:
        return f"Boundary({self} of {self.shape})"

    def _of(self, parts: list[Part | Patch]) -> "Boundary":
        return Boundary(self.shape, tuple(parts))

    def _check_shape(self, other: "Boundary") -> None:
        if other.shape != self.shape:
            raise ValueError(
                f"boundaries of different shapes are not joined: {self.shape} and {other.shape}"
            )
