"""What belongs to every run, whatever the method: time, trials, seed, precision, memory."""

import dataclasses

from pann.methods.options import Choice, Real, Size, Whole, check_options, documented, option
from pann.model.architecture import PRECISIONS


@documented
@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class RunOptions:
    """Options of `pann.fit` and `pann.solve` that are none of a method."""

    tolerance: float | None = option(
        None,
        "relative error to reach: sizes are raised until two resolutions differ by less than half "
        "of it and the residual is below it",
        Real(above=0.0, below=1.0),
        verbs=("solve",),
    )
    time_limit: float | None = option(
        None, "seconds, after which the best result so far comes back", Real(above=0.0)
    )
    trials: int = option(1, "networks from as many seeds; the best is kept", Whole(1))
    seed: int = option(0, "for all random choices", Whole(0))
    precision: str = option("float64", "of the model", Choice(PRECISIONS))
    memory: int | float | str | None = option(
        None, "budget such as 8GB; what is larger is computed in chunks of points", Size()
    )

    def __post_init__(self) -> None:
        check_options(self)
