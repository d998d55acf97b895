"""Polynomials on elements, cut and raised in degree where the solution asks for it."""

import dataclasses

from pann.methods.options import Real, Whole, check_options, documented, option


@documented
@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class Elements:
    """Polynomials on a tree of boxes, solved for by sparse least squares; for sharp features."""

    degree: int | None = option(
        None,
        "degree along each axis that elements begin with, by default 16, 12 and 6 in one, two and "
        "three dimensions",
        Whole(3),
    )
    highest_degree: int | None = option(
        None,
        "degree from which on an element is cut, by default half as much again as it begins with",
        Whole(3),
    )
    tail: float | None = option(
        None,
        "largest tail of the coefficients on an element, and largest residual there in units of u, "
        "relative to the field; by default 1e-11, 1e-8 and 1e-6 in one, two and three dimensions",
        Real(above=0.0, below=1.0),
    )
    max_unknowns: int | None = option(
        None,
        "coefficients of all fields from which on elements are not cut further, 200,000 by "
        "default, 60,000 in three dimensions (in windows of time: in each of them)",
        Whole(100),
    )
    windows: int | str = option(
        "auto",
        "windows of time one after another, each with elements of its own; auto: as many as keep "
        "each of them small",
        Whole(1, words=("auto",)),
    )

    def __post_init__(self) -> None:
        check_options(self)
        if (
            self.degree is not None
            and self.highest_degree is not None
            and self.highest_degree < self.degree
        ):
            raise ValueError(
                f"highest_degree={self.highest_degree} is below degree={self.degree}, which "
                "elements begin with; give a higher one, or leave it out"
            )
