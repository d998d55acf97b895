"""Polynomial and network together, both by second-order methods: the default of both verbs."""

import dataclasses

from pann.basis import WholeBasis
from pann.methods.collocation import Collocation
from pann.methods.mlp import MLP
from pann.methods.options import (
    Choice,
    Whole,
    check_options,
    documented,
    group,
    option,
)
from pann.methods.polynomial import (
    axes_option,
    basis_option,
    c_option,
    check_degree,
    collocation_option,
    degree_option,
    preconditioner_option,
)


@documented
@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class Hybrid:
    """Both halves; the polynomial's coefficients are eliminated in every Levenberg-Marquardt step.

    For an equation the polynomial is solved for first. A network of a given width is trained in any
    case; otherwise one is tried only where the polynomial leaves a residual. It is kept only if
    that falls.
    """

    degree: int | str | None = degree_option()
    basis: WholeBasis | None = basis_option()
    axes: tuple[str, ...] | None = axes_option()
    c: float | None = c_option()
    network: MLP | None = group(None, MLP, "the network; by default one chosen by the verb")
    iterations: int = option(
        200, "largest number of Levenberg-Marquardt steps", Whole(0), verbs=("solve",)
    )
    constraint: str = option(
        "exact",
        "between the halves: exact (the polynomial solves for what the network leaves) or none",
        Choice(("exact", "none")),
        verbs=("fit",),
    )
    preconditioner: bool = preconditioner_option()
    collocation: Collocation = collocation_option()

    def __post_init__(self) -> None:
        check_options(self)
        check_degree(self)
