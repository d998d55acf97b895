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


def degree_option() -> Any:
    return option(
        "auto",
        "degree of the polynomial; auto raises it until an equation is resolved, and for data "
        "takes the largest up to 8 with three rows for each term; None leaves the polynomial out "
        "(data only)",
        Whole(words=("auto",), none=True),
    )


def basis_option() -> Any:
    return option(
        None, "a basis of your own instead, `pann.make_basis(...)`", Instance((Basis, ShapeBasis))
    )


def axes_option() -> Any:
    return option(None, "axes that the polynomial sees, all by default", Texts(), verbs=SOLVE)


def c_option() -> Any:
    return option(
        None,
        "degree by the paper's rule, ceil(c N) + 8 for N points",
        Real(least=0.0),
        verbs=SOLVE,
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
class Polynomial:
    """The polynomial alone, by least squares; for equations by Gauss-Newton steps."""

    degree: int | str | None = degree_option()
    basis: WholeBasis | None = basis_option()
    axes: tuple[str, ...] | None = axes_option()
    c: float | None = c_option()
    preconditioner: bool = preconditioner_option()
    collocation: Collocation = collocation_option()

    def __post_init__(self) -> None:
        check_options(self)
        check_degree(self)
        if self.degree is None:
            raise ValueError("a polynomial has a degree; give one, or degree='auto'")


def check_degree(method: Any) -> None:
    """Refuse more than one of degree, c and a basis, for any method that has them."""
    if method.basis is not None and (method.degree != "auto" or method.c is not None):
        raise ValueError(
            "degree and c have no effect with a basis of your own; leave them out, or give "
            "make_basis that degree"
        )
    if method.basis is not None and method.axes is not None:
        raise ValueError("a basis has its own axes; leave axes out")
    if method.c is not None and method.degree != "auto":
        raise ValueError(
            f"degree={method.degree} and c={method.c:g} both give the degree; use one of them"
        )
