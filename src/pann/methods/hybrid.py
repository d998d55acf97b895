"""Polynomial and network together, both by second-order methods: the default of both verbs."""

import dataclasses

from pann.methods.collocation import Collocation
from pann.methods.mlp import MLP
from pann.methods.options import Choice, Whole, documented, group, option
from pann.methods.polynomial import (
    OptionsOfBothVerbs,
    collocation_option,
    preconditioner_option,
)


@documented
@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class Hybrid(OptionsOfBothVerbs):
    """Both halves; the polynomial's coefficients are eliminated in every Levenberg-Marquardt step.

    For an equation the polynomial is solved for first. A network of a given width is trained in any
    case; otherwise one is tried only where the polynomial leaves a residual. It is kept only if
    that falls.
    """

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
