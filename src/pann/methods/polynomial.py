"""The polynomial alone: solved for, not trained."""

import dataclasses
from typing import Any

from pann.basis import Basis, ShapeBasis, WholeBasis
from pann.methods.collocation import Collocation
from pann.methods.options import (
    Flag,
    Instance,
    Real,
    Texts,
    Whole,
    check_options,
    documented,
    group,
    option,
)

SOLVE = ("solve",)


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class PolynomialOptions:
    """Options of the polynomial half, of every method that has one."""

    degree: int | str | None = option(
        "auto",
        "degree of the polynomial; auto raises it until an equation is resolved, and for data "
        "takes the largest up to 8 with three rows for each term; None leaves the polynomial out "
        "(data only)",
        Whole(words=("auto",), none=True),
    )
    basis: WholeBasis | None = option(
        None, "a basis of your own instead, `pann.make_basis(...)`", Instance((Basis, ShapeBasis))
    )


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class OptionsOfBothVerbs(PolynomialOptions):
    """Those of methods that solve equations as well."""

    axes: tuple[str, ...] | None = option(
        None, "axes that the polynomial sees, all by default", Texts(), verbs=SOLVE
    )
    c: float | None = option(
        None, "degree by the paper's rule, ceil(c N) + 8 for N points", Real(least=0.0), verbs=SOLVE
    )

    def __post_init__(self) -> None:
        check_options(self)
        if self.basis is not None and (self.degree != "auto" or self.c is not None):
            raise ValueError(
                "degree and c have no effect with a basis of your own; leave them out, or give "
                "make_basis that degree"
            )
        if self.basis is not None and self.axes is not None:
            raise ValueError("a basis has its own axes; leave axes out")
        if self.c is not None and self.degree != "auto":
            raise ValueError(
                f"degree={self.degree} and c={self.c:g} both give the degree; use one of them"
            )


def preconditioner_option() -> Any:
    return option(
        False,
        "Christoffel weights K(x) = sqrt(m / sum_k phi_k(x)^2) on the rows",
        Flag(),
        verbs=("fit",),
    )


def collocation_option() -> Any:
    return group(
        Collocation(), Collocation, "points for the equation and its conditions", verbs=SOLVE
    )


@documented
@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class Polynomial(OptionsOfBothVerbs):
    """The polynomial alone, by least squares; for equations by Gauss-Newton steps."""

    preconditioner: bool = preconditioner_option()
    collocation: Collocation = collocation_option()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.degree is None:
            raise ValueError("a polynomial has a degree; give one, or degree='auto'")
