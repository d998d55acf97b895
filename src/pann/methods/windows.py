"""Evolution problems window by window: spectral in space and time, Newton's method on each."""

import dataclasses
from collections.abc import Mapping

from pann.methods.options import Choice, Levels, Real, Whole, check_options, documented, option

SOLVERS = ("dense", "frozen", "constant", "pieces", "separable")


@documented
@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class Windows:
    """Windows of time one after another, each solved to spectral accuracy."""

    windows: int | str = option(
        "auto", "number of equal windows; auto: as many as it takes", Whole(1, words=("auto",))
    )
    modes: int | Mapping[str, int] | None = option(
        None,
        "highest frequency along periodic axes and degree along others, one number or one for each "
        "axis; by default as many as the tails of the coefficients ask for",
        Levels(),
    )
    degree: int | None = option(None, "degree in time on each window, 12 by default", Whole(1))
    tail: float | None = option(
        None,
        "largest tail of the coefficients relative to the fields, by default 1e-10 in one "
        "dimension of space, 1e-7 in two; not the error, which `tolerance` of pann.solve estimates",
        Real(above=0.0, below=1.0),
    )
    solver: str | None = option(
        None,
        "linear solver in Newton's method: dense, frozen, pieces, constant or separable; by "
        "default chosen by size",
        Choice(SOLVERS),
    )

    def __post_init__(self) -> None:
        check_options(self)
