"""A polynomial and products of splines for data with kinks along the axes: seconds, no network."""

import dataclasses

from pann.methods.options import check_options, documented
from pann.methods.polynomial import PolynomialOptions


@documented
@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class Products(PolynomialOptions):
    """Polynomial by least squares, then products of one-dimensional splines on what it leaves."""

    def __post_init__(self) -> None:
        check_options(self)
        if self.degree is None:
            raise ValueError("products are fitted next to a polynomial; give a degree, or 'auto'")
        if self.basis is not None and self.degree != "auto":
            raise ValueError("degree has no effect with a basis of your own; leave it out")
