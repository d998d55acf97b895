"""Where an equation and its conditions are asked to hold."""

import dataclasses
from typing import Any

from pann.methods.options import Choice, Real, Whole, check_options, documented, option
from pann.points import SAMPLERS


@dataclasses.dataclass(frozen=True)
class Places:
    """A number of points, or the points, which are checked where the domain is known."""

    wanted: str = "a whole number of at least 1, or points"

    def check(self, name: str, value: Any) -> Any:
        return Whole(1).check(name, value) if isinstance(value, int | float | str) else value


@documented
@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class Collocation:
    """Points for an equation and its conditions; by default Gauss points that fit the degree."""

    points: Any = option(
        None,
        "points inside: a number, an array with a row for each, or `Points` (with tags `inside` "
        "and `boundary` if you bring both); by default Gauss points that fit the degree, in more "
        "than three dimensions Sobol points",
        Places(),
    )
    sampling: str | None = option(
        None, "how a number of points lie, Gauss points by default", Choice(tuple(SAMPLERS))
    )
    condition_points: int | None = option(
        None, "number of points for the conditions, over all faces together", Whole(1)
    )
    condition_sampling: str | None = option(
        None, "how the points for the conditions lie", Choice(tuple(SAMPLERS))
    )
    condition_weight: float | None = option(
        None,
        "factor of the conditions' residuals against the equation's; 100 by default, 1 in gradient "
        "training",
        Real(above=0.0),
    )

    def __post_init__(self) -> None:
        check_options(self)
        if self.sampling is not None and not isinstance(self.points, int | None):
            raise ValueError(
                f"sampling={self.sampling!r} is how a number of points lie; give that number, "
                "points=1000"
            )
